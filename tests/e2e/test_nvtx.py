# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 25
"""--nvtx: ranges and marks of a program must be the same by uprobes and in the process, with the range of each call. Unknown data is
counted and reported, and another tool still receives its callbacks."""
import collections
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.page import Page
from helpers.run import CC, CUDATRACE, FAKE, INSIDE, O, TESTS, Ran, cudatrace, needs_tracing, until

SOURCES = TESTS + "/nvtx/"
HOW = ["alone", "inject", "uprobe"]
ENV = {"LD_LIBRARY_PATH": FAKE}


# Ten copies in an inner range, ten in the outer one.
LAUNCHES = """
#include "client.h"
#include <string.h>
int main(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	char data[4096] = {0};
	uint64_t p;

	((int (*)(unsigned))dlsym(lib, "cuInit"))(0);
	((int (*)(void **, int))dlsym(lib, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
	((int (*)(void *))dlsym(lib, "cuCtxSetCurrent"))(ctx);
	((int (*)(uint64_t *, size_t))dlsym(lib, "cuMemAlloc_v2"))(&p, 4096);
	nvtxRangePushA("all");
	for (int i = 0; i < 20; i++) {
		if (i == 10)
			nvtxRangePushA("copies");
		((int (*)(uint64_t, void *, size_t, void *))dlsym(lib, "cuMemcpyHtoDAsync_v2"))(p, data, 4096, NULL);
	}
	nvtxRangePop();
	nvtxRangePop();
	((int (*)(void))dlsym(lib, "cuCtxSynchronize"))();
	return 0;
}
"""


@pytest.fixture(scope="module")
def built():
    """The program with the tests' own client; mocks of libnvToolsExt and for another tool."""
    folder = os.environ["TMP"] + "/nvtx"
    os.makedirs(folder + "/asks", exist_ok=True)
    subprocess.run([*CC, "-O1", "-o", folder + "/ranges", SOURCES + "ranges.c", "-ldl", "-lpthread"], check=True)
    subprocess.run([*CC, "-O1", "-fPIC", "-shared", "-Wl,-soname,libnvToolsExt.so.1", "-o", folder + "/libnvToolsExt.so.1", SOURCES + "exports.c"], check=True)
    subprocess.run([*CC, "-O1", "-fPIC", "-shared", "-Wl,-soname,libnvToolsExt.so.1", "-DCLIENT_API=", "-o", folder + "/asks/libnvToolsExt.so.1",
                    "-x", "c", SOURCES + "client.h", "-ldl"], check=True)
    subprocess.run([*CC, "-O1", "-fPIC", "-shared", "-o", folder + "/tool.so", SOURCES + "tool.c"], check=True)
    return folder


class Traced:
    def __init__(self, tmp_path, command, *args, probe="alone", **env):
        if probe != "alone":
            needs_tracing()
        path = tmp_path / "t.jsonl"
        self.path = str(path)
        before = INSIDE if probe == "alone" else []
        self.ran = Ran([*before, CUDATRACE, "-q", "--nvtx", f"--probe={'inject' if probe == 'alone' else probe}", *args, "--jsonl", str(path), "--", *command],
                       env={**ENV, **env})
        assert self.ran.status == 0, self.ran
        self.t = Trace(path)
        assert self.t.accounts(missed=("depth",))
        self.ranges = [e for e in self.t.ev if e["type"] == "range"]
        self.by_text = {e.get("text"): e for e in self.ranges}
        # Calls are identified by the sizes of allocations: see ranges.c.
        self.call = {e["size"] - 1000: e for e in self.t.calls if e["symbol"] == "cuMemAlloc_v2" and "size" in e}

    def count(self, name):
        return self.t.end["nvtx_" + name]

    def plain(self):
        outer, inner, marked, too = (self.by_text[x] for x in ("outer", "inner", "marked", "marked, too"))
        assert [self.call[n].get("range") for n in (1, 2, 3, 4)] == ["outer", "inner", "outer", None]
        assert [self.call[n].get("range_id") for n in (1, 2, 3, 4)] == [outer["id"], inner["id"], outer["id"], None]
        assert inner["parent"] == outer["id"] and "parent" not in outer and inner["level"] == 1 and outer["level"] == 0
        assert marked["parent"] == too["parent"] == inner["id"] and marked["level"] == 2 and "duration_us" not in marked
        assert (inner["category"], inner["color"], inner["payload"]) == ("seven", "0xff8000", str(2**64 - 2))
        assert (marked["category"], marked["payload"]) == ("8", "0.5") and "category" not in outer and "domain" not in outer
        for x in (outer, inner):
            assert x["op"] == "push"
        # The range must enclose its calls and its inner range.
        for x, numbers in ((outer, (1, 2, 3)), (inner, (2,))):
            for n in numbers:
                c = self.call[n]
                assert x["ts"] <= c["ts"] and c["ts"] + c["duration_us"] / 1e3 <= x["ts"] + x["duration_us"] / 1e3 + 1e-6
        return True


