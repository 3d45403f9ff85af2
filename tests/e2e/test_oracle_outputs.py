# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 15
"""Outputs other than the report against the lines of the same run: the live summary's JSON, top's tables, the daemon's metrics,
OTLP."""
import base64
import collections
import copy
import datetime
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile

import pytest
from helpers.daemon import Daemon, library
from helpers.run import CASES, CUDATRACE, FAKE, O, TESTS, Ran, needs_tracing, until

sys.path.insert(0, TESTS + "/oracle")
import metrics  # noqa: E402
import oracle  # noqa: E402
import summary  # noqa: E402

MIX = TESTS + "/oracle/mix.py"
ENV = {"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti"}
LIBCUDA, LIBNCCL = FAKE + "/libcuda.so.1", FAKE + "/libnccl.so.2"


def mix(seed):
    return [sys.executable, MIX, LIBCUDA, str(seed), LIBNCCL]


# ---- The live summary ----

def summed(folder, *command, options=()):
    """Lines and summary of a run."""
    needs_tracing()
    path = str(folder / "t.jsonl")
    ran = Ran([CUDATRACE, "-q", "--json", "--summary", "-e", "all,nccl", *options, "--jsonl", path, "--", *command], env=ENV)
    return oracle.read(path), json.loads(ran.err.rstrip().split("\n")[-1])


# Each program has something that the others lack: several processes, errors, graphs, unfinished and abandoned calls, kinds of memory.
PROGRAMS = {
    **{f"mix {n}": (mix(n), ()) for n in (1, 2)},
    **{n: ([f"{CASES}/{n}"], ()) for n in ("mem_kinds", "memory", "memcpy", "nccl", "longjmp", "exit_in_call", "exec")},
    "gpu time": ([FAKE + "/sample", "--quiet", "--tokens", "4"], ("--gpu-time",)),
    "counted": (mix(3), ("--count", "event,memory")),
    "losses": (mix(4), ("--buffer-size", "64K")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_summary(tmp_path, name):
    command, options = PROGRAMS[name]
    c = summary.compare(*summed(tmp_path, *command, options=options))
    assert not c
    assert c.compared > 80


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 40))
def test_summary_of_many(tmp_path, seed):
    assert not summary.compare(*summed(tmp_path, *mix(seed)))


def numbers(node, path=()):
    if isinstance(node, (dict, list)):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from numbers(value, (*path, key))
    elif isinstance(node, (int, float)) and not isinstance(node, bool):
        yield path


def changed(tree, path):
    tree = copy.deepcopy(tree)
    node = tree
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = node[path[-1]] * 2 + 1
    return tree


def test_summary_each_number_counts(tmp_path):
    """A change of any number must be found, except of listed ones."""
    lines, said = summed(tmp_path, *mix(1))
    known = {"schema", "level_changes", "detail_low_saving_ms"}
    unnoticed = [p for p in numbers(said) if p[-1] not in known and not summary.compare(lines, changed(said, p))]
    assert not unnoticed


# ---- The daemon: metrics, spans ----

