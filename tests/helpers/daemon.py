# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Daemons, the programs that they trace, and their metrics and files.

Daemon: with its own folder, from which programs load its library, and programs that opt in.
Private: a folder with a libcuda and programs of its own, and daemons that trace only these."""
import collections
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import pytest

from .live import Caller, compiled
from .ports import free_port
from .run import CUDATRACE, FAKE, TESTS, Ran, needs_tracing, until

SERIES = re.compile(r"^(cudatrace_\w+)(?:\{(.*)\})? (\S+)$", re.M)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def fetch(url, seconds=20):
    """The content, as text. A daemon listens before it answers: without a limit a daemon that hangs would hang the suite."""
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=seconds) as f:
        return f.read().decode()


class Metrics:
    """A response of /metrics: samples, each (name without cudatrace_, labels, value)."""

    def __init__(self, text):
        self.text = text
        self.samples = [(m[1][len("cudatrace_"):], dict(LABEL.findall(m[2] or "")), float(m[3])) for m in SERIES.finditer(text)]

    def by(self, name, label, **want):
        """The sums of the samples with these labels, by the values of one label; without those that are 0."""
        out = collections.Counter()
        for n, labels, value in self.samples:
            if n == name and all(labels.get(k) == v for k, v in want.items()):
                out[labels.get(label, "")] += value
        return +out

    def total(self, name, **want):
        return sum(self.by(name, "", **want).values())

    def calls(self, command, function="cuMemAlloc_v2"):
        return self.total("calls_total", command=command, function=function)


class Daemon:
    running = []

    def __init__(self, folder, *args, trace="gpu_time: graphs", level="trace", own=False, libcuda=FAKE + "/libcuda.so.1", before=()):
        """own: trace no programs of others. before: a command that runs the daemon."""
        self.folder, self.log, self.files = folder / "inject", folder / "log", folder / "files"
        self.conf, self.sock = folder / "d.yaml", folder / "ctl.sock"
        self.trace, self.libcuda, self.args, self.own, self.before = trace, libcuda, args, own, before
        self.at = f"127.0.0.1:{free_port()}"
        self.configure(level)
        self.start()

    def configure(self, level):
        rules = f'rules:\n  - match: {{command: "{self.folder.parent}/*"}}\n    level: {level}' if self.own else ""
        level = "off" if self.own else level
        self.conf.write_text(f"level: {level}\n{rules}\ntrace: {{{self.trace}, inject_folder: {self.folder}}}\n"
                             f"metrics: {{listen: '{self.at}'}}\nctl: {{socket: {self.sock}}}\n"
                             f"files: {{directory: {self.files}, compress: none}}\nrecorder: {{seconds: 0}}\n")

    def start(self):
        with open(self.log, "wb") as log:
            self.p = subprocess.Popen([*self.before, CUDATRACE, "daemon", "--config", self.conf, "--libcuda", self.libcuda, *self.args],
                                      stdout=log, stderr=subprocess.STDOUT)
        self.running.append(self.p)
        until(lambda: self.p.poll() is not None or "metrics on" in self.log.read_text(), 60)
        assert self.p.poll() is None, self.log.read_text()

    def series(self):
        """Name, labels, value of each line of /metrics."""
        return [("cudatrace_" + name, labels, value) for name, labels, value in self.metrics().samples]

    def metrics(self, seconds=20):
        return Metrics(fetch(f"http://{self.at}/metrics", seconds))

    def metric(self, name, **labels):
        """The sum of the series with these labels."""
        return sum(v for n, of, v in self.series() if n == name and all(of.get(k) == x for k, x in labels.items()))

    def calls(self, command):
        return {of["function"]: v for n, of, v in self.series() if n == "cudatrace_calls_total" and of["command"] == command}

    def lost(self, whose=("calls", "threads", "depth", "counts", "errors", "inproc")):
        """Losses of these kinds. Other suites (daemon_floods) may cause the rest: all processes share tasks, libraries and thread shares."""
        return {of["what"]: v for n, of, v in self.series() if n == "cudatrace_dropped_total" and v and of["what"] in whose}

    def ask(self, *args, before=(), **how):
        """Runs cudatrace ctl. before: a command that runs it."""
        return Ran([*before, CUDATRACE, "ctl", "--set", f"ctl.socket={self.sock}", *map(str, args)], **how)

    def ctl(self, *args, **how):
        """The answer of cudatrace ctl, which must succeed."""
        ran = self.ask(*args, **how)
        assert ran.status == 0, ran
        return json.loads(ran.out)

    def process(self, pid):
        """The entry of the process in ctl status; {}: none."""
        return next((p for p in self.ctl("status")["processes"] if p["pid"] == pid), {})

    def lines(self):
        """The lines of all files, also of those being written."""
        text = [line for f in self.files.iterdir() if f.is_file() for line in f.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in text if line.endswith("}")]

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        assert self.p.wait(120) == 0, self.log.read_text()

    def kill(self):
        self.p.kill()
        self.p.wait()


@pytest.fixture
def for_all():
    """A folder that every user can read, and a file there that every user can write."""
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        folder.chmod(0o755)
        (folder / "counts").touch()
        (folder / "counts").chmod(0o666)
        yield folder
        # Left by a failed test.
        for p in Daemon.running:
            if p.poll() is None:
                print(p.args[p.args.index("--config") + 1].parent.joinpath("log").read_text()[-2000:])
                p.kill()
                p.wait()
        Daemon.running.clear()


def as_user(uid, gid=None):
    return ["setpriv", f"--reuid={uid}", f"--regid={gid or uid}", "--clear-groups"]


NOBODY = as_user(65534)
# As in a pod: another network namespace, and another user.
POD = ["unshare", "--net", *NOBODY]


def library(folder):
    return {"CUDA_INJECTION64_PATH": f"{folder}/libcudatrace-inject.so"}


def opted_in(d, *argv, path=FAKE, **more):
    """Runs a program that loads the daemon's library, until it ends."""
    return subprocess.run([*POD, *argv], env={**os.environ, "LD_LIBRARY_PATH": path, **library(d.folder), **more}, check=True)


