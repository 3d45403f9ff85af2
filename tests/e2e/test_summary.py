# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 15
"""The summary at the end of a trace must have at most 25 lines, and losses first. Its numbers must equal those counted from the lines
of the trace."""
import collections
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from helpers.outputs import DEFAULT, ENV
from helpers.run import CASES, CUDATRACE, FAKE, Ran, cudatrace, needs_tracing, until
from helpers.jsonl import Trace

LINES = 25
SAMPLE = [FAKE + "/sample", "--tokens", "20", "--layers", "4", "--quiet"]
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
TIME = r"([\d.]+) (ns|µs|ms|s)"
HARMLESS = "CUDA_ERROR_DEINITIALIZED"
# Prints less than the summary.
SMALL = 'mkdir -p "$1" && mount -t tmpfs -o size=64k none "$1" || exit 99; shift; "$@"'


@pytest.fixture(autouse=True, scope="module")
def root():
    needs_tracing()


@pytest.fixture(scope="module", name="classes")
def classes_of_functions():
    return {f["symbol"]: f["class"] for f in json.loads(cudatrace("list", "--json").out)}


def number(text):
    return int(text.replace(",", ""))


def ns(match):
    return float(match[0]) * UNITS[match[1]]


def near(a, b):
    """Equal to the three digits that are shown."""
    return a == pytest.approx(b, rel=0.006, abs=1)


class Said:
    """A parsed summary. It must fit its limits of lines and columns."""

    def __init__(self, text, width=120):
        self.text = text[text.index("\n\n") + 1 if text.startswith("cudatrace: ") else 0:]
        self.lines = self.text.strip("\n").split("\n")
        assert len(self.text.rstrip("\n").split("\n")) <= LINES, self.text
        assert all(len(line) <= width or "/" in line for line in self.lines), self.text
        head = re.search(r"^(?:.*: )?" + TIME + r", ([\d,]+) CUDA calls?(.*)$", self.text, re.M)
        self.calls = number(head[3])
        rest = " ".join(self.text[head.start():].split("\nLeft out")[0].split())
        self.failed = number((re.search(r", ([\d,]+) failed", rest) or [0, "0"])[1])
        self.complete = ", complete" in rest
        assert self.complete != (", INCOMPLETE" in rest)
        whole = re.search(r"^Host time in CUDA: " + TIME + r"(?:, ([\d.]+) %)?", self.text, re.M)
        self.whole = ns(whole.groups()) if whole else 0
        self.parts = {m[3]: (ns(m[:2]), float(m[2])) for m in re.findall(r"^ +" + TIME + r" +([\d.]+) %\*? +([a-z]+)  ", self.text, re.M)}
        self.errors = re.findall(r"^ERROR      (\w+).* at .*: (\w+)", self.text, re.M)
        assert all(float(x) <= 100 for x in re.findall(r"([\d.]+) %", self.text)), self.text
        assert not re.search(r"\b_Z", self.text)
        assert self.text.count("%*") == (0 if self.complete else self.text.count("%")), self.text


def top(calls):
    """Driver calls that returned and are not nested."""
    by = {c["id"]: c for c in calls}

    def within(c):
        while "parent" in c and c["parent"] in by:
            c = by[c["parent"]]
            if c["symbol"].startswith("cu"):
                return True
        return False

    return [c for c in calls if c["symbol"].startswith("cu") and "duration_us" in c and not c.get("unfinished") and not c.get("abandoned") and not within(c)]


def agree(said, t, classes):
    """Compares a summary with the lines of its trace."""
    made = top(t.calls)
    time = collections.Counter()
    for c in made:
        time[classes.get(c["symbol"], "other")] += c["duration_us"] * 1e3
    assert said.calls == len(t.calls)
    assert said.failed == sum("error" in c for c in t.calls)
    if not made:
        assert not said.whole and not said.parts
        return
    assert near(said.whole, sum(time.values())), (said.text, time)
    assert sum(part for part, _ in said.parts.values()) == pytest.approx(said.whole, rel=0.01)
    assert sum(share for _, share in said.parts.values()) == pytest.approx(100, abs=0.1 * len(said.parts))
    for name, (part, share) in said.parts.items():
        if name != "rest":
            assert near(part, time[name]) and share == pytest.approx(100 * time[name] / sum(time.values()), abs=0.06), (name, said.text)
    if "rest" in said.parts:
        assert said.parts["rest"][0] == pytest.approx(sum(v for k, v in time.items() if k not in said.parts), rel=0.006, abs=20)
    shown = {(c["name"], c["error"]) for c in made if "error" in c and c["op"] not in ("query", "lookup") and c["error"] != HARMLESS}
    assert set(said.errors) <= shown and bool(said.errors) == bool(shown), said.text
    launches = [c for c in t.calls if c["type"] == "kernel" and c["op"] == "launch" and not c.get("capturing") and "error" not in c]
    if launches:
        assert f"\nLaunched   {len(launches):,} kernel" in said.text


