# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 15
"""A command's process is stopped until a library that it maps is attached. A parent that waits for stopped children must not notice, nor
may the stop do harm in another way."""
import json
import os
import shutil
import subprocess

import pytest
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, needs_tracing

PARENTS = {"runuser": "exec runuser -u nobody -- {}", "su": "exec su -s /bin/sh nobody -c {}", "script": "exec script -qec {} /dev/null",
           "nsenter": "exec nsenter -p -t $PPID {}", "handler": "exec python3 " + TESTS + "/helpers/handles_sigchld.py {}", "job control": "exec bash -c 'set -m; {}; exit $?'"}
# These cannot notice it, so that the process is stopped, and every call is traced.
OTHERS = {"sh": "{}; exit $?", "timeout": "exec timeout 30 {}", "python": "exec python3 -c 'import subprocess, sys; sys.exit(subprocess.run([\"{}\"]).returncode)'"}


@pytest.fixture(scope="module")
def program():
    """A program and a library that no tracer has found before they are used; any user can run them."""
    needs_tracing()
    folder = os.environ["TMP"] + "/stopped"
    os.makedirs(folder)
    shutil.copy(f"{FAKE}/libcuda.so.1", folder)
    with open(folder + "/commands", "w", encoding="utf-8") as f:
        f.write(f"open {folder}/libcuda.so.1\ninit\nalloc 20\nexit 5\n")
    os.chmod(os.environ["TMP"], 0o755)
    os.chmod(folder, 0o755)
    return compiled(folder + "/program", TESTS + "/caller.c")


def command(program, line):
    return ["sh", "-c", f"exec <{os.path.dirname(program)}/commands; {line.format(program)}"]


@pytest.mark.parametrize("name", [*PARENTS, *OTHERS])
def test_status_and_output(tmp_path, program, name):
    line = {**PARENTS, **OTHERS}[name]
    untraced = subprocess.run(command(program, line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if untraced.returncode != 5:
        pytest.skip(f"{name} does not work here: {untraced}")
    # Only now and then script runs at the moment of the stop.
    for i in range(10 if name == "script" else 3):
        path = str(tmp_path / f"{i}.jsonl")
        ran = Ran([CUDATRACE, "-q", "--no-summary", "-e", "memory", "--jsonl", path, "--", *command(program, line)], timeout=60)
        assert (ran.status, ran.out) == (5, untraced.stdout), ran
        with open(path, encoding="utf-8") as f:
            allocs = f.read().count('"cuMemAlloc_v2"')
        complete = json.loads(Ran([CUDATRACE, "report", "--format=json", path]).out)["complete"]
        assert allocs == 20 if name in OTHERS else complete == (allocs == 20), (ran, allocs, complete)


def test_stopped_by_another(tmp_path, program):
    """A parent that somebody stops shortly after its child was stopped for its library must stay stopped."""
    folder = os.path.dirname(program)
    script = f"""
import os, signal, subprocess, sys, time
b = subprocess.Popen(["sh", "-c", "exec <{folder}/commands; {program}; sleep 8; exit 5"])
time.sleep(1)
b.send_signal(signal.SIGSTOP)
states = []
for i in range(20):
    time.sleep(0.1)
    states.append(open(f"/proc/{{b.pid}}/stat").read().rsplit(")", 1)[1].split()[0])
b.kill()
print("".join(states))
"""
    ran = Ran([CUDATRACE, "-q", "--no-summary", "--wait=main", "--jsonl", tmp_path / "t", "--", "python3", "-c", script], timeout=60)
    assert ran.status == 0 and ran.out.split()[-1] == "T" * 20, ran


STATE = """
import os, signal, subprocess, sys, time

def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"

def until_stopped(pid):
    end = time.monotonic() + 2
    while time.monotonic() < end and state(pid) not in "TXZ":
        pass
"""


def traced_script(tmp_path, program, script, *options):
    """Runs a script with a library that no tracer knows: (what it printed, status, is the trace complete?)"""
    folder = os.path.dirname(program)
    shutil.copy(folder + "/libcuda.so.1", folder + "/new")
    os.rename(folder + "/new", folder + "/libcuda.so.1")
    trace = tmp_path / "t.jsonl"
    ran = Ran([CUDATRACE, "-q", "--no-summary", *options, "--jsonl", trace, "--", "python3", "-c", STATE + script, program, folder], timeout=60)
    return ran.out, ran.status, json.loads(Ran([CUDATRACE, "report", "--format=json", trace]).out)["complete"]


@pytest.mark.parametrize("change", ["os.setpgid(0, 0)", "os.setsid()", "None"])
@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_group_becomes_orphaned(tmp_path, program, probe, change):
    """A launcher ends while its child is stopped: the kernel would send SIGHUP to a group that becomes orphaned with a stopped process."""
    out = tmp_path / "out"
    said = traced_script(tmp_path, program, f"""
pid = os.fork()
if not pid:
    {change}
    os.dup2(os.open(sys.argv[2] + "/commands", os.O_RDONLY), 0)
    os.dup2(os.open("{out}", os.O_WRONLY | os.O_CREAT), 1)
    os.execv(sys.argv[1], [sys.argv[1]])
end = time.monotonic() + 2
while time.monotonic() < end:
    with open(f"/proc/{{pid}}/task/{{pid}}/children") as f:
        below = f.read().split()
    if state(pid) in "TXZ" or any(state(x) == "T" for x in below):
        os._exit(0)
""", f"--probe={probe}")
    assert said[1] == 0 and out.read_text().endswith("20\n"), said
    assert said[2] or change == "os.setpgid(0, 0)"


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
def test_asks_to_be_traced(tmp_path, program, probe):
    """After PTRACE_TRACEME, each signal stops a process for good if its parent does not continue it."""
    said = traced_script(tmp_path, program, """
import ctypes
print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), ctypes.CDLL(sys.argv[2] + "/libcuda.so.1").cuInit(0), flush=True)
os._exit(6)
""", f"--probe={probe}")
    assert said[:2] == ("0 0\n", 6), said


def test_stopped_meanwhile(tmp_path, program):
    """A SIGSTOP of somebody else while a process is stopped for its library is not lost, except right before the tracer continues it."""
    states = []
    for _ in range(6):
        out, status, _ = traced_script(tmp_path, program, """
child = subprocess.Popen([sys.argv[1]], stdin=open(sys.argv[2] + "/commands"), stdout=subprocess.DEVNULL)
until_stopped(child.pid)
was = state(child.pid)
child.send_signal(signal.SIGSTOP)
time.sleep(0.5)
print(was, state(child.pid))
child.kill()
""")
        assert status == 0
        states += [out.split()[-1]] if out.split()[-2] == "T" else []
    assert states.count("T") >= len(states) / 2, states
