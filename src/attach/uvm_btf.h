/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where nvidia-uvm keeps what its events say: read from the module's own type information. */
#ifndef ATTACH_UVM_BTF_H
#define ATTACH_UVM_BTF_H

#include "ct_nv_bpf.h"

#include <stdbool.h>

/* Fills off (CT_UVM_FIELD_CNT bytes offsets). false: no BTF, or another layout than we know. */
bool uvm_btf_read(__u32 *off);

#endif /* ATTACH_UVM_BTF_H */
