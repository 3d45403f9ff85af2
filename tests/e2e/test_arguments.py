# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 16
"""Arguments of every function of a header, against the bytes that a generated client passed (tests/oracle/arguments.py)."""
import collections
import contextlib
import json
import os
import sys
import tempfile

import pytest
from helpers import pftrace, pypi
from helpers.jsonl import Trace
from helpers.run import CUDATRACE, TESTS, Ran, needs_tracing

pytest.importorskip("pycparser", reason="python3-pycparser is not installed")
sys.path.insert(0, TESTS + "/oracle")
import arguments  # noqa: E402
from test_perfetto import plain  # noqa: E402

FAMILY = {"cuda.h": "all", "nccl.h": "nccl", "cublas_v2.h": "cublas", "cudnn.h": "cudnn", "cuda_runtime_api.h": "cudart"}
# Calls whose rows do not have the header's arguments yet:
NOT_YET = {
    # they have more than 24 arguments;
    "cudnnBatchNormalizationBackwardEx", "cudnnNormalizationBackward",
    # it returns a struct, and its arguments are not traced.
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
    jsonl, chrome, perfetto, log = (str(tmp_path / x) for x in ("t.jsonl", "t.json", "t.pftrace", "log"))
    ran = Ran([CUDATRACE, "-q", f"--probe={probe}", "-e", FAMILY[name], "--jsonl", jsonl, "--chrome", chrome, "--perfetto", perfetto, "--", client, log, str(seed), "1"],
              env={"LD_LIBRARY_PATH": h.folder})
    assert ran.status == 0, ran
    return h, h.log(log), [(x["symbol"], x.get("args", {})) for x in Trace(jsonl).calls], (chrome, perfetto)


def check(tmp_path, name, seed, probe):
    h, logged, traced, (chrome, perfetto) = run(tmp_path, name, seed, probe)
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
    if name in ("cuda.h", "nccl.h"):
        in_perfetto(perfetto, traced)


def in_perfetto(path, traced):
    """Each argument of each call must be in the slice, except null arguments, arguments that a field has, and those that form "launch"."""
    try:
        slices = sorted(pftrace.decoded(path).slices, key=lambda s: s.start)
    except pypi.Missing:
        return  # suite perfetto reports why
    assert len(slices) == len(traced)
    for s, (symbol, args) in zip(slices, traced):
        mine, fields = s.args.get("args", {}), {k: v for k, v in s.args.items() if k != "args"}
        assert mine.keys() <= args.keys(), symbol
        for key, value in args.items():
            if key in mine:
                assert mine[key] == plain(value), (symbol, key)
            elif "launch" not in fields:
                assert plain({key: value}) == {} or value in [fields.get(f) for f in ("size", "ptr", "stream", "event")], (symbol, key, value, fields)


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


def test_unions(tmp_path):
    """A traced union has the member in use and no other, also for enumerators that few calls have."""
    chosen = collections.Counter()
    for seed in (3, 4):
        (tmp_path / str(seed)).mkdir()
        h, logged, traced, _ = run(tmp_path / str(seed), "cuda.h", seed, "uprobe")
        c = arguments.compare(h, logged, traced)
        assert not c.found
        chosen += c.chosen
    assert {name for name, enumerator in chosen if enumerator} == set(arguments.UNIONS)
    # A member that is not in use, no member, and one member too many are errors.
    desc = h.of(h.typedefs["CUDA_RESOURCE_DESC"])
    raw = bytes(desc.size)
    assert c.same(desc, raw, {"resType": "CU_RESOURCE_TYPE_ARRAY", "hArray": "0x0", "flags": 0})
    for wrong in ({"hMipmappedArray": "0x0"}, {}, {"hArray": "0x0", "devPtr": "0x0"}):
        assert not c.same(desc, raw, {"resType": "CU_RESOURCE_TYPE_ARRAY", "flags": 0, **wrong}), wrong


def test_it_finds_what_is_wrong(tmp_path):
    """The comparison must find a wrong byte in an argument, a wrong name, a wrong order and a missing call."""
    h, logged, traced, (_, perfetto) = run(tmp_path, "cuda.h", 1, "uprobe")
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
    with contextlib.suppress(pypi.Missing):
        pftrace.protos()
        other = {**args, "bytesize": 12345}
        with pytest.raises(AssertionError):
            in_perfetto(perfetto, [*traced[:at], (traced[at][0], other), *traced[at + 1:]])
