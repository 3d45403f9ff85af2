# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1800
# takes: 120 1200
"""--probe=inject -p: the library enters programs that run already, and check themselves. No call is missing or recorded twice,
whether tracers end or are killed. Processes that cannot be entered are refused with a reason, and nothing in them is changed."""
import collections
import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CC, CUDATRACE, O, TESTS, cudatrace, needs_tracing, until

KINDS = ["call", "registers", "malloc", "fork", "dlopen", "signal", "small", "wait", "python"]


@pytest.fixture(autouse=True, scope="module")
def root():
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("only programs on x86-64 can be entered")


@pytest.fixture(scope="module")
def built():
    """A folder with the program `late` and its libcuda in `lib`."""
    folder = os.environ["TMP"] + "/late"
    flags = ["-O2", "-Wall", "-D_GNU_SOURCE"]
    lib = ["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id", TESTS + "/inject/late_lib.c", "-o"]
    for name in ("lib", "plain"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    for args in ([*lib, folder + "/lib/libcuda.so.1"], ["-DNO_POINTERS", *lib, folder + "/plain/libcuda.so.1"],
                 ["-o", folder + "/late", TESTS + "/inject/late.c", "-ldl", "-lpthread"],
                 ["-fPIC", "-shared", "-o", folder + "/kill.so", TESTS + "/inject/late_kill.c", "-ldl"]):
        subprocess.run([*CC, *flags, *args], check=True)
    return folder


@contextlib.contextmanager
def program(built, kind, before=(), user=0, **env):
    """Runs it; at the end it must be unharmed. Its attribute `calls` then has the launches of each thread."""
    command = [sys.executable, TESTS + "/inject/late.py"] if kind == "python" else [built + "/late", kind]
    with subprocess.Popen([*before, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=user,
                          env={**os.environ, "LD_LIBRARY_PATH": built + "/lib", **env}) as p:
        try:
            assert p.stdout.readline() == "ready\n", p.stderr.read()
            p.end = lambda: end(p)
            yield p
            if p.returncode is None:
                end(p)
        finally:
            p.kill()


def end(p):
    p.send_signal(signal.SIGCONT)
    p.terminate()
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and err == "", (p.returncode, err)
    p.calls = {int(k): int(n) for k, n in (line.split() for line in out.splitlines())}


def command(p, path, *args):
    return ["-q", "--probe=inject", "-p", str(p.pid), "--jsonl", str(path), *args]


def launches(path):
    """Each thread's launches, and how many of all the library has recorded. None may be missing or be there twice."""
    t = Trace(path)
    assert t.accounts()
    of = collections.defaultdict(collections.Counter)
    for e in t.calls:
        of[e["grid"][1]][e["grid"][0]] += 1
    for k, seen in of.items():
        twice = [n for n, cnt in seen.items() if cnt > 1]
        gaps = set(range(min(seen), max(seen) + 1)) - set(seen)
        assert not twice and not gaps, (k, twice, sorted(gaps)[:10])
    return of, sum(e["id"] >> 48 == 2 for e in t.calls)


def has_entered(path):
    """Whether the trace has calls of the library, by their ids."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
        return any(re.search(r'"id":56\d{13},', line) for line in f)
    return False


def enter(p, path):
    with contextlib.suppress(OSError):
        os.unlink(path)
    with subprocess.Popen([CUDATRACE, *command(p, path)], stderr=subprocess.PIPE, text=True) as tracer:
        try:
            until(lambda: has_entered(path))
        finally:
            tracer.send_signal(signal.SIGTERM)
            err = tracer.communicate(timeout=60)[1]
    # A machine may be too busy to attach probes in time; the trace then reports it, and calls are missing.
    is_late = re.match(r"cudatrace: warning: .*: cannot attach [0-9]+ probes? while the kernel waits", err)
    assert tracer.returncode == 0 and (is_late or err == ""), (tracer.returncode, err)
    assert is_late or launches(path)


@pytest.mark.parametrize("kind", KINDS)
def test_programs(tmp_path, built, kind):
    with program(built, kind) as p:
        enter(p, tmp_path / "trace")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_programs_often(tmp_path, built, kind):
    with program(built, kind) as p:
        for _ in range(15):
            enter(p, tmp_path / "trace")


def test_to_the_end(tmp_path, built):
    """The trace lasts until the program's end: its last launches are those that the program has counted."""
    with program(built, "call") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.PIPE, text=True) as tracer:
            until(lambda: is_entered(p))
            time.sleep(1)
            p.end()
            assert tracer.communicate(timeout=60)[1] == "" and tracer.returncode == 0
        of, by_library = launches(tmp_path / "trace")
        assert by_library and {k: max(seen) for k, seen in of.items()} == p.calls


@pytest.mark.parametrize("user", [0, 65534])
def test_two(tmp_path, built, user):
    """Two processes, also of another user."""
    os.chmod(os.environ["TMP"], 0o755)
    with program(built, "call", user=user) as p, program(built, "malloc", user=user) as q:
        ran = cudatrace("-q", "--probe=inject", "-p", f"{p.pid},{q.pid}", "--jsonl", tmp_path / "trace", "--duration", "2")
        assert ran.status == 0 and ran.err == "" and is_entered(p) and is_entered(q), ran
        by_library = {e["pid"] for e in Trace(tmp_path / "trace").calls if e["id"] >> 48 == 2}
        assert by_library == {p.pid, q.pid}


def test_two_users(built):
    os.chmod(os.environ["TMP"], 0o755)
    with program(built, "call") as p, program(built, "call", user=65534) as q:
        ran = cudatrace("-q", "--probe=inject", "-p", f"{p.pid},{q.pid}", "--jsonl", "/dev/null")
        assert ran.status == 1 and "belong to different users" in ran.err and not is_entered(p), ran


def mapped(p):
    with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
        return {line.split()[5] for line in f if "libcudatrace-inject" in line}


def is_entered(p):
    return bool(mapped(p))


def test_children(tmp_path, built):
    """A child of fork connects by itself."""
    with program(built, "fork") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.PIPE, text=True) as tracer:
            until(lambda: is_entered(p))
            time.sleep(1)
            p.end()
            assert tracer.communicate(timeout=60)[1] == "" and tracer.returncode == 0
        t = Trace(tmp_path / "trace")
        assert t.accounts() and sum(e["op"] == "fork" for e in t.proc) > 3


