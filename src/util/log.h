/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Messages to stderr, one line each, prefixed with "cudatrace: ". stdout is for the trace. */
#ifndef UTIL_LOG_H
#define UTIL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* LOG_WARN shows errors and warnings; the default is LOG_INFO. */
void log_set_level(enum log_level level);
enum log_level log_level(void);
/* For the journal: each line begins with its priority, <3> to <7>. */
void log_set_journal(bool on);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The longest time that messages wait for the reader of stderr; -1: without limit, the default.
 * After it messages are dropped until the reader continues, and then counted in one line. */
void log_set_wait(int ms);
/* While programs are traced. */
#define LOG_WAIT_MS 100
/* Writes text of any length to stderr, with the same limit. */
void log_write(const char *text, size_t size);

#define err(...)  log_msg(LOG_ERR, __VA_ARGS__)
#define warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define dbg(...)  log_msg(LOG_DEBUG, __VA_ARGS__)

/* A message that others may cause as often as they like: at most one per second, which has the
 * number of those dropped before it. */
struct log_limit {
	uint64_t last_ns;
	unsigned dropped;
};
bool log_may(struct log_limit *l, char note[64]);
#define log_seldom(level, fmt, ...)                                                                \
	do {                                                                                       \
		static struct log_limit limit_;                                                    \
		char note_[64];                                                                    \
		if (log_may(&limit_, note_))                                                       \
			log_msg(level, fmt "%s", __VA_ARGS__, note_);                              \
	} while (0)

#endif /* UTIL_LOG_H */
