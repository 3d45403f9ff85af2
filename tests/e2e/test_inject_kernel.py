# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 60
"""--kernel in the process records the same driver system calls as the tracepoints, without root. Has the tests of
tests/e2e/test_kernel.py, with a program whose system calls are made by a library with the driver's name."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.nvfuse import BY_NAME, mock_devices, needs_no_driver
from helpers.run import ALL, CUDATRACE, FAKE, O, TESTS, Ran, needs_tracing, passes, until

CC = os.environ.get("CC", "gcc").split()
# A user id that nothing else uses: names of folders in /tmp contain it.
UID = 410000000 + os.getpid()
# How the library calls libc's functions: lazy binding, read-only pages bound at the start, or direct pointers.
TABLES = {"lazy": ["-Wl,-z,lazy,-z,norelro"], "now": ["-Wl,-z,now,-z,relro"], "no-plt": ["-fno-plt", "-Wl,-z,now,-z,relro"]}


def build(folder, source, how):
    """Builds a program whose main() is in a library with a name like NVIDIA's."""
    library = f"libnvidia-{os.path.basename(source)[:-2]}.so.1"
    subprocess.run([*CC, "-O1", "-g", "-w", "-D_GNU_SOURCE", "-Dmain=begin", "-shared", "-fPIC", *TABLES[how], "-Wl,-soname," + library,
                    "-o", f"{folder}/{library}", f"{TESTS}/{source}"], check=True)
    subprocess.run([*CC, "-w", "-x", "c", "-", "-x", "none", f"{folder}/{library}", "-Wl,--no-as-needed", f"-L{FAKE}", "-lcuda", "-ldl", "-lpthread",
                    "-Wl,-rpath,$ORIGIN", "-o", f"{folder}/program"], input="int begin(int, char **); int main(int c, char **v) { return begin(c, v); }",
                   text=True, check=True)


@pytest.fixture(scope="module")
def place():
    """A readable folder with all that a user needs; "out" is the user's own, "nv" has the mock devices."""
    needs_no_driver()
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("needs root, to mount devices and to become a user without rights")
    folder = os.environ["TMP"] + "/place"
    os.chmod(os.environ["TMP"], 0o755)
    os.makedirs(folder + "/out")
    os.chown(folder + "/out", UID, UID)
    for path in (CUDATRACE, FAKE + "/libcuda.so.1", O + "/libcudatrace-inject.so"):
        os.chmod(shutil.copy(path, folder), 0o755)
    for how in TABLES:
        os.makedirs(f"{folder}/{how}/inject")
        build(f"{folder}/{how}", "nvfuse/drive.c", how)
        build(f"{folder}/{how}/inject", "inject/nv.c", how)
    if Ran([*AS, "test", "-x", folder + "/cudatrace"]).status:
        pytest.skip("the folder of tests is not to be seen by others")
    yield folder
    shutil.rmtree(f"/tmp/cudatrace-{UID}", ignore_errors=True)


@pytest.fixture(scope="module")
def nv(place):
    with mock_devices(place) as folder:
        yield folder


AS = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]


class Traced:
    """A traced command: t is the trace; also ran, path, and expected (a file with its output)."""

    def __init__(self, place, name, args, command, probe="inject", env=(), status=0, as_user=True):
        base = f"{place}/out/{name}"
        self.path, self.expected, self.chrome = base + ".jsonl", base + ".expected", base + ".json"
        who = [*AS, "env", "-u", "XDG_RUNTIME_DIR"] if probe == "inject" and as_user else ["env"]
        self.ran = Ran([*who, *(f"{k}={v}" for k, v in {**BY_NAME, "LD_LIBRARY_PATH": place, **dict(env)}.items()), place + "/cudatrace", "-q",
                        f"--probe={probe}", "--kernel", *args, "--jsonl", self.path, "--chrome", self.chrome, "--", *command])
        with open(self.expected, "w", encoding="utf-8") as f:
            f.write(self.ran.out)
        assert self.ran.status == status and self.ran.silent(), self.ran
        self.t = Trace(self.path)
        self.driver = [e for e in self.t.ev if e["type"] in ("kernel", "scheduler") and e.get("op") != "launch"]


# Members that differ between runs, and addresses.
OWN = {"ts", "duration_us", "pid", "tid", "call_id", "ptr", "address", "id", "parent", "comm", "ioctl_us", "args", "fd", "lib"}


