/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "metrics.h"

#include "ct_limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/hash_table.h"

#include "decode/nv/nv_decode.h"
#include "model/call.h"
#include "model/gpu_busy.h"
#include "metrics_priv.h"
#include "util/plain.h"

/* Series guaranteed to a target; it gets more only while half of all are free. */
#define SERIES_SHARE 512

bool metrics__take(struct metrics *m, struct metrics_target *t, unsigned n)
{
	if (m->series + n > m->max_series ||
	    !ct_limit_more(t->series, n, SERIES_SHARE, m->series, m->max_series)) {
		m->rejected++;
		return false;
	}
	m->series += n;
	t->series += n;
	return true;
}

void *metrics__made(struct metrics *m, struct metrics_target *t, unsigned n, void *row)
{
	if (row)
		return row;
	m->series -= n;
	t->series -= n;
	m->rejected++;
	return NULL;
}

const char *const metrics_gpu_lost[METRICS_GPU_LOST] = {"dropped", "untimed", "lost"};

struct metrics *metrics__new(uint64_t max_series)
{
	struct metrics *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->max_series = max_series;
	m->others.key.command = m->others_name;
	strcpy(m->others_name, "(others)");
	m->others.key.namespace = m->others.key.pod = m->others.key.container = "";
	return m;
}

static void free_target(struct metrics_target *t)
{
	fn_metrics_table__free(&t->fns);
	error_metrics_table__free(&t->errors);
	cmd_metrics_table__free(&t->cmds);
	gpu_metrics_table__free(&t->resident_on);
	run_metrics_table__free(&t->runs);
	coll_metrics_table__free(&t->colls);
	for (int api = 0; api < API_CNT; api++)
		for (int class = 0; class < CLASS_CNT; class ++)
			free(t->durations[api][class]);
	free(t->gpus);
}

void metrics__free(struct metrics *m)
{
	struct metrics_target *t;

	if (!m)
		return;
	while ((t = metrics_target_table__pop(&m->targets))) {
		free_target(t);
		free(t->text);
		free(t);
	}
	free_target(&m->others);
	free(m);
}

/* The labels that identify a target. In a pod the container's id changes at each restart, its name
 * does not. */
static struct target_key key_of(const struct labels *l, const char *comm)
{
	return (struct target_key){
		.namespace = l->namespace,
		.pod = l->pod[0] ? l->pod : l->pod_uid,
		.container = l->container_name[0] ? l->container_name : l->container,
		.command = comm,
	};
}

/* Packs the texts, each with its NUL, as the key of the table. They come from programs and are made
 * valid for all outputs; two names never become one. */
static char *pack(struct target_key *k, size_t *len)
{
	const char **parts[] = {&k->namespace, &k->pod, &k->container, &k->command};
	char *text, *p;

	*len = 0;
	for (int i = 0; i < 4; i++)
		*len += PLAIN_NAME_MAX(strlen(*parts[i]));
	text = p = malloc(*len);
	if (!text)
		return NULL;
	for (int i = 0; i < 4; i++) {
		size_t n = plain_name(p, *parts[i]) + 1;

		*parts[i] = p;
		p += n;
	}
	*len = p - text;
	return text;
}

/* Drops the target that has had no process for the longest time: pods come and go. */
static bool drop_ended(struct metrics *m)
{
	struct metrics_target *oldest = NULL;

	hash_each (t, &m->targets) {
		if (!t->processes && (!oldest || t->ended < oldest->ended))
			oldest = t;
	}
	if (!oldest)
		return false;
	m->series -= SERIES_OF_A_TARGET + oldest->series;
	metrics_target_table__del(&m->targets, oldest);
	free_target(oldest);
	free(oldest->text);
	free(oldest);
	return true;
}

/* text: what key points to; owned by the target from now on. */
static struct metrics_target *make_target(struct metrics *m, struct target_key key, char *text,
					  size_t len)
{
	struct metrics_target *t;

	while (m->series + SERIES_OF_A_TARGET > m->max_series)
		if (!drop_ended(m))
			return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->key = key;
	t->text = text;
	if (metrics_target_table__add(&m->targets, t, len)) {
		free(t);
		return NULL;
	}
	m->series += SERIES_OF_A_TARGET;
	return t;
}

/* A program may have the same name as the sum of the others. */
static bool is_others(const struct metrics *m, const struct target_key *k)
{
	return !strcmp(k->command, m->others.key.command) && !*k->namespace && !*k->pod &&
	       !*k->container;
}

struct metrics_target *metrics__get(struct metrics *m, const struct labels *l, const char *comm)
{
	struct target_key key = key_of(l, comm);
	struct metrics_target *t = NULL;
	size_t len;
	char *text = pack(&key, &len);

	if (text && is_others(m, &key))
		t = &m->others;
	else if (text)
		t = metrics_target_table__find(&m->targets, text, len);
	if (text && !t)
		t = make_target(m, key, text, len);
	if (!t || t->text != text)
		free(text);
	t = t ?: &m->others;
	t->processes++;
	return t;
}

struct metrics_target *metrics__others(struct metrics *m)
{
	return &m->others;
}

void metrics__put(struct metrics *m, struct metrics_target *t)
{
	if (t->processes && !--t->processes)
		t->ended = ++m->ended;
}

void metrics__each_fn(const struct metrics_target *t,
		      void (*fn)(void *ctx, const struct api_fn *api_fn,
				 const struct metrics_fn *f),
		      void *ctx)
{
	hash_each (f, &t->fns)
		fn(ctx, f->fn, &f->sums);
}

uint64_t metrics__launches(const struct metrics_target *t)
{
	return t->launches + t->graph_launches;
}

uint64_t metrics__copied(const struct metrics_target *t)
{
	uint64_t sum = 0;

	for (int i = COPY_NONE; i <= COPY_DIR_PEER; i++)
		sum += t->bytes[i];
	return sum;
}

uint64_t metrics__rejected(const struct metrics *m)
{
	return m->rejected;
}

static void forget_fn(struct metrics *m, struct metrics_target *t, const struct api_fn *fn)
{
	struct fn_metrics *f = fn_metrics_table__find(&t->fns, &fn);

	if (f) {
		if (*recent_fn(t, fn) == f)
			*recent_fn(t, fn) = NULL;
		fn_metrics_table__del(&t->fns, f);
		free(f);
		m->series--;
		t->series--;
	}
	hash_each (e, &t->errors) {
		if (e->key.fn != fn)
			continue;
		error_metrics_table__del(&t->errors, e);
		free(e);
		m->series--;
		t->series--;
	}
}

void metrics__forget_fn(struct metrics *m, const struct api_fn *fn)
{
	hash_each (t, &m->targets)
		forget_fn(m, t, fn);
	forget_fn(m, &m->others, fn);
}
