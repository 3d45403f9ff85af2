# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""More of the independent reader (oracle.py): memory, transfers, kernels, streams, graphs, NCCL, GPU rows, time by class, timeline, layers.

Each function recomputes one section of the report from the lines alone.
"""
import collections
import heapq

# Times are in the trace with three decimals of a microsecond, and printed with six digits by some members.
SLACK = 1e-5


class Tools:
    """The functions of oracle.py, passed in so that the two files don't import each other."""

    def __init__(self, **names):
        self.__dict__.update(names)


def took(o, c):
    a, b = o.span(c)
    return b - a


def ok(o, c):
    return o.returned(c) and not c.get("result") and not c.get("abandoned")


def below(size):
    """The next power of two above a size."""
    return 1 << int(size).bit_length() if size else 1


# ---- Work by process and thread ----

def overview(o, d, lines, calls, report):
    over = report["overview"]
    by_pid = collections.defaultdict(list)
    for x in calls:
        by_pid[x["pid"]].append(x)
    lives = collections.defaultdict(list)
    for x in lines:
        if x["type"] in o.CALLS | {"process", "driver"} and "ts" in x:
            lives[x["pid"]].append(x)
    for row in over["processes"]:
        where, mine = f"processes.{row['pid']}", by_pid[row["pid"]]
        d.same(f"{where}.calls", row["calls"], len(mine))
        d.same(f"{where}.threads", row["threads"], len({x["tid"] for x in mine}))
        d.same(f"{where}.first_ts", row["first_ts"], min(x["ts"] for x in lives[row["pid"]]), 1e-9)
        d.same(f"{where}.last_ts", row["last_ts"], max(o.span(x)[1] for x in lives[row["pid"]]) / 1e6, 1e-6)
        ends = [x for x in lives[row["pid"]] if x["type"] == "process" and x["op"] == "exit" and "exit_code" in x]
        if "exit_code" in row and ends:
            d.same(f"{where}.exit_code", row["exit_code"], ends[-1]["exit_code"])
    # Every row must be compared, and every process must have one.
    d.law("processes: rows and processes differ", over.get("rejected") or {r["pid"] for r in over["processes"]} == set(lives))
    whole = sum(row["total_ns"] for row in over["classes"])
    for row in over["classes"]:
        if row["count"]:
            d.law(f"classes.{row['class']}.mean_ns", row["mean_ns"] <= row["max_ns"])
        if whole and over["call_ns"] == whole:
            d.same(f"classes.{row['class']}.share", row["share"], row["total_ns"] / whole, SLACK)
    errors = collections.Counter(c.get("error") for c in calls if c.get("result", 0) and o.returned(c))
    for row in over["error_codes"]:
        if row["error"] in errors:
            d.same(f"error_codes.{row['error']}", row["count"], errors[row["error"]])
            first = min(c["ts"] for c in calls if c.get("error") == row["error"] and o.returned(c))
            d.same(f"error_codes.{row['error']}.first_ts", row["first_ts"], first, 1e-3)
    d.same("overview.abandoned", over["abandoned"], sum(1 for c in calls if c.get("abandoned")))
    done = [c for c in calls if o.returned(c) and not c.get("abandoned")]
    for name, kind in (("launches", "kernel"), ("graph_launches", "graph")):
        ran = [c for c in done if c["op"] == "launch" and c["type"] == kind and not c.get("result") and not c.get("capturing")]
        d.same(f"overview.{name}", over[name], len(ran))
    kinds = collections.Counter(x["type"] for x in lines if x["type"] not in ("header", "end", "lost"))
    for kind, count in over["events"].items():
        d.same(f"overview.events.{kind}", count, kinds[kind])
    ends = [x for x in lines if x["type"] == "end"]
    if len(ends) == 1:
        for name, count in ends[0]["drops"].items():
            if name in over.get("drops", {}):
                d.same(f"overview.drops.{name}", over["drops"][name], count)
        # An unfinished call may be measured after the end was fixed.
        last = max([o.span(c)[1] for c in calls if c.get("unfinished")] or [0])
        first = next((x for x in lines if "ts" in x and x["type"] not in ("header", "end")), {"ts": 0})
        begin = max(0, min(lines[0].get("begin_ns", 0), o.ns(first["ts"])))
        d.same("overview.wall_ns", over["wall_ns"], max(o.ns(ends[0]["wall_ms"]), last) - begin, 1e-6)


