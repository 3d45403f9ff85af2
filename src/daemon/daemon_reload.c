/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The configuration: read at the start, and again while running. */
#include "daemon_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "notify.h"
#include "util/clock.h"
#include "util/log.h"

static bool check_functions(const struct config *c, struct config_errors *errors)
{
	struct fnset *fns = fnset__new();
	size_t len = strlen(errors->text);
	char why[512];
	int ret = 0;

	if (fns && *c->trace.functions)
		ret = fnset__select(fns, c->trace.functions, why, sizeof(why));
	fnset__free(fns);
	if (!ret)
		return true;
	snprintf(errors->text + len, sizeof(errors->text) - len, "trace.functions: %s\n", why);
	errors->cnt++;
	return false;
}

struct config *daemon_config(const struct daemon_opts *o, struct config_errors *errors)
{
	const char *path = o->config ?: access(DAEMON_CONFIG, F_OK) ? NULL : DAEMON_CONFIG;
	struct config *c = config__new();

	if (!c)
		return NULL;
	if (path)
		config__read_file(c, path, errors);
	for (unsigned i = 0; i < o->set_cnt; i++)
		config__set(c, o->sets[i], errors);
	if (!errors->cnt && config__check(c, path ?: "configuration", errors) &&
	    check_functions(c, errors))
		return c;
	config__free(c);
	return NULL;
}

/* What is made once, at the start. */
static void tell_restart(const struct daemon *d, const struct config *was)
{
	const struct config *c = d->cfg;
	const struct {
		const char *key;
		bool changed;
	} keys[] = {
		{"trace.functions", strcmp(was->trace.functions, c->trace.functions)},
		{"trace.detail", was->trace.detail != c->trace.detail},
		{"trace.kernel", was->trace.kernel != c->trace.kernel},
		{"trace.gpu_ctxsw", was->trace.gpu_ctxsw != c->trace.gpu_ctxsw},
		{"trace.gpu_wait_size", was->trace.gpu_wait_size != c->trace.gpu_wait_size},
		{"trace.buffer_size", was->trace.buffer_size != c->trace.buffer_size},
		{"metrics.max_series", was->metrics.max_series != c->metrics.max_series},
		{"metrics.max_counts", was->metrics.max_counts != c->metrics.max_counts},
		{"metrics.max_tasks", was->metrics.max_tasks != c->metrics.max_tasks},
		{"gpu_stats.interval", was->gpu_stats.interval_ns != c->gpu_stats.interval_ns},
		{"otlp.endpoint", strcmp(was->otlp.endpoint, c->otlp.endpoint)},
		{"otlp.headers_file", strcmp(was->otlp.headers_file, c->otlp.headers_file)},
		{"otlp.gzip", was->otlp.gzip != c->otlp.gzip},
		{"otlp.interval", was->otlp.interval_ns != c->otlp.interval_ns},
		{"otlp.queue", was->otlp.queue != c->otlp.queue},
		{"ctl.socket", strcmp(was->ctl.socket, c->ctl.socket)},
		/* The process that runs it is made before we give up making any. */
		{"files.on_rotate", !d->runner && *c->files.on_rotate},
	};

	for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].changed)
			warn("%s has changed: that takes a restart", keys[i].key);
}

static void reload_http(struct daemon *d, const struct config *was)
{
	const struct http_ops ops = {daemon__print_metrics, daemon__is_healthy, d};
	struct http *http = NULL;

	if (!strcmp(was->metrics.listen, d->cfg->metrics.listen))
		return;
	if (*d->cfg->metrics.listen) {
		http = http__new(d->base, d->cfg->metrics.listen, &ops);
		if (!http)
			return; /* the old one goes on */
	}
	http__free(d->http);
	d->http = http;
}

static void reload_recorder(struct daemon *d, const struct config *was)
{
	const struct config *c = d->cfg;

	if (was->recorder.keep_ns == c->recorder.keep_ns &&
	    was->recorder.after_ns == c->recorder.after_ns &&
	    was->recorder.memory == c->recorder.memory)
		return;
	recorder__free(d->recorder);
	d->recorder = daemon__new_recorder(c);
}

static void apply(struct daemon *d, struct config *was)
{
	struct rotate_opts ro;

	d->procs.cfg = d->cfg;
	daemon__set_always(d);
	daemon__set_markers(d);
	sources__set_default(&d->t.sources, daemon__default_level(d));
	dprocs__reload(&d->procs);
	runner__reload(d->runner);
	ro = daemon__rotate_opts(d);
	rotate__reload(d->rotate, &ro, d->now);
	reload_http(d, was);
	reload_recorder(d, was);
	ctl__set_group(d->ctl, d->cfg->ctl.group);
	daemon__drop_libs(d);
	tell_restart(d, was);
}

bool daemon__reload(struct daemon *d, char *why, size_t size)
{
	struct config_errors errors = {0};
	struct config *c, *was = d->cfg;
	char state[64];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)now_ns() / 1000);
	notify(state);
	c = daemon_config(d->o, &errors);
	if (c && c->trace.hide != was->trace.hide) {
		/* Not the rest of it either: who hides something means it at once. */
		snprintf(errors.text, sizeof(errors.text),
			 "trace.hide has changed: that takes a restart; nothing else is taken "
			 "over until then");
		config__free(c);
		c = NULL;
	}
	if (!c) {
		d->reload_failures++;
		snprintf(why, size, "%.*s", (int)strcspn(errors.text, "\n"), errors.text);
		err("the configuration is not changed: %s", why);
	} else {
		d->cfg = c;
		apply(d, was);
		config__free(was);
		d->reloads++;
		info("configuration read");
	}
	notify("READY=1");
	return c != NULL;
}
