# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 25
"""cudatrace report: a saved trace must give the same results as the live one. The sample program is traced to JSONL and a Chrome trace
at once; the Chrome trace made from the JSONL must be the live one, byte for byte (test_cases.py checks the same for tests/cases). Also
tests files that are not traces, or incomplete."""
import bz2
import contextlib
import filecmp
import glob
import gzip
import json
import lzma
import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import tarfile
import zipfile

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled, kilobytes
from helpers.run import ALL, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing, passes, until

SAVED = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
GOLDEN = TESTS + "/golden/h200-triton.jsonl"
with open(GOLDEN, "rb") as golden:
    LINES = golden.read().splitlines(keepends=True)
WHOLE = b"".join(LINES)
ENV = {"LD_LIBRARY_PATH": FAKE}


def report(form, *args, **how):
    """The report of traces in this form."""
    ran = cudatrace("report", "-q", f"--format={form}", *args, **how)
    assert ran.status == 0, ran
    return ran.out


def same_counts(path):
    """The report's counts must equal those of the trace's own end."""
    lines = Trace(path).ev
    head, end, r = lines[0], lines[-1], json.loads(report("json", path))
    assert [r["files"][0][k] for k in ("events", "lines", "bad_lines")] == [sum(end["events"].values()), len(lines), 0]
    if "overview" in r:
        o = r["overview"]
        assert (o["calls"], {k: v for k, v in o["events"].items() if v}, o["version"]) == (end["calls"], end["events"], head["version"])


@pytest.mark.parametrize("path", SAVED, ids=os.path.basename)
def test_saved_counts(path):
    """In older traces, the report must count what is there."""
    same_counts(path)


# --- inputs ---

@pytest.fixture(scope="module")
def plain():
    return report("chrome", GOLDEN)


