/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "stacks.h"

#include "modules.h"
#include "python.h"
#include "trace.h"
#include "util/hash_table.h"
#include "util/limits.h"
#include "util/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ct_record.h"

struct frame_row {
	struct hash_link link;
	uint64_t ip;
	struct stack_frame frame;
	char *symbol;
};
HASH_TABLE(frame_row, ip);

/* Interval of searches for Python. */
#define PYTHON_AGAIN_NS 1000000000ull

/* Number of addresses, the addresses, and words of struct ct_python_frame. */
#define KEY_MAX (1 + CT_STACK_MAX + CT_PYTHON_MAX * 2)

struct stack_row {
	struct hash_link link;
	uint64_t *key;	    /* stored after the frames */
	bool unread;	    /* some of its names are missing */
	struct stack stack; /* must be last: frames follow */
};
HASH_TABLE_TYPE(stack_row);
HASH_TABLE_BYTES(stack_row, key);

struct stacks {
	enum ct_redact redact;
	struct trace_python python;
	struct python_check check;
	struct module_files *files;
	uint64_t last_id;
	struct quotas *quotas;
};

struct proc_stacks {
	uint32_t pid;
	struct modules *modules;
	struct python_codes *python; /* NULL: no Python */
	size_t python_sz;	     /* its memory, in the quota */
	uint64_t python_ns;	     /* time of the last search; 0: never */
	struct stack_row_table stacks;
	struct frame_row_table frames;
	struct quota *quota; /* of bytes */
	struct quota_share share;
};

struct stacks *stacks__new(struct quotas *q, enum ct_redact redact,
			   const struct python_check *check)
{
	struct stacks *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->quotas = q;
	s->redact = redact;
	if (check)
		s->check = *check;
	s->files = module_files__new(q, redact);
	if (!s->files) {
		free(s);
		return NULL;
	}
	return s;
}

void stacks__free(struct stacks *s)
{
	if (!s)
		return;
	module_files__free(s->files);
	free(s);
}

/* Drops the stacks, but keeps the names of code objects. */
static void drop_stacks(struct proc_stacks *p)
{
	struct frame_row *frame;

	stack_row_table__free(&p->stacks);
	while ((frame = frame_row_table__pop(&p->frames))) {
		free(frame->symbol);
		free(frame);
	}
	quota__give(p->quota, &p->share, p->share.used - p->python_sz);
}

static void drop_all(struct proc_stacks *p)
{
	drop_stacks(p);
	if (p->python)
		python_codes__clear(p->python);
	p->python_sz = 0;
	quota__give(p->quota, &p->share, p->share.used);
}

void proc_stacks__forget(struct proc_stacks *p)
{
	if (p)
		drop_stacks(p);
}

void proc_stacks__free(struct proc_stacks *p)
{
	if (!p)
		return;
	drop_all(p);
	modules__free(p->modules);
	python_codes__free(p->python);
	free(p);
}

static struct proc_stacks *make(struct stacks *s, struct proc_stacks **p, uint32_t pid)
{
	if (*p)
		return *p;
	*p = calloc(1, sizeof(**p));
	if (!*p)
		return NULL;
	(*p)->pid = pid;
	(*p)->quota = quotas__get(s->quotas, QUOTA_STACKS);
	(*p)->modules = modules__new(s->files, pid);
	if (!(*p)->modules) {
		free(*p);
		*p = NULL;
	}
	return *p;
}

void proc_stacks__look(struct stacks *s, struct proc_stacks **p, uint32_t pid)
{
	/* Once per process: its other threads have the same mappings. */
	if (!*p && make(s, p, pid))
		modules__read((*p)->modules);
}

/* NULL: no memory, or no time for its name now. */
static struct stack_frame *frame_of(struct proc_stacks *p, uint64_t ip, bool is_return, uint64_t ns)
{
	struct frame_row *row = frame_row_table__find(&p->frames, &ip);

	if (row)
		return &row->frame;
	if (!time_budget__has_time())
		return NULL;
	row = frame_row_table__new(&p->frames, &ip);
	if (!row)
		return NULL;
	row->frame.ip = ip;
	modules__resolve(p->modules, &row->frame, is_return, ns, &row->symbol);
	row->frame.symbol = row->symbol;
	/* The row exists already: the next stack checks the limit. */
	quota__force(p->quota, &p->share, sizeof(*row) + (row->symbol ? strlen(row->symbol) : 0));
	return &row->frame;
}

/* Code without frame pointers has any value in that register. A value that is not a user-space
 * address, on x86-64 and on arm64 with 48 bits, is noise, as are those after it. */
static unsigned count_addresses(const uint64_t *ips, unsigned cnt)
{
	unsigned n = 0;

	while (n < cnt && n < CT_STACK_MAX && ips[n] >= 4096 && ips[n] >> 48 == 0)
		n++;
	return n;
}

bool proc_stacks__wants_python(const struct proc_stacks *p, uint64_t now)
{
	return !p || !p->python_ns || (!p->python && now - p->python_ns >= PYTHON_AGAIN_NS);
}

void proc_stacks__set_python(struct stacks *s, struct proc_stacks **ps, uint32_t pid,
			     const struct python_location *place, uint64_t now)
{
	struct proc_stacks *p = make(s, ps, pid);

	if (!p)
		return;
	p->python_ns = now;
	if (!place || (p->python && !memcmp(python_codes__place(p->python), place, sizeof(*place))))
		return;
	drop_all(p);
	python_codes__free(p->python);
	p->python = python_codes__new(pid, place, s->redact, &s->check);
}

void proc_stacks__fork(struct stacks *s, struct proc_stacks **ps, uint32_t pid,
		       const struct proc_stacks *parent, uint64_t now)
{
	if (parent && parent->python)
		proc_stacks__set_python(s, ps, pid, python_codes__place(parent->python), now);
}

