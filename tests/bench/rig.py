# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes of the benchmark: the program that makes the calls, and those that trace it."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

O = os.environ["O"]
OUT = os.path.join(O, "bench")
CUDATRACE = os.path.join(O, "cudatrace")
FAKE = os.path.join(O, "fake", "libcuda.so.1")
QUICK = "-q" in sys.argv[1:]
FUNCTIONS = ["cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize"]


class CannotRun(Exception):
    """A measurement is impossible: it is skipped, and the reason printed."""


def wait_until(what, cond, seconds=10.0, step=0.005):
    end = time.monotonic() + seconds
    while not cond():
        if time.monotonic() > end:
            raise CannotRun(f"{what}: not after {seconds:g} s")
        time.sleep(step)


def cpu_s(pid):
    """Processor time of a process, in user space and in the kernel."""
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy_s():
    """The same for all processors together, including interrupts."""
    with open("/proc/stat") as f:
        user, nice, kernel, _, _, irq, softirq, *_ = (int(x) for x in f.readline().split()[1:])
    return (user + nice + kernel + irq + softirq) / os.sysconf("SC_CLK_TCK")


def copy_library(fake, tmp, name, file="mock.so"):
    """Makes a separate file, under a name that system-wide tracers ignore.
    It has no debug information, which perf probe would prefer to the symbols."""
    path = os.path.join(tmp, name, file)
    os.makedirs(os.path.dirname(path))
    if subprocess.run(["strip", "-g", "-o", path, fake]).returncode:
        shutil.copy(fake, path)
    return path


class Load:
    """load.c: makes calls by command. before: a tracer that starts it."""

    def __init__(self, library, program="load", before=()):
        self.library = os.path.realpath(library)
        with open(self.library, "rb") as f:
            self.file = f.read()
        env = dict(os.environ, FAKE_NO_SEM="1")
        self.proc = subprocess.Popen([*before, os.path.join(OUT, program), library], env=env, text=True,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     start_new_session=True)
        if self.proc.stdout.readline() != "ready\n":
            raise CannotRun(f"{program} {library} does not start")
        self.pid = self.proc.pid
        self.code = None if before else self._find_code()

    def _find_code(self):
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                span, perms, off, _, _, *name = line.split()
                if name and name[0] == self.library and "x" in perms:
                    begin, end = (int(x, 16) for x in span.split("-"))
                    return begin, end - begin, int(off, 16)
        raise CannotRun(f"{self.library} is not mapped")

    def changed(self):
        """Number of bytes of the library's code that differ from the file."""
        begin, size, off = self.code
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as mem:
            mem.seek(begin)
            got = mem.read(size)
        want = self.file[off:off + size]
        cnt = 0
        for at in range(0, len(want), 4096):
            a, b = got[at:at + 4096], want[at:at + 4096]
            if a[:len(b)] != b:
                cnt += sum(x != y for x, y in zip(a, b))
        return cnt

    def begin(self, *words):
        self.proc.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.proc.stdin.flush()

    def answer(self):
        line = self.proc.stdout.readline()
        if not line:
            raise CannotRun("the program that makes the calls has ended")
        return [float(x) for x in line.split()]

    def ask(self, *words):
        self.begin(*words)
        return self.answer()

    def close(self):
        self.proc.stdin.close()
        self.proc.wait()


