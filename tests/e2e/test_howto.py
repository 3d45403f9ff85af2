# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1200
# takes: 40 100
# cpus: 2
"""Follows the documents HOWTO_ADD_*.md word for word in a copy of this tree, with no other changes.

A finding must be in the report as text and JSON. A metric must be at /metrics, reach a collector, be in the documents, and pass
the check of the dashboard. Calls into a library must have names, arguments, errors and nesting, and be in list, summary and
metrics. Records of a producer must become lines of the trace, in order and with their own ids, and be counted in the daemon."""
import collections
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import urllib.request

import pytest
from helpers.jsonl import Trace
from helpers.otlp import Received
from helpers.ports import free_port
from helpers.run import FAKE, O, TESTS, Ran, needs_tracing, until

TOP = os.path.dirname(TESTS)
# "In `FILE`, after `TEXT`:", followed by indented lines.
EDIT = re.compile(r"In\s+`([^`]+)`,\s+after\s+`([^`]+)`:\n\n((?:(?: {7,}.*)?\n)+)")
# "The new file `FILE`:"
FILE = re.compile(r"The new file\s+`([^`]+)`:\n\n((?:(?: {7,}.*)?\n)+)")
COMMANDS = re.compile(r"from the rows:\n\n((?: {7,}.*\n)+)")


def copy_of_tree(to):
    """Copies the tree with its build, so that only changed files are rebuilt."""
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, capture_output=True, check=True).stdout
    for name in filter(os.path.exists, files.decode().split("\0")):
        os.makedirs(os.path.dirname(f"{to}/{name}"), exist_ok=True)
        shutil.copy2(name, f"{to}/{name}")
    shutil.copytree(O, to + "/build", ignore=shutil.ignore_patterns("check", "san", "fuzz*", "vm", ".tmp.*"), symlinks=True)


def followed(to, page, edits, files=0):
    """A copy of this tree with the edits and new files of a page applied; returns the page."""
    copy_of_tree(to)
    with open(f"{TOP}/docs/{page}", encoding="utf-8") as f:
        howto = f.read()
    found = EDIT.findall(howto)
    assert len(found) == edits
    for path, text, lines in found:
        insert_after(f"{to}/{path}", text, textwrap.dedent(lines).rstrip("\n").split("\n"))
    found = FILE.findall(howto)
    assert len(found) == files
    for path, lines in found:
        assert not os.path.exists(f"{to}/{path}")
        with open(f"{to}/{path}", "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(lines).rstrip("\n") + "\n")
    return howto


def insert_after(path, text, lines):
    with open(path, encoding="utf-8") as f:
        old = f.read().split("\n")
    at = [i for i, line in enumerate(old) if text in line]
    assert len(at) == 1, f"{path}: {len(at)} lines with {text}"
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(old[:at[0] + 1] + lines + old[at[0] + 1:]))


def sh(tree, command):
    ran = Ran(["bash", "-ec", "unset O MAKEFLAGS MAKELEVEL; " + command], cwd=tree, timeout=900)
    return ran, ran.out + ran.err


def get(port, path):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{port}/{path}", timeout=10).read().decode()
    except OSError:
        return None


def served(tree, tmp, name):
    """Returns the metrics of the tree's daemon at /metrics; a collector must receive the metric, too."""
    port, collector = free_port(), free_port()
    (tmp / "mode").write_text("200")
    (tmp / "c.yaml").write_text("level: off\n")
    receiver = subprocess.Popen([sys.executable, TESTS + "/otlp/receiver.py", str(collector), tmp / "mode", tmp / "got"])
    sets = {"files.directory": tmp / "files", "ctl.socket": tmp / "ctl", "metrics.listen": f"127.0.0.1:{port}",
            "otlp.endpoint": f"http://127.0.0.1:{collector}", "otlp.interval": "1s"}
    daemon = subprocess.Popen([tree + "/build/cudatrace", "daemon", "--config", tmp / "c.yaml", "--libcuda", O + "/fake/libcuda.so.1",
                               *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))])
    try:
        until(lambda: get(port, "healthz") is not None or daemon.poll() is not None, 20)
        text = get(port, "metrics")
        until(lambda: (tmp / "got").exists() and "/v1/metrics" in (tmp / "got").read_text() or daemon.poll() is not None, 10)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        receiver.kill()
        daemon.wait()
        receiver.wait()
    assert name in Received(tmp / "got").prometheus_names()
    return text


