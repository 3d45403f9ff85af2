#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Two processes that share a GPU through MPS: checks the owners of its context switches and executions. 45 seconds.

usage: mps.py CUDATRACE OUT [SECONDS]
       mps.py --load BUSY SECONDS       the traced program: multiplies matrices for that part of each tenth of a second

It needs nvidia-cuda-mps-control. It uses its own MPS daemon with its own folder, and always ends it. It changes no setting of the GPU.
"""
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from busy import busy_for

CONTROL = "nvidia-cuda-mps-control"
SLOT, LOADS = 0.1, (0.6, 0.3)


def load(busy, seconds):
    ran, took = busy_for(busy, seconds, SLOT, 2048, products=20)
    print(json.dumps({"pid": os.getpid(), "wanted": busy, "busy": ran / took}), flush=True)


class Mps:
    def __init__(self, folder):
        self.env = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": folder + "/pipe", "CUDA_MPS_LOG_DIRECTORY": folder + "/log"}
        self.pid_file = folder + f"/pipe/{CONTROL}.pid"
        for name in ("pipe", "log"):
            os.mkdir(f"{folder}/{name}")

    def start(self):
        subprocess.run([CONTROL, "-d"], env=self.env, check=True, timeout=20)

    def ask(self, what):
        return subprocess.run([CONTROL], input=what + "\n", env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=20, check=False).stdout

    def servers(self):
        return [int(x) for x in self.ask("get_server_list").split() if x.isdigit()]

    def quit(self):
        """Ends the daemon and its servers, by force if necessary."""
        try:
            pid = open(self.pid_file, encoding="ascii").read().strip()
        except OSError:
            pid = ""
        try:
            self.ask("quit -t 5")
            end = time.monotonic() + 10
            while pid.isdigit() and os.path.exists("/proc/" + pid) and time.monotonic() < end:
                time.sleep(0.1)
        except subprocess.TimeoutExpired:
            print("MPS does not answer")
        if not pid.isdigit() or not os.path.exists("/proc/" + pid):
            return True
        os.kill(int(pid), signal.SIGKILL)
        return False


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.endswith("}\n")]


def length(spans):
    total = end = 0.0
    for a, b in sorted(spans):
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total


def tell(path, said, servers):
    ev = lines(path)
    end = ev[-1]
    spans, switches, comms = collections.defaultdict(list), collections.defaultdict(list), {}
    for e in ev:
        if e["type"] in ("gpu", "ctxsw"):
            of = spans if e["type"] == "gpu" else switches
            of[e["pid"]].append((e["ts"], e["ts"] + e.get("duration_us", e.get("elapsed_us", 0)) / 1e3))
            comms[e["pid"]] = e["comm"]
    print("log of context switches:", ev[0].get("gpu_ctxsw"), "; --gpu-time:", [e["why"] for e in ev if e.get("op") == "gpu-time"],
          {k: v for k, v in end.items() if k.startswith("gpu_")})
    ok = True
    for client in said:
        mine = spans.get(client["pid"])
        share = length(mine) / (max(b for _, b in mine) - min(a for a, _ in mine)) if mine else 0
        own = len(switches.get(client["pid"], []))
        ok &= bool(mine) and share < client["busy"] + 0.1
        print(f"client {client['pid']}: busy {client['busy']:.2f} of the time by its own clock; {len(mine or [])} executions fill {share:.2f}; {own} slices of context switches")
    everything = [s for of in switches.values() for s in of]
    took = max(b for _, b in everything) - min(a for a, _ in everything) if everything else 0
    for pid, of in switches.items():
        print(f"context switches: pid {pid} {comms[pid]!r}{' (the MPS server)' if pid in servers else ''}: {len(of)} slices, {length(of) / took:.2f} of the time")
    print(f"mps: {'ok' if ok else 'NOT ok'}: executions are {'' if ok else 'not '}the clients'", flush=True)
    return ok


def main(ct, out, seconds=8.0):
    if not shutil.which(CONTROL):
        print(f"mps: not tried: there is no {CONTROL} on this machine")
        return 0
    folder = tempfile.mkdtemp()
    mps, path = Mps(folder), out + "/mps.jsonl"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        mps.start()
        print("MPS:", mps.ask("get_default_active_thread_percentage").strip(), "% of threads each by default")
        clients = " & ".join(f"{sys.executable} {os.path.abspath(__file__)} --load {busy} {seconds}" for busy in LOADS)
        with subprocess.Popen([ct, "-q", "--gpu-ctxsw", "--gpu-time", "-e", "launch", "--jsonl", path, "--", "sh", "-c", clients + " & wait"], env=mps.env,
                              stdout=subprocess.PIPE, text=True) as p:
            try:
                servers, end = [], time.monotonic() + 60
                while not servers and p.poll() is None and time.monotonic() < end:
                    servers = mps.servers()
                    time.sleep(0.5)
                said = [json.loads(line) for line in p.communicate(timeout=90)[0].splitlines() if line.startswith("{")]
            finally:
                # Its command is ended, too.
                p.terminate()
        print(f"MPS servers {servers}; cudatrace ended with {p.returncode}; clients {[c['pid'] for c in said]}")
        return 0 if tell(path, said, servers) else 1
    except (OSError, subprocess.SubprocessError, ValueError) as e:
        print(f"mps: NOT ok: {e}")
        return 1
    finally:
        print("MPS has quit" if mps.quit() else "MPS did not quit: killed", flush=True)
        log = folder + "/log/control.log"
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as f:
                print("its log ends:", *f.read().splitlines()[-3:], sep="\n    ")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "--load":
        load(float(sys.argv[2]), float(sys.argv[3]))
    else:
        sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2], *map(float, sys.argv[3:])))
