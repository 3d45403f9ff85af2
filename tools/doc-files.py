#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Generates docs/FILES.md: what each source file holds, by the first sentence of its first comment.

    tools/doc-files.py [--check]

Folders and their headings are the rows of the table in docs/ARCHITECTURE.md. A header and the source file of the same name share a
row, with the header's sentence. Fails for a file without a first comment, and for a sentence that is too long for a table. With
--check the page is not written; one that is out of date is an error, too. `make tables` runs it, and the test module layers does
with --check."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = "docs/FILES.md"
HEAD = """<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->
<!-- made by `make tables`: do not edit -->
# Files

Each row is the first sentence of the first comment of a file (`tools/doc-files.py`). [ARCHITECTURE](ARCHITECTURE.md) explains the parts.
"""
ENDINGS = (".h", ".c", ".cc", ".S", ".def", ".section", ".py", ".sh", ".js", ".css", ".html", ".map", ".mk")
LONGEST = 240
SENTENCE = re.compile(r"(?:[^.]|\.(?!\s))*?(?:\.(?=\s|$)|$)")


def folders():
    """(heading, folder, contents) of each row of the table in docs/ARCHITECTURE.md."""
    with open(os.path.join(TOP, "docs/ARCHITECTURE.md"), encoding="utf-8") as f:
        part = f.read().split("| directory |", 1)[1].split("\n\n", 1)[0]
    heading = ""
    for line in part.split("\n"):
        if found := re.match(r"\| \*\*(.+?)\*\* \|", line):
            heading = found[1]
        elif found := re.match(r"\| `([\w/]+)/` \| (.+?) \| ", line):
            yield heading, found[1], found[2]


def first_comment(path, text):
    """The first comment of a file that precedes its code, without the licence; "" if there is none."""
    text = re.sub(r"\A#!.*\n", "", text)
    if path.endswith(".py") and (found := re.match(r'(?:#[^\n]*\n|\n)*r?"""(.*?)"""', text, re.S)):
        return found[1]
    if path.endswith((".py", ".sh", ".mk")):
        paragraphs = re.match(r"(?:#.*\n|\n)*", text)[0].split("\n")
        lines = [re.sub(r"^# ?", "", line) for line in paragraphs if "SPDX-" not in line]
    else:
        # A comment behind #include lines is that of a function or a constant.
        lead = r"(?:\s|<!doctype html>|'use strict';)*"
        comment = re.compile(lead + r"(?:/\*(.*?)\*/|<!--(.*?)-->|((?://[^\n]*\n)+))", re.S | re.I)
        body, at = "SPDX-", 0
        while "SPDX-" in body or "clang-format o" in body:
            found = comment.match(text, at)
            if not found:
                return ""
            body, at = next(filter(None, found.groups()), ""), found.end()
        lines = [re.sub(r"^\s*(?:\*|//)? ?", "", line) for line in body.split("\n")]
    return "\n".join(lines).strip()


def sentence(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        paragraph = first_comment(path, f.read()).split("\n\n")[0]
    text = " ".join(paragraph.split())
    return SENTENCE.match(text)[0].rstrip(".: ")


def cell(text):
    return re.sub(r"([|*<>])", r"\\\1", text) if "`" not in text else text.replace("|", "\\|")


def files_in(folder, others):
    """Files of a folder, without those of folders that have their own row."""
    for at, inner, names in os.walk(os.path.join(TOP, folder)):
        here = os.path.relpath(at, TOP)
        inner[:] = sorted(d for d in inner if d not in ("vendor", "__pycache__") and os.path.join(here, d) not in others)
        yield from sorted(os.path.join(here, n) for n in names if n.endswith(ENDINGS))


def rows(folder, others, wrong):
    paths = list(files_in(folder, others))
    for path in paths:
        base, ending = os.path.splitext(path)
        if ending in (".c", ".cc") and base + ".h" in paths:
            continue
        names = [path, *(base + e for e in (".c", ".cc") if ending == ".h" and base + e in paths)]
        says = sentence(path)
        if not says:
            wrong.append(f"{path}:1: a first comment must say what the file holds ({PAGE})")
        elif len(says) > LONGEST:
            wrong.append(f"{path}:1: the first sentence has {len(says)} characters, {LONGEST} at most: end it earlier ({PAGE})")
        names = ", ".join(f"`{os.path.relpath(n, folder)}`" for n in names)
        yield f"| {names} | {cell(says)} |\n"


def page(wrong):
    listed = list(folders())
    others = {folder for _, folder, _ in listed}
    parts, last = [HEAD], None
    for heading, folder, contents in listed:
        if not os.path.isdir(os.path.join(TOP, folder)):
            continue
        table = "".join(rows(folder, others, wrong))
        if heading != last:
            parts.append(f"\n## {heading[0].upper()}{heading[1:]}\n")
        last = heading
        parts.append(f"\n### `{folder}/`\n\n| file | contents |\n|---|---|\n{table}" if table else "")
    return "".join(parts)


def main(args):
    if args not in ([], ["--check"]):
        sys.exit(__doc__)
    wrong = []
    text = page(wrong)
    path = os.path.join(TOP, PAGE)
    old = None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            old = f.read()
    if args and old != text:
        wrong.append(f"{PAGE} differs from the files' first comments: run `make tables`")
    elif old != text:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    print("\n".join(wrong), end="\n" if wrong else "")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
