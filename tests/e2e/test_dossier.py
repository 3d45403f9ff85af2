# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
# own processes
"""Dossiers: for a fault, an Xid, a hang and a request, the daemon must make one folder whose verdict names the kernel."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers import gpu_core
from helpers.daemon import NOBODY, lines_of
from helpers.otlp import Collector
from helpers.run import O, TESTS, until

SLOW_INIT = {"FAKE_DELAY_US": "cuInit:300000"}
SPINS = "spins(int volatile*)"


def dossiers(d, reason="*"):
    """The complete ones, in order."""
    return [f.parent for f in sorted(d.files.glob(f"dossier-*-{reason}-*/dossier.json"))]


def index(folder):
    return json.loads((folder / "dossier.json").read_text())


def hanging(private, *args, ms=6000, **env):
    """The kernel spins ends after ms."""
    program = private.compiled("hangs", f"-I{TESTS}", f"{TESTS}/hangs.c")
    env = {"LD_LIBRARY_PATH": str(private.lib), "FAKE_HANG": f"_Z5spinsPVi:{ms}", **SLOW_INIT, **env}
    return private.start(program, *(args or ["alone"]), env=env)


def test_hang(private):
    """A wait beyond trace.hang_after has one dossier, with the kernel, the thread's stack, the call in flight, and NVML's samples."""
    d = private.daemon("hang", "trace.hang_after=1200ms", "recorder.after=100ms", "gpu_stats.interval=100ms", level="trace",
                       env={"LD_LIBRARY_PATH": f"{O}/fakenvml", "FAKE_NVML": f"pidfile={private.folder}/pids"})
    # A long wait of another process that returned does not hide it.
    assert hanging(private, ms=1000).wait() == 0
    p = hanging(private)
    (private.folder / "pids").write_text(f"{p.pid},1")
    until(lambda: dossiers(d), 30)
    folder = dossiers(d)[-1]
    assert re.fullmatch(rf"dossier-\d{{8}}T\d{{6}}Z-\d{{6}}-hang-{p.pid}", folder.name)
    assert folder.stat().st_mode & 0o777 == 0o700 and all(f.stat().st_mode & 0o777 == 0o600 for f in folder.iterdir())
    x = index(folder)
    assert (x["reason"], x["pid"], x["comm"], x["has_calls"]) == ("hang", p.pid, "hangs", True)
    share = "kernels ran for 50 % of the time, kernels of this process for 50 %"
    assert "cuStreamSynchronize has not returned" in x["cause"] and share in x["cause"] and share in x["verdict"] and x["verdict"] and SPINS in x["verdict"], x
    assert SPINS in (folder / "verdict.txt").read_text()
    verdict = json.loads((folder / "verdict.json").read_text())
    (failure,) = verdict["failure"]
    assert (failure["kind"], failure["pid"], failure["verdict"]) == ("hang", p.pid, x["verdict"])
    assert verdict["gpu_stats"]["devices"][0]["samples"] >= 10 and "kernels ran for 50 % of the time" in x["verdict"]
    assert {k["kind"] for k in verdict["memory"]["kinds"]} == {"device"} and "communication" in verdict
    threads = (folder / "threads.txt").read_text()
    assert re.search(rf"^thread {p.pid}, state \w, name hangs, .*in cuStreamSynchronize for ", threads) and "sync_stream" in threads
    (unfinished,) = [c for c in lines_of(folder / "calls.jsonl.zst") if c.get("unfinished") is True]
    assert unfinished["name"] == "cuStreamSynchronize" and unfinished["pid"] == p.pid
    assert {lib["path"] for lib in x["versions"]["libraries"]} == {str(private.lib / "libcuda.so.1")}
    assert x["memory"]["device_bytes"] == 4096 == sum(b["size"] for b in x["memory"]["blocks"])
    m = d.metrics()
    assert m.total("dossiers_total") == m.total("dossiers_total", reason="hang") == 1 and not m.total("dossiers_refused_total")
    assert re.search(rf"dossier \(hang\) of process {p.pid} \(hangs\): {folder.name}: .*spins", d.said())


PYTHON_WAITS = """
import ctypes, sys, threading, time
cuda, out = ctypes.CDLL(sys.argv[1]), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(out), 0) and not cuda.cuCtxSetCurrent(out)
def first_waits(): time.sleep(60)
def second_waits(): time.sleep(60)
threading.Thread(target=second_waits, daemon=True).start()
assert not cuda.cuMemAlloc_v2(ctypes.byref(out), ctypes.c_size_t(4096))
first_waits()
"""


def test_request(private):
    """A healthy process: the folder is named at once; the verdict is that there is none. Other users and processes without CUDA are refused."""
    d = private.daemon("request", "ctl.group=nogroup", level="trace")
    c = d.worker("healthy")
    c.tell("alloc 3")
    folder = d.ctl("dossier", c.pid)["folder"]
    until(lambda: os.path.exists(folder + "/dossier.json"), 30)
    assert dossiers(d, "request") == [d.files / os.path.basename(folder)]
    x = index(dossiers(d)[0])
    assert (x["reason"], x["cause"], x["verdict"], x["has_calls"], x["threads"]) == ("request", None, None, True, 1)
    assert "no_report" not in x
    assert len([1 for line in lines_of(folder + "/calls.jsonl.zst") if line.get("symbol") == "cuMemAlloc_v2"]) == 3
    # A Python program.
    (private.folder / "waits.py").write_text(PYTHON_WAITS)
    python = private.start(private.folder / "python", private.folder / "waits.py", private.lib / "libcuda.so.1", executable=sys.executable, env={"PYTHONHOME": sys.base_prefix})
    until(lambda: d.process(python.pid).get("device_bytes"), 20)
    time.sleep(0.2)
    folder = d.ctl("dossier", python.pid)["folder"]
    text = (pathlib.Path(folder) / "threads.txt").read_text()
    assert {"first_waits", "second_waits"} <= set(re.findall(r"^  python  (\w+)", text, re.M)), text
    for who, pid, why in ((NOBODY, c.pid, "only root"), ((), 1, "does not use CUDA"), ((), "x", "write dossier PID")):
        ran = d.ask("dossier", pid, before=who)
        assert ran.status and why in ran.out + ran.err
    assert d.metrics().total("dossiers_total", reason="request") == 1



def test_sticky_error(private):
    """A fault makes one dossier, which names the kernel; the program has ended by then. Errors that are not sticky make none."""
    d = private.daemon("error", "recorder.after=300ms", level="trace")
    c = d.worker("harmless")
    c.tell("fail 3")
    p = hanging(private, ms=300, FAKE_FAULT="_Z5spinsPVi:700")
    until(lambda: dossiers(d), 30)
    p.wait()
    time.sleep(0.5)
    (folder,) = dossiers(d)
    x = index(folder)
    assert (x["reason"], x["pid"], x["cause"]) == ("error", p.pid, "cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS")
    assert SPINS in x["verdict"] and "accessed an address that is not valid" in x["verdict"]
    # Although the program ends at once.
    assert x["memory"]["device_bytes"] == 4096 and x["versions"]["libraries"] and x["command"].endswith("hangs alone")
    assert d.metrics().total("dossiers_total") == 1


def test_parameters(private):
    """A program with the library: the dossier has the parameters of the suspect's launch, and the memory that they point to. trace.kernel_args turns that off."""
    def faulted(d, name):
        where = private.folder / f"{name}.inject"
        p = hanging(private, "block", ms=1200, FAKE_FAULT="_Z5spinsPVi:700", CUDA_INJECTION64_PATH=f"{where}/libcudatrace-inject.so")
        until(lambda: dossiers(d, "error"), 30)
        p.wait(20)
        (folder,) = dossiers(d, "error")
        (failure,) = json.loads((folder / "verdict.json").read_text())["failure"]
        launch = [x for x in lines_of(folder / "calls.jsonl.zst") if x.get("kernel") == SPINS][-1]
        assert launch["id"] >> 48, "not recorded by the library"
        return folder, failure["suspects"][0], launch

    for name, settings in ("on", ()), ("off", ("trace.kernel_args=false",)):
        d = private.daemon(name, "trace.inject=true", f"trace.inject_folder={private.folder}/{name}.inject", "recorder.after=100ms", *settings, level="trace")
        folder, suspect, launch = faulted(d, name)
        assert suspect["kernel"] == SPINS
        if name == "off":
            assert "parameters" not in suspect and "params" not in launch
            continue
        (p,) = suspect["parameters"]
        assert (p["parameter"], p["offset"], p["size"]) == (1, 64, 4096) and int(p["value"], 16) == int(p["ptr"], 16) + 64
        assert p["ptr"] in {b["ptr"] for b in index(folder)["memory"]["blocks"]}
        assert launch["params"][0]["memory"] == [{"ptr": p["ptr"], "size": 4096, "offset": 64, "state": "live"}]
        assert f"Parameters of {SPINS} that may be addresses:" in (folder / "verdict.txt").read_text()


