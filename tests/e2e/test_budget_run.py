# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
"""cudatrace run: as many traces as runs, compared with a budget; the statuses of commands, signals, and no files left."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import pytest
from helpers.run import CUDATRACE, FAKE, INSIDE, Ran, needs_tracing, until

SAMPLE = ["env", "LD_LIBRARY_PATH=" + FAKE, FAKE + "/sample", "--tokens", "3", "--quiet"]
RUN = [*INSIDE, CUDATRACE, "run", "--probe=inject"]


@pytest.fixture(name="folder")
def empty_folder(tmp_path):
    """For files of the program: nothing must be left in it."""
    (tmp_path / "tmp").mkdir()
    yield tmp_path
    assert os.listdir(tmp_path / "tmp") == []


def ran(folder, limits, *args, command=SAMPLE):
    """Compares runs of the command with a budget."""
    budget = folder / "budget.yaml"
    budget.write_text(json.dumps({"limits": limits}), encoding="utf-8")
    return Ran([*RUN, "--budget", budget, *args, "--", *command], env={"TMPDIR": str(folder / "tmp")})


def launches(path):
    """Of a trace: its lines of launches, counted here without those that a graph records, and its processes."""
    lines = [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()]
    return sum(x["name"].startswith("cuLaunch") and not x.get("capturing") for x in lines), {x["pid"] for x in lines if "pid" in x}


def test_verdict(folder):
    """The limit is broken below the number of launches in the traces, which are those of different processes."""
    keep = folder / "a.b" / "kept.x.jsonl"
    keep.parent.mkdir()
    first = ran(folder, [{"launches": 1000000}], "--runs", "3", "--jsonl", keep, "--format=json", "-o", folder / "result.json")
    assert first.status == 0, first
    assert sorted(os.listdir(keep.parent)) == ["kept-1.x.jsonl", "kept-2.x.jsonl", "kept-3.x.jsonl"]
    counts = [launches(keep.parent / f"kept-{i}.x.jsonl") for i in (1, 2, 3)]
    assert len({n for n, _ in counts}) == 1 and not counts[0][1] & counts[1][1] and counts[0][0] > 100
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert (found["runs"], found["broken"], found["limits"][0]["value"]) == (3, 0, counts[0][0])
    assert [x for x in first.err.splitlines() if " of 3" in x] == [f"cudatrace: run {i} of 3" for i in (1, 2, 3)]
    assert first.out.count("loaded") == 3
    below = ran(folder, [{"launches": counts[0][0] - 1}], "--runs", "2")
    assert below.status == 3 and f"launches: {counts[0][0]:,}, 1 above the limit of {counts[0][0] - 1:,}" in below.out


def test_default_is_five_runs(folder):
    five = ran(folder, [{"errors": 100}])
    assert five.status == 0 and five.err.count("cudatrace: run ") == 5


def test_baseline(folder):
    """Compared with older traces: one token more is broken, the same is not, and a time has noise."""
    kept = ["--baseline", folder / "old-1.jsonl", "--baseline", folder / "old-2.jsonl"]
    assert ran(folder, [{"launches": 1000000}], "--runs", "2", "--jsonl", folder / "old.jsonl").status == 0
    limits = [{"launches": "+0"}, {"graph_launches": "+0"}]
    same = ran(folder, limits, "--runs", "2", *kept)
    assert same.status == 0, same
    more = ran(folder, limits, "--runs", "2", *kept, command=[*SAMPLE[:4], "4", *SAMPLE[5:]])
    assert more.status == 3 and "graph_launches: 12, 12 more than the old 0; the limit is 0 more" in more.out, more.out
    without = ran(folder, limits, "--runs", "2")
    assert without.status == 2 and "budget.yaml:1: a limit on a change needs older traces: add --baseline FILE" in without.err
    assert without.out == ""


@pytest.mark.parametrize("command, status", [(["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137), (["/nonexistent/x"], 1)])
def test_command_fails(command, status, folder):
    failed = ran(folder, [{"launches": 1}], command=command)
    assert failed.status == status and failed.out == "" and failed.err.count("cudatrace: run 1 of 5") == 2, failed
    assert f"run 1 of 5 ended with status {status}: no run is compared with the budget" in failed.err


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_signal(sig, folder):
    """The command ends, no further run begins, and nothing is left."""
    budget = folder / "budget.yaml"
    budget.write_text("limits: [{launches: 1}]", encoding="utf-8")
    with open(folder / "err", "w", encoding="utf-8") as err:
        p = subprocess.Popen([*RUN, "--budget", budget, "--", "sh", "-c", f"echo $$ >{folder}/pid; exec sleep 100"], stderr=err, stdout=err,
                             env={**os.environ, "TMPDIR": str(folder / "tmp")}, start_new_session=True)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(encoding="utf-8"))
    time.sleep(0.2)
    # The terminal sends SIGINT to the whole group.
    if sig == signal.SIGINT:
        os.killpg(p.pid, sig)
    else:
        p.send_signal(sig)
    assert p.wait(60) not in (0, 3)
    text = (folder / "err").read_text(encoding="utf-8")
    assert "run 2 of 5" not in text and "no run is compared" in text, text
    until(lambda: not os.path.exists("/proc/" + (folder / "pid").read_text(encoding="utf-8").strip()))


def test_signal_that_the_command_survives(folder):
    """It ends with 0, but was the last run."""
    budget = folder / "budget.yaml"
    budget.write_text("limits: [{launches: 1}]", encoding="utf-8")
    with open(folder / "err", "w", encoding="utf-8") as err:
        p = subprocess.Popen([*RUN, "--budget", budget, "--", "sh", "-c", f"trap 'exit 0' INT; echo $$ >{folder}/pid; while :; do sleep 0.1; done"],
                             stderr=err, stdout=err, env={**os.environ, "TMPDIR": str(folder / "tmp")}, start_new_session=True)
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text(encoding="utf-8"))
    os.killpg(p.pid, signal.SIGINT)
    assert p.wait(60) not in (0, 3)
    text = (folder / "err").read_text(encoding="utf-8")
    assert "run 2 of 5" not in text and "no run is compared" in text, text


@pytest.fixture(name="started")
def starts_runs(folder):
    """Starts runs of a shell command, which has begun when its file "pid" exists. Kills what a failed test left."""
    budget, all_of = folder / "budget.yaml", []
    budget.write_text("limits: [{launches: 1}]", encoding="utf-8")

    def start(line, *args, run=RUN, env=None):
        with open(folder / "err", "w", encoding="utf-8") as err:
            p = subprocess.Popen([*run, "--budget", budget, *args, "--", "sh", "-c", line], stdin=subprocess.DEVNULL, stderr=err, stdout=err,
                                 env={**os.environ, "TMPDIR": str(folder / "tmp"), **(env or {})}, start_new_session=True)
        all_of.append(p)
        return p
    yield start
    for p in all_of:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def text_of(path):
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.parametrize("sig", [signal.SIGUSR1, signal.SIGALRM, signal.SIGINT, signal.SIGRTMIN])
def test_signal_to_the_runner_alone(sig, folder, started):
    """The command ends by it."""
    p = started(f"echo $$ >{folder}/pid; exec sleep 100")
    until(lambda: text_of(folder / "pid"))
    p.send_signal(sig)
    assert p.wait(60) == 128 + sig, text_of(folder / "err")
    assert f"run 1 of 5 ended with status {128 + sig}" in text_of(folder / "err")


def test_signal_at_the_start(folder, started):
    """At any time it ends all: none gets lost between two processes."""
    for _ in range(20):
        p = started("exec sleep 100")
        end = time.monotonic() + 30
        while "run 1 of 5" not in text_of(folder / "err"):
            assert time.monotonic() < end
        p.terminate()
        assert p.wait(30) == 128 + signal.SIGTERM, text_of(folder / "err")


def test_signal_while_comparing(folder, started):
    """The baseline is a pipe without a writer."""
    os.mkfifo(folder / "old.jsonl")
    p = started(f"echo $$ >{folder}/pid", "--runs", "1", "--baseline", folder / "old.jsonl")
    until(lambda: text_of(folder / "pid"))
    time.sleep(1)
    p.terminate()
    assert p.wait(30) == 128 + signal.SIGTERM, text_of(folder / "err")


def test_folder_of_the_user_of_sudo(started):
    """The user owns the folder, and may put a link in its place: root then removes no file elsewhere."""
    needs_tracing()
    if os.geteuid():
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        top = pathlib.Path(name)
        for each in ("mine", "roots"):
            (top / each).mkdir()
        top.chmod(0o755)
        os.chown(top / "mine", 65534, 65534)
        (top / "roots" / "run-1.jsonl").touch()
        p = started(f"echo $$ >{top}/mine/pid; exec sleep 100", run=[CUDATRACE, "run"], env={"TMPDIR": f"{top}/mine", "SUDO_UID": "65534", "SUDO_GID": "65534"})
        # The command has that user's rights.
        until(lambda: text_of(top / "mine" / "pid"))
        [made] = (top / "mine").glob("cudatrace-run.*")
        assert (made.stat().st_uid, made.stat().st_gid, made.stat().st_mode & 0o777) == (65534, 65534, 0o700)
        made.rename(top / "mine" / "moved")
        made.symlink_to("../roots")
        os.chown(made, 65534, 65534, follow_symlinks=False)
        p.terminate()
        assert p.wait(60) == 143 and os.listdir(top / "roots") == ["run-1.jsonl"]


@pytest.mark.parametrize("args, why", [
    (["run", "--", "true"], "run compares with a budget: add --budget FILE"),
    (["run", "--budget", "x"], "COMMAND is missing"),
    (["run", "--budget", "/nonexistent", "--", "true"], "cannot read the budget /nonexistent"),
    (["run", "--budget", "x", "--chrome", "x", "--", "true"], "--chrome has no meaning for cudatrace run"),
    (["run", "--budget", "x", "--jsonl", "a", "--jsonl", "b", "--", "true"], "give --jsonl once"),
    (["run", "--budget", "x", "--format=csv", "--", "true"], "--budget has no --format=csv"),
    (["run", "--budget", "x", "--runs", "101", "--", "true"], "give 1 to 100"),
])
def test_options(args, why):
    wrong = Ran([CUDATRACE, *args])
    assert wrong.status == 2 and why in wrong.err and wrong.out == "" and len(wrong.err.splitlines()) == 1, wrong
