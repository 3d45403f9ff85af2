# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The wall clock is set by hours and days while the daemon and the tracer run (tests/clock.c simulates this for them alone). Timeouts
and durations must use another clock; displayed times must show the new one."""
import datetime
import re
import struct
import time

import pytest
from helpers.daemon import lines_of
from helpers.live import Tracer
from helpers.otlp import Collector
from helpers.run import FAKE, TESTS, until

BACK, FORTH = -18000, 259200


class Clock:
    """A wall clock that is off by a few seconds for programs with this environment."""

    def __init__(self, private):
        self.file = private.folder / "off"
        self.set(0)
        self.env = {"LD_PRELOAD": private.compiled("clock.so", "-shared", "-fPIC", f"{TESTS}/clock.c"), "CLOCK_OFF": str(self.file)}

    def set(self, seconds):
        # In place: the programs have mapped it.
        with open(self.file, "r+b" if self.file.exists() else "wb") as f:
            f.write(struct.pack("q", seconds))


@pytest.fixture
def clock(private):
    return Clock(private)


def wall(header):
    """The time in a header."""
    return datetime.datetime.fromisoformat(header["wall_time"][:26]).replace(tzinfo=datetime.timezone.utc).timestamp()


def objects(x):
    """All JSON objects in x."""
    if isinstance(x, dict):
        yield x
    for y in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
        yield from objects(y)


def check_files(files):
    """Names of files and dumps must increase with time. Each header must have the clock's time, so that each line's time is known."""
    boot = time.time() - time.monotonic()
    found = [(f, list(lines_of(f))) for f in sorted(files, key=lambda f: re.sub("^[a-z]*-", "", f.name))]
    # The start of a file; for a dump, its end.
    stamps = [lines[1 if f.name.startswith("trace-") else -1]["ts"] for f, lines in found]
    assert stamps == sorted(stamps), [(f.name, t) for (f, _), t in zip(found, stamps)]
    traces = [lines for f, lines in found if f.name.startswith("trace-")]
    offs = [wall(lines[0]) - lines[0]["clock_base_ns"] / 1e9 - boot for lines in traces]
    assert len(offs) >= 3 and offs == pytest.approx([0, BACK, FORTH, BACK][:len(offs)], abs=2.5)
    # All calls are in them, once.
    assert sum(x.get("symbol") == "cuMemAlloc_v2" for lines in traces for x in lines) == 300


def check_sent(got):
    """Times are of the clock, and nothing ends before it begins."""
    sent = [(r["time"], x) for r in got.requests for x in objects(r["json"]) if "startTimeUnixNano" in x]
    assert sum("timeUnixNano" in x for _, x in sent) > 100 < sum("endTimeUnixNano" in x for _, x in sent)
    for at, x in sent:
        end = int(x.get("endTimeUnixNano") or x["timeUnixNano"])
        assert int(x["startTimeUnixNano"]) <= end and min(abs(end / 1e9 - at - off) for off in (0, BACK, FORTH)) <= 20, x


def test_daemon(private, clock):
    collector, began = Collector(private), time.time()
    d = private.daemon("c", f"otlp.endpoint=http://127.0.0.1:{collector.port}", "otlp.interval=1s", "otlp.slow_call=0.001us",
                       "files.compress=none", level="trace", env=clock.env)
    c, begun = d.worker("a"), time.time()

    def is_off(seconds):
        assert began - 2 < d.metrics().total("self_start_time_seconds") - seconds < begun + 2
        before = collector.received('"/v1/metrics"')
        until(lambda: collector.received('"/v1/metrics"') >= before + 2, 5)
        assert d.healthy()
    c.tell("alloc 100")
    assert d.ctl("dump", "one")["file"].endswith("-one.jsonl.zst")
    is_off(0)
    clock.set(BACK)
    until(lambda: len(d.all_files("trace-*.jsonl")) == 1, 10)
    c.tell("alloc 100")
    assert d.ctl("dump", "two")["file"].endswith("-two.jsonl.zst")
    is_off(BACK)
    clock.set(FORTH)
    until(lambda: len(d.all_files("trace-*.jsonl")) == 2, 10)
    c.tell("alloc 100")
    is_off(FORTH)
    # No file has reached its age.
    assert len(d.all_files()) == 3
    # A burst ends though the clock goes back.
    d.ctl("level", c.pid, "sampled")
    assert d.ctl("burst", c.pid, "1s")["processes"] == 1
    clock.set(BACK)
    until(lambda: d.process(c.pid)["traced"] is False, 5)
    assert d.healthy()
    c.end()
    d.stop()
    check_files(d.all_files("*"))
    check_sent(collector.end())


def test_tracer(private, clock):
    """The duration must not depend on the wall clock, and the header must have the clock's time at the start."""
    busy = private.start(FAKE + "/sample", "--tokens", 1000000, env={"LD_LIBRARY_PATH": str(private.lib)}, stdout=-3, stderr=-3)
    begun = time.time()
    t = Tracer(private.folder, "t", "--duration", 3, "-e", "sync", "-p", busy.pid, env=clock.env)
    private.started.append(t.p)
    for by in FORTH, BACK, 0, FORTH:
        clock.set(by)
        time.sleep(0.3)
    assert t.ended() == 0
    busy.kill()
    trace = t.trace
    assert trace.accounts() and trace.end["reason"] == "duration" and 2900 < trace.end["wall_ms"] < 20000
    assert trace.calls and all(0 <= c.get("duration_us", 0) < 2e7 for c in trace.calls)
    assert begun - 1 < wall(trace.head) < time.time()
