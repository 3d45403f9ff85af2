# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 90
# traces nothing
"""The unit tests: each program of tests/unit/ under ASan and UBSan; in make check-all as built for use."""
import functools
import glob
import os
import pathlib
import re

import pytest
from helpers.run import O, TESTS, Ran

# A UBSan report is a failure. Leaks are failures, too, if ptrace allows LSan to inspect.
ENV = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:exitcode=99", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
       "CMOCKA_MESSAGE_OUTPUT": "TAP"}
FOLDERS = {"asan, ubsan": O + "/san/unit/", "plain": O + "/unit/"}
TABLE = re.compile(r"struct CMUnitTest \w+\[\] = \{(.*?)\};", re.S)


def names_in(path):
    """The names in the tables of a program's source."""
    return [name for table in TABLE.findall(pathlib.Path(path).read_text()) for name in re.findall(r"\w\(\s*(\w+)", table)]


PROGRAMS = {os.path.basename(path)[:-2]: names_in(path) for path in sorted(glob.glob(TESTS + "/unit/test_*.c"))}


@functools.lru_cache(maxsize=None)
def ran(how, program):
    """The program, and its results by test: ok, not ok, or not ok with SKIP."""
    p = Ran([FOLDERS[how] + program], timeout=180, env=ENV)
    # cmocka's TAP: "ok 1 - name", "not ok 2 - name", "not ok 3 # SKIP name".
    return p, {name: (word, bool(skip)) for word, skip,
               name in re.findall(r"^(ok|not ok) \d+ (?:- |(# SKIP ))(\w+)$", p.out + "\n" + p.err, re.M)}


def each(*columns):
    """A row for each way to build it; that for use is long."""
    return [pytest.param(how, *row, marks=[pytest.mark.long] if how == "plain" else [], id=" ".join((*row, how))) for how in FOLDERS
            for row in columns]


@pytest.mark.parametrize("how,program,test", each(*((program, test) for program, tests in PROGRAMS.items() for test in tests)))
def test_unit(how, program, test):
    p, results = ran(how, program)
    word, skipped = results.get(test, ("no result", False))
    if skipped:
        pytest.skip("it says so")
    assert word == "ok", p.out[-2000:] + p.err[-6000:]


@pytest.mark.parametrize("how,program", each(*((program,) for program in PROGRAMS)))
def test_runs_to_its_end(how, program):
    """Failed tests have a status of their own: other failures, such as leaks, are reported here. The tables must have all tests."""
    p, results = ran(how, program)
    failed = [name for name, (word, skipped) in results.items() if word != "ok" and not skipped]
    assert p.status == 0 or p.status < 99 and failed, p.err[-6000:]
    assert set(results) == set(PROGRAMS[program])
