#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# On a machine with an NVIDIA GPU, PyTorch with transformers, Triton, CuPy and JAX (as root):
#   tests/gpu/run.sh CUDATRACE OUT_FOLDER [STEP...]
# Traces real programs and prints the numbers of docs/measured/gpu.md and docs/measured/ioctls.md. Steps: launch attach frameworks
# counts kernel report time daemon cases nccl cost inject door gputime devices python map layers ctxsw stats nvtx mps numba serving vllm vllmlayers torch lines nested diagnose
set -u
ct=$(realpath "$1")
out=$2
shift 2
steps=${*:-launch attach frameworks counts kernel time}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

want() { [[ " $steps " == *" $1 "* ]]; }
title() { printf '\n=== %s\n' "$*"; }
# Status of the previous command.
verdict() { [ $? = 0 ] && echo "OK: $*" || echo "FAILED: $*"; }
# The end line of a trace, and its launches.
facts() {
	tail -n 1 "$1" | python3 tests/gpu/says.py
	python3 tests/gpu/launches.py "$1"
}

if want launch; then
	title "1 GPT-2, 50 tokens, launched by cudatrace"
	"$ct" --jsonl "$out/gpt2.jsonl" --chrome "$out/gpt2.json" --summary -- \
		python3 "$here/gpt2.py" --tokens 50 --rounds 1
	facts "$out/gpt2.jsonl"
fi
if want attach; then
	title "2 the same, attached in the middle with -p"
	rm -f "$out/wait"
	python3 "$here/gpt2.py" --tokens 50 --rounds 1 --wait "$out/wait" &
	pid=$!
	while [ ! -e "$out/wait" ]; do sleep 0.1; kill -0 $pid || exit 1; done
	"$ct" --jsonl "$out/attach.jsonl" --no-summary -p $pid &
	sleep 2
	rm -f "$out/wait"
	wait
	facts "$out/attach.jsonl"
fi
if want frameworks; then
	for prog in triton_add cupy_mm jax_mlp; do
		title "3 $prog"
		"$ct" --jsonl "$out/$prog.jsonl" --no-summary -- python3 "$here/$prog.py"
		facts "$out/$prog.jsonl"
	done
fi
if want counts; then
	title "4 launches counted by cudatrace and by torch.profiler in the same process"
	"$ct" --jsonl "$out/counts.jsonl" --no-summary -- \
		python3 "$here/gpt2.py" --tokens 50 --rounds 1 --profile all --out "$out/counts.out"
	python3 "$here/compare.py" "$out/counts.jsonl" "$out/counts.out"
fi
if want kernel; then
	title "6 what reaches the kernel driver"
	"$ct" --kernel --sched --jsonl "$out/kernel.jsonl" --chrome "$out/kernel.json" --summary -- \
		python3 "$here/torch_mlp.py"
	python3 "$here/ioctls.py" "$out/kernel.jsonl"
	title "6b system-wide, no CUDA program: nvidia-smi"
	"$ct" --kernel --duration 3 --jsonl "$out/smi.jsonl" --no-summary &
	sleep 1
	nvidia-smi -L
	wait
	python3 "$here/ioctls.py" "$out/smi.jsonl" | head -n 60
fi
if want report; then
	title "7 traces for the report: GPT-2, a CUDA graph, a network that is trained"
	"$ct" --jsonl "$out/r_gpt2.jsonl" --no-summary -- python3 "$here/gpt2.py" --tokens 50 --rounds 2
	"$ct" --jsonl "$out/r_graph.jsonl" --no-summary -- python3 "$here/graph_replay.py"
	"$ct" --all --jsonl "$out/r_mlp.jsonl" --no-summary -- python3 "$here/torch_mlp.py"
fi
# one HOW: milliseconds per token of a process that is traced that way
one() {
	local pre=() post=(--rounds 4) pid=
	local ct_q=("$ct" --jsonl "$out/time.jsonl" --no-summary -q)
	case $1 in
	untraced) ;;
	traced) pre=("${ct_q[@]}" --) ;;
	all) pre=("${ct_q[@]}" --all --) ;;
	all-count) pre=("${ct_q[@]}" --all --count query --) ;;
	entry-only) pre=("${ct_q[@]}" --entry-only launch --) ;;
	count-launch) pre=("${ct_q[@]}" --count launch --) ;;
	budget) pre=("${ct_q[@]}" --all --max-overhead 5 --) ;;
	stack) pre=("${ct_q[@]}" --stack --) ;;
	kernel) pre=("${ct_q[@]}" --kernel --) ;;
	attach) post+=(--wait "$out/wait") ;;
	*) post+=(--profile "${1#profiler-}") ;;
	esac
	rm -f "$out/wait"
	"${pre[@]}" python3 "$here/gpt2.py" --tokens 50 "${post[@]}" >"$out/time.out" 2>/dev/null &
	pid=$!
	if [ "$1" = attach ]; then
		while [ ! -e "$out/wait" ] && kill -0 $pid 2>/dev/null; do sleep 0.1; done
		"${ct_q[@]}" -p $pid &
		sleep 1.5
		rm -f "$out/wait"
	fi
	wait
	python3 tests/gpu/median.py "$1" "$out/time.out"
}
if want time; then
	title "5 milliseconds per token, each in its own process, in turn"
	for round in 1 2 3; do
		echo "round $round"
		for how in ${HOWS:-untraced traced attach kernel entry-only all-count all profiler-cuda profiler-all}; do
			one $how
		done
	done
	rm -f "$out/time.jsonl"
