/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Processes, connections, rings and files: the state that the files of this directory share. */
#ifndef INJECT_PRIV_H
#define INJECT_PRIV_H

#include "inject.h"

#include "ct_limit.h"
#include "ct_shm.h"
#include "ct_stall.h"

/* Maximum processes at a time. Ended processes are included until their counts are taken. */
#define CLIENTS_MAX 1024
/* Maximum successive programs of one process among these. */
#define CLIENTS_OF_ONE_MAX 32
/* With a folder: a program that ended this long ago leaves nothing worth waiting for. */
#define CLIENTS_LEFT_NS 3000000000ull
/* Maximum unfinished connections, in total and per process; more wait in the backlog. */
#define CONNS_MAX	 256
#define CONNS_OF_ONE_MAX 8
/* Maximum pending records made by the tracer; more are dropped. */
#define SYNTH_MAX 16384
/* The limit with a directory. */
#define SYNTH_OPEN_MAX 2048
/* Threads whose numbers are cached. */
#define GPU_TIDS 64
/* Maximum library files. */
#define FILES_MAX 64
/* Maximum network namespaces besides our own. */
#define NETS_MAX 64
/* Maximum users whose processes a daemon enters. */
#define LATE_USERS_MAX 256

/* --- settings.c: settings shared by all processes --- */
struct settings {
	int fd;
	size_t size;
	struct ct_shm_set *set;
	const struct fnset *fns;
	enum ct_redact redact;
	bool params; /* --kernel-args: launches have CT_CAP_PARAMS */
	bool frames; /* calls with Python frames or operators are recorded in-process, too */
	bool late;
	bool only_gpu;	   /* publish no functions */
	bool only_table;   /* publish only functions in the table */
	unsigned fn_cnt;   /* functions published so far */
	unsigned names_sz; /* bytes used of set->names */
	unsigned wanted_cnt;
};
int settings__open(struct settings *s, const struct inject_opts *o);
/* Adds functions that are new in the set. */
void settings__fill(struct settings *s);
/* Stores a new changed_ns: see ct_shm.h. */
void settings__changed(struct settings *s);
void settings__close(struct settings *s);

/* --- shm.c: the memory of one process, which it may overwrite at any time --- */

/* The process numbers calls from 1 in each slot, without gaps. Ids of the trace are taken in blocks
 * of 2^ID_BLOCK_LOG. */
#define ID_BLOCK_LOG 16
_Static_assert(CT_SAMPLE_ID_MASK == (1 << ID_BLOCK_LOG) - 1, "ids have these bits of the numbers");

/* Read only this copy: the process may change its own meanwhile. */
static inline void shm_copy(void *to, const void *from, size_t size)
{
	__builtin_memcpy(to, from, size);
	__asm__ volatile("" ::: "memory");
}

/* Only the newest blocks are kept, for calls that may still be looked up. */
#define ID_BLOCKS_MAX 64

/* The tracer's own state of a slot. */
struct shm_slot {
	uint64_t pos;	     /* read so far */
	uint64_t released;   /* tail that the process has received */
	uint64_t head;	     /* at the last poll */
	uint64_t key;	     /* when the next record was sent */
	uint32_t size;	     /* of the next record; 0: there is none */
	uint32_t inner_tid;  /* last writer, as the process numbers it, */
	uint32_t tid;	     /* and as the tracer does */
	uint64_t clear_ns;   /* all records begun before then have been found */
	uint64_t busy_since; /* not 0: since when a record is being made */
	uint64_t taken_cnt;  /* records */
	uint64_t last_id;    /* of the last call read, as the process numbers it */
	uint32_t *blocks;    /* id blocks of the trace, in the order of the slot's blocks */
	uint32_t first_block, block_cnt;
	uint64_t *counted; /* functions whose counts are read; NULL: none yet */
};

/* Totals of one user's processes. */
struct owner {
	uid_t uid;
	unsigned clients, slots, counts;
	unsigned with_records; /* processes with pending records; give_turns() */
	uint64_t bytes;	       /* in rings, at the last check */
	int lost_fd;	       /* of its processes: */
	struct ct_shm_lost *lost;
	uint64_t lost_cnt[CT_SHM_LOST_CNT];
};

