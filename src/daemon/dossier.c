/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "daemon_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "attach/find/target.h"
#include "dossier_store.h"
#include "metrics/labels.h"
#include "model/ledger.h"
#include "report/failure/failure.h"
#include "text/json.h"
#include "trace/thread_list.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/privs.h"
#include "version.h"

#define HOUR_NS (3600 * SEC_NS)
/* Time for the threads of a process, in which the daemon does nothing else. */
#define THREADS_NS 100000000ull
/* Bytes of a dossier besides the calls. */
#define ROOM_SZ	   (4u << 20)
#define BLOCKS_MAX 32

static const char *const refusal_text[] = {
	[DOSSIER_REFUSED_RATE] = "dossier.per_hour is reached: try again later",
	[DOSSIER_REFUSED_USER] = "the user's processes had half of dossier.per_hour already",
	[DOSSIER_REFUSED_BUSY] = "other dossiers are not finished: try again in a minute",
	[DOSSIER_REFUSED_DISK] = "its folder cannot be written: see the daemon's log",
};

/* Limits */

static int refusal(const struct daemon *d, const struct dproc *p, enum dossier_reason reason)
{
	const uint64_t max = d->cfg->dossier.per_hour, user_max = (max + 1) / 2;
	const struct dossiers *ds = &d->dossiers;
	uint64_t all = 0, own = 0;

	if (ds->cnt == DOSSIERS_QUEUED_MAX)
		return DOSSIER_REFUSED_BUSY;
	if (reason == DOSSIER_REQUEST)
		return -1;
	for (unsigned i = 0; i < DOSSIERS_HOUR_MAX; i++) {
		if (!ds->made[i].ns || d->now - ds->made[i].ns >= HOUR_NS)
			continue;
		all++;
		own += ds->made[i].owner == p->owner;
	}
	if (all >= max)
		return DOSSIER_REFUSED_RATE;
	return own >= user_max ? DOSSIER_REFUSED_USER : -1;
}

static const char *refuse(struct daemon *d, const struct dproc *p, enum dossier_reason reason,
			  int why)
{
	d->dossiers.refused_cnt[why]++;
	log_seldom(LOG_WARN, "no dossier (%s) of process %u (%s): %s", dossier_reason_name[reason],
		   p->pid, p->comm, refusal_text[why]);
	return refusal_text[why];
}

/* Facts about the process */

struct blocks {
	const struct block *of[BLOCKS_MAX]; /* largest first */
	unsigned cnt;
	uint64_t all;
};

static void add_block(void *ctx, const struct block *b)
{
	struct blocks *bs = ctx;
	unsigned i = bs->cnt;

	bs->all++;
	if (i == BLOCKS_MAX && bs->of[i - 1]->size >= b->size)
		return;
	i -= i == BLOCKS_MAX;
	for (; i && bs->of[i - 1]->size < b->size; i--)
		bs->of[i] = bs->of[i - 1];
	bs->of[i] = b;
	bs->cnt += bs->cnt < BLOCKS_MAX;
}

static void put_memory(struct daemon *d, const struct dproc *p, struct json *j)
{
	struct blocks bs = {.cnt = 0};

	json_open(j, "memory");
	json_u64(j, "device_bytes", p->mem.bytes[MEM_DEVICE]);
	json_u64(j, "host_bytes", p->mem.bytes[MEM_HOST]);
	json_u64(j, "managed_bytes", p->mem.bytes[MEM_MANAGED]);
	model__each_block(d->t.model, p->pid, add_block, &bs);
	json_u64(j, "block_count", bs.all);
	json_open_array(j, "blocks");
	for (unsigned i = 0; i < bs.cnt; i++) {
		const struct block *b = bs.of[i];

		json_open(j, NULL);
		json_hex(j, "ptr", b->key);
		json_u64(j, "size", b->size);
		json_sym(j, "kind", block_desc[b->kind].name);
		json_micro(j, "age_ms", d->now > b->born_ns ? d->now - b->born_ns : 0);
		json_close(j);
	}
	json_close_array(j);
	json_close(j);
}

