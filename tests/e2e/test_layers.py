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


# Each line but the last three names a test or a commit. The rows of "held by" may.
LABORATORY = ("| promise | held by |\n|---|---|\n| a | `format: test_style` |\n\n| test_style | x |\nsee `tests/unit/x.c`\nthe suite `format`\n| a | `format: test_style` |\n"
              "since commit 691139df\nsince `691139d`\n`tests/corpus/x.py`\n`1234567` `deadbeef`\n    test_style\n")


@pytest.mark.parametrize("tool,bad,says,count", [
    # A row without a test; a missing check, suite and unit test.
    ("promises", lambda: PROMISES, r"bad.md:[345]: ", lambda bad: 4),
    ("promises", lambda: LABORATORY, r"bad.md:(?:5|6|7|8|9|10): `[^`]*.*` is for developers", lambda bad: 6),
    ("promises", lambda: "| table | tested by |\n|---|---|\n| a | `format` |\n| b | `test_none` |\n", r"bad.md:4: .*no such test", lambda bad: 1),
    ("names", lambda: NAMES, r"bad.md:1: .*none.* does not exist", lambda bad: 8),
    ("words", unused_words, r"bad.md:\d*: write ", lambda bad: bad.count("\n"))],
                         ids=["promises", "laboratory", "tested", "names", "words"])
def test_documents(tmp_path, tool, bad, says, count):
    """The check must find nothing in the documents, and all that is wrong in a bad one."""
    ran = Ran([f"tools/check-{tool}.py"])
    assert ran.status == 0, ran.out + ran.err
    text = bad()
    (tmp_path / "bad.md").write_text(text)
    said = Ran([f"tools/check-{tool}.py", tmp_path / "bad.md"]).out
    assert len(re.findall(says, said, re.I)) == count(text) > 0, said


ARCHITECTURE = "| directory | contents | may include |\n|---|---|---|\n| **shared by all** | | |\n| `src/util/` | x | nothing |\n"
UTIL = "src/util/"
SPDX = "/* SPDX-License-Identifier: MIT */\n"


def files_tree(top):
    """A tree whose folder src/util has a pair of files, a script and a page of styles, all with a first comment."""
    texts = {"docs/ARCHITECTURE.md": ARCHITECTURE, UTIL + "a.h": SPDX + "/*\n * Reads x,\n * or y. More.\n */\n", UTIL + "a.c": SPDX + "#include <a.h>\n",
             UTIL + "b.def": SPDX + "/* ROW(x): rows of x_y. */\n", UTIL + "c.sh": "#!/bin/bash\n# SPDX-License-Identifier: MIT\n# Does it.\n\n# Not this.\n",
             UTIL + "d.py": '#!/usr/bin/env python3\n# SPDX-License-Identifier: MIT\n"""Counts.\n\nAnd more."""\n', UTIL + "e.js": "'use strict';\n/* Draws. */\n"}
    for path, text in texts.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    (top / "tools").mkdir()
    shutil.copy("tools/doc-files.py", top / "tools")
    return [top / "tools/doc-files.py"]


def test_files_are_up_to_date():
    ran = Ran(["tools/doc-files.py", "--check"])
    assert ran.status == 0, ran.out + ran.err


def test_files(tmp_path):
    tool = files_tree(tmp_path)
    assert Ran([*tool, "--check"]).out == "docs/FILES.md differs from the files' first comments: run `make tables`\n"
    assert Ran(tool).status == 0 and Ran([*tool, "--check"]).status == 0
    page = (tmp_path / "docs/FILES.md").read_text()
    assert "\n## Shared by all\n\n### `src/util/`\n" in page
    assert page.split("|---|---|\n")[1] == ("| `a.h`, `a.c` | Reads x, or y |\n| `b.def` | ROW(x): rows of x_y |\n| `c.sh` | Does it |\n"
                                           "| `d.py` | Counts |\n| `e.js` | Draws |\n")


@pytest.mark.parametrize("path,text,says", [
    ("a.h", SPDX + "/* Reads z. */\n", "docs/FILES.md differs"),
    ("new.c", SPDX + "#include <x.h>\n/* Of a function. */\n", UTIL + "new.c:1: a first comment must"),
    ("new.py", "import os\n", UTIL + "new.py:1: a first comment must"),
    ("new.sh", "#!/bin/bash\n# SPDX-License-Identifier: MIT\nset -u\n# Too late.\n", UTIL + "new.sh:1: a first comment must"),
    ("new.h", SPDX + f"/* {'x' * 300}. */\n", UTIL + "new.h:1: the first sentence has 300 characters")],
                         ids=["stale", "function", "no-comment", "late", "long"])
def test_wrong_files_are_found(tmp_path, path, text, says):
    """A stale page, a file without a first comment, and one with a sentence that fits no table must be reported."""
    tool = files_tree(tmp_path)
    assert Ran(tool).status == 0
    (tmp_path / UTIL / path).write_text(text)
    ran = Ran([*tool, "--check"])
    assert ran.status == 1 and says in ran.out, ran.out


@pytest.mark.parametrize("header", sorted(glob.glob("include/*.h") + glob.glob("src/**/*.h", recursive=True)))
def test_header_alone(header):
    ran = Ran([*CC, "-std=gnu11", "-D_GNU_SOURCE=", "-Wall", "-Wextra", "-Werror", "-Isrc", "-Iinclude", "-I" + O, "-fsyntax-only",
               "-include", header, "-xc", os.devnull])
    assert ran.status == 0, ran.err[:2000]
