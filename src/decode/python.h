/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CPython's data structures: offsets by version, text of its strings, line tables. Pure functions;
 * their input is a program's memory, and may be anything.
 */
#ifndef DECODE_PYTHON_H
#define DECODE_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ct_bpf.h"

/* Size of the debug header at the start of _PyRuntime, from 3.13 on. */
#define PYTHON_DEBUG_SZ 512

/* Maximum number of bytes read from a code object. */
#define PYTHON_CODE_SZ_MAX 4096

struct python_layout {
	unsigned minor;	      /* version 3.minor */
	struct ct_python bpf; /* without the runtime's address */
	/* offsets in a code object */
	uint16_t filename, name, qualname; /* qualname 0: none */
	uint16_t table, first_line;
	uint16_t code;	  /* its first instruction; 0: frames have an index, not an address */
	uint16_t ascii;	  /* offset of the text in a string */
	unsigned code_sz; /* bytes of a code object that contain all of this, at most
			     PYTHON_CODE_SZ_MAX */
};

/* The Python of a process; layout.bpf contains the runtime's address. */
struct python_location {
	struct python_layout layout;
	uint64_t start, end; /* range of the interpreter's own code and data */
	uint64_t free_off;   /* offset in its file of the function that frees code objects */
};

/* Returns the layout of version 3.minor, from constants: up to 3.12. false: unknown version. */
bool python_layout_of(unsigned minor, struct python_layout *l);
/* Reads the layout from a debug header. Returns 0, or -EINVAL with the reason in why. */
int python_layout_read(const uint8_t *debug, size_t size, struct python_layout *l, char *why,
		       size_t why_size);
/* Returns 9 for "libpython3.9.so.1.0" and "python3.9"; -1: no such name. */
int python_minor_of_file(const char *file);
/* Writes the interpreter's name from its file name: "PyPy 3.9" for "libpypy3.9-c.so", "Python 3.6"
 * for "python3.6". */
bool python_name_of_file(const char *file, char *name, size_t size);

/* The start of a string object. */
#define PYTHON_STR_SZ 72
struct python_str {
	uint64_t len;  /* in characters */
	unsigned kind; /* bytes per character */
	unsigned off;  /* offset of its text */
	bool ascii;
};
/* Returns false if it is not a readable string. */
bool python_str_read(const struct python_layout *l, const uint8_t *obj, size_t size,
		     struct python_str *str);
/* Writes the text as UTF-8 and returns the number of bytes without the NUL. size must be more than
 * 0. */
size_t python_str_text(const struct python_str *str, const uint8_t *text, size_t len, char *buf,
		       size_t size);

/* Bytes objects: offset of the content, and its length. */
#define PYTHON_BYTES_SZ 32
bool python_bytes_len(const uint8_t *obj, size_t size, uint64_t *len);

/*
 * Returns the line of the instruction at byte offset off in its code, from the line table; 0: no
 * line. first: co_firstlineno.
 */
unsigned python_line(const struct python_layout *l, const uint8_t *table, size_t len, int first,
		     uint64_t off);
/* Returns the byte offset of an instruction in its code, from the value in ct_python_frame. */
uint64_t python_offset(const struct python_layout *l, uint32_t off);

#endif /* DECODE_PYTHON_H */
