# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 90
"""Calls recorded in the process, without privileges: the cases of tests/cases by dispatch pointers and by lookups, programs that are
hard for a thunk (tests/inject/hard.c), and programs linked to the driver. Also tests the library's system requirements."""
import collections
import glob
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, CUDATRACE, FAKE, INSIDE, O, ALL, TESTS, Ran, cudatrace, inside, needs_mechanism, passes
from test_cases import DIFFERS, NAMES, normal

LIBRARY = O + "/libcudatrace-inject.so"
CC, CXX = os.environ.get("CC", "gcc").split(), os.environ.get("CXX", "g++").split()
# Lookups do not record the driver's calls to itself, and programs do not get the driver's own pointers.
NOT_PLAIN = {"memory", "nested", "ptsz", "queries"}
# These are called before the driver loads the library in cuInit.
BEFORE = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"}
# The library makes these, and does not record them.
QUERIES = {"cuFuncGetParamInfo", "cuKernelGetParamInfo", "cuThreadExchangeStreamCaptureMode"}


def trace(name, *command, driver, functions=ALL, args=(), env=None):
    folder = f"{os.environ['TMP']}/{name}-{driver}"
    shutil.rmtree(folder, ignore_errors=True)  # from an earlier try
    os.makedirs(folder)
    ran = inside("-q", "-e", functions, *args, "--jsonl", folder + "/trace.jsonl", "--", *command,
                    env={"LD_LIBRARY_PATH": f"{O}/{driver}", "FAKE_CUDA_COUNTS": folder + "/counts", **(env or {})})
    with open(folder + "/expected", "w", encoding="utf-8") as f:
        f.write(ran.out)
    return ran, folder


def case(name, driver, way=()):
    args = [f"{O}/{driver}/libcuda.so.1", "50"] if name == "dlopen_late" else []
    ran, folder = trace("-".join([name, *way]), *way, f"{CASES}/{name}", *args, driver=driver)
    assert ran.status == 0 and ran.silent(), ran
    return folder


# The newest driver's entry points with all cases; the others with cases that may differ, the rest in check-all.
@pytest.mark.parametrize("name,driver", [pytest.param(n, d, marks=() if d == "fake" or n in DIFFERS else pytest.mark.long)
                                         for d in ("fake", "fake535", "fakeplain") for n in NAMES if d != "fakeplain" or n not in NOT_PLAIN])
def test_case(name, driver):
    folder = case(name, driver)
    passes("cases/expect.py", folder + "/trace.jsonl", folder + "/expected")
    assert Trace(folder + "/trace.jsonl").accounts()
    # The counts are lost when exec replaces the program.
    if name != "exec":
        passes("cases/expect.py", "--counts", folder + "/counts", folder + "/trace.jsonl")


@pytest.mark.parametrize("name", [n for n in NAMES if n != "dlopen_late"])
def test_same_as_by_uprobes(name):
    needs_mechanism("session")
    path = f"{os.environ['TMP']}/uprobe-{name}.jsonl"
    ran = cudatrace("-q", "--probe=uprobe", "-e", ALL, "--jsonl", path, "--", f"{CASES}/{name}", env={"LD_LIBRARY_PATH": O + "/fake"})
    assert ran.status == 0, ran
    outside, within = Trace(path), Trace(case(name, "fake", ("env",)) + "/trace.jsonl")
    for e in outside.calls + within.calls:
        # The arguments of an unknown function are arbitrary register values.
        if e["type"] == "other":
            e.pop("args", None)
    assert normal(outside.calls) == normal(within.calls)


