# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# traces nothing
"""The memory limit of a report, in total and by table, and its counts of rejected rows. Reports of hostile traces
(tests/helpers/hostile_trace.py), read from a pipe, must stay below the limits in docs/LIMITS.md. A process that fills every table must
leave space for a later one (tests/helpers/first_process.py)."""
import gzip
import json
import os
import re
import resource
import subprocess
import sys

import pytest
from helpers.live import kilobytes
from helpers.page import Page
from helpers.run import CUDATRACE, TESTS, Ran, cudatrace

LIMIT_KB = 1000000
FIRST = [sys.executable, TESTS + "/helpers/first_process.py"]


def rejected(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f).get("rejected", {})


def hostile(*args):
    return [sys.executable, TESTS + "/helpers/hostile_trace.py", *map(str, args)]


@pytest.mark.long
@pytest.mark.parametrize("form,rounds,name_length,tables", [
    ("json", 150000, 200, {"texts", "traces", "processes", "threads", "kernels", "streams", "events", "graphs", "devices", "driver_commands", "flame"}),
    ("html", 30000, 9000, None)])
def test_burden(tmp_path, form, rounds, name_length, tables):
    """The report must be complete, use less than LIMIT_KB, and count the rejected rows of each table."""
    out = tmp_path / "burden"
    with subprocess.Popen(hostile(rounds, name_length), stdout=subprocess.PIPE) as made:
        status, kb = kilobytes(CUDATRACE, "report", "-q", f"--format={form}", "-o", out, "-", stdin=made.stdout)
    print(f"{form}, {rounds} rounds, names of {name_length}: {kb} kB, {out.stat().st_size} bytes")
    assert status == 0 and kb < LIMIT_KB
    if tables:
        assert tables <= rejected(out).keys()


def test_side_by_side(tmp_path):
    """Forty parallel traces with lines of maximal length do not all fit at once. Rejected lines must be counted, and no other event may be
    lost."""
    paths, out = [tmp_path / f"{i}.gz" for i in range(40)], tmp_path / "wide.json"
    members = ",".join(f'"a{i}":"\\u0041{"x" * 180}"' for i in range(64000))
    lines = "".join('{"ts":1,"type":"sync","op":"sync","name":"cuCtxSynchronize","symbol":"cuCtxSynchronize","pid":1,"tid":1,"comm":"c",'
                    f'"id":{i},"duration_us":1,"result":0,"args":{{}},{more}}}\n' for i, more in enumerate((members, '"a":1')))
    lines = gzip.compress((lines + '{"ts":2,"type":"end","name":"cudatrace","reason":"done"}\n').encode(), 1)
    for i, path in enumerate(paths):
        head = f'{{"ts":0,"type":"header","name":"cudatrace","schema":2,"clock_base_ns":{1000 + i},"boot_id":"x","host":"h"}}\n'
        path.write_bytes(gzip.compress(head.encode()) + lines)
    status, kb = kilobytes(CUDATRACE, "report", "-q", "--format=json", "-o", out, *paths)
    said = json.loads(out.read_text())
    print(f"{kb} kB")
    assert status == 0 and kb < LIMIT_KB
    assert "none" not in [t["clock"] for t in said["traces"]] and len(said["traces"]) == 40
    assert all(f["events"] + f["bad_lines"] == 2 and f["events"] for f in said["files"])
    assert said["overview"]["calls"] == sum(f["events"] for f in said["files"])


def test_burden_diff(tmp_path):
    """Functions and kernels of such a trace must still be compared."""
    path = tmp_path / "a.jsonl"
    with open(path, "wb") as f:
        subprocess.run(hostile(5000, 100), stdout=f, check=True)
    ran = cudatrace("diff", "--json", path, path)
    found = json.loads(ran.out)
    # Rejected rows may differ.
    assert ran.status == 3 and "devices" in found["rejected"] and found["changed"] == 0


