#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Fetches real libcuda.so.1 files for tests, from Debian's non-free component, into build/real-libcuda/VERSION/
# (or $O/real-libcuda). Prints a line "VERSION PATH" for each. NVIDIA's licence allows using them, but not committing them.
#
# Nothing on this machine changes: no source is enabled, no package installed. apt runs with separate lists and a
# separate sources file; the address of the archive comes from the machine's sources.
#
# Exit status: 0 at least one was fetched or present; 77 none is available (a line on stderr gives the reason).
set -u
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/.." || exit 1

# Debian's name of the processor: amd64, or arm64, whose files are apart.
arch=${LIBCUDA_ARCH:-amd64}
out=$(realpath -m "${O:-build}")/real-libcuda
[ "$arch" = amd64 ] || out+=-$arch
state=$out/.apt
# A driver branch is in one of these: the current driver of each suite, and long-lived branches for data centres.
packages='libcuda1 libnvidia-tesla-cuda1 libnvidia-tesla-450-cuda1 libnvidia-tesla-460-cuda1
	libnvidia-tesla-470-cuda1 libnvidia-tesla-535-cuda1 libnvidia-tesla-550-cuda1'
suites='bullseye bookworm bookworm-backports trixie trixie-backports sid experimental'

skip() { echo "fetch-libcuda: $*" >&2; exit 77; }
say()  { echo "fetch-libcuda: $*" >&2; }

list()
{
	local dir lib found=1
	for dir in "$out"/*/; do
		lib=${dir}libcuda.so.1
		[ -f "$lib" ] && { echo "$(basename "$dir") $lib"; found=0; }
	done
	return $found
}

# A list of versions is used for a day before it is fetched again.
if [ -e "$out/.complete" ] && [ -z "$(find "$out/.complete" -mtime +0)" ] && list; then
	exit 0
fi

for tool in apt-get apt-cache dpkg-deb; do
	command -v $tool >/dev/null || { list && exit 0; skip "$tool is not installed: only Debian's archive has these files"; }
done
archive=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN)' 'Created-By: Packages' 2>/dev/null |
	awk '$2 == "Debian" && $1 !~ /security/ { print $1; exit }')
[ -n "$archive" ] || { list && exit 0; skip "no Debian archive among apt's sources"; }
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || { list && exit 0; skip "$keyring is missing: install debian-archive-keyring"; }

mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/etc" || exit 1
for suite in $suites; do
	echo "deb [arch=$arch signed-by=$keyring] $archive $suite non-free"
done >"$state/etc/sources.list"
: >"$state/status"

apt_opts=(-qq -o Dir::State="$state" -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status"
	-o Dir::Cache="$state/cache" -o Dir::Etc::sourcelist="$state/etc/sources.list"
	-o Dir::Etc::sourceparts=- -o Dir::Etc::preferencesparts=- -o Dir::Etc::preferences=-
	-o APT::Architecture=$arch -o APT::Architectures::=$arch -o APT::Sandbox::User=
	-o Acquire::Languages=none -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2
	-o APT::Get::List-Cleanup=true -o Acquire::http::Timeout=20)

# One unavailable suite must not hide the others.
log=$state/log
apt-get "${apt_opts[@]}" update >"$log" 2>&1
ls "$state"/lists/*_Packages* >/dev/null 2>&1 || {
	list && exit 0
	skip "the archive cannot be reached: $(grep -a -m1 '^[EW]:' "$log" || echo offline)"
}

fetch()
{
	local package=$1 version=$2 work driver lib
	work=$(mktemp -d -p "$out" .tmp.XXXXXX) || return 1
	if (cd "$work" && apt-get "${apt_opts[@]}" download "$package=$version") >"$log" 2>&1 &&
	   dpkg-deb -x "$work"/*.deb "$work/x" >"$log" 2>&1; then
		lib=$(find "$work/x" -type f -name 'libcuda.so.[0-9]*' | head -1)
		driver=${lib##*/libcuda.so.}
		if [ -n "$lib" ]; then
			mkdir -p "$out/$driver"
			# Also copy the file under its own name, which contains the driver version.
			mv -f "$lib" "$out/$driver/libcuda.so.$driver"
			ln -sf "libcuda.so.$driver" "$out/$driver/libcuda.so.1"
		else
			say "$package $version has no libcuda.so"
		fi
	else
		say "cannot fetch $package $version: $(grep -a -m1 '^[EW]:' "$log" || tail -1 "$log")"
	fi
	rm -rf "$work"
}

# One version of each branch is enough: the newest available.
declare -A seen=()
while read -r package version; do
	driver=${version#*:}
	driver=${driver%%-*}
	branch=${driver%%.*}
	[ -n "${seen[$branch]-}" ] && continue
	seen[$branch]=1
	[ -f "$out/$driver/libcuda.so.1" ] || fetch "$package" "$version"
done < <(apt-cache "${apt_opts[@]}" madison $packages 2>/dev/null | awk '{ print $1, $3 }' | sort -k2,2Vr -u)

touch "$out/.complete"
list || skip 'the archive has none of the packages'
