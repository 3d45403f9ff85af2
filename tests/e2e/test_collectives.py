# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
"""Ranks of a mock NCCL, one process each: collectives are joined across ranks, and late or missing ranks are named. Case nccl of
test_cases.py tests the calls themselves."""
import collections
import datetime
import json
import os
import platform
import re
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import Running, compiled
from helpers.run import FAKE, O, TESTS, cudatrace, inside, needs_tracing, until

sys.path.insert(0, TESTS + "/oracle")
import late as oracle_late  # noqa: E402

ENV = {"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti"}
# The location of NCCL's count of collectives is found only in x86-64 instructions.
HAS_COUNTS = platform.machine() == "x86_64"
needs_counts = pytest.mark.skipif(not HAS_COUNTS, reason="found in the code of x86-64 alone")


@pytest.fixture(scope="module")
def ranks():
    needs_tracing()
    return compiled(os.environ["TMP"] + "/ranks", TESTS + "/nccl/ranks.c")


@pytest.fixture
def run(tmp_path):
    r = Running(tmp_path)
    yield r
    r.end()


@pytest.fixture(params=["uprobe", "inject"])
def traced(request, tmp_path, ranks):
    """The trace, by either producer; the second runs without privileges."""
    tracer = cudatrace if request.param == "uprobe" else inside

    def trace(*args, before=(), env=()):
        path = str(tmp_path / "t.jsonl")
        ran = tracer("-q", *before, "--jsonl", path, "--", ranks, *args, env={**ENV, **dict(env)})
        assert ran.status == 0, ran
        return path
    return trace


def report(path, form="json"):
    ran = cudatrace("report", *(["--full"] if form == "ascii" else [f"--format={form}"]), path)
    assert ran.status == 0, ran
    return json.loads(ran.out) if form == "json" else " ".join(ran.out.split())


def collectives(path):
    return [e for e in Trace(path).calls if e.get("seq")]


def hangs(path):
    return [e for e in Trace(path).ev if e["type"] == "tracer" and e["op"] == "hang"]


def stacks(path):
    """For each notice that names a thread: the rank, the text, the functions of its stack. The stack must be defined before the notice."""
    found, defined = [], {}
    for e in Trace(path).ev:
        if e["type"] == "stack":
            assert e["id"] not in defined
            defined[e["id"]] = e
        elif e["type"] == "tracer" and "stack" in e:
            d = defined[e["stack"]]
            rank, pid, tid = map(int, re.search(r"^rank (\d+) of \w+ \(process (\d+)\): thread (\d+) ", e["why"]).groups())
            assert (d["pid"], d["tid"]) == (pid, tid)
            found.append((rank, e["why"], [f.get("symbol", f.get("module", "")).split("+")[0] for f in d["frames"]]))
    return found


def finding(said, name):
    return [f for f in said["findings"] if f["id"] == name]


def test_joined(traced):
    """All ranks have the same communicator and number for a collective, each once; a split creates another communicator."""
    path = traced(4, 5, "split")
    made = collections.defaultdict(list)
    for e in collectives(path):
        made[e["communicator"], e["seq"]].append((e["rank"], e["op"], e["bytes"], e["nranks"]))
    whole = {k: v for k, v in made.items() if v[0][3] == 4}
    assert len({k[0] for k in whole}) == 1 and {k[1] for k in whole} == {1, 2, 3, 4, 5}
    assert all(sorted(v) == [(r, "all_reduce", 4096, 4) for r in range(4)] for v in whole.values())
    pairs = {k: v for k, v in made.items() if v[0][3] == 2}
    assert len({k[0] for k in pairs}) == 2 and len(pairs) == 4
    assert all(sorted(v) == [(r, "broadcast", 64, 2) for r in range(2)] for v in pairs.values())

    said = report(path)["communication"]
    assert said["calls"] == 4 * 5 + 4 * 2
    comms = {c["nranks"]: c for c in said["communicators"]}
    assert len(said["communicators"]) == 3 and not any(c["partial"] for c in said["communicators"])
    assert comms[4]["joined"] == 5 and comms[2]["joined"] == 2
    assert [c["different"] + c["incomplete"] + c["ranks_rejected"] for c in said["communicators"]] == [0, 0, 0]
    op = comms[4]["operations"][0]
    assert (op["op"], op["count"], op["bytes"], op["sizes"]) == ("all_reduce", 20, 20 * 4096, [{"below": 16384, "count": 20}])
    assert sorted(r["collectives"] for r in comms[4]["ranks"]) == [5] * 4
    assert sum(r["last"] for r in comms[4]["ranks"]) == 5
    text = report(path, "ascii")
    assert "4 ranks, 4 of them in this report; 5 collectives joined" in text and "broadcast" in text
    assert not finding(report(path), "hanging-collective")


