/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Drops and raises capabilities. Those from our executable file (setcap) are lent: they are for
 * inspecting traced processes. The user who runs us does not have them, so files that the user
 * names are opened without them.
 */
#ifndef UTIL_PRIVS_H
#define UTIL_PRIVS_H

/* Drops lent capabilities for good. */
void privs_drop(void);
/* Drops all capabilities of this thread, lent or not; other threads keep theirs. */
void privs_drop_thread(void);
/* Makes lent capabilities ineffective until privs_raise(). Calls may be nested; errno is kept. */
void privs_lower(void);
void privs_raise(void);

#endif /* UTIL_PRIVS_H */