def kill_tracer(p, path):
    with subprocess.Popen([CUDATRACE, *command(p, path)], stderr=subprocess.DEVNULL, start_new_session=True) as tracer:
        until(lambda: is_entered(p))
        time.sleep(0.3)
        os.killpg(tracer.pid, signal.SIGKILL)


def test_next_tracers(tmp_path, built):
    """Each finds the library that is there, also if the last one was killed."""
    with program(built, "call") as p:
        enter(p, tmp_path / "1")
        first = mapped(p)
        assert len(first) == 1
        kill_tracer(p, tmp_path / "2")
        enter(p, tmp_path / "3")
        enter(p, tmp_path / "4")
        assert mapped(p) == first


# The helper's writes to the process: state, code, ticket, socket, one pointer, ticket. Then it restores the pointer, if no thread came.
@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["call", *(pytest.param(k, marks=pytest.mark.long) for k in KINDS[1:])])
def test_killed(tmp_path, built, kind, all_of_it):
    """The process that enters is killed before each of its writes; the next tracer enters at once."""
    env = {"LD_PRELOAD": built + "/kill.so", **({"LATE_KILL_ALL": "1"} if all_of_it else {})}
    for n in range(1, 7):
        with program(built, kind) as p:
            ran = cudatrace("--no-sandbox", *command(p, tmp_path / "trace", "--duration", "1"), env={**env, "LATE_KILL": str(n)})
            assert ran.status == (-signal.SIGKILL if all_of_it else 0) and ("cudatrace-late was killed" in ran.err) != all_of_it, ran
            enter(p, tmp_path / "trace")


def refused(p, *args):
    ran = cudatrace(*command(p, "/dev/null", "--duration", "0.5"), *args)
    assert ran.status == 1 and ran.err.count("\n") == 1, ran
    return ran.err


