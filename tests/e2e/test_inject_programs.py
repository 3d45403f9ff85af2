# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 900
# takes: 20
"""Programs that are hard for a library in the process: status and output must be the same as untraced, with every producer, and the
calls are recorded."""
import functools
import os
import platform
import re
import shutil
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.run import ALL, CUDATRACE, FAKE, INSIDE, O, TESTS, Ran, cudatrace, needs_tracing, until

LIBRARY = O + "/libcudatrace-inject.so"
SOURCES = TESTS + "/inject/programs/"
CALLS = SOURCES + "calls.c"
C = ["-O1", "-g", "-pthread"]
SO = ["-shared", "-fPIC", "-O1"]


def folder():
    path = os.environ["TMP"] + "/programs"
    os.makedirs(path, exist_ok=True)
    return path


@functools.cache
def built(name, *command):
    """The OUT that a command makes, or the reason why it cannot."""
    if not shutil.which(command[0]):
        return None, f"{command[0]} is not installed"
    path = f"{folder()}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    ran = Ran([path if word == "OUT" else word for word in command], timeout=300, env={"GOCACHE": folder() + "/go", "GOPATH": folder() + "/gopath"})
    return (path, None) if ran.status == 0 else (None, f"{name} cannot be built: {ran.err.strip()[-200:]}")


def must(path_or_why):
    path, why = path_or_why
    if why:
        pytest.skip(why)
    return path


def c(name, *flags, cc="gcc", source=CALLS):
    return must(built(name, cc, *C, *flags, "-o", "OUT", source, "-ldl"))


def preloadable(*names):
    for path in (f"{d}/{n}" for n in names for d in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")):
        if os.path.exists(path):
            return path
    return pytest.skip(f"{names[0]} is not installed")


def own_so(name):
    return must(built(f"{name}.so", "gcc", *SO, "-o", "OUT", f"{SOURCES}{name}.c", "-ldl"))


@functools.cache
def text(name, content):
    path = f"{folder()}/{name}"
    with open(path, "w", encoding="utf-8") as f:
        f.write(content)
    return path


def calls(*args, flags=(), name="calls", cc="gcc"):
    return lambda: ([c(name, *flags, cc=cc), *args], {})


def preloaded(lib, *program):
    """Preloads the library in the program, but not in the tracer."""
    return ["sh", "-c", 'LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$0" exec "$@"', lib, *program]


def with_preload(find, *args):
    return lambda: (preloaded(find(), c("calls"), *args), {})


def copies():
    """Two files of the driver."""
    paths = [f"{folder()}/{n}/libcuda.so.1" for n in "ab"]
    for p in paths:
        if not os.path.exists(p):
            os.makedirs(os.path.dirname(p), exist_ok=True)
            shutil.copy(FAKE + "/libcuda.so.1", p)
    return paths


def plain_driver(*args):
    """A driver whose functions signal handlers may call."""
    def program():
        lib = must(built("plain/libcuda.so.1", "gcc", *SO, "-Wl,-soname,libcuda.so.1", "-o", "OUT", SOURCES + "libcuda.c"))
        return [c("calls"), *args], {"LD_LIBRARY_PATH": os.path.dirname(lib)}
    return program


def setuid():
    if os.geteuid():
        pytest.skip("needs root")
    path = f"{folder()}/setuid"
    shutil.copy(c("calls"), path)
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o6755)
    # ld.so also reads the driver's folder from the environment.
    return ["sh", "-c", f"{path}; echo $?; exec {c('calls')}"], {}


def static():
    text("static.c", '#include <stdio.h>\nint main(void) { puts("static"); return 3; }\n')
    path = must(built("static", "gcc", "-static", "-o", "OUT", folder() + "/static.c"))
    return ["sh", "-c", f"{path}; echo $?; exec {c('calls')}"], {}


def musl():
    text("musl.c", '#include <dlfcn.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n'
         '{ char *p = malloc(9); printf("musl %d\\n", p && dlsym(RTLD_DEFAULT, "puts") != 0); return 4; }\n')
    path = must(built("musl", "musl-gcc", "-o", "OUT", folder() + "/musl.c"))
    return ["sh", "-c", f"{path}; echo $?; exec {c('calls')}"], {}


