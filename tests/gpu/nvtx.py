# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--nvtx with real programs: the trace must have as many ranges as the program reports, and each launch in the right one. By uprobes,
in-process as root, and in-process as a user; by the daemon, for libraries that a running program calls (CuPy's own copy).

usage: nvtx.py CUDATRACE OUT_FOLDER [PROGRAM...]    PROGRAM: torch, emit, jax, untuned, cupy, cost; all if none is named
       nvtx.py --run PROGRAM                        the traced program
"""
import collections
import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from daemon_check import scrape

WAYS = {"uprobes": ([], "--probe=uprobe"), "inject": ([], "--probe=inject"),
        "inject, a user": (["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp"], "--probe=inject")}
STEPS, LAYERS = 20, 4


def say(**what):
    print(json.dumps(what), flush=True)


def network():
    import torch
    torch.manual_seed(0)
    layers = [torch.nn.Linear(1024, 1024).cuda() for _ in range(LAYERS)]
    x = torch.rand(64, 1024, device="cuda")
    for layer in layers:
        layer(x)
    torch.cuda.synchronize()
    return torch, layers, x


def run_torch():
    torch, layers, x = network()
    with torch.no_grad():
        for step in range(STEPS):
            with torch.cuda.nvtx.range("step"):
                y = x
                for i, layer in enumerate(layers):
                    torch.cuda.nvtx.range_push(f"layer {i}")
                    y = torch.relu(layer(y))
                    torch.cuda.nvtx.range_pop()
                torch.cuda.nvtx.mark(f"end {step}")
    torch.cuda.synchronize()
    say(ranges={"step": STEPS, **{f"layer {i}": STEPS for i in range(LAYERS)}}, marks=STEPS, innermost="layer ")


def run_emit():
    torch, layers, x = network()
    with torch.no_grad(), torch.autograd.profiler.emit_nvtx():
        for _ in range(STEPS):
            y = x
            for layer in layers:
                y = torch.relu(layer(y))
    torch.cuda.synchronize()
    say(begins={"aten::linear": STEPS * LAYERS, "aten::addmm": STEPS * LAYERS, "aten::relu": STEPS * LAYERS}, innermost="aten::")


def run_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    @jax.jit
    def mlp(x, w1, w2):
        return jnp.tanh(x @ w1) @ w2
    k = jax.random.PRNGKey(0)
    x, w1, w2 = (jax.random.normal(k, shape) for shape in ((128, 512), (512, 2048), (2048, 512)))
    for _ in range(STEPS):
        y = mlp(x, w1, w2)
    y.block_until_ready()
    say(begins={"XlaModule:#hlo_module=jit_mlp": STEPS}, innermost="Thunk:#")


def run_untuned():
    """Without XLA's trials of kernels, which belong to no operation, every launch has a range."""
    os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    run_jax()


def run_cupy():
    import cupy as cp
    from cupy.cuda import nvtx
    a = cp.random.rand(1024, 1024, dtype=cp.float32)
    for i in range(STEPS):
        nvtx.RangePush("product")
        c = a @ a
        nvtx.RangePush("tanh")
        c = cp.tanh(c)
        nvtx.RangePop()
        nvtx.RangePop()
        nvtx.Mark("end")
    cp.cuda.Device().synchronize()
    say(ranges={"product": STEPS, "tanh": STEPS}, marks=STEPS, innermost="")


def run_cost():
    """Returns microseconds of a push and a pop, and of a step with launches in ranges."""
    torch, layers, x = network()
    push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    pairs, steps = [], []
    with torch.no_grad():
        for _ in range(9):
            begin = time.perf_counter()
            for _ in range(2000):
                push("x")
                pop()
            pairs.append((time.perf_counter() - begin) / 2000 * 1e6)
            begin = time.perf_counter()
            for _ in range(50):
                for layer in layers:
                    push("layer")
                    torch.relu(layer(x))
                    pop()
            torch.cuda.synchronize()
            steps.append((time.perf_counter() - begin) / 50 * 1e6)
    say(pair_us=round(sorted(pairs)[4], 3), step_us=round(sorted(steps)[4], 1))


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def traced(tracer, out, way, program, options="--nvtx"):
    before, probe = WAYS[way]
    path = os.path.join(out, "nvtx.jsonl")
    if os.path.exists(path):
        os.remove(path)
    argv = [*before, tracer, "-q", probe, *shlex.split(options), "--jsonl", path, "--", sys.executable, os.path.abspath(__file__), "--run", program]
    ran = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    said = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    if ran.returncode or not said:
        print(f"{program}, {way}: ended with {ran.returncode}: {ran.stdout[-300:]}", flush=True)
        return None, None
    return lines(path), json.loads(said[-1])


def by_daemon(tracer, out, program):
    files, port = out + "/nvtx.files", 9477
    sets = ("level=trace", "trace.functions=launch,nvtx", f"metrics.listen=127.0.0.1:{port}", f"files.directory={files}", "files.compress=none",
            f"ctl.socket={out}/nvtx.sock", "recorder.seconds=0")
    with subprocess.Popen([tracer, "daemon", "--config", "/dev/null", *(x for s in sets for x in ("--set", s))]) as daemon:
        scrape(port, out + "/nvtx.metrics")
        ran = subprocess.run([sys.executable, os.path.abspath(__file__), "--run", program], stdout=subprocess.PIPE, text=True, check=True)
        time.sleep(1)
        daemon.send_signal(signal.SIGTERM)
    ev = [e for path in glob.glob(files + "/**/*.jsonl", recursive=True) for e in lines(path)]
    shutil.rmtree(files)
    return ev, json.loads(ran.stdout.splitlines()[-1])


def elsewhere(ev, launches, prefix):
    """Returns the context of the other launches: the kind of range (XlaPass, ...), and whether a compiling Python function encloses it."""
    stacks = {e["id"]: e["python"] for e in ev if e["type"] == "stack" and e.get("python")}
    kinds = collections.Counter()
    for e in launches:
        if not e.get("range", "").startswith(prefix):
            names = [f.get("function") or "" for f in stacks.get(e.get("stack"), [])]
            compiles = next((name for name in names if "compile" in name.lower()), "no function that compiles") if names else "no frames"
            kinds[e.get("range", "no range").split("#")[0], compiles] += 1
    print("       the others by range and function:", dict(kinds.most_common(8)), flush=True)


def check(tracer, out, program):
    for way in [*WAYS, "daemon"] if program == "cupy" else WAYS:
        if way == "daemon":
            ev, said = by_daemon(tracer, out, program)
        else:
            ev, said = traced(tracer, out, way, program, "--nvtx --gpu-time" + (" --python=launch" if way == "uprobes" else ""))
        if not ev:
            continue
        ranges = [e for e in ev if e["type"] == "range" and e["op"] != "mark"]
        marks = [e for e in ev if e["type"] == "range" and e["op"] == "mark"]
        names = collections.Counter(e.get("text") for e in ranges)
        wrong = {k: names[k] for k, n in said.get("ranges", {}).items() if names[k] != n}
        for k, n in said.get("begins", {}).items():
            got = sum(c for text, c in names.items() if text and text.startswith(k))
            if got != n:
                wrong[k] = got
        if "marks" in said and len(marks) != said["marks"]:
            wrong["marks"] = len(marks)
        launches = [e for e in ev if e.get("symbol", "").startswith("cuLaunchKernel") and not e.get("result")]
        within = [e for e in launches if e.get("range", "").startswith(said["innermost"])] if said["innermost"] else [e for e in launches if "range_id" in e]
        gpu = [e for e in ev if e["type"] == "gpu"]
        end = next(e for e in reversed(ev) if e["type"] == "end")
        print(f"{program:6} {way:15} {len(ranges)} ranges of {len(names)} names, {len(marks)} marks, {'as made' if not wrong else f'WRONG: {wrong}'}; "
              f"{len(within)} of {len(launches)} launches in one ({said['innermost'] or 'any'}); {sum('range_id' in e for e in gpu)} of {len(gpu)} executions; "
              f"{({k[5:]: v for k, v in end.items() if k.startswith('nvtx_')})} lost {sum(end['drops'].values())}", flush=True)
        print("       such as", [(e.get("range"), e.get("kernel", "")[:50]) for e in within[-2:]], "domains", sorted({e.get("domain", "") for e in ranges})[:8], flush=True)
        if said["innermost"] and way == "uprobes":
            elsewhere(ev, launches, said["innermost"])
        if way == "uprobes":
            path = os.path.join(out, "nvtx.jsonl")
            report = subprocess.run([tracer, "report", "--full", path], capture_output=True, text=True, check=False).stdout
            at = report.find("NVTX ranges")
            print(report[at:at + 900], flush=True)


def cost(tracer, out):
    ran = subprocess.run([sys.executable, os.path.abspath(__file__), "--run", "cost"], stdout=subprocess.PIPE, text=True, check=False)
    print("cost   untraced       ", ran.stdout.strip(), flush=True)
    for options in ("-e launch", "-e launch --nvtx"):
        for way in WAYS:
            _, said = traced(tracer, out, way, "cost", options)
            print(f"cost   {way:15} {options:18} {said}", flush=True)


if sys.argv[1] == "--run":
    globals()["run_" + sys.argv[2]]()
else:
    os.makedirs(sys.argv[2], exist_ok=True)
    os.chmod(sys.argv[2], 0o777)
    for name in sys.argv[3:] or ["torch", "emit", "jax", "untuned", "cupy", "cost"]:
        if name == "cost":
            cost(sys.argv[1], sys.argv[2])
        else:
            check(sys.argv[1], sys.argv[2], name)
