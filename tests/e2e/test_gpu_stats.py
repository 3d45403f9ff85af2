# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 15
"""--gpu-stats with a mock of NVML: its values, its errors, and misbehaviour, which must do no harm."""
import json
import os
import re
import socket
import subprocess
import urllib.request

import pytest
from helpers.jsonl import Trace
from helpers.live import is_gone
from helpers.pftrace import decoded
from helpers.run import CUDATRACE, FAKE, INSIDE, O, Ran, cudatrace, inside, needs_tracing, until

# Runs until there are this many NVML samples; at most 15 seconds.
WAITS = """import json, sys, time
path, op, wanted, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), time.monotonic() + 15
while time.monotonic() < end:
    with open(path, encoding="utf-8") as f:
        if sum('"op":"%s"' % op in line for line in f) >= wanted:
            break
    time.sleep(0.01)
"""
VALUES = {"util": 50, "memory_util": 20, "sm_clock_mhz": 1755, "memory_clock_mhz": 2619, "power_w": 345.678, "temperature_c": 51,
          "ecc_corrected": 3, "ecc_uncorrected": 0, "xids": 0}
GPM = {"graphics_active": 1.5, "sm_active": 2.5, "sm_occupancy": 3.5, "tensor_active": 5.5, "dram_active": 10.5,
       "fp64_active": 11.5, "fp16_active": 13.5, "pcie_tx": int(20.5 * 2**20), "pcie_rx": int(21.5 * 2**20),
       "nvlink_rx": int(60.5 * 2**20), "nvlink_tx": int(61.5 * 2**20)}


class Sampled:
    """A trace of a command that runs until there are enough lines."""

    def __init__(self, tmp_path, says, *args, op="sample", wanted=3, lib="fakenvml", stats="--gpu-stats=50", program=None):
        path = tmp_path / "trace.jsonl"
        env = {"LD_LIBRARY_PATH": f"{FAKE}:{O}/{lib}", "FAKE_NVML": says}
        self.ran = inside("-q", "--jsonl", path, stats, *args, "--", "python3", "-c", WAITS, path, op, str(wanted), env=env)
        assert self.ran.status == 0, self.ran
        self.path, self.trace = path, Trace(path)
        self.lines = [e for e in self.trace.ev if e["type"] == "gpu_stats"]
        self.of = {op: [e for e in self.lines if e["op"] == op] for op in ("device", "sample", "process", "missing")}


def known(line, names):
    return {k: line[k] for k in names if k in line}


def test_values(tmp_path):
    """Samples must have NVML's values and the right process, and each device one line."""
    me = os.getpid()
    t = Sampled(tmp_path, f"devices=2 pids=1,{me}", wanted=6)
    assert [(d["gpu"], d["minor"], d["pci"], d["memory_total"]) for d in t.of["device"]] == \
        [(0, 0, "00000000:3B:00.0", 80 << 30), (1, 1, "00000000:3C:00.0", 80 << 30)]
    for s in t.of["sample"]:
        assert known(s, VALUES) == VALUES
        assert s["uuid"] == f"GPU-0000000{s['gpu']}-1111-2222-3333-444444444444"
        assert s["pcie_tx"] == 1000 << 10 and s["pcie_rx"] == 2000 << 10
        assert "sm_active" not in s and "throttle" not in s and s["cost_us"] > 0
        assert s["memory_used"] + s["memory_free"] == (80 << 30) - (600 << 20)
    first, second = [s for s in t.of["sample"] if s["gpu"] == 0][:2]
    assert "nvlink_tx" not in first and second["nvlink_tx"] > 0
    assert second["memory_used"] - first["memory_used"] == 64 << 20
    procs = t.of["process"]
    assert {(p["pid"], p["gpu"]) for p in procs} == {(1, 0), (me, 0)}
    assert {p["memory_used"] for p in procs} == {700 << 20}
    assert open("/proc/self/comm", encoding="utf-8").read().strip() in {p["comm"] for p in procs if p["pid"] == me}
    # The driver's older values are skipped; the later ones are averaged.
    assert not any("sm_util" in p for p in procs[:2])
    assert {(p["sm_util"], p["memory_util"], p["encoder_util"], p["decoder_util"]) for p in procs[2:]} == {(50, 15, 0, 1)}
    assert not t.of["missing"] and t.trace.accounts()


