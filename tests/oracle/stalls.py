# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's section `stalls`, computed again from the lines alone.

check(lines, report): returns what differs, as a list of texts."""
import collections

ENOUGH, ENOUGH_ISSUED, PLACES = 300, 20, 5
NO_WAIT = ("selected", "not_selected")
REASONS = ("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "barrier", "membar", "wait", "math_pipe",
           "warpgroup_arrive", "gmma", "branch_resolving", "no_instructions", "imc_miss", "dispatch_stall", "drain", "sleeping", "misc",
           *NO_WAIT[::-1], "other")


def near(a, b):
    return abs(a - b) <= 2e-5 * max(abs(a), abs(b), 1e-9) + 1e-6


def main_of(sums):
    waits = [(-n, REASONS.index(r), r) for r, n in sums.items() if n and r not in NO_WAIT]
    return min(waits)[2] if waits else None


class Kernel:
    def __init__(self):
        self.sums, self.classes, self.waits = collections.Counter(), collections.Counter(), collections.defaultdict(lambda: [0, 0])
        self.samples = self.idle = self.sm_us = self.gpu_ns = 0
        self.sms = None
        self.places = collections.defaultdict(collections.Counter)


def read(lines):
    kernels, spans = collections.defaultdict(Kernel), []
    for x in lines:
        if x["type"] == "gpu" and x["op"] == "kernel" and "kernel" in x:
            kernels[x["kernel"], x["device"]].gpu_ns += round(x["duration_us"] * 1000)
        if x["type"] != "stalls":
            continue
        k = kernels[x.get("kernel", x["function"]), x["device"]]
        if x["op"] == "instruction":
            k.places[x["function"], x["offset"]].update({r: x[r] for r in REASONS if r in x})
            continue
        spans.append((x["ts"], x["ts"] + x["duration_us"] / 1000))
        k.samples += x["samples"]
        k.idle += x["not_issued"]
        k.sm_us += x.get("sm_us", 0)
        k.sms = x.get("multiprocessors", k.sms)
        k.sums.update({r: x[r] for r in REASONS if r in x})
        k.classes.update({c[4:]: n for c, n in x.items() if c.startswith("for_") and isinstance(n, int)})
        if "reason" in x:
            k.waits[x["reason"]][0] += x.get("waiting", 0)
            k.waits[x["reason"]][1] += x.get("waiting_issued", 0)
    return {key: k for key, k in kernels.items() if k.samples}, spans


def check(lines, report):
    kernels, spans = read(lines)
    wrong = []

    def same(where, a, b):
        if not (near(a, b) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else a == b):
            wrong.append(f"stalls.{where}: {a!r}, should be {b!r}")
    rows = report["stalls"]["kernels"]
    same("kernels", len(rows), len(kernels))
    total = sum(k.samples for k in kernels.values())
    same("samples", report["stalls"]["samples"], total)
    same("order", [r["samples"] for r in rows], sorted((k.samples for k in kernels.values()), reverse=True))
    wall = 1000 * (max(b for _, b in spans) - min(a for a, _ in spans)) if spans else 0
    for row in rows:
        by_name = row["kernel"] if "kernel" in row else None
        k = kernels.get((by_name, row["device"])) if by_name else None
        if not k:
            if by_name:
                wrong.append(f"stalls: no such kernel: {by_name}")
            continue
        at = f"{by_name}."
        same(at + "samples", row["samples"], k.samples)
        same(at + "enough", row["enough"], k.samples >= ENOUGH)
        if k.samples < ENOUGH:
            same(at + "numbers", [m for m in row if m not in ("kernel", "device", "samples", "enough", "code", "reasons", "classes", "places")], [])
            same(at + "lists", [row["reasons"], row["classes"], row["places"]], [[], [], []])
            continue
        same(at + "share", row["share"], k.samples / total)
        same(at + "issue_share", row["issue_share"], 1 - k.idle / k.samples)
        same(at + "reasons", {r["reason"]: r["samples"] for r in row["reasons"]}, {r: n for r, n in k.sums.items() if n})
        same(at + "classes", {c["class"]: c["samples"] for c in row["classes"]}, dict(k.classes))
        for r in row["reasons"]:
            same(at + r["reason"], r["share"], k.sums[r["reason"]] / k.samples)
        main = main_of(k.sums)
        same(at + "reason", row.get("reason"), main)
        waiting, issued = k.waits[main] if main else (0, 0)
        same(at + "wait_cycles", row.get("wait_cycles"), waiting / issued if issued >= ENOUGH_ISSUED else None)
        same(at + "sm_share", row.get("sm_share"), min(1, k.sm_us / (wall * k.sms)) if k.sm_us and k.sms else None)
        same(at + "sm_busy", row.get("sm_busy"), min(1, k.sm_us * 1000 / (k.gpu_ns * k.sms)) if k.sm_us and k.sms and k.gpu_ns else None)
        waits = {p: sum(n for r, n in c.items() if r not in NO_WAIT) for p, c in k.places.items()}
        same(at + "places", [p["waiting"] for p in row["places"]], sorted((n for n in waits.values() if n), reverse=True)[:PLACES])
        for p in row["places"]:
            same(f"{at}{p['offset']}", p["waiting"], waits.get((p["function"], p["offset"])))
    return wrong
