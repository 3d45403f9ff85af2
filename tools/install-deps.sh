#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Installs missing packages to build, test or measure cudatrace on Debian 12 and Ubuntu 24.04:
#
#   tools/install-deps.sh [build|tests|check|check-all|bench|deb|dist]  install a set: build and tests compile the tracer and its
#                                                tests; the others run the targets of these names
#   tools/install-deps.sh -n [build|...]         only print what would be done
#   tools/install-deps.sh bpftool                print the path of a bpftool that runs (for the Makefile)
#   tools/install-deps.sh python                 print the path of a python3 that has pytest (for tests/run.sh)
#
# Prints what it installs and why; does nothing when everything is installed. docs/DEPENDENCIES.md has
# the same list with reasons.
set -u

export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL=C
backports_list=/etc/apt/sources.list.d/cudatrace-backports

say() { printf 'deps: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Ubuntu's bpftool is a script that searches for the bpftool of exactly the running kernel and fails without
# one (containers, cloud kernels). Any bpftool is good enough for the build.
find_bpftool()
{
	local b
	for b in "$(command -v bpftool)" /usr/lib/linux-tools/*/bpftool /usr/lib/linux-tools-*/bpftool; do
		[ -x "$b" ] && "$b" version >/dev/null 2>&1 && { echo "$b"; return 0; }
	done
	return 1
}

# A python3 that is not the distribution's does not see the distribution's package.
find_pytest()
{
	local p
	for p in "$(command -v python3)" /usr/bin/python3; do
		[ -x "$p" ] && "$p" -c 'import pytest' 2>/dev/null && { echo "$p"; return 0; }
	done
	return 1
}

dry=0
[ "${1-}" = -n ] && { dry=1; shift; }
set=${1:-build}
case $set in
bpftool) find_bpftool || echo bpftool; exit 0 ;;
python) find_pytest; exit ;;
build|tests|check|check-all|bench|deb|dist) ;;
*) die "usage: $0 [-n] [build|tests|check|check-all|bench|deb|dist]" ;;
esac

# --- what is missing: WHAT:PACKAGE:WHY -----------------------------------------------------------------

