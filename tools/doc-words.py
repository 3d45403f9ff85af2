#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Counts the hand-written words of each part of the documentation, and compares them with its budget.

    tools/doc-words.py [-v]     parts; -v also the pages of each part

The headings of docs/README.md are the parts, and the pages that they list belong to them; README.md belongs to the first. Words are those
of prose: text outside code blocks (fenced, or indented by four spaces after an empty line), tables, HTML comments, pictures, and
generated pages and tables. Link targets do not count. Words of list items have their own column and no budget. Of docs/measured/,
the page in front counts.

Prints an error and exits with status 1 for a part or a sum above its budget, and for a page that is in no part. The test module
documents runs it."""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Without root and Trust have pages for both producers at once and for limits. The text of Reference is what generated tables cannot say.
BUDGETS = {"Start": 2100, "Choose": 1000, "Read": 2700, "Layers": 4400, "Without root": 600, "Fleet": 3000, "Trust": 2600,
           "Reference": 3200, "Contributing": 3000, "Archive": 500}
BUDGET = 26000
NOTICE = "<!-- made by `make tables`"
GENERATED = re.compile(r"<!-- [^\n]*, made by `make tables` -->\n.*?<!-- end of \w+ -->", re.S)


def prose(text):
    """The lines of prose of a page."""
    if NOTICE in text[:200]:
        return
    text = re.sub(r"<!--.*?-->", "", GENERATED.sub("", text), flags=re.S)
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
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        for line in prose(f.read()):
            # A list item ends at a line that begins at the margin.
            in_list = bool(re.match(r" *([-*]|\d+\.) ", line)) or in_list and not re.match(r"\S", line)
            count[in_list] += sum(bool(re.search(r"\w", w)) for w in line.split())
    return count


def parts():
    """The pages of each part."""
    found = {}
    with open(os.path.join(TOP, "docs/README.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                pages = found.setdefault(line[3:].strip(), [] if found else ["README.md"])
            elif line.startswith("|"):
                pages += ("docs/" + page for page in re.findall(r"\]\(([\w/]+\.md)\)", line))
    return found


def line_of(counts, name, budget=""):
    return f"{counts[0]:8,}{counts[1]:8,}{budget:>8}  {name}"


def main(args):
    if args not in ([], ["-v"]):
        sys.exit(__doc__)
    wrong, total = [], [0, 0]
    found = parts()
    print("   prose   lists  budget")
    for part, pages in found.items():
        counts = {page: words(page) for page in pages}
        of_part = [sum(column) for column in zip(*counts.values())]
        total = [a + b for a, b in zip(total, of_part)]
        print(line_of(of_part, part, f"{BUDGETS.get(part, 0):,}"))
        for page in sorted(counts, key=lambda page: -sum(counts[page])) if args else ():
            print(line_of(counts[page], "    " + page))
        if of_part[0] > BUDGETS.get(part, 0):
            wrong.append(f"{part}: {of_part[0]:,} words of prose; its budget is {BUDGETS.get(part, 0):,}")
    print(line_of(total, "together", f"{BUDGET:,}"))
    if total[0] > BUDGET:
        wrong.append(f"together: {total[0]:,} words of prose; the budget is {BUDGET:,}")
    listed = {page for pages in found.values() for page in pages} | {"docs/README.md"}
    pages = (os.path.relpath(p, TOP) for p in sorted(glob.glob(os.path.join(TOP, "docs/*.md"))))
    wrong += (f"{page}: in no part of docs/README.md" for page in pages if page not in listed)
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
