# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""Losses of a trace must be shown first in every view, with their numbers, and a trace without losses is called complete. The test
counts the expected numbers from the lines."""
import collections
import csv
import gzip
import json
import os
import re
import resource
import signal
import time
import xml.etree.ElementTree as xml

import pytest
from helpers.outputs import DEFAULT, ENDLESS, ENV, SAMPLE
from helpers.page import Page
from helpers.pftrace import Decoded
from helpers.run import CASES, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing, until

HEAD = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0.1.0", "boot_id": "b", "clock_base_ns": 1000, "redacted": None}
DROPS = ("calls", "tasks", "libraries", "threads", "threads_share", "processes", "depth", "driver", "driver_share", "counts", "errors", "ctxsw")
LAYERS = {"gpu_records": ("gpu_dropped", "gpu_lost", "gpu_untimed", "gpu_discarded", "gpu_launches_untimed"),
          "stall_samples": ("stall_unattributed", "stall_dropped", "stall_lost", "stall_refused", "stall_contexts", "stall_stopped", "stall_shared"),
          "python_calls": ("python_early", "python_cut", "python_broken", "python_unread"),
          "nvtx_calls": ("nvtx_too_many",), "torch_calls": ("torch_too_many",)}
TABLES = ("processes", "threads", "kernel_names", "kernel_handles", "memory_ranges", "captures", "communicators", "descriptors", "stacks", "perf_maps",
          "module_paths", "module_symbols", "libraries", "library_keys", "functions", "process_labels", "driver_objects", "iterations", "nvtx", "stalls")


def call(i):
    return {"ts": i, "type": "memory", "op": "alloc", "name": "cuMemAlloc", "symbol": "cuMemAlloc_v2", "pid": 7, "tid": 7, "comm": "x", "id": i + 1,
            "duration_us": 5, "result": 0, "ptr": hex(4096 * (i + 1)), "size": 4096}


def piece(n, calls=10, more=False, **end):
    """The lines of file n of a trace."""
    lines = [call(i) for i in range(n * calls, (n + 1) * calls)]
    return [{**HEAD, **({"segment": n} if n else {})}, *lines,
            {"ts": 1000 * (n + 1), "type": "end", "name": "cudatrace", "reason": "max-file" if more else "command exited", "events": {"memory": calls},
             "calls": calls, "entries": calls, "drops": dict.fromkeys(DROPS, 0), "bad_records": 0, **end}]


def text(lines):
    return "".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in lines)


def put(folder, *files, name="a"):
    """Writes the files of one trace, except those that are None. Returns the written paths."""
    paths = []
    for n, lines in enumerate(files):
        path = folder / (f"{name}.{n}.jsonl" if n else f"{name}.jsonl")
        if lines is not None:
            path.write_text(text(lines), encoding="utf-8")
            paths.append(path)
    return paths


def report(*paths, form="json", option="-q"):
    ran = cudatrace("report", option, f"--format={form}", *paths)
    assert ran.status == 0, ran
    return ran.out


def lost(where):
    assert where["complete"] == (not where["lost"])
    for x in where["lost"]:
        assert x["what"] and x["why"] and x["how_to_avoid"], x
    return {x["id"]: x["count"] for x in where["lost"]}


def views(folder, paths, want):
    """Every view must show losses first, or mention none if there are none."""
    paths = [str(p) for p in paths]
    r = json.loads(report(*paths))
    assert lost(r) == want
    assert list(r)[1:3] == ["complete", "lost"] and r["overview"]["complete"] == (not want)
    marks = [x["incomplete"] for part in ("findings", "answers") for x in r[part] or []]
    assert marks and set(marks) == {bool(want)}
    assert [f["id"] for f in r["findings"]].count("dropped-events") == bool(want) and (not want or r["findings"][0]["id"] == "dropped-events")
    page = folder / "page.html"
    cudatrace("report", "-q", "--format=html", "-o", page, *paths)
    assert lost(Page(page).report) == want
    brief = report(*paths, form="ascii")
    assert brief.startswith("INCOMPLETE: " if want else "Complete: ")
    for x in r["lost"][:1]:
        assert f"{x['what']}" in brief and x["why"] in " ".join(brief.split()) and x["how_to_avoid"] in " ".join(brief.split())
    for option in "--full", "--map":
        shown = report(*paths, form="ascii", option=option)
        assert shown.startswith("\nINCOMPLETE: ") == bool(want), shown[:200]
        for x in r["lost"]:
            assert f"  {x['count']:,} {x['what']}: " in " ".join(("  " + shown).split("\n")), (x, shown[:2000])
    plain = report(*paths, form="ascii", option="--full")
    below = plain[plain.index("\n\n", 1):]
    assert re.search(r"\d %(?!\*)", below) is None if want else "%*" not in below
    assert ("(from an incomplete trace)" in " ".join(plain.split())) == bool(want)
    svg = xml.fromstring(report(*paths, form="svg"))
    assert any("INCOMPLETE" in (t.text or "") for t in svg.iter("{http://www.w3.org/2000/svg}text")) == bool(want)
    assert ("the trace is incomplete, missing: " in cudatrace("report", "--format=flamegraph", *paths).err) == bool(want)
    return r


def diff(old, new, old_lost, new_lost, status):
    ran = cudatrace("diff", "--json", old, new)
    d = json.loads(ran.out)
    assert ran.status == status and d["verdict"] == {0: "same", 1: "different", 3: "unknown"}[status]
    for side, want in ("before", old_lost), ("after", new_lost):
        assert {x["id"]: x["count"] for x in d["lost"] if x["trace"] == side} == want
    assert d["complete"] == (not old_lost and not new_lost)
    shown = cudatrace("diff", old, new)
    assert shown.status == status and ("Nothing changed" in shown.out) == (status == 0)
    assert shown.out.startswith("\nINCOMPLETE: ") == (not d["complete"])


ENDS = {**{f"drops.{d}": ({"drops": {d: 5}}, {d: 5}) for d in DROPS},
        **{f"limits_hit.{t}": ({"limits_hit": {t: 6}}, {f"limits_hit.{t}": 6}) for t in TABLES},
        **{m: ({on: 9, m: 4}, {m: 4}) for on, members in LAYERS.items() for m in members},
        "bad_records": ({"bad_records": 3}, {"bad_records": 3}),
        "objects_refused": ({"objects_refused": 2, "objects_unknown": 1}, {"objects_refused": 2}),
        "write_error": ({"write_error": "No space left on device", "lines_lost": 8, "events": {"memory": 18}}, {"lines": 8}),
        "write_error without a line": ({"write_error": "File too large", "lines_lost": 0}, {"lines": 0}),
        "several": ({"drops": {"calls": 841726, "tasks": 2}, "bad_records": 1}, {"calls": 841726, "tasks": 2, "bad_records": 1})}


@pytest.mark.parametrize("kind", ENDS)
def test_end_line(tmp_path, kind):
    """All losses counted in the end line must be reported."""
    end, want = ENDS[kind]
    (path,) = put(tmp_path, piece(0, **end))
    assert lost(json.loads(report(path))) == want
    (whole,) = put(tmp_path, piece(0), name="whole")
    # The calls are the same, so it is unknown whether anything differs.
    different = bool(end.get("drops"))
    diff(whole, path, {}, want, 1 if different else 3)


# What each output has of the losses: the numbers by kind, or only that there are some. Budgets fail instead.
def timeline(events):
    last = events["trace ends"]
    lost, head = last.get("lost", {}), [args for name, args in events.items() if name.startswith("INCOMPLETE, missing: ")]
    assert last["complete"] == (not lost) and head == ([lost] if lost else [])
    return lost


def folded(out):
    marked = [line.startswith(b"INCOMPLETE, missing: ") for line in out.splitlines()]
    assert marked and all(marked) == any(marked)
    return any(marked)


OUTPUTS = {
    "json": ((), lambda out: lost(json.loads(out))),
    "chrome": ((), lambda out: timeline({e["name"]: e["args"] for e in json.loads(out) if e["ph"] == "i"})),
    "perfetto": ((), lambda out: timeline({i.name: i.args for i in Decoded(out).instants})),
    "csv": (("--section=memory",), lambda out: {r["id"]: int(r["count"]) for r in csv.DictReader((out / "lost.csv").open(encoding="utf-8"))}),
    "ascii": ((), lambda out: out.startswith(b"INCOMPLETE: ")),
    "ascii of a section": (("--section=memory",), lambda out: out.startswith(b"\nINCOMPLETE: ")),
    "markdown": ((), lambda out: b"INCOMPLETE: " in out[:99]),
    "html": ((), lambda out: b"INCOMPLETE" in out or b'"complete":false' in out),
    "flamegraph": ((), folded),
    "flamegraph of the map": (("--map",), folded),
    "svg": ((), lambda out: b"INCOMPLETE, missing: " in out),
    "pprof": ((), lambda out: b"incomplete: the trace lacks " in gzip.decompress(out)),
    **{f"{form} of a budget": (("--budget",), lambda out: b"incomplete" in out) for form in ("ascii", "json", "junit", "markdown", "github", "gitlab")}}
LOSSY = {"complete": {}, "drops": {"drops": {"calls": 5}}, "records": {"bad_records": 3}, "table": {"limits_hit": {"threads": 6}},
         "disk": {"write_error": "No space left on device", "lines_lost": 8, "events": {"memory": 18}}, "cut": None}


@pytest.mark.parametrize("output", OUTPUTS)
def test_outputs(tmp_path, output):
    """Each output must contain that its trace is incomplete, and nothing of the kind for a complete one."""
    options, marks = OUTPUTS[output]
    budget, to = tmp_path / "budget.yaml", tmp_path / "out"
    budget.write_text("limits:\n  - errors: 0\n", encoding="utf-8")
    if options == ("--budget",):
        options = "--budget", budget
    for kind, end in LOSSY.items():
        (path,) = put(tmp_path, piece(0, **(end or {})) if end is not None else piece(0)[:-1], name=kind)
        want = lost(json.loads(report(path)))
        assert bool(want) == (kind != "complete")
        ran = cudatrace("report", "-q", *options, f"--format={output.split()[0]}", "-o", to, path)
        assert ran.status == (3 if want and "--budget" in options else 0), ran
        got = marks(to if to.is_dir() else to.read_bytes())
        assert got == (want if isinstance(got, dict) else bool(want)), (kind, got)


MISSED = {"ts": 3, "type": "library", "op": "failed", "name": "libcuda", "pid": 7, "tid": 7, "comm": "x", "path": "/x/libcuda.so.1", "note": "32-bit program"}
TOLD = {"ts": 3, "type": "tracer", "op": "lost", "name": "ring", "pid": 1, "tid": 1, "comm": "cudatrace", "events": 44, "why": "the ring was full"}
NEWER = {"ts": 3, "type": "of-tomorrow", "op": "x", "name": "x", "pid": 7, "tid": 7, "comm": "x"}


def with_line(line, **end):
    kind = line.get("type", "other") if isinstance(line, dict) else "other"
    lines = piece(0, **{"events": {"memory": 10, kind: 1}, **end})
    return [*lines[:5], line, *lines[5:]]


P = [piece(n, more=n < 3) for n in range(4)]
# The contents of the files (None: missing), and the expected losses by the report's ids.
FILES = {
    "whole": ([piece(0)], {}),
    "all files": (P, {}),
    "no newline at the end": ([[*piece(0)[:-1], json.dumps(piece(0)[-1])]], {}),
    "no end": ([piece(0)[:-1]], {"end": 1}),
    "a torn last line": ([[*piece(0)[:-2], '{"ts":9,"type":"mem']], {"end": 1, "cut_line": 1}),
    "a torn end line": ([[*piece(0)[:-1], '{"ts":1000,"type":"en']], {"end": 1, "cut_line": 1}),
    "no header": ([piece(0)[1:]], {"header": 1}),
    "damaged lines": ([with_line("garbage\n", events={"memory": 11})], {"bad_lines": 1}),
    "a line without its members": ([with_line({"ts": 4}, events={"memory": 11})], {"bad_lines": 1}),
    "NULs in the middle": ([with_line("\0\0\0\n", events={"memory": 11})], {"bad_lines": 1}),
    "lines taken out": ([[*piece(0)[:3], *piece(0)[6:]]], {"missing_lines": 3}),
    "calls without lines": ([[*piece(0)[:-1], {**piece(0)[-1], "calls": 13}]], {"missing_lines": 3}),
    "starts of calls without lines": ([[*piece(0)[:-1], {**piece(0)[-1], "entries": 14}]], {"missing_lines": 4}),
    "lines of another type": ([piece(0, events={"memory": 8, "kernel": 2})], {"missing_lines": 2, "surplus_lines": 2}),
    "calls without lines in a middle file": ([P[0], [*P[1][:-1], {**P[1][-1], "calls": 12}], *P[2:]], {"missing_lines": 2}),
    "lines of a newer version": ([with_line(NEWER)], {"unknown_lines": 1}),
    "a library that was missed": ([with_line(MISSED)], {"failed_libraries": 1}),
    "a library that was written to": ([with_line({**MISSED, "op": "detached", "pid": 0})], {"detached": 1}),
    "a library that was attached": ([with_line({**MISSED, "op": "attached"})], {}),
    "lost lines, and an end": ([with_line(TOLD, drops={"calls": 44})], {"calls": 44}),
    "lost lines without an end": ([with_line(TOLD)[:-1]], {"end": 1, "events": 44}),
    "no first file": ([None, *P[1:]], {"first_files": 1}),
    "no first two files": ([None, None, *P[2:]], {"first_files": 2}),
    "no middle file": ([P[0], None, *P[2:]], {"middle_files": 1}),
    "no two middle files": ([P[0], None, None, P[3]], {"middle_files": 2}),
    "no last file": (P[:3], {"last_files": 1}),
    "a middle file without its end": ([P[0], P[1][:-1], *P[2:]], {"end": 1}),
    "a middle file with fewer lines": ([P[0], P[1][:2] + P[1][4:], *P[2:]], {"missing_lines": 2}),
    "a full disk in the last file": ([*P[:3], piece(3, write_error="No space left on device", lines_lost=3, events={"memory": 13})], {"lines": 3}),
}


@pytest.mark.parametrize("kind", FILES)
def test_files(tmp_path, kind):
    files, want = FILES[kind]
    paths = put(tmp_path, *files)
    views(tmp_path, paths, want)
    # The same as one stream: the reader of a pipe sees no separate files.
    one = tmp_path / "cat.jsonl"
    one.write_bytes(b"".join(p.read_bytes() for p in paths))
    with open(one, "rb") as f:
        r = json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", "/dev/stdin"], preexec_fn=lambda: os.dup2(f.fileno(), 0)).out)
    assert lost(r) == want
    if len(paths) == 1:
        diff(paths[0], paths[0], want, want, 3 if want else 0)


@pytest.mark.parametrize("missing,said,why", [
    (0, "", "the first file that was read continues an earlier one"), (2, "this file is missing", "no file with that number was found"),
    (4, "the rest is missing", "the last file that was found continues in another one")])
def test_missing_file(tmp_path, missing, said, why):
    """The messages must state what is missing: a file after which others were read is not the rest of the trace."""
    files = [piece(n, more=n < 4) for n in range(5)]
    put(tmp_path, *(None if n == missing else f for n, f in enumerate(files)))
    ran = cudatrace("report", tmp_path)
    assert re.findall("(this file|the rest) is missing", ran.err) == [w.removesuffix(" is missing") for w in [said] if w], ran.err
    assert why in " ".join(ran.out.split()), ran.out[:400]


def test_sparse(tmp_path):
    """A sparse file of terabytes in a folder must not stop the report, which must state that the file's rest is not read."""
    put(tmp_path, piece(0))
    for name, lines in ("holes", []), ("rest", [{**HEAD, "boot_id": "c"}, *piece(0)[1:]]):
        (path,) = put(tmp_path, lines, name=name)
        os.truncate(path, 2 << 40)
    begin = time.monotonic()
    ran = cudatrace("report", "--format=json", tmp_path, timeout=60)
    assert time.monotonic() - begin < 30 and ran.err.count("the rest of the file is not read") == 2, ran.err
    r = json.loads(ran.out)
    assert lost(r)["unread_files"] == 2 and r["overview"]["calls"] == 20


