# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 3
"""Without root, cudatrace must trace in the process by default and print that. Also tests where it puts the library that programs
load."""
import os
import re
import shutil
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import ALL, CASES, CUDATRACE, FAKE, O, Ran, passes, until

# A user id that nothing else uses: names of folders in /tmp contain it.
UID = 400000000 + os.getpid()
OWN = f"/tmp/cudatrace-{UID}", f"/var/tmp/cudatrace-{UID}"
PRIVILEGE = "cannot trace without: privilege CAP_BPF, privilege CAP_PERFMON"
SAID = "cudatrace: tracing in-process (--probe=inject): uprobes need root\n"


@pytest.fixture(scope="module")
def place():
    """A readable folder with all that a user needs; "out" is the user's own."""
    if os.geteuid():
        pytest.skip("needs root, to become a user who has never been here")
    if not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    folder = os.environ["TMP"] + "/place"
    os.chmod(os.environ["TMP"], 0o755)
    os.makedirs(folder + "/out")
    os.chown(folder + "/out", UID, UID)
    for path in (CUDATRACE, FAKE + "/sample", FAKE + "/libcuda.so.1", FAKE + "/libnccl.so.2", CASES + "/nccl"):
        os.chmod(shutil.copy(path, folder), 0o755)
    if Ran([*AS, "test", "-x", folder + "/cudatrace"]).status:
        pytest.skip("the folder of tests is not to be seen by others")
    return folder


AS = ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]


@pytest.fixture(autouse=True)
def clean():
    yield
    for path in OWN:
        shutil.rmtree(path, ignore_errors=True)


def user(place, *args, before=(), **env):
    """Runs as the user; XDG_RUNTIME_DIR is set only if given."""
    return Ran([*before, *AS, "env", "-u", "XDG_RUNTIME_DIR", *(f"{k}={v}" for k, v in env.items()), f"LD_LIBRARY_PATH={place}",
                place + "/cudatrace", *map(str, args)])


def sample(place):
    return [place + "/sample", "--tokens", "1", "--quiet"]


def path_said(ran):
    """The path of the library, from a program that prints its variables."""
    assert ran.status == 0, ran
    injection, preload = ran.out.split()
    assert injection == preload
    return injection


ASK = ["sh", "-c", 'echo "$CUDA_INJECTION64_PATH" "$LD_PRELOAD"']


def library(place, **more):
    """The path of the library that programs load."""
    return path_said(user(place, "-q", "--probe=inject", "--jsonl", place + "/out/asked", "--", *ASK, **more))


@pytest.mark.parametrize("option,said", [("auto", SAID), ("inject", "")], ids=["auto", "inject"])
def test_traces(place, option, said):
    path = f"{place}/out/{option}"
    ran = user(place, f"--probe={option}", "--jsonl", path, "--", *sample(place))
    assert ran.status == 0 and ran.out.startswith("loaded 48 weights") and ran.err.startswith(said) and said in ran.err, ran
    t = Trace(path)
    assert t.accounts() and t.head["mechanism"] == "inject" and t.sym["cuLaunchKernel"] > 50
    assert os.stat(path).st_uid == UID


def test_nccl(place):
    """Calls, arguments, communicators and algorithms must match case nccl."""
    ran = user(place, "-q", "-e", ALL, "--jsonl", place + "/out/nccl", "--", place + "/nccl")
    assert (ran.status, ran.err) == (0, ""), ran
    with open(place + "/out/expected", "w", encoding="utf-8") as f:
        f.write(ran.out)
    passes("cases/expect.py", place + "/out/nccl", place + "/out/expected")


