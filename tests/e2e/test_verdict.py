# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""The results that a person sees first: the short report, failures, and the verdict, for programs with one bottleneck each, and for the corpus.

A program is made of steps of one millisecond, in which host and GPU do what the test says. tests/oracle/verdict.py recomputes the verdict
from the lines, and must also agree with the planted bottleneck."""
import glob
import json
import os
import re
import sys

import pytest
from helpers.run import TESTS, cudatrace

sys.path.insert(0, TESTS + "/oracle")
import oracle  # noqa: E402

CORPUS = sorted(glob.glob(TESTS + "/corpus/*.jsonl.zst"))
PID = 4000
STEPS = 20
CALLS = {
    "launch": ("kernel", "launch", "cuLaunchKernel", {"stream": "0x10", "kernel": "k(int)", "grid": [64, 1, 1], "block": [128, 1, 1], "shared_mem": 0, "args": {"hStream": "0x10"}}),
    "sync": ("sync", "sync", "cuStreamSynchronize", {"stream": "0x10", "args": {"hStream": "0x10"}}),
    "alloc": ("memory", "alloc", "cuMemAlloc", {"size": 4096, "ptr": "0x7f0000000000", "args": {}}),
    "free": ("memory", "free", "cuMemFree", {"ptr": "0x7f0000000000", "args": {}}),
    "load": ("module", "load", "cuModuleLoadData", {"args": {}}),
    "HtoD": ("transfer", "copy", "cuMemcpyHtoDAsync", {"direction": "HtoD", "stream": "0x10", "ptr": "0x7f0000000000", "args": {"hStream": "0x10"}}),
    "DtoH": ("transfer", "copy", "cuMemcpyDtoH", {"direction": "DtoH", "ptr": "0x7f0000000000", "args": {}}),
}


class Program:
    """The lines of a trace; times in us."""

    def __init__(self, startup=500):
        self.lines, self.now, self.id, self.gpus = [], 1000, 0, 0
        self.add("context", "retain", "cuDevicePrimaryCtxRetain", startup, args={"pctx": "0xc000", "dev": 0})

    def add(self, kind, op, name, us, **more):
        self.id += 1
        self.lines.append({"ts": self.now / 1e3, "type": kind, "op": op, "name": name, "symbol": name, "pid": PID, "tid": PID, "comm": "planted", "id": self.id,
                           **({} if "unfinished" in more else {"duration_us": us, "result": 0}), **more})
        self.now += us
        return self.lines[-1]

    def call(self, what, us, **more):
        kind, op, name, members = CALLS[what]
        return self.add(kind, op, name, us, **{**members, **more})

    def gpu(self, op, at, us, **more):
        self.gpus += 1
        more = {"kernel": more.get("kernel", "k")} if op == "kernel" else {"size": 4096, "direction": "HtoD"}
        self.lines.append({"ts": at / 1e3, "type": "gpu", "op": op, "name": op, "pid": PID, "tid": PID, "comm": "planted", "duration_us": us, "device": 0, "context": 1,
                           "gpu_stream": 7, "correlation": self.gpus, **more})

    def kernel(self, at, us, name="k"):
        self.gpu("kernel", at, us)
        self.lines[-1]["kernel"] = name

    def steps(self, host, gpu=(), n=STEPS):
        for _ in range(n):
            begin = self.now
            for what, us, *size in host:
                if what == "host":
                    self.now += us
                else:
                    self.call(what, us, **({"size": size[0]} if size else {}))
            for op, at, us in gpu:
                if op == "copy":
                    self.gpu("copy", begin + at, us)
                else:
                    self.kernel(begin + at, us, op)

    def write(self, path, header=None, end=None, exit_line=None):
        gpu = {"gpu_time": "graphs"} if self.gpus else {}
        head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["planted"], "host": "h", "kernel": "6.1", "machine": "x86_64",
                "mechanism": "uprobe.session", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9, "wall_time": "2026-01-01T00:00:00.000000000Z", **gpu,
                **(header or {})}
        body = sorted(self.lines, key=lambda x: x["ts"] + x.get("duration_us", 0) / 1e3)
        if exit_line:
            body.append({"ts": self.now / 1e3, "type": "process", "op": "exit", "name": "exit", "pid": PID, "tid": PID, "comm": "planted", **exit_line})
        counts = {}
        for x in body:
            counts[x["type"]] = counts.get(x["type"], 0) + 1
        tail = {"ts": self.now / 1e3, "type": "end", "name": "cudatrace", "reason": "command exited", "events": counts, "calls": self.id, "entries": self.id,
                "drops": {"calls": 0}, "bad_records": 0, "unfinished": sum("unfinished" in x for x in body), "abandoned": 0, "filtered": 0, "wall_ms": self.now / 1e3, **(end or {})}
        path.write_text("".join(json.dumps(x) + "\n" for x in [head, *body, tail]), encoding="utf-8")
        return path


def report(path, *options):
    ran = cudatrace("report", "-q", "--json", *options, path)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def short(path, *options):
    ran = cudatrace("report", "-q", *options, path)
    assert ran.status == 0, ran
    return ran.out


def agrees(path, r):
    """Compares only the verdict with the check that shares no code with cudatrace."""
    assert [x for x in oracle.check(oracle.read(str(path)), r) if x.startswith("verdict")] == []


L = [("launch", 10)] * 4
BIG, SMALL = 10_000_000, 4
# name: the host's work in a step, the GPU's work (kernel, start in the step, duration), the limit, its basis, the share.
PLANTED = {
    "gpu": ([*L, ("sync", 960)], [("k", 20, 970)], "gpu", "measured", 0.97),
    "gpu, not quite": ([("host", 300), *L, ("sync", 660)], [("k", 320, 670)], "gpu", "measured", 0.67),
    "idle in waits": ([*L, ("sync", 960)], [("k", 20, 100)], "waits", "measured", 0.96),
    "host": ([("host", 900), *L, ("sync", 60)], [("k", 920, 70)], "host", "measured", 0.93),
    "host in launches": ([("launch", 90)] * 10 + [("sync", 100)], [("k", 50, 200)], "host", "measured", 0.8),
    "collectives": ([*L, ("sync", 960)], [("k", 20, 100), ("ncclDevKernel_AllReduce", 130, 800)], "collectives", "measured", 0.8),
    "collectives beside work": ([*L, ("sync", 960)], [("k", 20, 900), ("ncclDevKernel_AllReduce", 130, 700)], "gpu", "measured", 0.9),
    "copies alone": ([*L, ("sync", 960)], [("copy", 20, 700), ("k", 730, 200)], "transfers", "measured", 0.7),
    "copies beside work": ([*L, ("sync", 960)], [("copy", 20, 700), ("k", 20, 900)], "gpu", "measured", 0.9),
    "slow copies": ([("HtoD", 700, BIG), *L, ("sync", 260)], [("copy", 10, 60), ("k", 750, 200)], "transfers", "measured", 0.7),
    "allocations": ([("alloc", 250), ("free", 250), ("host", 300), *L, ("sync", 160)], [("k", 810, 150)], "memory", "measured", 0.5),
    "few allocations": ([("alloc", 50), ("free", 50), ("host", 700), *L, ("sync", 160)], [("k", 810, 150)], "host", "measured", 0.85),
    "modules": ([("load", 600), ("host", 200), *L, ("sync", 160)], [("k", 810, 150)], "modules", "measured", 0.6),
    "gpu by host": ([*L, ("sync", 960)], [], "gpu", "host", 0.96),
    "gpu by copies that wait": ([*L, ("DtoH", 940, SMALL), ("sync", 20)], [], "gpu", "host", 0.96),
    "host by host": ([("host", 920), *L, ("sync", 40)], [], "host", "host", 0.96),
    "neither by host": ([("host", 660), *L, ("sync", 300)], [], "not-known", "host", 0.3),
    "allocations by host": ([("alloc", 300), ("free", 300), ("host", 300), *L, ("sync", 60)], [], "memory", "host", 0.6),
    "modules by host": ([("load", 600), ("host", 300), *L, ("sync", 60)], [], "modules", "host", 0.6),
    "copies by host": ([("HtoD", 600, BIG), ("host", 300), *L, ("sync", 60)], [], "transfers", "host", 0.6),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(tmp_path, name):
    host, gpu, limit, basis, share = PLANTED[name]
    p = Program()
    p.steps(host, gpu)
    path = p.write(tmp_path / "t.jsonl")
    r = report(path)
    v = r["verdict"]
    assert r["iterations"]["count"] == STEPS
    assert (v["limit"], v["basis"]) == (limit, basis), v
    assert abs(v["share"] - share) < 0.03, v
    # What overlaps with other work can at most be hidden behind it.
    gain = min(share, 1 - share) if (limit, basis) in (("collectives", "measured"), ("transfers", "measured")) and "Overlapping" in v["sentence"] else share
    assert limit == "not-known" or abs(v["at_most_ns"] - gain * v["run_ns"]) < 0.03 * v["run_ns"]
    agrees(path, r)
    assert f"Verdict: {v['sentence']}" in " ".join(short(path).split())


# The findings that agree with a limit. Others may have none.
AGREE = {"gpu": {"gpu-bound"}, "start-up": {"start-up"}, "collectives": {"communication-alone", "late-rank", "small-collectives"}, "host": {"launch-bound", "plans-in-loop", "idle-between", "data-loading", "decode-host-bound", "start-up"}, "memory": {"hot-allocations"}, "modules": {"hot-modules"}}
COST = ("steady", "startup")


@pytest.mark.parametrize("name", PLANTED)
def test_findings_agree(tmp_path, name):
    """The first finding that costs time must be about the limit in the verdict. All numbers must be those of the verdict."""
    host, gpu, limit, _, _ = PLANTED[name]
    p = Program(300)
    p.steps(host, gpu)
    path = p.write(tmp_path / "t.jsonl")
    r, text, full = report(path), " ".join(short(path).split()), " ".join(short(path, "--full").split())
    cost = [x for x in r["findings"] if x["severity"] in COST and x["lost_ns"]]
    assert limit not in AGREE or cost[0]["id"] in AGREE[limit], (limit, cost)
    assert limit not in ("gpu", "collectives") or abs(cost[0]["steady_ns"] - r["verdict"]["at_most_ns"]) < 0.01 * r["verdict"]["at_most_ns"]
    for x in cost:
        assert (f"gains {x['gain']}" in text or " more (--section=findings)" in text) and f"{x['title']}: gains {x['gain']}" in full
        assert abs(x["steady_share"] - x["steady_ns"] / r["verdict"]["run_ns"]) < 0.02


@pytest.mark.parametrize("us,part,calls", [(300_000, "before the first CUDA call", 0), (300_000, "from the first call to the first context", 300_000), (2_000, None, 0)])
def test_startup_gets_advice(tmp_path, us, part, calls):
    """The longest part of start-up must have a finding if start-up takes half of the trace."""
    us, calls = us * 10, calls * 10
    p = Program(calls or 100)
    if not calls:
        for x in p.lines:
            x["ts"] += us / 1e3
        p.now += us
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    path = p.write(tmp_path / "t.jsonl")
    found = [x for x in report(path)["findings"] if x["id"] == "start-up"]
    assert len(found) == (part is not None)
    if part:
        v = report(path)["verdict"]
        assert f"The longest part is {part}: 3.00 s of it is " in found[0]["text"] and found[0]["lost_ns"] == v["startup_ns"] and "% of the trace" in found[0]["gain"]
        assert ("outside CUDA calls." in found[0]["text"]) == (not calls)
        # All parts, and their sum.
        parts = [x["what"] for x in v["time"] if x["part"] == "start-up" and x["ns"]]
        assert re.search(r"Start-up is long: 3.00 s \(" + ", ".join(rf"\S+ \S+ {x}" for x in parts) + r"\) ", " ".join(short(path).split())) and f"3.00 s {part}" in found[0]["text"]


@pytest.mark.parametrize("startup,steps,limit,note", [(300_000, 20, "gpu", True), (20_000, 20, "gpu", True), (10_000, 20, "gpu", False), (300_000, 3, "start-up", False)])
def test_startup(tmp_path, startup, steps, limit, note):
    """The steady state must come first, however short it is. Start-up is mentioned if it takes half of the time, and the limit without a steady state."""
    p = Program(startup)
    p.steps([*L, ("sync", 960)], [("k", 20, 970)], steps)
    path = p.write(tmp_path / "t.jsonl")
    r = report(path)
    v = r["verdict"]
    assert v["limit"] == limit and abs(v["startup_ns"] / 1e3 - startup - 2000) < 1100
    assert bool(re.search(r"\. Start-up, paid once, takes \d.* % of the trace, of that .* from the first call to the first context\.$", v["sentence"])) == note, v
    assert limit != "gpu" or next(x["id"] for x in r["findings"] if x["severity"] in COST) == "gpu-bound"
    agrees(path, r)


def test_what_it_is_of(tmp_path):
    """The command, of which the end may be missing, and the GPU; what hostile traces have there is no control sequence."""
    p = Program()
    p.steps([*L, ("sync", 60)])
    p.lines.append({"ts": 1, "type": "gpu_device", "op": "device", "name": "device", "pid": PID, "tid": PID, "comm": "", "device": 0, "uuid": "GPU-0", "model": "NVIDIA H100"})
    path = p.write(tmp_path / "t.jsonl", {"command": ["/usr/bin/python3", "train.py\x1b[31m", "--epochs", "3", *["x"] * 200]})
    r, text = report(path), " ".join(short(path).split())
    assert r["overview"]["gpu_model"] == "NVIDIA H100"
    assert re.match(r"Complete: [^;]* Of python3 train.py\?\[31m --epochs 3 [x ]+\.\.\., on NVIDIA H100 Verdict: ", text), text


def test_hang(tmp_path):
    p = Program()
    p.steps([*L, ("sync", 60)])
    p.call("launch", 10, kernel="spins(int)")
    p.call("launch", 10, kernel="waits(int)")
    p.call("sync", 0, unfinished=True, elapsed_us=5_000_000)
    p.now += 5_000_000
    path = p.write(tmp_path / "t.jsonl")
    r = report(path)
    assert r["verdict"]["limit"] == "waits" and [x["kind"] for x in r["failures"]] == ["hang"]
    assert r["failures"][0]["text"].endswith("Launched since the last wait: spins, waits")
    assert r["findings"][0]["severity"] == "hang"
    agrees(path, r)


def test_doubt_of_a_hang(tmp_path):
    """If much is missing, the verdict on the rest must be whole, whatever a verdict before it said of a gain."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    p.call("launch", 10, kernel="waits(int)")
    p.call("sync", 0, unfinished=True, elapsed_us=5_000_000)
    p.now += 5_000_000
    v = report(p.write(tmp_path / "t.jsonl", end={"drops": {"calls": 1000}}))["verdict"]
    assert v["limit"] == "not-known" and v["sentence"].endswith("From the rest: The program hangs: a wait has not returned for 5.00 s, 99.6 % of the trace."), v


