# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 120
# uses: cgroups
"""The image and the manifests must agree, the API must accept them, and the daemon must trace with exactly the DaemonSet's rights. There
is no cluster here: tests/kubernetes/pod.py simulates a container runtime."""
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import threading

import pytest
from helpers import gpu_core, pypi
from helpers.container import OWN, SLICE, Containers
from helpers.run import CUDATRACE, TESTS, Ran, building, cudatrace, needs_tracing, passes, until

pytest.importorskip("yaml", reason="needs python3-yaml")
MANIFESTS, BASE = "kubernetes/manifests.py", "dist/kubernetes/base"
# Three containers that each need a capability: a libcuda that only the container has, one that only its owner may read, and one that is
# deleted while in use.
OWNER = OWN + '; chmod 700 "$root/lib/libcuda.so.1"; chown 12345:12345 "$root/lib/libcuda.so.1"'
MORE = {"private": (4, "/kubepods/besteffort/podPOD/ID", "", OWNER, "12345"),
        "deleted": (5, "/kubepods/besteffort/podPOD/ID", "", OWN, "0"), "cudatrace": (3, SLICE, "", ":", "0")}
SEEN = ["docker", "private", "deleted"]
CALLS = r'^cudatrace_calls_total\{{namespace="[a-z]*",pod="[^"]*",container="{0}",command="ct-caller",function="cuMemAlloc_v2".* 10$'
LAUNCHES = 'cudatrace_launches_total{{namespace="{}",pod="{}",container="{}",command="ct-sample"'


COREDUMP = {"CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1", "CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort", "CUDA_COREDUMP_PIPE": "/out/pipe.%p",
            "CUDA_COREDUMP_FILE": "/out/core.%p.%t"}


# --- Manifests ---

def test_manifests_agree():
    """With each other, the image and the systemd unit; daemon.yaml is a configuration."""
    passes(MANIFESTS, "agree")
    for name in "base", "site":
        assert cudatrace("daemon", "--check-config", "--config", f"dist/kubernetes/{name}/daemon.yaml").status == 0


def validates(*paths):
    """Kubernetes' API accepts them. It has no schema of the Prometheus operator."""
    try:
        packages = pypi.folder("kubernetes-validate==1.37.0", needs=True)
    except pypi.Missing as e:
        pytest.skip(str(e))
    check = "import json, sys, kubernetes_validate\nfor path in sys.argv[1:]: kubernetes_validate.validate(json.load(open(path)), '1.37', strict=True)"
    return Ran([sys.executable, "-c", check, *(path for path in paths if "podmonitor" not in path.stem)], env={"PYTHONPATH": packages})


def test_schema(tmp_path):
    """A key that does not exist is found."""
    passes(MANIFESTS, "json", tmp_path)
    ran = validates(*tmp_path.glob("*.json"))
    assert ran.status == 0, ran
    daemonset = json.loads((tmp_path / "daemonset.json").read_text())
    daemonset["spec"]["template"]["spec"]["hostPid"] = True
    (tmp_path / "typo.json").write_text(json.dumps(daemonset))
    assert "hostPid" in validates(tmp_path / "typo.json").err


