# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
"""Names, units and descriptions of members and metrics must agree: a member called ..._us is in microseconds, and what is stored or
computed for it has a name with its own unit."""
import glob
import os
import re

from helpers.run import TESTS

SRC = os.path.dirname(TESTS) + "/src"
# Ending of a name: units in the tables.
UNITS = {"ns": {"ns"}, "us": {"µs"}, "ms": {"ms"}, "s": {"s"}, "bytes": {"bytes"}, "gbps": {"10^9 bytes/s"}, "khz": {"kHz"}, "mhz": {"MHz"}, "w": {"W"}, "mw": {"mW"}}
# Forms whose storage is in nanoseconds (model/forms.def), and the units that they write.
WRITES = {"us": "us", "milli": "us", "duration": "us", "ms": "ms", "end_ms": "ms"}
NO_UNIT = {"ts": "ms", "gpu_start": "ms", "begin_ts": "ms"}  # times on the trace's clock
TIMES = r"_(ns|us|ms)$"


def split(args):
    """Arguments of a macro; texts and calls may contain commas."""
    return re.findall(r'(?:"(?:[^"\\]|\\.)*"|\((?:[^()]|\([^()]*\))*\)|[^,()"])+', args)


def rows(path):
    """(macro, arguments) of each row."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"([A-Z_]+)\((.*)\)$", line.strip())
            if m:
                yield m[1], split(m[2])


def ending(name):
    last = name.rsplit("_", 1)[-1]
    return last if "_" in name and last in UNITS else None


def event_rows():
    """(where, form, name, place or None, unit) of the members of lines, header and end."""
    for path in (f"{SRC}/model/events.def", f"{SRC}/model/trace.def"):
        for macro, args in rows(path):
            args = [x.strip() for x in args]
            n = 1 if path.endswith("events.def") else 0
            if macro in ("OWN", "OWN_AS", "FIELD", "FIELD_OF", "SHOWN", "HEAD", "HAND", "HEADER", "HEADER_HAND", "END", "END_HAND") and len(args) > n + 3:
                place = args[n + 2] if macro in ("OWN_AS", "FIELD", "FIELD_OF", "HEAD", "HEADER", "END") else args[n + 1] if macro == "OWN" else None
                yield os.path.basename(path), args[n], args[n + 1], place, args[-2].strip('"')


def test_members_of_lines():
    checked = 0
    for path, form, name, place, unit in event_rows():
        at, end = f"{path}: {name}", ending(name)
        if end:
            checked += 1
            assert unit in UNITS[end], (at, unit)
        if form in WRITES:
            assert (end or NO_UNIT.get(name)) == WRITES[form], (at, form)
            assert place is None or re.search(r"_ns$", place), (at, place, "holds nanoseconds")
        elif end in ("ns", "us", "ms"):
            assert form not in WRITES and (place is None or place.endswith("_" + end)), (at, form, place)
    assert checked > 20


def test_columns_of_reports():
    checked = 0
    for path in glob.glob(f"{SRC}/**/*.section", recursive=True):
        for macro, args in rows(path):
            if macro != "JSON":
                continue
            # Of calls: null if they were not recorded.
            kind, name = args[0].strip().removeprefix("call_"), args[1].strip()
            at, end = f"{os.path.basename(path)}: {name}", ending(name)
            if end in ("ns", "us", "ms", "bytes", "gbps"):
                checked += 1
                assert kind in {"ns": ("ns", "mean_ns", "f64_ns", "signed"), "us": ("us",), "ms": ("ms",), "bytes": ("bytes",), "gbps": ("rate",)}.get(end, ()), (at, kind)
            if kind in ("ns", "mean_ns", "f64_ns"):
                assert re.search(r"(^|_)ns$", name), at
            if kind == "ts":
                assert re.search(r"(^|_)ts$", name), at
            wrong = re.findall(r"\b\w+_(us|ms)\b", args[2])
            assert not wrong or "*" in args[2], (at, args[2])
    assert checked > 40


def test_members_written_by_code():
    """json_u64(j, "x_ns", y_ns): the value's name has the same unit, unless it is converted there."""
    checked = 0
    for path in glob.glob(f"{SRC}/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for how, name, value in re.findall(r'\bjson_(\w+)\(\s*\w+,\s*"(\w+_(?:ns|us|ms|bytes))",\s*((?:[^();]|\((?:[^();]|\([^();]*\))*\))*)\)', text):
            units = {x for x in re.findall(r"\b\w+_(ns|us|ms)\b", value)}
            checked += bool(units)
            assert not units or re.search(r"[*/]|ratio_of", value) or units == {"ns" if how in ("milli", "micro") else name.rsplit("_", 1)[-1]}, (path, name, value)
    assert checked > 5


def test_metrics():
    """Metrics are in seconds and bytes: what holds nanoseconds is converted."""
    with open(f"{SRC}/metrics/metrics.def", encoding="utf-8") as f:
        text = re.sub(r",\n\s+", ", ", f.read())
    found = [(m[1], [x.strip() for x in split(m[2])]) for m in re.finditer(r"(?m)^(METRIC|NUMBER)\((.*)\)$", text)]
    for macro, (_, name, kind, unit, value, *_) in found:
        assert not re.search(TIMES, name), name
        assert kind != "HISTOGRAM" or unit == '"s"', name
        if macro == "NUMBER" and re.search(r"\w_(ns|us|ms)\b", value):
            assert unit == '"s"' and re.search(r"\w_ns\b.*/ 1e9", value), (name, unit, value)
    assert len(found) > 50


def test_a_wrong_unit_is_found():
    assert [ending(x) for x in ("queue_us", "x_bytes", "duration", "us")] == ["us", "bytes", None, None]
    assert [args for _, args in [("JSON", split('ns, max_us, x->a(b, c), ALWAYS, "a, b"'))]] == [["ns", " max_us", " x->a(b, c)", " ALWAYS", ' "a, b"']]
