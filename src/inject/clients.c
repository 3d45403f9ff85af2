/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Traced processes from connection to end, and the owner of each record. */
#include "inject_priv.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/safe_close.h"
#include "util/time_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A parent may take a moment to wait for its child: only then is the exit status known. */
#define REAP_MAX_NS 200000000ull
/* The BPF side's exit record arrives within this time, or was dropped. */
#define NOTIFIED_MAX_NS 2000000000ull
/* A block of ids stands for at least this many calls, most of which have a record. */
#define BLOCK_CALLS_MIN 256

void synth__push(struct inject *in, const struct synth_record *m)
{
	if (in->synth_at == in->synth_cnt)
		in->synth_at = in->synth_cnt = 0;
	if (in->synth_cnt == in->synth_room) {
		unsigned room = in->synth_room ? 2 * in->synth_room : 64;
		struct synth_record *synth = room <= (in->o.folder ? SYNTH_OPEN_MAX : SYNTH_MAX)
						     ? realloc(in->synth, room * sizeof(*synth))
						     : NULL;

		if (!synth) {
			in->ended.drops[in->o.folder		     ? CT_DROP_INPROC
					: m->rec.kind == CT_REC_CALL ? CT_DROP_CALL
					: m->rec.kind == CT_REC_NV   ? CT_DROP_NV
								     : CT_DROP_TASK]++;
			return;
		}
		in->synth = synth;
		in->synth_room = room;
	}
	in->synth[in->synth_cnt++] = *m;
}

static void push_task(struct inject *in, enum ct_rec_kind kind, const struct client *p,
		      pid_t parent, int exit_code, uint64_t now)
{
	struct synth_record m = {.key = now, .size = sizeof(m.task)};

	if (in->o.probes)
		return;
	m.task = (struct ct_task){
		.rec = {.size = sizeof(m.task),
			.kind = kind,
			.ts_ns = now,
			.pid = p->pid,
			.tid = p->pid},
		.parent_pid = parent,
		.exit_code = exit_code,
		.generation = p->generation,
	};
	memcpy(m.task.comm, p->comm, sizeof(m.task.comm));
	synth__push(in, &m);
}

struct client *clients__living(struct inject *in, pid_t pid)
{
	for (unsigned i = 0; i < in->client_cnt; i++)
		if (in->clients[i]->pid == pid && in->clients[i]->pidfd >= 0)
			return in->clients[i];
	return NULL;
}

bool clients__has_ended(const struct client *p)
{
	struct pollfd fd = {.fd = p->pidfd, .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

/* Resident pages are those that we read or write: the first of each slot and of one more slot per
 * process, and the header. */
uint64_t inject__max_bytes(unsigned slots_max)
{
	const uint64_t page = 4096;
	uint64_t client = sizeof(struct client) + 2 * page + 64;
	uint64_t slot = 2 * sizeof(struct shm_slot) + page + ID_BLOCKS_MAX * sizeof(uint32_t) +
			CT_MAX_FUNCS / 8 + 32;

	return INJECT_OPEN_MAX * client + slots_max * slot +
	       SYNTH_OPEN_MAX * sizeof(struct synth_record);
}

unsigned inject__live(const struct inject *in, pid_t *pids, unsigned max)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < in->client_cnt; i++) {
		if (in->clients[i]->pidfd < 0 || clients__has_ended(in->clients[i]))
			continue;
		if (cnt < max)
			pids[cnt] = in->clients[i]->pid;
		cnt++;
	}
	return cnt;
}

const char *inject__socket(const struct inject *in)
{
	return in->socket_name;
}

void clients__leave(struct inject *in, struct client *p, uint64_t now)
{
	shm__end(&p->shm, now);
	clients__give_up(in, p, now);
	close(p->pidfd);
	p->pidfd = -1;
	p->ended_ns = now;
}

