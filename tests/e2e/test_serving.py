# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 40
"""report --serving on a traced engine with continuous batching (tests/serving/engine.py). Each step must have the tokens, sequences,
launches and graph that the engine logged, for all ways to launch, wait and compute logits. Also attached late, and without
arguments."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import Running
from helpers.run import CC, CUDATRACE, FAKE, O, TESTS, Ran, cudatrace, needs_tracing, until

sys.path.insert(0, TESTS + "/oracle")
import oracle  # noqa: E402
import parts  # noqa: E402
from power import IDLE_W, Powered  # noqa: E402

ENGINE = TESTS + "/serving/engine.py"
CUBLAS = ["--detail=normal", "-e", "cublas"]


@pytest.fixture(scope="module")
def libraries():
    """A private libcuda: other programs are traced meanwhile."""
    folder = os.environ["TMP"] + "/serving"
    os.makedirs(folder, exist_ok=True)
    shutil.copy(FAKE + "/libcuda.so.1", folder)
    subprocess.run([*CC, "-O1", "-w", "-fPIC", "-shared", "-Wl,-soname,libcublas.so.13", f"-L{FAKE}", "-o", folder + "/libcublas.so.13", TESTS + "/serving/libcublas.c", "-lcuda"], check=True)
    return folder


def command(folder, *args):
    return [sys.executable, ENGINE, folder + "/libcuda.so.1", folder + "/libcublas.so.13", *args]


def environment(folder, **more):
    return {"LD_LIBRARY_PATH": f"{folder}:{O}/cupti", "FAKE_KERNEL_US": "2", **more}


class Served:
    def __init__(self, tmp_path, folder, *args, options=CUBLAS, **env):
        needs_tracing()
        self.trace = str(tmp_path / "t.jsonl")
        ran = Ran([CUDATRACE, "-q", "--probe=uprobe", *options, "--jsonl", self.trace, "--", *command(folder, *args)], timeout=120, env=environment(folder, **env))
        assert ran.status == 0, ran
        self.truth = json.loads(ran.out)

    def report(self, *args):
        ran = cudatrace("report", "--format=json", *args, self.trace)
        assert ran.status == 0, ran
        return json.loads(ran.out)

    def text(self, *args):
        ran = cudatrace("report", *(args or ["--full"]), self.trace)
        assert ran.status == 0, ran
        return re.sub(r"\s+", " ", ran.out)


def rows(serving):
    return [(x["phase"], x.get("tokens"), x.get("batch"), bool(x["graphs"]), x["launches"]) for x in serving["list"]]


def wanted(truth, all_logits=False):
    return [(x["phase"], x["tokens"], None if all_logits and x["phase"] == "prefill" else x["batch"], bool(x["graph"]), x["launches"]) for x in truth["steps"]]


@pytest.mark.parametrize("args", [
    [], ["--f32"], ["--graphs", "1,2,4,8"], ["--f32", "--graphs", "2,4"], ["--async"], ["--async", "--f32"], ["--async", "--graphs", "1,2,4,8"],
    ["--async", "--f32", "--graphs", "1,2,4,8"], ["--waits"], ["--all-logits"],
], ids=lambda a: " ".join(a) or "plain")
def test_steps(tmp_path, libraries, args):
    """Every step must match the engine's log."""
    if "--waits" in args:
        args = ["--waits", "--f32"]
    s = Served(tmp_path, libraries, *args)
    r = s.report()["serving"]
    assert rows(r) == wanted(s.truth, "--all-logits" in args)
    assert r["found"] and r["tokens_are"] == "n" and r["tokens_confidence"] > 0.9
    assert r["phases_by"] == ("tokens" if "--all-logits" in args else "logits") and r["phases_confidence"] > 0.8
    steps = s.truth["steps"]
    assert (r["steps"], r["prefill"]["count"], r["decode"]["count"]) == (len(steps), 4, len(steps) - 4)
    assert r["all"]["tokens"] == sum(x["tokens"] for x in steps) and r["requests"]["at_least"] <= s.truth["requests"] == 8
    decode = sorted(x["batch"] for x in steps if x["phase"] == "decode")
    assert r["batch"] == {"min": decode[0], "median": decode[(len(decode) - 1) // 2], "max": decode[-1]}
    m = r["memory"]
    assert m["weights_bytes"] == s.truth["weight_bytes"] and m["stays_bytes"] == s.truth["weight_bytes"] + s.truth["cache"] + (1 << 20)
    assert (m["weights"], m["weights_blocks_bytes"], m["cache_bytes"], m["cache_blocks"], m["other_bytes"]) == (
        s.truth["weights"], s.truth["weight_bytes"], s.truth["cache"], 1, 1 << 20)
    sizes = {}
    for x in steps:
        if x["graph"]:
            sizes[x["graph"]] = sizes.get(x["graph"], 0) + 1
    assert {x["tokens"]: x["replays"] for x in r["graphs"]["sizes"]} == sizes
    assert r["graphs"]["padded"] == sum(bool(x["graph"]) and x["graph"] > x["batch"] for x in steps)
    text = s.text()
    assert f"Serving: {len(steps)} steps of the model" in text and "n of the matrix products is the number of tokens" in text


@pytest.mark.parametrize("args", [["--graphs", "1,2,4,8"], ["--async", "--f32"]], ids=" ".join)
def test_sums(tmp_path, libraries, args):
    """Each number must be recomputed from the lines (tests/oracle/parts.py), or be in a list with the reason; each unlisted number must
    matter."""
    s = Served(tmp_path, libraries, *args, options=[*CUBLAS, "--gpu-time"])
    lines, report = oracle.read(s.trace), s.report()
    found = parts.check_serving(lines, report)
    assert not found and len(found.members) > 45
    assert not parts.unknown(found, report["serving"], "serving")
    for section in ("all", "decode", "between", "graphs"):
        for key, value in report["serving"][section].items():
            if f"serving.{section}.{key}" in found.members:
                other = {**report["serving"], section: {**report["serving"][section], key: value + 1 + value // 1000}}
                assert parts.check_serving(lines, {"serving": other}), (section, key)


def test_energy_of_tokens(tmp_path, libraries):
    """Prefill and decode must have the energy that their GPU time cost by a simulated counter, and prices of a million tokens."""
    s = Served(tmp_path, libraries, options=[*CUBLAS, "--gpu-time"], FAKE_KERNEL_US="100")
    lines = oracle.read(s.trace)
    uuid = next(x["uuid"] for x in lines if x["type"] == "gpu_device")
    p = Powered(lines, uuid=uuid)
    s.trace = p.write(tmp_path / "p.jsonl")
    r = s.report("--price-per-kwh=0.3", "--price-per-gpu-hour=2")
    pid, found = r["serving"]["pid"], {x["phase"]: x for x in r["energy"]["serving"]}
    spans = [(x["phase"], round(x["ts"] * 1e6), round(x["ts"] * 1e6 + x["duration_ns"])) for x in r["serving"]["list"] if not x.get("setup")]
    for phase, x in found.items():
        mine = [(a, b) for kind, a, b in spans if kind == phase]
        seconds = sum(b - a for a, b in mine) / 1e9
        assert x["joules"] == pytest.approx(sum(p.used(pid, a, b) for a, b in mine), rel=0.05)
        assert x["idle_joules"] == pytest.approx(IDLE_W * seconds, rel=0.01)
        assert x["tokens"] == sum(t["tokens"] for t in s.truth["steps"] if t["phase"] == phase)
        assert x["token_joules"] == pytest.approx(x["joules"] / x["tokens"], rel=1e-4)
        assert x["energy_cost"] == pytest.approx((x["joules"] + x["idle_joules"]) / 3.6e6 * 0.3 / x["tokens"] * 1e6, rel=1e-4)
        assert x["gpu_cost"] == pytest.approx(seconds / 3600 * 2 / x["tokens"] * 1e6, rel=1e-3)
    assert set(found) == {"prefill", "decode"}
    assert sum(x["joules"] for x in found.values()) == pytest.approx(sum(p.used(pid, a, b) for _, a, b in spans), rel=0.03)
    assert "a token" in s.text("--section=energy")


def test_logits_in_the_graph(tmp_path, libraries):
    """A replay must have its graph's number of tokens. The number of sequences is unknown, which must be reported."""
    s = Served(tmp_path, libraries, "--graphs", "1,2,4,8", "--head", "in")
    got = s.report()["serving"]["list"]
    assert [(x["phase"], x["tokens"], x.get("at_most", False)) for x in got] == [(x["phase"], x["graph"] or x["tokens"], bool(x["graph"])) for x in s.truth["steps"]]
    assert "padded" not in s.text() or not s.report()["serving"]["graphs"]["padded_known"]


def test_late(tmp_path, libraries):
    """If attached after graphs were captured, replays must be found, with their tokens from the product for the logits."""
    needs_tracing()
    running, wait, trace = Running(tmp_path), str(tmp_path / "wait"), str(tmp_path / "late.jsonl")
    try:
        p = subprocess.Popen(command(libraries, "--graphs", "1,2,4,8", "--wait", wait), env={**os.environ, **environment(libraries)}, stdout=subprocess.PIPE, text=True)
        until(lambda: os.path.exists(wait), 60)
        tracer = subprocess.Popen([CUDATRACE, "-q", "--probe=uprobe", *CUBLAS, "--jsonl", trace, "-p", str(p.pid)])
        until(lambda: os.path.exists(trace) and os.path.getsize(trace), 60)
        os.remove(wait)
        truth = json.loads(p.communicate(timeout=60)[0])
        assert tracer.wait(60) == 0
    finally:
        running.end()
    r = json.loads(cudatrace("report", "--format=json", trace).out)["serving"]
    assert [(bool(x["graphs"]), x["launches"]) for x in r["list"]] == [(bool(x["graph"]), x["launches"]) for x in truth["steps"]]
    assert [(x["phase"], x.get("tokens"), x.get("batch")) for x in r["list"]] == [(x["phase"], x["tokens"], x["batch"]) for x in truth["steps"]]
    assert r["old_graphs"] == 1 and 0.7 < r["phases_confidence"] < 0.81 and "captured before the trace" in re.sub(r"\s+", " ", cudatrace("report", "--full", trace).out)


@pytest.mark.parametrize("graphs", [[], ["--graphs", "1,2,4,8"]], ids=["eager", "graphs"])
def test_python(tmp_path, libraries, graphs):
    """Between steps, the report must name the function in which the host was, also before a replay."""
    s = Served(tmp_path, libraries, *graphs, options=[*CUBLAS, "--python=launch,graph,transfer,sync,event"])
    between = s.report("--top", "20")["serving"]["between"]
    first = between["functions"][0]
    assert not any(f.get("to") == "cuGraphLaunch" for f in between["functions"])
    assert (first["in"], first["from"], first["to"]) == ("Engine.step", "Engine.detokenise", "Engine.forward") or sys.version_info < (3, 11)
    assert first["file"].endswith("engine.py") and first["count"] == len(s.truth["steps"]) - 1
    assert "in step: Engine.detokenise, then Engine.forward" in s.text() or sys.version_info < (3, 11)
    # The engine sleeps for 0.7 ms between two steps.
    assert first["total_ns"] >= 0.7e6 * first["count"] and between["median_ns"] >= 0.7e6


def test_gpu_time(tmp_path, libraries):
    s = Served(tmp_path, libraries, "--graphs", "4", options=[*CUBLAS, "--gpu-time"])
    report = s.report()
    kernels = sum(e["duration_us"] for e in Trace(s.trace).ev if e["type"] == "gpu" and e["op"] in ("kernel", "graph")) * 1e3
    r = report["serving"]
    decode = r["decode"]
    assert re.search(rf"a token of .* {decode['launches'] / decode['tokens']:.2f} [^a-z]*[mµn]s [^a-z]*[mµn]s [^a-z]*[mµn]s decode", s.text())
    assert all(x["gpu_ns"] for x in r["list"]) and 0.9 * kernels <= r["all"]["gpu_ns"] <= 1.3 * kernels


def test_findings(tmp_path, libraries):
    def found(*args, **env):
        return {f["id"]: f for f in Served(tmp_path, libraries, *args, **env).report()["findings"]}
    eager = found()
    assert "decode-host-bound" in eager and not {"graphs-not-used", "graphs-padded", "cache-too-small"} & set(eager)
    # Steps that wait for the GPU.
    assert "decode-host-bound" not in found(FAKE_KERNEL_US="1000")
    few = found("--graphs", "1")
    assert few["graphs-not-used"]["lost_ns"] > 0 and "graphs-padded" not in few
    large = found("--graphs", "8")
    assert "graphs-padded" in large and "graphs-not-used" not in large


def test_page(tmp_path, libraries):
    """The page must work for a person (tests/html/drive.py), with hostile function names."""
    bad = '</script><img src=x onerror="window.hacked=1"><!--<script>'
    s = Served(tmp_path, libraries, "--graphs", "2,4", options=[*CUBLAS, "--python=launch,graph,transfer,sync"])
    with open(s.trace, encoding="utf-8") as f:
        text = f.read().replace('Engine.detokenise"', json.dumps(bad)[1:])
    with open(s.trace, "w", encoding="utf-8") as f:
        f.write(text)
    page = str(tmp_path / "t.html")
    assert cudatrace("-q", "report", "--format=html", "-o", page, s.trace).status == 0
    ran = Ran([sys.executable, TESTS + "/html/drive.py", page], timeout=300)
    if ran.status == 77:
        pytest.skip("no Chromium")
    passed = {line[3:].split(" #")[0] for line in ran.out.splitlines() if line.startswith("ok ")}
    assert passed >= {"serving has a section only if there are steps", "matrix products have a row each", "nothing ran that the trace brought", "no element from a name"}, ran.out
    assert bad in json.dumps(s.report()["serving"]["between"]).replace('\\"', '"') or sys.version_info < (3, 11)


def test_no_products(tmp_path, libraries):
    """Without cuBLAS, nothing may be claimed; with --serving, steps and the missing data are reported."""
    s = Served(tmp_path, libraries, options=[])
    assert "serving" not in s.report()
    r = s.report("--serving")["serving"]
    assert not r["found"] and r["steps"] == len(s.truth["steps"]) and not any("tokens" in x for x in r["list"])
    assert "trace with --detail=normal -e cublas" in s.text("--serving") and "Serving" not in s.text()


def test_redacted(tmp_path, libraries):
    s = Served(tmp_path, libraries, options=[*CUBLAS, "--no-args"])
    assert s.report("--serving")["serving"] is None and "Serving:" not in s.text("--serving")
    s = Served(tmp_path, libraries, options=[*CUBLAS, "--no-strings", "--python"])
    r = s.report()["serving"]
    assert rows(r) == wanted(s.truth) and not any("in" in x for x in r["between"]["functions"])


def test_not_serving(tmp_path):
    """The golden traces are of other programs: no serving section may appear."""
    for name in ("h200-gpt2-tokens", "h200-triton"):
        ran = cudatrace("report", "--format=json", f"{TESTS}/golden/{name}.jsonl")
        assert ran.status == 0 and "serving" not in json.loads(ran.out)
    ran = cudatrace("report", "--serving", f"{TESTS}/golden/h200-triton.jsonl")
    assert ran.status == 0 and "Serving: " in ran.out
