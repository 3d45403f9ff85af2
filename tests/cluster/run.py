#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""make cluster: several daemons on this machine, each in a network namespace, with programs with the mock driver, short-lived pods, a Prometheus, an
alertmanager (Debian: prometheus, prometheus-alertmanager) and a receiver of OTLP per node. Root.

It measures each daemon, compares the calls that it counted with those that were made, and lets the alert rules of dist/ fire for planted
faults: a leak on the first node, failing calls on the second, a daemon that is killed on the last. Durations of the rules are divided by
60. Exit status 1: a count, an alert or a target is missed.

All daemons see the processes of all nodes and of the rest of the machine, because they share a kernel: those have level off, and each call
takes the traps of all daemons. The last daemon has no programs of its own: it shows what this alone costs."""
import argparse
import collections
import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import uuid

O = os.path.abspath(os.environ.get("O", "build"))
HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
# Of the alert rules: 5m become 5s. They need a scrape each second; meanwhile nothing is measured.
FASTER = 60
SCRAPE_S = 5
# For one daemon at level metrics. Other work on the machine makes threads wait for a processor, which is not counted.
TARGETS = {"cpu_own_percent": 1, "memory_mb": 128, "scrape_p99_own_ms": 100, "health_most_own_ms": 100}
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--daemons", type=int, default=3)
    p.add_argument("--processes", type=int, default=64, help="long-running programs, of all nodes together")
    p.add_argument("--pods", type=int, default=200, help="short-lived programs, of all nodes together, each a container of its own")
    p.add_argument("--rate", type=int, default=10000, help="calls per second and node")
    p.add_argument("--seconds", type=int, default=60, help="how long it measures")
    p.add_argument("--level", default="metrics", choices=["metrics", "sampled", "trace"])
    p.add_argument("--no-alerts", action="store_true", help="only measure")
    p.add_argument("--json", help="also write the numbers to this file")
    return p.parse_args()


def in_namespace(pid, what, *args):
    """In a thread of its own, whose network namespace changes for good."""
    found = []

    def run():
        fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        if libc.setns(fd, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        os.close(fd)
        found.append(what(*args))
    t = threading.Thread(target=run)
    t.start()
    t.join()
    return found[0] if found else None


# The environment may name a proxy.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url, seconds=10):
    with opener.open(url, timeout=seconds) as f:
        return f.read()


def until(what, cond, seconds=60):
    end = time.monotonic() + seconds
    while not cond():
        if time.monotonic() > end:
            sys.exit(f"cluster: {what}: not after {seconds} s")
        time.sleep(0.1)


def quiet(what, *args):
    try:
        return what(*args)
    except (OSError, ValueError):
        return None


def tree(pid):
    """A process and its descendants: the daemon's helper processes count for it."""
    children = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{p}/stat", encoding="utf-8", errors="replace") as f:
                    children.setdefault(int(f.read().rpartition(")")[2].split()[1]), []).append(int(p))
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def cpu_ns(pids):
    total = 0
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[0])
    return total


def memory_mb(pids):
    """Proportional set size: shared pages count once for all processes of the daemon. And the peak of its main process."""
    pss = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            pss += int(re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
    peak = int(re.search(r"^VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pids[0]}/status").read_text(), re.M)[1])
    return pss / 1024, peak / 1024


def at(numbers, share):
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def waited_ns(pids):
    """How long their threads, and this one, waited for a processor."""
    total = int(pathlib.Path("/proc/thread-self/schedstat").read_text().split()[1])
    for pid in pids:
        for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                total += int(path.read_text().split()[1])
    return total


class Probe(threading.Thread):
    """Requests a page of one daemon again and again. wall_ms; own_ms: without the time in which daemon or client waited for a processor;
    cpu_ms: the daemon's processor time meanwhile."""

    def __init__(self, node, page, every):
        super().__init__(daemon=True)
        self.node, self.url, self.every = node, f"{node.url}/{page}", every
        self.wall_ms, self.own_ms, self.cpu_ms, self.failed, self.stop = [], [], [], 0, False

    def run(self):
        pids = self.node.pids
        while not self.stop:
            waited, cpu, begin = waited_ns(pids), cpu_ns(pids), time.monotonic()
            try:
                fetch(self.url)
            except OSError:
                self.failed += 1
            wall = (time.monotonic() - begin) * 1000
            self.wall_ms.append(wall)
            self.cpu_ms.append((cpu_ns(pids) - cpu) / 1e6)
            self.own_ms.append(max(0, wall - (waited_ns(pids) - waited) / 1e6))
            time.sleep(self.every)