# ---- Transfers ----

def transfers(o, d, calls, report):
    sums = collections.defaultdict(list)
    for c in calls:
        if c["type"] == "transfer" and ok(o, c) and not c.get("capturing") and c["op"] in ("copy", "memset", "prefetch"):
            sums[c.get("direction", "unknown") if c["op"] == "copy" else c["op"]].append(c)
    asynchronous = lambda c: "Async" in c["name"]  # noqa: E731
    for row in [*report["transfers"]["directions"], *({"direction": x, **report["transfers"][x]} for x in ("memset", "prefetch"))]:
        mine, where = sums[row["direction"]], f"transfers.{row['direction']}"
        d.same(f"{where}.count", row["count"], len(mine))
        d.same(f"{where}.bytes", row["bytes"], sum(c.get("size", 0) for c in mine))
        d.same(f"{where}.total_ns", row["total_ns"], sum(took(o, c) for c in mine), SLACK)
        d.same(f"{where}.async", row["async"], sum(map(asynchronous, mine)))
        d.same(f"{where}.sync", row["sync"], len(mine) - sum(map(asynchronous, mine)))
        if "small" not in row:
            continue
        sized = [c for c in mine if "size" in c]
        d.same(f"{where}.small", row["small"], sum(c["size"] < 65536 for c in sized))
        d.same(f"{where}.mean_size", row["mean_size"], sum(c["size"] for c in sized) / max(1, len(sized)), SLACK)
        timed = [c for c in sized if "bandwidth_gbps" in c]
        if timed:
            d.same(f"{where}.gbps", row["gbps"], sum(c["size"] for c in timed) / sum(took(o, c) for c in timed), 1e-4)
            d.same(f"{where}.max_gbps", row["max_gbps"], max(c["bandwidth_gbps"] for c in timed), 1e-4)
        places = sum(row[x] for x in ("pinned", "pageable", "managed", "unknown"))
        d.law(f"{where}: each copy's host side is of one kind", places == (len(mine) if row["direction"] in ("HtoD", "DtoH", "HtoH") else 0))
    for row in report["transfers"]["sizes"]:
        mine = [c["size"] for c in sums[row["direction"]] if "size" in c and below(c["size"]) == row["below"]]
        d.same(f"transfers.sizes.{row['direction']}.{row['below']}.count", row["count"], len(mine))
        d.same(f"transfers.sizes.{row['direction']}.{row['below']}.bytes", row["bytes"], sum(mine))
    copies = sorted((c["size"] for way, mine in sums.items() if way not in ("memset", "prefetch") for c in mine if "size" in c), reverse=True)
    by_id = {(c["id"], c["ts"]): c for mine in sums.values() for c in mine}
    for row, size in zip(report["transfers"]["largest"], copies):
        d.same("transfers.largest.size", row["size"], size)
        call = by_id.get((row["id"], row["ts"]))
        d.law(f"transfers.largest: no line is call {row['id']}", call is not None)
        d.same("transfers.largest.duration_ns", row["duration_ns"], took(o, call) if call else -1, SLACK)


# ---- Kernels, streams, graphs ----

def volume(sizes):
    return sizes[0] * sizes[1] * sizes[2]


