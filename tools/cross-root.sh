#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
#   tools/cross-root.sh DIR    the libraries of arm64 that the static program is linked to, unpacked below DIR
#
# Uses apt with separate lists and settings in DIR, and the library versions of this machine: nothing is installed, and
# the architectures of the machine's package manager do not change. `make dist` links to them.
set -u

PACKAGES='libbpf-dev libelf-dev zlib1g-dev libzstd-dev libyaml-dev libevent-dev libseccomp-dev libncurses-dev libiberty-dev'
die() { echo "cross-root: $*" >&2; exit 1; }
[ $# = 1 ] || die "usage: $0 DIR"
[ -e "$1/done" ] && exit 0
command -v apt-get >/dev/null || die "only apt is known here; put arm64's $PACKAGES below $1 and make $1/done"
rm -rf "$1"
mkdir -p "$1/apt/lists/partial" "$1/apt/cache/archives/partial" && cd "$1" || exit 1
root=$PWD
: >apt/status

apt()
{
	apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::status="$root/apt/status" \
		-o Dir::State::lists="$root/apt/lists" -o Dir::Cache="$root/apt/cache" -o APT::Sandbox::User="$(id -un)" "$@" </dev/null
}
apt update || die 'apt has no lists for arm64'
wanted=()
for p in $PACKAGES; do
	v=$(dpkg-query -W -f '${Version}' "$p" 2>/dev/null)
	wanted+=("$p${v:+=$v}")
done
apt download "${wanted[@]}" || die "not all of these are to be had for arm64: ${wanted[*]}"
for f in ./*.deb; do dpkg-deb -x "$f" . || die "$f cannot be unpacked"; done
rm -rf apt ./*.deb
touch done
