/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "both.h"
#include "source.h"

#include "attach/attach.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>

/* So long nobody has needed them before probes are taken off: programs come in groups. */
#define QUIET_NS 1000000000ull

/* A process with a libcuda: its calls are seen by uprobes, or by its library. */
struct user {
	pid_t pid;
	unsigned lib_id;
	bool inside;
	bool said;    /* that uprobes see them */
	bool called;  /* made a call that they have seen */
	ct_life life; /* of one that is inside */
	char comm[17];
};

/* A file of which some process's library has got hold. */
struct file {
	unsigned lib_id;
	char *path;
	uint64_t quiet_ns; /* nobody needs its probes since then; 0: somebody does */
	bool prepared, narrow;
	uint64_t is_inside[CT_MAX_FUNCS / 64];
};

/* A call that uprobes see, and that has not returned. */
struct open_call {
	pid_t pid;
	uint32_t tid;
	uint64_t id, start_ns;
	uint8_t api, depth, api_depth;
};

struct both {
	struct attach *att;
	struct sources *sources;
	const struct fnset *fns;
	struct user *users;
	unsigned user_cnt, user_room;
	struct file *files;
	unsigned file_cnt;
	struct open_call *calls; /* of a thread the outermost first */
	unsigned call_cnt, call_room;
};

struct both *both__new(struct attach *att, struct sources *sources, const struct fnset *fns)
{
	struct both *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->att = att;
	b->sources = sources;
	b->fns = fns;
	return b;
}

void both__free(struct both *b)
{
	if (!b)
		return;
	for (unsigned i = 0; i < b->file_cnt; i++)
		free(b->files[i].path);
	free(b->files);
	free(b->users);
	free(b->calls);
	free(b);
}

/* Room for one more of size bytes; false: there is none. */
static bool grow(void **array, unsigned cnt, unsigned *room, size_t size)
{
	unsigned more = *room ? 2 * *room : 16;
	void *p;

	if (cnt < *room)
		return true;
	p = realloc(*array, more * size);
	if (!p) {
		err("out of memory");
		return false;
	}
	*array = p;
	*room = more;
	return true;
}

/* --- who needs probes --- */

static struct user *find_user(const struct both *b, pid_t pid, unsigned lib_id)
{
	for (unsigned i = 0; i < b->user_cnt; i++)
		if (b->users[i].pid == pid && b->users[i].lib_id == lib_id)
			return &b->users[i];
	return NULL;
}

static struct file *find_file(const struct both *b, unsigned lib_id)
{
	for (unsigned i = 0; i < b->file_cnt; i++)
		if (b->files[i].lib_id == lib_id)
			return &b->files[i];
	return NULL;
}

static void need(struct both *b, unsigned lib_id)
{
	struct file *f = find_file(b, lib_id);

	if (!f)
		return;
	if (f->prepared)
		attach__widen(b->att, lib_id);
	f->prepared = f->narrow = false;
	f->quiet_ns = 0;
}

static struct user *add_user(struct both *b, pid_t pid, unsigned lib_id, const char *comm)
{
	struct user *u = find_user(b, pid, lib_id);

	if (u)
		return u;
	if (!grow((void **)&b->users, b->user_cnt, &b->user_room, sizeof(*u)))
		return NULL;
	u = &b->users[b->user_cnt++];
	*u = (struct user){.pid = pid, .lib_id = lib_id};
	strncpy(u->comm, comm, sizeof(u->comm) - 1);
	return u;
}

void both__maps(struct both *b, pid_t pid, const char *comm, const struct attach_lib *lib)
{
	const struct user *u;

	if (lib->api->id != API_CUDA)
		return;
	u = add_user(b, pid, lib->id, comm);
	/* What its library has said may be here before the record of the mapping. */
	if (!u || !u->inside)
		need(b, lib->id);
}

/* Once for each process. */
static void say(struct both *b, struct user *u, const char *why)
{
	if (u->said)
		return;
	u->said = true;
	info("process %d (%s): %s: its calls are seen by uprobes", u->pid, u->comm, why);
	attach__uprobes_alone(b->att, u->lib_id);
}

