# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
"""Outputs of traces of the sample program: files, selections, limits, messages, owners. test_ends.py tests interrupted traces."""
import collections
import filecmp
import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import tempfile

import pytest
from helpers.jsonl import Trace
from helpers.outputs import DEFAULT, ENDLESS, ENV, SAMPLE, chrome, ct, schema
from helpers.run import ALL, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing, until

TOP = os.path.dirname(TESTS)


@pytest.fixture(autouse=True, scope="module")
def can_trace():
    needs_tracing()


@pytest.fixture
def jsonl(tmp_path):
    return tmp_path / "a.jsonl"


def traced(path, *args):
    """The trace of the sample program with these options."""
    ran = ct("-q", *args, "--jsonl", path, "--", *SAMPLE)
    assert ran.status == 0, ran
    return Trace(path)


def said_counts(text):
    """The counts that the program prints with --counts."""
    return {k: int(v) for k, v in re.findall(r"^(cu\w+) (\d+)$", text, re.M)}


def own(calls):
    return collections.Counter(c["symbol"] for c in calls if "parent" not in c)


def test_files(tmp_path):
    """Several files of each kind must be written at once."""
    files = [tmp_path / f for f in ("a.jsonl", "a.json", "a.pftrace", "b.jsonl", "b.json", "b.pftrace")]
    ran = ct("--no-summary", "-e", ALL, *(x for f in files for x in (f"--{ {'.jsonl': 'jsonl', '.json': 'chrome', '.pftrace': 'perfetto'}[f.suffix]}", f)), "--", *SAMPLE, "--counts")
    assert (ran.status, ran.err) == (0, "")
    schema(files[0])
    t = Trace(files[0])
    head, end, calls = t.head, t.end, t.calls
    assert calls and end["reason"] == "command exited" and t.accounts()
    assert all({"ts", "type", "op", "name", "pid", "tid", "comm"} <= set(e) for e in t.ev[1:-1])
    assert all({"symbol", "id", "args", "duration_us", "result"} <= set(c) for c in calls)
    assert head["command"][1:] == ["--tokens", "3", "--layers", "2", "--counts"] and head["libraries"][0]["build_id"]
    assert head["not_traced"] and head["traced"] and head["clock_base_ns"] and head["wall_time"][-1] == "Z"
    assert said_counts(ran.out) == own(calls)
    # The trace must last as long as the program.
    assert 0 <= end["wall_ms"] - max(e["ts"] for e in t.proc) < 60 and end["ts"] == end["wall_ms"]
    theirs, last = chrome(files[1])
    assert len(theirs) == last["calls"] == len(calls) and last["not_written"] == 0
    for a, b in zip(files[:3], files[3:]):
        assert filecmp.cmp(a, b, shallow=False)


@pytest.mark.parametrize("there", [True, False])
def test_one_file_by_two_names(tmp_path, there):
    """Two outputs to one file must be refused, however the name is spelled, and before the file is overwritten."""
    (tmp_path / "d").mkdir()
    (tmp_path / "away").symlink_to("d")
    for link, to in (("link", "x"), ("second", "link"), ("far", tmp_path / "x"), ("d/up", "../x")):
        (tmp_path / link).symlink_to(to)
    names = ["./x", ".//x", "d/../x", "away/../x", tmp_path / "x", "link", "second", "far", "d/up", "away/up", "/proc/self/cwd/x"]
    if there:
        (tmp_path / "x").write_text("old\n")
        os.link(tmp_path / "x", tmp_path / "hard")
        names.append("hard")
    for name in names:
        for a, b in (("x", name), (name, "x")):
            for kind in ("chrome", "jsonl", "perfetto", "report"):
                ran = ct("--jsonl", a, f"--{kind}", b, "--", "true", cwd=tmp_path)
                assert ran.status == 2 and f"'{a}' and '{b}' are one file" in ran.err, (a, b, ran)
    assert (tmp_path / "x").exists() == there and (not there or (tmp_path / "x").read_text() == "old\n")
    # Also by a descriptor.
    for line in ('"$0" --jsonl - --chrome /dev/stdout -- true >x', '"$0" --jsonl - --chrome x -- true >>x', '"$0" --jsonl /dev/fd/7 --chrome /dev/fd/8 -- true 7>x 8>>x'):
        ran = ct_line(line, tmp_path)
        assert ran.status == 2 and "are one file" in ran.err, (line, ran)


