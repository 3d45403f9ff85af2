#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make dist`: the contents of the archives must work by themselves, and archives built again elsewhere must be identical.
# long
# timeout: 2400
# takes: 300
# cpus: 2
set -u
. tests/lib.sh

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
version=$(sed -n 's/^VERSION := //p' Makefile)
archs=$(uname -m | sed s/aarch64/arm64/)
root=$O/dist-root-arm64
if [ "$archs" = x86_64 ]; then
	if ! command -v aarch64-linux-gnu-g++ >/dev/null; then
		skip 'dist: arm64' 'aarch64-linux-gnu-g++ is not installed'
	elif ! why=$(tools/cross-root.sh "$root" 2>&1); then
		skip 'dist: arm64' "its libraries are not to be had: $(tail -1 <<<"$why")"
	else
		archs+=' arm64'
	fi
fi

git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf "$TMP/tree.tar" -T- 2>/dev/null
# made FOLDER: builds the archives from a copy of the tree there, without git, like a release's archive
made()
{
	mkdir -p "$1" && tar -xf "$TMP/tree.tar" -C "$1" || return 1
	GIT_DIR=/nowhere make -C "$1" O=build DIST_ARCHS="$archs" CROSS_ROOT="$root" dist >"$TMP/log" 2>&1 || { grep -m 3 -i error "$TMP/log" || tail -3 "$TMP/log"; return 1; }
	(cd "$1/build/dist" && sha256sum -c --quiet SHA256SUMS)
}
check 'dist: archives are made, and their checksums are right' made "$TMP/one"
again() { local TZ=Asia/Kathmandu; export TZ; umask 077; made "$TMP/another/place"; }
check 'dist: made again, elsewhere' again

machine() { readelf -hW "$1" | sed -n 's/ *Machine: *//p'; }
linked() { readelf -lW "$1" | grep -c INTERP; }
for arch in $archs; do
	name=cudatrace-$version-linux-$arch
	check "dist: $arch: the same bytes" cmp "$TMP/one/build/dist/$name.tar.gz" "$TMP/another/place/build/dist/$name.tar.gz"
	mkdir "$TMP/$arch" && tar -xf "$TMP/one/build/dist/$name.tar.gz" -C "$TMP/$arch"
	top=$TMP/$arch/$name
	check "dist: $arch: one folder, owned by nobody in particular, of the time of the release" is \
		"$(tar --utc -tvf "$TMP/one/build/dist/$name.tar.gz" | awk '{ split($6, p, "/"); print $2, $4, p[1] }' | sort -u)" \
		"0/0 $(TZ=UTC date -d "$(sed -n 's/^ -- .*>  //p' debian/changelog | head -1)" +%F) $name"
	case $arch in
	arm64) want=AArch64 runs="qemu-aarch64" ;;
	*) want='Advanced Micro Devices X86-64' runs=env ;;
	esac
	check "dist: $arch: the program is for it" is "$(machine "$top/bin/cudatrace")" "$want"
	check "dist: $arch: and so is the library" is "$(machine "$top/lib/cudatrace/libcudatrace-inject.so")" "$want"
	check "dist: $arch: it needs no other file" is "$(linked "$top/bin/cudatrace")" 0
	if [ $arch != arm64 ] || [ "$(uname -m)" = aarch64 ] || command -v qemu-aarch64 >/dev/null; then
		[ "$(uname -m)" != aarch64 ] || runs=env
		check "dist: $arch: it runs" is "$($runs "$top/bin/cudatrace" --version | head -1)" "cudatrace $version"
		check "dist: $arch: it reads a trace" eval "$runs \$top/bin/cudatrace report tests/golden/h200-gpt2-tokens.jsonl | grep -q '20 iterations'"
		check "dist: $arch: its own man page" cmp <($runs "$top/bin/cudatrace" --man) "$top/share/man/man1/cudatrace.1"
	else
		skip "dist: $arch: it runs" 'qemu-aarch64 is not installed'
	fi
	(cd "$top" && find . -type f | sort) >"$TMP/in-archive"
	make -s O="$O" PREFIX=/p DESTDIR="$TMP/installed" install >/dev/null 2>&1
	check "dist: $arch: it has what make install installs" is "$(cd "$TMP/installed/p" && find . -type f | sort | diff - "$TMP/in-archive")" ''
	check "dist: $arch: the unit starts what lies in /usr/local" grep -q '^ExecStart=/usr/local/bin/cudatrace' "$top/lib/systemd/system/cudatrace.service"
done
