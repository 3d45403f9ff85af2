/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Offsets of the fields in nvidia-uvm's events, from the module's own type information. */
#ifndef ATTACH_UVM_BTF_H
#define ATTACH_UVM_BTF_H

#include "ct_nv_bpf.h"

#include <stdbool.h>

/* Fills off (CT_UVM_FIELD_CNT byte offsets). Returns false if there is no BTF, or an unknown
 * layout. */
bool uvm_btf_read(__u32 *off);

#endif /* ATTACH_UVM_BTF_H */
