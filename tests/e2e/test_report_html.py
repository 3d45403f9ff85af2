# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# traces nothing
"""The report's HTML page, used in headless Chromium as by a person (tests/html/drive.py): a million events with hostile names, also
merged to fewer; traces with hostile names, stacks, refused commands."""
import json
import os
import re
import subprocess
import sys

import pytest
from helpers.page import Page
from helpers.run import CC, O, TESTS, Ran, cudatrace

sys.path.insert(0, TESTS + "/map")
import make_trace  # noqa: E402 (its folder is none of the path)

GOLDEN, SAMPLE = TESTS + "/golden/h200-triton.jsonl", TESTS + "/html/sample.json"
BAD = '</script><img src=x onerror="window.hacked=1"><!--<script>\x1b[31m\u202egnitteg\u2066'


def lines():
    with open(GOLDEN, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def test_each_class_has_a_colour():
    with open("src/decode/cuda_classes.def", encoding="utf-8") as f:
        types = re.findall(r'^CLASS\([A-Z]*, "[a-z]*", [A-Z]*, "([a-z]*)"', f.read(), re.M)
    with open("src/report/page/html/util.js", encoding="utf-8") as f:
        colours = re.search(r"^const CLASSES.*?^};", f.read(), re.M | re.S)[0]
    assert types and not [t for t in types if not re.search(rf"[{{ \t]{t}: '#", colours)]


def test_each_type_of_number_has_a_format():
    with open("src/report/section_types.def", encoding="utf-8") as f:
        numbers = re.findall(r'^SECTION_TYPE\((\w+), \w+, "(?:integer|number)"', f.read(), re.M)
    with open("src/report/page/html/rows.js", encoding="utf-8") as f:
        formats = re.search(r"^\tSHOW: {.*?^\t},", f.read(), re.M | re.S)[0]
    assert numbers and not [t for t in numbers if not re.search(rf"\b{t}:", formats)]


@pytest.fixture(scope="module")
def pages():
    """pages(NAME): the page's path; the page is made at the first request"""
    folder, made = os.environ["TMP"], {}

    def by_maker(path, *events):
        maker = folder + "/make_page"
        if not os.path.exists(maker):
            subprocess.run([*CC, "-std=gnu11", "-O1", "-D_GNU_SOURCE=", "-Isrc", "-Iinclude", "-Itests", TESTS + "/html/make_page.c", O + "/libct.a", "-lz", "-lseccomp", "-l:libiberty.a",
                            "-l:libstdc++.a", "-lpthread", "-ldl", "-lm", "-o", maker], check=True)
        subprocess.run([maker, SAMPLE, path, *map(str, events)], stdout=subprocess.DEVNULL, check=True)

    def by_report(path, trace):
        ran = cudatrace("-q", "report", "--format=html", "-o", path, trace)
        assert ran.status == 0, ran
    ways = {
        "small": lambda path: by_maker(path, 20000),
        "merged": lambda path: by_maker(path, 300000, 100000),
        "million": lambda path: by_maker(path, 1000000),
        "golden": lambda path: by_report(path, GOLDEN),
        "hostile": lambda path: by_report(path, hostile(folder + "/hostile.jsonl")),
        "map": lambda path: by_report(path, layers(folder + "/layers.jsonl")),
        "stacks": lambda path: by_report(path, with_stacks(folder + "/stacks.jsonl")[0]),
    }

    def get(name):
        if name not in made:
            made[name] = f"{folder}/{name}.html"
            ways[name](made[name])
        return made[name]
    return get


def layers(path):
    """A trace of a model's layers, with frames, libraries and GPU times; a kernel and a function have hostile names."""
    make_trace.make(path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace('"gelu"', json.dumps(BAD)).replace('"MLP.forward"', json.dumps("MLP." + BAD)))
    return path


def hostile(path):
    """A trace with hostile kernel, thread and host names"""
    with open(path, "w", encoding="utf-8") as out:
        for e in lines():
            e.update({k: [BAD] if k == "command" else BAD for k in ("kernel", "comm", "host", "path", "command") if k in e})
            out.write(json.dumps(e) + "\n")
    return path


def with_stacks(path):
    """A trace as by --stack, --kernel and --gpu-stats, with callers and the driver's refusals; names are hostile, too. Also returns calls
    and time of each function and stack depth."""
    app = {"ip": "0x1431", "module": "/opt/app/" + BAD, "offset": "0x1431"}
    frames = {1: [{**app, "symbol": "main+0x81"}],
              2: [{**app, "symbol": "void outer<int, float>(int)+0x61"}, {**app, "symbol": BAD}, {**app, "symbol": "main+0x140"}, app]}
    refused = [("NV_ESC_RM_ALLOC", "nvidiactl", 0, "NV_OK")] * 3 + [("NV_ESC_RM_ALLOC", "nvidiactl", 0, "NV_ERR_NOT_SUPPORTED")] * 2 + [
        ("NV_ESC_RM_ALLOC", "nvidiactl", 0, "0xdead"), ("NV_ESC_RM_ALLOC", "nvidia0", -22, None), ("UVM_" + BAD, "nvidia-uvm", 0, BAD)]
    calls, sums, out = 0, {}, []
    for e in lines():
        if "symbol" in e:
            who = {k: e[k] for k in ("ts", "pid", "tid", "comm")}
            calls += 1
            if calls == 1:
                out += [{**who, "type": "stack", "op": "stack", "name": "stack", "id": i, "frames": f} for i, f in frames.items()]
            if calls == 3:
                out += [{**who, "type": "kernel", "op": "ioctl", "name": name, "duration_us": 2.5, "device": device, "fd": 8, "cmd": "0xc020462b", "escape": name,
                         "status": status, "result": result} for name, device, result, status in refused]
                gpu = {**who, "type": "gpu_stats", "name": "NVML", "gpu": 0, "uuid": "GPU-" + BAD}
                out += [{**gpu, "op": "device", "model": BAD, "memory_total": 1 << 36},
                        {**gpu, "comm": BAD, "op": "process", "memory_used": 1 << 30, "sm_util": 40},
                        {**gpu, "op": "sample", "util": 57, "sm_active": 12.5, "power_w": 345.6, "throttle": BAD},
                        {**gpu, "op": "missing", "why": BAD}]
            if calls % 5:  # some have none
                e["stack"] = 1 + calls % 2
                key = e["name"], 4 if calls % 2 else 1
                count, ns = sums.get(key, (0, 0))
                sums[key] = count + 1, ns + round(e["duration_us"] * 1000)
        out.append(e)
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(e) + "\n" for e in out)
    return path, sums