static bool connect_client(struct inject *in, struct client *p, const struct ct_shm_hello *hello)
{
	/* An ended process is checked again by the timer until its exit status is known: its parent
	 * may wait late. */
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};
	unsigned long long start;
	struct client *before = clients__living(in, p->pid), *parent;
	enum ct_proc_level level = CT_PROC_DEFAULT;
	uint64_t now = now_ns();
	char path[40];
	int64_t offset;
	pid_t ppid;

	/* Reject another process that has reused the id. */
	if (epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, p->pidfd, &ev) ||
	    !target_stat(p->pid, &ppid, &start) || clients__has_ended(p))
		return false;
	if (in->o.probes)
		in->o.probes->process(in->o.ctx, p->pid, &p->generation, &level);
	else
		p->generation = start * (1000000000ull / sysconf(_SC_CLK_TCK));
	p->shm.mem->level = level;
	gpu__connect(in, p, hello);
	if (!clock_offset_of(p->pid, &offset))
		warn("process %d: cannot read the offset of its time namespace: times of its "
		     "calls may be wrong by that offset",
		     p->pid);
	p->shm.mem->clock_offset_ns = offset;
	/* Its parent may have had another level, and the child inherits the marks of functions that
	 * were off. */
	settings__changed(&in->settings);
	snprintf(path, sizeof(path), "/proc/%d/status", p->pid);
	p->other_ns = innermost_id(path) != (uint32_t)p->pid;
	memcpy(p->comm, hello->comm, sizeof(p->comm));
	p->filters = inject__filters(p->pid);
	parent = clients__living(in, ppid);
	if (in->o.probes) {
		/* If the process ran another program, the exec record that follows ends the
		 * previous one. */
		p->again = before && before->generation == p->generation;
		if (p->again)
			clients__leave(in, before, now);
	} else if (before) {
		p->generation = before->generation + 1;
		clients__leave(in, before, now);
		push_task(in, CT_REC_EXEC, p, 0, 0, now);
	} else if (parent) {
		push_task(in, CT_REC_FORK, p, ppid, 0, now);
	}
	return true;
}

bool clients__may_join(const struct inject *in, const struct conn *c)
{
	return shares__has_room(in, c->uid, c->pid);
}

static void free_client(struct inject *in, struct client *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->ns_fd >= 0)
		close(p->ns_fd);
	if (p->shm.owner) {
		p->shm.owner->counts -= p->count_cnt;
		p->shm.owner->bytes -= p->bytes;
	}
	shm__close(&p->shm);
	safe_close(p->shm.fd);
	owner__put(in, p->shm.owner);
	free(p);
}

struct client *clients__add(struct inject *in, struct conn *c, const struct ct_shm_hello *hello)
{
	struct client *p = clients__may_join(in, c) ? calloc(1, sizeof(*p)) : NULL;
	int err = -ENOMEM;

	if (!p) {
		in->refused_cnt++;
		return NULL;
	}
	p->pid = c->pid;
	p->uid = c->uid;
	p->pidfd = c->pidfd;
	c->pidfd = -1;
	p->shm.fd = p->ns_fd = -1;
	p->shm.owner = owner__get(in, c->uid);
	if (p->shm.owner)
		err = shm__open(&p->shm, in->o.ring_sz, &in->slot_room, p->shm.owner);
	if (err)
		warn("process %d is not traced in-process: cannot create its ring buffers: %s%s",
		     c->pid, strerror(-err),
		     err == -EFBIG ? " (raise the limit of file sizes: ulimit -f)" : "");
	if (err || !connect_client(in, p, hello)) {
		in->refused_cnt += !clients__has_ended(p);
		free_client(in, p);
		return NULL;
	}
	in->clients[in->client_cnt++] = p;
	return p;
}

int inject__set_proc(struct inject *in, pid_t pid, enum ct_proc_level level)
{
	for (unsigned i = 0; i < in->client_cnt; i++)
		if (in->clients[i]->pid == pid && in->clients[i]->pidfd >= 0)
			__atomic_store_n(&in->clients[i]->shm.mem->level, level, __ATOMIC_RELAXED);
	settings__changed(&in->settings);
	return 0;
}

