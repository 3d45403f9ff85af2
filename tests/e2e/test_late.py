# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1800
# takes: 150 1100
"""--probe=inject -p: the library enters programs that run already, and check themselves. No call is missing or recorded twice,
whether tracers end or are killed. Processes that cannot be entered are refused with a reason, and nothing in them is changed."""
import collections
import contextlib
import os
import platform
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from helpers.daemon import NOBODY, Daemon, for_all  # noqa: F401, a fixture
from helpers.jsonl import Trace
from helpers.run import CC, CUDATRACE, O, TESTS, cudatrace, needs_tracing, until

# As libraries do that must know all threads.
THREADS = """#include <dlfcn.h>
int pthread_create(void *t, void *attr, void *fn, void *arg)
{
	int (*next)(void *, void *, void *, void *) = dlsym(RTLD_NEXT, "pthread_create");

	return next(t, attr, fn, arg);
}
"""
# Many mappings of two files with many symbols.
MAPS = r"""#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
__asm__(".altmacro\n.macro f n\n.globl many\\n\n.type many\\n, @function\nmany\\n:\n.endm\n.set i, 0\n.rept 20000\nf %i\n.set i, i + 1\n.endr\nnop");
__attribute__((constructor)) static void map(void)
{
	int files[] = {open(getenv("LD_PRELOAD"), O_RDONLY), open("/proc/self/exe", O_RDONLY)};

	for (int i = 0; i < 60000; i++)
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, files[i % 2], 0);
}
"""
# The program ends while the library is being loaded.
ENDS = """
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *malloc(size_t size)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (!strcmp(name, "cudatrace-late")) {
		usleep(500000);
		_exit(7);
	}
	return __libc_malloc(size);
}
"""
KINDS = ["call", "registers", "malloc", "fork", "dlopen", "signal", "small", "wait", "python"]
# Only in make check-all: other languages, and other allocators for the kind malloc.
OTHERS = {"go": None, "java": None, "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
HIDE = ["sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
# In another root there is nothing but the system's libraries and the test's folder.
ROOT = ["sh", "-c", """
for d in usr lib lib64 etc proc "$TMP"; do
    if [ -L "/$d" ]; then cp -P "/$d" "$NEW/"; else [ ! -d "/$d" ] || { mkdir -p "$NEW/$d"; mount --rbind "/$d" "$NEW/$d"; }; fi
done
exec chroot "$NEW" "$@"
""", "sh"]
CONTAINERS = {  # user: also outside
    "network": (["unshare", "-n"], 0), "mount": (["unshare", "-m", *HIDE], 0),
    "pid": (["unshare", "-p", "-f", "--kill-child", "--mount-proc"], 0), "user": (["unshare", "-U", "-r"], 65534), "root": (["unshare", "-m", *ROOT], 0),
    "all": (["unshare", "-U", "-r", "-n", "-m", "-p", "-f", "--kill-child", "-i", "-u", "--mount-proc", *HIDE], 65534),
}


@pytest.fixture(autouse=True, scope="module")
def root():
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("only programs on x86-64 can be entered")


@pytest.fixture(scope="module")
def built():
    """A folder with the program `late` and its libcuda in `lib`."""
    folder = os.environ["TMP"] + "/late"
    flags = ["-O2", "-Wall", "-D_GNU_SOURCE"]
    lib = ["-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1", "-Wl,--build-id", TESTS + "/inject/late_lib.c", "-o"]
    for name in ("lib", "plain"):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
    for args, source in (([*lib, folder + "/lib/libcuda.so.1"], ""), (["-DNO_POINTERS", *lib, folder + "/plain/libcuda.so.1"], ""),
                         (["-o", folder + "/late", TESTS + "/inject/late.c", TESTS + "/inject/late_filters.c", "-ldl", "-lpthread", "-lseccomp"], ""),
                         (["-fsanitize=address", "-o", folder + "/late-asan", TESTS + "/inject/late.c", TESTS + "/inject/late_filters.c", "-ldl",
                           "-lpthread", "-lseccomp"], ""),
                         (["-fPIC", "-shared", "-o", folder + "/kill.so", TESTS + "/inject/late_kill.c", "-ldl"], ""),
                         (["-fPIC", "-shared", "-o", folder + "/threads.so", "-xc", "-"], THREADS),
                         (["-fPIC", "-shared", "-o", folder + "/maps.so", "-xc", "-"], MAPS),
                         (["-fPIC", "-shared", "-o", folder + "/ends.so", "-xc", "-"], ENDS)):
        subprocess.run([*CC, *flags, *args], check=True, text=True, input=source)
    return folder


def go(built):
    if not shutil.which("go"):
        pytest.skip("go is not installed (golang-go)")
    env = {"HOME": os.environ["TMP"], **os.environ, "GOFLAGS": ""}
    subprocess.run(["go", "build", "-o", built + "/late-go", TESTS + "/inject/late.go"], check=True, env=env)
    return [built + "/late-go"]


def java(built):
    if not shutil.which("javac") or not shutil.which("java"):
        pytest.skip("a JDK is not installed")
    subprocess.run(["javac", "-nowarn", "-d", built, TESTS + "/inject/Late.java"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run([*CC, "-O2", "-Wall", "-fPIC", "-shared", "-o", built + "/late_jni.so", TESTS + "/inject/late_jni.c", "-ldl"], check=True)
    return ["java", "-Xmx64m", "-cp", built, "Late", built + "/late_jni.so"]


def command_of(built, kind, name="late"):
    """The command of a kind, and its environment."""
    if kind == "python":
        return [sys.executable, TESTS + "/inject/late.py"], {}
    if kind in ("go", "java"):
        return {"go": go, "java": java}[kind](built), {}
    if kind in OTHERS:
        if OTHERS[kind] not in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout:
            pytest.skip(OTHERS[kind] + " is not installed")
        return [built + "/late", "malloc"], {"LD_PRELOAD": OTHERS[kind]}
    return [f"{built}/{name}", *kind.split()], {}


@contextlib.contextmanager
def program(built, kind, before=(), user=0, lib=None, name="late", **env):
    """Runs it; at the end it must be unharmed. Its attribute `calls` then has the launches of each thread."""
    command, of = command_of(built, kind, name)
    env = {**of, **env}
    with subprocess.Popen([*before, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=user,
                          env={**os.environ, "LD_LIBRARY_PATH": str(lib or built + "/lib"), **env}) as p:
        try:
            assert p.stdout.readline() == "ready\n", p.stderr.read()
            p.target = target_of(p.pid)
            p.end = lambda: end(p)
            yield p
            if p.returncode is None:
                end(p)
        finally:
            p.kill()


def target_of(pid):
    """The program may be a child of the one that was started (unshare --fork)."""
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f, open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as children:
        return target_of(int(children.read())) if f.read() == "unshare\n" else pid


def end(p):
    os.kill(p.target, signal.SIGCONT)
    os.kill(p.target, signal.SIGTERM)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and err == "", (p.returncode, err)
    p.calls = {int(k): int(n) for k, n in (line.split() for line in out.splitlines())}


def command(p, path, *args):
    return ["-q", "--probe=inject", "-p", str(p.target), "--jsonl", str(path), *args]


def launches(path):
    """Each thread's launches, and how many of all the library has recorded. None may be missing or be there twice."""
    t = Trace(path)
    assert t.accounts()
    of = collections.defaultdict(collections.Counter)
    for e in t.calls:
        of[e["grid"][1]][e["grid"][0]] += 1
    for k, seen in of.items():
        twice = [n for n, cnt in seen.items() if cnt > 1]
        gaps = set(range(min(seen), max(seen) + 1)) - set(seen)
        assert not twice and not gaps, (k, twice, sorted(gaps)[:10])
    return of, sum(e["id"] >> 48 == 2 for e in t.calls)


def has_entered(path):
    """Whether the trace has calls of the library, by their ids."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as f:
        return any(re.search(r'"id":56\d{13},', line) for line in f)
    return False


def enter(p, path, seconds=0):
    with contextlib.suppress(OSError):
        os.unlink(path)
    with subprocess.Popen([CUDATRACE, *command(p, path)], stderr=subprocess.PIPE, text=True) as tracer:
        try:
            until(lambda: has_entered(path) or tracer.poll() is not None)
            time.sleep(seconds)
        finally:
            tracer.send_signal(signal.SIGTERM)
            err = tracer.communicate(timeout=60)[1]
            print(err)
    # A machine may be too busy to attach probes in time; the trace then reports it, and calls are missing.
    is_late = re.match(r"cudatrace: warning: .*: cannot attach [0-9]+ probes? while the kernel waits", err)
    assert tracer.returncode == 0 and (is_late or err == ""), (tracer.returncode, err)
    assert is_late or launches(path)


@pytest.mark.parametrize("kind", [*KINDS, "docker", "filters", *[pytest.param(k, marks=pytest.mark.long) for k in OTHERS]])
def test_programs(tmp_path, built, kind):
    with program(built, kind) as p:
        enter(p, tmp_path / "trace")


# For a proof by hand, thousands: LATE_ATTACHES=300 LATE_SEED=1 tests/run.sh --long late -k often
ATTACHES, SEED = int(os.environ.get("LATE_ATTACHES", "10")), os.environ.get("LATE_SEED", "")


@pytest.mark.long
@pytest.mark.parametrize("kind", [*KINDS, *OTHERS, "docker", "all"])
def test_programs_often(tmp_path, built, kind):
    """Half of the tracers are killed at a random moment (LATE_KILLS=0: none)."""
    where = CONTAINERS["all"] if kind == "all" else ((), 0)
    chance = random.Random(kind + SEED)
    os.chmod(os.environ["TMP"], 0o755)
    with program(built, "fork" if kind == "all" else kind, *where) as p:
        for n in range(ATTACHES):
            if n % 2 and os.environ.get("LATE_KILLS") != "0":
                with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "killed")], stderr=subprocess.DEVNULL, start_new_session=True) as tracer:
                    time.sleep(chance.uniform(0.2, 1.5))
                    os.killpg(tracer.pid, signal.SIGKILL)
            else:
                enter(p, tmp_path / "trace")


def test_calls_in_flight(tmp_path, built):
    """Calls that are in flight when the library takes over are recorded once, by the probes that saw them begin."""
    # On a busy machine a thread may be between two calls at that moment.
    for _ in range(3):
        with program(built, "call", LATE_SLOW="1") as p:
            enter(p, tmp_path / "trace", seconds=0.1)
            calls = Trace(tmp_path / "trace").calls
            first = min(e["ts"] for e in calls if e["id"] >> 48 == 2)
            over = {e["grid"][1] for e in calls if e["id"] >> 48 != 2 and e["ts"] < first < e["ts"] + e.get("duration_us", 0) / 1000}
        assert over <= {2, 3}, (first, over)
        if len(over) == 2:
            break
    assert over == {2, 3}, (first, over)


def test_to_the_end(tmp_path, built):
    """The trace lasts until the program's end: its last launches are those that the program has counted."""
    with program(built, "call") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.PIPE, text=True) as tracer:
            until(lambda: is_entered(p))
            time.sleep(1)
            p.end()
            assert tracer.communicate(timeout=60)[1] == "" and tracer.returncode == 0
        of, by_library = launches(tmp_path / "trace")
        assert by_library and {k: max(seen) for k, seen in of.items()} == p.calls


@pytest.mark.parametrize("user", [0, 65534])
def test_two(tmp_path, built, user):
    """Two processes, also of another user."""
    os.chmod(os.environ["TMP"], 0o755)
    with program(built, "call", user=user) as p, program(built, "malloc", user=user) as q:
        ran = cudatrace("-q", "--probe=inject", "-p", f"{p.pid},{q.pid}", "--jsonl", tmp_path / "trace", "--duration", "2")
        assert ran.status == 0 and ran.err == "" and is_entered(p) and is_entered(q), ran
        by_library = {e["pid"] for e in Trace(tmp_path / "trace").calls if e["id"] >> 48 == 2}
        assert by_library == {p.pid, q.pid}


def test_two_users(built):
    os.chmod(os.environ["TMP"], 0o755)
    with program(built, "call") as p, program(built, "call", user=65534) as q:
        ran = cudatrace("-q", "--probe=inject", "-p", f"{p.pid},{q.pid}", "--jsonl", "/dev/null")
        assert ran.status == 1 and "belong to different users" in ran.err and not is_entered(p), ran


def mapped(p):
    with open(f"/proc/{p.target}/maps", encoding="utf-8") as f:
        return {line.split()[5] for line in f if "libcudatrace-inject" in line}


def is_entered(p):
    return bool(mapped(p))


def test_children(tmp_path, built):
    """A child of fork connects by itself."""
    with program(built, "fork") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.PIPE, text=True) as tracer:
            until(lambda: is_entered(p))
            time.sleep(1)
            p.end()
            assert tracer.communicate(timeout=60)[1] == "" and tracer.returncode == 0
        t = Trace(tmp_path / "trace")
        assert t.accounts() and sum(e["op"] == "fork" for e in t.proc) > 3


def kill_tracer(p, path):
    with subprocess.Popen([CUDATRACE, *command(p, path)], stderr=subprocess.DEVNULL, start_new_session=True) as tracer:
        until(lambda: is_entered(p))
        time.sleep(0.3)
        os.killpg(tracer.pid, signal.SIGKILL)


def test_next_tracers(tmp_path, built):
    """Each finds the library that is there, also if the last one was killed."""
    with program(built, "call") as p:
        enter(p, tmp_path / "1")
        first = mapped(p)
        assert len(first) == 1
        kill_tracer(p, tmp_path / "2")
        enter(p, tmp_path / "3")
        enter(p, tmp_path / "4")
        assert mapped(p) == first


# The helper's writes to the process: state, code, ticket, socket, token, one pointer, ticket. Then it restores the pointer, if no thread came.
@pytest.mark.parametrize("all_of_it", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["call", *(pytest.param(k, marks=pytest.mark.long) for k in KINDS[1:])])
def test_killed(tmp_path, built, kind, all_of_it):
    """The process that enters is killed before each of its writes; the next tracer enters at once."""
    env = {"LD_PRELOAD": built + "/kill.so", **({"LATE_KILL_ALL": "1"} if all_of_it else {})}
    for n in range(1, 8):
        with program(built, kind) as p:
            ran = cudatrace("--no-sandbox", *command(p, tmp_path / "trace", "--duration", "1"), env={**env, "LATE_KILL": str(n)})
            assert ran.status == (-signal.SIGKILL if all_of_it else 0) and ("cudatrace-late was killed" in ran.err) != all_of_it, ran
            enter(p, tmp_path / "trace")


def refused(p, *args):
    ran = cudatrace(*command(p, "/dev/null", "--duration", "0.5"), *args)
    assert ran.status == 1 and ran.err.count("\n") == 1, ran
    return ran.err


# kind, program, environment, reason
REFUSALS = {"kills": ("kills", "late", {}, "(seccomp) and forbids openat, which loading a library needs"),
            "refuses": ("refuses", "late", {}, "(seccomp) and forbids mmap"), "one": ("one", "late", {}, "(seccomp) and forbids openat"),
            "threads": ("call", "late", {"LD_PRELOAD": "threads.so"}, "it replaces pthread_create()"),
            "asan": ("call", "late-asan", {"ASAN_OPTIONS": "detect_leaks=0"}, "it replaces pthread_create()"),
            "variable": ("call", "late", {"CUDATRACE_NO_INJECT": "1"}, "CUDATRACE_NO_INJECT")}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(built, name):
    kind, runs, env, why = REFUSALS[name]
    with program(built, kind, name=runs, **{k: v.replace("threads.so", built + "/threads.so") for k, v in env.items()}) as p:
        said = refused(p)
        assert why in said and "use --probe=uprobe" in said and not is_entered(p)


@pytest.mark.parametrize("before", [(), ("unshare", "-p", "-f")], ids=["", "pid"])
def test_sandboxed_meanwhile(tmp_path, built, before):
    """A filter that a thread installs after the check, immediately before the call at which the library would be loaded."""
    if before and subprocess.run([*before, "true"], check=False).returncode:
        pytest.skip("unshare -p is not allowed")
    with program(built, "sandboxed", before) as p:
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "8"))
        assert ran.status == 0 and "it has installed a system call filter (seccomp) meanwhile" in ran.err and not is_entered(p), ran
        assert not launches(tmp_path / "trace")[1]


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(tmp_path, built, name):
    """Other namespaces, other roots; the library comes by memfd where its file is missing. The next tracer uses it, also if the last
    one was killed."""
    before, user = CONTAINERS[name]
    os.chmod(os.environ["TMP"], 0o755)
    if subprocess.run([*before, "true"], check=False, stderr=subprocess.DEVNULL, user=user, env={**os.environ, "NEW": str(tmp_path)}).returncode:
        pytest.skip(f"{name}: unshare is not allowed")
    with program(built, "fork" if name == "all" else "call", before, user, NEW=str(tmp_path)) as p:
        enter(p, tmp_path / "1")
        first = mapped(p)
        assert len(first) == 1 and any("memfd" in path for path in first) == (name in ("mount", "root", "all")), first
        if name == "all":
            kill_tracer(p, tmp_path / "2")
            enter(p, tmp_path / "3")
        assert mapped(p) == first


@pytest.mark.parametrize("before", [(), ("unshare", "-m", *HIDE)], ids=["file", "memfd"])
def test_calls_that_are_checked(tmp_path, built, before):
    """No other system calls are made than those that are checked, and those of the program itself."""
    with open(os.path.dirname(TESTS) + "/src/inject/late_filter.c", encoding="utf-8") as f:
        checked = set(re.findall(r'\{"([a-z0-9_]+)",\s+SYS_', f.read()))
    assert len(checked) > 35, checked
    own = {"write", "exit_group", "rt_sigreturn", "restart_syscall"}
    with program(built, "only " + " ".join(sorted(checked | own)), before) as p:
        enter(p, tmp_path / "1")
        if not before:
            kill_tracer(p, tmp_path / "2")
            time.sleep(3.5)
            enter(p, tmp_path / "3")


def test_deleted(tmp_path, built):
    """The file of libcuda was replaced since, as by an update of the driver."""
    shutil.copytree(built + "/lib", tmp_path / "lib")
    with program(built, "call", LD_LIBRARY_PATH=str(tmp_path / "lib")) as p:
        os.unlink(tmp_path / "lib/libcuda.so.1")
        enter(p, tmp_path / "trace")


def test_memfd_unfilled(tmp_path, built):
    """The tracer is killed before it fills the memfd: the program gives up after 5 s, and the next tracer succeeds."""
    if subprocess.run(["unshare", "-m", *HIDE, "true"], check=False).returncode:
        pytest.skip("unshare -m is not allowed")
    with program(built, "call", ["unshare", "-m", *HIDE]) as p:
        ran = cudatrace("--no-sandbox", *command(p, tmp_path / "trace", "--duration", "1"),
                        env={"LD_PRELOAD": built + "/kill.so", "LATE_KILL": "8"})
        assert "cudatrace-late was killed" in ran.err and not is_entered(p), ran
        enter(p, tmp_path / "trace")


def test_stopped(built):
    with program(built, "call") as p:
        p.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        assert "is stopped" in refused(p) and not is_entered(p)


def test_many_mappings(tmp_path, built):
    """Programs choose how many files they map: the time to look at them has a limit."""
    with program(built, "call", LD_PRELOAD=built + "/maps.so") as p:
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "1"))
        assert ran.status and "checking all files that it maps takes too long; use --probe=uprobe" in ran.err and not is_entered(p), ran


