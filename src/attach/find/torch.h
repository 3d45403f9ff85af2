/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The operators of a libtorch_cpu: at::_ops::X::call() of each calls
 * at::getStepCallbacksUnlessEmpty() once. Where, what it is called (the strings that it looks its
 * schema up by), and where its own return address is then (call frame information), is read from
 * the file. And the classes of autograd's nodes, by their vtables.
 */
#ifndef ATTACH_FIND_TORCH_H
#define ATTACH_FIND_TORCH_H

#include "elf.h"

#include "decode/torch.h"

struct elf_file;

/* lib's probes have their places. NULL: this library has no operators. */
struct torch_lib *torch_lib__find(struct elf_file *f, const struct elf_lib *lib);

/* Address that the instruction at code + i, whose own address is addr + i, calls; 0: it calls none.
 */
uint64_t code_called(const uint8_t *code, size_t len, size_t i, uint64_t addr);

/* Words of arguments that a function with a frame pointer has on the stack; even. */
unsigned code_arg_words(const uint8_t *code, size_t len);

#endif /* ATTACH_FIND_TORCH_H */
