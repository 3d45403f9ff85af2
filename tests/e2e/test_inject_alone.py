# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 15
"""LD_PRELOAD=libcudatrace-inject.so without a tracer: a trace is written, and the program is not affected."""
import collections
import contextlib
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, CUDATRACE, FAKE, O, TESTS, Ran, passes, until

LIBRARY = O + "/libcudatrace-inject.so"
SAMPLE = FAKE + "/sample"
CC = os.environ.get("CC", "gcc").split()


def preloaded(path=None, **more):
    env = {"LD_LIBRARY_PATH": FAKE, "LD_PRELOAD": LIBRARY, **more}
    return {**env, "CUDATRACE_OUT": str(path)} if path else env


def has_ended(path):
    try:
        with open(path, "rb") as f:
            return b'"type":"end"' in f.read().splitlines()[-1]
    except (OSError, IndexError):
        return False


def written(path):
    """Waits for the collector's trace, which is complete after the program has ended."""
    until(lambda: has_ended(path))
    return Trace(path)


def counts(out):
    """The counts that the sample prints with --counts."""
    made = collections.Counter()
    for symbol, n in re.findall(r"^(cu\w+) +(\d+)$", out, re.M):
        made[symbol] += int(n)
    return made


def agrees(t, out):
    """Checks that all calls that the program counted are there; the driver also calls itself."""
    made, seen = counts(out), collections.Counter(c["symbol"] for c in t.calls if "parent" not in c)
    assert t.accounts() and {s: made[s] for s in seen} == dict(seen)


@pytest.mark.parametrize("what", ["closed", "full", "limit", "file"])
def test_stderr_that_is_not_read(tmp_path, what):
    """The library's own line must neither end the program by a signal nor wait for a reader."""
    r, w = os.pipe()
    if what == "closed":
        os.close(r)
    os.set_blocking(w, False)
    with contextlib.suppress(BlockingIOError):
        while what == "full":
            os.write(w, b"x" * 4096)
    os.set_blocking(w, True)
    file = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT)
    env = {**os.environ, **preloaded("/nonexistent/trace")}
    with subprocess.Popen(["prlimit", *(["--fsize=0"] if what == "limit" else []), FAKE + "/sample", "--quiet"], env=env, stdout=subprocess.DEVNULL,
                          stderr=file if what in ("limit", "file") else w) as p:
        try:
            assert p.wait(10) == 0
        finally:
            p.kill()
    assert ((tmp_path / "err").read_text(encoding="utf-8").count("cudatrace: ") == 1) == (what == "file")


DATA = """
import ctypes, os, sys
how, path = sys.argv[1:]
if how == "replaced":
    os.close(2)
fd = os.open(path, os.O_RDWR | os.O_CREAT)
assert fd == 2 or how == "stderr"
os.write(fd, b"data")
ctypes.CDLL("libcuda.so.1").cuInit(0)
os.write(fd, b"more")
"""


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "CUDA_INJECTION64_PATH"])
@pytest.mark.parametrize("how", ["closed", "replaced", "stderr"])
def test_data_file_as_stderr(tmp_path, how, variable):
    """The library must write only to the stderr with which the program was started, not to a data file that has descriptor 2."""
    path, env = tmp_path / "data", preloaded("/nonexistent/trace")
    env[variable] = env.pop("LD_PRELOAD")
    ran = Ran(["sh", "-c", f"{'exec 2<&-;' if how == 'closed' else ''} exec \"$@\"", "sh", "env", *(f"{k}={v}" for k, v in env.items()),
               sys.executable, "-c", DATA, how, path])
    assert ran.status == 0 and path.read_text() == "datamore"
    assert ran.err.count("cudatrace: ") == (how == "stderr"), ran


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    """A program under a filter, and a program that prints its open descriptors."""
    folder = tmp_path_factory.mktemp("filtered")
    built = folder / "filtered", folder / "open_fds"
    for sources, out in zip((["filtered", "late_filters"], ["open_fds"]), built):
        ran = Ran([*CC, "-D_GNU_SOURCE", "-o", out, *(f"{TESTS}/inject/{s}.c" for s in sources), "-lseccomp", "-ldl"])
        if ran.status:
            pytest.skip("needs libseccomp's headers")
    return built


def processes_of(variable):
    """The processes that have this in their environment."""
    found = []
    for name in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(name, "rb") as f:
            if variable.encode() in f.read().split(b"\0"):
                found.append(name)
    return found


