#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Dossiers with a GPU core dump, on a machine with a GPU and nvcc, as root: tests/gpu/coredump.sh CUDATRACE FOLDER [PART...]
# An endless kernel hangs: the daemon must request a GPU core dump, and name the kernel. Beside it what cuda-gdb
# reads from the same file. Then a program that the driver would end, which must not be asked, and a fault, whose core dump the
# driver makes by itself: of a program that stays, of one that ends at once, and of one that the driver aborts. Parts: hang kept fault.
# kept also shows what the driver does to a program without skip_abort.
set -u
ct=$(realpath "$1") out=$2
shift 2
parts=${*:-hang kept fault}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(realpath "$out")
[ -x "$out/failures" ] || nvcc -arch=native -lineinfo -o "$out/failures" "$here/failures.cu" || exit 1
rm -rf "$out"/{files,hang,kept,stays,ends,aborts}
"$ct" daemon --set level=trace --set metrics.listen= --set ctl.socket="$out/ctl.sock" --set files.directory="$out/files" --set trace.hang_after=4s --set dossier.gpu_core=true \
	--set trace.inject=true --set trace.inject_folder="$out/inject" --set gpu_stats.interval=500ms \
	>"$out/log" 2>&1 </dev/null &
daemon=$!
for ((i = 0; i < 300; i++)); do
	"$ct" ctl --set ctl.socket="$out/ctl.sock" status >/dev/null 2>&1 && break
	kill -0 $daemon 2>/dev/null || { echo 'the daemon does not start:'; tail -n 5 "$out/log"; exit 1; }
	sleep 0.1
done
failed=0 core=
light=skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory
verdict() { if [ $? = 0 ]; then echo "OK: $*"; else echo "FAILED: $*"; failed=1; fi; }

# start NAME CASE FLAGS [VARIABLE=VALUE...]
start()
{
	local name=$1 case=$2 flags=$3
	shift 3
	mkdir "$out/$name"
	(cd "$out/$name" && exec env CUDA_COREDUMP_GENERATION_FLAGS="$flags" CUDA_COREDUMP_FILE="$out/$name/core.%h.%p.%t" "$@" \
		timeout -s KILL 90 "$out/failures" "$case" >"$out/$name/said" 2>&1) &
	pid=$!
}

# dossier REASON SECONDS: waits for a further one; sets folder
seen=()
dossier()
{
	local f
	for ((i = 0; i < $2 * 5; i++)); do
		for f in "$out"/files/dossier-*-"$1"-*/dossier.json; do
			if [ ! -e "$f" ] || [[ " ${seen[*]-} " == *" $f "* ]]; then continue; fi
			seen+=("$f")
			folder=$(dirname "$f")
			return 0
		done
		sleep 0.2
	done
	return 1
}

show() { python3 -c '
import json, sys
x = json.load(open(sys.argv[1] + "/dossier.json"))
print("verdict:", x["verdict"])
print("gpu_core:", x.get("gpu_core"), "| no_report:", x.get("no_report"))
try:
    core = json.load(open(sys.argv[1] + "/gpu-core.json"))
except OSError:
    sys.exit()
print("core:", {k: v for k, v in core.items() if k != "grids"})
for g in core["grids"][:4]:
    print("grid", {k: v for k, v in g.items() if k != "pcs"}, g["pcs"][:4])
' "$1"; }

want() { [[ " $parts " == *" $1 "* ]]; }

hang()
{
	echo "== hang, user-triggered"
	start hang endless $light,skip_abort CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 CUDA_COREDUMP_PIPE="$out/hang/pipe.%h.%p"
	dossier hang 100 && show "$folder"
	grep -q '"gpu_core":"resident: [^"]*endless' "$folder/dossier.json"
	verdict "the endless kernel is resident by the core dump"
	grep -q '"verdict":"[^"]*endless' "$folder/dossier.json"
	verdict "the verdict names it"
	sleep 2
	tail -n 3 "$out/hang/said"
	if pgrep -f "$out/failures endless" >/dev/null; then echo "the program still runs"; else echo "the program has ended"; fi
	ls -l "$out"/hang
	core=$(find "$out/hang" -name 'core.*' | head -n 1)
	[ -n "$core" ] && readelf -hSW "$core" 2>/dev/null | head -n 70
	[ -n "$core" ] && timeout 60 cuda-gdb -batch -ex "target cudacore $core" -ex 'info cuda kernels' -ex 'info cuda warps' 2>&1 | tail -n 25
	kill -KILL $pid 2>/dev/null
	pkill -KILL -f "$out/failures endless"
}

kept()
{
	echo "== hang, without skip_abort: must not be requested"
	start kept endless $light CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1 CUDA_COREDUMP_PIPE="$out/kept/pipe.%h.%p"
	dossier hang 100 && show "$folder"
	grep -q '"gpu_core":"not requested' "$folder/dossier.json"
	verdict "it was not requested"
	# What the driver does.
	sleep 1
	for pipe in "$out"/kept/pipe.*; do timeout 5 dd if=/dev/zero of="$pipe" bs=1M count=1 2>&1 | tail -n 1; done
	sleep 15
	pgrep -f "$out/failures endless" >/dev/null && echo "without skip_abort: the program still runs" || echo "without skip_abort: the program has ended"
	ls -l "$out"/kept
	tail -n 3 "$out/kept/said"
	pkill -KILL -f "$out/failures endless"
}

# faulted NAME FLAGS [VARIABLE=VALUE...]
faulted()
{
	local name=$1 f
	echo "== fault, core dump by the driver: the program $name"
	start "$name" null_pointer "$2" CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 CUDA_INJECTION64_PATH="$out/inject/libcudatrace-inject.so" "${@:3}"
	wait $pid
	sleep 4
	for f in "$out"/files/dossier-*-{error,xid}-*/; do
		[ -e "$f/dossier.json" ] || continue
		echo "$f"
		show "$f"
		grep -A9 "^Parameters of" "$f/verdict.txt"
		head -n 12 "$f/threads.txt"
		rm -rf "$f"
	done
	ls -l "$out/$name"
	tail -n 3 "$out/$name/said"
}

fault()
{
	faulted stays $light,skip_abort STAY=6
	faulted ends $light,skip_abort
	faulted aborts $light
}

for part in hang kept fault; do
	want $part || continue
	case $part in
	hang) hang ;;
	kept) kept ;;
	fault) fault ;;
	esac
done
kill -TERM $daemon
wait $daemon
verdict "the daemon ended"
grep -vE 'tracing by' "$out/log" | tail -n 20
[ -n "$core" ] && gzip -c "$core" >"$out/core.gz"
exit $failed