def go():
    text("calls.go", """package main
// #include <stdlib.h>
// #include <dlfcn.h>
// #cgo LDFLAGS: -ldl
// typedef int (*init_fn)(unsigned); typedef int (*count_fn)(int *);
// static count_fn load(void) { void *l = dlopen("libcuda.so.1", 2); ((init_fn)dlsym(l, "cuInit"))(0); return (count_fn)dlsym(l, "cuDeviceGetCount"); }
// static int call(count_fn f) { int n = 0; return f(&n) ? -1 : n; }
import "C"
import ("fmt"; "sync")
func main() {
	f, sum := C.load(), make(chan int, 60)
	var wait sync.WaitGroup
	for i := 0; i < 60; i++ { wait.Add(1); go func() { defer wait.Done(); sum <- int(C.call(f)) }() }
	wait.Wait(); close(sum)
	n := 0
	for v := range sum { n += v }
	fmt.Println(n)
}
""")
    return [must(built("calls-go", "go", "build", "-o", "OUT", folder() + "/calls.go"))], {}


def rust():
    text("calls.rs", """use std::ffi::*;
#[link(name = "dl")] extern "C" { fn dlopen(n: *const c_char, f: c_int) -> *mut c_void; fn dlsym(h: *mut c_void, n: *const c_char) -> *mut c_void; }
fn main() {
    let f = unsafe {
        let l = dlopen(c"libcuda.so.1".as_ptr(), 2);
        let init: extern "C" fn(c_uint) -> c_int = std::mem::transmute(dlsym(l, c"cuInit".as_ptr()));
        assert!(init(0) == 0);
        std::mem::transmute::<_, extern "C" fn(*mut c_int) -> c_int>(dlsym(l, c"cuDeviceGetCount".as_ptr()))
    };
    let t: Vec<_> = (0..6).map(|_| std::thread::spawn(move || (0..10).map(|_| { let mut n = 0; f(&mut n); n }).sum::<i32>())).collect();
    println!("{}", t.into_iter().map(|t| t.join().unwrap()).sum::<i32>());
}
""")
    return [must(built("calls-rust", "rustc", "--edition", "2021", "-o", "OUT", folder() + "/calls.rs"))], {}


def java():
    if not shutil.which("javac") or not shutil.which("java"):
        pytest.skip("a JDK is not installed")
    text("Calls.java", 'public class Calls { static native int call(); public static void main(String[] a) { System.load(a[0]); int n = 0; '
         'for (int i = 0; i < 60; i++) n += call(); System.out.println(n); } }\n')
    text("java.c", '#include <dlfcn.h>\nint Java_Calls_call(void *env, void *of)\n{ static int (*f)(int *); int n = 0;\n'
         '  if (!f) { void *l = dlopen("libcuda.so.1", 2); ((int (*)(unsigned))dlsym(l, "cuInit"))(0); f = dlsym(l, "cuDeviceGetCount"); }\n'
         '  return f(&n) ? -1 : n; }\n')
    lib = must(built("java.so", "gcc", *SO, "-o", "OUT", folder() + "/java.c", "-ldl"))
    must(built("Calls.class", "javac", "-d", folder(), folder() + "/Calls.java"))
    return ["java", "-Xmx64m", "-cp", folder(), "Calls", lib], {}


def sanitized(kind, cc):
    # The sanitizers' reports would change the output.
    return calls(flags=[f"-fsanitize={kind}"], name=f"calls-{kind}-{cc}", cc=cc)


# name: program, calls of cuDeviceGetCount expected in the trace, whether make check runs it. None: calls of threads that begin under a
# seccomp filter are counted instead; 0: no calls can be recorded.
PROGRAMS = {
    "plain": (calls(), 60, True),
    **{f"{kind}-{cc}": (sanitized(kind, cc), 60, kind != "undefined")
       for kind in ("thread", "address", "undefined", "leak") for cc in ("gcc", "clang")},
    "memory-clang": (sanitized("memory", "clang"), 60, False),
    "own-functions": (calls(flags=["-DOWN", "-fno-builtin"], name="calls-own"), 60, True),
    "jemalloc": (with_preload(lambda: preloadable("libjemalloc.so.2")), 60, False),
    "tcmalloc": (with_preload(lambda: preloadable("libtcmalloc_minimal.so.4")), 60, False),
    "guard-malloc": (with_preload(lambda: own_so("guard")), 60, True),
    "limiter": (with_preload(lambda: own_so("limiter")), 60, True),
    "signals": (plain_driver("signals"), 360, True),
    "forked": (plain_driver("forked"), 70, True),
    "mlock": (calls("mlock", "64"), 60, True),
    "monitored": (calls("monitored"), 60, True),
    "sandbox-prctl": (calls("sandbox", "prctl"), None, True),
    "sandbox-seccomp": (calls("sandbox", "seccomp"), None, True),
    "sandbox-raw": (calls("sandbox", "raw"), None, False),
    "launched-in-sandbox": (lambda: ([c("calls"), "launch", c("calls")], {}), 0, True),
    "two-drivers": (lambda: ([c("calls"), "two", *copies()], {}), 60, True),
    "namespaces": (lambda: ([c("calls"), "namespaces", copies()[0]], {}), 60, True),
    "setuid": (setuid, 60, False),
    "static": (static, 60, False),
    "musl": (musl, 60, True),
    "go": (go, 60, False),
    "rust": (rust, 60, False),
    "java": (java, 60, False),
}
WAYS = ["uprobe", "root", "user", "alone"]


