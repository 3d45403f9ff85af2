#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# cudatrace report: a saved trace says what the live one said. The sample program is traced into JSONL and a Chrome trace
# at once; the Chrome trace made from the JSONL must be the live one, byte for byte (so is that of each of tests/cases,
# tests/e2e/test_cases.py). Then files that are no traces, or not whole.
# takes: 40
set -u
. tests/lib.sh

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
report() { "$CUDATRACE" report "$@"; }

# same_chrome JSONL CHROME
same_chrome()
{
	local out
	out=$(report -q --format=chrome -o "$TMP/again.json" "$1" 2>&1) || { echo "status $?: $out"; return 1; }
	[ -z "$out" ] || { echo "$out"; return 1; }
	cmp "$TMP/again.json" "$2" && return
	diff <(tr , '\n' <"$2") <(tr , '\n' <"$TMP/again.json") | head -20
	return 1
}

# counts JSONL: what the report counted is what the trace's own end says. Lines of the file: all events, header, end.
counts()
{
	report -q --format=json -o "$TMP/again.json" "$1" || return
	python3 - "$1" "$TMP/again.json" <<'END'
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1], encoding="utf-8")]
head, end = lines[0], lines[-1]
r = json.load(open(sys.argv[2], encoding="utf-8"))
f = r["files"][0]
wrong = []
def same(what, a, b):
    if a != b:
        wrong.append(f"{what}: {a}, not {b}")
same("events", f["events"], sum(end["events"].values()))
same("lines", f["lines"], len(lines))
same("bad lines", f["bad_lines"], 0)
o = r.get("overview")
if o:
    same("calls", o["calls"], end["calls"])
    same("types", {k: v for k, v in o["events"].items() if v}, end["events"])
    same("version", o["version"], head["version"])
sys.exit("\n".join(wrong) or 0)
END
}

# agree NAME: what the lines, the Chrome trace, the report and the summary say of one run
agree()
{
	report -q --format=json --top 100000 -o "$TMP/again.json" "$TMP/$1.jsonl" &&
		tests/cases/agree.py "$TMP/$1.jsonl" "$TMP/$1.json" "$TMP/again.json" "$TMP/$1.err"
}

# cost NAME: the text has what the end line says of it
cost()
{
	report -q "$TMP/$1.jsonl" >"$TMP/again.txt" || return
	python3 - "$TMP/$1.jsonl" "$TMP/again.txt" <<'END'
import json, sys
end = json.loads(open(sys.argv[1]).read().splitlines()[-1])
text = open(sys.argv[2]).read()
section = text[text.index("\nCost of tracing: "):].split("\n\n")[0]
assert f'of the busiest second, of thread {end["busiest_tid"]}' in " ".join(section.split()), section
names = [line.split()[-1] for line in section.splitlines() if line.endswith(tuple(end["costs"]) + ("--detail=low",))]
assert [n for n in names if n != "--detail=low"] == list(end["costs"]), (names, end)
assert ("--detail=low" in names) == (end.get("low_saves_ms", 0) > max(end["costs"].values())), (names, end)
END
}

# both NAME COMMAND...: traced into $TMP/NAME.jsonl and $TMP/NAME.json, with the summary in $TMP/NAME.err
both()
{
	local name=$1
	shift
	"${TRACE[@]}" --summary --json --jsonl "$TMP/$name.jsonl" --chrome "$TMP/$name.json" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}

parity()
{
	check "$1: the Chrome trace is the live one" same_chrome "$TMP/$1.jsonl" "$TMP/$1.json"
	check "$1: counts" counts "$TMP/$1.jsonl"
	check "$1: numbers agree" agree "$1"
}

traced()
{
	TRACE=(timeout -k 5 60 "$CUDATRACE" -q -e "$ALL")
	LD_LIBRARY_PATH=$FAKE both sample -- "$FAKE/sample"
	parity sample
	check 'sample: what tracing cost' cost sample
	TRACE=(timeout -k 5 60 "$CUDATRACE" -q -e "$ALL" --count query,event --no-return context)
	LD_LIBRARY_PATH=$FAKE both counted -- "$FAKE/sample"
	parity counted
	TRACE=(timeout -k 5 60 "$CUDATRACE" -q -e "$ALL" --min-duration 1 --sched)
	LD_LIBRARY_PATH=$FAKE both filtered -- "$FAKE/sample"
	check 'filtered: counts' counts "$TMP/filtered.jsonl"
}