def kernels(o, d, calls, report):
    every = [c for c in calls if c["type"] == "kernel" and c["op"] == "launch" and o.returned(c) and not c.get("abandoned")]
    ran = [c for c in every if not c.get("result") and not c.get("capturing")]
    section = report["kernels"]
    d.same("kernels.total_ns", section["total_ns"], sum(took(o, c) for c in ran), SLACK)
    shaped = [c for c in ran if "grid" in c and "block" in c]
    d.same("kernels.blocks", section["blocks"], sum(volume(c["grid"]) for c in shaped))
    d.same("kernels.threads", section["threads"], sum(volume(c["grid"]) * volume(c["block"]) for c in shaped))
    names = collections.defaultdict(list)
    for c in every:
        names[c.get("kernel")].append(c)
    for row in section["list"]:
        if not row["name"]:
            continue
        where, mine = f"kernels.{row['name'][:40]}", [c for c in names[row["name"]] if not c.get("result")]
        done = [c for c in mine if not c.get("capturing")]
        d.same(f"{where}.nodes", row["nodes"], len(mine) - len(done))
        d.same(f"{where}.errors", row["errors"], sum(1 for c in names[row["name"]] if c.get("result")))
        d.same(f"{where}.total_ns", row["total_ns"], sum(took(o, c) for c in done), SLACK)
        if not done:
            continue
        d.same(f"{where}.max_ns", row["max_ns"], max(took(o, c) for c in done), SLACK)
        d.same(f"{where}.mean_ns", row["mean_ns"], sum(took(o, c) for c in done) / len(done), 2e-4)
        shaped = [c for c in done if "grid" in c and "block" in c]
        d.same(f"{where}.blocks", row["blocks"], sum(volume(c["grid"]) for c in shaped))
        d.same(f"{where}.threads", row["threads"], sum(volume(c["grid"]) * volume(c["block"]) for c in shaped))
        grids = [volume(c["grid"]) for c in mine if "grid" in c]
        if grids and "grid_min" in row:
            # Volumes given in the report's own rows.
            d.law(f"{where}.grid_min", volume(row["grid_min"]) == min(grids))
            d.law(f"{where}.grid_max", volume(row["grid_max"]) == max(grids))
            for name in ("grid_min", "grid_max"):
                for i, got in enumerate(row[name]):
                    d.same(f"{where}.{name}[{i}]", got, next(c["grid"] for c in mine if volume(c["grid"]) == volume(row[name]) and c["grid"][i] == got)[i])


def graphs(o, d, calls, report):
    mine = [c for c in calls if c["type"] == "graph" and ok(o, c)]
    section = report["graphs"]
    launches = [c for c in mine if c["op"] == "launch" and not c.get("capturing")]
    d.same("graphs.launches", section["launches"], len(launches))
    d.same("graphs.launch_ns", section["launch_ns"], sum(took(o, c) for c in launches), SLACK)
    d.same("graphs.instantiations", section["instantiations"], sum(1 for c in mine if c["op"] == "instantiate"))
    d.same("graphs.captures", section["captures"], sum(1 for c in mine if c["op"] == "capture_end"))
    execs = collections.Counter((c["pid"], c["args"].get("hGraphExec")) for c in launches)
    rows = collections.Counter()
    for row in section["list"]:
        rows[row["pid"], row["exec"]] += row["launches"]
    # A handle may be reused, so rows of one handle are added up.
    for key, count in rows.items():
        if count:
            d.same(f"graphs.{key}.launches", count, execs[key])
    for row in section["list"]:
        d.compares(row["launches"])


def is_joined(captured, nodes):
    """nodes: {number: (op, kernel)} of one graph. Each must fit the captured call of its number, or the one at its place in the order."""
    def fits(c, node):
        op, kernel = node
        what = {"kernel": "kernel"}.get(c["type"], c["op"])
        return what == op and (op != "kernel" or not kernel or not c.get("kernel") or c["kernel"] == kernel)
    by_number = [(captured[n & 0xffffffff] if n & 0xffffffff < len(captured) else None, node) for n, node in nodes.items()]
    if all(c and fits(c, node) for c, node in by_number):
        return True
    runs = [c for c in captured if c["type"] in ("kernel", "transfer") and c["op"] in ("launch", "copy", "memset")]
    return len(runs) == len(nodes) and all(fits(c, nodes[n]) for c, n in zip(runs, sorted(nodes)))


