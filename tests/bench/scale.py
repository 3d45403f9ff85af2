# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Many calls, many threads, many processes, and none."""
import fcntl
import json
import os
import re
import select
import shutil
import statistics
import subprocess
import tempfile
import time

import cores
import rig
from report import broken, limit, results, say
from rig import CUDATRACE, FAKE, OUT, QUICK, CannotRun, Load

PROCESSES = 20 if QUICK else 200


class Throughput:
    """One rate for a few seconds."""

    def __init__(self, rate, seconds, threads=2):
        self.rate, self.seconds, self.threads = rate, seconds, threads
        with tempfile.TemporaryDirectory(dir=OUT, prefix="rate.") as tmp:
            trace = os.path.join(tmp, "t.jsonl")
            load = Load(rig.copy_library(FAKE, tmp, "lib"))
            tracer = rig.cudatrace(load, tmp, "auto", ["cuLaunchKernel"], trace)
            try:
                self._run(load, tracer)
            finally:
                stop_s = tracer.stop()
                load.close()
            end = rig.end_line(trace)
            size = os.path.getsize(trace)
        self.result = {
            "asked_per_s": rate or None, "threads": threads, "calls_per_s": round(self.calls / self.took_s),
            "seconds": round(self.took_s, 2), "calls": int(self.calls), "written": end["calls"],
            "dropped": end["drops"]["calls"], "tracer_cpu_percent": round(100 * self.cpu / self.took_s),
            "tracer_peak_rss_mb": round(self.peak_kb / 1024, 1),
            "file_mb_per_s": round(size / 1e6 / self.took_s), "stop_s": round(stop_s, 2),
            "others_cpu_percent": round(100 * self.others / self.took_s / os.cpu_count())}
        if end["calls"] + end["drops"]["calls"] != self.calls:
            broken(f"{rate} calls/s", f"{self.calls:.0f} calls made, {end['calls']} written, "
                                      f"{end['drops']['calls']} dropped")

    def _run(self, load, tracer):
        self.peak_kb, cpu, target, busy = 0, tracer.cpu_s(), rig.cpu_s(load.pid), rig.busy_s()
        load.begin("rate", "cuLaunchKernel", self.threads, self.rate, self.seconds)
        while not select.select([load.proc.stdout], [], [], 0.1)[0]:
            self.peak_kb = max(self.peak_kb, tracer.status_kb("VmHWM"))
        self.calls, ns = load.answer()
        self.cpu, self.took_s = tracer.cpu_s() - cpu, ns / 1e9
        self.others = max(0, rig.busy_s() - busy - self.cpu - (rig.cpu_s(load.pid) - target))


def bench_throughput():
    need = 6e9
    if shutil.disk_usage(OUT).free < need:
        broken("throughput", f"less than {need / 1e9:.0f} GB of disk are free")
        return
    say("Throughput: cuLaunchKernel from 2 threads, JSONL to a file on disk")
    say("       calls/s     calls  dropped   tracer CPU   peak RSS      file   other CPU")
    runs = []
    steps = [(10000, 2), (100000, 2), (500000, 2 if QUICK else 10)]
    steps += [(r, 3) for r in (750000, 1000000, 1250000, 0)]
    for rate, seconds in steps[:4] if QUICK else steps:
        for _ in range(3):
            r = Throughput(rate, seconds).result
            runs.append(r)
            say(f"  {r['calls_per_s']:>12,} {r['calls']:>9,} {r['dropped']:>8,} {r['tracer_cpu_percent']:>10} %"
                f" {r['tracer_peak_rss_mb']:>7.0f} MB {r['file_mb_per_s']:>4} MB/s {r['others_cpu_percent']:>9} %"
                + ("" if rate else "   no pause between calls"))
            made = r["calls_per_s"] >= 0.95 * rate
            # Repeated if others were using the processors.
            if made and not r["dropped"] or r["others_cpu_percent"] < 5:
                break
        if rate == 500000:
            first = r
        if not made:
            break
    clean = [r["calls_per_s"] for r in runs if not r["dropped"]]
    results["throughput"] = {"runs": runs, "highest_without_drop_per_s": max(clean, default=0)}
    say(f"  highest rate without a drop: {max(clean, default=0):,} calls/s")
    say()
    if first["calls_per_s"] < 475000:
        broken("500,000 calls/s", f"only {first['calls_per_s']} calls/s could be made: others use the processors")
    limit("500,000 calls/s: dropped", first["dropped"], 0, "calls")
    limit("500,000 calls/s: peak memory of the tracer", first["tracer_peak_rss_mb"], 200, "MB")


