# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 35
"""report --format=markdown: the sentences of the short report on one screen; all tables with the rows of the text and the values of JSON; nothing that
is markup."""
import glob
import json
import os
import re
import subprocess

import pytest
from helpers.run import CUDATRACE, TESTS, Ran

TRACES = sorted(glob.glob(TESTS + "/golden/*.jsonl") + glob.glob(TESTS + "/corpus/*.jsonl.zst"))
# About four characters are a token.
CHARS_MAX = 4 * 1500


def words(text):
    return re.sub(r"\s+", "", text.replace("\\", ""))


@pytest.mark.parametrize("trace", TRACES, ids=os.path.basename)
def test_same_sentences(trace):
    ran = Ran([CUDATRACE, "report", "--format=markdown", trace])
    short = Ran([CUDATRACE, "report", "--width=1000", trace])
    assert ran.status == short.status == 0
    assert len(ran.out) <= CHARS_MAX
    text = words(ran.out)
    for line in short.out.splitlines():
        title = re.match(r"(Verdict|Do next|Time|Failures|Cause of failure|Causes of failure): ", line)
        line = line[title.end():] if title else line
        table = re.match(r"\s+(time|[\d.]+ \S+)\s.*\s(share\*?|%\*?|part)\s", line)
        if not table and not line.startswith("  and "):  # fewer lines fit in the short report
            assert words(line).lower() in text.lower(), line


@pytest.mark.parametrize("trace", [t for t in TRACES if "corpus" in t], ids=os.path.basename)
def test_ids(trace):
    """Each of at most five findings must have its id, in the order of JSON, and the option that shows its evidence."""
    text = Ran([CUDATRACE, "report", "--format=markdown", trace]).out
    known = [f["id"] for f in json.loads(Ran([CUDATRACE, "report", "--format=json", trace]).out)["findings"]]
    found = re.findall(r"^\d+\\?\. .* \(([a-z-]+)\) *$", text, re.M)
    assert len(found) == len(re.findall(r"^\d+\\?\. ", text, re.M)) <= 5
    assert found == [x for x in known if x in found] and ("--section=findings" in text or not known)


@pytest.mark.parametrize("trace", TRACES, ids=os.path.basename)
def test_tables(trace):
    """All rows of a table have as many cells as its head, and a line of dashes follows the head."""
    lines = Ran([CUDATRACE, "report", "--format=markdown", trace]).out.splitlines()
    cells = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0 for line in lines]
    for i, cnt in enumerate(cells):
        if cnt and not cells[i - 1]:
            assert re.fullmatch(r"\|(---:\|)*---\|", lines[i + 1]) and not lines[i - 1]
        assert not cnt or not cells[i - 1] or cnt == cells[i - 1], lines[i]


def test_names(tmp_path):
    """Names of a program are text."""
    text = subprocess.run(["zstd", "-dc", TESTS + "/corpus/gpt2-eager.jsonl.zst"], stdout=subprocess.PIPE, text=True, check=True).stdout
    path = tmp_path / "names.jsonl"
    path.write_text(text.replace('"aten::addmm"', '"a|b*c*`d`_e_<f>[g](h)~i~\\\\"'), encoding="utf-8")
    ran = Ran([CUDATRACE, "report", "--format=markdown", path])
    assert r"a\|b\*c\*\`d\`\_e\_\<f>\[g](h)\~i\~\\" in ran.out
    assert not re.search(r"(?<!\\)[`<]", ran.out)