/* Limit for all processes together. One user may have at most half. One process gets at most as
 * much as it leaves free, of the total and of its user's half. max 0: no limit. */
struct shm_memlimit {
	unsigned max, used;
};
static inline bool shm_charge(struct shm_memlimit *r, unsigned mine, unsigned of_user)
{
	uint64_t half = ct_limit_left((r->max + 1) / 2, of_user);

	if (r->max && !(ct_limit_fits(mine, 1, CT_LIMIT_NO_SHARE, ct_limit_left(r->max, r->used)) &&
			ct_limit_fits(mine, 1, CT_LIMIT_NO_SHARE, half)))
		return false;
	r->used++;
	return true;
}

#define PAGE	  4096ul
#define PAGES(n)  (((n) + PAGE - 1) & ~(PAGE - 1))
#define COUNTS_SZ PAGES(sizeof(struct ct_count) * CT_MAX_FUNCS)
#define SLOT_SZ	  PAGES(sizeof(struct ct_shm_slot))
#define SLOTS_OFF PAGES(sizeof(struct ct_shm))

/* After this many invalid rings, the process's rings are not read any more. A correct library
 * causes none. */
#define SHM_BROKEN_MAX 16

struct shm {
	int fd;
	size_t size;
	uint64_t ring_sz, stride;
	struct ct_shm *mem;
	struct shm_slot *slots;
	struct shm_memlimit *room; /* limit of slots */
	struct owner *owner;	   /* NULL: no per-user limits */
	unsigned slot_cnt;	   /* slots that were ever used */
	bool rejected;		   /* more slots exist, but exceed the limit */
	uint64_t bad_cnt;	   /* invalid records and rings */
	unsigned broken_cnt;	   /* invalid rings; SHM_BROKEN_MAX */
	uint64_t opened_ns, ended_ns;
	struct ct_totals totals;   /* reported values, limited to what is possible */
	__u64 no_slot, left_calls; /* calls of threads without a slot, and of rejected slots */
	bool was_full;
	bool ended; /* what is written from now on is ignored */
};
int shm__open(struct shm *m, uint64_t ring_sz, struct shm_memlimit *room, struct owner *owner);
/* Does not close fd: the caller does. */
void shm__close(struct shm *m);
static inline uint64_t slot_off(const struct shm *m, unsigned i)
{
	return SLOTS_OFF + i * m->stride;
}
/* Returns the bytes of memory in its allocated pages. */
uint64_t shm__allocated(const struct shm *m);
/* This mapping is used only for pages of slots, up to nv. Touching any other absent page would
 * allocate it at the tracer's expense: those are read with pread(). */
struct ct_shm_slot *shm__slot(const struct shm *m, unsigned i);
void shm__count(const struct shm *m, unsigned i, unsigned func_id, struct ct_count *c);
/* Finds the slots that were ever used. */
void shm__find_slots(struct shm *m);
/* Finds the next record of a slot. Returns false if a record is being made that may have begun
 * before now. */
bool shm__look(struct shm *m, unsigned i, uint64_t now);
/* The data is final: the process has ended, or is not read any more. */
void shm__end(struct shm *m, uint64_t now);
/* Copies that record to buf (CT_SHM_REC_MAX bytes) and advances to the next. Returns its size. */
size_t shm__take(struct shm *m, unsigned i, void *buf);
/* Frees the ring space: stores the tail for the process. */
void shm__release(struct shm *m, unsigned i);
/* Returns the number of calls in flight. */
unsigned shm__depth(const struct shm *m, unsigned i);
/* Calls fn for each pending call record, of the first max; its words are missing. Returns false if
 * there may be more, or if the time budget is used up (util/time_budget.h). */
bool shm__each_call(const struct shm *m, unsigned i, unsigned max,
		    void (*fn)(void *ctx, const struct ct_call *c), void *ctx);
