/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The daemon's configuration (docs/DAEMON.md). Read from YAML by libyaml; each value has one row in
 * config.c, which --set also uses. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_shm.h"
#include "ct_spec.h"
#include "decode/cuda.h"
#include "metrics/level.h"
#include "util/zfile.h"

/* Conditions of a process that trigger a burst or a dump. */
struct trigger {
	bool error, xid;
	uint64_t sync_above_ns; /* 0: none */
	uint64_t memory_above;	/* live device memory in bytes; 0: none */
};

/* Patterns are globs (fnmatch); NULL: anything. */
struct rule {
	char *user, *command, *cgroup, *container, *pod, *namespace;
	bool name_only; /* command is not matched with whole command lines */
	bool by_ctl;	/* set by ctl, not by the file */
	bool inject;	/* the library is loaded into running processes */
	enum proc_level level;
	unsigned line;
};

#define CONFIG_FORMAT_THREADS_AUTO (-1)

struct config {
	enum proc_level level;
	struct rule *rules;
	unsigned rule_cnt;
	struct {
		uint64_t trace_ns, every_ns, cooldown_ns;
		struct trigger on;
	} sample;
	struct {
		char *functions;
		enum api_detail detail;
		bool kernel, gpu_ctxsw, inject;
		bool kernel_args;		      /* with inject */
		enum ct_gpu_time gpu_time, gpu_burst; /* gpu_burst: by ctl burst */
		char *inject_folder, *cupti;	      /* cupti "": search for it */
		enum ct_redact redact;
		uint64_t buffer_size, gpu_pending_size;
		uint64_t hang_after_ns; /* 0: waits are not watched */
	} trace;
	struct {
		char *directory, *on_rotate;
		uint64_t rotate_size, rotate_age_ns, total_size;
		enum compression compress;
		int format_threads; /* threads; CONFIG_FORMAT_THREADS_AUTO: chosen from the number
				     * of processors */
	} files;
	struct {
		uint64_t keep_ns, after_ns, memory;
		struct trigger on;
	} recorder;
	struct {
		bool on_error, on_xid, on_hang, gpu_core;
		uint64_t keep, per_hour, total_size;
	} dossier;
	struct {
		char *listen;
		bool memory;
		uint64_t max_series, max_counts, max_tasks;
	} metrics;
	struct {
		uint64_t interval_ns; /* 0: none */
		bool dcgm;
	} gpu_stats;
	struct {
		uint64_t rate; /* Hz; 0: none */
	} gpu_metrics;
	struct {
		uint64_t interval_ns; /* 0: none */
		bool files, native;
		char *iterations; /* function or glob; "": none */
	} profiles;
	struct {
		char *endpoint, *headers_file, *iterations;
		bool gzip, profiles;
		uint64_t slow_call_ns, interval_ns, queue;
	} otlp;
	struct {
		char *socket, *group;
	} ctl;
};

/* Errors: lines "FILE:LINE: KEY: what is wrong; how to write it". */
struct config_errors {
	char text[4096];
	unsigned cnt;
};

/* Returns whether programs load our library from a directory of ours. */
static inline bool config__has_listener(const struct config *c)
{
	return c->trace.inject || c->trace.gpu_time;
}
/* Returns whether there may be GPU times. */
static inline bool config__has_gpu_times(const struct config *c)
{
	return c->trace.gpu_time || c->trace.gpu_burst;
}
/* Returns the defaults. NULL: out of memory. */
struct config *config__new(void);
void config__free(struct config *c);
/* Adds the file's values. false: something is wrong (errors); c is partly filled then. */
bool config__read_file(struct config *c, const char *path, struct config_errors *errors);
bool config__read_text(struct config *c, const char *name, const char *text, size_t len,
		       struct config_errors *errors);
/* Sets KEY=VALUE of --set. */
bool config__set(struct config *c, const char *assignment, struct config_errors *errors);
/* Checks values against each other; to be called last. */
bool config__check(const struct config *c, const char *name, struct config_errors *errors);
/* Reports keys with different values; rules are not compared. */
void config__compare(const struct config *a, const struct config *b,
		     void (*differs)(void *ctx, const char *key), void *ctx);
/* Prints each key of the file with its value in effect. */
void config__print(const struct config *c,
		   void (*line)(void *ctx, const char *key, const char *val), void *ctx);

#endif /* DAEMON_CONFIG_H */
