# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 900
# takes: 60 100
"""No errors and no leaks in the program built with ASan and UBSan, also while tracing; in make check-all under valgrind."""
import functools
import glob
import os
import re
import shutil
import signal

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, CUDATRACE, FAKE, FAKE535, KERNEL, MAKE_O, O, SINCE, Ran, building, needs_tracing, until

DEFAULT = "all,!query,!cu[FP]*[LI]*[de]"
SAN = O + "/san/cudatrace"
VALGRIND = "valgrind -q --log-file=TMP/log --leak-check=full --show-leak-kinds=definite,indirect,possible --track-fds=no".split()
# What words of a row stand for; TMP is the test's folder, PID a process that makes calls.
WORDS = {
    "CT": [SAN], "E": ["-e", DEFAULT], "SAMPLE": [FAKE + "/sample", "--tokens", "2", "--layers", "2", "--quiet"], "CASES": [CASES],
    # LeakSanitizer starts a thread at the end.
    "OUT": ["--no-sandbox", "--jsonl", "TMP/a.jsonl", "--chrome", "TMP/a.json"], "QUIET": ["sh", "-c", '"$@" >/dev/null', "sh"],
    "LIMITED": ["bash", "-c", 'ulimit -f 40; "$@"', "sh"], "HEAD": ["bash", "-o", "pipefail", "-c", '"$@" | head -1', "sh"],
    "ME": [str(os.getpid())],
    "LOAD": ["sh", "-c", '"$1/threads" 8 250; "$1/exec"; "$1/fork"; "$1/threads" 8 200; exec "$1/streams_events"', "sh"],
}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", FAKE)


def words_of(line, folder, pid=0):
    words = [w for word in line.split() for w in WORDS.get(word, [word])]
    return [w.replace("TMP", str(folder)).replace("PID", str(pid)) for w in words]


@functools.lru_cache
def built():
    return building(f"O={MAKE_O}/san", f"SKEL_DIR={MAKE_O}", "SAN=address,undefined", MAKE_O + "/san/cudatrace")


SANE = [(0, f"CT {line}") for line in (
    "list", "list --json", "list --names", "--help", "list --help", "--man", "--completion=bash", "--completion=zsh", "--completion=fish",
    "--version", "check", f"list --libcuda {FAKE535}/libcuda.so.1")]
SANE += [  # exit status (None: any), command
    (2, "CT --jsnl x"),
    (2, "CT -e memry -- true"),
    *[(0, f"CT --summary E --mechanism={m} OUT -- SAMPLE") for m in ("session", "multi")],
    (0, "CT --summary -e launch,init --mechanism=perf OUT -- SAMPLE"),
    (0, "CT --json --all OUT -- SAMPLE --threads 4"),
    (0, f"CT -q E OUT -- {CASES}/modules"),
    (None, f"CT -q --all OUT -- {CASES}/hostile"),
    (None, f"CT -q E OUT -- {CASES}/fork"),
    (None, f"CT -q E OUT -- {CASES}/longjmp"),
    (None, f"CT -q E OUT -- {CASES}/exit_in_call"),
    (0, "CT E -q --max-events 50 OUT -- SAMPLE"),
    (0, "CT -q --all --buffer-size 64K OUT -- SAMPLE --tokens 50"),
    (1, "LIMITED CT -q E OUT -- SAMPLE"),
    (1, "HEAD CT --no-sandbox -q E --jsonl - -- QUIET SAMPLE"),
    (1, "CT -q --jsonl TMP/a.jsonl --chrome TMP -- true"),
    (1, "CT -q OUT -- TMP/a.json"),
    (1, "CT -q --no-wait OUT -p ME"),
    (0, "CT E -q --duration 0.5 OUT -p PID"),
    (0, "timeout --preserve-status -s INT 1 CT -q E OUT -p PID"),
    (0, "CT --json --duration 0.5 OUT"),
]


@pytest.mark.parametrize("row", SANE, ids=lambda r: r[1].replace(CASES, "CASES").replace(FAKE535, "FAKE535"))
def test_sanitizers(running, tmp_path, row):
    """Only the program's reports count; its command has none."""
    status, line = row
    if built().status:
        pytest.skip("does not build here: " + "".join(re.findall(".*error.*", built().err, re.I)[:1]))
    if "OUT" in line or "check" in line:
        needs_tracing()
    mech = re.search(r"--mechanism=(\w+)", line)
    if mech and KERNEL < SINCE[mech[1]]:
        pytest.skip("not in this kernel")
    pid = 0
    if "PID" in line:
        pid = running.start(*WORDS["SAMPLE"], "--tokens", 1000000, env={"FAKE_DELAY_US": "cuStreamSynchronize:10000"}).pid
        until(lambda: "libcuda" in open(f"/proc/{pid}/maps", encoding="utf-8").read())
    ran = Ran(words_of(line, tmp_path, pid), env={"ASAN_OPTIONS": f"exitcode=99:log_path={tmp_path}/san.log",
                                                  "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={tmp_path}/san.log"})
    reports = [open(path, encoding="utf-8").read() for path in glob.glob(f"{tmp_path}/san.log*")]
    assert not reports, "\n".join(reports)[:3000]
    assert status in (None, ran.status), ran
    if mech:
        t = Trace(tmp_path / "a.jsonl")
        assert t.calls and t.accounts()


