# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 5
"""Ranks of one job in one report: global ranks, late ranks and shared steps, against simulated jobs (tests/oracle/job.py)."""
import json
import os
import subprocess
import sys

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
import job  # noqa: E402
import late  # noqa: E402
import oracle  # noqa: E402

STEPS = 200


def report_of(folder, lines, *options):
    path = folder / "trace.jsonl"
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(line) + "\n" for line in lines)
    return json.loads(subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--format=json", *options, path], check=True, stdout=subprocess.PIPE).stdout)


def finding(report):
    return [x for x in report["findings"] if x["id"] == "late-rank"]


def test_late(tmp_path):
    """A delay of 5 ms in each tenth step is 20 delays, although the rank is late to four collectives of two communicators each time."""
    lines = job.Job(STEPS, late=(3, 10, 5_000_000)).lines()
    report = report_of(tmp_path, lines)
    found, = finding(report)
    by, episodes = late.typical(late.episodes(lines, *late.steady(report))[703])
    assert len(episodes) == 20 and by == pytest.approx(5, abs=0.02)
    assert found["text"].startswith(f"Global rank 3 was late 20 times, typically by {by:.2f} ms"), found["text"]
    assert found["lost_ns"] == found["steady_ns"] == pytest.approx(sum(x[2] for x in episodes) * 1e6, abs=100)
    assert not oracle.check(lines, report)


def test_not_late(tmp_path):
    """Differences of 15 µs between ranks, and delays below a millisecond, are no finding."""
    for jobs in (job.Job(STEPS), job.Job(STEPS, late=(3, 10, 900_000))):
        assert not finding(report_of(tmp_path, jobs.lines()))


@pytest.mark.parametrize("base", [0, 4])
def test_global_ranks(tmp_path, base):
    """No communicator has all ranks: only the environment has their numbers. This may be the second node of the job."""
    report = report_of(tmp_path, job.Job(STEPS, late=(2, 10, 5_000_000), base=base).lines())
    assert {x["pid"]: x["rank"] for x in report["compared"]} == {700 + i: base + i for i in range(4)}
    assert {x["pid"]: x["rank"] for x in report["overview"]["processes"]} == {700 + i: base + i for i in range(4)}
    assert {(r["pid"], r["global_rank"]) for c in report["communication"]["communicators"] for r in c["ranks"]} == {(700 + i, base + i) for i in range(4)}
    assert finding(report)[0]["text"].startswith(f"Global rank {base + 2} was late 20 times")


def test_unknown_ranks(tmp_path):
    report = report_of(tmp_path, job.Job(STEPS, late=(2, 10, 5_000_000), ranked=False).lines())
    assert not any("rank" in x for x in report["compared"])
    assert finding(report)[0]["text"].startswith("Process 702 was late 20 times")


@pytest.mark.parametrize("logs", [None, (3, 10), (0, 10), (1, 2), (2, 50)])
def test_steps_are_shared(tmp_path, logs):
    """A rank that waits once more in some steps has the steps of the other ranks."""
    jobs = job.Job(STEPS, late=(3, 10, 5_000_000), logs=logs)
    report = report_of(tmp_path, jobs.lines())
    assert [x["iterations"] for x in report["compared"]] == [STEPS] * 4
    assert report["iterations"]["count"] == STEPS and report["iterations"]["confidence"] > 0.8
    step = sorted(b - a for a, b in zip(jobs.ends, jobs.ends[1:]))[STEPS // 2]
    for row in report["compared"]:
        assert row["iteration_ns"] == pytest.approx(step, rel=0.03), row


def test_other_jobs_keep_their_steps(tmp_path):
    """A process that makes other collectives is no rank of the job: its steps are its own."""
    other = job.Job(40, base=8, logs=None)
    for _, _, line in other.trace.lines:
        line.update(pid=line["pid"] + 100, tid=line["tid"] + 100)
        if "communicator" in line:
            line["communicator"] = "0x" + line["communicator"][2:] + "00"
        for name in ("id", "parent"):
            if name in line:
                line[name] += 1_000_000
    both = job.Job(STEPS)
    both.trace.lines += [(end, n + 1_000_000, line) for end, n, line in other.trace.lines]
    report = report_of(tmp_path, both.lines())
    assert {x["pid"]: x["iterations"] for x in report["compared"]} == {**{700 + i: STEPS for i in range(4)}, **{800 + i: 40 for i in range(4)}}


@pytest.mark.parametrize("last", [2**53 - 1, 2**64 - 1])
def test_high_sequence_numbers(tmp_path, last):
    """Numbers of a damaged trace may be as high as they are wide; readers of JSON know those below 2**53 exactly."""
    lines = job.Job(STEPS, late=(3, 10, 5_000_000)).lines()
    most = max(x["seq"] for x in lines if x.get("seq"))
    for x in lines:
        if x.get("seq"):
            x["seq"] += last - most
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ran = subprocess.run([os.environ["CUDATRACE"], "report", "-q", "--format=json", path], check=True, stdout=subprocess.PIPE, timeout=60)
    assert last >= 2**53 or finding(json.loads(ran.stdout))[0]["text"].startswith("Global rank 3 was late 20 times")
