/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that the daemon writes: their header and end lines, and dumps. */
#include "daemon_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spool.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/out.h"
#include "util/privs.h"

/* A header whose time is off by more is followed by a new one. */
#define CLOCK_STEP_NS 100000000

/* begin_ns: time of the first line. */
static void put_header(struct daemon *d, uint64_t begin_ns, struct out *o)
{
	uint64_t base_ns = d->t.info.base_ns;

	tracer__fill_libs(&d->t);
	d->t.info.begin_ns = begin_ns > base_ns ? begin_ns - base_ns : 0;
	d->t.info.wall_ns = d->t.info.base_ns + daemon__epoch(d);
	formatter__header(d->formatter, o);
}

static void header(void *ctx, struct out *o)
{
	struct daemon *d = ctx;

	memset(&d->file_end, 0, sizeof(d->file_end));
	/* Dumps have no number. */
	d->t.info.segment = d->files_begun++;
	d->file_begun_ns = now_ns();
	put_header(d, d->file_begun_ns, o);
	d->t.info.segment = 0;
	d->file_epoch_ns = d->epoch_ns;
}

void daemon__follow_clock(struct daemon *d)
{
	int64_t by = daemon__epoch(d) - d->file_epoch_ns;

	if (!d->file_epoch_ns || llabs(by) < CLOCK_STEP_NS)
		return;
	info("the clock was set by %+.3f s: a new trace file begins", by / 1e9);
	formatter__release(d->formatter);
	d->file_epoch_ns = 0;
	rotate__finish_file(d->rotate, d->now);
}

/* Missing GPU records since the end of the previous file. */
static void fill_gpu(const struct daemon *d, struct trace_gpu *gpu)
{
	struct trace_end sum = {0};

	sources__fill_end(&d->t.sources, &sum);
	gpu->dropped = sum.gpu.dropped - d->file_gpu.dropped;
	gpu->untimed = sum.gpu.untimed - d->file_gpu.untimed;
	gpu->lost = sum.gpu.lost - d->file_gpu.lost;
	gpu->discarded = sum.gpu.discarded - d->file_gpu.discarded;
}

/* Totals such as entries and returns count all processes since the start, so files omit them.
 * Losses are those since the end of the previous file. since_ns: time of the first line.
 * sum: all losses. */
static void fill_end(struct daemon *d, struct trace_end *end, const char *reason, uint64_t since_ns,
		     struct ct_totals *sum)
{
	sources__totals(&d->t.sources, sum);
	for (unsigned i = 0; i < CT_DROP_CNT; i++)
		end->drops[i] = sum->drops[i] - d->file_drops[i];
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		end->full[i] = d->t.quotas.of[i].full_cnt - d->file_full[i];
	end->gpu.late = formatter__late(d->formatter) - d->file_late;
	fill_gpu(d, &end->gpu);
	end->end_ns = now_ns();
	end->reason = reason;
	end->not_traced = d->t.not_traced;
	end->probe_cost_ns = sum->stats[CT_STAT_ENTRIES]
				     ? (double)sum->cost_ns / sum->stats[CT_STAT_ENTRIES]
				     : d->t.cost.record;
	end->cost_ns = end->call_cnt * end->probe_cost_ns;
	if (end->end_ns > since_ns)
		end->cost_share = (double)end->cost_ns / (end->end_ns - since_ns);
}

static void end(void *ctx, struct out *o)
{
	struct daemon *d = ctx;
	struct metrics_files files;
	struct ct_totals sum;

	fill_end(d, &d->file_end, d->stopping ? TRACE_STOPPED : TRACE_ROTATED, d->file_begun_ns,
		 &sum);
	rotate__stats(d->rotate, &files);
	d->file_end.lines_lost = files.dropped - d->file_dropped;
	if (d->file_end.lines_lost)
		d->file_end.write_error =
			files.error ?: "the quota or the disk was full for a while";
	d->file_dropped = files.dropped;
	formatter__end(d->formatter, &d->file_end, o);
	/* Later losses count for the next file, even before it begins. */
	memcpy(d->file_drops, sum.drops, sizeof(d->file_drops));
	for (unsigned i = 0; i < QUOTA_CNT; i++)
		d->file_full[i] = d->t.quotas.of[i].full_cnt;
	d->file_late = formatter__late(d->formatter);
	d->file_gpu.dropped += d->file_end.gpu.dropped;
	d->file_gpu.untimed += d->file_end.gpu.untimed;
	d->file_gpu.lost += d->file_end.gpu.lost;
	d->file_gpu.discarded += d->file_end.gpu.discarded;
}

struct rotate_opts daemon__rotate_opts(struct daemon *d)
{
	const struct config *c = d->cfg;

