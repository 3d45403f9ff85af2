/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages to `cudatrace mcp`, about a small trace: none ends the server, each line of its output
 * is one JSON object or array, and no answer is larger than its limit.
 */
#include "fuzz.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/json_check.h"
#include "mcp/answer.h"
#include "mcp/mcp.h"
#include "util/log.h"

/* A text in JSON has at most six bytes for one, twice in an answer; each request has one answer. */
#define LINE_MAX_SZ (64u * ANSWER_MAX)

static const char trace[] =
	"{\"ts\":0,\"type\":\"header\",\"name\":\"cudatrace\",\"schema\":2,\"clock\":\"CLOCK_MONOTONIC\","
	"\"clock_base_ns\":1000}\n"
	"{\"ts\":1.5,\"type\":\"memory\",\"op\":\"alloc\",\"name\":\"cuMemAlloc\",\"symbol\":\"cuMemAlloc_v2\","
	"\"pid\":7,\"tid\":7,\"comm\":\"a\",\"id\":1,\"duration_us\":2.5,\"result\":0,\"size\":64,"
	"\"ptr\":\"0x7f00\",\"args\":{}}\n"
	"{\"ts\":2.5,\"type\":\"kernel\",\"op\":\"launch\",\"name\":\"cuLaunchKernel\",\"symbol\":"
	"\"cuLaunchKernel\",\"pid\":7,\"tid\":8,\"comm\":\"a\\u0001\\\"\",\"id\":2,\"duration_us\":3,"
	"\"result\":0,\"kernel\":\"k\\u202e<int>\",\"grid\":[1,1,1],\"block\":[1,1,1],\"args\":{}}\n"
	"{\"ts\":9,\"type\":\"end\",\"name\":\"cudatrace\",\"events\":2,\"calls\":2,\"end_ms\":9}\n";

static int in = -1, out;
static char paths[2][64];
static const char *const files[] = {paths[0], paths[1]};

static bool no_check(struct out *json)
{
	return false;
}

static int memory_file(const char *name, const char *text, char *path)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	if (path)
		snprintf(path, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void open_all(void)
{
	log_set_level(LOG_ERR);
	in = memory_file("in", "", NULL);
	out = memory_file("out", "", NULL);
	memory_file("one", trace, paths[0]);
	/* Of another content, as two copies are one trace. */
	memory_file("two", strchr(trace, '\n') + 1, paths[1]);
}

static void check_output(void)
{
	off_t size = lseek(out, 0, SEEK_END);
	char *text = malloc(size + 1), *line = text, *end;

	assert(text && pread(out, text, size, 0) == size);
	text[size] = '\0';
	assert(!size || text[size - 1] == '\n');
	for (; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert(end && end - line < LINE_MAX_SZ);
		*end = '\0';
		assert(*line == '{' || *line == '[');
		assert(json_valid_loose(line, end - line));
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mcp_opts o = {
		.files = files, .file_cnt = 2, .report = {.top = 10}, .check = no_check};

	if (in < 0)
		open_all();
	assert(!ftruncate(in, 0) && !ftruncate(out, 0));
	assert(pwrite(in, data, size, 0) == (ssize_t)size);
	lseek(in, 0, SEEK_SET);
	lseek(out, 0, SEEK_SET);
	assert(!mcp__run(&o, in, out));
	check_output();
	return 0;
}
