# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 5
"""The critical path of a step, and replays of it, against simulated loops (tests/oracle/steps.py) whose path is known, and whose time with
other costs is known because they run again with them."""
import collections
import json
import os
import re
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import evidence  # noqa: E402
import oracle  # noqa: E402
import simulate  # noqa: E402
import steps  # noqa: E402

STEPS = 24


def report_of(folder, lines, *options):
    path = folder / "trace.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    ran = subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--format=json", *options, path], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=60)
    report = json.loads(ran.stdout)
    # A change that concerns nothing is an error, after the report.
    unmatched = [x["change"] for x in report["step"]["what_if"] if "unmatched" in x]
    assert ran.returncode == (unmatched != []) and all(f"--what-if: '{x}' " in ran.stderr for x in unmatched[:1]), ran
    report["stderr"] = ran.stderr
    return report


def parts_of(step):
    """Times between calls are one part: the simulator does not divide them by Python functions."""
    parts = collections.Counter()
    for x in step["parts"]:
        parts[x["kind"], None if x["kind"] == "between" else x.get("name")] += x["total_ns"]
    return parts


def check_path(m, report):
    """Every listed step has the parts that the simulator computed. Returns the median step."""
    assert report["step"]["steps"] >= STEPS - 4 and report["step"]["gpu_times"]
    for step in report["step"]["list"]:
        i = step["iteration"]
        if i:
            assert step["wall_ns"] == m.ends[i][0] - m.ends[i - 1][0]
            assert parts_of(step) == m.path(i), step["which"]
        assert sum(x["total_ns"] for x in step["parts"]) == step["wall_ns"]
    return report["step"]["list"][0]


def check_gain(m, ready, report, found):
    """The gain in the steady state is the time that the program takes longer than one without the problem. The first step may begin after the problem."""
    before = STEPS - report["step"]["steps"]
    longer = m.ends[-1][2] - ready.ends[-1][2] - (m.ends[before - 1][2] - ready.ends[before - 1][2] if before else 0)
    assert found["replayed"] and abs(found["steady_ns"] - longer) <= 0.05 * longer and longer > 0.1 * m.ends[-1][2], (found["steady_ns"], longer)


def evidence_of(lines, report):
    """What is wrong with the calls that findings name."""
    d = oracle.Differences()
    evidence.check(oracle.TOOLS, d, lines, [x for x in lines if "id" in x and "duration_us" in x and x["type"] != "range"], report)
    return d


@pytest.mark.parametrize("program, kind, name, finding, without", steps.PLANTED, ids=[x[0].__name__ for x in steps.PLANTED])
def test_planted(tmp_path, program, kind, name, finding, without):
    """The first part of the path and the first finding are the planted problem, with the gain that a program without it has."""
    m = steps.Machine().run(program, STEPS)
    report = report_of(tmp_path, m.lines())
    if kind:
        first = check_path(m, report)["parts"][0]
        assert (first["kind"], first.get("name")) == (kind, name)
    if finding:
        found = report["findings"][0]
        ready = steps.Machine().run(without, STEPS) if callable(without) else steps.Machine(**without).run(program, STEPS)
        assert found["id"] == finding
        check_gain(m, ready, report, found)
        # The evidence: a call of the trace. Parts of the path have theirs, too.
        names = {x["id"]: x["name"] for x in m.lines() if "duration_us" in x and "id" in x}
        of_calls = [x for x in report["step"]["list"][0]["parts"] if x["kind"] in ("plan", "memory", "copy_call", "wait_return")]
        assert len(of_calls) > 0 and all(names[x["call_id"]] == x["name"] for x in of_calls)
        assert found["calls"] and not evidence_of(m.lines(), report)
        example = names[found["call_id"]] if "call_id" in found else None
        assert (example is None) == (finding in ("launch-bound", "idle-between", "communication-alone"))
        if kind in ("plan", "memory", "copy_call"):
            assert example == name and name in found["text"]
    else:
        assert [x["id"] for x in report["findings"]] == ["gpu-bound"]
    if finding == "small-syncs":
        assert f" waits, such as cuStreamSynchronize in {steps.DONE.replace('/app/', '')}, came after" in found["text"]


