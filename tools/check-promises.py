#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that a test exists for every promise of the documents.

    tools/check-promises.py [FILE...]    docs/PROMISES.md, RELIABILITY.md, CONTEXT_SWITCHES.md and SECURITY.md

In tables whose last column is "held by", each row names its tests there, in backticks:

    `SUITE: words`                tests/suites/SUITE.sh (or a program that it runs, in tests/vm/guest) or
                                  tests/e2e/test_SUITE.py has a check whose name contains these words
    `test_reader_file: test_proc` tests/unit/test_reader_file.c runs that test

Prints FILE:LINE: the error. Exit status 1 on errors. tests/e2e/test_layers.py runs it."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMENT = re.compile(r"^\s*(#|$)")


def read(path):
    try:
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def wrong_with(ref):
    """The error in one name of a test, or None."""
    where, colon, name = ref.partition(": ")
    if not colon or not name:
        return f"`{ref}`: write it as `SUITE: words of a check` or `test_FILE: function`"
    if where.startswith("test_"):
        text = read(f"tests/unit/{where}.c")
        if text is None:
            return f"`{ref}`: there is no tests/unit/{where}.c"
        if not re.search(r"\(\s*" + re.escape(name) + r"[,)]", text[text.find("struct CMUnitTest"):]):
            return f"`{ref}`: tests/unit/{where}.c runs no {name}"
        return None
    places = f"tests/suites/{where}.sh", f"tests/e2e/test_{where}.py", f"tests/vm/guest/{where}.sh"
    text = "\n".join(filter(None, map(read, places)))
    if not text:
        return f"`{ref}`: there is no {places[0]}"
    # A quote within a quoted name: 'root'\''s'
    lines = [l.replace("'\\''", "'").replace("'\"'\"'", "'") for l in text.split("\n") if not COMMENT.match(l)]
    if not any(name in l for l in lines):
        return f"`{ref}`: tests/suites/{where}.sh has no such check"
    return None


def check(path):
    text = read(path)
    if text is None:
        yield f"{path}: there is no such file"
        return
    held, rows = False, 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("|"):
            held = False
            continue
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
        if cells[-1] == "held by":
            held = True
        elif held and not set(cells[-1]) <= set("-: "):
            rows += 1
            refs = re.findall(r"`([^`]+)`", cells[-1])
            if not refs:
                yield f"{path}:{number}: a promise that no test holds: {cells[0][:60]}"
            for ref in refs:
                why = wrong_with(ref)
                if why:
                    yield f"{path}:{number}: {why}"
    if not rows:
        yield f"{path}: no table says what holds its promises"


found = [w for path in sys.argv[1:] or ["docs/PROMISES.md", "docs/RELIABILITY.md", "docs/CONTEXT_SWITCHES.md", "docs/SECURITY.md"] for w in check(path)]
print("\n".join(found), end="\n" if found else "")
sys.exit(1 if found else 0)
