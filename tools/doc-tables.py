#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Generates the tables of the documents that the program can print.

    tools/doc-tables.py [--check] PROGRAM      docs/FIELDS.md, from PROGRAM list --schema
                                               docs/CHOOSE.md, from PROGRAM help which --json
                                               lists of members in docs/REPORT.md, from PROGRAM list --schema=report
                                               tables in docs/LIMITS.md, from src/util/limits.def
                                               the table of their tests in docs/PROMISES.md
                                               the table in docs/BUDGETS.md, from src/budget/limits.def

Rewrites pages that are out of date; with --check it only reports them, with exit status 1. `make tables` runs it, and the
test suite json_schema does with --check."""
import json
import os
import re
import subprocess
import sys

DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs")
NOTICE = "<!-- SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause -->\n<!-- made by `make tables`: do not edit -->\n"
# Kinds of lines, in the order and with the titles of docs/SCHEMA.md. Other kinds follow, under their own names.
TITLES = {
    "header": "Header", "call": "Calls", "driver": "System calls into the driver", "sched": "Scheduler", "xid": "Xids",
    "ctxsw": "Context switches", "uvm": "Managed memory", "irq": "Interrupts", "gpu": "GPU", "stalls": "Stalls", "gpu_device": "GPU devices", "range": "Ranges",
    "torch_op": "Operators", "allocator": "Allocator",
    "gpu_stats": "GPU statistics", "gpu_metrics": "GPU metrics", "network": "Network ports", "tracer": "Tracer", "stack_line": "Stacks", "process": "Processes", "job": "Jobs", "library": "Libraries",
    "end": "End",
}


def several(form_):
    """Its plural."""
    return re.sub("^array", "arrays", form_) if form_.startswith("array") else form_ + "s"


def form(schema):
    """The type of a member, in readable form."""
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("pattern", "").startswith("^0x("):
        return "hex"
    kinds = schema.get("type", "string")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {several(form(schema['additionalProperties']))}"
    if kinds == ["array"]:
        of = form(schema["items"])
        return f"array of {schema['minItems']} {of}s" if schema.get("minItems") == schema.get("maxItems", 0) else f"array of {of}s"
    return " or ".join("number" if kind == "integer" else kind for kind in kinds)


def cell(text):
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def rows(schema, without=(), before=""):
    """Objects with the members of the one above them do not repeat these."""
    above = None
    for name, member in schema["properties"].items():
        if name in without:
            continue
        always = "yes" if name in schema.get("required", ()) else ""
        yield f"| `{before}{name}` | {form(member)} | {always} | {cell(member.get('description', ''))} |"
        inner = member.get("items", {})
        if "properties" in inner:
            yield from rows(inner, before=f"{before}{name}[].")
        if "properties" in member and member["properties"] != above:
            yield from rows(member, before=f"{before}{name}.")
        above = member.get("properties")


def table(schema, without=()):
    return "\n".join(["| field | type | always | meaning |", "|---|---|---|---|", *rows(schema, without)]) + "\n"


def fields(program):
    ran = subprocess.run([program, "list", "--schema"], stdout=subprocess.PIPE, text=True, check=True)
    kinds = json.loads(ran.stdout)["$defs"]
    # Members that all lines but the first and the last have are listed once.
    line = kinds["process"]
    every = [name for name in line["properties"] if all(name in k["properties"] for n, k in kinds.items() if n not in ("header", "end"))]
    parts = [NOTICE + """# Fields of the JSONL trace

[SCHEMA](SCHEMA.md) explains the lines; these are all members of each, from the tables that the program writes them by
(`cudatrace list --schema`). "always": the member is in every line of its kind; the others are left out where they do not apply. A
name before a colon shows to which ops or types a member belongs.

## Every line

All lines but the header and the end have these, besides `type` and `op`.