def test_doubt_of_a_short_run(tmp_path):
    """If much is missing, nothing must be said of a gain, not even of the steady state after a long start-up."""
    p = Program(300_000)
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    v = report(p.write(tmp_path / "t.jsonl"))["verdict"]
    assert ". Start-up, paid once, takes " in v["sentence"] and "at most" in v["sentence"], v
    v = report(p.write(tmp_path / "t.jsonl", end={"drops": {"calls": 1000}}))["verdict"]
    assert ". Start-up, paid once, takes " in v["sentence"] and "at most" not in v["sentence"] and v["sentence"].endswith("."), v


@pytest.mark.parametrize("header,end,says", [({"redacted": "arguments"}, None, "arguments were not recorded"), (None, {"drops": {"calls": 1000}}, "of the trace is missing"),
    ({"entry_only": "launch (18 functions)"}, None, "durations were not recorded (--entry-only)"), ({"counted": "sync (5 functions)"}, None, "(--count)"),
    ({"min_duration_ns": 1000000}, None, "(--min-duration)"), ({"traced": "launch, memory"}, None, "(-e)")])
def test_not_known(tmp_path, header, end, says):
    p = Program()
    p.steps([*L, ("sync", 960)], [] if says.endswith(")") else [("k", 20, 970)])
    path = p.write(tmp_path / "t.jsonl", header, end)
    r = report(path)
    v = r["verdict"]
    assert v["limit"] == "not-known" and v["at_most_ns"] == 0 and says in v["sentence"]
    if says.endswith(")"):
        # What was not recorded is no time outside CUDA calls.
        assert not v.get("gpu_idle") and not r["stages"].get("ratio") and not {x["id"] for x in r["findings"]} & {"launch-bound", "gpu-bound", "start-up"}
        for options in [], ["--full"], ["--format=markdown"]:
            said = short(path, *options)
            assert says in said and "% outside CUDA" not in said and "idle at least" not in said and "At least" not in said, said


