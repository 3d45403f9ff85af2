# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 25
"""--gpu-metrics with a mock of CUPTI: its values, its refusals, and misbehaviour, which must do no harm."""
import calendar
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from helpers.jsonl import Trace
from helpers.live import is_gone
from helpers.pftrace import decoded
from helpers.run import CUDATRACE, FAKE, INSIDE, O, TESTS, cudatrace, inside, needs_tracing, until

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/oracle")
import counters as oracle  # noqa: E402

CUPTI = O + "/cupti/libcupti.so.13"
# Runs until there are this many samples; at most 15 seconds.
WAITS = """import sys, time
path, op, wanted, end = sys.argv[1], sys.argv[2], int(sys.argv[3]), time.monotonic() + 15
while time.monotonic() < end:
    with open(path, encoding="utf-8") as f:
        if sum('"op":"%s"' % op in line for line in f) >= wanted:
            break
    time.sleep(0.01)
"""


def table():
    """The rows of ct_pm.def: the values' names, and whether they are percentages."""
    with open(os.path.dirname(TESTS) + "/include/ct_pm.def", encoding="utf-8") as f:
        return re.findall(r'^VALUE\(\w+, (\w+), (\w+), "(.*?)",', f.read(), re.M)


ROWS = table()


class Sampled:
    """A trace of a command that runs until there are enough lines."""

    def __init__(self, tmp_path, says, *args, op="sample", wanted=40, hz=200, env=None):
        path = tmp_path / "trace.jsonl"
        self.ran = inside("-q", "--jsonl", path, f"--gpu-metrics={hz}", "--cupti", CUPTI, *args, "--", "python3", "-c", WAITS, path, op, str(wanted),
                          env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUPTI": says, **(env or {})})
        assert self.ran.status == 0, self.ran
        self.path, self.trace = path, Trace(path)
        assert self.trace.accounts(drops=True)
        self.lines = [e for e in self.trace.ev if e["type"] == "gpu_metrics"]
        self.of = {op: [e for e in self.lines if e["op"] == op] for op in ("device", "sample", "missing")}
        self.lost = self.trace.ev[-1]["drops"]["gpu_metrics"]

    def by_gpu(self):
        return [[s for s in self.of["sample"] if s["gpu"] == gpu] for gpu in (0, 1)]


def wanted(sample, wall_ns):
    """The mock's values of a sample that began then."""
    interval = round(sample["duration_us"] * 1000)
    k = round(wall_ns / interval)
    return {name: (k * 7 + i * 13) % 100 + 0.125 if form == "opt_milli" else (k % 10 + 1) * 1000000 * (i + 1) for i, (name, form, _) in enumerate(ROWS)}


def wall_of(trace, sample):
    """Its start by the wall clock, in ns, from the header's time."""
    head = trace.ev[0]
    whole, fraction = re.match(r"(.*)\.(\d{9})Z", head["wall_time"]).groups()
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) * 10**9 + int(fraction) + round(sample["ts"] * 1e6)


def test_values(tmp_path):
    """Samples must have CUPTI's values, each at its time, and each GPU one line of its own."""
    t = Sampled(tmp_path, "")
    assert [(d["gpu"], d["uuid"][:12], d["pci"], d["model"], d["interval_us"]) for d in t.of["device"]] == \
        [(0, "GPU-fa4ec0d0", "0000:01:00.0", "Mock GPU", 5000), (1, "GPU-fa4ec0d1", "0000:02:00.0", "Mock GPU", 5000)]
    assert not t.of["missing"] and not t.lost and not t.ran.err
    for samples in t.by_gpu():
        assert len(samples) >= 15
        for s in samples:
            assert s["duration_us"] == 5000 and s["cost_us"] > 0
            # The wall clock may be set while the trace runs; it is read again at each reading.
            assert {k: s[k] for k, _, _ in ROWS} == wanted(s, wall_of(t.trace, s))
        for a, b in zip(samples, samples[1:]):
            assert abs(b["ts"] - a["ts"] - 5) < 0.1