def graph_nodes(d, lines, report):
    """Executions of nodes whose captured calls are known. Captures on one stream each."""
    streams, graphs, execs, launched = {}, {}, {}, {}
    groups, before = collections.defaultdict(list), 0
    for c in lines:
        if "symbol" in c and c.get("capturing"):
            streams.get((c["pid"], c["stream"]), []).append(c)
        if c["type"] == "graph" and not c.get("result"):
            args = c.get("args", {})
            if c["op"] == "capture_begin":
                streams[c["pid"], c["stream"]] = []
            elif c["op"] == "capture_end":
                graphs[c["pid"], args["phGraph"]] = streams.pop((c["pid"], c["stream"]), None)
            elif c["op"] == "instantiate":
                execs[c["pid"], args["phGraphExec"]] = (c["id"], graphs.get((c["pid"], args["hGraph"])))
            elif c["op"] == "launch":
                launched[c["pid"], c["id"]] = execs.get((c["pid"], args["hGraphExec"]))
    for x in lines:
        if x["type"] != "gpu" or "graph_node" not in x or (x["pid"], x.get("call_id")) not in launched:
            continue
        of = launched[x["pid"], x["call_id"]]
        if of is None:
            before += 1
        elif of[1] is not None:
            groups[x["pid"], id(of[1]), x["graph_node"] >> 32].append((x, of[1]))
    joined = {True: 0, False: 0}
    for group in groups.values():
        joined[is_joined(group[0][1], {x["graph_node"]: (x["op"], x.get("kernel")) for x, _ in group})] += len(group)
    for name, count in (("joined", joined[True]), ("refused", joined[False]), ("earlier", before)):
        d.same(f"graphs.{name}_executions", report["graphs"].get(f"{name}_executions", 0), count)


def streams(o, d, calls, report):
    if any("_pt" in c["symbol"] for c in calls):
        return  # per-thread default streams
    rows, sums = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    names = "launches", "transfers", "bytes", "syncs", "sync_ns", "events_recorded", "events_waited"
    for row in report["streams"]["list"]:
        for name in names:
            rows[row["pid"], row["stream"]][name] += row[name]
            d.compares(row[name])
    for c in calls:
        if not ok(o, c) or c.get("capturing") or "stream" not in c or c["type"] not in o.DRIVER:
            continue
        s = sums[c["pid"], c["stream"]]
        if c["type"] in ("kernel", "graph") and c["op"] == "launch":
            s["launches"] += 1
        elif c["type"] == "transfer" and c["op"] in ("copy", "memset", "prefetch"):
            s["transfers"] += 1
            s["bytes"] += c.get("size", 0)
        elif c["type"] == "event" and c["op"] == "record":
            s["events_recorded"] += 1
        elif c["name"] == "cuStreamWaitEvent":
            s["events_waited"] += 1
        elif c["name"] == "cuStreamSynchronize":
            s["syncs"] += 1
            s["sync_ns"] += took(o, c)
    if report["streams"]["count"] != len(report["streams"]["list"]):
        return
    for key, row in rows.items():
        if int(key[1], 16) > 2:  # the default streams also have calls that name no stream
            for name in names:
                d.same(f"streams.{key}.{name}", row[name], sums[key][name], SLACK)


# ---- NCCL ----

COLLECTIVE = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter"}