@pytest.mark.parametrize("kind", ["handler", "deep"])
def test_handlers(tmp_path, built, kind):
    """Calls in signal handlers that have interrupted malloc(), which creating a thread calls."""
    with program(built, kind) as p:
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "4"))
        assert ran.status == 0 and "its CUDA calls seem to come from signal handlers" in ran.err and not is_entered(p), ran
        launches(tmp_path / "trace")


def test_unloaded(tmp_path, built):
    """libcuda is unloaded before the thread begins that loads the library."""
    with program(built, "unload") as p:
        # Others find it unloaded already, and refuse.
        until(lambda: "cannot be entered" not in cudatrace(*command(p, tmp_path / "trace", "--duration", "1")).err)


def test_main_thread_has_ended(built):
    """Its maps are empty: that is not for lack of permission."""
    with program(built, "headless") as p:
        until(lambda: "Z" in open(f"/proc/{p.pid}/stat", encoding="utf-8").read())
        assert "its main thread has ended; use --probe=uprobe" in refused(p)
        p.kill()
        p.wait()


def test_out_of_files(tmp_path, built):
    with program(built, "call") as p:
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (3, 4096))
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "1"))
        assert ran.status == 0 and "it has as many open files as its limit allows (ulimit -n); raise that, or use --probe=uprobe" in ran.err, ran
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        enter(p, tmp_path / "trace")


