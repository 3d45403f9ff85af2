# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 5
# traces nothing
"""cudatrace report: folded stacks, flame graph, timeline; cudatrace diff. All are compared with sums over the lines of the
traces."""
import collections
import json
import re
import xml.etree.ElementTree as xml

import pytest
from helpers.run import TESTS, cudatrace

TOKENS, TRITON = TESTS + "/golden/h200-gpt2-tokens.jsonl", TESTS + "/golden/h200-triton.jsonl"
SVG = "{http://www.w3.org/2000/svg}"


def calls(path):
    with open(path, encoding="utf-8") as f:
        return [e for e in map(json.loads, f) if "symbol" in e]


def report(form, path, to):
    ran = cudatrace("report", f"--format={form}", "-o", to, path)
    assert ran.status == 0, ran
    return to.read_text(encoding="utf-8")


@pytest.mark.parametrize("trace", [TOKENS, TRITON], ids=["tokens", "triton"])
def test_sums(tmp_path, trace):
    """The sums of folded stacks, flame graph and timeline must equal those of the lines."""
    total, by_class, by_fn = 0, collections.Counter(), collections.Counter()
    for e in calls(trace):
        if not e.get("depth") and "duration_us" in e:
            ns = round(e["duration_us"] * 1000)
            total += ns
            by_class["launch" if e["type"] == "kernel" else e["type"]] += ns
            by_fn[e["name"]] += ns
    got = collections.Counter()
    for line in report("flamegraph", trace, tmp_path / "f.folded").splitlines():
        stack, ns = line.rsplit(" ", 1)
        frames = stack.split(";")
        assert 4 <= len(frames) <= 5 and frames[0].startswith("process "), line
        got[frames[3]] += int(ns)
    assert got.total() == total and got == by_fn
    titles = [t.text for t in xml.fromstring(report("svg", trace, tmp_path / "f.svg")).iter(SVG + "title")]
    assert any(t.startswith("cu") for t in titles) and titles[0].startswith("all\n"), titles[:3]
    line = json.loads(report("json", trace, tmp_path / "f.json"))["timeline"]
    for name, shares in line["classes"].items():
        assert abs(sum(shares) * line["step_ns"] - by_class[name]) <= by_class[name] / 1000 + 1000, name
    assert set(line["classes"]) == {c for c, ns in by_class.items() if ns}


def test_svg_by_name(tmp_path):
    """Output to a file that ends in .svg must be an SVG."""
    assert report("flamegraph", TOKENS, tmp_path / "named.svg") == report("svg", TOKENS, tmp_path / "f")


def test_timeline_text():
    assert re.search(r"^  launch +\|.*[.:=+*#@-]", cudatrace("report", "--full", TOKENS).out, re.M)


def test_hostile_names(tmp_path):
    """Special characters in a name must not become markup, nor a semicolon a frame."""
    evil = tmp_path / "evil.jsonl"
    with open(TOKENS, encoding="utf-8") as f:
        evil.write_text(re.sub(r'"kernel":"[^"]*"', r'"kernel":"<script>alert(1)</script>;&\\"\\u0001"', f.read()))
    assert '<script>alert(1)</script>;&\\"\\u0001' in evil.read_text()
    root = xml.fromstring(report("svg", evil, tmp_path / "evil.svg"))
    assert len(list(root.iter(SVG + "script"))) == 1
    assert not [line for line in report("flamegraph", evil, tmp_path / "folded").splitlines() if len(line.rsplit(" ", 1)[0].split(";")) > 5]


def test_diff_same():
    ran = cudatrace("diff", TOKENS, TOKENS)
    assert ran.status == 0 and "Nothing changed" in ran.out


def test_diff():
    """Missing and new items must be named, and counts must be those of the lines."""
    ran = cudatrace("diff", TOKENS, TRITON)
    assert ran.status == 1 and "gone: " in ran.out and "new: " in ran.out
    sides = []
    for path in TOKENS, TRITON:
        ev = calls(path)
        sides.append({"functions": collections.Counter(e["name"] for e in ev), "kernels": collections.Counter(
            e["kernel"] for e in ev if e["type"] == "kernel" and e.get("op") == "launch" and "error" not in e and not e.get("capturing") and "kernel" in e)})
    diff = json.loads(cudatrace("diff", "--json", TOKENS, TRITON).out)
    for what in ("functions", "kernels"):
        for side, key in zip(sides, ("count_before", "count_after")):
            assert {t["name"]: t[key] for t in diff[what] if t[key]} == dict(side[what]), (what, key)
        assert not [t for t in diff[what] if t["count_before"] != t["count_after"] and not t["changed"]]
    assert sum(t["changed"] for k in ("all", "functions", "kernels") for t in diff[k]) == diff["changed"]


def redacted(path, what):
    """TOKENS as with --no-strings or --no-args."""
    with open(TOKENS, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    for x in lines:
        for name in ("kernel", "kernel_mangled") if what == "strings" else ("kernel", "kernel_mangled", "args", "size", "direction", "ptr", "stream", "grid", "block", "bandwidth_gbps"):
            x.pop(name, None)
    lines[0]["redacted"] = what
    path.write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
    return path


def test_diff_of_redacted_traces(tmp_path):
    """If only one trace lacks names or arguments, no difference proves nothing, and one line must report it."""
    full, strings, arguments = TOKENS, redacted(tmp_path / "s.jsonl", "strings"), redacted(tmp_path / "a.jsonl", "arguments")
    for one, other, status, verdict, what, where in (
            (full, full, 0, "same", None, None), (strings, strings, 0, "same", "strings", "both"), (full, strings, 3, "unknown", "strings", "after"),
            (strings, full, 3, "unknown", "strings", "before"), (arguments, full, 3, "unknown", "arguments", "before"), (strings, arguments, 3, "unknown", "arguments", "after"),
            (arguments, arguments, 0, "same", "arguments", "both"), (strings, TRITON, 1, "different", "strings", "before")):
        ran = cudatrace("diff", "--json", one, other)
        got = json.loads(ran.out)
        assert (ran.status, got["verdict"], got.get("redacted"), got.get("redacted_in")) == (status, verdict, what, where), (one, other, [x for x in got["all"] + got["functions"] if x["changed"]])
        ran = cudatrace("diff", one, other)
        said = re.findall(r"Hidden: [^.]* not compared, because (?:the (old|new) trace has|(both) traces have) no (names|arguments)", " ".join(ran.out.split()))
        assert ran.status == status and [{"old": "before", "new": "after"}.get(a, b) for a, b, _ in said] == [where] * bool(where), ran.out
        assert ("Nothing changed" in ran.out) == (status == 0)


@pytest.mark.parametrize("other", [["none"], []], ids=["no such file", "one trace"])
def test_diff_usage(tmp_path, other):
    assert cudatrace("diff", TOKENS, *[tmp_path / o for o in other]).status == 2
