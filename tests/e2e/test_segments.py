# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 30
"""--max-file: no file may exceed the size, each must be a complete trace, and together they must equal a single file."""
import collections
import glob
import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from helpers import pftrace, pypi
from helpers.run import ALL, CUDATRACE, FAKE, INSIDE, O, Ran, cudatrace, inside, needs_tracing, passes, until

MIB = 1 << 20
SAMPLE = [FAKE + "/sample", "--tokens", "37", "--quiet"]
HEAD = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "clock_base_ns": 10**9, "boot_id": "0" * 36}
END = {"ts": 10**6, "type": "end", "name": "cudatrace", "reason": "duration", "drops": {"calls": 2}, "probe_cost_ns": 1.5, "cost_ms": 3}


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def pieces(first):
    """The files of an output, in order."""
    stem, ending = os.path.splitext(str(first))
    found, n = [str(first)], 1
    while os.path.exists(f"{stem}.{n}{ending}"):
        found.append(f"{stem}.{n}{ending}")
        n += 1
    assert sorted(found) == sorted([str(first), *glob.glob(f"{stem}.[0-9]*{ending}")])
    return found


def sized(first, least=3):
    files = pieces(first)
    assert len(files) >= least and all(os.path.getsize(f) <= MIB for f in files), [(f, os.path.getsize(f)) for f in files]
    # All but the last are full.
    assert all(os.path.getsize(f) > MIB - 16384 for f in files[:-1])
    return files


