# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The section `step` of a report, from the lines of the trace and the words of docs/REPORT.md: each listed step's window, the time in which the
GPU ran, the host's time without blocked waits, and its critical path by kind. Iterations are taken from the report."""
import bisect
import collections

import late

KEPT = 262_144
PLANS = ("cudnnFind", "nvrtcCompile")
KINDS = {"transfer": "copy_call", "memory": "memory", "module": "module", "graph": "build_graph"}
SETUP = {"create", "destroy", "set", "query", "finalize"}
MAY_WAIT = {"unload", "free", "free_host", "free_array", "unregister"}


class Call:
    def __init__(self, o, x):
        self.line, self.tid, self.name = x, x["tid"], x["name"]
        self.begin, self.end = o.span(x)
        self.is_driver, crosses = x["type"] in o.DRIVER, x["type"] == "transfer" and x.get("direction") in ("HtoD", "DtoH")
        self.waits = self.is_driver and o.blocks(x)
        self.may_wait = self.is_driver and (x["op"] in MAY_WAIT or (crosses and "Async" in x["name"] and not x.get("capturing")))
        self.launches = self.is_driver and x["op"].startswith("launch")
        plan = not self.is_driver and (x["op"] == "finalize" or "Heuristic" in x["name"] or x["name"].startswith(PLANS))
        self.kind = "plan" if plan else "library" if not self.is_driver else "launch" if self.launches else KINDS.get(x["type"], "call")
        self.is_setup = x["type"] == "dnn" and x["op"] in SETUP
        self.submits = self.is_driver and (x["type"] == "transfer" or x["op"] == "launch") and not x.get("capturing")
        self.works, self.target = [], None
        # Without a stream: the legacy default stream; 2: the thread's own.
        stream = int(x.get("stream") or "0", 16)
        own = stream == 2 or (not stream and x["symbol"].endswith(("_ptsz", "_ptds")))
        self.stream = (2, self.tid) if own else 0 if stream == 1 else stream

    def until(self, has_works):
        """The end of the wait for the GPU in it; 0: there was none."""
        if not has_works:
            return self.end if self.waits else 0
        end = self.target.end if self.target else 0
        if end <= self.begin or (end > self.end and not self.waits):
            return 0
        return min(end, self.end)


class Work:
    def __init__(self, o, x):
        self.begin, self.end = o.span(x)
        self.queue = x["device"], x.get("context"), x.get("gpu_stream")
        nccl = x["op"] == "kernel" and x.get("kernel", "").startswith("nccl")
        self.kind, self.call, self.before = "communication" if nccl else x["op"], None, []

    def requested(self):
        c = self.call
        return c.begin if (c.waits or c.may_wait) and self.begin < c.end else c.end


def latest(works):
    return max((x for x in works if x), key=lambda x: x.end, default=None)


def depend(calls, works):
    """What each execution and each wait had to wait for."""
    queues, graphs = collections.defaultdict(list), collections.defaultdict(list)
    for x in works:
        for done in (queues[x.queue], graphs[id(x.call)] if x.call else []):
            i = bisect.bisect_right([y.end for y in done[-64:]], x.begin)
            x.before.append(done[-64:][i - 1] if i else None)
            done.append(x)
    last, pending, events, blocking, everything = {}, {}, {}, set(), None
    for c in calls:
        x, blocked = c.line, latest(last.get(s) for s in blocking)
        done = latest([last.get(c.stream), pending.get(c.stream), blocked if c.stream == 0 else None])
        if x["type"] == "stream" and x["op"] == "create":
            flags = x["args"].get("Flags", x["args"].get("flags"))
            (blocking.add if flags in (0, "CU_STREAM_DEFAULT") else blocking.discard)(c.stream)
        if c.works and not x.get("capturing"):
            dep = latest([pending.pop(c.stream, None), blocked if c.stream == 0 else last.get(0) if c.stream in blocking else None])
            first = min(c.works, key=lambda y: y.begin)
            if dep and dep.end <= first.begin:
                first.before.append(dep)
            last[c.stream] = latest([last.get(c.stream), *c.works])
            everything = latest([everything, *c.works])
        if c.is_driver and "event" in x and x["op"] == "record":
            events[x["event"]] = done
        if c.is_driver and "event" in x and x["op"] == "wait":
            pending[c.stream] = latest([pending.get(c.stream), events.get(x["event"])])
        if c.waits or c.may_wait:
            c.target = latest(c.works) or (events.get(x["event"]) if "event" in x else done if "stream" in x else everything)


def owner(inside):
    """The call that the time in these nested calls belongs to."""
    return next((c for c in inside if c.kind == "plan"), None) or next((c for c in inside if c.is_driver), inside[-1])


