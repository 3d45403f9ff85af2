# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 50
# own processes
"""The daemon's counts must equal the mock driver's own, by each mechanism. Also tests the events that begin a burst."""
import collections
import time

import pytest
from helpers.daemon import driver_counts
from helpers.run import ALL, MECHANISMS, needs_mechanism, until


@pytest.mark.parametrize("mech", MECHANISMS)
def test_exact(private, mech):
    """Calls, launches, bytes, memory and errors of a program must be the same at each level."""
    needs_mechanism(mech)
    # Removing a function's perf event takes 0.1 s.
    functions = "cuMemAlloc,cuMemFree,cuLaunchKernel,cuMemcpyHtoD" if mech == "perf" else ALL
    d = private.daemon("exact", f"--mechanism={mech}", f"trace.functions={functions}", "trace.buffer_size=32M",
                       level=[("full/", "trace"), ("", "metrics")])
    (private.folder / "full").mkdir()
    made = {}
    for who, name in ("cnt", "cnt"), ("full", "full/full"):
        private.sample(name, FAKE_CUDA_COUNTS=str(private.folder / f"counts.{who}"))
        made[who] = driver_counts(private.folder / f"counts.{who}")
    # The metrics of a program that has just ended may be of a moment before.
    time.sleep(0.3)
    m = d.metrics()
    for who in made:
        got = m.by("calls_total", "function", command=who)
        assert got and got == {k: n for k, n in made[who].items() if k in got} and (mech == "perf" or not made[who].keys() - got.keys())
        assert m.by("errors_total", "error", command=who) == {"CUDA_ERROR_OUT_OF_MEMORY": 1}
        assert m.total("memory_bytes", command=who) == m.total("target_processes", command=who) == 0
        assert m.total("memory_peak_bytes", command=who, kind="device") > 0
        assert m.total("call_duration_seconds_count", command=who) == m.total("calls_total", command=who)
    assert m.by("memory_peak_bytes", "kind", command="cnt") == m.by("memory_peak_bytes", "kind", command="full")
    # Launches are counted, and those of a capture with them.
    launches, captured = m.by("launches_total", "command"), m.by("graph_nodes_captured_total", "command")
    assert launches["cnt"] == launches["full"] + captured["full"] > 0
    d.stop()
    calls = [e for e in d.lines() if "symbol" in e]
    assert {e["comm"] for e in calls} == {"full"}
    # The first calls may come before the level is known: they are then counted only.
    seen = collections.Counter(e["symbol"] for e in calls)
    own = collections.Counter({k: n for k, n in made["full"].items() if k in m.by("calls_total", "function")})
    assert len(seen) > 3 and not seen - own and (own - seen).total() < 20

    def copied(two_d):
        """Bytes by direction; level metrics does not have those of 2D copies."""
        out = collections.Counter()
        for e in calls:
            if (e["type"], e["op"]) == ("transfer", "copy") and not e.get("error") and (two_d or "2D" not in e["name"]):
                out[e.get("direction", "unknown")] += e["size"]
        return +out
    assert copied(True) == m.by("transfer_bytes_total", "direction", command="full") != {}
    assert copied(False) == m.by("transfer_bytes_total", "direction", command="cnt")


def test_bursts(private):
    """At level sampled, errors, memory and Xids must begin a burst, but not more often than the cooldown allows."""
    often = "sample.trace=0.3s", "sample.every=0s", "sample.cooldown=6s", "sample.on.memory_above=1M"
    d = private.daemon("sampled", *often, level="sampled")

    def bursts(m):
        return m.total("bursts_total")
    victim = d.worker("victim")
    victim.tell("alloc 5")
    m = d.metrics()
    assert bursts(m) == 0 and m.total("calls_total", command="w-victim") > 0
    victim.tell("fail 2")
    d.until(lambda m: bursts(m) == 1, 3)
    victim.tell("fail 2")
    time.sleep(1.3)
    m = d.metrics()
    assert bursts(m) == 1 and m.total("errors_total", command="w-victim") == 4, "the next one is not yet due"
    private.sample("big", "--tokens", 1)
    d.until(lambda m: bursts(m) == 2, 3)
    time.sleep(6)
    try:
        with open("/dev/kmsg", "w", encoding="ascii") as f:
            f.write("<4>NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n")
    except OSError:
        pytest.skip("all but an Xid: /dev/kmsg cannot be written")
    d.until(lambda m: m.total("xids_total", xid="79", gpu="0000:3b:00.0") >= 1 and bursts(m) >= 3, 3)


def test_the_same_moments(private):
    """Machines sample at multiples of sample.every of the wall clock."""
    d = private.daemon("moments", "sample.trace=0.3s", "sample.every=3s", level="sampled")
    pid, at = d.worker("idle").pid, []
    for n in (1, 2):
        until(lambda n=n: d.process(pid)["bursts"] >= n)
        at.append(time.time())
    assert all(t % 3 < 1 for t in at) and 1 < at[1] - at[0] < 5, at