struct libs_of {
	const struct trace_info *info;
	struct json *j;
	unsigned cnt;
};

static void put_lib_row(struct json *j, const char *path, const char *build_id)
{
	json_open(j, NULL);
	json_str(j, "path", path);
	if (build_id)
		json_str(j, "build_id", build_id);
	json_close(j);
}

static int put_lib(void *ctx, const struct map_line *m)
{
	struct libs_of *l = ctx;
	unsigned i = 0;

	while (i < l->info->lib_cnt && strcmp(l->info->libs[i].path, m->path))
		i++;
	put_lib_row(l->j, m->path, i < l->info->lib_cnt ? l->info->libs[i].build_id : NULL);
	l->cnt++;
	return 0;
}

static void put_versions(struct daemon *d, const struct dproc *p, struct json *j)
{
	struct libs_of libs = {.info = &d->t.info, .j = j};

	tracer__fill_libs(&d->t);
	json_open(j, "versions");
	json_str(j, "cudatrace", CUDATRACE_VERSION);
	json_str(j, "hostname", d->t.hostinfo.uts.nodename);
	json_str(j, "kernel", d->t.hostinfo.uts.release);
	json_str(j, "driver", d->t.hostinfo.driver);
	json_u64(j, "cuda", d->t.hostinfo.cuda_version);
	json_open_array(j, "libraries");
	target_each_mapped((pid_t)p->pid, put_lib, &libs);
	/* The process has ended: its libraries are among the traced ones. */
	for (unsigned i = 0; !libs.cnt && i < d->t.info.lib_cnt; i++)
		put_lib_row(j, d->t.info.libs[i].path, d->t.info.libs[i].build_id);
	json_close_array(j);
	json_close(j);
}

static void put_process(struct daemon *d, const struct dproc *p, struct json *j)
{
	json_u64(j, "pid", p->pid);
	json_str(j, "comm", p->comm);
	if (!d->t.info.redacted)
		json_str(j, "command", p->command);
	json_u64(j, "uid", p->uid);
	json_sym(j, "level", proc_level_name(p->level));
	json_bool(j, "traced", dproc_is_traced(p));
	if (d->t.info.redacted)
		json_sym(j, "redacted", d->t.info.redacted);
	if (p->labels.container[0]) {
		json_str(j, "namespace", p->labels.namespace);
		json_str(j, "pod", p->labels.pod);
		json_str(j, "container", p->labels.container_name);
		json_str(j, "container_id", p->labels.container);
	}
	put_versions(d, p, j);
	if (d->t.o.attach.redact != CT_REDACT_ARGS)
		put_memory(d, p, j);
}

static void put_time(struct json *j)
{
	time_t now = time(NULL);
	char text[32];
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	json_str(j, "time", text);
}

/* At once: a program that fails ends soon. */
static void put_facts(struct daemon *d, struct dossier *x, const struct dproc *p)
{
	struct json j;

	json__init(&j, x->facts);
	json_open(&j, NULL);
	json_u64(&j, "dossier", 1);
	json_sym(&j, "reason", dossier_reason_name[x->reason]);
	json_str(&j, "cause", *x->text ? x->text : NULL);
	put_time(&j);
	put_process(d, p, &j);
}

