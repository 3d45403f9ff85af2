# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
"""The test runner itself: its counts, which suites run at the same time, and that a run leaves nothing behind, however it ends. Uses a
copy of the runner with its own suites."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# A module with the tests that a shell script reports, one per line: ok NAME, not ok NAME # WHY, skip NAME # WHY. $0 is the module.
SCRIPT = """{head}
import os, re, subprocess
import pytest
TEXT = {text!r}
@pytest.fixture(scope="module")
def said():
    with open(os.environ["TMP"] + "/said", "w+") as out:
        subprocess.run(["bash", "-uc", TEXT, __file__], stdout=out, check=False)
        out.seek(0)
        return out.read().split("\\n")
@pytest.mark.parametrize("name", list(dict.fromkeys(re.findall(r"(?:not ok|ok|skip) ([\\w-]+)", TEXT))))
def test(said, name):
    line, _, why = next(x for x in said if re.match(rf"(not ok|ok|skip) {{name}}\\b", x)).partition(" # ")
    if line.startswith("skip"):
        pytest.skip(why)
    assert line.startswith("ok"), why
"""
LEAVES = """\
cg=$cg
setsid sleep 987654 &
(trap "" TERM; setsid sleep 987655) &
if [ "$(id -u)" = 0 ]; then
	mkdir "$TMP/mnt" && mount -t tmpfs none "$TMP/mnt" && : >"$TMP/mnt/file"
fi
if [ "$(id -u)" = 0 ] && [ -d "${cg%/*}" ]; then
	echo "$cg" >"$TMP/cgroups.made"
	mkdir -p "$cg"
	setsid sh -c 'echo $$ >"$1/cgroup.procs"; exec sleep 987656' sh "$cg" &
	until grep -q . "$cg/cgroup.procs"; do sleep 0.02; done
fi
"""


class Tree:
    """A folder with tests/run.sh, its requirements, and the given suites."""

    def __init__(self, folder):
        self.top = str(folder)
        os.makedirs(self.top + "/tests/e2e")
        os.makedirs(self.top + "/tmp")
        for name in ("run.sh", "conftest.py", "pytest.ini"):
            shutil.copy(f"{TESTS}/{name}", self.top + "/tests/")
        shutil.copytree(TESTS + "/runner", self.top + "/tests/runner", ignore=shutil.ignore_patterns("__pycache__"))
        os.makedirs(self.top + "/tools")
        shutil.copy(TESTS + "/../tools/install-deps.sh", self.top + "/tools/")
        # All trees share Python's compiled files, which take longer to make than most of the runs here.
        os.makedirs(self.top + "/build/check")
        os.makedirs(os.environ["TMP"] + "/pycache", exist_ok=True)
        os.symlink(os.environ["TMP"] + "/pycache", self.top + "/build/check/pycache")
        # Nothing of this run's environment; no HOME and few variables, as in a service.
        self.env = {"PATH": os.environ["PATH"], "TMPDIR": self.top + "/tmp"}

    def suite(self, name, text, head=""):
        self.module(name, SCRIPT.format(text=text, head=head))

    def module(self, name, text):
        with open(f"{self.top}/tests/e2e/test_{name}.py", "w", encoding="utf-8") as f:
            f.write(text)

    def begin(self, *args):
        return subprocess.Popen([self.top + "/tests/run.sh", *args], env=self.env, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, *args):
        p = self.begin(*args)
        out = p.communicate(timeout=120)[0]
        return p.returncode, out


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def sums(out):
    m = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped\n\Z", out)
    assert m, out
    return tuple(map(int, m.groups()))


def alive(mark):
    """Processes with this text in their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if mark.encode() in f.read().replace(b"\0", b" "):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def cgroup_root():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return next((line.split()[4] for line in f if " - cgroup2 " in line), "/nowhere")


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def test_two_at_once(tree):
    """Two runs in one folder would mix their logs and results: the second must be refused."""
    tree.suite("waits", 'touch "$O/begun"; until [ -e "$O/go" ]; do sleep 0.02; done; echo ok it')
    first = tree.begin()
    wait_for(lambda: os.path.exists(tree.top + "/build/begun"))
    rc, out = tree.run()
    assert rc and "another tests/run.sh or make check writes to" in out and sums(out)[0] == 0
    with open(tree.top + "/build/go", "w", encoding="utf-8"):
        pass
    out = first.communicate(timeout=60)[0]
    assert first.returncode == 0 and sums(out) == (1, 0, 0)


def test_counts(tree):
    tree.suite("some", "echo ok one; echo ok two; echo 'skip three # no such thing'; echo okay")
    tree.suite("bad", "echo ok one; echo 'not ok two # it is not so'; exit 1")
    rc, out = tree.run()
    assert rc == 1 and sums(out) == (3, 1, 1)
    assert "some: test[three] # no such thing" in out and re.search(r"bad: test\[two\] # .*it is not so", out), out
    assert "tests/run.sh bad" in out and "# some: 2 passed, 0 failed, 1 skipped in " in out


