# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
# uses: cgroups
# own processes
"""The daemon and hand-made containers: namespaces, cgroups with names as from container runtimes and the kubelet, private root file
systems. The counts must match those that the programs print; labels and levels are checked for each."""
import collections
import json
import os
import pathlib
import re
import shutil
import sys

import pytest
from helpers.container import Containers
from helpers.daemon import PrivateDaemon, driver_counts
from helpers.run import ALL, TESTS, Ran, needs_tracing, until

Row = collections.namedtuple("Row", "namespace pod container level allocs fails")
EXPECT = {  # container ID: its id
    "containerd": Row("llm", "vllm-0", "vllm", "trace", 101, 1),
    "crio": Row("llm", "vllm-1", "ID", "metrics", 102, 2),
    "k3s": Row("batch", "train-0", "ID", "trace", 103, 3),
    "docker": Row("", "", "ID", "trace", 104, 4),
    "podman": Row("", "", "ID", "metrics", 105, 5),
    "job": Row("", "", "", "trace", 106, 6),
}
RULES = """level: off
rules:
  - match: {namespace: llm, container: vllm}
    level: trace
  - match: {pod: "vllm-*"}
    level: metrics
  - match: {pod: K3S}
    level: trace
  - match: {container: "DOCKER*"}
    level: trace
  - match: {container: PODMAN, user: "12345"}
    level: metrics
  - match: {cgroup: "/ct79.slice/*"}
    level: trace
"""
# Messages about mounts, libraries and processes of other suites.
OTHERS = ["tracing by", "flight recorder", "configuration read", "(FUSE)", "warning: collective ", "warning: rank ", "/libnccl",
          "is open for writing", "not an ELF file"]


class Traced:
    """Six containers, each with a caller, and a daemon that traces them."""

    def __init__(self, folder):
        self.all = Containers(folder)
        c, rules = self.all, RULES
        for word, value in (("K3S", c["k3s"].pod), ("DOCKER", c["docker"].id[:12]), ("PODMAN", c["podman"].id)):
            rules = rules.replace(word, value)
        (folder / "d.yaml").write_text(rules)
        # The two existing libraries must be probed before any process uses them.
        env = {"LD_LIBRARY_PATH": f"{folder}/image/lib", "CUDATRACE_HOST_ROOT": str(c.node)}
        self.daemon = PrivateDaemon(c, "d", f"trace.functions={ALL}", level=None, env=env)
        self.libraries_before = self.libraries()
        self.callers = {name: c[name].caller() for name in EXPECT}
        # A container's own copy must be found while it is mapped.
        until(lambda: self.libraries() == self.libraries_before + 1)
        for name, row in EXPECT.items():
            tell = self.callers[name].tell
            assert (tell("init"), tell(f"alloc {row.allocs}"), tell(f"fail {row.fails}")) == (0, row.allocs, row.fails)
        self.first = {name: self.entry(name) for name in EXPECT}
        # Only for libraries that were probed before every function can have the mock driver's count.
        for name in EXPECT.keys() - {"docker"}:
            ran = c[name].sample("--quiet", "--tokens", 7, "--layers", 3)
            assert ran.status == 0, ran

    def libraries(self):
        """Other suites may trace and be traced on this machine."""
        mine = [lib["path"] for lib in self.daemon.ctl("status")["libraries"]]
        return sum(path.startswith(f"{self.all.folder}/") or path == "/lib/libcuda.so.1" for path in mine)

    def entries(self, name):
        return [p for p in self.daemon.ctl("status")["processes"] if p.get("cgroup") == self.all[name].cgroup and p["comm"] == "ct-caller"]

    def entry(self, name):
        return self.entries(name)[0]

    def labels(self, name):
        row = EXPECT[name]
        return row.namespace, row.pod, row.container.replace("ID", self.all[name].id)

    def metrics(self, name):
        """What is counted for this container: calls by command and function, errors."""
        calls, errors = collections.defaultdict(collections.Counter), collections.Counter()
        for what, of, value in self.daemon.metrics().samples:
            if (of.get("namespace"), of.get("pod"), of.get("container")) == self.labels(name) and "command" in of:
                if what == "calls_total":
                    calls[of["command"]][of["function"]] += value
                elif what == "errors_total":
                    errors[of["command"], of["function"], of["error"]] += value
        return calls, errors

    def allocs(self, name):
        return self.metrics(name)[0]["ct-caller"]["cuMemAlloc_v2"]

    def is_counted(self, name, allocs):
        """What ran in it: every function of the sample must have the mock driver's count, and the caller's must be these."""
        calls, errors = self.metrics(name)
        fails, of, counts = EXPECT[name].fails, calls["ct-caller"], self.all[name].counts
        own = driver_counts(counts) if counts.exists() else {}
        assert not own or len(own) > 20
        return (of["cuMemAlloc_v2"], of["cuMemFree_v2"], errors["ct-caller", "cuMemFree_v2", "CUDA_ERROR_INVALID_VALUE"]) \
            == (allocs, allocs + fails, fails) and calls["ct-sample"] == own

    def again(self, name):
        """Starts another process in this container; returns it, and its process id outside."""
        known = {p["pid"] for p in self.entries(name)}
        c = self.all[name].caller()
        assert c.tell("init") == 0
        until(lambda: {p["pid"] for p in self.entries(name)} - known)
        (pid,) = {p["pid"] for p in self.entries(name)} - known
        return c, pid


