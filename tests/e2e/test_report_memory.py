# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""The report's memory and transfers: for traces from an H200, compared with numbers computed by another program and by hand. Also for
programs that print the expected report."""
import glob
import json
import os

import pytest
from helpers.reports import cases, judge_case, report
from helpers.run import TESTS, passes

SAVED = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
GPT2, TRITON = TESTS + "/golden/h200-gpt2-memory.jsonl", TESTS + "/golden/h200-triton.jsonl"


@pytest.mark.parametrize("path", SAVED, ids=os.path.basename)
def test_numbers(tmp_path, path):
    (tmp_path / "report").write_text(json.dumps(report(path)))
    passes("golden/memory_numbers.py", path, tmp_path / "report")


def test_schema():
    passes("golden/schema_check.py", GPT2)


# Values computed by hand, with jq, from the lines of the trace.

def parts(path):
    r = report(path)
    return r["memory"], {k["kind"]: k for k in r["memory"]["kinds"]}, r["transfers"]


def test_gpt2():
    m, kind, t = parts(GPT2)
    assert (kind["device"]["allocs"], kind["device"]["frees"], m["peak_bytes"], m["peak_ts"], m["leak_count"]) == (29, 0, 664929280, 11461.313655, 30)
    assert (m["leaks"][0]["ptr"], m["leaks"][0]["size"]) == ("0x7fbed4000000", 155189248) and [d["device"] for d in m["devices"]] == [0]
    assert [(d["direction"], d["count"], d["bytes"], d["pageable"], d["pinned"]) for d in t["directions"]] == [
        ("HtoD", 148, 497759232, 148, 0), ("DtoH", 55, 440, 0, 55)]
    assert t["memset"]["count"] == 72 and t["largest"][0]["size"] == 154389504


def test_triton():
    m, kind, t = parts(TRITON)
    assert (kind["device"]["allocs"], m["peak_bytes"], m["leak_bytes"], kind["host"]["peak_bytes"]) == (4, 46137344, 46137345, 1)
    assert [(d["direction"], d["bytes"], d["pinned"]) for d in t["directions"]] == [("DtoH", 1, 1)]
    assert t["memset"]["bytes"] == 4 and m["bad_frees"] == [] and m["fragmentation"]["holes"] == 2


@pytest.mark.parametrize("name", cases("mem"))
def test_case(tmp_path, name):
    judge_case(name, tmp_path)
