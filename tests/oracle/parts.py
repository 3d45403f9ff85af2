# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two sections of the report, recomputed from the lines: the functions and sums of `map`, and the sums of `serving`.

Each function returns the differences and the members that it compared. NOT_RECOMPUTED names the others.
"""
import collections
import re

import oracle

NOT_RECOMPUTED = {
    r"map\.(divided_gpu_ns|cut_frames|unnamed_frames|early|unknown_executions|rejected)": "suite map",
    r"map\.nodes\[\]\.(parent|number|pid|iterations|passes|per_iteration\.\w+|gpu_idle_share)": "how calls are placed, and what follows from it: suite map",
    r"map\.(nodes|functions)\[\]\.(.*\.)?(wall_ns|gpu_idle_ns|flops|passes|bytes|unfinished)": "time between calls: suite map",
    r"serving\.(pid|tid|first_ts|last_ts|products|\w+_confidence|old_graphs|rejected\.\w+)": "how steps are found: suite serving has the engine's own steps",
    r"serving\.(requests|memory|batch)\.\w+|serving\.graphs\.(padded\w*|sizes\[\]\.\w+)": "suite serving has them of the engine itself",
    r"serving\.between\.functions\[\]\..*": "suite serving, with Python",
    r"serving\.(others\[\]\..*|list\[\]\.(ts|duration_ns|tokens|batch))": "rows: suite serving has them of the engine itself",
}
TOLERANCE = 2e-5


class Found(list):
    def __init__(self):
        super().__init__()
        self.members = set()

    def same(self, member, got, want, where=""):
        self.members.add(member)
        if abs(got - want) > TOLERANCE * abs(want):
            self.append(f"{member} {where}: the report has {got}, the lines have {want}")


def number_members(node, path):
    if isinstance(node, dict):
        return {x for key, value in node.items() for x in number_members(value, f"{path}.{key}")}
    if isinstance(node, list):
        return {x for value in node for x in number_members(value, path + "[]")}
    return {path} if isinstance(node, (int, float)) and not isinstance(node, bool) else set()


def unknown(found, node, path):
    """Numeric members that are neither compared nor listed."""
    return {m for m in number_members(node, path) - found.members if not any(re.fullmatch(x, m) for x in NOT_RECOMPUTED)}


def took(x):
    return oracle.span(x)[1] - oracle.span(x)[0]


def launches(calls):
    return [c for c in calls if c["type"] in ("kernel", "graph") and c["op"] == "launch" and not c.get("result") and not c.get("capturing")]


# ---- map ----

def sums(calls, gpu):
    spans = [oracle.span(x) for x in gpu]
    return {"calls": len(calls), "launches": len(launches(calls)), "host_ns": sum(took(c) for c in calls if "parent" not in c),
            "gpu_executions": len(gpu), "gpu_ns": sum(map(took, gpu)), "gpu_busy_ns": oracle.union(spans)}


def check_map(lines, report):
    found, section = Found(), report["map"]
    frames = {x["id"]: [f["function"] for f in x["python"]] for x in lines if x["type"] == "stack"}
    calls = [x for x in lines if "symbol" in x]
    ran = collections.defaultdict(list)
    for x in lines:
        if x["type"] == "gpu":
            ran[x["call_id"]].append(x)

    def compare(member, row, mine, where):
        for key, want in sums(mine, [x for c in mine for x in ran[c["id"]]]).items():
            if want or key in row:
                found.same(f"{member}.{key}", row.get(key, 0), want, where)
    compare("map.nodes[]", section["nodes"][0], calls, "all")
    named, within = collections.defaultdict(list), collections.defaultdict(list)
    for c in calls:
        names = frames.get(c.get("stack"), [])
        for name in set(names):
            within[name].append(c)
        if names:
            named[names[0]].append(c)
    for f in section["functions"]:
        compare("map.functions[].total", f["total"], within[f["name"]], f["name"])
        compare("map.functions[].self", f["self"], named[f["name"]], f["name"])
    # A kernel has one node for each place of launch.
    kernels = collections.defaultdict(collections.Counter)
    for n in section["nodes"]:
        if n["kind"] == "kernel":
            kernels[n["name"]].update({k: n.get(k, 0) for k in ("calls", "launches", "gpu_executions", "gpu_ns", "host_ns")})
    for name, row in kernels.items():
        mine = [c for c in calls if c.get("kernel") == name]
        want = sums(mine, [x for c in mine for x in ran[c["id"]]])
        for key in ("launches", "gpu_executions", "gpu_ns"):
            found.same(f"map.nodes[].{key}", row[key], want[key], name)
    return found


# ---- serving ----

def part(values, share):
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)] if values else 0


def check_serving(lines, report):
    """Steps are taken from the report, one after another in a thread; their contents are counted from the lines."""
    found, section = Found(), report["serving"]
    thread = [x for x in lines if "symbol" in x and (x["pid"], x["tid"]) == (section["pid"], section["tid"])]
    executed = collections.Counter()
    for x in lines:
        if x["type"] == "gpu":
            executed[x.get("call_id")] += took(x)
    rows, before = section["list"], None
    by_phase = collections.defaultdict(list)
    for row in rows:
        begin = oracle.ns(row["ts"])
        end = begin + row["duration_ns"]
        mine = [c for c in thread if begin - 2 <= oracle.span(c)[0] < end]
        top = [c for c in mine if c["type"] in oracle.DRIVER and c.get("api_depth", c.get("depth", 0)) == 0]
        launched = launches(mine)
        row = {**row, "call": sum(map(took, top)), "launch": sum(map(took, launched)), "wait": sum(took(c) for c in mine if oracle.blocks(c)), "end": end,
               "graph": sum(c["type"] == "graph" for c in launched), "gpu": sum(executed[c["id"]] for c in mine)}
        found.same("serving.list[].launches", row["launches"], len(launched), row["ts"])
        found.same("serving.list[].graphs", row["graphs"], row["graph"], row["ts"])
        found.same("serving.list[].sync_ns", row["sync_ns"], row["wait"], row["ts"])
        if executed:
            found.same("serving.list[].gpu_ns", row.get("gpu_ns", 0), row["gpu"], row["ts"])
        if before:
            found.same("serving.list[].between_ns", row["between_ns"], begin - before["end"], row["ts"])
        before = row
        for phase in ("all", *([row["phase"]] if not row.get("setup") else ["setup"])):
            by_phase[phase].append(row)
    for phase in ("all", "prefill", "decode", "setup"):
        mine, got = by_phase[phase], section.get(phase, {"count": 0})
        times = [r["duration_ns"] for r in mine]
        want = {"count": len(mine), "time_ns": sum(times), "median_ns": part(times, 50), "p95_ns": part(times, 95), "max_ns": max(times, default=0),
                "tokens": sum(r.get("tokens", 0) for r in mine), "tokens_known": sum("tokens" in r for r in mine), "launches": sum(r["launches"] for r in mine),
                "graph_launches": sum(r["graph"] for r in mine), "call_ns": sum(r["call"] for r in mine), "launch_ns": sum(r["launch"] for r in mine),
                "sync_ns": sum(r["wait"] for r in mine), "gpu_ns": sum(r["gpu"] for r in mine)}
        for key, value in got.items():
            found.same(f"serving.{phase}.{key}", value, want[key])
    longest = max(20 * part([r["duration_ns"] for r in rows], 50), 10_000_000)  # a longer time without steps is a pause
    pauses = [r["between_ns"] for r in rows[1:] if r["between_ns"] > longest]
    between = [r["between_ns"] for r in rows[1:] if r["between_ns"] <= longest]
    found.same("serving.steps", section["steps"], len(rows))
    found.same("serving.tokens_made", section["tokens_made"], sum(r.get("batch", 0) for r in rows))
    found.same("serving.between.pauses", section["between"].get("pauses", 0), len(pauses))
    found.same("serving.between.pauses_ns", section["between"].get("pauses_ns", 0), sum(pauses))
    found.same("serving.between.time_ns", section["between"]["time_ns"], sum(between))
    found.same("serving.between.median_ns", section["between"]["median_ns"], part(between, 50))
    found.same("serving.between.p95_ns", section["between"]["p95_ns"], part(between, 95))
    replayed = sum(r["graphs"] > 0 for r in rows)
    found.same("serving.graphs.replayed", section["graphs"]["replayed"], replayed)
    found.same("serving.graphs.eager", section["graphs"]["eager"], len(rows) - replayed)
    found.same("serving.graphs.eager_decode", section["graphs"]["eager_decode"],
               sum(not r["graphs"] for r in by_phase["decode"]) if any(r["graphs"] for r in by_phase["decode"]) else 0)
    return found