@pytest.mark.parametrize("what", ["gzip", "gzip in two parts", "zstd", "stdin", "a line at a time"])
def test_input(tmp_path, plain, what):
    """Packed traces must be read, whatever their names are."""
    path = tmp_path / "trace.jsonl"
    if what == "stdin":
        with open(GOLDEN, "rb") as f:
            got = subprocess.check_output([CUDATRACE, "report", "--format=chrome", "-"], stdin=f)
    elif what == "a line at a time":
        with subprocess.Popen([CUDATRACE, "report", "--format=chrome", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as p:
            for line in LINES:
                p.stdin.write(line)
            got = p.communicate()[0]
    else:
        if what == "zstd":
            if not shutil.which("zstd"):
                pytest.skip("needs zstd")
            path.write_bytes(subprocess.check_output(["zstd", "-qc", GOLDEN]))
        elif what == "gzip":
            path.write_bytes(gzip.compress(WHOLE))
        else:
            path.write_bytes(gzip.compress(b"".join(LINES[:60])) + gzip.compress(b"".join(LINES[60:])))
        got = report("chrome", path).encode()
    assert got.decode() == plain


def test_several(tmp_path, plain):
    """Several traces in one file come one after another; in several files, each has its own times, side by side."""
    path = tmp_path / "twice.jsonl"
    path.write_bytes(WHOLE + WHOLE)
    # Differs like another run's trace: a copy would be skipped.
    other = tmp_path / "other.jsonl"
    other.write_bytes(WHOLE.replace(b'"type":"header"', b'"type":"header","other":1', 1))
    behind, beside = (sorted(e["ts"] for e in json.loads(report("chrome", *paths)) if e.get("cat") == "kernel") for paths in ([path], [GOLDEN, other]))
    once = sorted(e["ts"] for e in json.loads(plain) if e.get("cat") == "kernel")
    assert beside == sorted(once + once) and once
    assert behind[:len(once)] == once and behind[len(once)] > once[-1] and len(behind) == len(beside)


def test_scale(tmp_path):
    """With as many processes, streams and kernels as calls, quadratic time would be minutes. Measures processor time, because the machine
    may be busy."""
    ev = [json.loads(line) for line in LINES]

    def first(what, *without):
        e = next(e for e in ev if what.items() <= e.items())
        return {k: v for k, v in e.items() if k not in ("args", "parent", "depth", *without)}
    launch = json.dumps({**first({"symbol": "cuLaunchKernel"}), "id": -1, "ts": -2, "pid": -3, "tid": -3, "comm": "-C", "kernel": "-K", "stream": "-S"})
    sync = json.dumps({**first({"op": "sync"}, "stream", "event"), "id": -1, "ts": -2, "pid": -3, "tid": -3, "name": "cuCtxSynchronize", "symbol": "cuCtxSynchronize"})

    def form(text):
        text = text.replace("%", "%%").replace('"-C"', '"c%(i)d"').replace('"-K"', '"k%(k)d"').replace('"-S"', '"0x%(s)x"')
        return re.sub(r": -([123])\b", lambda m: (": %(id)d", ": %(ts).4f", ": %(p)d")[int(m[1]) - 1], text) + "\n"
    launch, sync, path = form(launch), form(sync), tmp_path / "scale.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.write(LINES[0].decode())
        for i in range(200000):
            f.write(launch % {"id": 2 * i + 1, "ts": i / 1000, "p": i + 1, "i": i, "k": i % 50000, "s": 4096 * i + 4096})
            if i % 2:
                f.write(sync % {"id": 2 * i + 2, "ts": i / 1000 + 0.0005, "p": i})
        f.write(LINES[-1].decode())
    ran = Ran(["prlimit", "--cpu=12", CUDATRACE, "report", "-q", "--format=json", path])
    assert ran.status == 0 and len(json.loads(ran.out)["overview"]["processes"]) > 10, ran


# --- files that are not traces, or incomplete ---

def cut(line, last=None):
    """All lines, but from LINE to LAST without their last 40 bytes."""
    return b"".join(b[:-41] + b"\n" if line <= n <= (last or line) else b for n, b in enumerate(LINES, 1))


def in_30(old, new):
    return b"".join(LINES[:29]) + re.sub(old, new, LINES[29], count=1) + b"".join(LINES[30:])


BAD = {
    "empty": (1, "is empty", lambda: b""),
    "numbers": (1, ":1: this is not a line of JSON .*it is not an object", lambda: b"".join(b"%d\n" % i for i in range(1, 100001))),
    "noise": (1, ":1: .*skipped", lambda: b"x" + os.urandom(3000000)),
    "JSON of others": (1, ':1: it has no "ts" and "type"', lambda: b'{"name":"x"}\n'),
    "a Chrome trace": (1, ":1: this is a JSON array, such as a Chrome trace", lambda: b'[{"name":"x","ph":"X"}]\n'),
    "a newer schema": (1, "line 1: the trace has schema 3, .*use a newer cudatrace", lambda: WHOLE.replace(b'"schema":2', b'"schema":3', 1)),
    "an older schema": (1, "line 1: the trace has schema 1, this cudatrace reads 2: record it again", lambda: WHOLE.replace(b'"schema":2', b'"schema":1', 1)),
    "no header": (0, ":1: there is no header", lambda: b"".join(LINES[1:])),
    "no end": (0, "has no end line", lambda: b"".join(LINES[:50])),
    "breaks off": (0, f"t.jsonl:{WHOLE[:20000].count(10) + 1}: the file ends in the middle of this line", lambda: WHOLE[:20000]),
    "a line is cut": (0, ":30: this is not a line of JSON", lambda: cut(30)),
    "many lines are cut": (0, ": 65 more such lines", lambda: cut(30, 99)),
    "unknown types": (0, ":30: an event of a type that this cudatrace does not support", lambda: in_30(b'"type":"[a-z]*"', b'"type":"from the future"')),
    "lines in reverse": (0, "t.jsonl:3: there is no header before this line", lambda: LINES[0] + b"".join(reversed(LINES[1:]))),
    "a NUL": (0, ":30: .*a byte 0", lambda: in_30(b'"type"', b'"ty\0pe"')),
    "deep nesting": (0, ":31: .*nested too deeply|:31: this is no line", lambda: b"".join([*LINES[:30], b"[" * 500000, b"\n", *LINES[30:]])),
    "gzip breaks off": (0, "line [0-9]*: the compressed data ends too early here", lambda: gzip.compress(WHOLE)[:4000]),
    "the end of gzip": (1, ":1: ", lambda: gzip.compress(WHOLE)[3999:]),
    "zstd breaks off": (1, "line [0-9]*: the compressed data ends too early here", lambda: subprocess.check_output(["zstd", "-qc", GOLDEN])[:4000]),
}


def judged(status, says, *args):
    """Checks the status and the messages, of which there are at most 8, and that the rest is reported."""
    ran = cudatrace("report", "--format=json", *args)
    assert ran.status == status and re.search(says, ran.err) and ran.err.count("\n") <= 8, ran
    if status == 0:
        json.loads(ran.out)


@pytest.mark.parametrize("name", BAD)
def test_bad_input(tmp_path, name):
    if name.startswith("zstd") and not shutil.which("zstd"):
        pytest.skip("needs zstd")
    status, says, made = BAD[name]
    path = tmp_path / "t.jsonl"
    path.write_bytes(made())
    judged(status, says, path)


def zipped(path):
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("t.jsonl", WHOLE)


def tarred(path):
    with tarfile.open(path, "w:gz") as t:
        t.add(GOLDEN, "t.jsonl")


def database(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("create table t(a)")
        db.commit()


def made_of_it(form):
    return lambda path: report(form, "-o", path, GOLDEN)


def holds(data):
    return lambda path: path.write_bytes(data)


def packet(n):
    return b"\x0a" + bytes([n]) + b"\x08\x01" + bytes(n - 2)


# Files that are not traces: how to make one, and the expected message.
FOREIGN = {
    "t.jsonl.xz": (holds(lzma.compress(WHOLE)), "packed by xz: run `xz -dk .*t.jsonl.xz`"),
    "t.lzma": (holds(lzma.compress(WHOLE, lzma.FORMAT_ALONE)), "packed by lzma: run `xz --format=lzma"),
    "t.bz2": (holds(bz2.compress(WHOLE)), "packed by bzip2: run `bzip2 -dk"),
    "small.bz2": (holds(bz2.compress(LINES[0], 1)), "packed by bzip2"),
    "t.lz4": (holds(b"\x04\x22\x4d\x18" + bytes(20)), "packed by lz4: run `lz4 -dk"),
    "t.zip": (zipped, "a zip archive: run `unzip"),
    "t.tgz": (tarred, "a tar archive: run `tar xf"),
    "t.7z": (holds(b"7z\xbc\xaf\x27\x1c" + bytes(30)), "packed by 7-Zip"),
    "twice.gz": (holds(gzip.compress(gzip.compress(WHOLE))), "packed by gzip twice"),
    "utf16.jsonl": (holds(WHOLE.decode().encode("utf-16")), "UTF-16 text: run `iconv -f UTF-16 "),
    "utf16be.jsonl": (holds(b"\xfe\xff" + WHOLE.decode().encode("utf-16-be")), "UTF-16 text"),
    "utf16-no-mark.jsonl": (holds(WHOLE.decode().encode("utf-16-le")), "UTF-16 text: run `iconv -f UTF-16LE"),
    "utf32.jsonl": (holds(WHOLE.decode().encode("utf-32")), "UTF-32 text"),
    "t.pftrace": (made_of_it("perfetto"), "a Perfetto trace: open it at ui.perfetto.dev"),
    "packed.pftrace": (holds(gzip.compress(packet(40) + packet(20) * 9)), "a Perfetto trace"),
    "other.perfetto-trace": (holds(packet(90) * 100), "a Perfetto trace"),
    "t.html": (made_of_it("html"), "an HTML page: open it in a browser"),
    "other.htm": (holds(b"\n  <HTML><body>"), "an HTML page"),
    "t.svg": (made_of_it("svg"), "an SVG picture"),
    "t.json": (made_of_it("json"), "a report in JSON: name the trace"),
    "pretty.jsonl": (holds(json.dumps(json.loads(LINES[0]), indent=2).encode()), "over several lines: run `jq -c"),
    "array.json": (holds(b"[\n" + b",\n".join(LINES[:9]) + b"]"), "one JSON array .*: run `jq -c '.\\[]'"),
    "torch.json": (holds(json.dumps({"schemaVersion": 1, "traceEvents": []}, indent=2).encode()), "a Chrome trace, such as torch.profiler writes"),
    "torch1.json": (holds(json.dumps({"schemaVersion": 1, "traceEvents": []}).encode()), "a Chrome trace"),
    "export.sqlite": (database, "an SQLite database"),
    "run.nsys-rep": (holds(b"what it begins with is not published"), "an Nsight Systems report: open it with `nsys stats"),
    "run.ncu-rep": (holds(b"NVR\0" + bytes(90)), "an Nsight Compute report"),
    "old.qdrep": (holds(bytes(range(200))), "an Nsight Systems report"),
    "perf.data": (holds(b"PERFILE2" + bytes(90)), "a perf recording: open it with `perf report"),
    "program": (lambda path: shutil.copy(CUDATRACE, path), "a program or a library: to trace a program: cudatrace -- "),
    "train.sh": (holds(b"#!/bin/sh\n"), "a script"),
    "t.png": (holds(b"\x89PNG\r\n\x1a\n" + bytes(90)), "a PNG picture"),
    "snapshot.pickle": (holds(pickle.dumps({"segments": []}, 4)), "a Python pickle"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign(tmp_path, name):
    """One line must state the kind of the file and the command to use, for each verb that reads traces, and also for stdin."""
    make, says = FOREIGN[name]
    make(tmp_path / name)

    def said(ran, status, what):
        assert ran.status == status and ran.rest().count("\n") == 1 and re.search("cannot read .*: it is .*" + what, ran.err), ran
    said(cudatrace("report", tmp_path / name), 1, says)
    said(cudatrace("report", "--map", tmp_path / name), 1, says)
    said(cudatrace("diff", GOLDEN, tmp_path / name), 2, says)
    # Beside a trace, the trace is reported.
    both = cudatrace("report", "--format=json", GOLDEN, tmp_path / name)
    said(both, 0, says)
    assert json.loads(both.out)["files"][0]["events"]
    # Some are recognized only by their names.
    if "Nsight Systems" not in says:
        said(Ran(["sh", "-c", '"$0" report - <"$1"', CUDATRACE, tmp_path / name]), 1, says.split(":")[0])


def test_not_foreign(tmp_path):
    """Files with such a start must still be read as traces."""
    for i, before in enumerate((b"\n\n", b"\xef\xbb\xbf", b" \t\r\n", bytes(4096) + b"\n", b"\n" * 5000)):
        (tmp_path / f"{i}.jsonl").write_bytes(before + WHOLE)
        ran = cudatrace("report", "--format=json", tmp_path / f"{i}.jsonl")
        assert ran.status == 0 and json.loads(ran.out)["files"][0]["events"], ran
    shutil.copy(GOLDEN, tmp_path / "trace.nsys-rep")
    assert cudatrace("report", tmp_path / "trace.nsys-rep").status == 0


def test_bad_paths(tmp_path):
    judged(1, "cannot read .*nowhere: there is no such file", tmp_path / "nowhere")
    judged(2, "has no traces", tmp_path)
    judged(0, "nowhere: there is no such file", GOLDEN, tmp_path / "nowhere")
    path = shutil.copy(GOLDEN, tmp_path)
    judged(1, "one of the input traces", "-o", path, path)
    # The input is unchanged.
    assert filecmp.cmp(path, GOLDEN, shallow=False)


def test_all_formats_beside_others(tmp_path):
    """--format=all must use separate file names: no existing file may be overwritten, with or without -o."""
    trace = shutil.copy(GOLDEN, tmp_path / "model.jsonl")
    ours = {f"model.report{x}" for x in (".txt", ".json", ".html", ".folded", ".svg", ".pb.gz", ".md", ".chrome.json", ".pftrace", ".tables")}
    theirs = {f"model{x}" for x in ("", ".txt", ".json", ".html", ".folded", ".svg", ".chrome.json", ".pftrace", ".1.jsonl")}
    for name in theirs:
        (tmp_path / name).write_text("theirs\n")
    before = {name: (tmp_path / name).read_text() for name in (*theirs, "model.jsonl")}
    for options in ((), ("-o", tmp_path / "model"), ("-o", tmp_path / "model.json"), ("-o", tmp_path / "model.report.json")):
        ran = cudatrace("report", "--format=all", *options, trace)
        assert ran.status == 0 and {p.name for p in tmp_path.iterdir()} == ours | before.keys(), ran
        assert {name: (tmp_path / name).read_text() for name in before} == before
        for name in ours:
            assert (tmp_path / name).stat().st_size
            shutil.rmtree(tmp_path / name) if name.endswith(".tables") else (tmp_path / name).unlink()


def kept(ran, name=""):
    """Refused, because it would overwrite an input."""
    assert ran.status == 1 and f"{name}it is one of the input traces" in " ".join(ran.err.split()), ran


@pytest.mark.parametrize("form", ["ascii", "json", "html", "chrome", "perfetto", "svg"])
def test_inputs_are_kept(tmp_path, form):
    """No format may be written to an input trace under any name, nor to a file in which that trace continues."""
    first, second, other = (tmp_path / f"t{x}" for x in (".jsonl", ".1.jsonl", ".report.html"))
    # Files like those of --max-file.
    more, end = (json.dumps({**json.loads(LINES[0]), "segment": 1}).encode() + b"\n"), {"ts": 1, "type": "end", "name": "cudatrace", "reason": "max-file"}
    first.write_bytes(b"".join(LINES[:30]) + json.dumps(end).encode() + b"\n")
    second.write_bytes(more + b"".join(LINES[30:]))
    shutil.copy(GOLDEN, other)
    os.symlink("t.jsonl", tmp_path / "link")
    before = [p.read_bytes() for p in (first, second, other)]
    for output in (first, tmp_path / "link", f"{tmp_path}/../{tmp_path.name}/t.jsonl", second):
        kept(cudatrace("report", f"--format={form}", "-o", output, first))
    kept(cudatrace("report", f"--format={form}", "-o", first, other, first))
    kept(cudatrace("report", "--format=all", first, other), "t.report.html: ")
    for line in ('"$0" report --format=$2 -o "$1" - <"$1"', '"$0" report --format=$2 "$1" >>"$1"'):
        kept(Ran(["sh", "-c", line, CUDATRACE, first, form]))
    assert [p.read_bytes() for p in (first, second, other)] == before


def test_a_long_line(tmp_path):
    """A line of 100 MB must be skipped, not stored."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join([*LINES[:30], b"x" * 100000000, b"\n", *LINES[30:]]))
    judged(0, ":31: a line of more than 16 MiB", path)
    status, kb = kilobytes(CUDATRACE, "report", "--format=chrome", path)
    assert status == 0 and kb < 100000


# --- traces made here ---

class Both:
    """A trace, its Chrome trace, its summary."""

    def __init__(self, folder, *args, env=None):
        needs_tracing()
        self.jsonl, self.chrome, self.summary = (f"{folder}/t.{x}" for x in ("jsonl", "json", "err"))
        ran = cudatrace("-q", "-e", ALL, "--summary", "--json", "--jsonl", self.jsonl, "--chrome", self.chrome, *args, env={**ENV, **(env or {})})
        assert ran.status == 0, ran
        with open(self.summary, "w", encoding="utf-8") as f:
            f.write(ran.err)

    def parity(self):
        """The Chrome trace must be the live one, and counts and numbers must agree."""
        assert cudatrace("report", "-q", "--format=chrome", "-o", self.chrome + ".again", self.jsonl).err == ""
        assert filecmp.cmp(self.chrome + ".again", self.chrome, shallow=False)
        same_counts(self.jsonl)
        report("json", "--top", 100000, "-o", self.jsonl + ".report", self.jsonl)
        passes("cases/agree.py", self.jsonl, self.chrome, self.jsonl + ".report", self.summary)


def test_sample(tmp_path):
    t = Both(tmp_path, "--", FAKE + "/sample")
    t.parity()
    # Overhead: the text must have the end line's values.
    end, text = Trace(t.jsonl).end, cudatrace("report", "--full", "-q", t.jsonl).out
    section = text[text.index("\nTracing overhead: "):].split("\n\n")[0]
    assert f'of the busiest second, of thread {end["max_overhead_tid"]}' in " ".join(section.split())
    names = [line.split()[-1] for line in section.splitlines() if line.endswith(tuple(end["costs"]) + ("--detail=low",))]
    assert [n for n in names if n != "--detail=low"] == list(end["costs"])
    assert ("--detail=low" in names) == (end.get("detail_low_saving_ms", 0) > max(end["costs"].values()))


def test_counted(tmp_path):
    Both(tmp_path, "--count", "query,event", "--entry-only", "context", "--", FAKE + "/sample").parity()


def test_filtered(tmp_path):
    same_counts(Both(tmp_path, "--min-duration", 1, "--sched", "--", FAKE + "/sample").jsonl)


def test_kernel(running, tmp_path):
    """Ioctls, scheduler events and mappings, through the mock devices of tests/nvfuse."""
    if os.path.exists("/sys/module/nvidia"):
        pytest.skip("the NVIDIA driver is loaded")
    needs_tracing()
    server, drive = (compiled(tmp_path / name, f"{TESTS}/nvfuse/{name}.c") for name in ("server", "drive"))
    devices, said = tmp_path / "nv", tmp_path / "server.out"
    devices.mkdir()
    with open(said, "wb") as out:
        p = running.start(server, devices, stdout=out, stderr=subprocess.STDOUT)
    until(lambda: p.poll() is not None or "ready" in said.read_text())
    if p.poll() is not None:
        pytest.skip(f"no mock device: {said.read_text().strip()[:100]}")
    t = Both(tmp_path, "--kernel", "--sched", "--", drive, devices, env={"CUDATRACE_TEST_NV_BY_NAME": "1"})
    t.parity()
    assert {"scheduler", "kernel"} <= {e["type"] for e in Trace(t.jsonl).ev}
    p.terminate()
    p.wait()


def test_live(tmp_path):
    """--report FILE must write the same as cudatrace report for the JSONL of the same run."""
    needs_tracing()
    jsonl, live, text = (tmp_path / f"live.{x}" for x in ("jsonl", "json", "txt"))
    ran = cudatrace("-q", "-e", ALL, "--jsonl", jsonl, "--report", live, "--report", text, "--", FAKE + "/sample", env=ENV)
    assert (ran.status, ran.err) == (0, "")
    a, b = json.loads(live.read_text()), json.loads(report("json", jsonl))
    a.pop("files"), b.pop("files")
    assert a == b and text.read_text() == cudatrace("report", "--full", "-q", jsonl).out


def test_live_alone(tmp_path):
    """Without another output, --report must write no other file."""
    needs_tracing()
    ran = cudatrace("-q", "-e", "init", "--report", "-", "--", "true", env=ENV, cwd=tmp_path)
    assert (ran.status, ran.err, os.listdir(tmp_path)) == (0, "", []) and ran.out


def test_picture_of_a_cut_trace(tmp_path):
    """A Chrome trace of a saved trace must be valid JSON, also if the trace was cut off."""
    (tmp_path / "cut.jsonl").write_bytes(b"".join(LINES[:-1]))
    cudatrace("report", "-q", "--format=chrome", "-o", tmp_path / "cut.json", tmp_path / "cut.jsonl")
    last = json.loads((tmp_path / "cut.json").read_text())[-1]
    assert last["args"]["reason"] == "the trace has no end"


def test_impossible_losses(tmp_path):
    """A damaged end line may count any number of lost calls: no share may exceed 100 %."""
    end = json.loads(LINES[-1])
    end["drops"]["calls"] = 2 ** 64 - 1
    (tmp_path / "t.jsonl").write_bytes(b"".join(LINES[:-1]) + json.dumps(end).encode() + b"\n")
    for form in ([], ["--full"]):
        shares = [float(x) for x in re.findall(r"([\d.]+) ?%", cudatrace("report", *form, tmp_path / "t.jsonl").out)]
        assert shares and max(shares) <= 100, (form, max(shares))


# --- values that no tracer writes ---

def changed(tmp_path, **members):
    """A trace of one failed allocation, one product and one collective, with these members in each event."""
    head = json.loads(LINES[0])
    call = {"pid": 1, "tid": 1, "comm": "x", "duration_us": 1, "result": 0, "args": {}}
    events = [
        {"type": "memory", "op": "alloc", "name": "cuMemAlloc", "symbol": "cuMemAlloc_v2", "size": 64, "ptr": "0x1000"},
        {"type": "memory", "op": "alloc", "name": "cuMemAlloc", "symbol": "cuMemAlloc_v2", "size": 64, "result": 2, "error": "CUDA_ERROR_OUT_OF_MEMORY"},
        {"type": "blas", "op": "gemm", "name": "cublasGemmEx", "symbol": "cublasGemmEx", "api": "cublas", "m": 8, "n": 8, "k": 8, "batch": 1,
         "c_type": "CUDA_R_32F", "flops": 1024},
        *({"type": "collective", "op": "all_reduce", "name": "ncclAllReduce", "symbol": "ncclAllReduce", "api": "nccl", "pid": i, "tid": i,
           "bytes": 64, "communicator": "0x1", "rank": i - 1, "nranks": 2, "seq": 1} for i in (1, 2))]
    path = tmp_path / "t.jsonl"
    lines = [head, *({"ts": 1 + i / 10, **call, "id": i, **e, **{k: v for k, v in members.items() if k in e}} for i, e in enumerate(events, 1))]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path


def test_largest_sequence_number(tmp_path):
    """The report of such a trace never ended."""
    path = changed(tmp_path, seq=2**64 - 1)
    ran = Ran(["prlimit", "--cpu=5", CUDATRACE, "report", "-q", "--format=json", path])
    assert ran.status == 0 and json.loads(ran.out)["communication"]["calls"] == 2, ran


def test_names_are_escaped(tmp_path):
    """Names of functions were written into JSON as they were."""
    name = 'f","pid":7,"x":"\n\x1b\\'
    r = json.loads(report("json", changed(tmp_path, name=name, symbol=name)))
    assert name in json.dumps(r, ensure_ascii=False).encode().decode("unicode_escape")
    assert [f["name"] for f in r["overview"]["functions"]] == [name]


def test_type_of_a_product(tmp_path):
    """Five characters of a matrix's type were omitted, also from a shorter one."""
    for c_type, shown in ("CUDA_R_32F", "R_32F"), ("WHATEVER", "WHATEVER"), ("", ""):
        text = cudatrace("report", "-q", "--section=gemms", changed(tmp_path, c_type=c_type)).out
        assert f"8 8 8 {shown} GemmEx" in text, text
