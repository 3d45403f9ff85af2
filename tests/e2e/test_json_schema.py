# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""cudatrace list --schema: every line of a trace must match the JSON Schema, wrong lines must not, and docs/FIELDS.md must list
exactly its fields."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.run import ALL, CASES, CUDATRACE, FAKE, TESTS, cudatrace, needs_tracing

jsonschema = pytest.importorskip("jsonschema", "4.0", reason="python3-jsonschema is not installed")

GOLDEN = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
TOP = os.path.dirname(TESTS)
PAGE = TOP + "/docs/SCHEMA.md"
SCHEMA = json.loads(cudatrace("list", "--schema").out)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def wrong(line):
    """The validator's errors for a line; empty if there are none."""
    return "; ".join(e.message for e in VALIDATOR.iter_errors(line))


def check_file(path):
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert len(lines) > 2
    assert [(n, why) for n, why in enumerate(map(wrong, lines), 1) if why] == []
    return lines


def page():
    with open(PAGE, encoding="utf-8") as f:
        return f.read()


def head(kind, op, **more):
    return {"ts": 1.5, "type": kind, "op": op, "name": op, "pid": 1, "tid": 2, "comm": "c", **more}


# A line of each kind of event, first those without an example in the page.
LINES = {
    "xid": head("xid", "xid", xid=79, gpu="0000:18:00.0", meaning="GPU has fallen off the bus", message="m"),
    "uvm": head("uvm", "migration", ptr="0x10", size=4096, cause="prefetch", **{"from": "CPU", "to": "GPU0"}),
    "irq": head("interrupt", "interrupt", irq=130, cpu=3),
    "ctxsw": head("ctxsw", "slice", duration_us=2047.52, minor=0, gpu="0000:3b:00.0", context=7),
    "call": head("memory", "free", symbol="cuMemFree_v2", id=7, duration_us=1.5, result=0, args={}),
    "driver": head("kernel", "open", duration_us=1.5, device="nvidiactl", result=0),
    "sched": head("scheduler", "timeslice", device="nvidiactl", meaning="m"),
    "gpu": head("gpu", "kernel", duration_us=1.5, device=0, context=1, gpu_stream=7, correlation=3),
    "stalls": head("stalls", "function", duration_us=1e6, device=0, function="0x1", samples=1000, not_issued=750, reason="wait", wait=600, for_shared=5),
    "gpu_device": head("gpu_device", "device", device=0, uuid="GPU-fa4ec0d1-0001-0203-0405-060708090a00", capability=90),
    "range": head("range", "push", duration_us=1.5, id=1, level=0),
    "torch_op": {**head("operator", "forward"), "name": "aten::addmm", "duration_us": 9.5, "min_duration_us": 8.5, "id": 1, "seq": 4},
    "allocator": head("allocator", "alloc", size=512, ptr="0x10", device="cuda:0", allocated=512, reserved=2097152),
    "process": head("process", "exit", exit_code=0),
    "job": head("job", "rank", global_rank=3),
    "library": head("library", "failed", path=None, build_id=None, note="n"),
    "network": head("network", "sample", device="mlx5_0", port=1, link="InfiniBand", state="ACTIVE", rate_gbit=400, tx=1000),
    "gpu_stats": head("gpu_stats", "sample", gpu=0, util=50, power_w=1.5, clock_reasons="0x4"),
    "gpu_metrics": head("gpu_metrics", "sample", duration_us=1000.0, gpu=0, sm_active=50.5, dram_read=1000, cost_us=1.5),
    "tracer": head("tracer", "lost", events=3, why="w"),
    "stack_line": head("stack", "stack", id=1, frames=[{"ip": "0x1"}]),
}


def test_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(LINES) == set(SCHEMA["$defs"]) - {"header", "end"}


def test_list_wants_one_table():
    assert cudatrace("list", "--schema", "-e", "cuInit").status == 2


@pytest.mark.parametrize("path", GOLDEN, ids=os.path.basename)
def test_golden(path):
    check_file(path)


@pytest.mark.parametrize("kind", LINES)
def test_kind(kind):
    assert wrong(LINES[kind]) == ""


def test_examples_of_the_page():
    lines = [json.loads(line) for block in re.findall(r"^```json\n(.*?)^```$", page(), re.S | re.M) for line in block.splitlines()]
    assert len(lines) > 8
    assert [(line["name"], wrong(line)) for line in lines if wrong(line)] == []


