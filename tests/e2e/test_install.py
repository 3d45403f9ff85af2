# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""Other results of make: installed files, the static binary, the BPF programs for arm64, a build without git, the demo."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.outputs import chrome
from helpers.run import ALL, CUDATRACE, FAKE, O, Ran, building, cudatrace, needs_tracing, until

STATIC = O + "/cudatrace-static"
ENV = {"LD_LIBRARY_PATH": FAKE}


def version():
    """Of the program: make may have built it again."""
    return cudatrace("--version").out


def makes(*args):
    ran = building(*args)
    assert ran.status == 0, ran


def below(folder):
    return sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*") if not f.is_dir() or f.is_symlink())


INSTALLED = ["man/man1/cudatrace.1", "bash-completion/completions/cudatrace", "zsh/site-functions/_cudatrace",
             "fish/vendor_completions.d/cudatrace.fish", "doc/cudatrace/LICENSE", "doc/cudatrace/README.md", "doc/cudatrace/SCHEMA.md",
             "doc/cudatrace/measured/calls.md"]


def test_install(tmp_path):
    """What is installed must work, also twice; uninstall must leave only what is not ours."""
    share, to = tmp_path / "usr/share", ["PREFIX=/usr", f"DESTDIR={tmp_path}"]
    (share / "doc/other").mkdir(parents=True)
    (share / "doc/other/file").touch()
    makes("install", *to)
    program = tmp_path / "usr/bin/cudatrace"
    assert program.stat().st_mode & 0o777 == 0o755 and Ran([program, "--version"]).out == version()
    assert [e["symbol"] for e in json.loads(Ran([program, "list", "--json", "-e", "cuInit"]).out)] == ["cuInit"]
    assert Ran([program, "fake", "--", "python3", "-c", "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"]).out == "0\n"
    assert {f: oct((share / f).stat().st_mode) for f in INSTALLED} == dict.fromkeys(INSTALLED, "0o100644")
    page = share / "man/man1/cudatrace.1"
    assert re.search(rf"^\.TH CUDATRACE 1 .*{re.escape(version().strip())}", page.read_text(), re.M)
    shown = [how for how in (["groff", "-man", "-Tutf8"], ["mandoc"]) if shutil.which(how[0]) and not Ran([*how, page]).status]
    if shown:
        assert "EXIT STATUS" in re.sub(".\b", "", re.sub("\x1b\\[[0-9;]*m", "", Ran([*shown[0], page]).out))
    else:
        print("neither groff nor mandoc: the man page was not formatted")
    completion = share / "bash-completion/completions/cudatrace"
    assert Ran(["bash", "-c", '. "$0"; complete -p cudatrace', completion]).out == "complete -F _cudatrace cudatrace\n"
    makes("install", *to)
    makes("uninstall", *to)
    assert below(tmp_path) == ["usr/share/doc/other/file"] and not (share / "doc/cudatrace").exists()


def test_a_path_with_blanks(tmp_path):
    to = ["PREFIX=/opt", f"DESTDIR={tmp_path}/a b"]
    makes("install", *to)
    assert os.access(tmp_path / "a b/opt/bin/cudatrace", os.X_OK)
    makes("uninstall", *to)
    assert below(tmp_path / "a b") == []


@pytest.fixture(scope="module")
def static():
    makes("static")
    return STATIC


def test_static(static):
    """It needs no interpreter and no library, and has the same version and functions."""
    assert "INTERP" not in Ran(["readelf", "-lW", static]).out and "NEEDED" not in Ran(["readelf", "-dW", static]).out
    assert Ran([static, "--version"]).out == version() and Ran([static, "list", "--json"]).out == cudatrace("list", "--json").out


@pytest.fixture
def alone(tmp_path, static):
    """A folder with only the static program."""
    if os.geteuid():
        pytest.skip("needs root")
    for name in ("proc", "sys", "dev"):
        (tmp_path / "root" / name).mkdir(parents=True)
    shutil.copy(static, tmp_path / "root/cudatrace")
    return tmp_path / "root"


def mounted(root, *args):
    """Runs it in this folder, with /proc and /sys."""
    inside = 'mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" || exit 99; exec chroot "$0" /cudatrace "$@"'
    return Ran(["unshare", "-m", "sh", "-c", inside, root, *map(str, args)])


def needs_mount_namespace():
    if Ran(["unshare", "-m", "true"]).status:
        pytest.skip("needs mount namespaces")


def test_static_alone(alone):
    """In an empty folder. Without /proc the machine cannot be checked, but the command must end."""
    assert Ran(["chroot", alone, "/cudatrace", "--version"]).out == version()
    assert Ran(["chroot", alone, "/cudatrace", "list", "--names"]).out == cudatrace("list", "--names").out
    ran = Ran(["chroot", alone, "/cudatrace", "check", "--json"])
    assert isinstance(json.loads(ran.out), dict) and ran.err == ""
    needs_mount_namespace()
    assert mounted(alone, "check").out.splitlines()[-1][:19] == cudatrace("check").out.splitlines()[-1][:19]


def test_static_traces(tmp_path, static):
    """Every call of the program, with demangled names of kernels."""
    needs_tracing()
    ran = Ran([static, "-q", "-e", ALL, "--jsonl", tmp_path / "t", "--chrome", tmp_path / "c", "--", FAKE + "/sample", "--tokens", "2",
               "--counts"], env=ENV)
    assert (ran.status, ran.err) == (0, ""), ran
    t, calls = Trace(tmp_path / "t"), {}
    for c in t.calls:
        if "parent" not in c:
            calls[c["symbol"]] = calls.get(c["symbol"], 0) + 1
    assert len(t.calls) > 300 and t.accounts() and calls == {k: int(n) for k, n in re.findall(r"^(cu\w+) (\d+)$", ran.out, re.M)}
    assert any(c.get("kernel") == "matmul(float const*, float const*, float*, int)" for c in t.calls)


