/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Attaches and detaches probes by what processes need: which files, and from when to when. */
#include "arbiter_priv.h"

#include "attach/find/target.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/reader.h"
#include "util/time_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Probes are detached after this idle time, because programs run in groups. Where no process is
 * stopped, calls of the next program may be missed while probes are attached again. */
#define IDLE_NS	       1000000000ull
#define IDLE_OPT_IN_NS 10000000000ull
/* Where processes belong to several users: interval between checks. */
#define LOOK_NS 1000000000ull
/* Time limit of one check, during which no records are read; interval between sweeps for ended
 * processes; limit of stored processes. */
#define LOOK_MAX_NS 20000000ull
#define SWEEP_NS    10000000000ull
#define USERS_MAX   16384

/* Functions that work before cuInit(), and cuInit() itself. They keep their probes, because a
 * process may call them right after mapping the file. cuInit() takes longer than attaching the
 * other probes again. */
static const char *const always_probed[] = {
	ATTACH_BEGINS,	  "cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2",
	"cuGetErrorName", "cuGetErrorString",	"cuGetExportTable",
};

void arbiter_find_always_probed(struct arbiter *b)
{
	int begins;

	for (unsigned i = 0; i < sizeof(always_probed) / sizeof(always_probed[0]); i++) {
		int id = fnset__find(b->fns, always_probed[i]);

		if (id >= 0)
			b->always_probed[id / 64] |= 1ull << id % 64;
	}
	begins = fnset__find(b->fns, ATTACH_BEGINS);
	b->sees_begin = begins >= 0 && fnset__wanted(b->fns, begins);
}

static struct user *users_of(const struct arbiter *b, pid_t pid)
{
	return user_table__find(&b->users, &pid);
}

struct user *arbiter_user(const struct arbiter *b, pid_t pid, unsigned lib_id)
{
	struct user *u = users_of(b, pid);

	while (u && u->lib_id != lib_id)
		u = u->next;
	return u;
}

/* Returns the next one of the process. */
static struct user *drop_user(struct arbiter *b, struct user *u)
{
	struct user *before = users_of(b, u->pid), *next = u->next;

	b->user_cnt--;
	if (before == u && next) {
		/* The first stays in the table: it becomes the next one. */
		next->link = u->link;
		*u = *next;
		free(next);
		return u;
	}
	if (before == u) {
		user_table__del(&b->users, u);
	} else {
		while (before->next != u)
			before = before->next;
		before->next = next;
	}
	free(u);
	return next;
}

static struct file *find_file(const struct arbiter *b, unsigned lib_id)
{
	for (unsigned i = 0; i < b->file_cnt; i++)
		if (b->files[i].lib_id == lib_id)
			return &b->files[i];
	return NULL;
}

static void need_file(struct arbiter *b, struct file *f)
{
	if (f->armed)
		attach__reattach(b->att, f->lib_id);
	f->armed = f->covered_off = false;
	f->idle_ns = f->scan_pos = 0;
}

/* u: the process that needs it; NULL: it could not be stored. */
static void need(struct arbiter *b, unsigned lib_id, struct user *u)
{
	struct file *f = find_file(b, lib_id);

	if (u)
		u->began = true;
	if (f)
		need_file(b, f);
}

static struct user *add_user(struct arbiter *b, pid_t pid, unsigned lib_id, const char *comm)
{
	struct user *u = arbiter_user(b, pid, lib_id), *first;

	if (u)
		return u;
	u = b->user_cnt < USERS_MAX ? calloc(1, sizeof(*u)) : NULL;
	if (!u) {
		b->crowded = true;
		return NULL;
	}
	u->pid = pid;
	u->lib_id = lib_id;
	first = users_of(b, pid);
	if (!first && user_table__add(&b->users, u)) {
		b->crowded = true;
		free(u);
		return NULL;
	}
	if (first) {
		u->next = first->next;
		first->next = u;
	}
	strncpy(u->comm, comm, sizeof(u->comm) - 1);
	b->user_cnt++;
	return u;
}

void arbiter__maps(struct arbiter *b, pid_t pid, const char *comm, const struct attach_lib *lib)
{
	struct user *u;

	if (lib->api->id != API_CUDA)
		return;
	u = add_user(b, pid, lib->id, comm);
	/* The library's message may arrive before the record of the mapping. Monitors (nvidia-smi)
	 * map the file repeatedly and only query its version: see arbiter_begins(). */
	if (!u || (!u->inproc && !b->sees_begin))
		need(b, lib->id, u);
}

