# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 30
"""Commands in README and docs: each command of README.md, docs/USE.md and the man page runs as written, with the sample program
as `python train.py` and a CUDA process as process 4242. The options and make targets that commands use on all pages must exist."""
import contextlib
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from helpers.run import CUDATRACE, FAKE, O, TESTS, Ran, needs_tracing, until

TOP = pathlib.Path(TESTS).parent
PAGES = [TOP / "README.md", *sorted(map(pathlib.Path, glob.glob(f"{TOP}/docs/*.md")))]
# Commands that are not run here, with the reason.
NOT_HERE = {
    "sudo cudatrace --gpu-ctxsw --summary=full -p 4242": "needs a GPU",
    "sudo cudatrace --gpu-stats --summary=full -p 4242": "needs a GPU",
    "sudo cudatrace daemon": "takes the machine's own port and folders: tests/e2e/test_daemon_life.py",
    "curl -s 127.0.0.1:9464/metrics | grep launches_total": "needs that daemon",
    "sudo cudatrace ctl burst 4242 5s": "needs that daemon",
    "sudo cudatrace ctl dump": "needs that daemon",
    "make demo": "tests/e2e/test_install.py",
    "make check": "this is it",
}
COMMAND = re.compile(r"(?:sudo )?cudatrace\b(?! (?:records|shows)\b)|make [a-z]|jq |curl ")


def blocks(page):
    """Lines of indented blocks, without their remarks."""
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("    ") and not fenced:
            yield re.sub(r"\s+# .*", "", line[4:]).strip()


def examples():
    """The commands of the man page's examples."""
    man = Ran([CUDATRACE, "--man"]).out.split(".SH EXAMPLES")[1].split("\n.SH ")[0]
    return [c.replace("\\-", "-") for block in re.findall(r"\.EX\n(.*?)\n\.EE", man, re.S) for c in block.split("\n")]


def commands(page):
    cells = (c.replace("\\|", "|") for row in re.findall(r"^\|.*", page.read_text(encoding="utf-8"), re.M) for c in re.findall(r"`([^`]*)`", row))
    return [c for c in dict.fromkeys([*blocks(page), *cells]) if COMMAND.match(c)]


@pytest.fixture
def world(tmp_path):
    """A folder with the files that commands name, and an environment for them."""
    home, tools = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    tools.mkdir()
    (tools / "cudatrace").symlink_to(CUDATRACE)
    for name, text in (("sudo", 'exec "$@"'), ("python", f"exec {FAKE}/sample --tokens 2 --quiet")):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    for name in ("trace", "before", "after", "out"):
        shutil.copy(TESTS + "/golden/h200-gpt2-tokens.jsonl", home / f"{name}.jsonl")
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LD_LIBRARY_PATH": f"{FAKE}:{O}/cupti", "USER": "root"}
    return home, env


# Runs a command in its own PID namespace, where processes 4242 and 4243 exist and no other suite's.
INIT = """
echo 4241 >/proc/sys/kernel/ns_last_pid
"$FAKE/sample" --tokens 1000000 --quiet & server=$!
[ $server = 4242 ] || { echo "not 4242: $server"; exit 99; }
"$FAKE/sample" --tokens 1000000 --quiet & other=$!
env --default-signal=INT bash -c "$1" & command=$!
# All that is called so, for this namespace has nobody else's.
trap 'pkill -INT -x cudatrace; kill $server $other' INT
while :; do
	wait $command
	rc=$?
	[ -e /proc/$command ] || exit $rc
done
"""


def written(home, before):
    return any(p.is_file() and p.stat().st_size > 0 and p.stat() != before.get(p) for p in home.rglob("*"))


def seen(out, command):
    """The screen shows that tracing has begun: a table, a summary, or lines through a pipe."""
    text = out.read_bytes()
    return b"calls/s" in text or "|" in command and text.count(b"\n") > 3


def goes_on(command):
    """Runs until Ctrl-C, or until its process ends."""
    tracer = re.match(r"sudo cudatrace\b(?! (?:list|check|report|diff))", command)
    return tracer and " -- " not in command and "--duration" not in command


@pytest.mark.parametrize("command", [pytest.param(c, marks=[] if p.name == "README.md" else pytest.mark.long)
                                     for p in (TOP / "README.md", TOP / "docs/USE.md") for c in commands(p)
                                     if p.name == "README.md" or c not in commands(TOP / "README.md")]
                         + [pytest.param(c, marks=pytest.mark.long) for c in examples()])
