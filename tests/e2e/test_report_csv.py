# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 15
"""report --format=csv: each table of every report of tests/corpus and tests/golden must have the rows and values of the JSON form."""
import csv
import glob
import io
import json
import os
import re
import stat

import pytest
from helpers.run import CUDATRACE, TESTS, Ran

TRACES = sorted(glob.glob(TESTS + "/golden/*.jsonl") + glob.glob(TESTS + "/corpus/*.jsonl.zst"))
GOLDEN = TESTS + "/golden/h200-gpt2-tokens.jsonl"
SCHEMA = json.loads(Ran([CUDATRACE, "list", "--schema=report"]).out)["properties"]
# What a terminal would interpret; tabs and newlines stay.
CONTROL = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def is_list(schema):
    return "properties" in schema.get("items", {})


def columns(schema, before=()):
    """The paths of a line's values, those of its objects included."""
    for name, member in schema["properties"].items():
        if "properties" in member:
            yield from columns(member, (*before, name))
        elif not is_list(member):
            yield (*before, name)


def tables(schema, name, before=()):
    """The name, path and schema of each array of objects."""
    for member, of in schema["properties"].items():
        if "properties" in of:
            yield from tables(of, f"{name}.{member}", (*before, member))
        elif is_list(of):
            yield f"{name}.{member}", (*before, member), of["items"]


def value(line, path):
    for name in path:
        line = line.get(name) if line else None
    return line


def text(x):
    """The cell of a value."""
    if x is None:
        return ""
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, (list, dict)):
        return x
    if isinstance(x, Number):
        return str(x)
    x = CONTROL.sub("\ufffd", x)
    return "'" + x if x[:1] in ("=", "+", "-", "@", "\t", "\n", "＝", "＋", "－", "＠") else x


class Number(str):
    """As JSON has it."""


def expected(found, schema, name, heads, rows):
    """Adds the table of the objects, and those in them. rows: (indices of the objects around it, the object)."""
    found[name] = [[*heads, *(".".join(path) for path in columns(schema))]] + [
        [*map(str, at), *(text(value(x, path)) for path in columns(schema))] for at, x in rows]
    below(found, schema, name, heads, rows, name.rsplit(".", 1)[-1])


def below(found, schema, name, heads, rows, last):
    for inner, path, of in tables(schema, name):
        around = [*heads, *([last] if last else [])]
        lines = [([*at, *([i] if last else [])], y) for i, (at, x) in numbered(rows) for y in value(x, path) or []]
        expected(found, of, inner, around, lines)


def numbered(rows):
    """Rows with their number in their own list."""
    seen = {}
    for at, x in rows:
        i = seen.setdefault(tuple(at), 0)
        seen[tuple(at)] += 1
        yield i, (at, x)


def from_json(report):
    found = {}
    for name, schema in SCHEMA.items():
        x = report.get(name)
        if not isinstance(schema, dict) or not {"properties", "items"} & {*schema}:
            continue
        if is_list(schema):
            expected(found, schema["items"], name, (), [([], y) for y in x or []])
            continue
        rows = [([], x)] if x else []
        if list(columns(schema)):
            found[name] = [[".".join(path) for path in columns(schema)]] + [[text(value(x, path)) for path in columns(schema)] for _, x in rows]
        below(found, schema, name, [], rows, None)
    return found


def report_of(*args):
    ran = Ran([CUDATRACE, "report", *map(str, args)])
    assert ran.status == 0, ran
    return ran


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return parse(f.read())


def parse(content):
    """By RFC 4180, strictly: all lines end with CR LF and have as many cells as the first."""
    rows = list(csv.reader(io.StringIO(content, newline=""), strict=True))
    assert content.endswith("\r\n") and len({len(row) for row in rows}) == 1
    return rows


def same(cell, want):
    return json.loads(cell, parse_int=Number, parse_float=Number) == want if isinstance(want, (list, dict)) else cell == want


def check(folder, path, *options):
    report_of("--format=csv", "-o", folder, *options, path)
    report = json.loads(report_of("--format=json", *options, path).out, parse_int=Number, parse_float=Number)
    want = from_json(report)
    assert sorted(os.listdir(folder)) == sorted(name + ".csv" for name in want)
    for name, rows in want.items():
        got = read(f"{folder}/{name}.csv")
        assert got[0] == rows[0], name
        assert len(got) == len(rows), name
        for a, b in zip(got, rows):
            assert all(map(same, a, b)), (name, [x for x in zip(got[0], a, b) if not same(*x[1:])])
    return want


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.rsplit("/", 1)[1].split(".")[0])
def test_csv_is_json(tmp_path, path):
    want = check(tmp_path / "csv", path)
    # Not only headers: sections, lists, lists in lists.
    assert sum(len(rows) > 1 for rows in want.values()) > 15 and len(want["overview.functions"]) > 5


def test_several_traces(tmp_path):
    want = check(tmp_path / "csv", GOLDEN, TESTS + "/golden/h200-triton.jsonl")
    assert len(want["traces"]) == len(want["files"]) == 3


