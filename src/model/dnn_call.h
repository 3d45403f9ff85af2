/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef MODEL_DNN_CALL_H
#define MODEL_DNN_CALL_H

#include "annotate.h"

/* A call of cuDNN: its op, sizes and operations are those of the plan or the convolution; learns
 * what its descriptors are. */
void dnn__call(struct quotas *quotas, const struct annotations *m, struct trace_event *ev,
	       struct proc *p);

#endif /* MODEL_DNN_CALL_H */
