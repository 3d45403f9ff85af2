# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""The report's numbers for a recorded trace of GPT-2 (an H200; cut to 5 warm-up tokens and two rounds of 10, 18 launches each) must
equal those that tests/golden/report_check.py computes. That script must find errors."""
import json
import re

import pytest
from helpers.outputs import schema
from helpers.reports import report
from helpers.run import TESTS, cudatrace, passes, script

GOLDEN = TESTS + "/golden/h200-gpt2-tokens.jsonl"


def test_numbers(tmp_path):
    schema(GOLDEN)
    (tmp_path / "report.json").write_text(json.dumps(report(GOLDEN)))
    passes("golden/report_check.py", GOLDEN, tmp_path / "report.json")


# The path of a number, and what is added to it, or what it is multiplied by.
WRONG = {
    "an iteration too few": ("iterations.count", -1), "another round": ("iterations.rounds.1.count", -1),
    "a launch too many": ("iterations.list.7.kernels", 1), "a nanosecond too few": ("iterations.list.7.time_ns", -1),
    "time in no stage": ("stages.list.1.wall_ns", -1), "a call in no stage": ("stages.list.1.calls", -1),
    "a call too many in load": ("stages.load.calls", 1), "idle time": ("idle.total_ns", 1),
    "a percentile": ("overview.functions.3.p95_ns", 0.1), "a wait": ("waits.count", 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_found(tmp_path, name):
    """After this change of the report, the script must fail."""
    d = place = report(GOLDEN)
    path, change = WRONG[name]
    *path, last = (int(x) if x.isdigit() else x for x in path.split("."))
    for key in path:
        place = place[key]
    place[last] += change * place[last] if isinstance(change, float) else change
    (tmp_path / "bad.json").write_text(json.dumps(d))
    status, said = script(TESTS + "/golden/report_check.py", GOLDEN, tmp_path / "bad.json")
    assert status and said


def test_text():
    text = cudatrace("report", "--full", "--width", 80, GOLDEN).out
    for line in ("^Iterations: 25 in 3 rounds; the numbers below exclude 5 of warm-up", "^ *18  *18  *18  *18  *18  *18  kernel launches$",
                 "^Stages: 10.6 s",
                 "18 kernel launches per iteration"):
        assert re.search(line, text, re.M), line
    assert not [line for line in text.splitlines() if len(line) > 80]
