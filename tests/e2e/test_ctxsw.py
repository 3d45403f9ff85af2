# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 30
"""--gpu-ctxsw with a mock of the driver (tests/nvfuse/rm_driver.py): real ioctls and mappings of a log that the test
writes. Tests the requests, refusals, valid records and invalid records."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.request

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, INSIDE, TESTS, Ran, cudatrace, needs_tracing, passes, until

START, END = 6, 7
KERNEL = 0xffffffff
# Process 1 always exists.
INIT = 1


def needs_stand_in():
    if os.geteuid() or not os.path.exists("/dev/fuse"):
        pytest.skip("needs root and /dev/fuse, for a mock device")


def run_of(pid, context, *times):
    """Records of slices that begin and end at these times, in us."""
    return [{"tag": START if i % 2 == 0 else END, "pid": pid, "context": context, "us": us} for i, us in enumerate(times)]


class Traced:
    """cudatrace with that log: its run, the trace's head, slices, lost lines and end; "asked" has the requests to the driver."""

    def __init__(self, folder, gpus, args=("--gpu-ctxsw",), command=("true",), status=0, **scenario):
        self.folder = folder
        self.path = f"{folder}/t.jsonl"
        with open(f"{folder}/scenario", "w", encoding="utf-8") as f:
            json.dump({"gpus": gpus, **scenario}, f)
        self.args = [TESTS + "/nvfuse/rm_driver.py", f"{folder}/scenario", f"{folder}/asked", *INSIDE_ONLY, CUDATRACE, "--probe=inject", *args,
                     "--jsonl", self.path, "--chrome", f"{folder}/t.json", "--perfetto", f"{folder}/t.pftrace", "--summary=full", "--", *command]
        self.ran = Ran(self.args, timeout=20)
        assert self.ran.status == status, self.ran
        self.read()

    def read(self):
        with open(self.path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        self.head, self.end = lines[0], lines[-1]
        self.slices = [e for e in lines if e["type"] == "ctxsw"]
        self.lost = [e for e in lines if e["type"] == "tracer" and e["op"] == "lost"]
        self.read_asked()

    def read_asked(self):
        with open(f"{self.folder}/asked", encoding="utf-8") as f:
            self.asked = [json.loads(line) for line in f]
        assert [a for a in self.asked if "hazard" in a] == []

    def calls(self, call):
        return [a["what"] for a in self.asked if a.get("call") == call]

    def was_bound(self):
        return "bind" in self.calls("control")


# Runs without uprobes, which these tests do not need.
INSIDE_ONLY = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"] if not INSIDE else INSIDE


def gpu(*batches, minor=0, **more):
    return {"minor": minor, "batches": list(batches), **more}


@pytest.fixture(scope="module")
def turns():
    """Slices of this process, of init and of no process."""
    needs_stand_in()
    return Traced(tempfile.mkdtemp(dir=os.environ["TMP"]), [gpu(
        run_of(INIT, 7, 0),
        [{"tag": END, "pid": INIT, "context": 8, "us": 1000}, *run_of(os.getpid(), 9, 1100, 3100), *run_of(INIT, 7, 3200, 5200)],
        [*run_of(KERNEL, 3, 5300, 6300), *run_of(0, 0, 6350, 6400), *run_of(INIT, 7, 8400)])], command=["sleep", "0.2"])


def test_calls(turns):
    """Requests to the driver must be in order; every object is freed, and nothing stays open."""
    t = turns
    assert t.calls("alloc") == ["client", "device", "subdevice", "memory", "memory", "buffer"]
    controls = t.calls("control")
    assert controls[:7] == ["id_info", "gpu_info", "times", "times", "times", "bind", "enable"]
    assert set(controls[7:]) <= {"update_get", "times", "flush"} and controls[-1] != "enable"
    assert [(a["length"], a["flags"]) for a in t.asked if a.get("call") == "map"] == [(4096, 1), (8192 * 32, 1)]
    assert sorted(t.calls("free")) == sorted(t.calls("alloc"))
    assert t.calls("free")[:3] == ["buffer", "memory", "memory"]
    assert sorted(t.calls("close")) == sorted(t.calls("open")) == ["nvidia0", *["nvidiactl"] * 3]


def test_slices(turns):
    """Slices must match the records, independent of the times of reading; the last slice is still running."""
    t = turns
    assert t.head["gpu_ctxsw"] == "on" and t.end["drops"]["ctxsw"] == 0 and t.lost == []
    first, *middle, last = t.slices
    assert [(s["pid"], s["context"], s.get("owner"), s["duration_us"]) for s in middle] == [
        (os.getpid(), 9, None, 2000), (INIT, 7, None, 2000), (0, 3, "kernel", 1000), (0, 0, "other user", 50)]
    assert (first["pid"], first["context"], "truncated_start" in first) == (INIT, 7, False) and first["duration_us"] > 1000
    assert (last["pid"], last["unfinished"], "duration_us" in last) == (INIT, True, False) and last["elapsed_us"] > 0
    with open("/proc/self/comm", encoding="utf-8") as f:
        assert t.slices[1]["comm"] == f.read().rstrip("\n")
    assert {(s["minor"], s["gpu"], s["op"]) for s in t.slices} == {(0, "0000:3b:00.0", "slice")}
    begins = [s["ts"] * 1e3 for s in t.slices]
    ends = [b + s.get("duration_us", 0) for b, s in zip(begins, t.slices)]
    gaps = [round(b - e, 1) for b, e in zip(begins[1:], ends)]
    # The clock may have been read once more in between.
    assert gaps == pytest.approx([100, 100, 100, 50, 2000], abs=1)


def test_clock(turns):
    """The GPU's clock is far from ours, but the slices must lie between the trace's begin and end."""
    assert 0 < turns.slices[1]["ts"] < turns.slices[-1]["ts"] < turns.end["ts"]


def test_valid(turns):
    passes("golden/schema_check.py", turns.path)
    Trace(turns.path)


def test_summary(turns):
    said = turns.ran.err
    assert "Context switches of GPU 0: 6 in " in said and "(kernel)" in said and "(other user)" in said and f"({os.getpid()})" in said
    assert "no process had it for 2.00 ms" in said


def test_report(turns):
    r = json.loads(cudatrace("report", "--format=json", turns.path).out)
    [g] = r["context_switches"]["gpus"]
    assert r["context_switches"]["log"] == "on"
    assert (g["minor"], g["gpu"], g["switches"], g["empty_ns"], g["lost_before"]) == (0, "0000:3b:00.0", 6, pytest.approx(2e6, abs=1000), 0)
    assert g["between_ns"] == pytest.approx(350e3, abs=4000)
    assert sum(p["resident_ns"] for p in g["processes"]) + g["between_ns"] + g["empty_ns"] == g["span_ns"]
    by = {p["pid"] or p["owner"]: p for p in g["processes"]}
    assert (by[os.getpid()]["slices"], by[os.getpid()]["resident_ns"]) == (1, 2000000)
    assert (by["kernel"]["resident_ns"], by["other user"]["resident_ns"], by[INIT]["slices"]) == (1000000, 50000, 3)
    [answer] = [a for a in r["answers"] if a["id"] == "scheduler"]
    assert "GPU 0 switched contexts 6 times" in answer["text"] and answer["numbers"]["switches"] == 6


def test_pictures(turns, tmp_path):
    """Each GPU has a row; pictures made of the saved trace are the same."""
    for kind, path in (("chrome", f"{turns.folder}/t.json"), ("perfetto", f"{turns.folder}/t.pftrace")):
        assert cudatrace("report", f"--format={kind}", "-o", tmp_path / kind, turns.path).status == 0
        with open(path, "rb") as a, open(tmp_path / kind, "rb") as b:
            assert a.read() == b.read()
    with open(f"{turns.folder}/t.json", encoding="utf-8") as f:
        events = json.load(f)
    row = [e for e in events if e["ph"] == "X" and e.get("cat") == "ctxsw"]
    assert [(e["pid"], e["tid"]) for e in row] == [(0, 1)] * 6 and "GPU 0: contexts" in [e["args"].get("name") for e in events if e["ph"] == "M"]
    assert row[1]["name"].endswith(f" {os.getpid()}") and [e["name"] for e in row[3:5]] == ["kernel", "other user"]


def test_page(turns, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("needs chromium")
    assert cudatrace("report", "--format=html", "-o", tmp_path / "page.html", turns.path).status == 0
    page = Ran([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{tmp_path}/page.html"],
               timeout=120).out
    [section] = re.findall(r'<section[^>]* id="switches".*?</section>', page, re.S)
    assert "Context switches" in section and "GPU 0 · 0000:3b:00.0" in section
    assert "(other user)" in section and "(kernel)" in section and f"({os.getpid()})" in section


def test_two_gpus(tmp_path):
    needs_stand_in()
    t = Traced(tmp_path, [gpu(run_of(INIT, 1, 0), run_of(INIT, 1, 10, 20)), gpu(run_of(INIT, 2, 0), run_of(INIT, 2, 10, 20, 30, 40), minor=5)])
    assert {(s["minor"], s["gpu"]) for s in t.slices} == {(0, "0000:3b:00.0"), (5, "0000:3c:00.0")}
    assert len([s for s in t.slices if s["minor"] == 5]) == 3
    assert t.calls("alloc").count("client") == 1 and sorted(t.calls("free")) == sorted(t.calls("alloc"))
    assert "Context switches of GPU 5: 3 in" in t.ran.err


def test_began_before(tmp_path):
    """A process whose slice ends first had the GPU when the log began."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu([{"tag": END, "pid": INIT, "context": 4, "us": 600e3}])], command=["sleep", "0.8"])
    [s] = t.slices
    assert s["truncated_start"] is True and s["duration_us"] == pytest.approx(600e3, rel=0.05)


def test_long_slice(tmp_path):
    """A long slice is one slice, although many reads find no record."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu(run_of(INIT, 4, 0))], command=["sleep", "0.3"])
    [s] = t.slices
    assert s["unfinished"] is True and s["elapsed_us"] > 300e3


def test_alone(tmp_path):
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])])
    assert t.slices == [] and t.head["gpu_ctxsw"] == "on"
    assert "Context switches: none: a process that is alone" in t.ran.err
    assert "no other process used a GPU" in " ".join(cudatrace("report", "--full", t.path).out.split())


