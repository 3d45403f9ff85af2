# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compares the overhead that a trace of GPT-2 reports with the measured overhead: it must be within 25 %.

usage: cost.py CUDATRACE OUT_FOLDER [OPTION...]    OPTION: those of cudatrace in one word, as "--all --count=query". 75 s each
       SERVE="PROGRAM ARG..."                      instead of GPT-2, a program with serve.py

One process makes tokens all the time (the host is the bottleneck): with a tracer attached, and right before and after that without. The
overhead is the difference of its CPU time; the difference of elapsed time is printed beside it. The result is the ratio of medians, with a
95 % interval by bootstrap over turns.
"""
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time

from turns import interval, verdict

TOKENS, ROUNDS, SECONDS = 5, 20, 75
GPT2 = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpt2.py"), "--tokens", str(TOKENS), "--serve"]


class Program:
    def __init__(self):
        argv = shlex.split(os.environ.get("SERVE", "")) or GPT2
        self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.proc.stdout.readline() == "ready\n"
        self.rounds()

    def rounds(self):
        """Medians of a token's time and CPU time."""
        self.proc.stdin.write(f"{ROUNDS} cpu\n")
        self.proc.stdin.flush()
        return [statistics.median(t) for t in zip(*json.loads(self.proc.stdout.readline()))]


def one_turn(tracer, trace, way, gen):
    """Relative to the time before and after: [added time and CPU time, and the reported overhead, in ms per token; time without and with
    it; calls per token, drops]"""
    before = gen.rounds()
    with subprocess.Popen([tracer, "-q", "--jsonl", trace, *shlex.split(way), "-p", str(gen.proc.pid)]) as ct:
        while not os.path.exists(trace) or not os.path.getsize(trace):
            time.sleep(0.02)
        with_it = gen.rounds()
        ct.send_signal(signal.SIGINT)
    after = gen.rounds()
    with open(trace, "rb") as f:
        f.seek(max(0, os.path.getsize(trace) - 65536))
        end = json.loads(f.read().splitlines()[-1])
    os.remove(trace)
    return [[*(w - b for w, b in zip(with_it, bare)), end["cost_ms"] / (TOKENS * ROUNDS), bare[0], with_it[0],
             end["entries"] / (TOKENS * ROUNDS), sum(end["drops"].values())] for bare in (before, after)]


def main():
    tracer, out, *ways = sys.argv[1:]
    gen, trace = Program(), os.path.join(out, "cost.jsonl")
    for way in ways or ["", "--all"]:
        turns, end = [], time.monotonic() + SECONDS
        while time.monotonic() < end or len(turns) < 4:
            turns.append(one_turn(tracer, trace, way, gen))
        cost, cpu, said, bare, with_it, entries, drops = (statistics.median(r[i] for t in turns for r in t) for i in range(7))

        def share(turns, of):
            return statistics.median(r[2] for t in turns for r in t) / (statistics.median(r[of] for t in turns for r in t) or 1e-9)
        text = []
        for i, name in ((1, "CPU time"), (0, "time")):
            low, high = interval([turns], lambda t, i=i: share(t, i))
            text.append(f"of the {name} that it cost it said {share(turns, i):.2f}, 95 %: {low:.2f} to {high:.2f}"
                        + (f": within 25 %: {verdict(low, high, 1.25, 0.75)}" if i else ""))
        print(f"{way or 'defaults':22} {bare:.3f} ms a token, traced {with_it:.3f} ({with_it / bare:.3f}); {entries:.0f} calls; cost {cpu * 1e6 / entries:.0f} ns "
              f"of CPU time a call, {cost * 1e6 / entries:.0f} of time, said {said * 1e6 / entries:.0f}; {'; '.join(text)}; {len(turns)} turns, dropped {drops:.0f}",
              flush=True)
    gen.proc.stdin.close()
    gen.proc.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
