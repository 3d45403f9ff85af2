/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Metrics of the daemon itself, and when counts are read. */
#include "daemon_priv.h"

#include "util/reader.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/demangle.h"
#include "version.h"

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return 0;
	if (fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return (uint64_t)pages * sysconf(_SC_PAGESIZE);
}

/* Excludes ., .. and the descriptor that reads the directory. */
static uint64_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t cnt = 0;

	while (dir && readdir(dir))
		cnt++;
	if (dir)
		closedir(dir);
	return cnt > 3 ? cnt - 3 : 0;
}

static double cpu_seconds(void)
{
	struct rusage u = {0};

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Reads records first, because they precede the counts. */
void daemon__read_counts(struct daemon *d)
{
	d->now = now_ns();
	tracer__drain_for(&d->t, DRAIN_TURN_NS);
	dprocs__read_counts(&d->procs);
	dprocs__read_errors(&d->procs);
}

void daemon__fill_self(struct daemon *d, struct metrics_self *self)
{
	struct recorder_stats r = {0};
	struct reader_stats reads;
	struct otlp_stats ot = {0};
	struct trace_end end = {0};
	struct ct_totals sum;

	*self = (struct metrics_self){
		.version = CUDATRACE_VERSION,
		.driver_version = d->t.hostinfo.driver,
		.hostname = d->t.hostinfo.uts.nodename,
		.now_ns = now_ns(),
		.gpu_time = config__has_gpu_times(d->cfg),
		.inject = d->cfg->trace.inject,
		.inproc = d->t.arbiter ? arbiter__inproc_cnt(d->t.arbiter) : 0,
		.dcgm = d->cfg->gpu_stats.interval_ns && d->cfg->gpu_stats.dcgm,
		.redact = d->t.o.attach.redact,
		.cpu_seconds = cpu_seconds(),
		.start_time = ((int64_t)d->started_ns + daemon__epoch(d)) / 1e9,
		.rss_bytes = resident_bytes(),
		.fds = open_fds(),
		.bursts = d->procs.bursts,
		.hangs = waits__reported(d->waits),
		.hanging = waits__lasting(d->waits),
		.dumps = d->dumps,
		.reloads = d->reloads,
		.reload_failures = d->reload_failures,
		.http_closed = http__closed(d->http),
	};
	memcpy(self->injections, d->injections, sizeof(self->injections));
	memcpy(self->dossiers, d->dossiers.made_cnt, sizeof(self->dossiers));
	memcpy(self->dossiers_refused, d->dossiers.refused_cnt, sizeof(self->dossiers_refused));
	reader__stats(&reads);
	time_budget__stats(&self->work);
	self->longest_turn = turn__longest(&d->turn);
	self->reads_lost = reads.lost;
	self->reads_denied = reads.refused;
	self->without_probes = d->lost.cnt[LOSS_LIBRARY_FAILED] + d->lost.cnt[LOSS_DETACHED];
	self->gpu_cnt = gpus__read(GPUS_DIR, self->gpus);
	sources__totals(&d->t.sources, &sum);
	sources__fill_end(&d->t.sources, &end);
	self->gpu_lost[0] = end.gpu.dropped;
	self->gpu_lost[1] = end.gpu.untimed;
	self->gpu_lost[2] = end.gpu.lost;
	self->gpu_discarded_bytes = end.gpu.discarded;
	self->names_given_up = demangle_given_up();
	memcpy(self->drops, sum.drops, sizeof(self->drops));
	self->cost_seconds = sum.cost_ns / 1e9;
	self->profile_programs_seconds = sum.stats[CT_STAT_SAMPLE_NS] / 1e9;
	for (int i = 0; i < QUOTA_CNT; i++) {
		self->full[i] = d->t.quotas.of[i].full_cnt;
		self->used[i] = d->t.quotas.of[i].used;
	}
	hash_each (p, &d->procs.by_pid)
		self->processes[p->level]++;
	formatter__wait_idle(d->formatter);
	rotate__stats(d->rotate, &self->files);
	if (d->recorder)
		recorder__stats(d->recorder, &r);
	self->recorder_lines = r.lines;
	self->recorder_bytes = r.bytes;
	daemon__fill_profile(d, self);
	if (d->otlp)
		otlp__stats(d->otlp, &ot);
	self->otlp_sent = ot.sent;
	self->otlp_failed = ot.failed;
	self->otlp_dropped = ot.dropped;
	self->otlp_queued = ot.queued;
	self->otlp_queued_bytes = ot.queued_bytes;
}

void daemon__print_metrics(void *ctx, struct out *o)
{
	struct daemon *d = ctx;
	struct metrics_self self;

	turn__begin(&d->turn);
	daemon__read_counts(d);
	daemon__fill_self(d, &self);
	metrics__print(d->metrics, &self, o);
}
