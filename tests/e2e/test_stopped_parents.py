# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 15
"""A command's process is stopped until a library that it maps is attached. A parent that waits for stopped children must not notice."""
import json
import os
import shutil
import subprocess

import pytest
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, TESTS, Ran, needs_tracing

PARENTS = {"runuser": "exec runuser -u nobody -- {}", "su": "exec su -s /bin/sh nobody -c {}", "script": "exec script -qec {} /dev/null",
           "nsenter": "exec nsenter -p -t $PPID {}", "job control": "exec bash -c 'set -m; {}; exit $?'"}
# These cannot notice it, so that the process is stopped, and every call is traced.
OTHERS = {"sh": "{}; exit $?", "timeout": "exec timeout 30 {}", "python": "exec python3 -c 'import subprocess, sys; sys.exit(subprocess.run([\"{}\"]).returncode)'"}


@pytest.fixture(scope="module")
def program():
    """A program and a library that no tracer knows before they are used; any user can run them."""
    needs_tracing()
    folder = os.environ["TMP"] + "/stopped"
    os.makedirs(folder)
    shutil.copy(f"{FAKE}/libcuda.so.1", folder)
    with open(folder + "/commands", "w", encoding="utf-8") as f:
        f.write(f"open {folder}/libcuda.so.1\ninit\nalloc 20\nexit 5\n")
    os.chmod(os.environ["TMP"], 0o755)
    os.chmod(folder, 0o755)
    return compiled(folder + "/program", TESTS + "/caller.c")


def command(program, line):
    return ["sh", "-c", f"exec <{os.path.dirname(program)}/commands; {line.format(program)}"]


@pytest.mark.parametrize("name", [*PARENTS, *OTHERS])
def test_status_and_output(tmp_path, program, name):
    line = {**PARENTS, **OTHERS}[name]
    untraced = subprocess.run(command(program, line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    if untraced.returncode != 5:
        pytest.skip(f"{name} does not work here: {untraced}")
    for i in range(3):
        path = str(tmp_path / f"{i}.jsonl")
        ran = Ran([CUDATRACE, "-q", "--no-summary", "-e", "memory", "--jsonl", path, "--", *command(program, line)], timeout=60)
        assert (ran.status, ran.out) == (5, untraced.stdout), ran
        with open(path, encoding="utf-8") as f:
            allocs = f.read().count('"cuMemAlloc_v2"')
        complete = json.loads(Ran([CUDATRACE, "report", "--format=json", path]).out)["complete"]
        assert allocs == 20 if name in OTHERS else complete == (allocs == 20), (ran, allocs, complete)
