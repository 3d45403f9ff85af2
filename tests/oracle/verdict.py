# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The verdict of a report, by the rules of docs/REPORT.md, from the lines of the trace: the GPU's work in the steady state, and how much is
missing. Only the host's time by part of the run, and hangs, are taken from the report: other checks recompute those."""
import collections

HOST = ("outside_ns", "launch_ns", "other_ns")
# Losses of these kinds are lost calls.
LOST_CALLS = {"calls", "threads", "threads_share", "processes", "depth", "inproc", "events"}


def clip(spans, a, b):
    return [(max(x, a), min(y, b)) for x, y in spans if y > a and x < b]


def run_span(o, report):
    """The span of the steady state; None if the report does not list all iterations."""
    its = report["iterations"]
    if not its["count"] or len(its["list"]) != its["count"] or its["warmup"] >= its["count"]:
        return None
    last = its["list"][-1]
    return o.ns(its["list"][its["warmup"]]["ts"]), o.ns(last["ts"]) + last["time_ns"]


def gpu_parts(o, lines, pid, a, b):
    """{part: ns} for all devices of a process together; empty if it used none."""
    names = {(x["pid"], x["device"]): x.get("uuid") for x in lines if x["type"] == "gpu_device"}
    devices, users = collections.defaultdict(list), collections.defaultdict(set)
    for x in lines:
        if x["type"] == "gpu":
            device = names.get((x["pid"], x["device"])) or x["device"]
            devices[device].append(x)
            users[device].add(x["pid"])
    sums = collections.Counter()
    for device, mine in devices.items():
        if pid not in users[device]:
            continue
        busy = o.union(clip([o.span(x) for x in mine], a, b))
        if not busy:
            continue
        compute = o.union(clip([o.span(x) for x in mine if x["op"] in ("kernel", "graph")], a, b))
        other = o.union(clip([o.span(x) for x in mine if not x.get("kernel", "").startswith("nccl")], a, b))
        sums["idle"] += b - a - busy
        sums["transfers"] += busy - compute
        sums["collectives"] += busy - other
        sums["gpu"] += compute - (busy - other)
    return sums


def missing_share(report):
    lost = {x["id"]: x["count"] for x in report["lost"]}
    calls = sum(n for x, n in lost.items() if x in LOST_CALLS)
    lines = lost.get("lines", 0) + lost.get("missing_lines", 0)
    read = sum(x["lines"] for x in report["files"])
    written = read / max(1, lines + read)
    recorded = report["overview"]["calls"]
    return 1 - written * (recorded / (recorded + calls * written) if recorded else not calls)


def from_host(report, run, host):
    """(limit, ns) without GPU times."""
    waits, copies, memory, modules = host["sync_ns"], host["transfer_ns"], host["memory_ns"], host["module_ns"]
    copied = report["verdict"]["run_bytes"]
    slow = copied < copies
    waits += copies if slow else 0
    if waits >= 0.5 * run:
        return "gpu", waits
    if memory >= 0.3 * run and memory > modules:
        return "memory", memory
    if modules >= 0.3 * run:
        return "modules", modules
    if not slow and copies >= 0.3 * run:
        return "transfers", copies
    return ("host", run - waits) if waits < 0.1 * run else ("not-known", waits)


def from_gpu(parts, run, host):
    """(limit, ns, of_ns) with GPU times."""
    whole = sum(parts.values())
    best = max(("gpu", "collectives", "transfers"), key=lambda x: parts[x])
    if parts["idle"] <= parts[best]:
        return best, parts[best], whole
    own = sum(host[x] for x in HOST)
    for limit, part, share in ("memory", "memory_ns", 0.3), ("modules", "module_ns", 0.3), ("transfers", "transfer_ns", 0.3), ("waits", "sync_ns", 0.5):
        if host[part] >= share * run and host[part] >= own / 2:
            return limit, host[part], run
    return "host", parts["idle"], whole