class Served:
    """A daemon at level trace, and a program run under it: the lines of its files, /metrics, and the data that a collector received."""

    def __init__(self, folder, seed, inject):
        needs_tracing()
        (folder / "lib").mkdir()
        libcuda = shutil.copy(LIBCUDA, folder / "lib")
        (folder / "mode").write_text("200")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.got = folder / "got"
        collector = subprocess.Popen([sys.executable, f"{TESTS}/otlp/receiver.py", str(port), str(folder / "mode"), str(self.got)])
        try:
            d = Daemon(folder, "--set", f"otlp.endpoint=http://127.0.0.1:{port}", "--set", "otlp.slow_call=0.001us", "--set", "otlp.interval=1s", "--set", "otlp.queue=100000",
                       libcuda=libcuda)
            # A private name for the program and its children: other programs may use CUDA meanwhile.
            program = folder / "mix83"
            program.symlink_to(sys.executable)
            env = {**os.environ, "LD_LIBRARY_PATH": f"{folder}/lib:{O}/cupti", **(library(d.folder) if inject else {})}
            subprocess.run([program, MIX, libcuda, str(seed), LIBNCCL], env=env, check=True)
            self.series = []
            until(lambda: self.is_settled(d))
            d.stop()
        finally:
            collector.kill()
            collector.wait()
        self.files = [oracle.read(str(f)) for f in sorted(d.files.iterdir()) if f.is_file()]
        self.lines = [self.files[0][0], *(x for f in self.files for x in f if x.get("comm") == "mix83")]
        self.requests = []
        for line in self.got.read_text(encoding="utf-8").splitlines():
            r = json.loads(line)
            self.requests.append((r["path"], json.loads(base64.b64decode(r["body"]))))


    def is_settled(self, d):
        """Its processes have ended, no new data came since the last check, and spans are sent."""
        before, self.series = self.series, d.series()
        mine, earlier = ([x for x in series if x[1].get("command") == "mix83"] for series in (self.series, before))
        return mine and mine == earlier and not any(v for n, of, v in self.series if n == "cudatrace_otlp_queued" or (n, of.get("command")) == ("cudatrace_target_processes", "mix83"))


@pytest.fixture(scope="module", params=["uprobe", "inject"])
def served(request):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            yield Served(pathlib.Path(folder), 5, request.param == "inject")
        finally:
            for p in Daemon.running:
                if p.poll() is None:
                    p.kill()
                    p.wait()
            Daemon.running.clear()


def test_metrics(served):
    c = metrics.compare(served.lines, served.series)
    assert not c, collections.Counter((x["pid"], x["comm"]) for x in served.lines if "symbol" in x)
    assert c.compared > 200


def test_metrics_each_number_counts(served):
    """A wrong number in any series must be found, except in listed ones."""
    def is_mine(name, of):
        return of.get("command") == "mix83" and not any(re.fullmatch(x, name) for x in metrics.NOT_RECOMPUTED)
    other = [(n, of, v * 2 + 1 if is_mine(n, of) else v) for n, of, v in served.series]
    found, mine = metrics.compare(served.lines, other), {n for n, of, _ in served.series if is_mine(n, of)}
    missed = [x for x in other if is_mine(x[0], x[1]) and not any(f.startswith(x[0] + " ") for f in found)]
    # Memory is not compared for a process without an exit line.
    assert len(found) > 200 and len(mine) > 10 and not [x for x in missed if "_memory_" not in x[0]]
    run = metrics.commands(served.lines)["mix83"]
    assert mine >= {n for n, recompute in metrics.SERIES.items() if any((recompute(run) or {}).values())}


def attributes(x):
    return {a["key"]: next(iter(a["value"].values())) for a in x["attributes"]}


def spans(served):
    pids = {x["pid"] for x in served.lines if "symbol" in x}
    return [dict(s, resource=attributes(rs["resource"]), attrs=attributes(s)) for path, body in served.requests if path.endswith("/v1/traces")
            for rs in body["resourceSpans"] if int(attributes(rs["resource"])["process.pid"]) in pids for ss in rs["scopeSpans"] for s in ss["spans"]]


def zero_ns(served):
    head = served.lines[0]
    return int(datetime.datetime.fromisoformat(head["wall_time"][:19] + "+00:00").timestamp()) * 10**9 + int(head["wall_time"][20:29])


def test_spans(served):
    assert len({f[0]["clock_base_ns"] for f in served.files}) == 1
    mine = spans(served)
    assert not metrics.compare_spans(served.lines, mine, zero_ns(served))
    assert {s["resource"]["process.executable.name"] for s in mine} == {"mix83"}


