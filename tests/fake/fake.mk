# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The mocks libcuda.so.1 and libnccl.so.2, the sample program and the test cases. Included by the main Makefile;
# works alone too: make -f tests/fake/fake.mk fake-all
# No SAN, no hardening: the entry points must look like a driver's to a uprobe.
#
#   $(O)/fake/libcuda.so.1     entry points as in driver 580 (push %rbp, and a call through a pointer)
#   $(O)/fake535/libcuda.so.1  entry points as in drivers 470 to 555 (cmpl, je at +10, and a jump through a pointer)
#   $(O)/fakeplain/libcuda.so.1  entry points without such pointers
#   $(O)/fakelocked/libcuda.so.1  entry points as in fake/, but that of cuFakeLocked cannot be probed
#   $(O)/fake*/libnccl.so.2    a mock of NCCL that calls them
#   $(O)/cupti/libcupti.so.13  a mock of CUPTI, to which the mock driver reports its work
#   $(O)/fakenvml*/libnvidia-ml.so.1  a mock of NVML; an old one; a library that is not NVML
#   $(O)/fake/sample           an inference-like program
#   $(O)/cases/NAME            one program per file of tests/cases
#   $(O)/hard/                 tests/inject: a library and a program that thunks could spoil

O	?= build
CC	?= gcc
FAKE_CFLAGS ?= -O2 -g
Q	?= @