def test_xid(private):
    """An Xid that names a process makes one dossier of it; one that names no process of ours makes none."""
    d = private.daemon("xid", "recorder.after=300ms", "trace.hang_after=1h", level="trace")
    p = hanging(private, ms=20000)
    until(lambda: d.process(p.pid).get("device_bytes"), 20)
    time.sleep(1.5)
    try:
        with open("/dev/kmsg", "w", encoding="utf-8") as f:
            f.write("<4>NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=x, Graphics Exception\n")
            f.flush()
            f.write(f"<4>NVRM: Xid (PCI:0000:3b:00): 31, pid={p.pid}, name=hangs, MMU Fault: faulted @ 0x7f05_5e400000. ACCESS_TYPE_VIRT_WRITE\n")
    except OSError:
        pytest.skip("/dev/kmsg cannot be written")
    until(lambda: dossiers(d), 30)
    time.sleep(0.5)
    (folder,) = dossiers(d)
    x = index(folder)
    assert (x["reason"], x["pid"]) == ("xid", p.pid) and x["cause"].startswith("Xid 31 (PCI:0000:3b:00): pid=")
    assert SPINS in x["verdict"] or "Xid 31" in x["verdict"], x
    assert SPINS in (folder / "verdict.txt").read_text()


def test_xid_of_no_process(private):
    """An Xid that names no process makes a dossier of each traced one that may use the GPU; NVML shows one on another GPU."""
    on_first = private.caller("w-first")
    d = private.daemon("xid", "recorder.after=100ms", "trace.hang_after=1h", "gpu_stats.interval=100ms", level="trace",
                       env={"LD_LIBRARY_PATH": f"{O}/fakenvml", "FAKE_NVML": f"devices=2 pids={on_first.pid}"})
    anywhere = d.worker("anywhere")
    assert on_first.tell(f"open {private.lib}/libcuda.so.1") == 1
    until(lambda: d.has(on_first), 10)
    for c in on_first, anywhere:
        assert c.tell("init") == 0 and c.tell("alloc 1") == 1
    # The next sample shows the process.
    d.until(lambda m: m.total("gpu_samples_total") >= 4, 5)
    time.sleep(0.5)

    def xid(bus):
        try:
            with open("/dev/kmsg", "w", encoding="utf-8") as f:
                f.write(f"<4>NVRM: Xid (PCI:0000:{bus}:00): 79, GPU has fallen off the bus.\n")
        except OSError:
            pytest.skip("/dev/kmsg cannot be written")
    for bus, of, words in (("3c", anywhere, "may use this GPU: 1; NVML has not shown this one there"), ("3b", on_first, "may use this GPU: 2; NVML shows this one there")):
        xid(bus)
        until(lambda of=of: list(d.files.glob(f"dossier-*-xid-{of.pid}/dossier.json")), 30)
        x = index(next(d.files.glob(f"dossier-*-xid-{of.pid}")))
        assert x["cause"].startswith(f"Xid 79 (PCI:0000:{bus}:00): GPU has fallen off the bus. The message names no process.") and x["cause"].endswith(words), x
        assert "the hardware is at fault" in x["verdict"]
    time.sleep(0.3)
    assert len(dossiers(d)) == 2