fi
if want cases; then
	title "9 the programs of tests/cases: does the trace hold what they say that they did?"
	mkdir -p "$out/cases"
	same=0 differ=0 skip=0
	for src in "$here"/../cases/*.c; do
		name=$(basename "$src" .c)
		case $name in
		many | dlopen_late | hostile | nccl) continue ;; # without expectations, or only for the mock driver
		esac
		gcc -O1 -w -D_GNU_SOURCE -o "$out/cases/$name" "$src" -ldl -lpthread || exit 1
		timeout -k 5 60 "$ct" -q --all --jsonl "$out/cases/$name.jsonl" -- "$out/cases/$name" \
			>"$out/cases/$name.expected" 2>"$out/cases/$name.err"
		case $? in
		0) ;;
		77) skip=$((skip + 1)); echo "$name: skipped: $(tail -1 "$out/cases/$name.err")"; continue ;;
		*) echo "$name: ends with $?: $(tail -2 "$out/cases/$name.err")" ;;
		esac
		if "$here/../cases/expect.py" --allow-extra "$out/cases/$name.jsonl" "$out/cases/$name.expected" >"$out/cases/$name.diff" 2>&1; then
			same=$((same + 1))
		else
			differ=$((differ + 1))
			echo "$name: $(head -c 1500 "$out/cases/$name.diff")"
		fi
		rm -f "$out/cases/$name"
	done
	echo "$same as they say, $differ not, $skip skipped"
fi
if want daemon; then
	title "8 the daemon: cost at each level, metrics against a full trace, dumps of the flight recorder"
	"$here/daemon.sh" "$ct" "$out"
fi
if want nccl; then
	title "10 collectives of two GPUs: all in the trace? And what small ones cost"
	"$ct" -q --jsonl "$out/nccl.jsonl" --chrome "$out/nccl.json" --no-summary -- python3 "$here/nccl.py" --out "$out/nccl.out"
	python3 "$here/nccl.py" --check "$out/nccl.jsonl" "$out/nccl.out"
	# in-process, by a user without privileges: nccl.py, then torchrun (60 s)
	user=$(mktemp -d)
	cp "$ct" "$user/cudatrace" && cp "$here/nccl.py" "$here/ddp.py" "$user" && chmod 755 "$user"/* && chmod 1777 "$user"
	as_user() { (cd "$user" && setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$user" ./cudatrace -q --probe=inject --no-summary "$@"); }
	as_user --jsonl t.jsonl -- python3 nccl.py --out out
	python3 "$here/nccl.py" --check "$user/t.jsonl" "$user/out"; verdict "as a user: the same as NCCL and the program say"
	# and against NCCL's own events (15 s)
	gcc -shared -fPIC -O1 -o "$user/nccl_plugin.so" "$here/nccl_plugin.c"
	as_user --jsonl plugin.jsonl -- env NCCL_PROFILER_PLUGIN="$user/nccl_plugin.so" NCCL_CALLS="$user/calls" python3 nccl.py --rounds 5 --out plugin
	python3 "$here/nccl.py" --check-plugin "$user/plugin.jsonl" "$user/calls"; verdict "as a user: collectives are those of NCCL's profiler plugin"
	as_user --jsonl late.jsonl -- python3 nccl.py --rounds 0 --late 1:5 --times 20 --out late
	"$ct" report -q --format=json -o "$out/nccl_user.json" "$user/late.jsonl"
	python3 "$here/nccl.py" --check-report "$out/nccl_user.json" "$user/late"; verdict "as a user: who is late"
	if [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
		as_user --jsonl ddp.jsonl -- torchrun --nproc-per-node 2 ddp.py --out ddp
		python3 "$here/ddp.py" --check "$user/ddp.jsonl" "$user/ddp"; verdict "as a user: torchrun"
	fi
	rm -rf "$user"
	for late in 1:5 1:300; do
		"$ct" -q --jsonl "$out/nccl_late.jsonl" --no-summary -- python3 "$here/nccl.py" --rounds 0 --late $late --times 20 --out "$out/nccl_late.out"
		"$ct" report -q --format=json -o "$out/nccl_late.json" "$out/nccl_late.jsonl"
		echo "late by $late:" && python3 "$here/nccl.py" --check-report "$out/nccl_late.json" "$out/nccl_late.out"
	done
	# a rank pauses for ten seconds
	"$ct" -q --jsonl "$out/nccl_stop.jsonl" --no-summary -- python3 "$here/nccl.py" --rounds 0 --late 1:10000 --times 2 --out "$out/nccl_stop.out"
	"$ct" report --full "$out/nccl_stop.jsonl" | grep -A12 '^Communication'
	grep '"op":"hang"' "$out/nccl_stop.jsonl"
	# attached while they run
	python3 "$here/nccl_attach.py" "$ct" "$out"
	"$here/nccl_daemon.sh" "$ct" "$out" python3 "$here/nccl.py" --rounds 0 --late 1:10000 --times 1; verdict "the daemon names a rank that stays away"
	# the bus bandwidth of large ones
	"$ct" -q --gpu-time --jsonl "$out/nccl_bus.jsonl" --no-summary -- python3 "$here/nccl.py" --rounds 0 --out "$out/nccl_bus.out"
	"$ct" report -q --format=json -o "$out/nccl_bus.json" "$out/nccl_bus.jsonl"
	python3 "$here/nccl.py" --check-report "$out/nccl_bus.json" "$out/nccl_bus.out"
	# This needs two GPUs that wait for each other.
	if [ "$(nvidia-smi -L | wc -l)" -gt 1 ]; then
		"$ct" -q --gpu-time --jsonl "$out/nccl_ddp.jsonl" --no-summary -- torchrun --nproc-per-node 2 "$here/ddp.py"
		python3 "$here/ddp.py" --overlap "$out/nccl_ddp.jsonl"
		"$ct" report --full "$out/nccl_ddp.jsonl" | grep -A6 -e '^Processes' -e 'beside other work' -e "NCCL's kernels"
		python3 "$here/nccl_cost.py" "$ct" "$out"
	fi
fi
if want cost; then
	title "11 what a trace says that it cost, against what it did"
	python3 "$here/cost.py" "$ct" "$out"
fi
if want nested; then
	title "23 two GPUs: the same calls in the same calls, by the library and by uprobes"
	python3 "$here/nested.py" "$ct" "$out"; verdict "nested calls"
fi
if want inject; then
	title "12 traced in the process: the same calls as by uprobes, and what it costs"
	python3 "$here/inject.py" "$ct" "$out"
fi
if want door; then
	title "20 programs that opt in with the daemon: counts against a full trace, a token by uprobes and inside"
	python3 "$here/door.py" "$ct" "$out"
fi
if want gputime; then
	title "13 --gpu-time: each execution with its call, times against torch.profiler's, and what it costs"
	python3 "$here/gpu_time.py" "$ct" "$out"
fi
if want devices; then
	title "19 which GPU is whose: two processes that see one GPU each; TFLOP/s beside torch's events"
	python3 "$here/devices.py" "$ct" "$out"
fi
if want python; then
	title "17 the Python functions that launch, against torch.profiler"
	python3 "$here/python.py" "$ct" "$out"
fi
if want map; then
	title "the map: launches under the layers that torch.profiler has them under; backward passes; operations of layers; sums are the trace's"
	# shellcheck disable=SC2086 # none: all parts
	python3 "$here/map.py" "$ct" "$out" ${MAP_PARTS-}
fi
if want layers; then
	title "20 what each layer costs a token of GPT-2, beside untraced and torch.profiler, in turn"
	python3 "$here/layers.py" "$ct" "$out"
fi
if want ctxsw; then
	title "14 context switches of two processes, against what each did; as root and as nobody"
	python3 "$here/ctxsw.py" "$ct" "$out"
fi
if want stats; then
	title "15 the device, by NVML: a program of known load, beside nvidia-smi"
	python3 "$here/stats.py" "$ct" "$out"
fi
if want nvtx; then
	title "16 ranges of NVTX: PyTorch, emit_nvtx, JAX's thunks, CuPy, and what they cost"
	python3 "$here/nvtx.py" "$ct" "$out"
fi
if want mps; then
	title "20 two processes through MPS: whose context switches and executions"
	timeout -k 30 150 python3 "$here/mps.py" "$ct" "$out"
fi
if want numba; then
	title "21 Numba's kernels by name"
	python3 "$here/numba_kernels.py" "$ct" "$out"
fi
if want serving; then
	title "18 serving: continuous batching of transformers: steps and tokens against the engine's own, and what tracing costs"
	python3 "$here/serving.py" "$ct" "$out"
fi
if want vllm; then
	title "19 vLLM: steps and tokens against its worker's own, and what tracing costs"
	python3 "$here/vllm_serving.py" "$ct" "$out"
fi
if want vllmlayers; then
	title "24 vLLM: GPU time of replayed graphs under the layers that have it in an eager run"
	python3 "$here/vllm_layers.py" "$ct" "$out"
fi
if want torch; then
	title "17 operators of PyTorch, its backward nodes and its allocator, as torch.profiler and memory_stats() have them"
	python3 "$here/operators.py" "$ct" "$out"
fi
if want lines; then
	title "22 lines a second from a tracer on four processors${OLD:+, beside OLD}; a minute"
	python3 "$here/../bench/lines.py" "$out" "$ct" "${OLD:+$(realpath "$OLD")}"
fi
if want diagnose; then
	title "25 --stalls: the first diagnosis of planted problems and of healthy kernels, beside Nsight Compute"
	python3 "$here/diagnose.py" "$ct" "$out" cuda triton torch ncu
fi
