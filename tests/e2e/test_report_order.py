# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 45
"""Members of a JSON object have no order: if another program rewrites a trace's lines (jq -S, Python's sort_keys), reports, pictures
and comparisons must be the same, byte for byte."""
import glob
import json
import os
import re

import pytest
from helpers.reorder import reordered
from helpers.run import FAKE, TESTS, cudatrace, needs_tracing

GOLDEN = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
FORMS = ["ascii", "json", "html", "chrome", "perfetto", "flamegraph", "svg", "pprof", "ascii --map", "json --map", "html --map", "flamegraph --map", "ascii --serving",
         "json --serving"]


def python_sorted(lines):
    """Spaces after colons and commas, and numbers in Python's format."""
    return "".join(json.dumps(json.loads(line), sort_keys=True) + "\n" for line in lines)


def blanks(lines):
    """All blanks that a line of JSON may have between its tokens."""
    tokens = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:," \t\r\n]+')
    return "".join("\r\t ".join(tokens.findall(python_sorted([line]))) + "\n" for line in lines)


WAYS = {"sorted": lambda x: reordered(x, "sorted"), "reversed": lambda x: reordered(x, "reversed"), "by chance": lambda x: reordered(x, "39"),
        "Python": python_sorted, "blanks": blanks}


@pytest.fixture(scope="module")
def live():
    """A trace of all layers."""
    needs_tracing()
    path = os.environ["TMP"] + "/live.jsonl"
    ran = cudatrace("-q", "--no-summary", "--all-layers", "--stack", "--jsonl", path, "--", FAKE + "/sample", "--tokens", 10, env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    return path


def said(form, folder, path):
    name, *options = form.split()
    ran = cudatrace("report", "-q", f"--format={name}", *options, "-o", "out", path, cwd=folder)
    assert ran.status == 0, ran
    with open(folder / "out", "rb") as f:
        # A page's nonce differs each time; the file's size depends on its spaces.
        return re.sub(rb'nonce[-="]+[0-9a-f]{32}|"bytes":\d+,"lines"', b"", f.read())


def same(folder, path, way):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    other = WAYS[way](text.splitlines())
    assert other != text
    for form in FORMS:
        # Reports contain the file's name.
        (folder / "t.jsonl").write_text(text, encoding="utf-8")
        want = said(form, folder, "t.jsonl")
        (folder / "t.jsonl").write_text(other, encoding="utf-8")
        # The page contains packed text of the lines, where Python formats numbers differently.
        if way != "Python" or "html" not in form:
            assert said(form, folder, "t.jsonl") == want, form
    assert cudatrace("diff", path, folder / "t.jsonl").status == 0
    against = [cudatrace("diff", "--json", GOLDEN[0], p) for p in (path, folder / "t.jsonl")]
    assert against[0].out == against[1].out and against[0].status == against[1].status


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("path", GOLDEN, ids=os.path.basename)
def test_saved(tmp_path, path, way):
    same(tmp_path, path, way)


@pytest.mark.parametrize("way", WAYS)
def test_live(tmp_path, live, way):
    same(tmp_path, live, way)


def test_costs(tmp_path):
    """The order of costs must not depend on the order of members, and no row with equal cost may be lost."""
    with open(GOLDEN[-1], encoding="utf-8") as f:
        lines = f.read().splitlines()
    costs = {"cuInit": 1.5, "cuMemAlloc_v2": 7.25, "cuMemFree_v2": 1.5, "cuLaunchKernel": 3}
    seen = set()
    for order in list(costs), sorted(costs), sorted(costs, reverse=True):
        end = {**json.loads(lines[-1]), "costs": {k: costs[k] for k in order}, "detail_low_saving_ms": 5}
        (tmp_path / "t.jsonl").write_text("\n".join([*lines[:-1], json.dumps(end)]) + "\n", encoding="utf-8")
        seen.add(re.sub(r"t\.jsonl[^\n]*", "", cudatrace("report", "--full", "-q", tmp_path / "t.jsonl").out))
    text = seen.pop()
    assert not seen and re.search(r"cuMemAlloc_v2\n.*cuLaunchKernel\n.*cuInit\n.*cuMemFree_v2\n", text), text
