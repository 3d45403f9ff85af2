# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 10
# uses: real-libcuda
"""The dispatch pointers of NVIDIA's own drivers, in all versions that Debian has (tests/inject/slots.c). No GPU is needed to find them
and to call through them."""
import functools
import os
import platform
import re
import shutil
import subprocess

import pytest
from helpers.run import TESTS, Ran

# The branches that docs/INJECT.md documents.
BRANCHES = [470, 525, 535, 550, 555]
UNREACHABLE_MAX = 11
CROSS = "aarch64-linux-gnu"


@functools.cache
def drivers(arch):
    """Files by branch, and the reason if there are none."""
    ran = Ran([os.path.dirname(TESTS) + "/tools/fetch-libcuda.sh"], timeout=300, env={"LIBCUDA_ARCH": arch})
    return {int(line.split(".")[0]): line.split()[1] for line in ran.out.splitlines()}, ran.err.strip()


@functools.cache
def built(arch):
    """The program, and the command that runs it."""
    native = arch == {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine())
    cc, runs = os.environ.get("CC", "gcc").split(), []
    if not native:
        cc, runs = [CROSS + "-gcc"], ["qemu-aarch64", "-L", "/usr/" + CROSS]
        for program in (cc[0], runs[0]):
            if arch != "arm64" or not shutil.which(program):
                pytest.skip(f"{program} is not installed")
    path, top = f"{os.environ['TMP']}/slots-{arch}", os.path.dirname(TESTS)
    subprocess.run([*cc, "-D_GNU_SOURCE=", "-I", top + "/include", "-O1", "-o", path, f"{TESTS}/inject/slots.c",
                    *(f"{top}/inject/{f}" for f in ("hook.c", "maps.c", "pointer.c", "bypass.c", "elf.c", "thunk.S")), "-ldl"], check=True)
    return [*runs, path]


def functions(path):
    said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    # cudbg... belongs to the debugger, and part of it is data
    return re.findall(r" (cu(?!dbg)\w+)(?:@|$)", said, re.M)


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("arch", ["amd64", pytest.param("arm64", marks=pytest.mark.long)])
def test_reachable(arch, branch):
    program, (files, why) = built(arch), drivers(arch)
    if branch not in files:
        pytest.skip(why or "not in the archive")
    names = functions(files[branch])
    ran = subprocess.run([*program, files[branch]], input=" ".join(names), capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran
    seen = re.fullmatch(r"functions (\d+) slots (\d+)\nwithout( .*)?\n", ran.stdout)
    assert int(seen[1]) == len(names) > 500
    assert len(names) - int(seen[2]) <= UNREACHABLE_MAX, seen[3]


@pytest.mark.parametrize("arch", ["amd64", pytest.param("arm64", marks=pytest.mark.long)])
def test_older(arch):
    """Drivers before 470 have no dispatch pointers, and none may be found."""
    program, (files, why) = built(arch), drivers(arch)
    older = [path for branch, path in files.items() if branch < BRANCHES[0]]
    if not older:
        pytest.skip(why or "not in the archive")
    for path in older:
        ran = subprocess.run([*program, path], input=" ".join(functions(path)), capture_output=True, text=True, timeout=60, check=False)
        assert " slots 0\n" in ran.stdout, ran
