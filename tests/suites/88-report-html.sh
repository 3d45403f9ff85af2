#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The report's HTML page, used in headless Chromium as a person would: a million events whose names are
# hostile, and the same merged to fewer.
# takes: 40
set -u
. tests/lib.sh

maker=$TMP/make_page
if ! ${CC:-gcc} -std=gnu11 -O1 -D_GNU_SOURCE= -Isrc -Iinclude -Itests tests/html/make_page.c \
	"$O/libct.a" -lz -l:libstdc++.a -lpthread -ldl -lm -o "$maker"; then
	fail 'html' 'tests/html/make_page.c does not compile'
	exit
fi

without_colour()
{
	local type none=
	for type in $(sed -n 's/^CLASS([A-Z]*, "[a-z]*", [A-Z]*, "\([a-z]*\)".*/\1/p' src/decode/cuda_classes.def); do
		sed -n '/^const CLASSES/,/^};/p' src/report/page/html/util.js | grep -q "[{ 	]$type: '#" || none+=" $type"
	done
	[ -n "$type" ] && [ -z "$none" ] || { echo "$none"; return 1; }
}
check 'html: each class of functions has a colour' without_colour

# has NAME PAGE PYTHON: an expression over the page's text (s), its report (r), what describes the events (m), and
# columns()
has()
{
	check "$1" env PYTHONPATH=tests python3 - "$2" "$3" <<'END'
import json, re, sys
from helpers.page import Page
page = Page(sys.argv[1])
s, r, m, columns = page.text, page.report, page.meta, page.columns
if not eval(sys.argv[2]):
    print("not so:", sys.argv[2])
    sys.exit(1)
END
}

"$maker" tests/html/sample.json "$TMP/small.html" 20000 >/dev/null
"$maker" tests/html/sample.json "$TMP/merged.html" 300000 100000 >/dev/null
"$maker" tests/html/sample.json "$TMP/million.html" 1000000 >/dev/null

has 'html: all events' "$TMP/small.html" \
	'm["events"] == 20000 == sum(l["events"] for l in m["lanes"]) and m["merged"] == 0'
has 'html: columns unpack' "$TMP/small.html" \
	'max(columns()[2]) == len(m["whats"]) - 1 and max(columns()[3]) == len(m["details"])'
has 'html: the report is whole' "$TMP/small.html" 'r == json.load(open("tests/html/sample.json"))'
has 'html: hostile names are text' "$TMP/small.html" \
	'any("</script><img" in w.get("kernel", "") for w in m["whats"]) and "<img" not in s'
has 'html: scripts need the nonce of this file' "$TMP/small.html" \
	're.search(r"script-src .nonce-([0-9a-f]{32})", s) and not re.search(r"<script>|<script nonce=\"(?![0-9a-f]{32}\")", s)'
has 'html: merged events are counted' "$TMP/merged.html" \
	'm["events"] <= 100000 and m["events"] + m["merged"] == 300000 == m["events"] + sum(sum(l.get("cells", [])[1::4]) for l in m["lanes"])'
has 'html: only short ones are merged' "$TMP/merged.html" 'min(columns()[1]) >= m["below_ns"] > 0'

# The same by the command, from traces: one of an H200, and one whose kernels, threads and host are hostile.
python3 - tests/golden/h200-triton.jsonl "$TMP/hostile.jsonl" <<'END'
import json, sys
bad = '</script><img src=x onerror="window.hacked=1"><!--<script>\x01\x1b[31m\u202egnitteg\u2066'
with open(sys.argv[1]) as f, open(sys.argv[2], "w") as out:
    for line in f:
        e = json.loads(line)
        for k in ("kernel", "comm", "host", "path", "command"):
            if k in e:
                e[k] = [bad] if k == "command" else bad
        out.write(json.dumps(e) + "\n")
END
for page in golden hostile; do
	trace=$TMP/$page.jsonl
	[ $page = golden ] && trace=tests/golden/h200-triton.jsonl
	check "html: of a trace: $page" "$CUDATRACE" -q report --format=html -o "$TMP/$page.html" "$trace"
	n=$(jq -s '[.[] | select(.type != "header" and .type != "end")] | length' "$trace")
	has "html: $page: all $n events" "$TMP/$page.html" "m['events'] == $n and r['overview']['calls'] > 0"
