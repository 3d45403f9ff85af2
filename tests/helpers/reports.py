# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reports, and programs of tests/cases that print what the report on them must contain."""
import glob
import json
import os
import sys

from .run import CASES, FAKE, TESTS, Ran, cudatrace, needs_tracing


def report(path):
    ran = cudatrace("report", "-q", "--format=json", path)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def cases(kind):
    return sorted(os.path.basename(p)[:-2] for p in glob.glob(f"{TESTS}/cases/{kind}_*.c"))


def judge_case(name, folder):
    needs_tracing()
    path, said, got = folder / "trace", folder / "expected", folder / "report"
    ran = cudatrace("-q", "--jsonl", path, "--", f"{CASES}/{name}", env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    said.write_text(ran.out)
    got.write_text(json.dumps(report(path)))
    ran = Ran([sys.executable, TESTS + "/cases/expect_report.py", got, said])
    assert ran.status == 0, ran.out
