/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A server of the Model Context Protocol: assistants query saved traces by JSON-RPC messages, one a
 * line. It only reads, and opens no files but those of its options.
 */
#ifndef MCP_MCP_H
#define MCP_MCP_H

#include "report/report.h"

struct mcp_opts {
	const char *const *files;
	unsigned file_cnt;
	const char *budget; /* NULL: none */
	struct report_opts report;
	/* Writes the result of `cudatrace check --json`. Returns false if it cannot. */
	bool (*check)(struct out *json);
};

/* The largest message. */
#define MCP_MESSAGE_MAX (1u << 20)

/* Answers messages from in on out until the end of in, or until the reader of out has exited.
 * Returns 0, or -errno after reporting the error. */
int mcp__run(const struct mcp_opts *o, int in, int out);

#endif /* MCP_MCP_H */