@pytest.mark.long
def test_metric(tmp_path):
    needs_tracing()
    tree = str(tmp_path / "tree")
    howto = followed(tree, "HOWTO_ADD_METRIC.md", edits=3)
    build, update = textwrap.dedent(COMMANDS.search(howto)[1]).strip().split("\n")
    ran, said = sh(tree, build + " WERROR=1")
    assert not ran.status, said[-3000:]

    name, doc = "cudatrace_self_uptime_seconds", tree + "/docs/METRICS.md"
    assert name in howto
    # The documents lack the metric: the test must report that, with the command to update them.
    ran, said = sh(tree, "build/unit/test_metrics")
    assert ran.status and update in said, said[-3000:]
    ran, said = sh(tree, update)
    assert not ran.status, said[-3000:]
    ran, said = sh(tree, "build/unit/test_metrics")
    assert not ran.status, said[-3000:]
    with open(doc, encoding="utf-8") as f:
        assert f"| `{name}` | gauge | s | | How long the daemon has run. |" in f.read()

    # The dashboard may now use the metric, which it could not before.
    with open(tree + "/dist/grafana/cudatrace.json", "r+", encoding="utf-8") as f:
        dash = json.load(f)
        next(p for p in dash["panels"] if p.get("targets"))["targets"][0]["expr"] = f'{name}{{instance=~"$node"}}'
        f.seek(0)
        f.truncate()
        json.dump(dash, f)
    knows = "python3 tests/prometheus/dashboard.py names "
    ran, said = sh(tree, knows + doc)
    assert not ran.status, said
    ran, said = sh(tree, f"{knows} {TOP}/docs/METRICS.md")
    assert ran.status and name in said

    text = served(tree, tmp_path, name)
    value = re.search(rf"(?m)^# TYPE {name} gauge\n{name} ([0-9.e-]+)$", text)
    assert value and 0 < float(value[1]) < 600, text[-2000:]


TOY_C = """
struct ball { int colour; unsigned long weight; };
extern int (*driver(const char *))();
int toyMake(unsigned long *toy, int colour) { if (!toy) return 2; *toy = 0x70 + colour; return colour < 0 ? 3 : 0; }
int toyThrow(unsigned long toy, const struct ball *ball, int times)
{
	unsigned long p;

	if (!ball)
		return 2;
	for (int i = 0; i < times; i++)
		driver("cuMemAlloc_v2")(&p, ball->weight);
	return 0;
}
const char *toyName(unsigned long toy) { return "toy"; }
int toyUnknown(int a) { return a; }
"""

# The toy makes calls in a driver's callback, and the driver's calls are made in the toy.
PROGRAM_C = """
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void *cuda;
int (*driver(const char *name))() { void *p = dlsym(cuda, name); if (!p) abort(); return (int (*)())p; }
struct ball { int colour; unsigned long weight; };
static int (*make)(unsigned long *, int), (*throw)(unsigned long, const struct ball *, int);
static void callback(void *toy) { make(toy, 0); }
int main(int argc, char **argv)
{
	struct ball ball = {1, 4096};
	unsigned long toy = 0, none;
	void *lib, *ctx;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	lib = dlopen("libtoy.so.1", RTLD_NOW);
	if (!cuda || !lib) abort();
	if (getenv("TOY_WAIT")) read(0, &toy, 1); /* the daemon stops nobody */
	toy = 0;
	make = (int (*)(unsigned long *, int))dlsym(lib, "toyMake");
	throw = (int (*)(unsigned long, const struct ball *, int))dlsym(lib, "toyThrow");
	driver("cuInit")(0);
	driver("cuDevicePrimaryCtxRetain")(&ctx, 0);
	driver("cuCtxSetCurrent")(ctx);
	if (make(&toy, 1) || make(NULL, 1) != 2 || make(&none, -1) != 3) abort();
	if (throw(toy, &ball, 2) || throw(toy, NULL, 0) != 2) abort();
	((const char *(*)(unsigned long))dlsym(lib, "toyName"))(toy);
	((int (*)(int))dlsym(lib, "toyUnknown"))(0);
	driver("cuFakeCallback")(callback, &toy);
	return 0;
}
"""


