# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 70
# own processes
"""Security: what a running tracer can still do, what works without root, and the contents of records. Suite files tests obstacles that
other users place in the way of files."""
import contextlib
import glob
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from helpers.daemon import fetch, free_port
from helpers.jsonl import Trace
from helpers.live import compiled, is_gone
from helpers.outputs import ENDLESS, schema
from helpers.run import CASES, CUDATRACE, FAKE, O, TESTS, Ran, cudatrace, needs_mechanism, needs_tracing, traced, until
from runner.contain import descendants

ENV = {"LD_LIBRARY_PATH": FAKE}
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
STATIC = O + "/cudatrace-static"
BOTH = pytest.mark.parametrize("program", [CUDATRACE, STATIC], ids=["cudatrace", "static"])
GOLDEN = TESTS + "/golden/h200-triton.jsonl"


@pytest.fixture(scope="module", autouse=True)
def can_trace():
    needs_tracing()


@pytest.fixture(scope="module")
def public():
    """A folder in which every user may write."""
    with tempfile.TemporaryDirectory(prefix="cudatrace-sec-") as path:
        os.chmod(path, 0o1777)
        yield pathlib.Path(path)


def needs_built(program):
    if not os.access(program, os.X_OK):
        pytest.skip("not built: make static")


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def rights(pid):
    of = status(pid)
    return [of[k] for k in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")]


def confined(capabilities):
    """Only these, no ambient ones, no_new_privs, and a filter of system calls."""
    return [f"{sum(1 << c for c in capabilities):016x}"] * 3 + ["0" * 16, "1", "2"]


CHOWN, DAC_READ_SEARCH, KILL, SYS_PTRACE, SYS_ADMIN, LEASE, PERFMON, BPF, CHECKPOINT_RESTORE = 0, 2, 5, 19, 21, 28, 38, 39, 40
READS = [DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE]
TRACES = [*READS, KILL, LEASE, BPF]
ATTACHES = [*READS, PERFMON, BPF]
# Without CAP_KILL, with CAP_CHOWN
SERVES = [c for c in TRACES if c != KILL] + [CHOWN]


def processes(pid, name):
    return [p for p, comm in descendants(pid).items() if comm == name]


def readers_are_confined(pid):
    """cudatrace-read and its child, which does the reading: each has a filter, and the second also the first one's."""
    return [[*rights(p), status(p)["Seccomp_filters"]] for p in processes(pid, "cudatrace-read")] == [[*confined(READS), n] for n in "12"]


@contextlib.contextmanager
def tracing(running, folder, *options, program=CUDATRACE):
    """A tracer of an endless command, whose stacks it has read: its pid, and the command's."""
    path = folder / "a.jsonl"
    t = running.start(program, "-q", "-e", "launch", "--stack", "--jsonl", path, *options, "--", *ENDLESS, env=ENV)
    until(lambda: path.exists() and b'"stack":' in path.read_bytes(), 20)
    command = processes(t.pid, "sample")[0]
    try:
        yield t.pid, command
    finally:
        t.terminate()
        t.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.kill(command, signal.SIGKILL)


@BOTH
def test_sandbox(running, tmp_path, program):
    """The tracer and its processes must have few capabilities and filters; the command must have none of it."""
    needs_built(program)
    with tracing(running, tmp_path, program=program) as (pid, command):
        assert rights(pid) == confined(TRACES) and rights(command)[4:] == ["0", "0"]
        until(lambda: readers_are_confined(pid))
        # A new process has the name of its parent until it sets its own.
        until(lambda: all(len(processes(pid, "cudatrace-" + name)) == 1 for name in ("guard", "links")))
        # cudatrace-links inspects some processes in a child of its own.
        guard, links = (min(processes(pid, "cudatrace-" + name)) for name in ("guard", "links"))
        until(lambda: rights(guard) == confined([KILL, BPF]))
        # The others are dropped with its first library.
        until(lambda: rights(links) == confined(ATTACHES))


def test_sandbox_perf_events(running, tmp_path):
    """For single perf events CAP_SYS_ADMIN is only for cudatrace-links."""
    needs_mechanism("perf")
    with tracing(running, tmp_path, "--mechanism=perf") as (pid, _):
        assert rights(pid) == confined(TRACES)
        (links,) = processes(pid, "cudatrace-links")
        until(lambda: rights(links) == confined([*ATTACHES, SYS_ADMIN]))


def test_sandbox_format_threads(running, tmp_path):
    """Threads that write must be filtered, without any capability."""
    with tracing(running, tmp_path, "--format-threads", "2") as (pid, _):
        threads = [rights(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid]
        assert [r[:2] + r[4:] for r in threads] == [["0" * 16, "0" * 16, "1", "2"]] * 2


def test_no_sandbox(running, tmp_path):
    with tracing(running, tmp_path, "--no-sandbox") as (pid, _):
        until(lambda: len(processes(pid, "cudatrace-read")) == 2)
        assert rights(pid)[4:] == ["0", "0"] and [rights(p)[5] for p in processes(pid, "cudatrace-read")] == ["0", "0"]


THEIRS = """mount -t tmpfs none "$1" && cp "$2/libcuda.so.1" "$2/sample" "$1/" && chown -R $3:$3 "$1" && chmod 700 "$1" "$1"/* && cd "$1" &&
exec setpriv --reuid=$3 --regid=$3 --clear-groups env LD_LIBRARY_PATH=. FAKE_DELAY_US=cuStreamSynchronize:10000 \
./sample --tokens 1000000 --layers 2 --quiet"""


@BOTH
def test_files_of_a_closed_folder(running, tmp_path, program):
    """Another user's program in a private mount namespace, whose files no other user can reach: library, stacks and names must be read."""
    needs_built(program)
    (tmp_path / "theirs").mkdir()
    p = running.start("unshare", "-m", "sh", "-c", THEIRS, "sh", tmp_path / "theirs", FAKE, NOBODY)
    until(lambda: "libcuda" in open(f"/proc/{p.pid}/maps", encoding="utf-8").read())
    ran = Ran([program, "-q", "--stack", "--duration", "1", "--jsonl", tmp_path / "t", "-p", str(p.pid)])
    p.terminate()
    t = Trace(tmp_path / "t")
    library = t.head["libraries"][0]
    assert t.calls and library["path"] == f"{tmp_path}/theirs/libcuda.so.1" and library["build_id"], ran
    frames = [f for e in t.ev if e["type"] == "stack" for f in e["frames"]]
    assert [f for f in frames if f.get("symbol", "").startswith("work+") and f["module"] == f"{tmp_path}/theirs/sample"]


# --- without root: the few capabilities that docs/SECURITY.md names, set on the file ---

@pytest.fixture(scope="module")
def lent(public):
    """The program with these capabilities, a trace that it made as an ordinary user, and folders that are closed to that user."""
    if not shutil.which("setcap"):
        pytest.skip("setcap is not installed")
    # Other users may not read the build folder.
    for path in (CUDATRACE, FAKE + "/libcuda.so.1", FAKE + "/sample"):
        os.chmod(shutil.copy(path, public), 0o755)
    ran = Ran(["setcap", "cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore+ep", public / "cudatrace"])
    if ran.status:
        pytest.skip(ran.err)
    for name, mode in (("user", 0o777), ("closed", 0o777), ("closed/open", 0o777)):
        (public / name).mkdir()
        (public / name).chmod(mode)
    # The dynamic linker ignores LD_* for programs with capabilities.
    ran = Ran([*AS_NOBODY, public / "cudatrace", "-q", "--jsonl", public / "user/a.jsonl", "--", "env", f"LD_LIBRARY_PATH={public}",
               public / "sample"])
    for name in ("closed/config", "user/closed"):
        (public / name).write_text("k3y: precious\n")
        (public / name).chmod(0o600)
    for path in (public / "user/a.jsonl", public / "libcuda.so.1", "/bin/true"):
        shutil.copy(path, public / "closed")
    (public / "closed").chmod(0o700)
    return ran


def test_few_capabilities(public, lent):
    """An ordinary user must get a whole trace, in an own file; the command has no capabilities."""
    t = Trace(public / "user/a.jsonl")
    launches = sum(e.get("op") == "launch" and e["name"].startswith("cuLaunchKernel") for e in t.ev)
    assert lent.status == 0 and not t.end["drops"]["calls"] and not t.end["unfinished"], lent
    assert launches == int(re.search(r"(\d+) kernel launches", lent.out)[1])
    st = os.stat(public / "user/a.jsonl")
    assert (st.st_uid, st.st_mode & 0o777) == (NOBODY, 0o600)
    ran = Ran([*AS_NOBODY, public / "cudatrace", "-q", *"-e init --jsonl /dev/null -- grep ^Cap[IPEA] /proc/self/status".split()])
    assert ran.status == 0 and {line.split()[1] for line in ran.out.splitlines()} == {"0" * 16}, ran


# The file's capabilities are for tracing: with them, the user must not be able to read or reach more files.
SET = "--set ctl.socket=USER/ctl --set metrics.listen= --set files.directory=USER/files"
LENT = {
    "--check-config: another user's file": "daemon --check-config --config USER/closed",
    "--check-config: a file in a closed folder": "daemon --check-config --config CLOSED/config",
    "--check-config: by /proc": "daemon --check-config --config /proc/1/environ",
    "daemon --config": f"daemon {SET} --config USER/closed",
    "ctl --config": "ctl --config USER/closed status",
    "report": "report CLOSED/a.jsonl",
    "report, of several": "report CLOSED/a.jsonl CLOSED/a.jsonl",
    "report -o": "report -o CLOSED/open/x.html --format=html USER/a.jsonl",
    "diff": "diff USER/a.jsonl CLOSED/a.jsonl",
    "list --libcuda": "list --libcuda CLOSED/libcuda.so.1",
    "check --libcuda": "check --libcuda CLOSED/libcuda.so.1",
    "--libcuda": "--libcuda CLOSED/libcuda.so.1 -- true",
    "--jsonl in a closed folder": "--jsonl CLOSED/open/x -- true",
    "a command in a closed folder": "--jsonl /dev/null -- CLOSED/true",
    "--user": "--jsonl /dev/null --user root -- true",
}


def lent_words(public, line):
    return line.replace("USER", f"{public}/user").replace("CLOSED", f"{public}/closed").split()


@pytest.mark.parametrize("name", LENT)
def test_lent(public, lent, name):
    """Must be refused as without capabilities; nothing of a closed folder may be printed, and nothing be made there."""
    ran = Ran([*AS_NOBODY, public / "cudatrace", *lent_words(public, LENT[name])], timeout=30, cwd=public / "user")
    said = ran.out + ran.err
    assert ran.status and re.search("Permission denied|may not|not executable", said), ran
    assert not re.search("k3y|precious|cuLaunchKernel", said), ran
    assert os.listdir(public / "closed/open") == []


def test_lent_check(public, lent):
    """-p and check must see what they need."""
    ran = Ran([*AS_NOBODY, public / "cudatrace", "check"])
    assert ran.status == 0, ran


def test_lent_daemon(running, tmp_path, public, lent):
    """An ordinary user's daemon must run, but not read or write in a closed folder, also not files that it opens later."""
    more = "--config /dev/null --set files.directory=CLOSED/open/f --set otlp.endpoint=http://127.0.0.1:9 " \
        "--set otlp.headers_file=CLOSED/config --set otlp.interval=1s --set level=trace"
    d = running.start(*AS_NOBODY, public / "cudatrace", "daemon", *lent_words(public, f"{SET} {more}"), stdout=tmp_path / "log",
                      stderr=subprocess.STDOUT)
    until(lambda: all(re.search(f"cannot {what}.*Permission denied", (tmp_path / "log").read_text()) for what in ("write to", "read")), 20)
    assert d.poll() is None
    d.terminate()
    assert d.wait(60) == 0 and os.listdir(public / "closed/open") == []


@pytest.mark.parametrize("mode", [0o4755, 0o2755], ids=["setuid", "setgid"])
def test_a_setuid_file(public, mode):
    """Must be refused."""
    program = shutil.copy(CUDATRACE, public / f"mode-{mode:o}")
    os.chmod(program, mode)
    ran = Ran([*AS_NOBODY, program, "report", GOLDEN])
    assert ran.status and "this program is setuid" in ran.err, ran


def test_no_capabilities(public):
    """The message must name what is missing."""
    program = shutil.copy(CUDATRACE, public / "plain")
    os.chmod(program, 0o755)
    ran = Ran([*AS_NOBODY, program, "-q", "--probe=uprobe", "-e", "init", "--jsonl", public / "b.jsonl", "--", "true"])
    assert ran.status == 1 and ran.err.count("privilege CAP_BPF, privilege CAP_PERFMON") == 1, ran


# --- sudo cudatrace report -o: must use the caller's rights ---

def report_by_sudo(out, *options):
    return cudatrace("report", "-o", out, *options, GOLDEN, env={"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}).status


def test_reports_by_sudo(public):
    """Reports must belong to the caller, and be written only where the caller may write."""
    for name, mode in (("reports", 0o777), ("root-only", 0o700)):
        (public / name).mkdir()
        (public / name).chmod(mode)
    assert report_by_sudo(public / "reports/a.html", "--format=html") == 0
    assert report_by_sudo(public / "reports/all", "--format=all") == 0
    made = [f.stat() for f in (public / "reports").rglob("*")]
    assert len(made) > 2 and {(s.st_uid, s.st_gid, s.st_mode & 0o077) for s in made} == {(NOBODY, NOBODY, 0)}
    assert report_by_sudo(public / "root-only/x") == 1 and os.listdir(public / "root-only") == []
    (public / "reports/root").write_text("precious")
    assert report_by_sudo(public / "reports/root") == 1 and (public / "reports/root").read_text() == "precious"


# --- the daemon end to end, where a system call outside its list would kill it ---

class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append((self.path, self.headers["X-Token"]))
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def collector():
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as server:
        server.posts = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


CONFIG = """level: off
rules:
  - {match: {command: "TMP/*"}, level: trace}
metrics: {listen: "127.0.0.1:PORT"}
ctl: {GROUP socket: "TMP/sock"}
files: {directory: "TMP/files", rotate_age: 1s, on_rotate: "(ulimit -n; cat /proc/self/status) >TMP/command; test -s \\"$1\\""}
otlp: {endpoint: "http://localhost:COLLECTOR", headers_file: "TMP/headers", interval: 1s}
"""
DAEMONS = [("session", []), ("multi", []), ("perf", ["--set", "trace.functions=cuLaunchKernel"])]


@pytest.mark.parametrize("mech,options", DAEMONS, ids=[d[0] for d in DAEMONS])
def test_daemon(running, tmp_path, collector, mech, options):
    """File, socket, port, collector, command, a library that comes later, a reload with another port and group. With perf events each
    probe is opened separately, also after the filter is on; few functions, because closing takes long."""
    needs_mechanism(mech)
    port, other = free_port(), free_port()
    (tmp_path / "headers").write_text("X-Token: t0ken\n")
    config = CONFIG.replace("TMP", str(tmp_path)).replace("COLLECTOR", str(collector.server_port))
    (tmp_path / "yaml").write_text(config.replace("PORT", str(port)).replace("GROUP", ""))
    d = running.start("sh", "-c", 'ulimit -Sn 1000; exec "$@"', "sh", CUDATRACE, "daemon", "--config", tmp_path / "yaml",
                      "--mechanism", mech, *options, stdout=tmp_path / "log", stderr=subprocess.STDOUT)

    def ctl(*args):
        return cudatrace("ctl", "--set", f"ctl.socket={tmp_path}/sock", *args)

    def counted():
        text = fetch(f"http://127.0.0.1:{port}/metrics")
        return re.search('^cudatrace_calls_total.*command="sample".*cuLaunchKernel.* [1-9]', text, re.M)
    until(lambda: status(d.pid)["Seccomp"] == "2" or d.poll() is not None, 30)
    assert rights(d.pid) == confined(SERVES)
    # Its threads have none of it.
    threads = [rights(tid) for tid in os.listdir(f"/proc/{d.pid}/task") if int(tid) != d.pid]
    assert len(threads) > 1 and all(r[:2] + r[4:] == ["0" * 16, "0" * 16, "1", "2"] for r in threads)
    late = tmp_path / "late"
    late.mkdir()
    for path in (FAKE + "/sample", FAKE + "/libcuda.so.1"):
        shutil.copy(path, late)
    assert Ran([late / "sample", "--tokens", "2000", "--layers", "2", "--quiet"], env={"LD_LIBRARY_PATH": str(late)}).status == 0
    until(lambda: readers_are_confined(d.pid))
    until(counted, 15)
    assert str(late / "libcuda.so.1") in [x["path"] for x in json.loads(ctl("status").out)["libraries"]]
    # on_rotate: with the limits and rights of the start
    until(lambda: (tmp_path / "command").exists() and "Seccomp" in (tmp_path / "command").read_text(), 20)
    said = (tmp_path / "command").read_text()
    assert said.startswith("1000\n") and re.findall(r"^(?:NoNewPrivs|Seccomp):\t(\d)", said, re.M) == ["0", "0"]
    until(lambda: glob.glob(f"{tmp_path}/files/trace-*"), 20)
    until(lambda: ("/v1/metrics", "t0ken") in collector.posts, 20)
    assert ctl("dump").status == 0
    (tmp_path / "yaml").write_text(config.replace("PORT", str(other)).replace("GROUP", "group: nogroup,"))
    assert ctl("reload").status == 0

    def reloaded():
        sock = (tmp_path / "sock").stat()
        return (sock.st_mode & 0o777, (tmp_path / "sock").group()) == (0o660, "nogroup") and fetch(f"http://127.0.0.1:{other}/healthz")
    until(reloaded)
    assert d.poll() is None
    d.terminate()
    assert d.wait(120) == 0


# --- what a program inherits from its parent must be the same when traced ---

STARTED = """ulimit -Sn 1000
ulimit -Sl 64
umask 027
trap '' USR1
echo 300 >/proc/self/oom_score_adj
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
exec nice -n 5 env -i $BLOCK A=b PATH="$PATH" "$@" <&- >/dev/null 2>&1"""
INHERITED = ["limit 7: 1000 ", "limit 8: 65536 ", "status: Umask:.0027", "status: SigIgn:.*2..$", "status: SigBlk:", "status: CapBnd",
             "status: NoNewPrivs", "status: Seccomp:", "oom_score_adj: 300", "fd/1: /dev/null", "environment: A=b", "nice 5"]


def started(path, *command):
    """The attributes of a program that starts this way, by the given command or by itself."""
    block = "--block-signal=USR2"
    Ran(["bash", "-c", STARTED, "bash", *map(str, command), path], env={"BLOCK": block if not Ran(["env", block, "true"]).status else ""})
    return path.read_text().split("\n")


@pytest.fixture(scope="module")
def attributes():
    return compiled(os.environ["TMP"] + "/attributes", TESTS + "/attributes.c")


def test_a_command_starts_as_without_us(tmp_path, attributes):
    plain = started(tmp_path / "plain", attributes)
    assert not [line for line in plain if line.startswith("fd/0:")]
    assert [p for p in INHERITED if not any(re.match(p, line) for line in plain)] == []
    for options in ("", "--no-sandbox", "--mechanism perf", "--kernel", "--stack", "--sched"):
        line = f"-q -e init --jsonl /dev/null {options} -- {attributes}"
        assert started(tmp_path / "traced", CUDATRACE, *line.split()) == plain, options


def test_user_starts_as_by_setpriv(public, attributes):
    """The environment is the user's, so HOME and names of users are not compared."""
    program = shutil.copy(attributes, public / "attributes")

    def of(*command):
        return [line for line in started(public / "of", *command, program) if not re.match("environment: (HOME|USER|LOGNAME)=", line)]
    plain = of("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={NOBODY}")
    assert of(CUDATRACE, "-q", "-e", "init", "--jsonl", "/dev/null", "--user", NOBODY, "--") == plain


# --- secrets that records must not contain: every string and every address of the program ---

def test_redacted(tmp_path):
    """As many calls must be there, and the header must name the redaction."""
    def modules(*options):
        t = traced(tmp_path / "t", "--all", *options, "--", CASES + "/modules", env=ENV)
        return t, (tmp_path / "t").read_text().split("\n")
    plain, lines = modules("--chrome", tmp_path / "c")
    assert [line for line in lines if '"kernel":"' in line]
    t, lines = modules("--no-strings", "--chrome", tmp_path / "c")
    assert len(t.calls) == len(plain.calls) and t.head["redacted"] == "strings"
    shown = r'"kernel(_mangled)?":"[^0]|"(name|fname)":"[a-z_/]*(add|mul|\.cubin|\.ptx)'
    assert [line for line in lines[1:] if re.search(shown, line)] == []
    t, lines = modules("--no-args")
    assert len(t.calls) == len(plain.calls) and t.head["redacted"] == "arguments"
    none = re.compile(r'"result":[0-9]+(,"error":"[A-Z_]+")?,"args":\{\}\}$')
    assert [line for line in lines if '"symbol"' in line and not none.search(line)] == []
    schema(tmp_path / "t")
    # Without strings, numbers stay.
    t = traced(tmp_path / "t", "--no-strings", "--", FAKE + "/sample", "--tokens", 1, "--layers", 1, "--quiet", env=ENV)
    assert [e for e in t.ev if e.get("size", 0) > 0]


# What a program of helpers/ finds in the tracer's memory, including the ring. Bytes in the ring outside a record's own data are the
# padding of a capture to a multiple of 8: nothing of a call before may be there.
LEAKS = {
    "memory: strings and arguments are there": ([], "secret_in_memory", "some some"),
    "memory: --no-strings: no string ever gets there": (["--no-strings"], "secret_in_memory", "none some"),
    "memory: --no-args: nothing ever gets there": (["--no-args"], "secret_in_memory", "none none"),
    "ring: nothing of a call before": (["--buffer-size", "16M"], "ring_filling", "True 0"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_leaks(running, tmp_path, name):
    options, look, want = LEAKS[name]
    t = running.tracer("t", "--all", *options, "--", sys.executable, TESTS + "/helpers/secret.py", tmp_path / "called",
                       stdin=subprocess.PIPE, env=ENV)
    until((tmp_path / "called").exists, 20)
    # The ring is drained every 50 ms, and records that were read are still being processed.
    time.sleep(0.5)
    found = subprocess.check_output([sys.executable, f"{TESTS}/helpers/{look}.py", str(t.pid)], text=True)
    t.p.stdin.close()
    t.ended()
    assert found == want + "\n" and t.trace.sym["cuModuleGetFunction"] == 52 and t.trace.accounts()


HARDENED = {  # pattern, how many lines match in the output of readelf or nm (None: at least one)
    "PIE": (r"DYN \(", None), "BIND_NOW and RELRO": ("BIND_NOW|GNU_RELRO", 2), "no executable stack": ("GNU_STACK.*RW ", None),
    "nothing writable is executable": ("LOAD.*(RWE|WE)", 0), "stack protector": ("__stack_chk_fail", None),
    "fortified functions": ("__(mem|str|snprintf|vsnprintf|read)[a-z]*_chk", None),
}


@BOTH
def test_hardening(program):
    needs_built(program)
    lines = (Ran(["readelf", "-hldW", program]).out + Ran(["nm", program]).out).split("\n")
    found = {name: sum(bool(re.search(pattern, line)) for line in lines) for name, (pattern, _) in HARDENED.items()}
    assert {n: k for n, k in found.items() if (k < 1 if HARDENED[n][1] is None else k != HARDENED[n][1])} == {}


def controls(text):
    return re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


def test_messages_hold_no_control_characters(tmp_path):
    """Neither for names of files, nor for a hostile trace: every string of it that is not from our own tables has control characters."""
    ran = cudatrace("--jsonl", "/nowhere/\x1b[2J\a\n\x9b", "--", "true")
    assert controls(ran.err) == [] and ran.err.count("\n") == 1 and "?" in ran.err, ran
    (tmp_path / "h").write_text(subprocess.check_output([sys.executable, TESTS + "/helpers/spoilt_trace.py"], text=True))
    ran = cudatrace("report", "--full", tmp_path / "h")
    assert (ran.status, ran.err) == (0, "") and controls(ran.out) == [] and "?[2J" in ran.out, ran
