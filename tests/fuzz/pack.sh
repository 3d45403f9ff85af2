#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Packs the programs of `make fuzz-fast` into a folder that runs anywhere: build/fuzz-pack.
#   FUZZ_DIR=$PWD/fuzz-pack FUZZ_RUNS=50000000 FUZZ_JOBS=32 FUZZ_SECONDS=540 fuzz-pack/run.sh TARGET...
set -eu
cd "$(dirname "$0")/../.."
O=${O:-$PWD/build}
to=$O/fuzz-pack
rm -rf "$to"
mkdir -p "$to/fuzz" "$O/fuzzing"
O=$O tests/fuzz/run.sh seeds
cp "$O"/fuzzing-fast/fuzz-fast/fuzz_* "$O/fuzz-fast/names" "$to/fuzz/"
cp -r "$O/fuzzing/seeds" "$O"/fuzzing/*.dict tests/fuzz/run.sh "$to/"
du -sh "$to"