@pytest.mark.parametrize("header", [{"entry_only": "query (3 functions)"}, {"counted": "event (2 functions)"}, {"traced": "launch, memory (3 of 5 functions), sync, module, transfer"}])
def test_left_out_without_effect(tmp_path, header):
    """What the verdict does not need may be left out."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    assert report(p.write(tmp_path / "t.jsonl", header))["verdict"]["limit"] != "not-known"


def test_few_losses(tmp_path):
    """With few losses, the verdict must stand, with the mark that each share has."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    path = p.write(tmp_path / "t.jsonl", end={"drops": {"calls": 2}})
    assert report(path)["verdict"]["limit"] == "gpu" and report(path)["verdict"]["incomplete"]
    text = short(path)
    assert re.match(r"INCOMPLETE: 2 of \d+ CUDA calls \(\d.* %\) are missing: the ring buffer was full\. To avoid it: ", text)
    body = text[text.index("Below, a * marks shares of what was recorded"):].replace("a *", "", 1)
    assert re.search(r"computes for 9\d\.\d %\* of", body) and not re.search(r" %(?!\*)", re.sub(r"(?m)^Recorded.*$", "", body))


def test_losses_of_two_kinds(tmp_path):
    """Lines that were not written are recorded calls, too: the whole of the calls is not known then."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    path = p.write(tmp_path / "t.jsonl", end={"drops": {"calls": 2}, "lines_lost": 7, "write_error": "No space left on device"})
    text = " ".join(short(path).split())
    lines = sum(f["lines"] for f in report(path)["files"])
    assert "INCOMPLETE: 2 CUDA calls are missing: " in text and re.search(rf"\b7 of {lines + 7:,} lines of the output \(", text), text


@pytest.mark.parametrize("dropped, unwritten", [(200, 0), (0, 200), (200, 200), (5_000, 90)])
def test_share_that_is_missing(tmp_path, dropped, unwritten):
    """Of calls that the ring dropped and lines that were not written, together."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 970)])
    path = p.write(tmp_path / "t.jsonl", end={"drops": {"calls": dropped}, "lines_lost": unwritten, "write_error": "No space left on device" if unwritten else None})
    r = report(path)
    lines = sum(f["lines"] for f in r["files"])
    written = lines / (lines + unwritten)
    made = r["overview"]["calls"] / written + dropped
    assert f"Not known: {100 - 100 * r['overview']['calls'] / made:.1f} % of the trace is missing" in r["verdict"]["sentence"], r["verdict"]


