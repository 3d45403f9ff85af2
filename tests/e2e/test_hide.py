# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""--no-args, --no-strings and trace.redact: a program whose strings, sizes, handles and addresses are marks (tests/hide/marks.h) is
traced into every output. Marks must be in unredacted outputs, and not in the others."""
import base64
import gzip
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys

import pytest
from helpers.daemon import Private, fetch, free_port, lines_of
from helpers.jsonl import Trace
from helpers.live import Tracer, compiled
from helpers.outputs import schema
from helpers.run import CUDATRACE, FAKE, MECHANISMS, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, passes, until

HIDE = TESTS + "/hide/"
OPTIONS = {"nothing": [], "strings": ["--no-strings"], "arguments": ["--no-args"]}
# What may be in no output.
HIDDEN = {"nothing": "never", "strings": "texts", "arguments": "all"}
COPY = """
#include <stdio.h>
#include <stdlib.h>
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(unsigned long long *, size_t);
int cuMemcpyHtoD_v2(unsigned long long, const void *, size_t);
int main(void)
{
	unsigned long long dst;
	size_t size = 123456789;
	void *src = calloc(1, size), *ctx;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuMemAlloc_v2(&dst, size))
		return 1;
	printf("%llx %llu %lx %lu %zx %zu\\n", dst, dst, (long)src, (long)src, size, size);
	fflush(stdout);
	return cuMemcpyHtoD_v2(dst, src, size) ? 2 : 0;
}
"""


@pytest.fixture(scope="module")
def place():
    """The programs, and mock devices, if no driver is loaded and FUSE exists."""
    needs_tracing()
    for need in ("jq", "zstd"):
        if not shutil.which(need):
            pytest.skip("needs " + need)
    os.environ.pop("LD_LIBRARY_PATH", None)
    os.environ["CUDATRACE_TEST_NV_BY_NAME"] = "1"
    p = Private(os.environ["TMP"])
    # Replaces the mock driver: the daemon attaches to it at its start.
    p.compiled("lib/libcuda.so.1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", HIDE + "libcuda.c")
    p.compiled("marked", HIDE + "marked.c")
    (p.folder / "HIDEMARK_library").mkdir()
    p.compiled("HIDEMARK_library/x.so", "-shared", "-fPIC", "-fno-omit-frame-pointer", HIDE + "library.c")
    p.nv = []
    if not os.path.exists("/sys/module/nvidia"):
        (p.folder / "nv").mkdir()
        server = p.start(p.compiled("server", TESTS + "/nvfuse/server.c"), p.folder / "nv", stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True)
        p.nv = [p.folder / "nv"] if "ready" in server.stdout.readline() else []
    yield p
    p.close()


def found(which, *files):
    """The marks in these files, one per line: those of texts, all, or those that may be in none."""
    return passes("hide/find.py", which, *files).splitlines()


def names_of(place, *files, without="^$", nv=True):
    """Whether all marks are there, except those of system calls and code that this machine lacks."""
    want = set(re.findall(r"^(?:TEXT|NUMBER)\((\w+),", pathlib.Path(HIDE + "marks.h").read_text(), re.M))
    lacks = [without, *([] if nv and place.nv else ["^(RM_|UVM_|MAP_SIZE|DESCRIPTOR|VERSION_TEXT)"]),
             *([] if platform.machine() == "x86_64" else ["^PERF_NAME"])]
    missing = {n for n in want if not any(re.search(x, n) for x in lacks)} - {line.split(":")[0] for line in found("all", *files)}
    assert not missing, missing


def in_each(*files):
    assert [f for f in files if not found("all", f)] == []


def counts(t):
    return [t.end[x] for x in ("calls", "unfinished", "abandoned")]


class Marked:
    """tests/hide/marked.c: waits for go(), which returns when it is in its last call."""

    def __init__(self, place, name, *nv):
        self.out = place.folder / (name + ".out")
        self.args = [place.folder / "marked", place.lib / "libcuda.so.1", *nv]
        self.how = {"stdin": subprocess.PIPE, "env": {**os.environ, "MARKED_LIBRARY": str(place.folder / "HIDEMARK_library/x.so"),
                                                      "SECRET": "HIDEMARK_environment"}}
        self.place = place

    def begin(self, *before, **how):
        with open(self.out, "wb") as out:
            self.p = self.place.start(*before, *self.args, stdout=out, **self.how, **how)
        until(lambda: "waiting" in self.out.read_text())
        return self

    def go(self):
        self.p.stdin.write(b"\n")
        self.p.stdin.close()
        until(lambda: "stuck" in self.out.read_text(), 20)

    def leave(self):
        self.p.send_signal(signal.SIGUSR1)
        return self.p.wait(60)


def traced(place, name, *options):
    """The trace of it by its pid until it is in its last call."""
    m = Marked(place, name, *place.nv).begin(stderr=subprocess.DEVNULL)
    tracer = Tracer(place.folder, name, "--all", "--stack", *["--kernel"][:len(place.nv)], *options, "-p", m.p.pid)
    m.go()
    tracer.stop()
    m.leave()
    return tracer.trace


class Outputs:
    """All outputs of a trace, and all forms of its report. by: uprobe, or inject for the in-process library."""

    def __init__(self, place, by, hides, *more):
        n = self.n = f"{place.folder}/{by}-{hides}"
        self.options, self.files = [*OPTIONS[hides], *more], {k: f"{n}.{k}" for k in ("jsonl", "chrome.json", "pftrace", "live.txt", "err")}
        forms = ["-vv", "--summary", "--chrome", n + ".chrome.json", "--perfetto", n + ".pftrace", "--report", n + ".live.txt",
                 *self.options]
        getattr(self, by)(place, n, f"{by}-{hides}", forms)

    def uprobe(self, place, n, name, forms):
        more = [n + ".jsonl.gz", n + ".jsonl.zst", n + ".page.html", n + ".live.json"]
        self.t = traced(place, name, "--sched", "--jsonl", more[0], "--jsonl", more[1], "--report", more[2], "--report", more[3], *forms)
        assert cudatrace("-q", "report", "--format=all", "-o", n + ".all", n + ".jsonl").status == 0
        reports = [str(p) for p in place.folder.glob(name + ".all.*")]
        self.files.update((p[len(n) + 1:], p) for p in more + reports)
        self.diff = n + ".diff.txt"
        ran = cudatrace("-q", "diff", n + ".jsonl", n + ".jsonl")
        pathlib.Path(self.diff).write_text(ran.out + ran.err)

    def inject(self, place, n, name, forms):
        m = Marked(place, name)
        with open(n + ".err", "wb") as err:
            m.begin(CUDATRACE, "--probe=inject", "--all", "--stack", "--jsonl", n + ".jsonl", *forms, "--", stderr=err)
        m.go()
        # Names of a perf map are available only while the process exists.
        if not self.options:
            until(lambda: "HIDEMARK_perf" in pathlib.Path(n + ".jsonl").read_text())
        Ran(["pkill", "-USR1", "-P", str(m.p.pid), "-x", "marked"])
        assert m.p.wait(60) == 0
        self.t, self.diff = Trace(n + ".jsonl"), n + ".jsonl"

    def all(self):
        return [*self.files.values(), self.diff]

    def text(self, which):
        return pathlib.Path(self.files[which]).read_text()


@pytest.fixture(scope="module")
def copies(place):
    """The reported case: traces that end in the middle of a copy that takes six seconds. By what is redacted: the tracer, and its files."""
    (place.folder / "copy.c").write_text(COPY)
    program, started = compiled(place.folder / "copy", place.folder / "copy.c", FAKE + "/libcuda.so.1"), {}
    for hides in ("nothing", "arguments"):
        n = f"{place.folder}/copy-{hides}."
        files = [n + x for x in ("jsonl", "jsonl.gz", "chrome.json", "pftrace", "html", "txt", "json", "err")]
        with open(files[-1], "wb") as err, open(n + "said", "wb") as out:
            p = place.start(CUDATRACE, "--all", "--duration", "3", "--summary", "--jsonl", files[0], "--jsonl", files[1], "--chrome",
                            files[2], "--perfetto", files[3],
                            *(x for f in files[4:7] for x in ("--report", f)), *OPTIONS[hides], "--", program, stdout=out, stderr=err,
                            env={**os.environ, "FAKE_DELAY_US": "cuMemcpyHtoD_v2:6000000", "LD_LIBRARY_PATH": FAKE})
        started[hides] = p, files, n + "said"
    return started


@pytest.fixture(scope="module")
def shown(place, copies):
    """Outputs in which nothing is redacted, by producer."""
    return {by: Outputs(place, by, "nothing") for by in ("uprobe", "inject")}


@pytest.mark.parametrize("by", ["uprobe", "inject"])
def test_nothing_is_hidden(place, shown, by):
    """Every mark must be in the trace, some in each output, and what is never read in none."""
    o = shown[by]
    names_of(place, o.files["jsonl"], nv=by == "uprobe")
    assert found("never", *o.all()) == []
    # Two traces that are the same have no difference.
    in_each(*(f for k, f in o.files.items() if by == "uprobe" or k != "err"))
    assert counts(o.t) == [98, 1, 1]


@pytest.mark.parametrize("by", ["uprobe", "inject"])
@pytest.mark.parametrize("hides", ["strings", "arguments"])
def test_hidden(place, shown, by, hides):
    """What is redacted must be in no output; there must be as many calls, with the one that does not return, and the one that was left."""
    o = Outputs(place, by, hides)
    assert found(HIDDEN[hides], *o.all()) == []
    assert counts(o.t) == counts(shown[by].t)
    if hides == "strings":
        # Numbers are there.
        in_each(o.files["jsonl"])
    elif by == "uprobe":
        no_arguments(place, o)


def no_arguments(place, o):
    """Results that need arguments must be marked as redacted, never zero."""
    schema(o.files["jsonl"])
    assert [f for e in o.t.ev if e["type"] == "stack" for f in e["frames"] if f.get("module") == "[file]" and len(f["build_id"]) == 40]
    d = json.loads(o.text("all.report.json"))
    assert [d["overview"]["redacted"]] + [d[k] for k in ("memory", "transfers", "kernels", "iterations",
                                                         "findings")] == ["arguments"] + [None] * 5
    for which in "live.txt", "all.report.txt":
        lines = re.findall(r"^Hidden: arguments|^(?:Memory|Transfers|Kernels|Streams|Iterations|Stages|GPU idle|Findings)|\b0 B\b",
                           o.text(which), re.M)
        assert lines == ["Hidden: arguments"]
    assert len(re.findall(r"^Hidden +arguments|^Launched|^Memory| requested\)|bandwidth|\b0 B\b", o.text("err"), re.M)) == 1
    if place.nv:
        # System calls have names, times and the call.
        assert sorted(e["name"] for e in o.t.ev if "device" in e and "symbol" not in e) == sorted([
            "NV_ESC_CHECK_VERSION_STR", "NV_ESC_RM_CONTROL", "NV_ESC_IOCTL_XFER_CMD", "UVM_FREE", "UVM_MAP_EXTERNAL_ALLOCATION", "mmap",
            "close"])


def test_copy_that_lasts(copies):
    """Without arguments the call must be there, unfinished, and the program end as ever."""
    words = {}
    for hides, (p, files, said) in copies.items():
        assert p.wait(60) == 0
        marks = pathlib.Path(said).read_text().split() + ["dstDevice", "srcHost", "ByteCount"]
        text = b"".join(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
                        for data in (pathlib.Path(f).read_bytes() for f in files))
        words[hides] = {w for w in marks if re.search(rb"\b" + w.encode() + rb"\b", text)}
    assert words["arguments"] == set() and words["nothing"] >= {"dstDevice", "srcHost", "ByteCount", "123456789"}
    files = copies["arguments"][1]
    t = Trace(files[0])
    assert [(c["args"], "size" in c) for c in t.calls if c["symbol"] == "cuMemcpyHtoD_v2" and c.get("unfinished")] == [({}, False)]
    assert t.end["reason"] == "duration" and t.accounts()
    assert all(b"cuMemcpyHtoD" in pathlib.Path(f).read_bytes() for f in files[2:4])


# Other mechanisms than the best run with options only in make check-all.
@pytest.mark.parametrize("hides,mech,options", [
    pytest.param(hides, mech, options, marks=[pytest.mark.long] if options and mech != "session" else [])
    for mech in MECHANISMS for hides, options in (("arguments", ""), ("arguments", "--entry-only all"),
                                                  ("arguments", "--min-duration 1000 --count memory"),
                                                  ("strings", ""))])
def test_by_each_mechanism(place, hides, mech, options):
    needs_mechanism(mech)
    name = f"v-{mech}"
    traced(place, name, "--mechanism=" + mech, *OPTIONS[hides], *options.split())
    assert found(HIDDEN[hides], place.folder / (name + ".jsonl"), place.folder / (name + ".err")) == []


def test_entries_are_not_hidden(place):
    traced(place, "entries", "--entry-only", "all")
    in_each(place.folder / "entries.jsonl")


@pytest.mark.parametrize("options", ["--entry-only all", "--min-duration 1000 --count memory"])
def test_inside_with_options(place, options):
    assert found("all", *Outputs(place, "inject", "arguments", *options.split()).all()) == []


def test_killed(place):
    """What a killed tracer has written must have no mark."""
    m = Marked(place, "killed", *place.nv).begin(stderr=subprocess.DEVNULL)
    tracer = Tracer(place.folder, "killed", "--all", "--stack", *["--kernel"][:len(place.nv)], "--no-args", "-p", m.p.pid)
    m.go()
    until(lambda: '"symbol":"cu' in pathlib.Path(tracer.path).read_text())
    tracer.p.kill()
    tracer.p.wait()
    m.leave()
    assert found("all", tracer.path, tracer.said) == []


@pytest.mark.parametrize("hides", ["nothing", "strings", "arguments"])
def test_daemon(place, hides):
    """Metrics, spans, status, dump, log and files. Header, metrics, spans and status must state what is redacted."""
    word, port, folder = hides.replace("nothing", "none"), free_port(), place.folder
    (folder / "mode").write_text("200\n")
    got, dump, metrics, status = (folder / f"{hides}.{x}" for x in ("got", "dump.zst", "metrics", "status"))
    collector = place.start(sys.executable, TESTS + "/otlp/receiver.py", port, folder / "mode", got)
    d = place.daemon(hides + "-d", "--verbose", "--verbose", f"trace.redact={word}", "trace.kernel=true", "trace.functions=all",
                     f"otlp.endpoint=http://127.0.0.1:{port}",
                     "otlp.slow_call=0.001us", "otlp.iterations=cuStreamSynchronize", "otlp.interval=1s", level="trace")
    m = Marked(place, hides + "-d", *place.nv).begin(stderr=subprocess.DEVNULL)
    until(lambda: d.process(m.p.pid))
    m.go()
    metrics.write_text(fetch(f"http://{d.at}/metrics"))
    until(lambda: got.exists() and '"path": "/v1/traces"' in got.read_text())
    status.write_text(json.dumps(d.ctl("status")))
    d.ctl("dump", dump)
    d.stop()
    m.leave()
    collector.kill()
    files = list(d.files.iterdir())
    assert found(HIDDEN[hides], metrics, got, status, dump, d.log, *files) == []
    if hides == "nothing":
        in_each(metrics, got, status, dump, *files)
        names_of(place, *files, without="^(LIBRARY_PATH|SYMBOL_NAME|PERF_NAME)")
        return
    lines = list(lines_of(*files, dump))
    assert {e["redacted"] for e in lines if e["type"] == "header"} == {hides}
    if hides == "arguments":
        assert any(e.get("unfinished") for e in lines_of(*files))
        # There are no sums of what is redacted, and calls are counted.
        assert not re.search("^cudatrace_(transfer|memory)_", metrics.read_text(), re.M)
        assert re.search('^cudatrace_launches_total{.*command="marked"} 21$', metrics.read_text(), re.M)
        d = json.loads(status.read_text())
        assert d["redacted"] == "arguments" and "device_bytes" not in d["processes"][0]
        bodies = [json.loads(base64.b64decode(json.loads(line)["body"])) for line in got.read_text().splitlines()]
        for kind in ("resourceSpans", "resourceMetrics"):
            sets = [r["resource"]["attributes"] for b in bodies for r in b.get(kind, [])]
            assert sets and all({"key": "cudatrace.redacted", "value": {"stringValue": "arguments"}} in a for a in sets)


def test_reload(place):
    """trace.redact cannot change while the daemon runs: a change must have an effect on nothing or on all."""
    d = place.daemon("reload", level="trace")
    d.rules("off", "trace:\n  redact: arguments")
    ran = d.ask("reload")
    assert ran.status and "trace.redact has changed: restart the daemon to apply it" in ran.out + ran.err
    s = d.ctl("status")
    assert (s.get("redacted"), s["reloads"], s["reload_failures"]) == (None, 0, 1)
    d.stop()


@pytest.mark.parametrize("settings,says", [
    (["trace.redact=args"], "trace.redact: 'args' is not understood; write one of none, strings, arguments"),
    (["trace.redact=arguments", "recorder.on.memory_above=1G"], "memory_above needs sizes")])
def test_configuration(settings, says):
    ran = cudatrace("daemon", "--check-config", *(x for s in settings for x in ("--set", s)))
    assert ran.status and says in ran.out + ran.err
