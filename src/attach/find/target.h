/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds libraries of our families in running processes, and those that a command would load. */
#ifndef ATTACH_FIND_TARGET_H
#define ATTACH_FIND_TARGET_H

#include "ct_bpf.h"

#include "decode/cuda.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A library as one process sees it. */
struct target_lib {
	const struct api *api;
	struct ct_lib_key key; /* device and inode as /proc/PID/maps shows them */
	char *open_path;       /* a path that this process can open: /proc/PID/map_files/...,
				  /proc/PID/root/..., or plain */
	char *path;   /* as the target names it, without " (deleted)": for messages and the trace */
	pid_t pid;    /* process that maps it; 0: none yet */
	bool deleted; /* replaced or removed on disk while mapped */
};

struct target_libs {
	struct target_lib *libs;
	unsigned cnt;
};

void target_libs__clear(struct target_libs *list);

/*
 * One line of /proc/PID/maps: start-end perms offset major:minor inode path. Returns 1 and fills
 * out if it is an executable mapping of such a library, else 0. path points into line, with the
 * deleted suffix cut off.
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
/* Returns the family of a file by its path in /proc. A file in memory is named /memfd:NAME
 * (memfd_create(2)). */
const struct api *target_api_of_path(const char *path);
/* Removes the suffix " (deleted)", which /proc adds, from a path. */
char *target_cut_deleted(char *path, bool *deleted);
/* As target_parse_map_line(), for any mapping of a file; api is not set. */
bool target_parse_file_line(char *line, struct map_line *out);
/* Opens the file that pid maps there for reading. Returns it or -errno (util/reader.h). */
int target_open_mapped(const struct map_line *m, pid_t pid);

/*
 * A list holds each file (device and inode) once, for the first process found to map it. To check
 * whether one process maps any, start with an empty list.
 */

/* Calls fn for each line of pid's maps that target_parse_map_line() accepts; opens nothing. A
 * nonzero result of fn ends the loop and is returned. Else returns 0; -ESRCH: no such process;
 * -EAGAIN: out of time (util/time_budget.h); or an error of reader__copy(). */
int target_each_mapped(pid_t pid, int (*fn)(void *ctx, const struct map_line *m), void *ctx);
/* Returns 1 if pid maps a file whose path contains part, 0 if not, or an error as above. */
int target_maps(pid_t pid, const char *part);
/* Adds the libraries that pid maps. Returns 0; -ESRCH: no such process; -EACCES: its maps, or a
 * file in them, may not be read (only the file is reported); -EAGAIN: out of time, the list is
 * incomplete. */
int target_libs__add_pid(struct target_libs *list, pid_t pid);
/* As target_libs__add_pid(), for one file only: with that inode, or with that last path component.
 */
int target_libs__add_mapped(struct target_libs *list, pid_t pid, const struct ct_lib_key *key,
			    const char *name);
/* Adds the library that pid has open as fd, if it is one: the dynamic linker is about to map it.
 * file: its name without the path, which stands for a path of more than 4,095 bytes.
 * Returns 0; -ENOENT: not a library, or closed; -EACCES: access to pid is denied; or an error of
 * reader__open(). */
int target_libs__add_open(struct target_libs *list, pid_t pid, int fd, const char *file);
/* Returns a path through a descriptor of pid for that file in memory (memfd_create(2)), which has
 * no other path. The caller frees it. NULL: not such a file, or pid has closed it. */
char *target_fd_path(pid_t pid, uint64_t ino, const char *name);
/* Adds the libraries of all processes. Returns the number of processes with one. */
int target_libs__add_all(struct target_libs *list);
/* Adds what the dynamic linker would find for a program started from here: LD_LIBRARY_PATH, the
 * linker's cache, its default directories, and the usual directories of driver installations. */
int target_libs__add_system(struct target_libs *list);
/* As target_libs__add_system(), for a running process, by its environment and the root of its file
 * system. */
void target_libs__add_loadable(struct target_libs *list, pid_t pid);
/* Adds one file of a family by name. Reports nothing. */
int target_libs__add_path(struct target_libs *list, const struct api *api, const char *path);
/* As target_libs__add_path(), for a path in a process, which is untrusted. */
int target_libs__add_path_of(struct target_libs *list, const struct api *api, pid_t pid,
			     const char *path);
/* Adds one libcuda by name (--libcuda). Reports its own errors. */
int target_libs__add_file(struct target_libs *list, const char *path);

/* Opens its file for reading. Returns a descriptor or -errno (util/reader.h); -ENOENT also if
 * another file is there now. If no process maps it, opens it by name, with our user's rights. */
int target_lib__open(const struct target_lib *t);

/* Calls fn for each process of /proc until it returns false. Returns false then, and if there is no
 * /proc. */
bool target_each(bool (*fn)(void *ctx, pid_t pid), void *ctx);
/* Facts about a process from /proc. */
bool target_exists(pid_t pid);
/* Returns the inode of our PID namespace if it is not the machine's initial one (a container), else
 * 0. */
uint32_t target_own_pidns(void);
/* 1: 64-bit, 0: 32-bit, negative: unknown */
int target_is_64bit(pid_t pid);
/* Returns the state letter in /proc/PID/status: 'R', 'S', 'Z', ... or 0. */
char target_state(pid_t pid);
/* Returns whether all its threads have ended. An ended main thread is a zombie while others run. */
bool target_has_ended(pid_t pid);
/* Reads its parent and its start time in ticks since boot. Returns false if it is gone. */
bool target_stat(pid_t pid, pid_t *parent, unsigned long long *start);

#endif /* ATTACH_FIND_TARGET_H */