def daemon_logs(tree, tmp, program, env):
    """/metrics after the program has run."""
    port = free_port()
    (tmp / "c.yaml").write_text("level: metrics\n")
    sets = {"files.directory": tmp / "files", "ctl.socket": tmp / "ctl", "metrics.listen": f"127.0.0.1:{port}"}
    daemon = subprocess.Popen([tree + "/build/cudatrace", "daemon", "--config", tmp / "c.yaml",
                               *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))])
    try:
        until(lambda: get(port, "healthz") is not None or daemon.poll() is not None, 20)
        ctl = [tree + "/build/cudatrace", "ctl", "--set", f"ctl.socket={tmp}/ctl", "status"]
        with subprocess.Popen([program], env={**os.environ, **env, "TOY_WAIT": "1"}, stdin=subprocess.PIPE) as toy:
            until(lambda: "libtoy.so.1" in Ran(ctl).out, 10)
            toy.stdin.write(b".")
        until(lambda: 'api="toy"' in get(port, "metrics"), 10)
        return get(port, "metrics")
    finally:
        daemon.kill()
        daemon.wait()


def tables_of_page(tree, trace, path):
    """The descriptions of tables in the HTML report of a trace, by name."""
    assert Ran([tree + "/build/cudatrace", "-q", "report", "--format=html", "-o", path, trace]).status == 0
    with open(path, encoding="utf-8") as f:
        return {t["name"]: t for t in json.loads(re.search(r'id="rows">(.*?)</script>', f.read(), re.S)[1])}


def csv_of(tree, trace, table):
    ran = Ran([tree + "/build/cudatrace", "report", "--format=csv", "--section=" + table, trace])
    assert ran.status == 0, ran
    return list(csv.DictReader(io.StringIO(ran.out)))


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    """A tree in which HOWTO_ADD_ANALYSIS.md was followed."""
    tree = str(tmp_path_factory.mktemp("analysis") / "tree")
    followed(tree, "HOWTO_ADD_ANALYSIS.md", edits=3, files=2)
    ran, said = sh(tree, "make WERROR=1 all build/unit/test_findings build/unit/test_section && build/unit/test_findings && build/unit/test_section")
    assert not ran.status, said[-3000:]
    return tree


@pytest.mark.long
def test_section(analysis, tmp_path):
    """A new section, a file with its rows and a row of the list, must be in text, JSON, schema, CSV, the page, diff and the document."""
    trace = TESTS + "/golden/h200-triton.jsonl"
    program = analysis + "/build/cudatrace"
    found = json.loads(Ran([program, "report", "--format=json", trace]).out)
    threads = found["threads"]["list"]
    assert found["threads"]["count"] == len(threads) > 0 and sum(t["calls"] for t in threads) > 50
    old = json.loads(Ran([O + "/cudatrace", "report", "--format=json", trace]).out)
    assert {k: v for k, v in found.items() if k != "threads"} == old
    text = Ran([program, "report", "--section=threads", trace]).out
    assert re.search(rf"(?m)^  +thread  calls +time  name\n +{threads[0]['tid']}  ", text), text
    assert "threads           calls by thread\n" in Ran([program, "report", "--list-sections"]).out
    schema = json.loads(Ran([program, "list", "--schema=report"]).out)["properties"]["threads"]
    assert schema["properties"]["list"]["items"]["properties"]["call_ns"]["description"] == "time in them"
    assert [row["call_ns"] for row in csv_of(analysis, trace, "threads.list")] == [str(t["call_ns"]) for t in threads]
    assert [c["path"] for c in tables_of_page(analysis, trace, tmp_path / "page.html")["threads.list"]["columns"]] == [["pid"], ["tid"], ["calls"], ["call_ns"], ["comm"]]
    changes = json.loads(Ran([program, "diff", "--json", trace, TESTS + "/golden/h200-gpt2-tokens.jsonl"]).out)["all"]
    assert next(x for x in changes if x["name"] == "threads with calls")["count_before"] == len(threads)
    ran, said = sh(analysis, "! tools/doc-tables.py --check build/cudatrace && tools/doc-tables.py build/cudatrace && tools/doc-tables.py --check build/cudatrace")
    assert not ran.status, said[-3000:]
    with open(analysis + "/docs/REPORT.md", encoding="utf-8") as f:
        assert "| `list[].call_ns` | number | yes | time in them |" in f.read().split("\n## threads\n")[1]


