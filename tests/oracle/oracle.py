# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An independent reader of traces: recomputes numbers of `cudatrace report --format=json` from the lines alone.

usage: oracle.py TRACE.jsonl[.zst] REPORT.json    prints each difference; exit status 1 if there is one

It shares no code with the report, and is simple rather than fast (the whole trace in memory, sorted lists).
check(lines, report) returns a list of differences. It covers overview (classes, functions), waits, transfers, kernels,
stages (parts of the whole), executions on the GPU (unions by device, gaps), and laws that hold in every report (laws()): shares lie within
0 and 1, parts add up to the whole, nothing is negative. sections.py covers the rest of the sections, ledger.py memory, failure.py the suspects of failures, step.py the critical path; derived.py has the
list of members that are not recomputed.
"""
import collections
import json
import subprocess
import sys

import derived
import evidence
import failure
import ledger
import roofline
import sections
import step
import verdict

# Lines of these types are calls of the CUDA driver; calls of libraries have types of their own.
DRIVER = {"init", "device", "context", "module", "memory", "transfer", "kernel", "graph", "stream", "event", "sync", "texture", "interop",
          "profiler", "other", "query", "occupancy"}
CALLS = DRIVER | {"blas", "dnn", "collective"}
# Names of equal products; those of cuDNN plans may still differ in their operations.
GEMM = ("name", "op", "m", "n", "k", "batch", "a_type", "b_type", "c_type", "compute_type")
# Shares that may exceed 1, with the reason.
MAY_EXCEED = {"peak_share": "the highest clock may be above the one that NVIDIA's peaks are for"}


def read(path):
    if path.endswith(".zst"):
        text = subprocess.run(["zstd", "-dcq", "--long=27", path], check=True, stdout=subprocess.PIPE).stdout
    else:
        with open(path, "rb") as f:
            text = f.read()
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            lines.append(None)
    return lines


def ns(milliseconds):
    return round(milliseconds * 1e6)


def span(line):
    """Begin and end in nanoseconds; an unfinished call ends with its thread or the trace."""
    begin = ns(line["ts"])
    return begin, begin + round(line.get("duration_us", line.get("elapsed_us", 0)) * 1e3)


def returned(line):
    return "duration_us" in line


def timed(line):
    """Whether the time in the call is known: it returned, or was still in progress."""
    return returned(line) or bool(line.get("unfinished"))


def union(spans):
    total, end = 0, -1
    for a, b in sorted(spans):
        if b > end:
            total += b - max(a, end)
            end = b
    return total


def common(x, y):
    return union(x) + union(y) - union(x + y)


class Int(int):
    path = None


class Float(float):
    path = None


def located(node, path="report"):
    """The report with numbers that have their path, which is the same for all members of an array."""
    if isinstance(node, dict):
        return {key: located(value, f"{path}.{key}") for key, value in node.items()}
    if isinstance(node, list):
        return [located(value, path + "[]") for value in node]
    if isinstance(node, bool) or not isinstance(node, (int, float)):
        return node
    value = (Int if isinstance(node, int) else Float)(node)
    value.path = path
    return value


class Differences(list):
    def __init__(self):
        super().__init__()
        self.compared, self.paths = 0, set()

    def compares(self, got):
        """Marks a number as compared, even as part of a sum."""
        self.paths.add(getattr(got, "path", None))

    def same(self, what, got, want, slack=0):
        """slack: a fraction of `want`, or (absolute, below 1000) 0."""
        self.compared += 1
        self.compares(got)
        if got is None or abs(got - want) > slack * abs(want):
            self.append(f"{what}: the report has {got}, the lines have {want}")

    def law(self, what, holds):
        self.compared += 1
        if not holds:
            self.append(what)


def family(call):
    return "driver" if call["type"] in DRIVER else call["type"]


def outermost(calls, by_id):
    """Calls that are not nested in a call of the same library: a launch within cublasGemmEx() counts, and so does cublasGemmEx()."""
    def inside(call):
        parent = by_id.get(call.get("parent"))
        return parent is not None and (family(parent) == family(call) or inside({**parent, "type": call["type"]}))
    return [c for c in calls if not inside(c)]


def check_overview(d, calls, report):
    over = report["overview"]
    d.same("overview.calls", over["calls"], len(calls))
    d.same("overview.errors", over["errors"], sum(1 for c in calls if c.get("result", 0) != 0))
    d.same("overview.unfinished", over["unfinished"], sum(1 for c in calls if c.get("unfinished")))
    by_id = {c["id"]: c for c in calls}
    by_class, by_name = collections.defaultdict(list), collections.defaultdict(list)
    for c in calls:
        by_class["launch" if c["type"] == "kernel" else c["type"]].append(c)
        by_name[c["name"]].append(c)
    for row in over["classes"]:
        mine = by_class.pop(row["class"], [])
        times = [span(c)[1] - span(c)[0] for c in outermost(mine, by_id) if timed(c)]
        d.same(f"classes.{row['class']}.count", row["count"], len(mine))
        d.same(f"classes.{row['class']}.total_ns", row["total_ns"], sum(times), 1e-6)
        if times:
            d.same(f"classes.{row['class']}.max_ns", row["max_ns"], max(times), 1e-6)
    d.law(f"classes without a row: {sorted(by_class)}", not by_class)
    for row in over["functions"]:
        mine = by_name[row["name"]]
        times = sorted(span(c)[1] - span(c)[0] for c in mine if timed(c))
        d.same(f"functions.{row['name']}.count", row["count"], len(mine))
        d.same(f"functions.{row['name']}.errors", row["errors"], sum(1 for c in mine if c.get("result", 0) != 0))
        d.same(f"functions.{row['name']}.total_ns", row["total_ns"], sum(times), 1e-6)
        if times:
            d.same(f"functions.{row['name']}.max_ns", row["max_ns"], times[-1], 1e-6)
            for part in (50, 95, 99):
                want = times[max(0, -(-len(times) * part // 100) - 1)]
                d.same(f"functions.{row['name']}.p{part}_ns", row[f"p{part}_ns"], want, 1 / 31)


def blocks(call):
    """A synchronisation, or a copy between host and device that is not asynchronous."""
    if call["op"] == "sync" and call["type"] in DRIVER:
        return True
    return call["op"] == "copy" and "Async" not in call["name"] and call.get("direction") in ("HtoD", "DtoH")


def check_waits(d, calls, report):
    waits = [c for c in calls if c["type"] in DRIVER and not c.get("abandoned") and not c.get("entry_only") and blocks(c) and not c.get("capturing")]
    total = sum(span(c)[1] - span(c)[0] for c in waits)
    d.same("waits.count", report["waits"]["count"], len(waits))
    d.same("waits.total_ns", report["waits"]["total_ns"], total, 1e-6)
    rows = collections.defaultdict(list)
    for c in waits:
        rows[c["pid"], c["tid"]].append(span(c)[1] - span(c)[0])
    for row in report["waits"]["threads"]:
        mine = rows[row["pid"], row["tid"]]
        d.same(f"waits.threads.{row['tid']}.total_ns", row["total_ns"], sum(mine), 1e-6)


def check_transfers(d, calls, report):
    rows = collections.defaultdict(lambda: [0, 0, 0])
    for c in calls:
        if c["op"] == "copy" and c["type"] == "transfer" and returned(c) and not c.get("result") and not c.get("capturing"):
            row = rows[c.get("direction", "unknown")]
            row[0] += 1
            row[1] += c.get("size", 0)
            row[2] += span(c)[1] - span(c)[0]
    for row in report["transfers"]["directions"]:
        count, size, time = rows.pop(row["direction"], (0, 0, 0))
        d.same(f"transfers.{row['direction']}.count", row["count"], count)
        d.same(f"transfers.{row['direction']}.bytes", row["bytes"], size)
        d.same(f"transfers.{row['direction']}.total_ns", row["total_ns"], time, 1e-6)
    d.law(f"directions without a row: {sorted(rows)}", not rows)


def check_kernels(d, calls, report):
    launches = [c for c in calls if c["type"] == "kernel" and c["op"] == "launch" and returned(c)]
    ran = [c for c in launches if not c.get("result") and not c.get("capturing")]
    d.same("kernels.launches", report["kernels"]["launches"], len(ran))
    d.same("kernels.nodes", report["kernels"]["nodes"], sum(1 for c in launches if c.get("capturing") and not c.get("result")))
    rows = collections.Counter(c.get("kernel") for c in ran)
    for row in report["kernels"]["list"]:
        if row["name"]:
            d.same(f"kernels.{row['name'][:40]}.count", row["count"], rows[row["name"]])


def check_gpu(d, lines, report):
    """Checks the unions of each device's executions."""
    devices, names = {}, {}
    for x in lines:
        if x["type"] == "gpu_device":
            names[x["pid"], x["device"]] = x.get("uuid")
    for x in lines:
        if x["type"] == "gpu":
            uuid = names.get((x["pid"], x["device"]))
            devices.setdefault(uuid, collections.defaultdict(list))[x["op"]].append((span(x), x))
    for row in report["gpu"]["devices"]:
        mine = devices.get(row.get("uuid"))
        if mine is None:
            d.append(f"gpu.devices: no line is of {row.get('uuid')}")
            continue
        compute = [s for op in ("kernel", "graph") for s, _ in mine[op]]
        copies = [s for op in ("copy", "memset") for s, _ in mine[op]]
        both = compute + copies
        first, last = min(a for a, _ in both), max(b for _, b in both)
        label = f"gpu.{row['device']}"
        d.same(f"{label}.executions", row["executions"], len(both))
        d.same(f"{label}.span_ns", row["span_ns"], last - first, 1e-6)
        d.same(f"{label}.busy_ns", row["busy_ns"], union(both), 1e-5)
        d.same(f"{label}.compute_ns", row["compute_ns"], union(compute), 1e-5)
        d.same(f"{label}.copy_ns", row["copy_ns"], union(copies), 1e-5)
        d.same(f"{label}.overlap_ns", row["overlap_ns"], common(compute, copies), 1e-3)
        d.same(f"{label}.idle_ns", row["idle_ns"], last - first - union(both), 1e-5)
        nccl = [s for s, x in mine["kernel"] if x.get("kernel", "").startswith("nccl")]
        others = [s for s, x in mine["kernel"] if not x.get("kernel", "").startswith("nccl")] + [s for s, _ in mine["graph"]] + copies
        d.same(f"{label}.communicating_ns", row["communicating_ns"], union(nccl), 1e-5)
        d.same(f"{label}.alone_ns", row["alone_ns"], union(nccl) - common(nccl, others), 1e-3)
        d.same(f"{label}.gaps", sum(g["total_ns"] for g in row["gaps"]), row["idle_ns"], 1e-5)
    kernels = collections.defaultdict(list)
    for mine in devices.values():
        for s, x in mine["kernel"]:
            kernels[x.get("kernel")].append(s[1] - s[0])
    for row in report["gpu"]["kernels"]:
        times = kernels[row["name"]]
        d.same(f"gpu.kernels.{row['name'][:40]}.count", row["count"], len(times))
        d.same(f"gpu.kernels.{row['name'][:40]}.total_ns", row["total_ns"], sum(times), 1e-5)


