# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# own processes
"""The daemon's levels: by rules of every kind, by hand, while processes make calls, and when a process becomes another program."""
import collections
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest
from helpers import ctl_requests
from helpers.daemon import NOBODY, driver_counts, private  # noqa: F401, a fixture
from helpers.live import compiled
from helpers.run import FAKE, TESTS, Ran, cudatrace, until

ALLOC, FREE = "cuMemAlloc_v2", "cuMemFree_v2"
STEPS = """
#include "client.h"
int main(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	uint64_t p;

	((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
	((int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
	((int (*)(void *))dlsym(lib, "cuCtxSetCurrent"))(ctx);
	nvtxMarkA("ready");
	puts("ready");
	fflush(stdout);
	for (int c; (c = getchar()) != EOF;) {
		nvtxRangePushA(c == 'a' ? "one" : "another");
		((int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2"))(&p, 4096);
		nvtxRangePop();
	}
	return 0;
}
"""


def with_rules(place, name, rules, *settings, **how):
    """A daemon with these rules: what they match, and their levels. FOLDER is the folder of its programs."""
    text = "".join(f"  - match: {{{what}}}\n    level: {level}\n" for what, level in rules)
    (place.folder / (name + ".yaml")).write_text("level: off\nrules:\n" + text.replace("FOLDER", str(place.folder)))
    return place.daemon(name, *settings, level=None, **how)


def allocations(m, command):
    return m.calls(command), m.calls(command, FREE)


def calls_of(lines, command):
    return collections.Counter(e["symbol"] for e in lines if "symbol" in e and e["comm"] == command)


def as_the_driver(d, level, command):
    """Waits until its calls equal the driver's own counts. At level off, a few first calls may come before it is set."""
    def same(m):
        known, got = set(m.by("calls_total", "function")), m.by("calls_total", "function", command=command)
        made = +collections.Counter({k: n for k, n in driver_counts(d.place.folder / ("counts." + command)).items() if k in known})
        seen = calls_of(d.lines(), command)
        return made["cuLaunchKernel"] > 10 and {"off": not seen and got.total() < 40, "metrics": got == made and not seen,
                                                "sampled": got == made,
                                                "trace": got == made == seen}[level]
    d.until(same)


def refuses(says, ran):
    assert ran.status and says in ran.out + ran.err, ran


def test_detail(private):  # noqa: F811
    """Functions outside trace.detail must not be probed; trace.functions adds and takes."""
    d = private.daemon("detail", "trace.detail=low", "trace.functions=cuDriverGetVersion,!cuMemFree")
    c = d.worker("low")
    assert c.tell("alloc 3") == 3
    c.tell("version 4")
    d.until(lambda m: m.by("calls_total", "function", command="w-low") == {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, ALLOC: 3,
                                                                           "cuDriverGetVersion": 4})
    d.stop()


LEVELS = [('command: "*w-silent"', "off"), ('command: "*w-noted*", user: root', "trace"), ('command: "*w-noted*"', "off"),
          ('command: "FOLDER/*"', "metrics"), ("user: nobody", "trace")]
NAMES = ["silent", "noted", "plain"]


@pytest.fixture
def levels(private):  # noqa: F811
    """A daemon with a rule for each of three workers, and these."""
    d = with_rules(private, "levels", LEVELS, "metrics.memory=false", "trace.buffer_size=64M")
    yield d, {name: d.worker(name) for name in NAMES}
    d.stop()


def test_rules(levels):
    """Each process has the level of its rule, and a command of ctl changes it until the configuration is read again."""
    d, workers = levels
    state = [(d.process(c.pid)["level"], d.process(c.pid)["traced"]) for c in workers.values()]
    assert state == [("off", False), ("trace", True), ("metrics", False)]
    for c in workers.values():
        assert c.tell("alloc 10") == 10
    assert [d.metrics().calls("w-" + name) for name in NAMES] == [0, 10, 10]
    assert d.ctl("level", "*/w-silent", "metrics")["processes"] == 1
    assert workers["silent"].tell("alloc 7") == 7 and d.metrics().calls("w-silent") == 7
    d.ctl("reload")
    assert d.process(workers["silent"].pid)["level"] == "off"
    # A time is no process.
    assert d.ctl("burst", "1s")["processes"] == 1 and d.ctl("burst", "1.5")["processes"] == 1