def test_runs(world, command):
    if command in NOT_HERE:
        pytest.skip(NOT_HERE[command])
    home, env = world
    if command.startswith("make "):
        assert Ran(["make", "-n", *command.split()[1:], "O=" + O], cwd=TOP).status == 0
        return
    needs_tracing()
    before = {p: p.stat() for p in home.rglob("*")}
    with open(home.parent / "out", "w+b") as out, contextlib.ExitStack() as stack:
        p = stack.enter_context(subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", INIT, "sh", command], cwd=home,
                                                 env={**env, "FAKE": FAKE}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True))
        stack.callback(p.kill)
        if goes_on(command):
            until(lambda: p.poll() is not None or written(home, before) or seen(home.parent / "out", command), 60)
            with contextlib.suppress(FileNotFoundError, IndexError):
                os.kill(int(pathlib.Path(f"/proc/{p.pid}/task/{p.pid}/children").read_text().split()[0]), signal.SIGINT)
        status = p.wait(120)
        out.seek(0)
        text = out.read().decode(errors="replace")
    # Our signal ends a trace with status 0.
    assert status == 0, (status, text[-1500:])
    assert "cudatrace: error" not in text


def test_options_are_there():
    known = set(re.findall(r"--[a-z][a-z-]*", Ran([CUDATRACE, "--help"]).out + Ran([CUDATRACE, "--man"]).out.replace("\\-", "-")))
    assert "--jsonl" in known
    wrong = []
    for page in PAGES:
        for line in blocks(page):
            ours = re.match(r"(?:sudo )?cudatrace (.*?)(?: -- .*)?$", line)
            wrong += [f"{page.name}: {o}: {line}" for o in re.findall(r"(?<!\S)--[a-z][a-z-]*", ours[1] if ours else "") if o not in known]
    assert wrong == []


def test_commands_have_a_target():
    """A trace command must name its target or an output."""
    names = r"(-p|-a|--pid|--system|--user|--jsonl|--chrome|--perfetto|--report|--summary|--help|--version|--man|--completion)\b"
    traces = [c for page in PAGES for c in commands(page) if re.match(r"(sudo )?cudatrace -", c)] \
        + [line for page in PAGES for line in blocks(page) if re.fullmatch(r"(sudo )?cudatrace", line)]
    assert len(traces) > 20 and [t for t in traces if " -- " not in t and not re.search(r"(?<= )" + names, t)] == []


def test_targets_are_there():
    made = (TOP / "Makefile").read_text(encoding="utf-8") + "".join(p.read_text(encoding="utf-8") for p in TOP.glob("*/*.mk")) \
        + "".join(p.read_text(encoding="utf-8") for p in TOP.glob("tests/*/*.mk"))
    targets = set(re.findall(r"^([a-z0-9-]+):(?!=)", made, re.M)) | {"bpf-arm64"}
    wrong = [f"{page.name}: {line}" for page in PAGES for line in blocks(page)
             for m in [re.match(r"(?:sudo )?make((?: [a-z0-9/_-]+)+)", line)] if m for t in m[1].split() if t not in targets and "/" not in t]
    assert wrong == []


def test_what_is_not_there_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("x\n\n    sudo cudatrace --no-such -p 1    # remark\n\n| a | `cudatrace list \\| wc` |\n")
    assert commands(page) == ["sudo cudatrace --no-such -p 1", "cudatrace list | wc"]


