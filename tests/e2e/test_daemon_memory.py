# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40 80
# own processes
"""Another user's processes fill all of the daemon's tables, at once and repeatedly. Its memory must stay far below its unit's limit, and
shrink when they have gone. Calls of others must be counted, or counted as lost."""
import collections

import pytest
from helpers.daemon import driver_counts
from helpers.floods import Floods
from helpers.run import until

NOBODY = 65534
# More than one share of each table.
FLOODS = {"names": 20000, "handles": 75000, "ranges": 145000, "captures": 6000, "threads": 2000}
TABLES = "kernel_names", "kernel_handles", "memory_ranges", "captures"


@pytest.fixture
def both(private):
    """A daemon at level trace for the floods, and at level metrics for other programs; and floods."""
    floods = Floods(private)
    return private.daemon("memory", "files.total_size=1M", "files.rotate_size=256K", "recorder.seconds=0",
                          level=[("hostile/", "trace"), ("", "metrics")]), floods


def given_back(m):
    return m.total("table_used", table="kernel_names") < 1000000 and \
        all(m.total("table_used", table=t) < 2000 for t in ("kernel_handles", "memory_ranges", "captures", "threads"))


def counted_or_lost(m, command, counts):
    """Of the calls that the driver made, less than half may be lost, and only if the losses are counted: most are the floods'."""
    got = m.by("calls_total", "function", command=command)
    made = +collections.Counter({k: n for k, n in driver_counts(counts).items() if k in m.by("calls_total", "function")})
    lost = made.total() - got.total()
    return made["cuLaunchKernel"] > 10 and got <= made and 2 * got.total() > made.total() and lost <= m.total("dropped_total", what="calls")


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.long)])
def test_rounds(both, rounds):
    """Each table is limited, and what it could not hold is counted. All is given back when the processes have ended."""
    (d, floods), rss = both, []
    beside = d.worker("beside")
    for n in range(rounds):
        for what, count in FLOODS.items():
            floods.add(NOBODY, what, count)
        floods.go(d)
        # Other programs meanwhile.
        victim, counts = f"victim.{n}", d.place.folder / f"counts.{n}"
        d.place.sample(victim, "--tokens", 3, "--layers", 4, FAKE_CUDA_COUNTS=str(counts))
        beside.tell("alloc 100")
        floods.done()
        if not n:
            d.until(lambda m: all(m.total("table_full_total", table=t) and m.total("table_used", table=t) for t in TABLES))
        # Threads that have ended are not kept; a busy daemon counts some of them as alive.
        d.until(lambda m: m.total("table_used", table="threads") < FLOODS["threads"] - 100)
        floods.leave()
        d.until(lambda m: counted_or_lost(m, victim, counts))
        d.until(given_back, 15)
        rss.append(d.kilobytes("RssAnon"))
    peak = d.kilobytes("VmHWM")
    print("after each round", rss, "kB; the most", peak, "kB")
    assert peak < 200000 and rss[-1] < 60000 and rss[-1] - rss[0] < 6000
    assert d.said().count("too many kernel names") == 1
    m = d.metrics()
    assert m.total("memory_bytes", command="w-beside") == 0 and m.calls("w-beside") == 100 * rounds
    beside.end()
    d.stop()


@pytest.mark.long
def test_libraries(both):
    """A user has a share of the library files, and a file a share of the functions. What exceeds them is counted, libraries of other users
    are traced meanwhile, and those that nobody uses go."""
    d, floods = both
    floods.add(NOBODY, "libraries", 0, floods.many(), *floods.copies(60))
    floods.run(d)

    def theirs():
        # Another daemon on the machine maps its attached files as root: those count for root, not for this share.
        return sum(x["uid"] == NOBODY for x in d.ctl("status")["libraries"])
    # Depends on when the daemon has time for the user.
    until(lambda: theirs() == 32)
    d.until(lambda m: m.total("table_full_total", table="libraries"))
    d.until(lambda m: m.total("table_used", table="functions") and m.total("table_full_total", table="functions") > 1000)
    assert "1244 exported functions without rows in the tables are not traced" in d.said() and theirs() == 32
    # Another user's new library must be attached, with functions that the table lacks.
    lib = d.place.new_lib("lib.new")
    newcomer = d.worker("newcomer", lib=lib)
    until(lambda: any(x["path"] == f"{lib}/libcuda.so.1" for x in d.ctl("status")["libraries"]))
    newcomer.tell("alloc 7")
    d.until(lambda m: m.calls("w-newcomer") == 7)
    newcomer.end()
    floods.leave()
    until(lambda: d.ctl("reload") is not None and floods.libraries(d) < 17, 30)
    d.stop()