/* Finds the call of the last record, in the process's own numbers; *id 0: none. Returns false if
 * the time budget is used up. */
bool shm__last_call(const struct shm *m, unsigned i, uint64_t *id);
/* The process has ended: drops its cached ring windows. */
void shm__forget_windows(const struct shm *m);
/* Returns how many records were not read: where there is no time to count them, or one is invalid,
 * the rest is an estimate by its bytes. */
uint64_t shm__unread(const struct shm *m);
/* Returns whether a call in flight, which was the last one recorded, was about to be removed when
 * the process was killed. */
bool shm__has_returned(const struct shm *m, unsigned i, unsigned depth, uint64_t last);
/* Makes a record of a call in flight. Returns its size; 0: the call is counted. */
size_t shm__frame(const struct shm *m, unsigned i, unsigned depth, const struct ct_shm_set *set,
		  struct ct_call *c);
/* Makes a record of a system call into the driver in flight. Returns its size; 0: none. */
size_t shm__nv(const struct shm *m, unsigned i, void *buf, size_t size);

/* --- totals.c: numbers that a process reports, which may be forged --- */

/* Returns the maximum number of calls or other events of one thread in that time. */
uint64_t total_possible(uint64_t ns);
/* Returns how long the process ran so far. */
uint64_t shm__age(const struct shm *m, uint64_t now);
/* Reads the reported totals; no value decreases. until_ns: rejected threads are read until then. */
void shm__read_totals(struct shm *m, uint64_t now, uint64_t until_ns);
/* Limits a count to what is possible. */
void count_limit(struct ct_count *c, uint64_t age_ns);

/* --- clients.c --- */

struct conn {
	int fd;
	pid_t pid;
	uid_t uid;
	int pidfd; /* of the connecting process, even if its id is reused; -1: moved to client */
	uint64_t since_ns;
	bool greeted, over;
	bool waits; /* its hello has arrived and is answered later */
	bool refused;
	struct ct_shm_hello hello;
	bool go_sent;	       /* the go message was sent */
	bool more;	       /* of a further library of the process */
	struct client *client; /* NULL: no hello yet, or refused */
	unsigned lib_id;       /* of the file that it named */
};

struct client {
	pid_t pid;
	bool again;    /* it was a client already, with the same program */
	bool other_ns; /* its thread ids differ from ours: */
	int ns_fd;     /* its PID namespace; -1: not queried yet, -2: unavailable in this kernel */
	ct_generation generation;
	uint32_t lib_id, nccl_id;
	uid_t uid;
	int pidfd; /* -1: it has ended, or runs another program */
	uint64_t ended_ns;
	uint64_t bytes;	    /* of its rings */
	uint64_t wait_ns;   /* since when an unfinished record is waited for; 0: none */
	uint64_t waited_ns; /* decreases over time, as of waited_at_ns */
	uint64_t waited_at_ns;
	char comm[16];
	struct shm shm;
	bool counts_taken;
	unsigned count_cnt;		      /* counted functions of threads that are read */
	uint64_t uncounted, errors_uncounted; /* calls in those that are not read */
	uint64_t sample_s;		      /* CLOCK_MONOTONIC, seconds: the present one, */
	unsigned sample_cnt;		      /* and the sampled calls in it */
	unsigned turn;	       /* records that it may still emit before the others' turn */
	uint64_t not_given;    /* dropped records, and calls in flight */
	uint64_t drops;	       /* as of the last inject__drop_owners() */
	bool hooked;	       /* its hooked message has arrived */
	uint32_t stalls_flags; /* those that were reported */
	bool stalls_reported;
	struct ct_shm_stalls stalls; /* as gpu */
	uint64_t stalls_given;	     /* samples in its records */
	bool gpu_reported;
	bool can_gpu;			/* it is no child of fork */
	uint32_t gpu_request;		/* ct_shm.gpu_request, the last one that was not OFF */
	struct ct_shm_gpu gpu;		/* reported values, limited to what is possible */
	unsigned filters;		/* quiet.c: filters it had when it connected */
	uint32_t gpu_tids[GPU_TIDS][2]; /* threads of its calls: its number, our number */
};