missing=()
need_cmd() { have "$1" || missing+=("$2:$3"); }
# A header or static library, searched in the directories of Debian's and Ubuntu's compilers.
need_file()
{
	local d
	for d in /usr/include /usr/include/*-linux-gnu /usr/local/include; do
		[ -e "$d/$1" ] && return
	done
	missing+=("$2:$3")
}

need_cmd gcc gcc 'compiles the tracer'
need_cmd g++ g++ 'compiles the reader of saved traces'
need_file libiberty/demangle.h libiberty-dev 'demangles kernel names'
need_cmd clang clang 'compiles the BPF programs'
need_cmd llvm-strip llvm 'tools that belong to clang'
need_cmd pkg-config pkg-config 'finds the libraries'
need_file stdlib.h libc6-dev 'C library headers'
need_file libelf.h libelf-dev 'reads ELF files; libbpf needs it'
need_file zlib.h zlib1g-dev 'libelf and libbpf need it'
need_file zstd.h libzstd-dev 'packed traces; libelf.a needs it'
need_file rapidjson/reader.h rapidjson-dev 'reports read JSON with it'
need_file yaml.h libyaml-dev 'reads the configuration of the daemon'
need_file seccomp.h libseccomp-dev 'filters the system calls of the tracer'
need_file curses.h libncurses-dev 'draws the screen of cudatrace top'
need_file event2/http.h libevent-dev 'the loop of the daemon, and its HTTP'
if ! have pkg-config || ! pkg-config --atleast-version=1.3 libbpf 2>/dev/null; then
	missing+=('libbpf-dev:loads and attaches BPF programs; 1.3 or later')
fi
find_bpftool >/dev/null || missing+=('bpftool:links the BPF objects, makes the skeleton header')

if [ "$set" = deb ]; then
	need_cmd dpkg-buildpackage dpkg-dev 'makes a package'
	need_cmd dh debhelper 'what it is made with'
	need_cmd lintian lintian 'checks it'
elif [ "$set" = dist ]; then
	if [ "$(uname -m)" = x86_64 ]; then
		need_cmd aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu 'compiles for arm64'
		need_cmd aarch64-linux-gnu-g++ g++-aarch64-linux-gnu 'compiles the reader of saved traces for arm64'
	fi
elif [ "$set" != build ]; then
	need_file cmocka.h libcmocka-dev 'unit tests'
fi
case $set in check | check-all | bench)
	need_cmd clang-format clang-format 'checks the C style'
	need_cmd jq jq 'tests read JSON lines with it'
	need_cmd zstd zstd 'tests unpack the files of the daemon'
	need_cmd python3 python3 'tests check traces with it'
	find_pytest >/dev/null || missing+=('python3-pytest:runs the tests')
	need_cmd pgrep procps 'tests look for processes'
esac
[ "$set" != check-all ] || need_cmd valgrind valgrind 'runs the tracer under memcheck'
if [ "$set" = bench ]; then
	need_cmd bpftrace bpftrace 'what the cost of a traced call is compared with'
fi

# Tests that need one of these are skipped without it.
wanted=()
if [ "$set" = check ] || [ "$set" = check-all ]; then
	have chromium || have chromium-browser || have google-chrome ||
		wanted+=('chromium:loads the Chrome trace in its own tracing page')
	have chromedriver || wanted+=('chromium-driver:drives it')
	compgen -G '/usr/share/go-*/src' >/dev/null ||
		wanted+=('golang-src:has the viewer of chrome://tracing, which Debian builds Chromium without')
	have promtool || wanted+=('prometheus:checks the metrics of the daemon, its alert rules and dashboard')
	have mkfs.btrfs || wanted+=('btrfs-progs:makes a file system with a quota')
	# The python3 of the tests, or the one that python3-pytest will be for.
	python=$(find_pytest || echo /usr/bin/python3)
	"$python" -c 'import yaml' 2>/dev/null || wanted+=('python3-yaml:reads the manifests for Kubernetes')
	"$python" -c 'import jsonschema' 2>/dev/null ||
		wanted+=('python3-jsonschema:checks traces against their schema')
	"$python" -c 'import pycparser' 2>/dev/null ||
		wanted+=('python3-pycparser:reads the headers of CUDA for the test of arguments')
	"$python" -m pip --version >/dev/null 2>&1 || wanted+=('python3-pip:fetches DuckDB and others that tests use')
	have mandoc || wanted+=('mandoc:checks the man page')
	have tmux || wanted+=('tmux:is the terminal that cudatrace top is tested on')
	compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a' >/dev/null ||
		wanted+=("libclang-rt-$(clang -dumpversion 2>/dev/null | cut -d. -f1)-dev:the runtime of libFuzzer")
	[ -d /usr/lib/python3/dist-packages/opentelemetry/proto ] ||
		wanted+=('python3-opentelemetry-proto:parses the requests to a collector')
fi
if [ "$set" = check-all ]; then
	have dpkg-buildpackage || wanted+=('dpkg-dev:makes a package')
	have dh || wanted+=('debhelper:builds it')
	have lintian || wanted+=('lintian:checks it')
	have qemu-system-x86_64 || wanted+=('qemu-system-x86:boots other kernels')
	have busybox || wanted+=('busybox-static:the programs for those kernels')
	have cpio || wanted+=('cpio:puts their file systems together')
	have pahole || wanted+=('pahole:type information for the mock driver kernel modules')
	have go || wanted+=('golang-go:reads profiles, and builds programs that the library enters')
	for lib in libjemalloc.so.2:libjemalloc2 libtcmalloc_minimal.so.4:libtcmalloc-minimal4; do
		ldconfig -p | grep -q "${lib%:*}" || wanted+=("${lib#*:}:another allocator of programs that the library enters")
	done
fi
if [ "$set" = check-all ] && [ "$(uname -m)" = x86_64 ]; then
	have aarch64-linux-gnu-gcc || wanted+=('gcc-aarch64-linux-gnu:compiles for arm64')
	have aarch64-linux-gnu-g++ || wanted+=('g++-aarch64-linux-gnu:compiles the reader of saved traces for arm64')
	[ -e /usr/aarch64-linux-gnu/include/dlfcn.h ] || wanted+=('libc6-dev-arm64-cross:the libraries for arm64')
	have qemu-aarch64 || wanted+=('qemu-user:runs programs for arm64')
	have qemu-system-aarch64 || wanted+=('qemu-system-arm:boots kernels for arm64')
fi
# Skip optional packages that could not be installed in an earlier run.
mark=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/cudatrace-no-optional
[ -e "$mark" ] && wanted=()

[ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ] && exit 0

# --- which distribution --------------------------------------------------------------------------------

distro=unknown codename=
if [ -r /etc/os-release ]; then
	distro=$(. /etc/os-release; echo "${ID:-unknown}-${VERSION_ID:-}")
	codename=$(. /etc/os-release; echo "${VERSION_CODENAME:-}")
fi

if ! have apt-get; then
	say "only apt is known here (this is $distro). Needed, by its Debian names:"
	printf '  %s\n' "${missing[@]/:/ - }" >&2
	say "install your distribution's packages for these, then run make again"
	[ ${#missing[@]} -eq 0 ] && exit 0
	exit 1
fi

# --- how to become root --------------------------------------------------------------------------------

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! have sudo; then
		[ ${#missing[@]} -eq 0 ] && exit 0
		die "not root and no sudo: as root, run $0 $set"
	fi
	# A test run without a terminal must fail, not wait for a password.
	if [ -t 0 ]; then as_root=(sudo); else as_root=(sudo -n); fi
fi
root() { if [ $dry = 1 ]; then say "would run: $*"; else "${as_root[@]}" "$@"; fi; }
# Output of apt and dpkg is shown only on errors.
apt()
{
	local log rc=0
	if [ $dry = 1 ]; then root apt-get "$@"; return; fi
	log=$(mktemp) || return
	root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq -y "$@" \
		</dev/null >"$log" 2>&1 || { rc=1; grep -a '^[EW]:' "$log" >&2 || tail -20 "$log" >&2; }
	rm -f "$log"
	return $rc
}

# --- Debian 12: libbpf and bpftool of backports ---------------------------------------------------------

# Debian 12 has libbpf 1.1; backports has 1.4. The source is added with the mirror and the key that this
# machine's own sources use for plain bookworm.
add_backports()
{
	local f uri= key= comps='main' opts= file

	# One-line style:  deb [signed-by=/k.gpg arch=amd64] URI bookworm main contrib
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -r "$f" ] || continue
		read -r uri opts < <(awk -v suite="$codename" '
			$1 == "deb" {
				opts = ""; i = 2
				if ($i ~ /^\[/) {
					while (1) { opts = opts " " $i; if ($i ~ /\]$/ || i >= NF) break; i++ }
					i++
				}
				if ($(i + 1) == suite && / main( |$)/) { print $i, opts; exit }
			}' "$f")
		[ -n "$uri" ] || continue
		file=$backports_list.list
		printf '# Added by cudatrace tools/install-deps.sh\ndeb %s %s %s-backports %s\n' \
			"$opts" "$uri" "$codename" "$comps" | root tee "$file" >/dev/null
		return
	done

	# deb822 style: stanzas of "Types:/URIs:/Suites:/Components:/Signed-By:". An embedded key goes on
	# over several lines, so the whole stanza is copied with another suite.
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -r "$f" ] || continue
		local stanza
		stanza=$(awk -v suite="$codename" '
			function flush() { if (ok && typed && !off) { printf "%s", out; done = 1; exit }
				out = ""; ok = typed = off = 0 }
			/^[ \t]*$/ { flush(); next }
			/^#/ { next }
			tolower($1) == "types:" { typed = / deb( |$)/; out = out "Types: deb\n"; next }
			tolower($1) == "enabled:" { off = tolower($2) ~ /^(no|false)$/; next }
			tolower($1) == "suites:" {
				for (i = 2; i <= NF; i++) if ($i == suite) ok = 1
				out = out "Suites: " suite "-backports\n"; next }
			tolower($1) == "components:" { out = out "Components: main\n"; next }
			{ out = out $0 "\n" }
			END { if (!done && ok && typed && !off) printf "%s", out }' "$f")
		[ -n "$stanza" ] || continue
		file=$backports_list.sources
		printf '# Added by cudatrace tools/install-deps.sh\n%s\n' "$stanza" | root tee "$file" >/dev/null
		return
	done
	die "found no apt source for $codename main to take the mirror from; enable $codename-backports by hand"
}

backports_known() { apt-cache policy 2>/dev/null | grep -q "n=$codename-backports"; }
backports_listed() { grep -rqs "$codename-backports" /etc/apt/sources.list /etc/apt/sources.list.d; }

# --- install -------------------------------------------------------------------------------------------

pkgs=() backports=()
for m in "${missing[@]}"; do
	p=${m%%:*}
	case $distro:$p in
	debian-12:libbpf-dev|debian-12:bpftool) backports+=("$p") ;;
	# In Ubuntu 24.04 the package bpftool is virtual.
	ubuntu-*:bpftool) pkgs+=(linux-tools-common linux-tools-generic) ;;
	*) pkgs+=("$p") ;;
	esac
done

if [ ${#missing[@]} -gt 0 ]; then
	say "installing for \`make $set\`:"
	for m in "${missing[@]}"; do printf '  %-16s %s\n' "${m%%:*}" "${m#*:}" >&2; done
fi

case $distro in
debian-12|ubuntu-24.04) ;;
*) say "$distro is not among the tested ones (Debian 12, Ubuntu 24.04): trying its packages of the same name" ;;
esac

updated=0 added=
update() { [ $updated = 1 ] || apt update || say 'apt-get update failed; trying with the lists at hand'; updated=1; }

if [ ${#backports[@]} -gt 0 ]; then
	if ! backports_listed; then
		say "adding $codename-backports to the apt sources (for ${backports[*]}), from this machine's own mirror"
		add_backports
		added=1 updated=0
	fi
	update
	if [ $dry = 0 ] && ! backports_known; then
		# A source that does not respond would break every later apt-get update.
		[ -z "$added" ] || root rm -f "$backports_list.list" "$backports_list.sources"
		die "apt finds no $codename-backports on this machine's mirror: see what apt-get update says"
	fi
	apt install --no-install-recommends -t "$codename-backports" "${backports[@]}" ||
		die "apt could not install ${backports[*]} from $codename-backports"
fi
if [ ${#pkgs[@]} -gt 0 ]; then
	update
	apt install --no-install-recommends "${pkgs[@]}" || die "apt could not install ${pkgs[*]}"
fi

if [ ${#wanted[@]} -gt 0 ]; then
	say 'installing what some tests use:'
	for m in "${wanted[@]}"; do printf '  %-16s %s\n' "${m%%:*}" "${m#*:}" >&2; done
	update
	# One call is much faster. If one package is not available, install the others one by one.
	[ ${#wanted[@]} -gt 1 ] && apt install --no-install-recommends "${wanted[@]%%:*}" 2>/dev/null ||
		for m in "${wanted[@]}"; do
			p=${m%%:*}
			apt install --no-install-recommends "$p" || {
				say "could not install $p: tests that need it are skipped"
				[ $dry = 1 ] || { mkdir -p "${mark%/*}" && touch "$mark"; } 2>/dev/null
			}
		done
fi

[ $dry = 1 ] && exit 0
if ! find_bpftool >/dev/null; then
	die 'bpftool is installed but does not run; install linux-tools for your kernel, or set BPFTOOL='
fi
pkg-config --atleast-version=1.3 libbpf ||
	die "libbpf $(pkg-config --modversion libbpf 2>/dev/null) is too old: 1.3 or later is needed"
