#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Measures the cost of tracing: `make bench`. Needs root. Prints tables, and writes the numbers to
# $O/bench/results.json. docs/OVERHEAD.md explains the results.
#
#   O=DIR         build folder (build); holds cudatrace and the mock driver
#   tests/bench/run.sh [-q] [PART...]    -q: fewer rounds, to try it out; PART: bench_levels, ...
#
# Exit status 0 also if a limit is missed, which is printed; 1 if something could not be run.
set -u
export LC_ALL=C.UTF-8

cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
case $(uname -m) in
x86_64) arch=x86 ;;
aarch64) arch=arm64 ;;
*) echo 'bench: no BPF side for this machine' >&2; exit 1 ;;
esac
[ "$(id -u)" = 0 ] || { echo 'bench: needs root: sudo make bench' >&2; exit 1; }

out=$O/bench
mkdir -p "$out" || exit 1

# gcc finds asm/types.h in this folder, clang -target bpf does not.
tests=tests/bench
read -ra libs < <(pkg-config --libs libbpf libelf zlib libseccomp)
read -ra sys < <(${CLANG:-clang} -v -E -xc /dev/null 2>&1 |
	sed -n '/<...> search starts here/,/^End of search list/s|^ \(/.*\)|-idirafter \1|p' | xargs)
cc() { ${CC:-gcc} -std=gnu11 -D_GNU_SOURCE= -O2 -g -Wall -Wextra -Isrc -Iinclude -I"$O" "$@"; }

mkdir -p "$out/cores" || exit 1
cc -o "$out/cores/cores" $tests/cores.c -ldl -lpthread &&
	cc -O0 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$out/cores/libcuda.so.1" $tests/cores_lib.c &&
	cc -o "$out/load" $tests/load.c -ldl -lpthread &&
	cc -o "$out/empty" $tests/empty.c "$O/libct.a" "${libs[@]}" &&
	cc -o "$out/writer" $tests/writer.c "$O/libct.a" "${libs[@]}" -l:libiberty.a -l:libstdc++.a -lm &&
	cc -o "$out/reader" $tests/reader.c "$O/libct.a" "${libs[@]}" -l:libiberty.a -l:libstdc++.a -lm &&
	cc -o "$out/gen_trace" $tests/gen_trace.c "$O/libct.a" "${libs[@]}" -l:libiberty.a -l:libstdc++.a -lm &&
	${CLANG:-clang} -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$arch -Ivmlinux/$arch -Wall "${sys[@]}" \
		-c $tests/empty.bpf.c -o "$out/empty.bpf.o" || exit 1

O=$O exec python3 $tests/bench.py "$@"
