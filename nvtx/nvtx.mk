# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libcudatrace-nvtx.so, which programs with NVTX load. Included by the main Makefile; the tracer embeds it. No SAN: it
# is loaded into programs that have none. Each function begins with a nop, which the kernel emulates under a probe; none is
# merged with another. Its thread-local storage comes from the loader's reserve.

NVTX       := $(O)/libcudatrace-nvtx.so
NVTX_FLAGS  = -D_GNU_SOURCE= -Iinclude -Iinject -std=gnu11 -O2 -g -Wall -Wextra $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP)) -fPIC -fvisibility=hidden \
              -fno-stack-protector -fno-plt -ftls-model=initial-exec -fpatchable-function-entry=1 -fcf-protection=none $(DEP)
ifneq ($(ARCH),x86)
NVTX_FLAGS := $(filter-out -fcf-protection=none,$(NVTX_FLAGS))
endif
NVTX_ICF   := $(if $(findstring clang,$(CC)),,-fno-ipa-icf)

$(O)/nvtx/%.o: nvtx/%.c $(O)/flags
	$(call say,CC,$<)mkdir -p $(@D); $(CC) $(NVTX_FLAGS) $(NVTX_ICF) -c $< -o $@
$(NVTX): $(O)/nvtx/nvtx.o
	$(call say,LINK,$@)$(CC) -shared -o $@ -Wl,-soname,$(@F) -Wl,--build-id -Wl,-z,defs,-z,now,-z,relro,-z,nodelete,-z,noexecstack \
		-Wl,--hash-style=gnu -Wl,--no-as-needed -ldl -Wl,--as-needed $<

-include $(O)/nvtx/nvtx.d
