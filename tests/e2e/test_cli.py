# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""The command line: an error is one line that also contains the remedy. Also tests exit statuses, and check. Suite cli_help has the rest."""
import collections
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest
from helpers.cli import command, one_line, words
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CASES, CUDATRACE, FAKE, FAKE535, TESTS, Ran, needs_mechanism, needs_tracing, until

LIB = FAKE + "/libcuda.so.1"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("LD_LIBRARY_PATH", "SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def shared():
    """What {NAME} is in command lines."""
    top = pathlib.Path(os.environ["TMP"])
    top.chmod(0o755)
    for name, mode in {"folder": 0o700, "dir": 0o755, "ro": 0o755, "mine": 0o777, "first": 0o755, "first/found": 0o755,
                       "then": 0o755}.items():
        (top / name).mkdir()
        (top / name).chmod(mode)
    texts = {"script": "exit 0\n", "interpreter": f"#!{top}/none\n", "elf": "\177ELF and more", "empty": "", "folder/run": "#!/bin/sh\n",
             "then/found": "#!/bin/sh\nexit 5\n", "plain": "exit 0\n"}
    for name, text in texts.items():
        (top / name).write_text(text)
        (top / name).chmod(0o644 if name == "plain" else 0o755)
    (top / "short").write_bytes(pathlib.Path(LIB).read_bytes()[:4096])
    # The user nobody cannot read all folders.
    shutil.copy(CUDATRACE, top / "ct")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return {"tmp": str(top), "ct": str(top / "ct"), "lib": LIB, "me": os.getpid(),
            "libc": re.search(r"(/\S*libc\.so\S*)", Ran(["ldd", shutil.which("bash")]).out)[1],
            "user": user, **{caps: [*user, *(f"--{of}-caps=+" + caps.replace("_and_", ",+") for of in ("inh", "ambient"))]
                             for caps in ("bpf", "perfmon", "bpf_and_perfmon_and_sys_ptrace")},
            "closed": ["sh", "-c", 'exec "$@" >&-', "sh"], "all_closed": ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh"],
            "full": ["sh", "-c", 'exec "$@" >/dev/full', "sh"],
            "read_only": ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"', "sh", str(top / "ro")],
            "no_btf": ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"],
            "older": ["env", "LD_LIBRARY_PATH=" + FAKE, "LD_PRELOAD=" + compiled(top / "lacks.so", "-shared", "-fPIC", TESTS + "/lacks.c")],
            "sample": ["sh", "-c", FAKE + "/sample --quiet >/dev/null"], "fake": FAKE,
            "undocumented": ["sh", "-c", CASES + "/undocumented >/dev/null"]}


@pytest.fixture
def places(shared, tmp_path):
    x = str(tmp_path / "x.jsonl")
    return {**shared, "x": x, "to_x": ["-q", "-e", "launch", "--jsonl", x]}


@pytest.fixture
def run(places):
    return lambda line, **how: command("cudatrace " + line if not {"cudatrace", "{ct}"} & {*line.split()} else line, places, **how)


USAGE = """
--max-events 1.5 -- true                            # write it as
--duration 10y -- true                              # write it as|smaller
-p 4194305                                          # highest is
--buffer-size 1000 -- true                          # smallest is 64K
--buffer-size 32K -- true                           # smallest is 64K
--buffer-size 65535 -- true                         # smallest is 64K
--buffer-size 2G -- true                            # largest is 1G
--buffer-size 1025M -- true                         # largest is 1G
--buffer-size 18446744073709551616 -- true          # largest is 1G
--buffer-size 18014398509481984K -- true            # largest is 1G
--buffer-size 100000 -- true                        # nearest are 64K and 128K
--buffer-size 3M -- true                            # nearest are 2M and 4M
--buffer-size 16X -- true                           # as in --buffer-size
-p 1 -- true                                        # not both
-p 1 true                                           # not both
--jsonl - --chrome - -- true                        # only one may be -
--jsonl - --jsonl - -- true                         # only one may be -
--jsonl {x} --chrome {x} -- true                    # its own file
--jsonl --chrome x -- true                          # looks like an option
--jsonl '' -- true                                  # FILE is empty
--jsonl                                             # as in --jsonl FILE
--jsnl x -- true                                    # did you mean --jsonl\\?
-jsonl x -- true                                    # did you mean --jsonl\\?
--frobnicate -- true                                # cudatrace --help
-Z                                                  # cudatrace --help
--m 3                                               # any of: .*--max-events|any of: .*--min-duration
--quiet=yes                                         # leave out '=yes'
--mechanism ptrace -- true                          # one of: auto session multi perf
--completion=csh                                    # one of: bash zsh fish
-- ''                                               # COMMAND is empty
--                                                  # COMMAND is missing
list libcuda.so.1                                   # takes no arguments
list --duration 3                                   # leave it out
--names                                             # belongs to cudatrace list
report --json --format=html x.jsonl                 # leave one out
-e cuLaunchKernal -- true                           # did you mean cuLaunchKernel\\?
-e memry -- true                                    # did you mean memory\\?
-e 'launch,!trasnfer' -- true                       # did you mean transfer\\?
-e zzzzzzzz -- true                                 # cudatrace list
-e 'cuZZ*' -- true                                  # cudatrace list
-e '!' -- true                                      # names nothing
-e '' -- true                                       # names nothing
-e cuFakeUndocumentex --libcuda {lib} {to_x} -- true # unknown function or class "cuFakeUndocumentex"
--detail=medium -- true                             # one of: low normal high all
list -e memry                                       # did you mean memory\\?
list --ioctls --detail=low                          # leave one out
help no-such-topic                                  # one of: which .*target.*ctl
--duration 1 -e launch                              # add a command, -p PID, or -a
-a -p 1                                             # leave out -p
"""
NUMBERS = ["duration", "max-events", "min-duration", "pid", "buffer-size"]
WRONG = ["-1", "-99", "x", "''", "' 1'", "+1", "0x10", "1e3", "nan", "inf", "1,,2", "'1 2'", "9" * 23]
USAGE = [tuple(x.strip() for x in line.split(" # ")) for line in USAGE.strip().split("\n")]
USAGE += [(f"--{o} 0 -- true", "above 0|use -a instead|smallest is 64K") for o in NUMBERS]
# -p accepts spaces.
USAGE += [(f"--{o} {v} -- true", "give|write it as|leave .* out|the (highest|largest) is|take") for o in NUMBERS
          for v in WRONG if o != "pid" or " " not in v]


@pytest.mark.parametrize("line,says", USAGE)
def test_usage(run, line, says):
    """Wrong arguments must end the program with status 2, and one line with what to write instead."""
    one_line(run(line), 2, says)


MULTI, SESSION = 48, 57
NO_SESSION, NO_LINKS = f"LACKS=' {SESSION} '", f"LACKS=' {SESSION} {MULTI} '"
# ENOMEM; EINVAL could also concern the instruction.
NO_MEMORY, INVALID = "FAILS='12 ", "FAILS='22 "
NOT_HERE = r"warning: uprobe.session does not work here \({}\): functions are probed by {}$"
PRIVILEGES = "privilege CAP_BPF, privilege CAP_PERFMON: .*: run it with sudo"
# The command, its status, what the line on stderr matches, and what holds for the trace: None for no trace.
TRACES = [
    ("--libcuda {tmp}/none.so {to_x} -- true", 1, "give the path of a libcuda", None),
    ("--libcuda {tmp}/dir {to_x} -- true", 1, "libcuda.so.1", None),
    ("--libcuda tests/run.sh {to_x} -- true", 1, "not an ELF file", None),
    ("--libcuda {tmp}/short {to_x} -- true", 1, "short: .*", None),
    ("--libcuda {libc} {to_x} -- true", 1, "not a libcuda: it exports no function", None),
    ("list --libcuda {tmp}/none.so", 1, "give ", None),
    ("list --libcuda tests/run.sh", 1, "give --libcuda a libcuda.so.1", None),
    # Verbs and habits of other programs.
    ("{to_x} record x", 1, "tracing needs no subcommand: cudatrace -- COMMAND", None),
    ("{to_x} attach 1", 1, "cudatrace -p PID", None),
    ("{to_x} -- 'no-such-program x.py'", 1, "remove the quotes, or .*sh -c", None),
    ("{to_x} -- NAME=1 true", 1, "cudatrace -- env NAME=VALUE", None),
    ("{to_x} trace trace", 1, "no such command in PATH", None),
    # Commands that do not exist, or that cannot be executed.
    ("{to_x} -- no-such-command", 1, "in PATH: give its path", None),
    ("{to_x} -- {tmp}/none", 1, "no such file: check", None),
    ("{to_x} -- {tmp}/plain/none", 1, "no such file: check", None),
    ("{to_x} -- {tmp}/plain", 1, r"chmod \+x", None),
    ("{to_x} -- {tmp}/folder", 1, "name a program in it", None),
    ("{to_x} -- {tmp}/interpreter", 1, "interpreter.*install", "could not start"),
    ("{to_x} -- {tmp}/elf", 1, "neither a program .* nor a script", "could not start"),
    ("{to_x} -- {tmp}/empty", 1, "neither a program .* nor a script", "could not start"),
    ("{to_x} -- {tmp}/script", 1, "a script with a #! line", "could not start"),
    ("{to_x} --user 65534 -- {tmp}/folder/run", 1, "check that its user may", "could not start"),
    ("{to_x} --user no-such-user -- true", 1, "give its number", None),
    ("env PATH=/nowhere:{tmp} cudatrace {to_x} -- script", 1, ".", "could not start"),
    # A folder with the command's name comes first.
    ("env PATH={tmp}/first:{tmp}/then:/usr/bin:/bin cudatrace {to_x} -- found", 5, "", "command exited"),
    # Outputs that cannot be written.
    *(row for o in ("--jsonl", "--chrome", "--perfetto") for row in (
        (f"-q -e launch {o} {{tmp}}/none/x -- true", 1, "create the directory", None),
        (f"-q -e launch {o} {{tmp}}/plain/x -- true", 1, "create the directory|another file", None),
        (f"-q -e launch {o} {{tmp}}/dir -- true", 1, "name a file in it", None),
        (f"-q -e launch {o} /dev/full -- sh -c 'echo runs'", 1, "free some space", None),
        (f"{{read_only}} cudatrace -q -e launch {o} {{tmp}}/ro/x -- true", 1, "another file system", None))),
    ("{to_x} --chrome {tmp}/dir -- true", 1, "name a file in it", "could not start"),
    ("{closed} cudatrace -q -e launch --jsonl - -- true", 1, "standard output is closed", None),
    ("{closed} cudatrace list", 1, "cannot write to stdout", None),
    ("{full} cudatrace list", 1, "cannot write to stdout", None),
    ("{all_closed} cudatrace {to_x} -- sh -c 'exit 6'", 6, "", "command exited"),
    # The exit status is the command's.
    *((f"{{to_x}} -- sh -c 'exit {n}'", n, "", "command exited") for n in (0, 7, 255, 127, 2)),
    *((f"{{to_x}} -- sh -c 'kill -{n} $$'", 128 + n, "", "command exited") for n in (15, 9, 2)),
    ("{to_x} -p {me} --duration 0.1", 0, "", "duration"),
    ("{to_x} sh -c 'exit 4'", 4, "", "command exited"),
    ("trace {to_x} --no-summary -- sh -c 'exit 5'", 5, "", "command exited"),
    # A function that the library has and the table lacks.
    ("env LD_LIBRARY_PATH={fake} cudatrace {to_x} -e cuFakeUndocumented -- {undocumented}", 0, "",
     lambda t: t.sym == {"cuFakeUndocumented": 11}),
    ("env LD_LIBRARY_PATH={fake} cudatrace {to_x} -e 'cuFakeUnd*' --entry-only cuFakeUndocumented --libcuda {lib} -- {undocumented}", 0, "",
     lambda t: t.sym == {"cuFakeUndocumented": 11} and t.head["entry_only"] == "other (1 function)"),
    # Users with few capabilities. CAP_BPF and CAP_PERFMON are enough.
    ("{user} {ct} --probe=uprobe -q --jsonl {x} -- true", 1, PRIVILEGES, None),
    ("{user} {ct} --probe=uprobe -q --kernel --jsonl {x} -- true", 1, PRIVILEGES, None),
    ("{user} {ct} -q --jsonl {x} -p {me}", 1, PRIVILEGES, None),
    ("{user} {ct} -q --jsonl {x}", 1, PRIVILEGES, None),
    ("{bpf} {ct} --probe=uprobe -q --jsonl {x} -- true", 1, "without: privilege CAP_PERFMON: .*: run it with sudo", None),
    ("{perfmon} {ct} --probe=uprobe -q --jsonl {x} -- true", 1, "without: privilege CAP_BPF: .*: run it with sudo", None),
    ("{bpf_and_perfmon_and_sys_ptrace} {ct} -q -e launch --jsonl {tmp}/mine/x -- sh -c 'exit 3'", 3, "", None),
    ("{bpf_and_perfmon_and_sys_ptrace} {ct} -q -e launch --user 12345 --jsonl {tmp}/mine/x -- true", 1, "run cudatrace as root", None),
    # Older kernels, or those that do not load or attach our program: the request is refused.
    ("{no_btf} cudatrace {to_x} -- true", 1, "BTF.*CONFIG_DEBUG_INFO_BTF", None),
    (f"{{older}} LACKS=' -1 {SESSION} {MULTI} ' cudatrace {{to_x}} --libcuda {{lib}} -- true", 1, "without: uprobes: .*CONFIG_UPROBES",
     None),
    (f"{{older}} {NO_SESSION} cudatrace --mechanism=session {{to_x}} --libcuda {{lib}} -- true", 1, "no uprobe.session: leave", None),
    (f"{{older}} {NO_LINKS} cudatrace --mechanism=multi {{to_x}} --libcuda {{lib}} -- true", 1, "no uprobe.multi: leave", None),
    ("{older} REFUSES=ct_session cudatrace --mechanism=session {to_x} --libcuda {lib} -- true", 1,
     "uprobe.session does not work here: Invalid argument: leave the option out", None),
    *((f"{{older}} {INVALID}{SESSION} {MULTI} ' cudatrace --mechanism={m} {{to_x}} -- {{sample}}", 1,
       f"uprobe.{m} does not work here: Operation not supported: leave the option out", None) for m in ("session", "multi")),
    ("{older} REFUSES=ct_nv_sys_enter CUDATRACE_TEST_NV_BY_NAME=1 cudatrace --kernel --kernel-probe=tracepoint {to_x} -- {sample}", 1,
     "--kernel-probe=tracepoint does not work here: Invalid argument", None),
    # Else, the next best is used.
    (f"{{older}} {NO_SESSION} cudatrace {{to_x}} -- {{sample}}", 0, "", lambda t: t.head["mechanism"] == "uprobe.multi"
     and len(t.head["degraded"]) == 1 and t.calls),
    (f"{{older}} {NO_LINKS} cudatrace {{to_x}} -- {{sample}}", 0, "", lambda t: t.head["mechanism"] == "uprobe"
     and len(t.head["degraded"]) == 2 and t.calls),
    ("{older} REFUSES=ct_session cudatrace {to_x} -- {sample}", 0, NOT_HERE.format("Invalid argument", "uprobe.multi"),
     lambda t: t.head["mechanism"] == "uprobe.multi" and t.calls),
    *((f"{{older}} {fails}{links}' cudatrace {{to_x}} -- {{sample}}", 0, NOT_HERE.format(why, mech),
       lambda t, mech=mech: t.head["mechanism"] == mech and t.head["probe_cost_ns"] > 0 and t.calls)
      for links, mech in ((f"{SESSION} ", "uprobe.multi"), (f"{SESSION} {MULTI} ", "uprobe"))
      for fails, why in ((NO_MEMORY, "Cannot allocate memory"), (INVALID, "Operation not supported"))),
    ("{older} REFUSES=ct_nv_sys_enter CUDATRACE_TEST_NV_BY_NAME=1 cudatrace --kernel {to_x} -- {sample}", 0,
     r"warning: --kernel: cannot probe the driver here \(Invalid argument\): only CUDA calls are traced$",
     lambda t: "kernel_probe" not in t.head and t.calls),
]


@pytest.mark.parametrize("line,status,says,trace", TRACES, ids=[row[0] for row in TRACES])
def test_traces(run, places, line, status, says, trace):
    """A command that cannot be traced must leave no trace, one that cannot be executed a whole one. A message is one line."""
    needs_mechanism("multi") if "sys_ptrace" in line else needs_tracing()
    one_line(run(line), status, says)
    if not trace:
        assert not os.path.exists(places["x"])
        return
    t = Trace(places["x"])
    assert t.accounts() and (trace(t) if callable(trace) else t.end["reason"] == trace), (t.head, t.end)
    assert trace != "could not start" or not t.calls and not t.proc


def test_folder_traces_is_a_file(run, tmp_path):
    needs_tracing()
    (tmp_path / "traces").touch()
    one_line(run("-q -e launch -- true", cwd=tmp_path), 1, "choose|another file|create")


def test_process_without_cuda(run, places, running):
    """It must be waited for, with one line about it, except with --no-wait."""
    needs_tracing()
    pid = running.start("sleep", 60).pid
    one_line(run(f"--no-wait {{to_x}} -p {pid}"), 1, "leave out --no-wait")
    one_line(run(f"--no-summary --jsonl {{x}} -e launch --duration 0.2 -p {pid}"), 0, f"process {pid} has not loaded libcuda yet: waiting")
    t = Trace(places["x"])
    assert t.head["pids"] == [pid] and t.end["reason"] == "duration" and not t.calls


def test_process_that_does_not_exist(run, running):
    needs_tracing()
    p = running.start("true")
    p.wait()
    one_line(run(f"{{to_x}} -p {p.pid}"), 1, "ps -e")
    one_line(run(f"{{to_x}} -p {{me}},{p.pid}"), 1, f"{p.pid}.*ps -e")


def test_no_libcuda_on_this_machine(run):
    """In a private PID namespace, because other processes on this machine may have libcuda."""
    needs_tracing()
    if "libcuda.so.1" in Ran(["ldconfig", "-p"]).out or Ran(["unshare", "-pfm", "--mount-proc", "true"]).status:
        pytest.skip("there is one")
    one_line(run("unshare -pfm --mount-proc cudatrace --no-wait {to_x} --duration 1"), 1, "leave out --no-wait")


def test_process_that_ends_while_attaching(places, running):
    """It ends between the check of its number and its inspection: while the BPF programs are loaded."""
    needs_tracing()
    for _ in range(5):
        p = running.start("sleep", 60)
        tracer = running.start(*words(f"cudatrace {{to_x}} -p {p.pid}", places), stderr=subprocess.PIPE, text=True)
        until(lambda pid=tracer.pid: "bpf-map" in Ran(["ls", "-l", f"/proc/{pid}/fd"]).out)
        p.kill()
        p.wait()
        said = tracer.communicate(timeout=60)[1]
        # The process may also end later.
        if tracer.returncode:
            break
    why = f"process {p.pid} ended while attaching: start it as a command instead: cudatrace -- COMMAND"
    assert (tracer.returncode, said) == (1, f"cudatrace: {why}\n")


def test_command_has_its_own_options(run):
    needs_tracing()
    ran = run("{to_x} -- env FOO=bar sh -c 'echo \"$FOO\" $#; echo err >&2; exit 3' sh -e --jsonl -q")
    assert (ran.status, ran.out, ran.err) == (3, "bar 3\n", "err\n")


def test_command_inherits_nothing(run, tmp_path):
    """Signal masks, ignored signals and descriptors must be those without us."""
    needs_tracing()
    see = "sh -c 'grep -E \"^(SigBlk|SigIgn)\" /proc/self/status; ls /proc/self/fd | wc -l'"
    assert run("{to_x} -- " + see).out == command(see).out
    ignores = compiled(tmp_path / "ignores", TESTS + "/ignores.c")
    grep = "grep SigIgn /proc/self/status"
    assert run(f"{ignores} cudatrace {{to_x}} -- {grep}").out == command(f"{ignores} {grep}").out != ""


def states(text):
    """The rows of cudatrace check --json that have a state."""
    found, todo = [], [json.loads(text)]
    while todo:
        x = todo.pop()
        found += [x] if isinstance(x, dict) and "state" in x else []
        todo += x.values() if isinstance(x, dict) else x if isinstance(x, list) else []
    return found


def about_us(err):
    """Lines of check that are not about other processes, all of which it inspects, such as those of suite blocking."""
    return [line for line in err.splitlines() if " of process " not in line]


def test_check(run):
    """check must sum up, and for each row print what is lost and how to fix it; --kernel has the best mechanism of those that exist."""
    needs_tracing()
    ran = run("check")
    assert ran.status == 0 and not about_us(ran.err) and re.search("^Tracing is possible, with uprobe", ran.out, re.M)
    d = json.loads(text := run("check --json").out)
    found = states(text)
    assert len(found) > 15
    for x in found:
        assert x["name"] and x["what"] and (x["state"] == "yes" or x["lost"] and x["fix"]), x
    has = {x["name"] for x in d["capabilities"] if x["state"] == "yes"}
    ways = [way for way in ("kprobe.multi", "fentry", "kprobe") if way.replace(".", "_") in has] + ["tracepoint"]
    # fentry needs the driver's own type information.
    if ways[0] == "fentry" and os.path.exists("/sys/module/nvidia") and not os.path.exists("/sys/kernel/btf/nvidia"):
        ways.pop(0)
    assert d["kernel_probe"] == ways[0] and f"; --kernel probes the driver by {ways[0]}.\n" in ran.out
    ran = run("{full} cudatrace check")
    assert ran.status == 1 and "cannot write to stdout" in ran.err


def test_check_of_a_library(run):
    text = run(f"check --json --libcuda {FAKE535}/libcuda.so.1").out
    found = re.findall(r'\{[^{}]*"path": ?"' + re.escape(FAKE535) + r'/libcuda.so.1"[^{}]*\}', text)
    assert [(x["functions"] > 400, x["shifted_probes"] > 400) for x in map(json.loads, found)] == [(True, True)], text


def test_check_not_root(run):
    """check must print which privileges are missing, and that there is no way of tracing; list needs none."""
    needs_tracing()
    ran = run("{user} {ct} check")
    assert ran.status == 1 and re.search(r"no  *privilege CAP_BPF", ran.out), ran
    d = json.loads(text := run("{user} {ct} check --json").out)
    assert (d["can_trace"], d["mechanism"], d["kernel_probe"]) == (False, None, None)
    assert [x["state"] for x in states(text) if x["name"] == "cap_bpf" and x["fix"]] == ["no"]
    ran = run("{user} {ct} list")
    assert (ran.status, ran.err) == (0, "")


def test_check_of_older_kernels(run):
    """check must print what is lost without links, and what ends programs; without uprobes or BTF, that tracing is not possible."""
    needs_tracing()
    out = run(f"{{older}} {NO_LINKS} cudatrace check").out
    assert re.search(r"no  *uprobe.multi", out)
    assert "another, higher stack during a call (coroutines) is killed by SIGILL" in " ".join(out.split())
    ran = run(f"{{older}} LACKS=' -1 {SESSION} {MULTI} ' cudatrace check")
    assert ran.status == 1 and ran.out.count("Tracing by uprobes is not possible") == 1
    ran = run("{no_btf} cudatrace check")
    assert ran.status == 1 and not about_us(ran.err) and len(re.findall("no  *type information", ran.out)) == 1


FUNCTION = ".globl {0}\n.type {0},@function\n{0}: {1}\n xor %eax,%eax\n ret\n.size {0},.-{0}\n"
ODD = {"cuTraps": "hlt", "cuTakesVex": "vzeroupper", "cuPorts": "vpxor %xmm0,%xmm0,%xmm0", "cuLocked": "lock incl (%rsp)"}


def test_instructions_that_the_kernel_refuses(run, places, tmp_path):
    """The kernel refuses a link as a whole; finding the refused functions took a second. All others must be attached in time."""
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("of x86-64")
    plain = ["cuInit", "cuMemAlloc_v2", *(f"cuMine{i}" for i in range(1, 121))]
    code = {**dict.fromkeys(plain, "push %rbp\n pop %rbp"), **ODD}
    (tmp_path / "refused.S").write_text(".text\n" + "".join(FUNCTION.format(*row)
                                                            for row in code.items()) + '.section .note.GNU-stack,"",@progbits\n')
    lib = compiled(tmp_path / "refused.so", "-shared", "-nostdlib", "-Wl,-soname,libcuda.so.1", tmp_path / "refused.S")
    took = []
    while len(took) < 5 and (not took or took[-1] >= 300):
        ran = run(f"-v --jsonl {{x}} --libcuda {lib} -- true")
        took.append(float(re.search(r" functions attached in ([\d.]+)", ran.err)[1]))
    assert took[-1] < 300, took
    # Newer kernels accept more of these instructions.
    assert 123 <= Trace(places["x"]).head["libraries"][0]["functions"] <= 124
    named = collections.Counter(re.findall(r"cannot probe the first instruction of (\w+)", ran.err))
    assert (named["cuTraps"], named["cuLocked"]) == (1, 1) and not set(named) & {*plain, "cuTakesVex"}, ran.err
