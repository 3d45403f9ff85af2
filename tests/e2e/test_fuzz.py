# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 250
# timeout: 2400
# long
# cpus: 2
"""Every fuzz target runs for a few seconds from its seeds; `make fuzz` runs longer."""
import glob
import os
import re
import subprocess

import pytest
from helpers.run import MAKE_O, TESTS, Ran, building

TARGETS = ["names", *sorted(os.path.basename(path)[len("fuzz_"):-2] for path in glob.glob(TESTS + "/fuzz/fuzz_*.c"))]


@pytest.fixture(scope="module")
def programs():
    probe = subprocess.run([os.environ.get("CLANG", "clang"), "-fsanitize=fuzzer", "-x", "c", "-", "-o", os.environ["TMP"] + "/probe"],
                           check=False,
                           input=b"int LLVMFuzzerTestOneInput(void) { return 0; }", stderr=subprocess.DEVNULL)
    if probe.returncode:
        pytest.skip("this clang has no libFuzzer: install libclang-rt-dev")
    ran = building("-s", "fuzz-build", timeout=1200)
    assert ran.status == 0, ran


@pytest.fixture(scope="module")
def results(programs):
    """The line about each target."""
    said = Ran([TESTS + "/fuzz/run.sh"], timeout=1200, env={"FUZZ_SECONDS": os.environ.get("FUZZ_SECONDS", "6")}).out
    return {name: (word, rest) for word, name, rest in re.findall(r"^(ok|not ok) fuzz (\w+)(.*)", said, re.M)}


@pytest.mark.parametrize("target", TARGETS)
def test_target(results, target):
    """tests/fuzz/run.sh finds no crash and no hang."""
    word, rest = results.get(target, ("no result", ""))
    assert word == "ok", rest


def test_libraries(programs, tmp_path):
    """FUZZ_LIBRARIES replaces the system's libraries when the programs are linked; a folder without libraries is refused."""
    def made(folder):
        ran = Ran(["make", f"O={MAKE_O}", "-n", f"FUZZ_LIBRARIES={folder}", "fuzz-build"])
        return ran.out + ran.err
    (tmp_path / "libraries/fuzzing").mkdir(parents=True)
    subprocess.run(["ar", "rc", tmp_path / "libraries/fuzzing/libyaml.a"], check=True)
    assert re.search(f"start-group.*{tmp_path}/libraries/fuzzing/libyaml.a .*end-group.* -lyaml", made(tmp_path / "libraries"))
    assert "no lib*.a in" in made(tmp_path)
