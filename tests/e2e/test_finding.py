# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 91
# own processes
"""Which libcuda is traced, from when on, and in which processes: mapped already or later, by a child, in a container, deleted, replaced,
several at once, stubs, 32-bit programs, files that are not libcuda."""
import collections
import glob
import os
import pathlib
import platform
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time

import pytest
from helpers.cli import one_line
from helpers.jsonl import Trace
from helpers.live import compiled, state
from helpers.run import ALL, CASES, CC, FAKE, FAKE535, MECHANISMS, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, passes, until

LIB, LIB535 = FAKE + "/libcuda.so.1", FAKE535 + "/libcuda.so.1"
LATE = CASES + "/dlopen_late"
# Mounts a private file system at a folder, with a file there as libcuda.so.1, and runs a command.
INSIDE = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$1" && cp "$2" "$1/libcuda.so.1" && shift 2 && exec "$@"', "sh"]
INITIALISED = {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1}


@pytest.fixture(autouse=True)
def can_trace(monkeypatch):
    needs_tracing()
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def copied(folder, name="libcuda.so.1", of=LIB):
    """A new file: another tracer may have probes in an older one (docs/RELIABILITY.md)."""
    folder.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy(of, folder / name))


def build_id(path):
    return re.search(r"Build ID: (\w+)", Ran(["readelf", "-n", path]).out)[1]


def allocated(n):
    return {"cuMemAlloc_v2": n, "cuMemFree_v2": n}


class Whole(Ran):
    """A trace of a command until its end."""

    def __init__(self, folder, *args):
        self.path, self.said = folder / "t.jsonl", folder / "t.out"
        self.__dict__.update(vars(cudatrace("-q", "--jsonl", self.path, *args)))
        self.said.write_text(self.out)

    @property
    def trace(self):
        return Trace(self.path)

    def as_expected(self):
        """Whether the trace has the calls that the program reported."""
        passes("cases/expect.py", self.path, self.said)
        return True

    def perfect(self):
        """All calls must be there, without a message, and the exit status passed on."""
        assert (self.status, self.err) == (0, ""), self
        return self.as_expected() and self.trace.accounts()


# A command's library is unknown until it is mapped: the command is stopped meanwhile. {lib} is at an odd path, {link} and {hard} are
# other names of it, {other} is a copy whose name only the user can identify. The last column holds for the trace.
COMMANDS = {
    "at an odd path": ([], [LATE, "{lib}", "100"], lambda t, at:
                       [(e["op"], e["path"], e["lib"]) for e in t.lib] == [("attached", at["lib"], 1)] and "note" not in t.lib[0]
                       and t.lib[0]["ts"] < min(c["ts"] for c in t.calls) and t.lib[0]["pid"] == t.calls[0]["pid"]),
    "through a link": ([], [LATE, "{link}", "50"], None),
    "one file, two names": ([], ["sh", "-c", '"$0" "$1" 20; "$0" "$2" 20', LATE, "{lib}", "{hard}"], lambda t, at:
                            [e["op"] for e in t.lib] == ["attached", "mapped"]),
    "--libcuda with another name": (["--libcuda", "{other}"], [LATE, "{other}", "20"], None),
    "by children of a shell": ([], ["sh", "-c", '"$@"; "$@" & wait', "sh", LATE, "{lib}", "50"], lambda t, at:
                               collections.Counter(p["op"] for p in t.proc) >= collections.Counter(fork=2, exit=3)),
    "after the command has ended": ([], ["sh", "-c", '"$@" 2>/dev/null &', "sh", LATE, "{lib}", "300"], None),
    "two files": ([], ["sh", "-c", '"$0" "$1" 50 & "$0" "$2" 50 & wait', LATE, "{lib}", "{lib535}"], lambda t, at:
                  sorted(e["lib"] for e in t.lib) == [1, 2]
                  and all(c.get("lib", 1) == e["lib"] for e in t.lib for c in t.calls if c["pid"] == e["pid"])),
    "mount namespace": ([], [*INSIDE, "{empty}", LIB, LATE, "{empty}/libcuda.so.1", "50"], lambda t, at:
                        not os.path.exists(at["empty"] + "/libcuda.so.1")
                        and [(e["op"], e["path"], len(e["build_id"])) for e in t.lib] == [("attached", at["empty"] + "/libcuda.so.1", 40)]),
}


