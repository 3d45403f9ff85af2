# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 200
# cpus: 2
"""Follows docs/HOWTO_ADD_EVENT.md word for word in a copy of the tree: a new kind of event must then be in JSONL, the reader,
the schema, Chrome traces and reports, without other edits."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import textwrap

import pytest
from helpers.run import TESTS, Ran

TOP = pathlib.Path(TESTS).parent
PAGE = TOP / "docs/HOWTO_ADD_EVENT.md"
pytestmark = pytest.mark.long


def follow(page, tree):
    """Inserts each block of the page at the place given in its first line. Returns the changed files."""
    changed = []
    for name, where, anchor, text in re.findall(r"^ *```c (\S+): (after|before): ([^\n]*)\n(.*?)^ *```$", page, re.M | re.S):
        # Pages have spaces, the sources tabs.
        text = re.sub("^(?: {8})+", lambda m: "\t" * (len(m[0]) // 8), textwrap.dedent(text), flags=re.M)
        path = tree / name
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        at = [i for i, line in enumerate(lines) if line.rstrip("\n") == anchor]
        assert len(at) == 1, f"{name}: {len(at)} lines are {anchor!r}"
        lines.insert(at[0] + (where == "after"), text)
        path.write_text("".join(lines), encoding="utf-8")
        changed.append(name)
    return changed


@pytest.fixture(scope="module")
def built():
    """The tree with the new kind, and the output of new_event.c."""
    tree = pathlib.Path(tempfile.mkdtemp(dir=os.environ["TMP"])) / "tree"
    out = os.path.basename(os.environ["O"])
    shutil.copytree(TOP, tree, symlinks=True, ignore=shutil.ignore_patterns(out, "build", ".git", ".ci", "__pycache__", "node_modules"))
    changed = follow(PAGE.read_text(encoding="utf-8"), tree)
    assert changed == ["src/model/events.def", "include/ct_record.h", "include/ct_rec.def", "src/model/model.c"]
    shutil.copy(TESTS + "/e2e/new_event.c", tree / "tests/unit/new_event.c")
    made = subprocess.run(["make", "-j2", "O=build", "WERROR=1", "all", "build/unit/new_event"], cwd=tree, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=500, check=False)
    assert made.returncode == 0, made.stdout[-3000:]
    ran = Ran([str(tree / "build/unit/new_event"), str(tree / "t.jsonl"), str(tree / "t.json")])
    assert ran.status == 0, ran
    return tree, ran.out


def lines_of(tree):
    return [json.loads(line) for line in (tree / "t.jsonl").read_text(encoding="utf-8").splitlines()]


BOARD = '0000:18:00.0"\n'


def test_jsonl(built):
    text = (built[0] / "t.jsonl").read_text(encoding="utf-8").splitlines()
    assert text[1] == ('{"ts":0.001000,"type":"throttle","op":"begin","name":"begin","pid":7,"tid":8,"comm":"",'
                       '"board":"0000:18:00.0\\"\\u000a","clock_mhz":345,"hot":true}')
    assert text[2] == ('{"ts":1.501000,"type":"throttle","op":"end","name":"end","pid":7,"tid":8,"comm":"",'
                       '"board":"0000:18:00.0\\"\\u000a","clock_mhz":1980,"lasted_us":1500}')
    assert len(text) == 4
    end = json.loads(text[3])
    assert end["events"] == {"throttle": 2} and end["bad_records"] == 1


def test_reader(built):
    assert built[1] == f"begin {BOARD} 345 0 1 1\nend {BOARD} 1980 1500000 0 1\n"


def test_schema(built):
    jsonschema = pytest.importorskip("jsonschema", "4.0", reason="python3-jsonschema is not installed")
    ran = Ran([str(built[0] / "build/cudatrace"), "list", "--schema"])
    schema = json.loads(ran.out)
    check = jsonschema.Draft202012Validator(schema)
    assert [e.message for line in lines_of(built[0]) for e in check.iter_errors(line)] == []
    of = schema["$defs"]["throttle"]
    assert of["properties"]["clock_mhz"]["description"] == "from now on (MHz)"
    assert {"board", "clock_mhz"} <= set(of["required"]) and not {"lasted_us", "hot"} & set(of["required"])
    line = lines_of(built[0])[1]
    for wrong in {**line, "op": "middle"}, {**line, "hot": 1}, {**line, "gpu": "x"}, {k: v for k, v in line.items() if k != "board"}:
        assert not check.is_valid(wrong)


def test_chrome(built):
    events = json.loads((built[0] / "t.json").read_text(encoding="utf-8"))
    seen = [e for e in events if e.get("cat") == "throttle"]
    assert [(e["ph"], e["name"], e["ts"], e["args"]) for e in seen] == [
        ("i", "begin", 1.0, {"op": "begin", "board": BOARD, "clock_mhz": 345, "hot": True}),
        ("i", "end", 1501.0, {"op": "end", "board": BOARD, "clock_mhz": 1980, "lasted_us": 1500})]
    # NO_THREAD: no thread gets a name.
    assert not [e for e in events if e["ph"] == "M"]


def test_report(built):
    ran = Ran([str(built[0] / "build/cudatrace"), "report", "--format", "json", str(built[0] / "t.jsonl")])
    assert ran.status == 0, ran
    assert json.loads(ran.out)["overview"]["events"] == {"throttle": 2}