# --- Daemons that trace only the programs of a folder ---

def rules(folder, level, more=""):
    """A configuration that traces only the programs in the folder, at this level, or at the levels of (folder below it, level) pairs."""
    pairs = [("", level)] if isinstance(level, str) else level
    lines = "".join(f'  - match: {{command: "{folder}/{below}*"}}\n    level: {at}\n' for below, at in pairs)
    return f"level: off\nrules:\n{lines}{more}\n"


def driver_counts(path):
    """Calls by function, as the mock driver counted them (FAKE_CUDA_COUNTS)."""
    out = collections.Counter()
    for line in pathlib.Path(path).read_text().splitlines():
        out[line.split()[0]] += int(line.split()[1])
    return out


def lines_of(*paths):
    """The lines of these files, of whatever compression, as far as they are on the disk."""
    for path in paths:
        text = subprocess.run(["zstd", "-dcqf", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        # The text after the last newline is still being written: it may end anywhere, even after a brace.
        yield from (json.loads(line) for line in text.decode(errors="replace").split("\n")[:-1])


class PrivateDaemon(Daemon):
    """place: has the folders folder and lib, and the list started. settings: KEY=VALUE, or options that begin with "--". level: as in
    rules(), or None if the file NAME.yaml exists. before: a command that runs the daemon. env: of the daemon. at: its port; None: as
    configured, or none."""

    def __init__(self, place, name, *settings, level="metrics", before=(), env=None, at=""):
        self.place, self.name, self.before, self.env = place, name, before, env
        self.conf, self.log, self.files, self.sock = (place.folder / f"{name}.{what}" for what in ("yaml", "log", "files", "sock"))
        self.settings = [x for s in settings for x in ([s] if str(s).startswith("-") else ["--set", s])]
        self.at = f"127.0.0.1:{free_port()}" if at == "" else at
        if level:
            self.rules(level)
        self.start()

    def rules(self, level, more=""):
        self.conf.write_text(rules(self.place.folder, level, more))

    def start(self):
        own = {"files.directory": self.files, "ctl.socket": self.sock, **({"metrics.listen": self.at} if self.at else {})}
        args = ["--config", self.conf, "--libcuda", self.place.lib / "libcuda.so.1"]
        args += [x for k, v in own.items() for x in ("--set", f"{k}={v}")]
        with open(self.log, "wb") as log:
            self.p = subprocess.Popen([*self.before, CUDATRACE, "daemon", *args, *self.settings], env={**os.environ, **(self.env or {})},
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self.p.pid
        self.place.started.append(self.p)
        until(lambda: self.p.poll() is not None or (self.healthy() if self.at else "metrics on" in self.said()), 20)
        assert self.p.poll() is None, f"the daemon {self.name} does not start: {self.said()[-600:]}"

    def healthy(self, seconds=10):
        try:
            return fetch(f"http://{self.at}/healthz", seconds) == "ok\n"
        except OSError:
            return False

    def said(self):
        return self.log.read_text(errors="replace")

    def until(self, what, seconds=5):
        """Waits until what(metrics) is true; returns these metrics."""
        m, end = self.metrics(), time.monotonic() + 6 * seconds
        while not what(m):
            assert time.monotonic() < end, "not so:\n" + "\n".join(f"{s}" for s in m.samples if "command" in s[1] and s[2])[:3000]
            time.sleep(0.05)
            m = self.metrics()
        return m

    def all_files(self, pattern="trace-*"):
        """In order, also those being written."""
        return sorted(self.files.glob(pattern)) if self.files.exists() else []

    def lines(self):
        return list(lines_of(*self.all_files()))

    def has(self, caller):
        return bool(self.process(caller.pid))

    def worker(self, name, *args, lib=None):
        """tests/caller.c as w-NAME, ready to call: the daemon has set its level."""
        c = self.place.caller("w-" + name, *args)
        assert c.tell(f"open {lib or self.place.lib}/libcuda.so.1") == 1
        until(lambda: self.has(c), 10)
        assert c.tell("init") == 0
        return c

    def begin_victim(self):
        """A program whose calls must all be counted."""
        self.victim, self.made = self.worker("victim"), 0
        return self

    def victim_allocates(self, n):
        self.made += self.victim.tell(f"alloc {n}")

    def until_all_counted(self):
        self.until(lambda m: m.calls("w-victim") == self.made and m.total("dropped_total") == 0)

    def kilobytes(self, field):
        """A number of /proc/PID/status: VmHWM is the most memory, RssAnon its own now."""
        return int(re.search(rf"^{field}:\s+(\d+)", pathlib.Path(f"/proc/{self.pid}/status").read_text(), re.M)[1])


class Private:
    """A folder with a libcuda and programs of its own, as other tests may run the originals."""

    def __init__(self, folder):
        needs_tracing()
        self.folder, self.lib, self.started, self.callers = pathlib.Path(folder), pathlib.Path(folder) / "lib", [], []
        self.new_lib("lib")
        # Other users may reach anything whose name they have.
        for path in (pathlib.Path(os.environ["TMP"]), self.folder):
            path.chmod(0o711)

    def new_lib(self, name):
        """A folder with a copy of the mock driver."""
        (self.folder / name).mkdir()
        shutil.copy(FAKE + "/libcuda.so.1", self.folder / name)
        return self.folder / name

    def daemon(self, name, *settings, **how):
        return PrivateDaemon(self, name, *settings, **how)

    def sample(self, name, *args, **env):
        """Runs the sample under this name; returns its output. cuInit takes long by default: the sample would be over before a busy
        machine's daemon has set its level. FAKE_DELAY_US="" where many run."""
        if not (self.folder / name).exists():
            shutil.copy(FAKE + "/sample", self.folder / name)
        ran = Ran([self.folder / name, *map(str, args)], env={"LD_LIBRARY_PATH": str(self.lib), "FAKE_DELAY_US": "cuInit:200000", **env})
        assert ran.status == 0, ran
        return ran.out

    def compiled(self, name, *args):
        return compiled(self.folder / name, *args)

    def start(self, *args, env=None, **how):
        """A program in the background."""
        p = subprocess.Popen([*map(str, args)], env={**os.environ, **(env or {})}, **{"stdin": subprocess.DEVNULL, **how})
        self.started.append(p)
        return p

    def attack(self, *args, out):
        """tests/hostile.py, which prints its sums into the file out."""
        with open(self.folder / out, "wb") as f:
            return self.start(sys.executable, f"{TESTS}/hostile.py", *args, stdout=f, stderr=f)

    def caller(self, name, *args):
        """tests/caller.c under this name."""
        program = self.folder / name
        if not program.exists():
            original = pathlib.Path(os.environ["TMP"]) / "caller"
            shutil.copy(original if original.exists() else compiled(original, f"{TESTS}/caller.c"), program)
        c = Caller(program, str(program), *args)
        self.callers.append(c)
        return c

    def close(self):
        """Ends what still runs."""
        for p in [c.p for c in self.callers] + self.started:
            if p.poll() is None:
                p.kill()
            for pipe in filter(None, (p.stdin, p.stdout)):
                with contextlib.suppress(OSError):
                    pipe.close()
            p.wait()


def served(d, seconds=1, tries=10, path="healthz", late=1):
    """Requests must get complete responses within the time, like a health check or a scrape; a busy machine may exceed it once."""
    for _ in range(tries):
        try:
            fetch(f"http://{d.at}/{path}", seconds)
        except (OSError, http.client.HTTPException):
            late -= 1
        time.sleep(0.15)
    assert late >= 0, f"{1 - late} of {tries} were late, cut or refused"


@pytest.fixture
def private(tmp_path):
    """As in conftest.py, for modules that import it."""
    place = Private(tmp_path)
    yield place
    place.close()