def test_no_message_for_dlerror(place):
    """Where libcuda is not found, a lookup in NCCL must leave no message for dlerror(), which programs take for a failure of the lookup."""
    folder = place + "/nocuda"
    os.makedirs(folder)
    shutil.copy(place + "/cudatrace", folder)
    with open(folder + "/nccl.c", "w", encoding="utf-8") as f:
        f.write("int ncclGetVersion(int *v) { return *v = 0; }")
    with open(folder + "/main.c", "w", encoding="utf-8") as f:
        f.write('#include <dlfcn.h>\nint main(int c, char **v) { void *l = dlopen(v[1], RTLD_NOW); dlerror(); return !dlsym(l, "ncclGetVersion") || dlerror(); }')
    compiled(folder + "/libnccl.so.2", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", folder + "/nccl.c")
    compiled(folder + "/main", folder + "/main.c")
    if Ran(["sh", "-c", "ldconfig -p | grep libcuda.so.1"]).out:
        pytest.skip("libcuda is installed")
    ran = user(folder, "-q", "--jsonl", place + "/out/dlerror", "--", folder + "/main", folder + "/libnccl.so.2")
    assert ran.status == 0, ran


@pytest.mark.parametrize("name", ["a b", "a:b", "a$b"])
def test_folder_that_the_loader_splits(place, name):
    runtime = f"{place}/out/{name}"
    os.makedirs(runtime)
    os.chown(runtime, UID, UID)
    ran = user(place, "-q", "--jsonl", place + "/out/split", "--", *sample(place), XDG_RUNTIME_DIR=runtime)
    assert (ran.status, ran.err) == (0, ""), ran
    assert Trace(place + "/out/split").sym["cuLaunchKernel"] > 50


def test_quiet_is_quiet(place):
    ran = user(place, "-q", "--jsonl", place + "/out/quiet", "--", *sample(place))
    assert (ran.status, ran.err) == (0, ""), ran


@pytest.mark.parametrize("args", [["--probe=uprobe", "--", "true"], ["-p", str(os.getpid())], [], ["--kernel"], ["--kernel", "--kernel-probe=tracepoint", "--", "true"], ["--sched", "--", "true"]])
def test_uprobes_need_root(place, args):
    """Options that only uprobes support must also need root."""
    ran = user(place, "-q", "--jsonl", place + "/out/none", *args)
    assert ran.status == 1 and PRIVILEGE in ran.err and "run it with sudo" in ran.err, ran
    assert not os.path.exists(place + "/out/none")


def test_fork(place):
    ran = user(place, "-q", "--jsonl", place + "/out/two", "--", "sh", "-c", '"$@" && "$@"', "sh", *sample(place))
    t = Trace(place + "/out/two")
    assert ran.status == 0 and t.accounts() and len({c["pid"] for c in t.calls}) == 2


def test_folder(place):
    assert os.path.dirname(library(place)) == OWN[0]
    assert os.stat(OWN[0]).st_uid == UID and os.stat(OWN[0]).st_mode & 0o777 == 0o755
    # A complete file is used again; an incomplete one is not.
    path = library(place)
    before = os.stat(path)
    assert library(place) == path and os.stat(path).st_ino == before.st_ino
    with open(path, "r+b") as f:
        f.write(b"no library")
    assert library(place) == path and os.stat(path).st_ino != before.st_ino


def test_runtime_folder(place):
    runtime = place + "/runtime"
    os.mkdir(runtime, 0o700)
    os.chown(runtime, UID, UID)
    assert os.path.dirname(library(place, XDG_RUNTIME_DIR=runtime)) == runtime + "/cudatrace"
    for wrong in (place + "/nowhere", "relative", ""):
        assert os.path.dirname(library(place, XDG_RUNTIME_DIR=wrong)) == OWN[0]


@pytest.mark.parametrize("what", ["another user's", "all may write", "a link", "a file"])
def test_a_folder_that_is_not_ours(place, what):
    elsewhere = f"{place}/elsewhere-{what[0:3]}"
    if what == "a link":
        os.mkdir(elsewhere)
        os.chown(elsewhere, UID, UID)
        os.symlink(elsewhere, OWN[0])
    elif what == "a file":
        open(OWN[0], "w", encoding="utf-8").close()
    else:
        os.mkdir(OWN[0])
    try:
        if what == "all may write":
            os.chown(OWN[0], UID, UID)
            os.chmod(OWN[0], 0o777)
        assert os.path.dirname(library(place)) == OWN[1]
        assert what in ("a link", "a file") or not os.listdir(OWN[0])
        if what == "a link":
            assert not os.listdir(elsewhere)
        # Without any other folder:
        shutil.rmtree(OWN[1])
        os.mkdir(OWN[1])
        ran = user(place, "-q", "--probe=inject", "--jsonl", place + "/out/none", "--", *ASK)
        assert ran.status == 1 and "cannot copy libcudatrace-inject.so to a directory that programs can load it from" in ran.err and ran.out == "", ran
        # The error lists the possible folders, but not /, which the user may own in a container.
        assert f": make /run/user/{UID}/cudatrace, {OWN[0]} or {OWN[1]} a directory" in ran.err, ran
    finally:
        if os.path.islink(OWN[0]) or os.path.isfile(OWN[0]):
            os.unlink(OWN[0])


def test_folder_without_exec(place):
    """The next folder must be used."""
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs a mount namespace")
    runtime = place + "/noexec"
    os.mkdir(runtime)
    before = ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o noexec,mode=777 none {runtime} && exec "$@"', "sh"]
    assert os.path.dirname(library(place, before=before, XDG_RUNTIME_DIR=runtime)) == OWN[0]
    ran = user(place, "-q", "--jsonl", place + "/out/noexec", "--", *sample(place), before=before, XDG_RUNTIME_DIR=runtime)
    assert ran.status == 0 and Trace(place + "/out/noexec").accounts()


def loaded_by(*programs):
    """The files that the dynamic loader needs for these programs."""
    return {path for p in programs for path in re.findall(r"(/\S+) \(0x", Ran(["ldd", p]).out)}


@pytest.mark.parametrize("mode", ["with", "alone"])
def test_container(place, mode):
    """Tracing must work like in an unprivileged container: private namespaces, only the program's files, which are read-only, no devices,
    and a user without a name."""
    if Ran(["unshare", "-mpniuf", "true"]).status:
        pytest.skip("needs namespaces")
    image = f"{place}/image-{mode}"
    for folder in ("bin", "cuda", "proc", "tmp", "out"):
        os.makedirs(f"{image}/{folder}")
    for path in (CUDATRACE, FAKE + "/sample", O + "/libcudatrace-inject.so"):
        os.chmod(shutil.copy(path, image + "/bin"), 0o755)
    shutil.copy(FAKE + "/libcuda.so.1", image + "/cuda")
    for path in loaded_by(CUDATRACE, FAKE + "/sample"):
        os.makedirs(image + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, image + path)
    script = f"""cd {image} && mount --make-rprivate / && mount --bind . . && cd {image} && mount --bind {place}/out out &&
        mount -t proc -o nosuid,nodev,noexec proc proc && mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs tmp && mount -o remount,bind,ro . || exit 99
        setpriv --no-new-privs chroot --userspec={UID}:{UID} --groups= . "$@"
        status=$?
        # Nobody stays when the first process of a container has ended.
        for i in $(seq 1500); do tail -1 out/{mode}.jsonl | grep -q '"type":"end"' && break; sleep 0.04; done
        exit $status"""
    command = {"with": ["/bin/cudatrace", "-q", "--jsonl", "/out/with.jsonl", "--", "/bin/sample", "--quiet"], "alone": ["/bin/sample", "--quiet"]}[mode]
    env = {"LD_LIBRARY_PATH": "/cuda"} | ({"CUDATRACE_OUT": "/out/alone.jsonl"} if mode == "alone" else {})
    if mode == "alone":
        command = ["/bin/env", "LD_PRELOAD=/bin/libcudatrace-inject.so", *command]
        shutil.copy(shutil.which("env"), image + "/bin")
    ran = Ran(["unshare", "-mpniuf", "sh", "-c", script, "sh", *command], env=env)
    assert ran.status == 0 and ran.out.startswith("loaded 48 weights") and ran.err == "", ran
    t = Trace(f"{place}/out/{mode}.jsonl")
    assert t.accounts() and t.head["mechanism"] == "inject" and t.end["calls"] == 2504


def test_alone(place):
    """LD_PRELOAD alone must be enough."""
    path = place + "/out/alone"
    os.chmod(shutil.copy(O + "/libcudatrace-inject.so", place), 0o755)
    ran = Ran([*AS, "env", f"LD_LIBRARY_PATH={place}", f"LD_PRELOAD={place}/libcudatrace-inject.so", f"CUDATRACE_OUT={path}", *sample(place)])
    assert ran.status == 0 and ran.out.startswith("loaded 48 weights") and ran.err == "", ran
    until(lambda: os.path.exists(path) and Ran(["tail", "-1", path]).out.find('"type":"end"') > 0)
    t = Trace(path)
    assert t.accounts() and t.sym["cuLaunchKernel"] > 50 and os.stat(path).st_uid == UID


@pytest.mark.parametrize("option,what", [("--all-layers", "--python and --torch (--all-layers) are"), ("--python", "--python is"), ("--torch", "--torch is")])
def test_seen_by_root_alone(place, option, what):
    ran = user(place, "-q", option, "--", "true")
    assert ran.status == 1 and PRIVILEGE in ran.err, ran
    ran = user(place, option, "--", "true")
    assert f"cudatrace: {what} recorded only as root; without root a command is traced in-process\n" in ran.err and PRIVILEGE in ran.err, ran


def test_profilers(place):
    """NVIDIA's profilers refuse to start if the driver has a library to load: the variable must be unset for them, in scripts, too."""
    for name in ("ncu", "nsys", "other"):
        with open(f"{place}/{name}", "w", encoding="utf-8") as f:
            f.write('#!/bin/sh\necho "$CUDA_INJECTION64_PATH" "${LD_PRELOAD##*/}"\n')
        os.chmod(f"{place}/{name}", 0o755)
    for name in ("ncu", "nsys", "other"):
        for command in ([f"{place}/{name}"], ["sh", "-c", f"{place}/{name}; exit $?"]):
            ran = user(place, "--no-summary", "--probe=inject", "--jsonl", place + "/out/profiler", "--", *command)
            injection, preload = ran.out.rstrip("\n").split(" ")
            assert ran.status == 0 and preload.startswith("libcudatrace-inject"), ran
            assert bool(injection) == (name == "other") and ("only preloaded" in ran.err) == (name != "other"), ran


@pytest.mark.parametrize("bad", [["/tmp"], ["/tmp", "/var/tmp"]])
def test_folders_of_others(place, bad):
    """The library must not be put where others may rename folders: theirs could be loaded instead."""
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs a mount namespace")
    script = f"""exec 6<{CUDATRACE}
        for d in {" ".join(bad)}; do mount -t tmpfs -o mode=0777 none $d || exit 9; done
        mkdir /dev/shm/cudatrace-{UID} && mount -t tmpfs none /dev/shm/cudatrace-{UID} && cd /dev/shm/cudatrace-{UID} || exit 9
        cp /proc/self/fd/6 cudatrace && chmod 755 . cudatrace && exec 6<&-
        {" ".join(AS)} env -u XDG_RUNTIME_DIR ./cudatrace -q --probe=inject --jsonl /dev/null -- sh -c 'echo "$LD_PRELOAD"'"""
    ran = Ran(["unshare", "-m", "sh", "-c", script], env={"LD_LIBRARY_PATH": FAKE})
    os.rmdir(f"/dev/shm/cudatrace-{UID}")
    if len(bad) == 1:
        assert ran.status == 0 and ran.out.startswith(f"/var/tmp/cudatrace-{UID}/"), ran
    else:
        assert ran.status == 1 and "directories that no other user may write to" in ran.err, ran


CONNECT = """import os, socket, sys
name = next(line.split()[7] for line in open("/proc/net/unix") if f"@cudatrace-{sys.argv[1]}-" in line and line.split()[3] == "00010000")
for _ in range(20):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(5)
    s.connect("\\0" + name[1:])
    try:
        assert not s.recv(10)
    except ConnectionResetError:
        pass
    s.close()
"""


@pytest.mark.parametrize("tracer", ["user", "root"])
def test_strangers_connect(place, tmp_path, tracer):
    """Another user connects to the tracer: refused, and the trace stays complete."""
    path, stop = f"{place}/out/strangers-{tracer}", tmp_path / "stop"
    code = f"import os, subprocess, time\nwhile not os.path.exists('{stop}'): time.sleep(0.01)\nsubprocess.run(['{place}/sample', '--tokens', '1', '--quiet'], check=True)"
    os.chmod(tmp_path, 0o755)
    by = AS if tracer == "user" else []
    p = subprocess.Popen([*by, "env", f"LD_LIBRARY_PATH={place}", place + "/cudatrace", "-q", "--probe=inject", "--jsonl", path, "--", "python3", "-c", code],
                         stderr=subprocess.PIPE, text=True)
    until(lambda: f"@cudatrace-{p.pid}-" in open("/proc/net/unix", encoding="utf-8").read())
    ran = Ran(["setpriv", f"--reuid={UID + 1}", f"--regid={UID + 1}", "--clear-groups", "python3", "-c", CONNECT, str(p.pid)])
    stop.touch()
    err = p.communicate(timeout=60)[1]
    assert ran.status == 0 and p.returncode == 0, (ran, err)
    end = Trace(path).end
    assert end["calls"] > 10 and end["drops"]["processes"] == 0 and "incomplete" not in err, (end, err)


LISTEN = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1].replace("@", "\\0"))
if sys.argv[1][0] == "/":
    os.chmod(sys.argv[1], 0o777)
