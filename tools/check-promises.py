#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that a test exists for every promise of the documents, and that pages for users name no tests.

    tools/check-promises.py [FILE...]    docs/PROMISES.md, RELIABILITY.md, SECURITY.md and the pages for users

In tables whose last column is "held by", each row names its tests there, in backticks:

    `SUITE: words`                tests/e2e/test_SUITE.py, or a program that it runs, in tests/vm/guest, has a check whose
                                  name contains these words
    `test_reader_file: test_proc` tests/unit/test_reader_file.c runs that test

If the column is "tested by", each row names whole suites: `SUITE` or `test_reader_file`.

Outside of these columns, the pages of docs/README.md before its headings Contributing and Archive may have neither names of tests nor
commit hashes, which are for developers.

Prints FILE:LINE: the error. Exit status 1 on errors. tests/e2e/test_layers.py runs it."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMMENT = re.compile(r"^\s*(#|$)")
# A name of a test, of a folder with tests, or of a suite; and a commit hash: hexadecimal digits, with both letters and digits.
LABORATORY = re.compile(r"\btest_\w+|\btests/(?!corpus\b|bench\b)\w*|\bsuites? `\w+`|`\w+: (?:test_)?\w+`(?= \|$)"
                        r"|\bcommit `?[0-9a-f]{7,40}\b|`(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}`")


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
    places = f"tests/e2e/test_{where}.py", f"tests/vm/guest/{where}.sh"
    text = "\n".join(filter(None, map(read, places)))
    if not text:
        return f"`{ref}`: there is no {places[0]}"
    # A quote within a quoted name: 'root'\''s'
    lines = [l.replace("'\\''", "'").replace("'\"'\"'", "'") for l in text.split("\n") if not COMMENT.match(l)]
    if not any(name in l for l in lines):
        return f"`{ref}`: {places[0]} has no such check"
    return None


def wrong_with_suite(ref):
    """The error in the name of a whole suite, or None."""
    if any(read(p) is not None for p in (f"tests/unit/{ref}.c", f"tests/e2e/test_{ref}.py")):
        return None
    return f"`{ref}`: there is no such test"


def for_users():
    """The pages that users read."""
    parts = (read("docs/README.md") or "").split("\n## Contributing\n")[0]
    return ["README.md", *dict.fromkeys(f"docs/{page}" for page in re.findall(r"\]\((\w+\.md)\)", parts))]


def is_for_users(path):
    return not str(path).startswith("docs/") or path in for_users()


def without_tests(text):
    """(line, text) of what a page for users may not have names of tests in: all but code blocks and columns "held by"."""
    held = fence = False
    for number, line in enumerate(text.split("\n"), 1):
        fence ^= line.startswith("```")
        held = line.startswith("|") and (held or line.endswith("| held by |"))
        if not (fence or line.startswith("    ")):
            yield number, line.rsplit("|", 2)[0] if held else line


def laboratory(path):
    """Names of tests and commit hashes in a page for users."""
    for number, line in without_tests(read(path) or ""):
        for found in LABORATORY.finditer(line):
            yield f"{path}:{number}: `{found[0].strip()}` is for developers: write it on a page of Contributing"


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
        if cells[-1] in ("held by", "tested by"):
            held = wrong_with if cells[-1] == "held by" else wrong_with_suite
        elif held and not set(cells[-1]) <= set("-: "):
            rows += 1
            refs = re.findall(r"`([^`]+)`", cells[-1])
            if not refs:
                yield f"{path}:{number}: a promise that no test holds: {cells[0][:60]}"
            for ref in refs:
                why = held(ref)
                if why:
                    yield f"{path}:{number}: {why}"
    if not rows:
        yield f"{path}: no table says what holds its promises"


def main(paths):
    promises = ["docs/PROMISES.md", "docs/RELIABILITY.md", "docs/SECURITY.md"]
    found = [w for path in paths or promises for w in check(path)] + [w for path in paths or for_users() if is_for_users(path) for w in laboratory(path)]
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


sys.exit(main(sys.argv[1:]))
