# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the requests to the NVIDIA driver in a trace made with --kernel, as Markdown tables.

usage: ioctls.py TRACE.jsonl
"""
import collections
import json
import sys


def main():
    by_name, by_call, unnamed, bad = (collections.defaultdict(lambda: [0, 0.0, 0.0]) for _ in range(4))
    sched, ops, objects, classes = (collections.Counter() for _ in range(4))
    calls = {}
    with open(sys.argv[1], encoding="utf-8") as f:
        for line in f:
            ev = json.loads(line)
            if ev["type"] == "scheduler":
                sched[(ev["op"], ev["name"], ev.get("values", "?"))] += 1
            if "ioctls" in ev:
                c = calls.setdefault(ev["name"], [0, 0, 0.0])
                c[0] += 1
                c[1] += ev["ioctls"]
                c[2] += ev.get("ioctl_us", 0)
            if ev["type"] != "kernel" or ev["op"] == "launch" or "device" not in ev:
                continue
            ops[(ev["device"], ev["op"])] += 1
            if ev["op"] != "ioctl":
                continue
            us = ev.get("duration_us", 0)
            for table, key in ((by_name, (ev["device"], ev["name"])), (by_call, ev.get("call", "-"))):
                row = table[key]
                row[0] += 1
                row[1] += us
                row[2] = max(row[2], us)
            if "control" not in ev and "control_cmd" in ev or not ({"escape", "uvm"} & set(ev)):
                unnamed[ev["name"] + " " + ev.get("cmd", "")][0] += 1
            if ev.get("status", "NV_OK") != "NV_OK":
                bad[(ev["name"], ev["status"])][0] += 1
            if "status" not in ev:
                bad[(ev["name"], "no status")][0] += 1
            if "object" in ev:
                objects["object_class" in ev] += 1
            if "class" in ev:
                classes[ev["class"]] += 1
    print("operations", {f"{d} {o}": n for (d, o), n in sorted(ops.items())})
    print("\n| device | ioctl | count | total us | mean us | max us |\n|---|---|---|---|---|---|")
    for (dev, name), (n, us, mx) in sorted(by_name.items(), key=lambda r: -r[1][1]):
        print(f"| {dev} | {name} | {n} | {us:.0f} | {us / n:.1f} | {mx:.0f} |")
    print("\n| CUDA call | ioctls | total us |\n|---|---|---|")
    for name, (n, us, _) in sorted(by_call.items(), key=lambda r: -r[1][1]):
        print(f"| {name} | {n} | {us:.0f} |")
    print("\n| CUDA function | calls | ioctls in them | us in ioctls |\n|---|---|---|---|")
    for name, (n, cnt, us) in sorted(calls.items(), key=lambda r: -r[1][1]):
        if cnt:
            print(f"| {name} | {n} | {cnt} | {us:.0f} |")
    print("\nnot named:", {k: v[0] for k, v in unnamed.items()})
    print("status other than NV_OK:", {f"{k[0]} {k[1]}": v[0] for k, v in bad.items()})
    print("objects whose class is known / not:", objects[True], objects[False])
    print("classes allocated:", dict(classes.most_common()))
    print("scheduler:")
    for (op, name, values), n in sched.most_common():
        print(f"  {n:4} {op:20} {name} {values}")


if __name__ == "__main__":
    main()
