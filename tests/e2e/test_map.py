# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""The report's map: each layer of an uninstrumented model, with its work. tests/map/make_trace.py writes a trace with known
numbers; then the same program runs with a mock and is traced."""
import collections
import json
import os
import random
import re
import subprocess
import sys

import pytest
from helpers.run import CUDATRACE, FAKE, TESTS, cudatrace, needs_tracing, until

sys.path.insert(0, TESTS + "/map")
import graph_trace  # noqa: E402
import make_trace  # noqa: E402 (its folder is none of the path)
sys.path.insert(0, TESTS + "/oracle")
import oracle  # noqa: E402
import parts  # noqa: E402

SUMS = "calls", "launches", "host_ns", "wall_ns", "gpu_executions", "gpu_ns", "gpu_busy_ns", "gpu_idle_ns"


class Map:
    def __init__(self, path, *args):
        ran = cudatrace("report", "-q", "--format=json", *args, path)
        assert ran.status == 0, ran
        self.report = json.loads(ran.out)
        self.map = self.report["map"]
        self.nodes = self.map["nodes"]
        for i, n in enumerate(self.nodes):
            n["below"] = []
            if i:
                assert n["parent"] < i
                self.nodes[n["parent"]]["below"].append(n)
        self.adds_up()

    def adds_up(self):
        """No node may have less than its children; the root must agree with the overview."""
        for n in self.nodes:
            for k in SUMS:
                assert n.get(k, 0) >= sum(b.get(k, 0) for b in n["below"]), (n["name"], k)
            if n["kind"] == "kernel":
                assert not n["below"]
        if self.map["rejected"] == 0:
            assert self.nodes[0]["calls"] == self.report["overview"]["calls"]
            assert self.nodes[0]["launches"] == self.report["overview"]["launches"] + self.report["overview"]["graph_launches"]

    def path(self, node):
        out = []
        while "parent" in node:
            out.insert(0, node.get("name"))
            node = self.nodes[node["parent"]]
        return out

    def named(self, name, kind=None):
        return [n for n in self.nodes if n.get("name") == name and kind in (None, n["kind"])]

    def one(self, *names):
        """The node at the end of this path, with any nodes in between."""
        found = [n for n in self.named(names[-1]) if is_part(names, self.path(n))]
        assert len(found) == 1, (names, [self.path(n) for n in found])
        return found[0]


def is_part(part, whole):
    whole = iter(whole)
    return all(p in whole for p in part)


@pytest.fixture
def made(tmp_path):
    def make(**options):
        path = tmp_path / "made.jsonl"
        return path, make_trace.make(path, **options)
    return make


def check_layers(m, want, tokens):
    blocks = sorted(m.named("Block.forward", "python"), key=lambda n: n["number"])
    assert [n["number"] for n in blocks] == [int(k) for k in want["layers"] if k != "None"]
    for n in blocks:
        w = want["layers"][str(n["number"])]
        assert {k: n.get(k, 0) for k in w} == w
        assert n["passes"] == tokens and n["per_iteration"]["launches"] == w["launches"] / tokens
        assert n["wall_ns"] > n["host_ns"]
        attention = [b for b in n["below"] if b["name"] == "Attention.forward"]
        assert len(attention) == 1 and "number" not in attention[0] and attention[0]["launches"] == 6 * tokens
        assert [b["number"] for b in attention[0]["below"] if b["name"] == "Linear.forward"] == [0, 1]


def test_layers(made):
    """Each layer's numbers must be exact to the nanosecond. __call__ is no layer, and library calls are below the layers."""
    path, want = made()
    m = Map(path)
    check_layers(m, want, want["tokens"])
    root = m.nodes[0]
    assert (root["calls"], root["launches"], root["gpu_ns"], root["gpu_busy_ns"], root["gpu_busy_ns"] + root["gpu_idle_ns"]) == \
        (want["calls"], want["launches"], want["gpu_ns"], want["gpu_busy_ns"], want["gpu_span_ns"])
    assert root["gpu_busy_ns"] == sum(d["busy_ns"] for d in m.report["gpu"]["devices"]) and root["bound"] == "gpu"
    assert not [n for n in m.nodes if "_call_impl" in n.get("name", "")]
    assert m.path(m.named("cublasSgemm")[0])[:6] == ["inference", "iterations", "generate", "Model.forward", "Block.forward", "Attention.forward"]
    assert {b["kind"] for n in m.named("cublasSgemm") for b in n["below"]} == {"kernel"}
    assert m.one("iterations")["iterations"] == want["tokens"] and m.map["rejected"] == m.map["early"] == m.map["unknown_executions"] == 0
    # the iterating function has one node, however often it is called
    assert "number" not in m.one("Model.forward") and m.one("Model.forward")["passes"] == want["tokens"]
    assert "number" not in m.one("generate", "cuStreamSynchronize")


