# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# alone
# takes: 8
"""Each failure of tests/failures.c, by each way to trace it: in-process and by uprobes, from the start and attached late, as root and as a user. The
verdict must name the right kernel first and the function that launched it, and be certain only where nothing else can be the cause. One trace of each
way has all failures; all ways run at the same time."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest
from helpers.daemon import NOBODY
from helpers.live import compiled
from helpers.nvfuse import BY_NAME
from helpers.run import CUDATRACE, FAKE, INSIDE, O, TESTS, cudatrace, until
from helpers.tracing import why_not

sys.path.insert(0, TESTS + "/oracle")
import oracle  # noqa: E402

BAD, OTHER = "bad(float*, unsigned int)", "healthy(float*, unsigned int)"
# Kind; words of the verdict; the state of the memory if the driver's message is in the trace; the link of a parameter with and without that message.
CASES = {
    "use_after_free": ("fault", "accessed an address that is not valid", "freed", ("block", "freed")),
    "past_end_4_bytes": ("fault", "accessed an address that is not valid", "past-end", ("block", None)),
    "past_end_1_gib": ("fault", "accessed an address that is not valid", "past-end", (None, None)),
    "null_pointer": ("fault", "accessed an address that is not valid", "null", ("null", "null")),
    "misaligned": ("fault", "accessed an address that is not aligned", None, (None, None)),
    "peer": ("fault", "accessed an address that is not valid", "live", ("block", None)),
    "stack_overflow": ("fault", "exceeded its call stack", None, (None, None)),
    "traps": ("fault", "failed", None, (None, None)),
    "asserts": ("fault", "failed an assertion", None, (None, None)),
    "endless": ("hang", "cuCtxSynchronize has not returned", None, (None, None)),
    "host_flag": ("hang", "cuCtxSynchronize has not returned", None, (None, None)),
    "never_recorded": ("hang", "which the trace has no record of", None, (None, None)),
    "others_hold": ("out-of-memory", "NVML showed 700 MiB in other processes", None, (None, None)),
    "fragments": ("out-of-memory", "cuMemAlloc requested 1.00 TiB", None, (None, None)),
    "alone_traps": ("fault", BAD, None, (None, None)),
    "alone_endless": ("hang", BAD, None, (None, None)),
}
# A return address that the kernel has replaced for a tracer of another test: the library does not see the caller of the function.
UPROBES = "0x7fffffff"
PROGRAMS = [*CASES, "none"]
HANGS = [x for x, row in CASES.items() if row[0] == "hang"]
# Options; whether the trace begins late; with the driver's message, with parameters, with PyTorch's allocator; the user.
WAYS = {
    "uprobes": (["--probe=uprobe", "--kernel", "--torch"], False, True, False, True, ()),
    "in-process": (["--probe=inject"], False, False, True, False, INSIDE),
    "in-process, log": (["--probe=inject", "--kernel"], False, True, True, False, ()),
    "in-process, frames": (["--kernel-args", "--torch"], False, False, True, True, ()),
    "user": ([], False, False, True, False, NOBODY),
    "late": (["--probe=uprobe", "--kernel", "--torch"], True, True, False, True, ()),
    "late in-process": (["--probe=inject"], True, False, True, False, ()),
}


class Way:
    """A tracer of this way, and the programs; files are in the folder."""

    def __init__(self, folder, name):
        self.options, self.late, self.has_log, self.has_params, self.has_torch, self.user = WAYS[name]
        self.folder, self.trace, self.go = folder, f"{folder}/t.jsonl", f"{folder}/go"
        os.makedirs(folder)
        os.chmod(folder, 0o777)
        # Probes of one way must not be in the functions of another.
        shutil.copy(FAKE + "/libcuda.so.1", folder)
        self.programs = [f"{folder}/../failures"]
        self.env = {**os.environ, **BY_NAME, "LD_LIBRARY_PATH": f"{folder}:{O}/fakenvml", "FAKE_NVML": f"pidfile={folder}/pids", "PLANT_PIDS": f"{folder}/pids",
                    "PLANT_C10": f"{folder}/../libc10.so", **({"PLANT_LOG": "/dev/kmsg"} if self.has_log else {})}
        self.said = {x: open(f"{folder}/{x}", "wb") for x in ("out", "err")}
        self.all = []

    def run(self, *args):
        self.all.append(subprocess.Popen([*self.user, *args], env=self.env, stdin=subprocess.DEVNULL, stdout=self.said["out"], stderr=self.said["err"]))
        return self.all[-1]

    def tracer(self, *args):
        return self.run(f"{self.folder}/../cudatrace", "-q", "--stack", "--hang-after=1s", "--gpu-stats=100", *self.options, "--jsonl", self.trace, *args)

    def text(self, name):
        with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as f:
            return f.read()

    def pids(self):
        return dict(x.split() for x in self.text("out").splitlines() if not x.startswith("done"))

    def done(self):
        return {x.split()[1] for x in self.text("out").splitlines() if x.startswith("done")}

    def start(self):
        if self.late:
            for x in PROGRAMS:
                self.run(*self.programs, x, self.go)
        else:
            self.p = self.tracer("--", "sh", "-c", f'for x in {" ".join(PROGRAMS)}; do {self.programs[0]} "$x" & done; wait')

    def attach(self):
        until(lambda: len(self.pids()) == len(PROGRAMS), 10)
        self.p = self.tracer("-p", ",".join(self.pids().values()))

    def is_attached(self):
        """Each process has its line; the library may be mapped some time before it records."""
        text = self.text("t.jsonl") if os.path.exists(self.trace) else ""
        return text and (self.options[0] != "--probe=inject" or text.count('"op":"attached"') == len(PROGRAMS))

    def hanging(self):
        return {int(x) for x in re.findall(r"process (\d+) .* has not returned for", self.text("err"))}

    def end(self):
        """Kills the programs, once the tracer has reported what hangs."""
        until(lambda: len(self.done()) == len(CASES) - len(HANGS) and {int(self.pids()[x]) for x in HANGS} <= self.hanging(), 4)
        for name, pid in self.pids().items():
            if name != "none":
                os.kill(int(pid), signal.SIGKILL)
        assert self.p.wait(60) == 0, self.text("err")
        ran = cudatrace("report", "-q", "--json", self.trace)
        assert ran.status == 0, ran
        self.report = json.loads(ran.out)

    def clean(self):
        for p in self.all:
            if p.poll() is None:
                p.kill()
            p.wait()
        for f in self.said.values():
            f.close()


@pytest.fixture(scope="module")
def ways():
    folder, made = os.environ["TMP"] + "/planted", {}
    os.makedirs(folder)
    for path in (os.environ["TMP"], folder):
        os.chmod(path, 0o755)
    shutil.copy(CUDATRACE, folder)
    compiled(f"{folder}/failures", "-fno-omit-frame-pointer", f"-I{TESTS}", f"{TESTS}/failures.c")
    compiled(f"{folder}/libc10.so", "-shared", "-fPIC", "-DC10", f"{TESTS}/failures.c")
    for name in WAYS:
        if name == "in-process" or (not why_not() and not os.geteuid()):
            made[name] = Way(f"{folder}/{re.sub('[ ,]+', '-', name)}", name)
    try:
        for way in made.values():
            way.start()
        for way in made.values():
            if way.late:
                way.attach()
        for way in made.values():
            if way.late:
                until(way.is_attached, 10)
                open(way.go, "w", encoding="utf-8").close()
        for way in made.values():
            way.end()
        yield made
    finally:
        for way in made.values():
            way.clean()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_verdict(ways, way, name):
    w = ways.get(way) or pytest.skip(why_not() or "needs root")
    kind, words, state, links = CASES[name]
    pid = int(w.pids()[name])
    [case] = [c for c in w.report["failure"] if c.get("pid") == pid]
    verdict = case["verdict"]
    assert case["kind"] == kind and words in verdict, case
    # Only what is alone, in a trace of all that the process did, is certain.
    assert case["certain"] == (name.startswith("alone") and not w.late), verdict
    # Attached late, the process's blocks are not known.
    assert case.get("memory", {}).get("state") == (state if w.has_log and (not w.late or state == "null") else None), case
    if kind == "out-of-memory":
        assert w.late or re.search("cuMemAlloc in (allocates|main)", verdict), verdict
        assert name != "fragments" or not w.has_torch or "PyTorch's allocator held 128 MiB and used 64.0 MiB of it" in verdict, verdict
        assert case.get("torch_hole") == (8 << 20 if name == "fragments" and w.has_torch else None), case
        return
    if name == "never_recorded":
        return
    first = case["suspects"][0]
    assert first["kernel"] == BAD and OTHER not in verdict.split(BAD)[0], verdict
    place = "main" if first["stack"][0].startswith(UPROBES) else "launches_bad"
    assert first["place"] == place and f"launched by {place}" in verdict, verdict
    link = links[0 if w.has_log else 1] if w.has_params and (not w.late or state in ("null", "freed")) else None
    assert first.get("link") == link, first


@pytest.mark.parametrize("way", WAYS)
def test_whole(ways, way):
    """Nothing else has failed, the lines agree with the report, and no process ends before its calls."""
    w = ways.get(way) or pytest.skip(why_not() or "needs root")
    assert len(w.report["failure"]) == len(CASES)
    lines = oracle.read(w.trace)
    assert not [x for x in oracle.check(lines, w.report) if x.startswith("failure")]
    ended = {x["pid"]: x["ts"] for x in lines if x["type"] == "process" and x["op"] == "exit"}
    assert ended and not [x for x in lines if "symbol" in x and x["ts"] + x.get("duration_us", 0) / 1e3 > ended.get(x["pid"], x["ts"] + 1e9)]
