# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The daemon's /metrics and OTLP, recomputed from the lines of its files of the same run, at level trace.

SERIES has a function for each metric, from the lines of one command to {labels: value}. NOT_RECOMPUTED names the others.
The command of a line is its `comm`.
"""
import collections
import re

import oracle
import summary

NOT_RECOMPUTED = {
    r"DCGM_\w+|cudatrace_gpu_(active_seconds_total|active_sampled_seconds_total|active_sampling_seconds_total|traffic_bytes_total|memory_used_bytes|utilization|throttled_seconds_total|samples_total|sampling_seconds_total|energy_joules_total|idle_energy_joules_total)": "NVML: suite gpu_stats",
    r"cudatrace_(ioctls?|ioctl_seconds|gpu_resident_seconds|gpu_context_switches|xids)_total": "suites kernel, ctxsw, daemon_levels",
    r"cudatrace_(build|gpu)_info": "words",
    r"cudatrace_self_\w+|cudatrace_work_\w+|cudatrace_loop_turn_max_seconds|cudatrace_http_\w+|cudatrace_config_\w+|cudatrace_reads_\w+": "of the daemon itself",
    r"cudatrace_(file_bytes|files?_\w+|files_total|dumps_total|recorder_\w+|bursts_total)": "suites daemon_files, daemon_levels",
    r"cudatrace_(series\w*|table_used|processes|processes_inproc|names_not_demangled_total)": "tables of the daemon: suites daemon_shares, metrics",
    r"cudatrace_otlp_\w+": "suite otlp",
    r"cudatrace_profile_\w+": "suite profiles",
    r"cudatrace_dossiers_\w+": "suite dossier",
    r"cudatrace_injections_total": "suite late",
    r"cudatrace_hang(s_total|ing)": "waits that last: suite hangs",
    r"cudatrace_(table_full|dropped|libraries_without_probes)_total": "of all processes of the machine: suites losses, blocking",
    r"cudatrace_gpu_(executions_lost_total|discarded_bytes_total)": "not in lines: suite gpu_time_daemon",
}
LABELS_OF_TARGET = "namespace", "pod", "container", "command"
TOLERANCE = 1e-8  # nine digits are printed


def key(**labels):
    return frozenset((k, str(v)) for k, v in labels.items() if v is not None)


class Run:
    """The lines of one command."""

    def __init__(self, lines):
        self.lines = lines
        self.calls = [x for x in lines if "symbol" in x]
        self.by_id = {c["id"]: c for c in self.calls}
        self.good = [c for c in self.calls if oracle.returned(c) and not summary.failed(c)]
        self.ran = [c for c in self.good if not c.get("capturing")]
        self.gpu = [x for x in lines if x["type"] == "gpu"]


def sums(rows):
    out = collections.Counter()
    for k, n in rows:
        out[k] += n
    return out


def seconds(x):
    a, b = oracle.span(x)
    return (b - a) / 1e9


def of_class(c):
    return "launch" if c["type"] == "kernel" else c["type"]


def launch(r, kind):
    return {key(): sum(c["type"] == kind and c["op"] == "launch" for c in r.ran)}


def collectives(r, value):
    """Nested collectives do not count; the end of a group launches the group's collectives."""
    ops = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "gather", "scatter", "send", "recv", "group_end"}
    return sums((key(op=c["op"]), value(c)) for c in oracle.outermost([c for c in r.good if c["type"] == "collective"], r.by_id) if c["op"] in ops)


def memory(r, value):
    ended = {x["pid"] for x in r.lines if x["type"] == "process" and x["op"] == "exit"}
    assert ended >= {c["pid"] for c in r.calls}, "without an exit line the time at which memory was freed is unknown"
    rows = summary.memory(r.lines, r.calls, r.by_id)
    return {key(kind=name.split()[-1]): value(row) for name, row in rows.items()}


def executions(r, value):
    return sums((key(device=x["device"], op=x["op"]), value(x)) for x in r.gpu)


def at_the_end(_):
    """The value after its processes have ended."""
    return 0


