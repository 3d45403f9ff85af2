# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 60
"""--gpu-time: each execution on the mock GPU is in the trace once, with the call that requested it, for all producers; and
missing ones are reported."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.page import Page
from helpers.run import CUDATRACE, FAKE, FAKE535, INSIDE, O, TESTS, Ran, cudatrace, needs_tracing, until

CUPTI = O + "/cupti/libcupti.so.13"
SAMPLE = FAKE + "/sample"
ENDS = ("dropped", "untimed", "lost", "discarded", "no_call", "launches_untimed")


def options(probe, fake=FAKE, **env):
    if probe == "uprobe":
        needs_tracing()
    return {"env": {"LD_LIBRARY_PATH": f"{fake}:{O}/cupti", **env}}


def in_calls(lines):
    """Checks that the lines of calls agree with the gpu lines of their ids. Returns how many gpu lines the calls lack."""
    of = collections.defaultdict(list)
    for e in lines:
        if e["type"] == "gpu" and "call_id" in e:
            of[e["call_id"]].append(e)
    lacks = 0
    for call in (e for e in lines if "symbol" in e):
        if "gpu_start" not in call:
            assert not any(k.startswith("gpu_") for k in call), call
            lacks += len(of[call["id"]])
            continue
        assert of[call["id"]], ("no line of its execution", call)
        first = min(of[call["id"]], key=lambda e: e["ts"])
        assert (call["gpu_start"], call["gpu_queue_us"]) == (first["ts"], first["queue_us"]), (call, first)
        assert round(call["gpu_us"] * 1000) == sum(round(e["duration_us"] * 1000) for e in of[call["id"]]), call
    return lacks


class Traced:
    """A traced command: t is its trace, gpu the executions, made the mock driver's counts."""

    def __init__(self, tmp_path, *args, probe="inject", command=(SAMPLE, "--quiet", "--tokens", "8"), fake=FAKE, **env):
        path, counts = tmp_path / "t.jsonl", tmp_path / "counts"
        counts.unlink(missing_ok=True)
        how = options(probe, fake, FAKE_CUPTI_COUNTS=str(counts), **env)
        # Ordinary users have only the library; with root, uprobes record the calls that it misses.
        argv = [*(INSIDE if probe == "alone" else []), CUDATRACE, "-q", "--gpu-time", f"--probe={'inject' if probe == 'alone' else probe}",
                *map(str, args), "--jsonl", str(path), "--", *command]
        self.ran = Ran(argv, **how)
        assert self.ran.status == 0, self.ran
        self.t = Trace(path, *sorted(tmp_path.glob("t.[0-9]*.jsonl"), key=lambda p: int(p.suffixes[-2][1:])))
        self.gpu = [e for e in self.t.ev if e["type"] == "gpu"]
        # The last line of each device is complete.
        self.devices = list({(e["pid"], e["device"]): e for e in self.t.ev if e["type"] == "gpu_device"}.values())
        self.made = collections.Counter()
        for line in counts.read_text().splitlines() if counts.exists() else []:
            self.made[line.split()[0]] += int(line.split()[1])
        self.calls = {e["id"]: e for e in self.t.calls}

    def end(self, name):
        return self.t.end["gpu_" + name]

    def whole(self):
        """Checks that each execution is there once, with its call, and nothing is missing."""
        assert collections.Counter(e["op"] for e in self.gpu) == {k: v for k, v in self.made.items() if v}
        assert {k: self.end(k) for k in ENDS} == dict.fromkeys(ENDS, 0)
        assert self.end("records") == len(self.gpu)
        self.t.accounts(missed=("depth",))
        for e in self.gpu:
            call = self.calls[e["call_id"]]
            assert (call["name"], call["pid"], call["tid"]) == (e["call"], e["pid"], e["tid"])
            # Two clocks, and rounding.
            assert e["queue_us"] == pytest.approx((e["ts"] - call["ts"]) * 1000, abs=2, rel=1e-4) or e["ts"] <= call["ts"]
        assert self.in_calls() == self.end("unmatched") == 0
        return True

    def in_calls(self):
        return in_calls(self.t.ev)