/* NULL: *why has the reason, if it is refused. */
static struct dossier *want(struct daemon *d, struct dproc *p, enum dossier_reason reason,
			    const char *text, const char **why)
{
	struct dossiers *ds = &d->dossiers;
	struct dossier *x;
	int refused;

	if (!ds->worker || (reason != DOSSIER_REQUEST && p->dossiers & 1u << reason))
		return NULL;
	p->dossiers |= 1u << reason;
	refused = refusal(d, p, reason);
	if (refused >= 0) {
		*why = refuse(d, p, reason, refused);
		return NULL;
	}
	ds->made[ds->next].ns = d->now;
	ds->made[ds->next].owner = p->owner;
	ds->next = (ds->next + 1) % DOSSIERS_HOUR_MAX;
	x = &ds->queue[ds->cnt++];
	*x = (struct dossier){.reason = reason, .pid = p->pid, .folder = -1};
	x->due_ns = d->now + (reason == DOSSIER_REQUEST ? 0 : d->cfg->recorder.after_ns);
	x->since_s = time(NULL) - 30;
	x->uid = p->uid;
	x->may_request = reason == DOSSIER_HANG && d->cfg->dossier.gpu_core;
	memcpy(x->comm, p->comm, sizeof(x->comm));
	snprintf(x->text, sizeof(x->text), "%s", text);
	x->facts = out__memory();
	if (x->facts)
		put_facts(d, x, p);
	return x;
}

static void drop(struct daemon *d, struct dossier *x)
{
	struct dossiers *ds = &d->dossiers;

	if (x->folder >= 0)
		close(x->folder);
	out__close(x->facts);
	memmove(x, x + 1, (char *)(ds->queue + --ds->cnt) - (char *)x);
}

/* Steps */

static int make_folder(struct daemon *d, struct dossier *x)
{
	const struct config *c = d->cfg;
	uint64_t room = (d->recorder ? c->recorder.memory : 0) + ROOM_SZ;
	char stamp[ROTATE_STAMP_SZ];
	int ret;

	if (room > c->dossier.total_size)
		return -EDQUOT;
	ret = rotate__make_room(d->rotate, 0, d->now);
	if (ret)
		return ret;
	rotate__next_stamp(d->rotate, stamp);
	snprintf(x->name, sizeof(x->name), DOSSIER_PREFIX "%s-%s-%u", stamp,
		 dossier_reason_name[x->reason], x->pid);
	privs_lower();
	ret = dossier_store__shrink(rotate__dir(d->rotate), c->dossier.keep - 1,
				    c->dossier.total_size - room);
	if (!ret)
		x->folder = dossier_store__make(rotate__dir(d->rotate), x->name);
	privs_raise();
	return ret ?: x->folder < 0 ? x->folder : 0;
}

static void write_file(struct dossier *x, const char *name, const struct out *o)
{
	int ret;

	privs_lower();
	ret = dossier_store__write(x->folder, name, o);
	privs_raise();
	if (ret)
		log_seldom(LOG_WARN, "cannot write %s of %s: %s", name, x->name, strerror(-ret));
}

/* Reads the threads. false: there is no folder. */
static bool begin(struct daemon *d, struct dossier *x)
{
	struct out *threads = out__memory();
	int ret = make_folder(d, x);
	struct json j;

	if (ret || !threads || !x->facts) {
		d->dossiers.refused_cnt[DOSSIER_REFUSED_DISK]++;
		log_seldom(LOG_WARN, "cannot make a dossier of process %u in %s: %s", x->pid,
			   d->cfg->files.directory, strerror(ret ? -ret : ENOMEM));
		out__close(threads);
		return false;
	}
	json__init(&j, x->facts);
	j.comma = true;
	json_u64(&j, "threads", thread_list__print(&d->t, x->pid, THREADS_NS, threads));
	if (threads->len)
		write_file(x, DOSSIER_THREADS, threads);
	out__close(threads);
	x->state = DOSSIER_BEGUN;
	return true;
}

static void collect(struct daemon *d, struct dossier *x)
{
	const struct dproc *p = dprocs__find(&d->procs, x->pid);
	struct recorder_stats r = {0};
	int fd, ret = 0;

	formatter__release(d->formatter);
	if (d->recorder)
		recorder__stats(d->recorder, &r);
	if (r.lines || (p && dproc_is_traced(p) && d->recorder)) {
		privs_lower();
		ret = fd = dossier_store__create(x->folder, DOSSIER_CALLS);
		privs_raise();
		if (fd >= 0) {
			ret = daemon__write_calls(d, fd, dossier_reason_name[x->reason], p);
			if (close(fd) && !ret)
				ret = -errno;
		}
		x->has_calls = !ret;
	}
	snprintf(x->calls_error, sizeof(x->calls_error), "%s",
		 ret	       ? strerror(-ret)
		 : d->recorder ? ""
			       : "recorder.seconds is 0");
	x->state = DOSSIER_COLLECTED;
}