uint64_t clients__trace_id(struct inject *in, struct shm_slot *s, uint64_t id)
{
	uint64_t block = id >> ID_BLOCK_LOG;

	/* Ids are dense: blocks follow each other. */
	if (block < s->first_block || block > s->first_block + s->block_cnt ||
	    block * BLOCK_CALLS_MIN > s->taken_cnt)
		return 0;
	block -= s->first_block;
	if (block == s->block_cnt && !(s->blocks ?: (s->blocks = calloc(ID_BLOCKS_MAX, 4))))
		return 0;
	if (block == ID_BLOCKS_MAX) {
		memmove(s->blocks, s->blocks + 1, --s->block_cnt * sizeof(*s->blocks));
		s->first_block++;
		block--;
	}
	if (block == s->block_cnt)
		s->blocks[s->block_cnt++] = ++in->next_block;
	return (uint64_t)s->blocks[block] << ID_BLOCK_LOG | (id & ((1 << ID_BLOCK_LOG) - 1));
}

static bool own_id(struct inject *in, struct shm_slot *s, __u64 *id)
{
	if (!*id)
		return true;
	*id = clients__trace_id(in, s, *id);
	return *id;
}

static bool is_function(const struct inject *in, uint32_t func_id)
{
	return func_id < in->settings.fn_cnt && in->settings.set->name_off[func_id];
}

/* Sampled calls take time of the tracer, so a process cannot send any number of them. */
#define SAMPLES_PER_S 1000
static bool may_sample(const struct inject *in, struct client *p)
{
	uint64_t now = now_ns() / 1000000000;

	if (p->sample_s != now)
		p->sample_cnt = 0;
	p->sample_s = now;
	return in->o.profile && p->sample_cnt++ < SAMPLES_PER_S;
}

static bool own_call(struct inject *in, struct client *p, struct shm_slot *s, struct ct_call *c)
{
	if (!is_function(in, c->func_id))
		return false;
	if (c->rec.flags & CT_CALL_F_SAMPLED && !may_sample(in, p)) {
		c->rec.flags &= ~CT_CALL_F_SAMPLED;
		c->stack_cnt = 0;
	}
	c->lib_id = in->settings.set->specs[c->func_id].of.api == API_NCCL ? p->nccl_id : p->lib_id;
	/* A parent that began many calls ago is not found any more. */
	c->parent_id = c->parent_id ? clients__trace_id(in, s, c->parent_id) : 0;
	return own_id(in, s, &c->call_id);
}

/* An open file is identified by its process and descriptor. */
static bool own_nv(struct inject *in, const struct client *p, struct shm_slot *s, struct ct_nv *nv)
{
	nv->file = nv->fd < 0 ? 0 : (uint64_t)p->pid << 32 | ((uint32_t)nv->fd + 1);
	return own_id(in, s, &nv->call_id) && (!nv->call_id || is_function(in, nv->func_id));
}

bool clients__own(struct inject *in, struct client *p, unsigned slot, void *data, size_t size)
{
	struct shm_slot *s = &p->shm.slots[slot];
	struct ct_rec *rec = data;

	if (rec->kind == CT_REC_GPU_RUN) {
		rec->pid = p->pid;
		rec->tid = rec->tid ? gpu__tid(p, rec->tid, own_tid) : 0;
		return size >= sizeof(struct ct_gpu_run);
	}
	if (rec->tid != s->inner_tid) {
		s->inner_tid = rec->tid;
		s->tid = own_tid(p, rec->tid);
	}
	rec->pid = p->pid;
	rec->tid = s->tid;
	switch (rec->kind) {
	case CT_REC_THREAD:
		if (size < sizeof(struct ct_task))
			return false;
		((struct ct_task *)rec)->generation = p->generation;
		return true;
	case CT_REC_CALL:
		return size >= CT_CALL_FIXED_SZ && own_call(in, p, s, data);
	case CT_REC_NV:
		return size >= sizeof(struct ct_nv) && own_nv(in, p, s, data);
	case CT_REC_DEVICE:
		return size >= sizeof(struct ct_device);
	case CT_REC_STALLS:
		return in->o.stalls && size >= sizeof(struct ct_stalls) &&
		       stalls__note(p, (const struct ct_stalls *)rec);
	case CT_REC_STALL_PCS:
		return in->o.stalls && size >= sizeof(struct ct_stall_pcs);
	case CT_REC_STALL_CODE:
		return in->o.stalls && size >= sizeof(struct ct_stall_code);
	case CT_REC_STALL_SOURCE:
		return in->o.stalls && size >= sizeof(struct ct_stall_source);
	default:
		return rec->kind == CT_REC_NAME;
	}
}