@pytest.mark.parametrize("word,why", [
    ("pm-busy", r"another profiler uses the counters: .* \(GetCounterAvailability: 26\)"),
    ("pm-rights", r"run cudatrace as root or with CAP_PERFMON, .* \(Enable: 35\)"),
    ("pm-unsupported", r"CUPTI does not support it on this GPU \(Enable: 27\)"),
    ("pm-passes", r"CUPTI does not support it on this GPU \(SetConfig: 27\)"),
    ("pm-vgpu", r"the host of this virtual GPU does not allow profiling \(Enable: 40\)"),
])
def test_refused(tmp_path, word, why):
    """A refusal must be one line and one event for each GPU, and the command must run."""
    t = Sampled(tmp_path, word, op="missing", wanted=2)
    assert [m["gpu"] for m in t.of["missing"]] == [0, 1] and not t.of["sample"] and not t.of["device"]
    for gpu, line in enumerate(t.ran.err.splitlines()):
        assert re.fullmatch(rf"cudatrace: warning: --gpu-metrics: GPU {gpu}: {why}: these samples are missing", line)
    assert all(re.fullmatch(why, m["why"]) for m in t.of["missing"])


def test_metrics_that_do_not_fit(tmp_path):
    """Metrics that the GPU lacks, or that need another pass, must be named and left out; the others must have their values."""
    t = Sampled(tmp_path, "pm-two")
    names = {"nvlink_rx", "nvlink_tx", "l1_hit_rate"}
    assert [m["why"] for m in t.of["missing"]] == ["not counted by this GPU, or not together with the others: nvlink_rx, nvlink_tx, l1_hit_rate"] * 2
    for s in t.of["sample"]:
        assert {k: s[k] for k, _, _ in ROWS if k in s} == {k: v for k, v in wanted(s, wall_of(t.trace, s)).items() if k not in names}


def test_wrong_clock(tmp_path):
    """A GPU's clock that is not the time of day must be reported."""
    t = Sampled(tmp_path, "pm-clock")
    assert [m["why"] for m in t.of["missing"]] == ["the GPU's clock differs from the time of day by -60 s: the times of samples are wrong"] * 2


@pytest.mark.parametrize("hz,last", [(5000, "l1_hit_rate"), (6000, "l2_active"), (10000, "dram_write")])
def test_fast(tmp_path, hz, last):
    """At high rates only the first values must be there, and the others be named."""
    t = Sampled(tmp_path, "", hz=hz, wanted=1000)
    names = [name for name, _, _ in ROWS]
    first = names.index(last) + 1
    assert [m["why"] for m in t.of["missing"]] == ["not counted at this rate, or by this GPU: " + ", ".join(names[first:])] * 2 * (first < len(names))
    for s in t.of["sample"]:
        assert [n for n in names if n in s] == names[:first]


def test_no_trigger_by_time(tmp_path):
    assert len(Sampled(tmp_path, "pm-sysclk").of["sample"]) >= 40


def test_losses(tmp_path):
    """Samples that are missing, cannot be evaluated, or are dropped by a full buffer must be counted, and sampling must go on."""
    for word in ("pm-gaps", "pm-eval"):
        t = Sampled(tmp_path, word, wanted=120)
        for samples in t.by_gpu():
            seen = {round(wall_of(t.trace, s) / 5e6) for s in samples}
            assert not any(k % 10 == 3 for k in seen)
        missing = sum(sum(k % 10 == 3 for k in range(min(seen), max(seen))) for seen in
                      ({round(wall_of(t.trace, s) / 5e6) for s in samples} for samples in t.by_gpu()))
        # The last sample of all may be one that is missing.
        assert missing <= t.lost <= missing + 4, word
        assert f"the trace is incomplete, missing: {t.lost} samples of hardware counters" in t.ran.err
    for word in ("pm-full", "pm-overflow"):
        t = Sampled(tmp_path, word, wanted=120)
        assert [m["why"] for m in t.of["missing"]] == ["samples were dropped: a buffer was full; use a lower rate"] * 2
        gaps = [round((b["ts"] - a["ts"]) / 5) - 1 for samples in t.by_gpu() for a, b in zip(samples, samples[1:])]
        assert sum(gaps) == t.lost and (word == "pm-overflow" or t.lost > 0) and sum(g > 0 for g in gaps) <= 2


def test_ends_after_failures(tmp_path):
    """A GPU that cannot be read is given up, with the reason."""
    t = Sampled(tmp_path, "pm-error", op="missing", wanted=4)
    said = [m["why"] for m in t.of["missing"] if m["gpu"] == 0]
    assert said[:2] == ["an unknown error (DecodeData: 999)", "sampling has ended: an unknown error (DecodeData: 999)"]


