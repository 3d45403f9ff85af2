# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 60
"""The cases of tests/cases, traced on the mock driver. The trace must contain what the program prints, and every call that
the mock driver counted, with each mechanism and both forms of entry points. The Chrome trace, the summary and a report of the
saved trace must agree with its lines."""
import collections
import concurrent.futures
import filecmp
import glob
import json
import os
import re

import pytest
from helpers.jsonl import Trace
from helpers.run import CASES, FAKE, FAKE535, O, ALL, TESTS, cudatrace, needs_mechanism, needs_tracing, passes

# Cases that wait until a tracer attaches are tested in finding; many has no expectations.
NAMES = sorted({os.path.basename(p)[:-2] for p in glob.glob(TESTS + "/cases/*.c")} - {"inflight", "late_names", "many"})
# The counts are lost when exec replaces the program.
NO_COUNTS = {"exec"}
# Cases whose result may differ between session at +0, which traces all cases, and multi or +10: nested and abandoned calls, threads,
# processes. The other cases run in check-all.
DIFFERS = {"nested", "longjmp", "threads", "fork", "exec", "dlopen_late", "exit_in_call", "launch"}
# Entry and return need one perf event each, and closing one takes 0.1 s on kernel 6.18: so only few functions.
PERF = {
    "longjmp": "cu*Callback,cuMemAlloc_v2",
    "threads": "cuMemAlloc_v2,cuMemFree_v2,cuMemsetD8_v2",
    "fork": "cuInit,cuMemAlloc_v2,cuMemFree_v2",
    "launch": "cuLaunchKernel,cuModuleGetFunction",
    "dlopen_late": "cuInit,cuMemAlloc_v2",
}
DRIVERS = ["fake", "fake535"]
ALL_FORMS = ("session", "fake")


def param(name, *args):
    return pytest.param(*args, name, marks=() if name in DIFFERS or args == ("session", "fake") else pytest.mark.long)


WAYS = [param(n, m) for m in ("session", "multi") for n in NAMES]
each_driver = pytest.mark.parametrize("driver", DRIVERS)


def trace_case(folder, mech, name, driver, functions=ALL):
    """Runs a case. Leaves trace.jsonl, expected, counts in the folder, and for one trace of each case the other forms. Returns the run."""
    os.makedirs(folder)
    forms = ["--summary", "--json", "--chrome", folder + "/trace.json"] if (mech, driver) == ALL_FORMS else []
    args = [f"{O}/{driver}/libcuda.so.1", "50"] if name == "dlopen_late" else []
    ran = cudatrace("-q", f"--mechanism={mech}", "-e", functions, "--jsonl", folder + "/trace.jsonl", *forms, "--", f"{CASES}/{name}", *args,
                    env={"LD_LIBRARY_PATH": f"{O}/{driver}", "FAKE_CUDA_COUNTS": folder + "/counts"})
    with open(folder + "/expected", "w", encoding="utf-8") as f:
        f.write(ran.out)
    if forms:
        with open(folder + "/summary", "w", encoding="utf-8") as f:
            f.write(ran.err)
        ran.err = re.sub(r'^\{"type":"summary".*\n', "", ran.err, flags=re.M)
    return ran


class Traced:
    """A case that was traced. Several run at once, because the kernel waits for its own locks most of the time."""

    def __init__(self, folder, ran):
        self.folder, self.ran = folder, ran
        self._trace = None

    @property
    def trace(self):
        if self._trace is None:
            assert self.ran.status == 0, self.ran
            self._trace = Trace(self.folder + "/trace.jsonl")
        return self._trace


@pytest.fixture(scope="module")
def traced(request):
    """traced(mechanism, name, driver). First runs all cases that the selected tests need."""
    needs_tracing()
    wanted = {}
    for item in request.session.items:
        if item.path == request.path and hasattr(item, "callspec"):
            p = item.callspec.params
            for driver in [p["driver"]] if "driver" in p else DRIVERS:
                wanted[p.get("mech", "perf"), p["name"], driver] = None
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        def begin(mech, name, driver):
            folder = f"{os.environ['TMP']}/{mech}-{driver}-{name}"
            return pool.submit(trace_case, folder, mech, name, driver, ALL if mech != "perf" else PERF[name]), folder
        running = {key: begin(*key) for key in wanted}
        done = {}

        def get(*key):
            if key not in done:
                future, folder = running[key]
                done[key] = Traced(folder, future.result())
            return done[key]
        yield get


def judge(t, name, counts_of=()):
    """A case's trace must match its expectations and the mock driver's counts of each symbol."""
    if t.ran.status == 77:
        pytest.skip(t.ran.err.strip().split("\n")[-1])
    assert t.ran.status == 0 and t.ran.err == "", t.ran
    passes("cases/expect.py", t.folder + "/trace.jsonl", t.folder + "/expected")
    assert t.trace.accounts()
    if name not in NO_COUNTS:
        passes("cases/expect.py", "--counts", t.folder + "/counts", *counts_of, t.folder + "/trace.jsonl")


@pytest.mark.parametrize("mech,driver,name", [param(n, m, d) for m in ("session", "multi") for d in DRIVERS for n in NAMES])
def test_case(traced, mech, name, driver):
    needs_mechanism(mech)
    judge(traced(mech, name, driver), name)