static void give_up_nv(struct inject *in, struct client *p, unsigned slot, uint64_t now)
{
	struct synth_record m = {.key = now};

	if (!in->o.kernel)
		return;
	m.size = shm__nv(&p->shm, slot, &m.bytes, sizeof(m.bytes));
	m.nv.end_ns = now;
	if (m.size && clients__own(in, p, slot, &m.nv, m.size))
		synth__push(in, &m);
}

/* Ends the calls in flight of one thread. */
static void give_up_calls(struct inject *in, struct client *p, unsigned slot, uint64_t now)
{
	unsigned depth = shm__depth(&p->shm, slot);
	uint64_t last;

	/* The ring shows which of them were recorded already, but reading it may take long. */
	if (depth && !shm__last_call(&p->shm, slot, &last)) {
		p->not_given += depth;
		return;
	}
	while (depth-- > 0) {
		struct synth_record m = {.key = now};

		if (shm__has_returned(&p->shm, slot, depth, last))
			continue;
		in->ended.stats[CT_STAT_UNFINISHED]++;
		m.size = shm__frame(&p->shm, slot, depth, in->settings.set, &m.call);
		if (!m.size) {
			in->ended.stats[CT_STAT_COUNTED]++;
			continue;
		}
		m.call.end_ns = now;
		if (clients__own(in, p, slot, &m.call, m.size))
			synth__push(in, &m);
	}
}

void clients__give_up(struct inject *in, struct client *p, uint64_t now)
{
	struct work w;
	bool refused;

	shm__find_slots(&p->shm);
	refused = time_budget__begin(&w, p->uid, WORK_RINGS);
	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		shm__look(&p->shm, i, now);
		if (refused || !time_budget__has_time()) {
			p->not_given += shm__depth(&p->shm, i);
			continue;
		}
		give_up_nv(in, p, i, now);
		give_up_calls(in, p, i, now);
	}
	if (!refused)
		time_budget__end(&w);
}

/* PIDFD_GET_INFO and the first version of its struct pidfd_info; PIDFD_INFO_EXIT exists since Linux
 * 6.15. It is available once the process has been waited for. */
struct exit_info {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};
#define GET_INFO  _IOWR(0xff, 11, struct exit_info)
#define INFO_EXIT (1 << 3)

/* Gets the exit code as from wait(). -EAGAIN: not known yet. */
static int exit_code(const struct client *p, int *code)
{
	struct exit_info info = {.mask = INFO_EXIT};
	siginfo_t si = {0};

	*code = 0;
	if (!waitid(P_PIDFD, p->pidfd, &si, WEXITED | WNOHANG | WNOWAIT)) {
		if (!si.si_pid)
			return -EAGAIN;
		*code = si.si_code == CLD_EXITED ? si.si_status << 8 : si.si_status;
		return 0;
	}
	/* Not our child. */
	if (ioctl(p->pidfd, GET_INFO, &info) || !(info.mask & INFO_EXIT))
		return -EAGAIN;
	*code = info.exit_code;
	return 0;
}

/* Only functions that exist: counts of others are never taken. */
static bool has_counts(const struct inject *in, const struct client *p)
{
	unsigned whole = in->settings.fn_cnt / 64, rest = in->settings.fn_cnt % 64;

	for (unsigned i = 0; i < p->shm.slot_cnt; i++) {
		const __u64 *counted = shm__slot(&p->shm, i)->counted;

		for (unsigned k = 0; k < whole; k++)
			if (counted[k])
				return true;
		if (rest && counted[whole] & ((1ull << rest) - 1))
			return true;
	}
	return false;
}

