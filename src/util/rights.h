/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Capabilities that come from our file (setcap) are lent: they are for looking at what is traced.
 * The user who runs us has not got them, so files that he names are opened without.
 */
#ifndef UTIL_RIGHTS_H
#define UTIL_RIGHTS_H

/* Lent ones are given back, for good. */
void rights_drop(void);
/* This thread has none from here on, lent or not; the others keep theirs. */
void rights_drop_thread(void);
/* From here to rights_raise() lent ones have no effect. They may be nested; errno is kept. */
void rights_lower(void);
void rights_raise(void);

#endif /* UTIL_RIGHTS_H */
