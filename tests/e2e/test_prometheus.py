# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# own processes
"""The alert rules and the dashboard must be well-formed, use metrics that the daemon has, and give results from a Prometheus that has
scraped it."""
import json
import os
import shutil
import time
import urllib.parse

import pytest
from helpers.daemon import fetch
from helpers.ports import free_port
from helpers.run import FAKE, Ran, passes, until

DOC = "docs/METRICS.md"
# Programs whose names have the same length and are not ASCII; some are not UTF-8, or look like escaped names. With their labels.
NAMES = {
    "训练任务": "训练任务", "推理服务": "推理服务", "обучать": "обучать", "(others)": "(others)",
    b"\xff\xfe": r"\\xff\\xfe", b"\xfe\xff": r"\\xfe\\xff", r"\xff\xfe": r"\\x5cxff\\x5cxfe",
    r'a"b\c': r"a\"b\\c", "a\nb": r"a\\x0ab", "a\nc": r"a\\x0ac",
}


@pytest.mark.parametrize("check", [("form",), ("names", DOC), ("losses", DOC)], ids=lambda c: c[0])
def test_dashboard(check):
    """Panels, ids, places, variables; alerts and dashboard name only what there is; each counter of losses is in the dashboard."""
    passes("prometheus/dashboard.py", *check)


@pytest.mark.parametrize("verb,path", [
    ("check", "dist/prometheus/alerts.yaml"), ("test", "dist/prometheus/alerts_test.yaml"), ("check", None),
], ids=["alerts", "alerts fire when they should", "dashboard"])
def test_promtool(tmp_path, verb, path):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    rules = tmp_path / "rules.yaml"
    rules.write_text(passes("prometheus/dashboard.py", "rules"))
    ran = Ran(["promtool", verb, "rules", path or rules])
    assert ran.status == 0, ran.out + ran.err


def saved(d):
    """Its metrics, in a file."""
    path = d.place.folder / "metrics"
    path.write_text(d.metrics().text)
    return path


def test_served(private):
    """The daemon serves what the documentation lists."""
    d = private.daemon("served")
    private.sample("sample", "--tokens", 20, "--layers", 2)
    passes("prometheus/dashboard.py", "served", saved(d), DOC)


def test_names_of_programs(private):
    """Each series is there once."""
    d = private.daemon("names")
    for name in NAMES:
        program = os.path.join(os.fsencode(private.folder), os.fsencode(name))
        shutil.copy(FAKE + "/sample", program)
        assert Ran([program, "--tokens", "2", "--layers", "1"], env={"LD_LIBRARY_PATH": str(private.lib)}).status == 0
    passes("prometheus/dashboard.py", "series", saved(d), *NAMES.values())


CONFIG = """global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{here}/dist/prometheus/alerts.yaml]
scrape_configs:
  - job_name: cudatrace
    honor_labels: true
    static_configs: [{{targets: ["{daemon}"]}}]
  - job_name: prometheus
    static_configs: [{{targets: ["{server}"]}}]
"""


def test_prometheus(private):
    """A Prometheus that scrapes the daemon has its numbers, each series once, results for the dashboard, and no alert that fires."""
    if not shutil.which("prometheus"):
        pytest.skip("prometheus is not installed")
    d, server = private.daemon("scraped"), f"127.0.0.1:{free_port()}"
    config = private.folder / "prometheus.yml"
    config.write_text(CONFIG.format(here=os.getcwd(), daemon=d.at, server=server))
    with open(private.folder / "prometheus.log", "wb") as log:
        private.start("prometheus", f"--config.file={config}", f"--storage.tsdb.path={private.folder}/tsdb",
                      f"--web.listen-address={server}", stdout=log, stderr=log)

    def query(expression):
        try:
            found = json.loads(fetch(f"http://{server}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None
    until(lambda: query('up{job="cudatrace"}') == 1, 30)
    for _ in range(3):
        private.sample("sample", "--tokens", 20, "--layers", 2)
        time.sleep(1.2)
    metrics = saved(d)

    # After a scrape longer than a second there are no results until the next one.
    def answers():
        try:
            return passes("prometheus/dashboard.py", "query", f"http://{server}", metrics) is not None
        except AssertionError as e:
            print(e)
            return False
    until(answers, 10)
    until(lambda: query("sum(cudatrace_launches_total)") == d.metrics().total("launches_total") > 0, 10)
    until(lambda: query("prometheus_target_scrapes_sample_duplicate_timestamp_total") == 0, 10)
    alerts = json.loads(fetch(f"http://{server}/api/v1/alerts"))["data"]["alerts"]
    assert not [a for a in alerts if a["state"] == "firing"]