def test_verdict_of_collectives(tmp_path):
    """The verdict has the gain that a replay shows: that of its first finding, or of all collectives if there is nothing to overlap them with."""
    for program, words in ((steps.collectives, "Overlapping them with other work gains "), (steps.only_collectives, "There is hardly any other work to overlap them with. Fewer, ")):
        report = report_of(tmp_path, steps.Machine().run(program, STEPS).lines())
        v, found = report["verdict"], finding_of(report, "communication-alone")
        assert v["limit"] == "collectives" and words in v["sentence"], v
        gain = found[0]["steady_ns"] if found else v["share"] * v["run_ns"]
        assert bool(found) == (program == steps.collectives) and abs(v["at_most_ns"] - gain) <= 1e-6 * gain, (v, found)
        if found:
            row, = [x for x in report["step"]["what_if"] if x["change"] == "overlap-comm"]
            assert abs(v["at_most_ns"] / v["run_ns"] - row["saved_share"]) < 0.001


@pytest.mark.parametrize("program, finding", [(steps.small, "launch-bound"), (steps.host_between, "idle-between")], ids=["launches", "waits"])
def test_evidence_without_gpu_times(tmp_path, program, finding):
    lines = [x for x in steps.Machine().run(program, STEPS).lines() if x["type"] != "gpu"]
    report = report_of(tmp_path, lines)
    found, = finding_of(report, finding)
    assert len(found["calls"]) == 3 and not evidence_of(lines, report)
    text = " ".join(subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--section=findings", "--width=300", tmp_path / "trace.jsonl"], check=True,
                                   stdout=subprocess.PIPE, text=True).stdout.split())
    first = found["calls"][0]
    assert re.search(rf"Calls: {first['function']} \(id {first['call_id']}\): [^;]* {first['what']}; ", text)


def test_evidence_without_waits(tmp_path):
    """The path is the host's, but the GPU waits for its launches."""
    def unwaited(m, i):
        steps.launches(m, 30, 1_000)
        m.waited = m.now, m.last, max(m.now, m.all.end)
    lines = steps.Machine().run(unwaited, STEPS).lines()
    found, = finding_of(report := report_of(tmp_path, lines), "launch-bound")
    assert len(found["calls"]) == 3 and not evidence_of(lines, report)


def test_evidence_is_checked(tmp_path):
    """The check finds a call that is not what the finding says."""
    for program in (steps.small, steps.host_between, steps.collectives, steps.plans):
        lines = steps.Machine().run(program, STEPS).lines()
        report = report_of(tmp_path, lines)
        first, *rest = report["findings"][0]["calls"]
        for change in ({"call_id": first["call_id"] + 1}, {"time_ns": first["time_ns"] + 200_000}, {"ts": first["ts"] - 0.1}, {"function": "cuInit"}):
            report["findings"][0]["calls"] = [{**first, **change}, *rest]
            assert evidence_of(lines, report), (program.__name__, change)


@pytest.mark.parametrize("program, kind", steps.HEALTHY, ids=[x[0].__name__ for x in steps.HEALTHY])
def test_healthy(tmp_path, program, kind):
    m = steps.Machine().run(program, STEPS)
    report = report_of(tmp_path, m.lines())
    assert check_path(m, report)["parts"][0]["kind"] == kind
    assert [x["id"] for x in report["findings"]] in ([], ["gpu-bound"])
    assert [x for x in report["step"]["what_if"] if x["saved_share"] > 0.05 or x["change"].startswith(NEW)] == []


def test_pauses(tmp_path):
    """That the GPU's work would hide a pause of the host in each sixth step is no reason to advise against waits."""
    def paused(m, i):
        for _ in range(3):
            m.graph(400_000)
        m.wait(0x100)
        m.host(1_000_000 if i % 6 == 5 else 0)
    report = report_of(tmp_path, steps.Machine().run(paused, STEPS).lines(), "--section=step,findings", "--what-if", "no-wait:cuStreamSynchronize")
    assert report["step"]["what_if"][0]["saved_share"] > 0.1
    assert not finding_of(report, "small-syncs") and not [x for x in proposed(report) if x.startswith("no-wait")]


@pytest.mark.parametrize("is_graph", [False, True], ids=["kernel", "graph"])
def test_waits_after_graphs(tmp_path, is_graph):
    """A replay of a graph before each wait is not little work."""
    def program(m, i):
        if is_graph:
            m.graph(400_000)
        else:
            m.launch("k", 400_000)
        m.wait(0x100)
        m.host(200_000)
    found = [x["id"] for x in report_of(tmp_path, steps.Machine().run(program, STEPS).lines())["findings"]]
    assert ("small-syncs" in found, "idle-between" in found) == (not is_graph, True), found


