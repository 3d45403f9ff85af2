# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 1200
# takes: 40
# cpus: 2
"""What docs/HOWTO_ADD_METRIC.md says is done to a copy of this tree, word for word: the metric is at /metrics, comes to a
collector, stands in the documents, and the check of the dashboard knows it."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import urllib.request

import pytest
from helpers.run import O, TESTS, Ran, needs_tracing, passes, until

TOP = os.path.dirname(TESTS)
HOWTO = TOP + "/docs/HOWTO_ADD_METRIC.md"
# "In `FILE`, behind `TEXT`:", and the lines that are indented below.
EDIT = re.compile(r"In\s+`([^`]+)`,\s+behind\s+`([^`]+)`:\n\n((?: {7,}.*\n)+)")
COMMANDS = re.compile(r"from the rows:\n\n((?: {7,}.*\n)+)")


def copy_of_tree(to):
    """With what is built, so that only what changes is built again."""
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, capture_output=True, check=True).stdout
    for name in filter(os.path.exists, files.decode().split("\0")):
        os.makedirs(os.path.dirname(f"{to}/{name}"), exist_ok=True)
        shutil.copy2(name, f"{to}/{name}")
    shutil.copytree(O, to + "/build", ignore=shutil.ignore_patterns("check", "san", "fuzz*"), symlinks=True)


def put_behind(path, text, lines):
    with open(path, encoding="utf-8") as f:
        old = f.read().split("\n")
    at = [i for i, line in enumerate(old) if text in line]
    assert len(at) == 1, f"{path}: {len(at)} lines with {text}"
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(old[:at[0] + 1] + lines + old[at[0] + 1:]))


def sh(tree, command):
    ran = Ran(["bash", "-ec", "unset O MAKEFLAGS MAKELEVEL; " + command], cwd=tree, timeout=900)
    return ran, ran.out + ran.err


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path):
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(f"http://127.0.0.1:{port}/{path}", timeout=10).read().decode()
    except OSError:
        return None


def served(tree, tmp, name):
    """What the tree's daemon says at /metrics; a collector gets the metric too."""
    port, collector = free_port(), free_port()
    (tmp / "mode").write_text("200")
    (tmp / "c.yaml").write_text("level: off\n")
    receiver = subprocess.Popen([sys.executable, TESTS + "/otlp/receiver.py", str(collector), tmp / "mode", tmp / "got"])
    sets = {"files.directory": tmp / "files", "ctl.socket": tmp / "ctl", "metrics.listen": f"127.0.0.1:{port}",
            "otlp.endpoint": f"http://127.0.0.1:{collector}", "otlp.interval": "1s"}
    daemon = subprocess.Popen([tree + "/build/cudatrace", "daemon", "--config", tmp / "c.yaml", "--libcuda", O + "/fake/libcuda.so.1",
                               *(w for k, v in sets.items() for w in ("--set", f"{k}={v}"))])
    try:
        until(lambda: get(port, "healthz") is not None or daemon.poll() is not None, 20)
        text = get(port, "metrics")
        until(lambda: "/v1/metrics" in (tmp / "got").read_text() or daemon.poll() is not None, 10)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        receiver.kill()
        daemon.wait()
        receiver.wait()
    passes("otlp/otlp.py", tmp / "got", f"{name!r} in prometheus_names()")
    return text


@pytest.mark.long
def test_metric(tmp_path):
    needs_tracing()
    tree = str(tmp_path / "tree")
    copy_of_tree(tree)
    with open(HOWTO, encoding="utf-8") as f:
        howto = f.read()
    edits = EDIT.findall(howto)
    assert len(edits) == 3
    for path, text, lines in edits:
        put_behind(f"{tree}/{path}", text, textwrap.dedent(lines).rstrip("\n").split("\n"))
    build, update = textwrap.dedent(COMMANDS.search(howto)[1]).strip().split("\n")
    ran, said = sh(tree, build + " WERROR=1")
    assert not ran.status, said[-3000:]

    name, doc = "cudatrace_self_uptime_seconds", tree + "/docs/DAEMON.md"
    assert name in howto
    # The documents lack it: that is said, and how it is put right.
    ran, said = sh(tree, "build/unit/test_metrics")
    assert ran.status and update in said, said[-3000:]
    ran, said = sh(tree, update)
    assert not ran.status, said[-3000:]
    ran, said = sh(tree, "build/unit/test_metrics")
    assert not ran.status, said[-3000:]
    with open(doc, encoding="utf-8") as f:
        assert f"| `{name}` | gauge | s | | How long the daemon has run. |" in f.read()

    # The dashboard may name it, and before it might not.
    with open(tree + "/dist/grafana/cudatrace.json", "r+", encoding="utf-8") as f:
        dash = json.load(f)
        next(p for p in dash["panels"] if p.get("targets"))["targets"][0]["expr"] = f'{name}{{instance=~"$node"}}'
        f.seek(0)
        f.truncate()
        json.dump(dash, f)
    knows = "python3 tests/prometheus/dashboard.py names "
    ran, said = sh(tree, knows + doc)
    assert not ran.status, said
    ran, said = sh(tree, f"{knows} {TOP}/docs/DAEMON.md")
    assert ran.status and name in said

    text = served(tree, tmp_path, name)
    value = re.search(rf"(?m)^# TYPE {name} gauge\n{name} ([0-9.e-]+)$", text)
    assert value and 0 < float(value[1]) < 600, text[-2000:]