def test_first_layer_begins_in_a_branch(made, monkeypatch):
    """The layers must have their numbers if the first one begins in another line, from the second pass through the model on."""
    monkeypatch.setattr(make_trace.layers.Block, "branch", True)
    path, want = made()
    blocks = {n["number"]: n for n in Map(path).named("Block.forward", "python")}
    each, tokens = want["layers"]["0"]["launches"] // want["tokens"], want["tokens"]
    assert {k: n["launches"] for k, n in blocks.items()} == {k: each * (tokens + (k == 0) - (k == 11)) for k in range(12)}


def test_functions(made):
    path, want = made()
    functions = {f["name"]: f for f in Map(path).map["functions"]}
    block, linear = functions["Block.forward"], functions["Linear.forward"]
    layers = [v for k, v in want["layers"].items() if k != "None"]
    assert block["total"]["launches"] == sum(v["launches"] for v in layers) and block["self"]["launches"] == 0
    assert block["total"]["gpu_ns"] == sum(v["gpu_ns"] for v in layers)
    assert linear["self"] == linear["total"] and linear["passes"] == 4 * len(layers) * want["tokens"]
    assert sum(f["self"]["launches"] for f in functions.values()) == want["launches"]


@pytest.mark.parametrize("options", [{"tokens": 5}, {"ranges": 1, "tokens": 4}, {"torch": 1, "tokens": 4}, {"gpu": 0, "tokens": 3}], ids=str)
def test_sums(made, options):
    """Each number must be recomputed from the lines (tests/oracle/parts.py), or be in a list with the reason; each unlisted number must
    matter."""
    path, _ = made(**options)
    lines, report = oracle.read(str(path)), json.loads(cudatrace("report", "-q", "--format=json", path).out)
    found = parts.check_map(lines, report)
    assert not found and len(found.members) >= 11
    assert not parts.unknown(found, report["map"], "map")
    for i, f in enumerate(report["map"]["functions"]):
        for part in ("self", "total"):
            for key, value in f[part].items():
                if f"map.functions[].{part}.{key}" in found.members:
                    functions = [*report["map"]["functions"][:i], {**f, part: {**f[part], key: value + 1 + value // 1000}}, *report["map"]["functions"][i + 1:]]
                    assert parts.check_map(lines, {"map": {**report["map"], "functions": functions}}), (f["name"], part, key)


def test_many_tokens(made):
    """With more iterations than numbered passes, iterations are not distinguished, but layers are."""
    path, want = made(layer_cnt=3, tokens=400, gpu=0)
    m = Map(path)
    check_layers(m, {**want, "layers": {k: {"launches": v["launches"], "host_ns": v["host_ns"]} for k, v in want["layers"].items() if k != "None"}}, 400)


def test_more_layers_than_numbers(made):
    path, _ = made(layer_cnt=140, tokens=4, gpu=0)
    m = Map(path)
    blocks = m.named("Block.forward", "python")
    assert sorted(n["number"] for n in blocks) == list(range(129))
    assert max(blocks, key=lambda n: n["number"])["passes"] == 4 * 12


def test_without_frames(made):
    """Without frames, the map must have stages, iterations, libraries and kernels."""
    path, want = made(python=0)
    m = Map(path)
    assert m.path(m.one("cublasSgemm", "gemm_kernel")) == ["inference", "iterations", "cublasSgemm", "gemm_kernel"]
    assert m.one("gemm_kernel")["launches"] == 8 * 12 * want["tokens"] and m.map["functions"] == []


@pytest.mark.parametrize("tokens", [10, 40])
def test_ranges(made, tokens):
    """Ranges must be in the map although a range's line comes at its end, and the outermost range is open for longer than calls are
    held."""
    path, want = made(ranges=1, tokens=tokens)
    m = Map(path)
    top = m.path(m.one("everything"))
    assert top == ["inference", "iterations", "everything"]
    assert m.path(m.one("token")) == [*top, "token"] and m.one("token")["launches"] == want["launches"]
    check_layers(m, want, tokens)


@pytest.mark.parametrize("python", [1, 0])
def test_operators(made, python):
    """Operators must be below functions, nested, and above library calls."""
    path, want = made(torch=1, python=python)
    m = Map(path)
    for n in m.named("cublasSgemm"):
        assert m.path(n)[-3:-1] == ["aten::linear", "aten::addmm"] and [b["name"] for b in n["below"]] == ["gemm_kernel"]
    assert {m.nodes[n["parent"]]["name"] for n in m.named("softmax", "kernel")} == {"aten::softmax"}
    assert sum(n["launches"] for n in m.named("aten::addmm", "operator")) == 8 * 12 * want["tokens"] and not m.map["early"]
    if python:
        check_layers(m, want, want["tokens"])
    else:
        assert m.path(m.one("aten::softmax")) == ["inference", "iterations", "aten::softmax"]


@pytest.mark.parametrize("options", [{}, {"python": 0}, {"ranges": 1}, {"ranges": 1, "tokens": 60}], ids=str)
def test_backward(made, options):
    """A node of autograd must be below its forward operator, in its layer. Another thread may run it, and the forward pass may still wait
    for its range's end."""
    path, want = made(backward=1, gpu=0, **{"tokens": 10, **options})
    m = Map(path)
    nodes = [n for n in m.nodes if n["kind"] == "backward"]
    assert {(m.nodes[n["parent"]]["name"], n["name"]) for n in nodes} == {
        ("aten::" + x, x.title() + "Backward0") for x in ("addmm", "softmax", "mask", "gelu", "layer_norm", "embedding", "argmax", "fill")}
    assert {m.nodes[n["parent"]]["kind"] for n in nodes} == {"operator"} and {b["name"] for n in nodes for b in n["below"]} == {"aten::of_" + n["name"][:-9].lower() for n in nodes}
    assert sum(n["launches"] for n in nodes) == sum(v.get("backward", 0) for v in want["layers"].values()) == want["launches"] / 2
    if options.get("python", 1):
        for b in m.named("Block.forward", "python"):
            w = want["layers"][str(b["number"])]
            assert (b["launches"], b["host_ns"]) == (w["launches"], w["host_ns"])
    assert not [n for n in m.nodes if n["kind"] == "thread"]
    assert "backward: AddmmBackward0" in cudatrace("report", "-q", "--map", "--top", "30", path).out


def test_backward_of_two_threads(made, tmp_path):
    """Sequence numbers are counted per thread: if two threads have the same number, nodes must stay in the thread that runs them."""
    path, want = made(backward=1, gpu=0, tokens=6)
    lines = []
    for e in lines_of(path):
        lines.append(e)
        if e.get("type") in ("kernel", "blas", "operator") and e["tid"] == make_trace.PID:
            lines.append({**e, "tid": 5000, **{k: e[k] + 10**6 for k in ("id", "parent", "operator_id") if k in e}})
    m = Map(write(tmp_path / "two.jsonl", lines))
    nodes = [n for n in m.nodes if n["kind"] == "backward"]
    assert nodes and all("thread" in {m.nodes[n["parent"]]["kind"]} for n in nodes)
    assert sum(n["launches"] for n in nodes) == want["launches"] / 2


def test_text(made):
    path, _ = made()
    text = cudatrace("report", "--full", "--width", "80", "-q", path).out
    assert re.search(r"^Map: ", text, re.M) and re.search(r"^ +13 +157 µs +77\.0 µs +250 µs +GPU 100 % +Block\.forward #7$", text, re.M)
    assert re.search(r"^Python functions: 7", text, re.M)
    alone = cudatrace("report", "-q", "--width", "80", "--map=launches", "--top", "3", path).out
    assert "Overview" not in alone and "(1 more)" in alone and re.search(r"^ +6 .* Attention\.forward$", alone, re.M)
    assert len([line for line in text[text.index("Map: "):].split("\nFindings")[0].splitlines() if len(line) > 80]) == 0
    assert cudatrace("report", "--map=what", path).status == 2


@pytest.mark.parametrize("by", ["wall", "launches", *(pytest.param(b, marks=pytest.mark.long) for b in ("host", "gpu", "calls"))])
def test_folded(made, by):
    """Weights must add up to the root's."""
    path, _ = made()
    root = Map(path).nodes[0]
    folded = [line.rsplit(" ", 1) for line in cudatrace("report", "-q", "--format=flamegraph", f"--map={by}", path).out.splitlines()]
    assert sum(int(n) for _, n in folded) == root[{"launches": "launches", "calls": "calls"}.get(by, f"{by}_ns")]
    if by == "launches":
        assert ["inference;iterations: 20, of each;generate;Model.forward;Block.forward #7;Attention.forward;softmax", "20"] in folded


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def write(path, lines):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e, separators=(",", ":")) + "\n" for e in lines)
    return path


def test_parts_missing(made, tmp_path):
    """If lines are missing, the rest must be kept: calls without their parent, GPU times without their calls."""
    path, want = made(tokens=6)
    lines = lines_of(path)
    no_parents = Map(write(tmp_path / "a.jsonl", [e for e in lines if e.get("type") != "blas"]))
    assert no_parents.nodes[0]["launches"] == want["launches"] and not no_parents.named("cublasSgemm") and no_parents.map["early"] > 0
    assert len(no_parents.named("Block.forward")) == 12
    gone = {e["id"] for e in lines if e.get("kernel") == "gelu" and e["type"] == "kernel"}
    no_calls = Map(write(tmp_path / "b.jsonl", [e for e in lines if e.get("id") not in gone or e["type"] == "stack"]))
    assert no_calls.map["unknown_executions"] == len(gone)
    shuffled = sorted(lines[1:-1], key=lambda e: str(e.get("name")) + str(e["ts"]))
    assert Map(write(tmp_path / "c.jsonl", [lines[0], *shuffled, lines[-1]])).nodes[0]["launches"] == want["launches"]


def test_losses(made, tmp_path):
    """The map alone must also report that a trace is incomplete."""
    path, _ = made(tokens=6)
    lines = lines_of(path)
    assert "INCOMPLETE" not in cudatrace("report", "-q", "--map", path).out
    lines[-1]["drops"] = {"calls": 17}
    assert "  17 CUDA calls: the ring buffer was full" in cudatrace("report", "-q", "--map", write(tmp_path / "lost.jsonl", lines)).out
    assert "  1 end of a trace: the trace was cut off" in cudatrace("report", "-q", "--map", write(tmp_path / "cut.jsonl", lines[:len(lines) // 2])).out


def test_redacted(made, tmp_path):
    """With --no-strings, frames have no functions, and kernels no names."""
    path, want = made(tokens=6)
    lines = lines_of(path)
    lines[0]["redacted"] = "strings"
    for e in lines:
        for f in e.get("python", []):
            del f["function"]
            f["file"] = "[file]"
        if e["type"] in ("kernel", "gpu"):
            del e["kernel"]
    m = Map(write(tmp_path / "redacted.jsonl", lines))
    assert not m.map["functions"] and m.map["unnamed_frames"] > 0 and m.nodes[0]["launches"] == want["launches"]


def test_processes_and_threads(made, tmp_path):
    """Each process must have a node of its own, and each thread if a process has several."""
    path, want = made(tokens=6)
    lines = lines_of(path)
    both = []
    for e in lines[1:-1]:
        both += [e, {**e, "pid": 5000, "tid": 5000, **({"id": e["id"] + 10**6} if "id" in e else {}), **({"stack": e["stack"] + 10**6} if "stack" in e else {}),
                     **{k: e[k] + 10**6 for k in ("parent", "call_id") if k in e}}]
    m = Map(write(tmp_path / "two.jsonl", [lines[0], *both, lines[-1]]))
    processes = {n["pid"]: n for n in m.nodes if n["kind"] == "process"}
    assert {n["launches"] for n in processes.values()} == {want["launches"]} and set(processes) == {4711, 5000}
    for e in lines:
        if e.get("kernel") == "softmax":
            e.pop("stack", None)
            e.update(tid=4712, comm="pt_autograd_0")
    m = Map(write(tmp_path / "threads.jsonl", lines))
    threads = {n["name"]: n for n in m.nodes if n["kind"] == "thread"}
    assert threads["pt_autograd_0"]["launches"] == 12 * 6 and [b["name"] for b in threads["pt_autograd_0"]["below"]] == ["softmax"]


def test_deep(tmp_path):
    """In endless recursion, the outer functions are kept and the cut frames are counted; a recursive function's time must count once."""
    path = tmp_path / "deep.jsonl"
    frames = [{"function": f"f{i % 2}", "file": "a.py", "line": 3} for i in range(128)]
    write(path, [{"ts": 0, "type": "header", "name": "cudatrace", "schema": 2},
                 {"ts": 1, "type": "stack", "op": "stack", "name": "stack", "pid": 1, "tid": 1, "comm": "c", "id": 1, "frames": [], "python": frames},
                 *({"ts": i, "type": "kernel", "op": "launch", "name": "cuLaunchKernel", "symbol": "cuLaunchKernel", "pid": 1, "tid": 1, "comm": "c", "id": i,
                    "duration_us": 5.0, "result": 0, "stack": 1, "kernel": "k", "grid": [1, 1, 1], "block": [1, 1, 1], "shared_mem": 0, "args": {}} for i in range(2, 10))])
    m = Map(path)
    assert len([n for n in m.nodes if n["kind"] == "python"]) == 64 and m.map["cut_frames"] > 0
    assert [f["total"]["launches"] for f in m.map["functions"]] == [8, 8]
    assert cudatrace("report", "-q", "--map", path).status == 0


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.long) for s in range(2, 12))])
def test_hostile(tmp_path, seed):
    """With hostile lines (recursive ranges and calls, absurd times and ids), the map must add up for everything that fits."""
    rng = random.Random(seed)
    few = rng.choice([3, 50, 100000])
    at = lambda: {"ts": rng.choice([rng.uniform(0, 100), 0, 1e8]), "pid": rng.randint(1, 2), "tid": rng.randint(1, 3), "comm": rng.choice(["a", "b"])}  # noqa: E731
    number = lambda: rng.randint(0, few)  # noqa: E731
    lines = [{"ts": 0, "type": "header", "name": "cudatrace", "schema": 2}]
    for i in range(1, 20):
        lines.append({**at(), "type": "stack", "op": "stack", "name": "stack", "id": i, "frames": [],
                      "python": [{"function": f"f{rng.randint(0, 3)}", "file": "a.py", "line": rng.randint(0, 3)} for _ in range(rng.randint(1, 90))]})
    for i in range(10000):
        what = rng.random()
        if what < 0.1:
            lines.append({**at(), "type": "range", "op": rng.choice(["push", "start"]), "name": "push", "duration_us": 1.0, "id": number(), "parent": number(), "level": 1, "text": f"r{rng.randint(0, 5)}"})
        elif what < 0.3:
            lines.append({**at(), "type": "gpu", "op": rng.choice(["kernel", "copy"]), "name": "kernel", "duration_us": rng.choice([1.0, 1e9]), "device": rng.randint(0, 80), "context": 1, "gpu_stream": 1,
                          "kernel": f"k{number()}", "correlation": 1, "call_id": number(), "call": "cuLaunchKernel"})
        else:
            name, kind, op = rng.choice([("cuLaunchKernel", "kernel", "launch"), ("cuStreamSynchronize", "sync", "sync"), ("cuMemcpyHtoD_v2", "transfer", "copy"), ("cuDevicePrimaryCtxRetain", "context", "retain")])
            how = {"duration_us": rng.choice([0.0, 5.0, 1e9])} if rng.random() < 0.9 else {"unfinished": True, "elapsed_us": 1.0}
            lines.append({**at(), "type": kind, "op": op, "name": name.replace("_v2", ""), "symbol": name, "id": number() or i + 1, "parent": number(), "depth": rng.randint(0, 2), **how, "result": 0,
                          "range_id": number(), "range": f"r{number()}", "stack": rng.randint(0, 22), "kernel": f"k{number()}", "size": rng.randint(0, 2**40), "args": {}})
    m = Map(write(tmp_path / "hostile.jsonl", lines), "--iterations", rng.choice(["auto", "sync"]))
    assert m.nodes[0]["calls"] > 0
    for form in ("ascii", "html", "flamegraph"):
        assert cudatrace("report", "-q", f"--format={form}", "--map", "-o", tmp_path / "x", tmp_path / "hostile.jsonl").status == 0