ERRORS = {
    "fault": ([("sync", 700, "CUDA_ERROR_ILLEGAL_ADDRESS")], ["cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS, at .*compute-sanitizer.*Launched since the last wait: k$"]),
    "at exit": ([("free", 4, "CUDA_ERROR_DEINITIALIZED")], []),
    "out of memory": ([("alloc", 2, "CUDA_ERROR_OUT_OF_MEMORY"), ("launch", 0, None)], ["cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY, .*4.00 KiB requested.*the program continued$"]),
}


def test_more_causes(tmp_path):
    """Of 60 processes with a failure, more than the table holds, 58 are not shown."""
    p = Program()
    for i in range(60):
        p.add("sync", "sync", "cuCtxSynchronize", 100, args={})
        p.lines[-1].update(result=700, error="CUDA_ERROR_ILLEGAL_ADDRESS", pid=6000 + i, tid=6000 + i)
    text = short(p.write(tmp_path / "t.jsonl"))
    assert "Cause of failure: 60\n" in text and "and 58 more (--section=failure)" in text


def test_more_threads(tmp_path):
    """The timeline has rows of 64 threads: the number of those not shown is a minimum."""
    for cnt, says in (60, " and 48 more threads"), (100, " and at least 52 more threads"):
        p = Program()
        for i in range(cnt - 1):
            p.call("launch", 10)
            p.lines[-1]["tid"] = 5000 + i
        assert says in short(p.write(tmp_path / "t.jsonl"), "--full")