def test_without_libcuda():
    with subprocess.Popen(["sleep", "60"]) as p:
        p.target = p.pid
        assert "has not loaded libcuda" in refused(p)
        p.kill()


def test_without_pointers(built):
    """A driver of another layout."""
    with program(built, "call", LD_LIBRARY_PATH=built + "/plain") as p:
        assert "no dispatch pointers" in refused(p) and not is_entered(p)


def test_traced_already(tmp_path, built):
    with program(built, "call") as p:
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.DEVNULL) as tracer:
            until(lambda: is_entered(p))
            time.sleep(0.5)
            assert "another cudatrace" in refused(p)
            tracer.send_signal(signal.SIGTERM)
            assert tracer.wait(60) == 0
        launches(tmp_path / "trace")


@pytest.mark.parametrize("kind,preload", [("call", "ends.so"), ("idle", None)])
def test_ends_meanwhile(tmp_path, built, kind, preload):
    """A program that ends before a CUDA call, or while the library is loaded, must be named as ended, not as one that did not respond in time."""
    env = {**os.environ, "LD_LIBRARY_PATH": built + "/lib", **({"LD_PRELOAD": f"{built}/{preload}"} if preload else {})}
    with subprocess.Popen([f"{built}/late", kind], stdout=subprocess.PIPE, text=True, env=env) as p:
        assert p.stdout.readline() == "ready\n"
        p.target = p.pid
        with subprocess.Popen([CUDATRACE, *command(p, tmp_path / "trace")], stderr=subprocess.PIPE, text=True) as tracer:
            if not preload:
                time.sleep(1)
                p.kill()
            err = tracer.communicate(timeout=60)[1]
    assert ("it has ended" in err or err == "") and " within " not in err, err
    assert err or not preload


