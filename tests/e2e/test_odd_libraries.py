# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 20
"""Unusual but real libraries, and processes that cannot be inspected: every producer must report what is not traced."""
import json
import os
import re
import shutil
import subprocess

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
    """What a report says is missing in the last trace."""
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
    """Functions without probes must be named, in one line and in the trace."""
    said, t = trace(caller, who, "open {lib}\ninit\nalloc 5\n", library=ifunc)
    assert said.count(SAYS) == 1 and said.count("\n") == 1, said
    assert any(SAYS in e.get("note", "") and "cuMemAlloc_v2" in e["note"] for e in t.lib)


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
    assert "made no CUDA driver call that is traced: no process has loaded libcuda and the in-process library" in said and "env -i" in said, said
    assert "never loaded libcuda" not in said and "env -i" in t.end["unseen"]
    assert lost(caller) == ["unseen"]
    assert trace(caller, "user", "open {lib}\ninit\n", before=EMPTY[how])[0] == ""
    # With root, the calls are traced.
    assert trace(caller, "uprobe", "open {lib}\ninit\nalloc 9\n", before=EMPTY[how])[1].sym["cuMemAlloc_v2"] == 9


def test_nothing_is_unseen(caller):
    for who in ALL:
        assert "unseen" not in trace(caller, who, "open {lib}\ninit\nalloc 1\n")[1].end and not lost(caller)