def ct_line(line, folder):
    return Ran(["sh", "-c", line, CUDATRACE], cwd=folder)


def test_names_that_differ(tmp_path):
    """Files of other folders, devices, pipes and terminals must be accepted."""
    (tmp_path / "d").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for line in ("--jsonl x --chrome d/x", "--jsonl y --chrome Y", "--jsonl /dev/null --chrome /dev//null", "--jsonl - --chrome /dev/stdout",
                 "--jsonl /dev/stderr --chrome /dev/fd/2"):
        ran = ct_line(f'"$0" -q {line} -- true | cat', tmp_path)
        assert "one file" not in ran.err and "two outputs" not in ran.err, (line, ran)
    assert all((tmp_path / f).stat().st_size for f in ("x", "d/x", "y", "Y"))
    # Errors of opening are reported as usual.
    assert "Too many levels of symbolic links" in ct("--jsonl", "loop", "--chrome", "x", "--", "true", cwd=tmp_path).err
    assert "create the directory" in ct("--jsonl", "no/x", "--chrome", "no/y", "--", "true", cwd=tmp_path).err


def test_for_its_owner_alone(tmp_path, jsonl):
    """An old file must be replaced and keep its mode; new files have mode 0600."""
    jsonl.write_text("old\n")
    jsonl.chmod(0o644)
    assert traced(jsonl, "-e", "init", "--chrome", tmp_path / "a.json").accounts()
    new = tmp_path / "new.jsonl"
    traced(new, "-e", "init")
    assert [f.stat().st_mode & 0o777 for f in (jsonl, new, tmp_path / "a.json")] == [0o644, 0o600, 0o600]


@pytest.mark.parametrize("name", ['what? & "why" $x', "new\nline", " -dash"])
def test_names_of_files(tmp_path, name):
    assert traced(tmp_path / name, "-e", "init").accounts()


@pytest.mark.parametrize("kind", ["jsonl", "chrome"])
def test_stdout(jsonl, kind):
    ran = ct("-q", "-e", DEFAULT, f"--{kind}", "-", "--jsonl", jsonl, "--", "sh", "-c", '"$@" >/dev/null', "sh", *SAMPLE)
    t = Trace(jsonl)
    n = json.loads(ran.out.splitlines()[-1])["calls"] if kind == "jsonl" else sum(e["ph"] == "X" for e in json.loads(ran.out))
    assert len(t.calls) == n > 100 and t.accounts() and ran.err == ""


def test_appended(tmp_path):
    """Output must be appended to a file on standard output."""
    path = tmp_path / "out"
    path.write_text("before\n")
    with open(path, "ab") as out:
        subprocess.run([CUDATRACE, "-q", "-e", DEFAULT, "--jsonl", "-", "--", "true"], stdout=out, check=True)
    first, *lines = path.read_text().splitlines()
    assert (first, [json.loads(line)["type"] for line in lines]) == ("before", ["header", "process", "process", "end"])


def test_no_output_given(tmp_path):
    """Two traces in one second must get different default names."""
    for _ in range(2):
        ran = ct("-e", DEFAULT, "--", *SAMPLE, cwd=tmp_path)
    files = sorted(os.listdir(tmp_path / "traces"))
    assert len(files) == 2 and all(re.fullmatch(r"trace_20\d{6}_\d{6}(_\d+)?\.jsonl", f) for f in files)
    written = re.match(r"cudatrace: writing (traces/\S+)\n", ran.err)
    t = Trace(tmp_path / written[1])
    assert len(t.calls) > 100 and t.accounts()


# --- jq: as docs/SCHEMA.md and the README have them ---

@pytest.fixture(scope="module")
def with_jq():
    if not shutil.which("jq"):
        pytest.skip("needs jq")
    folder = os.environ["TMP"] + "/jq"
    os.mkdir(folder)
    traced(folder + "/trace.jsonl", "-e", DEFAULT)

    def jq(*args):
        out = subprocess.check_output(["jq", "-c", *args, folder + "/trace.jsonl"], text=True)
        return [json.loads(line) for line in out.splitlines()]
    jq.folder = folder
    return jq


