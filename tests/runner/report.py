# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The output of a run: one progress line on a terminal, else a line for each finished suite. At the end: failures,
how to run just those, skipped tests, and "N passed, N failed, N skipped"."""
import os
import sys
import time
import types

import pytest
from _pytest.terminal import TerminalReporter

from . import collect


class Quiet(TerminalReporter):
    """pytest's own output, except about single tests and the sums."""

    def pytest_sessionstart(self, session):
        self._session, self._sessionstarttime = session, time.time()

    def pytest_runtest_logstart(self, nodeid, location):
        pass

    def pytest_runtest_logreport(self, report):
        pass

    def pytest_runtest_logfinish(self, nodeid):
        pass

    def pytest_collection(self):
        pass

    def pytest_collection_finish(self, session):
        pass

    def report_collect(self, final=False):
        pass

    @pytest.hookimpl(hookwrapper=True)
    def pytest_sessionfinish(self, session, exitstatus):
        yield
        # Modules that cannot be imported: pytest prints why.
        self.summary_errors()
        if session.shouldfail:
            self.write_line(str(session.shouldfail))


class Progress:
    def __init__(self, config):
        self.config, self.begun_at = config, time.monotonic()
        self.sums = {"passed": 0, "failed": 0, "skipped": 0}
        self.failures, self.skips, self.before, self.wide = [], [], [], sys.stdout.isatty()
        self.tty, self.verbose = sys.stdout.isatty(), config.option.verbose > 0
        self.count = self.done = 0
        colour = self.tty and "NO_COLOR" not in os.environ
        self.red, self.bold, self.off = ("\033[31m", "\033[1m", "\033[0m") if colour else ("", "", "")
        self.line = ""

    def say(self, text):
        self.clear()
        print(text, flush=True)

    def clear(self):
        if self.line:
            print("\r\033[K", end="", flush=True)
            self.line = ""

    def begin(self, count):
        self.count = count
        # A single suite prints each result.
        self.verbose = self.verbose or count == 1
        if not count and not self.skips:
            print("tests/run.sh: no suite matches", file=sys.stderr)

    def pytest_collectreport(self, report):
        if report.failed:
            self.sums["failed"] += 1
        elif report.skipped:  # a module, by pytest.importorskip
            self.result(types.SimpleNamespace(name=collect.name_of(report.nodeid)), report)

    def began(self, job):
        if self.verbose:
            self.say(f"{self.bold}# {job.name}{self.off}")

    def result(self, job, report):
        self.sums[report.outcome] += 1
        name = report.nodeid.split("::", 1)[1] if "::" in report.nodeid else "the suite"
        why = ""
        if report.outcome == "failed":
            text = str(report.longreprtext if hasattr(report, "longreprtext") else report.longrepr)
            crash = getattr(getattr(report.longrepr, "reprcrash", None), "message", None)
            why = (crash or text).strip().split("\n")[0][:300]
            self.failures.append((job, name, why, report))
        elif report.outcome == "skipped":
            why = report.longrepr[2] if isinstance(report.longrepr, (tuple, list)) else str(report.longrepr)
            why = why[len("Skipped: "):] if why.startswith("Skipped: ") else why
            self.skips.append((job, name, why))
        if report.outcome == "failed" or self.verbose:
            word = {"passed": "ok", "failed": "not ok", "skipped": "skip"}[report.outcome]
            of = "" if self.verbose and self.count == 1 else f"{job.name}: "
            self.say(f"{word} {of}{name}" + (f" # {why}" if why else ""))

    def finished(self, job):
        self.done += 1
        c = job.counts
        if self.verbose or not self.tty:
            self.say(f"# {job.name}: {c['passed']} passed, {c['failed']} failed, {c['skipped']} skipped"
                     f" in {job.seconds:.0f} s ({job.cpu:.0f} s of processors)")

    def again(self, jobs):
        """What failed in these suites runs again, alone: the first failures are reported as such, and do not count."""
        if jobs:
            self.say("# again, by themselves: " + " ".join(job.name for job in jobs))
        for job in jobs:
            whole = len(job.to_repeat()) == len(job.items)
            for outcome, count in job.counts.items():
                self.sums[outcome] -= count if whole or outcome == "failed" else 0
            self.skips = [s for s in self.skips if s[0] is not job or not whole]
        self.count += len(jobs)
        self.before = [f for f in self.failures if f[0] in jobs]
        self.failures = [f for f in self.failures if f[0] not in jobs]

    def interrupted(self, why):
        self.sums["failed"] += 1
        self.say(f"not ok interrupted: {why}")

    def progress(self, running, waiting):
        if not self.tty:
            return
        at = time.monotonic() - self.begun_at
        line = (f"{at:4.0f} s  {self.done} of {self.count} suites, {self.sums['passed']} passed, "
                f"{self.sums['failed']} failed, {self.sums['skipped']} skipped: " + " ".join(j.name for j in running))
        try:
            line = line[:os.get_terminal_size().columns - 1]
        except OSError:
            pass
        if line != self.line:
            print("\r" + line + "\033[K", end="", flush=True)
            self.line = line

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        self.clear()
        if self.config.option.collectonly or self.config.option.list:
            return
        if self.skips:
            print("\nskipped:")
            for job, name, why in self.skips:
                print(f"  {job.name}: {name}" + (f" # {why}" if why else ""))
        if self.before:
            print("\nfailed beside other suites, and ran again by themselves:")
            for job, name, why, _ in self.before:
                print(f"  {job.name}: {name} # {why}  its output: {os.path.relpath(job.log, collect.TOP)}")
        if self.failures:
            print(f"\n{self.red}failed:{self.off}")
            for job, name, why, report in self.failures:
                print(f"  {job.name}: {name} # {why}")
                for line in str(report.longreprtext).split("\n")[:40]:
                    print("      " + line[:400])
            print("\nto run just that:")
            again = {}
            for job, name, _, _ in self.failures:
                again.setdefault(job.name + " -k " + quoted(name), job.log)
            for how, log in again.items():
                print(f"  tests/run.sh {how:32}  its output: {os.path.relpath(log, collect.TOP)}")
        print(f"{self.sums['passed']} passed, {self.sums['failed']} failed, {self.sums['skipped']} skipped", flush=True)


def quoted(name):
    """For pytest's -k: only the function's name, since parameters may contain anything."""
    return name.split("[")[0]


def install(config):
    old = config.pluginmanager.get_plugin("terminalreporter")
    config.pluginmanager.unregister(old)
    config.pluginmanager.register(Quiet(config, sys.stdout), "terminalreporter")
    config.pluginmanager.register(Progress(config), "progress")
