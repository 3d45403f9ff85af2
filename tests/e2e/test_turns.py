# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 15
# traces nothing
"""The overhead that tests/gpu/turns.py measures must be the real one, even on a machine that is sometimes busy."""
import os
import random
import re
import statistics
import sys

from helpers.run import TESTS, Ran

GPU = os.path.join(TESTS, "gpu")
sys.path.insert(0, GPU)
import turns  # noqa: E402


class Costly:
    """A program whose time grows slowly, and is sometimes twice as long."""

    def __init__(self, way, factor, clock):
        self.way, self.factor, self.clock = way, factor, clock

    def rounds(self, _):
        self.clock[0] += 1
        took = self.factor * (1 + self.clock[0] / 5000) * (1 + random.expovariate(30)) * random.choice([1, 1, 1, 2])
        return [took, took]


def test_interval_has_the_cost():
    random.seed(1)
    clock = [0]
    sets = [[Costly(way, f * random.gauss(1, 0.002), clock) for way, f in (("", 1), ("1.03", 1.03), ("again", 1))] for _ in range(6)]
    took = turns.take_turns(sets, 0.05, 1)
    for way, cost in (("1.03", 1.03), ("again", 1)):
        low, high = turns.interval(took[way], lambda t: statistics.median(turns.ratios(t)), 200)
        assert low < cost < high and high - low < 0.02, (way, low, high)
        assert abs(statistics.median(turns.ratios(sum(took[way], []))) - cost) < 0.007


def test_verdict():
    assert turns.verdict(1.0, 1.1, 1.15) == "so it is" and turns.verdict(1.1, 1.2, 1.15) == "not shown"
    assert turns.verdict(1.2, 1.3, 1.15) == "not so" and turns.verdict(0.5, 0.7, 1.25, 0.75) == "not so"


def test_processes():
    """With real processes, a program that takes three times as long must be recognized by the least of its times, however busy the machine
    is."""
    r = Ran([sys.executable, GPU + "/turns.py", "3", "--seconds", "5", "--copies", "3"], timeout=120)
    assert r.status == 0, r
    least = {m[1]: float(m[2]) for m in re.finditer(r"^(\S.*?) +[\d.]+ ms, [\d.]+ of untraced, 95 %: .*, of the least ([\d.]+); \d+ turns$", r.out, re.M)}
    assert set(least) == {"3", "untraced, again"} and least["untraced, again"] < 1.8 < least["3"], r.out
