# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Time until a traced command runs, and the verifier's work meanwhile."""
import os
import re
import statistics
import subprocess
import time

from report import limit, results, say
from rig import CUDATRACE, QUICK, CannotRun

RUNS = 5 if QUICK else 25
# Probes on NVIDIA's modules need those modules; tracepoints detect files by their names.
NO_DRIVER = {} if os.path.exists("/sys/module/nvidia") else {"CUDATRACE_TEST_NV_BY_NAME": "1"}
WAYS = {
    "uprobe.session": (["--mechanism=session"], {}, 150),
    "uprobe.multi": (["--mechanism=multi"], {}, 150),
    "a perf event each": (["--mechanism=perf"], {}, 150),
    "--kernel": (["--kernel"], NO_DRIVER, 300),
    "--stack": (["--stack"], {}, 300),
    "--kernel --stack": (["--kernel", "--stack"], NO_DRIVER, 300),
}


def start(options, env, command):
    """The command's output, cudatrace's messages, and its start in seconds since 1970."""
    began = time.time()
    r = subprocess.run([CUDATRACE, *options, "--jsonl", "/dev/null", "--no-summary", "--", *command], capture_output=True, text=True,
                       env=dict(os.environ, LC_ALL="C", **env))
    if r.returncode:
        raise CannotRun(" ".join(r.stderr.split())[-200:])
    return r.stdout, r.stderr, began


def start_ms(options, env):
    """From cudatrace's start to that of the command, which prints its time."""
    stdout, _, began = start(["-q", *options], env, ["date", "+%s.%N"])
    return (float(stdout) - began) * 1000


def verified(options, env):
    """Instructions that the verifier processed for each program, and milliseconds of loading them."""
    _, said, _ = start(["-v", *options], env, ["true"])
    programs = {name: int(cnt) for name, cnt in re.findall(r"(ct_\w+): (\d+) instructions verified", said)}
    took = re.search(r"programs loaded in ([0-9.]+) ms", said)
    if not programs or not took:
        raise CannotRun("cudatrace -v does not say what the verifier did")
    return programs, float(took.group(1))


def bench_start():
    times = {way: [] for way in WAYS}
    for _ in range(RUNS):
        for way, (options, env, _) in WAYS.items():
            times[way].append(start_ms(options, env))
    say(f"From cudatrace's start to the command's, median of {RUNS} in turn; instructions that the verifier looks at")
    table = {}
    for way, (options, env, most) in WAYS.items():
        programs, load_ms = verified(options, env)
        ms = statistics.median(times[way])
        table[way] = {"ms": round(ms, 1), "fastest_ms": round(min(times[way]), 1), "load_ms": load_ms, "verified": programs}
        largest = ", ".join(f"{n} {programs[n]}" for n in sorted(programs, key=programs.get, reverse=True)[:3])
        say(f"  {way:<18} {ms:>6.1f} ms (fastest {min(times[way]):.1f}); once more with -v: {len(programs)} programs in {load_ms:.1f} ms, "
            f"{sum(programs.values())} instructions: {largest}")
        limit(f"{way}: start to the command's", ms, most, "ms")
    say()
    results["start"] = {"unit": "ms", "rows": table}
