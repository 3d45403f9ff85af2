# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The suspects of a failure, recomputed (see oracle.py): a set of works and rules that add completed ones until nothing changes.

The report keeps counters per stream instead, and a limited number of works: it may list more suspects than this, and then says so (`partial`).
"""
import collections

SUBMITS = {("kernel", "launch"), ("graph", "launch"), ("transfer", "copy"), ("transfer", "memset"), ("transfer", "prefetch"), ("transfer", "decompress")}
# These make no fault, but a stream waits for them.
BESIDES = {"cuLaunchHostFunc", "cuStreamAddCallback"}
ONLY_CODE = {"CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_CONTAINED"}


class Work:
    def __init__(self, o, call, stream):
        self.call, self.stream, self.done = call, stream, False
        self.begin, self.end = o.span(call)


class Process:
    """What the calls of one process show about its works, up to a line."""

    def __init__(self, o):
        self.o, self.works, self.flags, self.events, self.waits, self.contexts = o, [], {}, {}, [], collections.Counter()

    def stream(self, call):
        handle = call.get("stream", "0x0")
        handle = "0x0" if handle == "0x1" else handle
        if handle == "0x2" or (handle == "0x0" and call.get("symbol", "").endswith(("_ptsz", "_ptds"))):
            return f"thread {call['tid']}"
        return handle

    def of(self, stream):
        return [w for w in self.works if w.stream == stream]

    def completes(self, works, call):
        """A wait completes what was submitted before it began."""
        begin = self.o.span(call)[0]
        last = max((i for i, w in enumerate(self.works) if w in works and (w.end <= begin or w.call["tid"] == call["tid"])), default=-1)
        for w in self.works[:last + 1]:
            w.done |= w in works

    def blocking(self, stream):
        return stream.startswith("thread") or self.flags.get(stream) == "CU_STREAM_DEFAULT"

    def add(self, call):
        name, kind, op, stream = call["name"], call["type"], call.get("op"), self.stream(call)
        if ((kind, op) in SUBMITS or name in BESIDES or op == "memop") and not call.get("capturing"):
            self.works.append(Work(self.o, call, stream))
            waits = kind == "transfer" and call.get("direction") in ("DtoH", "HtoD") and "Async" not in name
            if waits and (call["direction"] == "DtoH" or call.get("size", 0) > 65536):
                self.works[-1].done = True
        elif name == "cuEventRecord" and "event" in call:
            self.events[call["event"]] = (list(self.of(stream)), self.o.span(call)[1])
        elif name in ("cuEventCreate", "cuEventDestroy"):
            self.events.pop(call.get("event"), None)
        elif name in ("cuEventSynchronize", "cuEventQuery"):
            works, end = self.events.get(call.get("event"), ([], 0))
            for w in works if end <= self.o.span(call)[0] else ():
                w.done = True
        elif name == "cuStreamWaitEvent" and call.get("event") in self.events:
            self.waits.append((stream, len(self.works), self.events[call["event"]][0]))
        elif name in ("cuStreamSynchronize", "cuStreamQuery"):
            self.completes([w for w in self.works if w.stream == stream or (stream == "0x0" and self.blocking(w.stream))], call)
        elif name == "cuCtxSynchronize":
            self.completes(list(self.works), call)
        elif kind == "context" and op in ("create", "retain"):
            self.contexts[call.get("args", {}).get("pctx")] += 1
        elif kind == "context" and op in ("destroy", "release") and len(self.contexts) == 1:
            # The end of the only context is the end of all works.
            [only] = self.contexts
            self.contexts[only] -= op == "release"
            if op == "destroy" or self.contexts[only] <= 0:
                self.completes(list(self.works), call)
        elif kind == "stream" and op == "create":
            self.flags[stream] = call.get("args", {}).get("Flags", call.get("args", {}).get("flags"))

    def close(self):
        """All that follows from the works that are done."""
        before = -1
        while before != sum(w.done for w in self.works):
            before = sum(w.done for w in self.works)
            seen = collections.defaultdict(bool)
            for w in reversed(self.works):
                seen[w.stream] |= w.done
                w.done = seen[w.stream]
            for stream, at, works in self.waits:
                if any(w.done for w in self.works[at:] if w.stream == stream):
                    for w in works:
                        w.done = True
            for i, w in enumerate(self.works):
                if not w.done:
                    continue
                for x in self.works[:i]:
                    x.done |= (w.stream == "0x0" and self.blocking(x.stream)) or (self.blocking(w.stream) and x.stream == "0x0")


def pending(o, lines, case, until):
    p = Process(o)
    for x in lines:
        if x.get("id") == case["id"] and x["type"] not in ("operator", "range", "stack"):
            break
        if x.get("pid") == case["pid"] and "id" in x and x["type"] in o.DRIVER and "parent" not in x and o.returned(x) and not x["result"]:
            p.add(x)
    # A kernel that has completed before is the less likely cause.
    for w in p.works:
        w.was_done = w.done
    at = next(i for i, x in enumerate(lines) if x.get("id") == case["id"] and "symbol" in x)
    ran = {x["call_id"] for x in lines[:at] if x["type"] == "gpu" and "call_id" in x and "graph_node" not in x}
    for w in p.works:
        w.done |= w.call["id"] in ran
    p.close()
    completed = {w.call.get("kernel") for w in p.works if w.done}
    # Of a process that is older than the trace, kernels may have run before, unless they were looked up in it.
    before = [x for x in lines[:at] if x.get("pid") == case["pid"]]
    whole = any(x["type"] == "process" or (x["name"] == "cuInit" and x.get("result") == 0) for x in before)
    found = {x["kernel"] for x in before if x.get("op") == "lookup" and "kernel" in x and "name" in x.get("args", {}) and x.get("result") == 0}
    for w in p.works:
        w.is_new, w.done = w.call.get("kernel") not in completed | {None}, w.was_done
        w.older = w.is_new and not whole and w.call["kernel"] not in found
    ran = {x["call_id"] for x in lines if x["type"] == "gpu" and "call_id" in x and "graph_node" not in x and o.span(x)[1] <= until}
    for w in p.works:
        w.done |= w.call["id"] in ran
    p.close()
    return [w for w in p.works if not w.done]


def held(lines, case):
    """Blocks of the device that the process had, if nothing but plain allocations made them. Else None."""
    blocks = {}
    for x in lines:
        if x.get("id") == case["id"] and "symbol" in x:
            return blocks
        if x.get("pid") != case["pid"] or x["type"] != "memory" or x.get("result") or x.get("unfinished"):
            continue
        if x["op"] in ("alloc", "alloc_async"):
            blocks[x["ptr"]] = x["size"]
        elif x["op"] in ("free", "free_async"):
            blocks.pop(x["ptr"], None)
        elif x["op"] in ("create", "map", "unmap", "release", "import", "alloc_managed", "alloc_array"):
            return None
    return blocks


def in_time(lines):
    """In the order in which they ended: lines of other threads and of samples may come later in the file."""
    return sorted(lines, key=lambda x: x.get("ts", 0) + (x.get("duration_us") or x.get("elapsed_us") or 0) / 1e3)


def others(lines, case):
    """{process: bytes} of the other processes in NVML's last sample before; {} if it is not known which process is this one, or with several GPUs."""
    sample, found = {}, {}
    for x in in_time(lines):
        if x.get("id") == case["id"] and "symbol" in x:
            break
        if x["type"] == "gpu_stats" and x["op"] == "process" and "memory_used" in x:
            sample[x["pid"]] = x["memory_used"]
        elif x["type"] == "gpu_stats" and x["op"] == "sample":
            if x.get("gpu"):
                return {}
            found, sample = sample, {}
    return {pid: n for pid, n in found.items() if pid != case["pid"]} if case["pid"] in found else {}