@pytest.mark.long
def test_finding(analysis):
    tree = analysis
    ran, said = sh(tree, "build/unit/test_findings")
    assert not ran.status, said[-3000:]

    trace = TESTS + "/golden/h200-gpt2-tokens.jsonl"
    report = [tree + "/build/cudatrace", "report", trace]
    found = json.loads(Ran([*report, "--format=json"]).out)
    it = found["iterations"]
    new = next(x for x in found["findings"] if x["id"] == "long-warm-up")
    evidence = {e["what"]: e["number"] for e in new["evidence"]}
    assert evidence["iterations of the warm-up"] == it["warmup"] == 5
    later = 5 * it["time_ns"]["mean"]
    assert new["lost_ns"] == pytest.approx(evidence["time in them"] - later, rel=1e-5) and new["lost_ns"] > later
    assert new["text"].startswith("The first 5 iterations took ") and "{" not in new["text"]
    # The other findings are unchanged.
    old = json.loads(Ran([O + "/cudatrace", *report[1:], "--format=json"]).out)
    assert [x for x in found["findings"] if x != new] == old["findings"]
    text = " ".join(Ran([*report, "--full"]).out.split())
    assert f"{new['title']}: " in text and new["text"] in text and new["advice"] in text


@pytest.mark.long
def test_member(tmp_path):
    """After adding a row and its value, JSON, text, schema, CSV, the page and the document must have the number."""
    tree = str(tmp_path / "tree")
    followed(tree, "HOWTO_ADD_MEMBER.md", edits=2)
    ran, said = sh(tree, "make WERROR=1 all && ! tools/doc-tables.py --check build/cudatrace && tools/doc-tables.py build/cudatrace")
    assert not ran.status, said[-3000:]

    report = [tree + "/build/cudatrace", "report", TESTS + "/golden/h200-triton.jsonl"]
    kernels = json.loads(Ran([*report, "--format=json"]).out)["kernels"]["list"]
    assert len(kernels) > 5 and all(k["warps"] == -(-k["block"][0] * k["block"][1] * k["block"][2] // 32) for k in kernels)
    heads, first = re.search(r"(?m)^(  launches .*)\n(.*)$", Ran([*report, "--full"]).out).groups()
    at = heads.index("warps") + len("warps")
    assert first[:at].split()[-1] == str(kernels[0]["warps"])
    # Otherwise the report is unchanged.
    old = json.loads(Ran([O + "/cudatrace", *report[1:], "--format=json"]).out)["kernels"]["list"]
    assert [{n: v for n, v in k.items() if n != "warps"} for k in kernels] == old

    schema = json.loads(Ran([tree + "/build/cudatrace", "list", "--schema=report"]).out)["properties"]["kernels"]["properties"]["list"]["items"]
    assert schema["properties"]["warps"] == {"description": "warps of the largest block", "type": "integer", "minimum": 0}
    assert "warps" not in schema["required"] and not schema["additionalProperties"]
    with open(tree + "/docs/REPORT.md", encoding="utf-8") as f:
        assert "| `list[].warps` | number |  | warps of the largest block |" in f.read()
    assert [row["warps"] for row in csv_of(tree, report[2], "kernels.list")] == [str(k["warps"]) for k in kernels]
    column = next(c for c in tables_of_page(tree, report[2], tmp_path / "page.html")["kernels.list"]["columns"] if c["path"] == ["warps"])
    assert column["head"] == "warps" and column["text"] == "warps of the largest block" and column["type"] == "count"


@pytest.mark.long
def test_library(tmp_path):
    needs_tracing()
    tree = str(tmp_path / "tree")
    followed(tree, "HOWTO_ADD_LIBRARY.md", edits=1, files=1)
    ran, said = sh(tree, "make WERROR=1 all build/unit/test_cuda_tables build/unit/test_value && build/unit/test_cuda_tables && build/unit/test_value")
    assert not ran.status, said[-3000:]
    (tmp_path / "toy.c").write_text(TOY_C)
    (tmp_path / "program.c").write_text(PROGRAM_C)
    ran, said = sh(str(tmp_path), "cc -O1 -w -fPIC -shared -o libtoy.so.1 toy.c && cc -O1 -w -rdynamic -o program program.c -ldl")
    assert not ran.status, said
    env = {"LD_LIBRARY_PATH": f"{tmp_path}:{FAKE}"}
    new, program = tree + "/build/cudatrace", str(tmp_path / "program")

    rows = json.loads(Ran([new, "list", "--json", "-e", "toy*"], env=env).out)
    assert {(r["symbol"], r["api"]) for r in rows} == {(s, "toy") for s in ("toyMake", "toyThrow", "toyName", "toyUnknown")}
    assert all(r["exported"] for r in rows)

    path = str(tmp_path / "toy.jsonl")
    ran = Ran([new, "-q", "-e", "all,!cu[FP]*[LI]*[de]", "--jsonl", path, "--summary", "--", program], env=env)
    assert ran.status == 0, ran
    for word in ("toyMake", "toyThrow", "toyBroken"):
        assert word in ran.err, ran
    trace = Trace(path)
    assert trace.accounts()
    toys = [e for e in trace.calls if e.get("api") == "toy"]
    got = [(e["symbol"], e.get("result"), e.get("error"), e.get("depth", 0), e.get("api_depth", e.get("depth", 0))) for e in toys]
    assert got == [("toyMake", 0, None, 0, 0), ("toyMake", 2, "toyBroken", 0, 0), ("toyMake", 3, None, 0, 0),
                   ("toyThrow", 0, None, 0, 0), ("toyThrow", 2, "toyBroken", 0, 0), ("toyName", None, None, 0, 0),
                   ("toyUnknown", 0, None, 0, 0), ("toyMake", 0, None, 1, 0)]
    assert toys[0]["args"] == {"toy": 0x71, "colour": "toyBlue"}
    assert toys[3]["args"] == {"toy": 0x71, "ball": {"colour": "toyBlue", "weight": 4096}, "times": 2}
    by_id = {e["id"]: e for e in trace.calls}
    inside = [e for e in trace.calls if e["symbol"] == "cuMemAlloc_v2"]
    assert [(by_id[e["parent"]]["symbol"], e["depth"], e["api_depth"]) for e in inside] == [("toyThrow", 1, 0)] * 2
    assert by_id[toys[-1]["parent"]]["symbol"] == "cuFakeCallback"

    lines = daemon_logs(tree, tmp_path, program, env).split("\n")
    counted = collections.Counter()
    for line in lines:
        found = re.search(r'^cudatrace_calls_total\{.*command="program",function="(toy\w+)".*api="toy".*\} (\d+)', line)
        if found:
            counted[found[1]] += int(found[2])
    assert counted == {"toyMake": 4, "toyThrow": 2, "toyUnknown": 1}, counted  # the query is not counted
    failed = [line for line in lines if line.startswith("cudatrace_errors_total") and "toyBroken" in line]
    assert len(failed) == 2 and all('api="toy"' in line and line.endswith(" 1") for line in failed), failed


# Makes calls for half a second, some nested.
BUSY_C = """
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void *cuda;
static int (*f(const char *name))() { void *p = dlsym(cuda, name); if (!p) abort(); return (int (*)())p; }
static void callback(void *ctx) { f("cuCtxSetCurrent")(ctx); }
int main(void)
{
	void *ctx;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda) abort();
	f("cuInit")(0);
	f("cuDevicePrimaryCtxRetain")(&ctx, 0);
	for (int i = 0; i < 500; i++) {
		f("cuFakeCallback")(callback, ctx);
		usleep(1000);
	}
	return 0;
}
"""


def ticks_of_daemon(tree, tmp, level, then=None):
    """Runs the daemon with a process that has no probes. Returns how many of its calls are counted, and how many are lines. THEN is a level
    to set after some calls. Other programs are traced and dumped, too, but do not count."""
    port = free_port()
    (tmp / "c.yaml").write_text(f"level: {level}\n")
    sets = {"files.directory": tmp / level, "files.compress": "none", "ctl.socket": tmp / "ctl", "metrics.listen": f"127.0.0.1:{port}"}
    daemon = subprocess.Popen([tree + "/build/cudatrace", "daemon", "--config", tmp / "c.yaml",
                               *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))])

    def counted():
        found = re.search(r'(?m)^cudatrace_calls_total\{(?=.*command="cudatrace").*function="cuCtxSynchronize".*\} (\d+)$', get(port, "metrics") or "")
        return int(found[1]) if found else 0

    def lines():
        all_lines = (line for path in (tmp / level).glob("*.jsonl") if not path.name.startswith("dump-") for line in path.open())
        return sum('"cuCtxSynchronize"' in line and f'"pid":{daemon.pid},' in line for line in all_lines)
    try:
        until(lambda: counted() > 20 or daemon.poll() is not None, 20)
        if then:
            assert not lines()
            ran = Ran([tree + "/build/cudatrace", "ctl", "--set", f"ctl.socket={tmp}/ctl", "level", str(daemon.pid), then])
            assert ran.status == 0, ran
            before = counted()
            until(lambda: counted() > before + 20 or daemon.poll() is not None, 20)
        cnt = counted()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
        return cnt, lines()
    finally:
        daemon.kill()
        daemon.wait()


