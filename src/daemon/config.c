/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/inject.h"
#include "model/gpu.h"
#include "otlp/otlp.h"
#include "dossier.h"
#include "rotate.h"
#include "sink/delivery/workers.h"
#include "trace/tracer.h"
#include "util/strdist.h"
#include "text/units.h"

#define KEY(path, type, field, preset)                                                             \
	{                                                                                          \
		path, type, offsetof(struct config, field), preset, 0, true                        \
	}
#define NUM(path, type, field, preset, min, zero_ok)                                               \
	{                                                                                          \
		path, type, offsetof(struct config, field), preset, min, zero_ok                   \
	}

static const struct key keys[] = {
	KEY("level", KEY_LEVEL, level, "metrics"),
	NUM("sample.trace", KEY_TIME, sample.trace_ns, "5s", 1000000, false),
	NUM("sample.every", KEY_TIME, sample.every_ns, "5m", 1000000000, true),
	KEY("sample.cooldown", KEY_TIME, sample.cooldown_ns, "1m"),
	KEY("sample.on.error", KEY_BOOL, sample.on.error, "true"),
	KEY("sample.on.xid", KEY_BOOL, sample.on.xid, "true"),
	KEY("sample.on.sync_above", KEY_TIME, sample.on.sync_above_ns, "0"),
	KEY("sample.on.memory_above", KEY_SIZE, sample.on.memory_above, "0"),
	KEY("trace.functions", KEY_TEXT, trace.functions, ""),
	KEY("trace.detail", KEY_DETAIL, trace.detail, ""),
	KEY("trace.kernel", KEY_BOOL, trace.kernel, "false"),
	KEY("trace.gpu_ctxsw", KEY_BOOL, trace.gpu_ctxsw, "false"),
	KEY("trace.gpu_time", KEY_GPU_TIME, trace.gpu_time, "off"),
	KEY("trace.gpu_burst", KEY_GPU_TIME, trace.gpu_burst, "off"),
	NUM("trace.gpu_pending_size", KEY_SIZE, trace.gpu_pending_size, "6M", 1 << 20, false),
	KEY("trace.inject", KEY_BOOL, trace.inject, "false"),
	KEY("trace.inject_folder", KEY_TEXT, trace.inject_folder, "/run/cudatrace/inject"),
	KEY("trace.kernel_args", KEY_BOOL, trace.kernel_args, "true"),
	KEY("trace.hang_after", KEY_TIME, trace.hang_after_ns, "30s"),
	KEY("trace.cupti", KEY_TEXT, trace.cupti, ""),
	KEY("trace.redact", KEY_REDACT, trace.redact, "none"),
	NUM("trace.buffer_size", KEY_SIZE, trace.buffer_size, "8M", 64 << 10, false),
	KEY("files.directory", KEY_TEXT, files.directory, "/var/lib/cudatrace"),
	NUM("files.rotate_size", KEY_SIZE, files.rotate_size, "256M", 64 << 10, false),
	NUM("files.rotate_age", KEY_TIME, files.rotate_age_ns, "1h", 1000000000, true),
	NUM("files.total_size", KEY_SIZE, files.total_size, "4G", 1 << 20, false),
	KEY("files.compress", KEY_COMPRESS, files.compress, "zstd"),
	KEY("files.format_threads", KEY_FORMAT_THREADS, files.format_threads, "auto"),
	KEY("files.on_rotate", KEY_TEXT, files.on_rotate, ""),
	NUM("recorder.seconds", KEY_TIME, recorder.keep_ns, "30s", 1000000000, true),
	KEY("recorder.after", KEY_TIME, recorder.after_ns, "1s"),
	NUM("recorder.memory", KEY_SIZE, recorder.memory, "32M", 1 << 20, false),
	KEY("recorder.on.error", KEY_BOOL, recorder.on.error, "true"),
	KEY("recorder.on.xid", KEY_BOOL, recorder.on.xid, "true"),
	KEY("recorder.on.sync_above", KEY_TIME, recorder.on.sync_above_ns, "0"),
	KEY("recorder.on.memory_above", KEY_SIZE, recorder.on.memory_above, "0"),
	KEY("dossier.on.error", KEY_BOOL, dossier.on_error, "true"),
	KEY("dossier.on.xid", KEY_BOOL, dossier.on_xid, "true"),
	KEY("dossier.on.hang", KEY_BOOL, dossier.on_hang, "true"),
	KEY("dossier.gpu_core", KEY_BOOL, dossier.gpu_core, "false"),
	NUM("dossier.per_hour", KEY_COUNT, dossier.per_hour, "20", 1, true),
	NUM("dossier.keep", KEY_COUNT, dossier.keep, "20", 1, false),
	NUM("dossier.total_size", KEY_SIZE, dossier.total_size, "1G", 1 << 20, false),
	KEY("metrics.listen", KEY_TEXT, metrics.listen, "127.0.0.1:9464"),
	KEY("metrics.memory", KEY_BOOL, metrics.memory, "true"),
	NUM("metrics.max_series", KEY_COUNT, metrics.max_series, "20000", 100, false),
	NUM("metrics.max_counts", KEY_COUNT, metrics.max_counts, "32768", 1024, false),
	NUM("metrics.max_tasks", KEY_COUNT, metrics.max_tasks, "8192", 256, false),
	NUM("gpu_stats.interval", KEY_TIME, gpu_stats.interval_ns, "0",
	    GPU_STATS_MIN_MS * 1000000ull, true),
	KEY("gpu_stats.dcgm", KEY_BOOL, gpu_stats.dcgm, "true"),
	NUM("gpu_metrics.rate", KEY_COUNT, gpu_metrics.rate, "0", 1, true),
	NUM("profiles.interval", KEY_TIME, profiles.interval_ns, "0", 1000000000, true),
	KEY("profiles.files", KEY_BOOL, profiles.files, "true"),
	KEY("profiles.native", KEY_BOOL, profiles.native, "true"),
	KEY("profiles.iterations", KEY_TEXT, profiles.iterations, ""),
	KEY("otlp.endpoint", KEY_TEXT, otlp.endpoint, ""),
	KEY("otlp.headers_file", KEY_TEXT, otlp.headers_file, ""),
	KEY("otlp.gzip", KEY_BOOL, otlp.gzip, "false"),
	KEY("otlp.profiles", KEY_BOOL, otlp.profiles, "false"),
	KEY("otlp.slow_call", KEY_TIME, otlp.slow_call_ns, "10ms"),
	KEY("otlp.iterations", KEY_TEXT, otlp.iterations, ""),
	NUM("otlp.interval", KEY_TIME, otlp.interval_ns, "15s", 1000000000, false),
	NUM("otlp.queue", KEY_COUNT, otlp.queue, "4096", 16, false),
	KEY("ctl.socket", KEY_TEXT, ctl.socket, "/run/cudatrace/ctl.sock"),
	KEY("ctl.group", KEY_TEXT, ctl.group, ""),
};
#define KEY_CNT (sizeof(keys) / sizeof(keys[0]))

