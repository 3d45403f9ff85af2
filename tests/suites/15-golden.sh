#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A trace recorded on an H200 (tests/gpu/triton_add.py, driver 580): keeps to docs/SCHEMA.md, answers the
# questions that the page asks with jq; and the checker of that page finds what is wrong.
set -u

golden=tests/golden/h200-triton.jsonl
checker=tests/golden/schema_check.py

if $checker $golden >"$TMP/out"; then
	echo 'ok golden: docs/SCHEMA.md'
else
	cat "$TMP/out"
	echo "not ok golden: docs/SCHEMA.md # $(wc -l <"$TMP/out") lines of complaint"
fi

# wrong NAME PYTHON: after this change of the lines l (a list of objects) the checker must complain. What the
# change returns, when it returns something, is written as it is.
wrong()
{
	if ! python3 - "$golden" "$TMP/bad.jsonl" "$2" <<'EOF'
import json, re, sys
src, dst, change = sys.argv[1:]
# Numbers stay as they were written.
class Num(float):
    __slots__ = ('text',)
def num(text):
    n = Num(text)
    n.text = text
    return n
def enc(v):
    if isinstance(v, Num):
        return v.text
    if isinstance(v, dict):
        return '{' + ','.join(json.dumps(k) + ':' + enc(x) for k, x in v.items()) + '}'
    if isinstance(v, list):
        return '[' + ','.join(map(enc, v)) + ']'
    return json.dumps(v)
l = [json.loads(s, parse_float=num, parse_int=num) for s in open(src)]
launch = next(e for e in l if e['type'] == 'kernel')
alloc = next(e for e in l if e['type'] == 'memory')
copy = next(e for e in l if 'direction' in e)
fork = next(e for e in l if e.get("op") == "fork")
exit_ = next(e for e in l if e.get('op') == 'exit')
header, end = l[0], l[-1]
scope = dict(globals())
exec(change, scope)
raw = scope.get('raw') or ''.join(enc(e) + '\n' for e in scope['l'])
open(dst, 'w', encoding='utf-8', errors='surrogateescape').write(raw)
EOF
	then
		echo "not ok golden: notices $1 # the change itself failed"
	elif $checker "$TMP/bad.jsonl" >"$TMP/out" 2>&1; then
		echo "not ok golden: notices $1 # it finds nothing wrong"
	elif ! grep -q "^$TMP/bad.jsonl:[0-9][0-9]*: ." "$TMP/out"; then
		cat "$TMP/out"
		echo "not ok golden: notices $1 # does not say where"
	else
		echo "ok golden: notices $1"
	fi
}

wrong 'no header'			'l = l[1:]'
wrong 'two headers'			'l.insert(1, header)'
wrong 'no end'				'l = l[:-1]'
wrong 'lines behind the end'		'l.append(alloc)'
wrong 'an empty file'			'raw = "\n"'
wrong 'half a line'			'raw = open(src).read()[:-30]'
wrong 'a lost line'			'l.remove(alloc)'
wrong 'a wrong count'			'end["events"]["kernel"] = num("28")'
wrong 'wrong calls'			'end["calls"] = num("77")'
wrong 'drops that are not whole'	'del end["drops"]["tasks"]'
wrong 'an unknown schema'		'header["schema"] = num("2")'
wrong 'a wall time without Z'		'header["wall_time"] = header["wall_time"][:-1]'
wrong 'an unknown type'			'alloc["type"] = "memoire"'
wrong 'an unknown op'			'alloc["op"] = "malloc"'
wrong 'an unknown member'		'alloc["colour"] = "red"'
wrong 'a missing member'		'del alloc["comm"]'
wrong 'a member twice'			'raw = open(src).read().replace("\"op\":\"alloc\"", "\"op\":\"alloc\",\"op\":\"alloc\"", 1)'
wrong 'missing args'			'del launch["args"]'
wrong 'a pointer that is a number'	'alloc["ptr"] = num("140000000000")'
wrong 'a pointer in capitals'		'alloc["ptr"] = "0x7F00AB"'
wrong 'a pointer with leading zeros'	'alloc["args"]["dptr"] = "0x00007f00"'
wrong 'a size that is a string'		'alloc["size"] = "4096"'
wrong 'a negative size'			'alloc["size"] = num("-1")'
wrong 'ts in microseconds'		'alloc["ts"] = num("12.345")'
wrong 'a duration without decimals'	'alloc["duration_us"] = num("12")'
wrong 'a failed call without error'	'alloc["result"] = num("2")'
wrong 'an error without failure'	'alloc["error"] = "CUDA_ERROR_INVALID_VALUE"'
wrong 'a result of an unfinished call'	'alloc["unfinished"] = True'
wrong 'false where true or nothing is'	'launch["cooperative"] = False'
wrong 'a grid of two'			'launch["grid"] = launch["grid"][:2]'
wrong 'a grid without a block'		'del launch["block"]'
wrong 'a grid of an allocation'		'alloc["grid"] = launch["grid"]'
wrong 'an unknown direction'		'copy["direction"] = "H2D"'
wrong 'bandwidth of an async copy'	'copy["bandwidth_gbps"] = num("12.5")'
wrong 'the same id twice'		'alloc["id"] = launch["id"]'
wrong 'a fork without a parent'		'del fork["parent_pid"]'
wrong 'an exit without a status'	'del exit_["exit_code"]'
wrong 'a library that nobody named'	'alloc["lib"] = num("7")'
wrong 'NaN'				'raw = open(src).read().replace("901.713", "NaN", 1)'
wrong 'bytes that are no UTF-8'		'raw = open(src).read().replace("python3", "python\udcff", 1)'

