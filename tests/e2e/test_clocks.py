# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 40
"""Traces of several machines in one report: their clocks are compared by the collectives of their ranks. Real traces of ranks get clocks
with known differences, and simulated jobs a late rank, a slow machine and a shifted container."""
import json
import os
import random
import re
import subprocess
import sys
import time

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import machines  # noqa: E402
from machines import Clock, Fleet, shifted  # noqa: E402

MS = 10**6
KEPT = '"type":"(header|end|process|job|collective|kernel|gpu|sync|event|stream)"'


def report(*paths, form="json", options=()):
    ran = subprocess.run([os.environ["CUDATRACE"], "report", "-q", f"--format={form}", *options, *map(str, paths)], check=True, stdout=subprocess.PIPE)
    return json.loads(ran.stdout) if form == "json" else " ".join(ran.stdout.decode().split())


def finding(said, name):
    return [x for x in said["findings"] if x["id"] == name]


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(lines)
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Lines of a real trace, the processes of its last ranks, which are moved to a second machine, and the late rank that its report finds."""
    made, folder = {}, tmp_path_factory.mktemp("whole")

    def get(name):
        if name not in made:
            lines = subprocess.run(["zstdcat", f"{TESTS}/corpus/{name}.jsonl.zst"], check=True, stdout=subprocess.PIPE).stdout.decode().splitlines(keepends=True)
            lines = [x for x in lines if re.search(KEPT, x[:80])]
            pids = {}
            for e in (json.loads(x) for x in lines if '"communicator"' in x):
                if e["nranks"] == int(name[-1]):
                    pids[e["pid"]] = e["rank"]
            late, = finding(report(write(folder / "whole.jsonl", lines)), "late-rank")
            made[name] = lines, {p for p, r in pids.items() if r >= len(pids) / 2}, late["text"].split(", at most")[0]
        return made[name]
    return get


def split(tmp_path, ranks, clock, drop=lambda line: False):
    lines, second, _ = ranks
    lines = [x for x in lines if not drop(x)]
    first = Clock(base=5 * 10**15, host="node0")
    return [write(tmp_path / "a.jsonl", shifted(lines, first, lambda p: p not in second)), write(tmp_path / "b.jsonl", shifted(lines, clock, lambda p: p in second))]


def true_offset(clock, at):
    """How far the second machine's wall clock is ahead at a true time."""
    return clock.wall + clock(at) - at


@pytest.mark.parametrize("wall, drift", [(0, 0), (50 * MS, 50), (-50 * MS, -50), (12_345_678, -17)])
@pytest.mark.parametrize("name", ["ranks-2", "ranks-4"])
def test_real_ranks(tmp_path, ranks, name, wall, drift):
    """A known difference and drift is found again, within the error that the report states; late ranks are those of the whole trace."""
    clock = Clock(base=9 * 10**14, wall=wall, drift=drift, host="node1")
    a, b = split(tmp_path, ranks(name), clock)
    said = report(a, b)
    of = {x["host"]: x for x in said["traces"]}
    moved, = [x for x in of.values() if x["clock"] == "collectives"]
    sign = 1 if moved["host"] == "node1" else -1
    assert moved["clock_steps"] == 0 and moved["clock_collectives"] > 100 and of["node0" if sign > 0 else "node1"]["clock_error_ns"] == 0
    # When the clocks were compared first, by the independent computation.
    spans = machines.overlap(open(a, encoding="utf-8"), open(b, encoding="utf-8"))
    first = min(x[0] for x in spans)
    at = first / (1 + drift / 1e6)
    error = abs(sign * moved["clock_ahead_ns"] - true_offset(clock, at))
    assert error <= moved["clock_error_ns"] and error < 20_000
    assert moved["clock_ppm"] == pytest.approx(sign * drift, abs=5)
    # No collective contradicts it, in the raw lines.
    for t, low, high in spans:
        ahead = sign * moved["clock_ahead_ns"] - wall + sign * moved["clock_ppm"] * (t - first) / 1e6
        assert low - 2000 <= ahead <= high + 2000
    late, = finding(said, "late-rank")
    assert late["text"].split(", at most")[0] == ranks(name)[2]


def test_step(tmp_path, ranks):
    """A clock that jumps by 7 ms has two pieces; ranks are compared in both."""
    clock = Clock(base=9 * 10**14, wall=-3 * MS, drift=10, steps=[(13_900 * MS, 7 * MS)], host="node1")
    said = report(*split(tmp_path, ranks("ranks-4"), clock))
    moved, = [x for x in said["traces"] if x["clock"] == "collectives"]
    assert moved["clock_steps"] == 1 and moved["clock_error_ns"] < 300_000
    assert "Global rank 3 was late 10 times" in finding(said, "late-rank")[0]["text"]


