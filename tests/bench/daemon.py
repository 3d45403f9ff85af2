# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The daemon: its memory, its processor time, and the cost of attaching it to many processes."""
import os
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

import rig
from report import limit, results, say
from rig import CUDATRACE, FAKE, O, OUT, QUICK, CannotRun, Load
from scale import PROCESSES, private_kb, status

TRACED = 20 if QUICK else 100
MAX_FUNCTIONS = 500  # it attaches to more


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def config(tmp, level, pattern):
    """Other users may make CUDA calls on this machine meanwhile: their processes are off."""
    path = os.path.join(tmp, "daemon.yaml")
    with open(path, "w") as f:
        f.write(f"level: off\nrules:\n  - match: {{command: \"{pattern}\"}}\n    level: {level}\n"
                f"files: {{directory: {tmp}/files}}\nctl: {{socket: {tmp}/ctl.sock}}\n")
    return path


def argv(tmp, level, library, pattern, port):
    return [CUDATRACE, "daemon", "-v", "--config", config(tmp, level, pattern), "--libcuda", library,
            "--set", f"metrics.listen=127.0.0.1:{port}", "--set", "metrics.max_series=100000"]


def start(load, tmp, level, port=0):
    """For rig.Tracer's users: one target, named after its library's folder."""
    os.makedirs(os.path.join(tmp, "files"), exist_ok=True)
    tracer = rig.Tracer(load, argv(tmp, level, load.library, f"*{tmp}*", port or free_port()), MAX_FUNCTIONS, tmp)
    # An existing process gets its probes before its level.
    rig.wait_until("the daemon is ready", lambda: "tracing by" in tracer.stderr())
    return tracer


