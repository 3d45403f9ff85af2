# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""examples/ci: its pipelines pass, also with noise in the times, and fail when a change adds a launch per step; cudatrace fake, which runs
them without a GPU."""
import json
import os
import re
import shutil

import pytest
from helpers.run import CUDATRACE, FAKE, INSIDE, TESTS, Ran

EXAMPLE = os.path.dirname(TESTS) + "/examples/ci"
CHANGE = ('    launch(kernels["update"], data)\n', '    launch(kernels["update"], data)\n    launch(kernels["update"], data)\n')


def commands():
    """The lines of both pipelines and of the page that run cudatrace."""
    found = {}
    for name in ".github/workflows/budget.yaml", ".gitlab-ci.yml", "README.md":
        with open(f"{EXAMPLE}/{name}", encoding="utf-8") as f:
            found[name] = re.search(r"^(?: {4}| *- (?:name: .*\n *)?| *run: )?(?:run: )?(cudatrace run .*)$", f.read(), re.M)[1]
    return found


def pipeline(name, tmp_path, change=("", ""), **env):
    """Runs the command of a pipeline in a copy of the example, as a runner would."""
    shutil.copytree(EXAMPLE, tmp_path / "repo", dirs_exist_ok=True)
    program = tmp_path / "repo/train.py"
    text = program.read_text(encoding="utf-8")
    assert change[0] in text
    program.write_text(text.replace(*change), encoding="utf-8")
    (tmp_path / "bin").mkdir(exist_ok=True)
    if not (tmp_path / "bin/cudatrace").exists():
        (tmp_path / "bin/cudatrace").symlink_to(CUDATRACE)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    return Ran([*INSIDE, "sh", "-c", commands()[name]], cwd=tmp_path / "repo", env={"PATH": path, **env})


@pytest.mark.parametrize("name", [".github/workflows/budget.yaml", ".gitlab-ci.yml", "README.md"])
@pytest.mark.parametrize("noise", ["0", "30"])
def test_passes(name, noise, tmp_path):
    passed = pipeline(name, tmp_path, NOISE_MS=noise)
    assert passed.status == 0 and "::error" not in passed.out, passed


def test_fails(tmp_path):
    """With the numbers that the program makes: 20 steps of 7 launches and 2 copies, and one launch more in each."""
    failed = pipeline(".github/workflows/budget.yaml", tmp_path, CHANGE)
    errors = [x for x in failed.out.splitlines() if x.startswith("::error")]
    lines = (tmp_path / "repo/budget.yaml").read_text(encoding="utf-8").splitlines()
    assert failed.status == 3 and len(errors) == 3
    for error, text in zip(errors, (f"launches: {20 * 8}, 20 above the limit of 140", "launches per iteration (max): 8, 1 above the limit of 7",
                                    "calls per iteration (max): 10, 1 above the limit of 9")):
        line = int(re.search(r"file=budget.yaml,line=(\d+)::", error)[1])
        assert error.endswith(text) and lines[line - 1].strip() == f"{text.split()[0].rstrip(':')}: {text.rsplit(' ', 1)[1]}"


def test_gitlab(tmp_path):
    failed = pipeline(".gitlab-ci.yml", tmp_path, CHANGE)
    report = json.loads((tmp_path / "repo/codequality.json").read_text(encoding="utf-8"))
    assert failed.status == 3 and len(report) == 3 and {x["location"]["path"] for x in report} == {"budget.yaml"}


def test_page(tmp_path):
    """The page shows what is printed."""
    failed = pipeline("README.md", tmp_path, CHANGE)
    with open(EXAMPLE + "/README.md", encoding="utf-8") as f:
        shown = re.findall(r"^    (launches.*|calls.*|\d+ of.*)$", f.read(), re.M)
    assert failed.status == 3 and failed.out.splitlines() == shown and len(shown) == 4


def test_fake_counts(tmp_path):
    """The mock driver counts the calls itself; the trace has as many launches."""
    counts = tmp_path / "counts"
    ran = Ran([CUDATRACE, "fake", "--", "python3", EXAMPLE + "/train.py"], env={"FAKE_CUDA_COUNTS": str(counts)})
    found = dict(x.split() for x in counts.read_text(encoding="utf-8").splitlines())
    assert ran.status == 0 and not ran.err and (found["cuLaunchKernel"], found["cuMemcpyHtoD_v2"]) == ("140", "20")


def test_fake_environment():
    """Before the libraries that the user names, which stay; the status is the command's."""
    ran = Ran([CUDATRACE, "fake", "--", "sh", "-c", "echo $LD_LIBRARY_PATH; exit 5"], env={"LD_LIBRARY_PATH": "/a:/b"})
    assert ran.status == 5 and os.path.samefile(ran.out.split(":")[0], FAKE) and ran.out.rstrip().endswith(":/a:/b")


def test_fake_runtime(tmp_path):
    """A program that requests the driver's internal tables, as the CUDA runtime does, gets a reason once."""
    program = tmp_path / "p.py"
    program.write_text("import ctypes\nc = ctypes.CDLL('libcuda.so.1')\np, u = ctypes.c_void_p(1), ctypes.create_string_buffer(16)\n"
                       "print([c.cuGetExportTable(ctypes.byref(p), u) for _ in range(2)], p.value)\n", encoding="utf-8")
    ran = Ran([CUDATRACE, "fake", "--", "python3", program])
    assert ran.out == "[500, 500] None\n" and ran.err.count("cannot run on the mock driver") == 1, ran
    assert Ran(["python3", program], env={"LD_LIBRARY_PATH": FAKE}).err == ""


@pytest.mark.parametrize("args, status, why", [
    ([], 2, "COMMAND is missing"), (["--", "/nonexistent"], 127, "cannot run /nonexistent: No such file"), (["--nvtx", "--", "true"], 2, "--nvtx has no meaning"),
])
def test_fake_wrong(args, status, why):
    ran = Ran([CUDATRACE, "fake", *args])
    assert ran.status == status and why in ran.err and len(ran.err.splitlines()) == 1


def test_fake_not_installed(tmp_path):
    """A copy of the program alone does not find the mock driver, and runs nothing."""
    shutil.copy(CUDATRACE, tmp_path / "cudatrace")
    ran = Ran([tmp_path / "cudatrace", "fake", "--", "touch", tmp_path / "x"])
    assert ran.status == 1 and "make install" in ran.err and not (tmp_path / "x").exists()
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/cudatrace/fake").mkdir(parents=True)
    os.rename(tmp_path / "cudatrace", tmp_path / "bin/cudatrace")
    shutil.copy(FAKE + "/libcuda.so.1", tmp_path / "lib/cudatrace/fake")
    assert Ran([tmp_path / "bin/cudatrace", "fake", "--", "python3", EXAMPLE + "/train.py"]).status == 0
