# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 150
# own processes
# long
"""Everything full at once: programs of several users fill each table of a daemon with default settings. Clients request /metrics and do
not read. Members of ctl.group do the same with the control socket, or send endless lines. A collector never ends its responses. The
daemon must stay below its unit's limit, in a memory cgroup of that size if possible, and report each full table. Labels of maximal
length and the rings of many processors are not filled here: only the sum in tests/unit/test_daemon_memory.c has them."""
import contextlib
import os
import pathlib
import re
import subprocess

import pytest
from helpers.floods import Floods
from helpers.live import compiled
from helpers.ports import free_port
from helpers.run import FAKE, TESTS, until

LIMIT_KB = 544 << 10
USERS = range(65531, 65535)
# Each first flood is larger than one process's share of the table.
FILLS = [("kernel_names", "names", 65531, (25000, 14000, 9000)),
         ("kernel_handles", "handles", 65532, (130000, 75000, 75000)),
         ("memory_ranges", "ranges", 65533, (145000, 75000, 45000)),
         ("captures", "captures", None, (4700,) * 16)]
TABLES = ["kernel_names", "kernel_handles", "memory_ranges", "captures", "process_labels", "libraries", "functions", "iterations"]
# A user may have at most as much as remains free, so the last part stays free. Losses in the rings also reduce the use.
IN_USE = {"kernel_handles": 100000, "memory_ranges": 100000, "kernel_names": 15e6, "captures": 25000, "process_labels": 700}


@pytest.fixture
def cgroup():
    """A memory cgroup (version 2 or 1) like the unit's, so that the kernel's memory for the daemon counts, too. None: it cannot be made."""
    top, limit = pathlib.Path("/sys/fs/cgroup"), "memory.max"
    if (top / "memory/memory.limit_in_bytes").exists():
        top, limit = top / "memory", "memory.limit_in_bytes"
    path = top / f"full-{os.path.basename(os.environ['TMP'])}"
    with open(os.environ["TMP"] + "/cgroups.made", "a", encoding="utf-8") as f:
        f.write(f"{path}\n")
    try:
        path.mkdir()
        (path / limit).write_text(f"{LIMIT_KB}K")
    except OSError:
        path = path.rmdir() if path.exists() else None
    yield path
    if path:
        until(lambda: not (path / "cgroup.procs").read_text(), 5)
        path.rmdir()


def full(m, table):
    return m.total("table_full_total", table=table) > 0 and m.total("table_used", table=table) > 0


def wait_for(d, what, name):
    """As d.until(), with the tables and losses in the message."""
    try:
        d.until(what)
    except AssertionError:
        m = d.metrics()
        raise AssertionError((name, m.by("table_full_total", "table"), m.by("table_used", "table"), m.by("dropped_total", "what"))) from None


def fill(d, floods, table, what, uid, counts):
    """A flood is repeated if it was not enough, because on a busy machine the rings lose half of the data of several floods."""
    for i, n in enumerate(counts):
        floods.add(uid or USERS[i % 4], what, n)
    floods.run(d)
    for _ in range(3):
        with contextlib.suppress(AssertionError):
            return d.until(lambda m: full(m, table), 1)
        floods.add(uid or USERS[0], what, counts[0])
        floods.run(d)
    return None


def crowd(private, floods):
    """140 programs with names of their own, each with 20 processes that call 60 functions with four results."""
    out = subprocess.check_output(["nm", "-D", "--defined-only", FAKE + "/libcuda.so.1"], text=True)
    exports = sorted(set(re.findall(r" (cu[A-Z]\w*)", out)))
    names = [n for n in exports if not re.search("^cuFake|Get|Query", n)][:60]
    (private.folder / "names").write_text("\n".join(names))
    (private.folder / "names").chmod(0o644)
    source = private.folder / "crowd.c"
    source.write_text("".join(f"int {n}(int code) {{ return code; }}\n" for n in names))
    lib, program = floods.library("crowd", source), compiled(floods.folder / "program", f"{TESTS}/faults/crowd.c")
    (floods.folder / "many.names").mkdir()
    for i in range(140):
        os.link(program, floods.folder / f"many.names/crowd{i}")
    args = lib, private.folder / "names", 20, 4
    return [floods.start(USERS[2 + i % 2], floods.folder / f"many.names/crowd{i}", *args) for i in range(140)]


