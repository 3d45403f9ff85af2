# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rooflines on a GPU: work of known size, its rates by CUDA events and PyTorch's FlopCounterMode, against the report's.

usage: roofline.py CUDATRACE OUT_FOLDER    traces each program, and compares
       roofline.py work|prefill|decode FILE    the programs
"""
import json
import os
import subprocess
import sys

ROUNDS = 10


def timed(torch, rows, name, run, **expected):
    """Runs it ROUNDS times between two events, after a warm-up; expected: of one run."""
    try:
        run()
    except (RuntimeError, AttributeError, ValueError, TypeError) as e:
        print(f"{name}: not possible: {str(e)[:120]}")
        return
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(ROUNDS):
        run()
    end.record()
    torch.cuda.synchronize()
    rows.append(dict(expected, name=name, event_ns=begin.elapsed_time(end) * 1e6 / ROUNDS, runs=ROUNDS + 1))


def products(torch, rows):
    size = lambda t: torch.empty(0, dtype=t).element_size()  # noqa: E731
    for label, dtype, tf32, n in (("FP64", torch.float64, False, 4096), ("FP32", torch.float32, False, 4096), ("TF32", torch.float32, True, 8192),
                                  ("FP16", torch.float16, False, 8192), ("BF16", torch.bfloat16, False, 8192)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
        timed(torch, rows, f"mm {label} {n}", lambda a=a, b=b: torch.mm(a, b), mnk=[n, n, n], type=label, ops=2 * n ** 3, bytes=3 * n * n * size(dtype))
    a, b = (torch.randn(16, 2048, 1024, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    timed(torch, rows, "bmm BF16 16 x 2048 2048 1024", lambda: torch.bmm(a, b.transpose(1, 2)), mnk=[2048, 2048, 1024], type="BF16",
          ops=2 * 16 * 2048 * 2048 * 1024, bytes=16 * 2 * (2 * 2048 * 1024 + 2048 * 2048))
    n = 8192
    one = torch.ones((), device="cuda")
    a8, b8 = (torch.randn(n, n, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    timed(torch, rows, f"scaled_mm FP8 {n}", lambda: torch._scaled_mm(a8, b8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16),
          mnk=[n, n, n], type="FP8", ops=2 * n ** 3, bytes=n * n * (1 + 1 + 2))
    w, x = torch.randn(16384, 16384, device="cuda", dtype=torch.bfloat16), torch.randn(1, 16384, device="cuda", dtype=torch.bfloat16)
    timed(torch, rows, "mm BF16 1 row", lambda: torch.mm(x, w.t()), mnk=[16384, 1, 16384], type="BF16", ops=2 * 16384 ** 2, bytes=2 * (16384 ** 2 + 2 * 16384))


def others(torch, rows):
    f = torch.nn.functional
    x, y, z = (torch.randn(1 << 28, device="cuda") for _ in range(3))
    timed(torch, rows, "copy 1 GiB", lambda: y.copy_(x), kind="copy", bytes=2 * (1 << 30))
    timed(torch, rows, "zero 1 GiB", lambda: y.zero_(), kind="memset", bytes=1 << 30)
    timed(torch, rows, "add FP32", lambda: torch.add(x, y, out=z), kernel="CUDAFunctor_add<float>", bytes=3 * (1 << 30))
    timed(torch, rows, "mul by 2", lambda: torch.mul(x, 2.0, out=z), kernel="AUnaryFunctor<float, float, float", bytes=2 * (1 << 30))
    timed(torch, rows, "gelu", lambda: f.gelu(x), kernel="GeluCUDAKernelImpl", bytes=2 * (1 << 30))
    timed(torch, rows, "fill", lambda: y.fill_(3.0), kernel="FillFunctor<float>", bytes=1 << 30)
    h = torch.randn(65536, 4096, device="cuda", dtype=torch.bfloat16)
    g, b = (torch.randn(4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    timed(torch, rows, "layer norm BF16", lambda: f.layer_norm(h, (4096,), g, b), kernel="vectorized_layer_norm_kernel",
          bytes=65536 * (2 * 4096 * 2 + 8) + 2 * 4096 * 2)
    timed(torch, rows, "softmax 4096", lambda: torch.softmax(h, -1), kernel="cunn_SoftMaxForward", bytes=65536 * 4096 * 4)
    s = torch.randn(1 << 18, 512, device="cuda")
    timed(torch, rows, "softmax 512", lambda: torch.softmax(s, -1), kernel="softmax_warp_forward", bytes=(1 << 18) * 512 * 8)
    table, index = torch.randn(50257, 4096, device="cuda"), torch.randint(50257, (16384,), device="cuda")
    timed(torch, rows, "embedding", lambda: f.embedding(index, table), kernel="vectorized_gather_kernel", bytes=16384 * (4 * 4096 + 8) + 4 * 4096)


def attention(torch, rows):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q, k, v = (torch.randn(4, 16, 4096, 128, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    heads = 4 * 16
    for name, way, causal in (("flash", SDPBackend.FLASH_ATTENTION, False), ("flash causal", SDPBackend.FLASH_ATTENTION, True),
                              ("cudnn", SDPBackend.CUDNN_ATTENTION, False), ("efficient", SDPBackend.EFFICIENT_ATTENTION, False)):
        def run(way=way, causal=causal):
            with sdpa_kernel(way):
                torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        pairs = 4096 * 4097 // 2 if causal else 4096 * 4096
        timed(torch, rows, f"attention {name}", run, attention=name, type="BF16", ops=4 * pairs * 128 * heads, bytes=2 * 4 * heads * 4096 * 128)


def gpt2(torch, how):
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).to("cuda", torch.bfloat16).eval()
    rows, length = (8, 512) if how == "prefill" else (8, 1)
    ids = torch.randint(50257, (rows, length), device="cuda")
    past = None
    if how == "decode":
        past = model(torch.randint(50257, (rows, 256), device="cuda"), use_cache=True).past_key_values

    def step():
        if past is not None:
            past.crop(256)
        return model(ids, past_key_values=past, use_cache=past is not None).logits[0, -1].argmax().item()
    return step


def program(how, path):
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    rows = []
    with torch.inference_mode():
        if how == "work":
            products(torch, rows)
            others(torch, rows)
            attention(torch, rows)
        else:
            step = gpt2(torch, how)
            for _ in range(3):
                step()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for _ in range(20):
                step()
            end.record()
            torch.cuda.synchronize()
            with FlopCounterMode(display=False) as counter:
                step()
            rows.append({"name": how, "steps": 24, "event_ns": begin.elapsed_time(end) * 1e6 / 20, "flops": counter.get_total_flops(),
                         "by": {str(k): v for k, v in counter.get_flop_counts().get("Global", {}).items()}})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(rows, f, indent=1)


def match(row, x):
    if "mnk" in x:
        return row["kind"] == "product" and sorted([row["m"], row["n"], row["k"]]) == sorted(x["mnk"]) and row.get("type") == x["type"]
    if "kind" in x:
        return row["kind"] == x["kind"] and (x["kind"] == "memset" or row.get("direction") == "DtoD")
    if "kernel" in x:
        return row["kind"] == "kernel" and x["kernel"] in (row["name"] or "")
    if x.get("attention") == "cudnn":
        return row["kind"] == "product" and "attention" in row.get("op", "")
    name = {"flash": "false, false, false", "flash causal": "false, true, false", "efficient": "fmha_cutlassF"}[x["attention"]]
    return row["kind"] == "kernel" and name in (row["name"] or "") and ("flash_fwd" in row["name"]) == (x["attention"] != "efficient")


def compare(report, expected):
    section = report["roofline"]
    print("devices:", json.dumps(section["devices"]))
    print("all: GPU %.3f ms, known %.3f ms, headroom %.3f ms" % tuple(section[k] / 1e6 for k in ("gpu_ns", "known_work_ns", "headroom_ns")))
    print("steps:", json.dumps(section.get("steps")))
    for x in expected:
        if "steps" in x:
            print(f"{x['name']}: FlopCounterMode {x['flops']:.6g} per step, {x['by']}; the section {section.get('ops', 0) / x['steps']:.6g} per step (and its set-up)")
            print(f"   step by events {x['event_ns'] / 1e3:.1f} us")
            for row in section["list"][:14]:
                print("   ", {k: row.get(k) for k in ("kind", "name", "m", "n", "k", "batch", "type", "works", "executions", "gpu_ns", "known_work_ns", "bytes", "ops", "limit", "roof_share", "headroom_ns")})
            continue
        found = [row for row in section["list"] if match(row, x)]
        if not found:
            print(f"{x['name']:30} not in the section")
        for row in found:
            runs = row.get("works", 0)
            if not runs:
                print(f"{x['name']:30} work unknown: {row['executions']} executions, {row['gpu_ns'] / 1e6:.3f} ms of {row['name'][:100]}")
                continue
            took = row["known_work_ns"] / runs
            print(f"{x['name']:30} works {runs} of {x['runs']}; bytes x{row['bytes'] / runs / x['bytes']:.6f}; ops x{row['ops'] / runs / x['ops'] if x.get('ops') else 1:.6f}; "
                  f"time by events {x['event_ns'] / 1e3:.1f} us, by the section {took / 1e3:.1f} us ({took / x['event_ns'] - 1:+.1%}); "
                  f"{x.get('ops', 0) / x['event_ns'] / 1e3:.1f} TFLOP/s, {x['bytes'] / x['event_ns']:.0f} GB/s; {row.get('limit')} {row.get('roof_share')} clock {row.get('clock_share')}")


def main(tracer, out):
    inside = ["--probe=inject", "--detail=normal", "-e", "cublas,cudnn", "--gpu-time", "--gpu-stats=200", "--kernel-args"]
    layers = ["--all-layers", "--gpu-time", "--kernel-args"]
    for name, how, options in (("work", "work", inside), ("prefill", "prefill", inside), ("decode", "decode", inside), ("layers", "prefill", layers)):
        path, expected = f"{out}/{name}.jsonl", f"{out}/{name}.json"
        print(f"== {name}", flush=True)
        subprocess.run([tracer, *options, "--jsonl", path, "--", sys.executable, os.path.abspath(__file__), how, expected], check=False, timeout=100)
        made = subprocess.run([tracer, "report", "--format=json", path], capture_output=True, text=True, check=False)
        print(made.stderr[-500:], end="")
        subprocess.run([tracer, "report", "--section", "roofline", path], check=False)
        if name == "layers":
            subprocess.run([tracer, "report", "--map", "--top", "40", path], check=False)
        if not os.path.exists(expected) or made.returncode:
            print(f"{name}: the program or the report failed")
            continue
        with open(expected, encoding="utf-8") as f:
            compare(json.loads(made.stdout), json.load(f))


if __name__ == "__main__":
    if sys.argv[1] in ("work", "prefill", "decode"):
        program(*sys.argv[1:])
    else:
        main(*sys.argv[1:])