def test_longest_kernels(tmp_path):
    """The finding on the GPU names the kernels of the step, with the shares of the step's parts."""
    for program, of in (steps.bound, ["slow", "k0", "k1"]), (steps.healthy_graph, ["CUDA graphs"]):
        report = report_of(tmp_path, steps.Machine().run(program, STEPS).lines())
        step, found = report["step"]["list"][0], finding_of(report, "gpu-bound")[0]
        parts = [x for x in step["parts"] if x["kind"] in ("kernel", "graph")][:3]
        assert [x.get("name", "CUDA graphs") for x in parts] == of
        names = ", ".join(f"{name} {100 * x['total_ns'] / step['wall_ns']:.1f} %" for name, x in zip(of, parts))
        assert f"; the longest in the median step: {names}." in found["text"], found


def test_what_limits_the_longest(tmp_path):
    """With --stalls the finding also has the diagnosis."""
    head, *lines = steps.Machine().run(steps.bound, STEPS).lines()
    lines.insert(-1, {**{m: lines[0][m] for m in ("pid", "tid", "comm")}, "ts": lines[-1]["ts"], "type": "stalls", "op": "function", "name": "function", "duration_us": 1000, "device": 0,
                      "function": "0x1", "kernel": "slow", "samples": 10000, "not_issued": 9000, "code": "decoded", "reason": "mio_throttle", "waiting": 9000, "waiting_issued": 30,
                      "mio_throttle": 9000, "selected": 1000, "for_shared": 9000, "guarded": 0, "diverged": 0, "issued_memory": 0})
    found, = finding_of(report_of(tmp_path, [{**head, "stalls": 1 << 20}, *lines]), "gpu-bound")
    assert re.search(r"step: slow [0-9.]+ % \(limited by bank conflicts of shared memory\), k0 [0-9.]+ %,", found["text"]), found


def test_copies_in_the_steps(tmp_path):
    """Copies that matter in the steps only, because the GPU is idle for long before them."""
    def late(m):
        m.launch("k", 1_000)
        m.host(200_000_000)
    lines = steps.Machine().run(steps.not_overlapped, STEPS, late).lines()
    report = report_of(tmp_path, lines)
    found, = finding_of(report, "copies-alone")
    assert found["steady_share"] > 0.25 and sum(x["duration_us"] for x in lines if x["type"] == "gpu" and x["op"] == "copy") * 1e3 < 0.1 * report["overview"]["wall_ns"]


def copy_after_kernels(m, i):
    """A copy that waits for the kernels before it."""
    steps.launches(m, 5, 60_000, 0)
    m.copy(5_000)


def event_of_another_event(m, i):
    """The second event is recorded on a stream without work that waits for the first."""
    steps.launches(m, 5, 60_000)
    m.record(0x1)
    m.wait_event(0x1, 0x200)
    m.record(0x2, 0x200)
    m.wait(("event", 0x2))


def stream_that_waits(m, i):
    """The host waits for a stream without work that waits for an event."""
    steps.launches(m, 5, 60_000)
    m.record(0x1)
    m.wait_event(0x1, 0x200)
    m.wait(0x200)


def legacy_stream(m, i):
    """The legacy default stream waits for blocking streams, and they for it."""
    steps.launches(m, 3, 60_000, 0x400)
    m.launch("main", 10_000, 0)
    m.launch("after", 10_000, 0x400)
    m.wait(0x400)


DEPENDENCIES = [copy_after_kernels, event_of_another_event, stream_that_waits, legacy_stream]


def start(m):
    m.stream(0x400, True)


@pytest.mark.parametrize("program", DEPENDENCIES, ids=lambda x: x.__name__)
def test_dependencies(tmp_path, program):
    m = steps.Machine().run(program, STEPS, start)
    check_path(m, report_of(tmp_path, m.lines()))


CHANGES = [("host=0.5", {"host": 0.5}), ("host=0", {"host": 0}), ("host=2", {"host": 2}), ("gpu=0.5", {"gpu": 0.5}), ("gpu=3", {"gpu": 3}),
           ("kernel:k1=0.5", {"kernels": [("k1", 0.5)]}), ("kernel:k=4", {"kernels": [("k", 4)]}), ("plans", {"free": ["cudnnBackendFinalize"]}),
           ("cache:cuPointerGetAttribute", {"free": ["cuPointerGetAttribute"]}), ("no-wait:cuStreamSynchronize", {"no_wait": ["cuStreamSynchronize"]})]