def at_odd_path(tmp_path):
    at = {"lib": copied(tmp_path / "od d\\012é/x", "libcuda.so.987.65"), "other": copied(tmp_path, "mydriver.bin"),
          "hard": tmp_path / "libcuda.so.2",
          "link": tmp_path / "od d\\012é/driver.so", "lib535": copied(tmp_path / "535", of=LIB535), "empty": tmp_path / "empty"}
    os.link(at["lib"], at["hard"])
    os.symlink("x/libcuda.so.987.65", at["link"])
    at["empty"].mkdir()
    return {name: str(path) for name, path in at.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_command(tmp_path, name):
    """No call of a command may be missed, wherever its library is from."""
    options, command, holds = COMMANDS[name]
    if "unshare" in command and Ran(["unshare", "-m", "true"]).status:
        pytest.skip("unshare -m is not allowed here")
    at = at_odd_path(tmp_path)
    whole = Whole(tmp_path, "-e", ALL, *(x.format(**at) for x in options), "--", *(x.format(**at) if "{" in x else x for x in command))
    assert whole.perfect() and (not holds or holds(whole.trace, at)), whole.trace.lib


def test_no_follow(tmp_path):
    """--no-follow traces the command alone, not what it starts."""
    whole = Whole(tmp_path, "--no-follow", "-e", ALL, "--", "sh", "-c", '"$@"; exit 3', "sh", LATE, copied(tmp_path, of=LIB535), "20")
    assert whole.status == 3 and not whole.trace.calls and whole.trace.accounts()
    t = Whole(tmp_path, "--no-follow", "-e", ALL, "--libcuda", LIB, "--", "env", "LD_LIBRARY_PATH=" + FAKE, CASES + "/fork").trace
    assert {c["pid"] for c in t.calls} == {t.proc[0]["pid"]} and t.sym["cuMemAlloc_v2"] == 2 and t.accounts()


def test_pid_namespace(tmp_path):
    """Calls must have the process ids of outside."""
    whole = Whole(tmp_path, "-e", ALL, "--", "unshare", "-p", "-f", "-m", "--mount-proc", LATE, copied(tmp_path), "50")
    t = whole.trace
    assert whole.status == 0 and t.sym == {**INITIALISED,
                                           **allocated(1)} and {c["pid"] for c in t.calls} <= {p["pid"] for p in t.proc} and t.accounts()


def test_mapped_already(running):
    """Calls from then on must be traced, until the process ends."""
    c = running.caller().ready(LIB)
    assert c.tell("alloc 3") == 3
    tracer = running.tracer("t", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 5") == 5 and c.end() == 0 and tracer.ended() == 0
    t = tracer.trace
    assert t.sym == allocated(5) and t.accounts()
    assert [e["path"] for e in t.head["libraries"]] == [LIB] and t.head["pids"] == [c.pid]
    assert t.end["reason"] == "traced processes exited" and (t.proc[-1]["op"], t.proc[-1]["exit_code"]) == ("exit", 0)


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("mech", MECHANISMS)
def test_followed(running, mech, follow):
    """-p with and without children, with one probe per process and with many threads."""
    needs_mechanism(mech)
    # Attaching hundreds of single events takes long.
    functions = "cuInit,cuDevicePrimaryCtxRetain,cuCtxSetCurrent,cuMemAlloc,cuMemFree" if mech == "perf" else ALL
    c = running.caller().ready(LIB)
    tracer = running.tracer("t", "-e", functions, "--mechanism=" + mech, "-p", c.pid, *[] if follow else ["--no-follow"])
    assert (c.tell("child 7"), c.tell("threads 4 25"), c.tell("alloc 1")) == (7, 100, 1)
    c.end()
    tracer.ended()
    t = tracer.trace
    own = [e for e in t.calls if e["pid"] == c.pid]
    assert len(own) == 206 and len({e["tid"] for e in own}) == 5 and t.accounts()
    if follow:
        assert len([e for e in t.calls if e["pid"] == t.proc[0]["pid"] != c.pid]) == 17 and t.proc[0]["parent_pid"] == c.pid
    else:
        assert len(own) == len(t.calls) and len(t.proc) == 1


def test_mount_namespace(running, tmp_path):
    """With -p, the file inside must be found, although another one outside has the same path."""
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("unshare -m is not allowed here")
    lib = copied(tmp_path, of=LIB535)
    outside, inside = compiled(tmp_path / "../caller-inside", TESTS + "/caller.c"), tmp_path / "inside"
    inside.write_text(f"#!/bin/sh\nexec {shlex.join([*INSIDE, str(tmp_path), LIB, outside])}\n")
    inside.chmod(0o755)
    running.program = str(inside)
    c = running.caller().ready(lib)
    tracer = running.tracer("t", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 2") == 2
    c.end()
    tracer.ended()
    t = tracer.trace
    assert t.sym["cuMemAlloc_v2"] == 2 and t.accounts() and [e["build_id"] for e in t.head["libraries"]] == [build_id(LIB)]


def test_gone_from_disk(running, tmp_path):
    """A library that is deleted or replaced while a program has it mapped must be traced."""
    lib = copied(tmp_path / "gone")
    c = running.caller().ready(lib)
    os.unlink(lib)
    tracer = running.tracer("t", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 2") == 2
    tracer.stop()
    t = tracer.trace
    assert t.sym["cuMemAlloc_v2"] == 2 and t.accounts() and [e["path"]
                                                             for e in t.head["libraries"]] == [lib] and t.end["reason"] == "interrupted"
    # A new driver is installed under the running program.
    copied(tmp_path / "gone", of=LIB535)
    tracer = running.tracer("t", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 2") == 2
    c.end()
    tracer.ended()
    t = tracer.trace
    assert t.sym["cuMemAlloc_v2"] == 2 and t.accounts() and [e["build_id"] for e in t.head["libraries"]] == [build_id(LIB)]


def attached_later(tracer, path):
    """Whether the trace, which is written every half second, contains it."""
    return re.search(f'"type":"library","op":"attached".*"path":"{re.escape(path)}"', pathlib.Path(tracer.path).read_text(encoding="utf-8"))


def test_whole_system(running, tmp_path):
    """Two files at once, a process begun later, and a file found later: each call must have its own library."""
    new = copied(tmp_path / "later")
    one, two = running.caller().ready(LIB), running.caller().ready(LIB535)
    tracer = running.tracer("t", "-e", ALL)
    assert one.tell("alloc 3") == 3 and two.tell("alloc 4") == 4
    late, unknown = running.caller().ready(LIB), running.caller()
    # A trace of the whole system stops no process: calls before the end of attaching are not recorded.
    assert unknown.tell("open " + new) == 1
    until(lambda: attached_later(tracer, new))
    assert unknown.tell("init") == 0 and unknown.tell("alloc 6") == 6 and late.tell("alloc 5") == 5
    tracer.stop()
    t = tracer.trace
    assert t.accounts() and "pids" not in t.head and "command" not in t.head
    libs = {e["path"]: e for e in t.head["libraries"]}
    assert (libs[LIB]["build_id"], libs[LIB535]["build_id"]) == (build_id(LIB), build_id(LIB535))
    assert len({e["id"] for e in t.head["libraries"]}) == len(t.head["libraries"])
    calls = {c: [e for e in t.calls if e["pid"] == c.pid] for c in (one, two, late, unknown)}
    assert [len(calls[c]) for c in (one, two, unknown)] == [6, 8, 15]
    for c, lib in (one, LIB), (two, LIB535), (late, LIB):
        assert {e.get("lib", 1) for e in calls[c]} == {libs[lib]["id"]}
    assert collections.Counter(e["symbol"] for e in calls[late]) == {**INITIALISED, **allocated(5)}
    found = [e for e in t.lib if e["pid"] == unknown.pid]
    assert [(e["op"], e["path"]) for e in found] == [("attached", new)] and "not recorded" in found[0]["note"]


def test_two_files_in_one_process(running, tmp_path):
    """Each call must have its own library, also when the first one is called again."""
    lib = copied(tmp_path, of=LIB535)
    c = running.caller().ready(LIB)
    tracer = running.tracer("t", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 2") == 2 and c.tell("open " + lib) == 1
    until(lambda: attached_later(tracer, lib))
    assert c.tell("init") == 0 and c.tell("alloc 3") == 3
    c.tell("open " + LIB)
    assert c.tell("alloc 4") == 4
    c.end()
    tracer.ended()
    t = tracer.trace
    assert [len([e for e in t.calls if e["symbol"] == "cuMemAlloc_v2" and e.get("lib", 1) == i]) for i in (1, 2)] == [6, 3] and t.accounts()


def test_loaded_at_once(running, tmp_path):
    """Another process may map and close its file in less than a millisecond: the file may be gone when the tracer looks."""
    lib = copied(tmp_path / "once", of=LIB535)
    for _ in range(3):
        c = running.caller().ready(LIB)
        tracer = running.tracer("t", "-e", "cuMemAlloc,cuMemFree", "-p", c.pid)
        assert c.tell("alloc 2") == 2 and c.tell("open " + lib) == 1
        until(lambda t=tracer: attached_later(t, lib), 2)
        c.end()
        assert tracer.ended() == 0 and tracer.err == "", tracer.err


def stub_of(kind, tmp_path):
    if kind == "made here":
        # Functions of minimal size: 680 functions that return 34, like NVIDIA's stub for linking.
        names = [line.split()[2] for line in Ran(["nm", "-D", "--defined-only", LIB]).out.splitlines() if line.split()[1] == "T"]
        (tmp_path / "stub.c").write_text("".join(f"int {name.split('@')[0]}(void) {{ return 34; }}\n" for name in names))
        (tmp_path / "stubs").mkdir()
        return compiled(tmp_path / "stubs/libcuda.so.1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", tmp_path / "stub.c")
    nvcc = shutil.which("nvcc")
    found = glob.glob((os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) if nvcc else "/usr/local/cuda*") + "/lib*/stubs/libcuda.so")
    return found[0] if found else pytest.skip("no CUDA toolkit here")


@pytest.mark.parametrize("kind", ["made here", "of the CUDA toolkit"])
def test_stub(tmp_path, kind):
    """A stub must be refused with --libcuda, and not be traced where it is loaded."""
    stub, lib = stub_of(kind, tmp_path), copied(tmp_path)
    whole = cudatrace("-q", "--jsonl", tmp_path / "t.jsonl", "--libcuda", stub, "--", "true")
    assert whole.status == 1 and "stub" in whole.err
    # The stub is loaded before the driver, as with a wrong LD_LIBRARY_PATH.
    whole = Whole(tmp_path, "-e", ALL, "--", "sh", "-c", '"$0" "$1" 20 >/dev/null 2>&1; "$0" "$2" 20', LATE, stub, lib)
    t = whole.trace
    assert whole.as_expected() and t.accounts() and [e["path"] for e in t.lib if e["op"] == "attached"] == [lib]


# Made without a compiler: a program of three instructions, and one that maps a file named libcuda.so.1.
WAIT32 = """
.globl _start
_start: mov $29, %eax
int $0x80
jmp _start
"""
MAP32 = """
.globl _start
_start: mov $5, %eax
mov $file, %ebx
xor %ecx, %ecx
int $0x80
mov %eax, %edi
mov $192, %eax
xor %ebx, %ebx
mov $4096, %ecx
mov $5, %edx
mov $2, %esi
xor %ebp, %ebp
int $0x80
mov $1, %eax
mov $7, %ebx
int $0x80
.section .rodata
file: .asciz "LIB"
"""


def made32(folder, name, text):
    """A 32-bit program."""
    if platform.machine() != "x86_64":
        pytest.skip("not x86-64")
    path = str(folder / name)
    (folder / (name + ".s")).write_text(text)
    for command in (["as", "--32", "-o", path + ".o", path + ".s"], ["ld", "-m", "elf_i386", "-o", path, path + ".o"]):
        ran = Ran(command)
        if ran.status:
            pytest.skip(ran.err.split("\n")[0])
    return path


def test_32_bit_process(running, tmp_path):
    """-p must refuse it in one line, and leave it alone."""
    program = made32(tmp_path, "wait32", WAIT32)
    try:
        p = running.start(program)
    except OSError:
        pytest.skip("this kernel does not run them")
    until(lambda: state(p.pid) == "S")
    ran = cudatrace("-q", "--jsonl", tmp_path / "t.jsonl", "-p", p.pid)
    assert ran.status == 1 and ran.err.count("\n") == 1 and "32-bit" in ran.err, ran
    assert state(p.pid) == "S"


def test_32_bit_command(tmp_path):
    """It must be reported, its exit status passed on, and all else traced."""
    lib = copied(tmp_path)
    program = made32(tmp_path, "map32", MAP32.replace("LIB", lib))
    try:
        assert Ran([program]).status == 7
    except OSError:
        pytest.skip("this kernel does not run them")
    whole = Whole(tmp_path, "-e", ALL, "--", "sh", "-c", '"$0"; "$1" "$2" 20', program, LATE, lib)
    assert "32-bit program" in whole.err and whole.as_expected()
    assert (whole.trace.lib[0]["op"], whole.trace.lib[0]["note"]) == ("failed", "32-bit program")
    assert Whole(tmp_path, "-e", ALL, "--", program).status == 7


def driver():
    return bytearray(pathlib.Path(LIB).read_bytes())


def dynamic(tag):
    """The offset in the mock driver of the value of this dynamic entry."""
    data = driver()
    phoff, = struct.unpack_from("<Q", data, 32)
    size, number = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQ", data, phoff + i * size) for i in range(number)]
    off, length = next((h[2], h[5]) for h in headers if h[0] == 2)
    return next(at + 8 for at in range(off, off + length, 16) if struct.unpack_from("<Q", data, at)[0] == tag)


def patched(offset, form, value):
    """The mock driver with a number changed."""
    data = driver()
    struct.pack_into(form, data, offset, value)
    return data


def another_library(path):
    subprocess.run([*CC, "-shared", "-fPIC", "-xc", "-", "-o", str(path)], input=b"int zero(void) { return 0; }", check=True)


HASH = 0x6ffffef5
# What makes the file: its content, or a function of its path.
NO_LIBCUDA = {
    "not there": lambda f: None, "a folder": os.mkdir, "a FIFO": os.mkfifo, "a device": lambda f: os.symlink("/dev/zero", f),
    "empty": lambda f: b"", "no ELF": lambda f: b"int main(void) { return 0; }\n",
    "a program": lambda f: pathlib.Path(CASES + "/nested").read_bytes(), "another library": another_library,
    "of 32 bits": lambda f: pathlib.Path(made32(f.parent, "wait32", WAIT32)).read_bytes(),
    **{f"cut after {n} bytes": lambda f, n=n: driver()[:n] for n in (4, 63, 64, 200, 4096, -1)},
    "cut in half": lambda f: driver()[:len(driver()) // 2],
    "of another machine": lambda f: patched(18, "<H", 183), "of another byte order": lambda f: patched(5, "B", 2),
    "with program headers beyond the end": lambda f: patched(32, "<Q", 0xffffffffffffff00),
    "with tiny program headers": lambda f: patched(54, "<H", 1), "with 65535 program headers": lambda f: patched(56, "<H", 0xffff),
    "without program headers": lambda f: patched(56, "<H", 0),
    "with a string table nowhere": lambda f: patched(dynamic(5), "<Q", 0xfffffffffffffff0),
    "with an endless string table": lambda f: patched(dynamic(10), "<Q", 0x7fffffffffffffff),
    "with a symbol table in the header": lambda f: patched(dynamic(6), "<Q", 1),
    "without a hash table": lambda f: patched(dynamic(HASH), "<Q", 0),
    "with a hash table nowhere": lambda f: patched(dynamic(HASH), "<Q", 0xffffffffffff),
}


@pytest.mark.parametrize("kind", NO_LIBCUDA)
def test_no_libcuda(tmp_path, kind):
    """--libcuda must refuse the file at once, in one line with the error."""
    path = tmp_path / "bad.so"
    content = NO_LIBCUDA[kind](path)
    if content is not None:
        path.write_bytes(content)
    one_line(cudatrace("-q", "-e", "cuInit", "--jsonl", tmp_path / "t.jsonl", "--libcuda", path, "--", "true", timeout=30), 1, ".")


def test_random_damage(tmp_path):
    """Any other damage must cause no crash and no hang; if the file is still a library, it is traced."""
    for seed in range(1, 9):
        data, r = driver(), random.Random(seed)
        for _ in range(r.choice((1, 4, 40))):
            data[r.randrange(r.choice((64, 1024, 65536)))] = r.choice((0, 1, 0x7f, 0x80, 0xff, r.randrange(256)))
        (tmp_path / "mutant.so").write_bytes(data)
        ran = cudatrace("-q", "-e", "cuInit", "--jsonl", tmp_path / "t.jsonl", "--libcuda", tmp_path / "mutant.so", "--", "true",
                        timeout=30)
        assert ran.status == 0 or (ran.status, ran.err.count("\n")) == (1, 1), f"seed {seed}: {ran}"


def test_hostile_mapped(tmp_path):
    """A file that is named and mapped like a libcuda must be reported once and counted, and all else be traced."""
    (tmp_path / "h").mkdir()
    (tmp_path / "h/libcuda.so.1").write_bytes(b"x" * 8192)
    map_code = "import mmap, os, sys; mmap.mmap(os.open(sys.argv[1], 0), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)"
    whole = Whole(tmp_path, "-e", ALL, "--", "sh", "-c", '"$0" -c "$1" "$2"; "$3" "$4" 20', sys.executable, map_code,
                  tmp_path / "h/libcuda.so.1",
                  LATE, copied(tmp_path))
    assert whole.status == 0 and whole.rest().count("\n") == 1 and "not an ELF file" in whole.err, whole
    assert "missing: 1 library without probes" in whole.err
    assert whole.as_expected() and whole.trace.accounts()


def test_duration(running, tmp_path):
    """A trace of the whole system must end by itself, and have the calls of a program begun later."""
    copied(tmp_path / "e")
    env, started, out = {"LD_LIBRARY_PATH": str(tmp_path / "e")}, tmp_path / "started.jsonl", tmp_path / "out"
    tracer = running.tracer("t", "-e", ALL, "--duration", "1.5", env=env)
    begun = time.monotonic()
    with open(out, "wb") as f:
        p = running.start(CASES + "/nested", env=env, stdout=f)
    assert p.wait(60) == 0 and tracer.ended() == 0
    assert 1 <= time.monotonic() - begun < 10
    t = tracer.trace
    assert t.end["reason"] == "duration" and t.end["wall_ms"] >= 1500 and t.accounts()
    # The trace may have other programs of this machine.
    started.write_text("".join(line for line in open(tracer.path, encoding="utf-8") if f'"pid":{p.pid},' in line))
    passes("cases/expect.py", started, out)


def test_late_names(running, tmp_path):
    """Names of kernels that were loaded before the tracer must be read from the memory behind the handles."""
    out = tmp_path / "out"
    with open(out, "wb") as f:
        # The process must still exist when its last handles are read: cudatrace takes up to a second when little happens.
        p = running.start(CASES + "/late_names", env={"FAKE_DELAY_US": "cuStreamSynchronize:1200000", "LD_LIBRARY_PATH": FAKE},
                          stdin=subprocess.PIPE, stdout=f)
    until(lambda: "ready" in out.read_text())
    tracer = running.tracer("t", "-e", ALL, "-p", p.pid)
    p.communicate(b"\n", 60)
    assert p.returncode == 0
    tracer.ended()
    passes("cases/expect.py", tracer.path, out)
    assert collections.Counter(c.get("kernel_source") for c in tracer.trace.calls if c["symbol"] == "cuLaunchKernel") == {"handle": 12,
                                                                                                                          None: 3}
    assert tracer.trace.accounts()


def test_two_tracers(running):
    """Each must have the calls of its own time, and the target must go on."""
    c = running.caller().ready(LIB)
    first = running.tracer("first", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 10") == 10
    second = running.tracer("second", "-e", ALL, "-p", c.pid)
    assert c.tell("alloc 100") == 100
    first.stop()
    assert c.tell("alloc 1000") == 1000
    c.end()
    second.ended()
    for tracer, n in (first, 110), (second, 1100):
        assert tracer.trace.sym == allocated(n) and tracer.trace.accounts()


def test_call_under_way(running, tmp_path):
    """If a call is in progress when the tracer attaches, its return must be no event, and the thread's next call not nested in it."""
    out = tmp_path / "out"
    with open(out, "wb") as f:
        p = running.start(CASES + "/inflight", "5000", env={"LD_LIBRARY_PATH": FAKE}, stdout=f)
    until(lambda: "ready" in out.read_text())
    tracer = running.tracer("t", "-e", ALL, "-p", p.pid)
    p.wait(60)
    tracer.ended()
    passes("cases/expect.py", tracer.path, out)
    assert tracer.trace.accounts()