void stacks__count_python(struct stacks *s, const struct ct_call *c, bool is_requested)
{
	bool has_ended = !(c->rec.flags & (CT_CALL_F_UNFINISHED | CT_CALL_F_ABANDONED));

	s->python.early += is_requested && has_ended && !(c->python & CT_PYTHON_F_KNOWN);
	s->python.calls += c->python_cnt > 0;
	s->python.cut += !!(c->python & CT_PYTHON_F_CUT);
	s->python.broken += !!(c->python & CT_PYTHON_F_BROKEN);
}

void stacks__python(const struct stacks *s, struct trace_python *sum)
{
	*sum = s->python;
}

static unsigned make_key(const struct stack_source *from, uint64_t *key)
{
	unsigned n = 0;

	key[n++] = from->cnt;
	for (unsigned i = 0; i < from->cnt; i++)
		key[n++] = from->ips[i];
	for (unsigned i = 0; i < from->python_cnt; i++) {
		key[n++] = from->python[i].code;
		key[n++] = (uint64_t)from->python[i].id << 32 | from->python[i].off;
	}
	return n;
}

/* Counts the addresses outside the interpreter, which runs the Python code. */
static unsigned count_native(const struct proc_stacks *p, const struct stack_source *from)
{
	unsigned n = 0;

	if (!from->python_cnt || !p->python)
		return from->cnt;
	while (n < from->cnt && !python_codes__is_interpreter(p->python, from->ips[n] - 1))
		n++;
	return n;
}

static bool fill(struct proc_stacks *p, struct stack_row *row, const struct stack_source *from,
		 uint64_t ns)
{
	unsigned native = count_native(p, from), n = 0;

	for (unsigned i = 0; i < native; i++) {
		const struct stack_frame *frame = frame_of(p, from->ips[i], i || !from->inside, ns);

		if (!frame)
			return false;
		row->stack.frames[n++] = *frame;
	}
	for (unsigned i = 0; i < from->python_cnt && p->python; i++)
		row->unread |=
			!python_codes__frame(p->python, &from->python[i], &row->stack.frames[n++]);
	row->stack.frame_cnt = n;
	return true;
}

/* Charges size bytes, and the names of its code objects. */
static bool take_room(struct proc_stacks *p, size_t size)
{
	size_t python = p->python ? python_codes__size(p->python) : 0;

	if (!quota__take(p->quota, &p->share, size + python - p->python_sz))
		return false;
	p->python_sz = python;
	return true;
}

void proc_stacks__add_code(struct proc_stacks *p, const struct ct_python_code *rec)
{
	int ret = p && p->python ? python_codes__add_record(p->python, rec) : 0;

	if (ret == -ENOSPC) {
		drop_all(p);
		ret = python_codes__add_record(p->python, rec);
	}
	/* The stored stacks lack these names. */
	if (ret > 0)
		drop_stacks(p);
	if (p && p->python && !take_room(p, 0))
		drop_all(p);
}

static void read_python(struct proc_stacks *p, const struct stack_source *from)
{
	if (!p->python || !from->python_cnt ||
	    python_codes__read(p->python, from->python, from->python_cnt))
		return;
	drop_all(p);
	python_codes__read(p->python, from->python, from->python_cnt);
}

static struct stack_row *new_row(struct proc_stacks *p, const struct stack_source *from,
				 const uint64_t *key, size_t key_sz, uint64_t ns)
{
	size_t frames_sz = (from->cnt + from->python_cnt) * sizeof(struct stack_frame);
	size_t size = sizeof(struct stack_row) + frames_sz + key_sz;
	struct stack_row *row;

	read_python(p, from);
	if (!take_room(p, size)) {
		drop_all(p);
		read_python(p, from);
		if (!take_room(p, size))
			return NULL;
	}
	row = calloc(1, size);
	if (!row)
		return NULL;
	row->key = (uint64_t *)((char *)(row + 1) + frames_sz);
	memcpy(row->key, key, key_sz);
	if (fill(p, row, from, ns) && !stack_row_table__add(&p->stacks, row, key_sz))
		return row;
	free(row);
	return NULL;
}

const struct stack *proc_stacks__get(struct stacks *s, struct proc_stacks **ps, uint32_t pid,
				     const struct stack_source *source, uint64_t ns, bool *is_new)
{
	struct proc_stacks *p = make(s, ps, pid);
	bool limited = time_budget__needs_user();
	struct stack_source from = *source;
	uint64_t key[KEY_MAX];
	struct stack_row *row;
	struct work w;
	size_t key_sz;

	*is_new = false;
	from.cnt = count_addresses(from.ips, from.cnt);
	if (from.python_cnt > CT_PYTHON_MAX || (p && !p->python))
		from.python_cnt = 0;
	if (!p || !(from.cnt + from.python_cnt))
		return NULL;
	key_sz = make_key(&from, key) * sizeof(*key);
	row = stack_row_table__find(&p->stacks, key, key_sz);
	if (row) {
		s->python.unread += row->unread;
		return &row->stack;
	}
	/* One piece of work: the program chooses how many files its stack has. The next stack
	 * continues where the time of this one ended. */
	if (limited && reader__begin(&w, (pid_t)pid, WORK_SYMBOLS))
		return NULL;
	if (hash_cnt(&p->stacks) >= STACKS_MAX || hash_cnt(&p->frames) >= FRAMES_MAX)
		drop_stacks(p);
	row = new_row(p, &from, key, key_sz, ns);
	if (limited)
		time_budget__end(&w);
	if (!row)
		return NULL;
	row->stack.id = ++s->last_id;
	s->python.unread += row->unread;
	*is_new = true;
	return &row->stack;
}
