# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What each layer costs: tokens of GPT-2 untraced, traced by default and with one layer more, with all, and under torch.profiler, in turn.

usage: layers.py CUDATRACE OUT_FOLDER [TURNS]
"""
import os
import stat
import sys
import time

from turns import in_turn

HERE = os.path.dirname(os.path.abspath(__file__))
# --ranges, --torch-profiler: the program's own mode (gpt2.py --profile); the latter runs without cudatrace.
MODES = {"--ranges": "ranges", "--torch-profiler": "stack"}
WAYS = ["", "--detail=normal", "--nvtx --ranges", "--python=launch", "-e launch,transfer,sync,memory,cublas", "--torch", "--all-layers", "--torch-profiler"]
# In cudatrace's place: it knows what these modes are.
WRAPPER = """#!{python}
import os
import sys
at = sys.argv.index("--")
options, program = sys.argv[1:at], sys.argv[at + 1:]
os.environ["GPT2_PROFILE"] = next((mode for option, mode in {modes}.items() if option in options), "none")
options = [o for o in options if o not in {modes}]
argv = program if os.environ["GPT2_PROFILE"] == "stack" else [{tracer!r}, *options, "--", *program]
os.execv(argv[0], argv)
"""


def main():
    tracer, out, *turns = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    wrapper = os.path.join(out, "layers-tracer")
    with open(wrapper, "w", encoding="utf-8") as f:
        f.write(WRAPPER.format(python=sys.executable, modes=MODES, tracer=os.path.abspath(tracer)))
    os.chmod(wrapper, stat.S_IRWXU)
    begin = time.monotonic()
    in_turn(wrapper, out, WAYS, [os.path.join(HERE, "gpt2.py"), "--tokens", "20"], turns=int(turns[0]) if turns else 12, copies=1)
    print(f"took {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