def intervals(calls):
    """(begin, end, call) of one thread."""
    found, inside, now = [], [], 0

    def go(to):
        nonlocal now
        if inside and to > now:
            c = owner(inside)
            if found and found[-1][2] is c and found[-1][1] == now:
                found[-1] = found[-1][0], to, c
            else:
                found.append((now, to, c))
        now = max(now, to)
    for c in [*calls, None]:
        while inside and (c is None or inside[-1].end <= c.begin):
            go(inside[-1].end)
            inside.pop()
        if c:
            go(c.begin)
            inside.append(c)
    return found


PLAN_NS, PLAN_GAP_NS = 20_000, 1_000_000


def plans(rows):
    """The intervals in which plans are built, and those before which the time belongs to one, by number. cuDNN builds one in a run of calls that
    do not execute, whose finalizing ones take 20 us together; the modules that its first execution loads belong to it."""
    inside, between, run = set(), set(), []

    def close(after):
        while run and not rows[run[-1]][2].is_setup:
            run.pop()
        if sum(rows[i][1] - rows[i][0] for i in run if rows[i][2].is_setup and rows[i][2].kind == "plan") < PLAN_NS:
            return
        inside.update(run)
        between.update(run[1:])
        for i in range(run[-1] + 1, len(rows)):
            if rows[i][2].submits:
                break
            if rows[i][2].kind == "module":
                inside.add(i)
    for i, (begin, _, c) in enumerate(rows):
        if run and (c.submits or c.waits or not (c.is_setup or c.is_driver) or begin - rows[i - 1][1] >= PLAN_GAP_NS):
            close(i)
            run = []
        if c.kind == "plan" and not c.is_setup:
            inside.add(i)
        if run or c.is_setup:
            run.append(i)
    if run:
        close(len(rows))
    return inside, between


def alternating(o, threads, calls, tid):
    """Threads that launch, and are in calls only while the main thread is in none."""
    count = collections.Counter(c.tid for c in calls if c.launches)
    spans = {t: [x[:2] for x in rows] for t, rows in threads.items()}
    return {tid} | {t for t in threads if count[t] and count[t] * 10 >= count[tid] and
                    (o.union(spans[t]) + o.union(spans[tid]) - o.union(spans[t] + spans[tid])) * 50 <= o.union(spans[t])}


def walk(threads, hosts, tid, has_works, low, high):
    """Pieces of the path, latest first: (begin, end, kind)."""
    begins = {t: [x[0] for x in rows] for t, rows in threads.items()}
    plan = {t: plans(rows) for t, rows in threads.items()}
    pieces, t, work, here, launched, idle = [], high, None, tid, None, 0

    def piece(begin, kind):
        nonlocal t, idle
        if max(begin, low) < t:
            pieces.append((max(begin, low), t, kind))
            t, idle = max(begin, low), 0

    def before(thread):
        i = bisect.bisect_left(begins[thread], t)
        return threads[thread][i - 1] if i else None
    while t > low and idle < 30:
        idle += 1
        if work:
            piece(work.begin, work.kind)
            dep = latest(work.before)
            if dep and (not work.call or work.requested() <= dep.end):
                piece(dep.end, work.call.kind if work.call and work.call.end > work.begin else "gpu_gap")
                work = dep
                continue
            launched, here = work.call, work.call.tid if work.call else tid
            if work.call:
                piece(work.call.end, "launch_latency")
            work = None
            continue
        row = before(here)
        if not row or row[1] < t:
            after = bisect.bisect_left(begins[here], t)
            is_plan = after in plan[here][1] and begins[here][after] == t
            kind = "plan" if is_plan else "between"
            others = [(x[1], k) for k in hosts if k != here for x in [before(k)] if x and x[1] <= t]
            best = max(others, default=(0, here), key=lambda x: x[0])
            if best[0] > (row[1] if row else 0):
                here, row = best[1], before(best[1])
            piece(row[1] if row else low, kind)
            launched = None
            continue
        begin, _, c = row
        until = 0 if c is launched else c.until(has_works)
        if until <= begin:
            is_plan = bisect.bisect_left(begins[here], t) - 1 in plan[here][0]
            piece(begin, "wait_return" if c.waits and c.kind == "call" else "plan" if is_plan else "library" if c.kind == "plan" else c.kind)
        elif not has_works:
            piece(begin, "wait")
        else:
            piece(until, "wait_return")
            work = c.target
    return pieces


def waited(o, lines, pid):
    """The times in which others were late to a collective of the process's communicators, until their kernels began."""
    members = collections.defaultdict(set)
    for x in lines:
        if x.get("type") == "collective" and "communicator" in x:
            members[x["communicator"]].add(x["pid"])
    others = {p for group in members.values() if pid in group for p in group} - {pid}
    found = late.episodes(lines, starts=late.kernel_starts(lines))
    return [(o.ns(begin), o.ns(end)) for p, mine in found.items() if p in others for begin, end, _ in mine]


