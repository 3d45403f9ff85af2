# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a trace says that it cost GPT-2, against what it did.

usage: cost.py CUDATRACE OUT_FOLDER [OPTION...]    OPTION: those of cudatrace in one word, as "--all --count=query"

One process makes tokens all the time (the host is what they wait for): rounds without a tracer and rounds with one
attached, in turn. The difference of the times per token is what it cost.
"""
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time

# Short turns, and many: how fast the machine is changes from second to second.
TOKENS, ROUNDS, TURNS = 50, 5, 16


def main():
    tracer, out, *ways = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    gen = subprocess.Popen([sys.executable, os.path.join(here, "gpt2.py"), "--tokens", str(TOKENS), "--serve"],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert gen.stdout.readline() == "ready\n"

    def rounds():
        gen.stdin.write(f"{ROUNDS}\n")
        gen.stdin.flush()
        return statistics.median(json.loads(gen.stdout.readline()))

    rounds()
    trace = os.path.join(out, "cost.jsonl")
    for way in ways or ["", "--all", "--all --count=query", "--stack", "--count=all", "--kernel"]:
        rows = []
        for _ in range(TURNS):
            before = rounds()
            with subprocess.Popen([tracer, "-q", "--jsonl", trace, *shlex.split(way), "-p", str(gen.pid)]) as ct:
                while not os.path.exists(trace) or not os.path.getsize(trace):
                    time.sleep(0.05)
                time.sleep(1)
                with_it = rounds()
                ct.send_signal(signal.SIGINT)
            bare = (before + rounds()) / 2
            with open(trace, "rb") as f:
                f.seek(max(0, os.path.getsize(trace) - 65536))
                end = json.loads(f.read().splitlines()[-1])
            os.remove(trace)
            rows.append((bare, with_it, end["cost_ms"] / (TOKENS * ROUNDS), end["entries"] / (TOKENS * ROUNDS),
                         sum(end["drops"].values()), with_it - bare))
        bare, with_it, said, entries, drops, cost = (statistics.median(r[i] for r in rows) for i in range(6))
        print(f"{way or 'defaults':22} {bare:.3f} ms a token, traced {with_it:.3f} ({with_it / bare:.3f}); {entries:.0f} calls; "
              f"cost {cost * 1e6 / entries:.0f} ns a call, said {said * 1e6 / entries:.0f}: {said / cost:.2f} of it; dropped {drops:.0f}",
              flush=True)
        print("    ms a token it cost, and said:", [f"{r[5]:.2f} {r[2]:.2f}" for r in rows], flush=True)
    gen.stdin.close()
    gen.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