def row_of(r, e):
    """The name of an execution's row in pictures."""
    (device,) = [d for d in r.devices if (d["pid"], d["device"]) == (e["pid"], e["device"])]
    return f"GPU {e['device']} {device['uuid'][4:12]} ctx {e['context']} stream {e['gpu_stream']}"


@pytest.mark.parametrize("probe", ["alone", "inject", "uprobe"])
@pytest.mark.parametrize("fake", [FAKE, FAKE535], ids=["580", "535"])
def test_each_execution_has_its_call(tmp_path, probe, fake):
    r = Traced(tmp_path, "--all" if probe == "alone" else "-e", *(() if probe == "alone" else ("all,!cu[FP]*[LI]*[de]",)), probe=probe, fake=fake)
    assert r.whole()
    assert r.made["kernel"] > 400 and r.made["graph"] and r.made["copy"] and r.made["memset"]
    assert r.t.head["gpu_time"] == "graphs"
    launches = [e for e in r.t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")) and not e.get("capturing") and not e["result"]]
    assert r.end("launches_timed") == len(launches) == len({e["call_id"] for e in r.gpu if e["op"] in ("kernel", "graph")})
    kernels = [e for e in r.gpu if e["op"] == "kernel"]
    assert all(r.calls[e["call_id"]]["kernel"] == e["kernel"] for e in kernels)
    assert all(e["duration_us"] == pytest.approx(5, abs=0.2) for e in kernels)
    copies = [e for e in r.gpu if e["op"] == "copy"]
    assert all(r.calls[e["call_id"]]["direction"] == e["direction"] and r.calls[e["call_id"]]["size"] == e["size"] for e in copies)
    assert "on" in [e["name"] for e in r.t.ev if e.get("op") == "gpu-time"]


def test_nodes_of_graphs(tmp_path):
    r = Traced(tmp_path, "--gpu-time=nodes")
    assert r.whole() and not r.made["graph"]
    nodes = [e for e in r.gpu if "graph_node" in e]
    graphs = [e for e in r.t.calls if e["name"] == "cuGraphLaunch"]
    assert {e["call_id"] for e in nodes} == {e["id"] for e in graphs} and len(nodes) > len(graphs)
    assert r.end("launches_timed") == len({e["call_id"] for e in r.gpu if e["op"] == "kernel"})


# Makes a memset, waits until its line is in the file, and makes another one.
TWO = """
import ctypes, sys, time
cu, p, ctx = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64(), ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0) and not cu.cuCtxSetCurrent(ctx)
assert not cu.cuMemAlloc_v2(ctypes.byref(p), 4096)
assert not cu.cuMemsetD8_v2(p, 1, 4096)
while '"cuMemsetD8"' not in open(sys.argv[1]).read():
    time.sleep(0.05)
assert not cu.cuMemsetD8_v2(p, 2, 4096)
"""


@pytest.mark.parametrize("word", ["late", "drop,untimed"])
@pytest.mark.parametrize("how", ["--format-threads=0", "--format-threads=2", "--max-file=10M"])
def test_lines_wait_for_a_while(tmp_path, word, how):
    """GPU times that come late must be in the gpu line only, and counted; missing ones are not counted."""
    r = Traced(tmp_path, how, command=(sys.executable, "-c", TWO, tmp_path / "t.jsonl"), FAKE_CUPTI=word)
    first, second = [e for e in r.t.calls if e["name"] == "cuMemsetD8"]
    assert r.in_calls() == r.end("unmatched") == (1 if word == "late" else 0)
    assert ("gpu_start" in first) == (word != "late") and "gpu_start" in second
    assert [e["call_id"] for e in r.gpu] == [first["id"], second["id"]]


def test_lines_of_calls_that_the_gpu_never_does(tmp_path):
    r = Traced(tmp_path, FAKE_CUPTI="drop")
    assert r.in_calls() == r.end("unmatched") == 0
    assert r.end("launches_untimed") == sum(e.get("result") == 0 and "gpu_start" not in e and "capturing" not in e
                                            for e in r.t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")))


def test_lines_keep_their_order(tmp_path):
    """Pending lines must keep the order of calls, as in other outputs, also in a pipe."""
    r = Traced(tmp_path, "--chrome", tmp_path / "t.json", command=("sh", "-c", f"{SAMPLE} --quiet --tokens 3; sleep 2.5; {SAMPLE} --quiet --tokens 3"))
    assert r.whole()
    at = {e["id"]: i for i, e in enumerate(r.t.ev) if "symbol" in e}
    assert all(at[e["call_id"]] < i for i, e in enumerate(r.t.ev) if e["type"] == "gpu")
    ends = [e["ts"] + e["duration_us"] / 1e3 for e in r.t.calls if "duration_us" in e]
    assert all(b > a - 1e-3 for a, b in zip(ends, ends[1:]))
    piped = Ran([*INSIDE, CUDATRACE, "-q", "--gpu-time", "--probe=inject", "--jsonl", "/dev/stderr", "--", SAMPLE, "--quiet", "--tokens", "3"], **options("inject"))
    lines = [json.loads(line) for line in piped.err.splitlines() if line.startswith("{")]
    assert lines[-1]["gpu_unmatched"] == 0 and sum("gpu_start" in e for e in lines) == sum(e["type"] == "gpu" for e in lines) > 100


def test_files_of_a_size(tmp_path):
    """A pending line must go to the file that is current when it is written; late times are counted in the last file."""
    r = Traced(tmp_path, "--max-file", "1M", command=(SAMPLE, "--quiet", "--tokens", "40"))
    assert len(r.t.ends) > 2 and r.gpu and r.in_calls() == r.end("unmatched") == 0
    assert all("gpu_unmatched" not in e for e in r.t.ends[:-1])


def test_threads(tmp_path):
    r = Traced(tmp_path, command=(SAMPLE, "--quiet", "--threads", "8", "--tokens", "40"))
    assert r.whole() and len({e["tid"] for e in r.gpu}) > 4


def test_main_thread_ends_first(tmp_path):
    """The program ends with its last thread, although the library has one."""
    program = compiled(tmp_path / "last", TESTS + "/gpu/last_thread.c")
    r = Traced(tmp_path, command=("timeout", "-s", "KILL", "20", program))
    assert (r.ran.status, r.ran.out.split()) == (0, ["worked", "end"]), r.ran
    assert r.t.end["calls"] == 22 and not r.t.end["drops"]["calls"]


@pytest.mark.parametrize("option", ["--gpu-time", "--stalls"])
@pytest.mark.parametrize("what", ["clears", "joins", "locks"])
def test_threads_that_launch_during_the_exit(tmp_path, what, option):
    """CUPTI prolongs exit(). Threads wait at their next call meanwhile, because libcudart's handler makes calls impossible."""
    own = compiled(tmp_path / "leaver", TESTS + "/inject/leaver.c")
    env = {"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti", "PATH": os.environ["PATH"]}
    alone = subprocess.run([own, what], env=env, check=False)
    assert alone.returncode == (-signal.SIGSEGV if what == "clears" else 0)
    began = time.monotonic()
    ran = cudatrace("-q", "--probe=inject", option, "--jsonl", tmp_path / "t.jsonl", "--", own, what, env=env)
    assert ran.status == 0, ran.err
    assert ("joined" in ran.out) == (what == "joins") and time.monotonic() - began < 6
    assert Trace(tmp_path / "t.jsonl").end["calls"] > 100


def test_processes_are_followed(tmp_path):
    r = Traced(tmp_path, command=("sh", "-c", f"{SAMPLE} --quiet --tokens 2 & {SAMPLE} --quiet --tokens 2; wait"))
    assert r.whole() and len({e["pid"] for e in r.gpu}) == 2


@pytest.mark.parametrize("word,reason", [("taken", "in use already (a test)"), ("bad", "known to lose kernels"), ("old", "too old"),
                                         ("fail", "cuptiActivityEnable failed: CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT (10)")])
def test_refusals(tmp_path, word, reason):
    r = Traced(tmp_path, FAKE_CUPTI=word)
    assert not r.gpu and r.t.accounts(missed=("depth",))
    (said,) = [e for e in r.t.ev if e.get("op") == "gpu-time"]
    assert said["name"] == "off" and reason in said["why"] and said["why"] in r.ran.err
    assert r.ran.err.count("--gpu-time:") == 1
    assert r.end("launches_untimed") > 400 and r.end("records") == 0


def test_no_cupti(tmp_path):
    r = Traced(tmp_path, "--cupti", "/nonexistent")
    assert "no libcupti was found" in r.ran.err and not r.gpu and r.end("launches_timed") == 0


def test_cupti_by_its_path(tmp_path):
    r = Traced(tmp_path, "--cupti", CUPTI)
    assert r.whole() and any(CUPTI in e.get("why", "") for e in r.t.ev)


@pytest.mark.parametrize("word", ["untimed", "drop", "nocall", "junk"])
def test_what_is_missing_is_counted(tmp_path, word):
    r = Traced(tmp_path, "--summary=full", FAKE_CUPTI=word)
    delivered = sum(r.made.values())
    if word == "junk":
        assert r.whole()
    elif word == "untimed":
        assert r.end("untimed") == sum(r.made.values()) // 10 and len(r.gpu) + r.end("untimed") == delivered
    elif word == "drop":
        assert r.end("dropped") == delivered // 9 and len(r.gpu) == delivered
    else:
        assert len(r.gpu) == delivered and not any("call_id" in e for e in r.gpu) and r.end("no_call") == delivered
    # Each launch is either timed or untimed.
    launches = [e for e in r.t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")) and not e.get("capturing") and not e["result"]]
    assert r.end("launches_timed") + r.end("launches_untimed") == len(launches)
    said = re.sub(r"\s+", " ", r.ran.err)
    assert f"GPU: {r.end('launches_timed'):,} of {len(launches):,} launches with a GPU time" in said
    for what, words in (("dropped", "dropped"), ("untimed", "without times"), ("no_call", "without a call")):
        assert f"{r.end(what)} {words}" in said


def test_calls_that_are_left_out(tmp_path):
    """Executions whose calls are not traced must be in the trace, and count as having no call."""
    r = Traced(tmp_path, "-e", "memory")
    assert sum(r.made.values()) == len(r.gpu) == r.end("no_call") and not any("call_id" in e for e in r.gpu)


def test_entries_only(tmp_path):
    r = Traced(tmp_path, "--entry-only", "launch")
    assert r.whole()


def test_registers(tmp_path):
    """The occupancy of kernels is known without queries."""
    r = Traced(tmp_path, FAKE_CUPTI="registers")
    assert r.whole() and {(e.get("registers"), e.get("shared_mem")) for e in r.gpu if e["op"] == "kernel"} == {(96, 2048)}
    assert not [e for e in r.gpu if e["op"] != "kernel" and {"registers", "shared_mem"} & set(e)] and not [e for e in r.gpu if e["op"] == "kernel" and "size" in e]
    row = next(k for k in json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)["kernels"]["list"] if "attention" in k["name"])
    # Registers are enough for 20 of 64 warps: the whole blocks of these.
    warps = row["block"][0] * row["block"][1] * row["block"][2] // 32
    assert row["registers"] == 96 and row["occupancy"] == 20 // warps * warps / 64 and row["waves"] > 0
    r = Traced(tmp_path, "--no-args", FAKE_CUPTI="registers")
    assert not [e for e in r.gpu if "shared_mem" in e]


@pytest.mark.parametrize("option", ["--no-strings", "--no-args"])
def test_redacted(tmp_path, option):
    r = Traced(tmp_path, option, "--chrome", tmp_path / "t.json", "--perfetto", tmp_path / "t.pftrace")
    assert r.in_calls() == r.end("unmatched") == 0
    assert len(r.gpu) == sum(r.made.values()) and not any("kernel" in e for e in r.gpu)
    assert option == "--no-strings" or not any("size" in e or "bandwidth_gbps" in e for e in r.gpu)
    # The UUID is not text of the program, but it is an argument.
    assert [sorted(set(d) & {"uuid", "multiprocessors", "pci", "model"}) for d in r.devices] == ([["multiprocessors", "uuid"]] if option == "--no-strings" else [])
    for name in ("t.jsonl", "t.json", "t.pftrace"):
        assert b"matmul" not in (tmp_path / name).read_bytes() and b"libcupti" not in (tmp_path / name).read_bytes()


def test_a_trace_that_ends_first(tmp_path):
    """Executions until the end of the trace must be there, except those of calls in flight at that moment."""
    r = Traced(tmp_path, "--duration", "1", command=(SAMPLE, "--quiet", "--tokens", "4000"))
    assert r.end("launches_timed") > 1000 and r.end("launches_untimed") <= 16, r.t.end
    # The program continues to make calls while probes are removed; their executions are not part of the trace.
    assert r.end("lost") == r.end("dropped") == 0 and r.end("no_call") <= 2


@pytest.mark.parametrize("victim", ["program", "tracer"])
def test_kills(tmp_path, victim):
    """If either side dies, the trace must be whole, and the program continues."""
    path, done = tmp_path / "t.jsonl", tmp_path / "done"
    how = options("inject")
    command = f"{SAMPLE} --quiet --tokens {1000000 if victim == 'program' else 3000}; echo $? > {done}"
    with subprocess.Popen([*INSIDE, CUDATRACE, "-q", "--probe=inject", "--gpu-time", "--jsonl", str(path), "--", "sh", "-c", command],
                          env={**os.environ, **how["env"]}, start_new_session=True) as ct:
        until(lambda: path.exists() and path.read_text(errors="replace").count('"type":"gpu"') > 1000)
        if victim == "program":
            pid = next(json.loads(line)["pid"] for line in path.read_text().splitlines() if '"type":"gpu"' in line)
            os.kill(pid, signal.SIGKILL)
            ct.wait(60)
            t = Trace(path)
            launches = [e for e in t.calls if e["symbol"].startswith(("cuLaunchKernel", "cuGraphLaunch")) and not e.get("capturing")
                        and e.get("result") == 0]
            assert t.end["gpu_launches_timed"] + t.end["gpu_launches_untimed"] == len(launches)
            assert t.end["reason"] == "command exited"
        else:
            ct.kill()
            ct.wait(60)
        until(done.exists)
        until(lambda: done.read_text().strip())
    assert done.read_text().strip() == ("137" if victim == "program" else "0")


def test_running_programs_are_refused():
    r = cudatrace("--gpu-time", "-p", os.getpid())
    assert r.status == 2 and "--yes" in r.err
    assert cudatrace("--gpu-time=kernels", "--", "true").status == 2


def test_pictures(tmp_path):
    """Pictures must have a row for each stream below the process, and an arrow from each call to its execution."""
    r = Traced(tmp_path, "--chrome", tmp_path / "t.json")
    chrome = json.loads((tmp_path / "t.json").read_text())
    slices = [e for e in chrome if e.get("cat") == "gpu" and e["ph"] == "X"]
    names = {e["tid"]: e["args"]["name"] for e in chrome if e["name"] == "thread_name"}
    assert len(slices) == len(r.gpu)
    assert {names[e["tid"]] for e in slices} == {row_of(r, e) for e in r.gpu}
    arrows = collections.defaultdict(dict)
    for e in chrome:
        if e["name"] == "enqueued":
            arrows[e["id"]][e["ph"]] = e
    assert len(arrows) == len(r.gpu)
    begins = {(e["tid"], e["ts"]) for e in chrome if e["ph"] == "X" and e["cat"] != "gpu"}
    for a in arrows.values():
        assert names[a["f"]["tid"]].startswith("GPU") and a["s"]["ts"] <= a["f"]["ts"]
        # The start of the call, to the precision of microseconds with six digits.
        assert any((a["s"]["tid"], round(a["s"]["ts"] + d / 1000, 3)) in begins for d in range(-600, 601)) or a["f"]["ts"] - a["s"]["ts"] > 1000


BOTH = "CUDA_VISIBLE_DEVICES={0} {2} --quiet --tokens 2 & CUDA_VISIBLE_DEVICES={1} {2} --quiet --tokens 2; wait"


@pytest.mark.parametrize("probe", ["alone", "inject", "uprobe"])
@pytest.mark.parametrize("seen", ["01", "11"], ids=["two", "same"])
def test_gpus_of_the_machine(tmp_path, probe, seen):
    """If processes see one GPU each as number 0, its UUID must identify it. The tracer's own queries to the driver must not appear as
    calls."""
    r = Traced(tmp_path, "--all", "--chrome", tmp_path / "t.json", probe=probe, command=("sh", "-c", BOTH.format(*seen, SAMPLE)))
    assert r.whole() and len(r.devices) == 2
    assert not [e for e in r.t.calls if e["name"] in ("cuDeviceGetUuid", "cuDeviceGetPCIBusId")]
    uuids = sorted(f"GPU-fa4ec0d{n}-0001-0203-0405-060708090a00" for n in seen)
    assert sorted(d["uuid"] for d in r.devices) == uuids
    for d in r.devices:
        assert d["device"] == 0 and d["pci"] == f"0000:0{int(d['uuid'][11]) + 1}:00.0" and d["model"] == "Mock GPU"
        assert (d["capability"], d["multiprocessors"], d["clock_khz"]) == (90, 132, 1500000)
        assert (d["memory_khz"], d["bus_bits"]) == (2600000, 5120)
        # The device's line is before its executions.
        assert r.t.ev.index(d) < min(i for i, e in enumerate(r.t.ev) if e["type"] == "gpu" and e["pid"] == d["pid"])
    said = json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)["gpu"]["devices"]
    assert sorted((d["uuid"], d["processes"]) for d in said) == [(u, uuids.count(u)) for u in sorted(set(uuids))]
    assert not any("shared" in d for d in said)
    by_uuid = collections.Counter()
    for e in r.gpu:
        by_uuid[next(d["uuid"] for d in r.devices if d["pid"] == e["pid"])] += 1
    assert {d["uuid"]: d["executions"] for d in said} == by_uuid
    text = cudatrace("report", "--full", tmp_path / "t.jsonl").out
    assert all(f"GPU 0 {u[4:12]}" in text for u in uuids) and "Several processes" not in text
    rows = {e["args"]["name"] for e in json.loads((tmp_path / "t.json").read_text()) if e["name"] == "thread_name"}
    assert {x for x in rows if x.startswith("GPU")} == {row_of(r, e) for e in r.gpu}


def test_gpus_that_are_not_known(tmp_path):
    """An unknown driver must not be queried. The report must state that the row may cover several GPUs."""
    r = Traced(tmp_path, command=("sh", "-c", BOTH.format(0, 1, SAMPLE)), fake=O + "/fakeplain")
    assert r.gpu and not r.devices
    (device,) = json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)["gpu"]["devices"]
    assert device["shared"] and device["processes"] == 2 and "uuid" not in device
    assert "Several processes have a GPU of the same number" in cudatrace("report", "--full", tmp_path / "t.jsonl").out


