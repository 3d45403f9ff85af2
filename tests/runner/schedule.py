# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Schedules suites in parallel and collects their results: those without tracers first, then the longest first, those that must run alone last.

Each suite is run by a process of its own (contain.py), prints into $O/check/NAME.log, and has an empty folder $TMP. A
module's tests report to $O/check/NAME.reports instead of printing `ok`.
"""
import collections
import fcntl
import json
import os
import signal
import sys
import tempfile
import time

import pytest
from _pytest.runner import runtestprotocol

from . import collect, contain

LOOK_S = 0.1
# If more suites fail, the failures are not random.
AGAIN_MAX = 8


class Interrupted(KeyboardInterrupt):
    def __init__(self, signum):
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


def configure(config):
    def interrupted(signum, _frame):
        raise Interrupted(signum)
    for sig in contain.ENDS:
        signal.signal(sig, interrupted)
    # The slow tests compute; most others wait.
    jobs = 2 * (os.cpu_count() or 1) + (0 if config.option.long else 2)
    config.stash[JOBS] = config.option.jobs or int(os.environ.get("CHECK_JOBS") or jobs)


JOBS = pytest.StashKey()


class Job:
    """A suite: its needs, its items, and, once started, its process and its output so far."""

    def __init__(self, items, long):
        self.items, self.long = items, long
        self.needs = collect.Needs(items[0].path, long)
        self.name = self.needs.name
        self.pid, self.log = None, ""
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failed = collections.Counter()  # seconds of each failed test, by its id
        self.seconds = self.cpu = 0
        self.ended = {}

    def begin(self, logs, config):
        self.log = os.path.join(logs, self.name + ".log")
        self.reports = os.path.join(logs, self.name + ".reports")
        self.folder = tempfile.mkdtemp(prefix="cudatrace-")
        self.source = open(self.reports, "w+b")
        os.set_inheritable(self.source.fileno(), True)
        log = open(self.log, "wb")
        self.rest, self.begun = b"", time.monotonic()
        self.pid = contain.start(lambda: self.body(log.fileno(), config), self.needs.timeout, self.folder, self.tell)
        log.close()

    def body(self, log, config):
        """In the suite's own process."""
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ["TMP"] = self.folder
        if self.needs.own:
            contain.own_processes()
        with open(self.reports, "ab") as out:
            for i, item in enumerate(self.items):
                after = self.items[i + 1] if i + 1 < len(self.items) else None
                for report in runtestprotocol(item, nextitem=after, log=False):
                    data = config.hook.pytest_report_to_serializable(config=config, report=report)
                    out.write(json.dumps(data, default=str).encode() + b"\n")
                    out.flush()
                    print(f"{report.outcome:8}{report.nodeid}" if report.when == "call" else "", flush=True, end="\n" if report.when == "call" else "")
                sys.stdout.flush()
        os._exit(0)

    def to_repeat(self):
        """The failed tests; all tests, if the suite failed as a whole."""
        items = [item for item in self.items if item.nodeid in self.failed]
        return items if len(items) == len(self.failed) else self.items

    def again_s(self):
        """Expected seconds of a repetition. Fixtures of a whole module may begin again."""
        return self.seconds if len(self.to_repeat()) == len(self.items) else min(self.seconds, self.needs.takes / 4 + sum(self.failed.values()))

    def again(self):
        """What failed, to run alone; the output of this one stays in NAME.1.log."""
        log, self.log = self.log, self.log[:-len("log")] + "1.log"
        os.replace(log, self.log)
        job = Job(self.to_repeat(), self.long)
        job.needs.alone = True
        job.seconds = self.again_s()
        return job

    def tell(self, result):
        with open(self.log + ".end", "w", encoding="utf-8") as f:
            json.dump(vars(result), f)

    def results(self, config):
        """Reports from the output since the last call."""
        self.rest += self.source.read()
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            yield config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))

    def report(self, name, outcome, why):
        nodeid, path = f"{self.items[0].nodeid.split('::')[0]}::{name}", str(self.needs.path)
        return pytest.TestReport(nodeid, (path, 0, name), {}, outcome, (path, 0, why) if outcome == "skipped" else why, "call")

    def finish(self, config):
        """Its last reports, including failures of the suite as a whole."""
        yield from self.results(config)
        self.source.close()
        self.seconds = time.monotonic() - self.begun
        try:
            with open(self.log + ".end", encoding="utf-8") as f:
                self.ended = json.load(f)
            os.unlink(self.log + ".end")
        except (OSError, ValueError):
            self.ended = {"why": "its supervisor ended", "status": None, "left": []}
        self.cpu = self.ended.get("cpu", 0)
        status = self.ended["status"]
        why = None
        if self.ended["why"] == "timeout":
            why = f"not finished in its {self.needs.timeout} seconds"
        elif self.ended["why"]:
            why = self.ended["why"]
        elif status and not self.counts["failed"]:
            why = f"exit status {status}"
        elif not sum(self.counts.values()):
            why = "no result"
        elif self.ended["left"]:
            why = "left running: " + " ".join(self.ended["left"])
        if why:
            yield self.report("the suite", "failed", why)


