/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The operators of a libtorch_cpu. Each at::_ops::X::call() calls at::getStepCallbacksUnlessEmpty()
 * once. The file contains where, the operator's name (the strings for its schema lookup), and the
 * position of its own return address then (call frame information). Also the classes of autograd's
 * nodes, by their vtables.
 */
#ifndef ATTACH_FIND_TORCH_H
#define ATTACH_FIND_TORCH_H

#include "elf.h"

#include "decode/torch.h"

struct elf_file;

/* lib's probe sites are set. Returns NULL if this library has no operators. */
struct torch_lib *torch_lib__find(struct elf_file *f, const struct elf_lib *lib);

/* Returns the target of a call instruction at code + i, whose own address is addr + i; 0: not a
 * call. */
uint64_t code_called(const uint8_t *code, size_t len, size_t i, uint64_t addr);

/* Returns the number of stack argument words of a function with a frame pointer; even. */
unsigned code_arg_words(const uint8_t *code, size_t len);

#endif /* ATTACH_FIND_TORCH_H */