def normal(r):
    """System calls and CUDA calls of each thread, by start time."""
    handles = {}

    def own(value):
        # Handles from the server.
        return handles.setdefault(value, len(handles)) if str(value).startswith("0xcaf") else value
    rows = collections.defaultdict(list)
    for e in sorted(r.t.calls + r.driver, key=lambda e: e["ts"]):
        rows[e["tid"]].append({k: own(v) for k, v in e.items() if k not in OWN} | {"has": sorted(OWN & set(e) - {"args", "lib"})})
    return [rows[tid] for tid in sorted(rows)]


@pytest.mark.parametrize("how", TABLES)
def test_all_commands(place, nv, how):
    """Every command of the server must be recorded, with every kind of error (bad pointers too), inside and outside calls."""
    r = Traced(place, how, ["-e", ALL], [f"{place}/{how}/program", nv, "single"])
    passes("nvfuse/compare.py", r.path, r.expected, r.chrome)
    assert r.t.head["kernel_probe"] == "inject" and r.t.accounts()
    assert os.stat(r.path).st_uid == UID


HIDDEN = {"all": [], "no strings": ["--no-strings"], "no arguments": ["--no-args"]}
SAME = HIDDEN | {"one function": ["-e", "cuInit"], "no function": ["-e", "all,!cu*"], "counted": ["--count=cuFakeC*"], "entries": ["--entry-only=cuFakeC*"],
                 "filtered": ["--min-duration=15ms"]}


@pytest.mark.parametrize("what", SAME)
def test_same_as_by_tracepoints(place, nv, what):
    needs_tracing()
    args = [*([] if "-e" in SAME[what] else ["-e", ALL]), *SAME[what]]
    command = [place + "/lazy/program", nv, "single"]
    outside, inside = (Traced(place, f"{what}-{probe}".replace(" ", "-"), args, command, probe) for probe in ("uprobe", "inject"))
    assert outside.t.head["kernel_probe"] == "tracepoint" and inside.t.head["kernel_probe"] == "inject"
    a, b = normal(outside), normal(inside)
    for before, after in zip(a, b):
        assert [e for e in before if e not in after] == [e for e in after if e not in before]
    assert a == b and sum(map(len, a)) > 90
    assert outside.t.accounts() and inside.t.accounts()


def test_hidden_is_not_there(place, nv):
    r = Traced(place, "redacted", ["-e", ALL, "--no-args"], [place + "/lazy/program", nv, "single"])
    assert {e["op"] for e in r.driver} == {"ioctl", "mmap", "close"}
    for e in r.driver:
        assert not set(e) & {"fd", "ptr", "size", "client", "object", "params_size", "control", "version", "target_fd"} and not e.get("status"), e
        assert e.get("result", 0) <= 0, e


def test_ids_of_calls_that_are_left_out(place, nv):
    """With --min-duration, calls without a line must still have unique ids."""
    r = Traced(place, "left-out", ["-e", ALL, "--min-duration=1h"], [place + "/lazy/program", nv, "single"])
    with open(r.expected, encoding="utf-8") as f:
        want = collections.Counter(e["$in"] for e in map(json.loads, f) if "$in" in e and e["$in"])
    seen = collections.Counter(e["call_id"] for e in r.driver if "call_id" in e)
    assert sorted(seen.values()) == sorted(want.values()) and len(want) > 5
    assert not r.t.calls and r.t.end["filtered"] > 5


