#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Finds the words that docs/GLOSSARY.md lists as not used.

    tools/check-words.py [FILE...]    all text files of the tree

Prints FILE:LINE: what to write instead. Exit status 1 when a word is found. tests/e2e/test_layers.py runs it."""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "docs/GLOSSARY.md"
# Tables of NVIDIA's names, recordings, old measurements, and code of other projects.
OTHERS = re.compile(r"^(LICENSES/|vmlinux/|docs/measured/|docs/GLOSSARY\.md|tests/corpus/|tests/golden/.*\.jsonl|src/decode/(nv|api)/|.*/vendor/)|\.(png|zst)$")


def table():
    with open(os.path.join(TOP, PAGE), encoding="utf-8") as f:
        part = f.read().split("## Not used")[1]
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", part, re.M))


def main():
    words = table()
    rx = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, words)) + r")(?![\w-])")
    paths = sys.argv[1:]
    if not paths:
        git = ["git", "-C", TOP, "ls-files", "-co", "--exclude-standard"]
        out = subprocess.run(git, capture_output=True, text=True, check=True).stdout
        paths = [f for f in out.split("\n") if f and not OTHERS.search(f)]
    bad = 0
    for path in paths:
        try:
            with open(os.path.join(TOP, path), encoding="utf-8") as f:
                lines = f.read().split("\n")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
        for i, line in enumerate(lines, 1):
            for m in rx.finditer(line):
                print(f"{path}:{i}: write {words[m.group()]} for {m.group()} ({PAGE})")
                bad = 1
    return bad


sys.exit(main())
