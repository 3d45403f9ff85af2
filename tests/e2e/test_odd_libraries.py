# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 20
"""Unusual but real libraries, and processes that cannot be inspected: every producer must report what is not traced."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CC, CUDATRACE, FAKE, TESTS, Ran, needs_tracing

LIB = FAKE + "/libcuda.so.1"
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
# The tracer's user and options.
PRODUCERS = {"uprobe": ([], "uprobe"), "both": ([], "inject"), "user": (NOBODY, "auto"), "no ptrace": (["setpriv", "--bounding-set=-sys_ptrace"], "uprobe")}
ALL = ["uprobe", "both", "user"]


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


@pytest.fixture(scope="module")
def caller():
    """tests/caller.c in a folder that users may read and write."""
    folder = os.environ["TMP"] + "/odd"
    os.chmod(os.environ["TMP"], 0o755)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    shutil.copy(CUDATRACE, folder)
    os.chmod(folder + "/cudatrace", 0o755)
    if Ran([*NOBODY, "test", "-x", folder + "/cudatrace", "-a", "-r", LIB]).status:
        pytest.skip("the folder of tests is not to be seen by others")
    return compiled(folder + "/caller", TESTS + "/caller.c")


def trace(caller, who, says, *args, before=(), quiet=True, library=LIB, env=()):
    """Runs a caller with these commands, one per line, whose library is found only there. Returns the tracer's messages and the trace."""
    folder, (user, probe) = os.path.dirname(caller), PRODUCERS[who]
    path = folder + "/t.jsonl"
    if os.path.exists(path):
        os.unlink(path)
    p = subprocess.run([*user, folder + "/cudatrace", *["-q"][:quiet], "--no-summary", f"--probe={probe}", "-e", "memory", *args, "--jsonl", path, "--",
                        *before, caller], input=says.format(lib=library), capture_output=True, text=True, timeout=60, check=False,
                       env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"} | dict(env))
    assert p.returncode == 0, p.stderr
    return p.stderr, Trace(path)


def lost(caller):
    """What is missing in the last trace by its report."""
    return [x["id"] for x in json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", os.path.dirname(caller) + "/t.jsonl"]).out)["lost"]]


@pytest.mark.parametrize("who", ALL)
@pytest.mark.parametrize("says", ["memfd {lib}\ninit\nalloc 30\n", "memfd {lib}\ninit\nleave\nalloc 30\n", "open {lib}\nmemfd {lib}\ninit\nalloc 30\n",
                                  "memfd {lib}\ninit\nchild 30\n"], ids=["plain", "headless", "beside", "child"])
def test_in_memory(caller, who, says):
    """A library from memfd_create() has no name and is open for writing in its process: it must be traced."""
    said, t = trace(caller, who, says)
    assert (said, t.sym["cuMemAlloc_v2"]) == ("", 30), said
    assert t.accounts() and "/memfd:libcuda.so.1" in {e["path"] for e in t.lib}


IFUNC = """
typedef unsigned long size_t;
static int get(void **p, size_t n) { *p = (void *)(n + 64); return 0; }
static int put(void *p) { return p == 0; }
static void *pick_get(void) { return get; }
static void *pick_put(void) { return put; }
int cuMemAlloc_v2(void **p, size_t n) __attribute__((ifunc("pick_get")));
int cuMemFree_v2(void *p) __attribute__((ifunc("pick_put")));
int cuInit(unsigned f) { return f; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = c; return d; }
int cuCtxSetCurrent(void *c) { return !c; }
"""


@pytest.fixture(scope="module")
def ifunc(caller):
    """A libcuda with two functions that are chosen at load time."""
    folder = os.path.dirname(caller) + "/ifunc"
    os.mkdir(folder)
    with open(folder + "/i.c", "w", encoding="utf-8") as f:
        f.write(IFUNC + "".join(f"int cuOther{i}(void) {{ static volatile int x; return x++; }}\n" for i in range(60)))
    if Ran([*CC, "-O2", "-shared", "-fPIC", "-o", folder + "/libcuda.so.1", folder + "/i.c"]).status:
        pytest.skip("this compiler has no ifunc")
    return folder + "/libcuda.so.1"


SAYS = "no probe for 2 functions, whose code is chosen when the library is loaded (STT_GNU_IFUNC): cuMem"


@pytest.mark.parametrize("who", ALL)
def test_ifunc(caller, ifunc, who):
    """Functions without probes must be named, in one line and in the trace, which is incomplete."""
    said, t = trace(caller, who, "open {lib}\ninit\nalloc 5\n", library=ifunc)
    assert said.count(SAYS) == 1 and said.count("\n") == 2 and "the trace is incomplete, missing: 1 library" in said, said
    assert [e["op"] for e in t.lib if SAYS in e.get("note", "") and "cuMemAlloc_v2" in e["note"]] == ["failed"], t.lib


@pytest.mark.parametrize("targets", ["-p", "-a"])
def test_ifunc_at_the_start(tmp_path, ifunc, targets):
    """The same for a process that had mapped the library before."""
    with subprocess.Popen([sys.executable, "-c", MAPS, ifunc], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        p.stdout.readline()
        out = tmp_path / "t.jsonl"
        ran = Ran([CUDATRACE, "-q", "-e", "memory", "--duration=0.5", "--jsonl", out, *([targets, str(p.pid)] if targets == "-p" else ["-a"])])
        p.communicate(b"\n")
    assert ran.status == 0 and [SAYS in e["note"] for e in Trace(out).lib if e["pid"] == p.pid and e["op"] == "failed"] == [True], ran


def test_ifunc_that_nobody_wants(caller, ifunc):
    assert trace(caller, "uprobe", "open {lib}\ninit\n", "-e", "!memory,init", library=ifunc)[0] == ""


def test_list_ifunc(ifunc):
    ran = Ran([CUDATRACE, "list", "-e", "cuMemAlloc_v2,cuInit", "--libcuda", ifunc])
    assert ran.status == 0 and "it has 2 of them; no probe for 1 function, whose" in ran.out and "cuMemAlloc_v2." in ran.out, ran


# Commands of a process before it makes calls, and the tracers that may not inspect it.
SHUT = "dumpable 0\nopen {lib}\ninit\nalloc 9\n"


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("who,before", [("user", []), ("no ptrace", []), ("no ptrace", NOBODY)], ids=["user", "root", "other"])
def test_not_let_in(caller, who, before, quiet):
    """Missing calls and the missing privilege must be reported, also with -q."""
    said, t = trace(caller, who, SHUT, before=before, quiet=quiet)
    assert re.search(r"cannot inspect process \d+ \(caller\), its CUDA calls are not traced: .*CAP_SYS_PTRACE.*run it with sudo", said), said
    assert "never loaded" not in said and not t.calls
    assert [(e["op"], e["note"]) for e in t.lib] == [("failed", "its process cannot be inspected")] and "failed" in t.end["unseen"]
    assert who != "user" or t.end["drops"]["processes"] == 1
    assert "failed_libraries" in lost(caller) and "unseen" not in lost(caller)


EMPTY = {"env -i": ["env", "-i"], "unset": ["env", "-u", "LD_PRELOAD", "-u", "CUDA_INJECTION64_PATH"], "set to others": ["env", "LD_PRELOAD=", "CUDA_INJECTION64_PATH="]}


@pytest.mark.parametrize("how", EMPTY)
def test_library_was_not_loaded(caller, how):
    """If the library was not loaded, the tracer must not claim that there was no call."""
    said, t = trace(caller, "user", "open {lib}\ninit\nalloc 9\n", before=EMPTY[how], quiet=False)
    # A process that lives long enough is found in /proc.
    found = "has not loaded the in-process library" in said
    why = "a library of a process could not be traced" if found else "no process has loaded libcuda and the in-process library"
    assert f"made no CUDA driver call that is traced: {why}" in said and "env -i" in said, said
    assert "never loaded libcuda" not in said and why in t.end["unseen"]
    assert lost(caller) == (["failed_libraries"] if found else ["unseen"])
    said = trace(caller, "user", "open {lib}\ninit\n", before=EMPTY[how])[0]
    assert said == "" or "has not loaded the in-process library" in said, said
    # With root, the calls are traced.
    assert trace(caller, "uprobe", "open {lib}\ninit\nalloc 9\n", before=EMPTY[how])[1].sym["cuMemAlloc_v2"] == 9


LATER = "open {lib}\ninit\nalloc 9\nsleep 1000000\njoin\n"
# Also in a child of a child, and where a reached process executes the other.
BELOW = {"command": [], "child": ["sh", "-c", '"$@"; true', "sh"], "deep": ["sh", "-c", '(sh -c \'"$@"; true\' sh "$@"); true', "sh"]}


@pytest.mark.parametrize("below", BELOW)
@pytest.mark.parametrize("how", EMPTY)
def test_another_was_reached(caller, how, below):
    """A process without the library must be reported and make the trace incomplete, although another process has it."""
    first = ["sh", "-c", f'printf "open {LIB}\\ninit\\nalloc 3\\n" | "$0"; exec "$@"', caller]
    said, t = trace(caller, "user", LATER, before=[*first, *BELOW[below], *EMPTY[how]])
    assert t.sym["cuMemAlloc_v2"] == 3, said
    assert said.count("\n") == 2 and "missing: 1 library without probes" in said and re.search(r"the CUDA calls of process \d+ \(caller\) are not traced: it has not loaded the in-process", said), said
    failed = [e for e in t.lib if e["op"] == "failed"]
    assert [(e["path"], e["note"]) for e in failed] == [(LIB, "its process has not loaded the in-process library")], t.lib
    assert "failed" in t.end["unseen"] and lost(caller) == ["failed_libraries"]


# A program without network and without write access, as in a sandbox; and one that is started with a seccomp filter that allows everything.
SANDBOX = """import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
rules = (ctypes.c_uint64 * 1)(1 << 1)
fd = call(444, rules, 8, 0)
assert fd >= 0 and not ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) and not call(446, fd, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
FILTER = """import ctypes, os, struct, sys
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, program, 0, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
CUT_OFF = {
    "sandbox": (["unshare", "-rn", sys.executable, "-c", SANDBOX], "", "it can neither connect to cudatrace nor write", "cannot connect to cudatrace"),
    "started with a filter": ([sys.executable, "-c", FILTER], "", "it has a seccomp filter of its own", "has a seccomp filter of its own"),
    "sets a filter": ([], "filter\n", "it has a seccomp filter of its own", "has a seccomp filter of its own"),
    "no socket": (["env", "-u", "CUDATRACE_SOCKET"], "", "its environment has no CUDATRACE_SOCKET, or that of another", "has another environment"),
    "another tracer": (["./cudatrace", "-q", "--jsonl", "inner.jsonl", "--"], "", "its environment has no CUDATRACE_SOCKET, or that of another", "has another environment"),
}


@pytest.mark.parametrize("how", CUT_OFF)
def test_another_is_cut_off(caller, how):
    """A process whose library cannot connect and cannot report that must make the trace incomplete, although another process is traced."""
    before, first, why, note = CUT_OFF[how]
    if how == "sandbox" and Ran([*NOBODY, *before, "true"]).status:
        pytest.skip("the kernel has no Landlock, or users may not create namespaces")
    traced = ["env", "-C", os.path.dirname(caller), "sh", "-c", f'printf "open {LIB}\\ninit\\nalloc 3\\n" | "$0"; exec "$@"', caller]
    said, t = trace(caller, "user", first + LATER, before=[*traced, *before])
    assert t.sym["cuMemAlloc_v2"] == 3, said
    assert re.search(r"the CUDA calls of process \d+ \(caller\) are not traced: " + why, said) and "missing: 1 library without probes" in said, said
    assert [(e["path"], e["note"]) for e in t.lib if e["op"] == "failed"] == [(LIB, "its process " + note)], t.lib
    assert lost(caller) == ["failed_libraries"]


def test_below_many(caller):
    """Forty parents must not hide it for a second."""
    deep = ["sh", "-c", 'f() { if [ "$1" -gt 0 ]; then n=$1; shift; (f $((n - 1)) "$@"; true); else shift; env -i "$@"; fi; }; f 40 "$@"', "sh"]
    said, t = trace(caller, "user", LATER, before=deep)
    assert [(e["op"], e["path"]) for e in t.lib] == [("failed", LIB)], (said, t.lib)


def test_two_are_not_reached(caller):
    """Each program counts once, and one line names the first."""
    twice = ["sh", "-c", f'for i in 1 2; do printf "{LATER.replace(chr(10), chr(92) + "n").format(lib=LIB)}" | env -i "$@"; done', "sh"]
    said, t = trace(caller, "user", "", before=twice)
    assert said.count("\n") == 2 and len({e["pid"] for e in t.lib if e["op"] == "failed"}) == 2 == len(t.lib), (said, t.lib)


def test_all_are_reached(caller):
    """A process with the library, its child, and one that gets it in cuInit() are no losses, except that cuInit()."""
    for says, before in (LATER, []), (LATER.replace("alloc 9", "child 9"), BELOW["deep"]):
        said, t = trace(caller, "user", says, before=before)
        assert said == "" and not lost(caller) and "unseen" not in t.end, (said, t.end)
    said, t = trace(caller, "user", LATER, before=["env", "-u", "LD_PRELOAD"])
    assert said.count("\n") == 1 and "missing: 1 CUDA call\n" in said and "unseen" not in t.end, (said, t.end)


def test_nothing_is_unseen(caller):
    for who in ALL:
        assert "unseen" not in trace(caller, who, "open {lib}\ninit\nalloc 1\n")[1].end and not lost(caller)


DESCEND = """import os, sys
os.chdir(os.path.dirname(sys.argv[1]))
while os.path.isdir('d' * 200):
    os.chdir('d' * 200)
os.execv(sys.argv[1], sys.argv[1:])"""


@pytest.fixture(scope="module")
def far(caller):
    """A library whose path has more bytes than the kernel returns (4,095)."""
    before = os.getcwd()
    os.chdir(os.path.dirname(caller))
    for _ in range(21):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    shutil.copy(LIB, "libcuda.so.1")
    os.chdir(before)


@pytest.mark.parametrize("who", ALL)
def test_long_path(caller, far, who):
    """The calls must be traced. Without root, which may open the file by its mapping, they must be a loss."""
    said, t = trace(caller, who, "open ./libcuda.so.1\ninit\nalloc 9\n", before=[sys.executable, "-c", DESCEND, caller])
    assert t.sym["cuMemAlloc_v2"] == 9 if who != "user" else "failed_libraries" in lost(caller), said


MAPS = "import mmap, sys\nf = open(sys.argv[1], 'rb')\nm = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)\nprint(flush=True)\ninput()"


@pytest.mark.parametrize("targets", ["-p", "-a"])
@pytest.mark.parametrize("says", ["not such a library", "it is being written to"])
def test_no_probes_at_the_start(tmp_path, targets, says):
    """A mapped library without probes must be a loss, with a line that has the reason."""
    path = str(tmp_path / "libcuda.so.1")
    Path(path).write_bytes(b"\0" * 8192) if "not" in says else shutil.copy(LIB, path)
    with subprocess.Popen([sys.executable, "-c", MAPS, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p, open(path, "ab") as writer:
        p.stdout.readline()
        if "not" in says:
            writer.close()
        out = tmp_path / "t.jsonl"
        ran = Ran([CUDATRACE, "-q", "--probe=uprobe", "-e", "cuInit", "--duration=0.5", "--jsonl", out, *([targets, str(p.pid)] if targets == "-p" else ["-a"])])
        p.communicate(b"\n")
    assert ran.status == 0, ran
    notes = [e["note"] for e in Trace(out).lib if e["pid"] == p.pid and e["op"] == "failed"]
    assert len(notes) == 1 and says in notes[0], Trace(out).lib
    assert "failed_libraries" in [x["id"] for x in json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", out]).out)["lost"]]


@pytest.mark.parametrize("options", [["--summary"], ["--summary=full"], ["--summary", "--count", "all"], ["--summary", "--count", "cuA*,cuB*,cuC*"], ["--summary", "--json"]], ids=" ".join)
def test_long_names(tmp_path, options):
    """The program chooses the names of functions, up to 255 bytes: the lines of a summary hold no more than they have space for."""
    names = ["cu" + x * 253 for x in "ABCDE"]
    lib, main = tmp_path / "lib.c", tmp_path / "main.c"
    lib.write_text("#include <unistd.h>\nint cuInit(unsigned f) { return usleep(100); }\n" + "".join(f"int {x}(void) {{ return usleep(100); }}\n" for x in names))
    main.write_text("int cuInit(unsigned);\n" + "".join(f"int {x}(void);\n" for x in names) + f"int main(void) {{ cuInit(0); {'(); '.join(names)}(); return 0; }}\n")
    compiled(tmp_path / "libcuda.so.1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", lib)
    program = compiled(tmp_path / "main", main, tmp_path / "libcuda.so.1")
    ran = Ran([CUDATRACE, "--probe=uprobe", *options, "--jsonl", tmp_path / "t.jsonl", "--", program], env={"LD_LIBRARY_PATH": str(tmp_path), "COLUMNS": "200"})
    assert ran.status == 0, ran
    end = Trace(tmp_path / "t.jsonl").end
    assert end["entries"] == 6, end
