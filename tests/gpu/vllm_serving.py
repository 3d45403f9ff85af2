# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""vLLM on a real GPU, a Llama of random weights behind `vllm serve`: the report must find the steps, tokens and sequences that vLLM's
scheduler sent to its worker. Also measures the cost of tracing in tokens per second.

usage: vllm_serving.py CUDATRACE OUT_FOLDER [PART...]    PART: steps (3 minutes), late (1), cost (4), all three if none is named; corpus (3), for tests/corpus

A plug-in of vLLM (group vllm.general_plugins) records each step of the worker: time, tokens, sequences. vllm_wheels.py packs vLLM for a
machine without a network.
"""
import concurrent.futures
import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback
import urllib.request

import serving

LAYERS, HIDDEN, INNER, VOCAB, HEADS, KV_HEADS = 16, 2048, 8192, 32000, 32, 8
SEQUENCES, BATCHED_TOKENS, PROMPTS, NEW, TURNS = 16, 512, 32, 96, 5
WITH_TOKENS = ["--detail=normal", "-e", "cublas"]
WITH_PYTHON = [*WITH_TOKENS, "--python=launch,graph,sync,transfer,event"]
WITH_GPU = [*WITH_PYTHON, "--gpu-time"]

PLUGIN = '''
import json, os, time

def register():
    path = os.environ.get("CT_VLLM_STEPS")
    if not path:
        return
    from vllm.v1.worker import gpu_worker
    if getattr(gpu_worker.Worker, "ct_steps", None):
        return
    gpu_worker.Worker.ct_steps = True
    execute, log = gpu_worker.Worker.execute_model, []

    def noted(self, scheduler_output, *args, **kwargs):
        if not log:
            log.append(open(path, "a", buffering=1, encoding="utf-8"))
            log[0].write(json.dumps({"pid": os.getpid()}) + "\\n")
        tokens = scheduler_output.num_scheduled_tokens
        if tokens:
            log[0].write(json.dumps({"tokens": scheduler_output.total_num_scheduled_tokens, "sequences": len(tokens), "batch": len(tokens),
                                     "at": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}) + "\\n")
        return execute(self, scheduler_output, *args, **kwargs)
    gpu_worker.Worker.execute_model = noted
'''


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def make_model(folder):
    write(f"{folder}/config.json", json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2, "rope_theta": 10000.0}))
    from tokenizers import Tokenizer, models, pre_tokenizers
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, **{f"w{i}": i for i in range(3, VOCAB)}}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(f"{folder}/tokenizer.json")
    write(f"{folder}/tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))


def weight_bytes():
    per_layer = HIDDEN * HIDDEN * 2 + HIDDEN * HIDDEN * 2 * KV_HEADS // HEADS + 3 * HIDDEN * INNER + 2 * HIDDEN
    return 2 * (2 * VOCAB * HIDDEN + LAYERS * per_layer + HIDDEN)


class Server:
    """Starts `vllm serve`; `name` belongs to this server alone."""
    ports = iter(range(8121, 8200))

    def __init__(self, out, name, tracer=(), eager=False):
        model, plugin = f"{out}/model", f"{out}/plugin"
        if not os.path.exists(f"{model}/tokenizer.json"):
            make_model(model)
            write(f"{plugin}/ct_vllm_steps.py", PLUGIN)
            write(f"{plugin}/ct_vllm_steps-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: ct-vllm-steps\nVersion: 1\n")
            write(f"{plugin}/ct_vllm_steps-1.dist-info/entry_points.txt", "[vllm.general_plugins]\nct_vllm_steps = ct_vllm_steps:register\n")
        self.name, self.port, self.seen, self.rounds_seen = name, next(self.ports), f"{out}/vllm.{name}.steps", []
        if os.path.exists(self.seen):
            os.remove(self.seen)
        env = {**os.environ, "PYTHONPATH": plugin + ":" + os.environ.get("PYTHONPATH", ""), "CT_VLLM_STEPS": self.seen, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
               "HF_HUB_OFFLINE": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_CACHE_ROOT": f"{out}/vllm.cache"}
        command = [*tracer, sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--port", str(self.port), "--load-format", "dummy", "--dtype", "bfloat16",
                   "--max-model-len", "2048", "--gpu-memory-utilization", "0.3", "--kv-cache-memory-bytes", str(8 << 30), "--max-num-seqs", str(SEQUENCES), "--max-num-batched-tokens", str(BATCHED_TOKENS),
                   "--no-enable-prefix-caching", *(["--enforce-eager"] if eager else [])]
        self.log = f"{out}/vllm.{name}.log"
        self.began = time.monotonic()
        with open(self.log, "w", encoding="utf-8") as log:
            self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def ready(self):
        while not self.healthy():
            if self.proc.poll() is not None or time.monotonic() > self.began + 180:
                with open(self.log, encoding="utf-8", errors="replace") as text:
                    print("".join(line for line in text if "Error" in line or "EngineCore" in line)[-3000:])
                self.proc.kill()
                raise RuntimeError(f"{self.name}: vLLM does not start, see {self.log}")
            time.sleep(0.2)
        print(f"  {self.name}: ready after {time.monotonic() - self.began:.1f} s", flush=True)
        return self

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, prompt):
        body = json.dumps({"model": f"{os.path.dirname(self.seen)}/model", "prompt": prompt, "max_tokens": NEW, "temperature": 0, "ignore_eos": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["usage"]["completion_tokens"]

    def rounds(self, n):
        """Returns tokens per second of each round; all prompts are sent at once, the same in each round."""
        rng, rates = random.Random(0), []
        prompts = [[rng.randrange(10, VOCAB) for _ in range(rng.choice((5, 17, 64, 200, 31, 9, 400, 120, 77, 700)))] for _ in range(PROMPTS)]
        with concurrent.futures.ThreadPoolExecutor(PROMPTS) as pool:
            for _ in range(n):
                begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                made = sum(pool.map(self.ask, prompts))
                end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
                self.rounds_seen.append([begin, end, made])
                rates.append(made / (end - begin) * 1e9)
        return rates

    def lines(self):
        with open(self.seen, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def worker(self):
        return next(x["pid"] for x in self.lines() if "pid" in x)

    def end(self):
        if os.path.exists(self.seen):
            with open(f"/proc/{self.worker()}/stat", encoding="utf-8") as f:  # the API server is the worker's parent
                os.kill(int(f.read().rsplit(")", 1)[1].split()[1]), signal.SIGTERM)
        else:
            self.proc.terminate()
        try:
            self.proc.wait(60)
        except subprocess.TimeoutExpired:
            print("  does not end: killed")
            self.proc.kill()
            self.proc.wait()

    def said(self):
        return {"rounds": self.rounds_seen, "steps": [x for x in self.lines() if "at" in x], "forwards": [], "weight_bytes": weight_bytes()}


def keep(trace, out):
    """A trace for inspection elsewhere, as small as possible."""
    subprocess.run(["xz", "-T0", "-3", trace], check=True)
    print(f"  kept {os.path.getsize(trace + '.xz')} bytes in {out}")


def steps(tracer, out):
    for name, eager, options in (("eager", True, WITH_TOKENS), ("graphs", False, WITH_TOKENS), ("graphs-gpu", False, WITH_GPU)):
        trace = f"{out}/vllm.{name}.jsonl"
        print(f"--- {name}, {' '.join(options)}, from the start", flush=True)
        s = Server(out, name, [tracer, "-q", "--no-summary", *options, "--jsonl", trace, "--"], eager).ready()
        print(f"  tokens/s {[round(x) for x in s.rounds(2)]}", flush=True)
        s.end()
        serving.check(tracer, trace, s.said(), f"vllm.{name}", out)
        end = serving.end_of(trace)
        print(f"  drops {sum(end['drops'].values())}, cost share {end.get('cost_share')}, {os.path.getsize(trace)} bytes", flush=True)
        keep(trace, out)


def late(tracer, out):
    s, trace = Server(out, "late").ready(), f"{out}/vllm.late.jsonl"
    s.rounds(1)
    ct = serving.attached(tracer, trace, s.worker(), *WITH_TOKENS)
    s.rounds(1)
    serving.detach(ct)
    print("--- attached late", flush=True)
    s.end()
    serving.check(tracer, trace, s.said(), "vllm.late", out)
    keep(trace, out)


def corpus(tracer, out):
    """Records two traces with GPU times, of graphs and of their nodes, for tests/corpus. Both servers start at once, and serve in turn."""
    servers = []
    for how in ("graphs", "nodes"):
        options = [*WITH_PYTHON, f"--gpu-time={how}"]
        print(f"vllm-{how}: cudatrace {' '.join(options)} -- vllm serve", flush=True)
        servers.append(Server(out, f"vllm-{how}", [tracer, "-q", "--no-summary", *options, "--jsonl", f"{out}/vllm-{how}.jsonl", "--"]))
    for s in servers:
        s.ready()
    for s in servers:
        print(f"  {s.name}: tokens/s {[round(x) for x in s.rounds(1)]}", flush=True)
    for s in servers:
        s.end()
        write(f"{out}/{s.name}.log.json", json.dumps(s.said()))
        trace = f"{out}/{s.name}.jsonl"
        print(f"  {s.name}: end {serving.end_of(trace)}, {os.path.getsize(trace)} bytes", flush=True)
    for s in servers:
        keep(f"{out}/{s.name}.jsonl", out)


@contextlib.contextmanager
def attached(tracer, out, servers, *options):
    trace = f"{out}/vllm.cost.jsonl"
    first, *others = [str(s.worker()) for s in servers]
    ct = serving.attached(tracer, trace, first, *options, *(x for pid in others for x in ("-p", pid)))
    try:
        yield
    finally:
        serving.detach(ct)
        end = serving.end_of(trace)
        if sum(end["drops"].values()):
            print(f"    {' '.join(options) or 'defaults'}: {end['drops']} dropped", flush=True)
        os.remove(trace)


@contextlib.contextmanager
def daemon(tracer, out, servers, level):
    folder = f"{out}/vllm.daemon"
    os.makedirs(folder, exist_ok=True)
    write(f"{folder}/config.yaml", f"level: {level}\n")
    keys = ["--config", f"{folder}/config.yaml", "--set", f"ctl.socket={folder}/ctl.sock"]
    with open(f"{folder}/log", "a", encoding="utf-8") as log:
        d = subprocess.Popen([tracer, "daemon", *keys, "--set", "metrics.listen=127.0.0.1:9476", "--set", f"files.directory={folder}/{level}"],
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wanted, give_up = {s.worker() for s in servers}, time.monotonic() + 15
        while d.poll() is None and time.monotonic() < give_up:
            said = subprocess.run([tracer, "ctl", *keys, "status"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
            if said and wanted <= {p["pid"] for p in json.loads(said)["processes"] if p["level"] == level}:
                break
            for s in servers if said else ():  # it has only those that make calls
                s.ask([10] * 5)
            time.sleep(0.1)
        else:
            raise RuntimeError(f"the daemon does not trace them, see {folder}/log")
        yield
    finally:
        d.send_signal(signal.SIGTERM)
        if d.wait():
            print(f"    the daemon ended with {d.returncode}", flush=True)
        shutil.rmtree(f"{folder}/{level}", ignore_errors=True)


def rate(s):
    return statistics.median(s.rounds(1 if s.name == "eager" else 2))


def from_start(tracer, out):
    """Traces two servers from their start by a trace of the whole machine, which then ends. Prints its cost; returns the servers, untraced."""
    trace = f"{out}/vllm.start.jsonl"
    ct = serving.attached(tracer, trace, None)
    servers = [Server(out, "graphs"), Server(out, "eager", eager=True)]
    try:
        for s in servers:
            s.ready().rounds(2)
        traced = [[rate(s) for s in servers] for _ in range(4)]
    except BaseException:
        for s in servers:
            s.end()
        raise
    finally:
        serving.detach(ct)
    if not os.path.exists(trace):
        print("    no trace from the start")
        return servers
    print(f"    from the start: drops {sum(serving.end_of(trace)['drops'].values())}", flush=True)
    os.remove(trace)
    bare = [[rate(s) for s in servers] for _ in range(4)]
    for i, s in enumerate(servers):
        serving.ratio(f"{s.name}: from the start, defaults", [r[i] for r in traced], [r[i] for r in bare])
    return servers


def cost(tracer, out, seconds=215):
    """Runs in turn, until the time is over: untraced, traced in one way, untraced, in the next ... The servers stay the same."""
    over = time.monotonic() + seconds
    print("--- cost", flush=True)
    graphs, eager = servers = from_start(tracer, out)
    ways = [("attached, --all", servers, lambda: attached(tracer, out, servers, "--all")),
            ("daemon, level metrics", servers, lambda: daemon(tracer, out, servers, "metrics")),
            ("daemon, level trace", servers, lambda: daemon(tracer, out, servers, "trace")),
            ("attached, defaults", [eager], lambda: attached(tracer, out, [eager])),
            ("attached, --detail=normal -e cublas", [eager], lambda: attached(tracer, out, [eager], *WITH_TOKENS))]
    try:
        for name, pairs in sorted(in_turn(servers, ways, over - 25).items()):
            serving.ratio(name, [x for x, _ in pairs], [x for _, x in pairs])
        between(tracer, out, graphs)
    finally:
        for s in servers:
            s.end()


def in_turn(servers, ways, over):
    """Returns for each server and way pairs of tokens per second: traced, and untraced on both sides."""
    rows, before = {}, {s: rate(s) for s in servers}
    for _ in range(TURNS):
        if time.monotonic() > over:
            break
        for name, of, way in list(ways):
            try:
                with way():
                    traced = {s: rate(s) for s in of}
            except Exception:  # pylint: disable=broad-exception-caught
                traceback.print_exc()
                ways = [w for w in ways if w[0] != name]
                continue
            after = {**before, **{s: rate(s) for s in of}}
            for s in of:
                rows.setdefault(f"{s.name}: {name}", []).append((traced[s], (before[s] + after[s]) / 2))
            before = after
    return rows


def between(tracer, out, s):
    """Prints the host's time between steps by Python function, also of functions around events."""
    print(f"--- {s.name}, attached, {' '.join(WITH_PYTHON)}", flush=True)
    trace = f"{out}/vllm.between.jsonl"
    ct = serving.attached(tracer, trace, s.worker(), *WITH_PYTHON)
    s.rounds(1)
    serving.detach(ct)
    serving.check(tracer, trace, s.said(), "vllm.between", out)
    os.remove(trace)


def main():
    tracer, out, *parts = sys.argv[1:]
    tracer, out = os.path.abspath(tracer), os.path.abspath(out)
    os.makedirs(out, exist_ok=True)
    try:
        import vllm
        import torch
        print(f"vLLM {vllm.__version__}, torch {torch.__version__}", flush=True)
    except ImportError as e:
        print(f"skipped: no vLLM ({e})")
        return 77
    for part in parts or ["steps", "late", "cost"]:
        began = time.monotonic()
        try:
            globals()[part](tracer, out)
        except Exception:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
        print(f"=== {part}: {time.monotonic() - began:.0f} s", flush=True)
    for name in ("model", "plugin", "vllm.cache"):
        shutil.rmtree(f"{out}/{name}", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
