#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Builds the mock driver modules of tests/vm/stub for a kernel that tests/vm/fetch.sh fetched:
#
#   tests/vm/modules.sh KERNEL    $O/vm/KERNEL/modules/VARIANT/{nvidia,nvidia-uvm,nvidia-modeset}.ko
#
#   new      driver 580.159.04 (entry points nvidia_*), with type information (BTF)
#   old      driver 535.288.01 (entry points nvidia_frontend_*), with BTF
#   older    as old, but reports version 525.147.05
#   nobtf    as new, without BTF, as with headers that have none: no fentry
# Exit status 77 if the kernel has no headers. Builds again only when a source is newer.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
dir=$O/vm/$1
out=$dir/modules
[ -e "$dir/build/Makefile.debian" ] || { echo "vm/modules: $1: no kernel headers" >&2; exit 77; }
[ -z "$(find tests/vm/stub tests/vm/modules.sh "$dir/release" -newer "$out/done" 2>&1)" ] && exit 0

# The kernel's own compiler is not always installed, and others lack some of its configured features.
arguments()
{
	local cc=${CC:-gcc}
	command -v gcc-12 >/dev/null && cc=gcc-12
	echo "CC=$cc"
	$cc -fmin-function-alignment=16 -x c -S -o /dev/null /dev/null 2>/dev/null || echo CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=
}
mapfile -t args < <(arguments)

variant() # NAME MAKE-ARGUMENT...
{
	local b=$out/$1 f
	rm -rf "$b"
	mkdir -p "$b/src"
	cp tests/vm/stub/* "$b/src/"
	make -s -C "$(realpath "$dir/build")" M="$b/src" "${args[@]}" "${@:2}" modules >"$b/log" 2>&1 || {
		echo "vm/modules: $1: cannot build: $(grep -m 1 -E 'error|Error' "$b/log"); see $b/log" >&2
		exit 1
	}
	if [ -e "$dir/vmlinux" ] && command -v pahole >/dev/null; then
		for f in "$b"/src/*.ko; do
			pahole -J --btf_gen_floats --btf_base "$dir/vmlinux" "$f" >>"$b/log" 2>&1 ||
				echo "vm/modules: $1: no BTF: $(tail -1 "$b/log")" >&2
		done
	fi
	mv "$b"/src/*.ko "$b/"
	rm -rf "$b/src"
}

# Headers contain their place of installation.
sed "s|/usr/src/|$dir/root&|" "$dir/build/Makefile.debian" >"$dir/build/Makefile"

rm -f "$out/done"
variant new &
variant old OLD=1 || exit 1
variant older OLD=1 VERSION_STR=525.147.05 || exit 1
wait $! || exit 1
mkdir -p "$out/nobtf"
for f in "$out"/new/*.ko; do
	# Removes debug information, too, which the guest does not need.
	objcopy --remove-section=.BTF --remove-section=.BTF.base "$f" "$out/nobtf/${f##*/}"
done
strip --strip-debug "$out"/*/*.ko
touch "$out/done"