def test_late(traced):
    """A rank that is 60 ms late to each of five collectives must be named as the last, with that time; no other rank is named."""
    path = traced(3, 5, "late=1:60")
    said = report(path)
    comm, = said["communication"]["communicators"]
    late = {r["rank"]: r for r in comm["ranks"]}
    # The delays must equal those computed from the lines. On a busy machine another rank can be the last once.
    starts = collections.defaultdict(list)
    for e in collectives(path):
        starts[e["seq"]].append((e["ts"], e["rank"]))
    last = [max(v) for v in starts.values()]
    delays = sum(max(v)[0] - min(v)[0] for v in starts.values() if max(v)[1] == 1) * 1e6
    assert late[1]["late"] == late[1]["last"] == sum(rank == 1 for _, rank in last) >= 4
    assert late[1]["late_ns"] == pytest.approx(delays, abs=10) and delays >= late[1]["late"] * 40_000_000  # the first may begin late, too
    assert late[1]["late_max_ns"] * 5 >= late[1]["late_ns"]
    assert late[0]["last"] + late[2]["last"] == 5 - late[1]["last"]
    found, = finding(said, "late-rank")
    pid, = {e["pid"] for e in collectives(path) if e["rank"] == 1}
    by, episodes = oracle_late.typical(oracle_late.episodes(collectives(path), *oracle_late.steady(said))[pid])
    assert 4 <= len(episodes) <= 5 and 40 < by < 200
    assert f"Global rank 1 was late {len(episodes)} times, typically by " in found["text"], found
    assert found["lost_ns"] == pytest.approx(sum(x[2] for x in episodes) * 1e6, abs=10)


def test_global_rank(traced):
    """The rank in the environment that a process was started with is in the trace, once, before its first call; nothing else of the
    environment is. The ranks are forks of a process with that environment, so all have the same number here. They live for 300 ms."""
    path = traced(2, 3, "late=1:150", env={"RANK": "7", "SLURM_PROCID": "3", "SECRET": "8d71c2"})
    lines = Trace(path).ev
    jobs = [e for e in lines if e["type"] == "job"]
    callers = {e["pid"] for e in collectives(path)}
    assert {(e["op"], e["global_rank"]) for e in jobs} == {("rank", 7)} and callers <= {e["pid"] for e in jobs}
    assert len({e["pid"] for e in jobs}) == len(jobs)
    for e in jobs:
        assert next(x for x in lines if x.get("pid") == e["pid"] and "id" in x and "args" in x)["ts"] >= e["ts"]
    with open(path, encoding="utf-8") as f:
        assert "8d71c2" not in f.read()
    assert {r["global_rank"] for c in report(path)["communication"]["communicators"] for r in c["ranks"]} == {7}


def test_no_global_rank(traced):
    path = traced(2, 1, env={"RANK": "first", "LOCAL_RANK": "1"})
    assert not [e for e in Trace(path).ev if e["type"] == "job"]


def test_not_late(traced):
    """Without a rank that is much later than the others, no finding names one."""
    said = report(traced(2, 1))
    assert not finding(said, "hanging-collective")
    assert [c["joined"] for c in said["communication"]["communicators"]] == [1]


