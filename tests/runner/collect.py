# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Collects suites, which are modules test_NAME.py, reads their heads, and selects which of them to run."""
import fnmatch
import functools
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOP = os.path.dirname(TESTS)


def environment(config):
    """Sets the environment of all suites, except $TMP."""
    os.chdir(TOP)
    out = os.path.abspath(os.environ.get("O") or os.path.join(TOP, "build"))
    os.environ.update(O=out, CUDATRACE=out + "/cudatrace", LC_ALL="C.UTF-8", PYTHONPYCACHEPREFIX=out + "/check/pycache")
    # A system call that the sandbox does not allow kills the tracer, so that a test notices.
    os.environ["CUDATRACE_SANDBOX"] = "kill"
    os.environ["LONG"] = "1" if config.option.long else "0"
    # All use this python3, which has the distribution's modules, by its real path: wrappers (such as pyenv's)
    # take longer to start than most scripts take to run.
    own = out + "/check/bin"
    os.makedirs(own, exist_ok=True)
    if not os.path.exists(own + "/python3") or os.path.realpath(own + "/python3") != os.path.realpath(sys.executable):
        link = f"{own}/python3.{os.getpid()}"
        os.symlink(sys.executable, link)
        os.replace(link, own + "/python3")
    os.environ["PATH"] = own + ":" + os.environ.get("PATH", os.defpath)
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        os.environ.pop(name, None)


def name_of(path):
    name = re.sub(r"\.[^.]*$", "", os.path.basename(path))
    return name[len("test_"):] if name.startswith("test_") else name


class Needs:
    """The needs in the head of a suite, in comments that stand alone on their lines:

    timeout: SECONDS   time limit (600)
    takes: SECONDS     duration on a quiet machine: the longest start first. A second number is the duration in
                       make check-all
    cpus: N            number of processors that it keeps busy (1)
    own processes      runs in its own PID namespace (and mount namespace), if possible. For daemons, which probe all
                       programs of the machine that they find
    alone              nothing else may run: it counts things on the machine, or measures times
    no tracers         only suites may run at the same time that have the next line:
    traces nothing     it starts no tracer that could affect another suite
    uses: NAME...      not together with other suites that use the same, such as names of cgroups
    long               only make check-all runs it, or tests/run.sh with its name; of other suites it runs the tests that are
                       marked long
    """

    def __init__(self, path, long=False):
        with open(path, encoding="utf-8", errors="replace") as f:
            head = f.read(4000)
        self.path, self.name = str(path), name_of(str(path))

        def value(key, default):
            m = re.search(rf"^# {key}: (\S.*)$", head, re.M)
            return m[1] if m else default

        self.timeout = int(value("timeout", 600))
        self.takes = int(value("takes", "10").split()[-1 if long else 0])
        self.cpus = int(value("cpus", 1))
        self.uses = set(value("uses", "").split())
        self.own = re.search(r"^# own processes$", head, re.M) is not None
        self.alone = re.search(r"^# alone$", head, re.M) is not None
        self.no_tracers = re.search(r"^# no tracers$", head, re.M) is not None
        self.traces = re.search(r"^# traces nothing$", head, re.M) is None
        self.long = re.search(r"^# long$", head, re.M) is not None


def matches(name, patterns):
    return not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)


def not_wanted(path, config):
    if os.path.isdir(path) or not re.match(r"test_.*\.py$", os.path.basename(path)):
        return False
    option, needs = config.option, Needs(path)
    if option.suite and not matches(needs.name, option.suite):
        return True
    return needs.long and not option.suite and not option.long


@functools.lru_cache(maxsize=None)
def is_long(path):
    return Needs(path).long


def long_ones(config, items):
    """Selects the tests of modules that are marked long, or the others."""
    def wanted(item):
        return is_long(item.path) or bool(item.get_closest_marker("long")) == config.option.long
    config.hook.pytest_deselected(items=[i for i in items if not wanted(i)])
    items[:] = [i for i in items if wanted(i)]