def test_kustomize(tmp_path):
    """The configuration is in it. Before Linux 6.6, SYS_ADMIN is added. A copy of the template with all components has all of their parts, its
    image and its configuration, and Kubernetes' API accepts it."""
    import yaml
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")

    def built(folder):
        return {x["kind"]: x for x in yaml.safe_load_all(subprocess.check_output(["kubectl", "kustomize", folder], text=True))}

    def container(objects):
        return objects["DaemonSet"]["spec"]["template"]["spec"]["containers"][0]
    shutil.copytree("dist/kubernetes", tmp_path / "k")
    template = tmp_path / "k/site/kustomization.yaml"
    template.write_text(re.sub(r"^  # (?=- \.\./components)", "  ", template.read_text(), flags=re.M))
    base, mask = built("dist/kubernetes/base"), passes(MANIFESTS, "field", "securityContext.capabilities.add").split()
    assert base["ConfigMap"]["data"]["daemon.yaml"] == pathlib.Path(BASE + "/daemon.yaml").read_text()
    for overlay, more in ("before-linux-6.6", ["SYS_ADMIN"]), ("gpu-core-dumps", ["SETUID", "SETGID", "KILL"]):
        assert container(built(f"dist/kubernetes/{overlay}"))["securityContext"]["capabilities"]["add"] == mask + more
    site = built(template.parent)
    c = container(site)
    assert c["image"] == "registry.example.com/gpu/cudatrace:1.0" and c["securityContext"]["capabilities"]["add"] == \
        mask + ["SYS_ADMIN", "SETUID", "SETGID", "KILL"]
    assert site["ConfigMap"]["data"]["daemon.yaml"] == pathlib.Path("dist/kubernetes/site/daemon.yaml").read_text()
    # The template has the values of the base, so that a copy changes only what it should.
    volumes = site["DaemonSet"]["spec"]["template"]["spec"]["volumes"]
    assert volumes.pop()["name"] == c["volumeMounts"].pop()["name"] == "inject"
    for objects in site, base:
        of = container(objects)
        of.pop("image"), of.pop("securityContext")
        objects["DaemonSet"]["spec"]["template"]["spec"]["volumes"][0].pop("configMap")
    assert site["DaemonSet"] == base["DaemonSet"]
    assert {x["metadata"]["namespace"] for kind, x in site.items() if kind != "Namespace"} == {"cudatrace"} and "PodMonitor" in site
    # Once more, because the comparison took parts of it.
    for kind, x in built(template.parent).items():
        (tmp_path / f"{kind.lower()}.json").write_text(json.dumps(x))
    ran = validates(*tmp_path.glob("*.json"))
    assert ran.status == 0, ran


def test_upgrade_and_uninstall(tmp_path):
    """An upgrade with another image and another daemon.yaml replaces the pods, a part of the nodes at a time, and changes nothing that
    Kubernetes refuses to change or that would leave an object behind. What docs/KUBERNETES.md removes is all that the objects, and the
    pods on their nodes, made."""
    import yaml
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    shutil.copytree("dist/kubernetes", tmp_path / "k")
    values = tmp_path / "k/site/kustomization.yaml"
    values.write_text(re.sub(r"^  # (?=- \.\./components)", "  ", values.read_text(), flags=re.M))

    def built():
        return list(yaml.safe_load_all(subprocess.check_output(["kubectl", "kustomize", values.parent], text=True)))

    def named(objects):
        return {(x["kind"], x["metadata"].get("namespace"), x["metadata"]["name"]): x for x in objects}
    old = named(built())
    values.write_text(values.read_text().replace('newTag: "1.0"', 'newTag: "1.1"'))
    with open(values.parent / "daemon.yaml", "a", encoding="utf-8") as f:
        f.write("# another one\n")
    new = named(built())
    # Names of configurations end with a hash of their contents; those of older ones go with the namespace.
    (was,), (now,) = old.keys() - new.keys(), new.keys() - old.keys()
    assert was[:2] == now[:2] == ("ConfigMap", "cudatrace") and was[2] != now[2]
    before, after = (next(x for x in objects.values() if x["kind"] == "DaemonSet") for objects in (old, new))
    # Immutable: its name, its namespace, its selector. These are of the first version, too.
    assert (after["metadata"]["name"], after["metadata"]["namespace"]) == ("cudatrace", "cudatrace")
    assert before["spec"]["selector"] == after["spec"]["selector"] == {"matchLabels": {"app.kubernetes.io/name": "cudatrace"}}
    strategy = after["spec"]["updateStrategy"]
    assert strategy.get("type", "RollingUpdate") == "RollingUpdate" and strategy["rollingUpdate"]["maxUnavailable"] == "10%"
    (c,), (config, *volumes) = after["spec"]["template"]["spec"]["containers"], after["spec"]["template"]["spec"]["volumes"]
    assert c["image"].endswith(":1.1") and config["configMap"]["name"] == now[2]
    # Nothing of an older or newer version is outside of the namespace, except itself.
    assert {kind for kind, namespace, _ in old.keys() | new.keys() if not namespace} == {"Namespace"}
    # The pods create these folders of the node, and no other.
    made = {v["hostPath"]["path"] for v in volumes if v.get("hostPath", {}).get("type") == "DirectoryOrCreate"}
    removed = re.search(r"^    rm -r ((?:/\S+ )+)", pathlib.Path("docs/KUBERNETES.md").read_text(), re.M)[1].split()
    assert all(any(path == x or path.startswith(x + "/") for x in removed) for path in made) and \
        all(any(path == x or path.startswith(x + "/") for path in made) for x in removed), (made, removed)
    read_only = {m["name"] for m in c["volumeMounts"] if m.get("readOnly")}
    assert {v["name"] for v in volumes if v.get("hostPath", {}).get("type") == "Directory"} <= read_only