SERIES = {
    "cudatrace_calls_total": lambda r: sums((key(**{"function": c["symbol"], "class": of_class(c), "api": c.get("api")}), 1) for c in r.calls),
    "cudatrace_errors_total": lambda r: sums((key(function=c["symbol"], error=c.get("error", "other"), api=c.get("api")), 1) for c in r.calls if summary.failed(c)),
    "cudatrace_launches_total": lambda r: launch(r, "kernel"),
    "cudatrace_graph_launches_total": lambda r: launch(r, "graph"),
    "cudatrace_graph_nodes_captured_total": lambda r: {key(): sum(c["type"] == "kernel" and c["op"] == "launch" and bool(c.get("capturing")) for c in r.good)},
    "cudatrace_transfer_bytes_total": lambda r: sums((key(direction=c.get("direction", "unknown")), c["size"]) for c in r.ran
                                                     if c["type"] == "transfer" and c["op"] == "copy" and c.get("size")),
    "cudatrace_collectives_total": lambda r: collectives(r, lambda c: 1),
    "cudatrace_collective_host_seconds_total": lambda r: collectives(r, seconds),
    "cudatrace_collective_bytes_total": lambda r: collectives(r, lambda c: c.get("bytes", 0)),
    "cudatrace_memory_bytes": lambda r: memory(r, at_the_end),
    "cudatrace_memory_peak_bytes": lambda r: memory(r, lambda row: row["peak"]),
    "cudatrace_gpu_executions_total": lambda r: executions(r, lambda x: 1),
    "cudatrace_gpu_execution_seconds_total": lambda r: executions(r, seconds),
    "cudatrace_gpu_communication_seconds_total": lambda r: sums((key(device=x["device"]), seconds(x)) for x in r.gpu
                                                                if x["op"] == "kernel" and x.get("kernel", "").startswith("nccl")),
    "cudatrace_target_processes": lambda r: {key(): at_the_end(r)},
}
HISTOGRAM = "cudatrace_call_duration_seconds"


def histogram(r, bounds):
    """(class, api): (counts up to each limit, count, sum). A limit itself belongs to its bucket."""
    found = collections.defaultdict(list)
    for c in r.calls:
        if oracle.returned(c):
            found[key(**{"class": of_class(c), "api": c.get("api")})].append(seconds(c))
    return {k: ([sum(x <= b + 1e-12 for x in v) for b in bounds], len(v), sum(v)) for k, v in found.items()}


def commands(lines):
    """The lines by command; after an exec, lines belong to the new program."""
    found = collections.defaultdict(list)
    for x in lines:
        if x["type"] not in ("header", "end") and "comm" in x:
            found[x["comm"]].append(x)
    return {name: Run(x) for name, x in found.items() if any("symbol" in y for y in x)}


class Compare(list):
    def __init__(self):
        super().__init__()
        self.compared, self.names = 0, set()

    def same(self, name, got, want):
        """Compares the series of one metric and command."""
        self.names.add(name)
        if want is None:
            return
        want = {k: v for k, v in want.items() if v or k in got}
        for k in {*got, *want}:
            self.compared += 1
            a, b = got.get(k), want.get(k, 0)
            if a is None and not b:
                continue
            if a is None or abs(a - b) > TOLERANCE * abs(b):
                self.append(f"{name} {dict(k)}: the daemon has {a}, the lines have {b}")


def by_name(series, command):
    found = collections.defaultdict(dict)
    for name, labels, value in series:
        if labels.get("command") == command:
            found[name][key(**{k: v for k, v in labels.items() if k not in LABELS_OF_TARGET})] = value
    return found


def histograms(c, found, r):
    rows = collections.defaultdict(dict)
    for k, v in found[HISTOGRAM + "_bucket"].items():
        labels = dict(k)
        rows[key(**{n: x for n, x in labels.items() if n != "le"})][float(labels["le"])] = v
    bounds = sorted({b for x in rows.values() for b in x})
    want = histogram(r, bounds)
    c.same(HISTOGRAM + "_bucket", {k | {("le", b)}: v for k, x in rows.items() for b, v in x.items()}, {k | {("le", b)}: n for k, x in want.items() for b, n in zip(bounds, x[0])})
    c.same(HISTOGRAM + "_count", found[HISTOGRAM + "_count"], {k: x[1] for k, x in want.items()})
    c.same(HISTOGRAM + "_sum", found[HISTOGRAM + "_sum"], {k: x[2] for k, x in want.items()})


def compare(lines, series):
    """series: [(name, labels, value)] as helpers.daemon reads /metrics."""
    c = Compare()
    for command, r in commands(lines).items():
        found = by_name(series, command)
        for name, recompute in SERIES.items():
            c.same(name, found[name], recompute(r))
        histograms(c, found, r)
    unknown = {n for n, _, _ in series} - c.names - {n for n, _, _ in series if any(re.fullmatch(x, n) for x in NOT_RECOMPUTED)}
    c += [f"{n}: neither recomputed nor listed" for n in unknown]
    return c


def costs(lines):
    """Differences in the cost of tracing that a file of the daemon has: of its own calls, over its own time."""
    head, end = lines[0], lines[-1]
    cost_ns, took_ns = end["calls"] * end["probe_cost_ns"], end["ts"] * 1e6 - head["begin_ns"]
    want = {"cost_ms": cost_ns / 1e6, "cost_share": end["cost_ms"] * 1e6 / took_ns}
    return [f"{k}: the file has {end[k]}, its lines have {x}" for k, x in want.items() if abs(end[k] - x) > max(2e-5 * x, 2e-6 if k == "cost_ms" else 0)]