@pytest.mark.parametrize("text,head,why", [
    ("os._exit(0)", "", "no result"),
    ("os._exit(3)", "", "exit status 3"),
    ("os.kill(os.getpid(), 9)", "", "exit status -9"),
    ("time.sleep(100)", "# timeout: 1", "not finished in its 1 seconds"),
    ("subprocess.Popen(['setsid', 'sleep', '987654'])", "", "left running: sleep"),
], ids=lambda v: v if " " in v and v[0].islower() and "(" not in v else "")
def test_suite_as_a_whole(tree, text, head, why):
    tree.module("bad", f"{head}\nimport os, subprocess, time\ndef test_it():\n    {text}\n")
    rc, out = tree.run()
    assert rc == 1 and f"the suite # {why}" in out and sums(out)[1] == 1


def test_a_tracer_may_take_its_time(tree):
    """A tracer that ends by itself, slowly, as on a busy machine, must not count as left behind."""
    tree.suite("slow", 'cp "$(command -v sleep)" "$TMP/cudatrace"; setsid "$TMP/cudatrace" 5 & echo ok one')
    rc, out = tree.run()
    assert rc == 0 and sums(out) == (1, 0, 0), out


def test_side_by_side(tree):
    meet = ': >"$0.$1"; for i in {1..500}; do [ -e "${0%/*}/%s" ] && { echo ok met; exit; }; sleep 0.02; done; echo not ok met'
    for name, other in (("a", "test_b.py."), ("b", "test_a.py.")):
        tree.suite(name, "set -- ''\n" + meet.replace("%s", other))
    assert sums(tree.run("--jobs", "2")[1]) == (2, 0, 0)


@pytest.mark.parametrize("head,together", [("# alone", ["20", "21"]), ("# uses: that", ["20", "21"]), ("# cpus: 2", ["20", "21"])])
def test_not_side_by_side(tree, head, together):
    text = 'mkdir "${0%/*}/lock" || { echo "not ok alone # $0"; exit; }; sleep 0.5; rmdir "${0%/*}/lock"; echo ok alone'
    for name in together:
        tree.suite(name + "-x", text, head)
    assert sums(tree.run("--jobs", "3")[1]) == (2, 0, 0)


def test_no_tracers(tree):
    """Suites marked "no tracers" must run first, beside those that trace nothing; the others wait."""
    for name, head in (("a_traces", "# takes: 90"), ("b_still", "# traces nothing"), ("c_wants", "# no tracers")):
        tree.suite(name, """here=${0%%/*} me=${0##*/test_}
: >"$here/$me.begun"
case $me in
a_*) [ ! -e "$here/c_wants.py.ended" ] && echo "not ok it" || echo "ok it" ;;
*) other=$([ $me = b_still.py ] && echo c_wants || echo b_still)
	for i in {1..500}; do [ -e "$here/$other.py.begun" ] && break; sleep 0.02; done
	[ -e "$here/$other.py.begun" ] && [ ! -e "$here/a_traces.py.begun" ] && echo "ok it" || echo "not ok it"
	: >"$here/$me.ended" ;;
esac""".replace("%%", "%"), head)
    assert sums(tree.run("--jobs", "3")[1]) == (3, 0, 0)


def test_long(tree):
    tree.suite("long", "echo ok long", "# long")
    tree.suite("short", "echo ok short")
    tree.module("all_long", "# long\ndef test_a(): pass\ndef test_b(): pass\n")
    tree.module("both", "import pytest\ndef test_a(): pass\n@pytest.mark.long\ndef test_b(): pass\n@pytest.mark.long\ndef test_c(): pass\n")
    short, long = tree.run("-v")[1], tree.run("-v", "--long")[1]
    assert sums(short) == (2, 0, 0) and "short" in short
    assert sums(long) == (5, 0, 0) and "long" in long
    assert sums(tree.run("long")[1]) == (1, 0, 0)
    assert sums(tree.run("all_long")[1]) == (2, 0, 0)


def test_modules(tree):
    tree.module("some", """
import os, sys, pytest
@pytest.mark.parametrize("n", [1, 2, 3])
def test_number(n):
    print("this is number", n)
    assert n != 2, "it is two"
def test_environment():
    assert os.path.isdir(os.environ["TMP"]) and os.environ["CUDATRACE"] == os.environ["O"] + "/cudatrace"
    assert sys.stdin.read() == "" and os.getcwd() == os.path.dirname(os.environ["O"])
def test_skipped():
    pytest.skip("for a reason")
""")
    tree.suite("other", "sleep 0.1; echo ok other")
    rc, out = tree.run()
    assert rc == 1 and sums(out) == (4, 1, 1)
    assert "test_number[2] # " in out and "it is two" in out and "tests/run.sh some -k test_number" in out
    assert "some: test_skipped # for a reason" in out
    assert sums(tree.run("some", "-k", "environment or 3")[1]) == (2, 0, 0)
    assert sums(tree.run("-k", "other")[1]) == (1, 0, 0)


