#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# make bench: builds what only the measurements need, then measures (run.py).
set -eu
cd "$(dirname "$0")/../.."
O=${O:-build}
arch=$(uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
out=$O/bench
mkdir -p "$out"
sys=$(clang -v -E -xc /dev/null 2>&1 | sed -n '/<...> search starts here/,/^End of search list/s|^ \(/.*\)|-idirafter \1|p')
# shellcheck disable=SC2086
clang -g -O2 -target bpf -mcpu=v3 "-D__TARGET_ARCH_$arch" "-Ivmlinux/$arch" $sys \
	-c tests/bench/empty.bpf.c -o "$out/empty.bpf.o"
"$(tools/install-deps.sh bpftool)" gen skeleton "$out/empty.bpf.o" name empty_bpf >"$out/empty.skel.h"
libs="$(pkg-config --libs libbpf libelf zlib) -l:libstdc++.a -lm -lpthread"
# shellcheck disable=SC2086
${CC:-gcc} -std=gnu11 -O2 -D_GNU_SOURCE= -Isrc -Iinclude "-I$out" tests/bench/empty.c "$O/libct.a" $libs -o "$out/empty"
# shellcheck disable=SC2086
${CC:-gcc} -std=gnu11 -O2 -D_GNU_SOURCE= -Isrc -Iinclude tests/bench/writer.c "$O/libct.a" $libs -o "$out/writer"
exec python3 tests/bench/run.py "$O"
