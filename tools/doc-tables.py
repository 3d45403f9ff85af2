#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Generates the tables of the documents that the program can print.

    tools/doc-tables.py [--check] PROGRAM      docs/FIELDS.md, from PROGRAM list --schema
                                               docs/CHOOSE.md, from PROGRAM help which --json
                                               lists of members in docs/REPORT.md, from PROGRAM list --schema=report

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
    "ctxsw": "Context switches", "uvm": "Managed memory", "irq": "Interrupts", "gpu": "GPU", "gpu_device": "GPU devices", "range": "Ranges",
    "torch_op": "Operators", "allocator": "Allocator",
    "gpu_stats": "GPU statistics", "tracer": "Tracer", "stack_line": "Stacks", "process": "Processes", "library": "Libraries",
    "end": "End",
}


def form(schema):
    """The type of a member, in readable form."""
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("pattern", "").startswith("^0x("):
        return "hex"
    kinds = schema.get("type", "string")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds == ["object"] and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {form(schema['additionalProperties'])}s"
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
name before a colon says which ops or types a member is of.

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
    blocks = {found[2]: found[0] for found in BLOCK.finditer(page)}
    missing = [name for name, schema in sections.items() if isinstance(schema, dict) and {"properties", "items"} & {*schema} and name not in blocks]
    if missing:
        sys.exit(f"docs/REPORT.md has no list of members of: {', '.join(missing)}; see the list of kernels")
    return BLOCK.sub(lambda found: found[1] + table(sections[found[2]].get("items", sections[found[2]])).replace("| field |", "| member |") + found[3], page)


def main(args):
    is_check = args[:1] == ["--check"]
    if len(args) != 1 + is_check:
        sys.exit(__doc__)
    bad = 0
    for name, text in {"FIELDS.md": fields(args[-1]), "CHOOSE.md": choose(args[-1]), "REPORT.md": report(args[-1])}.items():
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