/* For an ended process: returns whether all its records are read. */
static bool is_read(const struct client *p)
{
	for (unsigned i = 0; i < p->shm.slot_cnt; i++)
		if (p->shm.slots[i].size)
			return false;
	return true;
}

void clients__add_totals(const struct inject *in, const struct client *p, struct ct_totals *sum)
{
	const struct ct_totals *of = &p->shm.totals;
	__u64 drops[CT_DROP_CNT];

	memcpy(drops, of->drops, sizeof(drops));
	drops[CT_DROP_THREADS_SHARE] += p->shm.left_calls;
	drops[CT_DROP_THREADS] += p->shm.no_slot;
	drops[CT_DROP_COUNT] += p->uncounted;
	drops[CT_DROP_ERRORS] += p->errors_uncounted;
	drops[CT_DROP_CALL] += p->not_given;
	for (int k = 0; k < CT_DROP_CNT; k++)
		sum->drops[in->o.folder ? CT_DROP_INPROC : k] += drops[k];
	for (int k = 0; k < CT_STAT_CNT; k++)
		sum->stats[k] += of->stats[k];
	sum->cost_ns += of->cost_ns;
	if (of->busiest > sum->busiest)
		sum->busiest = of->busiest;
}

static void forget(struct inject *in, unsigned i, uint64_t now)
{
	struct client *p = in->clients[i];

	listener__forget(in, p);
	shm__read_totals(&p->shm, now, now);
	p->not_given += shm__unread(&p->shm);
	clients__add_totals(in, p, &in->ended);
	in->count_room.used -= p->count_cnt;
	in->gone_bad_cnt += p->shm.bad_cnt;
	if (in->o.stalls) {
		stalls__look(in, p);
		stalls__read_totals(p, now);
		stalls__lose_rest(p);
		stalls__add_totals(p, &in->gone_stalls);
	}
	if (gpu__is_used(in)) {
		gpu__look(in, p);
		gpu__read_totals(p, now);
		gpu__add_totals(p, &in->gone_gpu);
	}
	free_client(in, p);
	in->clients[i] = in->clients[--in->client_cnt];
}

void clients__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now)
{
	for (unsigned i = 0; i < in->client_cnt; i++) {
		struct client *p = in->clients[i];

		/* Generations increase. A process that is reported late may already have a later
		 * generation. */
		if (p->pid == pid && p->pidfd >= 0 && p->generation < generation)
			clients__leave(in, p, now);
	}
}

void clients__look(struct inject *in, uint64_t now)
{
	uint64_t max = in->o.probes ? NOTIFIED_MAX_NS : REAP_MAX_NS;

	for (unsigned i = in->client_cnt; i-- > 0;) {
		enum ct_proc_level level;
		struct client *p = in->clients[i];
		int code = 0;
		bool late;

		/* No probe had fired in the process until then. */
		if (p->pidfd >= 0 && !p->generation && in->o.probes)
			in->o.probes->process(in->o.ctx, p->pid, &p->generation, &level);
		if (p->pidfd >= 0 && clients__has_ended(p)) {
			/* Its calls come before its end, also if it made them after this look
			 * began. */
			now = now_ns();
			if (!p->ended_ns)
				p->ended_ns = now;
			if ((in->o.probes || exit_code(p, &code)) && now - p->ended_ns < max)
				continue;
			listener__recv(in, p);
			clients__leave(in, p, now);
			push_task(in, CT_REC_EXIT, p, 0, code, now);
		}
		/* Counts wait to be taken; with a directory only for a few seconds. After that they
		 * are dropped with everything else the program left. */
		late = in->o.folder && now - p->ended_ns > CLIENTS_LEFT_NS;
		if (p->pidfd < 0 && (late || is_read(p)) && (p->counts_taken || !has_counts(in, p)))
			forget(in, i, now);
	}
	shares__look(in, now);
}

void clients__free(struct inject *in)
{
	while (in->client_cnt)
		forget(in, in->client_cnt - 1, now_ns());
	free(in->synth);
}
