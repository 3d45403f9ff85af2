# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# own processes
"""Programs that cause kernel events as fast as they can: names, processes, threads, programs, libraries (tests/churn.c). The daemon must
use little of the machine, lose nothing, and count all calls."""
import os
import pathlib
import shutil

from helpers.daemon import NOBODY
from helpers.run import TESTS, Ran

SECONDS = 2
# Whether each turn makes a call, besides the first one; None: an ended program's calls count under its last name.
FLOODS = {"renames": None, "forks": 0, "sessions": 0, "threads": 1, "execs": None, "loads": 1}


def test_floods(private):
    """The daemon takes at most half of a processor, counts the calls of the flood and of another program, and loses nothing."""
    def ticks():
        return sum(map(int, pathlib.Path(f"/proc/{d.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
    churn, lib = private.compiled("churn", f"{TESTS}/churn.c"), private.lib / "libcuda.so.1"
    # Large enough that a daemon that waits for a processor loses nothing.
    functions = "trace.functions=cuDriverGetVersion,cuMemAlloc_v2,cuMemFree_v2"
    d = private.daemon("floods", "trace.buffer_size=64M", functions, "recorder.seconds=0s")
    victim, per_second = d.worker("victim"), os.sysconf("SC_CLK_TCK")
    for i, (what, per_turn) in enumerate(FLOODS.items(), 1):
        before = ticks()
        ran = Ran([*NOBODY, shutil.copy(churn, private.folder / f"w-{what}"), what, str(SECONDS), str(lib)])
        assert ran.status == 0, ran
        turns = int(ran.out)
        victim.tell("alloc 50")
        print(f"{what}: {turns} in {SECONDS} s; the daemon took {ticks() - before} of {SECONDS * per_second} ticks")
        assert ticks() - before <= SECONDS * per_second / 2
        d.until(lambda m: m.calls("w-victim") == 50 * i, 10)
        if per_turn is not None:
            d.until(lambda m: m.calls(f"w-{what}", "cuDriverGetVersion") == 1 + per_turn * turns, 10)
    assert d.metrics().by("dropped_total", "what") == {}
    victim.end()
    d.stop()
