# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""judge.py CURVE METRICS N OWN COMMAND: was the daemon flat, and is what it counted what the N short processes did?"""
import collections, re, statistics, sys
curve = [list(map(int, l.split())) for l in open(sys.argv[1])]
text, n = open(sys.argv[2]).read(), int(sys.argv[3])
def total(name, *labels):
    return sum(float(l.split()[-1]) for l in text.splitlines() if re.match(rf"cudatrace_{name}[{{ ]", l) and all(x in l for x in labels))
bad = []
# The recorder and the compressors' memory fill up first: the second quarter against the last.
q = max(1, len(curve) // 4)
def ends(column):
    return [statistics.median(r[column] for r in part) for part in (curve[q:2 * q] or curve[:1], curve[-q:])]
rss, fds, targets, libs = ends(1), ends(2), ends(3), ends(4)
if rss[1] - rss[0] > (2 << 20) + (targets[1] - targets[0]) * (128 << 10):
    bad.append(f"memory grows: {rss[0]:.0f}, then {rss[1]:.0f} bytes")
if fds[1] - fds[0] > 4 + 2 * max(0, libs[1] - libs[0]):
    bad.append(f"descriptors grow: {fds[0]:.0f}, then {fds[1]:.0f}")
# What it grows in an hour, by least squares over the second half.
def slope(column):
    half = curve[len(curve) // 2:]
    if len(half) < 3:
        return 0
    return statistics.linear_regression([r[0] for r in half], [r[column] for r in half]).slope * 3600
brief = f'command="{sys.argv[5]}"'
drops = total("dropped_total")
own = collections.Counter()
for l in open(sys.argv[4]):
    own[l.split()[0]] += int(l.split()[1])
got = collections.Counter()
for l in text.splitlines():
    m = re.match(r'cudatrace_calls_total\{.*command="%s".*function="(\w+)".*\} (\S+)' % sys.argv[5], l)
    if m:
        got[m[1]] += int(float(m[2]))
wrong = {k: (v, own[k]) for k, v in got.items() if v > own[k] or (v < own[k] and not drops)}
calls = sum(own[k] for k in got)
if wrong or not {"cuInit", "cuLaunchKernel", "cuMemAlloc_v2"} <= got.keys() or sum(got.values()) + drops < calls:
    bad.append(f"calls of the short processes: counted, and the driver's own: {wrong or got}; {drops:.0f} dropped")
if total("target_processes", brief) or total("memory_bytes", brief):
    bad.append("ended processes are still there")
print("\n".join("soak: " + b for b in bad) or f"soak: flat: {rss[0] / 1048576:.1f} and {rss[1] / 1048576:.1f} MiB, {fds[0]:.0f} and {fds[1]:.0f} descriptors ({targets[0]:.0f} and {targets[1]:.0f} names, {libs[0]:.0f} and {libs[1]:.0f} libraries); "
      f"by the slope of the second half {slope(1) / 1048576:+.2f} MiB and {slope(2):+.1f} descriptors in an hour; "
      f"{n} short processes: {sum(got.values())} calls counted, {calls} made; {drops:.0f} records dropped")
sys.exit(bool(bad))
