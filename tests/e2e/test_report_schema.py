# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 20
"""cudatrace list --schema=report: the JSON form of every report of tests/corpus and tests/golden must conform to it, and a member
without a row must not."""
import copy
import csv
import glob
import json
import subprocess

import pytest
from helpers.run import CUDATRACE, TESTS, Ran

jsonschema = pytest.importorskip("jsonschema", "4.0", reason="python3-jsonschema is not installed")

TRACES = sorted(glob.glob(TESTS + "/golden/*.jsonl") + glob.glob(TESTS + "/corpus/*.jsonl.zst"))
SCHEMA = json.loads(Ran([CUDATRACE, "list", "--schema=report"]).out)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# Sections with rows in a .section file.
DONE = [name for name, schema in SCHEMA["properties"].items() if isinstance(schema, dict) and {"properties", "items"} & {*schema}]


def report_of(path):
    ran = subprocess.run([CUDATRACE, "report", "--format=json", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(ran.stdout)


def wrong(report):
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[-300:]}" for e in VALIDATOR.iter_errors(report)][:5]


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert "kernels" in DONE


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.rsplit("/", 1)[1].split(".")[0])
def test_reports_conform(path):
    assert not wrong(report_of(path))


def objects(schema, value, path=()):
    """Each object of a report whose members are in the schema, with its path."""
    if "properties" in schema and isinstance(value, dict):
        yield path, schema
        for name, member in value.items():
            yield from objects(schema["properties"].get(name, {}), member, (*path, name))
    elif isinstance(schema.get("items"), dict) and isinstance(value, list) and value:
        yield from objects(schema["items"], value[0], (*path, 0))


def at(report, path):
    for step in path:
        report = report[step]
    return report


def test_other_members_do_not_conform():
    """In each object, an extra member, a missing required member and text in place of a number must not conform."""
    report = report_of(TESTS + "/golden/h200-gpt2-tokens.jsonl")
    found = [(path, schema) for name in DONE if name in report for path, schema in objects(SCHEMA["properties"][name], report[name], (name,))]
    assert {path[0] for path, _ in found} >= {"kernels", "overview", "waits", "transfers"}
    for path, schema in found:
        spoilt = copy.deepcopy(report)
        at(spoilt, path)["none_of_ours"] = 1
        assert not VALIDATOR.is_valid(spoilt), path
        for name in schema["required"]:
            spoilt = copy.deepcopy(report)
            del at(spoilt, path)[name]
            assert not VALIDATOR.is_valid(spoilt), (path, name)
        for name, member in schema["properties"].items():
            if member.get("type") == "integer" and name in at(report, path):
                spoilt = copy.deepcopy(report)
                at(spoilt, path)[name] = "1"
                assert not VALIDATOR.is_valid(spoilt), (path, name)


def test_redacted_sections_are_null():
    report = report_of(TESTS + "/golden/h200-triton.jsonl")
    assert not wrong({**report, "kernels": None}) and wrong({**report, "overview": None})


def test_diffs_conform(tmp_path):
    """Of the same, different, redacted and incomplete traces; other members, and numbers as text, do not."""
    schema = json.loads(Ran([CUDATRACE, "list", "--schema=diff"]).out)
    jsonschema.Draft202012Validator.check_schema(schema)
    is_valid = jsonschema.Draft202012Validator(schema).is_valid
    one, other = TESTS + "/golden/h200-gpt2-tokens.jsonl", TESTS + "/golden/h200-gpt2-memory.jsonl"
    cut, hidden = tmp_path / "cut.jsonl", tmp_path / "hidden.jsonl"
    with open(one, encoding="utf-8") as f:
        lines = f.readlines()
    cut.write_text("".join(lines[:-1]))
    hidden.write_text("".join([json.dumps({**json.loads(lines[0]), "redacted": "arguments"}) + "\n", *lines[1:]]))
    seen = {}
    for pair in ((one, one), (one, other), (one, cut), (hidden, one)):
        found = json.loads(Ran([CUDATRACE, "diff", "--json", *pair]).out)
        assert is_valid(found), pair
        seen |= found
        for path, of in objects(schema, found):
            assert not is_valid({**found, "none_of_ours": 1})
            for name, member in of["properties"].items():
                if member.get("type") == "integer" and name in at(found, path):
                    spoilt = copy.deepcopy(found)
                    at(spoilt, path)[name] = "1"
                    assert not is_valid(spoilt), (path, name)
    assert {*schema["properties"]} - {*seen} == {"rejected"}


