/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages to stderr, one line each, prefixed with "cudatrace: ". stdout is for the trace. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

#include <stdbool.h>
#include <stdio.h>

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* LOG_WARN shows errors and warnings; the default is LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_level(void);
/* For the journal: each line begins with its priority, <3> to <7>. */
void log_set_journal(bool on);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define err(...)  log_msg(LOG_ERR, __VA_ARGS__)
#define warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define dbg(...)  log_msg(LOG_DEBUG, __VA_ARGS__)

#endif /* UTIL_LOG_H */