def kept(calls):
    """Addresses allocated and not freed, by process"""
    live = set()
    for c in sorted(calls, key=lambda c: c["ts"]):
        if c["type"] == "memory" and "ptr" in c and "error" not in c:
            (live.discard if "free" in c["op"] else live.add)((c["pid"], c["ptr"]))
    return live


COMMANDS = {
    "sample": SAMPLE, "errors": [CASES + "/faults"], "bad_free": [CASES + "/mem_bad_free"], "leak": [CASES + "/mem_leak"],
    "threads": [CASES + "/threads"], "processes": [CASES + "/mem_procs"], "nested": [CASES + "/nested"], "longjmp": [CASES + "/longjmp"],
    "nothing": ["true"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_agrees(tmp_path, classes, name):
    """Without a terminal, the summary must have at most 120 columns and agree with the lines."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace("-q", "--summary", "-e", DEFAULT, "--jsonl", path, "--chrome", tmp_path / "a.json", "--", *COMMANDS[name], env=ENV)
    said, t = Said(ran.err), Trace(path)
    agree(said, t, classes)
    assert said.complete and f"\nNext       cudatrace report {path}" in said.text and f"\nTrace      {path} (" in said.text
    assert ("never freed" in said.text) == bool(kept(t.calls))
    # The JSON and all tables have the same numbers.
    ran = cudatrace("-q", "--summary=full", "-e", DEFAULT, "--jsonl", path, "--", *COMMANDS[name], env=ENV)
    assert re.search(rf"^Summary: {Trace(path).end['calls']:,} CUDA calls? in ", ran.err, re.M)


def on_terminal(columns, path, *command):
    line = f"stty cols {columns}; {shlex.quote(CUDATRACE)} -e '{DEFAULT}' --jsonl {path} -- {' '.join(command)}"
    said = subprocess.run(["script", "-qec", line, "/dev/null"], env={**os.environ, **ENV, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          check=True).stdout.decode()
    return said.replace("\r", "")


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_on_a_terminal(tmp_path, classes, columns):
    if not shutil.which("script"):
        pytest.skip("needs script(1)")
    path = tmp_path / "a.jsonl"
    text = on_terminal(columns, path, *SAMPLE)
    said = Said(text[text.index("\nsample "):], columns)
    agree(said, Trace(path), classes)
    assert "CUDA_ERROR_OUT_OF_MEMORY (1.00 PiB requested)" in said.text
    assert any(len(line) > 100 for line in said.lines) == (columns > 100)


def test_losses_first(tmp_path, classes):
    """With a stopped tracer and a full ring, the summary must show losses first."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace("--summary", "-e", "cuMemFree_v2", "--probe=uprobe", "--buffer-size", "64K", "--jsonl", path, "--", "sh", "-c",
                    f"kill -STOP $PPID; {CASES}/many cuMemFree_v2 20000 1; kill -CONT $PPID", env={**ENV, "FAKE_NO_SEM": "1"})
    said, t = Said(ran.err), Trace(path)
    agree(said, t, classes)
    lost = 20000 - len(t.calls)
    assert not said.complete and said.lines[0].startswith("INCOMPLETE: ")
    assert re.match(rf"  {lost:,} CUDA calls: the ring buffer was full. To avoid it: ", said.lines[1])


def test_full_disk(tmp_path):
    """On a full disk, the summary must count the lines that are not in the file."""
    ran = Ran(["unshare", "-m", "sh", "-c", SMALL, "sh", tmp_path / "small", CUDATRACE, "-q", "-e", DEFAULT, "--summary", "--jsonl", tmp_path / "small/a.jsonl", "--", *SAMPLE],
              env=ENV)
    assert ran.status == 1
    said = Said(ran.err[ran.err.index("\nINCOMPLETE: "):])
    assert not said.complete and said.lines[0].startswith("INCOMPLETE: ") and " lines of the output: No space left on device. To avoid it: free space on the disk" in " ".join(said.lines[1:3])


def test_unfinished(tmp_path, classes):
    """A call unfinished at the end must be shown as a failure, and be in no sum."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace("-q", "--summary", "--jsonl", path, "--duration", "1", "--", *SAMPLE, env={**ENV, "FAKE_DELAY_US": "cuMemcpyHtoD_v2:3000000"})
    said, t = Said(ran.err), Trace(path)
    assert sum(bool(c.get("unfinished")) for c in t.calls) == 1
    agree(said, t, classes)
    assert re.search(r"^UNFINISHED 1 call had not returned: cuMemcpyHtoD after ", said.text, re.M)


def test_many_threads_share(tmp_path, classes):
    """Threads that wait at the same time must not exceed 100 % of all their time."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace("-q", "--summary", "-e", DEFAULT, "--jsonl", path, "--", FAKE + "/sample", "--threads", "6", "--tokens", "20", "--quiet",
                    env={**ENV, "FAKE_DELAY_US": "cuStreamSynchronize:20000"})
    said, t = Said(ran.err), Trace(path)
    agree(said, t, classes)
    made = top(t.calls)
    threads = {(c["pid"], c["tid"]) for c in made}
    shares = re.findall(rf"([\d.]+) % of the time of {len(threads)} threads", " ".join(said.text.split()))
    assert len(threads) > 4 and len(shares) == 2
    wall = t.end["ts"] * 1e6
    assert float(shares[0]) == pytest.approx(100 * sum(c["duration_us"] for c in made) * 1e3 / wall / len(threads), rel=0.03)


