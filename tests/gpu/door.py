# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The step `door`: the daemon's trace.inject. Are the metrics of a program that opts in those of a full trace of the same run, and what
does a token of GPT-2 take by uprobes, inside beside a program that has not opted in, and inside alone? Three minutes.

usage: door.py CUDATRACE OUT_FOLDER     FAKE=build/fake tries it against the stand-in driver
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

from daemon_check import Metrics, read_trace, scrape

HERE = os.path.dirname(os.path.abspath(__file__))
CT, OUT = os.path.realpath(sys.argv[1]), os.path.join(os.path.realpath(sys.argv[2]), "door")
FAKE, PORT, ROUNDS = os.environ.get("FAKE"), 9476, 20
SOCK, INJECT = OUT + "/ctl.sock", OUT + "/inject"
# Answered after the driver has shut down, which the library does not see (docs/INJECT.md).
AT_EXIT = "CUDA_ERROR_DEINITIALIZED"


def script(name, *args):
    return [sys.executable, *([HERE + "/standin.py", "gpt2"] if FAKE else [f"{HERE}/{name}.py"]), *args]


def env(opts_in):
    lib = {"LD_LIBRARY_PATH": OUT + "/lib"} if FAKE else {}
    return {**os.environ, **lib, **({"CUDA_INJECTION64_PATH": INJECT + "/libcudatrace-inject.so"} if opts_in else {})}


def start_daemon(level):
    sets = (f"level={level}", "trace.inject=true", f"trace.inject_folder={INJECT}", "trace.detail=all", f"metrics.listen=127.0.0.1:{PORT}",
            f"ctl.socket={SOCK}", f"files.directory={OUT}/files", "files.compress=none", "files.total_size=16G", "recorder.seconds=0")
    lib = ["--libcuda", OUT + "/lib/libcuda.so.1"] if FAKE else []
    with open(OUT + "/daemon.log", "ab") as log:
        p = subprocess.Popen([CT, "daemon", "--config", "/dev/null", *lib, *(x for s in sets for x in ("--set", s))], stdout=log, stderr=log)
    scrape(PORT, OUT + "/metrics")
    return p


def stop(p):
    p.send_signal(signal.SIGTERM)
    p.wait(60)


def status():
    return json.loads(subprocess.run([CT, "ctl", "--set", f"ctl.socket={SOCK}", "status"], stdout=subprocess.PIPE, check=True).stdout)


class Gen:
    def __init__(self, opts_in):
        self.p = subprocess.Popen(script("gpt2", "--tokens", "50", "--serve"), env=env(opts_in), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)

    def ready(self):
        assert self.p.stdout.readline() == "ready\n"

    def ms(self):
        self.p.stdin.write(f"{ROUNDS}\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def end(self):
        self.p.stdin.close()
        self.p.wait(60)


def times(level):
    daemon = start_daemon(level)
    outside, inside = gens = Gen(False), Gen(True)
    ms = {"by uprobes": [], "inside, others beside": [], "inside alone": [], "untraced": []}
    for g in gens:
        g.ready()
    seen = {p["pid"]: p["seen"] for p in status()["processes"]}
    assert [seen[g.p.pid] for g in gens] == ["uprobes", "inside"], seen
    for _ in range(3):
        ms["by uprobes"] += outside.ms()
        ms["inside, others beside"] += inside.ms()
    outside.end()
    end = time.monotonic() + 40
    while time.monotonic() < end and all(x["probes"] == "all" for x in status()["libraries"]):
        time.sleep(1)
    few = [x["path"] for x in status()["libraries"] if x["probes"] == "few"]
    time.sleep(2)
    for _ in range(3):
        ms["inside alone"] += inside.ms()
    scrape(PORT, OUT + "/metrics")
    lost = Metrics(OUT + "/metrics").sums("dropped_total", ("what",))
    stop(daemon)
    inside.ms()
    for _ in range(3):
        ms["untraced"] += inside.ms()
    inside.end()
    bare = statistics.median(ms["untraced"])
    print(f"level {level}: milliseconds per token, median: untraced {bare:.3f}; " +
          "; ".join(f"{k} {statistics.median(v):.3f} ({statistics.median(v) / bare:.3f})" for k, v in ms.items() if k != "untraced") +
          f"; probes gone from {few or 'NOTHING'}; lost {lost}", flush=True)


def counts(level):
    """By two that know nothing of each other: the daemon from inside, a full trace by uprobes."""
    daemon, path = start_daemon(level), OUT + "/trace.jsonl"
    program = script("torch_mlp") if not FAKE else script("gpt2", "--tokens", "50", "--rounds", "2")
    subprocess.run([CT, "-q", "--no-summary", "--all", "--probe=uprobe", "--jsonl", path, "--", *program], env=env(True), stdout=subprocess.DEVNULL, check=True)
    time.sleep(1)
    scrape(PORT, OUT + "/metrics")
    stop(daemon)
    trace, comm, lost = read_trace(path)
    ours = Metrics(OUT + "/metrics")
    at_exit = {of[0] for of in trace["errors_total"] if of[1] == AT_EXIT}
    # Another library's functions are seen by nobody here.
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
    for level in "metrics", "trace":
        for part in counts, times:
            try:
                good &= part(level) is not False
            except (AssertionError, OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
                good = False
                print(f"level {level}: {part.__name__}: {type(e).__name__}: {e}", flush=True)
                subprocess.run(["tail", "-n", "3", OUT + "/daemon.log"], check=False)
        shutil.rmtree(OUT + "/files", ignore_errors=True)
    print("door: all counts agree" if good else "door: NOT all is as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