def normal(calls):
    """A trace without values that differ between runs: times, ids, addresses. Addresses are numbered in order of appearance, unless threads
    reuse each other's."""
    threads = collections.defaultdict(list)
    for e in sorted(calls, key=lambda e: (e["ts"], e["id"])):
        threads[e["pid"], e["tid"]].append(dict(e))

    def clean(value, seen):
        if isinstance(value, dict):
            return {k: clean(v, seen) for k, v in value.items() if k != "pMilliseconds"}
        if isinstance(value, list):
            return [clean(v, seen) for v in value]
        if isinstance(value, str) and re.fullmatch("0x[0-9a-f]{5,}", value):
            return seen.setdefault(value, f"address {len(seen)}") if len(threads) == 1 else "address"
        return value
    texts = []
    for events in threads.values():
        seen, text = {}, []
        place = {e["id"]: i for i, e in enumerate(events)}
        for e in events:
            for k in ("parent", "group"):
                if k in e:
                    e[k] = place.get(e[k])
            # Whether work is still pending depends on the speed of the machine.
            if e.get("op") == "query" and e.get("result") in (0, 600):
                e.pop("result")
            # Another thread may have the address again before the free has returned.
            if len(threads) > 1 and e.get("op") == "free":
                e.pop("size", None)
            # Parameters of kernels are recorded in-process only.
            for k in ("ts", "id", "pid", "tid", "duration_us", "elapsed_us", "bandwidth_gbps", "params"):
                e.pop(k, None)
            text.append(json.dumps(clean(e, seen), sort_keys=True))
        texts.append(text)
    # Threads start and end in any order.
    return sorted(texts)


@pytest.mark.parametrize("mech,name", WAYS)
def test_same_at_both_places(traced, mech, name):
    """Probes at +0 and at +10 of a function must give the same trace."""
    needs_mechanism(mech)
    traces = [traced(mech, name, driver).trace for driver in DRIVERS]
    at0, at10 = (normal(t.calls) for t in traces)
    assert at0 == at10, [t.ev[:50] for t in traces if not t.calls]


@pytest.mark.parametrize("mech,driver", [ALL_FORMS])
@pytest.mark.parametrize("name", NAMES)
def test_other_forms(traced, mech, name, driver):
    """The Chrome trace of the saved trace must equal the live one, byte for byte; the report's counts and all other forms must agree."""
    needs_mechanism(mech)
    t = traced(mech, name, driver)
    assert t.ran.status == 0, t.ran
    folder, head, end = t.folder, t.trace.head, t.trace.end
    ran = cudatrace("report", "-q", "--format=chrome", "-o", folder + "/again.json", folder + "/trace.jsonl")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert filecmp.cmp(folder + "/again.json", folder + "/trace.json", shallow=False)
    assert cudatrace("report", "-q", "--format=json", "--top", 100000, "-o", folder + "/report", folder + "/trace.jsonl").status == 0
    with open(folder + "/report", encoding="utf-8") as f:
        report = json.load(f)
    assert [report["files"][0][k] for k in ("events", "lines", "bad_lines")] == [sum(end["events"].values()), len(t.trace.ev), 0]
    seen = report["overview"]
    assert (seen["calls"], seen["version"]) == (end["calls"], head["version"])
    assert {k: v for k, v in seen["events"].items() if v} == {k: v for k, v in end["events"].items() if v}
    passes("cases/agree.py", folder + "/trace.jsonl", folder + "/trace.json", folder + "/report", folder + "/summary")


@pytest.mark.parametrize("mech,name", [("session", "nested"), ("multi", "nested")])
def test_header(traced, mech, name):
    needs_mechanism(mech)
    assert traced(mech, name, "fake").trace.head["mechanism"] == "uprobe." + mech
    # At +10, the first instruction is as in the file, which test_detach checks in memory.
    libraries = traced(mech, name, "fake535").trace.head["libraries"]
    assert [lib["path"] for lib in libraries] == [FAKE535 + "/libcuda.so.1"] and len(libraries[0]["build_id"]) == 40


@pytest.mark.parametrize("name", PERF)
@each_driver
def test_by_perf(traced, name, driver):
    needs_mechanism("perf")
    t = traced("perf", name, driver)
    assert t.ran.status == 0, t.ran
    # The expectations for the traced functions.
    with open(t.folder + "/expected", "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in t.ran.out.split("\n") if line.startswith("{") and json.loads(line)["symbol"] in t.trace.sym)
    judge(t, name, ["--present"])
    assert t.trace.calls and t.trace.head["mechanism"] == "uprobe"


def test_refused(tmp_path):
    """An entry point that the kernel refuses must be named, and no other call may be missing."""
    needs_tracing()
    folder = str(tmp_path / "locked")
    ran = trace_case(folder, "auto", "undocumented", "fakelocked", "all")
    assert re.fullmatch(r".*cannot probe the first instruction of cuFakeLocked in .*its calls are not traced.*\n", ran.err), ran
    passes("cases/expect.py", "--counts", folder + "/counts", folder + "/trace.jsonl", folder + "/expected")
    assert Trace(folder + "/trace.jsonl").accounts()
