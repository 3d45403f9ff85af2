#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Every fuzz target for some seconds, from its seeds: `make fuzz` goes on for longer.
# takes: 300
# long
# cpus: 2
set -u

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
FUZZ_SECONDS=${FUZZ_SECONDS:-15} tests/fuzz/run.sh
