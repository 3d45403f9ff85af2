# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 25
"""cudatrace report --format=pprof, read by a decoder of its own: each reference must resolve, and sums must equal those of the
report and of the trace's lines."""
import collections
import json
import os
import re
import shutil
import subprocess

import pytest
from helpers.pprof import TYPES, Profile
from helpers.run import FAKE, TESTS, cudatrace, needs_tracing

TOKENS = TESTS + "/golden/h200-gpt2-tokens.jsonl"
CORPUS = TESTS + "/corpus/"
def profile(folder, *traces):
    to = folder / "out.pb.gz"
    ran = cudatrace("report", "-q", "--format=pprof", "-o", to, *traces)
    assert ran.status == 0, ran
    return Profile(to.read_bytes())


def report(*traces):
    ran = cudatrace("report", "-q", "--format=json", "--top", 100000, *traces)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def lines(path):
    return map(json.loads, subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout.splitlines())


@pytest.mark.parametrize("name", ["gpt2-eager", "ranks-2", "vllm-graphs", "vllm-nodes"])
def test_sums(tmp_path, name):
    """All sums must be exact: to the nanosecond, to the call."""
    path = f"{CORPUS}{name}.jsonl.zst"
    p, r = profile(tmp_path, path), report(path)
    assert dict(p.types) == TYPES and p.default == "gpu_time" and (p.period_type, p.period) == (("calls", "count"), 1)
    assert p.rows == p.keys
    assert "rejected" not in r
    of = r["overview"]
    assert {t: p.total(t) for t in TYPES} == {
        "host_time": of["call_ns"], "wait_time": sum(f["total_ns"] for f in r["waits"]["functions"]), "calls": of["calls"], "launches": of["launches"],
        "graph_launches": of["graph_launches"], "executions": r["gpu"]["executions"],
        "gpu_time": sum(x["total_ns"] for x in (*r["gpu"]["kernels"], *r["gpu"]["copies"], *(r["gpu"][k] for k in ("memset", "graphs") if k in r["gpu"]))),
        "alloc_space": sum(k["alloc_bytes"] for k in r["memory"]["kinds"] if k["kind"] not in ("reserved", "ipc", "registered", "external"))}
    gpu = p.by_leaf("gpu_time")
    assert {k: v for k, v in gpu.items() if k[0] != "["} == {k["name"]: k["total_ns"] for k in r["gpu"]["kernels"]}
    assert {k["name"]: k["count"] for k in r["kernels"]["list"] if k["count"] and k.get("name")}.items() <= p.by_leaf("launches").items()
    # The same from the lines of the trace.
    want, calls, launched = collections.Counter(), 0, collections.Counter()
    for x in lines(path):
        if x["type"] == "gpu" and x["op"] == "kernel":
            want[x["kernel"]] += round(x["duration_us"] * 1000)
        calls += "symbol" in x
        if "symbol" in x and x["type"] == "kernel" and x["op"] == "launch" and "error" not in x and not x.get("capturing"):
            launched[x.get("kernel")] += 1
    assert want == collections.Counter({k: v for k, v in gpu.items() if k[0] != "["}) and calls == p.total("calls")
    assert launched.total() == p.total("launches")
    assert p.duration == of["wall_ns"] and p.time > 1.7e18
    assert not p.comments or r["complete"] is False or r["chosen"]


@pytest.mark.parametrize("name", ["gpt2-eager", "vllm-nodes"])
def test_go_tool_pprof(tmp_path, name):
    """Go's reader must show the report's GPU time of each kernel, to the nanosecond."""
    if not shutil.which("go"):
        pytest.skip("go tool pprof: needs golang-go")
    path = f"{CORPUS}{name}.jsonl.zst"
    profile(tmp_path, path)
    text = subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0", "-unit=ns", "-sample_index=gpu_time",
                           tmp_path / "out.pb.gz"], capture_output=True, check=True, text=True, env={**os.environ, "HOME": str(tmp_path)}).stdout
    shown = {m[2]: int(m[1]) for m in re.finditer(r"^ *([0-9]+)ns(?: +\S+){4}  (.*)$", text, re.M) if m[2][0] != "["}
    assert shown == {k["name"]: k["total_ns"] for k in report(path)["gpu"]["kernels"]} and len(shown) > 10, text[:2000]


def test_frames_and_labels(tmp_path):
    """The stack is kernel, CUDA function, operator, Python functions with file and line."""
    p = profile(tmp_path, CORPUS + "gpt2-eager.jsonl.zst")
    labels = {"process", "process_name", "thread", "thread_name", "stage"}
    assert all(labels <= set(x) <= labels | {"device", "stream", "iteration"} for _, _, x in p.samples)
    assert all("device" in x for _, v, x in p.samples if v["gpu_time"])
    frames, _, _ = max((s for s in p.samples if s[1]["gpu_time"]), key=lambda s: len(s[0]))
    assert re.match("cu(da)?(Launch|Mem|Graph)", frames[1][0]), frames
    assert frames[2][0].startswith("aten::") and frames[2][1] == "" and not frames[2][2], frames
    assert all(file.endswith(".py") and line for _, file, line in frames[3:-1]) and len(frames) > 10, frames