def test_unknown_schema():
    ran = Ran([CUDATRACE, "list", "--schema=trace"])
    assert ran.status == 2 and "report diff budget" in ran.err, ran


def starts_only(tmp_path):
    """A trace whose calls have no end, as with --entry-only all."""
    path = tmp_path / "starts.jsonl"
    with open(TESTS + "/golden/h200-gpt2-tokens.jsonl", encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        for i, line in enumerate(f):
            x = json.loads(line)
            if not i:
                x["entry_only"] = "launch, transfer, memory, sync, module"
            elif "symbol" in x:
                x = {k: v for k, v in x.items() if k not in ("duration_us", "result", "error")}
                x["entry_only"] = True
            out.write(json.dumps(x) + "\n")
    return path


CALL_TIMES = {"call_ns", "total_ns", "mean_ns", "max_ns", "p50_ns", "p95_ns", "p99_ns", "launch_ns", "sync_ns", "host_ns", "init_call_ns", "alloc_ns", "free_ns"}


def zeros(value, path=""):
    if isinstance(value, dict):
        for name, member in value.items():
            if member == 0 and not isinstance(member, bool) and name in CALL_TIMES and not (path == "/answers/numbers" and name == "sync_ns"):
                yield f"{path}/{name}"
            yield from zeros(member, f"{path}/{name}")
    elif isinstance(value, list):
        for member in value:
            yield from zeros(member, path)


def test_times_that_were_not_recorded(tmp_path):
    """Times of calls of which only the start was recorded are not 0 in any output; `diff` must not compare them."""
    path, whole = starts_only(tmp_path), TESTS + "/golden/h200-gpt2-tokens.jsonl"
    report = report_of(path)
    assert not wrong(report) and report["overview"]["calls"] > 100
    assert report["overview"]["call_ns"] is None and report["overview"]["errors"] is None and report["idle"] is None
    assert not [z for z in zeros({k: v for k, v in report.items() if k not in ("gpu", "driver")})]
    text = Ran([CUDATRACE, "report", "--full", path]).out
    assert "their time was not recorded" in text and "an unknown amount of host time" in text
    row = next(x for x in text.splitlines() if x.endswith("  cuLaunchKernel"))
    assert row.split()[1:] == ["cuLaunchKernel"]
    assert Ran([CUDATRACE, "report", "--format=csv", "-o", tmp_path / "csv", path]).status == 0
    with open(tmp_path / "csv/overview.functions.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    assert rows and {x["total_ns"] + x["errors"] for x in rows} == {""} and all(int(x["count"]) for x in rows)
    assert not Ran([CUDATRACE, "report", "--format=flamegraph", path]).out
    found = Ran([CUDATRACE, "diff", whole, path]).out
    assert "Not recorded in NEW: what --entry-only left out is not compared" in found and "failed calls" not in found
    rows = {x["name"]: x for x in json.loads(Ran([CUDATRACE, "diff", "--json", path, whole]).out)["all"]}
    assert "before_ns" not in rows["CUDA calls"] and rows["CUDA calls"]["not_recorded_before"] == "--entry-only" and rows["CUDA calls"]["after_ns"]


@pytest.mark.parametrize("option,header", [("-e", {"traced": "launch, sync"}), ("--count", {"counted": "memory (73 functions)"})])
def test_calls_that_were_not_recorded(option, header, tmp_path):
    """Sections of calls that an option left out are null, and `diff` says so instead of \"gone\"."""
    whole, path = TESTS + "/golden/h200-gpt2-tokens.jsonl", tmp_path / "some.jsonl"
    with open(whole, encoding="utf-8") as f, open(path, "w", encoding="utf-8") as out:
        for i, line in enumerate(f):
            x = json.loads(line)
            if not i:
                line = json.dumps({**x, **header}) + "\n"
            elif "symbol" in x and (x["type"] not in ("kernel", "sync") if option == "-e" else x["type"] == "memory"):
                continue
            out.write(line)
    report = report_of(path)
    assert not wrong(report) and report["memory"] is None and report["overview"]["launches"]
    assert f"memory: not recorded ({option})" in Ran([CUDATRACE, "report", "--section=memory", path]).out
    found = Ran([CUDATRACE, "diff", whole, path]).out
    assert f"Not recorded in NEW: what {option} left out is not compared" in found and "gone: cuMem" not in found, found
    rows = {x["name"]: x for x in json.loads(Ran([CUDATRACE, "diff", "--json", path, whole]).out)["functions"]}
    memory = next(x for name, x in rows.items() if name.startswith("cuMemAlloc"))
    assert memory["not_recorded_before"] == option and "count_before" not in memory and not memory["changed"]
