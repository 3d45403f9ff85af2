#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Boots a kernel of tests/vm/kernels.txt in qemu and runs a shell script in it, as root:
#
#   tests/vm/run.sh [OPTION...] KERNEL [SCRIPT-TEXT...]
#
#   -n NAME       results go to $O/vm/KERNEL/NAME/ (run): files of the script in /results, its stdout, stderr,
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
# libcuda.so.1 (the mock driver) is on the linker's path. Shell functions: driver_load new|old|older|nobtf, driver_unload
# (tests/vm/modules.sh describes these). One CPU, no network, all emulated: no /dev/kvm is needed. Kernels for arm64 have no
# drivers; on another machine they run the programs of `make cross-arm64`.
# Exit status: the script's, up to 95; 77 if the kernel is not available or something is not installed; 124 after
# the time limit; 125 when the machine did not end by itself.
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

vm=$O/vm dir=$O/vm/$kernel
# The programs to run, their compiler, and their libraries: for arm64 on another machine they are the cross compiler's.
qemu=qemu-system-x86_64:qemu-system-x86 built=$O guest=$vm/guest cc=${CC:-gcc} libraries=
if [[ $kernel == arm64-* ]]; then
	qemu=qemu-system-aarch64:qemu-system-arm
	if [ "$(uname -m)" != aarch64 ]; then
		built=$O/dist/build-arm64 guest=$vm/guest-arm64 cc=aarch64-linux-gnu-gcc libraries=/usr/aarch64-linux-gnu/lib
	fi
fi
for t in $qemu cpio:cpio busybox:busybox-static ${libraries:+$cc:gcc-aarch64-linux-gnu}; do
	command -v "${t%:*}" >/dev/null || { echo "vm/run: ${t#*:} is not installed" >&2; exit 77; }
done
[ -z "$libraries" ] || [ -e "$libraries/libc.so.6" ] || { echo 'vm/run: libc6-dev-arm64-cross is not installed' >&2; exit 77; }
tests/vm/fetch.sh "$kernel" || exit
out=$dir/$name
rm -rf "$out"
mkdir -p "$out" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# --- contents of the guest -------------------------------------------------------------------------------

guest_build() # OUT FLAGS... SOURCE
{
	local to=$guest/$1
	shift
	[ "$to" -nt "${!#}" ] && return
	mkdir -p "$guest"
	$cc -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Werror -o "$to.$$" "$@" -lpthread && mv "$to.$$" "$to"
}
# put FILE TO: with the libraries that it needs
put()
{
	local lib
	mkdir -p "$tmp/root${2%/*}"
	cp -L "$1" "$tmp/root$2" || return
	# A guest of another architecture needs only these: see base().
	[ -z "$libraries" ] || return 0
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$tmp/root$lib" ] && continue
		mkdir -p "$tmp/root${lib%/*}"
		cp -L "$lib" "$tmp/root$lib"
	done
}
pack() { (cd "$1" && find . | cpio -o -H newc --quiet -R 0:0); }

base()
{
	local cudatrace=$built/cudatrace busybox lib
	# The static program, if this build has one, because it is the one that users copy to other machines.
	[ "$built/cudatrace-static" -nt "$built/libct.a" ] && cudatrace=$built/cudatrace-static
	guest_build verdict -static tests/vm/guest/verdict.c &&
		guest_build drive -static -DSTATIC tests/vm/guest/drive.c &&
		guest_build drive-cuda tests/vm/guest/drive.c || return
	busybox=$(command -v busybox)
	[ -e "$dir/busybox" ] && busybox=$dir/busybox
	mkdir -p "$tmp/root/"{bin,dev,etc,lib,lib64,usr/lib,modules}
	put "$busybox" /bin/busybox && put tests/vm/guest/init /init && put "$cudatrace" /bin/cudatrace &&
		put "$guest/verdict" /bin/verdict && put "$guest/drive" /bin/drive &&
		put "$guest/drive-cuda" /bin/drive-cuda && put "$built/fake/sample" /bin/sample &&
		put "$built/fake/libcuda.so.1" /usr/lib/libcuda.so.1 || return
	for lib in ${libraries:+ld-linux-aarch64.so.1 libc.so.6}; do put "$libraries/$lib" "/lib/$lib" || return; done
	for f in sh mount mkdir; do ln -s busybox "$tmp/root/bin/$f"; done
	echo 'root:x:0:0:root:/root:/bin/sh' >"$tmp/root/etc/passwd"
}
base || { echo 'vm/run: cannot put the guest together; is all built? make all fake-all, or make cross-arm64' >&2; exit 1; }
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
boot=(-kernel "$dir/vmlinuz" -initrd "$tmp/initrd" -append 'console=ttyS0 quiet panic=-1 rdinit=/init' -device isa-debug-exit,iobase=0xf4,iosize=4)
[[ $kernel == arm64-* ]] && boot=(-M virt -cpu cortex-a72 -kernel "$dir/vmlinuz" -initrd "$tmp/initrd" -append 'console=ttyAMA0 quiet panic=-1 rdinit=/init')
# It ends with this shell, whatever the cause.
setpriv --pdeathsig TERM timeout --foreground -k 5 "$limit" "${qemu%:*}" -accel tcg -smp 1 -m 768 -nodefaults -no-user-config \
	-display none -no-reboot "${boot[@]}" -serial "file:$out/console.log" \
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