def test_impossible_values(tmp_path):
    """Percentages above 100 or that are not numbers must be left out."""
    for s in Sampled(tmp_path, "pm-impossible").of["sample"]:
        assert [k for k, _, _ in ROWS if k in s] == [k for k, form, _ in ROWS if form == "opt_u64"]


def test_crash(tmp_path):
    """A crash of CUPTI must end the samples with one line, and nothing else."""
    path = tmp_path / "trace.jsonl"
    ran = inside("-q", "--jsonl", path, "--gpu-metrics", "--cupti", CUPTI, "--", "sleep", "1.5", env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUPTI": "pm-crash"})
    assert ran.status == 0 and ran.err.startswith("cudatrace: warning: --gpu-metrics: cudatrace-pm was ended by signal 11: there are no more samples\n")
    assert Trace(path).accounts(drops=True)


def stopped(tmp_path, says, seconds=1.2):
    """A trace of a command that does not wait for samples: the trace, its stderr, the number of samples that are missing in the command's time, and the
    number that the trace counts."""
    path = tmp_path / "t.jsonl"
    ran = inside("-q", "--jsonl", path, "--gpu-metrics=200", "--cupti", CUPTI, "--", "sleep", str(seconds), env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUPTI": says})
    t = Trace(path)
    assert ran.status == 0 and (says == "pm-flood" or t.accounts(drops=True)), ran
    newest = [max(e["ts"] for e in t.ev if e["type"] == "gpu_metrics" and e["gpu"] == gpu and e["op"] in ("device", "sample")) for gpu in (0, 1)]
    missing, most = (sum((until - ts) / 5 for ts in newest) for until in (1000 * seconds, t.ev[-1]["ts"]))
    return t, ran.err, missing, most, t.ev[-1]["drops"]["gpu_metrics"]


@pytest.mark.parametrize("says", ["pm-hang", "pm-crash", "pm-close", "pm-shutdown", "pm-flood", "pm-error", "pm-absurd-count", "pm-absurd-time"])
def test_samples_stop(tmp_path, says):
    """However the samples stop, the trace must count those that are missing until its end, with the reason; also of a hostile libcupti."""
    trace, err, missing, most, lost = stopped(tmp_path, says)
    # The command starts later than the trace, and the trace ends later than the command.
    assert 0.95 * missing < lost < 1.05 * most and lost > 200, (missing, lost, most)
    assert f"the trace is incomplete, missing: {lost:,} samples of hardware counters" in err
    if says in ("pm-hang", "pm-crash", "pm-close", "pm-shutdown", "pm-flood"):
        assert [e["gpu"] for e in trace.ev if e["type"] == "gpu_metrics" and "cudatrace-pm ended, or has not responded, " in e.get("why", "")] == [0, 1]
    report = json.loads(cudatrace("report", "--format=json", tmp_path / "t.jsonl").out)
    assert not report["complete"] and [x["count"] for x in report["lost"] if x["id"] == "gpu_metrics"] == [lost]
    assert (trace.ev[-1]["bad_records"] > 0) == (says == "pm-flood")


def test_samples_to_the_end(tmp_path):
    """All samples until the end of the command must be in the trace."""
    _, err, missing, _, lost = stopped(tmp_path, "")
    assert not lost and missing < 10 and not err


@pytest.mark.parametrize("says,why", [("pm-absurd-size", r"GetCounterAvailability: 8"), ("pm-no-name", r"GetChipName: 999")])
def test_absurd_at_start(tmp_path, says, why):
    """Sizes and names that cannot be are refused."""
    t = Sampled(tmp_path, says, op="missing", wanted=2)
    assert [m["why"] for m in t.of["missing"]] == [f"an unknown error ({why})"] * 2


def test_processes_of_cupti(tmp_path):
    """Processes that the library creates must end with the trace."""
    stopped(tmp_path, "pm-fork", 0.3)
    assert not [p for p in subprocess.run(["pgrep", "-x", "cudatrace-pm"], capture_output=True, text=True, check=False).stdout.split()
                if b"FAKE_CUPTI=pm-fork" in environment(p)]


def test_hang(tmp_path):
    """A CUPTI that never responds must not delay the end."""
    path, begin = tmp_path / "trace.jsonl", time.monotonic()
    ran = inside("-q", "--jsonl", path, "--gpu-metrics", "--cupti", CUPTI, "--", "sleep", "0.5", env={"LD_LIBRARY_PATH": FAKE, "FAKE_CUPTI": "pm-hang"})
    assert ran.status == 0 and Trace(path).accounts(drops=True) and time.monotonic() - begin < 8


def test_libraries(tmp_path):
    """A library that is not there, or not CUPTI's, must be one line."""
    for path, why in [(tmp_path / "none.so", "--cupti: No such file or directory"), (O + "/cupti/libnvperf_host.so", "this libcupti has no cuptiProfilerInitialize: .*")]:
        ran = inside("-q", "--jsonl", "/dev/null", "--gpu-metrics", "--cupti", path, "--", "true", env={"LD_LIBRARY_PATH": FAKE})
        assert ran.status == 0 and re.fullmatch(f"cudatrace: warning: --gpu-metrics: {why}: these samples are missing\n", ran.err)


def test_found_beside_the_command(tmp_path):
    """Without --cupti, that of the command's Python must be used."""
    (tmp_path / "bin").mkdir()
    folder = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib"
    folder.mkdir(parents=True)
    shutil.copy(CUPTI, folder)
    shutil.copy("/bin/sleep", tmp_path / "bin/sleep")
    for command, path in (("bin/sleep", os.environ["PATH"]), ("sleep", f"{tmp_path}/bin:{os.environ['PATH']}")):
        out = tmp_path / "t.jsonl"
        ran = inside("-q", "--jsonl", out, "--gpu-metrics", "--", command, "0.4", env={"LD_LIBRARY_PATH": FAKE, "PATH": path}, cwd=tmp_path)
        assert ran.status == 0 and not ran.err
        assert sum(e["type"] == "gpu_metrics" and e["op"] == "sample" for e in Trace(out).ev) > 20


def test_command_of_another_user(tmp_path):
    """The library beside a command that runs as another user may be that user's: it must not be loaded with our rights."""
    if os.geteuid():
        pytest.skip("only root runs commands as other users")
    folder = tmp_path / "lib/python3.12/site-packages/nvidia/cu13/lib"
    folder.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shutil.copy(CUPTI, folder)
    shutil.copy("/bin/sleep", tmp_path / "bin/sleep")
    subprocess.run(["chmod", "-R", "a+rX", tmp_path], check=True)
    for given, cnt in ((), 0), (("--cupti", CUPTI), 10):
        out = tmp_path / "t.jsonl"
        ran = inside("-q", "--jsonl", out, "--gpu-metrics", *given, "--user", "nobody", "--", "bin/sleep", "0.4", env={"LD_LIBRARY_PATH": FAKE}, cwd=tmp_path)
        samples = sum(e["type"] == "gpu_metrics" and e["op"] == "sample" for e in Trace(out).ev)
        assert samples >= cnt and bool(samples) == bool(cnt), (given, ran)


def test_options():
    for hz in ("0", "10001", "fast"):
        ran = cudatrace(f"--gpu-metrics={hz}", "--", "true")
        assert ran.status == 2 and f"--gpu-metrics={hz}: not a rate; give samples per second from 1 to 10000, as in --gpu-metrics=1000" in ran.err
    ran = cudatrace("--gpu-metrics", "--stalls", "--", "true")
    assert ran.status == 2 and "--stalls and --gpu-metrics use the same counters of the GPU: give one of them" in ran.err


def environment(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            return f.read()
    except OSError:
        return b""


def helpers_of(pid):
    children = subprocess.run(["pgrep", "-P", str(pid), "-x", "cudatrace-pm"], capture_output=True, text=True, check=False).stdout
    return [int(p) for p in children.split()]


@pytest.mark.parametrize("says", ["", "pm-hang"])
def test_killed(tmp_path, says):
    """If the tracer is killed, the process must end, even if CUPTI hangs."""
    path = tmp_path / "t.jsonl"
    p = subprocess.Popen([*INSIDE, CUDATRACE, "--probe=inject", "-q", "--jsonl", path, "--gpu-metrics", "--cupti", CUPTI, "--", "sleep", "60"],
                         env={**os.environ, "LD_LIBRARY_PATH": FAKE, "FAKE_CUPTI": says})
    until(lambda: path.exists() and '"op":"sample"' in path.read_text())
    (helper,) = helpers_of(p.pid)
    commands = subprocess.run(["pgrep", "-P", str(p.pid), "-x", "sleep"], capture_output=True, text=True, check=False).stdout.split()
    p.kill()
    p.wait()
    until(lambda: is_gone(helper))
    for c in commands:
        os.kill(int(c), 15)


def test_timelines(tmp_path):
    """Each value of a sample must be a counter at its time."""
    chrome, pf = tmp_path / "c.json", tmp_path / "p.pftrace"
    t = Sampled(tmp_path, "", "--chrome", chrome, "--perfetto", pf)
    events = json.loads(chrome.read_text())
    counters = [e for e in events if e["ph"] == "C" and e["name"].startswith("GPU ") and " hardware: " in e["name"]]
    sm = sorted((round(e["ts"]), *e["args"].values()) for e in counters if e["name"] == "GPU 0 hardware: SMs active")
    assert sm == sorted((round(s["ts"] * 1000), s["sm_active"]) for s in t.by_gpu()[0])
    assert len({e["name"] for e in counters}) == 2 * 14
    assert not [e for e in events if e.get("cat") == "gpu_metrics" and e["args"].get("op") == "sample"]
    assert "GPU 1 hardware: DRAM read" in {name for _, name, _, _ in decoded(str(pf)).counters}


def report_of(path):
    ran = cudatrace("report", "--format=json", "--section=gpu_metrics", path)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def test_report(tmp_path):
    """Sums by GPU and by kernel must be those of a second computation: of traces made at random, and of a program."""
    attributed = 0
    # The last is longer than what the report keeps at a time.
    for seed in range(7):
        lines = oracle.made(seed, 400 if seed < 6 else 40000)
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(json.dumps(x) + "\n" for x in lines))
        report = report_of(path)
        assert oracle.check(lines, report) == [], seed
        attributed += sum(g["attributed"] for g in report["gpu_metrics"]["gpus"])
        assert report["gpu_metrics"]["kernels"]
    assert attributed > 500
    path = tmp_path / "program.jsonl"
    ran = inside("-q", "--jsonl", path, "--gpu-time=nodes", "--gpu-metrics=1000", "--cupti", CUPTI, "--", f"{FAKE}/sample", "--tokens", "2", "--quiet",
                 env={"LD_LIBRARY_PATH": FAKE, "FAKE_KERNEL_US": "3000"})
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    assert ran.status == 0 and oracle.check(lines, report_of(path)) == []
    text = cudatrace("report", "--section=gpu_metrics", "--width", "120", path).out
    assert "\nHardware counters: " in text and "matmul(float const*" in text and "0 Mock GPU" in text


def test_report_without_gpu_time(tmp_path):
    """Without executions there are the GPUs alone."""
    t = Sampled(tmp_path, "")
    r = report_of(t.path)["gpu_metrics"]
    assert oracle.check([t.trace.ev[0], *t.trace.ev[1:]], {"gpu_metrics": r}) == [] and not r["kernels"]


def test_daemon(tmp_path):
    """The daemon must add up activity and traffic over the sampled time."""
    needs_tracing()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        at = "127.0.0.1:%d" % sock.getsockname()[1]
    sets = {"files.directory": tmp_path / "files", "ctl.socket": tmp_path / "sock", "metrics.listen": at, "gpu_metrics.rate": "200", "trace.cupti": CUPTI}
    p = subprocess.Popen([CUDATRACE, "daemon", "--config", "/dev/null", "--libcuda", FAKE + "/libcuda.so.1", *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))],
                         stderr=subprocess.PIPE, text=True, env={**os.environ, "LD_LIBRARY_PATH": FAKE})

    def metrics():
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{at}/metrics", timeout=5) as f:
                return {name: float(value) for name, value in re.findall(r"^(cudatrace_gpu_[^ ]*) (.*)$", f.read().decode(), re.M)}
        except OSError:
            return {}

    def of(text, name, gpu, what=None):
        labels = f'gpu="{gpu}",UUID="GPU-fa4ec0d{gpu}-0001-0203-0405-060708090a00"' + (f',what="{what}"' if what else "")
        return text[f"cudatrace_gpu_{name}{{{labels}}}"]
    try:
        until(lambda: metrics().get('cudatrace_gpu_active_sampled_seconds_total{gpu="1",UUID="GPU-fa4ec0d1-0001-0203-0405-060708090a00"}', 0) > 3, 20)
        text = metrics()
        for gpu in (0, 1):
            seconds = of(text, "active_sampled_seconds_total", gpu)
            # The mock's percentages have a mean of 49.625, its rates of 5.5 million times the number of the row.
            for what in ("engine", "sm", "tensor", "dram", "issue", "warps", "l2"):
                assert of(text, "active_seconds_total", gpu, what) == pytest.approx(0.49625 * seconds, rel=0.05), what
            for what in ("dram_read", "dram_write", "pcie_read", "pcie_write", "nvlink_rx", "nvlink_tx"):
                row = [name for name, _, _ in ROWS].index(what)
                assert of(text, "traffic_bytes_total", gpu, what) == pytest.approx(5.5e6 * (row + 1) * seconds, rel=0.05), what
            assert 0 < of(text, "active_sampling_seconds_total", gpu) < seconds
    finally:
        p.terminate()
        said = p.communicate(timeout=20)[1]
    assert p.returncode == 0, said