def test_image(tmp_path):
    """The image of `make image` has the same bytes whenever it is made from the same files: not their times, owners and umask. It has the
    settings of Containerfile, and its digests are right."""
    import hashlib
    import tarfile

    def made(name, umask, when):
        root = tmp_path / name
        for path, mode in (("cudatrace", 0o755), ("etc/cudatrace/daemon.yaml", 0o644), ("licenses/cudatrace/LICENSE", 0o644)):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(path)
            (root / path).chmod(mode & ~umask)
            os.utime(root / path, (when, when))
        (root / "tmp").mkdir()
        ran = Ran(["dist/container/image.py", root, tmp_path / f"{name}.tar", "1.0", "amd64", "1700000000"])
        assert ran.status == 0, ran
        return ran.out.strip(), (tmp_path / f"{name}.tar").read_bytes()
    assert made("one", 0, 1) == (first := made("two", 0o077, 2e9))
    with tarfile.open(tmp_path / "two.tar") as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}
    blobs = {"sha256:" + name.rpartition("/")[2]: data for name, data in files.items() if name.startswith("blobs/")}
    assert all(name == "sha256:" + hashlib.sha256(data).hexdigest() for name, data in blobs.items())
    (manifest,) = json.loads(files["index.json"])["manifests"]
    assert manifest["digest"] == first[0]
    manifest = json.loads(blobs[manifest["digest"]])
    config = json.loads(blobs[manifest["config"]["digest"]])["config"]
    text = pathlib.Path("dist/container/Containerfile").read_text()
    assert f"USER {config['User']}\n" in text and f"ENTRYPOINT {json.dumps(config['Entrypoint'])}\n" in text and f"CMD {json.dumps(config['Cmd'])}\n" in text
    (layer,) = manifest["layers"]
    (tmp_path / "layer").write_bytes(blobs[layer["digest"]])
    with tarfile.open(tmp_path / "layer") as tar:
        found = {m.name: (oct(m.mode), m.mtime, m.uid) for m in tar}
    assert found["cudatrace"] == ("0o755", 1700000000, 0) and found["tmp"][0] == "0o1777" and len(found) == 8


# --- Pod ---