void config_wrong(const struct place *at, const char *fmt, ...)
{
	struct config_errors *e = at->errors;
	size_t len = strlen(e->text);
	va_list args;

	e->cnt++;
	if (at->line)
		len += snprintf(e->text + len, sizeof(e->text) - len, "%s:%u: ", at->file,
				at->line);
	else
		len += snprintf(e->text + len, sizeof(e->text) - len, "%s: ", at->file);
	if (len >= sizeof(e->text))
		return;
	va_start(args, fmt);
	len += vsnprintf(e->text + len, sizeof(e->text) - len, fmt, args);
	va_end(args);
	if (len + 1 < sizeof(e->text))
		strcpy(e->text + len, "\n");
}

/* Values */

bool config_set_text(char **to, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return false;
	free(*to);
	*to = copy;
	return true;
}

static int read_bool(const char *text, bool *x)
{
	if (!strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on"))
		*x = true;
	else if (!strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off"))
		*x = false;
	else
		return -EINVAL;
	return 0;
}

static int read_compress(const char *text, enum compression *x)
{
	for (int i = 0; i < COMPRESS_CNT; i++) {
		if (!strcmp(text, compression_name(i))) {
			*x = i;
			return 0;
		}
	}
	return -EINVAL;
}

int config_read_level(const char *text, enum proc_level *x)
{
	int level = proc_level_by_name(text);

	if (level < 0)
		return -EINVAL;
	*x = level;
	return 0;
}

static const char *const redact_names[] = {
	[CT_REDACT_NOTHING] = "none",
	[CT_REDACT_STRINGS] = "strings",
	[CT_REDACT_ARGS] = "arguments",
};

static int read_redact(const char *text, enum ct_redact *x)
{
	for (unsigned i = 0; i < sizeof(redact_names) / sizeof(redact_names[0]); i++) {
		if (!strcmp(text, redact_names[i])) {
			*x = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_detail(const char *text, enum api_detail *x)
{
	int d = *text ? detail_by_name(text) : DETAIL_UNSET;

	if (d < 0)
		return -EINVAL;
	*x = d;
	return 0;
}

static int read_gpu_time(const char *text, enum ct_gpu_time *x)
{
	int mode = strcmp(text, "off") ? gpu_time_by_name(text) : CT_GPU_TIME_OFF;

	if (mode < 0)
		return -EINVAL;
	*x = mode;
	return 0;
}

_Static_assert(WORKERS_THREADS_MAX == 15, "update how_to");

static int read_writers(const char *text, int *x)
{
	uint64_t cnt;

	if (!strcmp(text, "auto")) {
		*x = CONFIG_FORMAT_THREADS_AUTO;
		return 0;
	}
	if (opt_read_u64(text, &cnt) || cnt > WORKERS_THREADS_MAX)
		return -EINVAL;
	*x = cnt;
	return 0;
}

/* How to write a value of each type. */
static const char *const how_to[] = {
	[KEY_BOOL] = "true or false",
	[KEY_TEXT] = "a text",
	[KEY_TIME] = "a time with its unit, as in 500ms, 5s, 10m, 1h",
	[KEY_SIZE] = "a size, as in 64M or 4G",
	[KEY_COUNT] = "a number",
	[KEY_LEVEL] = "one of off, metrics, trace, sampled",
	[KEY_COMPRESS] = "one of none, gzip, zstd",
	[KEY_REDACT] = "one of none, strings, arguments",
	[KEY_DETAIL] = "one of low, normal, high, all",
	[KEY_GPU_TIME] = "one of off, graphs, nodes",
	[KEY_FORMAT_THREADS] = "auto, or a number of threads from 0 to 15",
};

const char *config_how_to(enum key_type type)
{
	return how_to[type];
}

static int read_value(const struct key *k, void *to, const char *text, uint64_t *num)
{
	switch (k->type) {
	case KEY_BOOL:
		return read_bool(text, to);
	case KEY_TEXT:
		return config_set_text(to, text) ? 0 : -ENOMEM;
	case KEY_TIME:
		/* A number without a unit is ambiguous. */
		if (strcmp(text, "0") && !text[strspn(text, "0123456789.")])
			return -EINVAL;
		return opt_read_time(text, 1000000000, num);
	case KEY_SIZE:
		return opt_read_size(text, num);
	case KEY_COUNT:
		return opt_read_u64(text, num);
	case KEY_LEVEL:
		return config_read_level(text, to);
	case KEY_COMPRESS:
		return read_compress(text, to);
	case KEY_REDACT:
		return read_redact(text, to);
	case KEY_DETAIL:
		return read_detail(text, to);
	case KEY_GPU_TIME:
		return read_gpu_time(text, to);
	case KEY_FORMAT_THREADS:
		return read_writers(text, to);
	}
	return -EINVAL;
}

void config_set_value(struct config *c, const struct key *k, const char *text,
		      const struct place *at)
{
	void *to = (char *)c + k->off;
	uint64_t num = 0;
	int ret = read_value(k, to, text, &num);

	if (ret == -ENOMEM) {
		config_wrong(at, "%s: out of memory", k->path);
		return;
	}
	if (ret) {
		config_wrong(at, "%s: '%s' is not understood; write %s", k->path, text,
			     how_to[k->type]);
		return;
	}
	if (k->type != KEY_TIME && k->type != KEY_SIZE && k->type != KEY_COUNT)
		return;
	if (num < k->min && !(k->zero_ok && !num)) {
		config_wrong(at, "%s: %s is too small; the default is %s", k->path, text,
			     k->preset);
		return;
	}
	memcpy(to, &num, sizeof(num));
}

const struct key *config_find_key(const char *path)
{
	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (!strcmp(keys[i].path, path))
			return &keys[i];
	}
	return NULL;
}

bool config_is_group(const char *path)
{
	size_t len = strlen(path);

	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (!strncmp(keys[i].path, path, len) && keys[i].path[len] == '.')
			return true;
	}
	return false;
}

void config_unknown_key(const char *path, const struct place *at)
{
	unsigned best = str_distance_limit(strlen(path)) + 1;
	const char *near = NULL;

	for (unsigned i = 0; i < KEY_CNT; i++) {
		unsigned d = str_distance(path, strlen(path), keys[i].path, strlen(keys[i].path));

		if (d < best) {
			best = d;
			near = keys[i].path;
		}
	}
	if (near)
		config_wrong(at, "%s: there is no such key; did you mean %s?", path, near);
	else
		config_wrong(
			at,
			"%s: there is no such key; cudatrace daemon --check-config --config /dev/null lists all",
			path);
}

bool config__set(struct config *c, const char *assignment, struct config_errors *errors)
{
	struct place at = {.file = "--set", .errors = errors};
	const char *eq = strchr(assignment, '=');
	unsigned before = errors->cnt;
	char path[128];

	if (!eq || eq == assignment || eq - assignment >= (long)sizeof(path)) {
		config_wrong(&at, "'%s': write KEY=VALUE, as in --set level=trace", assignment);
		return false;
	}
	memcpy(path, assignment, eq - assignment);
	path[eq - assignment] = '\0';
	if (config_find_key(path))
		config_set_value(c, config_find_key(path), eq + 1, &at);
	else
		config_unknown_key(path, &at);
	return errors->cnt == before;
}

/* A dump needs up to recorder.memory, in addition to the file that is being written. */
static void check_dump_fits(const struct config *c, struct place *at)
{
	uint64_t file = rotate_file_room(c->files.rotate_size, c->files.compress);
	char memory[32], size[32], total[32];

	if (c->recorder.memory + file <= c->files.total_size)
		return;
	opt_write_size(c->recorder.memory, memory, sizeof(memory));
	opt_write_size(c->files.rotate_size, size, sizeof(size));
	opt_write_size(c->files.total_size, total, sizeof(total));
	config_wrong(
		at,
		"recorder.memory (%s) and a file (files.rotate_size, %s, and 192 KiB) do not fit into "
		"files.total_size (%s): lower recorder.memory, or set recorder.seconds to 0",
		memory, size, total);
}

bool config__check(const struct config *c, const char *name, struct config_errors *errors)
{
	struct place at = {.file = name, .errors = errors};
	unsigned before = errors->cnt;
	const char *l = c->metrics.listen, *e = c->otlp.endpoint;

	if (*l && (!strrchr(l, ':') || !strrchr(l, ':')[1]))
		config_wrong(&at, "metrics.listen: '%s' has no port; write it as 127.0.0.1:9464",
			     l);
	if (*e && otlp_endpoint_problem(e))
		config_wrong(&at, "otlp.endpoint: '%s': %s", e, otlp_endpoint_problem(e));
	/* The user of ctl may not have permission to read it. */
	if (*c->otlp.headers_file && access(c->otlp.headers_file, F_OK) && errno != EACCES)
		config_wrong(&at, "otlp.headers_file: %s cannot be read: %s", c->otlp.headers_file,
			     strerror(errno));
	if (c->files.rotate_size > c->files.total_size / 2)
		config_wrong(&at, "files.rotate_size must be at most half of files.total_size");
	else if (c->recorder.keep_ns)
		check_dump_fits(c, &at);
	if (c->dossier.per_hour > DOSSIERS_HOUR_MAX)
		config_wrong(&at, "dossier.per_hour must be at most %d", DOSSIERS_HOUR_MAX);
	if (c->gpu_stats.interval_ns > GPU_STATS_MAX_MS * 1000000ull)
		config_wrong(&at, "gpu_stats.interval must be at most %ds",
			     GPU_STATS_MAX_MS / 1000);
	if (c->gpu_metrics.rate > GPU_METRICS_MAX_HZ)
		config_wrong(&at, "gpu_metrics.rate must be at most %d", GPU_METRICS_MAX_HZ);
	if (c->trace.buffer_size & (c->trace.buffer_size - 1))
		config_wrong(&at, "trace.buffer_size must be a power of two, as in 8M");
	if (c->trace.gpu_burst && !c->trace.inject)
		config_wrong(&at, "trace.gpu_burst needs trace.inject: true");
	for (unsigned i = 0; i < c->rule_cnt; i++)
		if (c->rules[i].inject && !c->trace.inject)
			config_wrong(&at, "rules: inject in line %u needs trace.inject: true",
				     c->rules[i].line);
	if (config__has_listener(c) && (c->trace.inject_folder[0] != '/' ||
					strlen(c->trace.inject_folder) > INJECT_FOLDER_MAX))
		config_wrong(&at,
			     "trace.inject_folder: '%s' must be a path from / of at most %d bytes: "
			     "programs load the library from there",
			     c->trace.inject_folder, INJECT_FOLDER_MAX);
	if (c->trace.redact == CT_REDACT_ARGS &&
	    (c->sample.on.memory_above || c->recorder.on.memory_above))
		config_wrong(
			&at,
			"memory_above needs sizes, and trace.redact: arguments hides them; set "
			"one of the two to 0 or none");
	if (c->sample.every_ns && c->sample.every_ns < c->sample.trace_ns)
		config_wrong(&at, "sample.every must be longer than sample.trace");
	return errors->cnt == before;
}

static bool is_same(const struct key *k, const void *a, const void *b)
{
	switch (k->type) {
	case KEY_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case KEY_TEXT:
		return !strcmp(*(char *const *)a, *(char *const *)b);
	case KEY_TIME:
	case KEY_SIZE:
	case KEY_COUNT:
		return *(const uint64_t *)a == *(const uint64_t *)b;
	default: /* an enum or int */
		return *(const int *)a == *(const int *)b;
	}
}

void config__compare(const struct config *a, const struct config *b,
		     void (*differs)(void *ctx, const char *key), void *ctx)
{
	for (unsigned i = 0; i < KEY_CNT; i++)
		if (!is_same(&keys[i], (const char *)a + keys[i].off,
			     (const char *)b + keys[i].off))
			differs(ctx, keys[i].path);
}

void config__print(const struct config *c,
		   void (*line)(void *ctx, const char *key, const char *val), void *ctx)
{
	for (unsigned i = 0; i < KEY_CNT; i++) {
		const void *p = (const char *)c + keys[i].off;
		char buf[64];

		switch (keys[i].type) {
		case KEY_BOOL:
			line(ctx, keys[i].path, *(const bool *)p ? "true" : "false");
			break;
		case KEY_TEXT:
			line(ctx, keys[i].path, *(char *const *)p);
			break;
		case KEY_TIME:
			snprintf(buf, sizeof(buf), "%gs", *(const uint64_t *)p / 1e9);
			line(ctx, keys[i].path, buf);
			break;
		case KEY_SIZE:
			opt_write_size(*(const uint64_t *)p, buf, sizeof(buf));
			line(ctx, keys[i].path, buf);
			break;
		case KEY_COUNT:
			snprintf(buf, sizeof(buf), "%llu",
				 (unsigned long long)*(const uint64_t *)p);
			line(ctx, keys[i].path, buf);
			break;
		case KEY_LEVEL:
			line(ctx, keys[i].path, proc_level_name(*(const enum proc_level *)p));
			break;
		case KEY_COMPRESS:
			line(ctx, keys[i].path, compression_name(*(const enum compression *)p));
			break;
		case KEY_REDACT:
			line(ctx, keys[i].path, redact_names[*(const enum ct_redact *)p]);
			break;
		case KEY_DETAIL:
			line(ctx, keys[i].path, detail_name(*(const enum api_detail *)p) ?: "");
			break;
		case KEY_GPU_TIME:
			line(ctx, keys[i].path,
			     gpu_time_name(*(const enum ct_gpu_time *)p) ?: "off");
			break;
		case KEY_FORMAT_THREADS:
			snprintf(buf, sizeof(buf), "%d", *(const int *)p);
			line(ctx, keys[i].path,
			     *(const int *)p == CONFIG_FORMAT_THREADS_AUTO ? "auto" : buf);
			break;
		}
	}
}

struct config *config__new(void)
{
	struct config *c = calloc(1, sizeof(*c));
	struct config_errors errors = {0};
	struct place at = {.file = "default", .errors = &errors};

	for (unsigned i = 0; c && i < KEY_CNT; i++)
		config_set_value(c, &keys[i], keys[i].preset, &at);
	if (c && errors.cnt) {
		config__free(c);
		return NULL;
	}
	return c;
}

void config__free(struct config *c)
{
	if (!c)
		return;
	config_free_rules(c);
	for (unsigned i = 0; i < KEY_CNT; i++) {
		if (keys[i].type == KEY_TEXT)
			free(*(char **)((char *)c + keys[i].off));
	}
	free(c);
}