def check_gpu_iterations(d, lines, report):
    """Whether iterations wait for the GPU: it was busy for nine tenths of the time, except for the error at the ends of a time step."""
    its, said = report["iterations"], report["gpu"].get("iterations")
    if not said or its["count"] != len(its["list"]):
        return
    names = {(x["pid"], x["device"]): x.get("uuid") for x in lines if x["type"] == "gpu_device"}
    spans, users = collections.defaultdict(list), collections.defaultdict(set)
    for x in lines:
        if x["type"] == "gpu":
            device = names.get((x["pid"], x["device"])) or x["device"]
            spans[device].append(span(x))
            users[device].add(x["pid"])
    mine = [sorted(s) for device, s in spans.items() if its["pid"] in users[device]]
    shares = []
    for it in its["list"][its["warmup"]:]:
        a, b = ns(it["ts"]), ns(it["ts"]) + it["time_ns"]
        if b > a:
            shares.append(max((union([(max(x, a), min(y, b)) for x, y in s if y > a and x < b]) / (b - a) for s in mine), default=0))
    d.law(f"gpu.iterations.gpu_bound {said['gpu_bound']}: the lines have {sorted(shares)}",
          sum(x >= 0.95 for x in shares) <= said["gpu_bound"] <= sum(x >= 0.85 for x in shares))
    d.same("gpu.iterations: all are counted", said["gpu_bound"] + said["host_bound"], len(shares))
    d.law("gpu.iterations.busy_share_median", not shares or abs(said["busy_share_median"] - sorted(shares)[len(shares) // 2]) <= 0.05)


def check_gemms(d, lines, calls, report):
    """Operations per second: only products with an execution in the trace count, divided by the time of these."""
    by_id = {(c["pid"], c["id"]): c for c in calls}
    timed, gpu_ns = collections.defaultdict(dict), collections.Counter()
    for x in lines:
        if x["type"] != "gpu":
            continue
        call = by_id.get((x["pid"], x.get("call_id")))
        while call is not None and not call.get("flops"):
            call = by_id.get((x["pid"], call.get("parent")))
        if call is not None:
            key = *(call.get(k) for k in GEMM), call["flops"]
            timed[key][call["pid"], call["id"]] = call["flops"]
            gpu_ns[key] += span(x)[1] - span(x)[0]
    for row in report.get("gemms", {}).get("list", []):
        # The report rounds, and a shape can have several numbers of operations (convolutions).
        key = min((k for k in timed if k[:-1] == (*(row.get(x) for x in GEMM),)), key=lambda k: abs(k[-1] - row["flops"] / row["count"]), default=None)
        if "tflops" in row:
            d.same(f"gemms.{key}.tflops", row["tflops"], sum(timed[key].values()) / max(1, gpu_ns[key]) / 1e3, 1e-3)


def check_idle(d, report):
    """Idle periods within iterations must be those of the iterations' own process."""
    its, idle = report["iterations"], report["idle"]
    whole = its["time_ns"]["total"] * (its["count"] + 1) / max(1, its["count"] - its["warmup"])
    d.law(f"idle.in_iterations_ns {idle['in_iterations_ns']}: more than the iterations' {whole}", idle["in_iterations_ns"] <= whole * 1.5 + 1e6)
    d.law(f"idle.total_ns {idle['total_ns']}: more than span_ns", idle["total_ns"] <= idle["span_ns"])
    d.same("idle.by_cause: the parts add up", sum(x["total_ns"] for x in idle["by_cause"]), idle["total_ns"])


def check_idle_is_idle(d, lines, report):
    """In the idle periods that the host computes as a lower bound, the GPU must have executed nothing of that process. GPU and host clocks
    differ slightly."""
    spans = collections.defaultdict(list)
    for x in lines:
        if x["type"] == "gpu":
            spans[x["pid"]].append(span(x))
    for period in report["idle"]["list"]:
        a = ns(period["ts"])
        b = a + period["duration_ns"]
        busy = union([(max(x, a), min(y, b)) for x, y in spans[period["pid"]] if y > a and x < b])
        d.law(f"idle.list at {period['ts']}: the GPU executed for {busy} of {b - a} ns", busy <= max(2000, (b - a) // 100))


def check_stages(d, report):
    stages, over = report["stages"], report["overview"]
    d.same("stages: the parts add up to the trace", sum(s["wall_ns"] for s in stages["list"]), over["wall_ns"], 1e-3)
    ratio = stages["ratio"]
    parts = [ratio[f"{x}_ns"] for x in ("launch", "transfer", "sync", "memory", "module", "other", "outside")]
    d.same("stages.ratio: the parts add up to the trace", sum(parts), over["wall_ns"], 1e-3)
    d.law(f"stages.ratio: nothing is negative: {parts}", min(parts) >= 0)


def check_outside(d, calls, report):
    """The time outside the driver: the trace's length minus the union of its calls. Unfinished calls last until the end."""
    wall = report["overview"]["wall_ns"]
    spans = []
    for c in calls:
        if c["type"] in DRIVER and not c.get("abandoned"):
            spans.append(span(c))
    d.same("stages.ratio.outside_ns", report["stages"]["ratio"]["outside_ns"], wall - union(spans), 2e-3)


def check_losses(d, report):
    """A change of the steady state can save at most the steady state."""
    run = report["verdict"].get("run_ns", 0)
    for x in report.get("findings", []):
        steady = x.get("steady_ns", 0)
        d.law(f"findings.{x['id']}: {steady} ns of the steady state, of {x['lost_ns']} in all", steady <= x["lost_ns"])
        d.law(f"findings.{x['id']}: {steady} ns of {run} in the steady state", not run or steady <= 1.001 * run)


def laws(d, node, path="report"):
    """Laws for all numbers of every report."""
    if isinstance(node, dict):
        for key, value in node.items():
            where = f"{path}.{key}"
            if isinstance(value, (dict, list)):
                laws(d, value, where)
            elif isinstance(value, (int, float)) and not isinstance(value, bool) and not path.endswith(".events"):
                name = key.rsplit(".", 1)[-1]
                if (name == "share" or name.endswith("_share") or name in ("confidence", "occupancy")) and name not in MAY_EXCEED:
                    d.law(f"{where} is {value}: not within 0 and 1", 0 <= value <= 1)
                elif name.endswith(("_ns", "count", "bytes", "calls")):
                    d.law(f"{where} is {value}: negative", value >= 0)
    elif isinstance(node, list):
        for i, value in enumerate(node):
            laws(d, value, f"{path}[{i}]")


TOOLS = sections.Tools(DRIVER=DRIVER, CALLS=CALLS, span=span, ns=ns, returned=returned, timed=timed, blocks=blocks, outermost=outermost,
                       union=union)


def check(lines, report):
    # null: NCCL was not traced.
    d, report = Differences(), located({**report, "communication": report["communication"] or {"calls": 0, "gpu_executions": 0, "gpu_ns": 0, "communicators": []}})
    lines = [x for x in lines if x and "type" in x]
    calls = [x for x in lines if x["type"] in CALLS and "id" in x]
    if report["overview"].get("redacted") != "arguments":
        check_kernels(d, calls, report)
        check_transfers(d, calls, report)
        check_stages(d, report)
        check_idle(d, report)
        check_gemms(d, lines, calls, report)
        check_outside(d, calls, report)
        sections.transfers(TOOLS, d, calls, report)
        sections.kernels(TOOLS, d, calls, report)
        sections.graphs(TOOLS, d, calls, report)
        sections.graph_nodes(d, lines, report)
        sections.streams(TOOLS, d, calls, report)
        sections.communication(TOOLS, d, calls, report)
        sections.ratio(TOOLS, d, calls, report)
        sections.stages(d, report)
        ledger.check(TOOLS, d, lines, report)
        step.check(TOOLS, d, lines, calls, report)
        evidence.check(TOOLS, d, lines, calls, report)
        failure.check(TOOLS, d, lines, report)
        roofline.check(TOOLS, d, lines, report)
    sections.overview(TOOLS, d, lines, calls, report)
    sections.waits(TOOLS, d, calls, report)
    sections.longest(TOOLS, d, calls, report)
    sections.layers(TOOLS, d, lines, calls, report)
    sections.timeline(TOOLS, d, calls, report)
    sections.gpu_rows(TOOLS, d, lines, report)
    derived.check(TOOLS, d, lines, calls, report)
    verdict.check(TOOLS, d, lines, report)
    check_overview(d, calls, report)
    check_waits(d, calls, report)
    if any(x["type"] == "gpu" for x in lines):
        check_gpu(d, lines, report)
        check_gpu_iterations(d, lines, report)
        check_idle_is_idle(d, lines, report)
    check_losses(d, report)
    laws(d, report)
    return d


def main():
    with open(sys.argv[2], encoding="utf-8") as f:
        d = check(read(sys.argv[1]), json.load(f))
    for line in d:
        print(line)
    print(f"{d.compared} numbers compared, {len(d)} differ")
    return bool(d)


if __name__ == "__main__":
    sys.exit(main())