@pytest.mark.parametrize("name", ERRORS)
def test_failures(tmp_path, name):
    calls, want = ERRORS[name]
    p = Program()
    p.steps([*L, ("sync", 960)])
    p.call("launch", 10)
    for what, result, error in calls:
        p.call(what, 10, **({"result": result, "error": error} if error else {}))
    path = p.write(tmp_path / "t.jsonl")
    texts = [x["text"] for x in report(path)["failures"]]
    assert len(texts) == len(want) and all(re.search(w, t) for w, t in zip(want, texts)), texts
    assert ("\nFailures: " in short(path)) == bool(want)


# type, op, function, result, its name, whether it is a failure. 4 is CUDA_ERROR_DEINITIALIZED and ncclInvalidArgument.
MATTERS = [("memory", "free", "cuMemFree", 4, "CUDA_ERROR_DEINITIALIZED", False), ("collective", "collective", "ncclAllReduce", 4, "ncclInvalidArgument", True),
           ("event", "query", "cuEventQuery", 700, "CUDA_ERROR_ILLEGAL_ADDRESS", True), ("event", "query", "cuEventQuery", 400, "CUDA_ERROR_INVALID_HANDLE", False),
           ("module", "lookup", "cuModuleGetFunction", 500, "CUDA_ERROR_NOT_FOUND", False), ("module", "lookup", "cuModuleGetFunction", 719, "CUDA_ERROR_LAUNCH_FAILED", True),
           ("sync", "sync", "cuStreamSynchronize", 400, "CUDA_ERROR_INVALID_HANDLE", True)]