	return (struct rotate_opts){
		.dir = c->files.directory,
		.size = c->files.rotate_size,
		.age_ns = c->files.rotate_age_ns,
		.total = c->files.total_size,
		.compress = c->files.compress,
		.on_rotate = c->files.on_rotate,
		.runner = d->runner,
		.header = header,
		.end = end,
		.ctx = d,
	};
}

/* NULL: no memory. A plain name becomes part of a file name that has the time and counts for
 * files.total_size. */
static char *dump_path(struct daemon *d, const char *name)
{
	char stamp[ROTATE_STAMP_SZ], *path;

	if (name && strchr(name, '/'))
		return strdup(name);
	rotate__next_stamp(d->rotate, stamp);
	if (asprintf(&path, "%s/" SPOOL_DUMP "%s%s%.*s.jsonl.zst", d->cfg->files.directory, stamp,
		     name ? "-" : "", name ? spool_dump_name_len(name) : 0, name ?: "") < 0)
		return NULL;
	return path;
}

struct recorder *daemon__new_recorder(const struct config *c)
{
	uint64_t keep_ns = c->recorder.keep_ns, hang_ns = c->trace.hang_after_ns;

	/* The work that a call waits for was submitted before. Waits are found a quarter later. */
	if (c->dossier.on_hang && hang_ns && keep_ns < hang_ns + hang_ns / 2)
		keep_ns = hang_ns + hang_ns / 2;
	if (!c->recorder.keep_ns)
		return NULL;
	return recorder__new(keep_ns + c->recorder.after_ns, c->recorder.memory);
}

bool daemon__wants_frames(const struct config *c)
{
	return c->recorder.keep_ns || c->files.compress == COMPRESS_ZSTD;
}

/* A call in flight has no line yet. */
struct in_flight {
	struct daemon *d;
	const struct dproc *p;
	struct trace_end *end;
	struct out *o;
};

static void add_in_flight(void *ctx, const struct seen_thread *seen)
{
	const struct in_flight *in = ctx;
	static struct trace_event ev;

	if (seen->pid != in->p->pid)
		return;
	for (const struct ct_frame *f = seen->frames; f < seen->frames + seen->depth; f++)
		if (!(f->flags & CT_FRAME_F_COUNTED) &&
		    wait_in_flight(in->d->t.model, seen, f, now_ns(), &ev))
			formatter__line(in->d->formatter, &ev, in->p->suffix, in->end, in->o);
}

int daemon__write_calls(struct daemon *d, int fd, const char *why, const struct dproc *waits)
{
	struct out *first = out__memory(), *last = out__memory();
	struct trace_end dump_end = {0};
	struct in_flight in = {d, waits, &dump_end, last};
	struct recorder_stats stats;
	struct ct_totals sum;
	char reason[64];
	int ret = -ENOMEM;

	if (!first || !last)
		goto out;
	snprintf(reason, sizeof(reason), "dump: %s", why);
	recorder__stats(d->recorder, &stats);
	put_header(d, stats.oldest_ns, first);
	recorder__count(d->recorder, &dump_end);
	if (waits)
		sources__each_thread(&d->t.sources, add_in_flight, &in);
	fill_end(d, &dump_end, reason, stats.oldest_ns, &sum);
	formatter__end(d->formatter, &dump_end, last);
	ret = recorder__dump(d->recorder, fd, first->buf, first->len, last->buf, last->len);
out:
	out__close(first);
	out__close(last);
	return ret;
}

static int make_room(struct daemon *d)
{
	struct recorder_stats s;

	recorder__stats(d->recorder, &s);
	return rotate__make_room(d->rotate, s.bytes, d->now);
}

int daemon__dump(struct daemon *d, const char *name, const char *why, char **path)
{
	int fd = -1, ret;
	char *to;

	*path = NULL;
	formatter__release(d->formatter);
	/* A path from root is used as it is, and never removed by us. The next name is known
	 * only after the directory was scanned. */
	ret = name && strchr(name, '/') ? 0 : make_room(d);
	to = dump_path(d, name);
	if (!to)
		return -ENOMEM;
	privs_lower();
	if (!ret)
		fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	privs_raise();
	if (!ret)
		ret = fd < 0 ? -errno : daemon__write_calls(d, fd, why, NULL);
	if (fd >= 0 && close(fd) && !ret)
		ret = -errno;
	if (ret) {
		log_seldom(LOG_WARN, "cannot write a dump to %s: %s", to, strerror(-ret));
		if (fd >= 0)
			unlink(to);
		free(to);
		return ret;
	}
	d->dumps++;
	d->dumped_ns = d->now;
	log_seldom(LOG_INFO, "flight recorder written to %s (%s)", to, why);
	*path = to;
	return 0;
}
