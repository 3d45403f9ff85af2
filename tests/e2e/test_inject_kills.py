# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1800
# takes: 30 150
"""SIGKILL of the tracer or of the program at any moment of a trace by --probe=inject. The program's results must stay correct, and all
committed records must be in the trace."""
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, FAKE, INSIDE, TESTS, Ran, inside, passes

SEED = int(os.environ.get("FAULTS_SEED", "0")) or random.randrange(1 << 30)
runs = pytest.mark.parametrize("cnt", [10, pytest.param(40, marks=pytest.mark.long)])
SAMPLE = [FAKE + "/sample", "--tokens", "40", "--counts", "--threads", "2"]


def begin(folder, *args, command=SAMPLE):
    """Starts the tracer as leader of a process group."""
    env = {**os.environ, "LD_LIBRARY_PATH": FAKE, "FAKE_CUDA_COUNTS": f"{folder}/counts"}
    with open(f"{folder}/out", "w", encoding="utf-8") as out, open(f"{folder}/err", "w", encoding="utf-8") as err:
        return subprocess.Popen([CUDATRACE, "-q", "--probe=inject", *args, "--jsonl", f"{folder}/trace", "--", *command],
                                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, start_new_session=True)


def text(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except OSError:
        return ""


def complaints(folder):
    """The tracer's messages, except those that a busy machine causes, or another suite that blocks the machine's probes."""
    busy = r"cannot read \S+ of process \d+: left out|cannot attach \d+ probes? while the kernel waits"
    return [line for line in text(f"{folder}/err").splitlines() if not re.search(busy, line)]


def moment(folder, i):
    """Waits for a random moment: in one of four runs perhaps before the first call, otherwise while calls are made."""
    end = time.monotonic() + 60
    while i % 4 and '"symbol"' not in text(f"{folder}/trace") and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(random.random() * (0.05 if i % 4 == 0 else 0.15))


def without_times(said):
    return re.sub(r"^[\d.]+ ms a token$", "", said, flags=re.M)


@pytest.fixture(scope="module")
def untraced():
    ran = Ran(SAMPLE, env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    return ran.out


def results(said):
    """The output without times and the counts of polling calls, which depend on them."""
    return [line for line in without_times(said).splitlines() if not re.match(r"cu(StreamQuery|EventQuery|EventSynchronize) ", line)]


@runs
def test_the_tracer_is_killed(tmp_path, untraced, cnt):
    """The program must print the same as untraced, and end with 0."""
    random.seed(SEED)
    when = {"before its end": 0, "after": 0}
    for i in range(cnt):
        folder = tmp_path / str(i)
        folder.mkdir()
        # The shell in between records the program's status.
        tracer = begin(folder, command=["sh", "-c", '"$@"; echo "status $?" >"$0"', f"{folder}/status", *SAMPLE])
        moment(folder, i)
        begun = '"symbol"' in text(folder / "trace")
        tracer.kill()
        killed = tracer.wait() < 0
        when["before its end" if killed else "after"] += 1
        end = time.monotonic() + 60
        # A tracer that had not yet resumed the command takes it along.
        while begun and not text(folder / "status") and time.monotonic() < end:
            time.sleep(0.01)
        if begun or text(folder / "status"):
            assert text(folder / "status") == "status 0\n" and not complaints(folder), (SEED, i)
            assert results(text(folder / "out")) == results(untraced), (SEED, i)
        for line in text(folder / "trace").splitlines()[:-1]:
            json.loads(line)
    assert when["before its end"] > cnt / 4, when


def programs_of(tracer, name):
    return [int(pid) for pid in Ran(["pgrep", "-P", str(tracer.pid), "-x", name]).out.split()]


def kill_program(folder, i, name, *args, command):
    """Kills the program at a random moment and returns the trace."""
    folder = folder / str(i)
    folder.mkdir()
    tracer = begin(folder, *args, command=command)
    moment(folder, i)
    # Repeated while it lives: it may not have been that program yet.
    end = time.monotonic() + 60
    while tracer.poll() is None and time.monotonic() < end:
        for pid in programs_of(tracer, name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    status = tracer.returncode
    assert status in (0, 128 + signal.SIGKILL) and not complaints(folder), (SEED, i, status, complaints(folder))
    t = Trace(folder / "trace")
    assert t.accounts(drops=name == "tally") and t.end["reason"] == "command exited", (SEED, i)
    return t


@runs
def test_the_program_is_killed(tmp_path, cnt):
    """Every entry must be a call that returned, was abandoned, or was in flight."""
    random.seed(SEED + 1)
    for i in range(cnt):
        t = kill_program(tmp_path, i, "sample", command=SAMPLE)
        if i % 10 == 9:  # takes as long as all the rest
            passes("golden/schema_check.py", tmp_path / str(i) / "trace")
        # A thread may have a call in flight, and calls inside it, but none after it.
        last = {}
        for c in t.calls:
            if c.get("unfinished"):
                last[c["tid"]] = min(last.get(c["tid"], c["ts"]), c["ts"])
        assert not [c for c in t.calls if c["ts"] > last.get(c["tid"], c["ts"]) and "parent" not in c], (SEED, i)


@pytest.fixture(scope="module")
def tally():
    path = os.environ["TMP"] + "/tally"
    subprocess.run([*os.environ.get("CC", "gcc").split(), "-O1", "-o", path, TESTS + "/inject/tally.c", "-ldl", "-lpthread"], check=True)
    return path


@runs
@pytest.mark.parametrize("way", ["recorded", "counted"])
def test_what_had_returned_is_there(tmp_path, tally, way, cnt):
    """The trace must agree with the program's own tally, except for at most one call of each thread that was not yet tallied."""
    random.seed(SEED + 2)
    option = "-e" if way == "recorded" else "--count"
    for i in range(cnt // 2):
        words = tmp_path / f"words{i}"
        t = kill_program(tmp_path, i if way == "recorded" else 4 * i, "tally", option, "cuDriverGetVersion", "--buffer-size", "64M", command=[tally, words, "2"])
        noted = [n for n, in struct.iter_unpack("Q", words.read_bytes()[:16])] if words.exists() and words.stat().st_size else [0, 0]
        if way == "recorded":
            seen = collections.Counter(c["tid"] for c in t.calls if "duration_us" in c)
            # A very busy machine does not read in time.
            lost = t.end["drops"]["calls"]
            assert 0 <= sum(seen.values()) + lost - sum(noted) <= 2, (SEED, i, seen, lost, noted)
            assert lost or all(0 <= a - b <= 1 for a, b in zip(sorted([*seen.values(), 0, 0], reverse=True), sorted(noted, reverse=True))), (SEED, i, seen, noted)
        else:
            seen = t.end.get("counted", {}).get("cuDriverGetVersion", {"calls": 0})["calls"]
            assert 0 <= seen - sum(noted) <= 2, (SEED, i, seen, noted)


@pytest.fixture(scope="module")
def step():
    if INSIDE and not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    path = os.environ["TMP"] + "/step"
    subprocess.run([*os.environ.get("CC", "gcc").split(), "-O1", "-Wall", "-o", path, TESTS + "/inject/step.c", "-ldl"], check=True)
    return path


EVERY = 23


def each_instruction(saw, each):
    """The set of saw(n) for every EVERY-th instruction n of a call, until saw returns None. With EACH, also all instructions between two
    with different results, where a write happens."""
    found = {}
    for n in range(random.randrange(EVERY), 5000, EVERY):
        found[n] = saw(n)
        if not found[n]:
            break
    some = list(found)
    for a, b in zip(some, some[1:]) if each else ():
        if found[b] and found[a] != found[b]:
            found.update((n, saw(n)) for n in range(a + 1, b))
    return set(filter(None, found.values()))


# With EACH, states are found that last an instruction or two: for example, a dropped call is counted in two places.
instructions = pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.long)])


@pytest.mark.parametrize("way", ["recorded", "counted", "filtered", "dropped"])
@instructions
def test_killed_at_any_instruction_of_a_call(tmp_path, step, way, each):
    """Killed at any instruction, every entry must be one call: not begun, in flight, recorded or counted but not returned, or returned."""
    options = {"recorded": ["-e"], "counted": ["--count"], "filtered": ["--min-duration", "10s", "-e"],
               "dropped": ["--buffer-size", "1M", "-e"]}[way]
    # More than a ring of 128 KiB can hold.
    fill = 3000 if way == "dropped" else 0
    random.seed(SEED + 3)

    def saw(n):
        words, path = tmp_path / f"words{n}", tmp_path / f"trace{n}"
        ran = inside("-q", *options, "cuDriverGetVersion", "--jsonl", path, "--", step, words, n, 0, fill, env={"LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"})
        assert ran.status == 0 and ran.silent() and ran.out in ("killed\n", "over\n"), (n, ran)
        t, (noted,) = Trace(path), struct.unpack("Q", words.read_bytes()[:8])
        counted = t.end.get("counted", {}).get("cuDriverGetVersion", {})
        seen = sum("duration_us" in c for c in t.calls) + counted.get("calls", 0) + t.end["filtered"] + t.end["drops"]["calls"] - fill
        flying = sum("unfinished" in c for c in t.calls) + counted.get("unfinished", 0)
        assert t.accounts(drops=way in ("filtered", "dropped")) and (t.end["drops"]["calls"] > 100) == bool(fill) and noted <= seen <= noted + 1 and noted <= seen + flying <= 4, (n, noted, seen, flying, t.end)
        return (seen, flying) if ran.out == "killed\n" else None
    # Not yet begun; in flight; returned.
    assert each_instruction(saw, each) == {(3, 0), (3, 1), (4, 0)}


@pytest.mark.parametrize("way", ["recorded", "counted"])
@instructions
def test_left_at_any_instruction_of_a_call(tmp_path, step, way, each):
    """Left at any instruction by a signal handler's longjmp(), each entry must be a call that returned or was abandoned, not both."""
    random.seed(SEED + 4)
    option = "-e" if way == "recorded" else "--count"

    def saw(n):
        words, path = tmp_path / f"words{n}", tmp_path / f"trace{n}"
        ran = inside("-q", option, "cuDriverGetVersion", "--jsonl", path, "--", step, words, n, int(signal.SIGUSR1), env={"LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"})
        assert ran.status == 0 and ran.silent() and ran.out in ("killed\n", "over\n"), (n, ran)
        t, (noted,) = Trace(path), struct.unpack("Q", words.read_bytes()[:8])
        counted = t.end.get("counted", {}).get("cuDriverGetVersion", {})
        seen = sum("duration_us" in c for c in t.calls) + counted.get("calls", 0)
        assert t.accounts() and noted < seen <= noted + 2 and seen + t.end["abandoned"] <= 5, (n, noted, seen, t.end)
        return (seen, t.end["abandoned"]) if ran.out == "killed\n" else None
    # Not yet begun; in flight; returned.
    assert each_instruction(saw, each) == {(4, 0), (4, 1), (5, 0)}