@pytest.mark.parametrize("action,names", [
    ("errno", "exit exit_group clone3 clone fcntl poll kill dup3 close_range timer_create timer_settime rt_sigprocmask wait4 prctl"),
    ("zero", "exit exit_group clone3 clone fcntl poll kill dup3 close_range timer_create timer_settime socket memfd_create pidfd_open mremap listen"),
    ("notify", "gettid setsid process_vm_readv"),
])
def test_filter_of_the_collector(tmp_path, filtered, action, names):
    """Whatever a filter refuses, answers with 0 without doing it, or passes to a process that does not answer, the program must be as untraced, and the collector must end with it."""
    program, untraced = [filtered[0], action], {}
    for name in names.split():
        path = f"CUDATRACE_OUT={tmp_path}/{name}"
        untraced[path] = Ran([*program, name, filtered[1]], env={"LD_LIBRARY_PATH": FAKE})
        ran = Ran([*program, name, "env", f"LD_PRELOAD={LIBRARY}", path, filtered[1]], timeout=30, env={"LD_LIBRARY_PATH": FAKE})
        assert (ran.status, ran.out) == (untraced[path].status, untraced[path].out) and ran.status == 0, (name, ran)
        assert not ran.err or re.fullmatch("cudatrace: not traced: cudatrace did not start; the process has a system call filter .*\n"
                                           "|cudatrace: not traced in the process, which has a seccomp filter of its own; .*\n", ran.err), (name, ran)
    until(lambda: not any(processes_of(path) for path in untraced), 30)


def test_sample(tmp_path):
    path, program = tmp_path / "trace", (SAMPLE, "--counts", "--quiet")
    without = Ran(program, env={"LD_LIBRARY_PATH": FAKE})
    ran = Ran(program, env=preloaded(path))
    assert (ran.status, ran.out, ran.err) == (0, without.out, "") and without.status == 0
    t = written(path)
    agrees(t, ran.out)
    # The defaults for a trace
    assert (t.end["calls"], t.end["reason"]) == (2504, "traced processes exited")
    passes("golden/schema_check.py", path)
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    for what in ("cuMemAlloc", "cuLaunchKernel"):
        # like grep
        assert sum(what in line for line in lines) == sum(n for s, n in t.sym.items() if what in s) > 70


def test_default_file():
    """The default file is /tmp/cuda-trace.jsonl. The test uses a private /tmp, because other programs may write that file."""
    if os.geteuid() or Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs a mount namespace")
    # All needed files are copied, because the real /tmp is hidden.
    script = f"""exec 6<{CUDATRACE} 7<{LIBRARY} 8<{SAMPLE} 9<{FAKE}/libcuda.so.1
        mount -t tmpfs none /tmp && cd / || exit 9
        for f in 6:cudatrace 7:inject.so 8:sample 9:libcuda.so.1; do cp "/proc/self/fd/${{f%%:*}}" "/tmp/${{f#*:}}"; done
        chmod 755 /tmp/*
        exec 6<&- 7<&- 8<&- 9<&-
        (export LD_PRELOAD=/tmp/inject.so; exec /tmp/sample --tokens 1 --quiet >/dev/null) || exit 8
        for i in $(seq 1500); do tail -1 /tmp/cuda-trace.jsonl | grep -q '"type":"end"' && break; sleep 0.04; done
        cat /tmp/cuda-trace.jsonl"""
    ran = Ran(["unshare", "-m", "sh", "-c", script], env={"LD_LIBRARY_PATH": "/tmp"})
    assert ran.status == 0, ran
    lines = ran.out.splitlines()
    assert '"type":"header"' in lines[0] and '"type":"end"' in lines[-1]
    assert sum('"symbol":"cuLaunchKernel' in line for line in lines) > 50


@pytest.mark.parametrize("how", ["{0} && {0}", "{0} & {0}; wait", "({0}); {0}", "unset LD_LIBRARY_PATH; LD_LIBRARY_PATH=$D {0}; LD_LIBRARY_PATH=$D exec {0}"])
def test_a_shell_with_two_programs(tmp_path, how):
    path = tmp_path / "trace"
    ran = Ran(["sh", "-c", how.format(f"{SAMPLE} --tokens 2 --quiet --counts")], env=preloaded(path, D=FAKE))
    assert ran.status == 0 and ran.err == "", ran
    t = written(path)
    assert t.end["reason"] == "traced processes exited"
    assert len({c["pid"] for c in t.calls}) == 2 and t.end["drops"]["processes"] == 0
    agrees(t, ran.out)


def test_a_relative_name(tmp_path):
    """A relative name must refer to the program's start folder, not to its folder at the first CUDA call."""
    ran = Ran(["sh", "-c", f"cd /; {SAMPLE} --tokens 2 --quiet --counts"], env=preloaded("trace"), cwd=tmp_path)
    assert (ran.status, ran.err) == (0, ""), ran
    agrees(written(tmp_path / "trace"), ran.out)


