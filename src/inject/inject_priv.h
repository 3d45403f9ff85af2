/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef INJECT_PRIV_H
#define INJECT_PRIV_H

#include "inject.h"

#include "ct_shm.h"

/* Processes at a time; those that have ended count until what they counted was taken. */
#define CLIENTS_MAX 1024
/* Of these, programs of one process, one after the other. */
#define CLIENTS_OF_ONE_MAX 32
/* With a folder: a program that ended so long ago leaves nothing that is worth waiting for. */
#define CLIENTS_LEFT_NS 3000000000ull
/* Connections that are not through; more wait in the backlog. Of these, one process's. */
#define CONNS_MAX	 256
#define CONNS_OF_ONE_MAX 8
/* Records that the tracer makes, and that wait to be given; more are dropped. */
#define SYNTH_MAX 16384
/* The same with a folder. */
#define SYNTH_OPEN_MAX 2048
/* Threads whose numbers are remembered. */
#define GPU_TIDS 64
/* Library files. */
#define FILES_MAX 64

/* --- settings.c: what all processes are told --- */
struct settings {
	int fd;
	size_t size;
	struct ct_shm_set *set;
	const struct fnset *fns;
	enum ct_redact redact;
	bool only_gpu;	   /* no function is told of */
	bool only_table;   /* none that no table knows */
	unsigned fn_cnt;   /* of those that were told of */
	unsigned names_sz; /* of set->names, in use */
	unsigned wanted_cnt;
};
int settings__open(struct settings *s, const struct inject_opts *o);
/* Adds functions that the set has got since. */
void settings__fill(struct settings *s);
/* Stores another changed_ns: see ct_shm.h. */
void settings__changed(struct settings *s);
void settings__close(struct settings *s);

/* --- shm.c: the memory of one process, of which it may write anything at any time --- */

/* Ids of calls are given by the process, dense and from 1 in each slot; those of the trace are
 * taken in blocks of so many. */
#define ID_BLOCK_LOG 16

/* What is looked at is this copy: the process may change its own meanwhile. */
static inline void shm_copy(void *to, const void *from, size_t size)
{
	__builtin_memcpy(to, from, size);
	__asm__ volatile("" ::: "memory");
}

/* The newest of them are known, of calls that may still be asked for. */
#define ID_BLOCKS_MAX 64

/* What the tracer itself knows of a slot. */
struct shm_slot {
	uint64_t pos;	     /* read so far */
	uint64_t told;	     /* as the process was told */
	uint64_t head;	     /* at the last look */
	uint64_t key;	     /* when the next record was sent */
	uint32_t size;	     /* of it; 0: there is none */
	uint32_t inner_tid;  /* who wrote last, as the process sees it, */
	uint32_t tid;	     /* and as we do */
	uint64_t clear_ns;   /* all that was begun before then is found */
	uint64_t busy_since; /* not 0: a record is being made since then */
	uint64_t taken_cnt;  /* records */
	uint64_t last_id;    /* of the call that was read last, as the process numbers them */
	uint32_t *blocks;    /* id blocks of the trace by those of the slot, from the first on */
	uint32_t first_block, block_cnt;
	uint64_t *counted; /* functions whose counts are read; NULL: none yet */
};

/* What the processes of one user have. */
struct owner {
	uid_t uid;
	unsigned clients, slots, counts;
	unsigned with_records; /* processes that have records; give_turns() */
	uint64_t bytes;	       /* of rings, as they were when they were looked at last */
};

/* How much all processes together may have. One user has at most half; one process no more
 * than it leaves over, of all and of its user's half. max 0: no limit. */
struct shm_memlimit {
	unsigned max, used;
};
static inline bool shm_charge(struct shm_memlimit *r, unsigned mine, unsigned of_user)
{
	unsigned half = (r->max + 1) / 2;

	if (r->max && (r->used >= r->max || mine >= r->max - r->used || of_user >= half ||
		       mine >= half - of_user))
		return false;
	r->used++;
	return true;
}

#define PAGE	  4096ul
#define PAGES(n)  (((n) + PAGE - 1) & ~(PAGE - 1))
#define COUNTS_SZ PAGES(sizeof(struct ct_count) * CT_MAX_FUNCS)
#define SLOT_SZ	  PAGES(sizeof(struct ct_shm_slot))
#define SLOTS_OFF PAGES(sizeof(struct ct_shm))