/* A record made by the tracer, and its time. */
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

/* When a process may send another hello. */
#define HELLOS 512
struct hello_time {
	pid_t pid;
	uint64_t next_ns;
};

struct inject {
	struct inject_opts o;
	struct settings settings;
	int listen_fd, epoll_fd, timer_fd;
	/* --probe=inject -p: in other network namespaces, under the same name. */
	struct {
		int fd;
		uint64_t ino; /* of the namespace */
	} nets[NETS_MAX];
	unsigned net_cnt;
	uint64_t token[2]; /* as in struct ct_shm_welcome */
	/* late_server.h */
	int late_sock; /* -1: no server */
	char late_name[64];
	void (*late_fn)(void *ctx, pid_t pid, const char *why);
	void *late_ctx;
	struct late_token {
		uid_t uid;
		uint64_t token[2];
	} late_tokens[LATE_USERS_MAX];
	unsigned late_token_cnt;
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
	struct lib_file files[FILES_MAX];
	unsigned file_cnt;
	struct synth_record *synth; /* sorted */
	unsigned synth_at, synth_cnt, synth_room;
	/* Limits for the case that processes of all users connect. */
	struct shm_memlimit slot_room, count_room;
	struct ct_totals ended; /* of ended processes */
	uint64_t gone_bad_cnt;
	uint64_t lost_cnt; /* processes that reported that they are not recorded */
	char *lost_path;   /* of the file of struct ct_shm_lost_line, or NULL */
	int lost_fd;
	struct ct_shm_gpu gone_gpu;
	struct ct_shm_stalls gone_stalls;
	uint32_t next_block;
	uint64_t next_ns, refused_cnt;
	unsigned timer_ms;
	uint64_t record_ns; /* time of the last one */
	uint64_t stopped_ns;
	uint64_t quiet_ns; /* quiet.c: last check */
	bool warned_lost[CT_SHM_LOST_CNT];
	bool stopped, warned_no_nv, warned_memory, warned_broken;
	bool over;    /* only data that existed then is still read */
	bool is_open; /* any process may connect */
};

/* listener.c */
int listener__open(struct inject *in);
/* late_net.h: whether it listens in that network namespace; it takes a socket there. */
bool listener__is_in(const struct inject *in, uint64_t net);
/* Closes the oldest one, if there are too many. */
int listener__take_net(struct inject *in, int fd, uint64_t ino);
/* Accepts connections and receives messages. */
void listener__poll(struct inject *in);
/* The process has ended: receives its last messages, before it is freed. */
void listener__recv(struct inject *in, const struct client *p);
/* The client is about to be freed. */
void listener__forget(struct inject *in, const struct client *p);
void listener__close(struct inject *in);

/* clients.c */
/* Adds a process that has connected. Returns its client, or NULL, which is counted. Takes over the
 * connection's pidfd. */
struct client *clients__add(struct inject *in, struct conn *c, const struct ct_shm_hello *hello);
/* Returns the client of a running process, or NULL. */
struct client *clients__living(struct inject *in, pid_t pid);
/* Returns whether the process has ended. */
bool clients__has_ended(const struct client *p);
/* The process has ended, or is treated so: ends its calls in flight. */
void clients__leave(struct inject *in, struct client *p, uint64_t now);
/* Returns whether the connected process may join. */
bool clients__may_join(const struct inject *in, const struct conn *c);
/* As inject__left(). */
void clients__left(struct inject *in, pid_t pid, ct_generation generation, uint64_t now);
/* Checks which processes have ended. */
void clients__look(struct inject *in, uint64_t now);
/* Queues records of its calls in flight. */
void clients__give_up(struct inject *in, struct client *p, uint64_t now);
void clients__free(struct inject *in);
void clients__add_totals(const struct inject *in, const struct client *p, struct ct_totals *sum);
/* Fills in owner and trace ids of a record. Returns false if the record is invalid. */
bool clients__own(struct inject *in, struct client *p, unsigned slot, void *rec, size_t size);
/* Returns the trace's id of a call from the process's own; 0: it is invalid. */
uint64_t clients__trace_id(struct inject *in, struct shm_slot *s, uint64_t id);
void synth__push(struct inject *in, const struct synth_record *m);

