# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Measures the cost of each layer: tokens of GPT-2 untraced, with default options, with one more layer, with all, and under torch.profiler, in turn.

usage: layers.py CUDATRACE OUT_FOLDER [SECONDS]
"""
import os
import shutil
import sys

from turns import in_turn, traced

HERE = os.path.dirname(os.path.abspath(__file__))
# The program's own mode (gpt2.py --profile); the latter runs without cudatrace.
MODES = {"--ranges": "ranges", "--torch-profiler": "stack"}
WAYS = ["", "--detail=normal", "--nvtx --ranges", "--python=launch", "-e launch,transfer,sync,memory,cublas", "--torch", "--all-layers", "--torch-profiler"]


def main():
    tracer, out, *seconds = sys.argv[1:]
    argv_of = traced(tracer, [os.path.join(HERE, "gpt2.py"), "--tokens", "5"])

    def argv(way, path):
        options = [o for o in way.split() if o not in MODES]
        mode = next((MODES[o] for o in way.split() if o in MODES), "none")
        return ["env", "GPT2_PROFILE=" + mode, *argv_of("" if mode == "stack" else " ".join(options), path)]

    for p in in_turn(argv, out, WAYS, int(seconds[0]) if seconds else 60, copies=1, name="layers"):
        shutil.rmtree(p.folder)


if __name__ == "__main__":
    main()
