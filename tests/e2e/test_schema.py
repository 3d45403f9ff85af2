# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""A trace recorded on an H200 (tests/gpu/triton_add.py, driver 580) must match docs/SCHEMA.md, and the jq examples of that page must
work on it. The checker of that page must find errors."""
import collections
import json
import re
import shutil

import pytest
from helpers.run import TESTS, Ran, passes, script

GOLDEN = TESTS + "/golden/h200-triton.jsonl"
CHECKER = TESTS + "/golden/schema_check.py"


class Num(float):
    """Keeps numbers as they were written."""
    __slots__ = ("text",)


def num(text):
    n = Num(text)
    n.text = text
    return n


def enc(v):
    if isinstance(v, Num):
        return v.text
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k) + ":" + enc(x) for k, x in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(enc, v)) + "]"
    return json.dumps(v)


# Changes to the lines l (a list of objects) that the checker must report. The value of raw is written unchanged.
WRONG = {
    'no header': 'l = l[1:]',
    'two headers': 'l.insert(1, header)',
    'no end': 'l = l[:-1]',
    'lines behind the end': 'l.append(alloc)',
    'an empty file': 'raw = "\\n"',
    'half a line': 'raw = open(src).read()[:-30]',
    'a lost line': 'l.remove(alloc)',
    'a wrong count': 'end["events"]["kernel"] = num("28")',
    'wrong calls': 'end["calls"] = num("77")',
    'drops that are not whole': 'del end["drops"]["tasks"]',
    'a busiest second of nobody': 'end["max_thread_overhead"] = num("0.5")',
    'functions that cost more than all': 'end["costs"] = {"cuInit": num("99999.000000")}',
    'a level that saves more than all': 'end["detail_low_saving_ms"] = num("99999.000000")',
    'an unknown schema': 'header["schema"] = num("3")',
    'a wall time without Z': 'header["wall_time"] = header["wall_time"][:-1]',
    'an unknown type': 'alloc["type"] = "memoire"',
    'an unknown op': 'alloc["op"] = "malloc"',
    'an unknown member': 'alloc["colour"] = "red"',
    'a missing member': 'del alloc["comm"]',
    'a member twice': 'raw = open(src).read().replace("\\"op\\":\\"alloc\\"", "\\"op\\":\\"alloc\\",\\"op\\":\\"alloc\\"", 1)',
    'missing args': 'del launch["args"]',
    'a pointer that is a number': 'alloc["ptr"] = num("140000000000")',
    'a pointer in capitals': 'alloc["ptr"] = "0x7F00AB"',
    'a pointer with leading zeros': 'alloc["args"]["dptr"] = "0x00007f00"',
    'a size that is a string': 'alloc["size"] = "4096"',
    'a negative size': 'alloc["size"] = num("-1")',
    'ts in microseconds': 'alloc["ts"] = num("12.345")',
    'a duration without decimals': 'alloc["duration_us"] = num("12")',
    'a failed call without error': 'alloc["result"] = num("2")',
    'an error without failure': 'alloc["error"] = "CUDA_ERROR_INVALID_VALUE"',
    'a result of an unfinished call': 'alloc["unfinished"] = True',
    'false where true or nothing is': 'launch["cooperative"] = False',
    'a grid of two': 'launch["grid"] = launch["grid"][:2]',
    'a grid without a block': 'del launch["block"]',
    'a grid of an allocation': 'alloc["grid"] = launch["grid"]',
    'an unknown direction': 'copy["direction"] = "H2D"',
    'bandwidth of an async copy': 'copy["bandwidth_gbps"] = num("12.5")',
    'the same id twice': 'alloc["id"] = launch["id"]',
    'a fork without a parent': 'del fork["parent_pid"]',
    'an exit without a status': 'del exit_["exit_code"]',
    'a library that nobody named': 'alloc["lib"] = num("7")',
    'NaN': 'raw = open(src).read().replace("901.713", "NaN", 1)',
    'bytes that are no UTF-8': 'raw = open(src).read().replace("python3", "python\\udcff", 1)',
}


def test_keeps_to_the_page():
    passes("golden/schema_check.py", GOLDEN)


@pytest.mark.parametrize("name", WRONG)
def test_notices(tmp_path, name):
    with open(GOLDEN, encoding="utf-8") as f:
        text = f.read()
    lines = [json.loads(s, parse_float=num, parse_int=num) for s in text.splitlines()]
    scope = {
        "l": lines, "num": num, "re": re, "src": GOLDEN, "header": lines[0], "end": lines[-1],
        "launch": next(e for e in lines if e["type"] == "kernel"), "alloc": next(e for e in lines if e["type"] == "memory"),
        "copy": next(e for e in lines if "direction" in e), "fork": next(e for e in lines if e.get("op") == "fork"),
        "exit_": next(e for e in lines if e.get("op") == "exit"),
    }
    exec(WRONG[name], scope)  # pylint: disable=exec-used
    bad = tmp_path / "bad.jsonl"
    raw = scope.get("raw") or "".join(enc(e) + "\n" for e in scope["l"])
    bad.write_bytes(raw.encode("utf-8", "surrogateescape"))
    status, said = script(CHECKER, bad)
    assert status != 0, "it finds nothing wrong"
    assert re.search(rf"^{re.escape(str(bad))}:\d+: .", said, re.M), "does not say where: " + said


def test_cut(tmp_path):
    """A trace without an end must be accepted only with --cut."""
    cut = tmp_path / "cut.jsonl"
    with open(GOLDEN, encoding="utf-8") as f:
        cut.write_text("".join(f.readlines()[:50]), encoding="utf-8")
    assert script(CHECKER, "--cut", cut)[0] == 0 and script(CHECKER, cut)[0] != 0


def test_usage():
    assert script(CHECKER)[0] == 2


# jq's output for the trace: each line with its count, sorted.
ANSWERS = {
    'how many of what': ('3 context 1 end 1 header 9 init 27 kernel 1 library 5 memory 30 module 50 process 2 sync 2 transfer',
        ['-r', '.type']),
    'memory': ('4 alloc 1 alloc_host',
        ['-r', 'select(.type=="memory") | .op']),
    'allocations': ('1 {"ts":2479.751163,"size":20971520} 1 {"ts":3627.290593,"size":2097152} 1 {"ts":3650.351709,"size":20971520} 1 {"ts":3658.973375,"size":2097152}',
        ['-c', 'select(.type=="memory" and .op=="alloc") | {ts, size}']),
    'launches': ('17 cuLaunchKernel 10 cuLaunchKernelEx',
        ['-r', 'select(.type=="kernel" and .op=="launch") | .name']),
    'launches of add_kernel': ('10 {"grid":[1024,1,1],"block":[128,1,1],"shared_mem":0,"stream":"0x0"}',
        ['-c', 'select(.type=="kernel" and .op=="launch" and .kernel=="add_kernel") | {grid, block, shared_mem, stream}']),
    'launches have names': ('27 true',
        ['select(.type=="kernel" and .op=="launch") | (.kernel | length) > 0 and (.func | startswith("0x"))']),
    'times of launches': ('17 number',
        ['-r', 'select(.name=="cuLaunchKernel") | .ts | type']),
    'durations': ('78 ["duration_us","name"]',
        ['-c', 'select(.duration_us) | {name, duration_us} | keys']),
    'calls per function': ('1 4 cuMemAlloc',
        ['-rs', 'map(select(.name=="cuMemAlloc")) | group_by(.name)[] | "\\(length) \\(.[0].name)"']),
    'bytes per direction': ('1 DtoH 1',
        ['-rs', 'map(select(.direction)) | group_by(.direction)[] | "\\(.[0].direction) \\(map(.size) | add)"']),
    'what failed': ('1 cuDevicePrimaryCtxRelease CUDA_ERROR_DEINITIALIZED 8 cuLibraryUnload CUDA_ERROR_DEINITIALIZED',
        ['-r', 'select(.error) | "\\(.name) \\(.error)"']),
    'nothing is unfinished': ('',
        ['-c', 'select(.unfinished==true) | {ts, name, tid}']),
    'nothing is lost': ('1 0',
        ['select(.type=="end") | ([.drops[]] | add) + .bad_records']),
    'the end counts lines': ('1 true',
        ['-s', '.[-1].events == (.[1:-1] | group_by(.type) | map({(.[0].type): length}) | add)']),
}


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not installed")
@pytest.mark.parametrize("question", ANSWERS)
def test_answers(question):
    wanted, args = ANSWERS[question]
    ran = Ran(["jq", *args, GOLDEN])
    seen = collections.Counter((ran.out + ran.err).splitlines())
    assert " ".join(f"{n} {line}" for line, n in sorted(seen.items())) == wanted
