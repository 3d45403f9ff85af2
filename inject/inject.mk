# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The library in the traced process. Included by the main Makefile. No SAN: it is loaded into programs that have none.
# It is linked to nothing: a program's replacements of libc's functions are not called (inject/elf.c, inject/string.c).
# Its symbols are not bound lazily, and it is never unloaded; thread-local storage comes from the loader's reserve (initial-exec).

INJECT_SRCS := $(wildcard inject/*.c)
INJECT_OBJS := $(INJECT_SRCS:%.c=$(O)/%.o) $(O)/inject/thunk.o
INJECT      := $(O)/libcudatrace-inject.so
# Cache lines are prefetched for writing by prefetchw, which a processor without it treats as a nop.
INJECT_CF   := $(if $(filter x86,$(ARCH)),-fcf-protection -mprfchw,-mbranch-protection=standard -mno-outline-atomics)
INJECT_FLAGS = -D_GNU_SOURCE= -Iinclude -std=gnu11 -fno-strict-aliasing -O2 -g -Wall -Wextra -Wno-unused-parameter \
               $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP)) -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-plt -fno-stack-protector \
               -fno-omit-frame-pointer $(INJECT_CF) $(DEP)

$(O)/inject/%.o: inject/%.c $(O)/flags
	$(call say,CC,$<)mkdir -p $(@D); $(CC) $(INJECT_FLAGS) -c $< -o $@
$(O)/inject/%.o: inject/%.S $(O)/flags
	$(call say,AS,$<)mkdir -p $(@D); $(CC) $(INJECT_FLAGS) -c $< -o $@
$(INJECT): $(INJECT_OBJS) inject/inject.map
	$(call say,LINK,$@)$(CC) -shared -nostdlib -o $@ -Wl,-soname,$(@F) -Wl,--version-script=inject/inject.map -Wl,--build-id \
		-Wl,-z,defs,-z,now,-z,relro,-z,nodelete,-z,noexecstack -Wl,--hash-style=gnu $(INJECT_OBJS) -lgcc

-include $(INJECT_OBJS:.o=.d)