def test_module_that_cannot_be_read(tree):
    tree.module("bad", "import nothing_of_that_name\n")
    tree.suite("other", "echo ok other")
    rc, out = tree.run()
    assert rc != 0 and "nothing_of_that_name" in out and sums(out)[1] > 0


def test_module_that_is_skipped(tree):
    """A skipped module must be counted and named, also when nothing else runs."""
    tree.module("some", 'import pytest\npytest.importorskip("nothing_of_that_name", reason="not installed")\n')
    out = tree.run()[1]
    assert "some: the suite # not installed" in out and sums(out) == (0, 0, 1)
    tree.suite("other", "echo ok other")
    rc, out = tree.run()
    assert rc == 0 and sums(out) == (1, 0, 1)


def test_names(tree):
    for name in ("one", "other", "more_ones"):
        tree.suite(name, "echo ok one")
    tree.module("two", "def test_it(): pass\n")
    for args, want in ((["one"], (1, 0, 0)), (["o*"], (2, 0, 0)), (["*one*", "two"], (3, 0, 0)), (["two"], (1, 0, 0))):
        assert sums(tree.run(*args)[1]) == want, args
    assert sorted(tree.run("-l")[1].split()) == ["more_ones", "one", "other", "two"]
    rc, out = tree.run("nonesuch")
    assert rc != 0 and "no suite matches" in out


def test_first_failure(tree):
    tree.suite("bad", "echo not ok bad", "# takes: 100")
    tree.suite("slow", "sleep 100; echo ok slow", "# takes: 90")
    tree.suite("never", "touch \"$0.ran\"; echo ok never")
    begun = time.monotonic()
    rc, _ = tree.run("-x", "--jobs", "2")
    assert rc != 0 and time.monotonic() - begun < 60


def test_again(tree):
    # It fails beside others, and passes alone.
    tree.suite("good", 'echo "ok good"')
    tree.module("unsteady", "import os\ndef test_one():\n    d = os.path.dirname(__file__) + '/been'\n"
                            "    was = os.path.exists(d)\n    open(d, 'w').close()\n    assert was, 'busy too'\n"
                            "def test_two():\n    d = os.path.dirname(__file__) + '/two'\n    assert not os.path.exists(d)\n    open(d, 'w').close()\n")
    status, out = tree.run("--again")
    # Only the failed tests of a module run again.
    assert (status, sums(out)) == (0, (3, 0, 0)), out
    before = out[out.index("failed beside other suites"):]
    assert re.search(r"unsteady: test_one # .*busy too.*  its output: build/check/unsteady\.1\.log", before), out
    assert "failed:\n" not in out.replace("failed beside", "")


def test_again_fails_again(tree):
    tree.suite("bad", 'echo "not ok bad # it is"')
    tree.suite("good", 'echo "ok good"; echo "skip it # why"')
    status, out = tree.run("--again")
    assert (status, sums(out)) == (1, (1, 1, 1)) and out.count("# bad: 0 passed, 1 failed") == 2, out
    assert "tests/run.sh bad" in out
    # Failed suites are not repeated without the option, nor if too many fail.
    for more, wanted in (0, ()), (8, ("--again",)):
        for n in range(more):
            tree.suite(f"bad{n}", 'echo "not ok bad # it is"')
        status, out = tree.run(*wanted)
        assert (status, sums(out)) == (1, (1, 1 + more, 1)) and "again, by" not in out, out


def test_until(tree):
    """A suite that would not end in time must not begin, and must be named."""
    tree.module("short", "# takes: 5 90\nimport pytest\ndef test_a(): pass\n@pytest.mark.long\ndef test_b(): pass\n")
    tree.suite("long", "echo ok long", "# takes: 90")
    tree.suite("last", "echo ok last", "# alone")
    tree.env["CHECK_UNTIL"] = str(time.time() + 60)
    rc, out = tree.run()
    assert (rc, sums(out)) == (0, (2, 0, 1)) and re.search(r"\n  long: the suite # \d+ s more than are left of the time for all\n", out), out
    assert sums(tree.run("--long")[1]) == (0, 0, 1)