def communication(o, d, calls, report):
    section = report["communication"]
    mine = collections.defaultdict(list)
    for c in calls:
        if c["type"] == "collective" and "bytes" in c and c.get("communicator"):
            mine[c["communicator"]].append(c)
    for row in section["communicators"]:
        every = mine[row["communicator"]]
        where = f"communication.{row['communicator']}"
        if row.get("differs"):
            # The two calls are in the lines, and no collective before differs.
            kinds = collections.defaultdict(set)
            for c in every:
                if "seq" in c and not c.get("result"):
                    kinds[c["seq"]].add((c["op"], c["bytes"]))
            d.same(f"{where}.differs.seq", row["differs"]["seq"], min(seq for seq, of in kinds.items() if len(of) > 1))
            for x in row["differs"]["calls"]:
                d.law(f"{where}.differs: {x}", any((c.get("seq"), c.get("rank"), c["op"], c["bytes"]) == (row["differs"]["seq"], x["rank"], x["op"], x["bytes"]) for c in every))
        for op in row["operations"]:
            calls_of = [c for c in every if c["op"] == op["op"]]
            good = [c for c in calls_of if not c.get("result")]
            d.same(f"{where}.{op['op']}.count", op["count"], len(calls_of))
            d.same(f"{where}.{op['op']}.bytes", op["bytes"], sum(c["bytes"] for c in good))
            d.same(f"{where}.{op['op']}.host_ns", op["host_ns"], sum(took(o, c) for c in calls_of), SLACK)
            d.same(f"{where}.{op['op']}.host_max_ns", op["host_max_ns"], max([took(o, c) for c in calls_of] or [0]), SLACK)
            d.same(f"{where}.{op['op']}.grouped", op["grouped"], sum(1 for c in calls_of if c.get("group")))
            d.same(f"{where}.{op['op']}.errors", op["errors"], sum(1 for c in calls_of if c.get("result")))
            d.same(f"{where}.{op['op']}.unfinished", op["unfinished"], sum(1 for c in calls_of if c.get("unfinished")))
        if row["partial"] or row["apart"] or row["ranks_rejected"] or not row["ranks"]:
            continue
        ranks = {r["rank"]: r for r in row["ranks"]}
        by_seq = collections.defaultdict(dict)
        for c in every:
            if c.get("seq") and not c.get("result") and not c.get("seq_partial"):
                by_seq[c["seq"]][c["rank"]] = c
        joined, last, late, spans = 0, collections.Counter(), collections.defaultdict(list), collections.defaultdict(list)
        for at in by_seq.values():
            if len(ranks) < 2 or set(at) != set(ranks) or len({(c["op"], c["bytes"]) for c in at.values()}) > 1:
                continue
            joined += 1
            begins = sorted((o.ns(c["ts"]), r) for r, c in at.items())
            last[begins[-1][1]] += 1
            if begins[-1][0] - begins[0][0] >= 1_000_000:
                late[begins[-1][1]].append(begins[-1][0] - begins[0][0])
                spans[begins[-1][1]].append((begins[0][0], begins[-1][0]))
        d.same(f"{where}.joined", row["joined"], joined)
        d.same(f"{where}.late", row["late"], sum(map(len, late.values())))
        for r, got in ranks.items():
            d.same(f"{where}.{r}.late", got["late"], len(late[r]))
            # Others may wait in several collectives at the same time, which counts once.
            d.same(f"{where}.{r}.late_ns", got["late_ns"], o.union(spans[r]), SLACK)
            d.same(f"{where}.{r}.late_max_ns", got["late_max_ns"], max(late[r] or [0]), SLACK)
            # If ranks begin at the same moment, the one with the highest number is the last.
            d.same(f"{where}.{r}.last", got["last"], last[r])


# ---- The GPU's own times ----

