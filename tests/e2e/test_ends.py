# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
"""Traces of the sample program that are interrupted: by signals, closed pipes, full disks."""
import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from helpers.jsonl import Trace
from helpers.live import Tracer, compiled
from helpers.outputs import DEFAULT, ENDLESS, ENV, SAMPLE, chrome, ct, schema
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, into_full, needs_tracing, until


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


class Both(Tracer):
    """A trace of a program that makes calls, with both outputs."""

    def __init__(self, running, *args):
        self.chrome = running.folder + "/a.json"
        # Python itself does not ignore SIGINT, but its parent may.
        super().__init__(running.folder, "a", "-e", DEFAULT, "--chrome", self.chrome, *args, before=["env", "--default-signal=INT"], env=ENV)
        running.all.append(self.p)
        until(lambda: b"cuLaunchKernel" in open(self.path, "rb").read())

    def whole(self, reason):
        """Both files are complete."""
        assert self.trace.end["reason"] == reason and self.trace.accounts()
        schema(self.path)
        assert chrome(self.chrome)[1]["reason"] == reason


@pytest.mark.parametrize("sig,status,reason", [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hangup")])
def test_signal(running, sig, status, reason):
    """A signal must reach the command too, and the command's status is passed on."""
    t = Both(running, "--", *ENDLESS)
    assert t.stop(sig) == status and t.err == ""
    t.whole(reason)


def test_signal_with_a_process(running):
    """With -p, a signal ends the trace, and the target continues."""
    target = running.start(*ENDLESS, env=ENV)
    t = Both(running, "-p", target.pid)
    assert t.stop() == 0 and target.poll() is None
    t.whole("interrupted")


def test_ctrl_c(tmp_path):
    """Ctrl-C must reach the command once, from the terminal, and its status is passed on."""
    ints, path = tmp_path / "ints", tmp_path / "a.jsonl"
    command = ["sh", "-c", 'trap "n=x\\$n; echo \\$n >>\\"$0\\"" INT; echo >"$0"; sleep 0.5; sleep 0.5; exit 5', str(ints)]
    pid, fd = pty.fork()
    if not pid:
        os.execv(CUDATRACE, [CUDATRACE, "-q", "-e", "launch", "--jsonl", str(path), "--", *command])
    until(ints.exists)
    time.sleep(0.1)
    os.write(fd, b"\x03")
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(fd)
    assert (status, ints.read_text().split()) == (5, ["x"]) and Trace(path).end["reason"] == "interrupted"


def test_signal_while_attaching(running, tmp_path):
    """A signal before the trace begins must not be lost."""
    path = tmp_path / "a.jsonl"
    p = running.start(CUDATRACE, "-q", "--jsonl", path, "--", "sleep", "20", stderr=subprocess.DEVNULL)
    until(lambda: re.search("^SigBlk:.*[1-9a-f]", open(f"/proc/{p.pid}/status", encoding="utf-8").read(), re.M))
    p.terminate()
    assert p.wait() == 143 and Trace(path).end["reason"] == "terminated"


def head(n, *args):
    """The first n lines, the tracer's status and its errors. Its standard output is closed after these lines."""
    with subprocess.Popen([CUDATRACE, *map(str, args)], env={**os.environ, **ENV}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace") as p:
        lines = [p.stdout.readline() for _ in range(n)]
        p.stdout.close()
        err = p.stderr.read()
    return lines, p.returncode, err


@pytest.mark.parametrize("end,status", [("true", 1), ("exit 7", 7)])
def test_closed_pipe(tmp_path, end, status):
    """If the reader of one output exits, the other output must be whole. One line reports it, and the command's status counts."""
    (line,), got, err = head(1, "-q", "-e", DEFAULT, "--jsonl", "-", "--chrome", tmp_path / "a.json", "--",
                             "sh", "-c", f'"$@" >/dev/null; sleep 0.7; {end}', "sh", *SAMPLE)
    assert json.loads(line)["type"] == "header" and got == status
    assert re.fullmatch("cudatrace: cannot write standard output: Broken pipe: its reader has exited.*\n", err)
    calls, last = chrome(tmp_path / "a.json")
    assert len(calls) > 100 and last["not_written"] == 0 and last["reason"] == "command exited"


def test_closed_pipe_alone(tmp_path):
    """If the only output's reader exits, the tracer must report that the command continues, and return its status."""
    _, status, err = head(1, "-e", DEFAULT, "--jsonl", "-", "--", "sh", "-c", '"$@" >/dev/null; sleep 4; exit 7', "sh", *SAMPLE)
    assert status == 7 and "the trace has ended; waiting for sh" in err


def test_closed_pipe_of_a_process(running):
    """If the only output's reader exits, a trace of a process must end, and the target continues."""
    target = running.start(*ENDLESS, env=ENV)
    until(lambda: "libcuda" in open(f"/proc/{target.pid}/maps", encoding="utf-8").read())
    lines, status, _ = head(3, "-q", "-e", DEFAULT, "--jsonl", "-", "-p", target.pid)
    assert status == 1 and all(lines) and target.poll() is None


def cut_short(folder, why, reasons=("command exited",)):
    """Checks outputs that could not take everything: their contents are valid, and the end reports the number of missing lines."""
    t = Trace(folder / "a.jsonl")
    assert t.end["write_error"] == why and t.end["lines_lost"] == sum(t.end["events"].values()) - (len(t.ev) - 2) > 0
    assert t.end["reason"] in reasons and len(t.ev) > 20
    schema(folder / "a.jsonl")
    # The last line is whole.
    assert (folder / "a.jsonl").read_bytes().endswith(b"}\n")
    calls, end = chrome(folder / "a.json")
    assert end["not_written"] > 0 and end["calls"] > len(calls) > 20


# Runs a command in a mount namespace with a file system of this size, and then moves the written files out of it.
SMALL = """folder=$1 size=$2; shift 2
mkdir -p "$folder/small" && mount -t tmpfs -o size=$size none "$folder/small" || exit 99
"$@"; rc=$?
mv "$folder"/small/a.* "$folder/"
exit $rc"""


def small(folder, size, *args):
    ran = Ran(["unshare", "-m", "sh", "-c", SMALL, "sh", folder, size, *map(str, args)], env=ENV)
    assert ran.status != 99, ran
    return ran


@pytest.mark.parametrize("status", [0, 5])
def test_full_disk(tmp_path, status):
    """A full disk of 64 KiB must be reported once. The other output is whole, and the command's status counts."""
    ran = small(tmp_path, "64k", CUDATRACE, "-q", "-e", DEFAULT, "--jsonl", tmp_path / "small/a.jsonl", "--chrome", tmp_path / "whole.json", "--",
                "sh", "-c", f'"$@"; exit {status}', "sh", *SAMPLE)
    assert ran.status == (status or 1)
    assert re.fullmatch(".*small/a.jsonl: No space left on device: the trace up to here is kept.*\n", ran.err)
    small(tmp_path, "64k", CUDATRACE, "-q", "-e", DEFAULT, "--chrome", tmp_path / "small/a.json", "--", *SAMPLE)
    cut_short(tmp_path, "No space left on device")
    calls, end = chrome(tmp_path / "whole.json")
    assert end["not_written"] == 0 and len(calls) == end["calls"]


def test_full_disk_from_the_start(tmp_path):
    """If there is no space even for the header, the command must not run."""
    ran = small(tmp_path, "4k", "sh", "-c", 'dd if=/dev/zero of="$0" bs=4k count=2 2>/dev/null; "$@"', tmp_path / "small/fill",
                CUDATRACE, "-q", "-e", "launch", "--jsonl", tmp_path / "small/a.jsonl", "--", "sh", "-c", "echo runs")
    assert (ran.status, ran.out) == (1, "") and ran.err.count("free some space") == 1


def limited():
    """Does ulimit -f 40."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 * 1024, 40 * 1024))


def test_file_size_limit(tmp_path):
    """The file size limit must be reported once for each output."""
    ran = ct("-q", "-e", DEFAULT, "--jsonl", tmp_path / "a.jsonl", "--chrome", tmp_path / "a.json", "--", *SAMPLE, preexec_fn=limited)
    assert ran.status == 1
    # If both outputs are at the limit, the trace may end before the command.
    cut_short(tmp_path, "File too large", ("command exited", "no output can be written"))
    assert len(re.findall("^.*File too large: .*ulimit -f.*$", ran.err, re.M)) == ran.err.count("\n") == 2


def test_file_size_limit_of_the_command(tmp_path):
    """The command must have the same limit and signal settings as untraced, even if the tests' parent ignores signals."""
    command = ["bash", "-c", 'ulimit -f; grep -E "^Sig(Ign|Blk)" /proc/self/status']
    plain = Ran(command, preexec_fn=limited).out
    assert plain.startswith("40\n") and ct("-q", "-e", DEFAULT, "--jsonl", tmp_path / "a.jsonl", "--", *command, preexec_fn=limited).out == plain


def test_killed(running, tmp_path):
    """After SIGKILL, all lines but the last must be whole (lines are written twice a second). The Chrome trace must load when cut after a
    line."""
    target = running.start(*ENDLESS, env=ENV)
    t = Both(running, "-p", target.pid)
    until(lambda: all(sum(1 for _ in open(path, "rb")) > 1500 for path in (t.path, t.chrome)))
    t.stop(signal.SIGKILL)
    cut = tmp_path / "cut.jsonl"
    with open(t.path, "rb") as f:
        cut.write_bytes(b"".join(line for line in f if line.endswith(b"\n")))
    schema("--cut", cut)
    ev = [json.loads(line) for line in cut.read_text().splitlines()]
    assert ev[0]["type"] == "header" and len(ev) > 1000
    with open(t.chrome, encoding="utf-8") as f:
        text = f.read().rpartition("\n")[0]
    assert text.endswith(",") and len(json.loads(text[:-1] + "]")) > 1000


def test_a_process_ends_while_it_is_looked_into(running, tmp_path):
    """If the process ends while its library is opened, the tracer must not give up the library: the next process that maps it is traced."""
    lib = shutil.copy(FAKE + "/libcuda.so.1", tmp_path)
    hook = compiled(tmp_path / "ends_at_open.so", "-shared", "-fPIC", TESTS + "/faults/ends_at_open.c")
    t = running.tracer("ends", "--no-sandbox", "-e", "memory", env={"LD_PRELOAD": hook, "ENDS_PID": str(tmp_path / "pid")})
    first = running.caller("first")
    (tmp_path / "pid").write_text(str(first.pid), encoding="utf-8")
    first.p.stdin.write(f"open {lib}\n")
    first.p.stdin.flush()
    try:
        assert first.p.wait(60) == -signal.SIGKILL
    except subprocess.TimeoutExpired:
        t.stop()
        pytest.fail(f"not opened twice: {t.trace.end['drops']}, {[e for e in t.trace.ev if e['type'] == 'library'][-3:]}, {t.err}")
    second = running.caller("second").ready(lib)
    until(lambda: any('"op":"attached"' in line and str(lib) in line for line in open(t.path, encoding="utf-8")))
    assert second.tell("alloc 10") == 10
    t.stop()
    # All processes are traced, so other processes' calls are in the trace, too.
    assert sum(e["symbol"] == "cuMemAlloc_v2" and e["pid"] == second.pid for e in t.trace.calls) == 10 and "cannot open" not in t.err


@pytest.mark.parametrize("args", [["-vv"], ["--summary"], ["--summary=full"], ["--summary", "--json"]])
def test_stderr_is_full(tmp_path, args):
    """Messages and summaries that nobody reads must not stop the trace."""
    before, fd = into_full(tmp_path / "fifo")
    ran = Ran([*before, CUDATRACE, *args, "-e", DEFAULT, "--jsonl", tmp_path / "a.jsonl", "--", *SAMPLE], env=ENV, timeout=30)
    os.close(fd)
    assert ran.status == 0
    assert Trace(tmp_path / "a.jsonl").accounts()