def test_levels_that_change(levels):
    """Two threads make calls while the level changes a hundred times: each call must be recorded once."""
    d, workers = levels
    plain, made = workers["plain"], []
    thread = threading.Thread(target=lambda: made.append(plain.tell("threads 2 150000")))
    thread.start()
    for level in ("trace", "metrics", "sampled", "trace") * 25:
        d.ctl("level", plain.pid, level)
        time.sleep(0.01)
    thread.join()
    m = d.metrics()
    assert made == [300000] and m.total("dropped_total") < 100000 and sum(allocations(m, "w-plain")) + m.total("dropped_total") == 600000
    assert d.ctl("level", plain.pid, "default") == {"processes": 1, "level": "metrics"}


def test_ctl(levels):
    """Wrong words must be refused. Every new process is compared with each pattern: a repeated one must use no more memory."""
    d, workers = levels
    refuses("LEVEL is off, metrics", d.ask("level", workers["plain"].pid, "loud"))
    refuses("does not use CUDA", d.ask("level", 1, "trace"))
    refuses("a time needs its unit, as in burst 10s", d.ask("burst", 1))
    refuses("there is no command dance", d.ask("dance"))
    for at, why in (("@1769860800", "this time is over since"), (f"@{time.time() + 700000:.0f}", "more than a week away")):
        refuses(why, d.ask("burst", "1s", "--at", at))
    for long in "3601s", "1000h", "584y":
        refuses("lasts at most an hour" if long != "584y" else "write burst", d.ask("burst", long))
    refuses("'noon': not a time in UTC", d.ask("burst", "--at", "noon"))
    refuses("--at is for ctl burst", d.ask("status", "--at", "@1769860800"))
    assert ctl_requests.send(d.sock, *(f"level none-{i % 256} off" for i in range(600))) == (600, "")
    assert ctl_requests.send(d.sock, "level none-256 off", "level none-7 off") == (1, "there are 256 patterns already")
    assert ctl_requests.send(d.sock, f"level {65 * 'x'} off") == (0, "the pattern is longer than 64 bytes")
    d.ctl("reload")
    assert d.ctl("level", "none-256", "off")["processes"] == 0


def test_planned_burst(levels):
    """It must begin at the given time of the wall clock, though the daemon is idle; at most 16 wait."""
    d, workers = levels
    pid = workers["plain"].pid
    begin = time.time() + 3.4
    answer = d.ctl("burst", pid, "0.2s", "--at", f"@{begin:.3f}")
    assert 2000 < answer["begins_in_ms"] <= 3400 and d.ctl("status")["bursts_planned"] == 1
    before = d.process(pid)["bursts"]
    until(lambda: d.process(pid)["bursts"] > before)
    assert -0.002 < time.time() - begin < 0.5 and d.ctl("status")["bursts_planned"] == 0
    late = f"@{time.time() + 100000:.0f}"
    for _ in range(16):
        d.ctl("burst", pid, "1s", "--at", late)
    refuses("16 bursts wait already", d.ask("burst", pid, "--at", late))