@pytest.mark.parametrize("program", [x[0] for x in steps.PLANTED + steps.HEALTHY] + DEPENDENCIES, ids=lambda x: x.__name__)
def test_replay(tmp_path, program):
    """A replay with a change takes the time of the program with that change."""
    m = steps.Machine().run(program, STEPS, start)
    wrong = []
    for some in (CHANGES[:5], CHANGES[5:]):
        report = report_of(tmp_path, m.lines(), "--what-if", ",".join(text for text, _ in some))["step"]
        assert abs(report["replay"]["step_ns"] - report["list"][0]["wall_ns"]) <= 1
        for (text, costs), row in zip(some, report["what_if"]):
            other = steps.Machine(**costs).run(program, STEPS, start)
            truth = other.median_ns()
            assert row["change"] == text and row["requested"]
            if abs(row["step_ns"] - truth) > (0.15 if text == "host=0" else 0.02) * truth + 1_000:  # host=0: delays that the trace does not show
                wrong.append((text, row["step_ns"], truth))
    assert not wrong


@pytest.mark.parametrize("program, text, costs", [(steps.collectives, "overlap-comm", {"apart": True}), (steps.elementwise, "fuse:elementwise", {"fuse": "elementwise"}),
                                                  (steps.in_ranges, "graph:layer", {"graph": "layer"}), (steps.in_ranges, "graph:other", {})],
                         ids=["overlap-comm", "fuse", "graph-range", "no-range"])
def test_changes(tmp_path, program, text, costs):
    m, other = steps.Machine().run(program, STEPS), steps.Machine(**costs).run(program, STEPS)
    row = report_of(tmp_path, m.lines(), "--what-if", text)["step"]["what_if"][0]
    assert row["change"] == text and abs(row["step_ns"] - other.median_ns()) <= 0.02 * other.median_ns() + 500
    assert not costs or other.median_ns() < 0.85 * m.median_ns()


NEW = "batch:", "fuse:", "cache:", "graph:"


def proposed(report):
    return {x["change"]: x for x in report["step"]["what_if"] if not x["requested"]}


def test_requested_once(tmp_path):
    lines = steps.Machine().run(steps.small, STEPS).lines()
    assert "graph" in proposed(report_of(tmp_path, lines))
    assert [x["change"] for x in report_of(tmp_path, lines, "--what-if", "graph")["step"]["what_if"]].count("graph") == 1


@pytest.mark.parametrize("program, text, without", steps.PROPOSED, ids=[x[0].__name__ for x in steps.PROPOSED])
def test_proposed(tmp_path, program, text, without):
    """The report proposes the change by itself, with the gain of the program that has it; that program needs no such change any more."""
    m = steps.Machine().run(program, STEPS)
    ready = steps.Machine().run(without, STEPS) if callable(without) else steps.Machine(**without).run(program, STEPS)
    row = proposed(report_of(tmp_path, m.lines()))[text]
    assert abs(row["step_ns"] - ready.median_ns()) <= 0.02 * ready.median_ns() + 500 and row["saved_share"] > 0.3
    # Ranges of it are in the trace of a Machine that has made graphs of them: its kernels still have a launch each.
    if not text.startswith("graph:"):
        assert not [x for x in proposed(report_of(tmp_path, ready.lines())) if x.startswith(NEW)]


@pytest.mark.parametrize("program", steps.NOT_PROPOSED, ids=lambda x: x.__name__)
def test_not_proposed(tmp_path, program):
    """Calls, kernels and ranges that look alike, but cannot be joined or kept, or are so already."""
    lines = steps.Machine().run(program, STEPS, steps.at_start).lines()
    assert not [x for x in proposed(report_of(tmp_path, lines)) if x.startswith(NEW)]
    # Without GPU times the gain is not known.
    if program == steps.NOT_PROPOSED[0]:
        lines = [x for x in steps.Machine().run(steps.queried, STEPS).lines() if x["type"] != "gpu"]
        assert not [x for x in proposed(report_of(tmp_path, lines)) if x.startswith(NEW)]