def test_missing(tmp_path):
    """Missing record numbers must be counted, and slices around them must not be guessed."""
    needs_stand_in()
    batch = [*run_of(INIT, 7, 10, 20, 30, 40), *run_of(INIT, 7, 50, 60)]
    batch[3]["skip"] = 4
    t = Traced(tmp_path, [gpu(run_of(INIT, 7, 0), batch)])
    assert [s.get("lost_before") for s in t.slices] == [None, None, 4]
    assert t.end["drops"]["ctxsw"] == 4 and [e["events"] for e in t.lost] == [4]
    assert "4 records of the driver's log missing" in t.ran.err and "  4 records of context switches" in t.ran.err
    # The report must not recommend a larger buffer, which does not help.
    report = cudatrace("report", "--full", t.path).out
    assert "  4 records of context switches" in report and "--buffer-size" not in t.ran.err + report


def test_full(tmp_path):
    """A full ring keeps the oldest records; none may appear twice."""
    needs_stand_in()
    times = [us for i in range(6000) for us in (10 * i, 10 * i + 5)]
    t = Traced(tmp_path, [gpu(run_of(INIT, 7, 0), run_of(INIT, 7, *times), run_of(INIT, 7, 70000, 70005))])
    dropped = 12000 - 8191
    assert t.end["drops"]["ctxsw"] == dropped
    assert t.slices[-1]["lost_before"] == dropped
    assert len(t.slices) == 1 + 8191 // 2 + 1 and len({s["ts"] for s in t.slices}) == len(t.slices)


