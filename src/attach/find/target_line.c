/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Lines of /proc/PID/maps. Another user's process may have crafted them: file names may contain
 * spaces, newlines (the kernel writes them as \012), " (deleted)", up to 4095 bytes.
 */
#include "target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DELETED " (deleted)"

/* Parses a number of at most 64 bits that ends with `stop`. Moves *p past it. */
static bool take_num(char **p, int base, char stop, uint64_t *out)
{
	char *end;

	/* strtoull() would accept a sign, blanks and "0x", too. */
	if (!isxdigit((unsigned char)**p) || (*p)[1] == 'x')
		return false;
	errno = 0;
	*out = strtoull(*p, &end, base);
	if (errno || *end != stop)
		return false;
	*p = end + 1;
	return true;
}

char *target_cut_deleted(char *path, bool *deleted)
{
	size_t len = strlen(path), suffix = sizeof(DELETED) - 1;

	*deleted = len > suffix && !strcmp(path + len - suffix, DELETED);
	if (*deleted)
		path[len - suffix] = '\0';
	return path;
}

/* The device is hexadecimal, the inode decimal. */
bool target_parse_file_line(char *line, struct map_line *out)
{
	uint64_t major, minor, ino;
	char *p = line, *perms;

	line[strcspn(line, "\n")] = '\0';
	if (!take_num(&p, 16, '-', &out->start) || !take_num(&p, 16, ' ', &out->end))
		return false;
	perms = p;
	if (strcspn(perms, " ") != 4 || !perms[4])
		return false;
	p += 5;
	if (!take_num(&p, 16, ' ', &out->off) || !take_num(&p, 16, ':', &major) ||
	    !take_num(&p, 16, ' ', &minor) || !take_num(&p, 10, ' ', &ino))
		return false;
	if (out->start >= out->end || major > UINT32_MAX || minor > UINT32_MAX)
		return false;
	out->key.ino = ino;
	out->key.dev_major = (__u32)major;
	out->key.dev_minor = (__u32)minor;
	out->exec = perms[2] == 'x';
	p += strspn(p, " ");
	out->path = target_cut_deleted(p, &out->deleted);
	return *p == '/';
}

const struct api *target_api_of_path(const char *path)
{
	static const char memory[] = "memfd:";
	const char *base = strrchr(path, '/');

	if (!base++)
		return NULL;
	return api_of_file(base + (strncmp(base, memory, strlen(memory)) ? 0 : strlen(memory)));
}

int target_parse_map_line(char *line, struct map_line *out)
{
	memset(out, 0, sizeof(*out));
	if (!target_parse_file_line(line, out) || !out->exec)
		return 0;
	out->api = target_api_of_path(out->path);
	return out->api != NULL;
}