def test_idle(tmp_path, built):
    """A program that makes no call keeps its pointers, and is traced by uprobes."""
    with program(built, "idle") as p:
        ran = cudatrace(*command(p, tmp_path / "trace", "--duration", "7"))
        assert ran.status == 0 and re.fullmatch(r".*: it has made no CUDA call within 5 s: its calls are traced by uprobes\n", ran.err), ran
        assert not is_entered(p)


def test_options(built):
    with program(built, "call") as p:
        for option in ("--kernel", "--sched", "--gpu-time"):
            ran = cudatrace(*command(p, "/dev/null"), option)
            assert ran.status == 2 and option in ran.err, ran


def test_variable_at_the_start(tmp_path, built):
    """With CUDATRACE_NO_INJECT a preloaded library does nothing: uprobes record the calls."""
    with program(built, "call", [CUDATRACE, "-q", "--probe=inject", "--jsonl", str(tmp_path / "trace"), "--"], CUDATRACE_NO_INJECT="1") as p:
        time.sleep(0.5)
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=60)
    t = Trace(tmp_path / "trace")
    assert t.calls and not any(e["id"] >> 48 == 2 for e in t.calls)


def test_code_is_alone():
    """The code that is copied into programs refers to nothing outside of it."""
    out = subprocess.run(["readelf", "-rW", O + "/src/inject/late_code.o"], capture_output=True, text=True, check=True).stdout
    own = re.search(r"'\.relalate_code'.*?\n\n", out, re.S)[0].splitlines()[2:]
    names = {line.split()[4] for line in own if line}
    assert names and all(n.startswith("late_") for n in names), names


