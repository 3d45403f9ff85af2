# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Inference serving on a real GPU: continuous batching of transformers (generate_batch, paged cache), random weights. The report must find
the engine's own steps, tokens and sequences. Also measures the cost of tracing in tokens per second.

usage: serving.py CUDATRACE OUT_FOLDER [PART...]    PART: steps, late, cost, daemon; all if none is named. 200 seconds
       serving.py --engine HOW --log FILE           the traced program; HOW: sdpa, eager (attention), graphs (sdpa, CUDA graphs),
                                                    async (sdpa, steps overlap), plain (a loop of generate)

The engine prints "ready". For each number N on stdin it runs N rounds and prints tokens per second of each as JSON. FILE has for each round
its time, and for each step tokens, sequences, padded tokens, and arguments of the model's forward.
"""
import bisect
import collections
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, HIDDEN, VOCAB, NEW = 8, 1024, 32000, 24
WAYS = ("sdpa", "graphs", "async", "plain")


def prompts():
    rng = random.Random(0)
    return [[rng.randrange(10, VOCAB) for _ in range(n)] for n in (5, 17, 64, 200, 31, 9, 400, 120, 77, 3, 48, 250)]


class Log:
    def __init__(self):
        self.rounds, self.steps, self.forwards, self.on = [], [], [], False

    def wrap(self, model):
        """Records steps from the engine's own lists and the model's arguments; neither if the version lacks them."""
        import torch
        forward = model.forward

        def logged(*args, **kwargs):
            ids = kwargs.get("input_ids", args[0] if args else None)
            if self.on and ids is not None:
                self.forwards.append({"tokens": ids.numel(), "at": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                                      "capturing": torch.cuda.is_current_stream_capturing()})
            return forward(*args, **kwargs)
        model.forward = logged
        try:
            from transformers.generation.continuous_batching import input_outputs
            cls = input_outputs.ContinuousBatchingIOs
            prepare = cls.prepare_batch_tensors

            def noted(io, requests_in_batch, *args, **kwargs):
                if self.on:
                    self.steps.append({"tokens": sum(f.query_length for f in requests_in_batch), "batch": sum(bool(f.has_new_token) for f in requests_in_batch),
                                       "sequences": len(requests_in_batch), "at": time.clock_gettime_ns(time.CLOCK_MONOTONIC)})
                result = prepare(io, requests_in_batch, *args, **kwargs)
                if self.on:
                    self.steps[-1]["padded"] = getattr(io, "num_q_tokens", None)
                return result
            cls.prepare_batch_tensors = noted
        except Exception as e:  # pylint: disable=broad-exception-caught
            print(f"steps are not counted by the engine: {e!r}", file=sys.stderr)


def make(how):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=3 * HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=16,
                         num_key_value_heads=8, max_position_embeddings=2048, eos_token_id=None, bos_token_id=1, pad_token_id=0)
    model = LlamaForCausalLM(config).to(device="cuda", dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    if how != "plain":
        for name in ("paged|eager", "eager_paged") if how == "eager" else ("sdpa", "sdpa_paged", "paged|sdpa"):
            try:
                model.set_attn_implementation(name)
                break
            except Exception as e:  # pylint: disable=broad-exception-caught
                print(f"attention {name}: {e!r}", file=sys.stderr)
    return model


def settings(how):
    """Returns those that this version of transformers supports."""
    from transformers import GenerationConfig
    graphs = how == "graphs"
    wanted = {"use_cuda_graph": graphs, "use_async_batching": how == "async", "auto_switch_to_flash": False, "max_batch_tokens": 256,
              "max_memory_percent": 0.2, "max_requests_per_batch": 8}
    gen = GenerationConfig(max_new_tokens=NEW, do_sample=False, eos_token_id=-1, pad_token_id=0)
    try:
        import dataclasses
        from transformers import ContinuousBatchingConfig
        names = {f.name for f in dataclasses.fields(ContinuousBatchingConfig)}
        return {"generation_config": gen, "continuous_batching_config": ContinuousBatchingConfig(**{k: v for k, v in wanted.items() if k in names})}
    except Exception as e:  # pylint: disable=broad-exception-caught
        print(f"no ContinuousBatchingConfig: {e!r}", file=sys.stderr)
        for name, value in {"use_cuda_graph": graphs, "max_batch_tokens": 256, "num_blocks": 4096}.items():
            setattr(gen, name, value)
        return {"generation_config": gen}


def batch_round(model, config):
    results = model.generate_batch(prompts(), progress_bar=False, **config)
    outputs = results.values() if isinstance(results, dict) else results
    return sum(len(getattr(r, "generated_tokens", [])) for r in outputs)


def plain_round(model):
    import torch
    made = 0
    for ids in prompts()[:4]:
        out = model.generate(torch.tensor([ids], device="cuda"), max_new_tokens=NEW, do_sample=False)
        made += out.shape[1] - len(ids)
    return made


def engine(how, path):
    import torch
    import transformers
    log, model = Log(), make(how)
    log.wrap(model)
    real = how
    try:
        config = settings(how) if how != "plain" else None
        work = (lambda: batch_round(model, config)) if how != "plain" else (lambda: plain_round(model))
        assert work(), "no tokens"
    except Exception:  # pylint: disable=broad-exception-caught
        traceback.print_exc()
        real = "plain"
        model = make(real)
        log.wrap(model)
        work = lambda: plain_round(model)  # noqa: E731
        work()
    torch.cuda.synchronize()
    print("ready", flush=True)
    log.on = True
    for line in sys.stdin:
        rates = []
        for _ in range(int(line)):
            begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            made = work()
            torch.cuda.synchronize()
            end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            log.rounds.append([begin, end, made])
            rates.append(made / (end - begin) * 1e9)
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"asked": how, "how": real, "transformers": transformers.__version__, "torch": torch.__version__, "tid": os.getpid(),
                       "attention": getattr(model.config, "_attn_implementation", None), "rounds": log.rounds, "steps": log.steps, "forwards": log.forwards,
                       "weight_bytes": sum(p.numel() * p.element_size() for p in model.parameters())}, f)
        print(json.dumps(rates), flush=True)
    return 0


class Engine:
    def __init__(self, how, out, tracer=()):
        self.log = os.path.join(out, f"serving.{how}.engine.json")
        self.proc = subprocess.Popen([*tracer, sys.executable, os.path.abspath(__file__), "--engine", how, "--log", self.log],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.proc.stdout.readline() == "ready\n"

    def rounds(self, n):
        self.proc.stdin.write(f"{n}\n")
        self.proc.stdin.flush()
        return json.loads(self.proc.stdout.readline())

    def end(self):
        self.proc.stdin.close()
        self.proc.wait()
        if not os.path.exists(self.log):
            return None
        with open(self.log, encoding="utf-8") as f:
            return json.load(f)


def report_of(tracer, trace, out):
    subprocess.run([tracer, "report", "-q", "--serving", "--section=serving,findings", "--format=json", "--top", "20", "-o", out, trace], check=True)
    with open(out, encoding="utf-8") as f:
        report = json.load(f)
    with open(trace, encoding="utf-8") as f:
        base = next(e["clock_base_ns"] for e in map(json.loads, f) if e["type"] == "header")
    return report, base


def show(tracer, trace):
    text = subprocess.run([tracer, "report", "-q", "--serving", trace], stdout=subprocess.PIPE, text=True, check=True).stdout
    on = False
    for line in text.splitlines():
        on = line.startswith("Serving") or (on and (line.startswith("  ") or not line))
        if on and line:
            print("    " + line)


def check(tracer, trace, said, name, out):
    """Compares the report's steps of the last round with the engine's."""
    report, base = report_of(tracer, trace, os.path.join(out, name + ".report.json"))
    s = report.get("serving")
    show(tracer, trace)
    findings = [(f["id"], round(f.get("lost_ns", 0) / 1e6, 1)) for f in report.get("findings") or []]
    print(f"  findings {findings}")
    if not s or "list" not in s:
        print(f"  NO STEPS: {s}")
        return
    begin, end, made = said["rounds"][-1]
    got = [x for x in s["list"] if begin <= base + x["ts"] * 1e6 <= end]
    steps = [x for x in said["steps"] if begin <= x["at"] <= end]
    source = "the engine's lists"
    if not steps:
        steps = [x for x in said["forwards"] if begin <= x["at"] <= end and not x["capturing"]]
        source = "calls of forward"
    print(f"  found {s['found']}, engines {s.get('engines')}, tokens are {s.get('tokens_are')} ({s.get('tokens_confidence')}), phases by {s.get('phases_by')} "
          f"({s.get('phases_confidence')}); steps {len(got)} of the report, {len(steps)} by {source}; tokens made in the round {made}")
    want = collections.Counter((x["tokens"], x.get("batch")) for x in steps)
    have = collections.Counter((x.get("tokens"), x.get("batch")) for x in got)
    padded = collections.Counter(x.get("padded") for x in steps)
    print(f"  steps with the same tokens {sum((collections.Counter(x['tokens'] for x in steps) & collections.Counter(x.get('tokens') for x in got)).values())}, "
          f"with the same tokens and sequences {sum((want & have).values())}, "
          f"with the padded tokens {sum((padded & collections.Counter(x.get('tokens') for x in got)).values())} of {len(steps)}")
    phases = collections.Counter("prefill" if x["tokens"] > x.get("sequences", x["tokens"]) else "decode" for x in steps)
    print(f"  phases: engine {dict(phases)}, report {dict(collections.Counter(x['phase'] for x in got))}")
    # in time order: the step of the report that begins after the engine prepared it
    starts, right, pairs = [base + x["ts"] * 1e6 for x in got], 0, []
    for x in steps:
        i = bisect.bisect_left(starts, x["at"])
        if i < len(got):
            pairs.append((x["tokens"], got[i].get("tokens")))
            right += got[i].get("tokens") in (x["tokens"], x.get("padded"))
    print(f"  in order of time: {right} of {len(steps)} as the engine has them; first {pairs[:12]}")
    print(f"  memory {s.get('memory')}, weights of the model {said['weight_bytes']}; graphs {s.get('graphs')}", flush=True)


def end_of(trace):
    with open(trace, "rb") as f:
        f.seek(max(0, os.path.getsize(trace) - 65536))
        return json.loads(f.read().splitlines()[-1])


def steps(tracer, out):
    for how in WAYS:
        more = [["--detail=normal", "-e", "cublas", "--gpu-time", "--python=launch,graph,sync,transfer,event"]] if how == "graphs" else []
        for options in (["--detail=normal", "-e", "cublas"], *more):
            trace = os.path.join(out, f"serving.{how}.{len(options)}.jsonl")
            e = Engine(how, out, [tracer, "-q", "--no-summary", *options, "--jsonl", trace, "--"])
            if not e.ready:
                print(f"{how}: the engine does not start")
                e.end()
                break
            e.rounds(1)
            said = e.end()
            print(f"--- {how}, {' '.join(options)}: ran {said['how']}, attention {said['attention']}, transformers {said['transformers']}, torch {said['torch']}", flush=True)
            check(tracer, trace, said, os.path.basename(trace), out)
            print(f"  drops {sum(end_of(trace)['drops'].values())}, cost share {end_of(trace).get('cost_share')}, {os.path.getsize(trace)} bytes", flush=True)
            os.remove(trace)


def attached(tracer, trace, pid, *options):
    """pid: None for all processes."""
    ct = subprocess.Popen([tracer, "-q", "--no-summary", *options, "--jsonl", trace, *(["-p", str(pid)] if pid else [])])
    while ct.poll() is None and (not os.path.exists(trace) or not os.path.getsize(trace)):
        time.sleep(0.05)
    time.sleep(1)
    return ct


def detach(ct):
    ct.send_signal(signal.SIGINT)
    ct.wait()


def late(tracer, out):
    for how in ("graphs",):
        e, trace = Engine(how, out), os.path.join(out, f"serving.{how}.late.jsonl")
        if not e.ready:
            e.end()
            continue
        e.rounds(1)
        ct = attached(tracer, trace, e.proc.pid, "--detail=normal", "-e", "cublas")
        e.rounds(1)
        detach(ct)
        said = e.end()
        print(f"--- {how}, attached late: ran {said['how']}", flush=True)
        check(tracer, trace, said, os.path.basename(trace), out)
        os.remove(trace)


def ratio(name, rates, bare):
    r = sorted(a / b for a, b in zip(rates, bare))
    print(f"  {name:44} {statistics.median(rates):9.1f} tokens/s, {statistics.median(r):.3f} of untraced ({r[len(r) // 4]:.3f} to {r[-(len(r) // 4) - 1]:.3f}), {len(r)} rounds", flush=True)


def cost(tracer, out, turns=4):
    ways = {"attached, defaults": [], "attached, --detail=normal -e cublas": ["--detail=normal", "-e", "cublas"]}
    for how in ("sdpa", "graphs"):
        e, trace = Engine(how, out), os.path.join(out, "serving.cost.jsonl")
        if not e.ready:
            e.end()
            continue
        e.rounds(2)
        print(f"--- cost, {how}", flush=True)
        for name, options in ways.items():
            bare, rates = [], []
            for _ in range(turns):
                before = statistics.median(e.rounds(2))
                ct = attached(tracer, trace, e.proc.pid, *options)
                rates.append(statistics.median(e.rounds(2)))
                detach(ct)
                bare.append((before + statistics.median(e.rounds(2))) / 2)
                os.remove(trace)
            ratio(name, rates, bare)
        e.end()
        if how != "sdpa":
            continue
        # from the start: processes side by side, in turn
        options = ["--detail=normal", "-e", "cublas"]
        both = [Engine(how, out), Engine(how, out, [tracer, "-q", "--no-summary", "--jsonl", trace, "--"]),
                Engine(how, out, [tracer, "-q", "--no-summary", *options, "--jsonl", trace + "2", "--"])]
        if all(x.ready for x in both):
            rows = [[statistics.median(x.rounds(1)) for x in both] for _ in range(turns + 2)][1:]
            ratio("from the start, defaults", [r[1] for r in rows], [r[0] for r in rows])
            ratio("from the start, --detail=normal -e cublas", [r[2] for r in rows], [r[0] for r in rows])
        for x in both:
            x.end()
        for path in (trace, trace + "2"):
            if os.path.exists(path):
                os.remove(path)


def daemon_levels(tracer, out, e, turns):
    """Measures the cost of each level of the daemon for the engine `e`, which is ready."""
    folder = os.path.join(out, "serving.daemon")
    os.makedirs(folder, exist_ok=True)
    for level in ("metrics", "trace"):
        bare, rates, ended = [], [], None
        config = os.path.join(folder, "config.yaml")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"level: {level}\n")
        for _ in range(turns):
            before = statistics.median(e.rounds(2))
            with open(os.path.join(folder, "log"), "a", encoding="utf-8") as log:
                d = subprocess.Popen([tracer, "daemon", "--config", config, "--set", "metrics.listen=127.0.0.1:9476", "--set", f"ctl.socket={folder}/ctl.sock",
                                      "--set", f"files.directory={folder}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            time.sleep(3)
            rates.append(statistics.median(e.rounds(2)))
            d.send_signal(signal.SIGTERM)
            ended = d.wait()
            bare.append((before + statistics.median(e.rounds(2))) / 2)
        ratio(f"daemon, level {level} (ended with {ended})", rates, bare)
    with open(os.path.join(folder, "log"), encoding="utf-8") as f:
        print("  " + f.read()[-600:])


def daemon(tracer, out, turns=3):
    e = Engine("sdpa", out)
    if e.ready:
        e.rounds(2)
        print("--- the daemon, sdpa", flush=True)
        daemon_levels(tracer, out, e, turns)
    e.end()


def main():
    if sys.argv[1] == "--engine":
        return engine(sys.argv[2], sys.argv[4])
    tracer, out, *parts = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    for part in parts or ["steps", "cost", "late", "daemon"]:
        began = time.monotonic()
        try:
            globals()[part](os.path.abspath(tracer), os.path.abspath(out))
        except Exception:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
        print(f"=== {part}: {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
