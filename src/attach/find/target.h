/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds libraries of our families: in running processes, and those that a command would load. */
#ifndef ATTACH_FIND_TARGET_H
#define ATTACH_FIND_TARGET_H

#include "ct_bpf.h"

#include "decode/cuda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One library as some process sees it. */
struct target_lib {
	const struct api *api;
	struct ct_lib_key key; /* device and inode as /proc/PID/maps shows them */
	char *open_path;       /* a path that this process can open: /proc/PID/map_files/...,
				  /proc/PID/root/..., or plain */
	char *path;   /* as the target names it, without " (deleted)": for messages and the trace */
	pid_t pid;    /* who maps it; 0: nobody yet */
	bool deleted; /* replaced or removed on disk while mapped */
};

struct target_libs {
	struct target_lib *libs;
	unsigned cnt;
};

void target_libs__clear(struct target_libs *list);

/*
 * One line of /proc/PID/maps: start-end perms offset major:minor inode path. Returns 1 and fills
 * out (path: inside line, deleted suffix cut off) when it is an executable mapping of such a
 * library, 0 when it is not.
 */
struct map_line {
	uint64_t start, end, off;
	bool exec;
	const struct api *api;
	struct ct_lib_key key;
	const char *path;
	bool deleted;
};
int target_parse_map_line(char *line, struct map_line *out);
/* Of which family a file is by its path as /proc has it. A file in memory is called
 * /memfd:NAME (memfd_create(2)). */
const struct api *target_api_of_path(const char *path);
/* Takes " (deleted)", which /proc adds, from the end of a path. */
char *target_cut_deleted(char *path, bool *deleted);
/* The same for any mapping of a file, but for api. */
bool target_parse_file_line(char *line, struct map_line *out);
/* The file that pid maps there, to read; or -errno (util/reader.h). */
int target_open_mapped(const struct map_line *m, pid_t pid);

/*
 * A list holds each file (device and inode) once: the first process that is found to map it stands
 * for all. To learn whether one process maps any, start with an empty list.
 */

/* Calls fn for each line of the maps of pid that target_parse_map_line() takes, opens nothing. 0;
 * what fn returned, if that is not 0, which ends it; -ESRCH: no such process; -EAGAIN: it has taken
 * too long (util/time_budget.h); or what reader__copy() says. */
int target_each_mapped(pid_t pid, int (*fn)(void *ctx, const struct map_line *m), void *ctx);
/* Adds the libraries that pid maps. 0; -ESRCH when there is no such process; -EACCES when its
 * maps, or a file in them, may not be read (the file is reported, the process is not); -EAGAIN: it
 * has taken too long; the list has some. */
int target_libs__add_pid(struct target_libs *list, pid_t pid);
/* The same, of one file alone: with that inode, or that last component of its path. */
int target_libs__add_mapped(struct target_libs *list, pid_t pid, const struct ct_lib_key *key,
			    const char *name);
/* Adds the library that pid has open as fd, if it is one: the dynamic linker is about to map it. 0;
 * -ENOENT: it is none, or not any more; -EACCES: pid may not be looked into; or what else
 * reader__open() says. */
int target_libs__add_open(struct target_libs *list, pid_t pid, int fd);
/* A path of a descriptor of pid, for that file in memory (memfd_create(2)), which has no other; to
 * be freed. NULL: it is no such file, or pid has it open no more. */
char *target_fd_path(pid_t pid, uint64_t ino, const char *name);
/* Adds those of every process. Returns how many processes have one. */
int target_libs__add_all(struct target_libs *list);
/* Adds what the dynamic linker would find for a program started from here: LD_LIBRARY_PATH,
 * the linker's cache, its default folders, and the usual folders of driver installations. */
int target_libs__add_system(struct target_libs *list);
/* The same for a process that runs already, as far as its environment and the root of its file
 * system say. */
void target_libs__add_loadable(struct target_libs *list, pid_t pid);
/* Adds one file of a family by name; silent. */
int target_libs__add_path(struct target_libs *list, const struct api *api, const char *path);
/* The same for a path of a process, which may lead anywhere. */
int target_libs__add_path_of(struct target_libs *list, const struct api *api, pid_t pid,
			     const char *path);
/* Adds one libcuda by name (--libcuda). Reports its own errors. */
int target_libs__add_file(struct target_libs *list, const char *path);

/* Its file, to read; or -errno (util/reader.h); -ENOENT also when another is there now. By name,
 * when no process maps it: with the rights of our user. */
int target_lib__open(const struct target_lib *t);

/* Each process of /proc, until fn says false; false then, and where there is no /proc. */
bool target_each(bool (*fn)(void *ctx, pid_t pid), void *ctx);
/* Facts about a process from /proc. */
bool target_exists(pid_t pid);
/* The inode of our PID namespace, if it is not the first of the machine (a container); else 0. */
uint32_t target_own_pidns(void);
/* 1: 64-bit, 0: 32-bit, negative: unknown */
int target_is_64bit(pid_t pid);
/* First word of a state line in /proc/PID/status: 'R', 'S', 'Z', ... or 0. */
char target_state(pid_t pid);
/* All its threads have ended. A main thread that has ended is a zombie while others work. */
bool target_has_ended(pid_t pid);
/* Its parent, and when it began, in ticks since boot; false: it is gone. */
bool target_stat(pid_t pid, pid_t *parent, unsigned long long *start);

#endif /* ATTACH_FIND_TARGET_H */
