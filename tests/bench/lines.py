#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Lines per second that a tracer on four processors writes, and its threads' CPU time for one.

tests/bench/lines.py FOLDER CUDATRACE [OLD] measures both in turn, on a machine with nothing installed but Python and
gcc; FOLDER gets the calling programs and the traces. 8 and 12 threads (COUNTS) call back to back, CALLS times each
(1000000; 6000000 with DAEMON, since its first second, in which it gets its memory, must not matter), on other processors
than the tracer's TRACER_CPUS (4).
CORES=4: the tracer has one processor (hardware thread) of each of so many cores; the others stay idle. Without CORES its
processors may be two cores. Ends with the medians of ROUNDS (3) and a verdict.
DAEMON=1: the daemon's files instead, at level trace with its own compression and flight recorder; DAEMON="files.compress=none recorder.seconds=0": with
these settings.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

from cores import end_line, only_on

HERE = os.path.dirname(os.path.abspath(__file__))
TRACER_CPUS = int(os.environ.get("TRACER_CPUS", "4"))
CORES = int(os.environ.get("CORES", "0"))
COUNTS = [int(n) for n in os.environ.get("COUNTS", "8,12").split(",")]
ROUNDS = int(os.environ.get("ROUNDS", "3"))
DAEMON = os.environ.get("DAEMON", "")
CALLS = int(os.environ.get("CALLS", "6000000" if DAEMON else "1000000"))
WANTED = 5000000
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


def processors():
    """Processors of the tracer, and those of the calling programs."""
    cpus = sorted(os.sched_getaffinity(0))
    if not CORES:
        return cpus[:TRACER_CPUS], cpus[TRACER_CPUS:]
    cores = {}
    for cpu in cpus:
        with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", encoding="utf-8") as f:
            cores.setdefault(f.read().strip(), []).append(cpu)
    own, others = list(cores)[:CORES], list(cores)[CORES:]
    return [cores[c][0] for c in own], [cpu for c in others for cpu in cores[c]]