class Clock:
    """The time left, and how much slower this machine is than a quiet one."""

    def __init__(self, until):
        self.end = time.monotonic() + until - time.time()
        self.took = self.takes = 0

    def ended(self, job):
        self.took += job.seconds
        self.takes += job.needs.takes

    def lacks(self, job):
        """Seconds missing for a job that starts now; negative if there is enough time."""
        pace = max(1, self.took / self.takes) if self.takes else 1
        return time.monotonic() + job.needs.takes * pace - self.end


def fits(job, running, slots):
    if job.needs.alone:
        return not running
    if any(r.needs.alone or r.needs.uses & job.needs.uses for r in running):
        return False
    if any(r.needs.no_tracers and job.needs.traces or r.needs.traces and job.needs.no_tracers for r in running):
        return False
    # A suite that needs more processors than exist runs too.
    return not running or sum(r.needs.cpus for r in running) + job.needs.cpus <= slots


def run(session):
    config = session.config
    if session.testsfailed and not config.option.continue_on_collection_errors:
        raise session.Interrupted(f"{session.testsfailed} errors while reading the tests")
    if config.option.collectonly:
        return True
    by_path = {}
    for item in session.items:
        by_path.setdefault(item.path, []).append(item)
    if config.option.list:
        print("\n".join(collect.name_of(str(path)) for path in by_path))
        return True
    long, clock = config.option.long, Clock(config.option.until)
    waiting = sorted((Job(items, long) for items in by_path.values()), key=lambda j: (j.needs.alone, not j.needs.no_tracers, -j.needs.takes))
    # Logs are named after suites, so names must be unique.
    if len({job.name for job in waiting}) < len(waiting):
        raise session.Interrupted("two suites have the same name")
    failed, may_again = [], config.option.again and len(waiting) > 1
    logs = os.path.join(os.environ["O"], "check")
    os.makedirs(logs, exist_ok=True)
    alone = open(os.path.join(logs, "lock"), "w", encoding="utf-8")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = f"another tests/run.sh or make check writes to {logs}: wait for its end, or give another build folder (O=...)"
        print(f"tests/run.sh: {why}", file=sys.stderr)
        raise session.Interrupted(why) from None
    running, show = [], config.pluginmanager.get_plugin("progress")
    show.begin(len(waiting))

    def result(job, report):
        if report.when == "call" or report.outcome != "passed":
            job.counts[report.outcome] += 1
            show.result(job, report)
        if report.outcome == "failed":
            job.failed[report.nodeid] += report.duration
        config.hook.pytest_runtest_logreport(report=report)

    try:
        while waiting or running:
            for job in list(waiting):
                if not job.seconds and clock.lacks(job) > 0:
                    waiting.remove(job)
                    result(job, job.report("the suite", "skipped", f"{clock.lacks(job):.0f} s more than are left of the time for all"))
                elif len(running) < config.stash[JOBS] and fits(job, running, config.stash[JOBS]):
                    waiting.remove(job)
                    job.begin(logs, config)
                    running.append(job)
                    show.began(job)
            time.sleep(LOOK_S)
            for job in list(running):
                over = os.waitpid(job.pid, os.WNOHANG)[0]
                for report in job.finish(config) if over else job.results(config):
                    result(job, report)
                if over:
                    running.remove(job)
                    clock.ended(job)
                    show.finished(job)
                    if job.counts["failed"]:
                        failed.append(job)
            if may_again and not waiting and not running:
                may_again = False
                if len(failed) <= AGAIN_MAX:
                    failed = [job for job in failed if job.ended["why"] != "timeout"]
                    while failed and time.monotonic() + sum(job.again_s() for job in failed) > clock.end:
                        failed.pop()
                    session.testsfailed -= sum(job.counts["failed"] for job in failed)
                    show.again(failed)
                    waiting = [job.again() for job in failed]
            show.progress(running, waiting)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
    except Interrupted as e:
        show.interrupted(e)
        raise
    finally:
        stop(running)
    return True


def stop(running):
    """Ends the supervisors that still run, which clean up."""
    contain.send([j.pid for j in running], signal.SIGTERM)
    end = time.monotonic() + contain.CLEAN_UP_S + contain.ASKED_S + 15
    for job in running:
        while time.monotonic() < end:
            try:
                if os.waitpid(job.pid, os.WNOHANG)[0]:
                    break
                time.sleep(0.05)
            except Interrupted:
                end = 0
        else:
            contain.send(list(contain.descendants(job.pid)) + [job.pid], signal.SIGKILL)
