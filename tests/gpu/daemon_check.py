# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Numbers of the step `daemon`.

usage: daemon_check.py scrape PORT FILE                the metrics, as soon as there are some
       daemon_check.py row HOW MS [BEFORE AFTER]       a line for `times`: MS is a JSON array, the others are metrics
       daemon_check.py times ROWS                      the table of them
       daemon_check.py counts CUDATRACE METRICS TRACE  whether both agree
       daemon_check.py dumps SECONDS FOLDER ERROR...   whether a dump ends with each of these errors
"""
import collections
import ctypes
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.request


def scrape(port, path):
    end = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as f:
                text = f.read()
            break
        except OSError:
            if time.monotonic() > end:
                sys.exit("no metrics in 30 s")
            time.sleep(0.1)
    with open(path, "wb") as f:
        f.write(text)


class Metrics:
    """Returns the samples of a file of metrics, as (name, labels, value)."""

    def __init__(self, path):
        self.samples = []
        with open(path, encoding="utf-8") as f:
            for line in f:
                m = re.fullmatch(r"cudatrace_(\w+)(?:\{(.*)\})? (\S+)\n", line)
                if m:
                    labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m.group(2) or ""))
                    self.samples.append((m.group(1), labels, float(m.group(3))))

    def sums(self, name, by, **want):
        """Returns sums by the values of the labels in `by`, without sums of 0."""
        sums = collections.Counter()
        for n, labels, value in self.samples:
            if n == name and all(labels.get(k) == v for k, v in want.items()):
                sums[tuple(labels[k] for k in by)] += int(value) if value == int(value) else value
        return {k: v for k, v in sums.items() if v}

    def value(self, name):
        return self.sums(name, ()).get((), 0)


def row(how, ms, before=None, after=None):
    line = {"how": how, "ms": json.loads(ms)}
    if before:
        a, b = Metrics(before), Metrics(after)
        line.update(cpu_s=b.value("self_cpu_seconds_total") - a.value("self_cpu_seconds_total"),
                    calls=b.value("calls_total") - a.value("calls_total"),
                    mb=b.value("self_resident_bytes") / 1e6, lost=b.value("dropped_total"))
    print(json.dumps(line))


def times(path):
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    hows = list(dict.fromkeys(r["how"] for r in rows))
    bare = [statistics.mean(r["ms"]) for r in rows if r["how"] == "untraced"]
    print(f"{'':10}{'mean ms per token':>30}{'to untraced':>13}{'(each)':>24}{'calls/s':>10}{'CPU':>8}{'MB':>6}{'lost':>6}")
    for how in hows:
        mine = [r for r in rows if r["how"] == how]
        means = [statistics.mean(r["ms"]) for r in mine]
        ratios = [a / b for a, b in zip(means, bare)]
        text = f"{how:10}" + "".join(f"{m:10.3f}" for m in means) + f"{statistics.median(ratios):13.3f}"
        text += f"{', '.join(f'{r:.3f}' for r in ratios):>24}"
        if "cpu_s" in mine[0]:
            # A round is 50 tokens.
            seconds = sum(sum(r["ms"]) * 50 / 1e3 for r in mine)
            text += f"{sum(r['calls'] for r in mine) / seconds:10,.0f}{100 * sum(r['cpu_s'] for r in mine) / seconds:6.1f} %"
            text += f"{max(r['mb'] for r in mine):6.0f}{max(r['lost'] for r in mine):6.0f}"
        print(text)


def read_trace(path):
    """Returns the expected metrics of the process that made most calls of a trace."""
    is_ = {"calls_total": collections.Counter(), "errors_total": collections.Counter(),
           "launches_total": collections.Counter(), "transfer_bytes_total": collections.Counter(),
           "call_duration_seconds_count": collections.Counter()}
    comm, lost, calls = None, {}, []
    with open(path, encoding="utf-8") as f:
        for line in f:
            e = json.loads(line)
            if e["type"] == "end":
                lost = {k: v for k, v in e["drops"].items() if v}
            if "symbol" in e:
                calls.append(e)
    pid = collections.Counter(e["pid"] for e in calls).most_common(1)
    for e in calls:
        if e["pid"] == pid[0][0]:
            comm = e["comm"]
            is_["calls_total"][(e["symbol"],)] += 1
            if "error" in e:
                is_["errors_total"][(e["symbol"], e["error"])] += 1
                continue
            is_["launches_total"][()] += e["type"] == "kernel" and e["op"] == "launch"
            if e["type"] == "transfer" and e["op"] == "copy":
                is_["transfer_bytes_total"][(e.get("direction", "unknown"),)] += e["size"]
    return is_, comm, lost


def peaks(cudatrace, path):
    text = subprocess.run([cudatrace, "report", "--format=json", path], stdout=subprocess.PIPE, check=True).stdout
    return {(k["kind"],): k["peak_bytes"] for k in json.loads(text)["memory"]["kinds"] if k["peak_bytes"]}


def counts(cudatrace, metrics_path, trace_path):
    m = Metrics(metrics_path)
    trace, comm, lost = read_trace(trace_path)
    trace["memory_peak_bytes"] = peaks(cudatrace, trace_path)
    by = {"calls_total": ("function",), "errors_total": ("function", "error"), "launches_total": (),
          "transfer_bytes_total": ("direction",), "memory_peak_bytes": ("kind",)}
    wrong = 0
    print(f"{'':24}{'series':>8}{'sum, metrics':>16}{'sum, trace':>16}   differ")
    for name, labels in by.items():
        ours = m.sums(name, labels, command=comm)
        theirs = {k: v for k, v in trace[name].items() if v}
        differ = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
        print(f"{name:24}{len(theirs):8}{sum(ours.values()):16,}{sum(theirs.values()):16,}   {len(differ)}")
        for k in differ[:8]:
            print(f"    {' '.join(k)}: {ours.get(k)} in the metrics, {theirs.get(k)} in the trace")
        wrong += len(differ)
    dropped = m.value("dropped_total")
    if lost or dropped:
        print(f"    lost: {lost} in the trace, {dropped:.0f} records in the daemon")
    bursts = m.value("bursts_total")
    if bursts:
        print(f"    the daemon took {bursts:.0f} bursts of full trace meanwhile")
    if not sum(trace["calls_total"].values()):
        print("    the trace has no calls")
        wrong += 1
    return wrong != 0


def unzstd(path):
    """Decompresses all frames of a file. Not all machines have the zstd command, and Python supports zstd from 3.14 on."""
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_findDecompressedSize.restype = zstd.ZSTD_decompress.restype = ctypes.c_ulonglong
    with open(path, "rb") as f:
        data = f.read()
    size = zstd.ZSTD_findDecompressedSize(data, ctypes.c_size_t(len(data)))
    buf = ctypes.create_string_buffer(size)
    n = zstd.ZSTD_decompress(buf, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if n != size:
        sys.exit(f"{path}: {n} bytes, not {size}")
    return buf.raw[:size].decode()


def dumps(seconds, folder, *names):
    seconds, found, after = float(seconds), set(), 1  # recorder.after
    for path in sorted(glob.glob(os.path.join(folder, "dump-*"))):
        ev = [json.loads(line) for line in unzstd(path).splitlines()]
        calls = [e for e in ev if "symbol" in e]
        bad = [e for e in calls if "error" in e]
        whole = ev[0]["type"] == "header" and ev[-1]["type"] == "end"
        span = (calls[-1]["ts"] - calls[0]["ts"]) / 1e3
        print(f"{os.path.basename(path)}: {os.path.getsize(path) / 1e6:.2f} MB, {len(calls)} calls of {span:.2f} s, "
              f"end: {ev[-1].get('reason')}" + ("" if whole else ", NOT whole"))
        for e in bad[:3]:
            to_end = calls[-1]["ts"] - e["ts"]
            before = (e["ts"] - calls[0]["ts"]) / 1e3
            print(f"    {e['symbol']} {e['error']}: {before:.2f} s of calls before it, {to_end:.1f} ms after it")
            # The dump has the calls before the error, and does not begin long before it.
            if whole and before >= min(seconds, 5) - 0.5 and span <= seconds + after + 1.5 and to_end < (after + 0.5) * 1e3:
                found.add(e["error"])
    missing = [n for n in names if n not in found]
    for n in missing:
        print(f"    no dump with {seconds:.0f} s before {n}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit({"scrape": scrape, "row": row, "times": times, "counts": counts, "dumps": dumps}[sys.argv[1]](*sys.argv[2:]))