def test_gpm(tmp_path):
    """GPM values must appear from the second sample on, except those that the driver refuses."""
    t = Sampled(tmp_path, "gpm=1")
    assert not set(known(t.of["sample"][0], GPM))
    for s in t.of["sample"][1:]:
        assert known(s, GPM) == GPM and "fp32_active" not in s


def test_throttle(tmp_path):
    t = Sampled(tmp_path, "reasons=0x6d")
    assert {(s["throttle"], s["clock_reasons"]) for s in t.of["sample"]} == \
        {("sw_power_cap hw_slowdown sw_thermal_slowdown hw_thermal_slowdown", "0x6d")}
    t = Sampled(tmp_path, "reasons=0x103")
    assert {("throttle" in s, s["clock_reasons"]) for s in t.of["sample"]} == {(False, "0x103")}


def test_xid(tmp_path):
    t = Sampled(tmp_path, "xid=79", wanted=5)
    assert t.of["sample"][0]["xids"] == 0 and "last_xid" not in t.of["sample"][0]
    assert (t.of["sample"][-1]["xids"], t.of["sample"][-1]["last_xid"]) == (1, 79)


def test_mig(tmp_path):
    """MIG instances must be devices of their own; values that only the whole device has stay with the whole."""
    t = Sampled(tmp_path, "mig=2 gpm=1 pids=1", wanted=9)
    assert [(d["gpu"], d.get("gpu_instance"), d.get("compute_instance"), d["model"], d["uuid"][:4]) for d in t.of["device"]] == \
        [(0, None, None, "NVIDIA Fake H100", "GPU-"), (0, 7, 0, "NVIDIA Fake H100 MIG 1g.10gb", "MIG-"),
         (0, 8, 0, "NVIDIA Fake H100 MIG 1g.10gb", "MIG-")]
    parts = [s for s in t.of["sample"] if "gpu_instance" in s]
    assert parts and not any("util" in s or "power_w" in s for s in parts)
    assert all(s["sm_active"] == 2.5 for s in parts[2:])
    assert {p.get("gpu_instance") for p in t.of["process"]} == {7}


@pytest.mark.parametrize("function,member", [
    ("nvmlDeviceGetUtilizationRates", "util"), ("nvmlDeviceGetPowerUsage", "power_w"), ("nvmlDeviceGetClockInfo", "sm_clock_mhz"),
    ("nvmlDeviceGetTemperature", "temperature_c"), ("nvmlDeviceGetTotalEccErrors", "ecc_corrected"),
    ("nvmlDeviceGetPcieThroughput", "pcie_tx"), ("nvmlEventSetCreate", "xids"), ("nvmlDeviceGetFieldValues", "nvlink_tx"),
    ("nvmlDeviceGetUUID", "uuid"), ("nvmlDeviceGetCurrentClocksEventReasons", "clock_reasons")])
def test_not_supported(tmp_path, function, member):
    """An unsupported value must be absent: neither 0 nor reported."""
    t = Sampled(tmp_path, f"{function}=3", wanted=2)
    assert not any(member in s for s in t.of["sample"]) and not t.of["missing"] and not t.ran.err
    assert len(t.of["sample"][-1]) > 15