@pytest.mark.parametrize("driver", ["fake", "fake535"])
@pytest.mark.parametrize("name", ["launch", "threads", "longjmp"])
def test_loaded_by_the_driver(name, driver):
    """The driver must load the library without LD_PRELOAD."""
    folder = case(name, driver, ("env", "-u", "LD_PRELOAD"))
    t = Trace(folder + "/trace.jsonl")
    with open(folder + "/counts", encoding="utf-8") as f:
        made = {s: int(n) for s, n in map(str.split, f)}
    # cuInit, during which the library was loaded, is counted.
    assert t.accounts(missed=["calls"]) and t.end["drops"]["calls"] == 1
    assert dict(t.sym) == {s: n for s, n in made.items() if s not in BEFORE | QUERIES}


def hard(part, *args):
    ran, folder = trace(part + "".join(args), f"{O}/hard/hard", part, driver="hard", functions="all", args=args)
    made = collections.Counter()
    for line in ran.out.splitlines():
        symbol, n = line.split()
        made[symbol] += int(n)
    return ran, folder + "/trace.jsonl", made


@pytest.mark.parametrize("part", ["args", "threads", "raw_threads", "forks", "ends", "stacks"])
def test_hard(part):
    ran, path, made = hard(part)
    assert ran.status == 0 and ran.err == "", ran
    t = Trace(path)
    assert t.accounts() and t.sym == made
    # pthread_exit() and cancellation inside a call
    assert t.end["unfinished"] == (10 if part == "ends" else 0)


def test_times_are_those_of_the_clock():
    """Times must agree with clock_gettime(), as seen by the program, although the library does not call it for each call."""
    ran, folder = trace("times", f"{O}/hard/hard", "times", driver="hard", functions="all")
    assert ran.status == 0, ran
    t = Trace(folder + "/trace.jsonl")
    said = [tuple(map(int, line.split())) for line in ran.out.splitlines() if line[0].isdigit()]
    base = t.head["clock_base_ns"]
    seen = [(base + round(e["ts"] * 1e6), round(e["duration_us"] * 1e3)) for e in t.calls if e["symbol"] == "cuNop"]
    assert len(said) == len(seen) == 3000
    # The nanoseconds of the two clocks begin at different times.
    off = [max(before - start, start + took - after) for (before, after), (start, took) in zip(said, seen)]
    assert max(off) < 1000, sorted(off)[-10:]


@pytest.mark.parametrize("part, size, calls, lost", [
    ("bursts", "4M", 8 * 45 * 250, 0.15),              # a ring of 512 KiB is full after 20 ms; it lost a third
    ("short bursts", "1M", 24 * 10 * 400, 0.33),       # 128 KiB is full after 3 ms; it lost two fifths
])
def test_bursts_after_a_pause(part, size, calls, lost):
    ran, path, made = hard(part, "--buffer-size", size)
    assert ran.status == 0 and ran.silent(), ran
    t = Trace(path)
    assert made["cuNop"] == calls == t.sym["cuNop"] + t.end["drops"]["calls"]
    # A few are lost when other processes keep the tracer off the processors.
    assert t.end["drops"]["calls"] < calls * lost


@pytest.fixture(scope="module")
def faults():
    """Programs of tests/faults, built."""
    def built(source):
        program = f"{os.environ['TMP']}/{source.split('.')[0]}"
        if not os.path.exists(program):
            subprocess.run([*(CXX if source.endswith(".cc") else CC), "-O1", "-w", "-o", program, f"{TESTS}/faults/{source}", "-ldl", "-lpthread"], check=True)
        return program
    return built


# program, arguments, status, abandoned calls, unfinished calls, nested calls
FAULTS = [
    ("throw.cc", "100", 0, 100, 0, 0),
    ("life.c", "threads 200", 0, 0, 0, 0),
    ("life.c", "reload 50", 0, 0, 0, 0),
    ("life.c", "vfork 20", 0, 0, 0, 0),
    ("life.c", "cancel 5", 0, 0, 5, 0),
    ("life.c", "jump 30", 0, 30, 0, 0),
    ("life.c", "crash", 139, 0, 1, 0),
    ("life.c", "exec", 0, 0, 1, 0),
    ("life.c", "procs 20", 0, 0, 0, 0),
    ("elsewhere.c", "above", 0, 0, 0, 50),
    ("elsewhere.c", "below", 0, 0, 0, 50),
    ("elsewhere.c", "local", 0, 0, 0, 50),
    ("elsewhere.c", "far", 0, 0, 0, 20),
    ("elsewhere.c", "far left", 0, 20, 0, 40),
    ("elsewhere.c", "gone", 0, 0, 1, 1),
]