def test_devices_in_dev(place, nv):
    """Opened devices are recognized by their path, so this uses a private /dev."""
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs a mount namespace")
    r = Traced(place, "dev", ["-e", ALL], ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /dev && exec "$2" /dev single', "sh", nv, place + "/now/program"], as_user=False)
    passes("nvfuse/compare.py", r.path, r.expected, r.chrome)
    assert sum(e["op"] == "open" for e in r.driver) == 7 and r.t.accounts()


def test_killed_in_an_ioctl(place, nv):
    """The ioctl and its call must be unfinished."""
    with subprocess.Popen([*AS, "env", "-u", "XDG_RUNTIME_DIR", "CUDATRACE_TEST_NV_BY_NAME=1", "LD_LIBRARY_PATH=" + place, place + "/cudatrace", "-q", "--kernel",
                           "-e", ALL, "--jsonl", place + "/out/killed", "--", place + "/now/program", nv, "block"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracer:
        pid = int(re.fullmatch(r"blocking (\d+)\n", tracer.stdout.readline())[1])
        # In the driver, where FUSE waits for a response.
        until(lambda: "fuse" in open(f"/proc/{pid}/wchan", encoding="utf-8").read() or "request_wait" in open(f"/proc/{pid}/wchan", encoding="utf-8").read()
              or open(f"/proc/{pid}/syscall", encoding="utf-8").read().split()[0] in ("16", "29"))
        os.kill(pid, signal.SIGKILL)
        assert tracer.wait(60) == 137
    t = Trace(place + "/out/killed")
    assert [(e["name"], e["object"], e.get("unfinished"), e["call"]) for e in t.ev if e.get("op") == "ioctl" and not set(e) & {"result", "status"}] \
        == [("NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", "0x5c000001", True, "cuFakeCallback")]
    assert [c["symbol"] for c in t.calls if c.get("unfinished")] == ["cuFakeCallback"] and t.accounts()


def test_the_trace_ends_in_an_ioctl(place, nv):
    with subprocess.Popen(["env", "CUDATRACE_TEST_NV_BY_NAME=1", "LD_LIBRARY_PATH=" + place, place + "/cudatrace", "-q", "--kernel", "--probe=inject", "--duration=3s",
                           "-e", ALL, "--jsonl", place + "/out/cut", "--", place + "/now/program", nv, "block"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracer:
        pid = int(re.fullmatch(r"blocking (\d+)\n", tracer.stdout.readline())[1])
        until(lambda: '"type":"end"' in open(place + "/out/cut", encoding="utf-8").read())
        os.kill(pid, signal.SIGKILL)
        assert tracer.wait(60) == 137
    t = Trace(place + "/out/cut")
    assert [(e.get("unfinished"), e["call"]) for e in t.ev if e.get("op") == "ioctl"] == [(True, "cuFakeCallback")] and t.accounts()


def test_losses(place, nv):
    """Recorded and lost system calls must add up to those made."""
    r = Traced(place, "many", ["--buffer-size=64K"], [place + "/lazy/program", nv, "many", "20000"])
    assert sum(e["type"] == "kernel" for e in r.t.ev) + r.t.end["drops"]["driver"] == 20004


def test_what_it_costs(place, nv):
    """cost_ms must include about a microsecond for each system call."""
    r = Traced(place, "cost", ["-e", "cuInit"], [place + "/lazy/program", nv, "many", "5000"])
    each = r.t.end["cost_ms"] * 1000 / 5000
    assert .2 < each < 50 and r.t.end["drops"]["driver"] == 0, each


def part(place, name, how="now", **more):
    path = f"{place}/out/{name}/nvidiactl"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.chown(os.path.dirname(path), UID, UID)
    r = Traced(place, name, ["-e", ALL], [f"{place}/{how}/inject/program", name, path], **more)
    return r, int(r.ran.out)


def ops(r, op="ioctl"):
    return [e for e in r.driver if e["op"] == op]


@pytest.mark.parametrize("name", ["storm", "altstack"])
def test_system_calls_of_signal_handlers(place, name):
    """System calls of signal handlers, which interrupt any code, must be recorded or counted as lost."""
    r, made = part(place, name)
    assert len(ops(r)) + r.t.end["drops"]["driver"] == made and len(ops(r)) > made * .5
    assert r.t.accounts(drops=True)
    inside = {c["id"] for c in r.t.calls}
    assert all(e["call_id"] in inside for e in r.driver if "call_id" in e)


def test_threads_that_make_no_call(place):
    r, made = part(place, "threads")
    assert len(ops(r)) == made and len({e["tid"] for e in ops(r)}) == made // 3 and r.t.accounts()


@pytest.mark.parametrize("how", TABLES)
def test_errno_and_bad_pointers(place, how):
    """The program checks errno and results with bad pointers."""
    r, _ = part(place, "errno", how)
    assert [(e["op"], e.get("result")) for e in r.driver] == [("mmap", None), ("close", 0), ("open", -2), ("ioctl", -25)]
    assert [e["device"] for e in r.driver] == ["nvidiactl", "nvidiactl", "nvidia-other", "nvidiactl"]


def test_children(place):
    """Children must be followed from their first call on."""
    r, _ = part(place, "forks")
    pids = collections.Counter(e["pid"] for e in ops(r))
    assert sorted(pids.values()) == [1, 1] and set(pids) == {e["pid"] for e in r.t.calls} and r.t.accounts()


def test_left_by_longjmp(place):
    """After longjmp from a handler at any instruction, a system call may be counted as made or not."""
    r, made = part(place, "leaves")
    assert abs(len(ops(r)) + r.t.end["drops"]["driver"] - made) <= 600 and r.t.end["bad_records"] == 0
    assert not any(e.get("unfinished") for e in ops(r)[-50:])


def test_cancelled_in_open(place):
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs a mount namespace")
    os.makedirs(place + "/fifo")
    os.mkfifo(place + "/fifo/nvidia0")
    r = Traced(place, "cancel", ["-e", ALL], ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /dev && exec "$2" cancel /dev/nvidia0', "sh", place + "/fifo",
                                              place + "/now/inject/program"], as_user=False)
    # Cancelled before or in the open.
    assert [(e["op"], e.get("unfinished")) for e in r.driver] in ([], [("open", True)]) and r.t.accounts()


def test_the_tracer_is_killed(place):
    """If the tracer is killed, changed pointers must be restored, and the program is not disturbed."""
    path = place + "/out/nvidiactl"
    with subprocess.Popen([*AS, "env", "-u", "XDG_RUNTIME_DIR", "CUDATRACE_TEST_NV_BY_NAME=1", "LD_LIBRARY_PATH=" + place, place + "/cudatrace", "-q", "--kernel",
                           "--jsonl", place + "/out/orphan", "--", place + "/now/inject/program", "answers", path],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as tracer:
        assert tracer.stdout.readline() == "hooked\n"
        tracer.kill()

        def is_direct():
            tracer.stdin.write("\n")
            return tracer.stdout.readline() == "direct\n"
        until(is_direct)
        tracer.stdin.close()
        assert int(tracer.stdout.readline()) > 1


def test_alone(place):
    """Without a tracer, system calls are recorded only if requested."""
    for value, seen in ("1", True), ("0", False), ("", False):
        out = f"{place}/out/alone{value}"
        ran = Ran([*AS, "env", f"LD_LIBRARY_PATH={place}", f"LD_PRELOAD={place}/libcudatrace-inject.so", "CUDATRACE_TEST_NV_BY_NAME=1", f"CUDATRACE_OUT={out}",
                   "CUDATRACE_KERNEL=" + value, place + "/lazy/inject/program", "errno", place + "/out/nvidiactl"])
        assert ran.status == 0 and ran.err == "", ran
        until(lambda: os.path.exists(out) and '"type":"end"' in Ran(["tail", "-1", out]).out)
        t = Trace(out)
        assert ("kernel_probe" in t.head) == seen and sum(e.get("op") == "ioctl" for e in t.ev) == seen and t.accounts()


def test_driver_not_loaded(place):
    ran = Ran([*AS, "env", "-u", "XDG_RUNTIME_DIR", f"LD_LIBRARY_PATH={place}", place + "/cudatrace", "-q", "--kernel", "-e", ALL, "--jsonl", place + "/out/none", "--",
               place + "/lazy/inject/program", "errno", place + "/out/nvidiactl"])
    assert ran.status == 0 and ran.err == "cudatrace: warning: --kernel: the NVIDIA driver is not loaded: only CUDA calls are traced\n", ran
    t = Trace(place + "/out/none")
    assert "kernel_probe" not in t.head and t.sym["cuInit"] == 1 and not [e for e in t.ev if e["type"] == "kernel"] and t.accounts()


def test_ways_of_the_kernel_are_refused(place):
    ran = Ran([*AS, place + "/cudatrace", "--probe=inject", "--kernel", "--kernel-probe=kprobe", "--", "true"])
    assert ran.status == 2 and "--kernel-probe does not work in-process" in ran.err, ran


def test_real_drivers(place):
    """A real driver's requests in cuInit must be recorded the same by both producers, here without a device."""
    needs_tracing()
    libs = Ran([f"{os.path.dirname(TESTS)}/tools/fetch-libcuda.sh"], timeout=300).out.split()[1::2] if os.uname().machine == "x86_64" else []
    if not libs:
        pytest.skip("no real driver can be had")
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cuInit(0))"
    for lib in libs:
        seen = [normal(Traced(place, f"real-{probe}", ["-e", ALL], ["python3", "-c", code, lib], probe, as_user=False)) for probe in ("uprobe", "inject")]
        assert seen[0] == seen[1] and any(e.get("op") == "open" for e in seen[0][0]), lib
    # cuInit as root creates it. With a driver, this test is skipped.
    if os.path.exists("/dev/nvidiactl"):
        os.unlink("/dev/nvidiactl")
