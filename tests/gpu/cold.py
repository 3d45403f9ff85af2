#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Starts and stops CUPTI in programs that check themselves (cold.cu), and compares the trace with their own counts. As root, with nvcc or a
compiled OUT/cold:

    cold.py CUDATRACE OUT late [SECONDS [JOBS [WHAT...]]]    --gpu-time --yes -p: fresh programs, each is one cold start
    cold.py CUDATRACE OUT exits [RUNS [WAY...]]              programs that exit while threads launch: untraced, with a slow exit, and by each way
    cold.py CUDATRACE OUT same [RUNS]                        one program alone, entered RUNS times: its units before, during, after

Prints a table, and each program that was harmed: its status, and what it said."""
import bisect
import collections
import concurrent.futures
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"kernel": 0, "copy": 1, "memset": 2, "graph": 3}
LATE = ["loop", "graphs", "captures", "contexts", "threads", "waits"]
EXITS = {"untraced": None, "slow": None, "calls": ["--probe=inject"], "gpu-time": ["--probe=inject", "--gpu-time"], "nodes": ["--probe=inject", "--gpu-time=nodes"],
         "stalls": ["--probe=inject", "--stalls"], "late": ["--gpu-time", "--yes", "--duration", "0.5"]}


def units(log):
    """[thread, begin, end, [kernels, copies, memsets, graph launches]] of each unit."""
    out = []
    with open(log, encoding="utf-8") as f:
        for line in f:
            fields = [int(x) for x in line.split()]
            if line.endswith("\n") and len(fields) == 7:
                out.append((fields[0], fields[1], fields[2], fields[3:]))
    return out


def window(trace):
    """The begin and the end of the GPU times of a trace, in CLOCK_MONOTONIC ns, and the executions by thread, sorted by time."""
    base, since, until = 0, None, 0
    runs = collections.defaultdict(list)
    with open(trace, encoding="utf-8") as f:
        for line in f:
            event = json.loads(line)
            ts = base + int(event["ts"] * 1e6)
            if event["type"] == "header":
                base = event["clock_base_ns"]
            elif event["type"] == "tracer" and event["op"] == "gpu-time" and event["name"] == "on":
                since = ts
            elif event["type"] == "gpu" and event["op"] in KINDS:
                runs[event["tid"]].append((ts, KINDS[event["op"]]))
                until = max(until, ts)
    for run in runs.values():
        run.sort()
    return since, until, runs


def compare(log, trace):
    """The number of units that were traced whole, and those whose counts differ."""
    since, until, runs = window(trace)
    if since is None:
        return 0, []
    done, other = 0, []
    for thread, begin, end, counts in units(log):
        # A busy tracer ends later than CUPTI's records.
        if begin < since + 5_000_000 or end > until - 50_000_000:
            continue
        run = runs[thread]
        found = [0] * 4
        for _, kind in run[bisect.bisect_left(run, (begin, 0)):bisect.bisect_right(run, (end, 9))]:
            found[kind] += 1
        done += 1
        if found != counts:
            other.append((thread, counts, found))
    return done, other


def pauses(log, at):
    """The longest unit of the main thread within a second around at, less the median, in ms."""
    rows = units(log)
    main = [u for u in rows if u[0] == rows[0][0]]
    usual = statistics.median(u[2] - u[1] for u in main)
    near = [u[2] - u[1] for u in main if abs(u[1] - at) < 1_000_000_000]
    return (max(near) - usual) / 1e6 if near else 0


def one_late(cudatrace, out, what, number):
    log, trace = f"{out}/late.{number}.log", f"{out}/late.{number}.jsonl"
    with subprocess.Popen([f"{out}/cold", what, "60", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        p.stdout.readline()
        time.sleep(0.2)
        ran = subprocess.run([cudatrace, "-q", "--gpu-time", "--yes", "-p", str(p.pid), "--duration", "0.6", "--jsonl", trace], capture_output=True, text=True,
                             timeout=60, check=False)
        time.sleep(0.2)
        p.terminate()
        says = p.communicate(timeout=120)
    row = {"what": what, "status": p.returncode, "tracer": ran.returncode, "says": says[1][:3000] if p.returncode else "", "why": ran.stderr[-300:]}
    try:
        row["units"], row["other"] = compare(log, trace)
        since, until, _ = window(trace)
        row["on"] = since is not None
        row["start"], row["stop"] = pauses(log, since or 0), pauses(log, until)
    except (OSError, ValueError, KeyError, IndexError) as e:
        row["error"] = repr(e)
    for path in (log, trace):
        if os.path.exists(path) and not row.get("other"):
            os.unlink(path)
    return row


def late(cudatrace, out, seconds="60", jobs="8", *names):
    names, rows, numbers = names or LATE, [], iter(range(10 ** 9))
    until = time.time() + float(seconds)

    def loop(worker):
        i = worker
        while time.time() < until:
            rows.append(one_late(cudatrace, out, names[i % len(names)], next(numbers)))
            i += 1
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        list(pool.map(loop, range(int(jobs))))
    print("| program | cold starts | CUPTI not started | harmed | units compared | with other counts | pause at the start, ms: median, maximum | at the stop |")
    for name in names:
        own = [r for r in rows if r["what"] == name]
        on = [r for r in own if r.get("on")]
        print(f"| {name} | {len(on)} | {len(own) - len(on)} | {sum(r['status'] != 0 for r in own)} | {sum(r.get('units', 0) for r in own)} "
              f"| {sum(len(r.get('other', [])) for r in own)} "
              + "".join("| {:.0f}, {:.0f} ".format(statistics.median([r[k] for r in on] or [0]), max([r[k] for r in on] or [0])) for k in ("start", "stop")) + "|")
    for r in rows:
        if r["status"] or r.get("other") or r.get("error") or not r.get("on"):
            print("  !", {**r, "other": r.get("other", [])[:3]})
    with open(f"{out}/late.json", "w", encoding="utf-8") as f:
        json.dump(rows, f)


def exits(cudatrace, out, runs="10", *ways):
    """Samples of one program at a time: only one context of a GPU is sampled."""
    print("| way | runs | status 0 | others |")
    for way in ways or EXITS:
        options = EXITS[way]
        def one(i, way=way, options=options):
            trace = f"{out}/exits.{way}.{i}.jsonl"
            command = [f"{out}/cold", "exits", "3" if way == "late" else "0.7", "/dev/null"]
            tracer = [] if options is None else [cudatrace, "-q", *options, "--jsonl", trace, *([] if way == "late" else ["--", *command])]
            env = {**os.environ, **({"COLD_SLOW": "1"} if way == "slow" else {})}
            try:
                if way != "late":
                    ran = subprocess.run([*tracer] or command, capture_output=True, text=True, timeout=20, check=False, env=env)
                    return ran.returncode, ran.stderr
                with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
                    p.stdout.readline()
                    subprocess.run([*tracer, "-p", str(p.pid)], timeout=20, check=False)
                    says = p.communicate(timeout=20)[1]
                    return p.returncode, says
            except subprocess.TimeoutExpired:
                return "hung", ""
            finally:
                if os.path.exists(trace):
                    os.unlink(trace)
        with concurrent.futures.ThreadPoolExecutor(1 if way == "stalls" else 4) as pool:
            ends = list(pool.map(one, range(int(runs))))
        bad = [e for e in ends if e[0]]
        print(f"| {way} | {len(ends)} | {len(ends) - len(bad)} | {collections.Counter(e[0] for e in bad)} |", flush=True)
        for status, says in bad[:3]:
            print("  !", status, says[:2500])


def same(cudatrace, out, runs="5"):
    print("| program | us per unit before | during | after |")
    for what in ("loop", "graphs", "contexts"):
        log = f"{out}/same.log"
        with subprocess.Popen([f"{out}/cold", what, str(4 + 4 * int(runs)), log], stdout=subprocess.PIPE, text=True) as p:
            p.stdout.readline()
            time.sleep(1)
            edges = []
            for i in range(int(runs)):
                trace = f"{out}/same.{i}.jsonl"
                subprocess.run([cudatrace, "-q", "--gpu-time", "--yes", "-p", str(p.pid), "--duration", "0.7", "--jsonl", trace], check=False)
                since, until, _ = window(trace)
                edges.append((since or time.monotonic_ns(), until))
                time.sleep(0.7)
            p.communicate()
        rows = units(log)

        def median(begin, end, rows=rows):
            return statistics.median([u[2] - u[1] for u in rows if begin <= u[1] and u[2] <= end] or [0]) / 1e3
        edge = 150_000_000
        print(f"| {what} | {median(0, edges[0][0] - 3 * edge):.1f} | " + ", ".join(f"{median(a + edge, b - edge):.1f}" for a, b in edges) + " | "
              + ", ".join(f"{median(b + edge, after - 3 * edge):.1f}" for (_, b), (after, _) in zip(edges, [*edges[1:], (rows[-1][2] + 3 * edge, 0)])) + " |", flush=True)


def main():
    cudatrace, out, part = sys.argv[1:4]
    os.makedirs(out, exist_ok=True)
    if not os.path.exists(f"{out}/cold"):
        subprocess.run(["nvcc", "-std=c++17", "-O2", "-arch=native", "-o", f"{out}/cold", f"{HERE}/cold.cu", "-lcuda"], check=True)
    {"late": late, "exits": exits, "same": same}[part](os.path.realpath(cudatrace), out, *sys.argv[4:])


if __name__ == "__main__":
    main()