done
# --stack, --kernel and --gpu-stats: who called, and why the driver refused; names are hostile here, too.
python3 - tests/golden/h200-triton.jsonl "$TMP/stacks.jsonl" >"$TMP/callers.json" <<'END'
import json, sys
bad = '</script><img src=x onerror="window.hacked=1"><!--<script>\x1b[31m\u202egnitteg\u2066'
app = {"ip": "0x1431", "module": "/opt/app/" + bad, "offset": "0x1431"}
frames = {1: [{**app, "symbol": "main+0x81"}],
          2: [{**app, "symbol": "void outer<int, float>(int)+0x61"}, {**app, "symbol": bad}, {**app, "symbol": "main+0x140"}, app]}
refused = [("NV_ESC_RM_ALLOC", "nvidiactl", 0, "NV_OK")] * 3 + [("NV_ESC_RM_ALLOC", "nvidiactl", 0, "NV_ERR_NOT_SUPPORTED")] * 2 + [
    ("NV_ESC_RM_ALLOC", "nvidiactl", 0, "0xdead"), ("NV_ESC_RM_ALLOC", "nvidia0", -22, None), ("UVM_" + bad, "nvidia-uvm", 0, bad)]
calls, sums = 0, {}
with open(sys.argv[1]) as f, open(sys.argv[2], "w") as out:
    def put(**e):
        out.write(json.dumps(e) + "\n")
    for e in map(json.loads, f):
        if "symbol" in e:
            who = {k: e[k] for k in ("ts", "pid", "tid", "comm")}
            calls += 1
            for i in frames if calls == 1 else ():
                put(**who, type="stack", op="stack", name="stack", id=i, frames=frames[i])
            if calls == 3:
                for name, device, result, status in refused:
                    put(**who, type="kernel", op="ioctl", name=name, duration_us=2.5, device=device, fd=8, cmd="0xc020462b",
                        escape=name, status=status, result=result)
                gpu = {**who, "type": "gpu_stats", "name": "NVML", "gpu": 0, "uuid": "GPU-" + bad}
                put(**gpu, op="device", model=bad, memory_total=1 << 36)
                put(**{**gpu, "comm": bad}, op="process", memory_used=1 << 30, sm_util=40)
                put(**gpu, op="sample", util=57, sm_active=12.5, power_w=345.6, throttle=bad)
                put(**gpu, op="missing", why=bad)
            if calls % 5:  # some have none
                e["stack"] = 1 + calls % 2
                key = json.dumps([e["name"], 4 if calls % 2 else 1])
                cnt, ns = sums.get(key, (0, 0))
                sums[key] = [cnt + 1, ns + round(e["duration_us"] * 1000)]
        put(**e)
json.dump(sums, sys.stdout)
END
check 'html: of a trace: stacks' "$CUDATRACE" -q report --format=html -o "$TMP/stacks.html" "$TMP/stacks.jsonl"
has 'html: calls and time of each function and stack' "$TMP/stacks.html" \
	"{json.dumps([x['name'], len(x['stack'])]): [x['count'], x['total_ns']] for x in m['callers']} == json.load(open('$TMP/callers.json'))"
has 'html: most time first' "$TMP/stacks.html" \
	'[x["total_ns"] for x in m["callers"]] == sorted((x["total_ns"] for x in m["callers"]), reverse=True)'
has 'html: refused commands by device and status' "$TMP/stacks.html" \
	'sorted((x["device"], x["status"][:20], x["count"]) for x in m["refused"]) == [("nvidia-uvm", "</script><img src=x ", 1),
	("nvidia0", "EINVAL", 1), ("nvidiactl", "0xdead", 1), ("nvidiactl", "NV_ERR_NOT_SUPPORTED", 2)] and r["driver"]["errors"] == 5'
has 'html: what NVML said of the GPUs is in the report' "$TMP/stacks.html" \
	'r["gpu_stats"]["devices"][0]["values"]["sm_active"]["mean"] == 12.5 and r["gpu_stats"]["devices"][0]["processes"][0]["sm_util"]["max"] == 40'
has 'html: without --stack and --kernel: neither' "$TMP/golden.html" '"callers" not in m and m["refused"] == []'
has 'html: hostile frames are text' "$TMP/stacks.html" '"<img" not in s and "window.hacked" in s'
has 'html: a hostile trace stays text' "$TMP/hostile.html" '"<img" not in s and "window.hacked" in s'

for page in golden hostile stacks merged million; do
	tests/html/drive.py "$TMP/$page.html" >"$TMP/out" 2>"$TMP/err"
	rc=$?
	if [ $rc = 77 ]; then
		skip "html: $page" "$(tail -n 1 "$TMP/err")"
	elif [ $rc != 0 ]; then
		fail "html: $page" "$(tail -n 1 "$TMP/err")"
	fi
	sed "s/^\(ok\|not ok\) /&html: $page: /" "$TMP/out"
done