def test_top(tmp_path):
    """Tables that --top limits have the same rows as JSON."""
    want = check(tmp_path / "csv", GOLDEN, "--top", "3")
    assert len(want["longest"]) == 4 and len(want["overview.functions"]) > 5


NAMES = ['a,b', 'a "quoted" one', 'two\nlines', 'déjà 网 😀', '=SUM(A1)', '+1', '-1', '@x', '\t=1', "'=1", 'tab\tin', '\u202edrow', '\u001b[31m', 'back\\slash', '\\u0041', '\n=2', '＝1', '']


def test_names(tmp_path):
    """Separators, quotes and newlines are quoted. Formulas get an apostrophe; characters that a terminal interprets are replaced."""
    with open(GOLDEN, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    launch = next(x for x in lines if "kernel" in x and "grid" in x)
    path = tmp_path / "names.jsonl"
    path.write_text("".join(json.dumps(x) + "\n" for x in [lines[0], *(
        {**launch, "ts": launch["ts"] + i, "id": i + 1, "kernel": name} for i, name in enumerate(NAMES))]), encoding="utf-8")
    want = check(tmp_path / "csv", path)
    cells = {row[0] for row in want["kernels.list"]}
    assert cells >= {"a,b", 'a "quoted" one', "two\nlines", "déjà 网 😀", "'=SUM(A1)", "'+1", "'-1", "'@x", "'\t=1", "'=1", "tab\tin", "\ufffddrow",
                     "\ufffd[31m", "back\\slash", "\\u0041"}
    content = (tmp_path / "csv/kernels.list.csv").read_bytes()
    assert b'\r\n"a,b",' in content and b'"a ""quoted"" one",' in content and b'"two\nlines",' in content


def test_one_table():
    """A single table goes to stdout, or to the file -o."""
    ran = report_of("--format=csv", "--section=kernels.list", GOLDEN)
    rows = parse(ran.out.replace("\n", "\r\n"))
    assert rows[0][0] == "name" and len(rows) > 5 and not ran.err
    assert parse(report_of("--format=csv", "--section=longest", GOLDEN).out.replace("\n", "\r\n"))[0][0] == "ts"


def test_where(tmp_path):
    """Several tables are files of a folder: -o, or one that is named after the trace."""
    trace = tmp_path / "t.jsonl"
    trace.write_text(open(GOLDEN, encoding="utf-8").read())
    ran = report_of("-q", "--format=csv", "--section=kernels,waits.functions", trace)
    assert ran.out == "" and sorted(os.listdir(tmp_path / "t.report.tables")) == ["kernels.csv", "kernels.list.csv", "lost.csv", "waits.functions.csv"]
    report_of("--format=csv", "--map", "--section=waits.functions", "-o", tmp_path / "some", trace)
    assert {name.split(".")[0] for name in os.listdir(tmp_path / "some")} == {"lost", "map", "waits"}
    report_of("--format=csv", "--section=kernels.list", "-o", tmp_path / "k.csv", trace)
    assert read(tmp_path / "k.csv") == read(tmp_path / "t.report.tables/kernels.list.csv")
    # into a folder that exists
    report_of("--format=csv", "--section=longest", "-o", tmp_path / "t.report.tables", trace)
    assert (tmp_path / "t.report.tables/longest.csv").exists()
    report_of("--format=all", "-o", tmp_path / "all", trace)
    assert stat.S_ISDIR(os.stat(tmp_path / "all.report.tables").st_mode) and len(os.listdir(tmp_path / "all.report.tables")) > 40


def test_refused(tmp_path):
    def refused(*args):
        ran = Ran([CUDATRACE, "report", *map(str, args), GOLDEN])
        return ran.err if ran.status else ""
    assert "choose one of: kernels kernels.list" in refused("--format=csv", "--section=kernels.lst")
    assert "only --format=csv" in refused("--section=kernels.list")
    assert "no such section" in refused("--format=csv", "--section=kernal.list")
    (tmp_path / "file").write_text("")
    assert "folder" in refused("--format=csv", "-o", tmp_path / "file/below")
    assert refused("--format=csv", "-o", tmp_path / "file")
    assert "tables need a folder" in refused("--format=csv", "-o", "-") and not os.path.exists("-")


def test_folder_of_another_user(tmp_path):
    """The folder is part of the output, like a file: another user's is refused, also through another user's link; root's is not."""
    if os.geteuid():
        pytest.skip("needs two users")
    own, other, by_link = (tmp_path / name for name in ("own", "other", "by_link"))
    own.mkdir()
    other.mkdir()
    by_link.symlink_to(own)
    os.chown(other, 65534, 65534)
    os.chown(by_link, 65534, 65534, follow_symlinks=False)
    for folder, why in (other, "it belongs to another user"), (by_link, "a symbolic link"), (by_link / "new", "a symbolic link"):
        ran = Ran([CUDATRACE, "report", "--format=csv", "-o", folder, GOLDEN])
        assert ran.status == 1 and why in ran.err and not os.listdir(other) and not os.listdir(own), ran
    assert Ran([CUDATRACE, "report", "--format=csv", "-o", own, GOLDEN]).status == 0 and len(os.listdir(own)) > 50