# Through the stand-in devices of tests/nvfuse: ioctls, scheduler events, mappings.
kernel_traced()
{
	local src server
	[ ! -e /sys/module/nvidia ] || { skip 'kernel' 'the NVIDIA driver is loaded'; return; }
	for src in server drive; do
		${CC:-gcc} -O1 -w -D_GNU_SOURCE -o "$TMP/$src" tests/nvfuse/$src.c -ldl -lpthread ||
			{ fail "builds: $src.c" 'see above'; return; }
	done
	mkdir "$TMP/nv"
	"$TMP/server" "$TMP/nv" >"$TMP/server.out" 2>"$TMP/server.err" &
	server=$!
	if until_ok 5 grep -q ready "$TMP/server.out"; then
		TRACE=(env CUDATRACE_TEST_NV_BY_NAME=1 timeout -k 5 40 "$CUDATRACE" -q --kernel --sched -e "$ALL")
		LD_LIBRARY_PATH=$FAKE both kernel -- "$TMP/drive" "$TMP/nv"
		parity kernel
		check 'kernel: there are ioctls and scheduler events' \
			holds "$TMP/kernel.jsonl" '{"scheduler", "kernel"} <= {e["type"] for e in ev}'
	else
		skip kernel "no stand-in device: $(head -1 "$TMP/server.err")"
	fi
	kill $server
	wait $server 2>/dev/null
}

# --report FILE says what cudatrace report says of the JSONL of the same run.
live_report()
{
	LD_LIBRARY_PATH=$FAKE timeout -k 5 60 "$CUDATRACE" -q -e "$ALL" --jsonl "$TMP/live.jsonl" --report "$TMP/live.json" \
		--report "$TMP/live.txt" -- "$FAKE/sample" >/dev/null 2>"$TMP/live.err"
	check 'live: --report' is "$? $(cat "$TMP/live.err")" '0 '
	report -q --format=json -o "$TMP/saved.json" "$TMP/live.jsonl"
	report -q -o "$TMP/saved.txt" "$TMP/live.jsonl"
	check 'live: the JSON is that of the saved trace' python3 -c '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
a.pop("files"), b.pop("files")
for k in {*a, *b}:
    if a.get(k) != b.get(k):
        sys.exit(f"{k}: {json.dumps(a.get(k))[:700]}\nnot {json.dumps(b.get(k))[:700]}")' "$TMP/live.json" "$TMP/saved.json"
	check 'live: the text is that of the saved trace' cmp "$TMP/live.txt" "$TMP/saved.txt"
	mkdir "$TMP/here"
	(cd "$TMP/here" && LD_LIBRARY_PATH=$FAKE timeout -k 5 60 "$CUDATRACE" -q -e init --report - -- true >out 2>err)
	check 'live: --report alone writes no other file' is "$? $(cat "$TMP/here/err") $(echo "$TMP/here"/*)" "0  $TMP/here/err $TMP/here/out"
}

# Older traces: the report counts what is there.
saved_traces()
{
	local f
	for f in tests/golden/*.jsonl; do
		check "${f##*/}: counts" counts "$f"
	done
}

# bad NAME STATUS WHAT-IT-SAYS FILE...: a pattern of grep -E; never more than a handful of messages
bad()
{
	local name=$1 status=$2 says=$3 out rc
	shift 3
	out=$(timeout -k 5 60 "$CUDATRACE" report --format=json "$@" 2>&1 >"$TMP/bad.out" </dev/null)
	rc=$?
	check "bad input: $name: status" is $rc "$status"
	check "bad input: $name: what it says" grep -qE -- "$says" <<<"$out"
	check "bad input: $name: says little" test "$(wc -l <<<"$out")" -le 8
	[ "$status" != 0 ] || check "bad input: $name: reports the rest" python3 -m json.tool "$TMP/bad.out" /dev/null
}

golden=tests/golden/h200-triton.jsonl
bad_input()
{
	local t=$TMP/t.jsonl
	bad 'missing file' 1 'cannot read .*nowhere: there is no such file' "$TMP/nowhere"
	bad 'folder' 1 'it is a folder' "$TMP"
	: >"$t"
	bad 'empty' 1 'is empty' "$t"
	seq 100000 >"$t"
	bad 'numbers' 1 ':1: this is no line of JSON .*it is no object' "$t"
	head -c 3000000 /dev/urandom >"$t"
	bad 'noise' 1 ':1: .*left out' "$t"
	echo '{"name":"x"}' >"$t"
	bad 'JSON of others' 1 ':1: it has no "ts" and "type"' "$t"
	echo '[{"name":"x","ph":"X"}]' >"$t"
	bad 'a Chrome trace' 1 ':1: this is a JSON array, such as a Chrome trace' "$t"
	sed '1s/"schema":1/"schema":2/' $golden >"$t"
	bad 'a newer schema' 1 'line 1: the trace has schema 2, .*get a newer cudatrace' "$t"
	tail -n +2 $golden >"$t"
	bad 'no header' 0 ':1: there is no header' "$t"
	head -n 50 $golden >"$t"
	bad 'no end' 0 'has no end line' "$t"
	head -c 20000 $golden >"$t"
	bad 'breaks off' 0 "t.jsonl:$(($(head -c 20000 $golden | wc -l) + 1)): the file breaks off in this line" "$t"
	sed '30s/.\{40\}$//' $golden >"$t"
	bad 'a line is cut' 0 ':30: this is no line of JSON' "$t"
	sed '30,99s/.\{40\}$//' $golden >"$t"
	bad 'many lines are cut' 0 ': 65 more lines like these' "$t"
	sed '30s/"type":"[a-z]*"/"type":"from the future"/' $golden >"$t"
	bad 'unknown types' 0 ':30: a type of event that this cudatrace does not know' "$t"
	(sed -n 1p $golden; sed -n '2,$p' $golden | tac) >"$t"
	bad 'times go back' 0 ':[0-9]*: the time goes back by .* s here' "$t"
	sed '30s/"type"/"ty\x00pe"/' $golden >"$t"
	bad 'a NUL' 0 ':30: .*a byte 0' "$t"
	(head -n 30 $golden; head -c 100000000 /dev/zero | tr '\0' x; echo; tail -n +31 $golden) >"$t"
	bad 'a line of 100 MB' 0 ':31: a line of more than 16 MiB' "$t"
	check 'bad input: a line of 100 MB: little memory' little_memory "$t"
	(head -n 30 $golden; printf '%0500000d\n' 0 | tr 0 '['; tail -n +31 $golden) >"$t"
	bad 'deep nesting' 0 ':31: .*nested too deeply|:31: this is no line' "$t"
	gzip -c $golden | head -c 4000 >"$t"
	bad 'gzip breaks off' 0 'line [0-9]*: the packed data breaks off here' "$t"
	gzip -c $golden | tail -c +4000 >"$t"
	bad 'the end of gzip' 1 ':1: ' "$t"
	if command -v zstd >/dev/null; then
		zstd -qc $golden | head -c 4000 >"$t"
		bad 'zstd breaks off' 1 'line [0-9]*: the packed data breaks off here' "$t"
	fi
	cp $golden "$t"
	bad 'the output is the trace' 1 'is the trace itself' -o "$t" "$t"
	check 'bad input: the trace is left alone' cmp "$t" $golden
	bad 'a file among good ones' 0 'nowhere: there is no such file' "$t" "$TMP/nowhere"
}

