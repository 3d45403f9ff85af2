# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Reads a JSONL trace, and checks its sums against its lines."""
import collections
import gc
import json

# With a hundred thousand lines it takes a quarter of the time, and collects nothing.
gc.disable()


class Trace:
    """ev all lines   head the header   end the end   calls proc lib events by kind   sym Counter of symbols
    more: further segments (--max-file)   ends of all"""

    def __init__(self, path, *more):
        self.ev = self._lines(path)
        self.ends = [self.ev[-1]]
        for p in more:
            self.ev += self._lines(p)
            self.ends.append(self.ev[-1])
        self.head, self.end = self.ev[0], self.ev[-1]
        self.calls = [e for e in self.ev if "symbol" in e]
        self.proc = [e for e in self.ev if e["type"] == "process"]
        self.lib = [e for e in self.ev if e["type"] == "library"]
        self.sym = collections.Counter(e["symbol"] for e in self.calls)

    @staticmethod
    def _lines(path):
        ev = []
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                try:
                    ev.append(json.loads(line))
                except ValueError as e:
                    raise AssertionError(f"{path}: line {number} is no JSON: {e}: {line[:200]!r}") from None
        assert len(ev) >= 2, f"{path}: {len(ev)} lines: no header or no end"
        return ev

    def accounts(self, drops=False, missed=()):
        """Checks that the sums of the trace match its lines, and that nothing was lost, except the kinds that the kernel may
        have missed. Returns True, or raises an AssertionError with the reason."""
        wrong = []

        def same(what, a, b):
            if a != b:
                wrong.append(f"{what}: {a}, not {b}")
        ev, calls, head, end = self.ev, self.calls, self.head, self.end
        same("first line", head["type"], "header")
        same("last line", end["type"], "end")
        same("schema", head["schema"], 2)
        types = collections.Counter(e["type"] for e in ev[1:-1])
        same("events", {k: v for k, v in end["events"].items() if v}, dict(types))
        same("calls", end["calls"], len(calls))
        unfinished = [e for e in calls if e.get("unfinished")]
        abandoned = [e for e in calls if e.get("abandoned")]
        ended = [e for e in calls if "duration_us" in e]
        entry_only = [e for e in calls if e.get("entry_only")]
        counted = end.get("counted", {}).values()

        def count(what):
            return sum(c.get(what, 0) for c in counted)
        same("returned, unfinished and abandoned calls, and entries",
             len(ended) + len(unfinished) + len(abandoned) + len(entry_only), len(calls))
        if not drops:
            same("drops", {k: v for k, v in end["drops"].items() if v and k not in missed}, {})
            same("unfinished", end["unfinished"], len(unfinished) + count("unfinished"))
            same("abandoned", end["abandoned"], len(abandoned) + count("abandoned"))
            ids = {e["id"] for e in calls}
            same("calls whose parent is no call of the trace", [e["id"] for e in calls if e.get("parent", e["id"]) not in ids], [])
        same("bad records", end["bad_records"], 0)
        # As root, the library and probes may both record a call while the library takes over.
        both = end["duplicates"] if head["mechanism"] == "inject" else 0
        same("duplicates", end["duplicates"], both)
        same("distinct ids", len({e["id"] for e in calls}), len(calls))
        same("results of unfinished calls", [e for e in unfinished + abandoned if "result" in e or "duration_us" in e], [])
        same("negative durations", [e for e in calls if e.get("duration_us", 0) < 0], [])
        same("calls that end after the trace", [e for e in ended if e["ts"] + e["duration_us"] / 1000 > end["ts"] + 1e-3], [])
        same("entries", end["entries"], len(calls) + both + end["drops"]["calls"] + end["drops"]["counts"] + end["filtered"]
             + count("calls") + count("unfinished") + count("abandoned") + end.get("nvtx_calls", 0) + end.get("torch_calls", 0))
        # A trace without entries has only --kernel.
        if end["entries"] and not counted and not entry_only:
            # Both are rounded to six digits.
            product = end["entries"] * end["probe_cost_ns"]
            same("cost is near", abs(end["cost_ms"] * 1e6 - product) <= 1 + product * 2e-5, True)
        assert not wrong, "\n".join(wrong)
        return True
