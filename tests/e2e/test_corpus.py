# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Reports of real traces (tests/corpus) against an independent reader (tests/oracle), and against the programs' own logs."""
import collections
import contextlib
import glob
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import late  # noqa: E402
import oracle  # noqa: E402

TRACES = sorted(os.path.basename(x).split(".")[0] for x in glob.glob(f"{TESTS}/corpus/*.jsonl.zst"))


@pytest.fixture(scope="module")
def reports():
    """The report of a trace, made at the first request."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = json.loads(subprocess.run([os.environ["CUDATRACE"], "report", "--format=json", f"{TESTS}/corpus/{name}.jsonl.zst"],
                                                   check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout)
        return made[name]
    return get


def log_of(name):
    with open(f"{TESTS}/corpus/{name}.log.json", encoding="utf-8") as f:
        return json.load(f)


@pytest.mark.parametrize("name", TRACES)
def test_numbers(reports, name):
    d = oracle.check(oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst"), reports(name))
    assert d.compared > 300
    assert not d, "\n".join(d[:20])


def test_a_wrong_number_is_found(reports):
    """The oracle must find a wrong number in a report."""
    report, lines = reports("graph-loop"), oracle.read(f"{TESTS}/corpus/graph-loop.jsonl.zst")
    for change in (lambda r: r["overview"]["functions"][0].update(total_ns=r["overview"]["functions"][0]["total_ns"] + 1000),
                   lambda r: r["gpu"]["devices"][0].update(busy_ns=r["gpu"]["devices"][0]["busy_ns"] * 1.001),
                   lambda r: r["waits"].update(share=1.2),
                   lambda r: r["stages"]["ratio"].update(outside_ns=0)):
        wrong = json.loads(json.dumps(report))
        change(wrong)
        assert oracle.check(lines, wrong)


STEPS = ["gpt2-eager", "gpt2-graph", "gpt2-graph-nodes", "train", "convolutions", "graph-loop", "copies-beside"]


@pytest.mark.parametrize("name", STEPS)
def test_iterations_are_the_programs_steps(reports, name):
    """The number and length of iterations must match the program's log."""
    steps = [b - a for a, b in log_of(name)["steps"]]
    its = reports(name)["iterations"]
    assert its["count"] == len(steps)
    assert its["confidence"] > 0.65
    assert abs(its["time_ns"]["median"] - sorted(steps)[len(steps) // 2]) < 0.05 * its["time_ns"]["median"]


@pytest.mark.parametrize("old,new", [("gpt2-eager", "gpt2-graph"), ("gpt2-graph", "train"), ("convolutions", "graph-loop"), ("gpt2-graph", "gpt2-graph")])
def test_speed(old, new):
    """The verdict of a diff must follow from the steps that the programs measured themselves."""
    got = json.loads(subprocess.run([os.environ["CUDATRACE"], "diff", "--json", *(f"{TESTS}/corpus/{x}.jsonl.zst" for x in (old, new))],
                                    check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout)["speed"]
    medians = [sorted(b - a for a, b in log_of(x)["steps"])[len(log_of(x)["steps"]) // 2] for x in (old, new)]
    assert got["of"] == "an iteration (median)"
    assert [got["before_ns"], got["after_ns"]] == pytest.approx(medians, rel=0.05)
    assert got["verdict"] == ("same" if old == new else "faster" if medians[1] < medians[0] else "slower")


def test_replayed_layers(reports):
    """GPU time of a replayed graph must be in the layers that captured it. The twelve blocks have equally many launches."""
    lines, nodes = oracle.read(f"{TESTS}/corpus/gpt2-graph-nodes.jsonl.zst"), reports("gpt2-graph-nodes")["map"]["nodes"]
    stacks = {x["id"]: [f["function"] for f in x["python"]] for x in lines if x["type"] == "stack"}
    captured = [c for c in lines if "symbol" in c and c.get("capturing")]
    mine = [i for i, c in enumerate(captured) if "GPT2Block.forward" in stacks.get(c.get("stack"), [])]
    layer = {place: k * 12 // len(mine) for k, place in enumerate(mine)}
    want = collections.Counter()
    for x in lines:
        if x["type"] == "gpu" and x.get("graph_node", 0) & 0xffffffff in layer and "graph_node" in x:
            want[layer[x["graph_node"] & 0xffffffff]] += oracle.span(x)[1] - oracle.span(x)[0]
    got = {n["number"]: n["gpu_ns"] for n in nodes if n["name"] == "GPT2Block.forward" and "number" in n and not n["calls"]}
    assert len(mine) % 12 == 0 and got == dict(want)
    whole = next(n for n in nodes if n["name"] == "cuGraphLaunch" and "gpu_ns" in n)
    assert sum(got.values()) > 0.85 * whole["gpu_ns"]


@pytest.mark.parametrize("name", ["vllm-graphs", "vllm-nodes"])
def test_serving_steps(reports, name):
    """While requests were served, the steps must be those that vLLM's scheduler gave to its worker, with their tokens and phases."""
    log, steps = log_of(name), reports(name)["serving"]["list"]
    begin, end, _ = log["rounds"][0]
    base = oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst")[0]["clock_base_ns"]
    mine = [x for x in steps if begin <= x["ts"] * 1e6 + base <= end]
    made = [x for x in log["steps"] if begin <= x["at"] <= end]
    assert len(mine) == len(made) > 190
    assert sum(x["tokens"] == y["tokens"] for x, y in zip(mine, made)) >= 0.95 * len(made)
    assert sum((x["phase"] == "decode") == (y["tokens"] == y["sequences"]) for x, y in zip(mine, made)) >= 0.95 * len(made)


@pytest.mark.parametrize("name,ranks", [("ranks-2", 2), ("ranks-4", 4)])
def test_ranks(reports, name, ranks):
    """Each rank must have its number in the job, not in a communicator of some ranks, and its own steps."""
    with contextlib.ExitStack() as stack:
        logs = [json.load(stack.enter_context(open(f"{TESTS}/corpus/{name}.log.json.{i}", encoding="utf-8"))) for i in range(ranks)]
    rows = {x["pid"]: x for x in reports(name)["compared"]}
    for log in logs:
        steps = sorted(b - a for a, b in log["steps"])
        row = rows.pop(log["pid"])
        assert (row["rank"], row["iterations"]) == (log["rank"], len(steps))
        assert abs(row["iteration_ns"] - steps[len(steps) // 2]) < 0.05 * row["iteration_ns"]
    assert not rows
    assert reports(name)["iterations"]["confidence"] > 0.9
    # The last rank sleeps 5 ms in each tenth step; a hiccup of the machine may be among the steps, too.
    found, = (x for x in reports(name)["findings"] if x["id"] == "late-rank")
    lines = oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst")
    by, episodes = late.typical(late.episodes(lines, *late.steady(reports(name)))[logs[-1]["pid"]])
    assert 4.9 < by < 6 and len(logs[-1]["late"]) == 10 <= len(episodes) <= 11
    assert found["text"].startswith(f"Global rank {ranks - 1} was late {len(episodes)} times, typically by {by:.2f} ms"), found["text"]
    # The gain is that of the replay, and cannot be more than all these times.
    row, = (x for x in reports(name)["step"]["what_if"] if x["change"] == f"on-time:{ranks - 1}")
    assert found["replayed"] and found["lost_ns"] == pytest.approx(row["saved_share"] * reports(name)["verdict"]["run_ns"], rel=0.01)
    assert 0.7 * sum(x[2] for x in episodes) * 1e6 < found["lost_ns"] < sum(x[2] for x in episodes) * 1e6
    # The collective that takes most of the step, and where it is called.
    parts = [x for x in reports(name)["step"]["list"][0]["parts"] if x["kind"] == "communication"]
    place = f", longest in {parts[0]['name'].split('(')[0]} of distributed_c10d.py:{parts[0]['line']} {parts[0]['function']}." if parts else "."
    assert [x["text"].endswith(place) for x in reports(name)["findings"] if x["id"] == "communication-alone"] in ([], [True])
    assert parts or name == "ranks-2"


def test_a_kernel_that_does_not_end(reports):
    """A kernel that does not end must be the first finding, with the place where the time went (W2 in the list of defects)."""
    report = reports("endless")
    assert report["findings"][0]["id"] == "unfinished-wait"
    assert report["longest"][0]["unfinished"]
    assert report["stages"]["ratio"]["sync_ns"] > 0.9 * report["overview"]["wall_ns"]


def test_what_is_missing(reports):
    assert reports("dropped")["overview"]["dropped"] == 129393
    for name in TRACES:
        r = reports(name)
        lost = {x["id"]: x["count"] for x in r["lost"]}
        assert r["complete"] == r["overview"]["complete"] == (not lost) == (name not in ("dropped", "full-disk")), (name, lost)
    assert {x["id"]: x["count"] for x in reports("dropped")["lost"]}["calls"] == 129393
    assert {x["id"]: x["count"] for x in reports("full-disk")["lost"]} == {"lines": 2358}


def test_names_of_costs(reports):
    """Functions in the table of overhead must have the names that c++filt gives them."""
    costs = [x for name in TRACES for x in reports(name)["overview"].get("costs", [])]
    mangled = [x for x in costs if x["symbol"].startswith("_Z")]
    said = subprocess.run(["c++filt"], input="\n".join(x["symbol"] for x in mangled), text=True, stdout=subprocess.PIPE, check=True).stdout.split("\n")
    assert len(mangled) > 5 and [x["name"] for x in mangled] == said
    assert not [x for x in costs if "name" in x and x not in mangled]


@pytest.mark.parametrize("name, members, old, new", [("out-of-memory", ("name", "symbol"), "cuMem", 'cuMem"x\n'), ("out-of-memory", ("name", "symbol"), "cuMem", 'cu","forged":"'),
                                                     ("gpt2-graph", ("c_type",), "CUDA_R_16F", "x"), ("gpt2-graph", ("c_type",), "CUDA_R_16F", "")])
def test_hostile_words(tmp_path, name, members, old, new):
    """Words that cudatrace never writes, in a trace of somebody else, must not change the structure of the report."""
    path = tmp_path / "hostile.jsonl"
    lines = oracle.read(f"{TESTS}/corpus/{name}.jsonl.zst")
    hits = [x for x in lines if old in x.get(members[0], "")]
    for x in hits:
        x.update({k: x[k].replace(old, new) for k in members})
    path.write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
    assert len(hits) > 5
    for how in "json", "chrome", "markdown":
        said = subprocess.run([os.environ["O"] + "/san/cudatrace", "report", "-q", f"--format={how}", path], check=True, stdout=subprocess.PIPE).stdout
        assert how == "markdown" or (json.loads(said) and b'"forged":' not in said)
