#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Fetches kernels of tests/vm/kernels.txt from this machine's Debian mirror and unpacks them:
#
#   tests/vm/fetch.sh [-u] [KERNEL...]      into $O/vm/KERNEL/ (all when none is named)
# vmlinuz release packages     the kernel, its `uname -r`, and its packages
#   build/                       its headers, as /lib/modules/RELEASE/build; not for all
# busybox                      for arm64, on which this machine's own does not run
#
# Nothing is installed; apt gets a configuration, lists and a cache of its own, so that suites that the machine
# does not use are available. Existing files are kept (-u: look for newer ones). Exit status 77, with one
# line that gives the reason, if a kernel is not available (no Debian, no network).
set -u
export LC_ALL=C
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath -m "${O:-build}")
vm=$O/vm

die() { echo "vm/fetch: $*" >&2; exit 1; }
cannot() { echo "vm/fetch: $*" >&2; exit 77; }

update=0
[ "${1-}" = -u ] && { update=1; shift; }

# "NAME SUITES IMAGE HEADERS" of each kernel
table() { sed 's/#.*//' tests/vm/kernels.txt | awk -v n="$1" 'NF && (n == "" || $1 == n) { print $1, $2, $3, $4 }'; }

# --- apt, with everything of its own --------------------------------------------------------------------

# The mirror is that of this machine's own packages; security updates have a separate one.
targets() { apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null; }
sources() # ARCHITECTURE SUITE...
{
	local arch=$1 s uri
	shift
	for s; do
		if [[ $s == *-security ]]; then
			uri=$(targets | awk '$1 ~ /-security$/ { print $2; exit }')
		else
			uri=$(targets | awk '$1 !~ /-security$/ { print $2; exit }')
		fi
		[ -n "$uri" ] || return 1
		echo "deb [arch=$arch signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $s main"
	done
}