/* A ring made no sense so often: nothing of this process's rings is read any more. A library that
 * works has none. */
#define SHM_BROKEN_MAX 16

struct shm {
	int fd;
	size_t size;
	uint64_t ring_sz, stride;
	struct ct_shm *mem;
	struct shm_slot *slots;
	struct shm_memlimit *room; /* of slots */
	struct owner *owner;	   /* NULL: no shares */
	unsigned slot_cnt;	   /* that were ever used */
	bool rejected;		   /* there are more, for which there is no room */
	uint64_t bad_cnt;	   /* of records and rings */
	unsigned broken_cnt;	   /* of rings; SHM_BROKEN_MAX */
	uint64_t opened_ns, ended_ns;
	struct ct_totals totals;   /* what it reports, as far as it is possible */
	__u64 no_slot, left_calls; /* calls of threads without a slot, and of those left out */
	bool was_full;
	bool ended; /* what is written from now on is nobody's */
};
int shm__open(struct shm *m, uint64_t ring_sz, struct shm_memlimit *room, struct owner *owner);
/* Leaves fd open: the caller closes it. */
void shm__close(struct shm *m);
static inline uint64_t slot_off(const struct shm *m, unsigned i)
{
	return SLOTS_OFF + i * m->stride;
}
/* Bytes of memory that its pages take. */
uint64_t shm__allocated(const struct shm *m);
/* In this mapping only pages of slots are looked at, up to nv. Whoever looks at any other that is
 * not there has it made, and pays for it: those are read. */
struct ct_shm_slot *shm__slot(const struct shm *m, unsigned i);
void shm__count(const struct shm *m, unsigned i, unsigned func_id, struct ct_count *c);
/* Which slots anybody had. */
void shm__find_slots(struct shm *m);
/* Finds the next record of a slot. false: one is being made that may have been begun before now. */
bool shm__look(struct shm *m, unsigned i, uint64_t now);
/* What is there is the last: the process has ended, or is not asked any more. */
void shm__end(struct shm *m, uint64_t now);
/* Copies that record to buf (CT_SHM_REC_MAX bytes) and goes on to the next; returns its size. */
size_t shm__take(struct shm *m, unsigned i, void *buf);
/* Gives the room back. */
void shm__tell(struct shm *m, unsigned i);
/* Calls in flight. */
unsigned shm__depth(const struct shm *m, unsigned i);
/* Calls fn for each record of a call that was not taken yet, of the first max; its words are not
 * there. false: there may be more, or there was no time (util/time_budget.h). */
bool shm__each_call(const struct shm *m, unsigned i, unsigned max,
		    void (*fn)(void *ctx, const struct ct_call *c), void *ctx);
/* The call of the last record, by the process's own numbers; *id 0: there is none. false: there was
 * no time to look. */
bool shm__last_call(const struct shm *m, unsigned i, uint64_t *id);
/* The process has gone away: its pieces of rings are no other's. */
void shm__forget_windows(const struct shm *m);
/* What was not read, about: records. */
uint64_t shm__unread(const struct shm *m);
/* Was one of the calls in flight, that which was recorded last, about to be taken off when the
 * process was killed? */
bool shm__has_returned(const struct shm *m, unsigned i, unsigned depth, uint64_t last);
/* One of them as a record; 0: it is counted. */
size_t shm__frame(const struct shm *m, unsigned i, unsigned depth, const struct ct_shm_set *set,
		  struct ct_call *c);
/* A system call into the driver that is in flight, as a record; 0: none is. */
size_t shm__nv(const struct shm *m, unsigned i, void *buf, size_t size);

/* --- totals.c: numbers that a process reports, which may be any --- */

/* How many calls, or events of another kind, one thread can have had in that time. */
uint64_t total_possible(uint64_t ns);
/* How long it ran, or runs. */
uint64_t shm__age(const struct shm *m, uint64_t now);
/* Reads what it reports; nothing becomes less. until_ns: threads that were left out are looked at
 * until then. */
void shm__read_totals(struct shm *m, uint64_t now, uint64_t until_ns);
/* Limits a count to what is possible. */
void count_limit(struct ct_count *c, uint64_t age_ns);

