# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""The command line without traces: list, help, man page and completion."""
import json
import os
import pathlib
import re
import shutil

import pytest
from helpers.cli import command
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, TESTS, Ran

LIB = FAKE + "/libcuda.so.1"
GOLDEN = "tests/golden/h200-triton.jsonl"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)


def run(line):
    return command("cudatrace " + line)


def symbols(text):
    return [line.split()[0] for line in text.splitlines() if line.startswith(("cu", "nccl"))]


def too_wide(text):
    return [line for line in text.splitlines() if len(line) > 100 and not line.startswith(("LIB ", "No libcuda"))]


def test_list():
    """list must have all rows, in 100 columns, also in JSON, and end quietly when its pipe is closed."""
    ran = run("list")
    names = symbols(ran.out)
    assert (ran.status, ran.err) == (0, "") and not too_wide(ran.out)
    assert int(re.search(r"^(\d+) functions, ", ran.out, re.M)[1]) == len(names) == len(set(names))
    assert len(set(names) & set(pathlib.Path(TESTS + "/unit/libcuda-580-exports.txt").read_text().split())) > 600
    d = json.loads(run("list --json").out)
    assert [x["symbol"] for x in d] == names
    for x in d:
        assert x["name"] and x["class"] and isinstance(x["default"], bool), x
        assert isinstance(x["args"], list) and all(a["name"] and a["type"] and a["direction"] for a in x["args"]), x
        # Queries are off by default. The detail is the first level that has it.
        assert x["default"] == (x["op"] != "query") == (x["detail"] in ("low", "normal")), x
    assert {x["detail"] for x in d} == {"all", "high", "low", "normal"}
    ran = Ran(["sh", "-c", '"$0" list | head -1', CUDATRACE])
    assert ran.out.startswith("SYMBOL") and not ran.err, ran


def test_list_ioctls():
    """All tables of the driver must be there, with numbers that differ between its versions."""
    ran = run("list --ioctls")
    assert (ran.status, ran.err) == (0, "") and not too_wide(ran.out)
    assert "".join(re.findall(r"^[A-Z][A-Z ]*(?::|$)", ran.out,
                              re.M)) == "ESCAPES:CONTROLS:CLASSES:UVM COMMANDS:NVKMS COMMANDS:STATUSESSCHEDULER:XIDS:"
    assert re.search(r"\b55 +55 +55 +55 +56 +56 +- +- +NVKMS_IOCTL_EXPORT_VRR_SEMAPHORE_SURFACE$", ran.out, re.M)
    d = json.loads(run("list --ioctls --json").out)
    flip = next(x["numbers"] for x in d["nvkms"] if x["name"] == "NVKMS_IOCTL_FLIP")
    assert len(d["nvkms"]) == 66 and (flip["550.163.01"], flip["580.142"]) == (14, 15) and len(d["escapes"]) > 40 and len(d["xids"]) > 70


def test_list_selections():
    """--detail and -e select rows; both together take away and add."""
    def rows(line):
        return json.loads(run(f"list {line} --json").out)
    low = [x["symbol"] for x in rows("") if x["detail"] == "low"]
    out = run("list --detail=low").out
    assert symbols(out) == low and re.search(f"^--detail=low +{len(low)}  launches, ", out, re.M)
    d = rows("--detail=low -e '!launch,cuEventRecord'")
    assert len(d) > 100 and not [x for x in d if x["class"] == "launch" or x["symbol"] == "cuEventRecord" or x["detail"] != "low"]
    assert [x["symbol"] for x in rows("--detail=low -e cuEventRecord") if x["symbol"] not in low] == ["cuEventRecord", "cuEventRecord_ptsz"]
    assert len([s for s in low if "cuLaunchKernelEx" in s]) == 2
    d = rows("-e memory")
    assert len(d) > 20 and {x["class"] for x in d} == {"memory"}
    d = [x["symbol"] for x in rows("-e 'cuMemcpy*,!cuMemcpyHtoD*,cuInit'")]
    assert len(d) > 10 and not [s for s in d if s != "cuInit" and (not s.startswith("cuMemcpy") or s.startswith("cuMemcpyHtoD"))]
    # A name means all its versions.
    assert sorted(x["symbol"] for x in rows("-e cuMemAlloc")) == ["cuMemAlloc", "cuMemAlloc_v2"]


