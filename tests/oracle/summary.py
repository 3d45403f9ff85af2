# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The live summary's JSON (`--json --summary`), recomputed from the JSON lines of the same run.

usage: summary.py TRACE.jsonl SUMMARY.json    prints each difference; exit status 1 if there is one

expected(lines) builds what the summary must be, member for member. NOT_RECOMPUTED names the members that it leaves out.
"""
import collections
import json
import re
import sys

import ledger
import oracle

# By path, arrays as []; with the reason.
NOT_RECOMPUTED = {
    "type|schema|complete|reason|not_traced|redacted": "words; the end line has them",
    r"lost(\[\]\..*)?|chosen(\[\]\..*)?": "suite losses",
    r"(ranges|operators|allocator|kernel_driver|residency|driver|gpu_stats)\b.*": "suites nvtx, torch, kernel, ctxsw, gpu_stats",
    r"costs(\[\]\..*)?|detail_low_saving_ms|level_changes": "measured by the tracer, not in the lines; suite cost",
    r"functions\[\]\.wait_off_cpu_ms": "--sched: suite kernel",
}
COPIED = "drops", "bad_records", "probe_cost_ns", "cost_ms", "cost_share", "max_thread_overhead", "unfinished", "abandoned"
CATEGORY = {"device": "device", "array": "device", "vmm": "device", "pool": "device", "host": "pinned host", "registered": "pinned host", "managed": "managed"}
TOLERANCE = 2e-5  # six digits are printed


class Ledger(ledger.Ledger):
    """Also sums by category: memory freed and allocated in between counts once."""

    def __init__(self):
        super().__init__()
        self.category, self.highest = collections.Counter(), collections.Counter()

    def note(self):
        for name in set(CATEGORY.values()):
            self.category[name] = sum(n for kind, n in self.live.items() if CATEGORY.get(kind) == name)
            self.highest[name] = max(self.highest[name], self.category[name])

    def charge(self, pid, b):
        super().charge(pid, b)
        self.note()


def failed(c):
    """ncclInProgress and CUDA_ERROR_NOT_READY are results, not errors."""
    return bool(c.get("result")) and c["result"] != {"collective": 7}.get(c["type"], 600)


def ms(calls):
    return sum(oracle.span(c)[1] - oracle.span(c)[0] for c in calls) / 1e6


def longest_us(calls):
    return max([oracle.span(c)[1] - oracle.span(c)[0] for c in calls] or [0]) / 1e3


def named(rows, key):
    return {r[key]: r for r in rows}


def classes(calls, by_id):
    found = collections.defaultdict(list)
    for c in calls:
        found["launch" if c["type"] == "kernel" else c["type"]].append(c)
    return {k: {"class": k, "calls": len(v), "ms": ms(filter(oracle.returned, oracle.outermost(v, by_id)))} for k, v in found.items()}


def is_wait(c):
    return oracle.returned(c) and oracle.blocks(c) and not c.get("capturing")


def functions(calls):
    found = collections.defaultdict(list)
    for c in calls:
        found[c["name"]].append(c)
    out = {}
    for name, mine in found.items():
        done = [c for c in mine if oracle.returned(c)]
        entered = [c for c in mine if c.get("entry_only")]
        timed = len(mine) - len(entered)
        out[name] = {"name": name, "calls": len(mine), "ms": ms(done), "max_us": longest_us(done), "errors": sum(map(failed, mine)),
                     "wait_ms": ms(filter(is_wait, mine)), **({"entry_only": len(entered)} if entered else {}), **({"mean_us": ms(done) * 1e3 / timed} if timed else {})}
    return out


def kernels(calls, gpu):
    every = [c for c in calls if c["type"] == "kernel" and c["op"] == "launch" and oracle.returned(c) and not c.get("result")]
    ran = [c for c in every if not c.get("capturing")]
    found, executed = collections.defaultdict(list), collections.defaultdict(list)
    for c in every:
        found[c.get("kernel") or "(name unknown)"].append(c)
    for x in gpu:
        if x.get("kernel"):
            executed[x["kernel"]].append(x)
    rows = {}
    for name in {*found, *executed}:
        mine = [c for c in found[name] if not c.get("capturing")]
        times = executed[name]
        rows[name] = {"kernel": name, "launches": len(mine), "captured": len(found[name]) - len(mine), "ms": ms(mine), "max_us": longest_us(mine),
                      **({"gpu_executions": len(times), "gpu_ms": ms(times)} if times else {})}
    return {"total": len(ran), "ms": ms(ran), "captured": len(every) - len(ran), "unnamed": sum(1 for c in every if not c.get("kernel")),
            "streams": len({(c["pid"], c["stream"]) for c in ran if "stream" in c}), "distinct": len(rows), "kernels": rows}


def memory(lines, calls, by_id):
    """None where ledger.py cannot compute it."""
    top = {id(c) for c in oracle.outermost(calls, by_id)}
    book = Ledger()
    # Lines may be pending for GPU times: sort them by the end of their calls.
    book.read(sorted((x for x in lines if "symbol" not in x or id(x) in top), key=lambda x: oracle.span(x)[1]))
    if book.unsure or book.unmatched or any(c["op"] in ("import", "open") for c in calls):
        return None
    out = {}
    for name in dict.fromkeys(CATEGORY.values()):
        of = lambda counter, name=name: sum(n for kind, n in counter.items() if CATEGORY.get(kind) == name)  # noqa: E731
        out[name] = {"kind": name, "allocs": of(book.allocs), "frees": of(book.frees), "allocated": of(book.bytes), "peak": book.highest[name],
                     "at_end": of(book.live) + of(book.left)}
    return out


def transfers(calls):
    found = collections.defaultdict(list)
    for c in calls:
        if c["type"] == "transfer" and oracle.returned(c) and not c.get("result") and not c.get("capturing"):
            found[c["op"] if c["op"] in ("memset", "prefetch") else c.get("direction", "unknown")].append(c)
    out = {}
    for kind, mine in found.items():
        blocking = [c for c in mine if "Async" not in c["name"]]
        size = lambda calls: sum(c.get("size", 0) for c in calls)  # noqa: E731
        out[kind] = {"kind": kind, "calls": len(mine), "bytes": size(mine), "ms": ms(mine),
                     "sync_calls": len(blocking), "sync_bytes": size(blocking), "sync_ms": ms(blocking)}
    return out


def errors(calls):
    out = {}
    for c in calls:
        if failed(c):
            key = c.get("error", c["result"])
            row = out.setdefault(key, {"result": c["result"], "error": c.get("error"), "calls": 0, "first": c["name"]})
            row["calls"] += 1
    return out


def gpus(lines):
    found, names, numbers, out = collections.defaultdict(lambda: collections.defaultdict(list)), {}, {}, {}
    for x in lines:
        if x["type"] == "gpu_device":
            names[x["pid"], x["device"]] = x.get("uuid")
        elif x["type"] == "gpu":
            numbers.setdefault(names.get((x["pid"], x["device"])), x["device"])
            is_nccl = x["op"] == "kernel" and x.get("kernel", "").startswith("nccl")
            found[names.get((x["pid"], x["device"]))]["copy" if x["op"] in ("copy", "memset") else "compute"].append(oracle.span(x))
            found[names.get((x["pid"], x["device"]))]["nccl" if is_nccl else "rest"].append(oracle.span(x))
    for uuid, x in found.items():
        both = x["copy"] + x["compute"]
        span = max(b for _, b in both) - min(a for a, _ in both)
        out[uuid] = {"uuid": uuid, "device": numbers[uuid], "executions": len(both), "span_ns": span, "compute_ns": oracle.union(x["compute"]), "copy_ns": oracle.union(x["copy"]),
                     "overlap_ns": oracle.common(x["copy"], x["compute"]), "communicating_ns": oracle.union(x["nccl"]),
                     "alone_ns": oracle.union(x["nccl"]) - oracle.common(x["nccl"], x["rest"]), "idle_ns": span - oracle.union(both)}
    return out


def counted(end):
    rows = end.get("counted", {})
    return {"counted_calls": sum(sum(r.get(k, 0) for k in ("calls", "entry_only", "unfinished", "abandoned")) for r in rows.values()),
            "counted": {k: {"symbol": k, "calls": r.get("calls", 0) + r.get("entry_only", 0), "entry_only": r.get("entry_only", 0), "errors": r.get("errors", 0),
                            "ms": float(r.get("total_us", 0)) / 1e3, "max_us": r.get("max_us", 0)} for k, r in rows.items()}}


def expected(lines):
    end = lines[-1]
    calls = [x for x in lines if "symbol" in x]
    by_id = {c["id"]: c for c in calls}
    gpu = [x for x in lines if x["type"] == "gpu"]
    graph = [c for c in calls if c["type"] == "graph" and oracle.returned(c) and not c.get("result")]
    launched = [c for c in graph if c["op"] == "launch" and not c.get("capturing")]
    waits = [c for c in calls if is_wait(c)]
    out = {
        "wall_ms": end["wall_ms"], "processes": len({c["pid"] for c in calls}), "calls": len(calls),
        "events": sum(x["type"] not in ("header", "end", "tracer", "stack") for x in lines),
        "call_ms": ms(filter(oracle.returned, oracle.outermost([c for c in calls if c["type"] in oracle.DRIVER], by_id))),
        "classes": classes(calls, by_id), "launches": kernels(calls, gpu),
        "graphs": {"launches": len(launched), "ms": ms(launched), "instantiated": sum(c["op"] == "instantiate" for c in graph)},
        "memory": memory(lines, calls, by_id), "transfers": transfers(calls), "waits": {"calls": len(waits), "ms": ms(waits)},
        "functions": functions(calls), "failed": sum(map(failed, calls)), "errors": errors(calls),
        "limits_hit": end.get("limits_hit", {}), **{k: end.get(k, 0) for k in COPIED}, **counted(end),
    }
    ranks = len({c["pid"] for c in calls if "rank" in c})
    if ranks:
        out["ranks"] = ranks
    if "gpu_launches_timed" in end or gpu:
        out["gpus"] = gpus(lines)
        out.update({k: end[k] for k in ("gpu_launches_timed", "gpu_launches_untimed") if k in end})
    return out


KEYS = {"classes": "class", "functions": "name", "launches.kernels": "kernel", "memory": "kind", "transfers": "kind", "errors": "error", "counted": "symbol",
        "gpus": "uuid"}


class Compare(list):
    def __init__(self):
        super().__init__()
        self.compared = self.numbers = 0
        self.paths = set()

    def same(self, path, name, got, want):
        """path: without the names of rows."""
        if isinstance(want, dict):
            rows = named(got, KEYS[path]) if isinstance(got, list) else got
            if isinstance(got, list) and len(rows) != len(got):
                self.append(f"{name}: two rows have one name")
            for key in {*rows, *want}:
                inner = path + "[]" if isinstance(got, list) else f"{path}.{key}".lstrip(".")
                where = f"{name}.{key}".lstrip(".")
                if key in rows and want.get(key, 0) is None:
                    continue  # ledger.py cannot compute it
                if key in want and key in rows:
                    self.same(inner, where, rows[key], want[key])
                elif not any(re.fullmatch(x, inner) for x in NOT_RECOMPUTED):
                    self.append(f"{where}: {'only the lines have it' if key in want else 'only the summary has it'}")
            return
        self.compared += 1
        self.paths.add(path)
        exact = isinstance(want, int) or not isinstance(want, float)
        if got != want and (exact or abs(got - want) > TOLERANCE * abs(want) + 1e-9):
            self.append(f"{name}: the summary has {got}, the lines have {want}")


def compare(lines, summary):
    c = Compare()
    c.same("", "", summary, expected(lines))
    return c


def main():
    with open(sys.argv[2], encoding="utf-8") as f:
        found = compare(oracle.read(sys.argv[1]), json.loads(f.readlines()[-1]))
    for line in found:
        print(line)
    print(f"{found.compared} numbers compared, {len(found)} differ")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