FAKE_FLAGS := -D_GNU_SOURCE -std=gnu11 $(FAKE_CFLAGS) -Wall -Wextra $(if $(WERROR),-Werror) $(if $(REPRODUCIBLE),$(MAP)) -Isrc -Iinclude -I$(O) -MMD -MP
FAKE_SRCS  := $(wildcard tests/fake/libcuda*.c)
FAKE_ASM   := $(wildcard tests/fake/*.S)
FAKE_OBJS  := $(FAKE_SRCS:%.c=$(O)/fake/obj/%.o)
CASE_BINS  := $(patsubst tests/cases/%.c,$(O)/cases/%,$(wildcard tests/cases/*.c))
FAKE_LIBS  := $(O)/fake/libcuda.so.1 $(O)/fake535/libcuda.so.1 $(O)/fakeplain/libcuda.so.1 $(O)/fakelocked/libcuda.so.1 $(O)/fake/libnccl.so.2 \
  $(O)/fake535/libnccl.so.2 $(O)/fakeplain/libnccl.so.2

# Each row of apis.def adds its family's tables. This is here because the file also works alone.
$(O)/api_includes.h: src/decode/apis.def
	@mkdir -p $(O); sed -n 's|^API[_A-Z]*(\([A-Z0-9_]*\), *"\([a-z0-9_]*\)".*|#define FAMILY \1\n#include "decode/api/\2.def"\n#undef FAMILY|p' $< >$@.new; \
		cmp -s $@.new $@ && rm $@.new || mv $@.new $@

NVML_LIBS  := $(O)/fakenvml/libnvidia-ml.so.1 $(O)/fakenvml-old/libnvidia-ml.so.1 $(O)/fakenvml-none/libnvidia-ml.so.1

.PHONY: fake-all fake-clean
fake-all: $(FAKE_LIBS) $(NVML_LIBS) $(O)/cupti/libcupti.so.13 $(O)/fake/sample $(CASE_BINS) $(O)/hard/libcuda.so.1 $(O)/hard/hard

$(O)/fake/obj/%.o: %.c | $(O)/api_includes.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_FLAGS) -fPIC -fvisibility=hidden -c -o $@ $<

$(O)/fake/obj/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) -g $(if $(REPRODUCIBLE),$(MAP)) -Isrc -Itests/fake -MMD -MP -c -o $@ $<

$(O)/fake535/obj/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) -g -DFAKE_535 -Isrc -Itests/fake -MMD -MP -c -o $@ $<

$(O)/fakeplain/obj/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) -g -DFAKE_PLAIN -Isrc -Itests/fake -MMD -MP -c -o $@ $<

$(O)/fakelocked/obj/%.o: %.S
	@mkdir -p $(@D)
	$(Q)$(CC) -g -DFAKE_LOCKED -Isrc -Itests/fake -MMD -MP -c -o $@ $<

FAKE_LINK = $(Q)$(CC) -shared -g -o $@ -Wl,-soname,libcuda.so.1 -Wl,--build-id \
	-Wl,--version-script=tests/fake/libcuda.map -Wl,-z,defs -Wl,-z,noexecstack \
	$(filter %.o,$^) -lpthread -ldl && ln -sf libcuda.so.1 $(@D)/libcuda.so

$(O)/fake/libcuda.so.1: $(FAKE_OBJS) $(FAKE_ASM:%.S=$(O)/fake/obj/%.o) tests/fake/libcuda.map
	$(FAKE_LINK)

$(O)/fake535/libcuda.so.1: $(FAKE_OBJS) $(FAKE_ASM:%.S=$(O)/fake535/obj/%.o) tests/fake/libcuda.map
	$(FAKE_LINK)

$(O)/fakeplain/libcuda.so.1: $(FAKE_OBJS) $(FAKE_ASM:%.S=$(O)/fakeplain/obj/%.o) tests/fake/libcuda.map
	$(FAKE_LINK)

$(O)/fakelocked/libcuda.so.1: $(FAKE_OBJS) $(FAKE_ASM:%.S=$(O)/fakelocked/obj/%.o) tests/fake/libcuda.map
	$(FAKE_LINK)

$(O)/fake/libnccl.so.2 $(O)/fake535/libnccl.so.2 $(O)/fakeplain/libnccl.so.2: $(wildcard tests/fake/libnccl*.c) tests/fake/libnccl.h tests/fake/nccl_functions.def src/decode/api/nccl.def
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(FAKE_FLAGS)) $(if $(filter x86,$(ARCH)),-fcf-protection=branch) -fPIC -shared -o $@ -Wl,-soname,libnccl.so.2 -Wl,--build-id $(filter %.c,$^) -ldl

$(O)/cupti/libcupti.so.13: tests/fake/libcupti.c tests/fake/libcupti_pc.c tests/fake/libcupti_pm.c tests/fake/libcupti.h tests/fake/tools.h inject/cupti.h inject/cupti_cbids.def pm/cupti_pm.h include/ct_pm.def
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(FAKE_FLAGS)) -Iinject -Ipm -Itests/fake -fPIC -fvisibility=hidden -shared -o $@ -Wl,-soname,libcupti.so.13 -Wl,--build-id $(filter %.c,$^) -ldl
	$(Q)echo "int nvperf;" | $(CC) -x c -shared -o $(@D)/libnvperf_host.so -Wl,-soname,libnvperf_host.so -

$(O)/fakenvml/libnvidia-ml.so.1 $(O)/fakenvml-old/libnvidia-ml.so.1 $(O)/fakenvml-none/libnvidia-ml.so.1: tests/fake/libnvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(FAKE_FLAGS)) -Wno-unused-parameter $(if $(findstring -old,$@),-DOLD) -fPIC -shared -o $@ \
		-Wl,-soname,libnvidia-ml.so.1 $(if $(findstring -none,$@),-x c /dev/null,$<)

$(O)/fake/sample: tests/fake/sample.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_FLAGS) -MF $(O)/fake/sample.d -o $@ $< -ldl -lpthread

$(O)/cases/%: tests/cases/%.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(FAKE_FLAGS) -MF $@.d -o $@ $< -ldl -lpthread

$(O)/hard/libcuda.so.1: tests/inject/lib.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(FAKE_FLAGS)) -fPIC -fvisibility=hidden -shared -o $@ -Wl,-soname,libcuda.so.1 -Wl,--build-id $<
$(O)/hard/hard: tests/inject/hard.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(FAKE_FLAGS)) -Wno-unused-parameter -o $@ $< -ldl -lpthread

fake-clean:
	rm -rf $(O)/fake $(O)/fake535 $(O)/fakeplain $(O)/fakelocked $(O)/cupti $(O)/fakenvml $(O)/fakenvml-old $(O)/fakenvml-none $(O)/hard $(O)/cases

-include $(FAKE_OBJS:.o=.d) $(FAKE_ASM:%.S=$(O)/fake/obj/%.d) $(FAKE_ASM:%.S=$(O)/fake535/obj/%.d) $(FAKE_ASM:%.S=$(O)/fakeplain/obj/%.d) $(FAKE_ASM:%.S=$(O)/fakelocked/obj/%.d)
-include $(O)/fake/sample.d $(CASE_BINS:=.d)
