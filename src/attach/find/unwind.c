/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "unwind.h"

#include "cfi.h"
#include "elf_file.h"
#include "target.h"

#include "util/order.h"
#include "util/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAPS_SZ_MAX   (64u << 20)
#define LINES_AT_ONCE 256
#define PLACES_MAX    16384
#define FILES_MAX     64 /* maximum files opened for one process */

struct place {
	uint64_t start, end, off;
	struct ct_lib_key key;
	char *path;
	struct elf_file *f; /* NULL: not tried yet, or unusable */
	struct cfi cfi;
	uint64_t bias;
	bool tried;
};

struct unwinder {
	pid_t pid;
	struct place *places; /* executable mappings, in order */
	unsigned cnt, file_cnt;
	char why[128]; /* error of the last invalid file: not reported */
	bool unread;   /* a part of the stack could not be read */
};

static bool add_place(struct unwinder *u, const struct map_line *m)
{
	struct place *grown;

	if (u->cnt % 64 == 0) {
		grown = reallocarray(u->places, u->cnt + 64, sizeof(*grown));
		if (!grown)
			return false;
		u->places = grown;
	}
	u->places[u->cnt] = (struct place){
		.start = m->start,
		.end = m->end,
		.off = m->off,
		.key = m->key,
		.path = strdup(m->path),
	};
	return u->places[u->cnt++].path && u->cnt < PLACES_MAX;
}

struct unwinder *unwinder__new(pid_t pid)
{
	struct unwinder *u = calloc(1, sizeof(*u));
	int fd = u ? reader__copy(pid, "maps", MAPS_SZ_MAX) : -1;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	struct map_line m;
	char *line = NULL;
	size_t size = 0;

	if (!f) {
		if (fd >= 0)
			close(fd);
		free(u);
		return NULL;
	}
	u->pid = pid;
	/* Without time left, callers in further mappings are unknown. */
	for (unsigned i = 1; getline(&line, &size, f) >= 0; i++)
		if ((!(i % LINES_AT_ONCE) && !time_budget__has_time()) ||
		    (target_parse_file_line(line, &m) && m.exec && !add_place(u, &m)))
			break;
	free(line);
	fclose(f);
	return u;
}

static void close_file(struct place *p)
{
	if (!p->f)
		return;
	close(p->f->fd);
	elf_file__free(p->f);
	p->f = NULL;
}

void unwinder__free(struct unwinder *u)
{
	if (!u)
		return;
	for (unsigned i = 0; i < u->cnt; i++) {
		close_file(&u->places[i]);
		free(u->places[i].path);
	}
	free(u->places);
	free(u);
}

static struct place *place_of(struct unwinder *u, uint64_t addr)
{
	unsigned n = COUNT_LEADING(i, u->cnt, u->places[i].end <= addr);

	return n < u->cnt && u->places[n].start <= addr ? &u->places[n] : NULL;
}

static void open_file(struct unwinder *u, struct place *p)
{
	const struct map_line m = {
		.start = p->start, .end = p->end, .key = p->key, .path = p->path};
	int fd;

	p->tried = true;
	if (u->file_cnt++ >= FILES_MAX)
		return;
	fd = target_open_mapped(&m, u->pid);
	if (fd < 0)
		return;
	p->f = calloc(1, sizeof(*p->f));
	if (!p->f) {
		close(fd);
		return;
	}
	*p->f = (struct elf_file){
		.fd = fd, .program = true, .err = u->why, .err_size = sizeof(u->why)};
	if (elf_file__read_segments(p->f) || !elf_file_bias(p->f, p->start, p->off, &p->bias) ||
	    !cfi__open(&p->cfi, p->f))
		close_file(p);
}

/* Reads two words of the stack: the return address (the original if a return probe replaced it),
 * and another, or 0. */
static bool read_words(struct unwinder *u, const struct unwind_at *at, uint64_t ret, uint64_t other,
		       uint64_t *ip, uint64_t *word)
{
	struct reader_range ranges[] = {{.addr = ret, .len = 8}, {.addr = other, .len = 8}};
	unsigned cnt = 1 + (other != 0);
	uint64_t words[2];

	if (reader__memory(u->pid, ranges, cnt, (uint8_t *)words) || ranges[0].got != 8 ||
	    (other && ranges[1].got != 8)) {
		u->unread = true;
		return false;
	}
	*ip = words[0];
	for (unsigned i = 0; i < at->ret_cnt; i++)
		if (at->rets[i].at == ret)
			*ip = at->rets[i].ip;
	if (other)
		*word = words[1];
	return true;
}

/* Steps to the caller's frame. Returns false if it is unknown, or if there is none, which sets
 * out->whole. */
static bool step(struct unwinder *u, struct unwind_at *at, bool innermost, struct call_chain *out)
{
	/* Use the call before a return address: the address itself may be the next function's first
	 * byte. */
	uint64_t ip = at->ip - !innermost, end, fp = at->fp;
	struct place *p = place_of(u, ip);
	struct cfi_frame frame;

	if (!p)
		return false;
	if (!p->tried)
		open_file(u, p);
	if (!p->f || !cfi__find(&p->cfi, ip - p->bias, &frame))
		return false;
	if (frame.last) {
		out->whole = true;
		return false;
	}
	if (frame.by_fp && !at->has_fp)
		return false;
	end = (frame.by_fp ? at->fp : at->sp) + frame.off;
	/* Stacks only grow, and words are 8-byte aligned. */
	if (end <= at->sp || end % 8 ||
	    !read_words(u, at, end - 8, frame.fp == CFI_SAVED ? end + (uint64_t)frame.fp_off : 0,
			&at->ip, &fp))
		return false;
	at->has_fp = frame.fp == CFI_SAVED || (frame.fp == CFI_SAME && at->has_fp);
	at->fp = fp;
	at->sp = end;
	out->ends[out->cnt - 1] = end;
	/* glibc before 2.26 and musl start a program with this. */
	out->whole = !at->ip;
	return at->ip && place_of(u, at->ip - 1);
}

static void follow(struct unwinder *u, struct unwind_at at, struct call_chain *out)
{
	do
		out->ips[out->cnt++] = at.ip;
	while (step(u, &at, out->inside && out->cnt == 1, out) && out->cnt < CT_STACK_MAX);
}

bool unwinder__follow(struct unwinder *u, const struct unwind_at *at, struct call_chain *out)
{
	*out = (struct call_chain){.inside = true};
	u->unread = false;
	follow(u, *at, out);
	return out->cnt > 1 || !u->unread;
}

bool unwinder__callers(struct unwinder *u, const struct unwind_at *at, struct call_chain *out)
{
	struct unwind_at caller = *at;

	*out = (struct call_chain){0};
	if (!read_words(u, at, at->sp, 0, &caller.ip, NULL) || !place_of(u, caller.ip - 1))
		return false;
	caller.sp += 8;
	caller.has_fp = false;
	follow(u, caller, out);
	return true;
}

void unwound_common(struct call_chain *first, const struct call_chain *second)
{
	unsigned i = first->cnt, j = second->cnt, from = j;

	if (!first->whole || !second->whole)
		i = 0;
	while (i && j && first->ends[i - 1] == second->ends[j - 1]) {
		from = --j;
		/* Called from the same place; frames further in may differ. */
		if (first->ips[--i] != second->ips[j])
			break;
	}
	first->cnt = second->cnt - from;
	first->inside = !from && second->inside;
	memcpy(first->ips, second->ips + from, first->cnt * sizeof(first->ips[0]));
	memcpy(first->ends, second->ends + from, first->cnt * sizeof(first->ends[0]));
	first->whole &= first->cnt > 0;
}