def test_jq(with_jq):
    jq = with_jq
    types = jq(".type")
    assert (types.count("header"), types.count("end")) == (1, 1)
    assert {e["type"] for e in jq('select(.type=="memory")')} == {"memory"}
    allocations = jq('select(.type=="memory" and .op=="alloc") | {ts, size}')
    assert len(allocations) > 8 and all(isinstance(a["ts"], (int, float)) and a["size"] > 0 for a in allocations)
    launches = jq('select(.type=="kernel" and .op=="launch")')
    assert len(launches) > 10 and all(len(k["grid"]) == 3 and len(k["block"]) == 3 and isinstance(k["shared_mem"], int) and k["stream"].startswith("0x")
                                      and len(k["kernel"]) > 3 for k in launches)
    assert min(k["kernel"] for k in launches) == "gelu(float const*, float*, int)"
    when = jq('select(.name=="cuLaunchKernel") | .ts')
    assert len(when) > 10 and all(isinstance(t, (int, float)) for t in when)
    durations = jq("select(.duration_us) | {name, duration_us}")
    assert len(durations) > 100 and all(d["duration_us"] > 0 and d["name"].startswith("cu") for d in durations)
    assert jq("select(.error) | [.name, .error]") == [["cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY"]]
    assert set(jq("select(.direction).direction")) == {"DtoD", "DtoH", "HtoD"}


with open(TOP + "/docs/SCHEMA.md", encoding="utf-8") as page:
    BLOCK = page.read().partition("\n## With jq")[2].partition("```sh\n")[2].partition("\n```")[0]