@pytest.mark.parametrize("how", ["(sleep 0.2; exec {0}) &", "setsid -f {0}", "(sleep 0.2; {0} & {0}; wait) &"])
def test_the_first_process_is_gone(tmp_path, how):
    """Like a daemon's start: the process that first loaded the library ends and is reaped before CUDA is called. The calls must be
    traced."""
    # The collector polls five times a second; four tries hit different moments.
    for i in range(4):
        path = tmp_path / str(i)
        env = preloaded(path, L=LIBRARY)
        del env["LD_PRELOAD"]
        ran = Ran(["sh", "-c", 'LD_PRELOAD=$L sh -c "$1"; :', "sh", how.format(f"{SAMPLE} --tokens 2 --quiet --counts")], env=env)
        assert ran.status == 0 and ran.err == "", ran
        t = written(path)
        agrees(t, ran.out)
        assert len({c["pid"] for c in t.calls}) == how.count("{0}")


@pytest.mark.parametrize("name", ["fork", "exec", "threads", "launch", "longjmp", "exit_in_call"])
def test_case(tmp_path, name):
    path = tmp_path / "trace"
    ran = Ran([f"{CASES}/{name}"], env=preloaded(path))
    assert ran.status == 0 and ran.err == "", ran
    (tmp_path / "expected").write_text(ran.out, encoding="utf-8")
    assert written(path).accounts()
    passes("cases/expect.py", path, tmp_path / "expected")


@pytest.fixture(scope="module")
def alone():
    path = os.environ["TMP"] + "/alone"
    subprocess.run([*CC, "-O1", "-w", "-o", path, TESTS + "/inject/alone.c", "-ldl"], check=True)
    return path


def parents(pid):
    """Parent, process group, session."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return tuple(map(int, f.read().rsplit(")", 1)[1].split()[1:4]))


class Waiting:
    """The program alone, stopped in the middle: its output before and after, and its collector."""

    def __init__(self, alone, env):
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("LD_")}, **env}
        self.p = subprocess.Popen([alone, FAKE + "/libcuda.so.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.said = ""
        while not self.said.endswith("waiting\n"):
            line = self.p.stdout.readline()
            assert line, self.said
            self.said += line

    def collector(self):
        """The collector's process id; the collector has child processes."""
        found = {}
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as f:
                    if f"--collect={self.p.pid}:".encode() in f.read():
                        pid = int(path.split("/")[2])
                        found[pid] = parents(pid)[0]
            except OSError:
                pass
        first, = (pid for pid, parent in found.items() if parent not in found)
        return first

    def finish(self):
        """Returns status, output and errors, when all holders of the pipe's other end have gone."""
        out, err = self.p.communicate("\n", timeout=120)
        return self.p.returncode, self.said + out, err


def test_notices_nothing(alone, tmp_path):
    status, out, err = Waiting(alone, {}).finish()
    assert (status, err) == (0, "") and "waitpid -1 No child processes\nSIGCHLD 0\n" in out and "descriptor 2\n" in out
    w = Waiting(alone, preloaded(tmp_path / "trace"))
    assert w.collector()
    assert w.finish() == (0, out, "")
    t = written(tmp_path / "trace")
    assert t.accounts() and t.sym == {"cuInit": 1}


def test_collector_has_nothing_of_the_program(alone, tmp_path):
    """The program's pipes must close when it ends, even if the collector is stopped; no signal of its terminal reaches the collector."""
    w = Waiting(alone, preloaded(tmp_path / "trace"))
    pid = w.collector()
    parent, group, session = parents(pid)
    assert parent != w.p.pid and group != os.getpgid(w.p.pid) and session != os.getsid(w.p.pid)
    theirs = {os.readlink(f"/proc/{w.p.pid}/fd/{n}") for n in (0, 1, 2)}
    assert not theirs & {os.readlink(fd) for fd in glob.glob(f"/proc/{pid}/fd/*") if os.path.lexists(fd)}
    with open(f"/proc/{pid}/environ", "rb") as f:
        assert b"LD_PRELOAD=" not in f.read()
    os.kill(pid, signal.SIGSTOP)
    try:
        status, _, err = w.finish()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (status, err) == (0, "")
    assert written(tmp_path / "trace").accounts()


def test_collector_is_killed(alone, tmp_path):
    status, out, _ = Waiting(alone, {}).finish()
    w = Waiting(alone, preloaded(tmp_path / "trace"))
    pid = w.collector()
    os.kill(pid, signal.SIGKILL)
    assert w.finish() == (status, out, "")