@pytest.fixture(scope="module")
def saved():
    """Two processes with three threads each, which launch, wait and allocate."""
    path = os.environ["TMP"] + "/saved.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.write(json.dumps(HEAD) + "\n")
        for i in range(17000):
            who = {"pid": 7 + i % 2, "tid": 7 + i % 2 + 10 * (i // 2 % 3), "comm": f"t{i // 2 % 3}", "ts": i * 0.02, "id": i + 1, "duration_us": 5, "result": 0, "args": {}}
            if i % 10 < 7:
                what = {"type": "kernel", "op": "launch", "name": "cuLaunchKernel", "symbol": "cuLaunchKernel", "stream": "0x10", "grid": [1, 2, 3],
                        "block": [4, 5, 6], "shared_mem": 7, "kernel": f"kernel_{i % 3000}"}
            elif i % 10 < 9:
                what = {"type": "sync", "op": "sync", "name": "cuStreamSynchronize", "symbol": "cuStreamSynchronize", "stream": "0x10"}
            else:
                what = {"type": "memory", "op": "alloc", "name": "cuMemAlloc", "symbol": "cuMemAlloc_v2", "ptr": hex(4096 * (i + 1)), "size": 4096}
            f.write(json.dumps({**what, **who}) + "\n")
        f.write(json.dumps(END) + "\n")
    return path


def report(form, to, *traces):
    ran = Ran([CUDATRACE, "report", "-q", f"--format={form}", "-o", str(to), *map(str, traces)])
    assert ran.status == 0 and not ran.err, ran
    return to


def of(events, ph):
    return [e for e in events if e["ph"] == ph]


def test_chrome(tmp_path, saved):
    with open(report("chrome", tmp_path / "whole", saved), encoding="utf-8") as f:
        whole = json.load(f)
    report("chrome", tmp_path / "a.json", "--max-file=1M", saved)
    files = []
    for path in sized(tmp_path / "a.json"):
        with open(path, encoding="utf-8") as f:
            files.append(json.load(f))
    for ph in "X", "C":
        assert [e for f in files for e in of(f, ph)] == of(whole, ph)
    for n, f in enumerate(files):
        assert f[0]["name"] == "trace begins" and f[-1]["name"] == "trace ends" and f[0]["args"].get("segment", 0) == n
        end, calls = f[-1]["args"], of(f, "X")
        assert end["reason"] == ("duration" if n == len(files) - 1 else "max-file") and end["not_written"] == 0
        assert end["calls"] == end["events"] == len(calls)
        assert f[0]["ts"] <= min(e["ts"] for e in calls) + 5.001 and (n == 0) == (f[0]["ts"] == 0)
        # All rows have names, and arrows begin and end at calls.
        names = {(e["name"], e["pid"], e["tid"]) for e in of(f, "M") if "name" in e["args"]}
        assert all(("thread_name", e["pid"], e["tid"]) in names for e in calls)
        assert all(("process_name", e["pid"], e["pid"]) in names for e in calls + of(f, "C"))
        starts = {(e["ts"], e["tid"]) for e in calls}
        assert of(f, "s") and all((e["ts"], e["tid"]) in starts for e in of(f, "s") + of(f, "f"))
    # The missing arrows lead from one file to another.
    arrows = sum(len(of(f, "s")) for f in files)
    assert len(of(whole, "s")) - 8 * len(files) <= arrows <= len(of(whole, "s"))
    assert files[-1][-1]["args"]["drops"]["calls"] == 2 and not any(f[-1]["args"]["drops"]["calls"] for f in files[:-1])


def test_perfetto(tmp_path, saved):
    try:
        whole = pftrace.decoded(report("perfetto", tmp_path / "whole", saved))
    except pypi.Missing as e:
        pytest.skip(str(e))
    report("perfetto", tmp_path / "a.pftrace", "--max-file=1M", saved)
    paths = sized(tmp_path / "a.pftrace", 2)
    files = [pftrace.decoded(p) for p in paths]
    slices = lambda p: [(s.start, s.end, s.pid, s.tid, s.name, s.cat, s.args) for s in p.slices]  # noqa: E731
    assert [s for f in files for s in slices(f)] == slices(whole)
    assert [c for f in files for c in f.counters] == whole.counters
    for n, f in enumerate(files):
        assert f.begins.get("segment", 0) == n and f.ends["reason"] == ("duration" if f is files[-1] else "max-file")
        assert f.cleared == 1 and {s.tid for s in f.slices} == {t for _, t in f.threads} and set(f.processes) == {7, 8}
        assert f.threads == whole.threads and f.processes == whole.processes and f.flows
    # Perfetto itself reads one file alone, and all files joined as one trace.
    with open(tmp_path / "all", "wb") as f:
        for p in paths:
            f.write(pathlib.Path(p).read_bytes())
    for path, calls in (paths[-1], files[-1].slices), (tmp_path / "all", whole.slices):
        try:
            tp = pftrace.Processor(path)
        except pypi.Missing:
            return
        with tp:
            assert not tp.query("select name, value from stats where value != 0 and severity in ('error', 'data_loss')")
            assert sorted(tp.query("select ts, dur, name from slice where dur > 0")) == sorted((s.start, s.end - s.start, s.name) for s in calls)


def test_large_event(tmp_path):
    """An event larger than a file may be must be alone in its file."""
    call = {"type": "kernel", "op": "launch", "name": "cuLaunchKernel", "symbol": "cuLaunchKernel", "pid": 7, "tid": 7, "comm": "c", "duration_us": 1, "result": 0,
            "stream": "0x10", "grid": [1, 2, 3], "block": [4, 5, 6], "shared_mem": 7, "args": {}}
    with open(tmp_path / "t.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps(x) + "\n" for x in [HEAD, *({**call, "ts": i, "id": i + 1, "kernel": "k" * (MIB + 5 if i == 500 else 9)} for i in range(1000)), END])
    report("chrome", tmp_path / "a.json", "--max-file=1M", tmp_path / "t.jsonl")
    found = []
    for path in pieces(tmp_path / "a.json"):
        with open(path, encoding="utf-8") as f:
            found.append([e["ts"] for e in json.load(f) if e["ph"] == "X"])
    assert found == [[i * 1000 for i in range(500)], [500000], [i * 1000 for i in range(501, 1000)]]


def without_files(path):
    with open(path, encoding="utf-8") as f:
        r = json.load(f)
    files = r.pop("files")
    return r, files


@pytest.fixture(scope="module", params=["uprobe", "inject", "gpu-time"])
def traced(request):
    """A trace in several files, and the same in one pipe. With gpu-time, lines of both are pending."""
    if request.param != "inject":
        needs_tracing()
    folder = os.environ["TMP"] + "/" + request.param
    os.mkdir(folder)
    args = ["-q", "-e", ALL, *(["--stack=launch,memory"] if request.param != "inject" else []),
            *(["--gpu-time", "--probe=uprobe"] if request.param == "gpu-time" else []), "--max-file", "1M", "--jsonl", "a.jsonl", "--chrome", "a.json",
            "--perfetto", "a.pftrace", "--jsonl", "-", "--", "sh", "-c", 'exec "$@" >/dev/null', "sh", *SAMPLE]
    ran = (inside if request.param == "inject" else cudatrace)(*args, cwd=folder, env={"LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti"})
    assert ran.status == 0 and not ran.err, ran
    with open(folder + "/whole.jsonl", "w", encoding="utf-8") as f:
        f.write(ran.out)
    return folder


def test_lines(traced):
    """Every line must be there once, and each file complete by itself."""
    whole = lines(traced + "/whole.jsonl")
    files = [lines(p) for p in sized(traced + "/a.jsonl")]
    events = lambda f: [e for e in f[1:-1] if e["type"] != "stack"]  # noqa: E731
    assert [e for f in files for e in events(f)] == events(whole)
    for n, f in enumerate(files):
        head, end = f[0], f[-1]
        assert head["type"] == "header" and end["type"] == "end"
        assert head.pop("segment", 0) == n and {**head, "libraries": 0} == {**whole[0], "libraries": 0}
        calls = [e for e in f if "symbol" in e]
        assert end["events"] == collections.Counter(e["type"] for e in f[1:-1]) and end["calls"] == end["entries"] == len(calls)
        assert all(e["ts"] + e.get("duration_us", 0) / 1000 <= end["ts"] + 1e-3 for e in calls)
        # A stack is defined before its use, in the same file.
        known = set()
        for e in f:
            if e["type"] == "stack":
                known.add(e["id"])
            assert e.get("stack") is None or e["stack"] in known
        if n < len(files) - 1:
            assert end["reason"] == "max-file" and end["cost_ms"] == 0
    assert {k: v for k, v in files[-1][-1].items() if k not in ("events", "calls", "entries")} == \
        {k: v for k, v in whole[-1].items() if k not in ("events", "calls", "entries")}
    assert any(e["type"] == "stack" for e in files[1]) == any(e["type"] == "stack" for e in whole)
    for f in files[:2]:
        assert any("gpu_start" in e for e in f) == ("gpu_time" in whole[0])
    paths = pieces(traced + "/a.jsonl")
    assert {os.stat(p).st_mode & 0o777 for p in paths} == {0o600}
    # docs/SCHEMA.md does not describe all members of GPU lines.
    for path in () if "gpu_time" in whole[0] else (paths[1], paths[-1]):
        passes("golden/schema_check.py", path)


def test_report(tmp_path, traced):
    """The report of the first file must equal that of all files, in any order, and of a pipe."""
    want, _ = without_files(report("json", tmp_path / "whole", traced + "/whole.jsonl"))
    paths = pieces(traced + "/a.jsonl")
    got, files = without_files(report("json", tmp_path / "first", paths[0]))
    assert got == want and [f["path"] for f in files] == paths[:1] and files[0]["lines"] == sum(len(lines(p)) for p in paths)
    got, files = without_files(report("json", tmp_path / "all", *sorted(paths, reverse=True)))
    assert got == want and [f["path"] for f in files] == paths
    with subprocess.Popen(["cat", *paths], stdout=subprocess.PIPE) as cat:
        ran = subprocess.run([CUDATRACE, "report", "-q", "--format=json", "-"], stdin=cat.stdout, capture_output=True, check=True)
    assert not ran.stderr
    got = json.loads(ran.stdout)
    del got["files"]
    assert got == want
    assert cudatrace("diff", paths[0], traced + "/whole.jsonl").status == 0
    a, b = (report("chrome", tmp_path / n, t) for n, t in (("a", paths[0]), ("b", traced + "/whole.jsonl")))
    assert a.read_bytes() == b.read_bytes()


def test_pictures(traced):
    """All outputs of one run must be split, each at its own places."""
    calls = [(e["pid"], e["tid"], e["name"]) for e in lines(traced + "/whole.jsonl") if "symbol" in e]
    found = []
    for path in sized(traced + "/a.json"):
        with open(path, encoding="utf-8") as f:
            found += [e for e in json.load(f) if e["ph"] == "X" and "device" not in e["args"]]
    assert [(e["pid"], e["tid"], e["args"].get("call", e["name"])) for e in found] == calls
    assert len(pieces(traced + "/a.pftrace")) >= 1 and all(os.path.getsize(p) <= MIB for p in pieces(traced + "/a.pftrace"))


def test_packed_moved_missing(tmp_path, traced):
    paths = pieces(traced + "/a.jsonl")
    whole, _ = without_files(report("json", tmp_path / "whole.json", paths[0]))
    for p in paths:
        with open(p, "rb") as f, gzip.open(tmp_path / (os.path.basename(p) + ".gz"), "wb", 1) as to:
            shutil.copyfileobj(f, to)
    first = str(tmp_path / "a.jsonl.gz")
    assert without_files(report("json", tmp_path / "packed.json", first))[0] == whole
    # A leftover file of an earlier trace after the last one must be ignored; in place of the last one, it must not be read.
    last = tmp_path / f"a.{len(paths) - 1}.jsonl.gz"
    shutil.copy(last, tmp_path / f"a.{len(paths)}.jsonl.gz")
    assert without_files(report("json", tmp_path / "packed.json", first))[0] == whole
    old = [{**HEAD, "segment": len(paths) - 1}, {**END, "reason": "duration"}]
    with gzip.open(last, "wt") as f:
        f.writelines(json.dumps(e) + "\n" for e in old)
    for kind in "other", "none", "FIFO":
        if kind == "FIFO":
            os.mkfifo(last)
        ran = cudatrace("report", "--format=json", "-o", tmp_path / "out", first)
        assert ran.status == 0 and f"continues in {last}, which does not exist or belongs to another trace" in ran.err, ran
        assert without_files(tmp_path / "out")[0]["overview"]["complete"] is False
        if last.exists():
            last.unlink()
    # A trace may begin with a later file; the missing earlier files are reported.
    report("json", tmp_path / "out", paths[0], paths[2])
    shutil.copy(paths[0], tmp_path / "b.jsonl")
    shutil.copy(paths[2], tmp_path / "b.2.jsonl")
    ran = cudatrace("report", "--format=json", "-o", tmp_path / "out", tmp_path / "b.jsonl", tmp_path / "b.2.jsonl")
    assert ran.status == 0 and "1 file of this trace before this one is missing" in ran.err, ran


def test_next_cannot_be_opened(tmp_path):
    """If the next file cannot be opened, that must be reported once, and the written files must be complete."""
    os.mkdir(tmp_path / "a.1.jsonl")
    ran = inside("-q", "-e", ALL, "--max-file=1M", "--jsonl", tmp_path / "a.jsonl", "--chrome", tmp_path / "b.json", "--", *SAMPLE, env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 1 and ran.err.count("\n") == 1, ran
    assert f"cannot write {tmp_path}/a.1.jsonl: Is a directory: name a file in it" in ran.err
    f = lines(tmp_path / "a.jsonl")
    assert os.path.getsize(tmp_path / "a.jsonl") <= MIB and f[-1]["write_error"] == "Is a directory" and f[-1]["lines_lost"] > 1000
    # The other output continues.
    sized(tmp_path / "b.json", 2)


def test_opener_is_killed(tmp_path):
    """If the process that opens files is killed, the result must be as if a file could not be opened."""
    args = [*INSIDE, CUDATRACE, "--probe=inject", "-q", "-e", ALL, "--max-file=1M", "--jsonl", "a.jsonl", "--", FAKE + "/sample", "--tokens", "100000", "--quiet"]
    with subprocess.Popen(args, cwd=tmp_path, env={**os.environ, "LD_LIBRARY_PATH": FAKE}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
        until((tmp_path / "a.1.jsonl").exists)
        children = pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text(encoding="utf-8").split()
        comm = {pathlib.Path(f"/proc/{c}/comm").read_text(encoding="utf-8").strip(): int(c) for c in children}
        os.kill(comm["cudatrace-open"], signal.SIGKILL)
        said = p.stderr.readline()
        # The program continues untraced until it is ended.
        os.kill(comm["sample"], signal.SIGKILL)
        assert not p.stderr.read() and p.wait(60) == 128 + signal.SIGKILL
    assert "cannot write a." in said and "cudatrace-open, which opens it, has ended" in said, said
    files = [lines(f) for f in pieces(tmp_path / "a.jsonl")]
    # It may have created a file without handing it over.
    files = files if files[-1] else files[:-1]
    assert [f[-1]["reason"] for f in files[:-1]] == ["max-file"] * (len(files) - 1) and files[-1][-1]["write_error"] == "Broken pipe"


def test_owner(tmp_path):
    """sudo's caller must own all files, in a folder where no other user may write."""
    needs_tracing()
    os.chmod(os.environ["TMP"], 0o755)
    os.chmod(tmp_path, 0o700)
    os.chown(tmp_path, 12345, 12345)
    ran = cudatrace("-q", "-e", ALL, "--max-file=1M", "--jsonl", "a.jsonl", "--user=root", "--", *SAMPLE, cwd=tmp_path,
                    env={"LD_LIBRARY_PATH": FAKE, "SUDO_UID": "12345", "SUDO_GID": "12345"})
    assert ran.status == 0, ran
    assert {os.stat(p).st_uid for p in sized(tmp_path / "a.jsonl")} == {12345}


def test_to_a_pipe(tmp_path):
    """Only files may be split, and a small trace stays one file. The library's own collector must accept the option as usual."""
    ran = inside("-q", "--max-file=1M", "--jsonl", "-", "--jsonl", tmp_path / "a.jsonl", "--chrome", "/dev/stdout", "--", FAKE + "/sample", "--tokens=1", "--quiet",
                 env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0 and '"type":"end"' in ran.out and '"trace ends"' in ran.out, ran
    assert pieces(tmp_path / "a.jsonl") == [str(tmp_path / "a.jsonl")] and "segment" not in lines(tmp_path / "a.jsonl")[0]


@pytest.mark.parametrize("size, said", [("1000K", "smallest is 1M"), ("x", "not a size"), ("99999999999G", "too large"), ("", "not a size")])
def test_bad_size(size, said):
    ran = cudatrace("--max-file", size, "--", "true")
    assert ran.status == 2 and said in ran.err and ran.err.count("\n") == 1, ran
