# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Tests, several suites at a time: tests/run.sh says how to use this, tests/runner/ has the parts."""
import os
import pathlib
import signal
import sys
import tempfile

import pytest

# A job in the background has them ignored, and so would each tracer that is started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))

from runner import collect, report, schedule  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("cudatrace")
    group.addoption("--suite", action="append", default=[], metavar="PATTERN", help="only suites of these names")
    group.addoption("--long", action="store_true", help="what takes long and make check leaves out: make check-all")
    group.addoption("--again", action="store_true", help="suites that fail, four at most, are run once more, by themselves")
    group.addoption("--until", type=float, default=float(os.environ.get("CHECK_UNTIL") or "inf"), metavar="EPOCH",
                    help="suites that would not have ended then are skipped, and named (CHECK_UNTIL)")
    group.addoption("--list", action="store_true", help="only say which suites there are")
    group.addoption("--jobs", type=int, default=0, help="suites at a time (twice the processors and two)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    collect.environment(config)
    schedule.configure(config)
    if not config.option.collectonly:
        report.install(config)


def pytest_collect_file(file_path, parent):
    return collect.suite_of(file_path, parent)


def pytest_ignore_collect(collection_path, config):
    return collect.not_wanted(collection_path, config) or None


def pytest_collection_modifyitems(config, items):
    collect.long_ones(config, items)


def pytest_runtestloop(session):
    return schedule.run(session)


@pytest.fixture
def tmp_path():
    """In the suite's own folder, which is removed after it."""
    return pathlib.Path(tempfile.mkdtemp(dir=os.environ["TMP"]))


@pytest.fixture
def running(tmp_path):
    """What a test starts."""
    from helpers.live import Running  # when the environment has $O
    r = Running(tmp_path)
    yield r
    r.end()
