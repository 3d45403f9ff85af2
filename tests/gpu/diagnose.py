# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What --stalls finds in kernels with known problems and in healthy ones, and what Nsight Compute measures in the same kernels.

usage: diagnose.py CUDATRACE OUT_FOLDER [PART...]
       PART: cuda (proof.cu, compiled here by nvcc), triton and torch (proof_triton.py): traced; ncu: with the others, also under ncu
       SECONDS=0.4     of each kernel
"""
import csv
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = os.environ.get("SECONDS", "0.4")
# Part: kernel (a regular expression for its name): the diagnoses that are right as the first one; none: no problem may be found.
# Divergence has two diagnoses, for branches and for predicated instructions, with the same advice.
DIVERGED = ("divergence", "predication")
PLANTED = {
    "cuda": {"hash_lookup": ("scattered_access",), "transpose_tile": ("bank_conflicts",), "row_sums": ("bank_conflicts",), "sum_by_atomic": ("contended_atomic",),
             "bucket_max": ("local_memory",), "escape_time": DIVERGED, "interpret": DIVERGED, "n_body": ("small_grid",), "last_wave": ("tail",),
             "sgemm_tile": ("no_tensor_cores",), "list_walk": ("memory_latency",), "monte_carlo": ("instructions",), "axpy": ()},
    "triton": {"pick_channel": ("scattered_access",), "count_all": ("contended_atomic",), "wide_rows": ("local_memory",), "softmax_rows": ("small_grid",),
               "uneven_waves": ("tail",), "matmul_ieee": ("no_tensor_cores",), "thin_sum": ("memory_latency",), "horner": ("instructions",), "copy_blocks": (),
               "matmul_half": ()},
    "torch": {"nvjet|h16816|f16f16|hgemm": (), "f32f32|sgemm": ("no_tensor_cores",), "flash_fwd": (), "layer_norm": (), "[Ss]oft_?[Mm]ax": (),
              "gather|indexSelect|embedding": (), "reduce_kernel": ()},
}
METRICS = """gpu__time_duration.sum
sm__throughput.avg.pct_of_peak_sustained_elapsed
dram__throughput.avg.pct_of_peak_sustained_elapsed
l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio
l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio
l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
l1tex__data_pipe_lsu_wavefronts_mem_shared.sum
l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum
l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum
sm__warps_active.avg.pct_of_peak_sustained_active
smsp__issue_active.avg.pct_of_peak_sustained_active
smsp__thread_inst_executed_per_inst_executed.ratio
smsp__thread_inst_executed_pred_on_per_inst_executed.ratio
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active
sm__cycles_active.avg
sm__cycles_elapsed.max
launch__grid_size
launch__waves_per_multiprocessor""".split()
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = "barrier branch_resolve dispatch_stall drain gmma imc_miss lg_throttle long_scoreboard math_pipe_throttle membar mio_throttle misc no_instruction not_selected short_scoreboard sleeping tex_throttle wait".split()


def program(part, out, seconds):
    if part != "cuda":
        return [sys.executable, HERE + "/proof_triton.py", part, seconds]
    path = out + "/proof"
    if not os.path.exists(path):
        subprocess.run(["/usr/local/cuda/bin/nvcc", "-O3", "-lineinfo", "-arch=" + os.environ.get("ARCH", "native"), "-o", path, HERE + "/proof.cu"], check=True)
    return [path, seconds]


def signs_of(diagnosis):
    return ", ".join(f"{s['sign']} {s['value']:.4g}" for s in diagnosis["signs"])


def judge(part, report):
    """Prints a line for each planted kernel; returns their results."""
    rows = sorted(report["stalls"]["kernels"], key=lambda k: -k["samples"])
    results = {}
    print(f"\n{'kernel':28} {'samples':>9} {'planted':18} {'first diagnosis':20} {'':7} others; signs of the first")
    for pattern, planted in PLANTED[part].items():
        of = next((k for k in rows if re.search(pattern, k.get("kernel", ""))), None)
        found = of["diagnoses"] if of else []
        first = found[0]["diagnosis"] if found else "none" if of else "not sampled"
        problems = [d["diagnosis"] for d in found if d["kind"] == "problem"]
        right = bool(of) and (first in planted if planted else not problems)
        results[pattern] = {"kernel": of and of["kernel"], "planted": planted, "first": first, "right": right, "problems": problems, "row": of}
        print(f"{pattern[:28]:28} {of['samples'] if of else 0:9} {' or '.join(planted) or 'healthy':18} {first:20} {'right' if right else 'WRONG':7} "
              f"{', '.join(d['diagnosis'] for d in found[1:]) or '-'}; {signs_of(found[0]) if found else '-'}")
        if of and not right:
            top = sorted(of["reasons"], key=lambda r: -r["samples"])[:5]
            classes = sorted(of["classes"], key=lambda c: -c["samples"])[:4]
            print(f"    issued {of.get('issue_share', 0):.3f}, SMs busy {of.get('sm_busy', 0):.3f}, wait {of.get('wait_cycles', 0):.0f} cycles, {of.get('access_bytes')} bytes per access; "
                  + "; ".join(", ".join(f"{x[what]} {x['share']:.3f}" for x in of) for what, of in (("reason", top), ("class", classes))))
    known = {r["row"]["samples"] for r in results.values() if r["row"]}
    for k in rows:
        if k["enough"] and k["samples"] > 2000 and k["samples"] not in known:
            print(f"also: {k.get('kernel', '?')[:60]}: {k['samples']} samples, {', '.join(d['diagnosis'] for d in k['diagnoses']) or 'none'}")
    return results


def traced(cudatrace, out, part):
    path = f"{out}/{part}.jsonl"
    with open(f"{out}/{part}.out", "w", encoding="utf-8") as f:
        ran = subprocess.run([cudatrace, "-q", "--probe=inject", "--all", "--stalls=16", "--gpu-time", "--no-summary", "--jsonl", path, "--", *program(part, out, SECONDS)],
                       stdout=f, check=False, timeout=200)
    with open(f"{out}/{part}.out", encoding="utf-8") as f:
        print(f.read(), end="")
    print("status of the program:", ran.returncode)
    made = subprocess.run([cudatrace, "report", "--format=json", path], capture_output=True, text=True, check=False)
    if made.returncode:
        print("no report:", made.stderr[-500:])
        return {}
    report = json.loads(made.stdout)
    with open(path, "rb") as f:
        f.seek(max(0, os.path.getsize(path) - 65536))
        end = json.loads(f.read().splitlines()[-1])
    print("end:", {k: v for k, v in end.items() if k.startswith("stall_") and v}, "lost:", json.dumps(report["lost"]))
    with open(f"{out}/{part}-section.txt", "w", encoding="utf-8") as f:
        subprocess.run([cudatrace, "report", "--section=stalls", "--width=160", path], stdout=f, check=False)
    with open(f"{out}/{part}-section.json", "w", encoding="utf-8") as f:
        json.dump({"stalls": report["stalls"], "end": end, "lost": report["lost"]}, f)
    return judge(part, report)


def under_ncu(out, part):
    """Rows of ncu's table, one launch of each kernel."""
    names = "|".join(PLANTED[part])
    metrics = METRICS + [STALLED.format(s) for s in STALLS]
    path = f"{out}/{part}-ncu.csv"
    while metrics:
        ran = subprocess.run(["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--target-processes", "all", "-k", f"regex:{names}",
                              "--metrics", ",".join(metrics), *program(part, out, "0")], capture_output=True, text=True, check=False, timeout=240)
        unknown = set(re.findall(r"[Ff]ailed to find metric (\S+)", ran.stdout + ran.stderr))
        unknown = [m for m in metrics if any(u.strip("'\".,") == m for u in unknown)]
        if not unknown:
            break
        print("not metrics of this GPU:", *unknown)
        metrics = [m for m in metrics if m not in unknown]
    lines = [x for x in ran.stdout.splitlines() if x.startswith('"')]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    if len(lines) < 3:
        print("ncu:", ran.returncode, (ran.stdout + ran.stderr)[-800:])
        return []
    return list(csv.DictReader([lines[0], *lines[2:]]))