def unprobed(trace_it):
    """Retries up to 3 times, because another suite may probe all processes. An exception does not pass a probed return, and a handler with
    a stack above it gets SIGILL from the kernel."""
    for _ in range(4):
        ran, path = trace_it()
        if "terminate called" not in ran.err and ran.status != 128 + signal.SIGILL:
            break
        time.sleep(4)
    return ran, path


@pytest.mark.parametrize("driver", ["fake", "fake535"])
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=[f"{f[0]} {f[1]}" for f in FAULTS])
def test_left_and_unfinished(faults, driver, number):
    source, args, status, abandoned, unfinished, nested = FAULTS[number]
    # The last program leaves a stack that is unmapped: its call is still in flight.
    ran, folder = unprobed(lambda: trace(f"fault{number}", faults(source), f"{O}/{driver}/libcuda.so.1", *args.split(), driver=driver))
    assert ran.status == status, ran
    t = Trace(folder + "/trace.jsonl")
    assert t.accounts()
    assert (t.end["abandoned"], t.end["unfinished"]) == (abandoned, unfinished)
    assert sum("parent" in c for c in t.calls) == nested
    if ran.out:
        assert ran.out == f"{t.sym['cuDriverGetVersion']}\n"


@pytest.mark.parametrize("part", ["signals", "altstack"])
def test_calls_of_signal_handlers(part):
    """Calls of signal handlers, which interrupt any code, must be recorded or counted as lost."""
    ran, path, made = hard(part)
    assert ran.status == 0, ran
    t = Trace(path)
    assert t.accounts(drops=True)
    assert t.end["entries"] == sum(made.values()) == len(t.calls) + t.end["drops"]["calls"]


def test_counted_in_signal_handlers():
    ran, path, made = hard("signals", "--count=all")
    assert ran.status == 0, ran
    t = Trace(path)
    assert t.accounts(drops=True)
    assert t.end["counted"]["cuNop"]["calls"] + t.end["drops"]["calls"] == made["cuNop"]


def test_longjmp_out_of_the_library():
    """After longjmp from a handler at any instruction, a call may be counted or not, but the trace must stay whole."""
    ran, path, made = hard("jumps")
    assert ran.status == 0, ran
    t = Trace(path)
    ids = [e["id"] for e in t.calls]
    assert len(set(ids)) == len(ids) and t.end["bad_records"] == 0
    assert abs(t.end["entries"] - sum(made.values())) <= 2100


def test_more_threads_than_slots():
    ran, path, made = hard("crowd")
    assert ran.status == 0, ran
    t = Trace(path)
    assert len(t.calls) + t.end["drops"]["threads"] == sum(made.values())
    assert t.end["drops"]["threads"] >= 44


def test_nested_too_deep():
    ran, path, made = hard("deep")
    assert ran.status == 0, ran
    t = Trace(path)
    assert t.end["drops"]["depth"] == sum(made.values()) - len(t.calls) == 13


@pytest.mark.parametrize("part", ["killed", "interrupted"])
def test_put_back(part):
    """When the tracer has gone, the driver's pointers must be restored, and the program continues."""
    folder = f"{os.environ['TMP']}/{part}"
    ran = inside("-q", "-e", "all", "--jsonl", folder, "--", f"{O}/hard/hard", part,
                    env={"LD_LIBRARY_PATH": O + "/hard"})
    assert "hard:" not in ran.err and "cuInit 1" in ran.out, ran