def test_otlp(private):
    """The collector gets an event, a log record, with the cause, the folder and the verdict; the files of the daemon have a line."""
    collector = Collector(private)
    d = private.daemon("otlp", f"otlp.endpoint=http://localhost:{collector.port}/", "otlp.interval=1s", "recorder.after=300ms", level="trace")
    hanging(private, ms=300, FAKE_FAULT="_Z5spinsPVi:700").wait()
    until(lambda: dossiers(d), 30)
    d.stop()
    got = collector.end()
    assert got.problems() == []
    x = index(dossiers(d)[0])
    (event,) = got.events
    assert (event["eventName"], event["severityNumber"], event["resource"]["process.pid"]) == ("cudatrace.dossier", 17, str(x["pid"]))
    of = {k.removeprefix("cudatrace.dossier."): v for k, v in event["attrs"].items()}
    assert of == {"reason": "error", "folder": dossiers(d)[0].name, "cause": x["cause"], "verdict": x["verdict"][:512]}
    assert event["body"] == {"stringValue": of["verdict"]} and not [s for s in got.spans if "dossier" in s["name"]]
    assert abs(int(event["timeUnixNano"]) / 1e9 - got.logs[0]["time"]) < 60
    (line,) = [e for e in d.lines() if (e["type"], e.get("op")) == ("tracer", "dossier")]
    assert line["name"] == "error" and line["why"].startswith(f"process {x['pid']} (hangs): {dossiers(d)[0].name}: ") and SPINS in line["why"]
    logs = pytest.importorskip("opentelemetry.proto.logs.v1.logs_pb2", reason="protobuf: needs python3-opentelemetry-proto")
    if "event_name" not in logs.LogRecord.DESCRIPTOR.fields_by_name:
        pytest.skip("protobuf: python3-opentelemetry-proto is older than events")
    assert got.parsed_by_protobuf()


