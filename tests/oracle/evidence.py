# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The calls that findings name as their evidence: that the lines have them, and that they are what the finding says."""
import collections

# By the words of the report: the findings that may have such calls; None: any.
KINDS = {"the call": None, "the call, on the critical path": {"launch-bound", "plans-in-loop"}, "without work before its execution": {"launch-bound"},
         "from its return to the next work": {"idle-between"}, "its NCCL kernel on the critical path": {"communication-alone"},
         "other ranks waited for it": {"late-rank"}}


class Lines:
    def __init__(self, o, lines, calls):
        self.o, self.calls = o, {(c["pid"], c["id"]): c for c in calls}
        self.works, self.of_pid, self.collectives = collections.defaultdict(list), collections.defaultdict(list), collections.defaultdict(list)
        for x in lines:
            if x["type"] == "gpu":
                self.works[x["pid"], x.get("call_id")].append(x)
                self.of_pid[x["pid"]].append((*o.span(x), x.get("gpu_stream")))
            elif x.get("type") == "collective" and x.get("seq"):
                self.collectives[x["communicator"], x["seq"]].append(x)

    def is_idle(self, pid, a, b):
        return not any(begin < b and end > a for begin, end, _ in self.of_pid[pid])


def is_launch_waited_for(f, c, a, b, _):
    mine = [x for x in f.works[c["pid"], c["id"]] if f.o.span(x)[0] == b]
    others = [x for x in f.of_pid[c["pid"]] if mine and x[2] == mine[0].get("gpu_stream") and a < x[1] <= b]
    return c["op"].startswith("launch") and mine and f.o.span(c)[1] > a and not others and any(end == a for _, end, _ in f.of_pid[c["pid"]])


def is_idle_after_wait(f, c, a, b, row):
    after = f.calls.get((c["pid"], row.get("next_id")))
    return f.o.blocks(c) and f.o.span(c)[1] == a and after and f.o.span(after)[0] == b and f.is_idle(c["pid"], a, b)


def is_communication(f, c, a, b, _):
    return any(x.get("kernel", "").startswith("nccl") and f.o.span(x)[0] <= a and b <= f.o.span(x)[1] for x in f.works[c["pid"], c["id"]])


def is_late(f, c, a, b, _):
    all_of_it = f.collectives[c.get("communicator"), c.get("seq")]
    begins = [f.o.span(x)[0] for x in all_of_it]
    return len(all_of_it) > 1 and f.o.span(c)[0] == b == max(begins) and min(begins) == a


CHECKS = {"without work before its execution": is_launch_waited_for, "from its return to the next work": is_idle_after_wait,
          "its NCCL kernel on the critical path": is_communication, "other ranks waited for it": is_late,
          "the call": lambda f, c, a, b, _: f.o.span(c) == (a, b), "the call, on the critical path": lambda f, c, a, b, _: f.o.span(c)[0] <= a and b <= f.o.span(c)[1]}


def check(o, d, lines, calls, report):
    if not any("calls" in x for x in report["findings"]):
        return
    f = Lines(o, lines, calls)
    for finding in report["findings"]:
        rows = finding.get("calls", [])
        d.law(f"findings.{finding['id']}.calls: not the longest first", [x["time_ns"] for x in rows] == sorted((x["time_ns"] for x in rows), reverse=True) and len(rows) <= 3)
        for row in rows:
            c, what = f.calls.get((row["pid"], row["call_id"])), f"findings.{finding['id']}: {row['function']} {row['call_id']}, {row['what']}"
            for name in row.keys() & {"time_ns", "call_id", "next_id", "ts"}:
                d.compares(row[name])
            d.law(f"{what}: no such call", c is not None and c["name"] == row["function"])
            d.law(f"{what}: of this finding", KINDS[row["what"]] is None or finding["id"] in KINDS[row["what"]])
            begin = o.ns(row["ts"])
            if c:
                d.law(f"{what}: the lines do not show it", CHECKS[row["what"]](f, c, begin, begin + row["time_ns"], row))