@pytest.mark.parametrize("redacted", [None, "arguments"])
def test_which_failures_matter(tmp_path, redacted):
    """The findings and a report without arguments must have one rule. The summary's test is test_summary_short: expected_errors."""
    for kind, op, name, result, error, matters in MATTERS:
        p = Program()
        p.steps([*L, ("sync", 960)])
        p.add(kind, op, name, 10, result=result, error=error)
        texts = [x["text"] for x in report(p.write(tmp_path / "t.jsonl", {"redacted": redacted} if redacted else None))["failures"]]
        assert [f"{name}: {error}" in x for x in texts] == [True] * matters, (name, result, texts)


def test_a_failure_after_an_answer(tmp_path):
    """The first call with an error code may be a look-up: later calls with that code are still failures."""
    p = Program()
    p.steps([*L, ("sync", 960)])
    p.add("module", "lookup", "cuModuleGetFunction", 10, result=400, error="CUDA_ERROR_INVALID_HANDLE")
    p.call("sync", 10, result=400, error="CUDA_ERROR_INVALID_HANDLE")
    for header in (None, {"redacted": "arguments"}):
        assert [x["text"][:20] for x in report(p.write(tmp_path / "t.jsonl", header))["failures"]] == ["cuStreamSynchronize:"]


@pytest.mark.parametrize("line,want", [({"exit_code": 3}, "ended with status 3"), ({"signal": 11}, "was ended by signal 11"), ({"exit_code": 0}, None)])
def test_exits(tmp_path, line, want):
    p = Program()
    p.steps([*L, ("sync", 960)])
    texts = [x["text"] for x in report(p.write(tmp_path / "t.jsonl", exit_line=line))["failures"]]
    assert [want in x for x in texts] == [True] * bool(want)


@pytest.mark.parametrize("status,listed", [(1, False), (-9, True)])
def test_exit_of_a_helper(tmp_path, status, listed):
    """A shell that ends with 1 is an answer, not a failure."""
    p = Program()
    p.steps([*L, ("sync", 960)])
    how = {"exit_code": status} if status > 0 else {"signal": -status}
    p.lines.append({"ts": p.now / 1e3, "type": "process", "op": "exit", "name": "exit", "pid": 999, "tid": 999, "comm": "bash", **how})
    assert [x["kind"] for x in report(p.write(tmp_path / "t.jsonl"))["failures"]] == ["exit"] * listed


# The bottleneck of each program of the corpus, known from its log.
LIMITS = {"gpt2-eager": "host", "train": "host", "convolutions": "host", "gpt2-graph": "gpu", "gpt2-graph-nodes": "host", "graph-loop": "gpu", "copies-beside": "gpu",
          "vllm-graphs": "host", "vllm-nodes": "host", "after-free": "failure", "past-end": "failure", "misaligned": "failure", "device-assert": "failure", "ranks-2": "host", "ranks-4": "collectives", "endless": "waits", "dropped": "not-known", "full-disk": "not-known"}
FAILURES = {"endless": ["hang"], "device-assert": ["error"], "out-of-memory": ["error"], "after-free": ["error", "exit"], "past-end": ["error", "exit"], "misaligned": ["error", "exit"], "vllm-graphs": ["exit"], "vllm-nodes": ["exit"]}