def complaints(log):
    """Valgrind's blocks. Its reports about bpf()'s arguments do not count: it requires initialised bytes of the attribute that the kernel
    ignores, and does not support all commands."""
    blocks = "\n".join(re.findall(r"^==\d+== ?(.*)", log.read_text(), re.M)).split("\n\n")
    known = r"Syscall param bpf\(|HEAP SUMMARY|LEAK SUMMARY|For lists of|ERROR SUMMARY"
    return [b for b in blocks if b.strip() and not re.match(known, b.lstrip("\n"))]


def needs_valgrind():
    if not shutil.which("valgrind"):
        pytest.skip("not installed")


# Not accounts(): the cost of a probe measured under valgrind is meaningless.
def is_whole(folder):
    t = Trace(folder / "a.jsonl")
    return t.end["calls"] == len(t.calls) > 100 and t.end["reason"] == "command exited"


CHECKED = [  # exit status, arguments, what must hold afterwards
    (0, "list", None),
    (0, "list -e memory,!cuMemGet*", None),
    (0, f"list --json --libcuda {FAKE}/libcuda.so.1", None),
    (0, "--help", None),
    (0, "--man", None),
    (2, "--jsnl x", None),
    (2, "-e memry -- true", None),
    (1, "list --libcuda tests/pytest.ini", None),
    (1, "report tests/pytest.ini", None),
    (0, "check --json", None),
    (0, "--json E --jsonl TMP/a.jsonl --chrome TMP/a.json -- SAMPLE", is_whole),
    (1, "-q -e launch --jsonl /dev/full -- true", None),
    (1, "-q -e launch --jsonl TMP/b.jsonl -- tests/pytest.ini", None),
]


def checked(folder, status, line):
    ran = Ran(words_of(" ".join([*VALGRIND, CUDATRACE, line]), folder), timeout=200)
    assert ran.status == status, ran
    assert complaints(folder / "log") == []


@pytest.mark.long
@pytest.mark.parametrize("row", CHECKED, ids=lambda r: r[1].replace(FAKE, "FAKE"))
def test_valgrind(tmp_path, row):
    needs_valgrind()
    status, line, holds = row
    if "-- " in line:
        needs_tracing()
    checked(tmp_path, status, line)
    assert not holds or holds(tmp_path)


@pytest.mark.long
def test_valgrind_under_load(tmp_path):
    """Threads, forks and execs, and more calls than any table's initial size; then reports of that."""
    needs_valgrind()
    needs_tracing()
    checked(tmp_path, 0, "-q E --buffer-size 64M --summary --jsonl TMP/load.jsonl --chrome TMP/load.json -- LOAD CASES")
    t = Trace(tmp_path / "load.jsonl")
    assert t.end["calls"] == len(t.calls) > 10000 and not any(t.end["drops"].values())
    assert len(t.proc) > 8 and {"exec", "fork"} <= {e["op"] for e in t.proc}
    checked(tmp_path, 0, "report --format=all -o TMP/rep TMP/load.jsonl")
    assert all((tmp_path / f"rep.report.{form}").stat().st_size for form in ("html", "json", "txt"))
    checked(tmp_path, 0, "diff TMP/load.jsonl TMP/load.jsonl")


@pytest.mark.long
def test_valgrind_daemon(running, tmp_path):
    """A private library and programs: the machine may have many others."""
    needs_valgrind()
    needs_tracing()
    lib = tmp_path / "lib"
    lib.mkdir()
    for path in (FAKE + "/libcuda.so.1", FAKE + "/sample", CASES + "/threads"):
        shutil.copy(path, lib)
    (tmp_path / "c.yaml").write_text(f'level: off\nrules:\n  - match: {{command: "{lib}/*"}}\n    level: trace\n')
    line = "daemon --config TMP/c.yaml --set files.directory=TMP/files --set ctl.socket=TMP/ctl --set metrics.listen= --libcuda"
    env = {"LD_LIBRARY_PATH": str(lib)}
    d = running.start(*words_of(" ".join([*VALGRIND, CUDATRACE, line]), tmp_path), lib / "libcuda.so.1", env=env, stderr=tmp_path / "err")

    def ctl(what):
        return Ran([CUDATRACE, "ctl", "--set", f"ctl.socket={tmp_path}/ctl", what])
    until(lambda: ctl("status").status == 0, 30)
    Ran([lib / "threads", "4", "100"], env=env)
    ctl("dump")
    d.send_signal(signal.SIGHUP)
    Ran([lib / "sample", "--tokens", "2", "--layers", "2", "--quiet"], env=env)
    until(lambda: ctl("status").out, 30)
    d.terminate()
    assert d.wait(300) == 0 and complaints(tmp_path / "log") == [], (tmp_path / "err").read_text()
