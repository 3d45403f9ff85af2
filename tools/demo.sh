#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make demo`: traces the sample program, on the real driver if this machine has one, else on the mock driver, and
# prints the results. O=DIR is the build folder.
set -u
cd "$(dirname "$0")/.." || exit 1
O=${O:-build}
out=traces
say() { printf '%s\n' "$*"; }

for f in cudatrace fake/sample fake/libcuda.so.1; do
	[ -e "$O/$f" ] || { say "demo: $O/$f is missing; run: make demo" >&2; exit 1; }
done

# A libcuda.so.1 that the dynamic linker would find.
real_libcuda()
{
	local f
	[ -e /dev/nvidiactl ] || return 1
	f=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk '$1 == "libcuda.so.1" && /x86-64|AArch64/ { print $NF; exit }')
	[ -n "$f" ] && [ -e "$f" ] && { echo "$f"; return 0; }
	local IFS=:
	for f in ${LD_LIBRARY_PATH-}; do
		[ -e "$f/libcuda.so.1" ] && { echo "$f/libcuda.so.1"; return 0; }
	done
	return 1
}

run_env=()
if lib=$(real_libcuda); then
	say "demo: NVIDIA driver found: the sample program uses $lib"
else
	lib=
	run_env=("LD_LIBRARY_PATH=$(realpath "$O/fake")")
	say 'demo: no NVIDIA driver found: the sample program uses a mock libcuda.so.1, which computes nothing'
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { say 'demo: tracing needs root: run make demo as root' >&2; exit 1; }
	as_root=(sudo)
	say 'demo: tracing needs root: using sudo'
fi

mkdir -p $out || exit 1
# env, not sudo's own settings: sudo drops LD_LIBRARY_PATH.
cmd=("$O/cudatrace" --jsonl $out/demo.jsonl --chrome $out/demo.json --summary -- "$O/fake/sample")
say "demo: ${as_root[*]:+${as_root[*]} }${run_env[*]:+${run_env[*]} }${cmd[*]}"
say
"${as_root[@]}" env "${run_env[@]}" "${cmd[@]}"
rc=$?
if [ $rc -ne 0 ]; then
	say "demo: failed with exit status $rc; what this machine allows: ${as_root[*]:+${as_root[*]} }$O/cudatrace check" >&2
	exit $rc
fi
[ ${#as_root[@]} -eq 0 ] || sudo chown "$(id -u):$(id -g)" $out/demo.jsonl $out/demo.json

cat <<END

Try:
  $O/cudatrace report $out/demo.jsonl
  $O/cudatrace report --format=html -o $out/demo.html $out/demo.jsonl
  jq -r .type $out/demo.jsonl | sort | uniq -c
  jq 'select(.type=="memory" and .op=="alloc") | {ts, size}' $out/demo.jsonl
  jq 'select(.duration_us > 100) | {name, duration_us}' $out/demo.jsonl
Open $out/demo.json at https://ui.perfetto.dev.
END