def traced(way, path, program, env):
    env = {"LD_LIBRARY_PATH": FAKE, **env}
    if way == "alone":
        # gcc's ASan must be the first library: cudatrace itself sets this option.
        return Ran(program, env={**env, "LD_PRELOAD": LIBRARY, "CUDATRACE_OUT": path, "ASAN_OPTIONS": "verify_asan_link_order=0"}, timeout=120)
    options = ["-q", "--no-summary", "-e", ALL, "--jsonl", path, "--"]
    if way == "uprobe":
        needs_tracing()
        command = [CUDATRACE, "--probe=uprobe", *options]
    elif way == "root":
        needs_tracing()
        command = [CUDATRACE, "--probe=inject", *options]
    else:
        command = [*INSIDE, CUDATRACE, "--probe=inject", *options[1:]]
    return Ran([*command, *program], env=env, timeout=120)


def is_whole(path):
    try:
        with open(path, "rb") as f:
            return b'"type":"end"' in f.read().splitlines()[-1]
    except (OSError, IndexError):
        return False


@pytest.mark.parametrize("name,way", [pytest.param(n, w, marks=() if short and w in ("user", "root") else pytest.mark.long)
                                      for n, (_, _, short) in PROGRAMS.items() for w in WAYS])
def test_program(tmp_path, name, way):
    make, cnt, _ = PROGRAMS[name]
    program, env = make()
    untraced = Ran(program, env={"LD_LIBRARY_PATH": FAKE, **env}, timeout=120)
    if untraced.status:
        pytest.skip(f"{name} does not run here: {untraced!r}")
    path = str(tmp_path / "trace")
    ran = traced(way, path, program, env)
    says = [line for line in ran.err.splitlines(True) if not line.startswith("cudatrace: ")]
    assert (ran.status, ran.out, "".join(says)) == (untraced.status, untraced.out, untraced.err), ran
    inside = way in ("user", "alone")
    if name == "launched-in-sandbox" and inside:
        assert "not traced in the process, which has a seccomp filter of its own" in ran.err
        return
    # There only the driver loads a library, which another variable names.
    if name == "namespaces" and way == "alone":
        return
    until(lambda: is_whole(path))
    t = Trace(path)
    seen, drops = t.sym["cuDeviceGetCount"], t.end["drops"]
    if cnt is None and way in ("user", "root"):
        # The existing thread is recorded; calls of a thread that begins after the filter are counted.
        assert (seen, drops["threads"]) == (50, 10), t.end
    elif name == "namespaces" and way in ("user", "root"):
        assert seen == cnt and drops["calls"] in ((2,) if inside else (1,))
    elif way == "alone":
        # The default selection.
        assert t.sym["cuInit"] == (2 if name == "two-drivers" else 1)
    else:
        assert seen == (cnt or 60) and t.end["entries"] == len(t.calls) + drops["calls"], t.end


