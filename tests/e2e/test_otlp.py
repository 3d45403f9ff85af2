# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
# own processes
"""The daemon's data for an OpenTelemetry collector: its form against the published JSON mapping, its numbers against the mock driver's
own. Also its behaviour while the collector is absent, busy, or refuses."""
import re
import time

import pytest
from helpers.otlp import Collector, points_of
from helpers.run import cudatrace, until

ALL_SPANS = "otlp.slow_call=0.001us"
# Metrics of /metrics that need what the sample does not do.
NOT_HERE = {"cudatrace_" + name for name in (
    "ioctls_total", "ioctl_seconds_total", "xids_total", "gpu_resident_seconds_total", "gpu_context_switches_total", "processes_inproc",
    "errors_total", "transfer_bytes_total")}


@pytest.mark.parametrize("setting,want", [
    ("otlp.endpoint=https://collector:4318", "name a collector on this node"),
    ("otlp.endpoint=collector:4318", "write it as http://127.0.0.1:4318"),
    ("otlp.endpoint=http://me:secret@collector:4318", "otlp.headers_file"),
    ("otlp.headers_file=/dev/null/none", "cannot be read")], ids=["https", "no address", "password", "no headers"])
def test_wrong_settings(setting, want):
    ran = cudatrace("daemon", "--check-config", "--set", setting)
    assert ran.status and want in ran.out + ran.err


class Sent:
    """A daemon that sends to a collector, and the launches of the sample that it traces."""

    def __init__(self, place, *settings, level="trace", answer="200", away=False):
        self.place, self.launches, self.collector = place, 0, Collector(place, answer, away)
        endpoint = f"otlp.endpoint=http://localhost:{self.collector.port}/"
        self.d = place.daemon("otlp", endpoint, "recorder.seconds=0", "otlp.interval=1s", *settings, level=level)

    def sample(self):
        self.launches += int(re.search(r"(\d+) kernel launches", self.place.sample("sample83", "--tokens", 5, "--layers", 2))[1])

    def end(self):
        """The daemon must end soon, with the last spans and metrics. Returns what the collector received."""
        begun = time.monotonic()
        self.d.stop()
        assert time.monotonic() - begun < 18  # 3 s on a quiet machine
        return self.collector.end()


def of_sample(got, name="cudatrace.calls", **more):
    return got.total(name, process_executable_name="sample83", **more)


def test_everything(private):
    headers = private.folder / "headers"
    headers.write_text("# of the tenant\nAuthorization: Bearer s3cret\nX-Scope-OrgID: 7\n")
    s = Sent(private, ALL_SPANS, f"otlp.headers_file={headers}", "otlp.queue=100000")
    s.sample()
    time.sleep(1)
    names = set(re.findall(r"^# TYPE (cudatrace_\w+)", s.d.metrics().text, re.M))
    got = s.end()
    assert got.problems() == []
    # Headers of the file are sent, and are nowhere else.
    assert all(r["headers"].get("Authorization") == "Bearer s3cret" and r["headers"].get("X-Scope-OrgID") == "7" for r in got.requests)
    assert "s3cret" not in s.d.said()
    # Metrics: every launch is counted; the process has ended, its memory is free, the peak stays.
    assert of_sample(got, **{"class": "launch"}) == s.launches
    assert of_sample(got, "cudatrace.memory") == 0 < of_sample(got, "cudatrace.memory_peak")
    # Sums never fall, and start at one time.
    sums = [sum(v for m, _, v in points_of(r) if m["name"] == "cudatrace.calls") for r in got.metrics]
    starts = {x["startTimeUnixNano"] for r in got.metrics for m, _, _ in points_of(r) if "sum" in m for x in m["sum"]["dataPoints"]}
    assert sums == sorted(sums) and len(starts) == 1
    # Those of /metrics, and no others.
    assert {n for n in names if not re.search("_info$|^cudatrace_(gpu|collectives?)_", n)} ^ got.prometheus_names() <= NOT_HERE
    # Spans: one for each call, errors too.
    assert sum(x["name"].startswith("cuLaunch") for x in got.spans) == s.launches and len(got.spans) == of_sample(got)
    assert len(got.ids()) == len(got.spans) > 100
    pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="protobuf: needs python3-opentelemetry-proto")
    assert got.parsed_by_protobuf()


def test_counted(private):
    """Counted calls must be in the last metrics, even if made just before the end."""
    s = Sent(private, ALL_SPANS, "otlp.interval=1h", level="metrics")
    s.sample()
    time.sleep(0.5)
    assert of_sample(s.end(), **{"class": "launch"}) == s.launches