def number(row, metric):
    try:
        return float(row[metric].replace(",", ""))
    except (KeyError, ValueError, TypeError):
        return float("nan")


def beside(part, rows, results):
    """Prints what ncu measured beside the first diagnosis."""
    print(f"\n{'ncu: kernel':20} {'first diagnosis':18} {'ms':>7} {'SM%':>5} {'DRAM%':>5} {'ld':>5} {'st':>5} {'bank':>5} {'local':>8} {'warps%':>6} {'issue%':>6} "
          f"{'lanes':>5} {'on':>5} {'tens%':>5} {'SMs%':>5} {'grid':>7} {'waves':>6} stalls per issue")
    for pattern in PLANTED[part]:
        of = max((r for r in rows if re.search(pattern, r["Kernel Name"])), key=lambda r: number(r, METRICS[0]), default=None)
        if of is None:
            print(f"{pattern[:20]:20} not in ncu's table")
            continue
        x = [number(of, m) for m in METRICS]
        stalls = sorted(((number(of, STALLED.format(s)), s) for s in STALLS if number(of, STALLED.format(s)) >= 0), reverse=True)[:3]
        print(f"{pattern[:20]:20} {results.get(pattern, {}).get('first', '?'):18} {x[0] / 1e6:7.3f} {x[1]:5.1f} {x[2]:5.1f} {x[3]:5.1f} {x[4]:5.1f} "
              f"{x[5] / x[6] if x[6] else 0:5.2f} {x[7] + x[8]:8.2g} {x[9]:6.1f} {x[10]:6.1f} {x[11]:5.1f} {x[12]:5.1f} {x[13]:5.1f} {100 * x[14] / x[15] if x[15] else 0:5.1f} "
              f"{x[16]:7.0f} {x[17]:6.2f} {', '.join(f'{s} {n:.1f}' for n, s in stalls)}")


def main():
    cudatrace, out, *parts = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    sys.stdout.reconfigure(line_buffering=True)
    results = {}
    for part in [p for p in parts if p != "ncu"] or PLANTED:
        print(f"== {part}", flush=True)
        try:
            results[part] = traced(cudatrace, out, part)
            if "ncu" in parts:
                beside(part, under_ncu(out, part), results[part])
        except (subprocess.SubprocessError, OSError, ValueError, KeyError) as e:
            print(f"{part}: failed: {e!r}"[:600], flush=True)
    every = [r for of in results.values() for r in of.values()]
    set_two = [r for part in ("cuda", "triton") for r in results.get(part, {}).values() if r["planted"]]
    healthy = [r for r in every if not r["planted"]]
    print(f"\nfirst diagnosis right: {sum(r['right'] for r in set_two)} of {len(set_two)} planted; healthy and real ones without a false problem: "
          f"{sum(r['right'] for r in healthy)} of {len(healthy)}; other planted: {sum(r['right'] for r in every if r['planted']) - sum(r['right'] for r in set_two)}")
    with open(f"{out}/diagnose.json", "w", encoding="utf-8") as f:
        json.dump(results, f)


if __name__ == "__main__":
    main()