def cpu_ns(pid):
    """More precise than the clock ticks of stat."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as f:
        return f.read().decode()


def calls_of(text, command):
    """Calls of all processes with names that begin like this."""
    return sum(int(x) for x in re.findall(rf'^cudatrace_calls_total\{{.*command="{command}.*\}} (\d+)$', text, re.M))


class Samples:
    """Many programs in the middle of their work: each with its own name and metrics."""

    def __init__(self, tmp, cnt):
        self.tmp, self.procs = tmp, []
        self.library = os.path.join(tmp, "libcuda.so.1")
        subprocess.run(["strip", "-g", "-o", self.library, FAKE], check=True)
        self.env = dict(os.environ, LD_LIBRARY_PATH=tmp)
        self.names = []
        for i in range(cnt):
            name = os.path.join(tmp, f"sample{i}")
            os.symlink(os.path.join(O, "fake", "sample"), name)
            self.names.append(name)

    def run(self):
        """One after the other; each is stopped while it makes its calls."""
        for name in self.names:
            p = subprocess.Popen([name, "--tokens", "1000000", "--layers", "1"], env=self.env,
                                 stdout=subprocess.DEVNULL)
            self.procs.append(p)
            rig.wait_until(f"{name} works", lambda: rig.cpu_s(p.pid) >= 0.05, 20)
            p.send_signal(signal.SIGSTOP)

    def end(self):
        for p in self.procs:
            p.kill()
            p.wait()


class Daemon:
    def __init__(self, tmp, level, library, pattern):
        self.port = free_port()
        os.makedirs(os.path.join(tmp, "files"), exist_ok=True)
        self.err = os.path.join(tmp, "stderr")
        with open(self.err, "wb") as err:
            self.proc = subprocess.Popen(argv(tmp, level, library, pattern, self.port), stderr=err, start_new_session=True)
        self.pid = self.proc.pid
        rig.wait_until("the daemon is ready", lambda: self.proc.poll() is not None or "tracing by" in self.said(), 20)
        if self.proc.returncode is not None:
            raise CannotRun(self.said()[-200:])

    def said(self):
        with open(self.err, errors="replace") as f:
            return f.read()

    def end(self):
        self.proc.terminate()
        self.proc.wait(timeout=60)


def bench_daemon_memory():
    """Many running programs, each of which has called about forty functions."""
    table = {}
    say(f"The daemon with {TRACED} traced processes, each of another name: memory, and CPU while they do nothing")
    for level in ("metrics", "trace"):
        with tempfile.TemporaryDirectory(dir=OUT, prefix="daemon.") as tmp:
            samples = Samples(tmp, TRACED)
            daemon = Daemon(tmp, level, samples.library, f"{tmp}/sample*")
            try:
                alone = status(daemon.pid)["VmRSS"]
                samples.run()
                time.sleep(12)  # counts are read each ten seconds
                text = scrape(daemon.port)
                now, cpu, begin = status(daemon.pid), cpu_ns(daemon.pid), time.monotonic()
                time.sleep(5 if QUICK else 10)
                cpu = 100 * (cpu_ns(daemon.pid) - cpu) / 1e9 / (time.monotonic() - begin)
            finally:
                samples.end()
                daemon.end()
        seen = len(re.findall(r'^cudatrace_target_processes\{.*command="sample\d+"\} 1$', text, re.M))
        calls = calls_of(text, "sample")
        if seen != TRACED:
            raise CannotRun(f"{seen} of {TRACED} processes are in the metrics")
        table[level] = {"rss_mb": now["VmRSS"], "peak_mb": now["VmHWM"], "own_mb": now["RssAnon"], "alone_mb": alone,
                        "idle_cpu_percent": round(cpu, 3), "series_text_bytes": len(text), "calls": calls}
        say(f"  level {level:<8} {now['VmRSS']:6.1f} MB (peak {now['VmHWM']}; {alone} without processes; its own "
            f"{now['RssAnon']}), {cpu:.2f} % of a core; {calls:,} calls, /metrics {len(text) / 1e6:.1f} MB")
    say()
    results["daemon_memory"] = table
    limit(f"daemon: resident, {TRACED} processes at level metrics", table["metrics"]["peak_mb"], 50, "MB")


def bench_daemon_cpu():
    """One process, 10,000 calls a second from two threads, metrics read every five seconds."""
    seconds = 10 if QUICK else 20
    table = {}
    say("The daemon's processor time: cuLaunchKernel from two threads, the metrics read every 5 s")
    for rate in (0, 10000, 100000):
        with tempfile.TemporaryDirectory(dir=OUT, prefix="daemon.") as tmp:
            load, port = Load(rig.copy_library(FAKE, tmp, "lib")), free_port()
            tracer = start(load, tmp, "metrics", port)
            try:
                before, woken, begin = cpu_ns(tracer.pid), status(tracer.pid)["switches"], time.monotonic()
                if rate:
                    load.begin("rate", "cuLaunchKernel", 2, rate, seconds)
                for _ in range(seconds // 5):
                    time.sleep(5)
                    text = scrape(port)
                calls = load.answer()[0] if rate else 0
                percent = 100 * (cpu_ns(tracer.pid) - before) / 1e9 / (time.monotonic() - begin)
                woken = (status(tracer.pid)["switches"] - woken) / (time.monotonic() - begin)
                text = scrape(port)
            finally:
                tracer.stop()
                load.close()
        counted = calls_of(text, "load")
        if counted != calls:
            raise CannotRun(f"{calls:.0f} calls made, {counted} counted")
        table[rate] = {"cpu_percent": round(percent, 3), "wakeups_per_s": round(woken, 1), "calls": calls}
        say(f"  {rate:>7,} calls/s: {percent:.2f} % of a core, woken {woken:.1f} times a second; {calls:,.0f} calls, all counted")
    say()
    results["daemon_cpu"] = table
    limit("daemon: CPU at 10,000 calls/s, level metrics", table[10000]["cpu_percent"], 1, "% of a core")


def bench_daemon_idle():
    """No traced process, and no requests."""
    seconds = 5 if QUICK else 30
    with tempfile.TemporaryDirectory(dir=OUT, prefix="daemon.") as tmp:
        daemon = Daemon(tmp, "metrics", FAKE, "nobody")
        try:
            time.sleep(2)
            before, cpu = status(daemon.pid), cpu_ns(daemon.pid)
            time.sleep(seconds)
            after, cpu = status(daemon.pid), (cpu_ns(daemon.pid) - cpu) / 1e6 / seconds
        finally:
            daemon.end()
    woken = (after["switches"] - before["switches"]) / seconds
    results["daemon_idle"] = {"mb": after, "cpu_ms_per_s": round(cpu, 3), "wakeups_per_s": round(woken, 2)}
    say(f"The daemon, idle: {after['VmRSS']} MB resident, of these its own {after['RssAnon']}; woken {woken:.1f} times "
        f"a second, {cpu:.2f} ms of CPU a second")
    say()
    limit("daemon: CPU when idle", cpu, 1, "ms a second")


def bench_daemon_attach():
    """A library that many programs have mapped already."""
    with tempfile.TemporaryDirectory(dir=OUT, prefix="daemon.") as tmp:
        library = rig.copy_library(FAKE, tmp, "lib")
        loads = [Load(library) for _ in range(PROCESSES)]
        try:
            before = statistics.median(private_kb(l.pid) for l in loads)
            tracer = start(loads[0], tmp, "metrics")
            rig.wait_until("all have their probes", lambda: loads[-1].changed() >= MAX_FUNCTIONS)
            time.sleep(1)
            after, resident = statistics.median(private_kb(l.pid) for l in loads), status(tracer.pid)["VmRSS"]
            stop_s = tracer.stop()
            m = re.search(rf"{re.escape(library)}: (\d+) of (\d+) functions attached in ([0-9.]+) ms", tracer.stderr())
            ready_s = tracer.start_s
        finally:
            for l in loads:
                l.close()
    attach_ms = float(m.group(3)) if m else None
    results["daemon_attach"] = {"processes": PROCESSES, "attach_ms": attach_ms, "from_start_s": round(ready_s, 2),
                                "stop_s": round(stop_s, 2), "rss_mb": resident, "kb_per_process": after - before}
    say(f"The daemon, {PROCESSES} processes that map the library: attached in {attach_ms} ms ({ready_s:.2f} s after it "
        f"was started), gone in {stop_s:.2f} s; each has {after - before:.0f} kB more of its own; the daemon {resident} MB")
    say()


PARTS = (bench_daemon_memory, bench_daemon_cpu, bench_daemon_idle, bench_daemon_attach)