@pytest.mark.parametrize("path", CORPUS, ids=os.path.basename)
def test_corpus(path):
    name = os.path.basename(path).split(".")[0]
    r = report(path)
    assert name not in LIMITS or r["verdict"]["limit"] == LIMITS[name]
    # A program whose work failed on the GPU: this comes first.
    assert r["verdict"]["sentence"].startswith("The program failed: ") == (LIMITS.get(name) == "failure")
    assert [x["kind"] for x in r["failures"]] == FAILURES.get(name, [])
    for width in 60, 72, 80, 120, 300:
        text = short(path, "--width", width)
        assert text.count("\n") <= 40 and max(len(x) for x in text.splitlines() if not x.startswith("Next: ")) <= width
        assert text.startswith("Complete: " if r["complete"] else "INCOMPLETE: ")
        # "N of M": M is what was recorded and what is missing.
        missing = "" if r["complete"] else " ".join(text.split("\nRecorded: ")[0].split())
        for lost, all_of in re.findall(r"([\d,]+) of ([\d,]+) \S+ \S+ ", missing):
            if f"{all_of} CUDA calls" in text:
                assert int(all_of.replace(",", "")) - int(lost.replace(",", "")) == r["overview"]["calls"]
            else:
                assert f"{all_of} lines" in text, (lost, all_of)
        assert "..." not in text.split("\nTime: ")[1].split("\nDo next: ")[0], "the part of the run is cut"
        at = [text.index(x) for x in ("\nFailures: ", "\nVerdict: ", "\nTime: ", "\nDo next: ", "\nNext: ") if x in text]
        assert at == sorted(at) and len(at) >= 3
        # The five do not contain what gains nothing.
        assert not re.search(r"gains at most .*\s0\.0\s%\s+of", text), text
    advice = {x["id"]: x["advice"] for x in r["findings"]}
    # A program that replays graphs must not be advised to capture one.
    assert ("Capture the iteration" in advice.get("launch-bound", "")) == (name in ("gpt2-eager", "train", "convolutions", "ranks-2", "ranks-4", "dropped"))
    order = {"incomplete": 0, "error": 1, "hang": 2, "leak": 3, "steady": 4, "startup": 4, "minor": 5}
    ranks = [order[x["severity"]] for x in r["findings"] if "is_limit" not in x]
    assert ranks == sorted(ranks)
    # These programs keep their memory in a cache until they end.
    assert "leaks" not in advice
    cost = [x for x in r["findings"] if x["severity"] in COST]
    for x in cost:
        rest = x["lost_ns"] - x["steady_ns"]
        assert ("% of " in x.get("gain", "% of ")) and (" outside of it" in x.get("gain", "")) == (x["steady_ns"] > 0 and rest >= 0.05 * x["lost_ns"] > 0), x
    limit = r["verdict"]["limit"]
    # Large gains that a replay shows precede the GPU as the limit.
    first = [x for x in cost if limit == "gpu" and x["replayed"] and x["steady_share"] >= 0.2]
    keys = [(x not in first, "is_limit" not in x, -x["steady_ns"]) for x in cost]
    assert keys == sorted(keys) and (first != []) == (name == "copies-beside")
    cost = cost[len(first):]
    assert limit not in AGREE or cost[0]["id"] in AGREE[limit], (limit, cost)
    assert limit != "gpu" or abs(cost[0]["steady_ns"] - r["verdict"]["at_most_ns"]) < 0.001 * r["verdict"]["at_most_ns"]
    # The verdict has a limit, the finding what a replay gains.
    assert limit != "collectives" or 0 < cost[0]["steady_ns"] <= 1.001 * r["verdict"]["at_most_ns"]
    # A process beside the ranks is not left unexplained.
    ranks = sum("rank" in x for x in r["overview"]["processes"])
    assert (", {} of them ranks".format(ranks) in text) == (0 < ranks < sum(x["calls"] > 0 for x in r["overview"]["processes"]))


@pytest.mark.parametrize("path", CORPUS, ids=os.path.basename)
def test_one_idle_number(path):
    """The idle share of a GPU in the steady state must be the same in all places."""
    r, text = report(path), " ".join(short(path, "--full").split())
    idle = r["verdict"].get("gpu_idle")
    if not idle or idle["basis"] != "measured":
        assert "Measured on the GPU: " not in text
        return
    share = f"{100 * idle['ns'] / idle['of_ns']:.1f} %"
    assert f", measured: {share} idle" in text and f"Measured on the GPU: idle for {share} of the steady state" in text
    assert "at least" not in text[text.index("When was the GPU idle"):text.index("How much time do blocking calls")]
    assert "GPU idle: at least" not in text


# --- diff ---

@pytest.mark.parametrize("before,after,verdict,places", [
    ([("host", 700), *L, ("sync", 260)], [("host", 700), *L, ("sync", 240)], "same", []),
    ([("host", 700), *L, ("sync", 260)], [("host", 200), *L, ("sync", 260)], "faster", [("map", 700, 200)]),
    ([("host", 200), *L, ("sync", 260)], [("host", 200), *L, ("alloc", 300), ("sync", 560)], "slower", [("memory", 0, 300), ("waits", 260, 560)])])
def test_diff(tmp_path, before, after, verdict, places):
    """The verdict of diff and its sections must be right, whatever the start-up and the number of steps are."""
    paths = []
    for name, host, startup, n in ("a", before, 500, 20), ("b", after, 5000, 40):
        p = Program(startup)
        p.steps(host, n=n)
        paths.append(p.write(tmp_path / f"{name}.jsonl"))
    ran = cudatrace("diff", "--json", *paths)
    speed = json.loads(ran.out)["speed"]
    assert ran.status == 1 and speed["verdict"] == verdict
    for key, host in ("before_ns", before), ("after_ns", after):
        assert abs(speed[key] / 1e3 - sum(x[1] for x in host)) < 20
    got = {x["section"]: (x["before_ns"] / 1e3, x["after_ns"] / 1e3) for x in speed["sections"]}
    assert set(got) == {x for x, _, _ in places}
    assert all(abs(got[x][0] - a) < 20 and abs(got[x][1] - b) < 20 for x, a, b in places)
    text = cudatrace("diff", *paths).out
    assert text.startswith("\nVerdict: " + verdict + (" within noise" if verdict == "same" else ""))
    assert all(f"--section={x}" in text for x in got)