def cut_ranks(o, pieces, spans):
    """In these times, collectives and unmeasured waits are waits for a rank."""
    found = []
    for begin, end, kind in pieces:
        if kind in ("communication", "wait"):
            rank = o.union((max(a, begin), min(b, end)) for a, b in spans if b > begin and a < end)
            found += [(begin, begin + rank, "rank"), (begin + rank, end, kind)] if rank else [(begin, end, kind)]
        else:
            found.append((begin, end, kind))
    return found


def windows(o, report):
    its, found = report["iterations"], []
    firsts = {x["first"] for x in its["rounds"]}
    for i, x in enumerate(its["list"]):
        begin, end = o.ns(x["ts"]), o.ns(x["ts"]) + x["time_ns"]
        last = found[-1][1] if found else None
        found.append((last if i and i not in firsts and last < end else begin, end))
    return found


def check_choice(d, report, spans):
    """Which steps are listed."""
    steady = sorted((b - a, i) for i, (a, b) in enumerate(spans) if not report["iterations"]["list"][i].get("warmup"))
    n = len(steady)
    want = {"median": steady[(n - 1) // 2][1], "p95": steady[-(-n * 95 // 100) - 1][1], "slowest": steady[-1][1], "first": 0}
    d.same("step.steps", report["step"]["steps"], n)
    for x in report["step"]["list"]:
        d.same(f"step.{x['which']}.iteration", x["iteration"], want[x["which"]])


def check(o, d, lines, calls, report):
    section, its = report.get("step"), report.get("iterations")
    if not section or not section["list"]:
        return
    for x in section["list"]:
        d.same(f"step.{x['which']}: parts", sum(p["total_ns"] for p in x["parts"]), x["wall_ns"])
        for p in x["parts"]:
            d.same(f"step.{x['which']}.share", p["share"], p["total_ns"] / x["wall_ns"], 1e-4)
            d.compares(p["total_ns"])
    gpu = [x for x in lines if x["type"] == "gpu"]
    if its["count"] != len(its["list"]) or len(calls) > KEPT or len(gpu) > KEPT or not its["rounds"]:
        return
    spans = windows(o, report)
    check_choice(d, report, spans)
    mine = sorted((Call(o, c) for c in calls if c["pid"] == section["pid"] and o.timed(c)), key=lambda c: (c.begin, -c.end, c.line["id"]))
    works = sorted((Work(o, x) for x in gpu if x["pid"] == section["pid"]), key=lambda w: (w.end, w.begin))
    by_id = {c.line["id"]: c for c in mine}
    for w, x in zip(works, sorted((x for x in gpu if x["pid"] == section["pid"]), key=lambda x: (o.span(x)[1], o.span(x)[0]))):
        w.call = by_id.get(x.get("call_id"))
        if w.call:
            w.call.works.append(w)
    depend(mine, works)
    by_thread = collections.defaultdict(list)
    for c in mine:
        by_thread[c.tid].append(c)
    threads = {t: intervals(x) for t, x in by_thread.items()}
    hosts = alternating(o, threads, mine, section["tid"])
    pieces = walk(threads, hosts, section["tid"], bool(works), min(a for a, _ in spans), max(b for _, b in spans))
    pieces = cut_ranks(o, pieces, waited(o, lines, section["pid"]))
    for x in section["list"]:
        a, b = spans[x["iteration"]]
        label, kinds, rest = f"step.{x['which']}", collections.Counter(), 0
        d.same(f"{label}.wall_ns", x["wall_ns"], b - a)
        d.same(f"{label}.begin_ts", x["begin_ts"], a / 1e6, 1e-9)
        if works:
            d.same(f"{label}.gpu_busy_ns", x["gpu_busy_ns"], o.union((max(w.begin, a), min(w.end, b)) for w in works if w.end > a and w.begin < b))
        blocked = 0
        for t in hosts:
            for begin, end, c in threads.get(t, []):
                if end > a and begin < b:
                    blocked += max(0, min(c.until(bool(works)), end, b) - max(begin, a))
        d.same(f"{label}.host_ns", x["host_ns"], max(0, b - a - blocked))
        for begin, end, kind in pieces:
            kinds[kind] += max(0, min(end, b) - max(begin, a))
        got = collections.Counter()
        for p in x["parts"]:
            got[p["kind"]] += p["total_ns"]
        rest = got.pop("rest", 0)
        d.law(f"{label}: the parts are {dict(got)} and {rest} of others, the lines have {dict(+kinds)}",
              all(0 <= kinds[k] - got[k] <= rest for k in kinds | got) and sum(kinds.values()) == x["wall_ns"])
