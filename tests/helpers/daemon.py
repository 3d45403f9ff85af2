# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A daemon with its own folder, from which programs load its library, and programs that opt in."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import urllib.request

import pytest

from .run import CUDATRACE, FAKE, until

SERIES = re.compile(r"^(cudatrace_\w+)(?:\{(.*)\})? (\S+)$", re.M)


class Daemon:
    running = []

    def __init__(self, folder, *args, trace="gpu_time: graphs", level="trace", own=False, libcuda=FAKE + "/libcuda.so.1", before=()):
        """own: trace no programs of others. before: a command that runs the daemon."""
        self.folder, self.log, self.files = folder / "inject", folder / "log", folder / "files"
        self.conf, self.sock = folder / "d.yaml", folder / "ctl.sock"
        self.trace, self.libcuda, self.args, self.own, self.before = trace, libcuda, args, own, before
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.at = "127.0.0.1:%d" % s.getsockname()[1]
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
        """Yields name, labels, value of each line of /metrics."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{self.at}/metrics", timeout=20) as f:
            text = f.read().decode()
        return [(m[1], dict(re.findall(r'(\w+)="([^"]*)"', m[2] or "")), float(m[3])) for m in SERIES.finditer(text)]

    def metric(self, name, **labels):
        """The sum of the series with these labels."""
        return sum(v for n, of, v in self.series() if n == name and all(of.get(k) == x for k, x in labels.items()))

    def calls(self, command):
        return {of["function"]: v for n, of, v in self.series() if n == "cudatrace_calls_total" and of["command"] == command}

    def lost(self, whose=("calls", "threads", "depth", "counts", "errors", "inproc")):
        """Losses of these kinds. Other suites (daemon-floods) may cause the rest: tasks, libraries and thread shares are shared by all processes."""
        return {of["what"]: v for n, of, v in self.series() if n == "cudatrace_dropped_total" and v and of["what"] in whose}

    def ctl(self, *args):
        ran = subprocess.run([CUDATRACE, "ctl", "--set", f"ctl.socket={self.sock}", *map(str, args)], stdout=subprocess.PIPE, check=True)
        return json.loads(ran.stdout)

    def process(self, pid):
        """The entry of the process in ctl status; {}: none."""
        return next((p for p in self.ctl("status")["processes"] if p["pid"] == pid), {})

    def lines(self):
        """The lines of all files, also of those being written."""
        text = [line for f in self.files.iterdir() if f.is_file() for line in f.read_text().splitlines() if line.startswith("{")]
        return [json.loads(line) for line in text if line.endswith("}")]

    def stop(self):
        self.p.send_signal(signal.SIGTERM)
        assert self.p.wait(30) == 0, self.log.read_text()

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


# As in a pod: another network namespace, and another user.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
POD = ["unshare", "--net", *NOBODY]


def library(folder):
    return {"CUDA_INJECTION64_PATH": f"{folder}/libcudatrace-inject.so"}


def opted_in(d, *argv, path=FAKE, **more):
    """Runs a program that loads the daemon's library, until it ends."""
    return subprocess.run([*POD, *argv], env={**os.environ, "LD_LIBRARY_PATH": path, **library(d.folder), **more}, check=True)