def test_counted(tmp_path):
    """With --count there are no lines to sum: the summary must show the counts."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace("-q", "--summary", "--count", "*", "--jsonl", path, "--", *SAMPLE, env=ENV)
    said, end = Said(ran.err), Trace(path).end
    made = sum(f["calls"] for f in end["counted"].values())
    assert said.calls == 0 and f"Counted    {made:,} calls, not in the rows above: " in said.text and "1 failed" in said.text


def test_left_out(tmp_path):
    """Without durations there must be no conclusion about time."""
    said = cudatrace("-q", "--summary", "--entry-only", "all", "--jsonl", tmp_path / "a.jsonl", "--", *SAMPLE, env=ENV).err
    assert re.search(r"^Verdict    Not known: durations were not recorded \(--entry-only\)", said, re.M) and "Start-up" not in said, said


def test_verdict(tmp_path):
    """The verdict's limit must be the report's, or not known; with GPU times, too."""
    path, cupti = tmp_path / "a.jsonl", os.path.join(os.path.dirname(FAKE), "cupti/libcupti.so.13")
    for more in [], ["--gpu-time", "--cupti", cupti]:
        said = Said(cudatrace("-q", "--summary", "--jsonl", path, *more, "--", *SAMPLE, env=ENV).err).text
        claim = re.search(r"^Verdict    (.*?):", said, re.M)[1]
        report = json.loads(cudatrace("report", "-q", "--json", path).out)["verdict"]["sentence"]
        assert claim == "Not known" or claim in report, (claim, report)


@pytest.mark.parametrize("option,lines", [("--no-summary", 0), ("-q", 0), ("--no-follow", 1)])
def test_one_line(tmp_path, option, lines):
    """Without a terminal, stderr must get one line."""
    path = tmp_path / "a.jsonl"
    ran = cudatrace(option, "--jsonl", path, "--chrome", tmp_path / "a.json", "--", *SAMPLE, env=ENV)
    assert ran.err.count(" CUDA calls in ") == lines
    if lines:
        assert re.search(rf"^cudatrace: {Trace(path).end['calls']:,} CUDA calls in {TIME}, complete: {path}, {tmp_path}/a.json$", ran.err, re.M)


def test_one_line_of_a_loss(tmp_path, running):
    """If another program removes the output of an attached trace, the line must contain INCOMPLETE."""
    path = tmp_path / "a.jsonl"
    p = running.start(*["env", "FAKE_DELAY_US=cuStreamSynchronize:10000", FAKE + "/sample", "--tokens", "1000000", "--quiet"], env={**os.environ, **ENV})
    with open(tmp_path / "err", "wb") as err:
        t = running.start(CUDATRACE, "--jsonl", path, "-p", p.pid, stderr=err)
    until(lambda: path.exists() and path.stat().st_size > 10000)
    path.unlink()
    assert t.wait(60) == 1
    said = (tmp_path / "err").read_text()
    assert re.search(rf"^cudatrace: [\d,]+ CUDA calls in {TIME}, INCOMPLETE: {path}$", said, re.M), said
