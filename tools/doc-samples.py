#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Sample outputs in the documentation, generated from the recorded traces of tests/corpus.

    tools/doc-samples.py [--check] PROGRAM [PAGE...]    all pages of docs/ by default

A sample is a fenced block below a comment with the command that prints it:

    <!-- output: cudatrace report gpt2-eager.jsonl.zst | sed -n '/^Findings/,/^$/p' -->

The command runs in a shell in tests/corpus, with PROGRAM as cudatrace. The block is rewritten when it differs; with --check the
difference is printed and the exit status is 1. `make tables` runs this, and the test module documents does with --check."""
import difflib
import functools
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLE = re.compile(r"(<!-- output: (.*?) -->\n\n```text\n)(.*?)(```\n)", re.S)


@functools.lru_cache(maxsize=None)
def shell(command, text, program):
    """The output of a command whose standard input is text."""
    script = f"cudatrace() {{ {os.path.abspath(program)!r} \"$@\" 2>/dev/null; }}\n{command}"
    ran = subprocess.run(["bash", "-c", script], cwd=os.path.join(TOP, "tests/corpus"), input=text, stdout=subprocess.PIPE, text=True, check=False)
    return ran.stdout


def output(command, program):
    """Runs the first command of a pipeline once for all samples that use parts of its output."""
    first, bar, rest = command.partition(" | ")
    text = shell(first, "", program)
    text = shell(rest, text, program) if bar else text
    if not text.strip():
        sys.exit(f"{command}: prints nothing: has a heading changed?")
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n"


def main(args):
    is_check = args[:1] == ["--check"]
    args = args[is_check:]
    if not args:
        sys.exit(__doc__)
    bad = 0
    for path in args[1:] or sorted(glob.glob(os.path.join(TOP, "docs/*.md"))):
        with open(path, encoding="utf-8") as f:
            old = f.read()
        new = SAMPLE.sub(lambda m: m[1] + output(m[2], args[0]) + m[4], old)
        if new == old:
            continue
        if is_check:
            print(f"{path} differs from the program's output: run `make tables`")
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "page", "program", n=1))
            bad = 1
            continue
        with open(path, "w", encoding="utf-8") as f:
            f.write(new)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