/* The process may be unknown, when the record of its mapping was lost. */
void arbiter_begins(struct arbiter *b, pid_t pid)
{
	struct user *u = users_of(b, pid);

	for (unsigned i = 0; !u && i < b->file_cnt; i++)
		need_file(b, &b->files[i]);
	for (; u; u = u->next)
		if (!u->inproc)
			need(b, u->lib_id, u);
}

void arbiter_announce(struct arbiter *b, struct user *u, const char *why)
{
	if (u->announced)
		return;
	u->announced = true;
	if (b->opt_in)
		return;
	info("process %d (%s): %s: its calls are traced by uprobes", u->pid, u->comm, why);
	attach__uprobes_alone(b->att, u->lib_id);
}

static struct file *add_file(struct arbiter *b, const struct inject_lib *lib)
{
	struct file *files = realloc(b->files, (b->file_cnt + 1) * sizeof(*files)), *f;

	if (!files)
		return NULL;
	b->files = files;
	f = &files[b->file_cnt];
	*f = (struct file){.lib_id = lib->id, .path = strdup(lib->path)};
	if (!f->path)
		return NULL;
	for (unsigned i = 0; i < CT_MAX_FUNCS / 64; i++)
		f->is_inproc[i] = lib->inproc.is_inproc[i] & ~b->always_probed[i];
	b->file_cnt++;
	return f;
}

/* Returns whether the process's library has hooked all functions that have no probes. */
static bool has_all(const struct file *f, const struct ct_inproc *in)
{
	for (unsigned i = 0; i < CT_MAX_FUNCS / 64; i++)
		if (f->is_inproc[i] & ~in->is_inproc[i])
			return false;
	return true;
}

bool arbiter__inproc(struct arbiter *b, const struct inject_lib *lib)
{
	struct user *u = add_user(b, lib->pid, lib->id, lib->comm);
	struct file *f;

	if (!u || !attach__set_inproc(b->att, lib->pid, &lib->inproc)) {
		warn("process %d: its calls are traced by uprobes: too many processes", lib->pid);
		need(b, lib->id, u);
		return false;
	}
	u->generation = lib->generation;
	if (!lib->hooked_cnt) {
		arbiter_announce(b, u, "its libcuda has an unknown layout");
		need(b, u->lib_id, u);
		return true;
	}
	f = find_file(b, lib->id);
	if (!f)
		f = add_file(b, lib);
	u->inproc = f && has_all(f, &lib->inproc);
	u->since_ns = now_ns();
	if (!u->inproc)
		need(b, u->lib_id, u);
	return true;
}

void arbiter__lost(struct arbiter *b, pid_t pid)
{
	attach__set_inproc(b->att, pid, NULL);
	for (struct user *u = users_of(b, pid); u; u = u->next) {
		u->inproc = false;
		need(b, u->lib_id, u);
	}
}

void arbiter_fork(struct arbiter *b, const struct ct_task *rec)
{
	for (const struct user *from = users_of(b, rec->parent_pid); from; from = from->next) {
		struct user *u = add_user(b, rec->rec.pid, from->lib_id, from->comm);

		/* Its library may have reported already. */
		if (!u || u->inproc)
			continue;
		u->inproc = from->inproc;
		u->began = from->began;
		u->generation = rec->generation;
		u->announced = from->announced;
	}
}

/* Drops programs of the process with a lower generation. */
void arbiter_left(struct arbiter *b, pid_t pid, ct_generation generation)
{
	struct user *u = users_of(b, pid);

	while (u) {
		/* Its library may have reported before this record arrived; generations only
		 * grow. */
		if (u->generation >= generation) {
			u = u->next;
			continue;
		}
		if (!u->inproc && u->called)
			arbiter_announce(b, u, "the in-process library was not loaded");
		u = drop_user(b, u);
	}
}

static bool is_needed(const struct arbiter *b, unsigned lib_id)
{
	hash_each (of, &b->users)
		for (const struct user *u = of; u; u = u->next)
			if (u->lib_id == lib_id && u->began && !u->inproc)
				return true;
	return b->crowded;
}

static void drop_files(struct arbiter *b)
{
	for (unsigned i = b->file_cnt; i-- > 0;) {
		if (attach__has_lib(b->att, b->files[i].lib_id))
			continue;
		free(b->files[i].path);
		b->files[i] = b->files[--b->file_cnt];
	}
}

