# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# other_root.sh FOLDER FAKE PYTHON: jit.py in a root of its own, FOLDER/root, whose /tmp is a link to FOLDER/outside there.
set -e
root=$1/root
mkdir -p "$root/proc" "$root/fake" "$root/usr" "$root/w"
for l in /bin /lib /lib64; do [ ! -L $l ] || cp -a $l "$root/"; [ -L $l ] || { mkdir -p "$root$l"; mount --bind $l "$root$l"; }; done
mount --bind /usr "$root/usr"
mount --bind "$2" "$root/fake"
mount --bind "$1/outside" "$root/w"
mount -t proc proc "$root/proc"
ln -s "$1/outside" "$root/tmp"
exec chroot "$root" "$3" /w/jit.py /fake/libcuda.so.1
