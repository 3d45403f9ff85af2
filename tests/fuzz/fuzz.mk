# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# libFuzzer targets: the library, compiled again by clang for coverage, and one program per target.
FUZZ := $(patsubst tests/fuzz/%.c,$(O)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
# The fast targets have no sanitizers and no shared library but libc (libFuzzer does not run in a static program): several
# times as fast, for a machine without compilers whose glibc is not older.
# Comparisons are not traced, because that takes two thirds of the time: the dictionaries replace it.
FUZZ_FAST_COVERAGE = -fsanitize-coverage=inline-8bit-counters,pc-table
FUZZ_FAST_LINK = $(CLANG) $(CFLAGS_ALL) -fsanitize=fuzzer -static-libstdc++ -static-libgcc $(LINK_PIE) $(LDFLAGS_ALL)

# FUZZ_LIBRARIES=DIR: archives that were built for coverage are linked before the system's libraries: those in DIR/fuzzing
# (with sanitizers) or DIR/fuzzing-fast. The system's library replaces a missing one.
FUZZ_ARCHIVES = $(if $(FUZZ_LIBRARIES),$(sort $(wildcard $(FUZZ_LIBRARIES)/$(notdir $(O))/lib*.a)))
FUZZ_OURS     = -Wl,--start-group $(filter %.o %.a,$^) -Wl,--end-group

$(O)/fuzz-archives: FORCE | $(O)/tools-ok
	@$(if $(FUZZ_LIBRARIES),$(if $(FUZZ_ARCHIVES),,echo 'cudatrace: no lib*.a in $(FUZZ_LIBRARIES)/$(notdir $(O))' >&2; exit 1;)) \
	echo '$(FUZZ_ARCHIVES)' | $(put)
$(O)/fuzz/%: $(O)/tests/fuzz/%.o $(LIB) $(FUZZ_ARCHIVES) $(O)/fuzz-archives
	$(call say,LINK,$@)mkdir -p $(@D); $(CLANG) $(CFLAGS_ALL) -fsanitize=fuzzer $(LINK_PIE) $(LDFLAGS_ALL) $(FUZZ_OURS) $(LIBS) -o $@
$(O)/fuzz-fast/%: $(O)/tests/fuzz/%.o $(LIB) $(FUZZ_ARCHIVES) $(O)/tools/static-libelf-shim.o $(O)/fuzz-archives
	$(call say,LINK,$@)mkdir -p $(@D); $(FUZZ_FAST_LINK) $(FUZZ_OURS) -Wl,-Bstatic,--start-group $(filter-out -lm -ldl -lpthread -pthread,$(STATIC_LIBS)) -Wl,--end-group,-Bdynamic -lm -o $@ && strip $@

# Names for the demangler: a generator, not a fuzzer.
$(O)/fuzz/names: $(O)/tests/fuzz/names.o $(LIB)
	$(call say,LINK,$@)mkdir -p $(@D); $(CC) $(CFLAGS_ALL) $(LINK_PIE) $(LDFLAGS_ALL) $^ $(LIBS) -o $@
$(O)/fuzz-fast/names: $(O)/tests/fuzz/names.o $(LIB) $(O)/tools/static-libelf-shim.o
	$(call say,LINK,$@)mkdir -p $(@D); $(CC) $(CFLAGS_ALL) -static-pie $(LDFLAGS_ALL) $^ $(STATIC_LIBS) -o $@ && strip $@

fuzz-programs: $(FUZZ)
fuzz-fast-programs: $(FUZZ:$(O)/fuzz/%=$(O)/fuzz-fast/%)
fuzz-build: $(O)/cudatrace.skel.h $(O)/fuzz/names
	$(again) O=$(O)/fuzzing SKEL_DIR=$(O) CC='$(firstword $(CLANG))' SAN=fuzzer-no-link,address,undefined fuzz-programs
fuzz-fast: $(O)/cudatrace.skel.h $(O)/fuzz-fast/names ## fuzz programs without sanitizers, to be carried elsewhere
	$(again) O=$(O)/fuzzing-fast SKEL_DIR=$(O) CC='$(firstword $(CLANG))' CFLAGS=$(FUZZ_FAST_COVERAGE) fuzz-fast-programs
	$(Q)O='$(abspath $(O))' tests/fuzz/pack.sh
.PHONY: fuzz-programs fuzz-fast-programs fuzz-build fuzz-fast