def build(folder):
    cc = ["gcc", "-std=gnu11", "-D_GNU_SOURCE=", "-I", os.path.join(HERE, "../../include")]
    for more in (["-O2", f"{HERE}/cores.c", "-ldl", "-lpthread", "-o", f"{folder}/cores"],
                 ["-O0", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", f"{HERE}/cores_lib.c", "-o", f"{folder}/libcuda.so.1"]):
        subprocess.run(cc + more, check=True)


def warm(path, size):
    """Touches memory: a virtual machine gets it from the host at first use, which must not be measured."""
    block = b"x" * (4 << 20)
    with open(path, "wb") as f:
        for _ in range(size // len(block)):
            f.write(block)
    os.unlink(path)


def thread_times(pid, times):
    """CPU time so far of the reader thread and of the others: in total, and by clock ticks in user space and in the kernel."""
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="utf-8") as f:
                times[tid] = [int(f.read().split()[0]), *(int(n) * TICK_NS for n in fields[11:13])]
    except OSError:
        pass


def run(folder, tracer, cnt):
    trace, (own, others) = os.path.join(folder, "lines.jsonl"), processors()
    program = only_on(others) + [f"{folder}/cores", f"{folder}/libcuda.so.1", "threads", str(cnt), str(CALLS)]
    argv = only_on(own) + [tracer, "-q", "-e", "cuLaunchKernel", "--jsonl", trace, "--", *program]
    times = {}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as p:
        while p.poll() is None:
            thread_times(p.pid, times)
            time.sleep(0.01)
        out = p.stdout.read()
    if p.returncode:
        raise OSError(f"{' '.join(argv)} ends with {p.returncode}")
    seconds, end = float(out.split()[2]), end_line(trace)
    os.unlink(trace)
    lines = end["calls"]
    reader = times.pop(str(p.pid), [0])
    return {"lines_per_s": lines / seconds, "calls_per_s": cnt * CALLS / seconds, "dropped": end["drops"]["calls"],
            "missing": cnt * CALLS - lines - end["drops"]["calls"], "seconds": seconds, "lines": lines,
            "reader": reader[0], "words": sum(t[1] for t in times.values()), "writes": sum(t[2] for t in times.values())}


def daemon_run(folder, tracer, cnt):
    """Like run(). All the daemon's time counts as the reader's."""
    files, sock, (own, others) = os.path.join(folder, "files"), os.path.join(folder, "sock"), processors()
    config = os.path.join(folder, "daemon.yaml")
    # Other users may make calls meanwhile.
    with open(config, "w", encoding="utf-8") as f:
        f.write(f'level: off\nrules:\n  - match: {{command: "*{folder}/cores*"}}\n    level: trace\n')
    sets = [f"files.directory={files}", "files.total_size=16G", f"ctl.socket={sock}", "metrics.listen=", *(s for s in DAEMON.split() if "=" in s)]
    program = only_on(others) + [f"{folder}/cores", f"{folder}/libcuda.so.1", "threads", str(cnt), str(CALLS)]
    argv = only_on(own) + [tracer, "daemon", "--config", config, "--libcuda", f"{folder}/libcuda.so.1", *(x for s in sets for x in ("--set", s))]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as p:
        while "tracing by" not in p.stderr.readline():
            assert p.poll() is None, argv
        before, after, lines = {}, {}, -1
        thread_times(p.pid, before)
        seconds = float(subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[2])
        ended = last = time.monotonic()
        while time.monotonic() - last < 0.3:  # until all records in the rings are written
            time.sleep(0.1)
            st = json.loads(subprocess.run([tracer, "ctl", "--set", f"ctl.socket={sock}", "status"], stdout=subprocess.PIPE, check=True).stdout)["files"]
            if st["lines"] != lines:
                lines, last = st["lines"], time.monotonic()
        thread_times(p.pid, after)
        p.terminate()
        p.stderr.read()
    shutil.rmtree(files)
    spent = {tid: t[0] - before.get(tid, [0])[0] for tid, t in after.items()}
    reader = spent.pop(str(p.pid))
    print(f"    {cnt * CALLS - lines} calls have no line, the files dropped {st['dropped']}", flush=True)
    return {"lines_per_s": lines / (seconds + last - ended), "calls_per_s": cnt * CALLS / seconds, "missing": 0, "seconds": seconds + last - ended,
            "lines": lines, "reader": reader, "words": sum(spent.values()), "writes": 0}


def show(name, cnt, r):
    def part(of):
        return f"{r[of] / r['seconds'] / 1e7:.0f} % of a core, {r[of] / r['lines']:.0f} ns a line"

    print(f"{cnt:3} threads, {name}: {r['lines_per_s']:,.0f} lines/s of {r['calls_per_s']:,.0f} calls/s. Reader {part('reader')}; "
          f"workers: wording {part('words')}, writing {part('writes')}"
          + (f"; {r['missing']} calls are in no account" if r["missing"] else ""), flush=True)


def main():
    folder, new, *old = sys.argv[1:]
    own = processors()[0]
    tracers = {"OLD": old[0]} if old and old[0] else {}
    tracers["NEW"] = new
    os.makedirs(folder, exist_ok=True)
    build(folder)
    warm(os.path.join(folder, "warm"), min(max(COUNTS) * CALLS * 480, 8 << 30))
    best = 0
    for cnt in COUNTS:
        rows = {name: [] for name in tracers}
        for _ in range(ROUNDS):
            for name, tracer in tracers.items():
                rows[name].append((daemon_run if DAEMON else run)(folder, tracer, cnt))
                show(name, cnt, rows[name][-1])
        medians = {name: statistics.median(r["lines_per_s"] for r in rows[name]) for name in tracers}
        best = max(best, medians["NEW"])
        print(f"{cnt:3} threads, median: " + ", ".join(f"{name} {m:,.0f} lines/s" for name, m in medians.items())
              + (f"; NEW / OLD {medians['NEW'] / medians['OLD']:.2f}" if old and old[0] else ""))
    print(f"{best:,.0f} lines/s on {f'a processor of each of {len(own)} cores' if CORES else f'{len(own)} processors'} ({','.join(map(str, own))}): the goal of {WANTED:,} is {'met' if best >= WANTED else 'MISSED'}")


if __name__ == "__main__":
    main()
