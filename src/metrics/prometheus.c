// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Prometheus' text format, version 0.0.4: one family after the other, each with its HELP and TYPE,
 * the samples of all targets in it.
 */
#include <stdio.h>
#include <string.h>

#include "level.h"
#include "metrics_priv.h"
#include "model/trace.h"
#include "util/out.h"

static void family(struct out *o, const char *name, const char *type, const char *help)
{
	out_lit(o, "# HELP cudatrace_");
	out_str(o, name);
	out_char(o, ' ');
	out_str(o, help);
	out_lit(o, "\n# TYPE cudatrace_");
	out_str(o, name);
	out_char(o, ' ');
	out_str(o, type);
	out_char(o, '\n');
}

/* Names come from targets: any bytes. What is no printable ASCII becomes '?'. */
static void put_label(struct out *o, const char *name, const char *value, bool first)
{
	if (!first)
		out_char(o, ',');
	out_str(o, name);
	out_lit(o, "=\"");
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			out_char(o, '\\');
		out_char(o, *value >= ' ' && *value < 0x7f ? *value : '?');
	}
	out_char(o, '"');
}

/* name{labels of the target, then extra: the caller's; the caller closes. */
static void sample(struct out *o, const char *name, const struct metrics_target *t)
{
	out_lit(o, "cudatrace_");
	out_str(o, name);
	out_char(o, '{');
	put_label(o, "namespace", t->key.namespace, true);
	put_label(o, "pod", t->key.pod, false);
	put_label(o, "container", t->key.container, false);
	put_label(o, "command", t->key.command, false);
}

static void value_u64(struct out *o, uint64_t x)
{
	out_lit(o, "} ");
	out_u64(o, x);
	out_char(o, '\n');
}

static void value_f64(struct out *o, double x)
{
	char buf[40];

	snprintf(buf, sizeof(buf), "} %.9g\n", x);
	out_str(o, buf);
}

/* Every target, then what was put together. */
static void each(const struct metrics *m, struct out *o,
		 void (*fn)(struct out *o, const struct metrics_target *t))
{
	const struct metrics_target *t, *next;

	HASH_ITER (hh, m->targets, t, next)
		fn(o, t);
	if (m->others.fns || m->others.processes)
		fn(o, &m->others);
}

static void put_calls(struct out *o, const struct metrics_target *t)
{
	const struct fn_metrics *f, *next;

	HASH_ITER (hh, t->fns, f, next) {
		sample(o, "calls_total", t);
		put_label(o, "function", f->fn->symbol, false);
		put_label(o, "class", cuda_class_name(f->fn->class), false);
		value_u64(o, f->calls);
	}
}

static void put_errors(struct out *o, const struct metrics_target *t)
{
	const struct error_metrics *e, *next;

	HASH_ITER (hh, t->errors, e, next) {
		sample(o, "errors_total", t);
		put_label(o, "function", e->key.fn->symbol, false);
		put_label(o, "error", metrics_error_name(e->key.fn, e->key.code), false);
		value_u64(o, e->cnt);
	}
}

static void put_durations(struct out *o, const struct metrics_target *t)
{
	for (int class = 0; class < CLASS_CNT; class ++) {
		const struct hist *h = t->durations[class];
		uint64_t sum = 0;
		char le[32];

		for (int i = 0; h && i <= BUCKET_CNT; i++) {
			sum += h->cnt[i];
			if (i < BUCKET_CNT)
				snprintf(le, sizeof(le), "%.9g", BUCKET_NS(i) / 1e9);
			sample(o, "call_duration_seconds_bucket", t);
			put_label(o, "class", cuda_class_name(class), false);
			put_label(o, "le", i < BUCKET_CNT ? le : "+Inf", false);
			value_u64(o, sum);
		}
		if (!h)
			continue;
		sample(o, "call_duration_seconds_sum", t);
		put_label(o, "class", cuda_class_name(class), false);
		value_f64(o, h->sum_ns / 1e9);
		sample(o, "call_duration_seconds_count", t);
		put_label(o, "class", cuda_class_name(class), false);
		value_u64(o, sum);
	}
}

static void put_launches(struct out *o, const struct metrics_target *t)
{
	sample(o, "launches_total", t);
	value_u64(o, t->launches);
}

static void put_nodes(struct out *o, const struct metrics_target *t)
{
	sample(o, "graph_nodes_captured_total", t);
	value_u64(o, t->nodes);
}

static void put_graph_launches(struct out *o, const struct metrics_target *t)
{
	sample(o, "graph_launches_total", t);
	value_u64(o, t->graph_launches);
}