def test_static_traces_from_an_empty_folder(running, alone):
    """In an otherwise empty container, it traces a process outside."""
    needs_tracing()
    needs_mount_namespace()
    p = running.start(FAKE + "/sample", "--tokens", 1000000, "--quiet", env={**ENV, "FAKE_DELAY_US": "cuStreamSynchronize:10000"})
    until(lambda: "libcuda" in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
    ran = mounted(alone, "-q", "-e", "launch", "--duration", 0.5, "--jsonl", "/trace.jsonl", "-p", p.pid)
    assert (ran.status, ran.err) == (0, ""), ran
    t = Trace(alone / "trace.jsonl")
    assert t.calls and t.end["reason"] == "duration" and t.accounts()


def test_make_help():
    """All documented targets, in 100 columns."""
    lines = Ran(["make", "help"]).out.splitlines()
    named = {m[1] for line in lines if (m := re.match("^ +([a-z0-9-]+)  +[a-z]", line))}
    assert {"all", "static", "demo", "check", "bench", "install", "uninstall", "deps", "bpf-arm64"} <= named
    assert len(lines) == len(re.findall("^[a-z][a-z0-9-]*:.*##", pathlib.Path("Makefile").read_text(encoding="utf-8"), re.M))
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.long
def test_arm64():
    """The BPF side compiles, to BPF with BTF."""
    makes("bpf-arm64")
    path = O + "/arm64/cudatrace.bpf.o"
    assert "BPF" in Ran(["readelf", "-hW", path]).out and ".BTF.ext" in Ran(["readelf", "-SW", path]).out


@pytest.mark.long
def test_without_git(tmp_path):
    """The files that git tracks, without git, like a release's archive, with local changes: they build without warnings, and once."""
    tree = "Makefile dist src include bpf inject nvml pm nvtx vmlinux tools tests/fake tests/cases tests/fuzz tests/inject".split()
    listed = Ran(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *tree])
    names = tree if listed.status else [f for f in listed.out.split("\0") if f and os.path.exists(f)]
    subprocess.run(["cp", "-r", "--parents", *names, tmp_path], check=True)
    make = ["env", "-u", "O", f"GIT_CEILING_DIRECTORIES={tmp_path}", "GIT_DIR=/nowhere", "make", "-j2", "OPT=-O0"]
    ran = Ran(make, cwd=tmp_path, timeout=600)
    assert ran.status == 0 and not re.search("warning", ran.out + ran.err, re.I), ran
    assert re.fullmatch(r"cudatrace \d+\.\d+\.\d+\n.*", Ran([tmp_path / "build/cudatrace", "--version"]).out, re.S)
    assert not re.search("^  [A-Z]", Ran(make, cwd=tmp_path, timeout=300).out, re.M)


def test_demo(tmp_path):
    """It prints a summary and where its outputs are; the commands that it proposes work. It writes to the folder above its own."""
    needs_tracing()
    (tmp_path / "tools").mkdir()
    shutil.copy("tools/demo.sh", tmp_path / "tools")
    ran = Ran([tmp_path / "tools/demo.sh"], env={"O": O}, cwd=tmp_path)
    said = ran.err + ran.out
    assert ran.status == 0, ran
    for pattern, count in (("sample: .* [0-9,]+ CUDA calls, 1 failed, complete", 1), ("[A-Z][a-z]+  +traces/demo", 2),
                           ("Trace +traces/demo.jsonl", 1), ("Timeline +traces/demo.json", 1)):
        assert len(re.findall("^" + pattern, said, re.M)) == count, (pattern, said)
    t = Trace(tmp_path / "traces/demo.jsonl")
    assert len(t.calls) > 1000 and t.accounts()
    assert {"kernel", "memory", "transfer", "graph", "stream", "event", "sync", "module"} <= {c["type"] for c in t.calls}
    assert len(chrome(tmp_path / "traces/demo.json")[0]) > 1000
    proposed = re.findall("^  (.*)", said[said.index("\nTry:"):], re.M)
    assert sum("jq" in line for line in proposed) >= 3 and sum("report" in line for line in proposed) == 2
    for line in proposed:
        ran = Ran(["bash", "-c", line], cwd=tmp_path)
        # Only the command of the HTML page prints nothing.
        page = tmp_path / "traces/demo.html"
        assert ran.status == 0 and (ran.out or page.exists() and page.stat().st_size), (line, ran)
        page.unlink(missing_ok=True)


@pytest.mark.skipif(os.geteuid(), reason="needs root to mount")
def test_packages_for_the_tests_python(tmp_path):
    """Another python3 comes first in PATH and has what tests use, except pytest: the distribution's needs all of it."""
    for name, script in (("python3", "case \"$*\" in *pytest*) exit 1 ;; esac"), ("none", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    ran = Ran(["unshare", "-m", "sh", "-c", 'mount --bind "$0/none" "$(realpath /usr/bin/python3)" && PATH=$0:$PATH tools/install-deps.sh -n check', tmp_path],
              env={"XDG_CACHE_HOME": str(tmp_path)})
    assert ran.status == 0 and {"python3-pytest", "python3-yaml", "python3-jsonschema", "python3-pycparser"} <= {*ran.err.split()}, ran