def test_spans_each_attribute_counts(served):
    """A wrong attribute, a wrong length and a missing span must each be found."""
    mine, zero = spans(served), zero_ns(served)
    for name in {k for s in mine for k in s["attrs"]}:
        other = copy.deepcopy(mine)
        s = next(s for s in other if name in s["attrs"])
        s["attrs"][name] = "77777" if s["attrs"][name].isdigit() else "x"
        assert metrics.compare_spans(served.lines, other, zero), name
    assert {s["status"].get("code") for s in mine} == {None, 2}
    for code in (None, 2):
        for status in ({"code": 1}, {"code": 2, "message": "x"}, {} if code else {"code": 2, "message": "CUDA_ERROR_UNKNOWN"}):
            other = copy.deepcopy(mine)
            next(s for s in other if s["status"].get("code") == code)["status"] = status
            assert metrics.compare_spans(served.lines, other, zero), (code, status)
    assert metrics.compare_spans(served.lines, mine[1:], zero)
    longer = [{**mine[0], "endTimeUnixNano": str(int(mine[0]["endTimeUnixNano"]) + 1)}, *mine[1:]]
    assert metrics.compare_spans(served.lines, longer, zero)


def test_costs_of_files(served):
    """The cost in a daemon's file must follow from its own calls and its own time, not from the daemon's."""
    traced = [f for f in served.files if f[-1]["calls"]]
    assert traced
    for lines in traced:
        assert not metrics.costs(lines)
        head, end = lines[0], lines[-1]
        assert metrics.costs([{**head, "begin_ns": 0}, end]) and metrics.costs([head, {**end, "cost_share": end["cost_share"] * 1.01}])


def test_otlp_metrics(served):
    """The last metrics that the collector received must equal those of /metrics."""
    last = [body for path, body in served.requests if path.endswith("/v1/metrics")][-1]
    got = metrics.of_otlp(last)
    assert not metrics.differences(served.series, got, "mix83")
    other = [(n, of, v + 1) for n, of, v in got]
    mine = sum(of.get("command") == "mix83" for _, of, _ in got)
    assert len(metrics.differences(served.series, other, "mix83")) == mine > 200


# ---- top ----

def rows_of_top(processes):
    """Rows sorted by the called functions, because process ids differ between two runs."""
    return sorted(({"calls": p["calls"], "errors": p["errors"], "launches": p["launches"], "copied_bytes": p["copied_bytes"],
                    "functions": {f["symbol"]: (f["calls"], f["all_calls"], f["errors"]) for f in p["functions"]}} for p in processes), key=lambda r: sorted(r["functions"].items()))


def rows_of_lines(lines):
    found = collections.defaultdict(list)
    for x in lines:
        if "symbol" in x:
            found[x["pid"]].append(x)
    out = []
    for calls in found.values():
        functions = collections.defaultdict(list)
        for c in calls:
            functions[c["symbol"]].append(c)
        launches = [c for c in calls if c["type"] in ("kernel", "graph") and c["op"] == "launch" and not summary.failed(c)]
        copies = [c for c in calls if c["type"] == "transfer" and c["op"] == "copy" and not summary.failed(c)]
        out.append({"calls": len(calls), "errors": sum(map(summary.failed, calls)), "launches": len(launches), "copied_bytes": sum(c.get("size", 0) for c in copies),
                    "functions": {k: (len(v), len(v), sum(map(summary.failed, v))) for k, v in functions.items()}})
    return sorted(out, key=lambda r: sorted(r["functions"].items()))


@pytest.mark.parametrize("seed", [6, 7])
def test_top(tmp_path, seed):
    """top's table of a run in one interval must match the lines of another run: the same seed makes the same calls. Times differ and are
    not compared."""
    lines, _ = summed(tmp_path, *mix(seed))
    ran = Ran([CUDATRACE, "top", "--json", "--interval", "600", "--all", "--", *mix(seed)], env=ENV)
    t = json.loads(ran.out.rstrip().split("\n")[-1])
    want = rows_of_lines(lines)
    assert rows_of_top(t["processes"]) == want
    assert {k: t[k] for k in ("calls", "errors", "launches", "copied_bytes")} == {k: sum(r[k] for r in want) for k in ("calls", "errors", "launches", "copied_bytes")}
    assert (t["device_bytes"], t["lost"], t["unlisted"], t["complete"]) == (0, 0, 0, True)
