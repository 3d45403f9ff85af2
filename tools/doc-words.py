#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How long are the documents? Counts the words of prose of each page, longest first, and their sum.

    tools/doc-words.py [FILE...]    README.md, docs/*.md and docs/measured/*.md

Prose is what stands outside code blocks (fenced, or indented by four spaces behind an empty line), tables, HTML comments,
pictures, and what `make tables` writes. Where a link goes to is no word. The pages together should stay near 20,000 words."""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GENERATED = "made by `make tables`"


def prose(text):
    """The lines of prose of a page."""
    if GENERATED in text:
        return
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    fence = code = False
    empty = True
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fence = not fence
            empty = True
            continue
        code = line.startswith("    ") and (code or empty)
        if not (fence or code or line.startswith(("|", "!["))):
            yield re.sub(r"\]\([^)]*\)", "]", line)
        empty = not line.strip()


def words(path):
    with open(path, encoding="utf-8") as f:
        return sum(bool(re.search(r"\w", w)) for line in prose(f.read()) for w in line.split())


def main(paths):
    paths = paths or [p for pattern in ("README.md", "docs/*.md", "docs/measured/*.md") for p in glob.glob(os.path.join(TOP, pattern))]
    counts = {os.path.relpath(p, TOP): words(p) for p in paths}
    for path, n in sorted(counts.items(), key=lambda row: (-row[1], row[0])):
        print(f"{n:7,}  {path}")
    print(f"{sum(counts.values()):7,}  words of prose")


main(sys.argv[1:])