def everything(r, unnamed=3):
    """Checks all that program ranges does."""
    assert r.plain()
    reg = [e for e in r.ranges if e.get("domain") == "my.domain"]
    assert [(e["op"], e["text"], e["category"]) for e in reg] == [(op, "registered ☃", "another seven") for op in ("push", "mark")]
    # A domain's range ends inside an open range of another domain.
    default = r.by_text["default"]
    assert default["parent"] == reg[0]["id"] and reg[1]["parent"] == default["id"]
    assert [r.call[n]["range"] for n in (5, 6)] == ["default", "default"]
    first, second = r.by_text["first"], r.by_text["second"]
    assert (first["op"], second["op"], second["parent"], first["lane"], second["lane"]) == ("start", "start", first["id"], 0, 1)
    assert [r.call[n].get("range") for n in (7, 8, 9)] == ["second", None, "second"]
    assert r.call[8]["tid"] != first["tid"] == second["tid"] == r.call[7]["tid"]
    nccl = r.by_text["ncclAllReduce"]
    assert (nccl["domain"], nccl["schema"], nccl["comm_hash"], nccl["size"]) == ("NCCL", "0x1000005", "0xabcdef0123456789", 4096)
    hostile = r.by_text[r.call[11]["range"]]
    assert hostile["text"].startswith('"</script><b>\x01\x7f') and ";\\" in hostile["text"]
    assert "L" * 1023 in r.by_text and r.call[12]["range_id"] == max(e["id"] for e in r.ranges if e["level"] == 4 and "text" not in e)
    assert "range" not in r.call[12]
    deep = [e for e in r.ranges if e.get("text") == "deep"]
    assert len(deep) == 256 and {e["level"] for e in deep} == set(range(256)) and r.count("too_many") == 44
    assert r.call[13]["range"] == "wide, too" and "wide ☃ 😀" in r.by_text
    never = r.by_text["never"]
    assert never["unfinished"] and never["elapsed_us"] > 0 and "duration_us" not in never and r.call[15]["range"] == "never"
    assert (r.count("unfinished"), r.count("unbalanced"), r.count("unnamed"), r.count("marks")) == (1, 2 + 44, unnamed, 3)
    assert r.count("ranges") == sum(e["op"] != "mark" for e in r.ranges)
    assert len({e["id"] for e in r.ranges}) == len(r.ranges)
    return True


@pytest.mark.parametrize("probe", HOW)
def test_all(tmp_path, built, probe):
    r = Traced(tmp_path, [built + "/ranges"], probe=probe)
    assert everything(r)
    if probe == "uprobe":
        assert any("libcudatrace-nvtx.so" in lib.get("path", "") for lib in r.t.lib)


@pytest.mark.parametrize("probe", HOW)
def test_real_headers(tmp_path, built, probe):
    nvcc = shutil.which("nvcc")
    include = os.path.dirname(os.path.dirname(os.path.realpath(nvcc))) + "/include" if nvcc else ""
    if not os.path.exists(include + "/nvtx3/nvToolsExt.h"):
        pytest.skip("no nvtx3/nvToolsExt.h beside nvcc")
    program = str(tmp_path / "real")
    subprocess.run([*CC, "-O1", "-DREAL_NVTX", "-I" + include, "-o", program, SOURCES + "ranges.c", "-ldl", "-lpthread"], check=True)
    assert everything(Traced(tmp_path, [program], probe=probe))


def test_real_exports(tmp_path, built):
    """libnvToolsExt without a tool: handles and ids are 0, so that all domains are one and registered strings are unknown."""
    lib = built + "/libnvToolsExt.so.1"
    r = Traced(tmp_path, [built + "/ranges"], probe="uprobe", NVTX_EXPORTS=lib)
    assert r.plain() and any(e.get("path") == lib for e in r.t.lib)
    assert not [e for e in r.ranges if "domain" in e]
    assert [e["op"] for e in r.ranges if e.get("category") == "another seven"] == ["mark", "push"]
    # There, wide text and the strings behind handles are not read.
    assert "wide, too" not in r.by_text and r.count("unnamed") == 3 + 2 + 2
    assert r.by_text["never"]["unfinished"]