@pytest.mark.parametrize("name", ["gpt2-eager", "train", "graph-loop", "vllm-graphs"])
def test_iterations(tmp_path, name):
    """An iteration's launches are those of the lines between its begin and end, of all threads of the process."""
    path = f"{CORPUS}{name}.jsonl.zst"
    p, iters = profile(tmp_path, path), report(path)["iterations"]
    of = collections.Counter()
    for _, v, labels in p.samples:
        of[labels.get("iteration")] += v["launches"] + v["graph_launches"]
    if name == "vllm-graphs":  # slices are longer than its steps
        assert set(of) == {None}
        return
    starts = [x["ts"] for x in lines(path) if x["type"] in ("kernel", "graph") and x.get("op") == "launch" and "symbol" in x and not x.get("capturing")]
    want = [sum(it["ts"] <= x < it["ts"] + it["time_ns"] / 1e6 for x in starts) for it in iters["list"]]
    assert [of[i] for i in range(1, len(want) + 1)] == want and min(want)


def test_deterministic(tmp_path):
    once = []
    for _ in range(2):
        profile(tmp_path, CORPUS + "ranks-2.jsonl.zst")
        once.append((tmp_path / "out.pb.gz").read_bytes())
    assert once[0] == once[1]


def test_hostile_names(tmp_path):
    """Names are data: they must become text of one line."""
    evil = tmp_path / "evil.jsonl"
    with open(TOKENS, "rb") as f:
        evil.write_bytes(re.sub(rb'"kernel":"[^"]*"', rb'"kernel":"a\\nb\\u0001\\u001b[2J\\u202e"', f.read()))
    p = profile(tmp_path, evil)
    assert any(s.startswith("a?b?") for s in p.strings), p.strings
    assert not [s for s in p.strings if re.search("[\0-\x1f\x7f\u202e]", s)]


def test_incomplete(tmp_path):
    """Only a trace with losses has a comment that reports them."""
    comments = profile(tmp_path, CORPUS + "dropped.jsonl.zst").comments
    assert comments and comments[0].startswith("incomplete: the trace lacks "), comments
    with open(TOKENS, encoding="utf-8") as f:
        (tmp_path / "cut.jsonl").write_text("".join(list(f)[:-1]), encoding="utf-8")
    assert profile(tmp_path, tmp_path / "cut.jsonl").comments[0].startswith("incomplete: ")
    assert not [c for c in profile(tmp_path, TOKENS).comments if c.startswith("incomplete")] or not report(TOKENS)["complete"]


def test_without_gpu_times(tmp_path):
    """The default is then host time."""
    p = profile(tmp_path, TOKENS)
    assert p.default == ("gpu_time" if p.total("gpu_time") else "host_time") and p.total("calls") == report(TOKENS)["overview"]["calls"]


def test_limit(tmp_path):
    """Rows beyond the limit must be in one sample, so that sums stay exact, and a comment must report them."""
    with open(TOKENS, encoding="utf-8") as f:
        header, *rest = f.read().splitlines()
    launch = next(x for x in map(json.loads, rest) if x.get("op") == "launch" and x["type"] == "kernel")
    count, ns = 140000, 1000
    with open(tmp_path / "many.jsonl", "w", encoding="utf-8") as f:
        print(header, file=f)
        for i in range(count):
            launch |= {"ts": round(1 + i * 2e-3, 6), "id": i + 1, "duration_us": ns / 1000, "kernel": f"k{i}"}
            launch.pop("kernel_mangled", None)
            print(json.dumps(launch), file=f)
    p = profile(tmp_path, tmp_path / "many.jsonl")
    assert p.total("calls") == p.total("launches") == count and p.total("host_time") == count * ns
    rest = [(frames, v, labels) for frames, v, labels in p.samples if frames[0][0].startswith("[not kept")]
    assert len(rest) == 1 and not rest[0][2] and rest[0][1]["calls"] == count - 131072 and len(p.samples) == 131073, rest
    assert re.match("incomplete: .*rows of a pprof profile", p.comments[0]), p.comments


def test_live(tmp_path):
    """--report FILE.pb.gz of a trace is the same form, and has the same calls as the trace. A name that is not UTF-8 becomes text."""
    needs_tracing()
    program = shutil.copy(FAKE + "/sample", tmp_path / os.fsdecode(b"s\xff\nq"))
    trace, to = tmp_path / "t.jsonl", tmp_path / "t.pb.gz"
    ran = cudatrace("-q", "--no-summary", "--jsonl", trace, "--report", to, "--", program, "--tokens", 10, env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    p = Profile(to.read_bytes())
    assert {x["process_name"] for _, _, x in p.samples} == {"s??q"}
    with open(trace, encoding="utf-8") as f:
        calls = sum("symbol" in json.loads(line) for line in f)
    assert p.total("calls") == calls > 100