class Node:
    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"node{number}"
        self.address = f"10.48.0.{number}"
        self.url = f"http://{self.address}:9464"
        self.folder = cluster.folder / self.name
        self.files, self.log = self.folder / "files", self.folder / "log"
        self.cgroup = pathlib.Path(f"{cluster.cgroups}/{self.name}")
        for part in (self.folder / "lib", self.folder / "root/var/log/containers", self.folder / "root/var/log/pods", self.cgroup):
            part.mkdir(parents=True)
        self.library = self.folder / "lib/libcuda.so.1"
        shutil.copy(f"{O}/fake/libcuda.so.1", self.library)
        self.program = self.folder / f"standin-{number}"
        shutil.copy(cluster.standin, self.program)
        self.made, self.lock = {}, threading.Lock()
        self.hold = cluster.start(["unshare", "--net", "sleep", "infinity"])
        until("a network namespace", lambda: os.readlink(f"/proc/{self.hold.pid}/ns/net") != os.readlink("/proc/self/ns/net"))
        for line in (f"link add v{number} type veth peer name up{number}", f"link set v{number} master br0", f"link set v{number} up",
                     f"link set up{number} netns {self.hold.pid}"):
            subprocess.run(["ip", *line.split()], check=True)
        for line in ("link set lo up", f"addr add {self.address}/24 dev up{number}", f"link set up{number} up"):
            subprocess.run(self.inside("ip", *line.split()), check=True)
        (self.folder / "mode").write_text("200")
        cluster.start(self.inside(sys.executable, f"{TOP}/tests/otlp/receiver.py", "4318", self.folder / "mode", self.folder / "otlp"),
                      stderr=subprocess.DEVNULL)
        (self.folder / "c.yaml").write_text(
            f"level: off\nrules:\n  - match: {{cgroup: \"*{cluster.name}/{self.name}/*\"}}\n    level: {cluster.arguments.level}\n"
            f"metrics: {{listen: \"{self.address}:9464\", max_series: 100000}}\nfiles: {{directory: {self.files}}}\nctl: {{socket: {self.folder}/ctl}}\n"
            "otlp: {endpoint: \"http://127.0.0.1:4318\", interval: 10s}\n"
            # Xids of the machine's kernel log, and of its other users.
            "dossier: {on: {error: false, xid: false, hang: false}}\nrecorder: {on: {error: false, xid: false}}\n")
        with open(self.log, "wb") as log:
            self.daemon = cluster.start(self.inside(f"{O}/cudatrace", "daemon", "--config", self.folder / "c.yaml", "--libcuda", self.library),
                                        env={"CUDATRACE_HOST_ROOT": str(self.folder / "root")}, stderr=log)
        self.pids = [self.daemon.pid]

    def inside(self, *argv):
        return ["nsenter", f"--target={self.hold.pid}", "--net", *map(str, argv)]

    def ready(self):
        return self.daemon.poll() is None and quiet(fetch, self.url + "/healthz") is not None

    def pod(self, seconds, rate, namespace, name, *what):
        """One container: its own cgroup, as of the kubelet's cgroupfs driver, and the names of its log."""
        pod, container = str(uuid.uuid4()), hashlib.sha256(os.urandom(16)).hexdigest()
        folder = self.cgroup / f"kubepods/besteffort/pod{pod}/{container}"
        folder.mkdir(parents=True)
        (self.folder / f"root/var/log/containers/{name}_{namespace}_server-{container}.log").touch()
        argv = ["bash", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', folder, self.program, self.library, rate, seconds, *what]
        p = self.cluster.start(argv, stdout=subprocess.PIPE)
        self.cluster.programs.append(p)

        def end():
            out = p.communicate()[0]
            with self.lock:
                self.made[name] = int(out or 0)
            for part in (folder, folder.parent):
                with contextlib.suppress(OSError):
                    part.rmdir()
        t = threading.Thread(target=end)
        t.start()
        self.cluster.ends.append(t)
        return p

    def file_bytes(self):
        return sum(f.stat().st_size for f in self.files.glob("*"))

    def metrics(self):
        return fetch(self.url + "/metrics").decode()

    def counted(self):
        """The calls of its programs, by pod; those of other nodes' may be counted in their first milliseconds."""
        found = collections.Counter()
        for pod, number in re.findall(rf'^cudatrace_calls_total\{{.*pod="([^"]*)".*command="standin-{self.number}".*\}} (\d+)$', self.metrics(), re.M):
            found[pod] += int(number)
        return dict(found)


class Cluster:
    def __init__(self, a):
        self.arguments, self.started, self.programs, self.ends, self.nodes = a, [], [], [], []
        self.name = f"cudatrace-cluster-{os.getpid()}"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="cluster."))
        with open("/proc/self/mountinfo", encoding="utf-8") as f:
            root = next((line.split()[4] for line in f if " - cgroup2 " in line), None)
        self.cgroups = pathlib.Path(root or sys.exit("cluster: no cgroup2")) / self.name
        self.standin = self.folder / "standin"
        subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-w", "-o", self.standin, HERE + "/standin.c", "-ldl"], check=True)

    def start(self, argv, env=None, **more):
        p = subprocess.Popen(list(map(str, argv)), env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, start_new_session=True, **more)
        self.started.append(p)
        return p

    def build(self):
        for line in ("link set lo up", "link add br0 type bridge", "addr add 10.48.0.254/24 dev br0", "link set br0 up"):
            subprocess.run(["ip", *line.split()], check=True)
        self.nodes = [Node(self, i + 1) for i in range(self.arguments.daemons + 1)]
        for n in self.nodes:
            until(f"{n.name} answers ({n.log.read_text()[-300:]})", n.ready)
            n.pids = tree(n.daemon.pid)

    def scrape_each(self, seconds):
        targets = ", ".join(f'"{n.address}:9464"' for n in self.nodes)
        (self.folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: {seconds}s, evaluation_interval: 1s, scrape_timeout: {seconds}s}}\n"
            f"rule_files: [{self.folder}/rules.yaml]\n"
            "alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:9093']}]}]}\n"
            f"scrape_configs:\n  - {{job_name: cudatrace, honor_labels: true, static_configs: [{{targets: [{targets}]}}]}}\n")

    def monitor(self):
        """A Prometheus with the project's rules, whose durations are shorter, and an alertmanager."""
        if not shutil.which("prometheus") or not shutil.which("prometheus-alertmanager"):
            print("no Prometheus and alertmanager are installed (Debian: prometheus, prometheus-alertmanager): not tried")
            return False

        def shorter(m):
            return f"{max(1, int(m[1]) * {'s': 1, 'm': 60, 'h': 3600}[m[2]] // FASTER)}s"
        rules = pathlib.Path(TOP + "/dist/prometheus/alerts.yaml").read_text()
        rules = re.sub(r"(?<=\[)(\d+)([smh])(?=\])|(?<=offset )(\d+)([smh])\b|(?<=for: )(\d+)([smh])\b",
                       lambda m: shorter([None, *[x for x in m.groups() if x]]), rules)
        (self.folder / "rules.yaml").write_text(rules)
        self.scrape_each(SCRAPE_S)
        (self.folder / "am.yml").write_text("route: {receiver: none, group_wait: 1s, group_interval: 1s}\nreceivers: [{name: none}]\n")
        with open(self.folder / "monitor.log", "wb") as log:
            self.prometheus = self.start(["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/tsdb",
                        "--web.listen-address=127.0.0.1:9090"], stdout=log, stderr=log)
            self.start(["prometheus-alertmanager", f"--config.file={self.folder}/am.yml", f"--storage.path={self.folder}/am",
                        "--web.listen-address=127.0.0.1:9093", "--cluster.listen-address="], stdout=log, stderr=log)
        until("Prometheus scrapes all", lambda: (self.query('sum(up{job="cudatrace"})') or {}).get("") == len(self.nodes))
        return True

    def query(self, expression):
        url = "http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        found = quiet(lambda: json.loads(fetch(url))["data"]["result"])
        return None if found is None else {r["metric"].get("instance", ""): float(r["value"][1]) for r in found}

    def firing(self):
        found = quiet(lambda: json.loads(fetch("http://127.0.0.1:9093/api/v2/alerts")))
        return {(a["labels"]["alertname"], a["labels"].get("instance", "")) for a in found or []}

    def close(self):
        if os.environ.get("KEEP"):
            for n in self.nodes:
                shutil.copy(n.log, os.environ["KEEP"] + n.name + ".log")
                with contextlib.suppress(OSError):
                    pathlib.Path(os.environ["KEEP"] + n.name + ".metrics").write_text(n.metrics())
        for p in self.started:
            if p.poll() is None:
                p.terminate()
        for p in self.started:
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        for t in self.ends:
            t.join()
        for folder, _, _ in os.walk(self.cgroups, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(cluster, a, monitored):
    """Each daemon while programs run and pods come and go."""
    health, pages = [Probe(n, "healthz", 0.1) for n in cluster.nodes], [Probe(n, "metrics", 2) for n in cluster.nodes]
    begin, load = time.monotonic(), os.getloadavg()[0]
    for t in (*health, *pages):
        t.start()
    cpu = [cpu_ns(n.pids) for n in cluster.nodes]
    size = [n.file_bytes() for n in cluster.nodes]
    made = 0
    while time.monotonic() < begin + a.seconds:
        if made < a.pods * (time.monotonic() - begin) / a.seconds:
            cluster.nodes[made % a.daemons].pod(2, 100, "batch", f"job-{made}")
            made += 1
        else:
            time.sleep(0.02)
    seconds = time.monotonic() - begin
    cpu = [(cpu_ns(n.pids) - c) / 1e9 for n, c in zip(cluster.nodes, cpu)]
    for t in (*health, *pages):
        t.stop = True
    shares = {"median": 0.5, "p99": 0.99, "most": 1}
    scrapes = {what: cluster.query(f'quantile_over_time({share}, scrape_duration_seconds{{job="cudatrace"}}[{a.seconds}s])')
               for what, share in shares.items()} if monitored else {}
    rows = []
    for i, n in enumerate(cluster.nodes):
        text, (mb, peak) = n.metrics(), memory_mb(n.pids)
        h, s = health[i], pages[i]
        row = {"node": n.name, "cpu_as_scraped": 100 * cpu[i] / seconds, "memory_mb": mb, "peak_mb": peak,
               "series": len(re.findall(r"^[^#\n]", text, re.M)), "metrics_bytes": len(text), "scrape_cpu_ms": statistics.median(s.cpu_ms),
               "health_cpu_ms": statistics.median(h.cpu_ms), "health_failed": h.failed + s.failed,
               "file_mb_per_day": (n.file_bytes() - size[i]) / 1e6 / seconds * 86400}
        # As in production: a scrape per 30 s, a probe of the kubelet per 10 s.
        more = (len(s.cpu_ms) / seconds + (1 / SCRAPE_S if monitored else 0) - 1 / 30) * row["scrape_cpu_ms"] + \
            (len(h.cpu_ms) / seconds - 1 / 10) * row["health_cpu_ms"]
        row["cpu_percent"] = row["cpu_as_scraped"] - 100 * more / 1000
        for what, share in shares.items():
            row[f"health_{what}_ms"], row[f"health_{what}_own_ms"] = at(h.wall_ms, share), at(h.own_ms, share)
            row[f"scrape_{what}_ms"], row[f"scrape_{what}_own_ms"] = at(s.wall_ms, share), at(s.own_ms, share)
            if monitored:
                row[f"prometheus_{what}_ms"] = 1000 * scrapes[what].get(f"{n.address}:9464", float("nan"))
        rows.append(row)
    # The last daemon has no programs.
    for row in rows:
        row["cpu_own_percent"] = max(0, row["cpu_percent"] - rows[-1]["cpu_percent"])
    return rows, {"load": [load, os.getloadavg()[0]], "cpus": os.cpu_count(), "kernel": os.uname().release}


def show(rows, machine):
    names = [("cpu_percent", "CPU, % of a core"), ("cpu_own_percent", "CPU above the daemon without programs"), ("cpu_as_scraped", "CPU with scrapes and probes as here"),
             ("memory_mb", "memory with helper processes (PSS), MB"), ("peak_mb", "peak resident, MB"), ("series", "series"),
             ("metrics_bytes", "bytes of /metrics"), ("scrape_cpu_ms", "scrape: processor time, ms")]
    for page in ("scrape", "health"):
        for what, text in (("median", "median"), ("p99", "99 %"), ("most", "longest")):
            names += [(f"{page}_{what}_own_ms", f"{page}: {text} without waits for a processor, ms"), (f"{page}_{what}_ms", f"{page}: {text}, ms")]
    names += [(f"prometheus_{what}_ms", f"scrape by Prometheus: {what}, ms") for what in ("median", "p99")]
    names += [("health_failed", "requests that failed"), ("file_mb_per_day", "files, MB per day")]
    print("| | " + " | ".join(r["node"] for r in rows) + " |\n|" + "---|" * (len(rows) + 1))
    for key, what in names:
        if key in rows[0]:
            print(f"| {what} | " + " | ".join(f"{r[key]:,.{0 if isinstance(r[key], int) else 2}f}" for r in rows) + " |")
    print(f"load {machine['load'][0]:.1f} to {machine['load'][1]:.1f}, {machine['cpus']} processors, kernel {machine['kernel']}")


def judge(rows):
    wrong = [f"{r['node']}: {key} {r[key]:.2f}, target {limit}" for r in rows for key, limit in TARGETS.items() if r[key] > limit]
    return wrong + [f"{r['node']}: {r['health_failed']} requests failed" for r in rows if r["health_failed"]]


def alerts(cluster):
    """The planted faults, and nothing else."""
    first, second, last = cluster.nodes[0], cluster.nodes[1 % len(cluster.nodes)], cluster.nodes[-1]
    cluster.scrape_each(1)
    cluster.prometheus.send_signal(signal.SIGHUP)
    time.sleep(10)
    already = cluster.firing() - {("CudaMemoryLeak", first.address + ":9464")}
    second.pod(600, 100, "serving", "fails", "fail")
    last.daemon.kill()
    want = {("CudaMemoryLeak", first.address + ":9464"), ("CudaErrors", second.address + ":9464"), ("CudatraceDown", last.address + ":9464")}
    end = time.monotonic() + 150
    while not want <= cluster.firing() and time.monotonic() < end:
        time.sleep(0.5)
    time.sleep(3)
    got = cluster.firing()
    print("alerts:", ", ".join(f"{name} of {where}" for name, where in sorted(got)))
    return ([f"before the faults: {already}"] if already else []) + ([f"alerts {got}, not {want}"] if got != want else [])


def counts(cluster):
    """All programs end; what each daemon counted is what its programs made."""
    for p in cluster.programs:
        if p.poll() is None:
            p.terminate()
    for t in cluster.ends:
        t.join()
    wrong = []
    for n in cluster.nodes:
        if n.daemon.poll() is not None:
            continue
        end = time.monotonic() + 30
        while (got := n.counted()) != n.made and time.monotonic() < end:
            time.sleep(1)
        lost = [line for line in n.metrics().splitlines() if re.match(r"cudatrace_(dropped|table_full|reads_lost)_total.* [1-9]", line)]
        if lost:
            print(f"{n.name}: {'; '.join(lost)}")
        requests = len((n.folder / "otlp").read_text().splitlines())
        print(f"{n.name}: {sum(n.made.values()):,} calls made, {sum(got.values()):,} counted; {requests} requests to its collector")
        short = {pod: (n.made.get(pod, 0), got.get(pod, 0)) for pod in {*n.made, *got} if n.made.get(pod, 0) != got.get(pod, 0)}
        # Found by the load of the machine: a pod that ended before the daemon had read its cgroup.
        if short and sum(got.values()) == sum(n.made.values()) and set(short) - {""} <= {p for p in short if not short[p][1]}:
            print(f"{n.name}: {len(short) - 1} pods were over before the daemon had their names: {short[''][1]} calls")
        elif short:
            wrong.append(f"{n.name}: {len(short)} pods, calls made and counted: {dict(list(short.items())[:6])}")
        if not requests:
            wrong.append(f"{n.name}: nothing reached its collector")
    return wrong


def main():
    a = arguments()
    if os.geteuid():
        sys.exit("cluster: needs root")
    if os.environ.get("CLUSTER_INSIDE") != "1":
        # All of it is in a network namespace that ends with it.
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], {**os.environ, "CLUSTER_INSIDE": "1"})
    cluster = Cluster(a)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cluster.build()
        monitored = cluster.monitor()
        for i in range(a.processes):
            node = cluster.nodes[i % a.daemons]
            mine = (a.processes - i % a.daemons + a.daemons - 1) // a.daemons
            node.pod(3600, max(10, a.rate // mine), "serving", f"server-{i}", *(["leak"] if not i else []))
        time.sleep(12)
        for n in cluster.nodes:
            n.pids = tree(n.daemon.pid)
        rows, machine = measure(cluster, a, monitored)
        print(f"{a.daemons} daemons at level {a.level}, {a.processes} programs with {a.rate:,} calls/s per node, {a.pods} pods in {a.seconds} s")
        show(rows, machine)
        wrong = judge(rows)
        if monitored and not a.no_alerts:
            wrong += alerts(cluster)
        wrong += counts(cluster)
        if a.json:
            pathlib.Path(a.json).write_text(json.dumps({"arguments": vars(a), "nodes": rows, "machine": machine}, indent=1))
    finally:
        cluster.close()
    for line in wrong:
        print("wrong: " + line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
