#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Every fuzz target runs for some seconds from its seeds; `make fuzz` runs longer.
# takes: 400
# timeout: 2400
# long
# cpus: 2
set -u
. tests/lib.sh

if ! echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
	${CLANG:-clang} -fsanitize=fuzzer -x c - -o "$TMP/probe" 2>/dev/null; then
	echo 'skip fuzz # this clang has no libFuzzer: install libclang-rt-dev'
	exit
fi
if ! flock "$O/check/make.lock" make -s -j"$(nproc)" O="${O#"$PWD/"}" fuzz-build >"$TMP/log" 2>&1; then
	sed 's/^/  /' "$TMP/log" | tail -n 20
	echo 'not ok fuzz: build'
	exit
fi
# With FUZZ_LIBRARIES, which replaces the system's libraries when the programs are linked.
with() { make -n O="${O#"$PWD/"}" FUZZ_LIBRARIES="$1" fuzz-build 2>&1; }
mkdir -p "$TMP/libraries/fuzzing"
ar rc "$TMP/libraries/fuzzing/libyaml.a"
check 'fuzz: libraries: come before the system'"'"'s' grep -q "start-group.*$TMP/libraries/fuzzing/libyaml.a .*end-group.* -lyaml" <<<"$(with "$TMP/libraries")"
check 'fuzz: libraries: a folder without is refused' grep -q 'no lib\*.a in' <<<"$(make O="${O#"$PWD/"}" FUZZ_LIBRARIES="$TMP" fuzz-build 2>&1)"
FUZZ_SECONDS=${FUZZ_SECONDS:-15} tests/fuzz/run.sh
