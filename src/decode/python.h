/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where CPython keeps what runs: offsets by version, text of its strings, lines of its code. Pure
 * functions; what they are given is a program's memory, and may be anything.
 */
#ifndef DECODE_PYTHON_H
#define DECODE_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_bpf.h"

/* Bytes that a debug header takes at the beginning of _PyRuntime, from 3.13 on. */
#define PYTHON_DEBUG_SZ 512

/* Of a code object no more is read. */
#define PYTHON_CODE_SZ_MAX 4096

struct python_layout {
	unsigned minor;	      /* of 3.x */
	struct ct_python bpf; /* without the runtime's address */
	/* of a code object */
	uint16_t filename, name, qualname; /* no qualname: 0 */
	uint16_t table, first_line;
	uint16_t code;	  /* its first instruction; 0: frames have an index, not an address */
	uint16_t ascii;	  /* of a string, its text */
	unsigned code_sz; /* bytes of a code object that hold all of this: PYTHON_CODE_SZ_MAX */
};

/* A process's Python: with the runtime's address in layout.bpf. */
struct python_location {
	struct python_layout layout;
	uint64_t start, end; /* of the interpreter's own code and data */
	uint64_t free_off;   /* in its file: the function that frees code objects */
};

/* The layout of version 3.minor, by constants: up to 3.12. false: not known. */
bool python_layout_of(unsigned minor, struct python_layout *l);
/* Of a debug header. 0, or -EINVAL and what is wrong with it. */
int python_layout_read(const uint8_t *debug, size_t size, struct python_layout *l, char *why,
		       size_t why_size);
/* "libpython3.9.so.1.0", "python3.9": 9; -1: no such name. */
int python_minor_of_file(const char *file);
/* The interpreter by its file: "libpypy3.9-c.so" is "PyPy 3.9", "python3.6" is "Python 3.6". */
bool python_name_of_file(const char *file, char *name, size_t size);

/* A string object's beginning. */
#define PYTHON_STR_SZ 72
struct python_str {
	uint64_t len;  /* in characters */
	unsigned kind; /* bytes a character */
	unsigned off;  /* where its text begins */
	bool ascii;
};
/* false: it is none that can be read. */
bool python_str_read(const struct python_layout *l, const uint8_t *obj, size_t size,
		     struct python_str *str);
/* Text in UTF-8; bytes that were written, without the NUL. size: more than 0. */
size_t python_str_text(const struct python_str *str, const uint8_t *text, size_t len, char *buf,
		       size_t size);

/* Of a bytes object: where its bytes begin, and their number. */
#define PYTHON_BYTES_SZ 32
bool python_bytes_len(const uint8_t *obj, size_t size, uint64_t *len);

/*
 * The line of the instruction off bytes into its code, from the line table; 0: it has none. first:
 * co_firstlineno.
 */
unsigned python_line(const struct python_layout *l, const uint8_t *table, size_t len, int first,
		     uint64_t off);
/* Where in its code an instruction is, in bytes, by what ct_python_frame has. */
uint64_t python_offset(const struct python_layout *l, uint32_t off);

#endif /* DECODE_PYTHON_H */
