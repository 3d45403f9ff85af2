#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the words of prose of each page, longest first, and their sum.

    tools/doc-words.py [FILE...]    README.md, docs/*.md and docs/measured/*.md

Prose is all text outside code blocks (fenced, or indented by four spaces after an empty line), tables, HTML comments,
pictures, and generated tables. Link targets do not count. List items are counted separately. The pages of docs/ together should stay below
26,000 words, lists included, without docs/measured."""
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
    """Words of prose outside of lists, and in lists."""
    count = [0, 0]
    in_list = False
    with open(path, encoding="utf-8") as f:
        for line in prose(f.read()):
            # A list item ends at a line that begins at the margin.
            in_list = bool(re.match(r" *([-*]|\d+\.) ", line)) or in_list and not re.match(r"\S", line)
            count[in_list] += sum(bool(re.search(r"\w", w)) for w in line.split())
    return count


def main(paths):
    paths = paths or [p for pattern in ("README.md", "docs/*.md", "docs/measured/*.md") for p in glob.glob(os.path.join(TOP, pattern))]
    counts = {os.path.relpath(p, TOP): words(p) for p in paths}
    counts = dict(sorted(counts.items(), key=lambda row: (-sum(row[1]), row[0])))
    counts["together"] = [sum(column) for column in zip(*counts.values())]
    print("  prose  lists")
    for path, (prose_cnt, list_cnt) in counts.items():
        print(f"{prose_cnt:7,}{list_cnt:7,}  {path}")


main(sys.argv[1:])
