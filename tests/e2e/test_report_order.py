# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 45
"""Members of a JSON object have no order: a trace whose lines another program has rewritten (jq -S, Python's sort_keys) must
give the same reports, pictures and comparisons, byte for byte."""
import glob
import json
import os
import re

import pytest
from helpers.reorder import reordered
from helpers.run import FAKE, TESTS, cudatrace, needs_tracing

GOLDEN = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
FORMS = ["ascii", "json", "html", "chrome", "perfetto", "flamegraph", "svg", "ascii --map", "json --map", "html --map", "flamegraph --map", "ascii --serving",
         "json --serving"]


def python_sorted(lines):
    """Blanks behind colons and commas, and numbers as Python has them."""
    return "".join(json.dumps(json.loads(line), sort_keys=True) + "\n" for line in lines)


WAYS = {"sorted": lambda x: reordered(x, "sorted"), "reversed": lambda x: reordered(x, "reversed"), "by chance": lambda x: reordered(x, "39"),
        "Python": python_sorted}


@pytest.fixture(scope="module")
def live():
    """All layers of a trace."""
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
        # A page's nonce is another each time; how large the file is depends on its blanks.
        return re.sub(rb'nonce[-="]+[0-9a-f]{32}|"bytes":\d+,"lines"', b"", f.read())


def same(folder, path, way):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    other = WAYS[way](text.splitlines())
    assert other != text
    for form in FORMS:
        # Reports have the file's name in them.
        (folder / "t.jsonl").write_text(text, encoding="utf-8")
        want = said(form, folder, "t.jsonl")
        (folder / "t.jsonl").write_text(other, encoding="utf-8")
        # The page has texts of the lines in it, packed; Python writes numbers of its own into them.
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
    """What costs most is no matter of which comes first, and of those that cost the same none is lost."""
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