head -n 50 $golden >"$TMP/cut.jsonl"
if $checker --cut "$TMP/cut.jsonl" >"$TMP/out" && ! $checker "$TMP/cut.jsonl" >/dev/null; then
	echo 'ok golden: --cut'
else
	echo 'not ok golden: --cut # a trace without an end is one with --cut, and only then'
fi
$checker >/dev/null 2>&1
[ $? -eq 2 ] && echo 'ok golden: usage' || echo 'not ok golden: usage # exit status 2 was expected'

if ! command -v jq >/dev/null; then
	echo 'skip golden: jq # jq is not installed'
	exit 0
fi

# answer NAME WANTED JQ-ARGUMENTS...: what jq says of the trace, its lines joined by blanks
answer()
{
	local name=$1 wanted=$2 got
	shift 2
	got=$(jq "$@" $golden 2>&1 | LC_ALL=C sort | uniq -c | sed 's/^ *//' | paste -sd' ')
	if [ "$got" = "$wanted" ]; then
		echo "ok golden: $name"
	else
		echo "# wanted: $wanted"
		echo "# got:    ${got:0:500}"
		echo "not ok golden: $name # another answer"
	fi
}

answer 'how many of what' '3 context 1 end 1 header 9 init 27 kernel 1 library 5 memory 30 module 50 process 2 sync 2 transfer' \
	-r .type
answer 'memory' '4 alloc 1 alloc_host' -r 'select(.type=="memory") | .op'
answer 'allocations' \
	'1 {"ts":2479.751163,"size":20971520} 1 {"ts":3627.290593,"size":2097152} 1 {"ts":3650.351709,"size":20971520} 1 {"ts":3658.973375,"size":2097152}' \
	-c 'select(.type=="memory" and .op=="alloc") | {ts, size}'
answer 'launches' '17 cuLaunchKernel 10 cuLaunchKernelEx' \
	-r 'select(.type=="kernel" and .op=="launch") | .name'
answer 'launches of add_kernel' '10 {"grid":[1024,1,1],"block":[128,1,1],"shared_mem":0,"stream":"0x0"}' \
	-c 'select(.type=="kernel" and .op=="launch" and .kernel=="add_kernel") | {grid, block, shared_mem, stream}'
answer 'launches have names' '27 true' \
	'select(.type=="kernel" and .op=="launch") | (.kernel | length) > 0 and (.func | startswith("0x"))'
answer 'times of launches' '17 number' -r 'select(.name=="cuLaunchKernel") | .ts | type'
answer 'durations' '78 ["duration_us","name"]' -c 'select(.duration_us) | {name, duration_us} | keys'
answer 'calls per function' '1 4 cuMemAlloc' \
	-rs 'map(select(.name=="cuMemAlloc")) | group_by(.name)[] | "\(length) \(.[0].name)"'
answer 'bytes per direction' '1 DtoH 1' \
	-rs 'map(select(.direction)) | group_by(.direction)[] | "\(.[0].direction) \(map(.size) | add)"'
answer 'what failed' '1 cuDevicePrimaryCtxRelease CUDA_ERROR_DEINITIALIZED 8 cuLibraryUnload CUDA_ERROR_DEINITIALIZED' \
	-r 'select(.error) | "\(.name) \(.error)"'
answer 'nothing is unfinished' '' -c 'select(.unfinished==true) | {ts, name, tid}'
answer 'nothing is lost' '1 0' 'select(.type=="end") | ([.drops[]] | add) + .bad_records'
answer 'the end counts lines' '1 true' -s \
	'.[-1].events == (.[1:-1] | group_by(.type) | map({(.[0].type): length}) | add)'