@pytest.mark.parametrize("how", ["strict", "strict-by-number", "tsc", "dispatch"])
@pytest.mark.parametrize("way", ["user", "alone"])
def test_forbidden(tmp_path, how, way):
    """Without system calls, or without the time stamp counter, a program must end as untraced."""
    program = [c("calls"), "forbid", how]
    untraced = Ran(program, env={"LD_LIBRARY_PATH": FAKE}, timeout=120)
    if untraced.status:
        pytest.skip(f"not here: {untraced!r}")
    path = str(tmp_path / "trace")
    ran = traced(way, path, program, {})
    says = [line for line in ran.err.splitlines(True) if not line.startswith("cudatrace: ")]
    assert (ran.status, ran.out, "".join(says)) == (untraced.status, untraced.out, untraced.err), ran
    assert ("disables the time stamp counter" in ran.err) == (how != "dispatch" and platform.machine() == "x86_64"), ran
    until(lambda: is_whole(path))
    t = Trace(path)
    assert t.sym["cuInit"] == 1 if way == "alone" else t.sym["cuDeviceGetCount"] == (520 if how == "dispatch" else 20), t.end


def calls_of_library():
    """Those that a library in a running program makes, and what it needs to start a collector."""
    with open(os.path.dirname(TESTS) + "/src/inject/late_filter.c", encoding="utf-8") as f:
        return sorted({*re.findall(r'\{"([a-z0-9_]+)",\s+SYS_', f.read()), "getcwd", "pidfd_open", "ppoll", "sigaltstack", "getdents64"})


@pytest.fixture
def filtered():
    return must(built("filtered", "gcc", "-D_GNU_SOURCE", "-o", "OUT", f"{TESTS}/inject/filtered.c", f"{TESTS}/inject/late_filters.c", "-lseccomp"))


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "CUDA_INJECTION64_PATH"])
def test_filter_of_container(tmp_path, filtered, variable):
    """A container's filter was there before the library, which passes it: the program must be traced."""
    path = str(tmp_path / "trace")
    ran = Ran([filtered, "docker", "-", "env", f"{variable}={LIBRARY}", f"CUDATRACE_OUT={path}", c("calls")], env={"LD_LIBRARY_PATH": FAKE})
    assert (ran.status, ran.out, ran.err) == (0, "60 calls\nlimit off\n", ""), ran
    until(lambda: is_whole(path))
    assert [e["op"] for e in Trace(path).ev if e["type"] == "library"] == ["attached"]


@pytest.mark.parametrize("name", ["getsockopt", "gettid", "prctl"])
def test_filter_without_proc(tmp_path, filtered, name):
    """The library cannot count filters: it must not make the call that ends the program."""
    needs_tracing()
    shell = f"mount -t tmpfs none /proc && exec {filtered} kill {name} {c('calls')}"
    ran = cudatrace("-q", "--probe=inject", "--jsonl", tmp_path / "trace", "--", "unshare", "-m", "sh", "-c", shell, env={"LD_LIBRARY_PATH": FAKE})
    assert (ran.status, ran.out.splitlines()[0]) == (0, "60 calls"), ran


@pytest.mark.parametrize("way", ["user", "alone", "injected"])
@pytest.mark.parametrize("action", ["kill", pytest.param("trap", marks=pytest.mark.long), pytest.param("errno", marks=pytest.mark.long)])
def test_filter_at_start(tmp_path, filtered, action, way):
    """A program under a filter, before any tracer, that ends it at one call of the library, or fails it: it must end as untraced."""
    path = str(tmp_path / "trace")
    variables = [f"{'LD_PRELOAD' if way == 'alone' else 'CUDA_INJECTION64_PATH'}={LIBRARY}", f"CUDATRACE_OUT={path}", "ASAN_OPTIONS=verify_asan_link_order=0"]
    tried = 0
    for name in calls_of_library():
        untraced = Ran(["timeout", "5", filtered, action, name, c("calls")], env={"LD_LIBRARY_PATH": FAKE})
        # The other process, which makes the calls first, takes a clone() and a wait4().
        if untraced.status or (way != "user" and action != "errno" and name == "clone"):
            continue
        if way == "user":
            ran = traced(way, path, [filtered, action, name, c("calls")], {})
        else:
            ran = Ran([filtered, action, name, "env", *variables, c("calls")], env={"LD_LIBRARY_PATH": FAKE})
        says = [line for line in ran.err.splitlines(True) if not line.startswith("cudatrace: ")]
        assert (ran.status, ran.out, "".join(says)) == (untraced.status, untraced.out, untraced.err), (name, ran)
        notes = ran.err.count("not traced in the process, which has a seccomp filter of its own")
        assert notes == 1 or way != "user" or name == "write", (name, ran)
        assert notes <= 1, (name, ran)
        tried += 1
    assert tried > 30, tried
