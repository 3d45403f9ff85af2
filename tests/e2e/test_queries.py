# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
# traces nothing
"""Each block of docs/QUERIES.md must give the same as the report, and as Python, for the recorded traces and a made one."""
import glob
import json
import os
import pathlib
import re
import shutil
import sys

import pytest
from helpers import pypi
from helpers.reports import report
from helpers.run import TESTS, Ran, cudatrace, passes

sys.path.insert(0, TESTS + "/queries")
import check  # noqa: E402 (its folder is none of the path)

PAGE = "docs/QUERIES.md"
CHECK = TESTS + "/queries/check.py"
TRACES = sorted(glob.glob(TESTS + "/golden/*.jsonl"))


@pytest.fixture(scope="module")
def asked():
    """Runs the blocks of a page on a trace: a line for each. The trace without a path is the made one."""
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    top = os.environ["TMP"]
    passes("queries/made.py", TESTS + "/golden/h200-triton.jsonl", top + "/made.jsonl")

    def ask(language, page=PAGE, path=top + "/made.jsonl"):
        out = f"{top}/{os.path.basename(path)}.report"
        if not os.path.exists(out):
            assert cudatrace("-q", "report", "--top", 100000, "--format=json", "-o", out, path).status == 0
        ran = Ran([CHECK, language, page, path, out, top], timeout=300)
        if ran.status == 77:
            pytest.skip("no DuckDB: " + ran.err.strip())
        return ran.out.splitlines()
    return ask


@pytest.mark.parametrize("path", [*TRACES, None], ids=[*(os.path.basename(p) for p in TRACES), "made"])
@pytest.mark.parametrize("language", ["jq", "sql"])
def test_blocks(asked, language, path):
    results = asked(language, path=path) if path else asked(language)
    assert len(results) > 5 and all(line.startswith("ok ") for line in results), results


def edited(page, old, new, block=""):
    """Changes a page with a regular expression, in one block or everywhere."""
    if not block:
        return re.sub(old, new, page, flags=re.S)
    changed = re.sub(rf"^```{block}\n.*?^```$", lambda m: re.sub(old, new, m[0]), page, flags=re.S | re.M)
    assert changed != page, block
    return changed


@pytest.mark.parametrize("old,new,says", [
    (r"\Z", "```sql more\nSELECT 1\n```\n", "sql block 'more': nothing to compare it with"),
    (r"\Z", "```sql\nSELECT 1\n```\n", "sql block without a name"),
    (r"\n```sql idle.*?\n```\n", "\n", "no sql block 'idle'")])
def test_page_is_whole(tmp_path, old, new, says):
    """Blocks that nothing is compared with, that have no name, or that are not there, must be found."""
    passes("queries/check.py", PAGE)
    (tmp_path / "page.md").write_text(edited(pathlib.Path(PAGE).read_text(), old, new))
    ran = Ran([CHECK, tmp_path / "page.md"])
    assert ran.status and says in ran.out.replace("'without", "without").replace("name'", "name"), ran.out


# A change to each block, which must then differ for the made trace, where each block has results.
WRONG = {
    "jq": {"load": (r"start < \$burst", "start <= $burst"), "kernels": (" and launch", ' and .op == "launch"'),
           "iterations": (r"if \$c \| wait", "if $c | sync"),
           "classes": (r"if \$c \| outermost", "if true"), "stages": (r"start > \$last", "start >= $last"), "transfers": (r"\+= 1", "+= 2"),
           "idle": ("top and ", ""),
           "waits": (r"select\(wait\)", "select(sync)"), "callers": (' < "', ' > "'),
           "ioctls": (r" and \.call(.*?)\[\$e\.call\]", r'\1[$e.call // "none"]'), "outside": (r" and \(.call \| not\)", ""),
           "scheduler": (r"\.count \+= 1", ".count += 2")},
    "sql": {"load": ("start < burst", "start <= burst"), "kernels": (" AND launch", " AND op = 'launch'"),
            "iterations": (r"FILTER \(wait\)", "FILTER (sync)"),
            "classes": ("outermost", "true"), "stages": ("start > last", "start >= last"), "transfers": (r"count\(\*\)", "2"),
            "idle": ("top AND ", ""),
            "waits": ("WHERE wait", "WHERE sync"), "callers": (" < ", " > "), "ioctls": (" AND call IS NOT NULL", ""),
            "outside": (" AND call IS NULL", ""),
            "scheduler": (r"count\(\*\)", "2")},
}


@pytest.mark.parametrize("language", WRONG)
def test_wrong_blocks_are_found(asked, tmp_path, language):
    """Every block, changed, must run and must differ."""
    page = pathlib.Path(PAGE).read_text()
    assert set(re.findall(rf"^```{language} (\w+)", page, re.M)) - {"common"} == set(WRONG[language])
    for block, (old, new) in WRONG[language].items():
        page = edited(page, "(?s)" + old, new, f"{language} {block}")
    (tmp_path / "wrong.md").write_text(page)
    found = [line for line in asked(language, tmp_path / "wrong.md") if re.match("not ok .*rows differ$", line)]
    assert len(found) == len(WRONG[language]), found


def test_parquet(tmp_path):
    """The page's files have what the trace and the table have."""
    try:
        packages = pypi.folder(check.DUCKDB)
    except pypi.Missing as e:
        pytest.skip(str(e))
    assert cudatrace("-q", "report", "--format=csv", "-o", tmp_path / "tables", TRACES[-1]).status == 0
    shutil.copy(TRACES[-1], tmp_path / "trace.jsonl")
    page = pathlib.Path(PAGE).read_text()
    sql = "".join(re.search(rf"^```{name}\n(.*?)^```$", page, re.S | re.M)[1] for name in ("sql common", "SQL"))
    ask = """import duckdb, json, sys
db = duckdb.connect()
db.execute(sys.argv[1])
print(json.dumps([db.execute(f"SELECT {what} FROM '{name}.parquet'").fetchall() for name, what in (("trace", "count(*), count(DISTINCT id)"), ("kernels", "sum(count)"))]))"""
    ran = Ran([sys.executable, "-c", ask, sql], cwd=tmp_path, env={"PYTHONPATH": os.path.abspath(packages)})
    events = [json.loads(line) for line in pathlib.Path(TRACES[-1]).read_text().splitlines()]
    kernels = sum(k["count"] for k in report(TRACES[-1])["kernels"]["list"])
    assert json.loads(ran.out or "0") == [[[len(events), len({e["id"] for e in events if "id" in e})]], [[kernels]]], ran


@pytest.mark.parametrize("path", TRACES, ids=os.path.basename)
def test_idle_as_in_the_report(asked, path):
    """For one thread with one stream, the report must have the same idle time."""
    asked("jq", path=path)
    block = re.search(r"^```jq idle\n(.*?)^```$", pathlib.Path(PAGE).read_text(), re.S | re.M)[1]
    rows = Ran(["jq", "-c", "-n", "-L", os.environ["TMP"], 'include "trace"; ' + block, path]).out.splitlines()
    assert sum(int(re.search(r'"ns":(\d+)', row)[1]) for row in rows) == report(path)["idle"]["total_ns"]