def test_until_on_a_slow_machine(tree):
    tree.suite("slow", "sleep 3; echo ok slow", "# takes: 1\n# no tracers")
    tree.suite("next", "echo ok next", "# takes: 30")
    assert sums(tree.run("--jobs=1", "--until", str(time.time() + 60))[1]) == (1, 0, 1)
    # It is not repeated either, and its results count.
    tree.module("slow", "# takes: 0\nimport time\ndef test_slow(): pass\ndef test_it():\n    time.sleep(6)\n    assert 0\n")
    rc, out = tree.run("--again", "--until", str(time.time() + 8))
    assert (rc, sums(out)) == (1, (1, 1, 1)) and "again, by" not in out, out


def test_own_processes(tree):
    if os.geteuid():
        pytest.skip("needs root")
    sleeper = subprocess.Popen(["sleep", "100"])
    try:
        see = f'grep -qs sleep /proc/{sleeper.pid}/comm && echo ok seen || echo not ok seen'
        tree.suite("all", see)
        tree.suite("own", see.replace("grep", "! grep"), "# own processes")
        tree.suite("leaves", see.replace("grep", "! grep") + "\nsetsid sleep 99 &", "# own processes")
        module = "# own processes\nimport os, subprocess\ndef test_it():\n    assert not os.path.exists('/proc/%d')\n"
        tree.module("alone", module % sleeper.pid)
        tree.module("litters", module % sleeper.pid + "    subprocess.Popen(['setsid', 'sleep', '99'])\n")
        tree.module("fails", module % os.getpid() + "    os._exit(3)\n")
        _, out = tree.run()
        assert sums(out) == (5, 3, 0) and "fails: the suite # exit status 3" in out, out
        for name in ("leaves", "litters"):
            assert f"{name}: the suite # left running: sleep" in out, out
    finally:
        sleeper.kill()
        sleeper.wait()


ENDS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "timeout", "end"]


@pytest.mark.parametrize("how,own", [pytest.param(how, own, id=how + own[-14:], marks=pytest.mark.long if own and how in ENDS[:3] else ())
                                     for own in ("", "\n# own processes") for how in ENDS])
def test_nothing_stays(tree, how, own):
    cgroup = f"{cgroup_root()}/cudatrace-runner-{os.getpid()}-{how}"
    mark = f"{os.getpid()}-{how}"
    text = LEAVES.replace("cg=$cg", "cg=" + cgroup).replace("98765", f"{time.monotonic_ns() % 10**9}98765")
    marks = re.findall(r"sleep (\d+98765\d)", text)
    text += f'echo ok {mark}; : >"$0.ready"\n' + {"end": "exit 0"}.get(how, "sleep 1000")
    tree.suite("leaves", text, ("# timeout: 3" if how == "timeout" else "") + own)
    # The module's process is forked, and leaves children behind.
    tree.module("stays", own[1:] + "\nimport subprocess, time\ndef test_it():\n"
                f"    subprocess.Popen(['setsid', 'sleep', '{marks[0]}'])\n    time.sleep(0 if {how!r} in ('end', 'timeout') else 1000)\n")
    p = tree.begin()
    if how.startswith("SIG"):
        wait_for(lambda: os.path.exists(tree.top + "/tests/e2e/test_leaves.py.ready") and len(alive(marks[0])) >= 2)
        p.send_signal(getattr(signal, how))
    out = p.communicate(timeout=60)[0]
    wait_for(lambda: not any(map(alive, marks)))
    wait_for(lambda: not os.listdir(tree.top + "/tmp"))
    assert not os.path.exists(cgroup)
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        assert tree.top not in f.read()
    assert p.returncode != 0
    if how != "SIGKILL":
        assert sums(out)[1] > 0


@pytest.mark.parametrize("check,more,want", [
    ("echo 3 passed, 0 failed, 1 skipped", "echo 4 passed, 0 failed, 2 skipped", (7, 0, 3)),
    ("echo 3 passed, 1 failed, 1 skipped; exit 1", "echo 4 passed, 0 failed, 2 skipped", (7, 1, 3)),
    ("echo no end; exit 1", "echo 4 passed, 0 failed, 2 skipped", (4, 1, 2)),
    ("echo 3 passed, 0 failed, 0 skipped; exit 1", "echo 4 passed, 2 failed, 0 skipped; exit 1", (7, 3, 0)),
], ids=["passes", "fails", "breaks", "fails without a word"])
def test_ci(tree, check, more, want):
    os.makedirs(tree.top + "/.ci")
    shutil.copy(TESTS + "/../.ci/run", tree.top + "/.ci/")
    with open(tree.top + "/Makefile", "w", encoding="utf-8") as f:
        f.write(f"check:\n\t@{check}\ncheck-all:\n\t@{more}\n")
    p = subprocess.run([tree.top + "/.ci/run"], env=tree.env, capture_output=True, text=True, timeout=60, check=False)
    assert sums(p.stdout) == want and (p.returncode != 0) == (want[1] > 0)
    assert p.stdout.count("passed") == 1