/* A process that made no call sends no exit record. */
static void sweep(struct arbiter *b)
{
	hash_each (u, &b->users) {
		pid_t pid = u->pid;

		while (!target_exists(pid) && (u = users_of(b, pid)))
			drop_user(b, u);
	}
	b->crowded = b->user_cnt > USERS_MAX / 2;
	drop_files(b);
}

struct look {
	struct arbiter *b;
	struct file *f;
	uint64_t until_ns;
	bool found; /* the process maps the file */
};

static int look_at_line(void *ctx, const struct map_line *m)
{
	struct look *l = ctx;
	const struct attach_lib *lib = attach__lib_by_key(l->b->att, &m->key);

	l->found = lib && lib->id == l->f->lib_id;
	return l->found;
}

static bool look_at_process(void *ctx, pid_t pid)
{
	struct look *l = ctx;
	struct user *u;
	int ret;

	/* A process that has not begun to use the driver sends a record when it does. */
	if (pid <= l->f->scan_pos || arbiter_user(l->b, pid, l->f->lib_id))
		return true;
	if (now_ns() > l->until_ns || !time_budget__may(reader__user(pid)))
		return false;
	l->found = false;
	ret = target_each_mapped(pid, look_at_line, l);
	u = l->found ? add_user(l->b, pid, l->f->lib_id, "") : NULL;
	if (u)
		u->began = true;
	/* The mappings could not be read: try again next time, unless there are too many to ever
	 * read. */
	if (ret == -ETIMEDOUT || ret == -EBUSY)
		return false;
	l->f->scan_pos = pid;
	return true;
}

/* Where processes belong to several users: looks for processes that need probes and started before
 * us, or whose record was lost. /proc lists them in pid order. false: some are still to be looked
 * at. */
static bool look_at_others(struct arbiter *b, struct file *f)
{
	struct look l = {.b = b, .f = f, .until_ns = now_ns() + LOOK_MAX_NS};

	if (!target_each(look_at_process, &l))
		return false;
	f->scan_pos = 0;
	return true;
}

static void look_at_file(struct arbiter *b, struct file *f, uint64_t now, bool drained)
{
	if (is_needed(b, f->lib_id)) {
		need_file(b, f);
	} else if (f->covered_off) {
		return;
	} else if (!f->idle_ns) {
		f->idle_ns = now;
	} else if (now - f->idle_ns < (b->opt_in ? IDLE_OPT_IN_NS : IDLE_NS)) {
		return;
	} else if (!f->armed) {
		f->armed = attach__detach_covered(b->att, f->lib_id, f->is_inproc, true);
	} else if (!drained || (b->opt_in && !look_at_others(b, f))) {
		return;
	} else if (is_needed(b, f->lib_id)) {
		need_file(b, f);
	} else {
		/* Records have reported all mappings until now. */
		f->covered_off = attach__detach_covered(b->att, f->lib_id, f->is_inproc, false);
	}
}

/* A lost record may have been a process that begins to use the driver. Assume so until all
 * processes have been checked. */
static void look_at_losses(struct arbiter *b)
{
	struct ct_totals sum;

	attach__totals(b->att, &sum);
	if (sum.drops[CT_DROP_TASK] == b->lost_cnt)
		return;
	b->lost_cnt = sum.drops[CT_DROP_TASK];
	for (unsigned i = 0; i < b->file_cnt; i++)
		need_file(b, &b->files[i]);
}

void arbiter__tick(struct arbiter *b, uint64_t now, bool drained)
{
	if (b->opt_in && now - b->looked_ns < LOOK_NS)
		return;
	b->looked_ns = now;
	if (b->opt_in)
		look_at_losses(b);
	if (b->opt_in && now - b->swept_ns >= SWEEP_NS) {
		b->swept_ns = now;
		sweep(b);
	}
	for (unsigned i = 0; i < b->file_cnt; i++)
		look_at_file(b, &b->files[i], now, drained);
}

void arbiter_drop_all(struct arbiter *b)
{
	while (b->users.first)
		drop_user(b, b->users.first);
	for (unsigned i = 0; i < b->file_cnt; i++)
		free(b->files[i].path);
	free(b->files);
}

unsigned arbiter__inproc_cnt(const struct arbiter *b)
{
	unsigned cnt = 0;

	hash_each (u, &b->users)
		cnt += arbiter__is_inproc(b, u->pid);
	return cnt;
}

bool arbiter__is_inproc(const struct arbiter *b, pid_t pid)
{
	const struct user *u = users_of(b, pid);

	while (u && !u->inproc)
		u = u->next;
	return u;
}