static void put_bytes(struct out *o, const struct metrics_target *t)
{
	for (int i = COPY_NONE; i <= COPY_DIR_PEER; i++) {
		if (!t->bytes[i])
			continue;
		sample(o, "transfer_bytes_total", t);
		put_label(o, "direction", copy_dir_name(i) ?: "unknown", false);
		value_u64(o, t->bytes[i]);
	}
}

static void put_kinds(struct out *o, const struct metrics_target *t, const char *name,
		      const uint64_t *bytes)
{
	for (int i = 0; i < MEM_KIND_CNT; i++) {
		sample(o, name, t);
		put_label(o, "kind", mem_kind_name(i), false);
		value_u64(o, bytes[i]);
	}
}

static void put_memory(struct out *o, const struct metrics_target *t)
{
	put_kinds(o, t, "memory_bytes", t->mem);
}

static void put_peak(struct out *o, const struct metrics_target *t)
{
	put_kinds(o, t, "memory_peak_bytes", t->peak);
}

static void put_ioctls(struct out *o, const struct metrics_target *t)
{
	const struct cmd_metrics *c, *next;

	HASH_ITER (hh, t->cmds, c, next) {
		sample(o, "ioctls_total", t);
		put_label(o, "ioctl", c->name, false);
		value_u64(o, c->cnt);
	}
}

static void put_ioctl_time(struct out *o, const struct metrics_target *t)
{
	const struct cmd_metrics *c, *next;

	HASH_ITER (hh, t->cmds, c, next) {
		sample(o, "ioctl_seconds_total", t);
		put_label(o, "ioctl", c->name, false);
		value_f64(o, c->total_ns / 1e9);
	}
}

static void put_processes(struct out *o, const struct metrics_target *t)
{
	sample(o, "target_processes", t);
	value_u64(o, t->processes);
}

static const struct {
	const char *name, *type, *help;
	void (*put)(struct out *o, const struct metrics_target *t);
} families[] = {
	{"calls_total", "counter", "Calls into libcuda.", put_calls},
	{"errors_total", "counter", "Calls that failed, by CUresult.", put_errors},
	{"call_duration_seconds", "histogram", "How long calls took, by class of function.",
	 put_durations},
	{"launches_total", "counter", "Kernels launched, those in graphs not counted.",
	 put_launches},
	{"graph_nodes_captured_total", "counter", "Launches that became nodes of a graph.",
	 put_nodes},
	{"graph_launches_total", "counter", "Graphs launched.", put_graph_launches},
	{"transfer_bytes_total", "counter", "Bytes copied, by direction.", put_bytes},
	{"memory_bytes", "gauge", "Memory that is allocated and not freed.", put_memory},
	{"memory_peak_bytes", "gauge", "The most that memory_bytes has been.", put_peak},
	{"ioctls_total", "counter", "ioctls of the NVIDIA driver, by command.", put_ioctls},
	{"ioctl_seconds_total", "counter", "Time in ioctls of the NVIDIA driver.", put_ioctl_time},
	{"target_processes", "gauge", "Processes of the target that use CUDA now.", put_processes},
};

/* Known from arguments alone. */
static bool is_of_args(void (*put)(struct out *o, const struct metrics_target *t))
{
	return put == put_nodes || put == put_bytes || put == put_memory || put == put_peak;
}

static void one(struct out *o, const char *name, const char *type, const char *help, double x)
{
	char buf[96];

	family(o, name, type, help);
	snprintf(buf, sizeof(buf), "cudatrace_%s %.17g\n", name, x);
	out_str(o, buf);
}

static void put_named(struct out *o, const char *name, const char *label, const char *value,
		      uint64_t x)
{
	out_lit(o, "cudatrace_");
	out_str(o, name);
	out_char(o, '{');
	put_label(o, label, value, true);
	value_u64(o, x);
}

static void put_gpus(const struct metrics_self *s, struct out *o)
{
	family(o, "gpu_info", "gauge", "1, with what the driver says of each GPU.");
	for (unsigned i = 0; i < s->gpu_cnt; i++) {
		out_lit(o, "cudatrace_gpu_info{");
		put_label(o, "gpu", s->gpus[i].bus, true);
		put_label(o, "uuid", s->gpus[i].uuid, false);
		put_label(o, "model", s->gpus[i].model, false);
		put_label(o, "minor", s->gpus[i].minor, false);
		value_u64(o, 1);
	}
}

