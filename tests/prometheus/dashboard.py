# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The dashboard and the alert rules against what the daemon serves: the table of metrics in DOC, docs/METRICS.md, which a unit
test holds against src/metrics/metrics.def.
  form                    the dashboard as Grafana wants it
  rules                   its expressions as a file of rules, for promtool (JSON is YAML)
  names DOC               metrics and labels that they name and DOC has not
  losses DOC              counters that say what was lost, refused or left out, and are not in the dashboard
  served METRICS DOC      what a file of /metrics has and DOC has not, and the other way round
  series METRICS NAME...  what is there twice, and commands whose calls are not there
  query URL METRICS       each expression asked of a Prometheus: errors, and those without an answer whose metrics are there"""
import collections
import json
import re
import sys
import urllib.parse
import urllib.request

DASHBOARD, ALERTS = "dist/grafana/cudatrace.json", "dist/prometheus/alerts.yaml"
dash = json.load(open(DASHBOARD, encoding="utf-8"))
variables = {v["name"]: v for v in dash["templating"]["list"]}
# Labels that the scrape adds.
OF_SCRAPE = {"job", "instance"}
# Those of each target.
OF_TARGET = {"namespace", "pod", "container", "command"}


def filled(expr):
    # ${__from} and its like are not used here; what is left over is an error that promtool finds.
    for name, value in {"__rate_interval": "1m", "__range": "5m", **{n: ".*" for n in variables}}.items():
        expr = re.sub(rf"\$(?:{name}\b|{{{name}}})", value, expr)
    return expr


def exprs():
    for p in dash["panels"]:
        for t in p.get("targets", []):
            yield p["title"], t["expr"]
    for a in dash["annotations"]["list"]:
        yield a["name"], a["expr"]
    for v in variables.values():
        if v["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", v["definition"]).groups()
            yield v["name"], f"group by ({label}) ({metric})"


def form():
    ids = [p["id"] for p in dash["panels"]]
    assert len(set(ids)) == len(ids), "panels with the same id"
    used = {}
    for p in dash["panels"]:
        g = p["gridPos"]
        assert g["x"] + g["w"] <= 24, f"{p['title']} is too wide"
        for cell in ((x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])):
            assert cell not in used, f"{p['title']} lies on {used[cell]}"
            used[cell] = p["title"]
        assert p["type"] == "row" or p["targets"], f"{p['title']} shows nothing"
        for x in [p, *p.get("targets", [])] if p["type"] != "row" else []:
            assert x["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, f"{p['title']}: {x['datasource']}"
    assert {"datasource", "node", "namespace", "pod"} <= set(variables), "a variable is missing"
    for what, e in exprs():
        assert set(re.findall(r"\$\{?(\w+)", e)) <= set(variables) | {"__rate_interval", "__range"}, f"{what}: {e}"


def samples(name, kind):
    """What the samples of a metric are called."""
    return [name + suffix for suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",))]


def metrics_of(file):
    """Of a file of /metrics. Metric: the labels of its samples, None when it has only its TYPE."""
    found = {}
    with open(file, encoding="utf-8") as f:
        for line in f:
            if m := re.match(r"# TYPE (\w+) (\w+)", line):
                for name in samples(m[1], m[2]):
                    found.setdefault(name, None)
            elif m := re.match(r"(\w+)(?:{(.*)})? ", line):
                found[m[1]] = (found.get(m[1]) or set()) | set(re.findall(r'(\w+)="', m[2] or ""))
    return found


def table_of(doc):
    """The same of the rows of DOC's table."""
    found = {}
    with open(doc, encoding="utf-8") as f:
        rows = re.findall(r"(?m)^\| `(cudatrace_\w+)` \| (\w+) \|[^|]*\|([^|]*)\|", f.read())
    for metric, kind, labels in rows:
        for name in samples(metric, kind):
            found[name] = set(re.findall(r"`(\w+)`", labels)) | (OF_TARGET if "*" in labels else set()) | ({"le"} if name.endswith("_bucket") else set())
    assert len(found) > 40, found
    return found


def alerts():
    with open(ALERTS, encoding="utf-8") as f:
        return f.read()


def names(doc):
    have = table_of(doc)
    wrong = []
    rules = re.sub("(?m)^ *#.*", "", alerts())
    for what, e in [*exprs(), *(("alerts", x) for x in re.findall(r"cudatrace_\w+(?:{[^}]*})?", rules))]:
        for metric, labels in re.findall(r"(cudatrace_\w+)(?:{([^}]*)})?", e):
            if metric not in have:
                wrong.append(f"{what}: {metric}")
            else:
                wrong += [f"{what}: {metric} has no label {n}" for n in re.findall(r"(\w+)(?:=~|!~|!=|=)", labels) if n not in have[metric] | OF_SCRAPE]
        grouped = {n for g in re.findall(r"by \(([^)]*)\)", e) for n in re.split(r"[, ]+", g)}
        all_labels = OF_SCRAPE.union(*(have.get(m, ()) for m in re.findall(r"cudatrace_\w+", e)))
        wrong += [f"{what}: by ({n})" for n in grouped - all_labels]
    return wrong


def losses(doc):
    shown = " ".join(e for _, e in exprs())
    lost = [m for m in table_of(doc) if re.search("_(dropped|full|lost|denied|rejected|refused|not_demangled|self_cost_seconds)_total$", m)]
    assert len(lost) >= 8, lost
    return [f"{m} is not in the dashboard" for m in lost if m not in shown]


def served(metrics, doc):
    have, table = metrics_of(metrics), table_of(doc)
    wrong = [f"{m} is only in {doc if m in table else metrics}" for m in sorted(have.keys() ^ table.keys())]
    return wrong + [f"{m} has labels {labels}, not {table[m]}" for m, labels in have.items() if labels and m in table and not labels <= table[m]]


def series(metrics, *commands):
    """Each series is there once, and the calls of the commands are distinguished."""
    lines = [line.rpartition(" ")[0] for line in open(metrics, encoding="utf-8") if line.strip() and line[0] != "#"]
    wrong = [f"twice: {s}" for s, n in collections.Counter(lines).items() if n > 1]
    return wrong + [f"no calls of {c}" for c in commands if not any(s.startswith("cudatrace_calls_total{") and f'command="{c}"' in s for s in lines)]


def query(url, metrics):
    have = metrics_of(metrics)
    wrong = []
    for what, e in exprs():
        with urllib.request.urlopen(f"{url}/api/v1/query?" + urllib.parse.urlencode({"query": filled(e)}), timeout=20) as r:
            answer = json.load(r)
        if answer["status"] != "success":
            wrong.append(f"{what}: {answer}")
        elif not answer["data"]["result"] and all(have.get(m) is not None for m in re.findall(r"cudatrace_\w+", e)) and " > 0" not in e:
            wrong.append(f"{what}: no answer: {filled(e)}")
    return wrong


def main():
    verb, *args = sys.argv[1:]
    if verb == "form":
        form()
    elif verb == "rules":
        print(json.dumps({"groups": [{"name": "dashboard", "rules": [{"record": f"r{i}", "expr": filled(e)} for i, (_, e) in enumerate(exprs())]}]}))
    else:
        wrong = {"names": names, "losses": losses, "served": served, "series": series, "query": query}[verb](*args)
        if wrong:
            sys.exit("\n".join(wrong))


main()
