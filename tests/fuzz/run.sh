#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs the fuzz targets one after the other, FUZZ_SECONDS (60) each:
#   tests/fuzz/run.sh [TARGET...]          TARGET as in fuzz_TARGET.c
# What they find interesting is kept in build/fuzzing/corpus, and where they begin next time. An input that
# fails is kept beside it and named. Exit status 1 when there is one.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-$PWD/build}
dir=$O/fuzzing
seconds=${FUZZ_SECONDS:-60}
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1

seed() { mkdir -p "$dir/seeds/$1" && cat >"$dir/seeds/$1/$2"; }
# Small real inputs, for what chance would not find.
make_seeds()
{
	mkdir -p "$dir/seeds/elf"
	printf 'int cuInit(int f){return f;}\nint cuMemAlloc_v2(int f){return f+1;}\n' |
		gcc -shared -nostdlib -Wl,-soname,libcuda.so.1,-z,noseparate-code,--build-id -s -x c - \
			-o "$dir/seeds/elf/small.so" || return 1
	printf '7f1200000000-7f1200100000 r-xp 00001000 fd:01 1234 /usr/lib/libcuda.so.580.1 (deleted)\n' | seed maps line
	printf 'level: metrics\nrules:\n  - match: {user: alice, command: "python*"}\n    level: trace\nsample: {every: 5s, on: {error: true}}\n' | seed config rules
	seed config defaults <dist/daemon.yaml
	printf 'files.total_size=4G' | seed config set
	printf '/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod3c1c8f5e_6b0c_4c6d_9a5e_0123456789ab.slice/cri-containerd-%064d.scope' 7 | seed labels pod
	printf '/system.slice/docker-%064d.scope/init.scope' 7 | seed labels docker
	printf '/lxc.payload.web/lxc/web' | seed labels lxc
	printf '!event,query,cuMem*,?uInit,launch' | seed select list
	printf 'all,!cuMemAlloc_v2,!none' | seed select but
	python3 - "$dir/seeds" <<'PY'
import json, os, sys
names, lines = set(), []
for line in open("tests/golden/h200-triton.jsonl", encoding="utf-8"):
    lines.append(line)
    names.add(json.loads(line).get("kernel_mangled"))
# Headers and ends are long: most seeds have none.
cuts = [lines[0] + lines[-1], lines[0] + "".join(lines[20:40])]
for name in ("h200-gpt2-tokens", "h200-gpt2-memory", "h200-triton"):
    lines = open(f"tests/golden/{name}.jsonl", encoding="utf-8").readlines()
    cuts += ["".join(lines[i:i + n]) for i, n in ((1, 4), (30, 12), (90, 40), (len(lines) - 6, 6))]
    cuts.append(lines[0] + "".join(lines[-40:]))
for sub, texts in (("kernel_name", sorted(filter(None, names))), ("jsonl", cuts)):
    os.makedirs(f"{sys.argv[1]}/{sub}", exist_ok=True)
    for i, text in enumerate(texts):
        with open(f"{sys.argv[1]}/{sub}/{i}", "w", encoding="utf-8") as f:
            f.write(text)
PY
	gzip -nc "$dir/seeds/jsonl/3" | seed jsonl gz
	zstd -qc "$dir/seeds/jsonl/3" 2>/dev/null | seed jsonl zst
	# The names of members, which chance does not spell.
	sed -n 's/^\tX(\([a-z_]*\)).*/"\\"\1\\":"/p' src/report/parse.h >"$dir/jsonl.dict"
}

fuzz()
{
	local name=$1 log=$dir/$1.log dict='' rc
	[ -e "$dir/$name.dict" ] && dict=$dir/$name.dict
	mkdir -p "$dir/corpus/$name" "$dir/seeds/$name"
	"$dir/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len="${2:-4096}" -timeout=20 -rss_limit_mb=4096 -seed="${FUZZ_SEED:-0}" \
		${dict:+"-dict=$dict"} -print_final_stats=1 -artifact_prefix="$dir/$name." "$dir/corpus/$name" "$dir/seeds/$name" >"$log" 2>&1
	rc=$?
	runs=$(awk '/number_of_executed_units/ { print $2 }' "$log")
	if [ $rc -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
		echo "ok fuzz $name: $runs runs in $seconds s"
		return 0
	fi
	echo "not ok fuzz $name # $(grep -aoE "Test unit written to .*|ERROR: .*|Assertion.*" "$log" | tail -n 2 | tr '\n' ' '); see $log"
	return 1
}

make_seeds || { echo 'not ok fuzz: seeds'; exit 1; }
bad=0
if [ $# -eq 0 ]; then
	for prog in tests/fuzz/fuzz_*.c; do
		prog=${prog##*/fuzz_}
		set -- "$@" "${prog%.c}"
	done
fi
for name; do
	case $name in
	elf) len=65536 ;;
	jsonl) len=16384 ;;
	maps) len=512 ;;
	select) len=96 ;; # a wrong name is compared with all
	*) len=4096 ;;
	esac
	fuzz "$name" $len || bad=1
done
exit $bad
