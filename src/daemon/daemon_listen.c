/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The port of metrics.listen. Any user can listen on it first, so the daemon also runs without it,
 * and tries again. */
#include "daemon_priv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "listener.h"
#include "notify.h"
#include "util/log.h"

bool daemon__resolve(const struct config *c, struct listen_address *a, char *why, size_t size)
{
	*a = (struct listen_address){0};
	return !*c->metrics.listen || listener__resolve(c->metrics.listen, a, why, size);
}

void daemon__listen_problem(const struct daemon *d, char *text, size_t size)
{
	const char *advice =
		d->listen_error == -EACCES
			? "restart the daemon to listen on a port below 1024"
			: "stop the program that listens there, or choose another port";

	snprintf(text, size, "metrics.listen: cannot listen on %s: %s: %s", d->cfg->metrics.listen,
		 strerror(-d->listen_error), advice);
}

void daemon__listen(struct daemon *d, const struct listen_address *a)
{
	char text[256], state[300];

	d->listen_error = http__listen(d->http, a);
	if (d->listen_error) {
		daemon__listen_problem(d, text, sizeof(text));
		warn("%s; the daemon traces without it, and tries again every second", text);
	}
	snprintf(state, sizeof(state), "STATUS=%s", d->listen_error ? text : "");
	notify(state);
}

void daemon__listen_tick(struct daemon *d)
{
	if (!d->listen_error)
		return;
	d->listen_error = http__retry(d->http);
	if (d->listen_error)
		return;
	info("metrics on %s", d->cfg->metrics.listen);
	notify("STATUS=");
}