/* shares.c: shares of common resources. */
struct owner *owner__get(struct inject *in, uid_t uid);
/* A process of that user has ended. */
void owner__put(struct inject *in, struct owner *o);
void owners__free(struct inject *in);
/* lost.c: processes that report that they are not recorded. */
int lost__open(struct owner *o);
/* Creates the command's file. Without it, programs that cannot connect are not counted. */
void lost__open_file(struct inject *in);
void lost__close_file(struct inject *in);
void lost__close(struct inject *in, struct owner *o);
/* Children of fork wait for an answer while this is called at least every 200 ms. A turn of the
 * loop may take longer if many connect at once. */
void lost__turn(struct inject *in);
/* Counts and reports those that are new. */
void lost__look(struct inject *in);
/* Before the sandbox: reads the size of the memory. */
void shares__open(struct inject *in);
bool shares__has_room(const struct inject *in, uid_t uid, pid_t pid);
/* Detaches rings that take too much memory; they then belong to the process alone. */
void shares__look(struct inject *in, uint64_t now);

/* tids.c */
/* Returns a task's number in its own namespace, from its status file; 0: it is gone. */
uint32_t innermost_id(const char *path);
/* Finds our number of a thread of another PID namespace by reading the status of all its threads.
 * Returns 0 if there is none, or no time left. For Linux before 6.11. */
uint32_t tid_search(pid_t pid, uint32_t inner);
/* Validates a thread number: a process may send any, also one of another process's thread. */
uint32_t own_tid(struct client *p, uint32_t inner);
/* quiet.c: a process's system call filters (seccomp). */
/* Notifies processes that have installed a filter since they connected. Once a second. */
void quiet__look(struct inject *in, uint64_t now);

/* gpu.c */
/* Reports the state of --stalls in this process, once, and each of its flags. */
void stalls__look(struct inject *in, struct client *p);
void stalls__read_totals(struct client *p, uint64_t now);
/* Counts the samples of a record. Returns true. */
bool stalls__note(struct client *p, const struct ct_stalls *rec);
/* Counts the samples that a process had read, but not sent, when it ended. */
void stalls__lose_rest(struct client *p);
void stalls__add_totals(const struct client *p, struct ct_shm_stalls *sum);
/* Reports the state of --gpu-time in this process, once. */
void gpu__look(struct inject *in, struct client *p);
/* A process connects. */
void gpu__connect(const struct inject *in, struct client *p, const struct ct_shm_hello *hello);
static inline bool gpu__is_used(const struct inject *in)
{
	return in->o.gpu_time || in->o.gpu_burst;
}
/* At the end of the trace: reports processes in which CUPTI was not started. */
void gpu__end(struct inject *in);
void gpu__read_totals(struct client *p, uint64_t now);
void gpu__add_totals(const struct client *p, struct ct_shm_gpu *sum);
/* Returns whether it was requested after the trace had ended. */
bool gpu__is_late(const struct inject *in, const struct ct_rec *rec);
/* The trace has ended: returns whether processes may still send data. True for a moment only. */
bool gpu__expects_more(const struct inject *in, uint64_t now);
/* Returns the thread of a call from the process's number for it. */
uint32_t gpu__tid(struct client *p, uint32_t inner,
		  uint32_t (*own)(struct client *p, uint32_t inner));

/* files.c */
/* Returns the process's library file of that family at that path; unknown driver functions are
 * added. Returns NULL if it cannot be read: why is -errno, or 0 if the process is ending. */
struct lib_file *files__of(struct inject *in, enum api_id api, pid_t pid, const char *path,
			   int *why);
/* Files move when others are evicted. NULL: it is gone. */
const struct lib_file *files__by_id(const struct inject *in, unsigned id);

#endif /* INJECT_PRIV_H */