def bench_onset():
    """Finds the rate at which calls begin to be dropped, with the default ring."""
    say("Drops by threads that make calls: cuLaunchKernel, 2 s each, JSONL to a file on disk")
    rows = []
    for threads in (1, 2) if QUICK else (1, 2, 3, 4):
        for rate in (500000, 1000000, 0):
            r = Throughput(rate, 2, threads).result
            rows.append(r)
            say(f"  {threads} thread{'s' if threads > 1 else ' '} {r['calls_per_s']:>10,} calls/s: "
                f"{r['dropped']:>8,} dropped of {r['calls']:,}; other CPU {r['others_cpu_percent']} %"
                + ("" if rate else "   no pause between calls"))
    results["onset"] = rows
    say()


def bench_cores():
    say("Calls back to back of many threads and processes at the same time, JSONL to a file on disk")
    rows = cores.measure(os.path.join(OUT, "cores"), [CUDATRACE], say)
    results["cores"] = rows
    say()
    for way in cores.WAYS:
        for kind in ("threads", "processes"):
            runs = [r for r in rows if (r["way"], r["kind"]) == (way, kind)]
            most = max(runs, key=lambda r: r["count"])
            limit(f"{most['count']} {kind} at once: a {way} call, against one's", most["ns"] / runs[0]["ns"], 1.3, "times")
            if any(r["wrong"] for r in runs):
                broken(f"{way}, {kind}", "calls are missing from the trace's own counts")


def bench_writer():
    for sink in ("jsonl", "chrome", "perfetto"):
        runs = []
        for _ in range(3):
            r = subprocess.run([os.path.join(OUT, "writer"), sink, "1000000"], capture_output=True, text=True)
            m = re.match(r"writer: (\d+) events/s of one core \((\d+) ns each, (\d+) bytes", r.stdout)
            if r.returncode or not m:
                raise CannotRun("writer fails")
            runs.append([int(x) for x in m.groups()])
        best = max(runs)
        results.setdefault("writer", {})[sink] = {"events_per_s": [r[0] for r in runs], "bytes_per_event": best[2]}
        say(f"Writing {sink}, one core, in memory: {best[0]:,} events/s, {best[1]} ns and {best[2]} bytes each")
        limit(f"writing {sink} in memory: an event", best[1], round(1e9 / 1.5e6), "ns")
    say()


def bench_reader():
    """The tracer's own part of a recorded call, from the ring to the batch, and that of the workers: lines by number of cores.
    OLD=PROGRAM: in turn with bench/reader of another build."""
    pattern = r"reader: (\d+) ns a call, its worker pool of \d+: (\d+) ns; (\d+) bytes a line"
    programs = {"": os.path.join(OUT, "reader")} | ({"OLD, ": os.environ["OLD"]} if os.environ.get("OLD") else {})
    runs = {name: [] for name in programs}
    for _ in range(3 if QUICK else 9):
        for name, program in programs.items():
            r = subprocess.run([program, "3", "400000"], capture_output=True, text=True)
            found = re.findall(pattern, r.stdout)
            if r.returncode or len(found) != 2:
                raise CannotRun("reader fails")
            runs[name].append([[int(x) for x in f] for f in found])
    say("A recorded call in the tracer: CPU time of the thread that reads the rings, and of a worker pool of three; median, and least")
    for i, what in enumerate(("without the kernel's name", "with its name, demangled and mangled")):
        for name, of in runs.items():
            row = {"bytes": of[0][i][2]}
            for k, who in enumerate(("reader", "workers")):
                row[who] = {"median_ns": statistics.median(r[i][k] for r in of), "least_ns": min(r[i][k] for r in of)}
            results.setdefault("reader", {})[name + what] = row
            say(f"  {name}{what}: {row['reader']['median_ns']:.0f} ns ({row['reader']['least_ns']}), {row['workers']['median_ns']:.0f} ns "
                f"({row['workers']['least_ns']}) for a line of {row['bytes']} bytes")
    say()


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        text = f.read()
    kb = re.findall(r"^(VmRSS|RssAnon|RssFile|VmHWM):\s+(\d+) kB", text, re.M)
    found = {k: round(int(v) / 1024, 1) for k, v in kb}
    found["switches"] = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M).group(1))
    return found