/* --- closer.c: a thread that closes rings --- */
struct closer;
/* NULL: there is none, and each is closed at once. */
struct closer *closer__new(void);
/* Freeing gigabytes takes a second. */
void closer__close(struct closer *c, int fd);
/* Waits for its end. */
void closer__free(struct closer *c);

/* --- clients.c --- */

struct conn {
	int fd;
	pid_t pid;
	uid_t uid;
	int pidfd; /* of who connected, whoever has that number by now; -1: the peer has it */
	uint64_t since_ns;
	bool greeted, over;
	bool waits; /* its hello has come and is answered later */
	bool refused;
	struct ct_shm_hello hello;
	bool told;	       /* to record calls */
	bool again;	       /* the process has connected before */
	bool more;	       /* of a library besides the one that it has named first */
	struct client *client; /* NULL: it has not said hello, or was refused */
	unsigned lib_id;       /* of the file that it has spoken of */
};

struct client {
	pid_t pid;
	uint32_t inner_pid;
	bool other_ns; /* its thread ids are not ours: */
	int ns_fd;     /* its PID namespace; -1: not asked for yet, -2: the kernel cannot tell */
	ct_generation generation;
	uint32_t lib_id, nccl_id;
	uid_t uid;
	int pidfd; /* -1: it has ended, or runs another program by now */
	uint64_t ended_ns;
	uint64_t bytes;	    /* of its rings */
	uint64_t wait_ns;   /* a record that is being made is waited for since then; 0: none is */
	uint64_t waited_ns; /* less as time passes, as of waited_at_ns */
	uint64_t waited_at_ns;
	char comm[16];
	struct shm shm;
	bool counts_taken;
	unsigned count_cnt;		      /* of threads' functions, that are read */
	uint64_t uncounted, errors_uncounted; /* calls in those that are not */
	unsigned turn;	    /* records that it may still give until all had their turn */
	uint64_t not_given; /* records, and calls in flight */
	uint64_t drops;	    /* as they were when it was last asked who has lost any */
	bool hooked;	    /* it has said what it got hold of */
	bool gpu_told;
	struct ct_shm_gpu gpu;		/* what it reports, as far as it is possible */
	unsigned filters;		/* quiet.c: that it had when it connected */
	uint32_t gpu_tids[GPU_TIDS][2]; /* threads of its calls: as it sees them, as we do */
};

/* A record that the tracer makes, and when. */
struct synth_record {
	uint64_t key;
	size_t size;
	union {
		struct ct_rec rec;
		struct ct_task task;
		struct ct_call call;
		struct ct_nv nv;
		uint8_t bytes[sizeof(((struct ct_nv_thread *)0)->out)];
	};
};

struct lib_file {
	unsigned id;
	struct ct_lib_key key;
	char *path;
	char build_id[41];
	const struct api *api;
	unsigned wanted_cnt;
	char ifuncs[256];		   /* as in struct attach_lib */
	struct ct_comm_layout comm_layout; /* of libnccl */
};

/* When a process may say hello again. */
#define HELLOS 512
struct hello_time {
	pid_t pid;
	uint64_t next_ns;
};

struct inject {
	struct inject_opts o;
	struct settings settings;
	int listen_fd, epoll_fd, timer_fd;
	char socket_name[108]; /* "@...", or a path */
	char *library;	       /* path of the library's file */
	struct conn conns[CONNS_MAX];
	unsigned conn_cnt;
	struct hello_time hellos[HELLOS];
	struct client *clients[CLIENTS_MAX];
	unsigned client_cnt;
	struct owner *owners[CLIENTS_MAX];
	unsigned owner_cnt;
	unsigned memory_round; /* shares__look() */
	uint64_t user_bytes_max;
	struct closer *closer;
	struct lib_file files[FILES_MAX];
	unsigned file_cnt;
	struct synth_record *synth; /* in order */
	unsigned synth_at, synth_cnt, synth_room;
	/* Where processes are everybody's. */
	struct shm_memlimit slot_room, count_room;
	struct ct_totals gone; /* of processes that are no more */
	uint64_t gone_bad_cnt;
	struct ct_shm_gpu gone_gpu;
	uint32_t next_block;
	uint64_t next_ns, refused_cnt;
	unsigned timer_ms;
	uint64_t record_ns; /* when there last was one */
	uint64_t stopped_ns;
	uint64_t quiet_ns; /* quiet.c: last look */
	bool stopped, said_no_nv, said_memory, said_broken;
	bool over;    /* nothing is read any more that was not there then */
	bool is_open; /* who comes is let in */
};