def test_refused(tmp_path):
    """An error must be reported in one line, however often it occurs; other values continue."""
    t = Sampled(tmp_path, "nvmlDeviceGetPowerUsage=15 nvmlDeviceGetTemperature=15", wanted=4)
    assert [m["why"] for m in t.of["missing"]] == ["NVML error: GPU is lost (15)"]
    assert t.ran.err.count("\n") == 1 and "GPU 0: NVML error: GPU is lost (15)" in t.ran.err
    assert all("power_w" not in s and s["util"] == 50 for s in t.of["sample"])


@pytest.mark.parametrize("says,why", [
    ("nvmlInit_v2=9", "NVML cannot be used: Driver Not Loaded (9)"), ("devices=0", "NVML shows no GPU"),
    ("nvmlDeviceGetCount_v2=999", "NVML shows no GPU: Unknown Error"),
    ("nvmlDeviceGetHandleByIndex_v2=15", "GPU 0 cannot be used: GPU is lost (15)")])
def test_no_gpu(tmp_path, says, why):
    """Without a GPU there must be one line, and otherwise the same trace."""
    t = Sampled(tmp_path, says, op="missing", wanted=1)
    assert [m["why"] for m in t.of["missing"]] == [why] and len(t.lines) == 1
    assert t.ran.err == f"cudatrace: warning: --gpu-stats: {why}: these samples are missing\n"


def test_no_nvml(tmp_path):
    t = Sampled(tmp_path, "", op="missing", wanted=1, lib="nowhere")
    if not t.of["device"]:
        assert "there is no NVML: libnvidia-ml.so.1: cannot open shared object file" in t.of["missing"][0]["why"]


def test_is_not_nvml(tmp_path):
    t = Sampled(tmp_path, "", op="missing", wanted=1, lib="fakenvml-none")
    assert [m["why"] for m in t.of["missing"]] == ["libnvidia-ml.so.1 is not NVML: it lacks functions"]


def test_old(tmp_path):
    """With a library that lacks most functions, the available values must be reported."""
    t = Sampled(tmp_path, "gpm=1 mig=1 pids=1 reasons=4", lib="fakenvml-old")
    for s in t.of["sample"]:
        assert s["util"] == 50 and s["memory_used"] == 1000 << 20 and s["throttle"] == "sw_power_cap"
        assert not {"xids", "sm_active", "nvlink_tx"} & set(s)
    assert not t.of["missing"]


def test_hostile(tmp_path):
    """Unterminated names, invalid text and impossible numbers must do no harm."""
    t = Sampled(tmp_path, "hostile=1 gpm=1 pids=1 mig=1 nvmlDeviceGetPowerUsage=7", wanted=4)
    assert not any(known(s, {k for k in [*GPM, "util"] if k[:3] != "nvl"}) for s in t.of["sample"])
    assert {len(d["model"]) for d in t.of["device"]} == {96} and t.trace.end["bad_records"] == 0
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", t.ran.err)