def test_traced(tmp_path):
    """The program itself, traced with a mock of libcuda, must give the right map."""
    needs_tracing()
    trace = tmp_path / "real.jsonl"
    tracer = [CUDATRACE, "-q", "--python", "--jsonl", trace, "--"]
    program = subprocess.Popen([*tracer, sys.executable, TESTS + "/map/run_layers.py", FAKE + "/libcuda.so.1", "4", "12"], env={**os.environ, "LD_LIBRARY_PATH": FAKE},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    want = json.loads(program.stdout.readline())
    # Names are read from the process, which must live until then.
    until(lambda: trace.read_text(encoding="utf-8").count('"symbol":"cuLaunchKernel"') == sum(want.values()), 60)
    program.communicate(timeout=60)
    assert program.returncode == 0
    m = Map(trace)
    got = collections.Counter()
    for n in m.named("Block.forward", "python"):
        got[str(n["number"])] += n["launches"]
    assert got == {k: v for k, v in want.items() if k != "None"}
    assert sum(n["passes"] for n in m.named("Model.forward")) == 12


# ---- replayed graphs ----

@pytest.fixture
def graph(tmp_path):
    def make(**options):
        path = tmp_path / "graph.jsonl"
        return path, graph_trace.make(path, **options)
    return make


def replayed_layers(m):
    """GPU time of the layers below the launch of a graph."""
    return {n["number"]: n.get("gpu_ns", 0) for n in m.named("Block.forward", "python") if "cuGraphLaunch" in m.path(n)}


@pytest.mark.parametrize("number", [lambda i: 2 << 32 | i, lambda i: 7 << 32 | 5 + 3 * i], ids=["numbers", "order"])
def test_graph_nodes(graph, number):
    """What executed a node must be below the launch of its graph in the layer that captured it, whether nodes are numbered from 0 or only
    have the order of their capture."""
    path, made = graph(number=number)
    m = Map(path)
    assert replayed_layers(m) == {k: v for k, v in made.graph_ns.items() if k is not None}
    softmax = [n for n in m.named("softmax", "kernel") if n.get("gpu_ns")]
    assert {tuple(m.path(n)[1:]) for n in softmax} == {("iterations", "generate", "replay", "cuGraphLaunch", "Model.forward", "Block.forward", "Attention.forward", "softmax")}
    assert len(softmax) == 12 and not m.named("captured before the trace")
    graphs = m.report["graphs"]
    assert graphs["joined_executions"] == 20 * len(made.nodes) and "refused_executions" not in graphs and "earlier_executions" not in graphs
    functions = {f["name"]: f["total"]["gpu_ns"] for f in m.map["functions"] if "gpu_ns" in f["total"]}
    wanted = {name: ns for name, ns in made.functions.items() if not name.startswith("Module.") and name != "_call_impl"}
    assert functions == {**wanted, "generate": sum(made.graph_ns.values()), "replay": sum(made.graph_ns.values())}
    assert sum(f["self"].get("gpu_ns", 0) for f in m.map["functions"]) == sum(made.graph_ns.values()) == m.nodes[0]["gpu_ns"]
    parts = {p["name"]: p.get("function") for p in m.report["step"]["list"][0]["parts"] if p["kind"] == "kernel"}
    assert parts["gemm_kernel"] == "Linear.forward" and parts["softmax"] == "Attention.forward"
    folded = cudatrace("report", "-q", "--format=flamegraph", "--map=gpu", path).out
    assert re.search(r";generate;replay;cuGraphLaunch;Model\.forward;Block\.forward #7;Attention\.forward;softmax \d+$", folded, re.M)


def test_graph_of_other_kernels(graph):
    """If a kernel's name is not that of the captured call, no node of the graph may be joined."""
    path, made = graph(rename={30: "another"})
    m = Map(path)
    assert not replayed_layers(m) and m.report["graphs"]["refused_executions"] == 20 * len(made.nodes) and "joined_executions" not in m.report["graphs"]
    assert m.path(m.one("another")) == ["inference", "iterations", "generate", "replay", "cuGraphLaunch", "another"]
    assert m.nodes[0]["gpu_ns"] == sum(made.graph_ns.values())
    assert "executions of nodes cannot be joined" in cudatrace("report", "-q", "--full", path).out


def test_graph_captured_before(graph, tmp_path):
    path, made = graph()
    lines = [e for e in lines_of(path) if not e.get("capturing") and e.get("op") not in ("capture_begin", "capture_end", "instantiate") and e["type"] != "blas"]
    m = Map(write(tmp_path / "late.jsonl", lines))
    assert not replayed_layers(m) and m.report["graphs"]["earlier_executions"] == 20 * len(made.nodes)
    row = m.one("cuGraphLaunch", "captured before the trace")
    assert row["kind"] == "graph" and row["gpu_ns"] == sum(made.graph_ns.values()) and m.one("captured before the trace", "softmax")["gpu_executions"] == 20 * 12


@pytest.mark.parametrize("burst", [0, 3])
def test_whole_graphs(graph, burst):
    """One time per replay is divided by the shares of the nodes' times, if the trace has these; else it stays with the launch."""
    path, made = graph(burst=burst)
    m = Map(path)
    total = sum(made.graph_ns.values())
    assert m.one("cuGraphLaunch")["gpu_ns"] == total + made.whole_ns
    if not burst:
        assert not replayed_layers(m) and "divided_gpu_ns" not in m.map
        return
    got = replayed_layers(m)
    for layer, ns in made.graph_ns.items():
        if layer is not None:
            assert abs(got[layer] - ns * (total + made.whole_ns) / total) < 20 * len(made.nodes)
    assert 0 <= made.whole_ns - m.map["divided_gpu_ns"] < 20 * len(made.nodes)
    assert re.search(r"of GPU time of whole graphs was divided", cudatrace("report", "-q", "--map", path).out)


def test_shares_of_another_process(graph, tmp_path):
    """The nodes may have been measured in another process, with an equal graph."""
    path, made = graph(replays=5)
    lines = lines_of(path)
    whole, _ = graph(replays=5, burst=0)
    other = [{**e, "pid": 5000, "tid": 5000, **{k: e[k] + 10**6 for k in ("id", "stack", "parent", "call_id") if k in e}} for e in lines_of(whole)[1:-1]]
    m = Map(write(tmp_path / "two.jsonl", [*lines[:-1], *other, lines[-1]]))
    total = sum(made.graph_ns.values())
    blocks = [n for n in m.named("Block.forward", "python") if "cuGraphLaunch" in m.path(n)]
    assert len(blocks) == 24 and abs(sum(n["gpu_ns"] for n in blocks) - 2 * sum(v for k, v in made.graph_ns.items() if k is not None)) < 20 * len(made.nodes)
    assert m.nodes[0]["gpu_ns"] == 2 * total and 0 <= total - m.map["divided_gpu_ns"] < 20 * len(made.nodes)


def test_no_graph(made):
    """Without graphs no execution may be joined or refused."""
    report = Map(made()[0]).report
    assert not {"joined_executions", "refused_executions", "earlier_executions"} & set(report["graphs"]) and "divided_gpu_ns" not in report["map"]