@pytest.mark.parametrize("text, like", [("drop:cuStreamSynchronise", "did you mean cuStreamSynchronize?"), ("cache:train.py:2", "no call of this name; --section=overview lists"),
                                        ("before:mian=0", "did you mean main?"), ("kernel:ke1=0.5", "no launch of a kernel of this name; did you mean k1, k0, k2?"),
                                        ("fuse:nccl", "--section=kernels lists"), ("on-time:7", "no rank"), ("graph:forward", "no NVTX range or PyTorch operator of this name; --nvtx and --torch record them"),
                                        ("batch:StreamSynchronize", "did you mean cuStreamSynchronize?"), ("pinned", "no copy of pageable memory"), ("plans", "no call that builds plans"),
                                        ("overlap-comm", "no execution of an NCCL kernel"), ("overlap-copies", None), ("kernel:k=0.5", None), ("no-wait:train.py:20", None)])
def test_nothing_to_change(tmp_path, text, like):
    """A change that concerns nothing has a message with names like its own; a change that gains nothing has none."""
    report = report_of(tmp_path, steps.Machine().run(steps.loads, STEPS).lines(), "--what-if", f"host=0.5,{text}")
    assert [x.get("unmatched", False) for x in report["step"]["what_if"][:2]] == [False, like is not None]
    assert (like or "") in report["stderr"] and (report["stderr"] == "") == (like is None)


@pytest.mark.parametrize("text", ["graph", "kernel:k=0.5", "overlap-copies"])
def test_change_without_gpu_times(tmp_path, text):
    lines = [x for x in steps.Machine().run(steps.loads, STEPS).lines() if x["type"] != "gpu"]
    assert "--gpu-time" in report_of(tmp_path, lines, "--what-if", text)["stderr"]


def test_changes_at_a_place(tmp_path):
    """A line of Python stands for the calls below it."""
    lines = steps.Machine().run(steps.loads, STEPS).lines()
    other = [x["line"] for e in lines if e["type"] == "stack" for x in e["python"] if x["line"] != 20][0]
    names = "no-wait:cuStreamSynchronize", "no-wait:train.py:20", f"no-wait:train.py:{other}", "no-wait:rain.py:20"
    rows = {x["change"]: x["step_ns"] for x in report_of(tmp_path, lines, "--what-if", ",".join(names))["step"]["what_if"]}
    assert rows[names[0]] == rows[names[1]] < rows[names[2]] == rows[names[3]]


@pytest.mark.parametrize("capability, rate", [(80, 25.0), (90, 53.0), (100, 53.0), (None, 25.0)])
def test_costs_by_gpu(tmp_path, capability, rate):
    """What pinned memory gains depends on the GPU of the trace: src/report/step/gpu_costs.def."""
    lines = steps.Machine().run(steps.pageable, STEPS).lines()
    for x in lines:
        if x["type"] == "gpu_device":
            x.pop("capability")
            x.update({"capability": capability} if capability else {})

    def pinned(m, i):
        m.copy(round((1 << 20) / rate), prepare=steps.START, size=1 << 20, direction="HtoD")
        steps.launches(m, 6, 20_000, 0)
        m.wait(0)
    row = report_of(tmp_path, lines, "--what-if", "pinned")["step"]["what_if"][0]
    truth = steps.Machine().run(pinned, STEPS).median_ns()
    assert abs(row["step_ns"] - truth) <= 0.02 * truth, (row, truth)


@pytest.mark.parametrize("text", ["fuse:nccl", "fuse:AllReduce_Sum"])
def test_buckets(tmp_path, text):
    """Small collectives in one bucket take the time of a program with one of them."""
    row = report_of(tmp_path, steps.Machine().run(steps.small_collectives, STEPS).lines(), "--what-if", text)["step"]["what_if"][0]
    truth = steps.Machine().run(steps.one_bucket, STEPS).median_ns()
    assert row["change"] == text and abs(row["step_ns"] - truth) <= 0.02 * truth + 500


@pytest.mark.parametrize("program", [steps.small, steps.plans, steps.synchronous, steps.bound], ids=lambda x: x.__name__)
def test_untraced(tmp_path, program):
    """Without the overhead that the trace tells, steps take the time that they take without a tracer, also after another change."""
    m, change = steps.Machine(overhead=1500).run(program, STEPS), {"free": ["cudnnBackendFinalize"]}
    rows = report_of(tmp_path, m.lines(), "--what-if", "untraced,plans")["step"]["what_if"]
    for row, costs in ((rows[0], {}), (rows[1], {"overhead": 1500, **change}), (rows[2], change)):
        truth = steps.Machine(**costs).run(program, STEPS).median_ns()
        assert abs(row["step_ns"] - truth) <= 0.02 * truth + 1_000, row["change"]