def test_iterations(private):
    """The time between two calls of one function must be an iteration, with the calls as its children."""
    s = Sent(private, ALL_SPANS, "otlp.iterations=cu*Synchronize", "otlp.queue=100000")
    s.sample()
    time.sleep(1)
    got = s.end()
    assert got.problems() == []
    its, calls = ([x for x in got.spans if (x["name"] == "iteration") == is_one] for is_one in (True, False))
    marks = [x for x in calls if re.fullmatch("cu.*Synchronize", x["name"])]
    assert len(its) == len(marks) - 1 >= 4 and [x["attrs"]["cuda.iteration"] for x in its] == [str(i + 1) for i in range(len(its))]
    assert all(a["endTimeUnixNano"] == b["startTimeUnixNano"] for a, b in zip(its, its[1:]))
    for i in its:
        inside = [c for c in calls if (c.get("parentSpanId"), c["traceId"]) == (i["spanId"], i["traceId"])]
        assert len(inside) == int(i["attrs"]["cuda.calls"])
        times = [[int(x[f"{edge}TimeUnixNano"]) for edge in ("start", "end")] for x in (i, *inside)]
        assert all(times[0][0] <= start <= end <= times[0][1] for start, end in times)
    # Captured launches must not count.
    launches = sum(int(i["attrs"]["cuda.launches"]) for i in its)
    assert launches == got.total("cudatrace.launches") + got.total("cudatrace.graph_launches") > 0
    assert got.total("cudatrace.graph_nodes_captured") > 0


def test_away(private):
    """The collector is absent: the queue is full, and the rest is counted; later the collector is there, and gets each span once."""
    s = Sent(private, ALL_SPANS, "otlp.queue=64", "otlp.gzip=true", away=True)
    s.sample()
    s.d.until(lambda m: m.total("otlp_queued") == 64, 10)
    until(lambda: all(f"does not accept {what}" in s.d.said() for what in ("spans", "metrics")), 10)
    assert [s.d.said().count(f"does not accept {what}: ") for what in ("spans", "metrics")] == [1, 1]
    m = s.d.metrics()
    dropped = m.total("otlp_dropped_total")
    assert m.total("otlp_queued") == 64
    s.collector.start()
    s.d.until(lambda m: m.total("otlp_queued") == 0, 15)
    until(lambda: "accepts metrics again" in s.d.said(), 15)
    got = s.end()
    assert got.problems() == [] and all(r["headers"]["Content-Encoding"] == "gzip" for r in got.requests)
    assert len(got.ids()) == len(got.spans) == 64 and len(got.spans) + dropped == of_sample(got)
    assert got.total("cudatrace.otlp_dropped") == dropped and re.search("[1-9][0-9]* spans were dropped", s.d.said())


@pytest.mark.parametrize("answer", ["429 Retry-After: 3", "503 Retry-After: 3", "502"], ids=lambda a: a[:3])
def test_busy(private, answer):
    """The collector is busy, and returns for how long: it gets the same request again, not before that time; nothing is dropped."""
    s = Sent(private, ALL_SPANS, answer=answer)
    s.sample()
    until(lambda: s.collector.received("traces"), 15)
    s.collector.answer("200")
    s.d.until(lambda m: m.total("otlp_queued") == 0, 15)
    until(lambda: "accepts spans again" in s.d.said(), 15)
    got = s.end()
    assert len(got.ids()) == len(got.spans) == of_sample(got) and got.total("cudatrace.otlp_dropped") == 0
    first, second = got.traces[:2]
    assert first["raw"] == second["raw"] and (first["code"], second["code"]) == (int(answer[:3]), 200)
    assert "Retry-After" not in answer or 3 <= second["time"] - first["time"] < 6


def test_refused(private):
    """The collector refuses: there must be no second try."""
    s = Sent(private, ALL_SPANS, answer="400")
    s.sample()
    s.d.until(lambda m: m.total("otlp_dropped_total") > 100 and m.total("otlp_queued") == 0, 15)
    time.sleep(3)
    got = s.end()
    assert len({r["raw"] for r in got.traces}) == len(got.traces) >= 1


def test_partial_success(private):
    """The collector accepts part of the data and reports that: what it rejected is counted for each request."""
    s = Sent(private, ALL_SPANS, "otlp.interval=1h", answer='200 {"partialSuccess":{"rejectedSpans":"7","errorMessage":"no"}}')
    s.sample()
    s.d.until(lambda m: m.total("otlp_dropped_total") >= 7 and m.total("otlp_queued") == 0, 15)
    assert s.end().total("cudatrace.otlp_dropped") % 7 == 0


def test_hang(private):
    """The collector accepts the connection and never responds: nothing may wait for it."""
    s = Sent(private, ALL_SPANS, "otlp.queue=100", answer="hang")
    s.sample()
    until(lambda: s.collector.received("traces"), 15)
    assert s.d.metrics().samples
    s.end()


def test_threshold(private):
    """Only failed calls are spans when no call is slow."""
    s = Sent(private, "otlp.slow_call=1h")
    s.sample()
    time.sleep(1)
    spans = s.end().spans
    assert spans and {x["status"]["code"] for x in spans} == {2}
    assert all(x["status"]["message"] == x["attrs"]["cuda.error"] and x["attrs"]["cuda.error"].startswith("CUDA_ERROR_") for x in spans)
