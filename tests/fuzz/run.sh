#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs the fuzz targets in the order given, FUZZ_SECONDS (60) each:
#   tests/fuzz/run.sh [TARGET...]          TARGET as in fuzz_TARGET.c, or names (names.c)
#   FUZZ_RUNS=50000000 FUZZ_JOBS=32        number of runs of each, and of processes at once; FUZZ_SECONDS is then the
#                                          limit for all together: name the slowest last, which gets the remaining time
#   FUZZ_DIR=DIR                           programs, seeds and dictionaries exist already (`make fuzz-fast` packs
#                                          them: no sanitizers, static): nothing is built, no source is needed
# Interesting inputs are kept in build/fuzzing/corpus, where the next run begins. An input that
# fails is kept beside it and printed. Exit status 1 when there is one.
set -u
cd "$(dirname "$0")" || exit 1
[ -n "${FUZZ_DIR-}" ] || cd ../.. || exit 1
O=${O:-$PWD/build}
dir=${FUZZ_DIR:-$O/fuzzing}
jobs=${FUZZ_JOBS:-1} seconds=${FUZZ_SECONDS:-60}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

seed() { mkdir -p "$dir/seeds/$1" && cat >"$dir/seeds/$1/$2"; }
# Small real inputs, because chance would not find these.
make_seeds()
{
	mkdir -p "$dir/seeds/elf"
	printf 'int cuInit(int f){return f;}\nint cuMemAlloc_v2(int f){return f+1;}\n' |
		gcc -shared -nostdlib -Wl,-soname,libcuda.so.1,-z,noseparate-code,--build-id -s -x c - \
			-o "$dir/seeds/elf/small.so" || return 1
	mkdir -p "$dir/seeds/cubin"
	printf 'int f(int x){return x;}\nint g(int x){return x+1;}\n' |
		gcc -c -O2 -ffunction-sections -o "$dir/seeds/cubin/small.o" -x c - || return 1
	# Three functions that load adjacent members, and a version.
	mkdir -p "$dir/seeds/nccl"
	gcc -O2 -shared -nostdlib -Wl,-soname,libnccl.so.2,-z,noseparate-code -s -x c - -o "$dir/seeds/nccl/small.so" <<-'C' || return 1
		struct comm { char state[1024]; unsigned long hash; int rank, ranks, device; };
		int ncclCommUserRank(struct comm *c, int *x) { *x = c->rank; return 0; }
		int ncclCommCount(struct comm *c, int *x) { *x = c->ranks; return 0; }
		int ncclCommCuDevice(struct comm *c, int *x) { *x = c->device; return 0; }
		int ncclGetVersion(int *x) { *x = 22809; return 0; }
	C
	mkdir -p "$dir/seeds/torch"
	g++ -std=c++17 -O2 -fPIC -shared -DTORCH_CPU -Wl,-soname,libtorch_cpu.so,-z,noseparate-code -s -o "$dir/seeds/torch/small.so" \
		tests/torch/torch.cc || return 1
	{
		printf 'glibc-ld.so.cache1.1\002\0\0\0'
		head -c 24 /dev/zero
		printf '\003\003\0\0\140\0\0\0\155\0\0\0'
		head -c 12 /dev/zero
		printf '\003\012\0\0\140\0\0\0\155\0\0\0'
		head -c 12 /dev/zero
		printf 'libcuda.so.1\0/l/libcuda.so.1\0'
	} | seed ld_cache two
	printf '7f1200000000-7f1200100000 r-xp 00001000 fd:01 1234 /usr/lib/libcuda.so.580.1 (deleted)\n' | seed maps line
	printf 'level: metrics\nrules:\n  - match: {user: alice, command: "python*"}\n    level: trace\nsample: {every: 5s, on: {error: true}}\n' | seed config rules
	seed config defaults <dist/daemon.yaml
	printf 'files.total_size=4G' | seed config set
	printf '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3c1c8f5e_6b0c_4c6d_9a5e_0123456789ab.slice/cri-containerd-%064d.scope' 7 | seed labels pod
	printf '/system.slice/docker-%064d.scope/init.scope' 7 | seed labels docker
	printf '/lxc.payload.web/lxc/web' | seed labels lxc
	printf '!event,query,cuMem*,?uInit,launch' | seed select list
	printf 'all,!cuMemAlloc_v2,!none' | seed select but
	python3 tests/fuzz/seeds.py "$dir/seeds"
	gzip -nc "$dir/seeds/jsonl/3" | seed jsonl gz
	zstd -qc "$dir/seeds/jsonl/3" 2>/dev/null | seed jsonl zst
	printf '6,1234,5678901,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n SUBSYSTEM=pci\n' | seed kmsg xid
	PYTHONPATH=tests python3 -c 'import sys; from helpers import gpu_core; sys.stdout.buffer.write(gpu_core.sample())' | seed gpu_core sample
	python3 - <<'PY' | seed fecs slices
import struct, sys
sys.stdout.buffer.write(struct.pack("=Q", 1000))
for i, tag in enumerate((7, 6, 7, 6, 254, 6, 6)):
    sys.stdout.buffer.write(struct.pack("=HHIBBHIIHBBQ", 134, 0, 0, tag, 0, i, 70, 7, 0, 255, 255, 1000 + i))
PY
	printf '1000 40 py::train:model.py\n1040 10 _ZN1a1bEv\nfffffffffffffff0 f last\n' | seed perf_map map
	python3 tests/fuzz/seeds.py python "$dir/seeds"
	mkdir -p "$dir/seeds/symbols" && cp "$dir/seeds/elf/small.so" /bin/true "$dir/seeds/symbols/"
	make_daemon_seeds
	make_mcp_seeds
	make_dicts
}