@pytest.fixture(scope="module")
def traced():
    needs_tracing()
    t = Traced(pathlib.Path(os.environ["TMP"]) / "here")
    yield t
    t.all.close()


@pytest.mark.parametrize("name", EXPECT)
def test_names(traced, name):
    """Container, pod and runtime must be found, and the level be that of its rule."""
    p, c = traced.first[name], traced.all[name]
    assert tuple(p.get(k) or "" for k in ("namespace", "pod", "container")) == traced.labels(name)
    assert [p.get(k) or "" for k in ("container_id", "pod_uid", "runtime")] == [c.id, c.pod, c.runtime]
    assert p["level"] == EXPECT[name].level


def test_pid(traced):
    """The process id must be the machine's, not that of the namespace."""
    pid = traced.first["docker"]["pid"]
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    assert re.search("^Name:\tct-caller$", status, re.M) and re.search(r"^NSpid:.*\t1$", status, re.M)


def test_podman_is_in_a_user_namespace(traced):
    if Ran(["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups", "unshare", "--user", "true"]).status:
        pytest.skip("users other than root may not make any")
    assert os.readlink(f"/proc/{traced.first['podman']['pid']}/ns/user") != os.readlink("/proc/self/ns/user")


@pytest.mark.parametrize("name", EXPECT)
def test_metrics(traced, name):
    """They must be those of what ran in it, and labelled. Containers that share a file: it is attached to once."""
    until(lambda: traced.is_counted(name, EXPECT[name].allocs))
    assert traced.libraries() == traced.libraries_before + 1


def test_a_rule_that_changes(traced):
    """Calls of the container whose rule is off now are not counted any more, those of another one are."""
    conf = traced.daemon.conf
    conf.write_text(conf.read_text().replace("level: trace", "level: off", 1))
    assert traced.daemon.ask("reload").status == 0 and traced.entry("containerd")["level"] == "off"
    for name in ("containerd", "crio"):
        traced.callers[name].tell("alloc 50")
    until(lambda: traced.is_counted("crio", 152))
    assert traced.is_counted("containerd", 101)


# Containers that are destroyed while traced: their calls stay counted, with labels, and no other call is missed.
def test_cgroup_removed(traced):
    """A living process whose cgroup is removed must keep its labels."""
    (caller, _), was, c = traced.again("crio"), traced.allocs("crio"), traced.all["crio"]
    for pid in c.pids:
        pathlib.Path(traced.all.cgroups, "cgroup.procs").write_text(str(pid))
    c.remove_cgroup()
    assert caller.tell("alloc 70") == 70
    until(lambda: traced.allocs("crio") == was + 70)
    os.mkdir(c.cgroup_path)
    caller.end()


def test_unmounted(traced):
    """First the library's file system is unmounted, then the whole root."""
    caller, pid = traced.again("k3s")
    ran = Ran([sys.executable, TESTS + "/helpers/unmount_in.py", str(pid)])
    assert ran.status == 0, ran
    assert caller.tell("alloc 70") == 70 and traced.daemon.process(pid)["level"] == "trace"
    caller.end()


def test_killed(traced):
    """In the middle of calls; cgroup and files are removed at once. What it did stays counted, and its library is detached."""
    (caller, pid), was, c = traced.again("docker"), traced.allocs("docker"), traced.all["docker"]
    caller.p.stdin.write("threads 2 50000000\n")
    caller.p.stdin.flush()
    until(lambda: traced.allocs("docker") > was + 1000)
    c.kill()
    c.remove_cgroup()
    shutil.rmtree(c.folder / "upper")
    until(lambda: not traced.daemon.process(pid), 20)
    assert traced.allocs("docker") > was + 999
    until(lambda: traced.daemon.ask("reload").status == 0 and traced.libraries() == traced.libraries_before)
    assert traced.callers["podman"].tell("alloc 30") == 30
    until(lambda: traced.allocs("podman") == 135)
    assert traced.daemon.healthy()


def test_end(traced):
    """Processes that ended are gone, nothing else was reported, and in the files no event is missing, each with its container's labels."""
    for caller in traced.callers.values():
        caller.end()
    until(lambda: not [p for p in traced.daemon.ctl("status")["processes"] if p["comm"] == "ct-caller"])
    traced.daemon.stop()
    assert [line for line in traced.daemon.said().splitlines() if not any(words in line for words in OTHERS)] == []
    of = {p["pid"]: name for name, p in traced.first.items()}
    known = {tuple(label or None for label in traced.labels(name)): name for name in EXPECT}
    calls, samples = collections.Counter(), set()
    for e in traced.daemon.lines():
        if "pid" not in e or e["type"] == "header":
            continue
        name = known.get((e.get("namespace"), e.get("pod"), e.get("container")))
        assert name and name == of.get(e["pid"], name), json.dumps(e)[:300]
        calls[of.get(e["pid"]), e.get("symbol")] += 1
        samples |= {name} if e.get("comm") == "ct-sample" else set()
    want = {name: (row.allocs, row.allocs + row.fails) if row.level == "trace" else (0, 0) for name, row in EXPECT.items()}
    assert {name: (calls[name, "cuMemAlloc_v2"], calls[name, "cuMemFree_v2"]) for name in EXPECT} == want
    assert samples == {name for name, row in EXPECT.items() if row.level == "trace"} - {"docker"}