REFUSALS = {"filter": ("filter", (), {}, "seccomp"), "variable": ("call", (), {"CUDATRACE_NO_INJECT": "1"}, "CUDATRACE_NO_INJECT"),
            "network": ("call", ("unshare", "-n"), {}, "network or user namespace"), "user": ("call", ("unshare", "-U"), {}, "network or user namespace")}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(built, name):
    kind, before, env, why = REFUSALS[name]
    if before and subprocess.run([*before, "true"], check=False, stderr=subprocess.DEVNULL).returncode:
        pytest.skip(f"{before[0]} {before[1]} is not allowed")
    with program(built, kind, before, **env) as p:
        said = refused(p)
        assert why in said and "use --probe=uprobe" in said and not is_entered(p)


def test_filtered_meanwhile(built):
    """A program that sandboxes itself while the library waits for its next CUDA call is not entered any more."""
    with program(built, "sandbox") as p:
        with subprocess.Popen([CUDATRACE, *command(p, "/dev/null", "--duration", "3")], stderr=subprocess.PIPE, text=True) as tracer:
            until(lambda: subprocess.run(["pgrep", "-P", str(tracer.pid), "-x", "cudatrace-late"], stdout=subprocess.DEVNULL).returncode == 0)
            time.sleep(0.5)
            p.send_signal(signal.SIGUSR1)
            said = tracer.communicate(timeout=60)[1]
        assert tracer.returncode == 0 and "it filters system calls (seccomp)" in said and not is_entered(p)


def test_another_root(tmp_path, built):
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("unshare -m is not allowed")
    with program(built, "call", ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]) as p:
        assert "mount namespace" in refused(p) and not is_entered(p)


def test_stopped(built):
    with program(built, "call") as p:
        p.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        assert "is stopped" in refused(p) and not is_entered(p)


def test_without_libcuda():
    with subprocess.Popen(["sleep", "60"]) as p:
        assert "has not loaded libcuda" in refused(p)
        p.kill()


def test_without_pointers(built):
    """A driver of another layout."""
    with program(built, "call", LD_LIBRARY_PATH=built + "/plain") as p:
        assert "no dispatch pointers" in refused(p) and not is_entered(p)


def test_traced_already(tmp_path, built):
    with program(built, "call") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.DEVNULL) as tracer:
            until(lambda: is_entered(p))
            time.sleep(0.5)
            assert "another cudatrace" in refused(p)
            tracer.send_signal(signal.SIGTERM)
            assert tracer.wait(60) == 0
        launches(tmp_path / "trace")


def test_idle(tmp_path, built):
    """A program that makes no call keeps its pointers, and is traced by uprobes."""
    with program(built, "idle") as p:
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "7"))
        assert ran.status == 0 and re.fullmatch(r".*: it has made no CUDA call within 5 s: its calls are traced by uprobes\n", ran.err), ran
        assert not is_entered(p)


def test_options(built):
    with program(built, "call") as p:
        for option in ("--kernel", "--sched", "--gpu-time"):
            ran = cudatrace(*command(p, "/dev/null"), option)
            assert ran.status == 2 and option in ran.err, ran


def test_variable_at_the_start(tmp_path, built):
    """With CUDATRACE_NO_INJECT a preloaded library does nothing: uprobes record the calls."""
    with program(built, "call", [CUDATRACE, "-q", "--probe=inject", "--jsonl", str(tmp_path / "trace"), "--"], CUDATRACE_NO_INJECT="1") as p:
        time.sleep(0.5)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=60)
    t = Trace(tmp_path / "trace")
    assert t.calls and not any(e["id"] >> 48 == 2 for e in t.calls)


def test_code_is_alone():
    """The code that is copied into programs refers to nothing outside of it."""
    out = subprocess.run(["readelf", "-rW", O + "/src/inject/late_code.o"], capture_output=True, text=True, check=True).stdout
    own = re.search(r"'\.relalate_code'.*?\n\n", out, re.S)[0].splitlines()[2:]
    names = {line.split()[4] for line in own if line}
    assert names and all(n.startswith("late_") for n in names), names
