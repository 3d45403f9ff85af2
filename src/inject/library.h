/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Libraries to be loaded by traced programs, embedded in cudatrace. */
#ifndef INJECT_LIBRARY_H
#define INJECT_LIBRARY_H

#include <stddef.h>

enum library_id {
	LIBRARY_INJECT, /* inject/ */
	LIBRARY_NVTX,	/* nvtx/ */
};

/* Returns the library's path and writes the file there if it is missing; NULL after reporting the
 * error. folder: write it there, under its plain name; NULL: in a directory of ours. */
char *library__put(enum library_id id, const char *folder);
/* Returns the file's name in a directory of ours, which has the version. */
void library__name(enum library_id id, char *name, size_t size);
/* Returns its contents. */
const char *library__bytes(enum library_id id, size_t *size);

#endif /* INJECT_LIBRARY_H */