def test_declarations(tmp_path):
    """Our declarations must match CUPTI's headers, if installed."""
    include = next((d for d in ("/usr/local/cuda/include", "/usr/local/cuda-13.0/include") if os.path.exists(d + "/cupti_pmsampling.h")), None)
    if not include:
        pytest.skip("no CUPTI headers")
    source = """
#include <stdbool.h>
#include <stddef.h>
#include <cupti_result.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>
#include <cupti_profiler_host.h>
#include <cupti_pmsampling.h>
#define SAME(a, b) _Static_assert((a) == (b), #a)
_Static_assert(CUPTI_SUCCESS == 0 && CUPTI_ERROR_INVALID_PARAMETER == 1 && CUPTI_ERROR_OUT_OF_MEMORY == 8 && CUPTI_ERROR_HARDWARE_BUSY == 26 &&
    CUPTI_ERROR_NOT_SUPPORTED == 27 && CUPTI_ERROR_INSUFFICIENT_PRIVILEGES == 35 && CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES == 40 &&
    CUPTI_ERROR_UNKNOWN == 999 && CUPTI_PROFILER_TYPE_PM_SAMPLING == 1, "numbers");
#define CUPTI_SUCCESS OURS_0
#define CUPTI_ERROR_INVALID_PARAMETER OURS_1
#define CUPTI_ERROR_OUT_OF_MEMORY OURS_8
#define CUPTI_ERROR_HARDWARE_BUSY OURS_26
#define CUPTI_ERROR_NOT_SUPPORTED OURS_27
#define CUPTI_ERROR_INSUFFICIENT_PRIVILEGES OURS_35
#define CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES OURS_40
#define CUPTI_ERROR_UNKNOWN OURS_999
#define CUPTI_PROFILER_TYPE_PM_SAMPLING OURS_TYPE
#include "cupti_pm.h"
SAME(CUPTI_TRIGGER_GPU_SYSCLK_INTERVAL, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL); SAME(CUPTI_TRIGGER_GPU_TIME_INTERVAL, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
SAME(CUPTI_APPEND_KEEP_OLDEST, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
SAME(CUPTI_DECODE_STOP_COUNTER_DATA_FULL, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
#define EACH(theirs, ours) SAME(theirs##_Params_STRUCT_SIZE, sizeof(struct ours))
#define AT(theirs, member, ours, own) SAME(offsetof(theirs##_Params, member), offsetof(struct ours, own))
EACH(CUpti_Profiler_Initialize, pm_initialize); EACH(CUpti_Device_GetChipName, pm_chip); AT(CUpti_Device_GetChipName, pChipName, pm_chip, name);
EACH(CUpti_PmSampling_GetCounterAvailability, pm_availability); AT(CUpti_PmSampling_GetCounterAvailability, pCounterAvailabilityImage, pm_availability, image);
EACH(CUpti_Profiler_Host_Initialize, pm_host); AT(CUpti_Profiler_Host_Initialize, pCounterAvailabilityImage, pm_host, availability);
AT(CUpti_Profiler_Host_Initialize, pHostObject, pm_host, host); EACH(CUpti_Profiler_Host_Deinitialize, pm_host_end);
EACH(CUpti_Profiler_Host_ConfigAddMetrics, pm_metrics); AT(CUpti_Profiler_Host_ConfigAddMetrics, ppMetricNames, pm_metrics, names);
EACH(CUpti_Profiler_Host_GetConfigImageSize, pm_config_size); EACH(CUpti_Profiler_Host_GetConfigImage, pm_config);
AT(CUpti_Profiler_Host_GetConfigImage, pConfigImage, pm_config, config); EACH(CUpti_Profiler_Host_GetNumOfPasses, pm_passes);
AT(CUpti_Profiler_Host_GetNumOfPasses, numOfPasses, pm_passes, passes); EACH(CUpti_PmSampling_Enable, pm_enable); AT(CUpti_PmSampling_Enable, pPmSamplingObject, pm_enable, object);
EACH(CUpti_PmSampling_Start, pm_object); EACH(CUpti_PmSampling_Stop, pm_object); EACH(CUpti_PmSampling_Disable, pm_object);
EACH(CUpti_PmSampling_SetConfig, pm_set_config); AT(CUpti_PmSampling_SetConfig, pConfig, pm_set_config, config);
AT(CUpti_PmSampling_SetConfig, hardwareBufferSize, pm_set_config, buffer_size); AT(CUpti_PmSampling_SetConfig, samplingInterval, pm_set_config, interval);
AT(CUpti_PmSampling_SetConfig, triggerMode, pm_set_config, trigger); AT(CUpti_PmSampling_SetConfig, hwBufferAppendMode, pm_set_config, append);
EACH(CUpti_PmSampling_GetCounterDataSize, pm_data_size); AT(CUpti_PmSampling_GetCounterDataSize, maxSamples, pm_data_size, samples);
AT(CUpti_PmSampling_GetCounterDataSize, counterDataSize, pm_data_size, data_size); EACH(CUpti_PmSampling_CounterDataImage_Initialize, pm_data_init);
AT(CUpti_PmSampling_CounterDataImage_Initialize, pCounterData, pm_data_init, data); SAME(CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE, PM_DECODE_SZ);
AT(CUpti_PmSampling_DecodeData, pCounterDataImage, pm_decode, data); AT(CUpti_PmSampling_DecodeData, decodeStopReason, pm_decode, stop);
AT(CUpti_PmSampling_DecodeData, overflow, pm_decode, overflow); EACH(CUpti_PmSampling_GetCounterDataInfo, pm_info);
AT(CUpti_PmSampling_GetCounterDataInfo, numCompletedSamples, pm_info, completed); EACH(CUpti_PmSampling_CounterData_GetSampleInfo, pm_sample);
AT(CUpti_PmSampling_CounterData_GetSampleInfo, sampleIndex, pm_sample, index); AT(CUpti_PmSampling_CounterData_GetSampleInfo, endTimestamp, pm_sample, end);
EACH(CUpti_Profiler_Host_EvaluateToGpuValues, pm_values); AT(CUpti_Profiler_Host_EvaluateToGpuValues, rangeIndex, pm_values, index);
AT(CUpti_Profiler_Host_EvaluateToGpuValues, ppMetricNames, pm_values, names); AT(CUpti_Profiler_Host_EvaluateToGpuValues, pMetricValues, pm_values, values);
"""
    # One header is for C++ and includes <string>.
    (tmp_path / "string").write_text("")
    ran = subprocess.run(["gcc", "-fsyntax-only", "-I" + str(tmp_path), "-I" + include, "-I" + os.path.dirname(TESTS) + "/pm", "-x", "c", "-"], input=source, text=True,
                         capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr[:2000]


def test_metrics():
    """Each chip must count the chosen metrics in one pass. CUPTI knows that without a GPU, if it is installed."""
    library = next((p for p in ("/usr/local/cuda/lib64/libcupti.so.13", "/usr/local/cuda/lib/libcupti.so.13", "/usr/local/cuda-13.0/lib/libcupti.so.13") if os.path.exists(p)), None)
    if not library:
        pytest.skip("no CUPTI")
    ran = subprocess.run([sys.executable, TESTS + "/helpers/passes.py", library], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran
    chosen = json.loads(ran.stdout)
    essential = ["gr_active", "sm_active", "dram_read", "dram_write", "inst_executed", "l2_active", "pcie_read", "pcie_write"]
    for chip, names in chosen.items():
        assert set(essential) <= set(names), chip
    assert [len(chosen[chip]) for chip in ("GH100", "GB100", "GA100", "GA102", "AD102", "GB202")] == [16, 16, 13, 14, 12, 11]