def test_all_events(pages):
    page = Page(pages("small"))
    m, columns = page.meta, page.columns()
    assert m["events"] == 20000 == sum(lane["events"] for lane in m["lanes"]) and m["merged"] == 0
    # Unpacks the columns.
    assert max(columns[2]) == len(m["whats"]) - 1 and max(columns[3]) == len(m["details"])
    with open(SAMPLE, encoding="utf-8") as f:
        assert page.report == json.load(f)


def test_hostile_names_are_text(pages):
    page = Page(pages("small"))
    assert any("</script><img" in w.get("kernel", "") for w in page.meta["whats"]) and "<img" not in page.text


def test_nonce(pages):
    """Scripts must have the nonce of this file."""
    text = Page(pages("small")).text
    assert re.search(r"script-src .nonce-([0-9a-f]{32})", text) and not re.search(r'<script>|<script nonce="(?![0-9a-f]{32}")', text)


def test_merged(pages):
    """Merged events must be counted; only short ones may be merged."""
    page = Page(pages("merged"))
    m = page.meta
    assert m["events"] <= 100000 and m["events"] + m["merged"] == 300000 == m["events"] + sum(sum(lane.get("cells", [])[1::4]) for lane in m["lanes"])
    assert min(page.columns()[1]) >= m["below_ns"] > 0


@pytest.mark.parametrize("name", ["golden", "hostile"])
def test_of_a_trace(pages, name):
    """A page without --stack and --kernel must have no such sections; hostile names must stay text."""
    page = Page(pages(name))
    assert page.meta["events"] == len([e for e in lines() if e["type"] not in ("header", "end")]) and page.report["overview"]["calls"] > 0
    assert "callers" not in page.meta and page.meta["refused"] == []
    assert "<img" not in page.text and ("window.hacked" in page.text) == (name == "hostile")


def test_python_above_a_call(pages):
    """The page must show the program's three innermost functions, without the module call wrappers."""
    shown = [d["python"] for d in Page(pages("map")).meta["details"] if "python" in d]
    assert ["Attention.forward", "Block.forward", "Model.forward"] in [[f.split(" ")[0] for f in s] for s in shown]
    assert all(len(s) <= 3 and "_call_impl" not in "".join(s) for s in shown)


def test_stacks(pages, tmp_path):
    """Callers must have calls and time of each function and stack, most time first; refused commands come by device and status."""
    page = Page(pages("stacks"))
    m = page.meta
    assert {(x["name"], len(x["stack"])): (x["count"], x["total_ns"]) for x in m["callers"]} == with_stacks(tmp_path / "again")[1]
    assert [x["total_ns"] for x in m["callers"]] == sorted((x["total_ns"] for x in m["callers"]), reverse=True)
    assert sorted((x["device"], x["status"][:20], x["count"]) for x in m["refused"]) == [
        ("nvidia-uvm", "</script><img src=x ", 1), ("nvidia0", "EINVAL", 1), ("nvidiactl", "0xdead", 1), ("nvidiactl", "NV_ERR_NOT_SUPPORTED", 2)]
    (gpu,) = page.report["gpu_stats"]["devices"]
    assert gpu["values"]["sm_active"]["mean"] == 12.5 and gpu["processes"][0]["sm_util"]["max"] == 40
    assert page.report["driver"]["errors"] == 5 and "<img" not in page.text and "window.hacked" in page.text


@pytest.mark.parametrize("name", ["hostile", "stacks", "map", "merged", *(pytest.param(n, marks=pytest.mark.long) for n in ("golden", "million"))])
def test_used(pages, name):
    """All checks of drive.py, which uses the page, must pass: each prints a line `ok`."""
    ran = Ran([sys.executable, TESTS + "/html/drive.py", pages(name)], timeout=300)
    print(ran.out)
    if ran.status == 77:
        pytest.skip(ran.err.strip().split("\n")[-1])
    assert ran.status == 0 and not re.findall("^not ok.*", ran.out, re.M), ran
    assert len(re.findall("^ok ", ran.out, re.M)) > 25
