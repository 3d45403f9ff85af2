# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The report's section `gpu_metrics`, computed again from the lines alone.

check(lines, report): returns what differs, as a list of texts. made(seed): lines of a trace with samples and executions at random."""
import bisect
import collections
import random

OWN, OTHERS, FEW, IDLE = 0.8, 0.2, 3, 1
VALUES = ("gr_active", "sm_active", "tensor_active", "dram_active", "dram_read", "dram_write", "inst_executed", "sm_occupancy", "l2_active", "pcie_read",
          "pcie_write", "nvlink_rx", "nvlink_tx", "ctas_launched", "l1_sectors", "l1_hit_rate")


def span(line):
    begin = round(line["ts"] * 1e6)
    return begin, begin + round(line["duration_us"] * 1e3)


def mean(rows, name):
    """The mean over time of a member of samples that have it."""
    rows = [r for r in rows if name in r]
    ns = sum(span(r)[1] - span(r)[0] for r in rows)
    return sum(r[name] * (span(r)[1] - span(r)[0]) for r in rows) / ns if ns else None


def busy_mean(rows, name):
    rows = [r for r in rows if name in r and r.get("gr_active", 0) >= IDLE]
    active = sum(r["gr_active"] / 100 * (span(r)[1] - span(r)[0]) for r in rows)
    return sum(r[name] * (span(r)[1] - span(r)[0]) for r in rows) / active if active else None


def check(lines, report):
    wrong = []

    def same(what, got, want):
        if got is None or want is None or isinstance(want, str):
            if got != want:
                wrong.append(f"{what}: {got!r}, not {want!r}")
        elif abs(got - want) > 2e-5 * max(abs(got), abs(want)) + 1e-9:
            wrong.append(f"{what}: {got!r}, not {want!r}")
    r, metrics = report.get("gpu_metrics"), [x for x in lines if x["type"] == "gpu_metrics" and "gpu" in x]
    if not any(x["op"] == "sample" for x in metrics):
        return [] if r is None else ["there are no samples"]
    uuids = {x["gpu"]: x["uuid"] for x in metrics if "uuid" in x}
    devices = {(x["pid"], x["device"]): x["uuid"] for x in lines if x["type"] == "gpu_device" and "uuid" in x}
    same("GPUs", str(sorted(x["gpu"] for x in r["gpus"])), str(sorted(uuids)))
    total, listed = {}, {(k["op"], k.get("kernel"), k["gpu"]): k for k in r["kernels"]}
    for g in r["gpus"]:
        rows = [x for x in metrics if x["gpu"] == g["gpu"] and x["op"] == "sample"]
        same("samples", g["samples"], len(rows))
        same("sampled_ns", g["sampled_ns"], sum(span(x)[1] - span(x)[0] for x in rows))
        same("members", ",".join(sorted(g["values"])), ",".join(sorted(n for n in VALUES if any(n in x for x in rows))))
        for name, v in g["values"].items():
            same(f"mean {name}", v["mean"], mean(rows, name))
            same(f"max {name}", v["max"], max(x[name] for x in rows if name in x))
            same(f"busy_mean {name}", v.get("busy_mean"), busy_mean(rows, name))
        # Executions by what they are, on this GPU.
        of = collections.defaultdict(list)
        for x in lines:
            if x["type"] == "gpu" and devices.get((x["pid"], x["device"])) == g["uuid"]:
                of[x["op"], x.get("kernel")].append(span(x))
        mine, longest = collections.defaultdict(list), max([e - b for spans in of.values() for b, e in spans] or [0])
        for spans in of.values():
            spans.sort()
        for row in rows:
            begin, end = span(row)
            fill = {}
            for what, spans in of.items():
                near = spans[bisect.bisect_left(spans, (begin - longest, 0)):bisect.bisect_left(spans, (end, 0))]
                fill[what] = sum(max(0, min(end, e) - max(begin, b)) for b, e in near)
            for what, ns in fill.items():
                if ns >= OWN * (end - begin) and sum(fill.values()) - ns <= OTHERS * (end - begin):
                    mine[what].append((row, min(ns, end - begin)))
        same("attributed", g["attributed"], sum(map(len, mine.values())))
        for what, spans in of.items():
            total[(*what, g["gpu"])] = gpu_ns = sum(e - b for b, e in spans)
            k, rows_of = listed.pop((*what, g["gpu"]), None), mine[what]
            if (k is not None) != (len(rows_of) >= FEW):
                wrong.append(f"{what}: {len(rows_of)} samples, {k}")
            if k is None:
                continue
            same(f"{what} gpu_ns", k["gpu_ns"], gpu_ns)
            same(f"{what} samples", k["samples"], len(rows_of))
            time, own = sum(span(x)[1] - span(x)[0] for x, _ in rows_of), sum(ns for _, ns in rows_of)
            same(f"{what} sampled_ns", k["sampled_ns"], time)
            same(f"{what} fills", k["fills"], own / time)
            same(f"{what} covered", k["covered"], own / gpu_ns)
            for name in VALUES:
                same(f"{what} {name}", k["values"].get(name), mean([x for x, _ in rows_of], name))
    wrong += [f"{what} is not in the trace" for what in listed]
    order = [total.get((k["op"], k.get("kernel"), k["gpu"]), 0) for k in r["kernels"]]
    if order != sorted(order, reverse=True):
        wrong.append(f"order: {order}")
    same("rejected", r["rejected"], 0)
    return wrong


def made(seed, count=400):
    """Lines with two GPUs, samples with gaps, and executions of some kernels, short and long, that may overlap and begin before and end after
    all samples. Executions come late, in groups."""
    rnd, body = random.Random(seed), []
    uuid = [f"GPU-00000000-0000-0000-0000-00000000000{i}" for i in range(2)]
    pid = {"pid": 7, "tid": 7, "comm": "train"}
    head = {"ts": 0.0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0.1.0", "clock": "CLOCK_MONOTONIC", "clock_base_ns": 1000000000}
    for i in range(2):
        body.append({"ts": 0.1, "type": "gpu_device", "op": "device", "name": "device", **pid, "device": 1 - i, "uuid": uuid[i]})
        body.append({"ts": 0.1, "type": "gpu_metrics", "op": "device", "name": "PM sampling", "pid": 0, "tid": 0, "comm": "", "gpu": i, "uuid": uuid[i],
                     "model": "GPU", "interval_us": 1000.0})
    late = []
    for gpu in range(2):
        at = rnd.randrange(0, 3000000)
        while at < count * 1000000:
            ns = rnd.choice((2000, 90000, 700000, 2500000, 9000000))
            ns = rnd.randrange(ns // 2, ns)
            what = rnd.choice(("gemm", "gemm", "softmax", "add", None))
            line = {"ts": at / 1e6, "type": "gpu", "op": "kernel" if what else rnd.choice(("copy", "graph")), "name": "execution", **pid, "duration_us": ns / 1e3,
                    "device": 1 - gpu, "context": 1, "gpu_stream": 7, "correlation": len(late)}
            for _ in range(rnd.choice((1, 1, 4))):
                late.append({**line, **({"kernel": what} if what else {}), "ts": at / 1e6})
                at += ns + rnd.choice((0, 0, 0, 1000, 30000))
            at -= rnd.choice((0, 0, 0, ns // 2))
        for k in range(count):
            if rnd.random() < 0.02:
                continue
            active = rnd.choice((0, 0.5, 50, 100)) + rnd.random() / 2
            row = {"gr_active": round(active, 3)}
            for name in VALUES[1:]:
                if rnd.random() < 0.97 and name != "nvlink_rx":
                    row[name] = rnd.randrange(10**12) if name.endswith(("read", "write", "tx", "launched", "sectors")) else round(rnd.random() * active, 3)
            body.append({"ts": k + gpu * 0.3, "type": "gpu_metrics", "op": "sample", "name": "PM sampling", "pid": 0, "tid": 0, "comm": "", "duration_us": 1000.0,
                         "gpu": gpu, "uuid": uuid[gpu], **row, "cost_us": 1.0})
    body = sorted([*body, *late], key=lambda x: x["ts"] + x.get("duration_us", 0) / 1e3)
    types = collections.Counter(x["type"] for x in body)
    end = {"ts": count + 100.0, "type": "end", "name": "cudatrace", "reason": "exit", "events": dict(types), "calls": 0, "entries": 0, "unfinished": 0, "abandoned": 0, "wall_ms": count + 100.0}
    return [head, *body, end]
