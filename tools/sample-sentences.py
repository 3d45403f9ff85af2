#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A random sample of the project's sentences, to be judged by a reader.

    tools/sample-sentences.py [-n COUNT] [--seed N] [--from KIND] [FILE...]

Prints FILE:LINE: sentence, COUNT of them (300), by a fixed seed. Kinds, with their share of the sample:

    docs        half: README.md, CONTRIBUTING.md, docs/: prose, list items and table cells of five words or more
    messages    a fifth: string literals of five words or more in src/ and inject/
    comments    the rest: sentences of comments in src/, bpf/ and inject/

FILEs limit it to these files. The same tree and arguments give the same sample."""
import argparse
import glob
import os
import random
import re

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARES = {"docs": 5, "messages": 2, "comments": 3}
PLACES = {
    "docs": ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/measured/*.md"),
    "messages": ("src/**/*.[ch]", "src/**/*.def", "src/**/*.section", "inject/*.[ch]"),
    "comments": ("src/**/*.[ch]", "src/**/*.def", "bpf/*.[ch]", "inject/*.[ch]"),
}
GENERATED = re.compile(r"<!-- (?:made by `make tables`.*|[^\n]*, made by `make tables` -->.*?<!-- end of \w+ -->)", re.S)
ENDS = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z`*\[-])")


def is_sentence(text):
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 5


def from_lines(lines):
    """Sentences of paragraphs: (line, text) pairs; a paragraph ends at a gap in the line numbers."""
    number, text, last = None, "", None
    for at, line in [*lines, (None, "")]:
        if last is not None and (at is None or at != last + 1 or not line):
            yield from ((number, s.strip()) for s in ENDS.split(text) if is_sentence(s))
            number, text = None, ""
        if line:
            number, text = number or at, f"{text} {line}".strip()
        last = at


def docs(text):
    text = GENERATED.sub(lambda m: "\n" * m[0].count("\n"), text)
    fence, prose = False, []
    for at, line in enumerate(text.split("\n"), 1):
        fence ^= line.startswith("```")
        if fence or line.startswith(("    ", "```", "<!--", "![")):
            continue
        if line.startswith("|"):
            yield from ((at, c.strip()) for c in re.split(r"(?<!\\)\|", line) if is_sentence(re.sub(r"`[^`]*`", "", c)))
        elif re.match(r"\s*([-*]|\d+\.) |#", line):
            prose += [(at - 0.5, ""), (at, line.strip())]
        else:
            prose.append((at, line.strip()))
    for at, line in from_lines((int(a), l) for a, l in prose):
        yield at, line


def messages(text):
    for m in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*', text):
        joined = re.sub(r'"\s*(PRI\w+\s*)?"', "", m[0])[1:-1]
        if is_sentence(joined) and not joined.startswith("#"):
            yield text.count("\n", 0, m.start()) + 1, joined


def comments(text):
    for m in re.finditer(r"/\*(.*?)\*/|//([^\n]*)", text, re.S):
        at = text.count("\n", 0, m.start()) + 1
        lines = [re.sub(r"^[\s*]+", "", line).strip() for line in (m[1] or m[2] or "").split("\n")]
        yield from from_lines((at + i, "" if line.startswith("SPDX-") else line) for i, line in enumerate(lines))


def sentences(kind, only):
    paths = sorted({p for pattern in PLACES[kind] for p in glob.glob(os.path.join(TOP, pattern), recursive=True)})
    for path in paths:
        name = os.path.relpath(path, TOP)
        if only and name not in only:
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        yield from ((name, at, s) for at, s in {"docs": docs, "messages": messages, "comments": comments}[kind](text))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=41)
    parser.add_argument("--from", dest="kind", choices=SHARES)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    kinds = {args.kind: 1} if args.kind else SHARES
    for kind, share in kinds.items():
        pool = list(sentences(kind, set(args.files)))
        count = min(len(pool), args.n * share // sum(kinds.values()))
        for name, at, text in sorted(random.Random(args.seed).sample(pool, count)):
            print(f"{name}:{at}: {text}")


main()
