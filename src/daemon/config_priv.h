/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by config.c (the keys and their valid values) and config_file.c (YAML). */
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
	uint64_t min; /* of numbers; 0 is valid too where zero_ok is set */
	bool zero_ok;
};

/* The position of a value, for messages. */
struct place {
	const char *file;
	unsigned line; /* 0: the command line */
	struct config_errors *errors;
};

void config_wrong(const struct place *at, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* NULL: there is no such key. */
const struct key *config_find_key(const char *path);
/* Returns whether some key begins with path and a dot: path is a group of keys. */
bool config_is_group(const char *path);
void config_unknown_key(const char *path, const struct place *at);
/* Reports an invalid value. */
void config_set_value(struct config *c, const struct key *k, const char *text,
		      const struct place *at);
bool config_set_text(char **to, const char *text);
int config_read_level(const char *text, enum proc_level *x);
/* How to write a value of the type. */
const char *config_how_to(enum key_type type);

/* config_file.c */
void config_free_rules(struct config *c);

#endif /* DAEMON_CONFIG_PRIV_H */