def test_hang(traced):
    """For a collective that a rank does not join, the report must name the ranks in it and the missing ones."""
    path = traced(3, 9, "stop=2:4")
    said = report(path)
    comm, = said["communication"]["communicators"]
    assert comm["joined"] == 3 and comm["incomplete"] == 0
    assert comm["open"]["seq"] == 4 and comm["open"]["op"] == "all_reduce"
    assert sorted(comm["open"]["in"]) == [0, 1] and comm["open"]["missing"] == [2]
    assert comm["open"]["waiting_ns"] >= 1_000_000_000
    found, = finding(said, "hanging-collective")
    assert "2 ranks have been in collective 4" in found["text"] and "rank 2 has not begun it" in found["text"]
    assert re.search("by rank (0, 1|1, 0); not in it: 2", report(path, "ascii"))


def test_hang_is_said(ranks, tmp_path):
    """A hang must be reported once while it lasts, with the ranks in the collective and the missing ones. It lasts seven seconds, because
    the report comes after five."""
    path = str(tmp_path / "t.jsonl")
    ran = cudatrace("--jsonl", path, "--no-summary", "--", ranks, 3, 9, "stop=2:4:7000", env=ENV)
    assert ran.status == 0, ran
    said, *ranks_said = hangs(path)
    pattern = r"collective 4 \(all_reduce\) of communicator 0x[0-9a-f]+ waits for [567]\.\d s: begun by rank (0, 1|1, 0), not by rank 2"
    assert said["name"] == "nccl" and re.search(pattern, said["why"]), said
    assert len(re.findall(pattern, ran.err)) == 1, ran
    # Then the state of each rank, the missing one first: all are in pause().
    assert [re.sub(r"0x\w+ \(process \d+\)", "X", e["why"]) for e in ranks_said][0].startswith("rank 2 of X: not in a call of a second or more; the main thread sleeps")
    assert sorted(e["why"][:6] for e in ranks_said) == ["rank 0", "rank 0", "rank 1", "rank 1", "rank 2", "rank 2"]
    assert all(e["why"] in ran.err for e in ranks_said)
    # The stack's line has the whole stack; the messages have its beginning.
    found = stacks(path)
    assert sorted(rank for rank, _, _ in found) == [0, 1, 2]
    for _, why, names in found:
        assert re.search(r"thread (\d+) waits in pause\+0x\w+ < stop\+0x\w+ < be_rank\+0x\w+ < ", why), why
        assert names[:3] == ["pause", "stop", "be_rank"] and "main" in names and names[-1] == "_start", names


def test_hang_running(ranks, tmp_path):
    """The notice about a missing rank that is running must name the functions that it stays in."""
    path = str(tmp_path / "t.jsonl")
    assert cudatrace("-q", "--jsonl", path, "--no-summary", "--", ranks, 2, 9, "stop=1:2:7000", "spin", env=ENV).status == 0
    (rank, why, names), _ = stacks(path)
    assert rank == 1 and "; the main thread runs" in hangs(path)[1]["why"]
    assert re.search(r"thread \d+ runs in spin\+0x\w+ < stop\+0x", why), why
    assert names[:3] == ["spin", "stop", "be_rank"] and names[-1] == "_start", names


def test_hang_of_threads(ranks, tmp_path):
    """If another thread makes the collectives, the notices must name the thread that made the last one, and the main thread."""
    path = str(tmp_path / "t.jsonl")
    assert cudatrace("-q", "--jsonl", path, "--no-summary", "--", ranks, 2, 9, "stop=1:2:7000", "threads", env=ENV).status == 0
    found = stacks(path)
    assert [rank for rank, _, _ in found] == [1, 1, 0, 0]
    for _, _, names in found[::2]:
        assert names[:3] == ["pause", "stop", "be_rank"] and "be_rank_in_thread" in names, names
    for _, _, names in found[1::2]:
        assert "stop" not in names and "start_rank" in names and "main" in names, names


def test_hang_by_frame_pointers(tmp_path):
    """The result is the same with and without frame pointers."""
    needs_tracing()
    path = str(tmp_path / "t.jsonl")
    ranks = compiled(str(tmp_path / "ranks"), TESTS + "/nccl/ranks.c", "-fno-omit-frame-pointer")
    assert cudatrace("-q", "--jsonl", path, "--no-summary", "--", ranks, 2, 9, "stop=1:2:7000", env=ENV).status == 0
    for _, _, names in stacks(path):
        assert names[:3] == ["pause", "stop", "be_rank"] and "main" in names and names[-1] == "_start", names


