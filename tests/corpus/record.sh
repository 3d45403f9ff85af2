#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Records the corpus of real traces on a machine with NVIDIA GPUs, PyTorch, transformers and nvcc, as root:
#   tests/corpus/record.sh CUDATRACE OUT_FOLDER [one|ranks]...
# OUT_FOLDER gets NAME.jsonl, the program's own log NAME.log.json or NAME.txt, and commands.txt.
set -u
ct=$(realpath "$1") out=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# check NAME: one line says what the end line of the trace reports as lost.
check() {
	tail -n 1 "$out/$1.jsonl" | python3 -c '
import json, sys
try:
    end = json.loads(sys.stdin.read())
    drops = {k: v for k, v in end.get("drops", {}).items() if v}
    print("  end:", end.get("reason"), "entries", end.get("entries"), "drops", drops, "lines_lost", end.get("lines_lost"), "write_error", end.get("write_error"))
except ValueError:
    print("  no end line")'
}
# trace NAME OPTION... -- COMMAND...
trace() {
	local name=$1
	shift
	echo "$name: cudatrace $*" | sed "s|$here|tests/corpus|g; s|$out/||g" | tee -a "$out/commands.txt"
	timeout 120 "$ct" -q --no-summary --jsonl "$out/$name.jsonl" "$@" >"$out/$name.txt" 2>&1
	echo "  exit status $?"
	check "$name"
}
program() {
	local name=$1 which=$2 steps=$3
	shift 3
	trace "$name" "$@" -- python3 "$here/programs.py" "$which" "$out/$name.log.json" "$steps"
}

# The tracer stands still for a good part of the time, with the smallest ring.
dropped() {
	echo "dropped: cudatrace --all --buffer-size 64K -- python3 tests/corpus/programs.py gpt2_eager dropped.log.json 60, stopped half of the time" | tee -a "$out/commands.txt"
	"$ct" -q --no-summary --all --buffer-size 64K --jsonl "$out/dropped.jsonl" -- \
		python3 "$here/programs.py" gpt2_eager "$out/dropped.log.json" 60 >"$out/dropped.txt" 2>&1 &
	local pid=$!
	while kill -0 $pid 2>/dev/null; do
		sleep 0.1
		kill -STOP $pid
		sleep 0.1
		kill -CONT $pid
	done 2>/dev/null
	wait $pid
	echo "  exit status $?"
	check dropped
}

for part in "${@:-one}"; do
	case $part in
	one)
		nvcc -arch=sm_90 -lineinfo -o /tmp/faults "$here/faults.cu" || exit 1
		program gpt2-eager gpt2_eager 12 --all-layers --gpu-time
		program gpt2-graph gpt2_graph 60 --all-layers --gpu-time
		program gpt2-graph-nodes gpt2_graph 10 --all-layers --gpu-time=nodes
		program train train 8 --all-layers --gpu-time
		program convolutions convolutions 12 --all-layers --gpu-time
		program graph-loop graph_loop 300 --gpu-time
		program copies-beside copies_beside 20 --gpu-time
		program out-of-memory out_of_memory 1 --python --gpu-stats=200
		program device-assert device_assert 1 --python
		trace after-free --stack -- /tmp/faults after_free
		trace past-end --stack -- /tmp/faults past_end
		trace misaligned --stack -- /tmp/faults misaligned
		trace endless --stack --duration 6 -- timeout -s KILL 9 /tmp/faults endless
		dropped
		mkdir -p /tmp/full && mount -t tmpfs -o size=1m none /tmp/full
		echo "full-disk: as gpt2-eager with --all, onto a file system of 1 MiB" | tee -a "$out/commands.txt"
		"$ct" -q --no-summary --all --jsonl /tmp/full/t.jsonl -- python3 "$here/programs.py" gpt2_eager "$out/full-disk.log.json" 8 >"$out/full-disk.txt" 2>&1
		echo "  exit status $?"
		cp /tmp/full/t.jsonl "$out/full-disk.jsonl"
		umount /tmp/full
		check full-disk
		;;
	dropped) dropped ;;
	ranks)
		for world in 2 4; do
			[ "$(nvidia-smi -L | wc -l)" -ge $world ] || continue
			trace ranks-$world --all-layers --gpu-time -- \
				torchrun --nproc-per-node $world "$here/programs.py" ranks "$out/ranks-$world.log.json" 100
		done
		;;
	esac
done
ls -l "$out"
