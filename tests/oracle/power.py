# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Adds samples of a GPU's energy counter to lines: the GPU has a known idle power, and each process a known power while its work runs. So the true
energy of any part is known without the report."""
import json

IDLE_W, WORK_W, PERIOD = 80, 500, 10_000_000  # PERIOD: of samples, ns
QUIET = 5 * PERIOD                            # before and after the program


def executions(lines):
    return [(x["pid"], round(x["ts"] * 1e6), round((x["ts"] * 1e6) + x["duration_us"] * 1e3)) for x in lines if x["type"] == "gpu"]


def overlap(begin, end, low, high):
    return max(0, min(end, high) - max(begin, low))


class Powered:
    """The lines of a program, later by QUIET, with samples of a GPU's energy counter."""

    def __init__(self, lines, work=None, watts=None, processes=(), first_mj=7_000_000_000, uuid="GPU-00000000-0000-0000-0000-000000000000", **sample):
        self.lines = [dict(x) for x in lines]
        for x in self.lines[1:]:
            x["ts"] += QUIET / 1e6
        self.work = [(pid, a, b) for pid, a, b in (executions(self.lines) if work is None else work)]
        self.watts = watts or {}
        end = self.lines.pop()
        self.last = -(-round(end["ts"] * 1e6) // PERIOD) * PERIOD + QUIET
        end["ts"] = (self.last + 1_000_000) / 1e6
        end["wall_ms"] = end["ts"]
        base = {"type": "gpu_stats", "name": "NVML", "pid": 0, "tid": 0, "comm": "", "gpu": 0}
        stats = [{"ts": 0, **base, "op": "device", "uuid": uuid, "minor": 0, "model": "NVIDIA H100 80GB HBM3"}]
        for ns in range(0, self.last + 1, PERIOD):
            stats += [{"ts": ns / 1e6, **base, "op": "process", "pid": pid, "comm": "other", "sm_util": 100 * self.busy(pid, ns - PERIOD, ns) / PERIOD}
                      for pid in processes if ns]
            stats.append({"ts": ns / 1e6, **base, "op": "sample", "util": 0, "energy_j": round(first_mj / 1e3 + self.joules(0, ns), 3), **sample})
        body = sorted([*self.lines[1:], *stats], key=lambda x: (x["ts"], x["type"] == "gpu_stats" and x["op"] != "process"))
        end["events"] = {**end["events"], "gpu_stats": len(stats)}
        self.lines = [self.lines[0], *body, end]

    def busy(self, pid, low, high):
        return sum(overlap(a, b, low, high) for p, a, b in self.work if p == pid)

    def used(self, pid, low, high):
        return self.watts.get(pid, WORK_W) * self.busy(pid, low, high) / 1e9

    def joules(self, low, high):
        return IDLE_W * (high - low) / 1e9 + sum(self.used(pid, low, high) for pid in {p for p, _, _ in self.work})

    def write(self, path):
        path.write_text("".join(json.dumps(x) + "\n" for x in self.lines), encoding="utf-8")
        return path
