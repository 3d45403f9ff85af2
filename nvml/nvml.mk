# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cudatrace-nvml, the process that queries NVIDIA's management library (--gpu-stats). Included by the main Makefile. The
# tracer embeds it and starts it from memory. It is a separate dynamic program, because a static one cannot load a
# library that needs the machine's libc. No SAN: it shares a process with that library. -nostartfiles: the start-up files
# of a compiler need the libc of the machine it was built on (nvml/start.c).

NVML_OBJS  := $(patsubst %.c,$(O)/%.o,$(wildcard nvml/*.c))
NVML       := $(O)/cudatrace-nvml
NVML_FLAGS  = -D_GNU_SOURCE= -Iinclude -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP)) \
              -fPIE -fno-stack-protector $(DEP)
NVML_LINK   = $(call say,LINK,$@)$(CC) -pie -nostartfiles -o $@ -Wl,--build-id -Wl,-z,now,-z,relro,-z,noexecstack -Wl,--no-as-needed -ldl -Wl,--as-needed

$(O)/nvml/%.o: nvml/%.c $(O)/flags
	$(call say,CC,$<)mkdir -p $(@D); $(CC) $(NVML_FLAGS) -c $< -o $@
$(NVML): $(NVML_OBJS)
	$(NVML_LINK) $(NVML_OBJS)

-include $(NVML_OBJS:.o=.d)