static void report_made(struct daemon *d, const struct dossier *x, const struct dossier_result *res)
{
	struct trace_event ev = tracer_event("dossier", dossier_reason_name[x->reason], now_ns());
	const char *verdict = *res->verdict ? res->verdict : x->text;
	char why[sizeof(res->verdict) + sizeof(x->name) + 64];

	snprintf(why, sizeof(why), "process %u (%s): %s%s%s", x->pid, x->comm, x->name,
		 *verdict ? ": " : "", verdict);
	log_seldom(LOG_INFO, "dossier (%s) of %s", dossier_reason_name[x->reason], why);
	daemon__dossier_event(d, x, res->verdict);
	ev.tracer.why = why;
	daemon__event(d, &ev);
}

/* The index comes last: a folder that has it is complete. */
static void complete(struct daemon *d, struct dossier *x, const struct dossier_result *res)
{
	struct json j;

	json__init(&j, x->facts);
	j.comma = true;
	json_bool(&j, "has_calls", x->has_calls);
	if (*x->calls_error)
		json_str(&j, "calls_error", x->calls_error);
	json_str(&j, "verdict", *res->verdict ? res->verdict : NULL);
	if (*res->verdict)
		json_bool(&j, "certain", res->certain);
	if (*res->failed)
		json_str(&j, "no_report", res->failed);
	if (*res->core)
		json_str(&j, "gpu_core", res->core);
	json_close(&j);
	out_char(x->facts, '\n');
	write_file(x, DOSSIER_INDEX, x->facts);
	privs_lower();
	dossier_store__shrink(rotate__dir(d->rotate), d->cfg->dossier.keep,
			      d->cfg->dossier.total_size);
	privs_raise();
	d->dossiers.made_cnt[x->reason]++;
	report_made(d, x, res);
	drop(d, x);
}

static void start(struct daemon *d, struct dossier *x)
{
	const struct dossier_job job = {
		.pid = x->pid,
		.uid = x->uid,
		.has_calls = x->has_calls,
		.may_request = x->may_request,
		.since_s = x->since_s,
	};

	/* A failed start is detected by dossier_worker__ended(). */
	dossier_worker__start(d->dossiers.worker, x->folder, &job);
	x->state = DOSSIER_RUNNING;
	d->dossiers.is_running = true;
}

/* Another one may have another user, or the same process id. */
void dossier__program_ended(struct daemon *d, uint32_t pid)
{
	for (unsigned i = 0; i < d->dossiers.cnt; i++)
		if (d->dossiers.queue[i].pid == pid)
			d->dossiers.queue[i].uid = (uid_t)-1;
}

bool dossier__tick(struct daemon *d)
{
	struct dossiers *ds = &d->dossiers;
	bool has_worked = false;

	for (unsigned i = 0; i < ds->cnt; i++) {
		struct dossier *x = &ds->queue[i];
		struct dossier_result res;

		if (x->state == DOSSIER_WANTED && !has_worked) {
			has_worked = true;
			if (!begin(d, x)) {
				drop(d, x);
				i--;
				continue;
			}
		}
		if (x->state == DOSSIER_BEGUN && d->now >= x->due_ns)
			collect(d, x);
		if (x->state == DOSSIER_COLLECTED && !ds->is_running)
			start(d, x);
		if (x->state == DOSSIER_RUNNING && dossier_worker__ended(ds->worker, &res)) {
			ds->is_running = false;
			complete(d, x, &res);
			i--;
		}
	}
	return ds->cnt;
}

/* Requests */

