#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks that the files and functions named in documents and comments exist.

    tools/check-names.py [FILE...]    all documents, C files, Python and shell scripts of the tree

A name is a path in one of our top folders (src/sink/, tools/demo.sh), a page (USE.md), a C file with or without folders (stage.c,
time/stage.c: the end of the path of an existing file), the target of a link in a document and its section, or a C function written
as a call: fnset__new(). NAME and * stand for anything; a file named in "The new file `...`" need not exist.
Prints FILE:LINE: the error. Exit status 1 on errors. tests/e2e/test_layers.py runs it."""
import fnmatch
import functools
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Files of other projects that comments name.
FOREIGN = set("""
    types.h bpf.h bpf_tracing.h capability.h cmocka.h dl-cache.h proc_ns.h ptrace.h ringbuf.c segment.h
    cudaEGL.h cudaGL.h cudaProfiler.h cudaTypedefs.h cudaVDPAU.h cuda_occupancy.h cupti_result.h nccl.h group.cc uvm_gpu.h uvm_perf_events.h
""".split())
TOPS = "src|bpf|include|vmlinux|tests|tools|docs|dist"
NAME = re.compile(rf"(?<![\w./*<-])(?:(?:{TOPS})/[\w./*-]*[\w/*]|[\w/*-]+(?:\.bpf)?\.(?:c|h|cc|def)\b|[A-Z][A-Z_]+\.md\b)(?![\w/*({{$])")
# In the prose of a document, also outside of backticks: a path below one of the folders, and a page.
PATH = re.compile(rf"(?<![\w./*<`-])(?:(?:{TOPS})/[\w./*-]*[\w/*]|[A-Z][A-Z_]+\.md\b)(?![\w({{$-])")
CALL = re.compile(r"\b(\w+[a-z]__[a-z]\w*)\(\)")
LINK = re.compile(r"\]\(([\w./-]*)(?:#([\w-]*))?\)")
COMMENTS = {
    ".c": re.compile(r"/\*.*?\*/|//[^\n]*", re.S),
    ".py": re.compile(r'(?<!["\'])#[^\n]*|"""(?:.*?)"""', re.S),
    ".sh": re.compile(r"(?m)^\s*#[^\n]*"),
}
COMMENTS.update({".h": COMMENTS[".c"], ".cc": COMMENTS[".c"], ".def": COMMENTS[".c"], ".mk": COMMENTS[".sh"]})


def tree():
    git = ["git", "-C", TOP, "ls-files", "-co", "--exclude-standard"]
    out = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    files = {f for f in out.split("\n") if f and os.path.exists(os.path.join(TOP, f))}
    return files | {"/".join(f.split("/")[:n]) for f in files for n in range(1, f.count("/") + 1)}


def words(known):
    """The text of all C files outside of comments."""
    found = set()
    for path in known:
        ext = os.path.splitext(path)[1]
        if COMMENTS.get(ext) is COMMENTS[".c"]:
            with open(os.path.join(TOP, path), encoding="utf-8") as f:
                found.update(re.findall(r"\w+", COMMENTS[ext].sub("", f.read())))
    return found


@functools.lru_cache(maxsize=None)
def sections(path):
    """The anchors of the sections of a document."""
    with open(path, encoding="utf-8") as f:
        titles = re.findall(r"^#+ (.*)$", f.read(), re.M)
    return {re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def exists(name, known, ends):
    name = name.rstrip("/")
    if os.path.basename(name) in FOREIGN:
        return True
    if not name.endswith(".md") and re.search(r"\b[A-Z]{2,}\b", name.replace("_", " ")):
        return True
    if "*" in name:
        return any(fnmatch.fnmatch(k, name) or fnmatch.fnmatch(k, "*/" + name) for k in known)
    return name in known or name in ends


def check(path, known, ends, functions):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        text = f.read()
    ext = os.path.splitext(path)[1]
    if ext == ".md":
        parts = [(m.start(), m.group(1)) for m in re.finditer(r"`([^`\n]+)`", text)]
        parts += [(m.start(), m.group()) for m in PATH.finditer(text)]
        for m in LINK.finditer(text):
            target = os.path.join(TOP, os.path.dirname(path), m.group(1)) if m.group(1) else os.path.join(TOP, path)
            if not os.path.exists(target):
                yield text.count("\n", 0, m.start()) + 1, m.group(1)
            elif m.group(2) and target.endswith(".md") and m.group(2) not in sections(target):
                yield text.count("\n", 0, m.start()) + 1, f"section {m.group(1)}#{m.group(2)}"
    else:
        parts = [(m.start(), m.group()) for m in COMMENTS[ext].finditer(text)]
    for at, part in parts:
        for m in NAME.finditer(part):
            if ext == ".md" and text[:at].endswith("The new file "):
                continue
            name = m.group()
            if not exists(name, known, ends) and not exists(os.path.join(os.path.dirname(path), name), known, ends):
                yield text.count("\n", 0, at + m.start()) + 1, name
        for m in CALL.finditer(part):
            if m.group(1) not in functions:
                yield text.count("\n", 0, at + m.start()) + 1, m.group()


def main():
    known = tree()
    ends = {"/".join(k.split("/")[n:]) for k in known for n in range(1, k.count("/") + 1)}
    functions = words(known)
    paths = sys.argv[1:] or sorted(k for k in known if os.path.splitext(k)[1] in (*COMMENTS, ".md") and "/vendor/" not in k)
    bad = 0
    for path in paths:
        for line, name in check(path, known, ends, functions):
            print(f"{path}:{line}: {name} does not exist")
            bad = 1
    return bad


sys.exit(main())