def test_rate(private):
    """At most dossier.per_hour, and of a user half of it, come from events; the others are counted. A request of root is not limited."""
    d = private.daemon("rate", "dossier.per_hour=3", "recorder.after=50ms", "trace.hang_after=1h", level="trace")
    for _ in range(4):
        assert hanging(private, ms=50, FAKE_FAULT="_Z5spinsPVi:700").wait(30)
    d.until(lambda m: m.total("dossiers_total") == 2 and m.total("dossiers_refused_total", why="user") == 2, 10)
    assert len(dossiers(d)) == 2 and "had half of dossier.per_hour" in d.said()
    c = d.worker("asked")
    d.ctl("dossier", c.pid)
    d.until(lambda m: m.total("dossiers_total", reason="request") == 1, 5)


def test_quota(private):
    """Of dossier.keep the oldest are removed; with no room for the calls none is made, and the log says so."""
    d = private.daemon("quota", "dossier.keep=2", level="trace")
    c = d.worker("asked")
    names = []
    for i in range(4):
        names.append(os.path.basename(d.ctl("dossier", c.pid)["folder"]))
        d.until(lambda m, i=i: m.total("dossiers_total") == i + 1, 5)
    assert [f.name for f in dossiers(d)] == names[2:]
    small = private.daemon("small", "dossier.total_size=2M", level="trace")
    c = small.worker("small")
    ran = small.ask("dossier", c.pid)
    assert ran.status and "cannot be written" in ran.out + ran.err and "Disk quota exceeded" in small.said()
    assert small.metrics().total("dossiers_refused_total", why="disk") == 1 and not list(small.files.glob("dossier-*"))


