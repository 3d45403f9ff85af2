/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One line of JSON, one level deep: the members of an object, or the elements of an array, as
 * slices of the line. What lies deeper is checked and handed out as text. The parser is RapidJSON
 * (parse.cc, the only C++ here); the text may come from anywhere.
 */
#ifndef SAVED_PARSE_H
#define SAVED_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Members of lines that are events. Those of the header and the end are asked for by name. */
#define PARSE_KEYS(X)                                                                              \
	X(ts)                                                                                      \
	X(type)                                                                                    \
	X(op)                                                                                      \
	X(name)                                                                                    \
	X(symbol)                                                                                  \
	X(pid)                                                                                     \
	X(tid)                                                                                     \
	X(comm)                                                                                    \
	X(id)                                                                                      \
	X(parent)                                                                                  \
	X(api)                                                                                     \
	X(api_depth)                                                                               \
	X(depth)                                                                                   \
	X(lib)                                                                                     \
	X(unfinished)                                                                              \
	X(abandoned)                                                                               \
	X(entry_only)                                                                              \
	X(duration_us)                                                                             \
	X(elapsed_us)                                                                              \
	X(result)                                                                                  \
	X(error)                                                                                   \
	X(ioctls)                                                                                  \
	X(ioctl_us)                                                                                \
	X(off_cpu_us)                                                                              \
	X(size)                                                                                    \
	X(ptr)                                                                                     \
	X(stream)                                                                                  \
	X(event)                                                                                   \
	X(direction)                                                                               \
	X(bandwidth_gbps)                                                                          \
	X(kernel)                                                                                  \
	X(kernel_mangled)                                                                          \
	X(kernel_source)                                                                           \
	X(func)                                                                                    \
	X(grid)                                                                                    \
	X(block)                                                                                   \
	X(shared_mem)                                                                              \
	X(cluster)                                                                                 \
	X(cooperative)                                                                             \
	X(capturing)                                                                               \
	X(args)                                                                                    \
	X(stack)                                                                                   \
	X(device)                                                                                  \
	X(fd)                                                                                      \
	X(cmd)                                                                                     \
	X(new)                                                                                     \
	X(object)                                                                                  \
	X(client)                                                                                  \
	X(control_cmd)                                                                             \
	X(control)                                                                                 \
	X(escape)                                                                                  \
	X(uvm)                                                                                     \
	X(class)                                                                                   \
	X(object_class)                                                                            \
	X(status)                                                                                  \
	X(call_id)                                                                                 \
	X(call)                                                                                    \
	X(values)                                                                                  \
	X(meaning)                                                                                 \
	X(xid)                                                                                     \
	X(gpu)                                                                                     \
	X(message)                                                                                 \
	X(irq)                                                                                     \
	X(cpu)                                                                                     \
	X(processor)                                                                               \
	X(write)                                                                                   \
	X(from)                                                                                    \
	X(to)                                                                                      \
	X(cause)                                                                                   \
	X(parent_pid)                                                                              \
	X(exit_code)                                                                               \
	X(signal)                                                                                  \
	X(path)                                                                                    \
	X(build_id)                                                                                \
	X(note)                                                                                    \
	X(why)

enum parse_key {
	KEY_OTHER,
#define X(name) KEY_##name,
	PARSE_KEYS(X)
#undef X
		KEY_CNT
};

enum parse_val { VAL_NULL, VAL_FALSE, VAL_TRUE, VAL_NUMBER, VAL_STRING, VAL_OBJECT, VAL_ARRAY };

struct member {
	uint8_t key;	   /* enum parse_key */
	uint8_t val;	   /* enum parse_val */
	uint32_t from, to; /* with its name and value, in the line */
	uint32_t name_len, len;
	const char *name; /* NULL in an array */
	/* String: decoded. Number: as written. Object, array: what lies between its brackets. */
	const char *text;
};

struct parsed {
	bool is_object; /* else an array */
	struct member *m;
	unsigned cnt;
	/* On error: what is wrong, and at which byte. */
	const char *why;
	size_t at;
};

/* What may be read behind the NUL of a line: the parser looks at 16 bytes at a time. */
#define PARSE_SLACK 32

struct parser;
/* NULL when there is no memory. */
struct parser *parser__new(void);
void parser__free(struct parser *p);
/* text[len] is 0. The result is valid until the next line; its strings are slices of text, or, with
 * escapes in them, of the parser. 0 or -EINVAL. */
int parser__line(struct parser *p, const char *text, size_t len, struct parsed *out);
/* A slice that a parser gave, as a value of its own: nested objects and arrays. Needs no NUL. */
int parser__slice(struct parser *p, const struct member *m, struct parsed *out);

#ifdef __cplusplus
}
#endif

#endif /* SAVED_PARSE_H */
