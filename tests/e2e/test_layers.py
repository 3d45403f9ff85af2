# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
# traces nothing
"""The documents' statements about this tree. A folder of src/ may use only those that the table in docs/ARCHITECTURE.md allows. Tests in
tables of promises must exist, and so must files and functions named in documents and comments. Every header must compile alone, so
that the order of includes never matters."""
import glob
import os
import re
import shutil

import pytest
from helpers.run import CC, O, Ran


def test_layers():
    ran = Ran(["tools/check-layers.sh"])
    assert ran.status == 0, ran.out + ran.err


BAD_TREE = {
    "record/bad.c": '#include "util/x.h"\nvoid f(void) { bpf_object__open("x"); }\n',
    "util/bad.c": '#include "record/x.h"\nint f(int pid) { snprintf(p, 9, "/proc/%d/maps", pid); }\n',
    "util/wait.c": '#include "util/reader.h"\nint g(int pid) { readlink(name("/proc/%d/exe", pid), b, 9); }\n'
                   'int h(int pid) { return read_file(pid, "stat"); }\n'
                   'int i(int pid) { snprintf(p, 9, "/proc/%d/task/%d/wchan", pid, pid); }\n',
    "util/reader.h": "", "util/x.h": "", "record/x.h": ""}


def test_wrong_layers_are_found(tmp_path):
    """The check must fail for an include, a libbpf call, and a file of a process in a wrong folder."""
    for path, text in BAD_TREE.items():
        (tmp_path / "src" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / path).write_text(text)
    for path in "tools/check-layers.sh", "docs/ARCHITECTURE.md":
        (tmp_path / path).parent.mkdir()
        shutil.copy(path, tmp_path / path)
    (tmp_path / "bpf").mkdir()
    said = Ran([tmp_path / "tools/check-layers.sh"])
    found = re.findall(r"^src/(?:(record/bad.c:2): record/ may use libbpf|(util/bad.c:1): util/ may not use record"
                       r"|(util/bad.c:2|util/wait.c:[234]): a target can)",
                       said.out + said.err, re.M)
    assert ["".join(row) for row in sorted(found, key="".join)] == ["record/bad.c:2", "util/bad.c:1", "util/bad.c:2",
                                                                    *(f"util/wait.c:{n}" for n in (2, 3, 4))]


PROMISES = "| promise | held by |\n|---|---|\n| a | by hand |\n| b | `format: no such check`, `99-none: x` |\n| c | `test_limits: none` |\n"
NAMES = ("`src/none.c`, `none.h`, `src/none/`, [x](none.md), `none__new()`, src/none, NONE.md, [y](#none); "
         "there: `src/main.c`, `out.h`, `src/*/out.c`, docs/USE.md\n")


def unused_words():
    """Each row of the table in use: in code, in a sentence, and alone."""
    with open("docs/GLOSSARY.md", encoding="utf-8") as f:
        rows = re.findall(r"^\| `([^`]*)` ", f.read().partition("\n## Not used")[2], re.M)
    return "".join(f"x {row}, y\n" for row in rows)


@pytest.mark.parametrize("tool,bad,says,count", [
    # A row without a test; a missing check, suite and unit test.
    ("promises", lambda: PROMISES, r"bad.md:[345]: ", lambda bad: 4),
    ("names", lambda: NAMES, r"bad.md:1: .*none.* does not exist", lambda bad: 8),
    ("words", unused_words, r"bad.md:\d*: write ", lambda bad: bad.count("\n"))],
                         ids=["promises", "names", "words"])
def test_documents(tmp_path, tool, bad, says, count):
    """The check must find nothing in the documents, and all that is wrong in a bad one."""
    ran = Ran([f"tools/check-{tool}.py"])
    assert ran.status == 0, ran.out + ran.err
    text = bad()
    (tmp_path / "bad.md").write_text(text)
    said = Ran([f"tools/check-{tool}.py", tmp_path / "bad.md"]).out
    assert len(re.findall(says, said, re.I)) == count(text) > 0, said


@pytest.mark.parametrize("header", sorted(glob.glob("include/*.h") + glob.glob("src/**/*.h", recursive=True)))
def test_header_alone(header):
    ran = Ran([*CC, "-std=gnu11", "-D_GNU_SOURCE=", "-Wall", "-Wextra", "-Werror", "-Isrc", "-Iinclude", "-I" + O, "-fsyntax-only",
               "-include", header, "-xc", os.devnull])
    assert ran.status == 0, ran.err[:2000]