def test_hang_of_python(tmp_path):
    """Stacks must show Python's frames in place of the interpreter's, without --python."""
    needs_tracing()
    path = str(tmp_path / "t.jsonl")
    ran = cudatrace("--jsonl", path, "--no-summary", "--", sys.executable, TESTS + "/nccl/ranks.py", "7", env=ENV)
    assert ran.status == 0, ran
    with open(TESTS + "/nccl/ranks.py", encoding="utf-8") as f:
        lines = f.read().split("\n")
    by_rank = {re.search(r"^rank (\d)", e["why"]).group(1): e for e in hangs(path) if "stack" in e}
    defined = {e["id"]: e for e in Trace(path).ev if e["type"] == "stack"}
    for rank, functions, calls in (("1", ["Trainer.load_batch", "Trainer.step", "<module>"], "time.sleep"),
                                   ("0", ["Trainer.reduce_gradients", "Trainer.step", "<module>"], "ncclAllReduce")):
        stack = defined[by_rank[rank]["stack"]]
        assert [f["function"] for f in stack["python"]] == functions, stack
        assert all(f["file"].endswith("/nccl/ranks.py") for f in stack["python"]) and calls in lines[stack["python"][0]["line"] - 1]
        assert "nanosleep" in stack["frames"][0]["symbol"] and not any("PyEval" in f.get("symbol", "") for f in stack["frames"])
        said = " < ".join(f"{f['function']} (ranks.py:{f['line']})" for f in stack["python"])
        assert by_rank[rank]["why"].endswith(" < " + said) and said in ran.err, by_rank[rank]


def test_hang_hidden(ranks, tmp_path):
    """With --no-strings, stacks have file offsets, but neither names nor paths."""
    path = str(tmp_path / "t.jsonl")
    ran = cudatrace("--no-strings", "--jsonl", path, "--no-summary", "--", ranks, 2, 9, "stop=1:2:7000", env=ENV)
    frames = [f for e in Trace(path).ev if e["type"] == "stack" for f in e["frames"]]
    assert ran.status == 0 and frames and all("symbol" not in f and f.get("module") == "[file]" and f["build_id"] for f in frames), frames
    assert "[file]+0x" in ran.err and "be_rank" not in ran.err and "libc" not in ran.err.split("waits for")[1], ran.err


@pytest.mark.parametrize("tracer", [cudatrace, inside])
def test_hang_in_the_call(ranks, tmp_path, tracer):
    """A rank that waits for the others inside its call, as in the first call of a communicator, has no record yet. It must be named all the
    same."""
    path = str(tmp_path / "t.jsonl")
    ran = tracer("--jsonl", path, "--no-summary", "--", ranks, 2, 1, "block=0:9000", "late=1:8000", env=ENV)
    assert ran.status == 0, ran
    said = [e["why"] for e in hangs(path) if "stack" not in e]
    assert len(said) == 4 and re.search(r"^collective 1 \(all_reduce\) .* waits for [56]\.\d s: begun by rank 0, not by rank 1$", said[0]), said
    assert re.search(r"^rank 1 .*: not in a call of a second or more; the main thread sleeps", said[1]), said
    assert re.search(r"^rank 0 .*: thread \d+ is in ncclAllReduce for [56]\.\d s; the main thread sleeps", said[2]), said
    assert said[3].endswith("has begun on all ranks"), said
    # The stack goes through the waiting call, whose return address is in the kernel, because our probe replaced it.
    (late, _, late_names), (rank, why, names) = stacks(path)
    assert (late, rank) == (1, 0) and "case_sleep_ms" in late_names, late_names
    thread = re.search(r"thread (\d+) is in ncclAllReduce", said[2]).group(1)
    assert f": thread {thread} waits in " in why and names[-1] == "_start", why
    assert names.index("usleep") < names.index("be_rank") < names.index("main"), names