def test_without_gpu_times(tmp_path, ranks):
    """Waits of the host for a collective limit its end: this is less exact, and says so."""
    clock = Clock(base=9 * 10**14, wall=20 * MS, drift=30, host="node1")
    a, b = split(tmp_path, ranks("ranks-4"), clock, lambda x: '"type":"gpu"' in x[:60])
    for path in (a, b):
        text = path.read_text().replace('"gpu_time":"graphs",', "", 1)
        path.write_text(text)
    moved, = [x for x in report(a, b)["traces"] if x["clock"] == "collectives"]
    sign = 1 if moved["host"] == "node1" else -1
    assert moved["clock_error_ns"] < 2 * MS
    assert abs(sign * moved["clock_ahead_ns"] - true_offset(clock, 13_500 * MS)) <= moved["clock_error_ns"] + 50_000


def test_wall_time(tmp_path, ranks):
    """Without collectives of both, wall clocks are used, and the report says that ranks are not compared."""
    clock = Clock(base=9 * 10**14, wall=20 * MS, host="node1")
    paths = split(tmp_path, ranks("ranks-4"), clock, lambda x: '"type":"collective"' in x[:60])
    said = report(*paths)
    assert sorted(x["clock"] for x in said["traces"]) == ["first", "wall"]
    assert "clock_error_ns" not in [x for x in said["traces"] if x["clock"] == "wall"][0]
    assert "its ranks are not compared with others" in report(*paths, form="ascii", options=["--full"])


def test_shifted_container(tmp_path):
    """Two containers of one boot: one has a clock that is 30 seconds ahead. Its traces are moved back, exactly as far. With the same clock
    and a wall clock that was set by 5 s, nothing is moved."""
    clocks = [Clock(base=10**15, host="c0", boot="boot"), Clock(base=10**15 + 30 * 10**9, host="c1", boot="boot")]
    said = report(*Fleet(ranks=2, machines=2, clocks=clocks, late=(1, 10, 5 * MS)).write(tmp_path))
    second, = [x for x in said["traces"] if x["host"] == "c1"]
    assert second["clock"] == "collectives" and second["clock_error_ns"] < 20_000
    assert second["first_ts"] == pytest.approx(0, abs=0.1)
    assert "was late 30 times" in finding(said, "late-rank")[0]["text"]
    clocks = [Clock(base=10**15, host="c0", boot="boot"), Clock(base=10**15, host="c1", boot="boot", wall=5 * 10**9)]
    said = report(*Fleet(ranks=2, machines=2, clocks=clocks, late=(1, 10, 5 * MS)).write(tmp_path))
    second, = [x for x in said["traces"] if x["host"] == "c1"]
    assert second["clock"] == "same" and second["first_ts"] == 0
    assert "was late 30 times" in finding(said, "late-rank")[0]["text"]


@pytest.mark.parametrize("gpu", [True, False])
def test_thousand(tmp_path, gpu):
    """1,000 collectives of four machines: each clock is off by at most 20 µs, and never by more than the report states."""
    fleet = Fleet(ranks=4, machines=4, steps=1000, gpu=gpu, late=(2, 50, 6 * MS))
    fleet.write(tmp_path)
    said = report(tmp_path)
    of = {x["host"]: x for x in said["traces"]}
    reference, = [x["host"] for x in of.values() if x["clock"] == "first"]
    base = fleet.clocks[int(reference[4:])]
    for i, clock in enumerate(fleet.clocks):
        x = of[f"node{i}"]
        if x["host"] == reference:
            continue
        assert x["clock"] == "collectives" and x["clock_error_ns"] < (60_000 if gpu else 600_000)
        at = 52 * MS
        error = abs(x["clock_ahead_ns"] - (true_offset(clock, at) - true_offset(base, at)))
        assert error <= x["clock_error_ns"] and error < (20_000 if gpu else 200_000), (i, error)
        assert x["clock_ppm"] == pytest.approx(clock.drift - base.drift, abs=1 if gpu else 20)
    assert "rank 2 was late 20 times, typically by 6" in finding(said, "late-rank")[0]["text"].lower()
    comm, = said["communication"]["communicators"]
    assert not comm["apart"] and comm["joined"] == 1000 and comm["clock_error_ns"] > 0