# --- options ---

GOLDEN = TESTS + "/golden/h200-gpt2-tokens.jsonl"


def names():
    ran = cudatrace("report", "--list-sections")
    assert ran.status == 0
    return [x.split()[0] for x in ran.out.splitlines()]


def test_sections():
    """Each section must print alone; all together must be the full report."""
    full = short(GOLDEN, "--full")
    r = report(GOLDEN)
    assert full.startswith("Complete: ")
    assert "\nranges: nothing in this trace; it shows NVTX ranges (--nvtx)\n" == short(GOLDEN, "--section=ranges")
    assert set(report(GOLDEN, "--map")) == set(report(GOLDEN, "--section=map")) and "kernels" not in report(GOLDEN, "--serving")
    assert {"verdict", "failures", "findings", "kernels", "map"} <= set(names())
    for name in names():
        assert name in r or name in ("ranges", "operators", "allocator", "gemms", "roofline", "stalls", "gpu_stats", "gpu_metrics", "serving", "energy", "network"), name
        text = short(GOLDEN, f"--section={name}")
        # A section without data must not print nothing.
        assert name == "map" or text in full or text.startswith((f"\n{name}: nothing in this trace; it shows ", f"\n{name}: not recorded (")), name
        assert set(report(GOLDEN, f"--section={name}")) - {"report", "complete", "lost", "chosen", "files", "traces", "rejected"} <= {name}
    both = short(GOLDEN, "--section=kernels,verdict")
    assert both == short(GOLDEN, "--section=verdict", "--section=kernels") and "\nKernels" in both and "\nVerdict" in both and "\nAnswers" not in both
    assert short(GOLDEN, "--section=map") == short(GOLDEN, "--map") and "\nKernels" not in short(GOLDEN, "--map")
    assert short(GOLDEN, "--serving").count("\n\n") <= 2 and "\nKernels" not in short(GOLDEN, "--serving")


@pytest.mark.parametrize("name", ["ranks-4", "vllm-nodes", "train"])
def test_the_page_has_the_order_of_the_text(name):
    with open("src/report/page/html/app.js", encoding="utf-8") as f:
        titles = re.findall(r"^\t\t\t\['\w+', '([^']+)', ", f.read(), re.M)
    text = short(f"{TESTS}/corpus/{name}.jsonl.zst", "--full")
    found = [(m.start(), title) for title in titles if (m := re.search(rf"^{title}\b", text, re.M))]
    assert found == sorted(found) and len(found) > 14


@pytest.mark.parametrize("args,says", [
    (["--section=kernel"], "did you mean kernels?"), (["--section="], "'--section ''|empty"), (["--section=zzzzzzzz"], "--list-sections lists them"), (["--section=kernels,"], "no such section"),
    (["--full", "--section=kernels"], "--full prints all sections"), (["--full", "--map"], "--full prints all sections"), (["--width=5"], "not a number of columns"), (["--widht=90"], "--width"), (["--width=90", "--json"], "--width is for text"), (["--width=90", "--format=markdown"], "--width is for text"),
    (["--section=kernels", "--format=html"], "is for text, Markdown, JSON and CSV"), (["--json", "--format=html"], "contradicts")])
def test_refused(args, says):
    ran = cudatrace("report", *args, GOLDEN)
    assert ran.status == 2 and re.search(says, ran.err) and ran.err.count("\n") == 1


@pytest.mark.parametrize("change", [
    lambda v: v.update(limit="host"), lambda v: v.update(ns=v["ns"] * 9 // 10), lambda v: v.update(share=v["share"] * 0.9), lambda v: v.update(startup_ns=v["startup_ns"] + 10**6),
    lambda v: v["time"][0].update(ns=v["time"][0]["ns"] + 10**6), lambda v: v["gpu_idle"].update(ns=v["gpu_idle"]["ns"] * 2), lambda v: v["gpu_idle"].update(basis="lower bound")])
def test_a_wrong_verdict_is_found(tmp_path, change):
    """The check of this suite must find a wrong verdict."""
    p = Program()
    p.steps([*L, ("sync", 960)], [("k", 20, 900)])
    path = p.write(tmp_path / "t.jsonl")
    r = report(path)
    change(r["verdict"])
    assert any(x.startswith("verdict") for x in oracle.check(oracle.read(str(path)), r))


def test_json_is_format_json():
    assert report(GOLDEN) == json.loads(cudatrace("report", "-q", "--format=json", GOLDEN).out)
