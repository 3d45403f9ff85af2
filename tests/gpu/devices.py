# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Identification of GPUs: two processes that see one GPU each (CUDA_VISIBLE_DEVICES=0, =1), and call it 0. Their UUIDs must be
nvidia-smi's, their rows two devices, and the operations per second those that PyTorch measures with events.

usage: devices.py CUDATRACE OUT_FOLDER
       devices.py --work          products of matrices; prints a line of JSON
On a machine with one GPU both see that one, so there is a single device.
"""
import json
import os
import re
import subprocess
import sys

N, TIMES = 8192, 50


def work():
    import torch

    a, b = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(10):
        a @ b
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(TIMES):
        a @ b
    end.record()
    torch.cuda.synchronize()
    tflops = 2 * N**3 * TIMES / begin.elapsed_time(end) / 1e9
    print(json.dumps({"pid": os.getpid(), "visible": os.environ["CUDA_VISIBLE_DEVICES"], "tflops": tflops,
                      "uuid": str(getattr(torch.cuda.get_device_properties(0), "uuid", ""))}), flush=True)


def main(tracer, out):
    listed = dict(re.findall(r"^GPU (\d+): .*\(UUID: (GPU-[0-9a-f-]+)\)", subprocess.run(
        ["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=True).stdout, re.M))
    seen = ("0", "1") if len(listed) > 1 else ("0", "0")
    path = os.path.join(out, "devices.jsonl")
    me = f"{sys.executable} {os.path.abspath(__file__)} --work"
    ran = subprocess.run([tracer, "-q", "--gpu-time", "--gpu-stats", "--detail=normal", "-e", "cublas", "--jsonl", path, "--chrome", os.path.join(out, "devices.json"),
                          "--", "sh", "-c", f"CUDA_VISIBLE_DEVICES={seen[0]} {me} & CUDA_VISIBLE_DEVICES={seen[1]} {me}; wait"],
                         stdout=subprocess.PIPE, text=True, check=False)
    said = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    wrong = ran.returncode or len(said) != 2
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f if '"type":"gpu_device"' in line]
    for one in said:
        mine = [e for e in lines if e["pid"] == one["pid"] and "uuid" in e]
        right = bool(mine) and all(e["uuid"] == listed[one["visible"]] for e in mine)
        wrong |= not right
        print(f"CUDA_VISIBLE_DEVICES={one['visible']}: {mine[-1] if mine else 'nothing'}; nvidia-smi {listed[one['visible']]}, "
              f"torch {one['uuid']}: {'the same' if right else 'NOT THE SAME'}")
    report = json.loads(subprocess.run([tracer, "report", "-q", "--format=json", path], stdout=subprocess.PIPE, text=True, check=True).stdout)
    devices = report["gpu"]["devices"]
    for d in devices:
        print({k: d.get(k) for k in ("device", "uuid", "nvml_index", "pci", "model", "shared", "processes", "executions", "busy_ns")})
    wrong |= {d.get("uuid") for d in devices} != {listed[v] for v in seen} or len(devices) != len(set(seen))
    products = [g for g in report.get("gemms", {}).get("list", []) if (g["m"], g["n"], g["k"]) == (N, N, N)]
    for g in products:
        print({k: g.get(k) for k in ("name", "count", "gpu_executions", "tflops", "peak_tflops", "peak_share", "peak_type")})
    wrong |= not products
    for one in said:
        print(f"by torch's events: {one['tflops']:.1f} TFLOP/s")
    print(subprocess.run([tracer, "report", "-q", "--section=gpu", path], stdout=subprocess.PIPE, text=True, check=True).stdout.split("On the GPU")[-1][:6000])
    with open(os.path.join(out, "devices.json"), encoding="utf-8") as f:
        rows = {e["args"]["name"] for e in json.load(f) if e.get("name") == "thread_name"}
    print("rows", sorted(r for r in rows if r.startswith("GPU")))
    print("WRONG" if wrong else "as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(work() if sys.argv[1:] == ["--work"] else main(*sys.argv[1:]))