def test_report(tmp_path):
    """Sums in the report must be those of the lines; answers about the GPU must come from measurements."""
    r = Traced(tmp_path)
    gpu = json.loads(cudatrace("report", "--format=json", "--top", "1000", tmp_path / "t.jsonl").out)["gpu"]
    assert gpu["executions"] == len(r.gpu)
    by_kernel = collections.Counter()
    for e in r.gpu:
        if e["op"] == "kernel":
            by_kernel[e["kernel"]] += e["duration_us"] * 1000
    assert {k["name"]: k["total_ns"] for k in gpu["kernels"]} == {k: pytest.approx(v, abs=1000) for k, v in by_kernel.items()}
    (device,) = gpu["devices"]
    spans = sorted((round(e["ts"] * 1e6), round(e["ts"] * 1e6 + e["duration_us"] * 1e3), e["op"] in ("copy", "memset")) for e in r.gpu)

    def covered(which):
        total, end = 0, 0
        for a, b, copies in spans:
            if which in (None, copies) and b > end:
                total += b - max(a, end)
                end = b
        return total
    assert device["busy_ns"] == pytest.approx(covered(None), abs=2000)
    assert device["compute_ns"] == pytest.approx(covered(False), abs=2000)
    assert device["copy_ns"] == pytest.approx(covered(True), abs=2000)
    assert device["overlap_ns"] == device["compute_ns"] + device["copy_ns"] - device["busy_ns"]
    assert device["span_ns"] == device["busy_ns"] + device["idle_ns"]
    assert sum(g["total_ns"] for g in device["gaps"]) == device["idle_ns"] and device["late"] == 0
    text = cudatrace("report", "--full", tmp_path / "t.jsonl").out
    assert "On the GPU" in text and "Measured on the GPU" in text and "do not show how long" not in text
    assert f"Without a GPU time: 0 of {r.end('launches_timed'):,} launches" in re.sub(r"\s+", " ", text)