static void put_self(const struct metrics *m, const struct metrics_self *s, struct out *o)
{
	char number[16];

	family(o, "build_info", "gauge", "1, with the versions.");
	out_lit(o, "cudatrace_build_info{");
	put_label(o, "version", s->version, true);
	put_label(o, "driver", s->driver_version, false);
	if (s->hide)
		put_label(o, "hidden", cuda_hide_name(s->hide), false);
	value_u64(o, 1);
	family(o, "dropped_total", "counter", "Records that were lost, by kind.");
	for (int i = 0; i < CT_DROP_CNT; i++)
		put_named(o, "dropped_total", "what", drop_name(i), s->drops[i]);
	one(o, "names_left_mangled_total", "counter",
	    "Names of kernels and functions for which there was no time.", s->names_given_up);
	family(o, "table_full_total", "counter", "Times that something found a table full.");
	for (int i = 0; i < QUOTA_CNT; i++)
		put_named(o, "table_full_total", "table", quota_name(i), s->full[i]);
	family(o, "table_used", "gauge", "What is in a table: rows, or bytes of names and stacks.");
	for (int i = 0; i < QUOTA_CNT; i++)
		put_named(o, "table_used", "table", quota_name(i), s->used[i]);
	family(o, "xids_total", "counter", "Errors that the driver reported of GPUs.");
	for (unsigned i = 0; i < m->xid_cnt; i++) {
		snprintf(number, sizeof(number), "%u", m->xids[i].number);
		out_lit(o, "cudatrace_xids_total{");
		put_label(o, "gpu", m->xids[i].gpu, true);
		put_label(o, "xid", number, false);
		value_u64(o, m->xids[i].cnt);
	}
	put_gpus(s, o);
	family(o, "processes", "gauge", "Processes that use CUDA now, by level.");
	for (int i = 0; i < LEVEL_CNT; i++)
		put_named(o, "processes", "level", proc_level_name(i), s->processes[i]);
	one(o, "series", "gauge", "Series of targets that are in use.", m->series);
	one(o, "series_left_out_total", "counter",
	    "Times that a new series was not made because of metrics.max_series.", m->left_out);
	one(o, "bursts_total", "counter", "Bursts of full trace that were taken.", s->bursts);
	one(o, "file_lines_total", "counter", "Lines written to files.", s->files.lines);
	one(o, "file_lines_dropped_total", "counter", "Lines that found no room or no disk.",
	    s->files.dropped);
	one(o, "files_total", "counter", "Files finished.", s->files.files);
	one(o, "files_removed_total", "counter", "Files removed to stay within files.total_size.",
	    s->files.removed);
	one(o, "files_taken_total", "counter", "Files that files.on_rotate took.", s->files.taken);
	one(o, "files_take_failures_total", "counter", "Times that files.on_rotate failed.",
	    s->files.failed);
	one(o, "file_bytes", "gauge", "Disk that all files take.", s->files.disk_bytes);
	one(o, "recorder_lines", "gauge", "Events in the flight recorder.", s->recorder_lines);
	one(o, "recorder_bytes", "gauge", "Memory of the flight recorder.", s->recorder_bytes);
	one(o, "dumps_total", "counter", "Dumps of the flight recorder.", s->dumps);
	one(o, "otlp_sent_total", "counter", "Spans and metrics that the collector took.",
	    s->otlp_sent);
	one(o, "otlp_failures_total", "counter", "Requests that the collector did not take.",
	    s->otlp_failed);
	one(o, "otlp_dropped_total", "counter", "Spans that found the queue full.",
	    s->otlp_dropped);
	one(o, "otlp_queued", "gauge", "Spans that wait for the collector.", s->otlp_queued);
	one(o, "otlp_queue_bytes", "gauge", "Memory of those.", s->otlp_queued_bytes);
	one(o, "reads_lost_total", "counter", "Reads about processes that hung and were left out.",
	    s->reads_lost);
	one(o, "reads_refused_total", "counter",
	    "Files of processes on other users' file systems, and of users whose reads hang.",
	    s->reads_refused);
	one(o, "config_reloads_total", "counter", "Configurations read while running.", s->reloads);
	one(o, "config_reload_failures_total", "counter", "Of those, broken ones.",
	    s->reload_failures);
	one(o, "http_connections_closed_total", "counter",
	    "Connections to this port that were closed because others came.", s->http_closed);
	one(o, "self_cpu_seconds_total", "counter", "CPU time of the daemon.", s->cpu_seconds);
	one(o, "self_resident_bytes", "gauge", "Memory of the daemon.", s->rss_bytes);
	one(o, "self_open_fds", "gauge", "File descriptors of the daemon.", s->fds);
	one(o, "self_start_time_seconds", "gauge", "When the daemon was started.", s->start_time);
}

void metrics__print(const struct metrics *m, const struct metrics_self *self, struct out *o)
{
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		if (self->hide == CT_HIDE_ARGS && is_of_args(families[i].put))
			continue;
		family(o, families[i].name, families[i].type, families[i].help);
		each(m, o, families[i].put);
	}
	put_self(m, self, o);
}