class Tracer:
    """A tracing process. It counts as started when the probes are in the target's memory, and as
    stopped when they are gone: checked from outside, in the same way for all tracers."""

    def __init__(self, load, argv, probe_cnt, tmp, stop_signal=signal.SIGINT, stdout=None, env=None):
        self.load = load
        self.stop_signal = stop_signal
        self.err_path = os.path.join(tmp, "stderr")
        self.stdout_path = stdout or os.path.join(tmp, "stdout")
        wait_until("nobody else traces our target", lambda: load.changed() == 0)
        begin = time.monotonic()
        with open(self.err_path, "wb") as err, open(self.stdout_path, "wb") as out:
            # Its own session: Ctrl-C ends the benchmark, which then ends its processes in turn.
            self.proc = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=out, stderr=err,
                                         env=env, start_new_session=True)
        self.pid = self.proc.pid
        try:
            wait_until(f"{os.path.basename(argv[0])} attaches",
                       lambda: self.proc.poll() is not None or load.changed() >= probe_cnt, 20)
        except CannotRun:
            self.proc.kill()
            self.proc.wait()
            raise
        if self.proc.returncode is not None:
            raise CannotRun(self.stderr().strip().split("\n")[-1][:200] or argv[0])
        self.start_s = time.monotonic() - begin

    def stderr(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def status_kb(self, field):
        with open(f"/proc/{self.pid}/status") as f:
            m = re.search(rf"^{field}:\s+(\d+) kB", f.read(), re.M)
        return int(m.group(1)) if m else 0

    def cpu_s(self):
        return cpu_s(self.pid)

    def stop(self):
        """Returns the seconds from the signal to the process's end."""
        begin = time.monotonic()
        if self.stop_signal:
            self.proc.send_signal(self.stop_signal)
        else:
            self.proc.stdin.close()
        try:
            self.proc.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise CannotRun("the tracer does not end")
        took = time.monotonic() - begin
        wait_until("the probes are gone", lambda: self.load.changed() == 0)
        return took


def empty(load, tmp, mechanism, functions, place="best"):
    argv = [os.path.join(OUT, "empty"), os.path.join(OUT, "empty.bpf.o"), mechanism, place,
            load.library, *functions]
    return Tracer(load, argv, len(functions), tmp, stop_signal=None)


def cudatrace(load, tmp, mechanism, functions, output, *options):
    argv = [CUDATRACE, "-p", str(load.pid), "--libcuda", load.library, f"--mechanism={mechanism}",
            "-e", ",".join(functions), "--jsonl", output, "--no-summary", *options]
    tracer = Tracer(load, argv, len(functions), tmp)
    if output != "/dev/null":
        wait_until("the trace's header", lambda: os.path.exists(output) and os.path.getsize(output))
    return tracer


def inside(fake, tmp, output, functions, *options):
    """The program, with cudatrace in it, which detects the driver by its name."""
    return Load(copy_library(fake, tmp, "lib", "libcuda.so.1"), before=[CUDATRACE, "-q", "--probe=inject", "-e", ",".join(functions), *options, "--jsonl", output, "--"])


def bpftrace(load, tmp, name, output):
    if not shutil.which("bpftrace"):
        raise CannotRun("not installed")
    script = os.path.join(tmp, name)
    with open(os.path.join(os.path.dirname(__file__), name)) as f:
        text = f.read()
    with open(script, "w") as f:
        f.write(text.replace("LIB", load.library))
    return Tracer(load, ["bpftrace", script], len(FUNCTIONS), tmp, stdout=output)


# The same arguments, from registers and stack: x86-64's.
PERF_ARGS = {
    "cuLaunchKernel": [f"a{i}={r}" for i, r in enumerate(
        ["%di", "%si", "%dx", "%cx", "%r8", "%r9", "+8(%sp)", "+16(%sp)", "+24(%sp)", "+32(%sp)",
         "+40(%sp)"])],
    "cuMemAlloc_v2": ["dptr=%di", "size=%si"],
    "cuStreamSynchronize": ["stream=%di"],
}


class Perf:
    """perf's probes: made only once, since their names are global."""

    def __init__(self, library):
        self.group = f"ctbench{os.getpid()}"
        self.made = False
        if not shutil.which("perf"):
            raise CannotRun("not installed (Debian: linux-perf, Ubuntu: linux-tools-generic)")
        # Probes left by a killed benchmark.
        subprocess.run(["perf", "probe", "-q", "-d", "ctbench*:*"], capture_output=True)
        for f in FUNCTIONS:
            self._add(library, f"{self.group}:{f}={f}", *PERF_ARGS[f])
            self._add(library, f"{self.group}:{f}_ret={f}%return", "ret=$retval")

    def _add(self, library, what, *args):
        if os.uname().machine != "x86_64":
            args = ()
        spec = " ".join([what, *args])
        r = subprocess.run(["perf", "probe", "-x", library, "--add", spec],
                           capture_output=True, text=True)
        if r.returncode:
            self.remove()
            raise CannotRun("perf probe: " + (" ".join(r.stderr.split())[-200:] or "refused"))
        self.made = True

    def record(self, load, tmp, output):
        argv = ["perf", "record", "-p", str(load.pid), "-o", output,
                "-e", f"{self.group}:*"]
        return Tracer(load, argv, len(FUNCTIONS), tmp)

    def remove(self):
        if self.made:
            subprocess.run(["perf", "probe", "-q", "-d", f"{self.group}:*"], capture_output=True)
        self.made = False


def end_line(path):
    """The last line of a trace."""
    with open(path, "rb") as f:
        f.seek(0, os.SEEK_END)
        f.seek(max(0, f.tell() - 8192))
        end = json.loads(f.read().split(b"\n")[-2])
    if end["type"] != "end":
        raise CannotRun(f"{path} has no end")
    return end
