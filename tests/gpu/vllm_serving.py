# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""vLLM on a real GPU, a Llama of random weights behind `vllm serve`: does the report find the steps, tokens and sequences that vLLM's
scheduler gave to its worker, and what does tracing cost in tokens a second?

usage: vllm_serving.py CUDATRACE OUT_FOLDER [PART...]    PART: steps, late, cost, cost_eager, daemon; all if none is named

A plug-in of vLLM (group vllm.general_plugins) writes each step of the worker down: when, tokens, sequences.
"""
import concurrent.futures
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
SEQUENCES, BATCHED_TOKENS, PROMPTS, NEW = 16, 512, 32, 96
WITH_GPU = ["--detail=normal", "-e", "cublas", "--gpu-time", "--python=launch,sync,transfer,event"]
WITH_TOKENS = ["--detail=normal", "-e", "cublas"]

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
    """`vllm serve`, ready. `name` is of this server alone."""
    ports = iter(range(8121, 8200))

    def __init__(self, out, name, tracer=(), eager=False, share=0.3):
        model, plugin = f"{out}/model", f"{out}/plugin"
        if not os.path.exists(f"{model}/tokenizer.json"):
            make_model(model)
            write(f"{plugin}/ct_vllm_steps.py", PLUGIN)
            write(f"{plugin}/ct_vllm_steps-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: ct-vllm-steps\nVersion: 1\n")
            write(f"{plugin}/ct_vllm_steps-1.dist-info/entry_points.txt", "[vllm.general_plugins]\nct_vllm_steps = ct_vllm_steps:register\n")
        self.port, self.seen, self.rounds_seen = next(self.ports), f"{out}/vllm.{name}.steps", []
        if os.path.exists(self.seen):
            os.remove(self.seen)
        env = {**os.environ, "PYTHONPATH": plugin + ":" + os.environ.get("PYTHONPATH", ""), "CT_VLLM_STEPS": self.seen, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
               "HF_HUB_OFFLINE": "1", "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_CACHE_ROOT": f"{out}/vllm.cache"}
        command = [*tracer, sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--port", str(self.port), "--load-format", "dummy", "--dtype", "bfloat16",
                   "--max-model-len", "2048", "--gpu-memory-utilization", str(share), "--max-num-seqs", str(SEQUENCES), "--max-num-batched-tokens", str(BATCHED_TOKENS),
                   "--no-enable-prefix-caching", *(["--enforce-eager"] if eager else [])]
        self.log = f"{out}/vllm.{name}.log"
        began = time.monotonic()
        with open(self.log, "w", encoding="utf-8") as log:
            self.proc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        while not self.healthy():
            if self.proc.poll() is not None or time.monotonic() > began + 240:
                with open(self.log, encoding="utf-8", errors="replace") as text:
                    print("".join(line for line in text if "EngineCore" in line)[-3000:])
                self.proc.kill()
                sys.exit(f"{name}: vLLM does not start, see {self.log}")
            time.sleep(0.2)
        print(f"  {name}: ready after {time.monotonic() - began:.1f} s", flush=True)

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
        """Tokens a second of each round; all prompts at once, the same in each round."""
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
    """For a look at home: as small as it gets."""
    subprocess.run(["xz", "-T0", "-3", trace], check=True)
    print(f"  kept {os.path.getsize(trace + '.xz')} bytes in {out}")


def steps(tracer, out):
    for name, eager, options in (("eager", True, WITH_TOKENS), ("graphs", False, WITH_TOKENS), ("graphs-gpu", False, WITH_GPU)):
        trace = f"{out}/vllm.{name}.jsonl"
        print(f"--- {name}, {' '.join(options)}, from the start", flush=True)
        s = Server(out, name, [tracer, "-q", "--no-summary", *options, "--jsonl", trace, "--"], eager)
        print(f"  tokens/s {[round(x) for x in s.rounds(2)]}", flush=True)
        s.end()
        serving.check(tracer, trace, s.said(), f"vllm.{name}", out)
        end = serving.end_of(trace)
        print(f"  drops {sum(end['drops'].values())}, cost share {end.get('cost_share')}, {os.path.getsize(trace)} bytes", flush=True)
        keep(trace, out)


def late(tracer, out):
    s, trace = Server(out, "late"), f"{out}/vllm.late.jsonl"
    s.rounds(1)
    ct = serving.attached(tracer, trace, s.worker(), *WITH_TOKENS)
    s.rounds(1)
    serving.detach(ct)
    print("--- attached late", flush=True)
    s.end()
    serving.check(tracer, trace, s.said(), "vllm.late", out)
    keep(trace, out)


def cost(tracer, out, eager=False, turns=6):
    """From the start: two servers in turn. Attached: the same server before, traced, after."""
    ways = {"attached, defaults": [], "attached, --detail=normal -e cublas": WITH_TOKENS, "attached, --all": ["--all"]}
    bare_server, trace = Server(out, "bare", eager=eager), f"{out}/vllm.cost.jsonl"
    traced = Server(out, "traced", [tracer, "-q", "--no-summary", "--jsonl", trace + ".start", "--"], eager)
    bare_server.rounds(2)
    traced.rounds(2)
    print(f"--- cost, {'eager' if eager else 'graphs'}", flush=True)
    rows = [(statistics.median(bare_server.rounds(2)), statistics.median(traced.rounds(2))) for _ in range(turns)]
    serving.ratio("from the start, defaults", [r[1] for r in rows], [r[0] for r in rows])
    traced.end()
    for name, options in ways.items():
        bare, rates = [], []
        for _ in range(turns):
            before = statistics.median(bare_server.rounds(2))
            ct = serving.attached(tracer, trace, bare_server.worker(), *options)
            rates.append(statistics.median(bare_server.rounds(2)))
            serving.detach(ct)
            bare.append((before + statistics.median(bare_server.rounds(2))) / 2)
            os.remove(trace)
        serving.ratio(name, rates, bare)
    bare_server.end()
    os.remove(trace + ".start")


def cost_eager(tracer, out):
    cost(tracer, out, eager=True, turns=4)


def daemon(tracer, out, turns=4):
    s = Server(out, "daemon")
    s.rounds(2)
    serving.daemon_levels(tracer, out, s, turns)
    s.end()


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
    for part in parts or ["steps", "late", "cost", "cost_eager", "daemon"]:
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
