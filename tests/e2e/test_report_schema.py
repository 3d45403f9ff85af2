# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# traces nothing
# takes: 20
"""cudatrace list --schema=report: the JSON form of every report of tests/corpus and tests/golden must conform to it, and a member
without a row must not."""
import copy
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
