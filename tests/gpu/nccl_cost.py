# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures a small all-reduce between two GPUs while it is traced. One pair of processes is attached and detached in turn, so that all ways
are compared in the same processes. A pair with the in-process library is recorded, counted and not traced by the daemon in turn. Then
each way has its own pair from the start. Also prints which calls are made.

usage: nccl_cost.py CUDATRACE OUT_FOLDER [calls | attached | levels | injected]...   (all; TURNS=40 of levels)
"""
import collections
import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

from daemon_check import scrape
from turns import interval

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ["", "-e collective", "--detail=low", "-e launch", "--detail=normal", "--all"]
INJECT = ["", "--probe=inject", "--probe=inject --all"]
ROUNDS, SECONDS, TURNS = 3, 1.0, int(os.environ.get("TURNS", "40"))


@contextlib.contextmanager
def measuring(out, before=(), **env):
    """The measuring pair, in its own process group."""
    small = out + ".small"
    if os.path.exists(small):
        os.remove(small)
    pair = subprocess.Popen([*before, sys.executable, os.path.join(HERE, "nccl.py"), "--small", "1000000", "--out", out],
                            start_new_session=True, stderr=subprocess.DEVNULL, env={**os.environ, **env})
    try:
        until = time.time() + 60
        while not (os.path.exists(small) and os.path.getsize(small) > 1000):
            if pair.poll() is not None or time.time() > until:
                raise SystemExit(f"the program did not begin: {pair.poll()}")
            time.sleep(0.05)
        yield pair
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pair.pid, signal.SIGKILL)
        pair.wait()


def between(out, begin, end):
    with open(out + ".small", encoding="utf-8") as f:
        pairs = [line.split() for line in f if line.endswith("\n")]
    return [float(us) for when, us in pairs if begin <= float(when) <= end]


def ranks(pair):
    """The processes of mp.spawn, recognized by their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                session = int(f.read().rsplit(")", 1)[1].split()[3])
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                if session == pair.pid and "spawn_main" in f.read():
                    found.append(pid)
        except OSError:
            pass
    return found


def show(took):
    base = statistics.median(took[""])
    for way, values in took.items():
        q = statistics.quantiles(values, n=4)
        print(f"{way or 'untraced':24} {statistics.median(values):7.2f} us, {statistics.median(values) / base:.3f} of untraced; middle half {q[0]:.2f} to {q[2]:.2f}, {len(values)} batches", flush=True)


def calls(tracer, out):
    """Returns the sum over all threads of the first rank."""
    with measuring(out) as pair:
        subprocess.run([tracer, "-q", "--no-summary", "--count=all", "--jsonl", out + ".jsonl", "--duration", "2", "-p", ranks(pair)[0]], check=True)
    with open(out + ".jsonl", encoding="utf-8") as f:
        counted = json.loads(f.readlines()[-1])["counted"]
    of_one = {symbol: c["calls"] / counted["ncclAllReduce"]["calls"] for symbol, c in counted.items()}
    print("calls for one all-reduce:", ", ".join(f"{symbol} {n:.2f}" for symbol, n in sorted(of_one.items(), key=lambda c: -c[1])), f"; in all {sum(of_one.values()):.1f}", flush=True)


def attached(tracer, out):
    took = collections.defaultdict(list)
    with measuring(out) as pair:
        pids = ",".join(ranks(pair))
        for _ in range(ROUNDS):
            for way in WAYS:
                tracing = way and subprocess.Popen([tracer, "-q", "--no-summary", *shlex.split(way), "--jsonl", out + ".jsonl", "-p", pids])
                time.sleep(1 if way else 0.3)
                begin = time.time()
                time.sleep(SECONDS)
                took[way] += between(out, begin, time.time())
                if way:
                    tracing.send_signal(signal.SIGINT)
                    tracing.wait()
    print("attached in turn to the same two processes:")
    show(took)


def mapped(pid):
    """Returns files by their paths in that process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return {line.split(None, 5)[-1].rstrip("\n") for line in f}


def levels(tracer, out, detail):
    """Compares each quarter of a second at a level with level off before and after it."""
    folder, sock, port = out + ".inject", out + ".sock", 9478
    sets = ("level=off", "trace.inject=true", f"trace.inject_folder={folder}", f"trace.detail={detail}", f"ctl.socket={sock}", f"files.directory={out}.files",
            f"metrics.listen=127.0.0.1:{port}", "files.compress=none", "files.total_size=16G", "recorder.seconds=0")
    daemon = subprocess.Popen([tracer, "daemon", "--config", "/dev/null", *(x for s in sets for x in ("--set", s))])
    try:
        scrape(port, out + ".metrics")
        with measuring(out, CUDA_INJECTION64_PATH=folder + "/libcudatrace-inject.so") as pair:
            turns_of(tracer, out, detail, sock, pair)
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(out + ".files", ignore_errors=True)


def turns_of(tracer, out, detail, sock, pair):
    pids, turns = ranks(pair), collections.defaultdict(list)
    own = mapped(pids[0])

    def ctl(*args):
        return json.loads(subprocess.run([tracer, "ctl", "--set", f"ctl.socket={sock}", *args], stdout=subprocess.PIPE, check=True).stdout)

    def probes():
        return {os.path.basename(x["path"]): x["probes"] for x in ctl("status")["libraries"] if os.path.realpath(x["path"]) in own}

    # While the ranks' libcuda has probes for other processes, a call takes a trap at each level.
    end = time.monotonic() + 40
    while time.monotonic() < end and any(has == "all" and "libcuda" in lib for lib, has in probes().items()):
        time.sleep(0.5)
    has = ", ".join(f"{lib}: {p}" for lib, p in probes().items())

    def median_at(level):
        for pid in pids:
            ctl("level", pid, level)
        begin = time.time()
        time.sleep(0.25)
        return statistics.median(between(out, begin + 0.05, time.time()))
    before = median_at("off")
    for _ in range(TURNS):
        for level in random.sample(("metrics", "trace"), 2):
            took, after = median_at(level), median_at("off")
            turns[level] += [took / before, took / after]
            before = after
    for level, r in turns.items():
        low, high = interval([r], statistics.median)
        print(f"in the process, by the daemon (probes in {has}), detail {detail}, level {level}: {statistics.median(r):.3f} of level off ({before:.2f} us), 95 %: {low:.3f} to {high:.3f}; {len(r)} turns", flush=True)


def injected(tracer, out):
    took = collections.defaultdict(list)
    for _ in range(2):
        for way in INJECT:
            with measuring(out, [tracer, "-q", "--no-summary", *shlex.split(way), "--jsonl", out + ".jsonl", "--"] if way else []):
                begin = time.time()
                time.sleep(2)
                took[way] += between(out, begin, time.time())
    print("in processes of their own, two each:")
    show(took)


def main():
    tracer, out = os.path.realpath(sys.argv[1]), os.path.join(sys.argv[2], "nccl_cost")
    os.makedirs(sys.argv[2], exist_ok=True)
    parts = sys.argv[3:] or ["calls", "attached", "levels", "injected"]
    if "calls" in parts:
        calls(tracer, out)
    if "attached" in parts:
        attached(tracer, out)
    for detail in ("normal", "all") if "levels" in parts else ():
        levels(tracer, out, detail)
    if "injected" in parts:
        injected(tracer, out)
    if os.path.exists(out + ".jsonl"):
        os.remove(out + ".jsonl")


if __name__ == "__main__":
    main()