@pytest.mark.long
def test_producer(tmp_path):
    needs_tracing()
    tree = str(tmp_path / "tree")
    followed(tree, "HOWTO_ADD_PRODUCER.md", edits=1, files=1)
    ran, said = sh(tree, "make WERROR=1 all")
    assert not ran.status, said[-3000:]
    (tmp_path / "busy.c").write_text(BUSY_C)
    ran, said = sh(str(tmp_path), "cc -O1 -w -o busy busy.c -ldl")
    assert not ran.status, said

    def traced(*options):
        path = str(tmp_path / "tick.jsonl")
        ran = Ran([tree + "/build/cudatrace", "-q", "-e", "all,!cu[FP]*[LI]*[de]", *options, "--jsonl", path, "--", str(tmp_path / "busy")],
                  env={"LD_LIBRARY_PATH": FAKE})
        assert ran.status == 0, ran
        return Trace(path)

    trace = traced()
    # The producer's own losses are counted and reported.
    lost = trace.end["drops"]["calls"]
    assert trace.accounts(drops=lost)
    assert all(e["name"] == "clock" for e in trace.ev if e["type"] == "tracer")
    assert sum(e["events"] for e in trace.ev if e["type"] == "tracer") == lost
    ticks = [e for e in trace.calls if e["symbol"] == "cuCtxSynchronize"]
    others = [e for e in trace.calls if e["symbol"] != "cuCtxSynchronize"]
    assert len(ticks) > 10 and len({e["pid"] for e in ticks}) == 1 and ticks[0]["comm"] == "cudatrace"
    assert [e["id"] - ticks[0]["id"] for e in ticks] == list(range(len(ticks)))
    assert len(others) == 1002 and {e["comm"] for e in others} == {"busy"}
    # Ids of the BPF programs' calls are unchanged.
    assert max(e["id"] for e in others) < 2 ** 48 <= 2 * 2 ** 48 < ticks[0]["id"] < 2 ** 53
    by_id = {e["id"]: e for e in trace.calls}
    assert len(by_id) == len(trace.calls)
    assert all(by_id[e["parent"]]["symbol"] == "cuFakeCallback" for e in others if "parent" in e)
    assert sum("parent" in e for e in others) == 500
    # Calls are ordered by their ends, and the producers' calls are mixed.
    ends = [e["ts"] + e["duration_us"] / 1000 for e in trace.calls]
    assert all(a <= b + 1e-5 for a, b in zip(ends, ends[1:]))
    kinds = ["tick" if e["symbol"] == "cuCtxSynchronize" else "other" for e in trace.calls]
    assert sum(a != b for a, b in zip(kinds, kinds[1:])) > 10

    # Counted from the start, and from a level change on.
    trace = traced("--count", "cuCtxSynchronize")
    assert trace.accounts() and "cuCtxSynchronize" not in trace.sym
    assert trace.end["counted"]["cuCtxSynchronize"]["calls"] > 10
    trace = traced("--max-overhead", "0.001")
    told = [e["to"] for e in trace.ev if e.get("op") == "level" and e["name"] == "cuCtxSynchronize"]
    assert trace.accounts() and told[0] == "count", told
    assert trace.sym["cuCtxSynchronize"] > 10 and trace.end["counted"]["cuCtxSynchronize"]["calls"] > 10

    cnt, lines = ticks_of_daemon(tree, tmp_path, "trace")
    assert cnt > 20 and lines >= cnt
    # Calls continue after the query.
    cnt, lines = ticks_of_daemon(tree, tmp_path, "metrics", then="trace")
    assert cnt > 40 and lines > 10, (cnt, lines)
