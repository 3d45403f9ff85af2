/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Capabilities that come from our file (setcap) are lent: they are for looking at what is traced.
 * The user who runs us has not got them, so files that he names are opened without.
 */
#ifndef UTIL_PRIVS_H
#define UTIL_PRIVS_H

/* Lent ones are given back, for good. */
void privs_drop(void);
/* This thread has none from here on, lent or not; the others keep theirs. */
void privs_drop_thread(void);
/* From here to privs_raise() lent ones have no effect. They may be nested; errno is kept. */
void privs_lower(void);
void privs_raise(void);

#endif /* UTIL_PRIVS_H */