def cells_of(line):
    return [re.sub(r"\\(.)", r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables_of(text):
    """The tables as (heading of the section, [the cells of each row])."""
    title, found, inside = "", [], False
    for line in text.splitlines():
        title = line[3:] if line.startswith("## ") else title
        if line.startswith("|") and not inside:
            found.append((title, []))
        inside = line.startswith("|")
        if inside and not re.fullmatch(r"\|(---:\|)*---\|", line):
            found[-1][1].append(cells_of(line))
    return found


def parsed(*args):
    ran = Ran([CUDATRACE, "report", "-q", "--format=markdown", *args])
    assert ran.status == 0, ran
    found = tables_of(ran.out)
    for title, rows in found:
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1, (title, rows)
    return ran.out, found


def bare(words):
    return [w for w in words if w != "\u00b7"]


SOME = [["--map", "--top", "8"], ["--section=map,kernels,step"], ["--serving"], ["--full", "--top", "3"]]


@pytest.mark.parametrize("trace, args", [*((trace, ["--full"]) for trace in TRACES), *((trace, args) for trace in TRACES[-3:] for args in SOME)],
                         ids=lambda x: os.path.basename(x) if isinstance(x, str) else x[0][2:].split("=")[0])
def test_same_tables(trace, args):
    """Each table of the text, in its order: the same rows with the same cells."""
    out, found = parsed(*args, trace)
    lines = iter(Ran([CUDATRACE, "report", "-q", "--width=1000", *args, trace]).out.splitlines())
    for title, rows in found:
        want = [bare(" ".join(row).split()) for row in rows]
        assert any(line.split() == want[0] for line in lines), (title, want[0])
        for cells, row in zip(rows[1:], want[1:]):
            line, n = " ".join(next(lines).split()), len(" ".join(bare(" ".join(cells[:-1]).split())))
            # A longer name is cut in its middle, and may lack its namespaces.
            name = re.escape(line[n:].strip()).replace(re.escape("..."), ".*")
            assert line[:n] == " ".join(row)[:n] and re.fullmatch((".*" if "..." in line else "") + name, " ".join(row)[n:].strip()), (title, row)
    # What a terminal shows as it is, as the timeline, is between fences; nothing else is indented.
    text = re.sub(r"^```$.*?^```$", "", out, flags=re.M | re.S)
    assert "```" not in text and not re.search(r"^ +\S+ +\|", text, re.M)


def unit(x, name):
    return f"{x:.{2 if x < 9.995 else 1 if x < 99.95 else 0}f} {name}"


def time(ns):
    for limit, scale, name in ((999.5e3, 1e3, "\u00b5s"), (999.5e6, 1e6, "ms")):
        if ns < limit:
            return f"{ns:.0f} ns" if ns < 999.5 else unit(ns / scale, name)
    return unit(ns / 1e9, "s")


def size(n):
    if n < 1024:
        return f"{n} B"
    for name in ("KiB", "MiB", "GiB", "TiB"):
        n /= 1024
        if n < 1023.5:
            break
    return unit(n, name)


def texts(x):
    """Each form that a person sees of a value in JSON."""
    if isinstance(x, bool):
        return {"yes" if x else "no"}
    if isinstance(x, str):
        return {" ".join(x.split())}
    if not isinstance(x, (int, float)):
        return set()
    forms = {f"{100 * x:.1f} %", f"{x:.2f}", f"{x:.3g}"}
    if x >= 0:
        forms |= {f"{int(x):,}", str(int(x)), time(x), time(1e6 * x), time(1e3 * x), size(int(x)), unit(x, "GB/s") if x >= 0.9995 else unit(1e3 * x, "MB/s")}
    return forms


def values(x):
    if isinstance(x, dict):
        return set().union(*map(texts, x), *map(values, x.values()))
    if isinstance(x, list):
        if len(x) == 3 and all(isinstance(n, int) for n in x):
            return {re.sub("(x1){1,2}$", "", "x".join(map(str, x)))}
        return set().union(*map(values, x))
    return texts(x)


# Columns that are no member of JSON: ratios and sums of members, several members in one, means where JSON has sums, and a word where JSON has none.
COMPUTED = {("communication", "mean"), ("communication", "bus"), ("gemms", "FLOP"), ("graphs", "mean"), ("gpu", "bandwidth"), ("gpu", "of span"), ("gpu", "share"), ("map", "bound by"),
            ("map", "calls"), ("memory", "at ms"), ("memory", "time"), ("overview", "share"), ("roofline", "limit"), ("step", "half of them"), ("step", "part"), ("verdict", "median"),
            ("verdict", "share"), ("waits", "mean")}


@pytest.mark.parametrize("name", ["copies-beside", "gpt2-graph", "train"])
def test_same_values(name):
    """Each cell is a value of the section in JSON, formatted here a second time."""
    trace = f"{TESTS}/corpus/{name}.jsonl.zst"
    report = json.loads(Ran([CUDATRACE, "report", "-q", "--format=json", trace]).out)
    listed = Ran([CUDATRACE, "report", "--list-sections", trace]).out
    cells, wrong = 0, {}
    for section in re.findall(r"^(\w+) ", listed, re.M):
        known = values(report.get(section)) | {""}
        for title, (heads, *rows) in parsed(f"--section={section}", trace)[1]:
            for i, head in enumerate(heads[:-1]):
                if (section, head) not in COMPUTED:
                    cells += len(rows)
                    wrong |= {(section, title, head): row for row in rows if row[i] not in known}
    assert cells > 300 and not wrong, "\n".join(map(str, wrong.items()))