def times(o, d, lines, report):
    """The parts of the time must add up to the whole."""
    v, wall = report["verdict"], report["overview"]["wall_ns"]
    if not report["stages"]:
        return
    d.same("verdict.time", sum(x["ns"] for x in v["time"]), wall, 2e-3)
    d.same("verdict.startup_ns", v["startup_ns"], sum(x["ns"] for x in v["time"] if x["part"] == "start-up"), 0)
    d.same("verdict.run_ns", v["run_ns"], sum(x["ns"] for x in v["time"] if x["part"] in ("steady state", "run")), 0)
    ratio = report["stages"]["ratio"]
    d.same("verdict.run_ns", v["run_ns"], sum(x for key, x in ratio["steady"].items() if key.endswith("_ns")), 1e-6)
    d.same("verdict.call_ns", sum(x["call_ns"] for x in v["time"]), sum(x for key, x in ratio.items() if key.endswith("_ns") and key != "outside_ns"), 1e-6)
    for x in v["time"]:
        d.compares(x["ns"])
        d.compares(x["call_ns"])
        d.law("verdict.time: more in calls than in all", x["call_ns"] <= x["ns"])


def check(o, d, lines, report):
    v, its = report["verdict"], report["iterations"]
    times(o, d, lines, report)
    if report["overview"].get("redacted") == "arguments" or not report["overview"]["calls"]:
        d.law("verdict: something is known of nothing", v["limit"] == "not-known")
        return
    whole, run, host = sum(x["ns"] for x in v["time"]), v["run_ns"], report["stages"]["ratio"]["steady"]
    missing = missing_share(report)
    steady = its["count"] and (its["count"] - its["warmup"] >= 5 or run >= 0.05 * whole)
    a_b = run_span(o, report)
    parts = gpu_parts(o, lines, its["pid"], *a_b) if a_b else None
    if parts:
        d.same("verdict.gpu_idle.ns", v["gpu_idle"]["ns"], parts["idle"] * (a_b[1] - a_b[0]) / sum(parts.values()), 0.02)
        d.same("verdict.gpu_idle.of_ns", v["gpu_idle"]["of_ns"], a_b[1] - a_b[0], 1e-6)
        d.law("verdict.gpu_idle is measured", v["gpu_idle"]["basis"] == "measured")
    elif "gpu_idle" in v and not any(x["type"] == "gpu" for x in lines):
        idle = report["idle"]
        d.law("verdict.gpu_idle is a lower bound", v["gpu_idle"]["basis"] == "lower bound")
        d.same("verdict.gpu_idle.ns", v["gpu_idle"]["ns"], idle["in_iterations_ns"] if its["count"] else idle["total_ns"])
    hangs = [x["lost_ns"] for x in report["findings"] if x["severity"] == "hang" and x["lost_ns"] >= 0.5 * run]
    if hangs:
        want = ("waits", hangs[0], whole)
    elif not steady and v["startup_ns"] >= 0.5 * whole:
        want = ("start-up", v["startup_ns"], whole)
    elif not report["overview"]["launches"] + report["overview"]["graph_launches"] and not any(x["class"] == "transfer" for x in report["overview"]["classes"]):
        want = ("not-known", 0, 0)
    elif not steady and run < 0.05 * whole:
        want = ("not-known", 0, 0)
    elif parts:
        want = from_gpu(parts, run, host)
    elif any(x["type"] == "gpu" for x in lines):
        return
    else:
        want = (*from_host(report, run, host), run)
    if want[0] in ("start-up", "not-known") and any(x["kind"] == "fault" for x in report.get("failure") or []):
        want = ("failure", 0, 0)
    said = v["limit"] if missing < 0.1 else want[0]
    d.law(f"verdict: with {missing} missing it is {v['limit']}", (v["limit"] == "not-known") if missing >= 0.1 else True)
    close = parts and sorted(parts.values())[-1] - sorted(parts.values())[-2] < 0.02 * sum(parts.values())
    d.law(f"verdict.limit: the report has {v['limit']}, the lines have {want[0]}", said == want[0] or close)
    if said == want[0] and v["limit"] not in ("not-known", "failure"):
        d.same("verdict.ns", v["ns"], want[1], 0.02)
        d.same("verdict.of_ns", v["of_ns"], want[2], 0.02)
        d.same("verdict.share", v["share"], v["ns"] / v["of_ns"], 1e-4)
        d.law("verdict.at_most_ns: more than there is", v["at_most_ns"] <= whole)