def bench_idle():
    seconds = 5 if QUICK else 20
    proc = subprocess.Popen([CUDATRACE, "-q", "--jsonl", "/dev/null"], stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)
        before, cpu = status(proc.pid), rig.cpu_s(proc.pid)
        time.sleep(seconds)
        after, cpu = status(proc.pid), rig.cpu_s(proc.pid) - cpu
    finally:
        proc.terminate()
        proc.wait()
    woken = (after["switches"] - before["switches"]) / seconds
    results["idle"] = {"mb": after, "cpu_ms_per_s": cpu * 1000 / seconds, "wakeups_per_s": woken}
    say(f"Idle, all processes: {after['VmRSS']} MB resident (peak {after['VmHWM']}), of these its own "
        f"{after['RssAnon']}; woken {woken:.1f} times a second, {cpu * 1000 / seconds:.1f} ms of CPU a second")
    say()
    limit("idle: resident", after["VmRSS"], 30, "MB")
    limit("idle: woken", woken, 1.2, "times a second")


def private_kb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(x) for x in re.findall(r"^Private_\w+:\s+(\d+) kB", f.read(), re.M))


def bench_processes():
    """A library that many programs have mapped already."""
    with tempfile.TemporaryDirectory(dir=OUT, prefix="many.") as tmp:
        library = rig.copy_library(FAKE, tmp, "lib")
        loads = [Load(library) for _ in range(PROCESSES)]
        try:
            before = statistics.median(private_kb(l.pid) for l in loads)
            argv = [CUDATRACE, "-v", "--libcuda", library, "-e", "all,!cu[FP]*[LI]*[de]", "--jsonl", "/dev/null",
                    "--no-summary"]
            tracer = rig.Tracer(loads[0], argv, 500, tmp)
            rig.wait_until("all have their probes", lambda: loads[-1].changed() >= 500)
            time.sleep(1)
            after = statistics.median(private_kb(l.pid) for l in loads)
            resident = status(tracer.pid)["VmRSS"]
            stop_s = tracer.stop()
            m = re.search(r": (\d+) of (\d+) functions attached in ([0-9.]+) ms", tracer.stderr())
        finally:
            for l in loads:
                l.close()
    if not m:
        raise CannotRun("cudatrace -v does not say how long it took to attach")
    attach_ms = float(m.group(3))
    results["processes"] = {"processes": PROCESSES, "attach_ms": attach_ms, "stop_s": round(stop_s, 2),
                            "tracer_mb": resident, "kb_per_process": after - before}
    say(f"{PROCESSES} processes that map the library: attached in {attach_ms:.0f} ms, gone in {stop_s:.2f} s; "
        f"each has {after - before:.0f} kB more of its own; the tracer {resident} MB resident")
    say()


