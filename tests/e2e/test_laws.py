# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Conservation laws (src/util/law.h), which a build with sanitizers checks during a report."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import generate  # noqa: E402

SAN = os.environ.get("O", "build") + "/san/cudatrace"


def broken(path):
    ran = subprocess.run([SAN, "report", "--format=json", str(path)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return [line for line in ran.stderr.splitlines() if "law broken" in line]


@pytest.mark.parametrize("name", ["convolutions", "copies-beside", "full-disk", "graph-loop", "out-of-memory", "after-free", "endless"])
def test_real_traces(name):
    assert not broken(f"{TESTS}/corpus/{name}.jsonl.zst")


@pytest.mark.long
@pytest.mark.parametrize("name", ["dropped", "gpt2-eager", "gpt2-graph", "ranks-4", "train"])
def test_more_real_traces(name):
    assert not broken(f"{TESTS}/corpus/{name}.jsonl.zst")


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_random_traces(tmp_path):
    assert not any(broken(write(tmp_path / "trace.jsonl", generate.trace(seed))) for seed in range(1, 9))


def test_a_broken_law_is_reported(tmp_path):
    """A broken law must be reported: a thread in two waits at once for the whole trace, so that its share of time is 2."""
    lines = [x for x in generate.trace(1) if x["type"] in ("header", "end", "process")]
    wait = {"ts": 0.001, "type": "sync", "op": "sync", "name": "cuCtxSynchronize", "symbol": "cuCtxSynchronize", "pid": 1000, "tid": 1000, "comm": "sim",
            "duration_us": 1e6, "result": 0, "args": {}}
    assert broken(write(tmp_path / "trace.jsonl", [lines[0], {**wait, "id": 1}, {**wait, "id": 2}, *lines[1:]]))