class Pod:
    """The daemon like the DaemonSet runs it, without one capability or with an overlay. started: False when it has ended."""

    def __init__(self, all_of_them, rootfs, *change):
        self.all, self.log = all_of_them, all_of_them.folder / "pod.log"
        shutil.rmtree(all_of_them.node / "var/lib/cudatrace", ignore_errors=True)
        start = 'echo $$ >"$0/cgroup.procs" && exec unshare --mount --net --uts --ipc --cgroup python3 "$@"'
        with open(self.log, "wb") as log:
            self.p = subprocess.Popen(["bash", "-c", start, all_of_them["cudatrace"].cgroup_path, TESTS + "/kubernetes/pod.py", rootfs,
                                       all_of_them.node, *change], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        all_of_them.started.append(self.p)
        until(lambda: self.p.poll() is not None or self.page("healthz"))
        self.started = self.p.poll() is None

    def enter(self, *args):
        return Ran(["nsenter", f"--target={self.p.pid}", *args]).out

    def page(self, name="metrics"):
        """As the kubelet and Prometheus see it, in its network namespace."""
        return self.enter("--net", sys.executable, TESTS + "/helpers/fetch.py", f"http://127.0.0.1:9464/{name}")

    def ctl(self, *args):
        """Like kubectl exec."""
        return json.loads(self.enter("--all", "--root", "--wd=/", "/cudatrace", "ctl", *map(str, args)))

    def seen(self):
        """The containers whose allocations since the daemon's start are counted: ten each."""
        for c in self.all.callers.values():
            c.tell("alloc 10")
        return [name for name in SEEN if re.search(CALLS.format(self.all[name].id), self.page(), re.M)]

    def dossier(self, pid, *core):
        """The folder on the node, complete."""
        name = os.path.basename(self.ctl("dossier", pid, *core)["folder"])
        folder = self.all.node / "var/lib/cudatrace" / name
        until((folder / "dossier.json").exists, 60)
        return folder, json.loads((folder / "dossier.json").read_text())

    def end(self):
        self.p.terminate()
        self.p.wait()


@pytest.fixture(scope="module")
def rootfs():
    needs_tracing()
    made = building("static")
    assert made.status == 0, made.out[-600:] + made.err[-600:]
    path = pathlib.Path(os.environ["TMP"]) / "rootfs"
    made = Ran(["dist/container/rootfs.sh", path])
    assert made.status == 0, made
    assert [f for f in path.rglob("*") if f.is_file() and os.access(f, os.X_OK) and f.stat().st_mode & 0o111] == [path / "cudatrace"]
    # In the daemon's own image /var/run is not a link, and its namespace differs from theirs.
    account = path / "run/secrets/kubernetes.io/serviceaccount"
    account.mkdir(parents=True)
    (account / "namespace").write_text("cudatrace")
    return path


@pytest.fixture(scope="module")
def containers(rootfs):
    found = Containers(pathlib.Path(os.environ["TMP"]) / "containers")
    for name, how in MORE.items():
        found.add(name, *how)
    # For the driver's pipe, which the mock driver does not make.
    os.environ.update(COREDUMP)
    found.callers = {name: found[name].caller() for name in SEEN}
    for c in found.callers.values():
        assert c.tell("init") == 0 and c.tell("alloc 1") == 1
    for pid in found["deleted"].pids:
        pathlib.Path(f"/proc/{pid}/root/lib/libcuda.so.1").unlink(missing_ok=True)
    yield found
    found.close()


def answered(folder, sample):
    """Runs the page's commands that read traces, on the trace of a program that decodes with graphs in three threads. Each must print
    something, or write a file."""
    (folder / "bin").mkdir()
    (folder / "bin/cudatrace").symlink_to(CUDATRACE)
    text = pathlib.Path("docs/KUBERNETES.md").read_text()
    commands = [line for box in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in box.splitlines()]
    assert len(commands) >= 10
    for line in commands:
        ran = Ran(["bash", "-o", "pipefail", "-c", line], cwd=folder, env={"PATH": f"{folder}/bin:{os.environ['PATH']}"})
        assert ran.status == 0 and (ran.out + ran.err or ">vllm" in line), f"{line}: {ran}"
    # "... 714 kernel launches, 24 graph launches"; some launches are captured
    said = dict(reversed(x) for x in re.findall(r"(\d+) (kernel|graph) launches", sample))
    assert sum(g["launches"] for g in json.loads((folder / "vllm.json").read_text())["graphs"]["list"]) == int(said["graph"])
    lines = list(map(json.loads, (folder / "vllm.jsonl").read_text().splitlines()))
    assert sum((x["type"], x.get("op")) == ("kernel", "launch") for x in lines) == int(said["kernel"])
    assert {(x["comm"], x["pod"]) for x in lines if "symbol" in x} == {("ct-sample", "vllm-0")}


def test_pod(containers, rootfs):
    """It starts with five capabilities and a read-only root, and traces containers with their names."""
    pod = Pod(containers, rootfs)
    assert pod.started, pod.log.read_text()
    assert pod.seen() == SEEN
    # After the start only cudatrace-links has PERFMON.
    mask = passes(MANIFESTS, "mask").strip()
    has = f"{int(mask, 16) & ~(1 << 38):016x}"
    status = dict(re.findall(r"^(\w+):\s+(\S+)$", pathlib.Path(f"/proc/{pod.p.pid}/status").read_text(), re.M))
    assert [status[k] for k in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs")] == [has, has, mask, "1"], "it can get no others"
    assert Ran(["touch", f"/proc/{pod.p.pid}/root/x"]).status, "it cannot write to its root"
    # The daemon also reports libraries of other suites.
    said = [line for line in pod.log.read_text().splitlines() if not re.search("tracing by|no libcuda found", line)
            and (str(containers.folder) in line or not re.search(r"/lib[a-z]+\.so", line))]
    assert said == [] and pod.ctl("status")["level"] == "metrics"
    for name in "containerd", "k3s":
        containers[name].sample("--quiet", "--tokens", 4)
    page = pod.page()
    # From the node's disk; and from the container, not from its own.
    for names in ("llm", "vllm-0", "vllm"), ("batch", "train-0", containers["k3s"].id):
        assert "\n" + LAUNCHES.format(*names) in page
    (docker,) = (p["pid"] for p in pod.ctl("status")["processes"] if p.get("container_id") == containers["docker"].id)
    pod.ctl("level", docker, "trace")
    for c in containers.callers.values():
        c.tell("alloc 10")
    folder, x = pod.dossier(docker)
    assert (x["container_id"], x["has_calls"], x["threads"]) == (containers["docker"].id, True, 1) and "no_report" not in x
    assert {f.name for f in folder.iterdir()} == {"calls.jsonl.zst", "verdict.txt", "verdict.json", "threads.txt", "dossier.json"}
    assert re.search(r"^  main\+0x", (folder / "threads.txt").read_text(), re.M)
    pod.ctl("level", "*ct-sample*", "trace")
    sample = containers["containerd"].sample("--threads", 3, "--tokens", 10, "--layers", 4)
    containers["crio"].sample("--quiet")
    pod.end()
    folder = containers.node / "var/lib/cudatrace"
    lines = subprocess.check_output(["zstd", "-dcq", *folder.glob("trace-*.zst")], text=True).splitlines()
    assert sum('"symbol":"cuMemAlloc_v2"' in x and f'"container":"{containers["docker"].id}"' in x for x in lines) == 10
    answered(folder, sample.out + sample.err)


# Without it, the loss in docs/KUBERNETES.md occurs.
@pytest.mark.parametrize("capability,seen", [
    ("BPF", None), ("PERFMON", None), ("SYS_PTRACE", []), ("DAC_READ_SEARCH", ["docker", "deleted"]),
    ("CHECKPOINT_RESTORE", ["docker", "private"])])
def test_each_capability_is_needed(containers, rootfs, capability, seen):
    pod = Pod(containers, rootfs, capability)
    assert (pod.seen() if pod.started else None) == seen
    pod.end()


@pytest.mark.parametrize("overlay", [None, "+gpu-core-dumps"])
def test_gpu_core_dumps(containers, rootfs, overlay):
    """Of another user than root only with the capabilities of the overlay. The file stays in the program's container."""
    pod = Pod(containers, rootfs, *([overlay] if overlay else []))
    def found():
        containers.callers["private"].tell("alloc 1")
        return [p["pid"] for p in pod.ctl("status")["processes"] if p.get("container_id") == containers["private"].id]
    until(found, 20)
    (pid,) = found()
    out = pathlib.Path(f"/proc/{pid}/root/out")
    own = re.search(r"^NSpid:.*\t(\d+)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1]
    pipe = out / f"pipe.{own}"
    os.mkfifo(pipe)
    os.chown(pipe, 12345, 12345)
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    core = out / f"core.{own}.1"
    core.write_bytes(gpu_core.sample())
    os.chown(core, 12345, 12345)
    os.utime(core, (0, 0))  # an older one
    asked = threading.Thread(target=lambda: (select.select([fd], [], [], 60), os.utime(core)))
    if overlay:
        asked.start()
    _, x = pod.dossier(pid, "core")
    if overlay:
        assert x["gpu_core"].startswith("resident: "), x
        asked.join()
        assert os.read(fd, 1 << 20)
    else:
        assert x["gpu_core"] == "not requested: the daemon lacks CAP_SETUID and CAP_SETGID"
        assert os.read(fd, 1) == b""
    os.close(fd)
    pipe.unlink()
    core.unlink()
    pod.end()
