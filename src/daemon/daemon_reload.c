/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the configuration: at the start, and again while running. */
#include "daemon_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "listener.h"
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

/* Returns whether the key configures something created once, at the start. The process that runs
 * files.on_rotate starts before the sandbox forbids it. */
static bool takes_restart(const struct daemon *d, const char *key)
{
	static const char *const made_once[] = {
		"trace.", "metrics.max_", "gpu_stats.interval",	  "gpu_metrics.",
		"otlp.",  "ctl.socket",	  "files.format_threads", "profiles."};

	if (!strcmp(key, "otlp.slow_call") || !strcmp(key, "otlp.iterations") ||
	    !strcmp(key, "profiles.files"))
		return false;
	for (unsigned i = 0; i < sizeof(made_once) / sizeof(made_once[0]); i++)
		if (!strncmp(key, made_once[i], strlen(made_once[i])))
			return true;
	return !strcmp(key, "files.on_rotate") && !d->runner && *d->cfg->files.on_rotate;
}

static void on_changed(void *ctx, const char *key)
{
	if (takes_restart(ctx, key))
		warn("%s has changed: restart the daemon to apply it", key);
}

static void reload_recorder(struct daemon *d, const struct config *was)
{
	const struct config *c = d->cfg;

	if (was->recorder.keep_ns == c->recorder.keep_ns &&
	    was->recorder.after_ns == c->recorder.after_ns &&
	    was->recorder.memory == c->recorder.memory &&
	    was->dossier.on_hang == c->dossier.on_hang)
		return;
	recorder__free(d->recorder);
	d->recorder = daemon__new_recorder(c);
}

static void apply(struct daemon *d, struct config *was, const struct listen_address *a)
{
	struct rotate_opts ro;

	d->procs.cfg = d->cfg;
	daemon__set_always(d);
	daemon__set_markers(d);
	sources__set_default(&d->t.sources, daemon__default_level(d));
	dprocs__reload(&d->procs);
	runner__reload(d->runner);
	formatter__wait_idle(d->formatter);
	formatter__set_frames(d->formatter, daemon__wants_frames(d->cfg));
	ro = daemon__rotate_opts(d);
	rotate__reload(d->rotate, &ro, d->now);
	if (strcmp(was->metrics.listen, d->cfg->metrics.listen))
		daemon__listen(d, a);
	reload_recorder(d, was);
	ctl__set_group(d->ctl, d->cfg->ctl.group);
	daemon__drop_libs(d);
	libs__look_again(&d->t.libs, d->now);
	config__compare(was, d->cfg, on_changed, d);
}

bool daemon__reload(struct daemon *d, char *why, size_t size)
{
	struct config_errors errors = {0};
	struct config *c, *was = d->cfg;
	struct listen_address a = {0};
	char state[64];

	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)now_ns() / 1000);
	notify(state);
	c = daemon_config(d->o, &errors);
	if (c && c->trace.redact != was->trace.redact) {
		/* No other change is applied either: redaction must apply at once. */
		snprintf(errors.text, sizeof(errors.text),
			 "trace.redact has changed: restart the daemon to apply it; until then no "
			 "other change is applied");
		config__free(c);
		c = NULL;
	}
	if (c && strcmp(was->metrics.listen, c->metrics.listen) &&
	    !daemon__resolve(c, &a, errors.text, sizeof(errors.text))) {
		config__free(c);
		c = NULL;
	}
	if (!c) {
		d->reload_failures++;
		snprintf(why, size, "%.*s", (int)strcspn(errors.text, "\n"), errors.text);
		log_seldom(LOG_ERR,
			   "cannot apply the new configuration, the old one stays in effect: %s",
			   why);
	} else {
		d->cfg = c;
		apply(d, was, &a);
		config__free(was);
		d->reloads++;
		log_seldom(LOG_INFO, "configuration read%s", "");
	}
	d->reloaded_ns = now_ns();
	notify("READY=1");
	return c != NULL;
}

bool daemon__has_just_reloaded(const struct daemon *d)
{
	return d->reloaded_ns && now_ns() - d->reloaded_ns < SEC_NS;
}

void daemon__hangup(struct daemon *d)
{
	char why[512];

	d->reload_requested = daemon__has_just_reloaded(d);
	if (!d->reload_requested)
		daemon__reload(d, why, sizeof(why));
}
