# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The step `door`: the daemon's trace.inject. The metrics of a program that opts in must equal a full trace of the same run. Measures a
token of GPT-2 by uprobes, in-process beside a program that has not opted in, and in-process alone, relative to level off. Four minutes.

usage: door.py CUDATRACE OUT_FOLDER     FAKE=build/fake tries it against the mock driver
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import turns
from daemon_check import Metrics, read_trace, scrape

HERE = os.path.dirname(os.path.abspath(__file__))
CT, OUT = os.path.realpath(sys.argv[1]), os.path.join(os.path.realpath(sys.argv[2]), "door")
FAKE, PORT = os.environ.get("FAKE"), 9476
TOKENS = "30" if FAKE else "3"
SOCK, INJECT = OUT + "/ctl.sock", OUT + "/inject"
# Answered after the shutdown of the driver, so the library does not record them (docs/INJECT.md).
AT_EXIT = "CUDA_ERROR_DEINITIALIZED"


def script(name, *args):
    return [sys.executable, *([HERE + "/mock.py", "gpt2"] if FAKE else [f"{HERE}/{name}.py"]), *args]


def env(opts_in):
    lib = {"LD_LIBRARY_PATH": OUT + "/lib"} if FAKE else {}
    return {**os.environ, **lib, **({"CUDA_INJECTION64_PATH": INJECT + "/libcudatrace-inject.so"} if opts_in else {})}


def start_daemon(level, detail="all"):
    sets = (f"level={level}", "trace.inject=true", f"trace.inject_folder={INJECT}", f"trace.detail={detail}", f"metrics.listen=127.0.0.1:{PORT}",
            f"ctl.socket={SOCK}", f"files.directory={OUT}/files", "files.compress=none", "files.total_size=16G", "recorder.seconds=0")
    lib = ["--libcuda", OUT + "/lib/libcuda.so.1"] if FAKE else []
    with open(OUT + "/daemon.log", "ab") as log:
        p = subprocess.Popen([CT, "daemon", "--config", "/dev/null", *lib, *(x for s in sets for x in ("--set", s))], stdout=log, stderr=log)
    scrape(PORT, OUT + "/metrics")
    return p


def stop(p):
    p.send_signal(signal.SIGTERM)
    p.wait(60)


def ctl(*args):
    ran = subprocess.run([CT, "ctl", "--set", f"ctl.socket={SOCK}", *map(str, args)], stdout=subprocess.PIPE, check=True)
    return json.loads(ran.stdout)


class Gen:
    def __init__(self, opts_in):
        self.p = subprocess.Popen(script("gpt2", "--tokens", TOKENS, "--serve"), env={**env(opts_in), "PYTHONHASHSEED": "0"}, text=True, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ready(self):
        assert self.p.stdout.readline() == "ready\n"

    def at(self, level):
        """Runs a round at that level: [milliseconds per token, CPU milliseconds per token]."""
        ctl("level", self.p.pid, level)
        return turns.rounds(self.p, 1)

    def end(self):
        self.p.stdin.close()
        self.p.wait(60)


def take_turns(gens, seconds):
    """Like turns.take_turns(), but compares a process with itself at level off, before and after."""
    took = {level: [[] for _ in gens] for level in ("metrics", "trace")}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for i, g in random.sample(list(enumerate(gens)), len(gens)):
            before = g.at("off")
            for level in random.sample(list(took), len(took)):
                own, after = g.at(level), g.at("off")
                took[level][i].append([before, own, after])
                before = after
    return took


def times(detail):
    daemon = start_daemon("metrics", detail)
    outside, insides = Gen(False), [Gen(True) for _ in range(3)]
    for g in (outside, *insides):
        g.ready()
    seen = {p["pid"]: p["seen"] for p in ctl("status")["processes"]}
    assert [seen[g.p.pid] for g in (outside, *insides)] == ["uprobes"] + ["inproc"] * 3, seen
    took = {"by uprobes": take_turns([outside], 15), "inside, others beside": take_turns(insides, 15)}
    outside.end()
    end = time.monotonic() + 40
    while time.monotonic() < end and all(x["probes"] == "all" for x in ctl("status")["libraries"]):
        time.sleep(1)
    few = [x["path"] for x in ctl("status")["libraries"] if x["probes"] == "few"]
    took["inside alone" if few else "inside, the same again"] = take_turns(insides, 30)
    scrape(PORT, OUT + "/metrics")
    lost = Metrics(OUT + "/metrics").sums("dropped_total", ("what",))
    stop(daemon)
    for g in insides:
        g.end()
    print(f"detail {detail}, against level off: probes gone from {few or 'nothing (somebody maps libcuda every ten seconds, as nvidia-smi does?)'}; lost {lost}", flush=True)
    for how, levels in took.items():
        for level, of in levels.items():
            turns.tell(f"{how}, {level}", of, "ms a token", None)


def counts(level):
    """Counts by two independent producers: the daemon's in-process library, and a full trace by uprobes."""
    daemon, path = start_daemon(level), OUT + "/trace.jsonl"
    program = script("torch_mlp") if not FAKE else script("gpt2", "--tokens", "50", "--rounds", "2")
    subprocess.run([CT, "-q", "--no-summary", "--all", "--probe=uprobe", "--jsonl", path, "--", *program], env=env(True), stdout=subprocess.DEVNULL, check=True)
    time.sleep(1)
    scrape(PORT, OUT + "/metrics")
    stop(daemon)
    trace, comm, lost = read_trace(path)
    ours = Metrics(OUT + "/metrics")
    at_exit = {of[0] for of in trace["errors_total"] if of[1] == AT_EXIT}
    # Functions of other libraries are not traced here.
    ours, theirs = ({k[0]: v for k, v in x.items() if k[0].startswith("cu") and k[0] not in at_exit}
                    for x in (ours.sums("calls_total", ("function",), command=comm), trace["calls_total"]))
    theirs = {k: v for k, v in theirs.items() if v}
    differ = {k: (ours.get(k), theirs.get(k)) for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k) and (k in ours or not k.startswith(("cublas", "cudnn")))}
    print(f"level {level}: {sum(ours.values()):,.0f} calls of {comm} in /metrics, {sum(theirs.values()):,.0f} in the trace (lost {lost}); "
          f"at exit alone: {sorted(at_exit)}; differ: {differ or 'none'}", flush=True)
    return not differ


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT + "/lib")
    if FAKE:
        shutil.copy(FAKE + "/libcuda.so.1", OUT + "/lib")
    good = True
    for part, of in (counts, "metrics"), (counts, "trace"), (times, "normal"), (times, "all"):
        try:
            good &= part(of) is not False
        except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
            good = False
            print(f"{part.__name__} {of}: {type(e).__name__}: {e}", flush=True)
            subprocess.run(["tail", "-n", "3", OUT + "/daemon.log"], check=False)
        shutil.rmtree(OUT + "/files", ignore_errors=True)
    print("door: all counts agree" if good else "door: NOT all is as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
