# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How often, and by how much, the processes of a job were late to collectives: from the lines of a trace."""
import collections


def kernel_starts(lines):
    """{(communicator, number): when each rank's first kernel of this collective began, ms}. A group's kernel is that of its last collective."""
    owner, parent, kinds, begun, starts = {}, {}, {}, set(), collections.defaultdict(list)
    for e in lines:
        if e.get("type") == "collective" and "bytes" in e and "communicator" in e:
            key, kind = (e["pid"], e.get("group") or e["id"]), (e["communicator"], e["op"])
            owner[key] = kinds.setdefault(key, kind) == kind and owner.get(key, True) and (e["communicator"], e.get("seq"))
        if "parent" in e:
            parent[e["pid"], e["id"]] = (e["pid"], e["parent"])
    for e in lines:
        key = parent.get((e.get("pid"), e.get("call_id"))) if e.get("type") == "gpu" else None
        key = key if key in owner else parent.get(key)
        if owner.get(key) and key not in begun:
            begun.add(key)
            starts[owner[key]].append(e["ts"])
    return starts


def episodes(lines, begin_ms=0, end_ms=float("inf"), starts=None):
    """{pid: [(from, to, by)]}, ms: times in which another rank was in a collective that this one began last, a millisecond or more after the
    first. Those that overlap are one, as long as the first of them. starts: kernel_starts(), from the first to the last of which others wait."""
    at = collections.defaultdict(dict)
    for e in lines:
        if e.get("type") == "collective" and e.get("seq") and "bytes" in e:
            at[e["communicator"], e["seq"]][e["pid"]] = e
    spans = collections.defaultdict(list)
    for which, ranks in at.items():
        if len(ranks) < next(iter(ranks.values()))["nranks"]:
            continue
        first, last = min(e["ts"] for e in ranks.values()), max((e["ts"], e["rank"], pid) for pid, e in ranks.items())
        if last[0] - first >= 1:
            began = starts.get(which, []) if starts else []
            spans[last[2]].append((min(began), max(began)) if len(began) == len(ranks) else (first, last[0]))
    found = collections.defaultdict(list)
    for pid, mine in spans.items():
        for begin, end in sorted(mine):
            if found[pid] and begin <= found[pid][-1][1]:
                found[pid][-1][1] = max(found[pid][-1][1], end)
            else:
                found[pid].append([begin, end, end - begin])
    return {pid: [x for x in mine if begin_ms <= x[1] <= end_ms] for pid, mine in found.items()}


def steady(report):
    """From the first iteration after the warm-up to the end of the last, ms; without iterations, the whole trace."""
    steps = report["iterations"].get("list", [])[report["iterations"].get("warmup", 0):]
    return (steps[0]["ts"], steps[-1]["ts"] + steps[-1]["time_ns"] / 1e6) if steps else (0, float("inf"))


def typical(mine):
    """Half of the time is in longer episodes. Returns that length, and the episodes of at least half of it."""
    lengths, total = sorted(x[2] for x in mine), 0
    for by in lengths:
        total += by
        if 2 * total >= sum(lengths):
            return by, [x for x in mine if 2 * x[2] >= by]
    return 0, []
