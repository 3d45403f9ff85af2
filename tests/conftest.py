# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs test suites in parallel: tests/run.sh describes the use, tests/runner/ has the parts."""
import os
import pathlib
import signal
import sys
import tempfile

import pytest

# Background jobs ignore these signals, and each tracer started here would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) == signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(__file__))

from runner import collect, report, schedule  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("cudatrace")
    group.addoption("--suite", action="append", default=[], metavar="PATTERN", help="only suites with these names")
    group.addoption("--long", action="store_true", help="the slow tests, which only make check-all runs")
    group.addoption("--again", action="store_true", help="run at most eight failed suites again, one at a time")
    group.addoption("--until", type=float, default=float(os.environ.get("CHECK_UNTIL") or "inf"), metavar="EPOCH",
                    help="skip suites that would end later, and name them (CHECK_UNTIL)")
    group.addoption("--list", action="store_true", help="only list the suites")
    group.addoption("--jobs", type=int, default=0, help="suites in parallel (default: twice the processors, and without --long two more)")


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    collect.environment(config)
    schedule.configure(config)
    if not config.option.collectonly:
        report.install(config)


def pytest_ignore_collect(collection_path, config):
    return collect.not_wanted(collection_path, config) or None


def pytest_collection_modifyitems(config, items):
    collect.long_ones(config, items)


def pytest_runtestloop(session):
    return schedule.run(session)


@pytest.fixture
def tmp_path():
    """A folder in the suite's own folder, which is removed afterwards."""
    return pathlib.Path(tempfile.mkdtemp(dir=os.environ["TMP"]))


@pytest.fixture
def running(tmp_path):
    """Programs that a test starts."""
    from helpers.live import Running  # needs $O in the environment
    r = Running(tmp_path)
    yield r
    r.end()


@pytest.fixture
def private(tmp_path):
    """A folder of its own for a daemon and its programs; skips where tracing is not possible."""
    from helpers.daemon import Private
    p = Private(tmp_path)
    yield p
    p.close()