# Requests to the daemon, and answers to it; the first bytes are the target's own.
make_daemon_seeds()
{
	local word answer='{"partialSuccess":{"rejectedSpans":"3"}}'
	for word in status 'level\t7\ttrace' 'level\tpy*\toff' 'level\t7\tdefault' 'dossier\t7' 'burst\t7\t10s' 'dump\tmine.zst' 'dump\t/tmp/x' reload; do
		printf '\1%b\n' "$word" | seed ctl "${word%%[!a-z]*}-${#word}"
	done
	printf '\0level\tpython3\ttrace\n' | seed ctl member
	printf '\7\377GET /metrics HTTP/1.1\r\nHost: node7:9464\r\n\r\n' | seed http metrics
	printf '\6\5HEAD /healthz?x=1 HTTP/1.0\r\n\r\n' | seed http head
	printf '\14\377POST / HTTP/1.1\nContent-Length: 1\n\nx' | seed http post
	printf '\0\377HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' ${#answer} "$answer" | seed otlp partial
	printf '\0\377HTTP/1.1 503 x\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\nContent-Length: 0\r\n\r\n' | seed otlp later
	printf '\0\377HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n' | seed otlp chunks
	printf '\3\20\20\r\n%s' "$answer" | seed otlp body
	printf '\3\20\42120\r\n\r\n' | seed otlp seconds
	printf '\1\0\0\0\0\0' | seed reader file
	printf '\0\376\377\377\377' | seed reader error
	printf '\2\0\1\0\0\0\0' | seed reader two
}

# A call of each tool, and what the protocol has besides.
make_mcp_seeds()
{
	local call='{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{%s}}}\n'
	{
		printf '{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-03-26"}}\n'
		printf '[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"}]\n{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
	} | seed mcp protocol
	# shellcheck disable=SC2059
	{
		printf "$call" 1 events '"type":"kernel","rows":1,"columns":["ts","args"]'
		printf '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}\n'
		printf "$call" 2 events '"group":"kernel","from_ms":-1,"page":"1"'
		printf "$call" 3 diff '"old":"1","new":"2","table":"kernels"'
	} | seed mcp queries
	# shellcheck disable=SC2059
	printf "$call" 1 section '"name":"kernels.list","order":"total_ns","contains":"k"' 2 section '"name":"memory"' 3 sections '"section":"map"' \
		4 what_if '"changes":["host=0.5"]' 5 summary '' | seed mcp sections
}

# Words of each format, quoted, which chance does not produce.
words() { sed 's/[\\"]/\\&/g; s/.*/"&"/' | sort -u >"$dir/$1.dict"; }
make_dicts()
{
	# Members are rows: words before the first text of each.
	sed -n 's/^[A-Z_]*(\([^"]*\)".*/\1/p' src/model/events.def src/model/trace.def | grep -oE '\b[a-z_]{2,}\b' | sed 's/.*/"&":/' | words jsonl
	{
		sed 's/^"//; s/"$//; s/\\"/"/g' "$dir/jsonl.dict"
		printf '"type":"%s",\n' header end stack process library scheduler xid interrupt uvm tracer kernel memory transfer sync graph module
		grep -ohE '"[a-z_]+"' src/saved/saved*.c | sort -u
		printf '%s\n' 18446744073709551615 -1 1e308 0.000001 '{"type":"header","name":"cudatrace","schema":2}' HtoD DtoD '[1,1,1]' null true
	} | words saved
	printf '%s\n' status level burst dump reload trace metrics sampled off default $'\t' 7 10s 1e9 -1 4294967303 'py*' '[' mine.zst .jsonl / . | words ctl
	{
		sed -n 's/^ARG([a-z_]*, \([a-z_]*\),.*/"\1":/p; s/^TOOL(\([a-z_]*\),.*/"\1"/p' src/mcp/tools.def
		sed -n 's/^AN([A-Z_]*, \([a-z_]*\),.*/"\1"/p' src/report/analyses.def
		printf '%s\n' '"jsonrpc":"2.0",' '"id":' '"method":' '"params":' '"arguments":' '"name":' '"columns":["ts"],' '"rows":' '"page":"1"' tools/call tools/list \
			notifications/cancelled '"requestId":' initialize '"protocolVersion":"2025-03-26"' '[{' '},{' '}]' kernels.list 1e308 -1 null
	} | words mcp
	printf '%s\n' 'GET ' 'HEAD ' 'POST ' /metrics /healthz / '?' ' HTTP/1.1' ' HTTP/1.0' $'\r' 'Host: ' http:// // | words http
	printf '%s\n' 'HTTP/1.1 ' '200 ' '429 ' '503 ' '100 ' $'\r' 'Content-Length: ' 'Transfer-Encoding: chunked' 'Retry-After: ' 'Connection: close' \
		'Wed, 21 Oct 2026 07:28:00 GMT' '{"partialSuccess":{' '"rejectedSpans":' '"rejectedDataPoints":' 18446744073709551615 -1 '"' : 0 ffffffff | words otlp
	sed -n '/^static const char \*const tokens/,/^};/s/^\t"\([^\\]*\)",$/\1/p' tests/fuzz/names_tokens.h | words kernel_name
	{
		grep -oE '[a-z_]+:' dist/daemon.yaml
		grep -ohE '"[a-z_]+"' src/daemon/config.c src/daemon/rules.c src/metrics/level.c | tr -d '"'
		printf '%s\n' 'trace' 'metrics' 'sampled' 'off' 'true' 'false' 'match: {' '- ' '{' '}' '[' ']' '&a' '*a' '!!str' '|' '>' '---' '<<: *a' '18446744073709551615' '1e9' '-1' '5s' '4G' '%TAG' '? '
	} | words config
	{
		sed -n 's/^FN(\(cu[A-Za-z0-9_]*\),.*/\1/p' src/decode/cuda_api.def | head -n 200
		sed -n 's/^CLASS[_A-Z]*([A-Z]*, "\([a-z]*\)".*/\1/p' src/decode/cuda_classes.def
		printf '%s\n' all none , '!' '*' '?' '[' ']' '_v2' '_ptsz'
	} | words select
	printf '%s\n' r-xp r--p rw-s ' (deleted)' libcuda.so libcuda.so.1 /usr/lib/ '[vdso]' 00:00 ffffffffffffffff '\\012' stubs/ .580.1 | words maps
	printf '%s\n' glibc-ld.so.cache1.1 ld.so-1.7.0 libcuda.so.1 | words ld_cache
	printf '%s\n' /kubepods .slice kubepods- burstable- besteffort- pod cri-containerd- crio- docker- libpod- .scope /docker/ /lxc/ lxc.payload. /machine.slice \
		3c1c8f5e_6b0c_4c6d_9a5e_0123456789ab 3c1c8f5e-6b0c-4c6d-9a5e-0123456789ab "$(printf %064d 7)" init.scope /.. // | words labels
	printf '%s\n' 'NVRM: ' 'Xid (' 'PCI:' '0000:3b:00' '): ' ', ' ';' '6,1,2,-' 4294967295 18446744073709551615 $'\t' | words kmsg
	printf '%s\n' '1000 ' '0 ' 'ffffffffffffffff ' '10000000000000000 ' 0x1000 ' 1 f' _Z1fDTsr1aC ' -1 ' | words perf_map
	for name in elf symbols torch nccl; do
		printf '%s\n' .dynsym .dynstr .symtab .gnu_debugdata libcuda.so.1 cuInit libnccl.so.2 ncclCommCount ncclGetVersion GNU >"$dir/$name.words"
		{ sed 's/.*/"&"/' "$dir/$name.words"; printf '"%s"\n' '\x7fELF\x02\x01\x01' '\x3e\x00' '\xb7\x00' '\x40\x00' '\x38\x00' '\x18\x00\x00\x00\x00\x00\x00\x00' '\xff\xff\xff\xff\xff\xff\xff\xff' '\xff\xff\xff\x7f'; } >"$dir/$name.dict"
		rm "$dir/$name.words"
	done
}

# one NAME LENGTH JOB: a process's share of the runs. Without entropy, which takes longer than most targets.
one()
{
	local name=$1 log=$dir/$1.$3.log dict='' time=$seconds rc
	[ -e "$dir/$name.dict" ] && dict=$dir/$name.dict
	[ -z "${FUZZ_RUNS-}" ] || time=$((seconds > SECONDS ? seconds - SECONDS : 1))
	mkdir -p "$dir/corpus/$name.$3" "$dir/seeds/$name"
	"$dir/fuzz/fuzz_$name" ${FUZZ_RUNS:+"-runs=$(((FUZZ_RUNS + jobs - 1) / jobs))" -entropic=0} -max_total_time="$time" -max_len="$2" -timeout=20 \
		-rss_limit_mb=4096 -seed="$((${FUZZ_SEED:-0} + $3))" -reload=0 ${dict:+"-dict=$dict"} -print_final_stats=1 -artifact_prefix="$dir/$name." \
		"$dir/corpus/$name.$3" "$dir/seeds/$name" >"$log" 2>&1 </dev/null
	rc=$?
	[ $rc -eq 0 ] && grep -aq number_of_executed_units "$log" || echo "$log" >>"$dir/$name.failed"
	echo "$3" >>"$dir/$name.ended"
}

# Prints the result of a target that has ended.
say()
{
	local name=$1 runs crashes hangs log
	runs=$(awk '/number_of_executed_units/ { n += $2 } END { printf "%d\n", n }' "$dir/$name".[0-9]*.log)
	if [ ! -e "$dir/$name.failed" ]; then
		echo "ok fuzz $name: $runs${FUZZ_RUNS:+ of $FUZZ_RUNS} runs in $((SECONDS - ${began[$name]})) s, 0 crashes, 0 hangs"
		return
	fi
	bad=1
	hangs=$(cat "$dir/$name".[0-9]*.log | grep -ac 'Test unit written to .*\.timeout-')
	crashes=$(($(wc -l <"$dir/$name.failed") - hangs)) # whatever else ended it
	log=$(head -n 1 "$dir/$name.failed")
	echo "not ok fuzz $name: $runs runs, $crashes crashes, $hangs hangs # $(grep -aoE "Test unit written to .*|ERROR: .*|Assertion.*" "$log" | tail -n 2 | tr '\n' ' '); see $log"
}

# Waits for a process, and prints the result of its target.
wait_one()
{
	local name
	wait -n
	running=$((running - 1))
	for name in "${!began[@]}"; do
		[ "$(grep -c . "$dir/$name.ended" 2>/dev/null)" = "$jobs" ] || continue
		say "$name"
		unset "began[$name]"
	done
}

# The next target begins as soon as a process is free, so none waits for another target's last process.
fuzz()
{
	local name=$1 i
	rm -f "$dir/$name.failed" "$dir/$name.ended" "$dir/$name".[0-9]*.log
	for ((i = 1; i <= jobs; i++)); do
		[ "$running" -lt "$jobs" ] || wait_one
		: "${began[$name]:=$SECONDS}"
		one "$name" "$2" "$i" &
		running=$((running + 1))
	done
}

# The demangler's names are limited by number, not by time.
names()
{
	local prog=$O/fuzz/names out
	[ -n "${FUZZ_DIR-}" ] && prog=$dir/fuzz/names
	if out=$("$prog" "${FUZZ_RUNS:-$((seconds * 5000))}" "$jobs" "$((${FUZZ_SEED:-0} + 1))"); then
		echo "ok fuzz names: $(tail -n 1 <<<"$out")"
		return 0
	fi
	echo "not ok fuzz names # $(grep -m 1 -E '^(no end|crash)' <<<"$out" | cut -c 1-300)"
	return 1
}

[ -n "${FUZZ_DIR-}" ] || make_seeds || { echo 'not ok fuzz: seeds'; exit 1; }
[ "${1-}" = seeds ] && exit
declare -A began=() # targets that run, since when
bad=0 running=0
if [ $# -eq 0 ]; then
	set -- names
	for prog in "$dir"/fuzz/fuzz_*; do set -- "$@" "${prog##*/fuzz_}"; done
fi
for name; do
	case $name in
	names) names || bad=1; continue ;;
	elf | symbols | torch | nccl | gpu_core) len=65536 ;;
	jsonl) [ -n "${FUZZ_RUNS-}" ] && len=4096 || len=16384 ;;
	reader) len=32 ;;
	python) len=2048 ;;
	maps | kmsg | labels | perf_map | ctl | http | otlp | cupti) len=512 ;;
	kernel_name) len=1024 ;;
	config) len=1024 ;;
	saved) len=2048 ;;
	select) len=96 ;; # a wrong name is compared with all
	*) len=4096 ;;
	esac
	fuzz "$name" "$len"
done
while [ "$running" -gt 0 ]; do wait_one; done
for name in "${!began[@]}"; do
	echo "not ok fuzz $name # one of its processes was lost"
	bad=1
done
exit $bad
