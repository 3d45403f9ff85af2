# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 12
"""Arguments of every function of a header, against the bytes that a generated client passed (tests/oracle/arguments.py)."""
import json
import os
import sys
import tempfile

import pytest
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, TESTS, Ran, needs_tracing

pytest.importorskip("pycparser", reason="python3-pycparser is not installed")
sys.path.insert(0, TESTS + "/oracle")
import arguments  # noqa: E402

FAMILY = {"cuda.h": "all", "nccl.h": "nccl", "cublas_v2.h": "cublas", "cudnn.h": "cudnn", "cuda_runtime_api.h": "cudart"}
# Calls whose rows do not have the header's arguments yet.
NOT_YET = {
    # More than 24 arguments.
    "cudnnBatchNormalizationBackwardEx", "cudnnNormalizationBackward",
    # It returns a struct: its arguments are left out.
    "cudaCreateChannelDesc",
}
made = {}


def header(name):
    if not arguments.include_of(name):
        pytest.skip(f"no {name}")
    if name not in made:
        folder = tempfile.mkdtemp(dir=os.environ["TMP"])
        h = arguments.Header(name, folder)
        assert not h.check_sizes()
        made[name] = h, h.build(folder)
    return made[name]


def run(tmp_path, name, seed, probe):
    needs_tracing()
    h, client = header(name)
    jsonl, chrome, log = (str(tmp_path / x) for x in ("t.jsonl", "t.json", "log"))
    ran = Ran([CUDATRACE, "-q", f"--probe={probe}", "-e", FAMILY[name], "--jsonl", jsonl, "--chrome", chrome, "--", client, log, str(seed), "1"],
              env={"LD_LIBRARY_PATH": h.folder})
    assert ran.status == 0, ran
    return h, h.log(log), [(x["symbol"], x.get("args", {})) for x in Trace(jsonl).calls], chrome


def check(tmp_path, name, seed, probe):
    h, logged, traced, chrome = run(tmp_path, name, seed, probe)
    c = arguments.compare(h, logged, traced)
    assert c.compared > len(logged)
    assert not [f for f in c.found if f.split(":")[0] not in NOT_YET]
    if name in ("cuda.h", "nccl.h"):
        assert not c.found and not c.unnamed and not c.untyped and set(c.newer) <= {"ncclTimeout"}
        c.limits.pop("room", None)
        assert c.limits == ({"float": 4} if name == "cuda.h" else {"words": 2})
    with open(chrome, encoding="utf-8") as f:
        slices = sorted((e for e in json.load(f) if e["ph"] == "X" and "args" in e["args"]), key=lambda e: e["ts"])
    assert [e["args"]["args"] for e in slices] == [a for _, a in traced if a]


@pytest.mark.parametrize("name, probe", [
    *((n, "uprobe") for n in FAMILY), *((n, "inject") for n in ("cuda.h", "nccl.h")),
    *(pytest.param(n, "inject", marks=pytest.mark.long) for n in ("cublas_v2.h", "cudnn.h", "cuda_runtime_api.h"))])
def test_arguments(tmp_path, name, probe):
    check(tmp_path, name, 1, probe)


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILY)
def test_many_arguments(tmp_path, name):
    for seed in range(2, 12):
        check(tmp_path, name, seed, "uprobe")


def test_it_finds_what_is_wrong(tmp_path):
    """Another byte in an argument, another name, another order, a call that is missing: each is found."""
    h, logged, traced, _ = run(tmp_path, "cuda.h", 1, "uprobe")
    assert not arguments.compare(h, logged, traced).found
    at = next(i for i, (n, _) in enumerate(logged) if n == "cuMemAlloc_v2")

    def found(args=None, passed=None, calls=None):
        mine, theirs = list(logged), list(calls or traced)
        if args:
            theirs[at] = theirs[at][0], args
        if passed:
            mine[at] = mine[at][0], passed
        return arguments.compare(h, mine, theirs).found
    args, (ptr, size) = traced[at][1], logged[at][1]
    assert found(passed=[ptr, (bytes([size[0][0] ^ 1]) + size[0][1:], None)])
    assert found(args={**args, "bytesize": -1})
    assert found(args={"dptr": args["dptr"], "size": args["bytesize"]})
    assert found(args=dict(reversed(args.items())))
    assert found(args={**args, "bytesize": None})
    assert found(calls=traced[:at] + traced[at + 1:])