def growth(what, options, most):
    """One trace that goes on: 10,000 calls, then ten times as many in total, and so on. Calls of a program with empty
    probes between them measure the machine's speed. The median batch of each slice counts, since others use the processor in some."""
    rows = []
    with tempfile.TemporaryDirectory(dir=OUT, prefix="growth.") as tmp:
        traced, empty = (Load(rig.copy_library(FAKE, tmp, name)) for name in ("traced", "empty"))
        for d in ("t", "e"):
            os.mkdir(os.path.join(tmp, d))
        tracer = rig.cudatrace(traced, os.path.join(tmp, "t"), "session", ["cuLaunchKernel"], "/dev/null", *options)
        pair = rig.empty(empty, os.path.join(tmp, "e"), "session", ["cuLaunchKernel"])
        made, ns, base = 0, 0.0, []
        try:
            # Then the probes of the next program to be measured are in the caches.
            traced.ask("time", "cuLaunchKernel", 1, 1000)
            for power in range(4, most + 1):
                cpu, begin = tracer.cpu_s(), made
                while made < 10 ** power:
                    cnt = min(10 ** power - made, 200000)
                    ns += cnt * traced.ask("time", "cuLaunchKernel", cnt // 1000, 1000)[1]
                    base.append(empty.ask("time", "cuLaunchKernel", 20, 1000)[1])
                    made += cnt
                per_call, pair_ns = ns / (made - begin), statistics.mean(base)
                rows.append({"calls": made, "ns": round(per_call, 1), "to_empty": round(per_call / pair_ns, 3),
                             "tracer_us_per_call": round((tracer.cpu_s() - cpu) * 1e6 / (made - begin), 3),
                             "rss_mb": status(tracer.pid)["VmRSS"]})
                say("  {:<9}{calls:>12,} calls: {ns:>6.0f} ns each, {to_empty:.2f} of an empty pair; the tracer {rss_mb} MB, "
                    "{tracer_us_per_call} µs of CPU a call".format(what, **rows[-1]))
                ns, base = 0.0, []
        finally:
            tracer.stop()
            pair.stop()
            for load in (traced, empty):
                load.close()
    return rows


def bench_growth():
    """Measures whether a trace gets slower or larger over time."""
    say("Growth: one trace that goes on, calls without a pause, JSONL to /dev/null")
    table = {"counted": growth("counted", ["--count", "cuLaunchKernel"], 6 if QUICK else 8),
             "recorded": growth("recorded", [], 5 if QUICK else 8)}
    say()
    results["growth"] = table
    for what, rows in table.items():
        limit(f"growth, {what}: memory at the end to that of the first calls", rows[-1]["rss_mb"] / rows[0]["rss_mb"], 1.05,
              "times")
        limit(f"growth, {what}: a call at the end to one of the second decade", rows[-1]["to_empty"] / rows[1]["to_empty"],
              1.1, "times")


def read_trace(what, form):
    """A trace of so many events through a pipe: one pass, nothing on a disk."""
    events = 1000000 if QUICK else 10000000
    gen = subprocess.Popen([os.path.join(OUT, "gen_trace"), str(events), "-", *form], stdout=subprocess.PIPE)
    report = subprocess.Popen([CUDATRACE, "report", "--format=json", "-"], stdin=gen.stdout, stdout=subprocess.PIPE)
    gen.stdout.close()
    # Its peak is read while it still writes: ru_maxrss begins with this process's memory at the fork.
    fcntl.fcntl(report.stdout, fcntl.F_SETPIPE_SZ, 4096)
    text = report.stdout.read(1)
    peak = status(report.pid)["VmHWM"]
    text += report.stdout.read()
    _, code, usage = os.wait4(report.pid, 0)
    if gen.wait() or code:
        raise CannotRun("report fails")
    f = json.loads(text)["files"][0]
    if f["events"] != events or f["bad_lines"]:
        raise CannotRun(f"report read {f}, not {events} events")
    cpu = usage.ru_utime + usage.ru_stime
    say(f"{what}: {events:,} events of {f['bytes'] / events:.0f} bytes ({f['bytes'] / 1e9:.1f} GB): "
        f"{f['bytes'] / cpu / 1e6:.0f} MB/s per core ({cpu:.1f} s of CPU), {peak:.0f} MB at most")
    limit(f"{what}: CPU time per GB read (300 MB/s)", cpu * 1e9 / f["bytes"], 3.333, "s")
    limit(f"{what}: memory", peak, 500, "MB")
    return {"events": events, "bytes": f["bytes"], "cpu_s": round(cpu, 3), "peak_mb": round(peak, 1),
            "mb_per_s": round(f["bytes"] / cpu / 1e6)}


def bench_report():
    results["report"] = {"launches": read_trace("report, launches", ()),
                         "short lines": read_trace("report, short lines", ("short",))}
    say()


PARTS = (bench_throughput, bench_onset, bench_cores, bench_writer, bench_reader, bench_report, bench_idle, bench_processes, bench_growth)
