/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The libraries that programs load, which cudatrace carries. */
#ifndef INJECT_LIBRARY_H
#define INJECT_LIBRARY_H

enum library_id {
	LIBRARY_INJECT, /* inject/ */
	LIBRARY_NVTX,	/* nvtx/ */
};

/* Its path, where it is put now if it is not there yet; NULL after reporting why. folder: there,
 * under its plain name; NULL: in one of ours. */
char *library__put(enum library_id id, const char *folder);

#endif /* INJECT_LIBRARY_H */