@pytest.mark.parametrize("when", ["nvmlInit_v2", "nvmlDeviceGetPowerUsage"])
def test_crash(tmp_path, when):
    """A crash must end only the helper process, and the trace continues."""
    path = tmp_path / "trace.jsonl"
    ran = inside("-q", "--jsonl", path, "--gpu-stats=50", "--duration", "3", "--", f"{FAKE}/sample", "--tokens", "1", "--quiet",
                 env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/fakenvml", "FAKE_NVML": f"crash={when}"})
    assert ran.status == 0 and Trace(path).accounts() and Trace(path).calls
    if when == "nvmlInit_v2":
        assert "cudatrace-nvml was ended by signal 11: there are no more samples" in ran.err


def test_hang(tmp_path):
    """An NVML that never responds must delay the start once, and the end not at all."""
    path = tmp_path / "trace.jsonl"
    ran = inside("-q", "--jsonl", path, "--gpu-stats", "--", f"{FAKE}/sample", "--tokens", "1", "--quiet",
                 env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/fakenvml", "FAKE_NVML": "hang=nvmlInit_v2"})
    assert ran.status == 0 and Trace(path).accounts()
    assert "NVML has not responded for 5 s: samples are missing until it does" in ran.err


def helpers_of(pid):
    """The cudatrace-nvml processes that PID started."""
    found = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat", encoding="utf-8", errors="replace") as f:
                name, rest = f.read().rsplit(")", 1)
            if name.endswith("(cudatrace-nvml") and int(rest.split()[1]) == pid and rest.split()[0] != "Z":
                found.append(int(p))
        except OSError:
            pass
    return found


@pytest.mark.parametrize("says", ["", "hang=nvmlInit_v2"])
def test_killed(says):
    """If the tracer is killed, the helper must end, even if NVML hangs."""
    p = subprocess.Popen([*INSIDE, CUDATRACE, "--probe=inject", "-q", "--jsonl", "/dev/null", "--gpu-stats=50", "--", "sleep", "60"],
                         env={**os.environ, "LD_LIBRARY_PATH": O + "/fakenvml", "FAKE_NVML": says})
    until(lambda: helpers_of(p.pid))
    helper = helpers_of(p.pid)[0]
    commands = subprocess.run(["pgrep", "-P", str(p.pid), "-x", "sleep"], capture_output=True, text=True, check=False).stdout.split()
    p.kill()
    p.wait()
    until(lambda: is_gone(helper))
    for c in commands:
        os.kill(int(c), 15)


def test_nothing_stays(tmp_path):
    """The helper must end with the tracer. It has no descriptors of the tracer except the socket, and no name but cudatrace-nvml."""
    mark = f"mark={os.getpid()}"
    look = ("import os, subprocess, sys; mark, out = sys.argv[1:]; f = open(out, 'w')\n"
            "for p in filter(str.isdigit, os.listdir('/proc')):\n"
            "    try:\n"
            "        if open(f'/proc/{p}/comm').read() == 'cudatrace-nvml\\n' and mark in open(f'/proc/{p}/environ').read():\n"
            "            f.write(p + ' ' + ' '.join(os.readlink(f'/proc/{p}/fd/{n}') for n in sorted(os.listdir(f'/proc/{p}/fd'))))\n"
            "    except OSError:\n"
            "        pass\n")
    path, seen = tmp_path / "trace.jsonl", tmp_path / "seen"
    ran = inside("-q", "--jsonl", path, "--gpu-stats=50", "--", "python3", "-c", look, mark, seen,
                 env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/fakenvml", "FAKE_NVML": mark})
    assert ran.status == 0, ran
    pid, *files = seen.read_text().split()
    assert files[:3] == ["/dev/null"] * 3 and files[3].startswith("socket:") and len(files) == 4, files
    until(lambda: is_gone(pid))


@pytest.mark.parametrize("ms", ["0", "49", "60001", "1s", "", "-1", "18446744073709551616"])
def test_bad_period(ms):
    ran = cudatrace(f"--gpu-stats={ms}", "--", "true")
    assert ran.status == 2
    assert f"--gpu-stats={ms}: not a time between samples; give milliseconds from 50 to 60000" in ran.err


SAYS = "devices=2 gpm=1 reasons=0x24 xid=31 mig=0 nvmlDeviceGetTemperature=15 pids=1"


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """One trace in all outputs, and its summary."""
    folder = tmp_path_factory.mktemp("outputs")
    t = Sampled(folder, SAYS, "--chrome", folder / "c.json", "--perfetto", folder / "p.pftrace", "--summary", "--json", wanted=8)
    return t, folder


def test_chrome(outputs):
    t, folder = outputs
    with open(folder / "c.json", encoding="utf-8") as f:
        events = json.load(f)
    counters = {}
    for e in events:
        if e["ph"] == "C" and e["cat"] == "gpu":
            counters.setdefault((e["pid"], e["name"]), []).append(e["args"])
    of = [s for s in t.of["sample"] if s["gpu"] == 0]
    assert counters[0, "GPU 0 busy"] == [{"%": 50}] * len(of)
    assert counters[0, "GPU 0 memory used"] == [{"bytes": s["memory_used"]} for s in of]
    assert counters[0, "GPU 1 power"][0] == {"W": 345.678} and counters[0, "GPU 0 throttled"][0] == {"yes": 1}
    assert counters[0, "GPU 0 SMs active"] == [{"%": 2.5}] * (len(of) - 1)
    assert {n for p, n in counters if p == 1} == {"GPU 0 memory used", "GPU 0 busy"}
    instants = [e["args"]["op"] for e in events if e.get("cat") == "gpu_stats"]
    assert sorted(instants) == ["device", "device", "missing", "missing"]


def test_perfetto(outputs):
    """The Perfetto trace must have the same counters."""
    t, folder = outputs
    p = decoded(str(folder / "p.pftrace"))
    with open(folder / "c.json", encoding="utf-8") as f:
        chrome = [e for e in json.load(f) if e["ph"] == "C"]
    assert sorted((pid, name, value) for pid, name, _, value in p.counters) == \
        sorted((e["pid"], e["name"], *e["args"].values()) for e in chrome)


def test_summary(outputs):
    t, _ = outputs
    s = json.loads(t.ran.err[t.ran.err.index("{"):])["gpu_stats"]
    check_sums(s, t)


def check_sums(s, t):
    zero, one = s["devices"]
    of = [x for x in t.of["sample"] if x["gpu"] == 0]
    assert (zero["gpu"], one["gpu"], zero["samples"], zero["model"]) == (0, 1, len(of), "NVIDIA Fake H100")
    assert zero["uuid"] == "GPU-00000000-1111-2222-3333-444444444444" and zero["memory_total"] == 80 << 30
    v = zero["values"]
    assert v["util"] == {"mean": 50, "max": 50, "last": 50} and v["power_w"]["max"] == 345.678
    assert v["memory_used"]["max"] == max(x["memory_used"] for x in of)
    assert v["memory_used"]["mean"] == pytest.approx(sum(x["memory_used"] for x in of) / len(of))
    assert v["tensor_active"]["mean"] == 5.5 and "temperature_c" not in v and "clock_reasons" not in v
    assert v["cost_us"]["mean"] == pytest.approx(sum(x["cost_us"] for x in of) / len(of), rel=1e-4)
    assert zero["throttled_ns"] == zero["sampled_ns"] == pytest.approx((of[-1]["ts"] - of[0]["ts"]) * 1e6, abs=2)
    assert zero["throttle"] == "sw_power_cap sw_thermal_slowdown"
    assert [p["pid"] for p in zero["processes"]] == [1] and not one["processes"]
    assert zero["processes"][0]["sm_util"] == {"mean": 50, "max": 50, "last": 50}
    assert s["missing"] == ["GPU 0: NVML error: GPU is lost (15)", "GPU 1: NVML error: GPU is lost (15)"]


def test_report(outputs):
    """The report of a saved trace must have the same values, as text, JSON and a page."""
    t, folder = outputs
    ran = cudatrace("report", t.path, "--format=json")
    assert ran.status == 0
    check_sums(json.loads(ran.out)["gpu_stats"], t)
    text = cudatrace("report", "--full", t.path).out
    section = text[text.index("GPUs by NVML"):]
    for what in [" of a separate process", "50.0 %", "NVIDIA Fake H100", "346 W", "GPU 0 was throttled for ", "sw_power_cap sw_thermal_slowdown",
                 "GPU 0: 1 Xids, the last was 31", "missing: GPU 1: NVML error: GPU is lost (15)"]:
        assert what in section, what
    assert ["xid"] == [x["kind"] for x in json.loads(ran.out)["failures"]] and "Xid 31: " in cudatrace("report", t.path).out
    assert cudatrace("report", t.path, "-o", folder / "r.html").status == 0
    # The picture made of the saved trace must have the live one's counters.
    again = cudatrace("report", t.path, "--format=chrome", "-o", folder / "again.json")
    assert again.status == 0

    def counters(path):
        with open(path, encoding="utf-8") as f:
            return [e for e in json.load(f) if e["ph"] == "C" and e["cat"] == "gpu"]
    assert counters(folder / "again.json") == counters(folder / "c.json")


def test_no_samples_no_section(tmp_path):
    t = Sampled(tmp_path, "", "--duration", "1", op="header", wanted=0, stats="--no-summary")
    assert not t.lines and "NVML" not in cudatrace("report", "--full", t.path).out
    assert "gpu_stats" not in json.loads(cudatrace("report", t.path, "--format=json").out)


def test_is_not_traced(tmp_path):
    """A trace of all processes must not include the helper."""
    needs_tracing()
    path = tmp_path / "all.jsonl"
    ran = cudatrace("-q", "--jsonl", path, "--gpu-stats=50", "--libcuda", FAKE + "/libcuda.so.1", "--duration", "1",
                    env={"LD_LIBRARY_PATH": O + "/fakenvml", "FAKE_NVML": "crash=nvmlDeviceGetPowerUsage"})
    assert ran.status == 0 and "cudatrace-nvml was ended by signal 11" in ran.err, ran
    lines = [e for e in Trace(path).ev[1:-1] if e["type"] not in ("gpu_stats", "library")]
    assert not [e for e in lines if "cudatrace" in e.get("comm", "")]


def test_daemon(tmp_path):
    """The daemon's metrics must have the last sample, and each container's and command's share."""
    needs_tracing()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        at = "127.0.0.1:%d" % s.getsockname()[1]
    (tmp_path / "d.yaml").write_text("level: metrics\n")
    sets = {"files.directory": tmp_path / "files", "ctl.socket": tmp_path / "sock", "metrics.listen": at, "gpu_stats.interval": "50ms"}
    p = subprocess.Popen([CUDATRACE, "daemon", "--config", tmp_path / "d.yaml", "--libcuda", FAKE + "/libcuda.so.1",
                          *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))], stderr=subprocess.PIPE, text=True,
                         env={**os.environ, "LD_LIBRARY_PATH": O + "/fakenvml", "FAKE_NVML": f"gpm=1 reasons=4 pids={os.getpid()}"})

    def metrics():
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{at}/metrics", timeout=5) as f:
                return f.read().decode()
        except OSError:
            return ""
    try:
        until(lambda: 'DCGM_FI_PROF_SM_ACTIVE{' in metrics() and "cudatrace_gpu_memory_used_bytes{" in metrics(), 20)
        text = metrics()
        labels = ('gpu="0",UUID="GPU-00000000-1111-2222-3333-444444444444",pci_bus_id="00000000:3B:00.0",device="nvidia0",'
                  f'modelName="NVIDIA Fake H100",Hostname="{os.uname().nodename}"')
        values = {"DCGM_FI_DEV_GPU_UTIL": "50", "DCGM_FI_DEV_POWER_USAGE": "345.678", "DCGM_FI_PROF_SM_ACTIVE": "0.025",
                  "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "4"}
        for name, value in values.items():
            assert f"{name}{{{labels}}} {value}\n" in text, name
        assert re.search(rf'cudatrace_gpu_memory_used_bytes{{[^}}]*command="\(others\)",{labels}}} {700 << 20}\n', text)
        assert "# TYPE DCGM_FI_DEV_ECC_SBE_VOL_TOTAL counter" in text
        # Prometheus has no use for a trace's clock, but samples must continue.
        before = float(re.search(r"cudatrace_gpu_samples_total{.*} (.*)", text)[1])
        until(lambda: float(re.search(r"cudatrace_gpu_samples_total{.*} (.*)", metrics())[1]) > before, 10)
    finally:
        p.terminate()
        said = p.communicate(timeout=20)[1]
    assert p.returncode == 0, said


def test_daemon_config(tmp_path):
    """The limits apply to the file and to --set."""
    file = tmp_path / "d.yaml"
    for key, value, why in [("gpu_stats.interval", "10ms", "gpu_stats.interval"), ("gpu_stats.interval", "2m", "gpu_stats.interval must be at most 60s"),
                            ("gpu_metrics.rate", "10001", "gpu_metrics.rate must be at most 10000")]:
        file.write_text("{}:\n  {}: {}\n".format(*key.split("."), value))
        for how in (["--config", "/dev/null", "--set", f"{key}={value}"], ["--config", file]):
            ran = cudatrace("daemon", "--check-config", *how)
            assert ran.status and why in ran.err + ran.out, how


def test_static(tmp_path):
    """The static program cannot load a library; its embedded helper can."""
    static = O + "/cudatrace-static"
    if not os.path.exists(static):
        pytest.skip("no static program was built")
    path = tmp_path / "trace.jsonl"
    ran = subprocess.run([static, "--probe=inject", "-q", "--jsonl", path, "--gpu-stats=50", "--", "python3", "-c", WAITS, path,
                          "sample", "2"], env={**os.environ, "LD_LIBRARY_PATH": f"{O}/fakenvml", "FAKE_NVML": ""},
                         capture_output=True, text=True, check=True, timeout=60)
    assert sum('"op":"sample"' in line for line in path.read_text().splitlines()) >= 2 and not ran.stderr


@pytest.mark.parametrize("helper", ["cudatrace-nvml", "cudatrace-pm"])
def test_old_glibc(helper):
    """The helper must need no newer libc than the driver's libraries do."""
    out = subprocess.run(["objdump", "-T", f"{O}/{helper}"], capture_output=True, text=True, check=True).stdout
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", out)}
    assert versions and max(versions) <= (2, 17)


# Counters grow by one step with each sample that the program sees.
PORTS = """import json, os, sys, time
jsonl, root, end = sys.argv[1], "/sys/class/infiniband", time.monotonic() + 15
steps = {"mlx5_0/ports/1/counters/port_xmit_data": 1000000, "mlx5_0/ports/1/counters/port_rcv_data": 500000,
         "mlx5_0/ports/1/counters/port_xmit_wait": 7, "mlx5_0/ports/1/hw_counters/packet_seq_err": 3,
         "mlx5_0/ports/1/hw_counters/np_cnp_sent": 2, "mlx5_1/ports/1/counters/port_xmit_data": 0}
samples = 0
while samples < 6 and time.monotonic() < end:
    with open(jsonl, encoding="utf-8") as f:
        seen = sum('"type":"network"' in line for line in f) // 2
    if seen > samples:
        samples = seen
        for name, step in steps.items():
            with open(f"{root}/{name}", encoding="ascii") as f:
                value = int(f.read()) + step
            # One counter is reset in the middle.
            if samples > 3 and name.endswith("cnp_sent") and value > 1000:
                value = 0
            with open(root + "/new", "w", encoding="ascii") as f:
                f.write(f"{value}\\n")
            os.rename(root + "/new", f"{root}/{name}")
    time.sleep(0.01)
"""


def port(root, device, link, state, rate, **counters):
    for name, value in {"link_layer": link, "state": state, "rate": rate, **counters}.items():
        path = root / device / "ports" / "1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n", encoding="ascii")


def test_network_ports(tmp_path):
    """Ports' rates and growth in lines, report and timeline; an idle port has no remark, a counter that is not there no value."""
    root, jsonl, chrome = tmp_path / "class" / "infiniband", tmp_path / "t.jsonl", tmp_path / "t.json"
    port(root, "mlx5_0", "Ethernet", "4: ACTIVE", "400 Gb/sec (4X NDR)", **{
        "counters/port_xmit_data": 2**63, "counters/port_rcv_data": 5, "counters/port_xmit_wait": 100,
        "counters/symbol_error": 9, "hw_counters/packet_seq_err": 50, "hw_counters/np_cnp_sent": 1000})
    port(root, "mlx5_1", "InfiniBand", "4: ACTIVE", "2.5 Gb/sec (1X SDR)", **{"counters/port_xmit_data": 8, "counters/port_rcv_data": "junk"})
    ran = Ran(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/class && exec "$@"', tmp_path / "class", *INSIDE, CUDATRACE, "--probe=inject",
               "-q", "--jsonl", jsonl, "--chrome", chrome, "--gpu-stats=200", "--", "python3", "-c", PORTS, jsonl],
              env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/fakenvml", "FAKE_NVML": ""})
    assert ran.status == 0, ran
    trace = Trace(jsonl)
    assert trace.accounts()
    lines = [e for e in trace.ev if e["type"] == "network"]
    of = {d: [e for e in lines if e["device"] == d] for d in ("mlx5_0", "mlx5_1")}
    first, *later = of["mlx5_0"]
    assert (first["port"], first["link"], first["state"], first["rate_gbit"]) == (1, "Ethernet", "ACTIVE", 400) and len(later) >= 5
    assert not {"tx", "rx", "xmit_wait", "packet_seq_err"} & set(first) and not any("out_of_sequence" in e for e in lines)
    assert {e["packet_seq_err"] for e in later} <= {0, 3, 6} and {e["symbol_error"] for e in later} == {0}
    assert sum("cnp_sent" not in e for e in later) == 1, "the growth of a counter that was reset is not known"
    assert {e["rate_gbit"] for e in of["mlx5_1"]} == {2.5} and not any("rx" in e for e in of["mlx5_1"])

    # Independently of the report: rates times the time since the previous sample.
    def carried(member):
        return sum(b[member] * (b["ts"] - a["ts"]) / 1e3 for a, b in zip(of["mlx5_0"], later))
    report = json.loads(cudatrace("report", "--json", jsonl).out)["network"]
    assert report["rejected"] == 0
    busy, idle = report["ports"]
    assert busy["sent"] == pytest.approx(carried("tx"), rel=1e-6) and busy["received"] == pytest.approx(carried("rx"), rel=1e-6)
    assert busy["sent"] == pytest.approx(4e6 * sum(e["packet_seq_err"] for e in later) / 3, rel=0.1), "words of four octets"
    assert busy["most_sent"] == pytest.approx(max(e["tx"] for e in later) / 1e9, rel=1e-5)
    assert busy["busy"] == pytest.approx(max(e["tx"] for e in later) / 50e9, rel=1e-3)
    assert busy["lost"] == sum(e["packet_seq_err"] for e in later) == busy["counters"]["packet_seq_err"] > 0
    assert busy["congested"] == sum(e.get("cnp_sent", 0) for e in later) > 0 and busy["errors"] == 0
    assert busy["counters"]["xmit_wait"] == sum(e["xmit_wait"] for e in later)
    assert (idle["sent"], idle["lost"], idle["congested"], idle["errors"], idle["counters"]) == (0, 0, 0, 0, {})
    text = cudatrace("report", "--section=network", jsonl).out
    assert re.search(r"mlx5_0 port 1: packets were lost on their way \d+ times", text) and "congestion" in text
    assert "mlx5_1 port 1" not in text and "mlx5_1/1 InfiniBand, 2.5 Gbit/s" in text
    counters = [e for e in json.loads(chrome.read_text(encoding="utf-8")) if e["ph"] == "C" and e["name"].startswith("mlx5_")]
    assert {e["name"] for e in counters} == {"mlx5_0/1 sent", "mlx5_0/1 received", "mlx5_1/1 sent"}
    assert len([e for e in counters if e["name"] == "mlx5_0/1 sent"]) == len(later)