@pytest.mark.parametrize("seed, first", [*((seed, False) for seed in range(12)), *((seed, True) for seed in range(6))])
def test_late_rank(tmp_path, seed, first):
    """The time in which a rank waits for another one is a part of its own, and a replay without it takes the time of the program without it."""
    plan = {**simulate.plan(seed), "shape": "ranks", "workers": 3, "rounds": 1, "steps": 24, "nccl_ns": 60_000, "late_ns": 4_000_000, "late_steps": 7, "hang_ns": 0}
    if first:  # its kernels still run when it calls the collective
        plan.update(late_first=True, launches=8, kernel_ns=150_000)
    report = report_of(tmp_path, simulate.trace(plan), "--section=step,findings", "--what-if", "on-time:2,on-time:1")
    step = report["step"]
    slowest = next(x for x in step["list"] if x["which"] == "slowest")
    # The wait for the rank begins on the GPU when all else is done.
    waited = simulate.nccl_begin(plan, 2, 23) - simulate.nccl_begin(plan, 0, 23)
    rank = [x for x in slowest["parts"] if x["kind"] == "rank"]
    assert [x["name"] for x in rank] == ["rank 2"] and abs(rank[0]["total_ns"] - waited) < 20_000, (rank, waited)
    text = " ".join(subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--section=step", "--width=200", tmp_path / "trace.jsonl"], check=True,
                                   stdout=subprocess.PIPE, text=True).stdout.split())
    assert f"Slowest (iteration {slowest['iteration']}): " in text and re.search(r"Slowest .iteration \d+.: .*?waiting for rank 2 .* If the host", text) and "unchanged, the replay is 0.0 % off" in text
    on_time, other = step["what_if"][:2]
    total = step["replay"]["total_ns"] - 7 * (simulate.step_ns(plan, 23) - simulate.step_ns({**plan, "late_ns": 0}, 23))
    assert abs(on_time["total_ns"] - total) < 0.02 * total, (on_time, total)
    found, = finding_of(report, "late-rank")
    assert len(found["calls"]) == 3 and not evidence_of(simulate.trace(plan), report)
    assert found["replayed"] and "rank 2" in found["text"] and abs(found["steady_share"] - 1 + total / step["replay"]["total_ns"]) < 0.02
    whole = report_of(tmp_path, simulate.trace(plan))
    v = whole["verdict"]
    assert v["limit"] != "collectives" or ("Removing the delays of one rank gains " in v["sentence"] and v["at_most_ns"] == found["steady_ns"]), v
    assert other["saved_share"] == 0 and "on-time:2" in proposed(whole)


@pytest.mark.parametrize("seed", [6, 11])
def test_window_within_a_wait(tmp_path, seed):
    """The first iteration begins while a collective waits for a rank already."""
    plan = {**simulate.plan(seed), "shape": "ranks", "workers": 3, "rounds": 1, "steps": 24, "launches": 3, "kernel_ns": 6_000, "how": "launches", "copy": False,
            "nccl_ns": 60_000, "late_ns": 4_000_000, "late_steps": 24, "hang_ns": 0}
    step = report_of(tmp_path, simulate.trace(plan), "--marker", "cuCtxSynchronize")["step"]
    assert step["steps"] > 10 and all(sum(p["total_ns"] for p in x["parts"]) == x["wall_ns"] for x in step["list"])
    assert [p["name"] for p in step["list"][0]["parts"] if p["kind"] == "rank"] == ["rank 2"]


@pytest.mark.parametrize("seed", range(6))
def test_late_itself(tmp_path, seed):
    """The process with the steps is the one that the others wait for."""
    plan = {**simulate.plan(seed), "shape": "ranks", "workers": 3, "rounds": 1, "steps": 24, "nccl_ns": 60_000, "late_ns": 4_000_000, "late_steps": 7, "hang_ns": 0,
            "late_rank": 0}
    step = report_of(tmp_path, simulate.trace(plan), "--what-if", "on-time:0")["step"]
    total = step["replay"]["total_ns"] - 7 * (simulate.step_ns(plan, 23) - simulate.step_ns({**plan, "late_ns": 0}, 23))
    assert abs(step["what_if"][0]["total_ns"] - total) < 0.02 * total
    assert not [p for x in step["list"] for p in x["parts"] if p["kind"] == "rank"]