""" + table({**line, "properties": {n: line["properties"][n] for n in every if n not in ("type", "op")}})]
    for kind in [*TITLES, *(k for k in kinds if k not in TITLES)]:
        schema = kinds[kind]
        own = table(schema, ("type",) if kind in ("header", "end") else every)
        of = schema["properties"]["type"]
        words = f"Type `{of['const']}`" if "const" in of else "Type `kernel`" if kind == "driver" else "The type is the class of the function"
        if "enum" in schema["properties"].get("op", {}) and kind != "call":
            words += f"; op {', '.join(f'`{op}`' for op in schema['properties']['op']['enum'])}"
        parts.append(f"## {TITLES.get(kind, kind)}\n\n{cell(schema['description'][0].upper() + schema['description'][1:])}. {words}.\n\n{own}")
    return "\n".join(parts)


def choose(program):
    ran = subprocess.run([program, "help", "which", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    return NOTICE + """# Which option do I need?

Find your question, and run the command beside it. `cudatrace help which` prints the same table.

| question | command | cost | needs root | works with `-p` |
|---|---|---|---|---|
""" + "".join(f"| {cell(c['question'])} | `{c['command']}` | {cell(c['cost'])} | {c['needs_root']} | {c['works_with_p']} |\n" for c in json.loads(ran.stdout)) + """
- **Cost** is the time that tracing adds to the traced program ([measured](measured/README.md)). Without root a call costs less than 0.1 µs.
- `-p PID` always needs root. Without root, cudatrace traces a command in-process ([INJECT](INJECT.md)).
- A trace is written to `traces/trace_TIME.jsonl`, or to the files that options name. `cudatrace report FILE` analyses it ([REPORT](REPORT.md)).
- Options can be combined. Their costs add up.
"""


BLOCK = re.compile(r"(<!-- members of (\w+), made by `make tables` -->\n).*?(<!-- end of members -->)", re.S)


def report(program):
    """docs/REPORT.md with the members of each section whose rows are a table of the program."""
    ran = subprocess.run([program, "list", "--schema=report"], stdout=subprocess.PIPE, text=True, check=True)
    sections = json.loads(ran.stdout)["properties"]
    with open(os.path.join(DOCS, "REPORT.md"), encoding="utf-8") as f:
        page = f.read()
    blocks = {found[2] for found in BLOCK.finditer(page)}
    missing = [name for name, schema in sections.items() if isinstance(schema, dict) and {"properties", "items"} & {*schema} and name not in blocks]
    for name in missing:
        page = page.replace("## The HTML report\n", f"## {name}\n\n<!-- members of {name}, made by `make tables` -->\n<!-- end of members -->\n\n## The HTML report\n", 1)
    return BLOCK.sub(lambda found: found[1] + table(sections[found[2]].get("items", sections[found[2]])).replace("| field |", "| member |") + found[3], page)


LIMITS = re.compile(r"(<!-- limits of a (trace|report), made by `make tables` -->\n).*?(<!-- end of limits -->)", re.S)
CHECKED = re.compile(r"(<!-- tests of limits, made by `make tables` -->\n).*?(<!-- end of limits -->)", re.S)
ROW = re.compile(r"^(KERNEL|TRACE|REPORT)_LIMIT\(((?:\"(?:[^\"\\\\]|\\\\.)*\"|[^\")])*)\)", re.M)


def arguments(text):
    """Arguments of a row of limits.def: numbers as numbers, adjacent string literals joined, else words."""
    found = []
    for arg in re.findall(r"((?:\"(?:[^\"\\]|\\.)*\"|[^,\"])+)(?:,|$)", text):
        literals = re.findall(r"\"((?:[^\"\\]|\\.)*)\"", arg)
        number = re.fullmatch(r"\s*(\d+)(?: (<<|\+) (\d+))?\s*", arg)
        if literals:
            found.append("".join(literals))
        elif number:
            a, b = int(number[1]), int(number[3] or 0)
            found.append(a << b if number[2] == "<<" else a + b)
        else:
            found.append(arg.strip())
    return found


def amount(n):
    """Tables with a number of MiB are limited by bytes."""
    return f"{n >> 20} MiB" if n >= 4 << 20 and not n & (1 << 20) - 1 else f"{n:,}"


def limit_rows():
    """(kind, arguments) of each row of src/util/limits.def."""
    with open(os.path.join(os.path.dirname(DOCS), "src/util/limits.def"), encoding="utf-8") as f:
        return [(kind, arguments(args)) for kind, args in ROW.findall(f.read())]


def promises():
    """docs/PROMISES.md with the tests of the rows of src/util/limits.def."""
    text = "| table | tested by |\n|---|---|\n"
    for kind, args in limit_rows():
        if kind == "REPORT":
            continue
        name = args[2] if kind == "KERNEL" else f"`{args[1]}`"
        text += f"| {name} | {', '.join(f'`{test}`' for test in args[-1].split(', '))} |\n"
    with open(os.path.join(DOCS, "PROMISES.md"), encoding="utf-8") as f:
        return CHECKED.sub(lambda old: old[1] + text + old[2], f.read())


def limits():
    """docs/LIMITS.md with the rows of src/util/limits.def."""
    rows_ = limit_rows()
    trace = ["| table | filled by | limit | for one owner | at the limit | counter | released |", "|---|---|---|---|---|---|---|"]
    report_ = ["| table | holds | per process | total |", "|---|---|---|---|"]
    for kind, args in rows_:
        if kind == "KERNEL":
            _, row_sz, holds, filled, limit, owner, full, counter, released, _ = args
            trace.append(f"| {holds}; {row_sz:,} bytes per row | {filled} | {limit} | {owner} | {full} | {counter} | {released} |")
        elif kind == "TRACE":
            _, name, most, share, _, _, holds, full, filled, limit, owner, released, _ = args
            owner = owner.replace("{share}", amount(share))
            trace.append(f"| `{name}`: {holds} | {filled} | {(limit or '{max}').replace('{max}', amount(most))} | {owner} | {full} | `table={name}` | {released} |")
        else:
            _, name, most, holds, limit, total = args
            report_.append(f"| `{name}` | {holds} | {(limit or '{max}').replace('{max}', amount(most))} | {total or (amount(2 * most) if most else '')} |")
    with open(os.path.join(DOCS, "LIMITS.md"), encoding="utf-8") as f:
        page = f.read()
    return LIMITS.sub(lambda found: found[1] + "\n".join(trace if found[2] == "trace" else report_) + "\n" + found[3], page)


BUDGET = re.compile(r"(<!-- limits of budgets, made by `make tables` -->\n).*?(<!-- end of limits -->)", re.S)
UNITS = {"COUNT": "number", "BYTES": "bytes", "TIME": "time", "SHARE": "share"}


def budgets():
    """docs/BUDGETS.md with the rows of src/budget/limits.def."""
    with open(os.path.join(os.path.dirname(DOCS), "src/budget/limits.def"), encoding="utf-8") as f:
        rows_ = f.read()
    found = re.findall(r'^LIMIT\((\w+), "([^"]*)", (\w+), [^,]*, "([^"]*)", "([^"]*)"\)', rows_, re.M)
    assert len(found) == len(re.findall(r"^LIMIT\(", rows_, re.M)) > 0
    text = "| per | limit | value | of | member of the report |\n|---|---|---|---|---|\n"
    for scope, name, unit, path, what in found:
        text += f"| {scope.lower()} | `{name}` | {UNITS[unit]} | {what} | `{path.rstrip('!')}` |\n"
    with open(os.path.join(DOCS, "BUDGETS.md"), encoding="utf-8") as f:
        return BUDGET.sub(lambda old: old[1] + text + old[2], f.read())


def main(args):
    is_check = args[:1] == ["--check"]
    if len(args) != 1 + is_check:
        sys.exit(__doc__)
    bad = 0
    for name, text in {"FIELDS.md": fields(args[-1]), "CHOOSE.md": choose(args[-1]), "REPORT.md": report(args[-1]), "LIMITS.md": limits(),
                       "PROMISES.md": promises(), "BUDGETS.md": budgets()}.items():
        path = os.path.join(DOCS, name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else None
        if old == text:
            continue
        if is_check:
            print(f"docs/{name} differs from the program's tables: run `make tables`")
            bad = 1
            continue
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return bad


sys.exit(main(sys.argv[1:]))