def gpu_rows(o, d, lines, report):
    runs = [x for x in lines if x["type"] == "gpu"]
    section = report["gpu"]
    if section["rejected"]:
        return
    d.same("gpu.executions", section["executions"], len(runs))
    whole = sum(took(o, x) for x in runs)

    def row_is(where, row, mine):
        times = [took(o, x) for x in mine]
        d.same(f"{where}.count", row["count"], len(times))
        if not times:
            return
        d.same(f"{where}.total_ns", row["total_ns"], sum(times), SLACK)
        d.same(f"{where}.min_ns", row["min_ns"], min(times), SLACK)
        d.same(f"{where}.max_ns", row["max_ns"], max(times), SLACK)
        d.same(f"{where}.mean_ns", row["mean_ns"], sum(times) / len(times), SLACK)
        if "share" in row:
            d.same(f"{where}.share", row["share"], sum(times) / whole, SLACK)
        if "bytes" in row:
            d.same(f"{where}.bytes", row["bytes"], sum(x.get("size", 0) for x in mine))
            d.same(f"{where}.gbps", row["gbps"], sum(x.get("size", 0) for x in mine) / sum(times), 1e-4)
        if "queue_ns" in row:
            # Nodes of a graph wait for each other, not for the call.
            queued = [x["queue_us"] * 1e3 for x in mine if "queue_us" in x and (x["op"] == "graph" or "GraphLaunch" not in x.get("call", ""))]
            d.same(f"{where}.queue_ns", row["queue_ns"], sum(queued) / max(1, len(queued)), 1e-4)

    for row in section["kernels"]:
        row_is(f"gpu.kernels.{row['name'][:40]}", row, [x for x in runs if x["op"] == "kernel" and x.get("kernel") == row["name"]])
    for row in section["copies"]:
        row_is(f"gpu.copies.{row['direction']}", row, [x for x in runs if x["op"] == "copy" and x.get("direction", "unknown") == row["direction"]])
    for name, op in (("memset", "memset"), ("graphs", "graph")):
        if name in section:
            row_is(f"gpu.{name}", section[name], [x for x in runs if x["op"] == op])


# ---- Time: by class, by step ----

def name_of_class(c):
    return {"kernel": "launch", "collective": "other", "blas": "other", "dnn": "other"}.get(c["type"], c["type"])


def ratio(o, d, calls, report):
    """Each moment belongs to the call in progress that ends first, or else began last, or else has the lower number.

    The driver's nested calls (cuKernelGetFunction in another) are not the program's: their time counts for the outer call.
    """
    mine = o.outermost([c for c in calls if c["type"] in o.DRIVER], {c["id"]: c for c in calls})
    spans = sorted((*o.span(c), -c["id"], -c["pid"], c["type"], c["op"]) for c in mine if not c.get("abandoned") and o.timed(c))
    moments = sorted({x for s in spans for x in s[:2]})
    totals, heap, i = collections.Counter(), [], 0
    for a, b in zip(moments, moments[1:]):
        while i < len(spans) and spans[i][0] <= a:
            heapq.heappush(heap, (spans[i][1], -spans[i][0], -spans[i][2], -spans[i][3], *spans[i][4:]))
            i += 1
        while heap and heap[0][0] <= a:
            heapq.heappop(heap)
        if heap:
            kind, op = heap[0][4:]
            part = {"kernel": "launch", "module": "module"}.get(kind, kind if kind in ("transfer", "sync", "memory") else "other")
            totals["launch" if kind == "graph" and op == "launch" else part] += b - a
    got = report["stages"]["ratio"]
    for part in ("launch", "transfer", "sync", "memory", "module", "other"):
        d.same(f"stages.ratio.{part}_ns", got[f"{part}_ns"], totals[part], SLACK)


def stages(d, report):
    section, wall = report["stages"]["list"], report["overview"]["wall_ns"]
    for row in section:
        d.same(f"stages.{row['stage']}.share", row["share"], row["wall_ns"] / wall, 1e-4)


def longest(o, d, calls, report):
    by_id = {(c["pid"], c["id"]): c for c in calls}
    rows = report["longest"]
    for row in rows:
        call = by_id.get((row["pid"], row["id"]))
        d.law(f"longest: no line is call {row['id']}", call is not None)
        if call:
            d.same(f"longest.{row['id']}.duration_ns", row["duration_ns"], took(o, call), SLACK)
            d.same(f"longest.{row['id']}.ts", row["ts"], call["ts"], 1e-3)
            d.same(f"longest.{row['id']}.tid", row["tid"], call["tid"])
    times = sorted((took(o, c) for c in calls if o.timed(c) and not c.get("parent") and c["type"] in o.DRIVER), reverse=True)
    if rows and len(times) >= len(rows):
        d.law("longest: a longer call is not in it", rows[-1]["duration_ns"] >= 0.99 * times[len(rows) - 1])