def busy(o, lines, case):
    """(of all, of the process) in percent, by NVML's last sample before the line of a wait, if it was during the wait."""
    lines = in_time(lines)
    sample, found, at = {}, (None, None), next(x for x in lines if x.get("id") == case["id"] and "symbol" in x)
    for x in lines[:lines.index(at)]:
        if x["type"] == "gpu_stats" and x["op"] == "process":
            sample[x["pid"]] = x.get("sm_util")
        elif x["type"] == "gpu_stats" and x["op"] == "sample":
            if x.get("gpu"):
                return None, None
            found, sample = (x.get("util"), sample.get(case["pid"])) if o.span(x)[0] >= o.span(at)[0] else (None, None), {}
    return found


def check(o, d, lines, report):
    for case in report.get("failure") or []:
        if "id" not in case or case["partial"]:
            continue
        call = next(x for x in lines if x.get("id") == case["id"] and "symbol" in x)
        left = pending(o, lines, case, o.span(call)[1])
        where = f"failure.{case['kind']}"
        if case["kind"] == "fault":
            code = [w for w in left if w.call["name"] not in BESIDES and w.call["op"] != "memop"
                    and (case["error"] in ONLY_CODE or w.call["type"] in ("kernel", "graph"))]
            code.sort(key=lambda w: w.older if w.is_new else 2 if w.call["type"] != "transfer" else 3)
            d.law(f"{where}: new suspects", [s.get("new", False) for s in case["suspects"]] == [w.is_new for w in code[:8]])
            d.same(f"{where}.suspect_count", case["suspect_count"], len(code))
            d.law(f"{where}: other suspects: {[s['id'] for s in case['suspects']]}", [s["id"] for s in case["suspects"]] == [w.call["id"] for w in code[:8]])
            d.law(f"{where}: certain with {len(code)} suspects", not case["certain"] or len(code) == 1)
        elif case["kind"] == "hang":
            # The works of other contexts are not waited for; the lines do not show the context of each work.
            contexts = {(x["name"], x.get("args", {}).get("dev"), x.get("context")) for x in lines if x["type"] == "context" and x.get("op") in ("create", "retain")}
            if case["function"] == "cuCtxSynchronize" and len(contexts) < 2:
                d.same(f"{where}.suspect_count", case["suspect_count"], len(left))
            d.law(f"{where}: {case['suspect_count']} suspects of {len(left)}", case["suspect_count"] <= len(left))
            d.law(f"{where}: {case['behind']} of {case['suspect_count']} are behind", case["behind"] < max(1, case["suspect_count"]))
            for key, want in zip(("gpu_busy", "gpu_busy_own"), busy(o, lines, case)):
                got = case.get(key)
                d.law(f"{where}.{key}: {got}, not {want} %", got is want is None or (None not in (got, want) and abs(100 * got - want) < 1e-9))
            d.law(f"{where}: a suspect is done", {s["id"] for s in case["suspects"]} <= {w.call["id"] for w in left})
        elif case["kind"] == "out-of-memory":
            blocks = held(lines, case)
            d.same(f"{where}.suspect_count", case["suspect_count"], 0)
            if blocks is not None:
                d.same(f"{where}.held", case["held"], sum(blocks.values()))
                d.same(f"{where}.held_count", case["held_count"], len(blocks))
            beside = others(lines, case)
            d.same(f"{where}.others_held", case.get("others_held", 0), sum(beside.values()))
            d.law(f"{where}: others", all(beside.get(x["pid"]) == x["bytes"] for x in case.get("others", [])))
            d.law(f"{where}: holders have more than all", sum(h["bytes"] for h in case["holders"]) <= case["held"])
