# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The dashboard and the alert rules against what the daemon serves.
  form                    the dashboard as Grafana wants it
  rules                   its expressions as a file of rules, for promtool (JSON is YAML)
  names METRICS...        metrics and labels that they name and no file of /metrics has
  losses METRICS DOC      counters of /metrics that say what was lost, refused or left out, and are not in the dashboard or not in DOC
  query URL METRICS       each expression asked of a Prometheus: errors, and those without an answer whose metrics are there"""
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


def metrics_of(files):
    """Metric: the labels of its samples, None when it has only its TYPE."""
    found = {}
    for name in files:
        for line in open(name, encoding="utf-8"):
            if m := re.match(r"# TYPE (\w+) (\w+)", line):
                for suffix in ("_bucket", "_sum", "_count") if m[2] == "histogram" else ("",):
                    found.setdefault(m[1] + suffix, None)
            elif m := re.match(r"(\w+)(?:{(.*)})? ", line):
                found[m[1]] = (found.get(m[1]) or set()) | set(re.findall(r'(\w+)="', m[2] or ""))
    return found


def alerts():
    with open(ALERTS, encoding="utf-8") as f:
        return f.read()


def names(files):
    have = metrics_of(files)
    wrong = []
    rules = re.sub("(?m)^ *#.*", "", alerts())
    for what, e in [*exprs(), *(("alerts", x) for x in re.findall(r"cudatrace_\w+(?:{[^}]*})?", rules))]:
        for metric, labels in re.findall(r"(cudatrace_\w+)(?:{([^}]*)})?", e):
            if metric not in have:
                wrong.append(f"{what}: {metric}")
            elif have[metric] is not None:
                wrong += [f"{what}: {metric} has no label {n}" for n in re.findall(r"(\w+)(?:=~|!~|!=|=)", labels) if n not in have[metric] | OF_SCRAPE]
        grouped = {n for g in re.findall(r"by \(([^)]*)\)", e) for n in re.split(r"[, ]+", g)}
        all_labels = [have.get(m) for m in re.findall(r"cudatrace_\w+", e)]
        if all_labels and None not in all_labels:
            wrong += [f"{what}: by ({n})" for n in grouped if not any(n in x for x in all_labels) and n not in OF_SCRAPE]
    return wrong


def losses(metrics, doc):
    shown = " ".join(e for _, e in exprs())
    with open(doc, encoding="utf-8") as f:
        text = f.read()
    lost = [m for m in metrics_of([metrics]) if re.search("_(dropped|full|lost|refused|left_out|left_mangled)_total$", m)]
    assert len(lost) >= 8, lost
    return [f"{m} is not in {where}" for m in lost for where, there in (("the dashboard", shown), (doc, text)) if m.removeprefix("cudatrace_") not in there]


def query(url, metrics):
    have = metrics_of([metrics])
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
        wrong = names(args) if verb == "names" else {"losses": losses, "query": query}[verb](*args)
        if wrong:
            sys.exit("\n".join(wrong))


main()