# ---- OTLP ----

def span_of(c):
    """The expected span of a call. Its status is unset (0), or an error (2) with the result's name."""
    error = c.get("error", "unknown") if summary.failed(c) else None
    return {"name": c["symbol"], "pid": c["pid"], "thread.id": c["tid"], "cuda.function": c["symbol"], "cuda.class": of_class(c), "cuda.kernel": c.get("kernel"),
            "cuda.stream": c.get("stream"), "cuda.bytes": c.get("size"), "cuda.direction": c.get("direction"),
            "cuda.error": error, "status": (2, error) if error else (0, None), "ns": oracle.span(c)[1] - oracle.span(c)[0]}


def as_span(s):
    """A span in the same form, numbers as numbers."""
    a = {k: int(v) if k in ("thread.id", "cuda.bytes") else v for k, v in s["attrs"].items()}
    names = "thread.id", "cuda.function", "cuda.class", "cuda.kernel", "cuda.stream", "cuda.bytes", "cuda.direction", "cuda.error"
    if set(a) - set(names):
        raise ValueError(f"attributes that nobody compares: {set(a) - set(names)}")
    return {"name": s["name"], "pid": int(s["resource"]["process.pid"]), **{n: a.get(n) for n in names},
            "status": (s["status"].get("code", 0), s["status"].get("message")), "ns": int(s["endTimeUnixNano"]) - int(s["startTimeUnixNano"])}


def compare_spans(lines, spans, zero_ns):
    """Each call must have its span, in the order in which threads began them. zero_ns: the Unix time of ts 0."""
    found = []
    order = lambda x: (x[0]["pid"], x[0]["thread.id"], x[1], -x[0]["ns"])  # noqa: E731
    want = sorted(((span_of(c), oracle.span(c)[0] + zero_ns) for c in lines if "symbol" in c and oracle.returned(c)), key=order)
    got = sorted(((as_span(s), int(s["startTimeUnixNano"])) for s in spans), key=order)
    if len(want) != len(got):
        found.append(f"{len(got)} spans, {len(want)} calls")
    for (a, at), (b, there) in zip(got, want):
        found += [f"{b['name']}: {k} is {a[k]}, the line has {b[k]}" for k in b if a[k] != b[k]]
        if abs(at - there) > 5_000_000:
            found.append(f"{b['name']}: starts {(at - there) / 1e6} ms beside its line")
    return found


UNITS = {"s": "_seconds", "By": "_bytes"}
RESOURCE = {"container.id": "container", "k8s.namespace.name": "namespace", "k8s.pod.name": "pod", "k8s.container.name": "container", "process.executable.name": "command"}


def of_otlp(body):
    """[(name, labels, value)] as a collector's Prometheus exporter makes them."""
    out = []
    attrs = lambda x: {a["key"]: next(iter(a["value"].values())) for a in x["attributes"]}  # noqa: E731
    for rm in body["resourceMetrics"]:
        target = {RESOURCE[k]: v for k, v in attrs(rm["resource"]).items() if k in RESOURCE}
        for m in (m for sm in rm["scopeMetrics"] for m in sm["metrics"]):
            name = m["name"].replace(".", "_") + UNITS.get(m["unit"], "")
            for kind in ("sum", "gauge"):
                for p in m.get(kind, {}).get("dataPoints", []):
                    value = int(p["asInt"]) if "asInt" in p else p["asDouble"]
                    out.append((name + ("_total" if kind == "sum" else ""), {**target, **attrs(p)}, value))
            for p in m.get("histogram", {}).get("dataPoints", []):
                labels, below = {**target, **attrs(p)}, 0
                for n, bound in zip(p["bucketCounts"], [*p["explicitBounds"], float("inf")]):
                    below += int(n)
                    out.append((name + "_bucket", {**labels, "le": float(f"{bound:.9g}")}, below))
                out += [(name + "_count", labels, int(p["count"])), (name + "_sum", labels, p["sum"])]
    return out


def differences(series, other, command):
    """Differences between two lists of (name, labels, value) for one command, without empty labels."""
    def rows(x):
        return {(n, key(**{k: float(v) if k == "le" else v for k, v in of.items() if v != ""})): v for n, of, v in x if of.get("command") == command}
    a, b = rows(series), rows(other)
    found = [f"{k}: {a.get(k)}, in OTLP {b.get(k)}" for k in a if k not in b or abs(a[k] - b[k]) > TOLERANCE * abs(a[k])]
    return found + [f"{k}: only in OTLP" for k in set(b) - set(a) if not any(re.fullmatch(x, k[0]) for x in NOT_RECOMPUTED)]