def waits(o, d, calls, report):
    mine = [c for c in calls if c["type"] in o.DRIVER and not c.get("abandoned") and not c.get("entry_only") and o.blocks(c) and not c.get("capturing")]
    section = report["waits"]
    d.same("waits.unfinished", section.get("unfinished", 0), sum(1 for c in mine if c.get("unfinished")))
    by_name, by_thread = collections.defaultdict(list), collections.Counter((c["pid"], c["tid"]) for c in mine)
    for c in mine:
        by_name[c["name"]].append(took(o, c))
    for row in section["functions"]:
        times = sorted(by_name[row["name"]])
        d.same(f"waits.{row['name']}.count", row["count"], len(times))
        if not times:
            continue
        d.same(f"waits.{row['name']}.total_ns", row["total_ns"], sum(times), SLACK)
        d.same(f"waits.{row['name']}.max_ns", row["max_ns"], times[-1], SLACK)
        d.same(f"waits.{row['name']}.mean_ns", row["mean_ns"], sum(times) / len(times), 1e-4)
        d.same(f"waits.{row['name']}.p95_ns", row["p95_ns"], times[max(0, -(-len(times) * 95 // 100) - 1)], 1 / 31)
    d.law("waits.functions: a function has no row", set(by_name) <= {r["name"] for r in section["functions"]})
    for row in section["threads"]:
        d.same(f"waits.threads.{row['tid']}.count", row["count"], by_thread[row["pid"], row["tid"]])
    times = sorted((took(o, c) for c in mine), reverse=True)
    for row, time in zip(section["longest"], times):
        d.same("waits.longest.duration_ns", row["duration_ns"], time, SLACK)


def layers(o, d, lines, calls, report):
    """Ranges and operators by name, and the sums of the calls in them."""
    for section, kind, name in (("operators", "operator", "name"), ("ranges", "range", "text")):
        if not report.get(section) or report[section]["rejected"]:
            continue
        rows = collections.defaultdict(list)
        for x in lines:
            if x["type"] == kind and x["op"] not in ("mark", "pop"):
                rows[x.get(name), x.get("domain") if kind == "range" else "backward" if x["op"] == "backward" else None].append(x)
        for row in report[section]["list"]:
            mine = rows[row[name], row.get("domain") if kind == "range" else row.get("op")]
            if not mine:
                continue
            d.same(f"{section}.{row[name]}.count", row["count"], len(mine))
    if report.get("allocator") and not report["allocator"]["rejected"]:
        for row in report["allocator"]["list"]:
            mine = [x for x in lines if x["type"] == "allocator" and x["pid"] == row["pid"] and x.get("device") == row["device"]]
            where = f"allocator.{row['pid']}.{row['device']}"
            d.same(f"{where}.allocations", row["allocations"], sum(1 for x in mine if x["op"] == "alloc"))
            d.same(f"{where}.frees", row["frees"], sum(1 for x in mine if x["op"] == "free"))
            d.same(f"{where}.peak_allocated", row["peak_allocated"], max(x["allocated"] for x in mine))
            d.same(f"{where}.peak_reserved", row["peak_reserved"], max(x["reserved"] for x in mine))
            d.same(f"{where}.allocated", row["allocated"], mine[-1]["allocated"])
            d.same(f"{where}.reserved", row["reserved"], mine[-1]["reserved"])


def timeline(o, d, calls, report):
    """The parts of all steps must add up to the time in driver calls."""
    t = report["timeline"]
    if not t["steps"]:
        return
    by_class = collections.Counter()
    for c in o.outermost([c for c in calls if c["type"] in o.DRIVER], {c["id"]: c for c in calls}):
        if o.timed(c) and not c.get("abandoned"):
            by_class[name_of_class(c)] += took(o, c)
    for name, steps in t["classes"].items():
        d.law(f"timeline.classes.{name}: {sum(steps) * t['step_ns']:.0f} ns, the lines have {by_class[name]}",
              abs(sum(steps) * t["step_ns"] - by_class[name]) <= 1e-4 * by_class[name] + 1000)
    for row in t["rows"]:
        d.law(f"timeline.rows.{row['tid']}: busy above 1", max(row["busy"]) <= 1 + 1e-6)