static struct file *add_file(struct both *b, const struct inject_lib *lib)
{
	struct file *files = realloc(b->files, (b->file_cnt + 1) * sizeof(*files)), *f;

	if (!files)
		return NULL;
	b->files = files;
	f = &files[b->file_cnt];
	*f = (struct file){.lib_id = lib->id, .path = strdup(lib->path)};
	if (!f->path)
		return NULL;
	memcpy(f->is_inside, lib->inside.is_inside, sizeof(f->is_inside));
	b->file_cnt++;
	return f;
}

/* Has the process's library got hold of all that has no probes? */
static bool has_all(const struct file *f, const struct ct_inside *in)
{
	for (unsigned i = 0; i < CT_MAX_FUNCS / 64; i++)
		if (f->is_inside[i] & ~in->is_inside[i])
			return false;
	return true;
}

void both__inside(struct both *b, const struct inject_lib *lib)
{
	struct user *u = add_user(b, lib->pid, lib->id, lib->comm);
	struct file *f;

	if (!u)
		return;
	u->life = lib->life;
	if (!lib->hooked_cnt) {
		say(b, u, "its libcuda is of a kind that is not known");
		need(b, lib->id);
		return;
	}
	attach__set_inside(b->att, lib->pid, &lib->inside);
	f = find_file(b, lib->id);
	if (!f)
		f = add_file(b, lib);
	u->inside = f && has_all(f, &lib->inside);
	if (!u->inside)
		need(b, lib->id);
}

void both__lost(struct both *b, pid_t pid)
{
	attach__set_inside(b->att, pid, NULL);
	for (unsigned i = 0; i < b->user_cnt; i++) {
		if (b->users[i].pid != pid)
			continue;
		b->users[i].inside = false;
		need(b, b->users[i].lib_id);
	}
}

static void fork_users(struct both *b, const struct ct_task *rec)
{
	for (unsigned i = 0, cnt = b->user_cnt; i < cnt; i++) {
		struct user from = b->users[i], *u;

		if (from.pid != (pid_t)rec->parent_pid)
			continue;
		u = add_user(b, rec->rec.pid, from.lib_id, from.comm);
		/* It may have said so itself by now. */
		if (u && !u->inside) {
			u->inside = from.inside;
			u->life = rec->life;
			u->said = from.said;
		}
	}
}

ct_life both__left(const struct ct_rec *rec)
{
	ct_life life = ((const struct ct_task *)rec)->life;

	return rec->kind == CT_REC_EXEC ? life : life + 1;
}

/* Those of the programs that were before that life. */
static void drop_users(struct both *b, pid_t pid, ct_life life)
{
	for (unsigned i = b->user_cnt; i-- > 0;) {
		struct user *u = &b->users[i];

		/* It may have said so itself before its record came, and lives go up. */
		if (u->pid != pid || u->life >= life)
			continue;
		if (!u->inside && u->called)
			say(b, u, "the library did not get into it");
		*u = b->users[--b->user_cnt];
	}
}

static bool is_needed(const struct both *b, unsigned lib_id)
{
	for (unsigned i = 0; i < b->user_cnt; i++)
		if (b->users[i].lib_id == lib_id && !b->users[i].inside)
			return true;
	return false;
}

void both__tick(struct both *b, uint64_t now, bool drained)
{
	for (unsigned i = 0; i < b->file_cnt; i++) {
		struct file *f = &b->files[i];

		if (f->narrow)
			continue;
		if (is_needed(b, f->lib_id)) {
			need(b, f->lib_id);
		} else if (!f->quiet_ns) {
			f->quiet_ns = now;
		} else if (now - f->quiet_ns < QUIET_NS) {
			continue;
		} else if (!f->prepared) {
			f->prepared = attach__narrow(b->att, f->lib_id, f->is_inside, true);
		} else if (drained) {
			/* Who has mapped it before we forgot it has been told of. */
			f->narrow = attach__narrow(b->att, f->lib_id, f->is_inside, false);
		}
	}
}

/* --- calls in calls --- */

static bool is_of(const struct raw *raw, enum source_id source)
{
	return raw->call.id >> RAW_ID_BITS == source;
}

static void drop_call(struct both *b, unsigned i)
{
	memmove(&b->calls[i], &b->calls[i + 1], (--b->call_cnt - i) * sizeof(b->calls[0]));
}