def test_captured(tmp_path):
    """Collectives that were captured into a graph did not run: the ranks capture them at different times, and a wait says nothing about them.
    Captured events and waits join streams only in the graph."""
    fleet = Fleet(ranks=2, machines=2, steps=300, gpu=False)
    began, ids = fleet.end, 10**6
    for r, clock in enumerate(fleet.clocks):
        at = began + r * 500 * MS

        def call(kind, op, name, more, args="{}"):
            nonlocal at, ids
            ids += 1
            ns = clock(at)
            fleet.put(r, at + 10_000, f'{{"ts":{ns // MS}.{ns % MS:06d},"type":"{kind}","op":"{op}","name":"{name}","symbol":"{name}","pid":{1000 + r},"tid":{1000 + r},'
                      f'"comm":"python","id":{ids},"duration_us":10,"result":0,{more},"args":{args}}}\n')
            at += 20_000

        def all_reduce(n):
            call("collective", "all_reduce", "ncclAllReduce", f'"api":"nccl","stream":"0x100","count":1024,"datatype":"float32","bytes":4096,"communicator":"0xabc","rank":{r},'
                 f'"nranks":2,"seq":{n}')

        for n in range(301, 311):
            call("graph", "capture_begin", "cuStreamBeginCapture", '"stream":"0x100"')
            all_reduce(n)
            call("graph", "capture_end", "cuStreamEndCapture", '"stream":"0x100"')
            call("sync", "sync", "cuStreamSynchronize", '"stream":"0x100"')
        # The wait for 0x200 is no wait for the last collective.
        all_reduce(311)
        call("graph", "capture_begin", "cuStreamBeginCapture", '"stream":"0x100"')
        call("event", "record", "cuEventRecord", '"stream":"0x100","event":"0xe1"')
        call("stream", "wait", "cuStreamWaitEvent", '"stream":"0x200","event":"0xe1"')
        call("event", "record", "cuEventRecord", '"stream":"0x200","event":"0xe2"')
        call("stream", "wait", "cuStreamWaitEvent", '"stream":"0x100","event":"0xe2"')
        call("graph", "capture_end", "cuStreamEndCapture", '"stream":"0x100"')
        call("sync", "sync", "cuStreamSynchronize", '"stream":"0x200"')
        fleet.end = at + MS
    fleet.write(tmp_path)
    said = report(tmp_path)
    moved, = [x for x in said["traces"] if x["clock"] == "collectives"]
    # Only of the last one did the other rank wait.
    assert sum(x["late"] for x in said["machines"]) == 1 and said["communication"]["communicators"][0]["joined"] == 311
    a, b = fleet.clocks if moved["host"] == "node1" else fleet.clocks[::-1]
    assert moved["clock_steps"] == 0 and moved["clock_collectives"] == 300 and moved["clock_error_ns"] < MS
    assert abs(moved["clock_ahead_ns"] - (true_offset(b, 52 * MS) - true_offset(a, 52 * MS))) <= moved["clock_error_ns"]


def test_differing_and_missing(tmp_path):
    """A rank of another machine that passes another size, and one that never comes, are found as on one machine."""
    paths = Fleet(ranks=4, machines=4, steps=200).write(tmp_path)
    with open(paths[3], encoding="utf-8") as f:
        lines = f.readlines()
    wrong = [x.replace('"bytes":4096', '"bytes":8192') if '"seq":100,' in x else x for x in lines]
    write(paths[3], wrong)
    comm, = report(*paths)["communication"]["communicators"]
    assert (comm["joined"], comm["different"]) == (199, 1)
    seconds = [x.replace('"command exited"', '"interrupted"') for x in lines]
    cut = [x for x in seconds if not any(f'"seq":{n},' in x for n in range(150, 201))]
    write(paths[3], cut)
    for path in paths:  # the traces go on for 30 seconds
        with open(path, encoding="utf-8") as f:
            rest = f.readlines()
        end = json.loads(rest[-1])
        end["ts"] += 30_000
        write(path, [*rest[:-1], json.dumps(end) + "\n"])
    comm, = report(*paths)["communication"]["communicators"]
    assert comm["open"]["seq"] == 150 and comm["open"]["missing"] == [3] and sorted(comm["open"]["in"]) == [0, 1, 2]


def test_slow_machine(tmp_path):
    """The machine whose kernels take 20 % longer is first in the table, with the reason."""
    said = report(*Fleet(ranks=8, machines=4, steps=200, slow=(2, 1.6), step_ns=8 * MS).write(tmp_path))
    first = said["machines"][0]
    assert first["host"] == "node2" and first["why"].startswith("kernels 6") and first["ranks"] == 2 and first["late_ns"] > 100 * MS
    assert [x for x in said["machines"] if "why" in x] == [first]
    text = report(*[str(tmp_path)], form="ascii", options=["--full"])
    assert "Machines: 4; others waited most for the first" in text and "kernels 6" in text