def test_burst(levels):
    """A burst must be a file that the report can read, and the metrics must be well-formed."""
    d, workers = levels
    plain, over = workers["plain"], threading.Event()
    plain.tell("fail 3")

    def busy():
        while not over.wait(0.01):
            plain.tell("alloc 50")
    thread = threading.Thread(target=busy)
    thread.start()
    before = set(d.files.glob("trace-*.jsonl.zst"))
    assert d.ctl("burst", plain.pid, "0.5s")["processes"] == 1
    until(lambda: set(d.files.glob("trace-*.jsonl.zst")) - before)
    over.set()
    thread.join()
    assert "cuMemAlloc" in cudatrace("report", "--full", max(d.files.glob("trace-*.zst"))).out
    m = d.metrics()
    assert m.total("bursts_total") >= 1 and m.total("processes", level="metrics") == 1
    assert m.total("self_resident_bytes") > 1e6 and m.total("self_open_fds") > 5 and m.total("build_info") == 1
    assert m.total("self_cpu_seconds_total") > 0 and m.total("self_cost_seconds_total") > 0 and m.total("dropped_total") == 0
    if not shutil.which("promtool"):
        pytest.skip("promtool (package prometheus) is not installed")
    p = subprocess.run(["promtool", "check", "metrics"], input=m.text, capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr


def test_unread(private):  # noqa: F811
    """When the daemon's reader does not respond while it reads a command line, the process must have a level all the same. The line is
    read later, and calls are counted from then on."""
    d = private.daemon("unread")
    # All of this process has been read when its first calls are counted.
    assert d.worker("read").tell("alloc 1") == 1
    d.until(lambda m: m.calls("w-read") == 1)

    def reading():
        reader = Ran(["pgrep", "-P", str(d.pid), "-x", "cudatrace-read"]).out.strip()
        return reader and Ran(["pgrep", "-P", reader]).out.strip()
    until(reading)
    pid = int(reading())
    os.kill(pid, signal.SIGSTOP)
    c = d.worker("unread")
    until(lambda: f"cannot read cmdline of process {c.pid}: left out" in d.said(), 20)
    until(lambda: d.process(c.pid)["level"] == "metrics")
    assert c.tell("alloc 10") == 10
    d.until(lambda m: m.calls("w-unread") == 10)
    os.kill(pid, signal.SIGKILL)
    d.stop()


def test_ranges(private):  # noqa: F811
    """NVTX ranges of a library that a running program calls: nvtx is in trace.functions. Each is there once, and its call in it."""
    nvtx = private.folder / "nvtx"
    nvtx.mkdir()
    compiled(nvtx / "libnvToolsExt.so.1", "-fPIC", "-shared", "-Wl,-soname,libnvToolsExt.so.1", TESTS + "/nvtx/exports.c")
    (nvtx / "steps.c").write_text(STEPS)
    program = private.compiled("w-nvtx", "-I" + TESTS + "/nvtx", nvtx / "steps.c")
    d = private.daemon("ranges", "trace.functions=memory,nvtx", level="trace")
    p = private.start(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                      env={**os.environ, "LD_LIBRARY_PATH": f"{private.lib}:{nvtx}", "NVTX_EXPORTS": "libnvToolsExt.so.1"})
    assert p.stdout.readline() == "ready\n"
    until(lambda: d.process(p.pid))
    # The library is attached to late.
    until(lambda: any("nvToolsExt" in x["path"] for x in d.ctl("status")["libraries"]))
    p.communicate("aab", 60)
    d.stop()
    lines = d.lines()
    assert collections.Counter(e.get("range") for e in lines if e.get("symbol") == ALLOC) == {"one": 2, "another": 1}
    assert [e["text"] for e in lines if e["type"] == "range"] == ["one", "one", "another"]
    refuses("trace.nvtx: there is no such key", cudatrace("daemon", "--set", "trace.nvtx=true"))


def test_first_calls(private):  # noqa: F811
    """The daemon is stopped during their first calls; the levels that it reads later must also apply to those calls."""
    d = with_rules(private, "first", [('command: "*f-off"', "off"), ('command: "*f-trace"', "trace"), ('command: "FOLDER/*"', "metrics")],
                   "metrics.memory=false")
    d.p.send_signal(signal.SIGSTOP)
    workers = {name: private.caller("f-" + name).ready(private.lib / "libcuda.so.1") for name in ("off", "trace", "metrics")}
    for c in workers.values():
        assert c.tell("alloc 10") == 10
    d.p.send_signal(signal.SIGCONT)
    until(lambda: all(map(d.has, workers.values())))
    assert [d.metrics().calls("f-" + name) for name in workers] == [10] * 3
    for c in workers.values():
        assert c.tell("alloc 5") == 5 and c.end() == 0
    d.stop()
    calls = [e for e in d.lines() if "symbol" in e]
    assert {e["comm"] for e in calls} == {"f-trace"} and calls_of(calls, "f-trace")[ALLOC] == 15


KINDS = [('command: "FOLDER/*", namespace: llm, pod: "trainer-*"', "trace"), ('command: "FOLDER/*", container: "abab*"', "metrics"),
         ('command: "FOLDER/*", cgroup: "/odd name/*"', "trace"), ('command: "FOLDER/*", user: nobody', "sampled"),
         ('command: "FOLDER/k-command"', "metrics")]
UID = "0a1b2c3d-0011-2233-4455-66778899aabb"


@pytest.fixture
def cgroups(private):  # noqa: F811
    """A cgroup file system with some cgroups, which are removed afterwards. Another run at the same time has other names."""
    root, container = private.folder / "cgroup", f"abab{os.getpid():060x}"
    root.mkdir()
    made = {"pod": f"kubepods/burstable/pod{UID}/{container}", "container": f"docker/{container}",
            "cgroup": f"odd name/of.no-known+shape {os.getpid()}",
            "others": f"kubepods/besteffort/others-{os.getpid()}"}
    # For the case that we are killed: tests/runner/contain.py removes them.
    mounted = Ran(["findmnt", "-n", "-o", "TARGET", "-t", "cgroup2"]).out.split("\n")[0]
    with open(os.environ["TMP"] + "/cgroups.made", "a", encoding="utf-8") as f:
        f.writelines(f"{mounted}/{path}\n" for path in made.values())
    if Ran(["mount", "-t", "cgroup2", "none", root]).status or Ran(["mkdir", root / f"docker.{os.getpid()}"]).status:
        pytest.skip("no cgroup can be made here")
    os.rmdir(root / f"docker.{os.getpid()}")
    for path in made.values():
        # Another process that removes empty cgroups may remove our parent.
        until(lambda p=path: not Ran(["mkdir", "-p", root / p]).status, 2)
    yield root, container, made
    for path in made.values():
        # Just after its process's end it may be busy for a moment. Others' cgroups stay, empty ones too.
        until(lambda p=path: not os.path.exists(root / p) or not Ran(["rmdir", root / p]).status, 5)
        with contextlib.suppress(OSError):
            for parent in list(pathlib.Path(path).parents)[:-1]:
                (root / parent).rmdir()
    subprocess.run(["umount", root], check=True)


def test_rules_of_every_kind(private, cgroups):  # noqa: F811
    """Each with its level; pod names are resolved as on a node."""
    root, container, made = cgroups
    (private.folder / f"root/var/log/pods/llm_trainer-0_{UID}").mkdir(parents=True)
    os.chmod(os.environ["TMP"], 0o755)
    os.chmod(private.folder, 0o755)
    d = with_rules(private, "kinds", KINDS, env={"CUDATRACE_HOST_ROOT": str(private.folder / "root")})
    kinds = {"pod": "trace", "container": "metrics", "cgroup": "trace", "user": "sampled", "command": "metrics", "none": "off"}
    for kind in kinds:
        counts = private.folder / ("counts.k-" + kind)
        counts.touch()
        counts.chmod(0o666)
        program = shutil.copy(FAKE + "/sample", private.folder / ("k-" + kind))
        enter = f'echo $$ >"{root}/{made[kind]}/cgroup.procs"; ' if kind in made else ""
        ran = Ran(["sh", "-c", enter + 'exec "$@"', "sh", *(NOBODY if kind == "user" else []), program, "--quiet", "--tokens", "2"],
                  env={"FAKE_CUDA_COUNTS": str(counts), "LD_LIBRARY_PATH": str(private.lib)})
        assert ran.status == 0, ran
    # Lines are written out every second.
    for kind, level in kinds.items():
        as_the_driver(d, level, "k-" + kind)
    m = d.metrics()
    assert (set(m.by("calls_total", "namespace", command="k-pod")), set(m.by("calls_total", "pod", command="k-pod"))) == ({"llm"},
                                                                                                                          {"trainer-0"})
    assert [set(m.by("calls_total", "container", command="k-" + kind)) for kind in ("container", "cgroup")] == [{container}, {""}]
    d.stop()
    calls = [e for e in d.lines() if "symbol" in e]
    assert {(e["namespace"], e["pod"], e["container"]) for e in calls if e["comm"] == "k-pod"} == {("llm", "trainer-0", container)}
    assert not any("container" in e or "pod" in e for e in calls if e["comm"] == "k-cgroup")
    assert (root / made["others"]).exists()


def test_other_programs(private, monkeypatch):  # noqa: F811
    """Each has its own calls: a program started by another (fork and exec), one that becomes another, one with a reused process id."""
    d = private.daemon("others", "metrics.memory=false")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(private.lib))
    programs = {name: shutil.copy(FAKE + "/sample", private.folder / name) for name in ("behind", "becomes", "second")}
    counts = {name: {**os.environ, "FAKE_CUDA_COUNTS": str(private.folder / ("counts." + name))} for name in programs}
    behind = programs["behind"]
    for args in [behind, "--quiet", "--tokens", "1"], *(["sh", "-c", f'"{behind}" --quiet --tokens {i} --layers 8'] for i in (1, 2, 3)):
        subprocess.run(["timeout", "30", *args], env=counts["behind"], stdout=subprocess.DEVNULL, check=True)
    as_the_driver(d, "metrics", "behind")

    monkeypatch.setenv("FAKE_CUDA_COUNTS", counts["becomes"]["FAKE_CUDA_COUNTS"])
    was = d.worker("was")
    monkeypatch.delenv("FAKE_CUDA_COUNTS")
    assert was.tell("alloc 20") == 20
    was.p.stdin.write(f"exec {programs['becomes']}\n")
    was.p.communicate(timeout=60)
    d.until(lambda m: allocations(m, "w-was") == (20, 20) and m.total("launches_total", command="w-was") == 0)
    as_the_driver(d, "metrics", "becomes")

    # Process ids are assigned in turn: the next one is ours unless another process takes it.
    same = 0
    for _ in range(6):
        first = d.worker("first")
        assert first.tell("alloc 10") == 10 and first.end() == 0
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
        p = subprocess.Popen([programs["second"], "--quiet"], env=counts["second"], stdout=subprocess.DEVNULL)
        assert p.wait(60) == 0
        same += p.pid == first.pid
    assert same
    d.until(lambda m: allocations(m, "w-first") == (60, 60))
    as_the_driver(d, "metrics", "second")
    d.stop()