static void begin(struct both *b, const struct ct_enter *rec)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].tid == rec->rec.tid && b->calls[i].depth >= rec->depth)
			drop_call(b, i); /* its end was lost */
	if (!grow((void **)&b->calls, b->call_cnt, &b->call_room, sizeof(b->calls[0])))
		return;
	b->calls[b->call_cnt++] = (struct open_call){
		.pid = rec->rec.pid,
		.tid = rec->rec.tid,
		.id = rec->call_id,
		.start_ns = rec->rec.ts_ns,
		.api = rec->api,
		.depth = rec->depth,
		.api_depth = rec->api_depth,
	};
}

static void end(struct both *b, uint64_t id)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].id == id)
			drop_call(b, i);
}

static void drop_calls(struct both *b, pid_t pid)
{
	for (unsigned i = b->call_cnt; i-- > 0;)
		if (b->calls[i].pid == pid)
			drop_call(b, i);
}

static struct ct_call *copy(struct raw *raw, struct ct_call *room)
{
	memcpy(room, raw->call.call, CT_CALL_FIXED_SZ);
	raw->call.call = room;
	return room;
}

/* A call that the library has seen is made in those that uprobes have open. */
static void place(const struct both *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	const struct api_fn *fn = fnset__fn(b->fns, c->func_id);
	const struct open_call *in = NULL, *same = NULL;
	struct inject_around outer = {0};

	for (unsigned i = 0; i < b->call_cnt; i++) {
		const struct open_call *o = &b->calls[i];

		if (o->tid != c->rec.tid || o->start_ns > c->rec.ts_ns)
			continue;
		in = o;
		if (fn && o->api == fn->api)
			same = o;
	}
	if (!in)
		return;
	if (raw->call.parent_id)
		sources__around(b->sources, c->rec.pid, c->rec.tid, c->rec.ts_ns - 1, &outer);
	c = copy(raw, room);
	room->depth += in->depth + 1;
	room->api_depth += same ? same->api_depth + 1 : 0;
	if (!raw->call.parent_id || outer.start_ns < in->start_ns)
		raw->call.parent_id = in->id;
}

/* And the other way round: in those that the library has open. */
static void place_own(const struct both *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	struct inject_around outer;

	sources__around(b->sources, c->rec.pid, c->rec.tid, c->rec.ts_ns, &outer);
	if (!outer.cnt)
		return;
	copy(raw, room);
	room->depth += outer.cnt;
	room->api_depth += outer.cnt;
	for (unsigned i = 0; i < b->call_cnt && raw->call.parent_id; i++)
		if (b->calls[i].id == raw->call.parent_id && b->calls[i].start_ns > outer.start_ns)
			return;
	if (outer.id)
		raw->call.parent_id = outer.id;
}

/* The driver loads the library in cuInit() if nobody has before. */
static void on_own_call(struct both *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_call *c = raw->call.call;
	const struct api_fn *fn = fnset__fn(b->fns, c->func_id);
	struct user *u = find_user(b, c->rec.pid, c->lib_id);

	end(b, raw->call.id);
	if (u && u->inside)
		place_own(b, raw, room);
	if (!u || u->inside || u->said)
		return;
	u->called = true;
	if (fn && !strcmp(fn->symbol, "cuInit"))
		say(b, u, "the library did not get into it");
}

void both__record(struct both *b, struct raw *raw, struct ct_call *room)
{
	const struct ct_rec *rec = raw->rec;

	switch (rec->kind) {
	case CT_REC_CALL:
		if (is_of(raw, SOURCE_INJECT))
			place(b, raw, room);
		else
			on_own_call(b, raw, room);
		break;
	case CT_REC_ENTER:
		if (((const struct ct_enter *)rec)->ended)
			end(b, ((const struct ct_enter *)rec)->call_id);
		else
			begin(b, (const void *)rec);
		break;
	case CT_REC_FORK:
		fork_users(b, (const void *)rec);
		break;
	case CT_REC_EXEC:
	case CT_REC_EXIT:
		drop_calls(b, rec->pid);
		drop_users(b, rec->pid, both__left(rec));
		break;
	default:
		break;
	}
}