BAD = {"of another type": {"type": 1}, "with a tag that nobody knows": {"tag": 0x55}, "without a time": {"tag": 0xff}, "before the last one": {"us": -1e6},
       "of tomorrow": {"us": 86400e6}}


@pytest.mark.parametrize("what", BAD)
def test_bad_records(tmp_path, what):
    needs_stand_in()
    batch = run_of(INIT, 7, 10, 20, 30, 40)
    batch[1].update(BAD[what])
    t = Traced(tmp_path, [gpu(run_of(INIT, 7, 0), batch)])
    assert len(t.slices) == 2 and t.slices[-1]["duration_us"] == 10 and t.end["drops"]["ctxsw"] == 1


REASONS = {1: "too old", 2: "confidential computing", 3: "not enabled", 4: "administrator", 5: "profiling is not allowed"}


@pytest.mark.parametrize("reason", REASONS)
def test_reasons(tmp_path, reason):
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])], fail={"bind": 0x56}, reason=reason)
    assert REASONS[reason] in t.ran.err and REASONS[reason] in t.head["gpu_ctxsw"]
    assert sorted(t.calls("free")) == sorted(t.calls("alloc")) and sorted(t.calls("close")) == sorted(t.calls("open"))


FAILS = {"client": "NV_ERR_NO_MEMORY", "device": "it cannot be used", "subdevice": "it cannot be used", "memory": "no memory for the log", "buffer": "no memory for the log",
         "map": "no memory for the log", "times": "clock cannot be read", "id_info": "it cannot be used", "gpu_info": "cannot determine whether MIG is enabled",
         "enable": "cannot be enabled", "bind": "the driver refused the log"}