const char *dossier__request(struct daemon *d, struct dproc *p, bool core, const char **why)
{
	struct dossier *x;

	*why = "the process that makes dossiers could not be started";
	x = want(d, p, DOSSIER_REQUEST, "", why);
	if (!x)
		return NULL;
	x->may_request = core;
	if (begin(d, x))
		return x->name;
	*why = refusal_text[DOSSIER_REFUSED_DISK];
	drop(d, x);
	return NULL;
}

void dossier__counted_error(struct daemon *d, struct dproc *p, int32_t result)
{
	const char *ignored;
	char text[96];

	if (!d->cfg->dossier.on_error)
		return;
	snprintf(text, sizeof(text), "a call failed with result %d; it was counted, not recorded",
		 result);
	want(d, p, DOSSIER_ERROR, text, &ignored);
}

static void on_xid(struct daemon *d, const struct trace_event *ev)
{
	uint32_t pid = xid_pid(ev->xid.message);
	struct dproc *p = pid ? dprocs__find(&d->procs, pid) : NULL;
	struct dossier_users users = {.cnt = 0};
	char text[512], shared[128];
	const char *ignored;
	size_t len;

	snprintf(text, sizeof(text), "Xid %u (%s): %s", ev->xid.xid, ev->xid.gpu ?: "",
		 ev->xid.message);
	if (p)
		want(d, p, DOSSIER_XID, text, &ignored);
	if (!pid)
		dossier_gpu__users(d, ev->xid.gpu, &users);
	for (unsigned i = 0; i < users.cnt; i++) {
		snprintf(shared, sizeof(shared),
			 ". The message names no process. Traced processes that may use this GPU: "
			 "%u; NVML %s this one there",
			 users.all, users.uses[i] ? "shows" : "has not shown");
		snprintf(text, sizeof(text) - sizeof(shared), "Xid %u (%s): %s", ev->xid.xid,
			 ev->xid.gpu ?: "", ev->xid.message);
		len = strlen(text);
		len -= len && text[len - 1] == '.';
		snprintf(text + len, sizeof(text) - len, "%s", shared);
		want(d, users.of[i], DOSSIER_XID, text, &ignored);
	}
}

void dossier__event(struct daemon *d, struct dproc *p, const struct trace_event *ev)
{
	const struct config *c = d->cfg;
	const char *ignored;
	char text[256];

	if (ev->kind == EVENT_GPU_STATS) {
		dossier_gpu__event(&d->dossiers.gpus, p, ev);
	} else if (ev->kind == EVENT_XID && c->dossier.on_xid) {
		on_xid(d, ev);
	} else if (ev->kind == EVENT_CALL && p && ev->is_error && c->dossier.on_error &&
		   failure_is_sticky(ev->fn, ev->result)) {
		snprintf(text, sizeof(text), "%s returned %s", ev->fn->name,
			 fn_result_name(ev->fn, ev->result));
		want(d, p, DOSSIER_ERROR, text, &ignored);
	} else if (ev->kind == EVENT_TRACER && ev->tracer.process && !ev->tracer.over &&
		   c->dossier.on_hang) {
		p = dprocs__find(&d->procs, ev->tracer.process);
		if (p)
			want(d, p, DOSSIER_HANG, ev->tracer.why, &ignored);
	}
}

void dossier__finish(struct daemon *d)
{
	struct dossiers *ds = &d->dossiers;
	const struct dossier_result res = {.failed = "the daemon ended before"};

	while (ds->cnt) {
		struct dossier *x = ds->queue;

		if (x->state == DOSSIER_WANTED && !begin(d, x)) {
			drop(d, x);
			continue;
		}
		if (x->state == DOSSIER_BEGUN)
			collect(d, x);
		complete(d, x, &res);
	}
}

void dossier__free(struct daemon *d)
{
	struct dossiers *ds = &d->dossiers;

	while (ds->cnt)
		drop(d, ds->queue);
	dossier_worker__free(ds->worker);
}