def test_page(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("needs chromium")
    r = Traced(tmp_path)
    assert cudatrace("report", "--format=html", "-o", tmp_path / "page.html", tmp_path / "t.jsonl").status == 0
    page = Ran([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/page.html"],
               timeout=120).out
    [section] = re.findall(r'<section[^>]* id="executed".*?</section>', page, re.S)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", section))
    assert f"{len(r.gpu):,}" in text.replace("\u202f", ",").replace("\u00a0", " ") and "matmul" in text and "copies HtoD" in text and "graphs" in text
    assert "in the next table" in page and "GPU idle" in page
    # Each stream has a row, and none of them is a driver's.
    lanes = Page(tmp_path / "page.html").meta["lanes"]
    rows = {row_of(r, e): e["gpu_stream"] for e in r.gpu}
    assert {x["comm"] for x in lanes if x["comm"].startswith("GPU")} == set(rows) and not any(x["driver"] for x in lanes)


def test_declarations():
    """Our declarations must match CUPTI's headers, if installed."""
    include = next((d for d in ("/usr/local/cuda/include", "/usr/local/cuda-13.0/include") if os.path.exists(d + "/cupti.h")), None)
    if not include:
        pytest.skip("no CUPTI headers")
    source = """
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <stddef.h>
#define SAME(a, b) _Static_assert((a) == (b), #a)
#define KERNEL CUpti_ActivityKernel9
SAME(offsetof(CUpti_ActivityKernel9, start), 16); SAME(offsetof(CUpti_ActivityKernel9, end), 24);
SAME(offsetof(CUpti_ActivityKernel9, deviceId), 40); SAME(offsetof(CUpti_ActivityKernel9, contextId), 44);
SAME(offsetof(CUpti_ActivityKernel9, streamId), 48); SAME(offsetof(CUpti_ActivityKernel9, correlationId), 92);
SAME(offsetof(CUpti_ActivityKernel9, name), 104); SAME(offsetof(CUpti_ActivityKernel9, graphNodeId), 144);
SAME(offsetof(CUpti_ActivityKernel9, registersPerThread), 6); SAME(offsetof(CUpti_ActivityKernel9, staticSharedMemory), 76);
SAME(offsetof(CUpti_ActivityMemcpy5, copyKind), 4); SAME(offsetof(CUpti_ActivityMemcpy5, bytes), 8);
SAME(offsetof(CUpti_ActivityMemcpy5, start), 16); SAME(offsetof(CUpti_ActivityMemcpy5, deviceId), 32);
SAME(offsetof(CUpti_ActivityMemcpy5, correlationId), 44); SAME(offsetof(CUpti_ActivityMemcpy5, graphNodeId), 64);
SAME(offsetof(CUpti_ActivityMemcpyPtoP4, correlationId), 60); SAME(offsetof(CUpti_ActivityMemcpyPtoP4, graphNodeId), 72);
SAME(offsetof(CUpti_ActivityMemset4, bytes), 8); SAME(offsetof(CUpti_ActivityMemset4, correlationId), 44);
SAME(offsetof(CUpti_ActivityMemset4, graphNodeId), 64);
SAME(offsetof(CUpti_ActivityGraphTrace, correlationId), 4); SAME(offsetof(CUpti_ActivityGraphTrace, start), 8);
SAME(offsetof(CUpti_ActivityGraphTrace, deviceId), 24); SAME(offsetof(CUpti_ActivityGraphTrace, streamId), 36);
SAME(offsetof(CUpti_CallbackData, correlationId), 64); SAME(CUPTI_API_ENTER, 0); SAME(CUPTI_CB_DOMAIN_DRIVER_API, 1);
SAME(CUPTI_ACTIVITY_KIND_MEMCPY, 1); SAME(CUPTI_ACTIVITY_KIND_MEMSET, 2); SAME(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 10);
SAME(CUPTI_ACTIVITY_KIND_MEMCPY2, 22); SAME(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 51); SAME(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED, 1);
SAME(CUPTI_ERROR_MAX_LIMIT_REACHED, 12); SAME(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, 39);
SAME(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 1); SAME(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 2); SAME(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, 10);
SAME(CUPTI_CB_DOMAIN_RESOURCE, 3); SAME(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 1); SAME(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 2);
SAME(CUPTI_CBID_RESOURCE_MODULE_LOADED, 6); SAME(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, 7);
SAME(CUPTI_ERROR_OUT_OF_MEMORY, 8); SAME(CUPTI_ERROR_HARDWARE_BUSY, 26); SAME(CUPTI_ERROR_NOT_SUPPORTED, 27); SAME(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, 35);
SAME(sizeof(CUpti_PCSamplingPCData), 64); SAME(offsetof(CUpti_PCSamplingPCData, pcOffset), 16); SAME(offsetof(CUpti_PCSamplingPCData, functionName), 32);
SAME(offsetof(CUpti_PCSamplingPCData, stallReason), 48); SAME(offsetof(CUpti_PCSamplingData, totalSamples), 16); SAME(offsetof(CUpti_PCSamplingData, pPcData), 56);
SAME(offsetof(CUpti_PCSamplingData, nonUsrKernelsTotalSamples), 64); SAME(offsetof(CUpti_PCSamplingData, hardwareBufferFull), 72);
SAME(sizeof(CUpti_PCSamplingConfigurationInfo), 32); SAME(CUpti_PCSamplingEnableParamsSize, 24); SAME(CUpti_PCSamplingGetDataParamsSize, 32);
SAME(CUpti_PCSamplingConfigurationInfoParamsSize, 40); SAME(CUpti_PCSamplingGetStallReasonsParamsSize, 48); SAME(CUpti_PCSamplingGetNumStallReasonsParamsSize, 32);
SAME(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD, 1); SAME(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_HARDWARE_BUFFER_SIZE, 4);
SAME(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE, 5); SAME(CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER, 8);
SAME(CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS, 1); SAME(CUpti_GetSassToSourceCorrelationParamsSize, 64);
SAME(offsetof(CUpti_GetSassToSourceCorrelationParams, lineNumber), 32); SAME(offsetof(CUpti_GetSassToSourceCorrelationParams, fileName), 48);
SAME(offsetof(CUpti_GetCubinCrcParams, cubinCrc), 24); SAME(offsetof(CUpti_ModuleResourceData, pCubin), 16); SAME(offsetof(CUpti_ResourceData, resourceDescriptor), 16);
#define CBID(name, number) SAME(CUPTI_DRIVER_TRACE_CBID_##name, number);
#include "cupti_cbids.def"
#define CUPTI_ERROR(name, number) SAME(CUPTI_ERROR_##name, number);
#include "cupti_results.def"
"""
    folders = ["-I" + include, *(f"-I{os.path.dirname(TESTS)}/{name}" for name in ("inject", "src/model"))]
    ran = subprocess.run(["gcc", "-fsyntax-only", *folders, "-x", "c", "-"], input=source, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]


def test_diff(tmp_path):
    """diff must compare GPU executions if both traces have them."""
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    for path, tokens in (few, "4"), (many, "8"):
        cudatrace("-q", "--gpu-time", "--probe=inject", "--jsonl", path, "--", SAMPLE, "--quiet", "--tokens", tokens,
                  env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti"})
    d = json.loads(cudatrace("diff", "--json", few, many).out)
    ran = {x["name"]: x for x in d["gpu"]}
    for path, when in (few, "before"), (many, "after"):
        per = collections.Counter()
        for e in Trace(path).ev:
            if e["type"] == "gpu":
                per[e.get("kernel", e["name"])] += 1
        assert {k: v["count_" + when] for k, v in ran.items() if v["count_" + when]} == per
    computed = {x["name"]: x for x in d["all"]}["GPU computed"]
    assert computed["changed"] and computed["before_ns"] < computed["after_ns"]
    assert "on the GPU" in cudatrace("diff", few, many).out
    plain = tmp_path / "plain.jsonl"
    cudatrace("-q", "--probe=inject", "--jsonl", plain, "--", SAMPLE, "--quiet", "--tokens", "8", env={"LD_LIBRARY_PATH": FAKE})
    said = cudatrace("diff", plain, many).out
    assert "Only the new trace has GPU times" in said and "on the GPU" not in said and "GPU computed" not in said
