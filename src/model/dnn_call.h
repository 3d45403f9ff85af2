/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls of cuDNN: what they change in the descriptors, and what they compute. */
#ifndef MODEL_DNN_CALL_H
#define MODEL_DNN_CALL_H

#include "annotate.h"

/* Handles a call of cuDNN: updates the descriptors, and sets op, sizes and operations from the plan
 * or the convolution. */
void dnn__call(struct quotas *quotas, const struct annotations *m, struct trace_event *ev,
	       struct proc *p);

#endif /* MODEL_DNN_CALL_H */
