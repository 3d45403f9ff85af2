#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Boots a kernel of tests/vm/kernels.txt with this machine's systemd as its first process and cudatrace's unit installed below
# /usr, and runs tests/vm/guest/systemd.sh there:
#
#   tests/vm/systemd.sh [KERNEL]      6.12
# Prints its output (ok, not ok, skip); the console is kept in $O/vm/systemd.log. All emulated: no /dev/kvm is needed.
# Exit status 77, with one line that gives the reason, if something is missing.
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
kernel=${1-6.12}

for t in qemu-system-x86_64:qemu-system-x86 cpio:cpio busybox:busybox-static dpkg:dpkg systemd-analyze:systemd; do
	command -v ${t%:*} >/dev/null || { echo "vm/systemd: ${t#*:} is not installed" >&2; exit 77; }
done
[ -x /lib/systemd/systemd ] || { echo 'vm/systemd: systemd is not installed' >&2; exit 77; }
tests/vm/fetch.sh "$kernel" || exit
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root

# put FILE TO: with the libraries that it needs
put()
{
	local lib
	mkdir -p "$root${2%/*}"
	cp -L "$1" "$root$2" || return
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r lib; do
		[ -e "$root$lib" ] || { mkdir -p "$root${lib%/*}" && cp -L "$lib" "$root$lib"; }
	done
}
mkdir -p "$root"/{proc,sys,dev,run,tmp,var,usr/bin,usr/lib,etc,root}
for d in bin sbin lib lib64; do
	mkdir -p "$root/usr/$d"
	ln -s "usr/$d" "$root/$d"
done
dpkg -L systemd libsystemd-shared 2>/dev/null | grep -vE '^/usr/share/(doc|man|locale|bash|zsh)|^/etc|/(udev|kernel-install)/' | while read -r f; do
	if [ -L "$f" ]; then
		mkdir -p "$root${f%/*}"
		cp -P "$f" "$root$f" 2>/dev/null
	elif [ -f "$f" ]; then
		put "$f" "$f"
	fi
done
# Libraries that systemd looks for when it needs them
for f in /lib/*-linux-gnu/lib{mount,blkid,crypt}.so.1; do [ ! -e "$f" ] || put "$f" "$f"; done
put "$(command -v busybox)" /usr/bin/busybox
for f in sh kill sleep cat wget grep sed awk cut tr wc head tail poweroff mkdir cp true date env readlink mount umount; do
	ln -s busybox "$root/usr/bin/$f"
done
put "$O/cudatrace" /usr/bin/cudatrace
put "$O/fake/sample" /usr/bin/sample
put "$O/fake/libcuda.so.1" /usr/lib/libcuda.so.1
sed 's|@PREFIX@|/usr|' dist/cudatrace.service.in >"$root/lib/systemd/system/cudatrace.service"
put tests/vm/guest/systemd.sh /root/systemd.sh
cat >"$root/lib/systemd/system/tests.service" <<END
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/sh /root/systemd.sh
StandardOutput=file:/dev/ttyS1
StandardError=file:/dev/ttyS1
ExecStopPost=/bin/poweroff -f
END
mkdir -p "$root/etc/systemd/system"
# No login, no console
printf '[Unit]\nRequires=basic.target tests.service\nAfter=basic.target\n' >"$root/etc/systemd/system/tests.target"
ln -s tests.target "$root/etc/systemd/system/default.target"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'ID=test\nNAME=test\n' >"$root/etc/os-release"
printf '%032x\n' 1 >"$root/etc/machine-id"
(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0) >"$tmp/initrd" || exit 1

: >"$tmp/out"
timeout -k 5 "${LIMIT:-300}" qemu-system-x86_64 -accel tcg -smp 1 -m 1536 -nodefaults -no-user-config -display none -no-reboot \
	-kernel "$O/vm/$kernel/vmlinuz" -initrd "$tmp/initrd" \
	-append 'console=ttyS0 panic=-1 no_timer_check rdinit=/lib/systemd/systemd systemd.show_status=1 systemd.journald.forward_to_console=1' \
	-serial "file:$O/vm/systemd.log" -serial "file:$tmp/out" </dev/null >"$tmp/qemu" 2>&1
rc=$?
tr -d '\r' <"$tmp/out" >"$tmp/said"
grep -v '^end$' "$tmp/said"
[ $rc -eq 0 ] && grep -q '^end$' "$tmp/said" && exit 0
echo "vm/systemd: qemu ended with $rc: $(tail -1 "$tmp/qemu"); see $O/vm/systemd.log" >&2
exit 1
