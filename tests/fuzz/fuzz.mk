# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libFuzzer targets: the library once more, compiled by clang for coverage, and one program a target.
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(O)/fuzz/%: $(O)/tests/fuzz/%.o $(LIB)
	$(call say,LINK,$@)mkdir -p $(@D); $(CLANG) $(CFLAGS_ALL) -fsanitize=fuzzer $(LINK_PIE) $(LDFLAGS_ALL) $^ $(LIBS) -o $@

fuzz-programs: $(FUZZ)
fuzz-build: $(O)/cudatrace.skel.h
	$(again) O=$(O)/fuzzing SKEL_DIR=$(O) CC='$(firstword $(CLANG))' SAN=fuzzer-no-link,address,undefined fuzz-programs
.PHONY: fuzz-programs fuzz-build
