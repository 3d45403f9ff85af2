# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""The report's kernels, graphs, streams and findings: for a trace from an H200, and for programs that print the expected
report."""
import collections
import glob
import json
import math
import os
import subprocess

import pytest
from helpers.reports import cases, judge_case, report
from helpers.run import O, TESTS, Ran

GOLDEN = TESTS + "/golden/h200-gpt2-tokens.jsonl"


def test_kernels():
    """Kernel numbers must equal those recomputed from the lines of the trace; also tests the findings."""
    got, rows = report(GOLDEN), collections.defaultdict(collections.Counter)
    with open(GOLDEN, encoding="utf-8") as f:
        for e in map(json.loads, f):
            if e.get("type") != "kernel" or e.get("op") != "launch" or e["result"] or e.get("capturing"):
                continue
            row, ns = rows[e.get("kernel")], round(e["duration_us"] * 1000)
            row["count"] += 1
            row["total_ns"] += ns
            row["max_ns"] = max(row["max_ns"], ns)
            row["blocks"] += math.prod(e["grid"])
            row["threads"] += math.prod(e["grid"]) * math.prod(e["block"])
    kernels = got["kernels"]
    assert rows and {k["name"]: {n: k[n] for n in rows[k["name"]]} for k in kernels["list"]} == rows
    for key in ("total_ns", "blocks", "threads"):
        assert kernels[key] == sum(r[key] for r in rows.values()), key
    assert kernels["launches"] == sum(r["count"] for r in rows.values())
    assert len([f for f in got["findings"] if f["id"] == "launch-bound"]) == 1


def test_occupancy(tmp_path):
    """Occupancy must equal that of NVIDIA's calculator."""
    found = glob.glob("/usr/local/cuda*/include/cuda_occupancy.h") + glob.glob("/usr/include/cuda_occupancy.h")
    if not found:
        pytest.skip("cuda_occupancy.h is not here")
    subprocess.run([*os.environ.get("CXX", "g++").split(), "-w", "-fpermissive", "-Isrc", "-I" + os.path.dirname(found[0]), "-o", tmp_path / "occupancy",
                    TESTS + "/occupancy.cc", O + "/libct.a"], check=True)
    ran = Ran([tmp_path / "occupancy"])
    assert ran.status == 0, ran


@pytest.mark.parametrize("name", cases("work"))
def test_case(tmp_path, name):
    judge_case(name, tmp_path)