# The line is passed by, not kept.
little_memory()
{
	local kb
	kb=$(python3 -c '
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' "$CUDATRACE" report --format=chrome "$1")
	[ "$kb" -lt 100000 ] || { echo "$kb kB"; return 1; }
}

inputs()
{
	local plain
	plain=$(report --format=chrome $golden | cksum)
	is_plain() { is "$("$@" | cksum)" "$plain"; }
	gzip -c $golden >"$TMP/a.gz"
	(head -n 60 $golden | gzip -c; tail -n +61 $golden | gzip -c) >"$TMP/two.gz"
	check 'input: gzip, whatever it is called' is_plain report --format=chrome "$TMP/a.gz"
	check 'input: gzip in two parts' is_plain report --format=chrome "$TMP/two.gz"
	if command -v zstd >/dev/null; then
		zstd -qc $golden >"$TMP/a.jsonl"
		check 'input: zstd, whatever it is called' is_plain report --format=chrome "$TMP/a.jsonl"
	fi
	check 'input: stdin' is_plain "$CUDATRACE" report --format=chrome - <$golden
	slowly() { while read -r line; do echo "$line"; done <$golden | "$CUDATRACE" report --format=chrome -; }
	check 'input: a pipe that gives a line at a time' is_plain slowly
	cat $golden $golden >"$TMP/twice.jsonl"
	check 'several traces in one file' is "$(report -q --format=chrome "$TMP/twice.jsonl" | grep -c '"cat":"kernel"')" \
		"$((2 * $(report --format=chrome $golden | grep -c '"cat":"kernel"')))"
	check 'several files' is "$(report -q --format=chrome $golden $golden | cksum)" \
		"$(report -q --format=chrome "$TMP/twice.jsonl" | cksum)"
}

# As many processes, streams and kernels as calls: time that grows with their square would be minutes. Processor time, for
# the machine may be busy.
scale()
{
	python3 - "$TMP/scale.jsonl" "$golden" <<'END'
import json, sys
lines = open(sys.argv[2], encoding="utf-8").read().splitlines()
calls = [json.loads(l) for l in lines if '"symbol":"cuLaunchKernel"' in l.replace(" ", "")]
sync = next(json.loads(l) for l in lines if '"op":"sync"' in l.replace(" ", ""))
launch = {k: v for k, v in calls[0].items() if k not in ("args", "parent", "depth")}
sync = {k: v for k, v in sync.items() if k not in ("args", "parent", "depth", "stream", "event")}
with open(sys.argv[1], "w") as f:
    print(lines[0], file=f)
    for i in range(200000):
        print(json.dumps(dict(launch, id=2 * i + 1, ts=i / 1000, pid=i + 1, tid=i + 1, comm=f"c{i}", kernel=f"k{i % 50000}", stream=hex(4096 * i + 4096))), file=f)
        if i % 2:
            print(json.dumps(dict(sync, id=2 * i + 2, ts=i / 1000 + 0.0005, pid=i, tid=i, name="cuCtxSynchronize", symbol="cuCtxSynchronize")), file=f)
    print(lines[-1], file=f)
END
	check 'scale: 200,000 processes' eval 'ulimit -t 12; report -q --format=json "$TMP/scale.jsonl" >/dev/null'
}

saved_traces
inputs
scale
bad_input
(
	needs_tracing 'report of live traces'
	traced
	kernel_traced
	live_report
)