@pytest.mark.parametrize("cnt", [2, 3, 4])
def test_lower_clock(tmp_path, cnt):
    """The machine whose GPU has a lower clock than the others, also of two. Nobody waited for it."""
    paths = Fleet(ranks=cnt, machines=cnt, steps=20).write(tmp_path)
    for i, path in enumerate(paths):
        with open(path, encoding="utf-8") as f:
            head, *rest = f.readlines()
        sample = {"ts": 1, "type": "gpu_stats", "op": "sample", "name": "NVML", "gpu": 0, "util": 90, "sm_clock_mhz": 1000 if i == 1 else 1500}
        write(path, [head, json.dumps(sample, separators=(",", ":")) + "\n", *rest])
    said = report(*paths)
    assert [(x["host"], x["why"]) for x in said["machines"] if "why" in x] == [("node1", "GPU clock 33 % lower")]
    assert all(x["late_ns"] == 0 for x in said["machines"])
    text = report(*paths, form="ascii", options=["--full"])
    assert f"Machines: {cnt} " in text and "others waited most" not in text


def test_folder(tmp_path):
    """A folder stands for the traces in it; other files in it, and a folder without any, are handled."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "job").mkdir()
    paths = Fleet(ranks=2, machines=2, steps=20).write(tmp_path / "job")
    (tmp_path / "job" / "notes.txt").write_text("not a trace")
    assert report(tmp_path / "job") == report(*sorted(paths))
    os.mkfifo(tmp_path / "job" / "a.jsonl")
    ran = subprocess.run([os.environ["CUDATRACE"], "report", "--json", tmp_path / "job"], check=False, capture_output=True, timeout=50)
    assert ran.returncode == 0 and b"a.jsonl is not a regular file: it is left out" in ran.stderr
    (tmp_path / "none").mkdir()
    os.mkfifo(tmp_path / "none" / "a.jsonl")
    for what in ([], ["--make-budget"]):
        ran = subprocess.run([os.environ["CUDATRACE"], "report", *what, tmp_path / "empty"], check=False, capture_output=True)
        assert ran.returncode == 2 and b"has no traces (*.jsonl, *.jsonl.gz, *.jsonl.zst)" in ran.stderr
        ran = subprocess.run([os.environ["CUDATRACE"], "report", *what, tmp_path / "none"], check=False, capture_output=True, timeout=50)
        assert ran.returncode == 2 and b"none has no traces (*.jsonl, *.jsonl.gz, *.jsonl.zst)" in ran.stderr
    for runs, status in (("2", 0), ("1", 2)):
        ran = subprocess.run([os.environ["CUDATRACE"], "report", "--make-budget", "--runs", runs, tmp_path / "job"], check=False, capture_output=True, timeout=50)
        assert ran.returncode == status, ran


def test_start_together(tmp_path):
    """A trace begins at the next multiple of the period, and its duration counts from there; a time that is over is refused."""
    path = tmp_path / "t.jsonl"
    begun = time.time()
    subprocess.run([os.environ["CUDATRACE"], "-q", "--probe=inject", "--start-every", "2s", "--duration", "0.9", "--jsonl", path, "--", "sleep", "4"], check=False, timeout=50)
    ended = time.time()
    with open(path, encoding="utf-8") as f:
        head, *_, end = map(json.loads, f)
    wall = machines.wall_ns(head["wall_time"]) / 1e9
    due = (int(begun) // 2 + 1) * 2
    assert due <= wall < ended and end["reason"] == "duration" and wall + end["wall_ms"] / 1e3 >= due + 0.9
    for at, why in (("2020-01-31T12:00:00Z", b"this time is over"), ("2100-01-31T12:00:00Z", b"more than a week away")):
        ran = subprocess.run([os.environ["CUDATRACE"], "--start-at", at, "--", "true"], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert ran.returncode == 2 and why in ran.stderr, ran


def test_damaged(tmp_path):
    """Damaged files of two machines never crash a report: digits become others, lines are repeated, cut or exchanged."""
    paths = Fleet(ranks=2, machines=2, steps=12).write(tmp_path)
    rng = random.Random(3)
    with open(paths[1], encoding="utf-8") as f:
        whole = f.readlines()
    for _ in range(30):
        lines = list(whole)
        for _ in range(rng.randint(1, 40)):
            i = rng.randrange(len(lines))
            how = rng.random()
            if how < 0.5:
                lines[i] = re.sub(r"\d", lambda x: str(rng.randint(0, 9)) if rng.random() < 0.3 else x[0], lines[i])
            elif how < 0.7:
                lines[i] = re.sub(r"\d+", lambda x: rng.choice(["0", "9223372036854775807", "18446744073709551615", x[0]]), lines[i])
            elif how < 0.8:
                lines[i] = lines[rng.randrange(len(lines))]
            else:
                lines[i] = lines[i][:rng.randrange(len(lines[i]))] + "\n"
        write(paths[1], lines)
        ran = subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--format=json", *paths], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert ran.returncode in (0, 1), ran.stderr
        json.loads(ran.stdout)