def test_different(traced):
    """Collectives with the same number but different operations must not be joined. While the program runs, and in the report, the two are named."""
    path = traced(2, 5, "other=1", "late=0:500")
    comm, = report(path)["communication"]["communicators"]
    assert comm["joined"] == 4 and comm["different"] == 1
    calls = {x["rank"]: (x["op"], x["bytes"]) for x in comm["differs"]["calls"]}
    assert comm["differs"]["seq"] == 3 and calls.keys() == {0, 1} and calls[0][0] == "all_reduce" and calls[1] == ("broadcast", 64), comm["differs"]
    assert re.search(r"The first is 3: rank 1 called broadcast of 64 B, rank 0 all_reduce of 4\.00 KiB\. All ranks must call the same", report(path, "ascii"))
    said = [x for x in hangs(path) if x.get("deadlock") == "collectives"]
    assert len(said) == 1 and re.search("collective 3 of communicator 0x[0-9a-f]+ differs: rank [01] calls .* bytes, rank [01] calls .* bytes", said[0]["why"]), said

    path = traced(2, 5, "late=0:500")
    assert "differs" not in report(path)["communication"]["communicators"][0] and not hangs(path)


def attached(run, ranks, *what, env=ENV):
    """Two ranks that have made three collectives (the second rank: two), and a tracer attached to both."""
    p = run.start(ranks, 2, 6, "wait", *what, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="utf-8") as f:
        pids = f.read().split()
    return p, run.tracer("t", *[a for pid in pids for a in ("-p", pid)])


def without_counts(folder):
    """A folder of mocks with a libnccl whose counting instruction adds 2, so that no count is found."""
    folder.mkdir()
    for name in os.listdir(FAKE):
        os.symlink(f"{FAKE}/{name}", f"{folder}/{name}")
    with open(f"{FAKE}/libnccl.so.2", "rb") as f:
        code = f.read()
    os.remove(f"{folder}/libnccl.so.2")
    plain, cnt = re.subn(rb"(\xf0[\x48-\x4b]\x83\x84[\xc0-\xff]....)\x01", b"\\g<1>\x02", code, flags=re.S)
    assert cnt >= HAS_COUNTS
    with open(f"{folder}/libnccl.so.2", "wb") as f:
        f.write(plain)
    return str(folder)


@needs_counts
def test_attached_late(ranks, run):
    """For communicators older than the trace, memory gives the rank, and NCCL's own count identifies the collectives: one rank's first is
    the other's second."""
    p, tracer = attached(run, ranks, "late=0:20")
    p.stdin.close()
    assert p.wait(60) == 0 and tracer.ended() == 0, tracer.err
    made = collectives(tracer.path)
    assert {(e["rank"], e["nranks"], e.get("seq_partial")) for e in made} == {(0, 2, None), (1, 2, None)}
    assert len({e["communicator"] for e in made}) == 1
    assert [[e["seq"] for e in made if e["rank"] == r] for r in (0, 1)] == [[4, 5, 6, 7, 8, 9], [3, 4, 5, 6, 7, 8, 9]]
    comm, = report(tracer.path)["communication"]["communicators"]
    # A busy machine may delay the other rank once as long.
    assert (comm["partial"], comm["joined"], comm["late"] in (5, 6), comm["incomplete"]) == (False, 6, True, 0), comm
    assert {r["rank"]: r["late"] for r in comm["ranks"]} == {0: comm["late"], 1: 0}


@needs_counts
def test_hang_attached_late(ranks, run):
    p, tracer = attached(run, ranks, "stop=1:3:9000")
    p.stdin.close()
    assert p.wait(60) == 0 and tracer.ended() == 0, tracer.err
    said = [e["why"] for e in hangs(tracer.path) if "stack" not in e]
    assert re.search(r"^collective 6 \(all_reduce\) .* waits for [56]\.\d s: begun by rank 0, not by rank 1$", said[0]), said


def test_no_counts(ranks, run, tmp_path):
    """If a library's count is not found, collectives of different ranks must not be matched."""
    p, tracer = attached(run, ranks, env={**ENV, "LD_LIBRARY_PATH": without_counts(tmp_path / "plain")})
    p.stdin.close()
    assert p.wait(60) == 0 and tracer.ended() == 0, tracer.err
    made = collectives(tracer.path)
    assert {(e["rank"], e["nranks"], e["seq_partial"]) for e in made} == {(0, 2, True), (1, 2, True)} and len(made) == 13
    comm, = report(tracer.path)["communication"]["communicators"]
    assert comm["partial"] and comm["joined"] == 0 and sorted(r["rank"] for r in comm["ranks"]) == [0, 1]
    assert "the communicator is older than the trace" in report(tracer.path, "ascii")