# A library loaded later would be placed like this mapping, unless it is small and fits a gap.
MAPS_LATER = """
import ctypes, mmap
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
print(abs(ctypes.addressof(ctypes.c_char.from_buffer(mmap.mmap(-1, 1 << 28))) - ctypes.cast(cuda.cuInit, ctypes.c_void_p).value))
"""


@pytest.mark.parametrize("driver", ["fake", "fakeplain"])
def test_libraries_stay_near(driver):
    """The library's mappings must not separate existing libraries from later ones: far branches are mispredicted."""
    ran, _ = trace("near", sys.executable, "-c", MAPS_LATER, driver=driver)
    assert ran.status == 0 and int(ran.out) < 1 << 31, ran


def test_lookups(tmp_path):
    """dlsym() must not search many loaded objects for names that are not the driver's, in a process without the driver."""
    program, libs = str(tmp_path / "lookups"), [str(tmp_path / f"lib{i}.so") for i in range(100)]
    subprocess.run([*CC, "-O1", "-o", program, TESTS + "/inject/lookups.c", "-ldl"], check=True)
    subprocess.run([*CC, "-shared", "-fPIC", "-x", "c", "-o", libs[0], "-"], input=b"int cudaMalloc(void) { return 0; }", check=True)
    for path in libs[1:]:
        shutil.copy(libs[0], path)
    plain, ran = Ran([program, *libs]), inside("-q", "--jsonl", tmp_path / "t.jsonl", "--", program, *libs)
    assert plain.status == ran.status == 0, ran
    # A search would take 0.04 us for each object.
    assert float(ran.out) < 4 * float(plain.out) + 500, (plain.out, ran.out)


