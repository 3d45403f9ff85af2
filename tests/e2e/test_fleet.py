# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# long
# takes: 300
# cpus: 2
"""A job of 512 ranks on 64 machines, each with a clock of its own: a late rank and a slow machine are found, in bounded memory."""
import json
import os
import pathlib
import sys
import time

import pytest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "oracle"))
from machines import Fleet  # noqa: E402


@pytest.mark.parametrize("ranks, machines, filler", [(64, 8, 0), (512, 64, 0), (64, 8, 200)])
def test_fleet(tmp_path, ranks, machines, filler):
    slow, late = machines - 3, ranks // 2 + 5
    fleet = Fleet(ranks=ranks, machines=machines, steps=120, slow=(slow, 1.3), late=(late, 10, 20_000_000), filler=filler)
    paths = fleet.write(tmp_path)
    # A port that lost packets: a sample of one machine, in the trace of its first rank.
    first = pathlib.Path(paths[0])
    *lines, end = first.read_text(encoding="utf-8").splitlines()
    end = json.loads(end)
    end["events"]["network"] = 1
    port = {"type": "network", "op": "sample", "name": "port", "pid": 0, "tid": 0, "comm": "", "device": "mlx5_0", "port": 1,
            "link": "InfiniBand", "state": "ACTIVE", "packet_seq_err": 40, "ack_timeouts": 2}
    first.write_text("\n".join([*lines, json.dumps({"ts": json.loads(lines[-1])["ts"], **port}), json.dumps(end)]) + "\n", encoding="utf-8")
    size = sum(os.path.getsize(x) for x in paths)
    began = time.monotonic()
    pid = os.spawnv(os.P_NOWAIT, os.environ["CUDATRACE"], ["cudatrace", "report", "-q", "--format=json", "-o", str(tmp_path / "report.json"), str(tmp_path)])
    _, status, usage = os.wait4(pid, 0)
    took = time.monotonic() - began
    assert status == 0
    print(f"{ranks} ranks: {size / 1e6:.0f} MB in {took:.1f} s, {usage.ru_utime + usage.ru_stime:.1f} s of a processor, {usage.ru_maxrss / 1024:.0f} MB of memory")
    assert usage.ru_maxrss < 1 << 20
    said = json.loads((tmp_path / "report.json").read_text())
    assert len(said["traces"]) == ranks and {x["clock"] for x in said["traces"]} <= {"first", "same", "collectives"}
    comm, = said["communication"]["communicators"]
    assert (comm["joined"], comm["nranks"], comm["ranks_rejected"], comm["apart"]) == (120, ranks, 0, False)
    assert comm["clock_error_ns"] < 3_000_000  # the slow machine is always the last
    found, = [x for x in said["findings"] if x["id"] == "late-rank"]
    assert found["text"].startswith(f"Global rank {late} was late 12 times, typically by 1") or f"rank {late} was late 12 times" in found["text"], found["text"]
    assert len(said["machines"]) == machines and said["machines"][0]["host"] == f"node{late // (ranks // machines)}"
    assert {x["host"]: x["packets_lost"] for x in said["machines"] if "why" in x} == {f"node{slow}": 0, "node0": 42}
    assert [x["why"] for x in said["machines"] if x["packets_lost"]] == ["42 lost packets"]