@pytest.mark.parametrize("processes", [1, 700])
def test_many_names_diff(tmp_path, processes):
    """The traces share the limit of names. A kernel that is rejected in only one of them must not count as changed, and both must have
    their end lines."""
    path = tmp_path / "names.jsonl"
    with open(path, "w", encoding="ascii") as f:
        f.write('{"ts":0,"type":"header","name":"cudatrace","schema":2,"clock_base_ns":1000,"boot_id":"x","host":"h"}\n')
        for i in range(300000):
            pid = 1 + i % processes
            f.write(f'{{"ts":{i},"type":"kernel","op":"launch","name":"cuLaunchKernel","symbol":"cuLaunchKernel","pid":{pid},"tid":{pid},"comm":"c{i % 900}",'
                    f'"id":{i},"duration_us":5,"result":0,"stream":"{i % 200000:#x}","kernel":"k{i:0100}","args":{{}}}}\n')
        f.write('{"ts":300000,"type":"end","name":"cudatrace","reason":"done"}\n')
    ran = cudatrace("diff", "--json", path, path)
    found = json.loads(ran.out)
    assert ran.status == 3 and found["verdict"] == "unknown" and found["changed"] == 0
    assert not {lost["id"] for lost in found["lost"]} & {"end", "unknown_lines"}
    assert any(k["count_before"] != k["count_after"] for k in found["kernels"]), "the limit was not reached: more kernels are needed"


@pytest.fixture(scope="module")
def first():
    """Two traces: process 2 after process 1, and process 2 alone."""
    folder = os.environ["TMP"]
    with open(folder + "/both.jsonl", "wb") as f:
        subprocess.run([*FIRST, "70000"], stdout=f, check=True)
    with open(folder + "/both.jsonl", encoding="utf-8") as both, open(folder + "/alone.jsonl", "w", encoding="utf-8") as alone:
        alone.writelines(line for line in both if '"pid":1,' not in line)
    yield folder
    os.unlink(folder + "/both.jsonl")


TABLES = {"texts", "stacks", "functions", "threads", "segments", "kernels", "kernel_handles", "streams", "edges", "events", "graphs", "captures", "allocations",
          "pools", "devices", "waits", "calls", "driver_commands", "flame", "errors"}


@pytest.mark.parametrize("form,rows", [pytest.param("json", "--same", marks=pytest.mark.long), ("html", "--page")])
def test_behind(first, tmp_path, form, rows):
    """After process 1, process 2 must have the same rows, lanes and events as in a report of its own; process 1's losses are counted."""
    for name in "alone", "both":
        ran = cudatrace("report", "-q", "--top", 1000, f"--format={form}", "-o", tmp_path / name, f"{first}/{name}.jsonl", timeout=300)
        assert ran.status == 0, ran
    ran = Ran([*FIRST, rows, str(tmp_path / "alone"), str(tmp_path / "both")], timeout=300)
    assert ran.status == 0, ran.out
    lost = Page(tmp_path / "both").report["rejected"] if form == "html" else rejected(tmp_path / "both")
    assert TABLES <= lost.keys()


@pytest.mark.long
def test_behind_diff(first):
    """diff must find the same kernels of process 2."""
    ran = cudatrace("diff", "--json", first + "/both.jsonl", first + "/alone.jsonl", timeout=300)
    assert '"name":"small_first","changed":false,"count_before":50,"count_after":50' in ran.out


