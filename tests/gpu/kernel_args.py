# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Parameters of kernels on a GPU: their values against a program's own, the verdicts on planted failures with them, and their cost.

usage: kernel_args.py CUDATRACE OUT_FOLDER [values] [log] [failures] [cost]
"""
import json
import os
import re
import subprocess
import sys

from turns import in_turn, traced

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = ["use_after_free", "past_end_4_bytes", "past_end_1_gib", "null_pointer", "misaligned", "stack_overflow", "traps", "asserts", "none"]
# The uprobe rows have no parameters.
WAYS = ["--probe=inject", "--probe=inject --kernel-args=off", "--probe=inject --kernel-args --kernel"]


def build(out, name):
    program = os.path.join(out, name)
    subprocess.run(["nvcc", "-arch=native", "-lineinfo", "-o", program, f"{HERE}/{name}.cu", "-lcuda"], check=True)
    return program


def as_bytes(p):
    value = p.get("value")
    if value is None:
        return "-"
    return int(value, 16).to_bytes(p["size"], "little").hex() if value.startswith("0x") else value


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def values(tracer, out):
    program, path = build(out, "kernel_args"), out + "/values.jsonl"
    for way in ("--probe=inject", "--probe=inject --all"):
        ran = subprocess.run([tracer, "-q", *way.split(), "--jsonl", path, "--", program], stdout=subprocess.PIPE, text=True, check=False)
        block, *said = ran.stdout.splitlines()
        shown, blocks = [], 0
        for x in lines(path):
            if x.get("op") == "launch" and x["type"] == "kernel":
                name = x["kernel"].split("(")[0]
                rows = x.get("params", "missing")
                shown.append(f"{name} missing" if rows == "missing" else f"{name} unknown" if rows is None else
                             " ".join([name, *(f"{p['offset']}:{p['size']}:{as_bytes(p)}" for p in rows)]))
                blocks += sum(m["ptr"] == hex(int(block.split()[1], 16)) for p in rows or () if isinstance(p, dict) for m in p.get("memory", ()))
        ours = [x for x in lines(path) if re.search("ParamInfo|CaptureMode", x.get("name", ""))]
        print(f"values {way}: status {ran.returncode}, {len(said)} launches, {'as the program says' if shown == said else 'NOT as the program says'}, "
              f"{blocks} addresses in its block (6 of them), {len(ours)} query calls in the trace", flush=True)
        for a, b in zip(said, shown):
            if a != b:
                print(f"  program {a}\n  trace   {b}", flush=True)


def log(tracer, out):
    """What the driver writes into its own log of errors, without a tracer and with it."""
    program = build(out, "kernel_args")
    for before in ([], [tracer, "-q", "--probe=inject", "--jsonl", "/dev/null", "--"]):
        ran = subprocess.run([*before, program], env={**os.environ, "CUDA_LOG_FILE": out + "/driver.log"}, stdout=subprocess.DEVNULL, check=False)
        text = ""
        if os.path.exists(out + "/driver.log"):
            with open(out + "/driver.log", encoding="utf-8", errors="replace") as f:
                text = f.read()
            os.remove(out + "/driver.log")
        print(f"driver's log, {'traced' if before else 'untraced'}: status {ran.returncode}, {len(text.splitlines())} lines\n{text[:800]}", flush=True)


def failures(tracer, out):
    program, path = build(out, "failures"), out + "/failure.jsonl"
    for way in WAYS:
        for case in CASES:
            subprocess.run([tracer, "-q", *way.split(), "--stack", "--duration", "4", "--jsonl", path, "--", "timeout", "-s", "KILL", "6", program, case],
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            ran = subprocess.run([tracer, "report", "-q", "--json", path], stdout=subprocess.PIPE, check=False)
            first = ((json.loads(ran.stdout or "{}").get("failure") or [{}]))[0]
            suspects = first.get("suspects") or [{}]
            name = (suspects[0].get("kernel") or "-").split("(")[0]
            print(f"| `{case}` | {way} | {name}{'' if name in (case, '-') else ' WRONG'} | {first.get('certain', '')} | {first.get('suspect_count', '')} | "
                  f"{suspects[0].get('link', '')} {suspects[0].get('parameter', '')} | {first.get('memory', {}).get('state', '')} | {first.get('verdict', '')[:400]} |", flush=True)


def cost(tracer, out):
    """The first of the ways is the reference: traced without parameters."""
    base = "--probe=inject --kernel-args=off"
    argv = traced(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "3"])
    for p in in_turn(lambda way, path: argv(way or base, path), out, ["", "--probe=inject"], 80, copies=3, name="gpt2 (untraced here means " + base + ")",
                     goals={"--probe=inject": 1.02}):
        rows = [x for x in lines(p.path) if x.get("op") == "launch" and x.get("type") == "kernel"]
        known = [x for x in rows if x.get("params")]
        print(f"    {p.way}: {len(rows)} launches, of {len(known)} the parameters, {sum('value' in y for x in known for y in x['params'])} values, "
              f"{sum(len(y.get('memory', ())) for x in known for y in x['params'])} addresses in known memory; {os.path.getsize(p.path) / max(len(rows), 1):.0f} bytes of trace a launch", flush=True)
        os.remove(p.path)


def main():
    tracer, out, *names = sys.argv[1:]
    out = os.path.abspath(out)
    os.makedirs(out, exist_ok=True)
    for name in names or ["values", "log", "failures", "cost"]:
        {"values": values, "log": log, "failures": failures, "cost": cost}[name](os.path.realpath(tracer), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
