#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Boots a kernel of tests/vm/kernels.txt in qemu and runs a shell script in it, as root:
#
#   tests/vm/run.sh [OPTION...] KERNEL [SCRIPT-TEXT...]
#
#   -n NAME       results go to $O/vm/KERNEL/NAME/ (run): what the script left in /results, its stdout, stderr,
#                 and dmesg; console.log
#   -f FILE       the script is this file
#   -a FILE[:TO]  put this file of the host into the guest, as /root/NAME or TO; may be repeated
#   -t SECONDS    end it after this time (120)
#   -q            do not print the script's stdout and stderr
#
#   tests/vm/run.sh 6.12 'driver_load new; cudatrace check'
#   tests/vm/run.sh -n try 6.1 'driver_load nobtf && cudatrace --kernel --jsonl /results/t.jsonl -- drive'
#
# The script is run by busybox' sh with, in PATH: cudatrace, drive (static), drive-cuda, sample, all of busybox;
# libcuda.so.1 (the stand-in) is where the linker looks. Shell functions: driver_load new|old|older|nobtf, driver_unload
# (tests/vm/modules.sh says what these are). One CPU, no network, all emulated: no /dev/kvm is needed.
#
# Exit status: the script's, to 95; 77 where the kernel cannot be had or something is not installed; 124 after
# the time; 125 when the machine did not come to an end of its own.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")

name=run limit=120 script='' quiet=0 add=()
while getopts n:f:a:t:q o; do
	case $o in
	n) name=$OPTARG ;;
	f) script=$(cat "$OPTARG") || exit 1 ;;
	a) add+=("$OPTARG") ;;
	t) limit=$OPTARG ;;
	q) quiet=1 ;;
	*) sed -n 's/^# \?//; 4,18p' "$0" >&2; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
kernel=${1-}
[ -n "$kernel" ] || { echo 'vm/run: which kernel? see tests/vm/kernels.txt' >&2; exit 2; }
shift
[ $# -gt 0 ] && script=$*

for t in qemu-system-x86_64:qemu-system-x86 cpio:cpio busybox:busybox-static; do
	command -v ${t%:*} >/dev/null || { echo "vm/run: ${t#*:} is not installed" >&2; exit 77; }
done
tests/vm/fetch.sh "$kernel" || exit
vm=$O/vm dir=$O/vm/$kernel
out=$dir/$name
rm -rf "$out"
mkdir -p "$out" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# --- what is in the guest -------------------------------------------------------------------------------

guest_build() # OUT FLAGS... SOURCE
{
	local to=$vm/guest/$1
	shift
	[ "$to" -nt "${!#}" ] && return
	mkdir -p "$vm/guest"
	${CC:-gcc} -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Werror -o "$to.$$" "$@" -lpthread && mv "$to.$$" "$to"
}
# put FILE TO: with the libraries that it needs
put()
{
	local lib
	mkdir -p "$tmp/root${2%/*}"
	cp -L "$1" "$tmp/root$2" || return
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$tmp/root$lib" ] && continue
		mkdir -p "$tmp/root${lib%/*}"
		cp -L "$lib" "$tmp/root$lib"
	done
}
pack() { (cd "$1" && find . | cpio -o -H newc --quiet -R 0:0); }

base()
{
	local cudatrace=$O/cudatrace busybox
	# The static program, when there is one of this build: it is what one copies to other machines.
	[ "$O/cudatrace-static" -nt "$O/libct.a" ] && cudatrace=$O/cudatrace-static
	guest_build verdict -static tests/vm/guest/verdict.c &&
		guest_build drive -static -DSTATIC tests/vm/guest/drive.c &&
		guest_build drive-cuda tests/vm/guest/drive.c || return
	busybox=$(command -v busybox)
	mkdir -p "$tmp/root/"{bin,dev,etc,lib64,usr/lib,modules}
	put "$busybox" /bin/busybox && put tests/vm/guest/init /init && put "$cudatrace" /bin/cudatrace &&
		put "$vm/guest/verdict" /bin/verdict && put "$vm/guest/drive" /bin/drive &&
		put "$vm/guest/drive-cuda" /bin/drive-cuda && put "$O/fake/sample" /bin/sample &&
		put "$O/fake/libcuda.so.1" /usr/lib/libcuda.so.1 || return
	for f in sh mount mkdir; do ln -s busybox "$tmp/root/bin/$f"; done
	echo 'root:x:0:0:root:/root:/bin/sh' >"$tmp/root/etc/passwd"
}
base || { echo 'vm/run: cannot put the guest together; is all built? make all fake-all' >&2; exit 1; }
if [ -e "$dir/build" ]; then
	(flock 9; tests/vm/modules.sh "$kernel") 9>"$dir/modules.lock" || exit
	for m in "$dir"/modules/*/; do
		mkdir -p "$tmp/root/modules/$(basename "$m")"
		cp "$m"/*.ko "$tmp/root/modules/$(basename "$m")/"
	done
fi
for a in ${add[@]+"${add[@]}"}; do
	to=/root/$(basename "${a%%:*}")
	[[ $a == *:* ]] && to=${a#*:}
	put "${a%%:*}" "$to" || exit 1
done
mkdir -p "$tmp/root/run"
echo "$script" >"$tmp/root/run/command"
pack "$tmp/root" >"$tmp/initrd" || exit 1

# --- the machine ----------------------------------------------------------------------------------------

truncate -s 512M "$tmp/disk"
timeout -k 5 "$limit" qemu-system-x86_64 -accel tcg -smp 1 -m 768 -nodefaults -no-user-config -display none -no-reboot \
	-kernel "$dir/vmlinuz" -initrd "$tmp/initrd" -append 'console=ttyS0 quiet panic=-1 rdinit=/init' \
	-serial "file:$out/console.log" -device isa-debug-exit,iobase=0xf4,iosize=4 \
	-drive "file=$tmp/disk,format=raw,if=none,id=d0,cache=unsafe" -device nvme,drive=d0,serial=results \
	</dev/null >"$out/qemu.log" 2>&1
rc=$?
tar -x -C "$out" -f "$tmp/disk" 2>/dev/null
[ $rc = 0 ] && [ -s "$out/verdict" ] && rc=$((65 + 2 * $(cat "$out/verdict")))
if [ $quiet = 0 ]; then
	cat "$out/stdout" 2>/dev/null
	cat "$out/stderr" >&2 2>/dev/null
fi
if [ $rc = 124 ] || [ $rc = 137 ]; then
	echo "vm/run: $kernel: not finished after $limit s; see $out/console.log" >&2
	exit 124
elif [ ! -s "$out/verdict" ]; then
	echo "vm/run: $kernel: its results did not arrive; see $out/console.log" >&2
	exit 125
elif [ $rc -lt 65 ] || [ $((rc % 2)) = 0 ]; then
	why=$(grep -am 1 -E 'Kernel panic|BUG:|Oops' "$out/console.log" || cat "$out/qemu.log" "$out/console.log" | tail -1)
	echo "vm/run: $kernel: qemu ended with $rc: $why" >&2
	exit 125
fi
exit $(((rc - 65) / 2))
