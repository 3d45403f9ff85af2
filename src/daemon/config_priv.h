/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What config.c (the keys, what may be in them) and config_file.c (YAML) share. */
#ifndef DAEMON_CONFIG_PRIV_H
#define DAEMON_CONFIG_PRIV_H

#include "config.h"

enum key_type {
	KEY_BOOL,
	KEY_TEXT,
	KEY_TIME,
	KEY_SIZE,
	KEY_COUNT,
	KEY_LEVEL,
	KEY_COMPRESS,
	KEY_REDACT,
	KEY_DETAIL,
	KEY_GPU_TIME,
	KEY_FORMAT_THREADS
};

struct key {
	const char *path;
	enum key_type type;
	size_t off;
	const char *preset;
	uint64_t min; /* of numbers; 0 is fine too where zero_ok is set */
	bool zero_ok;
};

/* Where a value stands, for messages. */
struct place {
	const char *file;
	unsigned line; /* 0: the command line */
	struct config_errors *errors;
};

void config_wrong(const struct place *at, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* NULL: there is no such key. */
const struct key *config_find_key(const char *path);
/* A key that begins with path and a dot: path is a group of keys. */
bool config_is_group(const char *path);
void config_unknown_key(const char *path, const struct place *at);
/* Says what is wrong, if something is. */
void config_set_value(struct config *c, const struct key *k, const char *text,
		      const struct place *at);
bool config_set_text(char **to, const char *text);
int config_read_level(const char *text, enum proc_level *x);
/* How a value of the type is written. */
const char *config_how_to(enum key_type type);

/* config_file.c */
void config_free_rules(struct config *c);

#endif /* DAEMON_CONFIG_PRIV_H */
