/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Shared by the files of the server: its state, its traces and the functions of tools. */
#ifndef MCP_MCP_PRIV_H
#define MCP_MCP_PRIV_H

#include "answer.h"
#include "args.h"
#include "client.h"
#include "mcp.h"
#include "model/losses.h"
#include "saved/reader.h"
#include "traces.h"

struct mcp {
	const struct mcp_opts *o;
	int out;
	struct client client;
	struct answer *answer;
	struct out *message; /* what will be written */
	struct traces traces;
	bool takes_batches;	   /* the protocol version has them */
	int error;		   /* errno of a failed write */
	struct rpc_id id;	   /* of the request that is answered */
	struct parser *parsers[3]; /* of a line, a message of a batch, parameters */
};

/* Each tool fills the answer, whose object is open except for summary. Returns 0; -ECANCELED if the
 * client has cancelled the request; another -errno after answer__fail(). */
#define TOOL(name, title, text) int tool_##name(struct mcp *m, const struct args *args);
#define ARG(tool, name, type, need, min, max, text)
#include "tools.def"

#endif /* MCP_MCP_PRIV_H */