def test_no_folder(private):
    """Without a directory that is ours, requests fail with a reason."""
    d = private.daemon("bad", level="trace")
    c = d.worker("bad")
    d.files.rename(private.folder / "away")
    (private.folder / "bad.files").write_text("not a directory")
    ran = d.ask("dossier", c.pid)
    assert ran.status and "cannot be written" in ran.out + ran.err and "cannot make a dossier" in d.said()


def test_privileges(private):
    """The process that completes dossiers has few capabilities, none can be gained, and no file of the daemon."""
    d = private.daemon("rights", level="trace")
    (worker,) = [p for p in children_of(d.pid) if open(f"/proc/{p}/comm", encoding="ascii").read() == "cudatrace-doss\n"]
    of = dict(line.split(":\t") for line in open(f"/proc/{worker}/status", encoding="ascii").read().splitlines() if ":\t" in line)
    # DAC_READ_SEARCH, KILL, SETGID, SETUID, SYS_PTRACE
    want = f"{sum(1 << c for c in (2, 5, 6, 7, 19)):016x}"
    until(lambda: [of[k] for k in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs")] == [want] * 3 + ["0" * 16, "1"], 5)
    assert sorted(os.listdir(f"/proc/{worker}/fd")) == ["0", "1", "2", "3"]
    d.kill()
    until(lambda: not os.path.exists(f"/proc/{worker}"), 5)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(x) for x in f.read().split()]


def test_killed(private):
    """If the report, or the process that starts it, is killed, dossiers are still made, without a verdict; the daemon goes on."""
    d = private.daemon("killed", level="trace")
    c = d.worker("killed")
    (worker,) = [p for p in children_of(d.pid) if open(f"/proc/{p}/comm", encoding="ascii").read() == "cudatrace-doss\n"]
    os.kill(worker, signal.SIGSTOP)
    folder = d.ctl("dossier", c.pid)["folder"]
    time.sleep(1.5)
    assert not os.path.exists(folder + "/dossier.json") and os.path.exists(folder + "/calls.jsonl.zst")
    os.kill(worker, signal.SIGKILL)
    until(lambda: dossiers(d), 10)
    assert "restart the daemon" in index(dossiers(d)[0])["no_report"]
    d.ctl("dossier", c.pid)
    until(lambda: len(dossiers(d)) == 2, 10)
    assert c.tell("alloc 2") == 2
    c.end()
    d.stop()


def test_counted(private):
    """A process whose calls are counted has a dossier, too: with its threads and without calls of its own."""
    d = private.daemon("counted", "recorder.after=50ms", "trace.hang_after=700ms", level="metrics")
    p = hanging(private, ms=4000)
    until(lambda: dossiers(d, "hang"), 20)
    x = index(dossiers(d, "hang")[0])
    assert (x["pid"], x["level"], x["has_calls"], x["verdict"]) == (p.pid, "metrics", False, None) and x["no_report"] == "no calls were recorded"
    assert "in cuStreamSynchronize for" in (dossiers(d, "hang")[0] / "threads.txt").read_text()
    p = hanging(private, ms=50, FAKE_FAULT="_Z5spinsPVi:700")
    until(lambda: dossiers(d, "error"), 20)
    assert index(dossiers(d, "error")[0])["pid"] == p.pid


def test_redacted(private):
    """With trace.redact no value of an argument is in a dossier, and no command line."""
    d = private.daemon("redact", "trace.redact=arguments", level="trace")
    c = d.worker("secret", "--password=geheim")
    c.tell("alloc 3")
    d.ctl("dossier", c.pid)
    until(lambda: dossiers(d), 20)
    x = index(dossiers(d)[0])
    assert x["redacted"] == "arguments" and "memory" not in x and "command" not in x
    text = "".join(str(line) for line in lines_of(dossiers(d)[0] / "calls.jsonl.zst"))
    text += "".join(f.read_text() for f in dossiers(d)[0].iterdir() if f.suffix != ".zst")
    assert not [word for word in ("geheim", "bytesize") if word in text]


# --- GPU core dumps ---

def waits_for_request(private, d, ms=60000, made=gpu_core.sample, **env):
    """A program that hangs and has a pipe, as the driver would make it. Returns its dossier, and what the pipe got; the core dump is
    written when something arrives."""
    where = private.folder / "cores"
    where.mkdir(exist_ok=True)
    env = {"CUDA_COREDUMP_PIPE": f"{where}/pipe.%h.%p", "CUDA_COREDUMP_FILE": f"{where}/core.%h.%p.%t", **env}
    p = hanging(private, ms=ms, **env)
    os.mkfifo(where / f"pipe.some-host.{p.pid}")
    fd = os.open(where / f"pipe.some-host.{p.pid}", os.O_RDONLY | os.O_NONBLOCK)
    got, end = b"", time.monotonic() + 60
    while not (made_of := list(d.files.glob(f"dossier-*-hang-{p.pid}/dossier.json"))) and time.monotonic() < end:
        time.sleep(0.05)
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            data = b""
        if data and not got and made:
            (where / f"core.some-host.{p.pid}.{int(time.time())}").write_bytes(made())
        got += data
    os.close(fd)
    p.kill()
    return made_of[0].parent, got


ENABLED = {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1", "CUDA_COREDUMP_GENERATION_FLAGS": "skip_global_memory,skip_abort"}


def test_gpu_core(private):
    """A program started with the driver's user-triggered core dump is asked for one: the dossier has its kernels and program counters."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", "dossier.gpu_core=true", level="trace")
    folder, got = waits_for_request(private, d, **ENABLED)
    x = index(folder)
    assert got and x["gpu_core"] == f"resident: {SPINS}: 3 warps, quick(int*): 0 warps", x
    core = json.loads((folder / "gpu-core.json").read_text())
    assert core["file"].startswith(f"{private.folder}/cores/core.some-host.") and (core["devices"], core["warps"], core["grid_count"]) == (1, 3, 2)
    spins, quick = core["grids"]
    assert (spins["id"], spins["kernel"], spins["grid"], spins["block"], spins["warps"], spins["threads"]) == (7, SPINS, [3, 1, 1], [32, 1, 1], 3, 88)
    assert spins["pcs"] == [{"pc": "0x7f0000001040", "function": "_Z5spinsPVi", "offset": "0x40", "warps": 3, "threads": 80},
                            {"pc": "0x7f0000001050", "function": "_Z5spinsPVi", "offset": "0x50", "warps": 1, "threads": 8, "exception": 14}]
    assert (quick["id"], quick["kernel"], quick["warps"], quick["pcs"]) == (8, "quick(int*)", 0, [])


def test_gpu_core_only_if_allowed(private):
    """A core dump ends the program's GPU work: without dossier.gpu_core, or the word core, none is requested."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", level="trace")
    folder, got = waits_for_request(private, d, made=None, **ENABLED)
    assert not got and index(folder)["gpu_core"] == "not requested: neither dossier.gpu_core nor ctl dossier PID core"
    p = hanging(private, ms=60000, **ENABLED, CUDA_COREDUMP_PIPE=f"{private.folder}/cores/none.%p")
    until(lambda: d.process(p.pid).get("device_bytes"), 20)
    asked = d.ctl("dossier", p.pid, "core")["folder"]
    until(lambda: os.path.exists(asked + "/dossier.json"), 60)
    assert "does not exist" in index(pathlib.Path(asked))["gpu_core"]


@pytest.mark.parametrize("env, made, why", [
    ({}, None, None),
    ({"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1"}, None, "would end the program"),
    ({**ENABLED, "CUDA_COREDUMP_PIPE": "/%t/pipe"}, None, "not supported"),
    ({**ENABLED, "CUDA_COREDUMP_PIPE": "/etc/passwd"}, None, "does not exist"),
    ({**ENABLED, "CUDA_COREDUMP_PIPE": "../../../pipe"}, None, "does not exist")], ids=["not-enabled", "aborts", "template", "file", "outside"])
def test_gpu_core_refused(private, env, made, why):
    """Nothing is written to a program that is not prepared, or whose names lead elsewhere."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", "dossier.gpu_core=true", level="trace")
    folder, got = waits_for_request(private, d, made=made, **env)
    x = index(folder)
    assert not got and SPINS in x["verdict"] and (why in x["gpu_core"] if why else "gpu_core" not in x), x
    assert not (folder / "gpu-core.json").exists()


def test_gpu_core_damaged(private):
    """A file that is no core dump, or is one of another machine, is reported."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", "dossier.gpu_core=true", level="trace")
    folder, got = waits_for_request(private, d, made=lambda: pathlib.Path("/proc/self/exe").read_bytes(), **ENABLED)
    assert got and index(folder)["gpu_core"] == "it is not a GPU core dump"


def test_gpu_core_of_a_user(private):
    """The pipe and the file are opened as the program's user: one of another user is not touched."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", "dossier.gpu_core=true", level="trace")
    for path in (private.folder, private.lib):
        path.chmod(0o755)
    where = private.folder / "cores"
    where.mkdir()
    where.chmod(0o777)
    program = private.compiled("hangs", f"-I{TESTS}", f"{TESTS}/hangs.c")
    env = {"LD_LIBRARY_PATH": str(private.lib), "FAKE_HANG": "_Z5spinsPVi:20000", **SLOW_INIT, **ENABLED,
           "CUDA_COREDUMP_PIPE": f"{where}/pipe.%p", "CUDA_COREDUMP_FILE": f"{where}/core.%p"}
    p = private.start(*NOBODY, program, "alone", env=env)
    os.mkfifo(where / f"pipe.{p.pid}", 0o666)
    fd = os.open(where / f"pipe.{p.pid}", os.O_RDONLY | os.O_NONBLOCK)
    until(lambda: dossiers(d, "hang"), 60)
    assert os.read(fd, 1) == b""
    assert "does not exist" in index(dossiers(d, "hang")[0])["gpu_core"]


def test_gpu_core_of_a_set_uid_program(private):
    """A program executes a set-uid one before its core dump is requested: root's pipe, which its environment names, is not touched."""
    d = private.daemon("core", "trace.hang_after=1s", "recorder.after=100ms", "dossier.gpu_core=true", level="trace")
    for path in (private.folder, private.lib):
        path.chmod(0o755)
    sleep = private.folder / "sleep"
    shutil.copy("/bin/sleep", sleep)
    sleep.chmod(0o4755)
    pipe = private.folder / "pipe.root"
    os.mkfifo(pipe, 0o600)
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    program = private.compiled("hangs", f"-I{TESTS}", f"{TESTS}/hangs.c")
    env = {"LD_LIBRARY_PATH": str(private.lib), "FAKE_HANG": "_Z5spinsPVi:60000", **SLOW_INIT, **ENABLED, "CUDA_COREDUMP_PIPE": str(pipe)}
    worker = int(subprocess.check_output(["pgrep", "-P", str(d.pid), "-x", "cudatrace-doss"]))
    os.kill(worker, signal.SIGSTOP)
    p = private.start(*NOBODY, program, "alone", sleep, env=env)
    until(lambda: list(d.files.glob("dossier-*-hang-*")), 60)
    time.sleep(0.5)
    p.send_signal(signal.SIGUSR1)
    until(lambda: "\t0\t" in pathlib.Path(f"/proc/{p.pid}/status").read_text().split("Uid:")[1].split("\n")[0])
    os.kill(worker, signal.SIGCONT)
    until(lambda: dossiers(d, "hang"), 60)
    got = select.select([fd], [], [], 0)[0] and os.read(fd, 1)
    p.kill()
    assert not got and "not requested: the program has ended, or has executed" in index(dossiers(d, "hang")[0])["gpu_core"]