/* listener.c */
int listener__open(struct inject *in);
/* Takes what has come in. */
void listener__poll(struct inject *in);
/* The peer has ended: what it has said is there, and may be no more once it is gone. */
void listener__recv(struct inject *in, const struct client *p);
/* The peer is about to be freed. */
void listener__forget(struct inject *in, const struct client *p);
void listener__close(struct inject *in);

/* clients.c */
/* A process has connected: what it gets, or NULL, which is counted. Takes the connection's pidfd.
 */
struct client *clients__add(struct inject *in, struct conn *c, const struct ct_shm_hello *hello);
/* The one of a process that still runs; NULL. */
struct client *clients__living(struct inject *in, pid_t pid);
/* Is it gone? */
bool clients__has_ended(const struct client *p);
/* It has ended, or is to be treated so: calls in flight are given up. */
void clients__leave(struct inject *in, struct client *p, uint64_t now);
/* Who connected may join. */
bool clients__may_join(const struct inject *in, const struct conn *c);
/* As inject__left(). */
void clients__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now);
/* Looks who has ended. */
void clients__look(struct inject *in, uint64_t now);
/* Puts records of its calls in flight in line. */
void clients__give_up(struct inject *in, struct client *p, uint64_t now);
void clients__free(struct inject *in);
void clients__add_totals(const struct inject *in, const struct client *p, struct ct_totals *sum);
/* Gives a record its numbers: whose it is, ids of the trace. false: it makes no sense. */
bool clients__own(struct inject *in, struct client *p, unsigned slot, void *rec, size_t size);
/* A call's number in the trace by that which the process gave it; 0: it makes no sense. */
uint64_t clients__trace_id(struct inject *in, struct shm_slot *s, uint64_t id);
void synth__push(struct inject *in, const struct synth_record *m);

/* shares.c: who has how much of what is for all. */
struct owner *owner__get(struct inject *in, uid_t uid);
/* A process of that user is gone. */
void owner__put(struct inject *in, struct owner *o);
/* Before the sandbox: asks how much memory there is. */
void shares__open(struct inject *in);
bool shares__has_room(const struct inject *in, uid_t uid, pid_t pid);
/* Rings that take too much memory are the process's own from then on. */
void shares__look(struct inject *in, uint64_t now);

/* tids.c */
/* A task's number in the namespace that it is in, from its status file; 0: it is gone. */
uint32_t innermost_id(const char *path);
/* Which of our numbers is a thread's of another PID namespace, by the status of all of them; 0: no
 * thread has it, or there is no time. For Linux before 6.11. */
uint32_t tid_search(pid_t pid, uint32_t inner);
/* A process may send any number: one that is another process's thread is not its own. */
uint32_t own_tid(struct client *p, uint32_t inner);
/* quiet.c: filters that a process has for its system calls (seccomp). */
unsigned quiet__filters(pid_t pid);
/* Tells processes that have got one since they connected. Once a second. */
void quiet__look(struct inject *in, uint64_t now);

/* gpu.c */
/* Has it been said what became of --gpu-time in this process? */
void gpu__look(struct inject *in, struct client *p);
void gpu__read_totals(struct client *p, uint64_t now);
void gpu__add_totals(const struct client *p, struct ct_shm_gpu *sum);
/* Was it asked for when the trace had ended? */
bool gpu__is_late(const struct inject *in, const struct ct_rec *rec);
/* The trace has ended: for a moment processes still give what they have. */
bool gpu__expects_more(const struct inject *in, uint64_t now);
/* The thread of a call, by the number that the process has for it. */
uint32_t gpu__tid(struct client *p, uint32_t inner,
		  uint32_t (*own)(struct client *p, uint32_t inner));

/* files.c */
/* The library file of that family that the process has at that path; functions of the driver that
 * no row has become known. NULL: it is none that can be read; why is -errno then, or 0 when the
 * process is ending. */
struct lib_file *files__of(struct inject *in, enum api_id api, pid_t pid, const char *path,
			   int *why);
/* Files move when others make room. NULL: it is gone. */
const struct lib_file *files__by_id(const struct inject *in, unsigned id);

#endif /* INJECT_PRIV_H */
