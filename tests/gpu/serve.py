# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--serve of the programs here: they keep running, and work on request (turns.py, cost.py, daemon.sh)."""
import json
import os
import sys
import time


def serve(work, per=1, times_itself=False):
    """Prints "ready". For each line "N" on stdin, works N times, and prints the milliseconds of each, divided by per, as JSON; for "N cpu"
    pairs of elapsed and CPU time of this thread. SERVE_CORE: the processor of this thread.
    times_itself: work returns the milliseconds, already divided by per."""
    if "SERVE_CORE" in os.environ:
        os.sched_setaffinity(0, {int(os.environ["SERVE_CORE"])})
    print("ready", flush=True)
    for line in sys.stdin:
        n, *cpu = line.split()
        took = []
        for _ in range(int(n)):
            wall, own = time.perf_counter(), time.thread_time()
            said = work()
            took.append([round((t - begin) / per * 1e3, 5) for t, begin in ((time.perf_counter(), wall), (time.thread_time(), own))])
            if times_itself:
                took[-1][0] = said
        print(json.dumps(took if cpu else [t[0] for t in took]), flush=True)