def test_no_memory(tmp_path):
    """Wherever memory runs out, a report must be complete except for rows that it counts, or end with an error."""
    path, statuses = tmp_path / "processes.jsonl", set()
    with open(path, "w", encoding="ascii") as f:
        f.write('{"ts":0,"type":"header","name":"cudatrace","schema":2,"clock_base_ns":1000,"boot_id":"x","host":"h"}\n')
        for i in range(1, 10001):
            f.write(f'{{"ts":{i},"type":"memory","op":"alloc","name":"cuMemAlloc","symbol":"cuMemAlloc_v2","pid":{i},"tid":{i},"comm":"c",'
                    f'"id":{i},"duration_us":1,"result":0,"ptr":"{i << 12:#x}","size":4096,"args":{{}}}}\n')
        f.write('{"ts":10001,"type":"end","name":"cudatrace","reason":"x"}\n')
    for mb in [*range(44, 84, 5), 400]:
        ran = cudatrace("report", "-q", "--format=json", path, preexec_fn=lambda size=mb << 20: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        statuses.add(ran.status)
        assert ran.status in (0, 1), f"{mb} MiB: {ran}"
        if ran.status:
            assert ran.err and all(line.startswith("cudatrace: ") for line in ran.err.splitlines()), f"{mb} MiB: {ran}"
        else:
            found = json.loads(ran.out)
            assert found["overview"]["calls"] == 10000 or found.get("rejected") or found["files"][0]["bad_lines"], f"{mb} MiB"
    assert statuses == {0, 1}, "other limits are needed"


def test_pools(tmp_path):
    """A program that makes more pools than the limit of 4,096 for one program must have the rest counted."""
    path = tmp_path / "pools.jsonl"
    lines = ['{"ts":0,"type":"header","name":"cudatrace","schema":2}']
    for i in range(1, 5001):
        lines.append('{"ts":%d,"type":"memory","op":"create","name":"cuMemPoolCreate","symbol":"cuMemPoolCreate","pid":1,"tid":1,"comm":"x","id":%d,'
                     '"duration_us":1,"result":0,"args":{"pool":"0x%x","poolProps":{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":0}}}}' % (i, i, i << 12))
    path.write_text("\n".join(lines) + '\n{"ts":6000,"type":"end","name":"cudatrace","reason":"x"}\n')
    assert json.loads(cudatrace("report", "-q", "--format=json", path).out)["rejected"] == {"pools": 904}
    text = cudatrace("report", "--full", "-q", path).out
    assert re.search(r"^INCOMPLETE(.*\n)+?  904 memory pools: the report reached its limit", text, re.M)
    # Below the limit nothing is rejected.
    path.write_text("\n".join(lines[:4000]) + "\n")
    assert "rejected" not in json.loads(cudatrace("report", "-q", "--format=json", path).out)
    assert "memory pools: the report" not in cudatrace("report", "--full", "-q", path).out


def test_ranges(tmp_path):
    """A process with more names of ranges, and more work in ranges that never end, than its limits must leave both to a later process."""
    path = tmp_path / "ranges.jsonl"
    lines = ['{"ts":0,"type":"header","name":"cudatrace","schema":2}']

    def add(form, pid, *fields):
        lines.append(('{"ts":%d,"type":' + form + '}') % (len(lines), pid, pid, *fields))
    call = '"sync","op":"sync","name":"cuCtxSynchronize","symbol":"cuCtxSynchronize","pid":%d,"tid":%d,"comm":"c","id":%d,"duration_us":1,"result":0,"range_id":%d,"args":{}'
    push = '"range","op":"push","name":"push","pid":%d,"tid":%d,"comm":"c","duration_us":1,"id":%d,"level":0,"text":"%s"'
    for i in range(1, 16384 + 101):
        add(push, 1, i, f"name {i}")
    for i in range(1, 65536 + 11):
        add(call, 1, i, 1000000 + i)
    for i in range(100):
        add(call, 2, 100000 + i, 7)
    add(push, 2, 7, "small")
    path.write_text("\n".join(lines) + '\n{"ts":90000,"type":"end","name":"cudatrace","reason":"x"}\n')
    found = json.loads(cudatrace("report", "-q", "--top", 40000, "--format=json", path).out)
    small = [r for r in found["ranges"]["list"] if r["text"] == "small"]
    assert [(r["count"], r["calls"]) for r in small] == [(1, 100)], small
    assert found["rejected"]["ranges"] == found["ranges"]["rejected"] == 100 + 10