def test_list_of_a_library(tmp_path):
    """The exports of the library must be marked, also those without a row."""
    exports = [line.split()[2].split("@")[0] for line in Ran(["nm", "-D", "--defined-only", LIB]).out.splitlines()]
    d = json.loads(run(f"list --json --libcuda {LIB}").out)
    assert sorted(x["symbol"] for x in d if x["exported"]) == sorted(s for s in exports if s.startswith("cu"))
    assert f"\nLIB is {LIB}: it has " in run(f"list --libcuda {LIB}").out
    (tmp_path / "two.c").write_text("int cuInit(int n) { return n; } int cuOfMyOwn(int n) { return n + 1; }\n")
    two = compiled(tmp_path / "two.so", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", tmp_path / "two.c")
    d = json.loads(run(f"list --json --libcuda {two}").out)
    assert [(x["symbol"], x["known"]) for x in d if x["exported"]] == [("cuInit", True), ("cuOfMyOwn", False)]


@pytest.mark.parametrize("one,other", [
    ("-?", "--help"), ("help", "--help"), ("help all", "--help=all"), ("help layers", "--help=layers"), ("help --torch", "help torch"),
    ("help report", "report --help"), ("report --json " + GOLDEN, "report --format=json " + GOLDEN)])
def test_same_output(one, other):
    a, b = run(one), run(other)
    assert (a.status, a.out, a.err) == (0, b.out, b.err) and a.out


@pytest.fixture(scope="module")
def options():
    """All options in the help."""
    return set(re.findall(r"^ .*(--[a-z-]+)", run("--help=all").out, re.M))


def test_help(options):
    """Help must fit, and have all options that users know, all verbs, and the table of commands."""
    assert re.fullmatch(r"cudatrace [0-9]+\.[0-9]+\.[0-9]+[-.0-9a-z]*\n", run("--version").out)
    for verb in ("", "list ", "check "):
        ran = run(verb + "--help")
        assert (ran.status, ran.err) == (0, "") and ran.out and not too_wide(ran.out)
    known = """jsonl chrome perfetto summary quiet trace all duration max-events min-duration libcuda buffer-size user no-follow no-wait
        mechanism pid verbose version help"""
    assert {"--" + o for o in known.split()} <= options
    assert {"list", "check", "report", "diff", "daemon",
            "ctl"} <= set(re.findall("^       cudatrace ([a-z]+) ", run("--help=all").out, re.M))
    d = json.loads(run("help which --json").out)
    assert len(d) > 15
    for x in d:
        assert x["command"].startswith("cudatrace ") and all(x[k] for k in ("question", "cost", "needs_root", "works_with_p")), x
    # Options do not repeat the verb; help of ctl explains each command.
    ran = run("top --help")
    assert ran.status == 0 and " top: " not in ran.out
    assert len(re.findall("^  (?:status|level|burst|dump|dossier|reload) +[a-z]", run("ctl --help").out, re.M)) == 6


@pytest.mark.parametrize("tool", ["mandoc -T lint -W warning", "groff -ww -man -Tutf8 -z"])
def test_man(options, tmp_path, tool):
    """The man page must have all options, and no errors."""
    page = tmp_path / "cudatrace.1"
    page.write_text(run("--man").out)
    assert options <= set(re.findall("--[a-z][a-z-]*", page.read_text().replace("\\-", "-")))
    if not shutil.which(tool.split()[0]) or tool.startswith("groff") and command("groff -man -z /dev/null").status:
        pytest.skip("not installed")
    ran = command(f"{tool} {page}")
    assert ran.out + ran.err == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(options, tmp_path, shell):
    """Completion must have all options, and be valid for the shell."""
    path = tmp_path / "completion"
    path.write_text(run("--completion=" + shell).out)
    assert not [o for o in options if not re.search(rf"(--| -l ){o[2:]}\b", path.read_text())]
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    ran = command(f"{shell} -n {path}")
    assert (ran.status, ran.err) == (0, "")


COMPLETE = 'compopt() { :; }; . "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _cudatrace; printf "%s\\n" "${COMPREPLY[@]}"'
CTL = {"status", "level", "burst", "dump", "dossier", "inject", "reload"}


@pytest.mark.parametrize("typed,offered,among", [
    (["--jso"], {"--json", "--jsonl"}, None), (["-e", "cuMemAllocHo"], {"cuMemAllocHost", "cuMemAllocHost_v2"}, None),
    (["--mechanism", "=", "se"], {"session"}, None), (["list", "--"], {"--trace"}, {"--trace"}), (["ctl", ""], CTL, CTL),
    (["help", "rep"], {"report"}, None), (["help", "lay"], {"layers"}, None),
    (["report", "x.jsonl", "tests/run."], {"tests/run.sh"}, None)])
def test_completed(tmp_path, typed, offered, among):
    """What bash offers for these words; among: no others count."""
    (tmp_path / "completion").write_text(run("--completion=bash").out)
    os.symlink(CUDATRACE, tmp_path / "cudatrace")
    ran = Ran(["bash", "-c", COMPLETE, "bash", tmp_path / "completion", "cudatrace", *typed],
              env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    words = set(ran.out.split())
    assert (words & among if among else words) == offered, ran