def test_readme_is_short():
    assert len((TOP / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_index_has_every_page():
    text = (TOP / "docs/README.md").read_text(encoding="utf-8")
    assert [p.name for p in PAGES if p.parent.name == "docs" and p.name != "README.md" and f"]({p.name})" not in text] == []


def test_the_sum_is_the_programs():
    """The sum in docs/DAEMON.md ("Memory with all tables full") must be the sum of the limits in src/daemon/memory.c."""
    said = subprocess.run([O + "/san/unit/test_daemon_memory"], check=True, capture_output=True, text=True).stdout.split("[       OK ]", maxsplit=1)[0]
    parts = [mib for mib in re.findall(r"^ +([\d.]+) MiB", said, re.M) if mib != "0.0"]
    text = (TOP / "docs/DAEMON.md").read_text(encoding="utf-8").split("## Memory with all tables full")[1].split("\n## ")[0]
    *rows, total = re.findall(r"^\| ([\d.]+) \|", text, re.M)
    assert rows == parts and total == f"{int(sum(map(float, rows)))}" and f"takes {total} MiB" in text


def literals():
    """All text that the program can print: its string literals, with adjacent ones joined and ... for each conversion."""
    for path in [*TOP.glob("src/**/*.[ch]"), *TOP.glob("src/**/*.def"), *TOP.glob("src/**/*.section"), *TOP.glob("inject/*.[ch]")]:
        text = re.sub(r'"\s*(?:PRI\w+\s*)?"', "", path.read_text(encoding="utf-8"))
        yield from (m.replace('\\"', '"') for m in re.findall(r'"((?:[^"\\\n]|\\.)*)"', text))


def not_printed(page):
    """Quoted messages of a troubleshooting page that no string of the program contains."""
    quoted = [m for row in re.findall(r"^\| `([^`]+)` \|", page, re.M) for m in row.split(" ... ")]
    known = "\n".join(literals())
    return [m for m in quoted if m not in known], len(quoted)


def test_messages_are_the_programs():
    wrong, cnt = not_printed((TOP / "docs/TROUBLESHOOTING.md").read_text(encoding="utf-8"))
    assert wrong == [] and cnt > 50


def test_a_message_that_is_not_there_is_found():
    assert not_printed("| `no such message of ours` | x |\n") == (["no such message of ours"], 1)


def test_words_are_within_the_budgets():
    ran = Ran([TOP / "tools/doc-words.py"])
    assert ran.status == 0, ran.out + ran.err


def test_too_many_words_are_found(tmp_path):
    """A part above its budget, and a page in no part; words of generated tables, code and link targets do not count."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "tools").mkdir()
    shutil.copy(TOP / "tools/doc-words.py", tmp_path / "tools")
    texts = {"docs/README.md": "## Start\n\n| [A](A.md) | x |\n\n## Choose\n\n| [B](B.md) | x |\n", "README.md": "two words\n", "docs/" + "A.md": "<!-- x -->\nfour [words](of/prose) are here\n\n- a list\n",
             "docs/B.md": "# B\n\n" + "word " * 1500 + "\n", "docs/C.md": "x\n"}
    texts["docs/" + "A.md"] += "\n<!-- x, made by `make tables` -->\nnot counted\n<!-- end of x -->\n\n    nor this\n\n| nor | that |\n"
    for path, text in texts.items():
        (tmp_path / path).write_text(text)
    ran = Ran([tmp_path / "tools/doc-words.py", "-v"])
    assert ran.status == 1 and re.search(r"^ +6 +2 +[\d,]+  Start$", ran.out, re.M), ran.out
    assert ran.out.endswith("Choose: 1,501 words of prose; its budget is 1,000\ndocs/C.md: in no part of docs/README.md\n")


def test_samples_are_what_is_printed():
    ran = Ran([TOP / "tools/doc-samples.py", "--check", CUDATRACE])
    assert ran.status == 0, ran.out + ran.err


def test_a_sample_that_differs_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- output: cudatrace report --full train.jsonl.zst | sed -n '/^Memory/p' -->\n\n```text\nMemories\n```\n")
    assert Ran([TOP / "tools/doc-samples.py", "--check", CUDATRACE, page]).status == 1
    assert Ran([TOP / "tools/doc-samples.py", CUDATRACE, page]).status == 0
    assert "```text\nMemory\n```" in page.read_text()


def test_every_alert_has_a_runbook():
    alerts = re.findall(r"- alert: (\w+)", (TOP / "dist/prometheus/alerts.yaml").read_text(encoding="utf-8"))
    runbook = re.findall(r"^## (\w+)$", (TOP / "docs/RUNBOOK.md").read_text(encoding="utf-8"), re.M)
    assert alerts and alerts == runbook


IN_PAGES, IN_ALERTS = "`|^    ", ": |then "


def unknown_verbs(text, before=IN_PAGES):
    """Words after cudatrace or cudatrace ctl that are no subcommand."""
    verbs = set(re.findall(r"^VERB\(\w+, (\w+),", (TOP / "src/cli/verbs.def").read_text(encoding="utf-8"), re.M)) - {"trace"} | {"help"}
    asked = set(re.findall(r'strcmp\(verb, "(\w+)"\)', (TOP / "src/daemon/daemon_ctl.c").read_text(encoding="utf-8")))
    assert {"report", "ctl"} <= verbs and {"burst", "dump"} <= asked
    for verb, rest in re.findall(f"(?:{before})(?:sudo )?cudatrace ([a-z]+)(?: ([a-z]+)\\b)?", text, re.M):
        if verb not in verbs or (verb == "ctl" and rest and rest not in asked):
            yield f"cudatrace {verb} {rest}".strip()


def test_verbs_are_there():
    """Subcommands in pages, and in the commands of alerts, must exist."""
    assert [f"{p.name}: {verb}" for p in PAGES for verb in unknown_verbs(p.read_text(encoding="utf-8"))] == []
    assert list(unknown_verbs((TOP / "dist/prometheus/alerts.yaml").read_text(encoding="utf-8"), IN_ALERTS)) == []


def test_a_verb_that_is_not_there_is_found():
    assert list(unknown_verbs("    sudo cudatrace memory 1\n`cudatrace trace --count`, `cudatrace ctl burst`")) == ["cudatrace memory", "cudatrace trace"]
    alert = "What allocates: cudatrace ctl bursts, then cudatrace report FILE; before: cudatrace report memory"
    assert list(unknown_verbs(alert, IN_ALERTS)) == ["cudatrace ctl bursts"]