@pytest.mark.parametrize("line", [line for line in BLOCK.splitlines() if not line.startswith("#")])
def test_jq_line(with_jq, line):
    """Every line of the page's block must work as written."""
    # Python and its children ignore SIGPIPE, so sort would report an error about head.
    p = subprocess.run(["env", "--default-signal=PIPE", "bash", "-c", line], cwd=with_jq.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    assert p.stderr == b""


# --- selection ---

SELECTIONS = {
    "launch": lambda t: t.calls and {c["type"] for c in t.calls} == {"kernel"} and t.head["traced"] == "launch",
    "launch,transfer,sync": lambda t: {c["type"] for c in t.calls} == {"kernel", "transfer", "sync"},
    "cuMemAlloc": lambda t: set(t.sym) == {"cuMemAlloc_v2"},
    "cuMemcpy*,cuStreamC*": lambda t: t.calls and all(s.startswith(("cuMemcpy", "cuStreamC")) for s in t.sym) and "cuStreamCreate" in t.sym,
    "memory,!cuMemGetInfo,!cuMemAlloc": lambda t: {c["type"] for c in t.calls} == {"memory"} and "cuMemAlloc_v2" not in t.sym and "cuMemFree_v2" in t.sym,
    "!event,query,!cu[FP]*[LI]*[de]": lambda t: t.calls and "event" not in {c["type"] for c in t.calls} and "cuCtxGetDevice" not in t.sym,
    # Later items win.
    "memory,!cuMem*,cuMemFree_v2": lambda t: set(t.sym) == {"cuMemFree_v2"},
    "query": lambda t: {c["op"] for c in t.calls} == {"query"} and t.sym["cuCtxGetDevice"] > 10,
    "none": lambda t: not t.calls,
}


@pytest.mark.parametrize("set_", SELECTIONS)
def test_selection(jsonl, set_):
    t = traced(jsonl, "-e", set_)
    assert SELECTIONS[set_](t) and t.accounts()


def test_selection_more_than_once(jsonl):
    """The last selection must win."""
    assert {c["type"] for c in traced(jsonl, "-e", "launch", "-e", "!cuLaunchKernelEx", "-e", "init").calls} == {"init"}


def test_left_out_is_said(jsonl):
    """Functions that are not traced must be in header, end and summary."""
    ran = ct("--summary=full", "-e", "!query,!event,!cu[FP]*[LI]*[de]", "--jsonl", jsonl, "--", *SAMPLE)
    t = Trace(jsonl)
    assert "event" in t.head["not_traced"] and "query" in t.head["not_traced"] and "event" not in t.head["traced"] and t.end["not_traced"] == t.head["not_traced"]
    assert re.search("^Not traced: .*event", ran.err, re.M)


def test_without_selection(jsonl):
    """The default must leave out queries and print no warning: the mock driver looks like a real one."""
    ran = ct("-q", "--jsonl", jsonl, "--", *SAMPLE)
    t = Trace(jsonl)
    assert t.calls and not [c for c in t.calls if c["op"] == "query"] and re.match(r"query \(\d+ functions\)", t.head["not_traced"])
    assert ran.silent(), ran
    # --detail=normal gives the same.
    assert traced(jsonl, "--detail=normal").sym == t.sym


def test_all(jsonl):
    t = traced(jsonl, "--all")
    assert t.sym["cuCtxGetDevice"] > 10 and t.head["not_traced"] in ("", "nothing", "none")
    t = traced(jsonl, "--all", "-e", "!launch,cuCtxGetCurrent")
    assert t.sym["cuMemAlloc_v2"] and t.sym["cuCtxGetDevice"] and not t.sym["cuLaunchKernel"] and not t.sym["cuCtxGetCurrent"]


def test_detail_low(jsonl):
    """The lowest level must have all of its functions and no others (no state). Kernels have names, and the report can read the trace."""
    low = {f["symbol"] for f in json.loads(cudatrace("list", "--detail=low", "--json").out)}
    ran = ct("-q", "--detail=low", "--jsonl", jsonl, "--", *SAMPLE, "--counts")
    t = Trace(jsonl)
    assert {k: n for k, n in said_counts(ran.out).items() if k in low} == own(t.calls) and len(t.sym) > 15 and t.accounts()
    assert not {c["op"] for c in t.calls} & {"query", "set", "record", "wait"} and "event (" in t.head["not_traced"]
    assert t.sym["cuLaunchKernel"] > 10 and all(c["kernel"] for c in t.calls if c["symbol"].startswith("cuLaunchKernel"))
    assert cudatrace("report", jsonl).status == 0
    sym = traced(jsonl, "--detail=low", "-e", "cuEventRecord,cuCtxGetDevice").sym
    assert sym["cuEventRecord"] and sym["cuCtxGetDevice"] and sym["cuLaunchKernel"] and not sym["cuCtxSetCurrent"]


def test_detail_high(jsonl):
    t = traced(jsonl, "--detail=high")
    assert t.sym["cuDeviceGetAttribute"] and t.sym["cuEventRecord"] and not t.sym["cuCtxGetDevice"] and t.accounts()


def test_what_low_would_save(jsonl):
    """The estimated saving must cover events, streams and stream waits, none of which costs much alone."""
    ct("-q", "--summary", "--jsonl", jsonl, "--", *SAMPLE, "--tokens", 300)
    end = Trace(jsonl).end
    assert max(end["costs"].values()) < end["cost_ms"] and 0.05 < end["detail_low_saving_ms"] / end["cost_ms"] < 0.9


# --- limits ---

@pytest.mark.parametrize("n", [1, 2, 10, 137])
def test_max_events(tmp_path, jsonl, n):
    t = traced(jsonl, "-e", DEFAULT, "--max-events", n, "--chrome", tmp_path / "a.json")
    assert len(t.ev) == n + 2 and sum(t.end["events"].values()) == n and t.end["reason"] == "max-events"
    calls, end = chrome(tmp_path / "a.json")
    assert end["events"] == n and len(calls) == end["calls"]


def test_max_events_with_a_command(jsonl):
    """The tracer must report that the command continues, and pass its status on."""
    ran = ct("-e", DEFAULT, "--max-events", 3, "--jsonl", jsonl, "--", "sh", "-c", '"$@"; sleep 0.3; exit 6', "sh", *SAMPLE)
    assert ran.status == 6 and "the trace has ended; waiting for sh" in ran.err


def test_duration_with_a_command(tmp_path, jsonl):
    """When the duration is over, the tracer must wait for the command."""
    done = tmp_path / "done"
    ran = ct("-q", "-e", DEFAULT, "--duration", 0.4, "--jsonl", jsonl, "--chrome", tmp_path / "a.json", "--",
             "sh", "-c", 'sleep 1.2; "$@"; >"$0"; exit 6', done, *SAMPLE)
    assert ran.status == 6 and done.exists()
    t = Trace(jsonl)
    assert t.end["reason"] == "duration" and 399 < t.end["wall_ms"] < 700 and not t.calls
    assert chrome(tmp_path / "a.json")[1]["reason"] == "duration"


def test_duration_of_a_process(running, jsonl):
    """With -p, the trace must end after the duration, and the target continues."""
    p = running.start(*ENDLESS, env=ENV)
    until(lambda: "libcuda" in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
    assert ct("-q", "-e", DEFAULT, "--duration", "300ms", "--jsonl", jsonl, "-p", p.pid).status == 0
    t = Trace(jsonl)
    assert t.end["reason"] == "duration" and t.calls and t.accounts() and t.end["wall_ms"] < 3000
    assert p.poll() is None


def test_min_duration(jsonl):
    t = traced(jsonl, "-e", DEFAULT, "--min-duration", 300)
    assert t.calls and min(c["duration_us"] for c in t.calls) >= 300 and t.end["filtered"] > 100 and t.accounts()


# --- messages ---

def test_silent(jsonl):
    """-q prints nothing. Without a terminal on stderr, one line replaces the summary; --no-summary leaves out both."""
    ran = ct("-q", "-e", DEFAULT, "--jsonl", jsonl, "--", *SAMPLE, "--quiet")
    assert ran.err == "" and ran.out.count("\n") == 1
    said = ct("-e", DEFAULT, "--jsonl", jsonl, "--", *SAMPLE).err
    assert re.fullmatch(rf"cudatrace: {Trace(jsonl).end['calls']:,} CUDA calls in [\d.]+ \w+, complete: {re.escape(str(jsonl))}\n", said)
    assert ct("--no-summary", "-e", DEFAULT, "--jsonl", jsonl, "--", *SAMPLE).err == ""


def test_summary(jsonl):
    said = ct("-e", DEFAULT, "--summary=full", "--jsonl", jsonl, "--", *SAMPLE).err
    assert re.search(r"^Summary: ([\d,]+) CUDA calls", said, re.M)[1].replace(",", "") == str(Trace(jsonl).end["calls"])
    assert re.search("^Tracing overhead: [0-9]+ calls", said, re.M)
    assert not [line for line in said.splitlines() if len(line) > 120]


def test_summary_as_json(jsonl):
    s = json.loads(ct("-q", "-e", DEFAULT, "--json", "--jsonl", jsonl, "--", *SAMPLE).err)
    t = Trace(jsonl)
    assert s["type"] == "summary" and s["calls"] == t.end["calls"] == sum(x["calls"] for x in s["functions"])
    assert s["errors"][0]["error"] == "CUDA_ERROR_OUT_OF_MEMORY"
    assert s["launches"]["total"] + s["launches"]["captured"] == len([c for c in t.calls if c["op"] == "launch" and c["type"] == "kernel"])


@pytest.mark.parametrize("option,there", [("", True), ("--no-summary", False)])
def test_summary_on_a_terminal(jsonl, option, there):
    if not shutil.which("script"):
        pytest.skip("needs script(1)")
    line = f"{shlex.quote(CUDATRACE)} -e '{DEFAULT}' {option} --jsonl {jsonl} -- {FAKE}/sample --quiet"
    said = subprocess.run(["script", "-qec", line, "/dev/null"], env={**os.environ, **ENV}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
    assert bool(re.search(rb"sample --quiet: .* CUDA calls, .*complete", said)) == there and Trace(jsonl).calls


def test_no_cuda(jsonl):
    ran = ct("-e", DEFAULT, "--jsonl", jsonl, "--", "true")
    assert ran.err == "cudatrace: true made no CUDA driver call that is traced\n"


def test_no_cuda_yet(jsonl):
    ran = ct("-e", DEFAULT, "--duration", "0.2", "--jsonl", jsonl, "--", "sleep", "1")
    assert "cudatrace: sleep made no CUDA driver call before the trace ended\n" in ran.err, ran.err


# --- owners ---

WHO = "id -u; id -g; id -G"
NOBODY = 65534
SUDO = {"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}


def test_user(tmp_path, jsonl):
    """The command must run as the other user; the trace stays ours."""
    os.chmod(os.environ["TMP"], 0o711)
    os.chmod(tmp_path, 0o711)
    ran = ct("-q", "-e", "launch", "--user", "nobody", "--jsonl", jsonl, "--", "sh", "-c", WHO + "; echo $HOME $USER")
    theirs = subprocess.check_output(["runuser", "-u", "nobody", "--", "sh", "-c", WHO], text=True).split()
    assert ran.out.split() == [*theirs, pwd.getpwnam("nobody").pw_dir, "nobody"] and jsonl.stat().st_uid == 0
    assert ct("-q", "-e", "launch", "--user", 12345, "--jsonl", jsonl, "--", "sh", "-c", WHO).out.split() == ["12345"] * 3


def test_sudo():
    """The command must run as sudo's caller, who must own the traces."""
    # $TMP may lie below folders that only root may enter.
    with tempfile.TemporaryDirectory(prefix="cudatrace-sudo-", dir="/tmp") as home:
        os.chown(home, NOBODY, NOBODY)
        ct("-e", "launch", "--chrome", "c.json", "--", "sh", "-c", WHO, cwd=home, env=SUDO)
        ct("-e", "launch", "--", "true", cwd=home, env=SUDO)
        ran = ct("-q", "-e", "launch", "--jsonl", home + "/a.jsonl", "--", "sh", "-c", WHO, env=SUDO)
        assert ran.out.split()[:2] == [str(NOBODY)] * 2
        (saved,) = os.listdir(home + "/traces")
        for f in "a.jsonl", "c.json", "traces", "traces/" + saved:
            st = os.stat(f"{home}/{f}")
            assert (st.st_uid, st.st_gid) == (NOBODY, NOBODY), f
        ran = ct("-q", "-e", "launch", "--user", "root", "--jsonl", home + "/b.jsonl", "--", "id", "-u", env=SUDO)
        assert (ran.out, os.stat(home + "/b.jsonl").st_uid) == ("0\n", NOBODY)
        # In-process, a thread without privileges exists by then.
        ran = ct("-q", "--probe=inject", "--jsonl", home + "/c.jsonl", "--", "id", "-u", env=SUDO)
        assert (ran.status, ran.out, os.stat(home + "/c.jsonl").st_uid) == (0, f"{NOBODY}\n", NOBODY), ran


def test_sudo_nonsense(jsonl):
    ran = ct("-q", "-e", "launch", "--jsonl", jsonl, "--", "id", "-u", env={"SUDO_UID": "nobody", "SUDO_GID": "x"})
    assert (ran.status, ran.out) == (0, "0\n")


def test_children(jsonl):
    """Children must be followed, unless --no-follow is given."""
    ct("-q", "-e", "init", "--jsonl", jsonl, "--", "sh", "-c", '"$@"; "$@"', "sh", *SAMPLE)
    t = Trace(jsonl)
    assert t.sym["cuInit"] == 2 and [p["op"] for p in t.proc].count("fork") == 2 and t.accounts()
    ct("-q", "-e", "init", "--no-follow", "--jsonl", jsonl, "--", "sh", "-c", '"$@"; "$@"; exec "$@"', "sh", *SAMPLE)
    t = Trace(jsonl)
    assert t.sym["cuInit"] == 1 and len({c["pid"] for c in t.calls}) == 1 and t.accounts()


TALKS = 'echo one; echo "{\\"x\\":"; "$0" --tokens 1 --layers 1; echo two >&2; printf "no newline"; exit 3'


@pytest.mark.parametrize("probe", ["uprobe", "inject"])
@pytest.mark.parametrize("option,path,read", [("--jsonl", "-", lambda text: [json.loads(line) for line in text.splitlines()]), ("--chrome", "-", json.loads),
                                              ("--jsonl", "/dev/stdout", lambda text: [json.loads(line) for line in text.splitlines()]),
                                              ("--jsonl", "/proc/self/fd/1", lambda text: [json.loads(line) for line in text.splitlines()])])
def test_command_prints(tmp_path, probe, option, path, read):
    """The command's output must not mix with a trace on stdout, a pipe or a file: it must go to stderr, and a line reports that."""
    needs_tracing()
    args = ["--no-summary", "--probe", probe, option, path, "--", "sh", "-c", TALKS, FAKE + "/sample"]
    ran = cudatrace(*args, env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 3 and len(read(ran.out)) > 50, ran
    assert [x in ran.err for x in ("one\n", '{"x":\n', "two\n", "no newline")] == [True] * 4 and "1 tokens" in ran.err, ran
    assert ran.err.count("the trace is written to stdout: the output of sh goes to stderr") == 1, ran
    with open(tmp_path / "out", "w", encoding="utf-8") as out:
        subprocess.run([CUDATRACE, "-q", *args], stdout=out, stderr=subprocess.DEVNULL, env={**os.environ, "LD_LIBRARY_PATH": FAKE}, check=False)
    assert len(read((tmp_path / "out").read_text(encoding="utf-8"))) > 50


def test_command_prints_elsewhere(tmp_path):
    """With the trace in a file, the command's output must go to stdout as usual."""
    needs_tracing()
    for path in tmp_path / "t.jsonl", "/dev/null":
        ran = cudatrace("--no-summary", "--jsonl", path, "--", "sh", "-c", TALKS, FAKE + "/sample", env={"LD_LIBRARY_PATH": FAKE})
        assert ran.status == 3 and ran.out.startswith('one\n{"x":\n') and ran.out.endswith("no newline") and "goes to stderr" not in ran.err, ran