@pytest.mark.parametrize("probe", HOW)
def test_exports_that_request_a_tool(tmp_path, built, probe):
    """CuPy's exports call the tool's function: the two calls must count as one."""
    r = Traced(tmp_path, [built + "/ranges"], probe=probe, NVTX_EXPORTS=built + "/asks/libnvToolsExt.so.1")
    counts = [r.count(name) for name in ("ranges", "marks", "unbalanced", "unfinished", "too_many")]
    assert r.plain() and len(r.ranges) == counts[0] + counts[1]
    direct = Traced(tmp_path, [built + "/ranges"])
    assert counts == [direct.count(name) for name in ("ranges", "marks", "unbalanced", "unfinished", "too_many")]


@contextlib.contextmanager
def waiting(*command, **env):
    """A program that continues after a line on stdin, and must then end well."""
    with subprocess.Popen(command, env={**os.environ, **ENV, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline() == "ready\n"
            yield p
            p.communicate("\n", 60)
            assert p.returncode == 0
        finally:
            p.kill()


def tracer_of(p, path, is_ready, *args):
    tracer = subprocess.Popen([CUDATRACE, "-q", "--jsonl", str(path), "-p", str(p.pid), *args], stderr=subprocess.PIPE, text=True)  # pylint: disable=consider-using-with
    until(lambda: path.exists() and re.search(is_ready, path.read_text()))
    return tracer


def late_ranges(t):
    names = collections.Counter(e.get("text") for e in t.ev if e["type"] == "range")
    assert names == {"outer": 1, "inner": 1, "marked": 1, "marked, too": 1}
    assert {e["size"] - 1000: e.get("range") for e in t.calls if e["symbol"] == "cuMemAlloc_v2"} == {1: "outer", 2: "inner", 3: "outer", 4: None}
    return True


def test_late(tmp_path, built):
    """A program that already runs must be traced by real exports."""
    needs_tracing()
    path = tmp_path / "late.jsonl"
    with waiting(built + "/ranges", "late", NVTX_EXPORTS=built + "/libnvToolsExt.so.1") as p:
        tracer = tracer_of(p, path, r'"type":"library"|"libraries":\[{', "--nvtx")
    assert tracer.wait(60) == 0, tracer.stderr.read()
    assert late_ranges(Trace(path))


@pytest.mark.parametrize("exports", [False, True])
def test_late_in_process(tmp_path, built, exports):
    """With the library in a running program, NVTX of headers has ranges, too: a tracer that ends, one without --nvtx, and one that sees all. Exports
    keep their probes."""
    needs_tracing()
    if platform.machine() != "x86_64":
        pytest.skip("only programs on x86-64 can be entered")
    env = {"NVTX_EXPORTS": built + "/libnvToolsExt.so.1"} if exports else {}
    with waiting(built + "/ranges", "late", **env) as p:
        for n, more in enumerate((["--nvtx"], [], ["--nvtx"])):
            path = tmp_path / f"{n}.jsonl"
            tracer = tracer_of(p, path, r'"id":56\d{13},', "--probe=inject", *more)
            if n < 2:
                tracer.send_signal(signal.SIGTERM)
                assert tracer.wait(60) == 0 and not tracer.stderr.read() and "range" not in {e["type"] for e in Trace(path).ev}
    assert tracer.wait(60) == 0 and not tracer.stderr.read()
    t = Trace(path)
    assert t.accounts() and late_ranges(t) and t.end["nvtx_unbalanced"] == 1  # its own
    assert all(e["id"] >> 48 == 2 for e in t.calls if e["symbol"] == "cuMemAlloc_v2")


@pytest.mark.parametrize("probe", HOW)
def test_before_the_driver(tmp_path, built, probe):
    """A range that begins before libcuda is loaded must be recorded."""
    r = Traced(tmp_path, [built + "/ranges", "early"], probe=probe)
    assert r.call[14]["range"] == "early" and r.count("unnamed") == 0 and r.by_text["early"]["unfinished"]


@pytest.mark.parametrize("probe", HOW)
def test_another_tool(tmp_path, built, probe):
    """A tool already named in NVTX_INJECTION64_PATH must get its calls, with its handles, including those that we do not use."""
    log = tmp_path / "log"
    tool = {"NVTX_INJECTION64_PATH": built + "/tool.so", "TOOL_LOG": str(log)}

    for what in ("plain", "domains", "thread"):
        log.write_text("")
        assert Ran([built + "/ranges", what], env={**ENV, **tool}).status == 0
        want = log.read_text()
        assert want and "whose?" not in want
        log.write_text("")
        r = Traced(tmp_path, [built + "/ranges", what], probe=probe, **tool)
        assert log.read_text() == want
        assert what != "plain" or r.plain()
        assert what != "domains" or [e["text"] for e in r.ranges if e.get("domain") == "my.domain"] == ["registered ☃"] * 2


def test_a_tool_that_is_not_there(tmp_path, built):
    assert Traced(tmp_path, [built + "/ranges"], NVTX_INJECTION64_PATH="/nowhere/tool.so").plain()


@pytest.mark.parametrize("probe", ["alone", "uprobe"])
def test_unreadable(tmp_path, built, probe):
    """A program that passes a wrong pointer, or a wide text without an end, must run as it does without a tool."""
    r = Traced(tmp_path, [built + "/ranges", "unterminated"], probe=probe)
    assert len(r.ranges) == 4 and "open" in r.by_text and list(r.call) == [14]


def test_redacted(tmp_path, built):
    """With --no-strings the trace has no text of the program; with --no-args no numbers either."""
    for option in ("--no-strings", "--no-args"):
        for probe in HOW:
            r = Traced(tmp_path, [built + "/ranges", "plain"], option, probe=probe)
            said = open(r.path, encoding="utf-8").read()
            assert not [x for x in ("outer", "inner", "marked", "seven", '"range":"') if x in said]
            assert r.count("unnamed") == 0 and len(r.ranges) == 4
            a = r.t.calls
            # enclosing ranges: outer, inner, outer, none
            ids = [e.get("range_id") for e in a if e["symbol"] == "cuMemAlloc_v2"]
            assert ids[0] == ids[2] != ids[1] and ids[3] is None and None not in ids[:3]


def test_not_requested(tmp_path, built):
    """Without --nvtx nothing of it may be in the trace, whatever else is traced; -e nvtx must trace ranges only."""
    path = tmp_path / "t.jsonl"
    ran = Ran([*INSIDE, CUDATRACE, "-q", "--all", "--probe=inject", "--jsonl", str(path), "--", "sh", "-c", f'echo "$NVTX_INJECTION64_PATH"; {built}/ranges plain'], env=ENV)
    assert ran.status == 0 and ran.out == "\n"
    t = Trace(path)
    assert not [e for e in t.ev if e["type"] == "range" or "range_id" in e] and "nvtx_calls" not in t.end and "nvtx" not in t.head["not_traced"]
    r = Traced(tmp_path, [built + "/ranges", "plain"], "-e", "nvtx")
    assert len(r.ranges) == 4 and not r.t.calls


def test_min_duration(tmp_path, built):
    """Short ranges must have no lines, but still be in calls."""
    for probe in HOW:
        r = Traced(tmp_path, [built + "/ranges", "plain"], "--min-duration", "1s", probe=probe)
        assert [e["op"] for e in r.ranges] == ["mark", "mark"] and r.count("ranges") == 2


def test_threads_and_processes(tmp_path, built):
    """Ids must be unique in a trace, and calls must have ranges of their own process."""
    two = f"{built}/ranges many 50 & {built}/ranges many 50; wait"
    for probe in HOW:
        r = Traced(tmp_path, ["sh", "-c", two], probe=probe)
        ranges = [e for e in r.ranges if e["op"] == "push"]
        assert len(ranges) == 100 and len({e["id"] for e in ranges}) == 100 and r.count("unbalanced") == 0
        whose = {e["id"]: e for e in ranges}
        calls = [e for e in r.t.calls if e["symbol"] == "cuMemAlloc_v2"]
        assert len(calls) == 100
        for e in calls:
            x = whose[e["range_id"]]
            assert x["pid"] == e["pid"] and x["text"] == e["range"] == f"step {e['size'] - 1000}"


def test_pictures_and_report(tmp_path, built):
    """Chrome, Perfetto, summary, report and page must have rows of ranges, and sums."""
    out = {x: str(tmp_path / ("o." + x)) for x in ("json", "html", "txt", "chrome")}
    r = Traced(tmp_path, [built + "/ranges"], "--chrome", out["chrome"], "--summary", "--json")
    summary = json.loads([line for line in r.ran.err.splitlines() if line.startswith("{")][-1])
    assert cudatrace("report", "--format=json", "-o", out["json"], r.path).status == 0
    with open(out["json"], encoding="utf-8") as f:
        report = json.load(f)
    for form in (summary, report):
        by = {x["text"]: x for x in form["ranges"]["list"]}
        assert by["outer"]["calls"] == 6 and by["inner"]["calls"] == 2 and by["outer"]["count"] == by["inner"]["count"] == 1
        assert by["deep"]["count"] == 256 and by["never"]["unfinished"] == 1 and by["marked"]["marks"] == 1
        assert by["registered ☃"]["domain"] == "my.domain" and by["registered ☃"]["calls"] >= by["default"]["calls"] - 2
        ns = {x["text"]: round(x["total_ns"]) for x in form["ranges"]["list"]}
        assert ns["outer"] == round(r.by_text["outer"]["duration_us"] * 1e3)
    with open(out["chrome"], encoding="utf-8") as f:
        events = json.load(f)
    drawn = [e for e in events if e.get("cat") == "range"]
    rows = {(e["pid"], e["tid"]) for e in drawn}
    assert len(drawn) == len(r.ranges) and not rows & {(e["pid"], e["tid"]) for e in r.t.calls}
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    first = {(e["pid"], e["tid"]): e["args"]["sort_index"] for e in events if e["name"] == "thread_sort_index"}
    assert all(named[row].startswith("NVTX ") and first[row] < 0 for row in rows)
    # In a row, slices are nested or side by side.
    for row in rows:
        stack = []
        for e in sorted((e for e in drawn if (e["pid"], e["tid"]) == row and e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
            while stack and stack[-1] <= e["ts"] + 1e-3:
                stack.pop()
            assert not stack or e["ts"] + e["dur"] <= stack[-1] + 1e-3, e
            stack.append(e["ts"] + e["dur"])
    ran = cudatrace("report", "--full", r.path)
    assert ran.status == 0 and "NVTX ranges: 271, and 3 marks" in ran.out and "1 had not ended" in ran.out and "outer" in ran.out
    assert cudatrace("report", "--format=html", "-o", out["html"], r.path).status == 0
    page = Page(out["html"])
    assert page.report["ranges"]["list"] == report["ranges"]["list"]
    assert cudatrace("report", "--format=chrome", "-o", out["txt"], r.path).status == 0
    with open(out["txt"], encoding="utf-8") as f:
        again = [e for e in json.load(f) if e.get("cat") == "range"]
    assert collections.Counter(e["name"] for e in again) == collections.Counter(e["name"] for e in drawn)


def test_gpu_time_is_of_the_range(tmp_path):
    """The GPU time of a call's executions must count for the call's range."""
    source = tmp_path / "launches.c"
    source.write_text(LAUNCHES)
    program = str(tmp_path / "launches")
    subprocess.run([*CC, "-O1", "-I" + SOURCES, "-o", program, str(source), "-ldl"], check=True)
    r = Traced(tmp_path, [program], "--gpu-time", LD_LIBRARY_PATH=f"{FAKE}:{O}/cupti")
    calls = {e["id"]: e for e in r.t.calls}
    gpu = [e for e in r.t.ev if e["type"] == "gpu"]
    assert len(gpu) == 20 and all(e.get("range_id") == calls[e["call_id"]].get("range_id") for e in gpu)
    out = str(tmp_path / "o.json")
    assert cudatrace("report", "--format=json", "-o", out, r.path).status == 0
    with open(out, encoding="utf-8") as f:
        by = {x["text"]: x for x in json.load(f)["ranges"]["list"]}
    of = collections.defaultdict(float)
    for e in gpu:
        of[calls[e["call_id"]]["range"]] += e["duration_us"] * 1e3
    assert by["copies"]["bytes"] == 10 * 4096 and by["all"]["bytes"] == 20 * 4096 and by["copies"]["gpu_executions"] == 10
    assert by["all"]["gpu_executions"] == 20 and by["all"]["gpu_ns"] == pytest.approx(sum(of.values()), rel=1e-6)
    assert by["copies"]["gpu_ns"] == pytest.approx(of["copies"], rel=1e-6)


def test_library():
    """The library must need at most glibc 2.17, and its functions must have only NVTX's names. Each must begin with an instruction that the
    kernel emulates."""
    lib = O + "/libcudatrace-nvtx.so"
    table = subprocess.run(["objdump", "-T", lib], capture_output=True, text=True, check=True).stdout
    at = {line.split()[-1]: line.split()[0] for line in table.splitlines() if " .text" in line}
    assert len([name for name in at if name.startswith("nvtx")]) == 18 and len(set(at.values())) == len(at)
    assert set(at) - {name for name in at if name.startswith("nvtx")} == {"InitializeInjectionNvtx2"}
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", table)}
    assert versions and max(versions) <= (2, 17)
    if os.uname().machine == "x86_64":
        code = subprocess.run(["objdump", "-d", lib], capture_output=True, text=True, check=True).stdout
        assert re.search(r"<nvtxRangePushA>:\n\s+\w+:\s+90\s+nop", code)
