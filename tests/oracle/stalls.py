# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's section `stalls`, computed again from the lines alone.

check(lines, report): returns what differs, as a list of texts."""
import collections

ENOUGH, ENOUGH_ISSUED, PLACES = 300, 20, 5
NO_WAIT = ("selected", "not_selected")
REASONS = ("long_scoreboard", "short_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "barrier", "membar", "wait", "math_pipe",
           "warpgroup_arrive", "gmma", "branch_resolving", "no_instructions", "imc_miss", "dispatch_stall", "drain", "sleeping", "misc",
           *NO_WAIT[::-1], "other")

# What limits a kernel: (sign, 1: at least or 0: at most, bound). The bounds are those of src/report/gpu/diagnoses.def, written again.
DIAGNOSES = {
    "local_memory": (("local", 1, 0.2), ("memory_reasons", 1, 0.3)),
    "bank_conflicts": (("shared", 1, 0.3), ("queue_wait", 1, 100)),
    "contended_atomic": (("atomic", 1, 0.3), ("memory_wait", 1, 4000)),
    "scattered_access": (("memory", 1, 0.5), ("memory_wait", 1, 1500), ("access_bytes", 1, 700)),
    "memory_bandwidth": (("memory", 1, 0.5), ("memory_wait", 1, 1000), ("access_bytes", 0, 600)),
    "memory_latency": (("any_memory", 1, 0.5), ("memory_wait", 1, 200), ("warps", 0, 8)),
    "divergence": (("diverged", 1, 0.5), ("branch_reasons", 1, 0.15)),
    "predication": (("guarded", 1, 0.6), ("dispatch_reasons", 1, 0.1)),
    "barrier": (("barrier_reasons", 1, 0.4), ("barrier_wait", 1, 300)),
    "no_tensor_cores": (("multiply", 1, 0.5), ("issued", 1, 0.5), ("product", 1, 1)),
    "special_functions": (("special", 1, 0.4), ("queue_reasons", 1, 0.4)),
    "small_grid": (("busy", 0, 0.5), ("blocks", 0, 0.99)),
    "tail": (("busy", 0, 0.8), ("tail", 1, 0.2)),
    "instructions": (("ready_reasons", 1, 0.4), ("issued", 1, 0.75)),
}
LIMITS = ("memory_bandwidth", "special_functions", "instructions")
PRODUCTS = "gemm matmul addmm bmm _mm_ convol conv2d conv3d attention attn fmha".split()
# Bytes per nanosecond of the memory, by the data sheets.
MEMORY = {"NVIDIA H100 80GB HBM3": 3352, "NVIDIA H200": 4800}


def near(a, b):
    return abs(a - b) <= 2e-5 * max(abs(a), abs(b), 1e-9) + 1e-6


def main_of(sums):
    waits = [(-n, REASONS.index(r), r) for r, n in sums.items() if n and r not in NO_WAIT]
    return min(waits)[2] if waits else None


class Kernel:
    def __init__(self):
        self.sums, self.classes, self.waits = collections.Counter(), collections.Counter(), collections.defaultdict(lambda: [0, 0])
        self.samples = self.idle = self.sm_us = self.gpu_ns = self.cycles = self.decoded = self.guarded = self.diverged = self.issued_memory = 0
        self.issued_multiply = self.matrix = self.arch = 0
        self.sms = None
        self.places = collections.defaultdict(collections.Counter)


def signs_of(k, name, gbps, blocks, tail):
    """The signs of a kernel that are known."""
    part = {r: n / k.samples for r, n in k.sums.items()}
    of = {c: n / k.samples for c, n in k.classes.items()}

    def add(where, *names):
        return sum(where.get(n, 0) for n in names)
    issued = 1 - k.idle / k.samples
    x = {"memory_reasons": add(part, "long_scoreboard", "lg_throttle"), "queue_reasons": add(part, "short_scoreboard", "mio_throttle"),
         "branch_reasons": add(part, "branch_resolving", "no_instructions"), "dispatch_reasons": add(part, "dispatch_stall"), "barrier_reasons": add(part, "barrier"),
         "ready_reasons": add(part, "not_selected", "math_pipe"), "issued": issued}
    if k.decoded >= 0.9 * k.samples:
        x |= {"local": add(of, "local_load", "local_store"), "shared": add(of, "shared"), "atomic": add(of, "atomic"), "memory": add(of, "global_load", "global_store"),
              "any_memory": add(of, "global_load", "global_store", "atomic"), "special": add(of, "special"), "guarded": k.guarded / k.samples, "diverged": k.diverged / k.samples}
        if not k.matrix and k.arch >= 80:
            x["multiply"] = k.issued_multiply / k.sums["selected"] if k.sums["selected"] else 0
        if gbps and k.sms and k.sm_us and k.cycles and k.issued_memory >= ENOUGH_ISSUED and issued and k.sums["selected"]:
            # Accesses in all: the share of issued instructions that are some, times the cycles of 4 schedulers in which one was issued.
            accesses = k.issued_memory / k.sums["selected"] * issued * k.cycles * 4
            x["access_bytes"] = gbps * k.sm_us * 1000 / k.sms / accesses
    main = main_of(k.sums)
    waiting, waiting_issued = k.waits[main] if main else (0, 0)
    for sign, reasons in (("memory_wait", ("long_scoreboard", "lg_throttle")), ("queue_wait", ("short_scoreboard", "mio_throttle")), ("barrier_wait", ("barrier",))):
        if main in reasons:
            x[sign] = waiting / max(waiting_issued, ENOUGH_ISSUED)
    if k.sums["selected"] >= ENOUGH_ISSUED:
        x["warps"] = issued * k.samples / k.sums["selected"]
    if k.sm_us and k.sms and k.gpu_ns:
        x["busy"] = min(1, k.sm_us * 1000 / (k.gpu_ns * k.sms))
    if blocks and k.sms:
        x["blocks"] = blocks / k.sms
    if name:
        x["product"] = sum(word in name.lower() for word in PRODUCTS)
    if tail is not None:
        x["tail"] = tail
    return x


def diagnoses_of(signs):
    found = []
    for name, bounds in DIAGNOSES.items():
        if all(s in signs and (signs[s] >= b if low else signs[s] <= b) for s, low, b in bounds):
            first, low, _ = bounds[0]
            part = signs[first] * signs.get("busy", 1) if low else 1 - signs[first]
            found.append(((name in LIMITS, -part), name, {s: signs[s] for s, _, _ in bounds}))
    return sorted(found, key=lambda x: x[0])[:4]


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
        k.arch = x.get("architecture", k.arch)
        k.cycles += x["samples"] * x.get("period_cycles", 0)
        if "guarded" in x:
            k.decoded += x["samples"]
            for member in ("guarded", "diverged", "issued_memory", "issued_multiply", "matrix"):
                setattr(k, member, getattr(k, member) + x.get(member, 0))
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
    device = {}
    for x in lines:
        if x["type"] == "gpu_device":
            device |= x
    gbps = 2 * device["memory_khz"] * device["bus_bits"] / 8e6 if "bus_bits" in device else MEMORY.get(device.get("model"))
    blocks = collections.Counter()
    for x in lines:
        if x["type"] == "kernel" and x.get("op") == "launch" and "grid" in x and "kernel" in x:
            blocks[x["kernel"]] = max(blocks[x["kernel"]], x["grid"][0] * x["grid"][1] * x["grid"][2])
    tails = {k["name"]: k.get("tail_share") if k.get("waves", 0) > 1 else None for k in report.get("kernels", {}).get("list", [])}
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
            same(at + "numbers", [m for m in row if m not in ("kernel", "device", "samples", "enough", "code", "diagnoses", "reasons", "classes", "places")], [])
            same(at + "lists", [row["diagnoses"], row["reasons"], row["classes"], row["places"]], [[], [], [], []])
            continue
        same(at + "share", row["share"], k.samples / total)
        same(at + "issue_share", row["issue_share"], 1 - k.idle / k.samples)
        same(at + "reasons", {r["reason"]: r["samples"] for r in row["reasons"]}, {r: n for r, n in k.sums.items() if n})
        same(at + "classes", {c["class"]: c["samples"] for c in row["classes"]}, {c: n for c, n in k.classes.items() if n})
        for r in row["reasons"]:
            same(at + r["reason"], r["share"], k.sums[r["reason"]] / k.samples)
        main = main_of(k.sums)
        same(at + "reason", row.get("reason"), main)
        waiting, issued = k.waits[main] if main else (0, 0)
        same(at + "wait_cycles", row.get("wait_cycles"), waiting / issued if issued >= ENOUGH_ISSUED else None)
        same(at + "sm_share", row.get("sm_share"), min(1, k.sm_us / (wall * k.sms)) if k.sm_us and k.sms else None)
        same(at + "sm_busy", row.get("sm_busy"), min(1, k.sm_us * 1000 / (k.gpu_ns * k.sms)) if k.sm_us and k.sms and k.gpu_ns else None)
        signs = signs_of(k, by_name, gbps, blocks[by_name], tails.get(by_name))
        same(at + "access_bytes", row.get("access_bytes"), int(signs["access_bytes"] + 0.5) if "access_bytes" in signs else None)
        should = diagnoses_of(signs)
        same(at + "diagnoses", [d["diagnosis"] for d in row["diagnoses"]], [name for _, name, _ in should])
        for d, (_, name, values) in zip(row["diagnoses"], should):
            same(at + name, [x["sign"] for x in d["signs"]], list(values))
            for x in d["signs"]:
                same(f"{at}{name}.{x['sign']}", x["value"], values.get(x["sign"]))
        waits = {p: sum(n for r, n in c.items() if r not in NO_WAIT) for p, c in k.places.items()}
        same(at + "places", [p["waiting"] for p in row["places"]], sorted((n for n in waits.values() if n), reverse=True)[:PLACES])
        for p in row["places"]:
            same(f"{at}{p['offset']}", p["waiting"], waits.get((p["function"], p["offset"])))
    return wrong
