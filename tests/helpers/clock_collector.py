# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""clock_collector.py GOT OFF...: checks that the collector received times of a clock that is off by these amounts, and that nothing ends before it begins."""
import base64, json, sys, time
offs, bad, points, spans = [int(x) for x in sys.argv[2:]], [], 0, 0
def walk(x):
    if isinstance(x, dict):
        yield x
        x = list(x.values())
    for y in x if isinstance(x, list) else []:
        yield from walk(y)
for line in open(sys.argv[1]):
    r = json.loads(line)
    def far(ns):
        return min(abs(int(ns) / 1e9 - r["time"] - o) for o in offs) > 20
    for x in walk(json.loads(base64.b64decode(r["body"]))):
        if "startTimeUnixNano" not in x:
            continue
        end = x.get("endTimeUnixNano") or x.get("timeUnixNano")
        points += "timeUnixNano" in x
        spans += "endTimeUnixNano" in x
        if int(x["startTimeUnixNano"]) > int(end) or far(end):
            bad.append(str(x)[:200])
sys.exit("\n".join(bad[:5]) or (None if points > 100 and spans > 100 else f"{points} points, {spans} spans"))