@pytest.mark.parametrize("how", [0x51, -5], ids=["status", "errno"])
@pytest.mark.parametrize("what", FAILS)
def test_refused(tmp_path, what, how):
    """Wherever the driver refuses, one line must report it, all else is traced, and nothing stays open."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])], fail={what: how})
    assert ("NV_ERR_NO_MEMORY" if how > 0 else "Input/output error") in t.ran.err
    assert what == "client" or FAILS[what] in t.ran.err
    assert t.ran.err.count("cudatrace: ") <= 2 and t.slices == [] and t.head["gpu_ctxsw"] != "on"
    made = [a["what"] for a in t.asked if a.get("call") == "alloc" and not a["status"]]
    assert sorted(t.calls("free")) == sorted(made) and sorted(t.calls("close")) == sorted(t.calls("open"))
    assert "Context switches: not recorded: " in t.ran.err


@pytest.mark.parametrize("mode", [1, 3, 4])
def test_mig(tmp_path, mode):
    needs_stand_in()
    t = Traced(tmp_path, [gpu([], mig=mode)])
    assert "split by MIG" in t.ran.err and not t.was_bound()


def test_one_of_two(tmp_path):
    """If one of two GPUs is readable, it must be traced."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu([], mig=1), gpu(run_of(INIT, 7, 0), minor=1)])
    assert t.head["gpu_ctxsw"] == "on" and {s["minor"] for s in t.slices} == {1}


VERSIONS = {"580.65.06": True, "595.45.04": True, "600.1.1": False, "579.99": False, "570.211.01": False, "999.1.1": False}


@pytest.mark.parametrize("version", VERSIONS)
def test_versions(tmp_path, version):
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])], version=version)
    assert t.was_bound() == VERSIONS[version]
    assert ("--gpu-ctxsw=force tries" in t.ran.err) != VERSIONS[version]
    if not VERSIONS[version]:
        assert t.calls("alloc") == []