s.listen()
s.settimeout(3)
print("listens", flush=True)
greeted = False
try:
    while not greeted:
        greeted = bool(s.accept()[0].recv(4096))
except TimeoutError:
    pass
print("greeted" if greeted else "ignored")
"""


@pytest.mark.parametrize("uid,heard", [(UID, "greeted"), (0, "greeted"), (UID + 1, "ignored")], ids=["own", "root", "another"])
@pytest.mark.parametrize("where", ["name", "beside"])
def test_tracer_of_another_user(place, uid, heard, where):
    """Another user listens at the name of a tracer that has ended, or beside the library in a directory for all. The library must
    not connect: that user could have it load their code."""
    folder = f"{place}/{where}-{uid}"
    os.mkdir(folder)
    os.chmod(folder, 0o1777)
    lib = shutil.copy(O + "/libcudatrace-inject.so", folder)
    os.chown(lib, uid if uid != UID + 1 else UID, -1)
    name = f"@cudatrace-test-{os.getpid()}" if where == "name" else folder + "/socket"
    as_other = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    p = subprocess.Popen([*as_other, "python3", "-c", LISTEN, name], stdout=subprocess.PIPE, text=True)
    assert p.stdout.readline() == "listens\n"
    ran = Ran([*AS, "env", f"LD_LIBRARY_PATH={place}", f"LD_PRELOAD={lib}", f"CUDA_INJECTION64_PATH={lib}", f"CUDATRACE_OUT={place}/out/x",
               *([f"CUDATRACE_SOCKET={name}"] if where == "name" else []), *sample(place)])
    assert p.communicate()[0] == heard + "\n" and ran.status == 0, ran
