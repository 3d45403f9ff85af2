# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Containers without a container runtime: namespaces, cgroups with names as from runtimes and the kubelet, private root file systems.

    containerd, crio  pods, systemd driver; libcuda is a file of the image, whose layer they share with job
    k3s               a pod, cgroupfs driver; libcuda is the driver's, mounted from the node
    docker            a libcuda of its own
    podman            another user, in a user namespace; the driver's libcuda
    job               a cgroup that no runtime makes"""
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess

import pytest

from .live import Caller, compiled
from .run import FAKE, TESTS, Ran, until

# cuInit takes long: the sample would be over before a busy machine's daemon has looked whose it is.
RUN = """#!/bin/bash
echo $$ >'CGROUP/cgroup.procs' || exit 1
export LD_LIBRARY_PATH=/lib FAKE_CUDA_COUNTS=/out/PROGRAM FAKE_DELAY_US=cuInit:500000 root='HERE/NAME/root'
exec unshare --mount --pid --fork --kill-child --uts --ipc --propagation private bash -c '
	mount -t overlay image -o lowerdir=HERE/image,upperdir=HERE/NAME/upper,workdir=HERE/NAME/work "$root" || exit 1
	hostname NAME
	MOUNTS
	exec python3 "TESTS/contain.py" "$root" USER /ct-PROGRAM "$@"' sh "$@"
"""
# Mounts in a container's file system $root: the node's driver, or a libcuda of its own.
DRIVER = 'mount --bind "HERE/driver/libcuda.so.1" "$root/lib/libcuda.so.1"'
OWN = 'mount -t tmpfs -o mode=755 none "$root/lib"; cp "HERE/driver/libcuda.so.1" "$root/lib/"; cp -r "HERE/image/lib/." "$root/lib/"'
POD = "8a1b2c3d-0001-4abc-9def-00000000000"
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope"
KINDS = {  # name: number of the pod, cgroup, runtime, mounts, user as tests/contain.py has it
    "containerd": (1, SLICE, "containerd", ":", "0"),
    "crio": (2, "/kubepods.slice/kubepods-podUID.slice/crio-ID.scope", "cri-o", ":", "0"),
    "k3s": (3, "/kubepods/besteffort/podPOD/ID", "containerd", DRIVER, "0"),
    "docker": (0, "/system.slice/docker-ID.scope", "docker", OWN, "0"),
    "podman": (0, "/machine.slice/libpod-ID.scope/container", "podman", DRIVER, "12345+"),
    "job": (0, f"/ct79.slice/batch/job-{os.getpid()}", "", ":", "0"),
}


def cgroup_root():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return next((line.split()[4] for line in f if " - cgroup2 " in line), None)


class Container:
    """id, pod (its uid), runtime, cgroup; pids of its cgroup; counts: the mock driver's own of the sample."""

    def __init__(self, place, name, pod, cgroup, runtime, mounts, user):
        self.place, self.name, self.folder, self.runtime = place, name, place.folder / name, runtime
        # What container ids look like. Another run at the same time has others.
        self.id = "" if name == "job" else hashlib.sha256(f"{name} {os.getpid()}".encode()).hexdigest()
        self.pod = f"{POD}{pod}" if pod else ""
        for word, value in (("UID", self.pod.replace("-", "_")), ("POD", self.pod), ("ID", self.id)):
            cgroup = cgroup.replace(word, value)
        self.cgroup, self.cgroup_path, self.counts = cgroup, place.cgroups + cgroup, self.folder / "upper/out/sample"
        self.make_cgroup()
        for part in ("upper", "work", "root"):
            (self.folder / part).mkdir(parents=True)
        for program in ("caller", "sample"):
            text = RUN.replace("MOUNTS", mounts)
            for word, value in (("CGROUP", self.cgroup_path), ("PROGRAM", program), ("USER", user), ("NAME", name), ("HERE", place.folder),
                                ("TESTS", TESTS)):
                text = text.replace(word, str(value))
            (self.folder / program).write_text(text)
            (self.folder / program).chmod(0o755)

    def make_cgroup(self):
        """With its parents: another run that removes empty ones may take a parent from under us."""
        # Should we be killed: tests/runner/contain.py removes them.
        with open(os.environ["TMP"] + "/cgroups.made", "a", encoding="utf-8") as f:
            f.write(self.cgroup_path + "\n")

        def made():
            with contextlib.suppress(OSError):
                os.makedirs(self.cgroup_path, exist_ok=True)
            return os.path.isdir(self.cgroup_path)
        until(made, 2)

    @property
    def pids(self):
        with open(self.cgroup_path + "/cgroup.procs", encoding="ascii") as f:
            return [int(pid) for pid in f]

    def kill(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)

    def remove_cgroup(self):
        def gone():
            with contextlib.suppress(OSError):
                os.rmdir(self.cgroup_path)
            return not os.path.isdir(self.cgroup_path)
        until(gone)

    def caller(self):
        """tests/caller.c in it, which has opened its libcuda."""
        c = Caller(self.folder / "caller")
        self.place.started.append(c.p)
        assert c.tell("open /lib/libcuda.so.1") == 1
        return c

    def sample(self, *args):
        return Ran([self.folder / "sample", *map(str, args)])


