# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 15
"""Unusual but real environments: few open files, a container's seccomp profile, common command-line habits. What is missing must be
named, and the rest works."""
import os
import re
import resource
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing

SAMPLE = [FAKE + "/sample", "--tokens", "1", "--quiet"]
ENV = {"LD_LIBRARY_PATH": FAKE}
NO_BPF = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"]


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


def with_files(limit, *command):
    return Ran([*command], env=ENV, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))


WHAT = {"uprobe": ([], ["--probe=uprobe"]), "both": ([], ["--probe=inject"]), "inside": (NO_BPF, ["--probe=inject"])}


@pytest.mark.parametrize("what", WHAT)
def test_open_files(tmp_path, what):
    """With any hard limit, the trace must be whole, or one line must name the limit."""
    before, options = WHAT[what]
    refused = traced = 0
    for limit in (7, 11, 17, 32, 64, 72, 200, 400):
        path = tmp_path / str(limit)
        ran = with_files(limit, *before, CUDATRACE, "-q", *options, "-e", "launch", "--jsonl", str(path), "--", *SAMPLE)
        if ran.status:
            assert ran.err.count("\n") == 1 and "ulimit" in ran.err and "kernel lacks" not in ran.err, (limit, ran)
            refused += 1
            assert not traced, (limit, ran)
        else:
            assert Trace(path).accounts() and Trace(path).sym["cuLaunchKernel"] > 20, (limit, ran)
            traced += 1
    assert refused >= 2 and traced >= 2, (refused, traced)


def test_limit_is_named(tmp_path):
    """Every command that traces must name the limit and the required number."""
    for args in (["--", "true"], ["-p", str(os.getpid())], ["--duration", "1"], ["top", "--tables", "1"], ["daemon", "--config", "/dev/null"]):
        ran = with_files(33, CUDATRACE, *args, *(["--jsonl", str(tmp_path / "t")] if args[0].startswith("-") and args[0] != "--" else []))
        found = re.search(r"hard limit of open files \(RLIMIT_NOFILE, ulimit -Hn\) is 33, but a trace needs at least (\d+): raise it", ran.err)
        assert ran.status == 1 and found and int(found[1]) > 33, (args, ran)


def test_soft_limit(tmp_path):
    """The soft limit must be raised for the tracer only."""
    ran = Ran([CUDATRACE, "-q", "-e", "launch", "--jsonl", str(tmp_path / "t"), "--", "sh", "-c", 'ulimit -n; "$@" >/dev/null', "sh", *SAMPLE], env=ENV,
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 4096)))
    assert (ran.status, ran.out, ran.err) == (0, "24\n", "") and Trace(tmp_path / "t").accounts()


def test_small_stack(tmp_path):
    """A small soft limit of the stack is raised for the tracer only; a small hard limit is named."""
    def limited(soft, hard, *args):
        return Ran([*NO_BPF, CUDATRACE, "-q", "--jsonl", tmp_path / "t", *args], env=ENV,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (soft << 10, hard << 10)))
    for soft, hard in (64, 8192), (64, 300), (300, 300):
        ran = limited(soft, hard, "-e", "launch", "--", "sh", "-c", 'ulimit -s; ulimit -Hs; ulimit -S -s 300; "$@" >/dev/null', "sh", *SAMPLE)
        assert (ran.status, ran.out, ran.err) == (0, f"{soft}\n{hard}\n", "") and Trace(tmp_path / "t").accounts(), ran
    ran = limited(64, 64, "--", "true")
    assert (ran.status, ran.err) == (1, "cudatrace: the hard limit of the stack is below 256 KiB: raise it (ulimit -Hs)\n"), ran


def refused(calls, error, *args):
    return Ran([sys.executable, f"{TESTS}/helpers/refuses.py", calls, error, CUDATRACE, *map(str, args)], env=ENV)


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS", "EACCES"])
@pytest.mark.parametrize("calls", ["bpf", "bpf,perf_event_open"])
def test_seccomp(tmp_path, calls, error):
    """In a container that forbids uprobes, a command of root must be traced in-process, like a user's."""
    path = tmp_path / "t"
    ran = refused(calls, error, "--no-summary", "-e", "launch", "--jsonl", path, "--", *SAMPLE)
    assert ran.status == 0 and "tracing in-process (--probe=inject): a seccomp filter refuses" in ran.err, ran
    t = Trace(path)
    assert t.accounts() and t.head["mechanism"] == "inject" and t.sym["cuLaunchKernel"] > 20
    # Targets that cannot be traced this way are refused, with the command that works.
    for args in (["-p", os.getpid()], ["--probe=uprobe", "--", *SAMPLE], ["--sched", "--", *SAMPLE], ["--duration", "1"]):
        ran = refused(calls, error, "-q", "--jsonl", tmp_path / "none", *args)
        assert ran.status == 1 and "seccomp" in ran.err and "cudatrace --probe=inject -- COMMAND" in ran.err, (args, ran)


def test_seccomp_of_perf_alone(tmp_path):
    """If only perf is forbidden, tracing must work as usual."""
    ran = refused("perf_event_open", "EPERM", "-q", "-e", "launch", "--jsonl", tmp_path / "t", "--", *SAMPLE)
    assert ran.status == 0 and Trace(tmp_path / "t").sym["cuLaunchKernel"] > 20, ran


TYPED = {
    "quoted": (["python3 cu.py --n 5"], "remove the quotes, or run a shell command: cudatrace -- sh -c 'LINE'"),
    "quoted path": (["./train.sh  2"], "remove the quotes"),
    "quoted, in a folder": (["/bin/ls -l"], "remove the quotes"),
    "a pipe": (["a|b"], "run a shell command"),
    "a variable": (["CUDA_VISIBLE_DEVICES=1", "python3", "cu.py"], "to set a variable: cudatrace -- env NAME=VALUE COMMAND"),
    "an empty one": (["_x=", "true"], "to set a variable: cudatrace -- env NAME=VALUE COMMAND"),
    "a path in one": (["LD_LIBRARY_PATH=/opt/x", "true"], "to set a variable: cudatrace -- env NAME=VALUE COMMAND"),
    "a name": (["no-such-program"], "no such command in PATH"),
    "a path": (["/no/such/program"], "there is no such file: check the path"),
}


@pytest.mark.parametrize("what", TYPED)
def test_typed(what):
    argv, hint = TYPED[what]
    ran = cudatrace("--jsonl", "/dev/null", "--", *argv)
    assert ran.status == 1 and ran.err.count("\n") == 1 and hint in ran.err, ran


def test_names_with_blanks(tmp_path):
    """A program whose name has such characters must run."""
    for name in ("a b", "X=1", "p|q"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 7\n")
        (tmp_path / name).chmod(0o755)
        assert cudatrace("-q", "--jsonl", "/dev/null", "--", name, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).status == 7
        assert cudatrace("-q", "--jsonl", "/dev/null", "--", tmp_path / name).status == 7
        assert subprocess.run([CUDATRACE, "-q", "--jsonl", "/dev/null", "--", "./" + name], cwd=tmp_path, check=False).returncode == 7