class LateDaemon(Daemon):
    """Traces the programs in its folder. Those in `ruled` are entered by a rule."""

    def configure(self, level):
        super().configure(level)
        rule = f'rules:\n  - match: {{command: "{self.folder.parent}/ruled/*"}}\n    level: {level}\n    inject: true\n'
        self.conf.write_text(self.conf.read_text().replace("rules:\n", rule))


def test_daemon(for_all, built):  # noqa: F811
    """ctl inject, and rules with inject: also in a container. Each call is counted once."""
    where, user = CONTAINERS["all"]
    if subprocess.run([*where, "true"], check=False, stderr=subprocess.DEVNULL, user=user).returncode:
        pytest.skip("unshare is not allowed")
    shutil.copytree(built + "/lib", for_all / "lib")
    for name in ("ruled", "other", "never"):
        (for_all / name).mkdir()
        shutil.copy(built + "/late", for_all / name / "enterable")
    d = LateDaemon(for_all, own=True, trace="inject: true", level="metrics", libcuda=for_all / "lib/libcuda.so.1")
    how = {"lib": for_all / "lib", "name": "enterable"}
    with program(for_all / "ruled", "call", **how) as ruled, program(for_all / "other", "call", where, user, **how) as p, \
            program(for_all / "never", "kills", **how) as never:
        until(lambda: all(d.process(x.target) for x in (ruled, p, never)))
        ran = d.ask("inject", p.target, before=NOBODY)
        assert ran.status and not is_entered(p), ran
        for x in (p, never):
            assert d.ctl("inject", x.target)["inject"] == "requested"
        # The status may know of the connection before the helper reports.
        until(lambda: "requested" not in [d.process(x.target)["inject"] for x in (p, never)])
        results = [d.process(x.target)["inject"] for x in (p, never)]
        assert results[0] == "entered" and "forbids openat" in results[1], results
        assert "already" in d.ask("inject", p.target).err
        until(lambda: d.process(ruled.target).get("inject") == "entered", 30)
        assert [d.process(x.target)["seen"] for x in (ruled, p, never)] == ["inproc", "inproc", "uprobes"] and not is_entered(never)
        injections = d.metrics().by("injections_total", "result")
        assert injections == {"entered": 2, "refused": 1}, injections
        ends = []
        for x in (ruled, p, never):
            x.end()
            ends.append(sum(x.calls.values()))
        until(lambda: d.metric("cudatrace_calls_total", function="cuLaunchKernel", command="enterable") == sum(ends))
    d.stop()
