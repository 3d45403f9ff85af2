# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A collector (tests/otlp/receiver.py), and what it received, held against the JSON mapping of opentelemetry-proto."""
import base64
import json
import re
import sys

from .ports import free_port
from .run import TESTS


def u64(x):
    return isinstance(x, str) and re.fullmatch("0|[1-9][0-9]*", x) is not None and int(x) < 1 << 64


def i64(x):
    return isinstance(x, str) and re.fullmatch("-?[0-9]+", x) is not None and -(1 << 63) <= int(x) < 1 << 63


def hexa(digits):
    return lambda x: isinstance(x, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", x) is not None and x.strip("0") != ""


def text(x):
    return isinstance(x, str) and "\ufffd" not in x


def real(x):
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def enum(*values):
    return lambda x: isinstance(x, int) and not isinstance(x, bool) and x in values


def each(kind):
    return lambda x: isinstance(x, list) and [problems_of(kind, y) for y in x]


# A message: its fields; "?" before what may be missing. Fields of common.proto, resource.proto, trace.proto, logs.proto, metrics.proto.
VALUE = {"?stringValue": text, "?intValue": i64, "?doubleValue": real, "?boolValue": lambda x: isinstance(x, bool)}
ATTR = {"key": lambda x: text(x) and x != "", "value": VALUE}
RESOURCE = {"attributes": [ATTR]}
SCOPE = {"name": text, "version": text}
SPAN = {
    "traceId": hexa(32), "spanId": hexa(16), "?parentSpanId": hexa(16), "name": text, "kind": enum(1, 2, 3, 4, 5),
    "startTimeUnixNano": u64, "endTimeUnixNano": u64, "attributes": [ATTR], "status": {"?code": enum(0, 1, 2), "?message": text},
}
NUMBER = {"attributes": [ATTR], "startTimeUnixNano": u64, "timeUnixNano": u64, "?asInt": i64, "?asDouble": real}
HIST = {"attributes": [ATTR], "startTimeUnixNano": u64, "timeUnixNano": u64, "count": u64, "sum": real,
        "bucketCounts": [u64], "explicitBounds": [real]}
METRIC = {
    "name": text, "unit": text,
    "?sum": {"dataPoints": [NUMBER], "aggregationTemporality": enum(2), "isMonotonic": lambda x: x is True},
    "?gauge": {"dataPoints": [NUMBER]},
    "?histogram": {"dataPoints": [HIST], "aggregationTemporality": enum(2)},
}
TRACES = {"resourceSpans": [{"resource": RESOURCE, "scopeSpans": [{"scope": SCOPE, "spans": [SPAN]}]}]}
LOG = {
    "timeUnixNano": u64, "observedTimeUnixNano": u64, "severityNumber": enum(9, 17), "severityText": text, "eventName": lambda x: text(x) and x != "",
    "body": VALUE, "attributes": [ATTR],
}
LOGS = {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": SCOPE, "logRecords": [LOG]}]}]}
METRICS = {"resourceMetrics": [{"resource": RESOURCE, "scopeMetrics": [{"scope": SCOPE, "metrics": [METRIC]}]}]}


def problems_of(kind, x, at=""):
    if callable(kind):
        return [] if kind(x) else [f"{at}: {x!r}"]
    if isinstance(kind, list):
        if not isinstance(x, list):
            return [f"{at} is no list"]
        return [p for i, y in enumerate(x) for p in problems_of(kind[0], y, f"{at}[{i}]")]
    if not isinstance(x, dict):
        return [f"{at} is no object"]
    fields = {k.lstrip("?"): v for k, v in kind.items()}
    wrong = [f"{at}: no {k}" for k in kind if k[0] != "?" and k not in x]
    wrong += [f"{at}: there is no field {k}" for k in x if k not in fields]
    if kind is VALUE and len(x) != 1 or kind is NUMBER and ("asInt" in x) == ("asDouble" in x):
        wrong.append(f"{at}: one value, not {list(x)}")
    return wrong + [p for k, v in x.items() if k in fields for p in problems_of(fields[k], v, f"{at}.{k}")]


def once(pairs):
    keys = [k for k, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a key twice: {keys}")
    return dict(pairs)


def attrs(x):
    return {a["key"]: next(iter(a["value"].values())) for a in x["attributes"]}


def spans_of(r):
    return [dict(s, resource=attrs(rs["resource"]), attrs=attrs(s)) for rs in r["json"]["resourceSpans"] for ss in rs["scopeSpans"] for s in ss["spans"]]


def events_of(r):
    return [dict(x, resource=attrs(rl["resource"]), attrs=attrs(x)) for rl in r["json"]["resourceLogs"] for sl in rl["scopeLogs"] for x in sl["logRecords"]]


def points_of(r):
    """(metric, attributes of resource and point, value or histogram)"""
    for rm in r["json"]["resourceMetrics"]:
        for m in rm["scopeMetrics"][0]["metrics"]:
            for kind in ("sum", "gauge", "histogram"):
                for p in m.get(kind, {}).get("dataPoints", []):
                    value = int(p["asInt"]) if "asInt" in p else p.get("asDouble", p)
                    yield m, {**attrs(rm["resource"]), **attrs(p)}, value


class Received:
    """The requests in a log of receiver.py, and the spans that were accepted."""

    def __init__(self, path):
        self.requests = []
        with open(path, encoding="utf-8") as f:
            self.requests = [json.loads(line) for line in f]
        for r in self.requests:
            r["raw"] = base64.b64decode(r["body"])
            r["json"] = json.loads(r["raw"].decode("utf-8", "strict"), object_pairs_hook=once)
        self.traces = [r for r in self.requests if r["path"].endswith("/v1/traces")]
        self.logs = [r for r in self.requests if r["path"].endswith("/v1/logs")]
        self.events = [x for r in self.logs if r["code"] == 200 for x in events_of(r)]
        self.metrics = [r for r in self.requests if r["path"].endswith("/v1/metrics")]
        self.spans = [s for r in self.traces if r["code"] == 200 for s in spans_of(r)]

    def ids(self):
        return {s["spanId"] for s in self.spans}

    def total(self, name, **want):
        """The sum of the points of the newest metrics; attributes with _ for ."""
        newest = [r for r in self.metrics if r["code"] == 200][-1]
        return sum(v for m, a, v in points_of(newest) if m["name"] == name and all(a.get(k.replace("_", ".")) == x for k, x in want.items()))

    def prometheus_names(self):
        """As a collector's exporter makes them."""
        units = {"s": "_seconds", "By": "_bytes"}
        return {m["name"].replace(".", "_") + units.get(m["unit"], "") + ("_total" if "sum" in m else "")
                for r in self.metrics for m, _, _ in points_of(r)}

    def problems(self):
        wrong = []
        if not self.traces + self.logs or not self.metrics:
            wrong.append(f"{len(self.traces)} requests with spans, {len(self.logs)} with events, {len(self.metrics)} with metrics")
        for r in self.requests:
            wrong += problems_of(TRACES if r in self.traces else LOGS if r in self.logs else METRICS, r["json"], r["path"])
            if r["headers"].get("Content-Type") != "application/json":
                wrong.append(f"Content-Type: {r['headers'].get('Content-Type')}")
        for r in self.traces:
            wrong += [f"ends before it starts: {s}" for s in spans_of(r) if int(s["endTimeUnixNano"]) < int(s["startTimeUnixNano"])]
            wrong += [f"not of today: {s}" for s in spans_of(r) if abs(int(s["endTimeUnixNano"]) / 1e9 - r["time"]) > 3600]
        for r in self.metrics:
            for m, a, v in points_of(r):
                p = v if isinstance(v, dict) else {}
                if p and (len(p["bucketCounts"]) != len(p["explicitBounds"]) + 1 or sum(map(int, p["bucketCounts"])) != int(p["count"])
                          or p["explicitBounds"] != sorted(set(p["explicitBounds"]))):
                    wrong.append(f"{m['name']}: {p}")
                if not 1 == sum(k in m for k in ("sum", "gauge", "histogram")):
                    wrong.append(f"{m['name']}: one kind of data")
            seen = [(m["name"], tuple(sorted(a.items()))) for m, a, v in points_of(r)]
            wrong += [f"twice: {x}" for x in set(seen) if seen.count(x) > 1][:3]
        wrong += [f"service.name or host.name is missing: {s['resource']}" for s in self.spans + self.events
                  if not {"service.name", "host.name", "process.pid"} <= set(s["resource"])][:3]
        return wrong

    def parsed_by_protobuf(self):
        from google.protobuf import json_format
        from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        for r in self.requests:
            kind = (trace_service_pb2.ExportTraceServiceRequest if r in self.traces else
                    logs_service_pb2.ExportLogsServiceRequest if r in self.logs else metrics_service_pb2.ExportMetricsServiceRequest)
            message = json_format.Parse(r["raw"], kind(), ignore_unknown_fields=False)
            if not message.ByteSize():
                return False
        return bool(self.requests)


class Collector:
    """Keeps what it receives. answer: its response to requests, as in receiver.py. place: a Private of helpers/daemon.py."""

    def __init__(self, place, answer="200", away=False):
        self.place, self.port, self.p = place, free_port(), None
        self.mode, self.log = place.folder / "collector.mode", place.folder / "collector.got"
        self.answer(answer)
        if not away:
            self.start()

    def answer(self, text):
        self.mode.write_text(text)

    def start(self):
        self.p = self.place.start(sys.executable, f"{TESTS}/otlp/receiver.py", self.port, self.mode, self.log)

    def received(self, text):
        """How many requests have this text."""
        return self.log.read_text().count(text) if self.log.exists() else 0

    def end(self):
        """Ends it; returns what it received."""
        self.p.kill()
        self.p.wait()
        return Received(self.log)