def fill_all(d, private, floods, libs):
    """All at the same time would only fill the ring. The entries of one group stay while the next group starts."""
    # Processes use the same table as threads, and so end before those start.
    for uid in USERS:
        floods.add(uid, "processes", 2300)
    floods.run(d)
    d.until(lambda m: m.total("table_used", table="processes") > 5000)
    d.until(lambda m: sum(m.total("dropped_total", what=w) for w in ("threads", "threads_share", "processes")) > 0)
    floods.kill()
    d.until(lambda m: m.total("table_used", table="processes") < 500, 20)
    for table, what, uid, counts in FILLS:
        fill(d, floods, table, what, uid, counts)
    for uid in USERS[:3]:
        floods.add(uid, "alive", 2100)
    floods.run(d)
    assert {p.stdout.readline() for p in crowd(private, floods)} == {"done\n"}
    # A daemon with much to do may refuse to read a library in time.
    for uid in USERS:
        floods.add(uid, "libraries", 0, floods.many(f"many.{uid}"))
        floods.run(d)
        with contextlib.suppress(AssertionError):
            d.until(lambda m: full(m, "functions"), 3)
            break
    for i, uid in enumerate(USERS):
        floods.add(uid, "libraries", 0, *libs[40 * i:40 * (i + 1)])
    floods.run(d)
    # Short processes, many, and threads with names of their own.
    for what, n in ("short", 1500), ("own-names", 20000), ("processes", 1000):
        for uid in USERS[:3]:
            floods.add(uid, what, n)
    floods.run(d)


def test_everything_full(cgroup, private):
    floods, port = Floods(private), free_port()
    libs = floods.copies(160)
    private.attack("answer-drip", port, 400, out="collector")
    inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', cgroup / "cgroup.procs"] if cgroup else []
    d = private.daemon("full", "files.total_size=64M", "files.rotate_size=8M", "ctl.group=nogroup",
                       f"otlp.endpoint=http://127.0.0.1:{port}", "otlp.interval=2s", "otlp.slow_call=0.001us",
                       "otlp.iterations=cuCtxSynchronize", before=inside, level=[("hostile/many.names/", "metrics"), ("hostile/", "trace"), ("", "metrics")])
    assert "may take up to" not in d.said(), "the defaults allow more than the unit"
    beside = d.worker("beside")
    # Its series must exist before the tables are full.
    beside.tell("alloc 10")
    d.until(lambda m: m.calls("w-beside") == 10)
    clients = [private.attack(what, d.at.split(":")[1], 400, out=what) for what in ("readers", "pipeline", "connections", "header")]
    clients += [private.attack("ctl-" + what, d.sock, 400, out="ctl-" + what) for what in ("readers", "line", "connections", "drip")]
    fill_all(d, private, floods, libs)
    beside.tell("alloc 100")
    assert [c.args for c in clients if c.poll() is not None] == [], "clients go on to the end"
    for c in clients:
        c.kill()
    for table in TABLES:
        wait_for(d, lambda m: full(m, table), table)
    for what in "counts", "errors", "threads_share":
        wait_for(d, lambda m: m.total("dropped_total", what=what) > 0, what)
    m = d.until(lambda m: m.total("series_rejected_total") > 0 and m.total("otlp_dropped_total") > 0 and m.total("otlp_queued") > 1000)
    print({k: int(v) for k, v in m.by("table_used", "table").items()}, d.kilobytes("VmHWM"), "kB,", d.kilobytes("RssAnon"), "kB its own")
    d.until(lambda m: all(m.total("table_used", table=t) > n for t, n in IN_USE.items()))
    d.until(lambda m: m.calls("w-beside") == 110)
    assert d.kilobytes("VmHWM") < LIMIT_KB
    if cgroup:
        events = (cgroup / ("memory.events" if "memory" not in cgroup.parts else "memory.oom_control")).read_text()
        assert re.search(r"^oom_kill 0$", events, re.M), events
    floods.kill()
    # The entries must be removed when the processes have gone.
    d.until(lambda m: m.total("table_used", table="kernel_names") < 1000000 and
            all(m.total("table_used", table=t) < 2000 for t in ("kernel_handles", "memory_ranges", "captures", "process_labels")), 20)
    beside.end()
    d.stop()
    if not cgroup:
        pytest.skip("all but the cgroup of 544 MB: no memory cgroup can be made here")