def varied(m, i):
    """Steps of four lengths."""
    m.host((600_000, 300_000, 100_000, 0)[i % 4])
    steps.launches(m, 6, 20_000)
    m.wait(0x100)


@pytest.mark.parametrize("text, costs", [(None, {}), ("host=0.5", {"host": 0.5}), ("gpu=3", {"gpu": 3})])
def test_interval(tmp_path, text, costs):
    """The interval of a replay is between the quartiles of the steps of the program with that change."""
    report = report_of(tmp_path, steps.Machine().run(varied, STEPS).lines(), *(["--what-if", text] if text else []))["step"]
    row = report["what_if"][0] if text else report["replay"]
    m, count = steps.Machine(**costs).run(varied, STEPS), report["steps"]
    walls = sorted(m.step_ns(i) for i in range(1, STEPS))
    assert count == len(walls)
    for got, want in ((row["low_ns"], walls[(count - 1) // 4]), (row["step_ns"], walls[(count - 1) // 2]), (row["high_ns"], walls[count - 1 - (count - 1) // 4])):
        assert abs(got - want) <= 0.02 * want + 1_000
    assert row["low_ns"] < row["step_ns"] < row["high_ns"]


def finding_of(report, *ids):
    return [x for x in report["findings"] if x["id"] in ids]


@pytest.mark.parametrize("program, finding, place, more, part", steps.LOADING, ids=[x[0].__name__ for x in steps.LOADING])
def test_loading(tmp_path, program, finding, place, more, part):
    """The first finding names the place, and its gain is the time that the program takes longer than one whose input is there."""
    m, ready = steps.Machine().run(program, STEPS), steps.Machine(prepare=0).run(program, STEPS)
    report = report_of(tmp_path, m.lines())
    first = report["findings"][0]
    check_path(m, report)
    assert first["id"] == finding and place in first["text"] and not finding_of(report, "idle-between", *{"data-loading", "other-thread"} - {finding})
    longer = [m.ends[i][2] - ready.ends[i][2] for i in range(STEPS)]
    truth = [b - a for a, b in zip([0, *longer], longer)][-report["step"]["steps"]:]
    assert abs(first["lost_ns"] - sum(truth)) <= 0.1 * sum(truth) and sum(truth) > 0.1 * m.ends[-1][2]
    evidence = {x["what"]: x["number"] for x in first["evidence"]}
    with_it, steps_cnt = evidence["iterations with this time"], evidence["iterations after the warm-up"]
    assert steps_cnt == len(truth) and abs(with_it - part * steps_cnt) <= 1
    # The example: two calls of the main thread, one after the other, with the usual time between them.
    calls = sorted((x for x in m.lines() if x.get("tid") == steps.MAIN and "duration_us" in x and x["type"] != "gpu"), key=lambda x: x["ts"])
    at = next(i for i, x in enumerate(calls) if x["id"] == evidence["id of the call after the example"])
    assert calls[at - 1]["id"] == evidence["id of the call before an example; 0: none"]
    begin = calls[at - 1]["ts"] + calls[at - 1]["duration_us"] / 1e3
    assert (first["ts"], evidence["of it in such an iteration, median"] / 1e6) == pytest.approx((begin, calls[at]["ts"] - begin), abs=1e-3)
    assert "GIL" not in first["text"] + first["advice"]
    assert (more or "probably prepares that data.") in first["text"] and ("metrics.py:30 Metrics.flush" in first["text"]) == (finding == "other-thread")


@pytest.mark.parametrize("program", [steps.LOCKED, steps.LOCKED_LONGER], ids=["short", "longer"])
def test_lock(tmp_path, program):
    """Times between calls as long as waits for Python's lock, at three places, and longer ones: the gain is the time that the program takes longer."""
    m, ready = steps.Machine().run(program, STEPS), steps.Machine(prepare=0).run(program, STEPS)
    lines = m.lines()
    report = report_of(tmp_path, lines)
    first = report["findings"][0]
    assert first["id"] == "python-lock" and not finding_of(report, "data-loading", "other-thread", "idle-between", "launch-bound")
    # All other times stay: those that are no waits, and the first step.
    evidence = {x["what"]: x["number"] for x in first["evidence"]}
    calls = sorted((x for x in lines if x.get("tid") == steps.MAIN and "duration_us" in x and x["type"] != "gpu"), key=lambda x: x["ts"])
    ends = [x["ts"] + x["duration_us"] / 1e3 for x in calls]
    begin = [0, *(x[2] / 1e6 for x in m.ends)][STEPS - report["step"]["steps"]]
    waits = [b["ts"] - end for end, b in zip(ends, calls[1:]) if end >= begin - 0.01 and b["ts"] - end > 5]
    longer = sum(x >= 20 for x in waits)
    assert evidence["times between calls as long as waits for the lock"] == len(waits) - longer and evidence["places of these times"] == 3
    assert evidence["longer times, probably of several waits"] == longer and (longer > 0) == (program is steps.LOCKED_LONGER)
    assert first["confidence"] == (0.6 if 2 * sum(x for x in waits if x >= 20) > sum(waits) else 0.8)
    assert evidence["of the time of all iterations"] == pytest.approx(sum(waits) / (m.ends[-1][2] / 1e6 - begin), rel=0.01)
    steps_of = {sum(x[2] / 1e6 < b["ts"] - 0.001 for x in m.ends) for end, b in zip(ends, calls[1:]) if end >= begin - 0.01 and b["ts"] - end > 5}
    assert evidence["iterations with this time"] == len(steps_of) <= evidence["iterations after the warm-up"]
    assert abs(first["lost_ns"] / 1e6 - sum(waits)) <= 0.02 * sum(waits) and sum(waits) < (m.ends[-1][2] - ready.ends[-1][2]) / 1e6
    assert "as before cuLaunchKernel in model.py:" in first["text"].replace("such ", "")
    # Without frames it may be any program.
    lines = [{k: v for k, v in x.items() if k != "stack"} for x in lines if x["type"] != "stack"]
    assert not finding_of(report_of(tmp_path, lines), "python-lock")


def test_lock_and_loading(tmp_path):
    """Long times in which a library loads data are no waits for the lock."""
    m = steps.Machine().run(steps.waits_and_loads, STEPS)
    found = {x["id"]: {e["what"]: e["number"] for e in x["evidence"]} for x in finding_of(report_of(tmp_path, m.lines()), "python-lock", "data-loading")}
    assert found["python-lock"]["longer times, probably of several waits"] == 0
    assert found["data-loading"]["of it in such an iteration, median"] == pytest.approx(23e6, rel=0.01)


@pytest.mark.parametrize("every", [4, 10, 48])
def test_loading_without_waits(tmp_path, every):
    """The steps that the report finds may be several of the program's."""
    program, cnt = steps.waits_seldom(every), 48
    m, ready = steps.Machine().run(program, cnt), steps.Machine(prepare=0).run(program, cnt)
    first = report_of(tmp_path, m.lines())["findings"][0]
    truth = m.ends[-1][2] - ready.ends[-1][2]
    assert first["id"] == "data-loading" and abs(first["lost_ns"] - truth) <= 0.1 * truth
    assert not finding_of(report_of(tmp_path, ready.lines()), "data-loading")


@pytest.mark.parametrize("program", [*steps.NOT_LOADING, steps.host_between, steps.late_thread, steps.sleeps, steps.UNLOCKED], ids=lambda x: x.__name__)
def test_not_loading(tmp_path, program):
    report = report_of(tmp_path, steps.Machine().run(program, STEPS).lines())
    assert not finding_of(report, "data-loading", "other-thread", "python-lock")


@pytest.mark.parametrize("program", [x[0] for x in steps.LOADING], ids=lambda x: x.__name__)
def test_loading_without_frames(tmp_path, program):
    """Without --python, a copy after the time still shows it; other threads and places are not known. Without GPU times, it is not known either
    whether the GPU has work meanwhile."""
    lines = [{k: v for k, v in x.items() if k != "stack"} for x in steps.Machine().run(program, STEPS).lines() if x["type"] != "stack"]
    found = finding_of(report_of(tmp_path, lines), "data-loading", "other-thread")
    assert [(x["id"], ".py" in x["text"]) for x in found] == ([] if program == steps.thread_works else [("data-loading", False)])
    assert not finding_of(report_of(tmp_path, [x for x in lines if x["type"] != "gpu"]), "data-loading", "other-thread")