def test_torn_then_another(tmp_path):
    """A trace without an end before another trace in the same file must be reported."""
    other = [{**HEAD, "boot_id": "c"}, *piece(0)[1:]]
    for lines, want in ([*piece(0)[:-1], *other], {"end": 1}), ([*P[0], *other], {"last_files": 1}), ([*piece(0), *other], {}):
        (path,) = put(tmp_path, lines)
        assert lost(json.loads(report(path))) == want


def test_one_of_two(tmp_path):
    """If one of two traces is unreadable, empty, without an end, or incomplete, the report must show it."""
    (whole,) = put(tmp_path, piece(0))
    other = tmp_path / "other.jsonl"
    for what, want in (None, {"unread_files": 1}), ("", {"unread_files": 1}), (text([{**HEAD, "boot_id": "c"}, call(1)]), {"end": 1}), \
            (text([{**HEAD, "boot_id": "c"}, *piece(0, drops={"calls": 9})[1:]]), {"calls": 9}):
        if what is not None:
            other.write_text(what)
        assert lost(json.loads(report(whole, other))) == lost(json.loads(report(other, whole))) == want


def test_packed(tmp_path):
    """A truncated or damaged packed file must be reported."""
    lines = text(piece(0, calls=2000)).encode()
    path = tmp_path / "a.jsonl.gz"
    packed = gzip.compress(lines)
    path.write_bytes(packed)
    assert lost(json.loads(report(path))) == {}
    path.write_bytes(packed[:len(packed) // 2])
    got = lost(json.loads(report(path)))
    assert got["unread_files"] == got["end"] == 1
    # Two members; the second is damaged.
    broken = bytearray(gzip.compress(lines[:len(lines) // 2]) + gzip.compress(lines[len(lines) // 2:]))
    path.write_bytes(broken)
    assert lost(json.loads(report(path))) == {}
    # Padding is zeros. Anything else is data that cannot be read.
    path.write_bytes(broken + bytes(1000))
    assert lost(json.loads(report(path))) == {}
    member = len(gzip.compress(lines[:len(lines) // 2]))
    for bad in (broken[:member] + b"\0" + broken[member + 1:], broken + lines, broken + bytes(300000) + b"x"):
        path.write_bytes(bad)
        assert lost(json.loads(report(path)))["unread_files"] == 1
    broken[-len(packed) // 4] ^= 255
    path.write_bytes(broken)
    ran = cudatrace("report", "-q", "--format=json", path)
    assert ran.status or json.loads(ran.out)["complete"] is False


def test_cut_anywhere(tmp_path):
    """A file cut at any byte must be incomplete, unless only the last newline is missing."""
    whole = text(piece(0, calls=3)).encode()
    path = tmp_path / "a.jsonl"
    first = whole.index(b"\n") + 1
    for at in [*range(first + 1, len(whole) - 1, 7), len(whole) - 3, len(whole) - 2]:
        path.write_bytes(whole[:at])
        ran = cudatrace("report", "-q", "--format=json", path)
        # A cut within the first event leaves little or nothing to report.
        assert ran.status or json.loads(ran.out)["complete"] is False, at
    path.write_bytes(whole[:-1])
    assert json.loads(report(path))["complete"] is True


def test_full_output(tmp_path):
    """If a report or a comparison could not be written, its status must not be 0."""
    (path,) = put(tmp_path, piece(0))
    for args, status in (["report", path], 1), (["report", "--format=json", path], 1), (["diff", path, path], 2), (["diff", "--json", path, path], 2):
        ran = Ran(["sh", "-c", '"$@" >/dev/full', "sh", CUDATRACE, *map(str, args)])
        assert ran.status == status and "No space left on device" in ran.err, (args, ran)


def test_chosen(tmp_path):
    """Selected omissions must not count as losses, but must be mentioned."""
    counted = {"cuEventQuery": {"calls": 31, "errors": 0, "total_us": 1, "max_us": 1}}
    (path,) = put(tmp_path, piece(0, filtered=12, counted=counted, entries=53))
    r = views(tmp_path, [path], {})
    assert [(x["what"], x["count"]) for x in r["chosen"]] == [("filtered calls", 12), ("counted calls", 31)]
    assert "Excluded by choice: 12 filtered calls: --min-duration" in report(path, form="ascii")


def test_golden():
    """Traces of real programs without losses must be complete."""
    for name in "tokens", "memory":
        r = json.loads(report(f"{TESTS}/golden/h200-gpt2-{name}.jsonl"))
        assert r["complete"] is True and r["lost"] == [] and r["chosen"] == []


def test_long(tmp_path):
    """More allocations than findings keep are no loss here: findings need them only in iterations, and there are none."""
    (path,) = put(tmp_path, piece(0, calls=70000))
    assert lost(json.loads(report(path))) == {}


# Traces with losses during tracing.

@pytest.fixture
def traced():
    needs_tracing()


def in_file(path):
    """The number of event lines in the file, the number that its end counts, and the lines."""
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    assert lines[-1]["type"] == "end"
    return len(lines) - 2, sum(lines[-1]["events"].values()), lines


SMALL = """mkdir -p "$1/small" && mount -t tmpfs -o size="$2" none "$1/small" || exit 99
folder=$1; shift 2; "$@"; rc=$?; mv "$folder"/small/* "$folder/"; exit $rc"""


def test_full_disk(tmp_path, traced):
    """On a full disk, report and summary must have the number of lines that are not in the file."""
    ran = Ran(["unshare", "-m", "sh", "-c", SMALL, "sh", tmp_path, "64k", CUDATRACE, "-e", DEFAULT, "--summary", "--jsonl", tmp_path / "small/a.jsonl",
               "--", *SAMPLE], env=ENV)
    assert ran.status == 1, ran
    there, counted, _ = in_file(tmp_path / "a.jsonl")
    assert counted > there > 20
    views(tmp_path, [tmp_path / "a.jsonl"], {"lines": counted - there})
    said = ran.err[ran.err.index("\nINCOMPLETE: "):]
    assert f"\n  {counted - there:,} lines of the output: No space left on device." in said and said.index(" CUDA calls, 1 failed, INCOMPLETE") > said.index("output: No space")
    ran = Ran(["unshare", "-m", "sh", "-c", SMALL, "sh", tmp_path, "64k", CUDATRACE, "-e", DEFAULT, "--json", "--jsonl", tmp_path / "small/a.jsonl",
               "--", *SAMPLE], env=ENV)
    summary = next(json.loads(line) for line in ran.err.splitlines() if line.startswith('{"type":"summary"'))
    there, counted, _ = in_file(tmp_path / "a.jsonl")
    assert lost(summary) == {"lines": counted - there} and summary["calls"] > there


@pytest.mark.parametrize("kilobytes", [24, 40])
def test_file_size_limit(tmp_path, traced, kilobytes):
    size = kilobytes * 1024
    path = tmp_path / "a.jsonl"
    Ran([CUDATRACE, "-q", "-e", DEFAULT, "--jsonl", str(path), "--", *SAMPLE], env=ENV,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
    there, counted, _ = in_file(path)
    assert counted > there
    views(tmp_path, [path], {"lines": counted - there})


def test_slow_reader(tmp_path, running, traced):
    """If the reader of standard output stops, the report must count the lines that did not fit the pending queue."""
    path = tmp_path / "a.jsonl"
    read, write = os.pipe()
    go = tmp_path / "go"
    with open(tmp_path / "err", "wb") as err:
        t = running.start(CUDATRACE, "-e", "cuMemFree_v2", "--probe=uprobe", "--jsonl", "-", "--", "sh", "-c",
                          f'{CASES}/many cuMemFree_v2 60000 2 >&2; while [ ! -e {go} ]; do sleep 0.1; done; {CASES}/many cuMemFree_v2 10 1 >&2',
                          env={**ENV, "FAKE_NO_SEM": "1"}, stdout=write, stderr=err)
        os.close(write)
        with os.fdopen(read, "rb") as f, open(path, "wb") as to:
            to.write(f.readline())
            # The first program has made its calls when it has printed its line.
            until(lambda: (tmp_path / "err").read_text().count("\n") >= 1 and not os.system(f"sleep 1; ! pgrep -P {t.pid} many >/dev/null"), 30)
            go.touch()
            to.write(f.read())
    assert t.wait(60) == 1
    there, counted, lines = in_file(path)
    end = lines[-1]
    want = collections.Counter({k: v for k, v in end["drops"].items() if v})
    want["lines"] = counted - there
    assert end["lines_lost"] == want["lines"] > 1000
    got = lost(json.loads(report(path)))
    # Findings keep 65,536 calls that free.
    assert {k: v for k, v in got.items() if k != "rejected.calls"} == dict(want)
    assert report(path, form="ascii").startswith("INCOMPLETE: ")


def test_small_ring(tmp_path, traced):
    """If the tracer is stopped, the losses must equal the driver's count minus the trace's calls."""
    path = tmp_path / "a.jsonl"
    command = ["-e", "cuMemFree_v2", "--probe=uprobe", "--buffer-size", "64K", "--jsonl", path, "--", "sh", "-c",
               f"kill -STOP $PPID; {CASES}/many cuMemFree_v2 20000 1; kill -CONT $PPID"]
    ran = cudatrace("--summary", *command, env={**ENV, "FAKE_NO_SEM": "1"})
    _, _, lines = in_file(path)
    calls = sum("symbol" in e for e in lines)
    assert ran.status == 0 and 0 < calls < 20000
    drops = {k: v for k, v in lines[-1]["drops"].items() if v and k != "calls"}
    r = views(tmp_path, [path], {"calls": 20000 - calls, **drops})
    assert "the ring buffer was full" in r["lost"][0]["why"] and r["lost"][0]["how_to_avoid"].startswith("use --buffer-size 256K (it was 64K)")
    assert f"\n  {20000 - calls:,} CUDA calls: the ring buffer was full" in ran.err and "--buffer-size 256K (it was 64K)" in " ".join(ran.err.split())
    # Without a summary, one line reports it.
    assert "warning: the trace is incomplete, missing: " in cudatrace(*command, env={**ENV, "FAKE_NO_SEM": "1"}).err


def test_killed(tmp_path, running, traced):
    """The trace of a killed tracer must be reported as having no end."""
    t = running.tracer("a", "-e", DEFAULT, "-p", running.start(*ENDLESS, env=ENV).pid)
    until(lambda: b"cuLaunchKernel" in open(t.path, "rb").read())
    t.p.send_signal(signal.SIGKILL)
    t.p.wait()
    assert "end" in lost(json.loads(report(t.path)))


def test_killed_timelines(tmp_path, running, traced):
    """The first event of a timeline must say what it means if the last one is missing."""
    paths = [tmp_path / form for form in ("chrome", "perfetto")]
    options = [x for path in paths for x in (f"--{path.name}", path)]
    t = running.tracer("a", "-e", DEFAULT, *options, "-p", running.start(*ENDLESS, env=ENV).pid)
    until(lambda: all(b"cuLaunchKernel" in path.read_bytes() for path in paths))
    t.p.send_signal(signal.SIGKILL)
    t.p.wait()
    lines = [line.rstrip(",\n") for line in paths[0].open(encoding="utf-8")]
    chrome, perfetto = json.loads(lines[1]), Decoded(paths[1].read_bytes())
    assert chrome["name"] == "trace begins" and '"trace ends"' not in "".join(lines)
    assert "trace ends" not in [i.name for i in perfetto.instants]
    for args in chrome["args"], perfetto.begins:
        assert args["without_trace_ends"] == "incomplete: cut off, or still being written"


def end_of(calls, **more):
    return {**piece(0)[-1], "events": {"memory": calls}, "calls": calls, **more}


def test_doubled(tmp_path):
    """Duplicate lines must be reported in all views, adjacent or not, even if as many others are missing."""
    calls, end = [call(i) for i in range(5000)], end_of(5000)
    for i, (lines, want) in enumerate({
            "at once": ([*calls[:70], calls[69], *calls[70:]], {"doubled_calls": 1}),
            "far away": ([*calls, calls[1]], {"doubled_calls": 1}),
            "for another": ([*calls[:-1], calls[9]], {"doubled_calls": 1}),
            "a block": ([*calls[:-20], *calls[100:120]], {"doubled_calls": 20}),
            "others": ([*calls, {**calls[9], "id": 7777}], {"surplus_lines": 1}),
            "in another order": (calls[::-1], {})}.values()):
        views(tmp_path, put(tmp_path, [HEAD, *lines, end], name=f"d{i}"), want)


@pytest.mark.parametrize("drops,want", [({"newthing": 5, "other": 2}, 7), ({"calls": "7"}, 1), ({"calls": [3], "tasks": None}, 2), ({"calls": -5}, 1), ({"calls": 0.5}, 1), ({"calls": 0}, 0)])
def test_unknown_drops(tmp_path, drops, want):
    """Unknown counts, of a newer cudatrace, and invalid counts must be reported."""
    got = lost(json.loads(report(*put(tmp_path, piece(0, drops=drops)))))
    assert got.get("unknown_drops", 0) == want and bool(got) == bool(want)


@pytest.mark.parametrize("old,new", [('"bad_records": 0', '"bad_records": "4"'), ('"bad_records": 0', '"bad_records": -4'), ('"entries": 10', '"entries": null'),
                                     ('"drops": {', '"drops": {"calls": 0}, "drops": {'), ('"calls": 10', '"calls": 10, "lines_lost": 0.4'), ('"drops": {', '"x": {'), ('"drops": {', '"drops": 0, "x": {'),
                                     ('"bad_records": 0', '"x": 0'), ('"calls": 10', '"x": 10'), ('"events": {', '"x": {')])
def test_damaged_end_line(tmp_path, old, new):
    """What is missing or not a count, or occurs twice, must not be taken for a complete trace."""
    path, = put(tmp_path, piece(0))
    assert json.loads(report(path))["complete"] is True
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    assert json.loads(report(path))["complete"] is False


def copies(folder):
    """A trace and its copies."""
    (folder / "a.jsonl").write_text(text(piece(0)))
    (folder / "b.jsonl").write_text(text(piece(0)))
    # A truncated copy is a copy, too.
    (folder / "cut.jsonl").write_text(text(piece(0)[:-4]))
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(text(piece(0)).encode()))
    (folder / "link.jsonl").symlink_to("a.jsonl")
    return [folder / name for name in ("a.jsonl", "b.jsonl", "cut.jsonl", "a.jsonl.gz", "link.jsonl")]


def test_copies(tmp_path):
    """A file given twice, packed or not, under any name, must count once, and the report must show it."""
    first, *others = copies(tmp_path)
    for other in (first, *others):
        ran = cudatrace("report", "--format=json", first, other)
        said = json.loads(ran.out)
        assert f"{other} is skipped" in ran.err and said["overview"]["calls"] == 10 and lost(said) == {"copies": 1}, ran
    said = json.loads(report(first, *others))
    assert said["overview"]["calls"] == 10 and lost(said) == {"copies": 4} and not said["complete"]
    # Each file of a split trace.
    paths = put(tmp_path, piece(0, more=True), piece(1, more=True), piece(2), name="p")
    packed = [p.with_suffix(".jsonl.gz") for p in paths]
    for p, q in zip(paths, packed):
        q.write_bytes(gzip.compress(p.read_bytes()))
    said = json.loads(report(*paths, *packed))
    assert said["overview"]["calls"] == 30 and lost(said) == {"copies": 3}
    assert lost(json.loads(report(packed[0], paths[1], packed[2]))) == {}
    # In a pipe, duplicates are recognized by the ids of calls.
    ran = Ran(["sh", "-c", '"$0" report -q --format=json "$1" - <"$2"', CUDATRACE, first, others[0]])
    assert lost(json.loads(ran.out)) == {"doubled_calls": 10}, ran
    ran = Ran(["sh", "-c", 'cat "$1" "$1" | "$0" report -q --format=json -', CUDATRACE, first])
    assert lost(json.loads(ran.out)) == {"doubled_calls": 10}, ran


def test_no_copies(tmp_path):
    """Traces of other runs, ranks and machines are not copies, nor are dumps of one daemon that do not overlap. A trace may be compared
    with itself."""
    def lines(name, head, first=0):
        return put(tmp_path, [{**HEAD, **head}, *(call(i) for i in range(first, first + 10)), end_of(10)], name=name)[0]
    paths = [lines("a", {}), lines("b", {"clock_base_ns": 1001}), lines("c", {"boot_id": "c"}), lines("dump", {}, first=50), lines("old", {"boot_id": None})]
    said = json.loads(report(*paths))
    assert lost(said) == {} and said["overview"]["calls"] == 50
    assert cudatrace("diff", paths[0], paths[0]).status == 0
    # Dumps that overlap.
    assert lost(json.loads(report(paths[0], lines("late", {}, first=7)))) == {"doubled_calls": 3}


GONE = {"rm": "rm F", "rm-again": "rm F; touch F", "truncate": ": >F", "shorten": "truncate -s 100 F", "grow": "echo x >>F", "rewrite": "seq 99999 >F",
        "move": "mv F G", "replace": "touch G; mv G F"}


def gone(ran, cnt):
    """Checks the messages about outputs that another program removed or changed. The summary is printed first."""
    assert ran.status == 1, ran
    assert ran.err.count("by another program while it was written") == cnt, ran
    summary = next(json.loads(line) for line in ran.err.splitlines() if line.startswith('{"type":"summary"'))
    assert not summary["complete"] and lost(summary) == {"outputs_gone": cnt}


# A report is written at the end, and is empty until then.
@pytest.mark.parametrize("kind,how", [*(("jsonl", how) for how in GONE), ("chrome", "rm"), ("chrome", "truncate"), ("perfetto", "move"), ("perfetto", "grow"),
                                      ("report", "rm"), ("report", "rewrite"), ("report", "move")])
def test_output_gone(tmp_path, traced, kind, how):
    """An output that another program removes or damages while it is written must be reported; another output stays whole."""
    wait = "" if kind == "report" else "until [ $(stat -c %s F) -gt 1000 ]; do sleep 0.05; done; "
    line = f"{CASES}/many cuMemFree_v2 100 1; {wait}{GONE[how]}; {CASES}/many cuMemFree_v2 100 1"
    ran = cudatrace("-e", "cuMemFree_v2", "--summary", "--json", f"--{kind}", "F", "--jsonl", "whole.jsonl", "--", "sh", "-c", line, env=ENV, cwd=tmp_path)
    gone(ran, 1)
    assert lost(json.loads(report(tmp_path / "whole.jsonl"))) == {}
    assert sum("symbol" in e for e in in_file(tmp_path / "whole.jsonl")[2]) == 200


def test_two_tracers(tmp_path, traced):
    """If two tracers write to one file, neither may call it complete."""
    line = f'{CASES}/many cuMemFree_v2 100 1; until [ $(stat -c %s F) -gt 1000 ]; do sleep 0.05; done; {CUDATRACE} -q --jsonl F -- {CASES}/many cuMemFree_v2 9 1'
    gone(cudatrace("-e", "cuMemFree_v2", "--summary", "--json", "--jsonl", "F", "--", "sh", "-c", line, env=ENV, cwd=tmp_path), 1)


def test_finished_file_taken(tmp_path, traced):
    """With --max-file, a finished file may be removed, but not the one being written."""
    # Waits until the tracer has written everything: the newest file is then the one being written.
    quiet = 'until [ -s F.1 ] && [ "$s" = "$(ls -s F*)" ]; do s=$(ls -s F*); sleep 0.3; done'
    command = f"{FAKE}/sample --tokens 100 --layers 4 --quiet; {quiet}; rm %s; {FAKE}/sample --tokens 300 --layers 4 --quiet"
    args = ("-e", DEFAULT, "--summary", "--json", "--max-file", "1M", "--jsonl", "F", "--", "sh", "-c")
    ran = cudatrace(*args, command % "F", env=ENV, cwd=tmp_path)
    assert ran.status == 0 and "by another program" not in ran.err, ran
    assert not (tmp_path / "F").exists() and (tmp_path / "F.2").exists()
    gone(cudatrace(*args, command % "$(ls -t F* | head -1)", env=ENV, cwd=tmp_path), 1)


def test_not_gone(tmp_path, traced):
    """Harmless actions must not be reported: appending to a file on stdout, reading, linking, chmod, renaming the folder, or a file without
    a name."""
    many = f"{CASES}/many cuMemFree_v2 100 1 >&2"
    do = "ln whole.jsonl other; chmod 644 whole.jsonl; touch whole.jsonl; cat whole.jsonl >copy; sync whole.jsonl; echo also >>out"
    line = f'"$0" -e cuMemFree_v2 --summary --json --jsonl whole.jsonl --chrome /dev/fd/7 --jsonl - -- sh -c "{many}; sleep 1; {do}; {many}" 7<>nameless >>out'
    (tmp_path / "nameless").touch()
    (tmp_path / "out").write_text("before\n")
    ran = Ran(["sh", "-c", f"exec 7<>nameless; rm nameless; {line.replace('7<>nameless', '')}", CUDATRACE], env=ENV, cwd=tmp_path)
    assert ran.status == 0 and "by another program" not in ran.err, ran
    (tmp_path / "d").mkdir()
    ran = cudatrace("-e", "cuMemFree_v2", "--jsonl", "whole.jsonl", "--", "sh", "-c", f"{many}; mv ../d ../e; {many}", env=ENV, cwd=tmp_path / "d")
    assert ran.status == 0 and "by another program" not in ran.err, ran


@pytest.mark.parametrize("hide", ["first", "middle", "last"])
def test_max_file(tmp_path, traced, hide):
    """A missing file of a split trace must be reported."""
    Ran([CUDATRACE, "-q", "-e", DEFAULT, "--max-file", "1M", "--jsonl", str(tmp_path / "a.jsonl"), "--", FAKE + "/sample", "--tokens", "600", "--layers", "4", "--quiet"], env=ENV)
    paths = [tmp_path / "a.jsonl", *sorted(tmp_path.glob("a.*.jsonl"), key=lambda p: int(p.name.split(".")[1]))]
    assert len(paths) > 3
    views(tmp_path, paths, {})
    assert lost(json.loads(report(paths[0]))) == {}
    gone = paths.pop({"first": 0, "middle": len(paths) // 2, "last": -1}[hide])
    gone.unlink()
    views(tmp_path, paths, {f"{hide}_files": 1})


def test_complete(tmp_path, traced):
    """A program without losses must be complete in all layers."""
    ran = Ran([CUDATRACE, "-e", "all,!cu[FP]*[LI]*[de]", "--json", "--jsonl", str(tmp_path / "a.jsonl"), "--report", str(tmp_path / "live.json"), "--", *SAMPLE], env=ENV)
    assert ran.status == 0, ran
    views(tmp_path, [tmp_path / "a.jsonl"], {})
    assert lost(json.loads((tmp_path / "live.json").read_text())) == {} and "incomplete" not in ran.err
    summary = next(json.loads(line) for line in ran.err.splitlines() if line.startswith('{"type":"summary"'))
    assert summary["complete"] is True and summary["lost"] == []


def test_damaged_header(tmp_path):
    """A trace with only an end line must give an error in diff, and nothing may crash."""
    path = tmp_path / "trace"
    path.write_text('{"ts":0,"type":"hea\n{"ts":9.5,"type":"end","name":"cudatrace","reason":"command exited","events":{"init":3},"calls":3,"wall_ms":9.5}\n')
    ran = cudatrace("diff", path, path)
    assert ran.status == 2 and f"cannot compare {path}: its header cannot be read: trace again\n" in ran.err
    assert cudatrace("report", path).status in (0, 1)


def test_reasons_agree():
    """A reason follows "1 damaged line" and "2 damaged lines": it has no pronoun for them."""
    with open(f"{os.path.dirname(TESTS)}/src/model/losses.def", encoding="utf-8") as f:
        why = re.findall(r'^LOSS\(\w+, "\w+", "[^"]*", "[^"]*", "([^"]*)"', f.read(), re.M)
    assert len(why) > 40 and not [w for w in why if re.search(r"\b(they|them|their)\b", w)]
