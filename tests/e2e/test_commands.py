# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 5
"""Commands in the output, man page, help and alerts of cudatrace: each must have a valid verb, valid options, subcommands of
ctl, and files where files are expected. The examples of the man page run in test_documents.py."""
import glob
import json
import os
import pathlib
import re

import pytest
from helpers.run import CUDATRACE, INSIDE, O, TESTS, Ran, cudatrace, needs_tracing

TOP = pathlib.Path(TESTS).parent
VERBS = ("trace", "top", "list", "check", "report", "diff", "mcp", "run", "fake", "daemon", "ctl", "help")
# TYPED matches text before a command to type; PROSE has words that may follow the name in a sentence.
TYPED = re.compile(r"(?:^|[:;,`]|\b(?:run|use|try|see|then|as in|type|or|with|sudo)) *$")
PROSE = set("""again and as end at before beside by can cannot could did does ends failed has have in is itself knows left makes may measures needs on only
    outside prints ran reads records runs shows started starts stopped supports takes that to traces tracer uses waits was which with without writes wrote""".split())
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*(?:PRI\w+\s*)?"(?:[^"\\\n]|\\.)*")*')


def options(verb):
    # The help of trace covers all verbs.
    text = Ran([CUDATRACE, "help", "all"] if verb == "trace" else [CUDATRACE, verb, "--help"]).out
    return set(re.findall(r"(?m)^ +(?:-\w, )?(--[a-z][a-z-]*)", text))


@pytest.fixture(scope="module")
def known():
    own = {verb: options(verb) for verb in VERBS if verb != "help"}
    own["help"] = {"--json"}
    own["trace"] |= {"--man", "--completion"}
    own["list"].add("--names")
    words = set(re.findall(r"(?m)^(?:Usage:|      ) cudatrace ctl ([a-z]+)", Ran([CUDATRACE, "ctl", "--help"]).out))
    assert len(words) == 7 and all(own.values())
    return own, words


def complaints(text, known):
    """Yields the errors of each `cudatrace WORD...` in a text."""
    own, subcommands = known
    for m in re.finditer(r"(?<![\w/.-])cudatrace((?: (?!--? )[^\s\"'`;,|()]+)+|(?: -- )\S+)", text):
        words = [w.rstrip(".:!?") for w in m[1].split()]
        # A colon or a full stop ends the command.
        end = next((i for i, w in enumerate(m[1].split()) if re.search(r"[.:!?]$", w)), len(words))
        words = words[:end + 1]
        verb, rest = ("trace", words) if words[0].startswith("-") else (words[0], words[1:])
        if not re.fullmatch(r"[a-z]+", verb):
            continue
        if verb not in VERBS:
            if verb not in PROSE and re.search(TYPED, text[:m.start()]):
                yield f"no command, no known prose: {m[0]}"
            continue
        for o in rest[:rest.index("--")] if "--" in rest else rest:
            name = re.match(r"--[a-z][a-z-]*", o)
            if name and name[0] not in own[verb]:
                yield f"{verb} has no option {name[0]}: {m[0]}"
        plain = [w for w in rest if not w.startswith("-")]
        first = plain[0] if plain and rest[0] == plain[0] else None
        if verb == "ctl" and first and first.islower() and first not in subcommands and first not in PROSE:
            yield f"ctl has no {first}: {m[0]}"
        if verb in ("report", "diff") and first and re.fullmatch(r"[a-z]+", first) and first not in PROSE | {"of", "read", "would"}:
            yield f"{verb} wants a file, not {first}: {m[0]}"


def literals(path):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    for m in LITERAL.finditer(text):
        yield "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', m[0])).replace("\\n", "\n").replace("\\\\-", "-").replace('\\"', '"')


def test_messages(known):
    files = [pathlib.Path(p) for d in ("src", "inject", "nvml") for p in glob.glob(f"{TOP}/{d}/**/*.*", recursive=True) if p.endswith((".c", ".cc", ".h", ".def"))]
    found = [(p, text) for p in files for text in literals(p) if "cudatrace " in text]
    assert len(found) > 60
    assert [f"{p.relative_to(TOP)}: {c}" for p, text in found for c in complaints(text, known)] == []


@pytest.mark.parametrize("args", (["--help"], ["help", "all"], ["help", "which"], *([verb, "--help"] for verb in VERBS[1:-1])), ids=" ".join)
def test_help(args, known):
    assert list(complaints(Ran([CUDATRACE, *args]).out, known)) == []


def chosen():
    return json.loads(Ran([CUDATRACE, "--json", "help", "which"]).out) if CUDATRACE else []


@pytest.mark.parametrize("row", [r for r in chosen() if r["command"].endswith("-- COMMAND")], ids=lambda r: r["command"])
def test_which(row, tmp_path):
    """`help which` must be right about whether a command needs root and works with -p."""
    needs_tracing()
    options = row["command"].removeprefix("cudatrace").removesuffix("-- COMMAND").split()
    more = ["-q", "--cupti", O + "/cupti/libcupti.so.13"] if "--gpu-time" in options else ["-q"]
    ran = Ran([*INSIDE, CUDATRACE, *more, *options, "--jsonl", tmp_path / "a.jsonl", "--", "true"])
    assert (ran.status != 0) == (row["needs_root"] == "yes"), ran
    ran = cudatrace(*more, *options, "--jsonl", tmp_path / "b.jsonl", "--duration=0.2", "-p", os.getpid())
    assert ran.status == (0 if row["works_with_p"] == "yes" else 2), ran


def test_man(known):
    text = re.sub(r"\\f.|\\&", "", Ran([CUDATRACE, "--man"]).out.replace("\\-", "-"))
    assert text.count("cudatrace") > 30 and list(complaints(text, known)) == []


@pytest.mark.parametrize("path", ["dist/prometheus/alerts.yaml", "dist/daemon.yaml", "tools/demo.sh"])
def test_shipped(path, known):
    text = (TOP / path).read_text(encoding="utf-8")
    assert list(complaints(re.sub(r"\n\s+", " ", text) if path.endswith("alerts.yaml") else text, known)) == []


def test_pages(known):
    """Commands in sentences must be valid, not only those in blocks that test_documents.py runs."""
    pages = [TOP / "README.md", *map(pathlib.Path, sorted(glob.glob(f"{TOP}/docs/*.md")))]
    spans = [(p.name, span) for p in pages for span in re.findall(r"`([^`\n]*)`", p.read_text(encoding="utf-8")) if span.startswith(("cudatrace ", "sudo cudatrace "))]
    assert len(spans) > 30
    assert [f"{name}: {c}" for name, span in spans for c in complaints(span, known)] == []


@pytest.mark.parametrize("text", ["cudatrace report memory", "run: cudatrace ctl bursts", "cudatrace frobnicate", "cudatrace list --duration 3", "cudatrace --no-such -p 1",
                                  "see cudatrace reports; else", "use cudatrace -p PID --jsnl x"])
def test_what_is_not_there_is_found(text, known):
    assert len(list(complaints(text, known))) == 1


@pytest.mark.parametrize("text", ["cudatrace report FILE of the daemon's newest", "cudatrace ctl burst, then cudatrace report FILE", "cudatrace -- python --no-such x.py",
                                  "cudatrace check: what is missing", "of cudatrace itself", "cudatrace %s --help", "libcudatrace-inject.so", "cudatrace ctl status."])
def test_what_is_there_is_not(text, known):
    assert list(complaints(text, known)) == []