def apart(run, ranks, *what):
    """Two ranks, each traced by its own cudatrace from before they have a communicator. Returns their process ids and files, the program
    and its tracers."""
    p = run.start(ranks, 2, 9, "begin", *what, env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pids = sorted(int(p.stdout.readline()) for _ in range(2))
    tracers = [run.tracer(f"of{i}", "-p", pid) for i, pid in enumerate(pids)]
    return pids, [t.path for t in tracers], p, tracers


def of_both(*paths):
    ran = cudatrace("report", "--format=json", *paths)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def another_boot(path, to, seconds):
    """The trace as if from a machine with another clock, whose wall clock is wrong by this many seconds. Without waits for collectives, only
    wall clocks can be compared (the ranks of this program do not wait for each other)."""
    ev = [e for e in map(json.loads, open(path, encoding="utf-8")) if e["type"] != "sync"]
    ev[0]["boot_id"], ev[0]["host"] = "11111111-2222-3333-4444-555555555555", "other"
    ev[0]["clock_base_ns"] += 10 ** 15
    text, rest = ev[0]["wall_time"].split(".")
    ev[0]["wall_time"] = (datetime.datetime.fromisoformat(text) + datetime.timedelta(seconds=seconds)).isoformat() + "." + rest
    with open(to, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in ev)
    return str(to)


def test_two_traces(ranks, tmp_path, run):
    """Ranks in separate traces are joined as in one trace: the late rank and its delay are known by the machine's clock. As traces of two
    machines they are shown side by side, and no rank is called late by two clocks."""
    pids, paths, p, tracers = apart(run, ranks, "late=1:30")
    p.stdin.close()
    assert p.wait(60) == 0 and all(t.ended() == 0 for t in tracers), [t.err for t in tracers]
    said = of_both(*reversed(paths))
    comm, = said["communication"]["communicators"]
    assert not comm["apart"] and comm["joined"] == 9 and comm["different"] == comm["incomplete"] == 0 and "open" not in comm
    by_rank = {r["rank"]: r for r in comm["ranks"]}
    late = max(by_rank.values(), key=lambda r: r["late_ns"])
    assert late["rank"] == 1 and late["late"] == 9 and by_rank[0]["late"] == 0
    assert finding(said, "late-rank") and not finding(said, "hanging-collective")
    starts = collections.defaultdict(list)
    bases = [Trace(path).ev[0]["clock_base_ns"] for path in paths]
    for path, base in zip(paths, bases):
        for e in collectives(path):
            starts[e["seq"]].append(base + round(e["ts"] * 1e6))
    assert sum(max(v) - min(v) for v in starts.values()) == pytest.approx(late["late_ns"], abs=10)
    first, second = said["traces"]
    assert [t["path"] for t in (first, second)] == [paths[i] for i in sorted((0, 1), key=bases.__getitem__)]
    assert (first["clock"], first["first_ts"], first["pid_offset"]) == ("first", 0, 0)
    assert (second["clock"], second["same_as"], second["pid_offset"]) == ("same", 0, 10_000_000)
    assert second["first_ts"] * 1e6 == pytest.approx(max(bases) - min(bases), abs=1)
    assert sorted(r["pid"] % 10_000_000 for r in said["compared"]) == pids
    text = " ".join(cudatrace("report", "--full", *paths).out.split())
    assert "the same boot as that trace; times of both are comparable to the nanosecond" in text and "9 collectives joined" in text
    # All events must be in the order of one clock.
    chrome = cudatrace("report", "--format=chrome", *paths)
    made = [e for e in json.loads(chrome.out) if e.get("name") == "ncclAllReduce" and e["ph"] in "XB"]
    assert len(made) == 18 and len({e["pid"] for e in made}) == 2

    there = another_boot(paths[1], tmp_path / "there.jsonl", 0)
    said = of_both(paths[0], there)
    comm, = said["communication"]["communicators"]
    assert comm["apart"] and comm["joined"] == comm["late"] == 0 and not finding(said, "late-rank")
    wall = {t["host"]: t for t in said["traces"]}
    # The offset comes from wall clocks; it is exact if this machine's was not set between the two headers.
    mine, = (t for t in said["traces"] if t["host"] != "other")
    assert wall["other"]["first_ts"] - mine["first_ts"] == pytest.approx((bases[1] - bases[0]) / 1e6, abs=100)
    assert sorted(t["clock"] for t in said["traces"]) == ["first", "wall"]
    text = " ".join(cudatrace("report", "--full", paths[0], there).out.split())
    assert "as accurate as the wall clocks" in text and "whose clocks could not be compared" in text
    # A trace of a day later is unrelated.
    later = another_boot(paths[1], tmp_path / "later.jsonl", 86400)
    first, second = of_both(later, paths[0])["traces"]
    assert (first["path"], second["clock"]) == (paths[0], "none") and second["first_ts"] == pytest.approx(first["last_ts"] + 1, abs=1e-5)


def test_ended_early(ranks, tmp_path, run):
    """A rank whose trace ended before the others' must not be called missing; a rank that was killed must be."""
    _, paths, p, tracers = apart(run, ranks, "late=0:200")
    p.stdin.write(b"x")
    p.stdin.flush()
    until(lambda: "ncclAllReduce" in open(paths[1], encoding="utf-8").read(), 60)
    assert tracers[1].stop() == 0
    assert p.wait(60) == 0 and tracers[0].ended() == 0
    made = len(collectives(paths[1]))
    assert 0 < made < 9 and len(collectives(paths[0])) == 9
    said = of_both(*paths)
    comm, = said["communication"]["communicators"]
    assert comm["joined"] == made and "open" not in comm and comm["incomplete"] == 0 and not finding(said, "hanging-collective")


def test_hang_of_two_traces(ranks, tmp_path, run):
    """A rank that makes no more collectives while its trace continues must be reported as missing; the same applies when its process has
    ended."""
    _, paths, p, tracers = apart(run, ranks, "stop=1:4")
    p.stdin.close()
    assert p.wait(60) == 0 and all(t.ended() == 0 for t in tracers)
    comm, = of_both(*paths)["communication"]["communicators"]
    assert comm["open"]["seq"] == 4 and comm["open"]["in"] == [0] and comm["open"]["missing"] == [1]
    assert comm["open"]["waiting_ns"] >= 1_000_000_000
    # As if it had been killed early: the other rank waits until the end of its own trace.
    ev = [json.loads(line) for line in open(paths[1], encoding="utf-8")]
    last = max(e["ts"] for e in ev if e.get("seq"))
    for e in ev:
        if e["type"] == "end" or e.get("op") == "exit":
            e["ts"] = last + 1
    with open(paths[1], "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in ev if e["ts"] <= last + 1)
    assert [e for e in ev if e.get("op") == "exit"]
    comm, = of_both(*paths)["communication"]["communicators"]
    assert comm["open"]["seq"] == 4 and comm["open"]["missing"] == [1]


def test_redacted(traced):
    """With --no-args, collectives have no details, and the report has no section on communication."""
    path = traced(2, 2, before=("--no-args",))
    calls = [e for e in Trace(path).calls if e["type"] == "collective"]
    assert calls and not {k for e in calls for k in e} & {"communicator", "rank", "count", "bytes", "seq", "datatype"}
    assert report(path)["communication"] is None


def test_short(traced):
    """--min-duration must leave no gap in the collectives' numbers."""
    path = traced(2, 4, before=("--min-duration", "1s"))
    assert not collectives(path) and Trace(path).end["filtered"] >= 8


def test_gpu_time(traced, ranks, tmp_path):
    """The GPU time of a collective's kernel counts for the collective, and gives its bus bandwidth."""
    path = traced(2, 5, before=("--gpu-time",))
    trace = Trace(path)
    gpu = [e for e in trace.ev if e["type"] == "gpu" and e["op"] == "kernel"]
    assert len(gpu) == 10
    said = report(path)["communication"]
    op, = said["communicators"][0]["operations"]
    gpu_ns = sum(round(e["duration_us"] * 1000) for e in gpu)
    assert (op["gpu_count"], op["gpu_bytes"], op["gpu_ns"]) == (10, 40960, gpu_ns) and said["gpu_ns"] == gpu_ns
    assert op["busbw_gbps"] == pytest.approx(40960 * 1 / gpu_ns, rel=1e-4)
    text = report(path, "ascii")
    assert "GB/s" in text
    executed = report(path)["gpu"]
    # With ten values, the 99th percentile is the slowest.
    assert executed["queue"]["p99_ns"] == round(max(e["queue_us"] for e in gpu) * 1000)
    # Only collectives ran, so all communication time is alone. Both ranks have the same GPU.
    device, = executed["devices"]
    assert "shared" not in device and device["processes"] == 2
    assert device["communicating_ns"] == device["alone_ns"] == device["busy_ns"] <= gpu_ns
    assert "communicates beside other work alone" in text
    # Without the GPU's identity, the ranks may be on two GPUs.
    unknown = str(tmp_path / "unknown.jsonl")
    with open(unknown, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in Trace(path).ev if e["type"] != "gpu_device")
    device, = report(unknown)["gpu"]["devices"]
    assert device["shared"] and device["communicating_ns"] == device["alone_ns"] == device["busy_ns"] <= gpu_ns
    text = report(unknown, "ascii")
    assert "Several processes have a GPU of the same number" in text and "communicates beside other work" not in text
    assert not finding(report(unknown), "communication-alone")
    # The summary must agree.
    ran = cudatrace("-q", "--json", "--gpu-time", "--", ranks, 2, 5, env=ENV)
    summed, = json.loads(ran.err.splitlines()[-1])["gpus"]
    assert "shared" not in summed and 0 < summed["alone_ns"] <= summed["communicating_ns"]


def test_alone(traced, tmp_path):
    """For a rank with a GPU of its own, the report and diff must show how much communication runs alone on it."""
    whole = Trace(traced(2, 5, before=("--gpu-time",)))
    pid = min(e["pid"] for e in whole.calls if "rank" in e)
    path = str(tmp_path / "one.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in whole.ev if e["type"] in ("header", "end") or e["pid"] == pid)
    said = report(path)
    device, = said["gpu"]["devices"]
    assert "shared" not in device and device["alone_ns"] == device["communicating_ns"] > 0
    assert "communicates beside other work alone" in report(path, "ascii")
    assert "GPU only communicated" in cudatrace("diff", "--json", path, path).out


def test_gpu_time_of_a_call_in_a_call(traced):
    """ncclBcast calls ncclBroadcast, which launches: the GPU time must count for the outer call."""
    said = report(traced(2, 1, "split", before=("--gpu-time",)))["communication"]
    ops = {o["op"]: o for c in said["communicators"] for o in c["operations"]}
    assert ops["broadcast"]["gpu_count"] == ops["broadcast"]["count"] and ops["broadcast"]["gpu_ns"] > 0


def test_compared(traced):
    """Each rank has a row with its launches and the length of its iterations; a single process has none."""
    path = traced(3, 5)
    rows = report(path)["compared"]
    launches = collections.Counter(e["pid"] for e in Trace(path).calls if e["name"] == "cuLaunchKernel")
    assert sorted((r["rank"], r["launches"]) for r in rows) == [(i, 5) for i in range(3)]
    assert {r["pid"]: r["launches"] for r in rows} == launches
    assert all(r["iterations"] >= 3 and r["iteration_launches"] == 1 for r in rows), rows  # iterations are found in each process separately
    # Each moment from the process's first call to the end of its last belongs to one stage.
    for r in rows:
        calls = [e for e in Trace(path).calls if e["pid"] == r["pid"]]
        ns = max(e["ts"] * 1e6 + e["duration_us"] * 1e3 for e in calls) - min(e["ts"] for e in calls) * 1e6
        assert sum(r["stages"].values()) == pytest.approx(ns, abs=10) and {"warmup", "inference", "sync"} <= set(r["stages"]) and "other" not in r["stages"], r
    assert "Processes: 3 that launch kernels" in report(path, "ascii") and "inference sync stages of process" in report(path, "ascii")
    alone = traced(1, 5)
    assert report(alone)["compared"] == [] and "that launch kernels" not in report(alone, "ascii")
