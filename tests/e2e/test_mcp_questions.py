# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 15
"""cudatrace mcp: ten questions about real traces, each answered by the server and computed from the lines of the trace."""
import collections
import json
import os

from helpers.mcp_server import VERSION, Server, duration_us, events_of, layer, lines_of
from helpers.run import TESTS

CORPUS = TESTS + "/corpus/"
TOKENS, MEMORY = TESTS + "/golden/h200-gpt2-tokens.jsonl", TESTS + "/golden/h200-gpt2-memory.jsonl"
TRAIN, EAGER, GRAPH, OOM = (CORPUS + name + ".jsonl.zst" for name in ("train", "gpt2-eager", "gpt2-graph", "out-of-memory"))


def top(counter):
    return max(counter.items(), key=lambda kv: kv[1])


def kernel_with_most_gpu_time(s, e):
    row = s.ask("section", file=TRAIN, name="gpu.kernels", rows=1, columns=["name", "total_ns"])["rows"][0]
    want = collections.Counter()
    for x in e(TRAIN):
        if x["type"] == "gpu" and x["op"] == "kernel":
            want[x["kernel"]] += round(x["duration_us"] * 1000)
    return (row["name"], row["total_ns"]), top(want)


def layer_with_most_gpu_time(s, e):
    """With what is nested in it, as the report has it."""
    row = s.ask("section", file=TRAIN, name="operators.list", order="gpu_ns", rows=1, columns=["name", "gpu_ns"])["rows"][0]
    operators = {x["id"]: x for x in e(TRAIN) if x["type"] == "operator"}
    want = collections.Counter()
    for x in e(TRAIN):
        names, at = set(), operators.get(x.get("operator_id"))
        while x["type"] == "gpu" and at:
            names.add(at["name"])
            at = operators.get(at.get("parent"))
        for name in names:
            want[name] += round(x["duration_us"] * 1000)
    return (row["name"], row["gpu_ns"]), top(want)


def slowest_step(s, e):
    row = s.ask("section", file=EAGER, name="iterations.list", order="time_ns", rows=1, columns=["ts", "time_ns"])["rows"][0]
    with open(CORPUS + "gpt2-eager.log.json", encoding="utf-8") as f:
        steps = json.load(f)["steps"]
    base = lines_of(EAGER)[0]["clock_base_ns"]
    slow = max(range(len(steps)), key=lambda i: steps[i][1] - steps[i][0])
    got = min(range(len(steps)), key=lambda i: abs(steps[i][0] - base - row["ts"] * 1e6))
    return got, slow


def what_that_step_did(s, e):
    row = s.ask("section", file=EAGER, name="iterations.list", order="time_ns", rows=1, columns=["ts", "time_ns"])["rows"][0]
    begin, end = row["ts"], row["ts"] + row["time_ns"] / 1e6
    rows = s.ask("events", file=EAGER, from_ms=begin, to_ms=end, layer="cuda", group="function", rows=1)["rows"]
    want = collections.Counter()
    for x in e(EAGER):
        if layer(x) == "cuda" and begin <= x["ts"] < end:
            want[x["name"]] += round(duration_us(x) * 1000)
    return (rows[0]["function"], round(rows[0]["total_us"] * 1000)), top(want)


def who_allocated(s, e):
    """The line of Python that holds most memory when it runs out."""
    row = s.ask("section", file=OOM, name="failure.holders", rows=1, columns=["place", "bytes"])["rows"][0]
    stacks = {x["id"]: x["python"][0] for x in lines_of(OOM) if x["type"] == "stack"}
    live = {}
    for x in e(OOM):
        if x["type"] == "memory" and x["op"] == "alloc" and not x["result"]:
            frame = stacks[x["stack"]]
            live[x["ptr"]] = (f'{os.path.basename(frame["file"])}:{frame["line"]} {frame["function"]}', x["size"])
        elif x["type"] == "memory" and x["op"] == "free":
            live.pop(x["ptr"], None)
    want = collections.Counter()
    for place, size in live.values():
        want[place] += size
    return (row["place"], row["bytes"]), top(want)


def bytes_to_the_gpu(s, e):
    row = s.ask("section", file=MEMORY, name="transfers.directions", rows=1, columns=["direction", "bytes"])["rows"][0]
    return (row["direction"], row["bytes"]), ("HtoD", sum(x["size"] for x in e(MEMORY) if x["type"] == "transfer" and x.get("direction") == "HtoD"))


def peak_of_memory(s, e):
    row = s.ask("section", file=MEMORY, name="memory", columns=["peak_bytes"])["rows"][0]
    sizes, now, peak = {}, 0, 0
    for x in sorted(e(MEMORY), key=lambda x: x["ts"]):
        if x["type"] == "memory" and x["op"] == "alloc":
            sizes[x["ptr"]] = x["size"]
            now += x["size"]
        elif x["type"] == "memory" and x["op"] == "free":
            now -= sizes.pop(x["ptr"], 0)
        peak = max(peak, now)
    return row["peak_bytes"], peak


def failed_calls(s, e):
    rows = s.ask("section", file=TOKENS, name="overview.functions", order="errors", rows=1, columns=["name", "errors"])["rows"][0]
    return (rows["name"], rows["errors"]), top(collections.Counter(x["name"] for x in e(TOKENS) if "error" in x))


def launches_before_and_after(s, e):
    rows = s.ask("diff", old=EAGER, new=GRAPH, rows=10, columns=["name", "count_before", "count_after"])["rows"]
    row = next(row for row in rows if row["name"] == "kernel launches")
    return (row["count_before"], row["count_after"]), tuple(
        sum(x["type"] == "kernel" and x["op"] == "launch" and "capturing" not in x for x in e(t)) for t in (EAGER, GRAPH))


def longest_call(s, e):
    row = s.ask("section", file=TRAIN, name="longest", rows=1, columns=["name", "duration_ns"])["rows"][0]
    return (row["name"], row["duration_ns"]), max(((x["name"], round(x["duration_us"] * 1000)) for x in e(TRAIN) if "symbol" in x), key=lambda x: x[1])


QUESTIONS = [kernel_with_most_gpu_time, layer_with_most_gpu_time, slowest_step, what_that_step_did, who_allocated, bytes_to_the_gpu, peak_of_memory, failed_calls,
             launches_before_and_after, longest_call]


def test_ten_questions():
    """All right, with at most 20 kB, the list of tools included."""
    cache = {}

    def events(path):
        return cache.setdefault(path, events_of(path))
    with Server(TRAIN, EAGER, GRAPH, OOM, TOKENS, MEMORY) as s:
        s.request("initialize", protocolVersion=VERSION)
        s.request("tools/list")
        for question in QUESTIONS:
            got, want = question(s, events)
            assert got == want, question.__name__
        print(f"{s.read} bytes read")
        assert s.read <= 20000 and len(QUESTIONS) == 10
        assert s.end() == (0, "")