def test_forced(tmp_path):
    """If the driver reports which of its parameters differ, it must not be used even with force."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu(run_of(INIT, 7, 0))], args=["--gpu-ctxsw=force"], version="600.1.1")
    assert "driver 600.1 is unknown" in t.ran.err and len(t.slices) == 1


@pytest.mark.parametrize("version, says", [("540.1.1", "too old"), ("570.211.01", "NV_ERR_INVALID_PARAM_STRUCT"), ("what", "cannot be parsed")])
def test_not_even_forced(tmp_path, version, says):
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])], args=["--gpu-ctxsw=force"], version=version)
    assert says in t.ran.err and not t.was_bound()


def test_no_driver():
    if os.path.exists("/sys/module/nvidia"):
        pytest.skip("there is one")
    ran = cudatrace("--probe=inject", "--gpu-ctxsw", "--jsonl", "-", "--", "true")
    assert ran.status == 0 and "--gpu-ctxsw: no context switches: no NVIDIA driver is present" in ran.err
    assert json.loads(ran.out.splitlines()[0])["gpu_ctxsw"] == "no NVIDIA driver is present"


def test_no_gpu(tmp_path):
    needs_stand_in()
    assert "no GPU is present" in Traced(tmp_path, []).ran.err


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(p) for p in f.read().split()]


def test_killed(tmp_path):
    """After SIGKILL, the kernel closes the files, and the driver ends the log."""
    needs_stand_in()
    t = Traced(tmp_path, [gpu([])])
    with subprocess.Popen([*t.args[:-1], "sh", "-c", f"touch {tmp_path}/runs; exec sleep 100"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        until(lambda: os.path.exists(f"{tmp_path}/runs"))
        [tracer] = children(server.pid)
        [command] = [p for p in children(tracer) if os.path.basename(os.readlink(f"/proc/{p}/exe")) in ("sleep", "coreutils", "busybox", "sh", "dash", "bash")]
        os.kill(tracer, signal.SIGKILL)
        assert server.wait(60)
        os.kill(command, signal.SIGKILL)
    t.read_asked()
    assert t.was_bound() and sorted(t.calls("free")) == sorted(t.calls("alloc")) and sorted(t.calls("close")) == sorted(t.calls("open"))


def get(port, path):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{port}/{path}", timeout=10).read().decode()
    except OSError:
        return None


def test_daemon(tmp_path):
    """In the metrics, slices of processes unknown to the daemon count as others'."""
    needs_stand_in()
    needs_tracing()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    (tmp_path / "c.yaml").write_text("trace: {gpu_ctxsw: true}\n")
    (tmp_path / "scenario").write_text(json.dumps({"gpus": [gpu(run_of(INIT, 7, 0), [{"tag": END, "pid": INIT, "context": 7, "us": 10}], run_of(INIT, 7, 20, 500020))]}))
    sets = {"files.directory": tmp_path / "files", "ctl.socket": tmp_path / "ctl", "metrics.listen": f"127.0.0.1:{port}"}
    server = subprocess.Popen([TESTS + "/nvfuse/rm_driver.py", tmp_path / "scenario", tmp_path / "asked", CUDATRACE, "daemon", "--config", tmp_path / "c.yaml",
                               *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))], stdin=subprocess.DEVNULL)

    def value(name):
        found = re.search("^" + name + r'[{].*command="\(others\)",gpu="0000:3b:00\.0"[}] ([0-9.]+)$', get(port, "metrics") or "", re.M)
        return float(found[1]) if found else 0
    try:
        until(lambda: value("cudatrace_gpu_context_switches_total") == 2 or server.poll() is not None, 20)
        assert 0.5 < value("cudatrace_gpu_resident_seconds_total")
        [daemon] = children(server.pid)
        os.kill(daemon, signal.SIGTERM)
        assert server.wait(60) == 0
    finally:
        for pid in children(server.pid) if server.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        server.wait()
    asked = [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]
    assert [a["what"] for a in asked if a.get("call") == "free"].count("client") == 1


def test_option():
    assert "--gpu-ctxsw=force" in cudatrace("--gpu-ctxsw=yes", "--", "true").err
    assert cudatrace("list", "--gpu-ctxsw").status == 2