# A separate state for each set of suites, because a newer suite must not change results in an older one.
apt_world() # SUITES ARCHITECTURE
{
	local dir=$vm/apt/$2/$1 age
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	: >"$dir/status"
	# shellcheck disable=SC2086 # the suites are words
	sources "$2" ${1//,/ } >"$dir/sources.list" || cannot "no Debian mirror for $1 in this machine's apt sources"
	apt_opts=(-q -o APT::Architecture="$2" -o APT::Architectures="$2"
		-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o Dir::State::lists="$dir/lists" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir"
		-o Dir::Cache::archives="$dir/archives" -o Acquire::Languages=none -o APT::Sandbox::User=root
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Acquire::Retries=2
		-o APT::Update::Error-Mode=any)
	age=$(find "$dir/updated" -mmin -60 2>/dev/null)
	[ -n "$age" ] && return
	apt-get "${apt_opts[@]}" update >"$dir/log" 2>&1 && touch "$dir/updated" && return
	cannot "apt cannot read $1: $(grep -m 1 '^[EW]:' "$dir/log")"
}
depends() { apt-cache "${apt_opts[@]}" depends "$1" 2>/dev/null | sed -n 's/.*Depends: \([^<].*\)/\1/p'; }

unpack() # PACKAGE DIR [GLOB]: unpacks all files of a package, or only those that match
{
	local tmp
	tmp=$(mktemp -d) || exit 1
	(cd "$tmp" && apt-get "${apt_opts[@]}" download "$1") >"$vm/apt/log" 2>&1 || {
		rm -rf "$tmp"
		cannot "cannot download $1: $(grep -m 1 '^[EW]:' "$vm/apt/log")"
	}
	mkdir -p "$2"
	if [ $# -eq 3 ]; then
		dpkg-deb --fsys-tarfile "$tmp"/*.deb | tar -x -C "$2" --wildcards "$3"
	else
		dpkg-deb -x "$tmp"/*.deb "$2"
	fi || die "cannot unpack $1"
	basename "$tmp"/*.deb >>"$packages"
	rm -rf "$tmp"
}

# --- a kernel -------------------------------------------------------------------------------------------

# "RELEASE PACKAGE" of the newest kernel
newest() # IMAGE HEADERS
{
	local names
	names=$(apt-cache "${apt_opts[@]}" pkgnames linux-)
	grep -xE -- "$1" <<<"$names" | sed -E 's/^linux-(image|binary)-(unsigned-)?(.*)/\3 &/' | sort -rV |
		while read -r release image; do
			[ "$2" != headers ] || grep -qxF "linux-headers-$release" <<<"$names" || continue
			echo "$release" "$image"
			break
		done
}

fetch() # NAME SUITES IMAGE HEADERS
{
	local dir=$vm/$1 new=$vm/$1.new arch=${3##*-} image release p
	[ -e "$dir/release" ] && [ $update = 0 ] && return
	apt_world "$2" "$arch"
	read -r release image < <(newest "$3" "$4")
	[ -n "$release" ] || cannot "$2 has no package $3"
	[ -e "$dir/release" ] && [ "$(cat "$dir/release")" = "$release" ] && return
	echo "vm/fetch: $1: $release" >&2
	rm -rf "$new"
	mkdir -p "$new"
	packages=$new/packages
	unpack "$image" "$new/image" '*/vmlinuz*'
	mv "$(find "$new/image" -type f)" "$new/vmlinuz" || die "$image holds no vmlinuz"
	rm -rf "$new/image"
	if [ "$arch" = arm64 ]; then
		unpack busybox-static "$new/image" '*/bin/busybox'
		mv "$(find "$new/image" -type f)" "$new/busybox" || die 'busybox-static holds no busybox'
		rm -rf "$new/image"
	fi
	if [ "$4" = headers ]; then
		for p in "linux-headers-$release" $(depends "linux-headers-$release" | grep -E '^linux-(headers|kbuild)'); do
			unpack "$p" "$new/root"
		done
		headers "$new" "$release"
	fi
	echo "$release" >"$new/release"
	rm -rf "$dir"
	mv "$new" "$dir" || exit 1
}

headers() # DIR RELEASE
{
	ln -s "root/usr/src/linux-headers-$2" "$1/build"
	# tests/vm/modules.sh inserts its location.
	mv "$1/build/Makefile" "$1/build/Makefile.debian"
	foreign_tools "$1"
	# Type information of the kernel, the base of a module's; not all headers have it. It is hidden from
	# kbuild, which would require the kernel's own version of pahole.
	if [ -e "$1/build/vmlinux" ]; then
		mv "$1/build/vmlinux" "$1/"
	else
		python3 tests/vm/vmlinux.py "$1/vmlinuz" "$1/vmlinux" || echo "vm/fetch: $2: modules will have no BTF" >&2
	fi
}

# kbuild's own programs may need a newer C library than this machine has: then they run with their own.
foreign_tools() # DIR
{
	local f lib=$1/root/usr/lib/x86_64-linux-gnu p
	find -L "$1/build/scripts/" "$1/build/tools/" -type f -perm -100 | while read -r f; do
		[ "$(head -c 4 "$f")" = $'\x7fELF' ] || continue
		ldd "$f" 2>&1 | grep -q 'not found' || continue
		if [ ! -e "$lib/libc.so.6" ]; then
			for p in libc6 libelf1t64 libzstd1 zlib1g libssl3t64; do unpack "$p" "$1/root"; done
		fi
		mv "$f" "$f.bin"
		printf '#!/bin/sh\nme=$(readlink -f "$0")\nlib=${me%%/*}/%s\nexec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$me.bin" "$@"\n' \
			"$(realpath --relative-to="$(dirname "$(readlink -f "$f.bin")")" "$lib")" >"$f"
		chmod +x "$f"
	done
}

command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || cannot 'this is no Debian: no apt'
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || cannot 'the keys of the Debian archive are not here'
mkdir -p "$vm"
exec 9>"$vm/fetch.lock"
flock 9

[ $# -gt 0 ] || mapfile -t all < <(table '')
for k; do
	line=$(table "$k")
	[ -n "$line" ] || die "tests/vm/kernels.txt has no kernel $k"
	all+=("$line")
done
for line in "${all[@]}"; do
	read -r name suites image hdr <<<"$line"
	fetch "$name" "$suites" "$image" "$hdr"
done