def test_fresh_trace(tmp_path):
    needs_tracing()
    ran = cudatrace("-q", "-e", ALL, "--stack", "--count", "query", "--jsonl", tmp_path / "t.jsonl", "--", CASES + "/memory",
                    env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    lines = check_file(tmp_path / "t.jsonl")
    assert {"header", "memory", "process", "stack", "end"} <= {line["type"] for line in lines}


# Changes to a line of LINES: its kind, and the new members.
REFUSED = {
    "an unknown type": ("irq", {"type": "irq"}),
    "no type": ("irq", {"type": ...}),
    "an unknown op": ("process", {"op": "born"}),
    "an unknown op of a call": ("call", {"op": "malloc"}),
    "a missing member": ("irq", {"cpu": ...}),
    "a call without its id": ("call", {"id": ...}),
    "a system call without its device": ("driver", {"device": ...}),
    "no time": ("uvm", {"ts": ...}),
    "a number that is a string": ("xid", {"xid": "79"}),
    "a negative count": ("irq", {"cpu": -1}),
    "a fraction": ("irq", {"cpu": 1.5}),
    "an address that is a number": ("uvm", {"ptr": 16}),
    "an address in capitals": ("uvm", {"ptr": "0xAB"}),
    "null where there is always something": ("tracer", {"why": None}),
    "false where true or nothing is": ("call", {"capturing": False}),
    "a processor of another name": ("uvm", {"to": "gpu0"}),
    "a grid of two": ("call", {"grid": [1, 1]}),
    "a member of another kind": ("irq", {"xid": 79}),
    "a member that nobody knows": ("call", {"colour": "red"}),
    "a frame without its address": ("stack_line", {"frames": [{"module": "/m"}]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name):
    kind, changes = REFUSED[name]
    line = {**LINES[kind], **changes}
    assert wrong({k: v for k, v in line.items() if v is not ...}) != ""


@pytest.mark.parametrize("which", [0, -1], ids=["header", "end"])
def test_refuses_in_header_and_end(which):
    with open(GOLDEN[0], encoding="utf-8") as f:
        line = json.loads(f.readlines()[which])
    assert wrong(line) == ""
    for name in SCHEMA["$defs"][line["type"]]["required"]:
        assert wrong({k: v for k, v in line.items() if k != name}) != "", name
    assert wrong({**line, "not_traced": 1}) != ""


def test_tables_are_up_to_date():
    """docs/FIELDS.md must have the rows that the writers of lines use."""
    tables = [sys.executable, TOP + "/tools/doc-tables.py", "--check", CUDATRACE]
    ran = subprocess.run(tables, stdout=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "")


def test_stale_table(tmp_path):
    """A field missing from the page must be reported."""
    os.makedirs(tmp_path / "docs")
    os.makedirs(tmp_path / "tools")
    shutil.copy(TOP + "/tools/doc-tables.py", tmp_path / "tools")
    for folder in "src/util", "src/budget":
        os.makedirs(tmp_path / folder)
        shutil.copy(f"{TOP}/{folder}/limits.def", tmp_path / folder)
    for name in os.listdir(TOP + "/docs"):
        if name.endswith(".md"):
            shutil.copy(f"{TOP}/docs/{name}", tmp_path / "docs")
    fields = tmp_path / "docs/FIELDS.md"
    text = fields.read_text(encoding="utf-8")
    fields.write_text(re.sub("^.*`off_cpu_us`.*\n", "", text, flags=re.M), encoding="utf-8")
    tables = [sys.executable, tmp_path / "tools/doc-tables.py"]
    ran = subprocess.run([*tables, "--check", CUDATRACE], stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1 and ran.stdout.startswith("docs/FIELDS.md differs from ")
    assert subprocess.run([*tables, CUDATRACE], check=False).returncode == 0
    assert fields.read_text(encoding="utf-8") == text
    # The same for a row of limits.def.
    rows = tmp_path / "src/util/limits.def"
    rows.write_text(rows.read_text(encoding="utf-8").replace('"edges", 4096,', '"edges", 5000,'), encoding="utf-8")
    ran = subprocess.run([*tables, "--check", CUDATRACE], stdout=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == 1 and ran.stdout.startswith("docs/LIMITS.md differs from ")
    assert subprocess.run([*tables, CUDATRACE], check=False).returncode == 0
    assert "| `edges` | waits between streams | 5,000 | 10,000 |" in (tmp_path / "docs/LIMITS.md").read_text(encoding="utf-8")


def test_page_has_every_limit():
    """docs/LIMITS.md must have each row of limits.def once, with its name, and no placeholder."""
    with open(TOP + "/src/util/limits.def", encoding="utf-8") as f:
        rows = re.findall(r"^(KERNEL|TRACE|REPORT)_LIMIT\((\w+), (?:\"(\w+)\")?", f.read(), re.M)
    with open(TOP + "/docs/LIMITS.md", encoding="utf-8") as f:
        text = f.read()
    blocks = re.findall(r"<!-- limits of a \w+, made by.*?<!-- end of limits -->", text, re.S)
    trace, report = (re.findall(r"^\| (?!table)(?:`(\w+)`)?", block, re.M) for block in blocks)
    assert trace == [name for kind, _, name in rows if kind != "REPORT"] and report == [name for kind, _, name in rows if kind == "REPORT"]
    assert len(trace) > 20 and len(report) > 20 and "{max}" not in text and "{share}" not in text


def test_page_has_a_section_of_every_kind():
    """docs/SCHEMA.md must have a section for each section of docs/FIELDS.md, with a link."""
    with open(TOP + "/docs/FIELDS.md", encoding="utf-8") as f:
        titles = re.findall(r"^## (.*)$", f.read(), re.M)
    assert len(titles) == len(SCHEMA["$defs"]) + 1
    for title in titles:
        section = re.search(rf"^## {title}\n(.*?)^## ", page(), re.S | re.M)
        assert section and f"(FIELDS.md#{title.lower().replace(' ', '-')})" in section[1], title
