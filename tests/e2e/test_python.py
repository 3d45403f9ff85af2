# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""--python: the Python frames of calls must match those of Python itself in every installed version: in threads, deep stacks, code with
any names, attached late, in containers. A process that corrupts its own memory must affect no other."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, FAKE, MECHANISMS, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, until

LIB = FAKE + "/libcuda.so.1"
ENV = {**os.environ, "LD_LIBRARY_PATH": FAKE}
CALLS, HOSTILE = TESTS + "/stack/python_calls.py", TESTS + "/stack/python_hostile.py"
KNOWN = [f"3.{n}" for n in range(8, 15)]
FRAMES_MAX = 128


def pythons():
    """One Python of each version: the running one's folder, the system's, pyenv's, with a shared library and without."""
    found = {}
    for path in (*glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")), *glob.glob("/usr/local/bin/python3.*"), *glob.glob("/usr/bin/python3.*")):
        if re.search(r"python3(\.\d+)?t?$", path):
            ran = subprocess.run([path, "-c", "import ctypes, sys, sysconfig; print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0, "
                                              "int('/libpython3' in open('/proc/self/maps').read()))"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            if not ran.returncode:
                version, free, shared = ran.stdout.split()
                found.setdefault((version + "t" * int(free), shared == "1"), path)
    return found


FOUND = pythons()
HERE = [pytest.param(path, id=f"{version}{'-shared' if shared else ''}") for (version, shared), path in sorted(FOUND.items()) if version in KNOWN]
HERE += [pytest.param(None, id=v) for v in KNOWN if v not in {version for version, _ in FOUND}]
ONE = next((p for (v, _), p in sorted(FOUND.items(), reverse=True) if v in ("3.11", "3.12", "3.13")), None)


def lines_of(path, text):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().count(text)
    except FileNotFoundError:
        return 0


class Program:
    """A program that a tracer started or attached to; it ends on request."""

    def __init__(self, argv, trace, *options, late=False, **how):
        tracer = [CUDATRACE, "-q", *options, "--jsonl", str(trace)]
        self.trace = trace
        self.proc = subprocess.Popen([*([] if late else [*tracer, "--"]), *argv], env=ENV, stdin=subprocess.PIPE, **how)

    def end(self):
        self.proc.stdin.close()
        return self.proc.wait(60)


@pytest.fixture
def calls(tmp_path):
    """calls(PYTHON, OPTION..., parts=...): the trace, and Python's own frames"""
    needs_tracing()

    def run(python, *options, parts=("nested",)):
        if not python:
            pytest.skip("this version is not here")
        trace, log = tmp_path / "t.jsonl", tmp_path / "log.json"
        for old in trace, log:
            old.unlink(missing_ok=True)
        program = Program([python, CALLS, LIB, str(log), *parts], trace, "-e", "cuMemAlloc", *options)
        until(lambda: lines_of(log, "]]]"), 60)
        with open(log, encoding="utf-8") as f:
            want = json.load(f)
        # Names are read from the process, which must live until then.
        until(lambda: lines_of(trace, '"symbol":"cuMemAlloc_v2"') == len(want), 60)
        assert program.end() == 0
        return Trace(trace), want
    return run


def frames(trace):
    """For each call (function, file, line), innermost first."""
    known = {}
    for e in trace.ev:
        if e["type"] == "stack":
            assert e["id"] not in known
            known[e["id"]] = [(f.get("function"), f.get("file"), f.get("line")) for f in e.get("python", [])]
        elif e.get("symbol") == "cuMemAlloc_v2":
            yield known.get(e.get("stack"), [])


def same(trace, want, python):
    """Compares frames. Names are qualified from 3.11 on, lone surrogates are replaced, and very long names are cut."""
    def text(s, size):
        return re.sub("[\ud800-\udfff]", "\ufffd", s)[:size]
    got = list(frames(trace))
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert [(f.split(".")[-1], p, n) for f, p, n in g] == [(text(f, 1024), text(p, 4096), n) for f, p, n in w][:FRAMES_MAX], python


def counts(trace):
    return {k[len("python_"):]: v for k, v in trace.end.items() if k.startswith("python_")}


@pytest.mark.parametrize("python", HERE)
def test_version(calls, python):
    t, want = calls(python, "--python", parts=("nested", "threads"))
    same(t, want, python)
    assert t.accounts() and t.head["python"] and counts(t) == {"calls": len(want), "early": 0, "cut": 0, "broken": 0, "unread": 0}


@pytest.mark.parametrize("python", HERE)
def test_names(calls, python):
    t, want = calls(python, "--python", parts=("names",))
    same(t, want, python)


@pytest.mark.parametrize("python", HERE)
def test_deep(calls, python):
    """The outermost frames must be cut, and the cut reported."""
    t, want = calls(python, "--python", parts=("deep",))
    same(t, want, python)
    assert len(want[0]) > FRAMES_MAX and counts(t)["cut"] == 1


@pytest.mark.parametrize("mech", MECHANISMS)
def test_mechanism(calls, mech):
    needs_mechanism(mech)
    t, want = calls(ONE, "--python", f"--mechanism={mech}")
    same(t, want, mech)
    t, want = calls(ONE, "--python", f"--mechanism={mech}", "--entry-only", "all")
    same(t, want, mech)


@pytest.mark.parametrize("options", [(), ("--entry-only", "all"), ("--stack",)], ids=" ".join)
def test_from_inside(calls, options):
    """The library in the process records these calls, and a probe in it reads their frames."""
    t, want = calls(ONE, "--python", "--probe=inject", *options, parts=("nested", "threads"))
    same(t, want, "inject")
    assert all(x["id"] >> 48 == 2 for x in t.calls) and counts(t)["early"] == 0


def test_frames_are_lost(tmp_path):
    """If the ring of the probes is full, calls lack frames, but none has those of another call."""
    needs_tracing()
    if not ONE:
        pytest.skip("no Python of 3.11 to 3.13 is here")
    code = "import ctypes, sys, threading\nlib = ctypes.CDLL(sys.argv[1])\nlib.cuInit(0)\n" \
           "def calls():\n p = ctypes.c_void_p()\n q = ctypes.byref(p)\n for _ in range(4000):\n" \
           + "".join(f"  lib.cuMemAlloc_v2(q, {line})\n" for line in range(8, 12)) + \
           "all = [threading.Thread(target=calls) for _ in range(4)]\nfor x in all: x.start()\nfor x in all: x.join()\n"
    trace = tmp_path / "t.jsonl"
    ran = cudatrace("-q", "--python", "--probe=inject", "-e", "cuMemAlloc", "--buffer-size=64K", "--jsonl", trace, "--", ONE, "-c", code, LIB,
                    env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    t = Trace(trace)
    stacks = {e["id"]: e.get("python", []) for e in t.ev if e["type"] == "stack"}
    lines = [(e["size"], (stacks.get(e.get("stack")) or [{}])[0].get("line")) for e in t.calls]
    assert len(lines) == 64000 - t.end["drops"]["calls"] and counts(t)["early"] == 0 and t.accounts(drops=True)
    assert all(line in (None, size) for size, line in lines)
    # A call that has the number of one that was dropped has no frames either.
    assert 100 < sum(bool(line) for _, line in lines) >= 64000 - t.end["drops"]["begins"] - 2 * t.end["drops"]["calls"]


def test_refused():
    ran = cudatrace("--python", "--probe=inject", "--kernel", "--", "true")
    assert ran.status == 2 and "--python is not recorded in-process" in ran.err


def test_of_a_set(calls):
    t, _ = calls(ONE, "--python=launch")
    assert not any(frames(t)) and counts(t)["calls"] == 0
    t, _ = calls(ONE)
    assert "python" not in t.head and not counts(t)


def test_with_native_stacks(calls):
    """Native frames must end where the interpreter begins."""
    t, want = calls(ONE, "--python", "--stack")
    same(t, want, ONE)
    for e in t.ev:
        if e["type"] == "stack":
            assert e["frames"] and e["python"] and not any("python3" in os.path.basename(f.get("module", "")) for f in e["frames"][1:])


@pytest.mark.parametrize("option", ["--no-strings", "--no-args"])
def test_redacted(calls, option):
    t, want = calls(ONE, "--python", option)
    assert [[f[2] for f in g] for g in frames(t)] == [[f[2] for f in w] for w in want]
    assert "forward" not in json.dumps(t.ev)
    assert all(f[:2] == (None, "[file]") for g in frames(t) for f in g)


def test_late(tmp_path):
    """Frames must be right in a process that was already running."""
    needs_tracing()
    if not ONE:
        pytest.skip("no Python of 3.11 to 3.13 is here")
    code = "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\nlib.cuInit(0)\np = ctypes.c_void_p()\n" \
           "def late():\n    lib.cuMemAlloc_v2(ctypes.byref(p), 4096)\nprint('ready', flush=True)\nfor _ in sys.stdin:\n    late()\n    print('did', flush=True)\n"
    with subprocess.Popen([ONE, "-c", code, LIB], env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "ready\n"
        trace = tmp_path / "t.jsonl"
        with subprocess.Popen([CUDATRACE, "-q", "--python", "-e", "cuMemAlloc", "--jsonl", str(trace), "-p", str(program.pid)]) as tracer:
            until(lambda: lines_of(trace, '"header"'), 60)

            def calls_once():
                program.stdin.write("\n")
                program.stdin.flush()
                assert program.stdout.readline() == "did\n"
                return lines_of(trace, '"stack"')
            until(calls_once, 60)
            program.stdin.close()
            program.wait(60)
            assert tracer.wait(60) == 0
    t = Trace(trace)
    assert [("late", "<string>", 6), ("<module>", "<string>", 9)] in list(frames(t)) and counts(t)["early"] == 0


def test_another_namespace(calls, tmp_path):
    """Frames must be right in a private mount and PID namespace, where process ids differ."""
    if not ONE or Ran(["unshare", "-mpf", "true"]).status:
        pytest.skip("no Python of 3.11 to 3.13, or no namespaces")
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nexec unshare -mpf --mount-proc {ONE} \"$@\"\n")
    script.chmod(0o755)
    t, want = calls(str(script), "--python", parts=("nested", "threads"))
    same(t, want, ONE)


def test_code_that_replaces_code(calls):
    """A code object may be allocated where another was: names must still be right."""
    t, want = calls(ONE, "--python", parts=("again",))
    assert len(want) == 20
    same(t, want, ONE)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_hostile(tmp_path, version):
    """With cyclic lists, wild pointers and strings of any length, the trace must be whole, and report what was unreadable."""
    needs_tracing()
    python = next((p for (v, _), p in FOUND.items() if v == version), None)
    if not python:
        pytest.skip("this version is not here")
    trace = tmp_path / "t.jsonl"
    program = Program([python, HOSTILE, LIB], trace, "--python", "-e", "cuMemAlloc")
    until(lambda: lines_of(trace, '"symbol":"cuMemAlloc_v2"') == 28, 60)
    assert program.end() == 0
    t = Trace(trace)
    end = counts(t)
    assert t.accounts() and len(t.calls) == 28 and end["cut"] >= 1 and end["broken"] >= 2 and end["unread"] >= 4, end
    assert all(len(g) <= FRAMES_MAX and all(len(f[0] or "") <= 1024 for f in g) for g in frames(t))


def test_unknown_is_said(tmp_path):
    """A free-threaded or older build must be named, and nothing may be guessed."""
    needs_tracing()
    python = next((p for p in glob.glob(os.path.expanduser("~/.pyenv/versions/3.7.*/bin/python3.7")) + [p for (v, _), p in FOUND.items() if v.endswith("t")]), None)
    if not python:
        pytest.skip("there is no Python that is not known")
    trace = tmp_path / "t.jsonl"
    ran = cudatrace("--python", "-e", "cuInit", "--no-summary", "--jsonl", trace, "--", python, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).cuInit(0)", LIB,
                    env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0 and len(re.findall("--python: process .*: its calls have no Python frames", ran.err)) == 1, ran
    t = Trace(trace)
    assert counts(t)["calls"] == 0 and not any(e["type"] == "stack" for e in t.ev)


@pytest.mark.parametrize("file,said", [("python3.6", "process .*: Python 3.6 is not supported"), ("python2.7", "process .*: Python 2.7 is not supported"),
                                       ("pypy3.10", "process .*: PyPy 3.10 is not supported"), ("graalpy", "process .*: GraalPy is not supported"),
                                       ("sample", r"no CPython \(3.8 to 3.14\) was found")])
def test_no_interpreter(tmp_path, file, said):
    """Another interpreter, or none, must be reported in one line."""
    needs_tracing()
    shutil.copy(FAKE + "/sample", tmp_path / file)
    trace = tmp_path / "t.jsonl"
    ran = cudatrace("--python", "--no-summary", "--jsonl", trace, "--", tmp_path / file, "--tokens", 2, env={"LD_LIBRARY_PATH": FAKE})
    lines = [line for line in ran.err.splitlines() if "--python" in line]
    assert ran.status == 0 and len(lines) == 1 and re.search("--python: " + said, lines[0]), ran
    assert counts(Trace(trace))["calls"] == 0


def test_one_line_each(tmp_path):
    """Two interpreters in one trace must give two lines, and a further process of one of them none."""
    needs_tracing()
    for file in "pypy3.10", "python3.6":
        shutil.copy(FAKE + "/sample", tmp_path / file)
    ran = cudatrace("--python", "--no-summary", "--jsonl", tmp_path / "t.jsonl", "--", "sh", "-c", f"cd {tmp_path}; ./pypy3.10; ./pypy3.10; ./python3.6", env={"LD_LIBRARY_PATH": FAKE})
    assert [re.search("PyPy 3.10|Python 3.6", line)[0] for line in ran.err.splitlines() if "--python" in line] == ["PyPy 3.10", "Python 3.6"], ran


def test_report(calls, tmp_path):
    """Outputs with stacks must name Python's functions, live and from a file."""
    chrome, live = tmp_path / "c.json", tmp_path / "r.json"
    calls(ONE, "--python", "--chrome", str(chrome), "--report", str(live))
    with open(chrome, encoding="utf-8") as f:
        stacks = [e["args"]["stack"] for e in json.load(f) if "stack" in e.get("args", {})]
    assert any(s[0].startswith("alloc (python_calls.py:") for s in stacks)
    report = Ran([CUDATRACE, "report", "--format=json", str(tmp_path / "t.jsonl")])
    assert report.status == 0 and "Block.forward (python_calls.py:" in report.out


@pytest.mark.parametrize("ms", [3, 0])
def test_data_loading(tmp_path, ms):
    """The finding about a loader that is slow, and its gain: the time that the program itself measured."""
    needs_tracing()
    if not ONE:
        pytest.skip("no CPython of this version is here")
    trace = tmp_path / "t.jsonl"
    ran = cudatrace("-q", "--python", "--gpu-time", "-e", "launch,transfer,sync,context,query", "--jsonl", trace, "--", ONE, TESTS + "/stack/python_loader.py", LIB, ms,
                    env={"LD_LIBRARY_PATH": f"{FAKE}:{os.path.dirname(FAKE)}/cupti"})
    assert ran.status == 0, ran
    report = json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", str(trace)]).out)
    found = [x for x in report["findings"] if x["id"] in ("data-loading", "other-thread")]
    if not ms:
        assert not found
        return
    assert report["findings"][0] == found[0] and found[0]["id"] == "data-loading"
    assert re.search(r"loads data then: dataloader\.py:6 (DataLoader\.)?__next__, called from python_loader\.py:\d+ main\.$", found[0]["text"])
    assert abs(found[0]["lost_ns"] - int(ran.out)) < 0.1 * int(ran.out)


@pytest.mark.parametrize("mode", ["compute", "sleep"])
def test_python_lock(tmp_path, mode):
    """The finding about Python's lock, and its gain: the times between calls of 5 ms or a multiple, and longer ones. On a busy machine few may be: up to three tries."""
    needs_tracing()
    if not ONE:
        pytest.skip("no CPython of this version is here")
    for n in range(3):
        trace = tmp_path / f"{n}.jsonl"
        ran = cudatrace("-q", "--python", "--gpu-time", "-e", "launch,transfer,sync,context", "--jsonl", trace, "--", ONE, TESTS + "/stack/python_lock.py", LIB, mode,
                        env={"LD_LIBRARY_PATH": f"{FAKE}:{os.path.dirname(FAKE)}/cupti"})
        assert ran.status == 0, ran
        found = [x for x in json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", str(trace)]).out)["findings"] if x["id"] == "python-lock"]
        calls = Trace(trace).calls
        between = [b["ts"] - a["ts"] - a["duration_us"] / 1e3 for a, b in zip(calls, calls[1:])]
        waits = [x for x in between if 5 <= x < 20 and x % 5 <= x // 5 * 0.7]
        longer = [x for x in between if x >= 20]
        if mode == "sleep":
            assert not found
            return
        if sum(2.5 <= x < 20 for x in between) * 0.65 < len(waits):
            break
    else:
        pytest.skip("the machine is too busy: few times between calls are multiples of 5 ms")
    assert found and 0.8 * sum(waits) < found[0]["lost_ns"] / 1e6 < 1.02 * (sum(waits) + sum(longer))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