def test_ended_and_not_waited_for(tmp_path):
    """When children end and are not waited for, only their parent gets a signal. The tracer must use little processor time meanwhile."""
    program = """if True:
        import ctypes, os, time
        for i in range(20):
            if not os.fork():
                ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(ctypes.c_int()))
                os._exit(3)
            time.sleep(0.3)"""
    tracer = subprocess.Popen([*INSIDE, CUDATRACE, "--probe=inject", "-q", "-e", "cuDriverGetVersion", "--jsonl", tmp_path / "trace", "--", sys.executable, "-c", program],
                              stdin=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": FAKE, "FAKE_NO_SEM": "1"})
    _, status, used = os.wait4(tracer.pid, 0)
    t = Trace(tmp_path / "trace")
    assert status == 0 and len(t.calls) == 20 and t.accounts()
    assert used.ru_utime + used.ru_stime < 2, used


@pytest.mark.parametrize("socket", ["", "@nobody-is-there", "/nowhere/socket", "x" * 200])
def test_without_a_tracer(socket):
    ran = Ran([f"{O}/hard/hard", "args"], env={"LD_LIBRARY_PATH": O + "/hard", "LD_PRELOAD": LIBRARY, "CUDATRACE_SOCKET": socket})
    assert (ran.status, ran.err) == (0, "")


def test_files_may_not_grow():
    """A file size limit also applies to memory files: neither the tracer nor the program may fail."""
    path = f"{os.environ['TMP']}/limited.jsonl"
    ran = inside("-q", "--jsonl", path, "--", f"{CASES}/memory", env={"LD_LIBRARY_PATH": O + "/fake"},
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    assert ran.status == 0 and "raise the limit of file sizes: ulimit -f" in ran.err, ran
    assert not Trace(path).calls


LINKING = ["-Wl,-z,lazy", "-Wl,-z,now", "-fno-plt -Wl,-z,now,-z,relro", "-no-pie -fno-pie -Wl,-z,lazy", "-no-pie -fno-pie -Wl,-z,now,-z,relro"]


@pytest.mark.parametrize("driver", ["fake", "fakeplain"])
@pytest.mark.parametrize("how", range(len(LINKING)))
def test_linked(driver, how):
    program = f"{os.environ['TMP']}/linked-{driver}-{how}"
    subprocess.run([*CC, "-O1", *LINKING[how].split(), "-o", program, TESTS + "/inject/linked.c", f"-L{O}/{driver}", "-lcuda"], check=True)
    ran, folder = trace(f"linked{how}", program, driver=driver)
    assert ran.status == 0 and ran.err == "", ran
    assert Trace(folder + "/trace.jsonl").sym == {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1, "cuMemAlloc_v2": 10, "cuDriverGetVersion": 1}


WITHOUT_MAIN = """
#include <pthread.h>
#include <string.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *work(void *main_thread)
{
	static const char ptx[] = ".version 6.0\\n.target sm_60\\n.address_size 64\\n.visible .entry _Z4stepv()\\n{\\n\\tret;\\n}\\n";
	void *ctx, *module, *f;
	pthread_join(*(pthread_t *)main_thread, NULL);
	return (void *)(long)(cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuModuleLoadData(&module, ptx) ||
			      cuModuleGetFunction(&f, module, strdup("_Z4stepv")) || cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}
int main(void)
{
	static pthread_t self, other;
	self = pthread_self();
	pthread_create(&other, NULL, work, &self);
	pthread_exit(NULL);
}
"""


def test_main_thread_has_ended(tmp_path):
    """A process's id finds no memory when its main thread is gone."""
    (tmp_path / "z.c").write_text(WITHOUT_MAIN)
    subprocess.run([*CC, "-o", tmp_path / "z", tmp_path / "z.c", f"-L{FAKE}", "-lcuda", "-lpthread"], check=True)
    ran, folder = trace("without-main", str(tmp_path / "z"), driver="fake")
    calls = {e["symbol"]: e for e in Trace(folder + "/trace.jsonl").calls}
    assert ran.status == 0 and ran.err == "", ran
    assert calls["cuModuleGetFunction"]["args"]["name"] == "_Z4stepv" and calls["cuLaunchKernel"]["kernel"] == "step()"


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def test_loads_everywhere():
    """The library must load with any glibc (it links to nothing), have no name that looks like the driver's, and use little thread-local
    storage."""
    table = said("objdump", "-T", LIBRARY)
    exported = {line.split()[-1] for line in table.splitlines() if " .text" in line or " .data" in line or " .bss" in line}
    assert exported == {"InitializeInjection", "cudatrace_attach", "cudatrace_nvtx_offer", "cudatrace_sampled", "dlsym", "prctl", "syscall"}
    # The kernel emulates a probed nop. It would execute another instruction by a second trap, which takes 25 us in a virtual machine.
    if os.uname().machine == "x86_64":
        assert said("objdump", "-d", "--disassemble=cudatrace_sampled", LIBRARY).split("<cudatrace_sampled>:")[1].split("\n")[1].split()[-1] == "nop"
    dynamic = said("readelf", "-dW", LIBRARY)
    assert "GLIBC" not in table and "NEEDED" not in dynamic
    assert "TEXTREL" not in dynamic and "NODELETE" in dynamic and "BIND_NOW" in dynamic
    tls = re.search(r"TLS +0x\w+ 0x\w+ 0x\w+ 0x\w+ 0x(\w+)", said("readelf", "-lW", LIBRARY))
    assert 0 < int(tls.group(1), 16) <= 64
    assert not [s for s in said("nm", LIBRARY).split() if s.startswith("cu") and not s.startswith("cudatrace_")]
    # Variables that a program may lack (musl's). A function here would resolve to any function of that name: a sanitizer's, an
    # allocator's.
    undefined = {tuple(line.split()) for line in said("nm", "-D", "--undefined-only", LIBRARY).splitlines()}
    assert undefined == {("w", name) for name in ("_dl_debug_addr", "_r_debug", "__libc_stack_end", "environ")}
    # A lazily bound name could resolve to a program's own function.
    assert glob.glob(LIBRARY)
