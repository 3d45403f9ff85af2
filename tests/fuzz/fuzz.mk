# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libFuzzer targets: the library once more, compiled by clang for coverage, and one program a target.
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
# The same without sanitizers: some ten times as fast, and static, to be carried to a machine without compilers.
FUZZ_FAST_LINK = $(CLANG) $(CFLAGS_ALL) -fsanitize=fuzzer -static-pie $(LDFLAGS_ALL)

$(O)/fuzz/%: $(O)/tests/fuzz/%.o $(LIB)
	$(call say,LINK,$@)mkdir -p $(@D); $(CLANG) $(CFLAGS_ALL) -fsanitize=fuzzer $(LINK_PIE) $(LDFLAGS_ALL) $^ $(LIBS) -o $@
$(O)/fuzz-static/%: $(O)/tests/fuzz/%.o $(LIB) $(O)/tools/static-libelf-shim.o
	$(call say,LINK,$@)mkdir -p $(@D); $(FUZZ_FAST_LINK) $^ $(STATIC_LIBS) -o $@ && strip $@

# Names for the demangler: a generator, not a fuzzer.
$(O)/fuzz/names: $(O)/tests/fuzz/names.o $(LIB)
	$(call say,LINK,$@)mkdir -p $(@D); $(CC) $(CFLAGS_ALL) $(LINK_PIE) $(LDFLAGS_ALL) $^ $(LIBS) -o $@
$(O)/fuzz-static/names: $(O)/tests/fuzz/names.o $(LIB) $(O)/tools/static-libelf-shim.o
	$(call say,LINK,$@)mkdir -p $(@D); $(CC) $(CFLAGS_ALL) -static-pie $(LDFLAGS_ALL) $^ $(STATIC_LIBS) -o $@ && strip $@

fuzz-programs: $(FUZZ)
fuzz-static-programs: $(FUZZ:$(O)/fuzz/%=$(O)/fuzz-static/%)
fuzz-build: $(O)/cudatrace.skel.h $(O)/fuzz/names
	$(again) O=$(O)/fuzzing SKEL_DIR=$(O) CC='$(firstword $(CLANG))' SAN=fuzzer-no-link,address,undefined fuzz-programs
fuzz-fast: $(O)/cudatrace.skel.h $(O)/fuzz-static/names ## fuzz programs without sanitizers, to be carried elsewhere
	$(again) O=$(O)/fuzzing-fast SKEL_DIR=$(O) CC='$(firstword $(CLANG))' SAN=fuzzer-no-link fuzz-static-programs
	$(Q)O='$(abspath $(O))' tests/fuzz/pack.sh
.PHONY: fuzz-programs fuzz-static-programs fuzz-build fuzz-fast