def test_without_cudatrace(alone, tmp_path):
    """Without a cudatrace that can collect, the first process that uses CUDA must report that, once."""
    if os.path.exists("/usr/bin/cudatrace") or os.path.exists("/usr/local/bin/cudatrace"):
        pytest.skip("cudatrace is installed")
    (tmp_path / "lib").mkdir()
    library = shutil.copy(LIBRARY, tmp_path / "lib")
    status, out, err = Waiting(alone, {}).finish()
    env = preloaded(tmp_path / "trace", LD_PRELOAD=library)
    line = r"cudatrace: not traced: cudatrace is not in the directory of the library, .*: install it there, or run .*\n"
    traced = Waiting(alone, env).finish()
    assert traced[:2] == (status, out) and re.fullmatch(re.escape(err) + line, traced[2])
    two = Ran(["sh", "-c", f"{SAMPLE} --tokens 1 --quiet && {SAMPLE} --tokens 1 --quiet; exit $?"], env=env)
    assert two.status == 0 and re.fullmatch(line, two.err), two
    assert Ran(["sh", "-c", "true"], env=env).err == ""
    assert not os.path.exists(tmp_path / "trace")


@pytest.mark.parametrize("kind", ["no folder", "a folder"])
def test_a_file_that_cannot_be_written(alone, tmp_path, kind):
    """The program runs as untraced, and one line reports why there is no trace."""
    path = tmp_path / "trace"
    if kind == "a folder":
        path.mkdir()
    status, out, err = Waiting(alone, {}).finish()
    traced = Waiting(alone, preloaded("/nowhere/trace" if kind == "no folder" else path)).finish()
    assert traced[:2] == (status, out) and re.fullmatch(re.escape(err) + "cudatrace: not traced: .* CUDATRACE_OUT to a file that you may create .*\n", traced[2]), traced


def test_fifo_without_a_reader(alone, tmp_path):
    """The program continues without a reader of its trace, and a signal ends the collector, which waits for it."""
    status, out, _ = Waiting(alone, {}).finish()
    os.mkfifo(tmp_path / "fifo")
    w = Waiting(alone, preloaded(tmp_path / "fifo"))
    pid = w.collector()
    os.kill(pid, signal.SIGTERM)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    assert w.finish()[:2] == (status, out)


def test_collector_ends_at_once(tmp_path):
    """The program must not wait for a collector that has ended."""
    shutil.copy(LIBRARY, tmp_path / "inject.so")
    shutil.copy(shutil.which("false"), tmp_path / "cudatrace")
    took = []
    for _ in range(5):
        begun = time.monotonic()
        ran = Ran([CASES + "/launch"], env={"LD_LIBRARY_PATH": FAKE, "LD_PRELOAD": str(tmp_path / "inject.so")})
        took.append(time.monotonic() - begun)
        assert ran.status == 0 and "cudatrace did not start" in ran.err, ran
    assert min(took) < 1.5


def test_slurm(tmp_path):
    """examples/slurm without Slurm: the prolog's variables make each task record, and the epilog makes one report; other jobs have neither."""
    scripts, bin_ = tmp_path / "scripts", tmp_path / "bin"
    scripts.mkdir()
    bin_.mkdir()
    for name in ("task_prolog", "epilog"):
        text = pathlib.Path(TESTS, f"../examples/slurm/{name}.sh").read_text(encoding="utf-8")
        assert text.count("/usr/local") == 1
        (scripts / name).write_text(re.sub("/usr/local/(bin|lib/cudatrace)", O, text), encoding="utf-8")
    for name, says in {"scontrol": "echo node1; echo node2", "setpriv": 'shift 5; exec "$@"'}.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
        (bin_ / name).chmod(0o755)
    env = {"PATH": f"{bin_}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURMD_NODENAME": "node1", "SLURM_NODELIST": "node[1-2]",
           "SLURM_JOB_WORK_DIR": str(tmp_path), "SLURM_JOB_UID": "0", "SLURM_JOB_GID": "0", "LD_LIBRARY_PATH": FAKE}

    def task(rank, **more):
        task_env = {**env, "SLURM_PROCID": str(rank), **more}
        said = Ran(["sh", scripts / "task_prolog"], cwd=tmp_path, env=task_env)
        assert said.status == 0 and not said.err
        exported = dict(line.removeprefix("export ").split("=", 1) for line in said.out.splitlines())
        assert Ran([f"{CASES}/graph"], cwd=tmp_path, env={**task_env, **exported}).status == 0
        return exported

    assert not task(0) and Ran(["sh", scripts / "epilog"], env=env).status == 0
    assert {x.name for x in tmp_path.iterdir()} == {"scripts", "bin"}
    for rank in range(2):
        assert set(task(rank, CUDATRACE_JOB="1")) == {"LD_PRELOAD", "CUDATRACE_OUT"}
    assert Ran(["sh", scripts / "epilog"], env={**env, "SLURMD_NODENAME": "node2"}).status == 0 and not (tmp_path / "slurm-7.cudatrace.md").exists()
    ran = Ran(["sh", scripts / "epilog"], env=env)
    assert ran.status == 0 and not ran.err, ran
    report = (tmp_path / "slurm-7.cudatrace.md").read_text(encoding="utf-8")
    assert report.startswith("Complete: ") and "2 processes" in report