class Containers:
    """All of KINDS, by name. lib: the node's driver; node: what the kubelet leaves on its disk."""

    def __init__(self, folder):
        self.folder, self.lib, self.node, self.started, self.all = folder, folder / "driver", folder / "node", [], {}
        self.cgroups = cgroup_root()
        try:
            os.mkdir(f"{self.cgroups}/ct79-{os.getpid()}")
            os.rmdir(f"{self.cgroups}/ct79-{os.getpid()}")
        except OSError as e:
            pytest.skip(f"cgroups cannot be made: {e}")
        self._make_image()
        for name, how in KINDS.items():
            self.add(name, *how)
        ran = self.all["job"].sample("--help")
        if ran.status:
            self.close()
            pytest.skip(f"no overlay file systems here: {ran.err[-200:]}")
        logs, pods = self.node / "var/log/containers", self.node / "var/log/pods"
        logs.mkdir(parents=True)
        (pods / f"llm_vllm-1_{self['crio'].pod}/server").mkdir(parents=True)
        (logs / f"vllm-0_llm_vllm-{self['containerd'].id}.log").touch()
        # Of the third pod nothing, but what is in the container.
        upper = self["k3s"].folder / "upper"
        for part in ("etc", "var", "run/secrets/kubernetes.io/serviceaccount"):
            (upper / part).mkdir(parents=True)
        (upper / "var/run").symlink_to("/run")
        (upper / "etc/hostname").write_text("train-0\n")
        (upper / "run/secrets/kubernetes.io/serviceaccount/namespace").write_text("batch")

    def __getitem__(self, name):
        return self.all[name]

    def add(self, name, *how):
        self.all[name] = Container(self, name, *how)
        return self.all[name]

    def _make_image(self):
        """Both programs, by names that nobody else's have, what they load, and a libcuda."""
        image = self.folder / "image"
        (image / "lib").mkdir(parents=True)
        (image / "out").mkdir()
        (image / "out").chmod(0o1777)
        self.lib.mkdir()
        programs = [compiled(image / "ct-caller", TESTS + "/caller.c"), shutil.copy(FAKE + "/sample", image / "ct-sample")]
        for so in set(re.findall(r"(?:=> |^\s)(/\S+)", subprocess.check_output(["ldd", *programs], text=True), re.M)):
            os.makedirs(os.path.dirname(f"{image}{so}"), exist_ok=True)
            shutil.copy(so, f"{image}{so}")
        for folder in (image / "lib", self.lib):
            shutil.copy(FAKE + "/libcuda.so.1", folder)

    def close(self):
        """Only empty cgroups go: others' stay."""
        for p in self.started:
            p.kill()
            p.wait()
        for c in self.all.values():
            if os.path.isdir(c.cgroup_path):
                c.kill()
                c.remove_cgroup()
            with contextlib.suppress(OSError):
                path = c.cgroup_path
                while (path := os.path.dirname(path)) != self.cgroups:
                    os.rmdir(path)
