# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numbers of the report that follow from its own rows, and small ones that follow from the lines (see oracle.py).

NOT_RECOMPUTED names the members that no check recomputes; test_oracle.py fails for any other number of a report that is not compared.
"""
import collections

from sections import SLACK, took

# Members of the report (regular expressions; arrays as []), and the reason.
NOT_RECOMPUTED = {
    r"report|files\[\]\..*|lost\[\]\.count|rejected\.\w+": "what was read, not what it means; suites report and losses",
    r"answers\[\]\.numbers\.\w+": "copies of other members, in the words of suite report_answers",
    r"findings\[\]\.(evidence\[\]\.number|lost_ns|steady_ns|steady_share|mean_of\.count|share|confidence|ts)": "rules: suite finding",
    r"failures\[\]\..*": "suite verdict",
    r"failure\[\]\.(ts|count|behind|recent|recent_count|recent_freed|waited_ns|requested|gpu_used|gpu_total|holders\[\]\..*|memory\..*|xid\..*|suspects\[\]\.(ts|grid\[\]|block\[\]))": "copied from lines; suite failure",
    r"verdict\.(share|at_most_ns|run_bytes|ns|of_ns)": "its number and limit: verdict.py; suite verdict",
    r"serving\..*": "suite serving",
    r"map\..*": "suite map",
    r"gpu_stats\..*": "suite gpu_stats",
    r"findings\[\]\.call_id": "the id of a call, as evidence",
    r"network\..*": "suite gpu_stats",
    r"step\.(replay|without_host|without_gpu|what_if\[\])\..*|step\.list\[\]\.parts\[\]\.(count|line|call_id)": "suite step",
    r"driver\.\w+|driver\.uvm\.\w+": "--kernel: suite kernel",
    r"stacks\[\]\.(count|total_ns)|waits\.callers\[\]\.(count|total_ns)": "suite stack",
    r".*\[\]\.(pid|tid|id|device|rank|global_rank|below|below_ns)|longest\[\]\.(id|pid)|(iterations|step)\.(pid|tid)": "names of rows: by them the rows are found",
    r"overview\.(max_thread_overhead|max_overhead_tid|cost_ns|cost_share|costs\[\]\.ns|detail_low_saving_ns|probe_cost_ns|dropped|drops\.\w+)": "copied from the end line; suite losses",
    r"iterations\.(confidence|warmup|rounds\[\]\.(first|count)|sequence\[\]\.count|list\[\]\.(ts|bytes))": "how iterations are found: simulate.py has their number and length",
    r"iterations\.(htod_bytes|dtoh_bytes|gap_ns)\.\w+": "no row has it",
    r"gpu\.iterations\.\w+": "suite turns",
    r"idle\..*": "simulate.py has idle.total_ns",
    r"compared\[\]\..*": "each as if it were alone: other sections compute the same",
    r"stages\.load\..*|stages\.list\[\]\.(bytes|calls|call_ns|launches|first_ts|last_ts|wall_ns)|stages\.ratio\.steady\.\w+": "rules of stages: suite report_work",
    r"graphs\.(built|capture_failures|clones|kernels_run|updates)|graphs\.list\[\]\.(first_ts|instantiate_ns|kernels|launch_ns|memcpys|memsets|nodes|others|updates)":
        "suite report_work; simulate.py has kernels_run",
    r"streams\.(count|default_stream\.\w+|edges\[\]\.count|list\[\]\.(created_ts|flags|max_depth|mean_depth|priority))": "suite report_work",
    r"memory\.(fragmentation\.\w+|over_time\..*|rate|peak_ts|late_frees|too_late_frees|unseen_frees)": "suite report_memory",
    r"memory\.(kinds\[\]\.(alloc_ns|free_ns|peak_ts)|devices\[\]\.(live_bytes|peak_ts)|leaks\[\]\.ts)": "suite report_memory",
    r"communication\.communicators\[\]\.(different|incomplete|nranks|ranks_rejected)": "suite collectives",
    r"communication\.communicators\[\]\.(operations\[\]\.(busbw_gbps|gpu_bytes|gpu_count|gpu_ns))": "suite collectives",
    r"gemms\.list\[\]\.(m|n|k|batch|peak_\w+)": "names of rows; suite blas",
    r"roofline\.(steps\..*|devices\[\]\.(clock_mhz|device|measured_clock_mhz|memory_gbps|(roof|peak)_tflops\.\w+)|list\[\]\.(m|n|k|batch|clock_share))": "suite roofline",
    r"gpu\.(rejected|devices\[\]\.(capability|clock_khz|late|multiprocessors|processes)|queue\.p\d\d_ns)": "copied from gpu_device lines; suite gpu_time",
    r"kernels\.(multiprocessors|unnamed)|kernels\.list\[\]\.(block\[\]|block_min\[\]|cluster\[\]|occupancy|shared_mem|tail_share|waves)": "suite report_work, tests/occupancy.cc",
    r"transfers\.(directions\[\]\.(managed|pageable|pinned|unknown)|batches\.\w+|largest\[\]\.(ts|gbps))": "the kind of host memory: suite report_memory",
    r"waits\.(share|off_cpu_ns|may_wait\[\]\.\w+|longest\[\]\.ts|functions\[\]\.(off_cpu_ns|for\[\]\.(count|total_ns)))": "simulate.py has the time in waits",
    r"(operators|ranges)\.(rejected|list\[\]\.(bytes|call_ns|calls|gpu_executions|gpu_ns|launches|unfinished|marks|total_ns|max_ns))": "suites nvtx and torch",
    r"allocator\.(rejected|list\[\]\.(driver_live|driver_peak|ooms|unused_at_peak))": "suite torch",
    r"timeline\.(first_ts|step_ns|steps)": "how the picture is divided",
}


def statistics(d, report):
    """Statistics of iterations, from their list."""
    its = report["iterations"]
    rows = [x for x in its["list"] if not x.get("warmup")]
    if not rows or len(its["list"]) < its["count"]:
        return
    for name in ("kernels", "graph_launches", "calls", "time_ns", "launch_ns", "sync_ns"):
        values, s = sorted(x[name] for x in rows), its[name]
        n = len(values)
        d.same(f"iterations.{name}.min", s["min"], values[0])
        d.same(f"iterations.{name}.max", s["max"], values[-1])
        d.same(f"iterations.{name}.total", s["total"], sum(values))
        d.same(f"iterations.{name}.mean", s["mean"], sum(values) / n, SLACK)
        d.law(f"iterations.{name}.median", values[(n - 1) // 2] <= s["median"] <= values[n // 2])
        d.compares(s["median"])
        for part in (95, 99):
            d.same(f"iterations.{name}.p{part}", s[f"p{part}"], values[max(0, -(-n * part // 100) - 1)])
        for x in rows:
            d.compares(x[name])
    d.same("iterations.count", its["count"], len(its["list"]))


def means(d, report):
    for section in ("classes", "functions"):
        for row in report["overview"][section]:
            d.law(f"{section}.mean_ns: not between 0 and the longest", 0 <= row["mean_ns"] <= row["max_ns"])
            d.compares(row["mean_ns"])


def shares(d, report):
    ratio = report["stages"]["ratio"]
    whole = sum(ratio[f"{x}_ns"] for x in ("launch", "transfer", "sync", "memory", "module", "other"))
    if whole:
        d.same("stages.ratio.compute_share", ratio["compute_share"], ratio["launch_ns"] / whole, 1e-4)
        d.same("stages.ratio.io_share", ratio["io_share"], ratio["transfer_ns"] / whole, 1e-4)


def gaps(o, d, lines, report):
    """The gaps between executions of each device, by length."""
    names = {(x["pid"], x["device"]): x.get("uuid") for x in lines if x["type"] == "gpu_device"}
    runs = collections.defaultdict(list)
    for x in lines:
        if x["type"] == "gpu":
            runs[names.get((x["pid"], x["device"]))].append(o.span(x))
    for row in report["gpu"]["devices"]:
        spans = sorted(runs[row.get("uuid")])
        if row["late"] or not spans:
            continue
        label, end, lengths = f"gpu.{row['device']}", spans[0][0], []
        for a, b in spans:
            if a > end:
                lengths.append((a - end, end))
            end = max(end, b)
        d.same(f"{label}.first_ts", row["first_ts"], spans[0][0] / 1e6, 1e-9)
        d.same(f"{label}.longest_gap_ns", row.get("longest_gap_ns", 0), max(lengths or [(0, 0)])[0], SLACK)
        if lengths:
            d.law(f"{label}.longest_gap_ts", any(g[0] == max(lengths)[0] and abs(g[1] / 1e6 - row["longest_gap_ts"]) < 1e-3 for g in lengths))
            d.compares(row["longest_gap_ts"])
        low = 0
        for gap in row["gaps"]:
            below = gap.get("below_ns", float("inf"))
            mine = [g for g, _ in lengths if low <= g < below]
            d.same(f"{label}.gaps.{below}.count", gap["count"], len(mine))
            d.same(f"{label}.gaps.{below}.total_ns", gap["total_ns"], sum(mine), SLACK)
            low = below


def products(o, d, calls, report):
    if "gemms" not in report:
        return
    mine = [c for c in calls if c.get("flops") and o.returned(c) and not c.get("result")]
    rows = report["gemms"]["list"]
    d.same("gemms.count", report["gemms"]["count"], len(mine))
    d.same("gemms.flops", report["gemms"]["flops"], sum(c["flops"] for c in mine), 1e-6)
    d.same("gemms.list.count", sum(r["count"] for r in rows), len(mine))
    d.same("gemms.list.call_ns", sum(r["call_ns"] for r in rows), sum(took(o, c) for c in mine), SLACK)
    for r in rows:
        for name in ("count", "flops", "call_ns", "gpu_executions", "gpu_ns"):
            d.compares(r[name])
    by_id = {(c["pid"], c["id"]): c for c in calls}
    executions, time = 0, 0
    for x in report["lines of the GPU"]:
        call = by_id.get((x["pid"], x.get("call_id")))
        while call is not None and not call.get("flops"):
            call = by_id.get((x["pid"], call.get("parent")))
        if call is not None:
            executions, time = executions + 1, time + took(o, x)
    d.same("gemms.list.gpu_executions", sum(r["gpu_executions"] for r in rows), executions)
    d.same("gemms.list.gpu_ns", sum(r["gpu_ns"] for r in rows), time, SLACK)


def of_nccl(o, d, calls, report):
    """Kernels that an NCCL call launched."""
    by_id, executions, time = {(c["pid"], c["id"]): c for c in calls}, 0, 0
    for x in report["lines of the GPU"]:
        call = by_id.get((x["pid"], x.get("call_id")))
        outer = call and by_id.get((x["pid"], call.get("parent")))
        if x["op"] == "kernel" and outer and outer["type"] == "collective" and ("bytes" in outer or outer.get("grouped")):
            executions, time = executions + 1, time + took(o, x)
    d.same("communication.gpu_executions", report["communication"]["gpu_executions"], executions)
    d.same("communication.gpu_ns", report["communication"]["gpu_ns"], time, SLACK)


def small(o, d, lines, calls, report):
    """Sums of rows, and counts."""
    pageable, rows = report["transfers"]["pageable"], report["transfers"]["directions"]
    d.same("transfers.pageable.count", pageable["count"], sum(r["pageable"] for r in rows))
    d.law("transfers.pageable: more than all copies", pageable["bytes"] <= sum(r["bytes"] for r in rows) and pageable["total_ns"] <= sum(r["total_ns"] for r in rows))
    d.compares(pageable["bytes"])
    d.compares(pageable["total_ns"])
    by_kernel = collections.defaultdict(set)
    for c in calls:
        if c["type"] == "kernel" and c["op"] == "launch" and o.returned(c) and not c.get("result") and not c.get("capturing"):
            by_kernel[c.get("kernel")].add((c["pid"], c.get("stream")))
    if not any("_pt" in c["symbol"] for c in calls):
        for row in report["kernels"]["list"]:
            if row["name"]:
                d.same(f"kernels.{row['name'][:40]}.streams", row["streams"], len(by_kernel[row["name"]]))
    pools = report["memory"].get("pools", {})
    done = collections.Counter(c["name"] for c in calls if o.returned(c) and not c.get("result"))
    for name, function in (("created", "cuMemPoolCreate"), ("destroyed", "cuMemPoolDestroy"), ("trims", "cuMemPoolTrimTo")):
        d.same(f"memory.pools.{name}", pools.get(name, 0), done[function])
    blamed = {"CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_INVALID_HANDLE", "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"}
    bad = [c for c in calls if c["type"] == "memory" and c["op"] in ("free", "free_host", "free_async", "unregister", "release") and c.get("error") in blamed]
    d.same("memory.bad_free_count", report["memory"]["bad_free_count"], len(bad))
    comms = report["communication"]["communicators"]
    d.same("communication.calls", report["communication"]["calls"], sum(x["count"] for c in comms for x in c["operations"]))
    for c in comms:
        for op in c["operations"]:
            # Failed calls have no size.
            d.same("communication.sizes", sum(s["count"] for s in op["sizes"]), op["count"] - op["errors"])
            for s in op["sizes"]:
                d.compares(s["count"])
        for r in c["ranks"]:
            seqs = {x["seq"] for x in calls if x.get("communicator") == c["communicator"] and x.get("rank") == r["rank"] and x.get("seq") and not x.get("result")}
            d.same(f"communication.ranks.{r['rank']}.collectives", r["collectives"], len(seqs))
    t = report["timeline"]
    for x in t["rows"]:
        d.law("timeline.rows.busy", all(0 <= v <= 1 + 1e-6 for v in x["busy"]))
        for v in x["busy"][:1]:
            d.compares(v)
    for x in t["classes"].values():
        for v in x[:1]:
            d.compares(v)


def check(o, d, lines, calls, report):
    means(d, report)
    if any(x["type"] == "gpu" for x in lines) and not report["gpu"]["rejected"]:
        gaps(o, d, lines, report)
        queue = report["gpu"].get("queue")
        if queue:
            waited = [x for x in lines if x["type"] == "gpu" and "queue_us" in x and (x["op"] == "graph" or "GraphLaunch" not in x.get("call", ""))]
            d.same("gpu.queue.count", queue["count"], len(waited))
    driver = [c for c in calls if c["type"] in o.DRIVER]
    top = sum(took(o, c) for c in o.outermost(driver, {c["id"]: c for c in driver}) if o.timed(c) and not c.get("abandoned"))
    d.same("overview.call_ns", report["overview"]["call_ns"], top, SLACK)
    if report["overview"].get("redacted") == "arguments":
        return
    statistics(d, report)
    shares(d, report)
    with_lines = {**report, "lines of the GPU": [x for x in lines if x["type"] == "gpu"]}
    products(o, d, calls, with_lines)
    of_nccl(o, d, calls, with_lines)
    small(o, d, lines, calls, report)
