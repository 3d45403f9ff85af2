# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# own processes
"""The daemon's continuous profiles: exact sums, stacks of sampled calls, files, and the port."""
import base64
import collections
import json
import sys
import time
import urllib.error
import urllib.request

import pytest
from helpers import pypi
from helpers.daemon import driver_counts, library, private  # noqa: F401, a fixture
from helpers.otlp import Collector
from helpers.pprof import TYPES, Profile
from helpers.run import until


def profiles(d):
    return [Profile(f.read_bytes()) for f in d.all_files("profile-*.pb.gz")]


def by_function(ps, what="calls"):
    """Of samples with a CUDA function, which comes before its callers."""
    out = collections.Counter()
    for p in ps:
        for frames, v, _ in p.samples:
            out[next(f[0] for f in frames if f[0].startswith("cu"))] += v[what]
    return +out


WAYS = "uprobe", "inject"


class Way:
    """How calls are recorded: settings of the daemon, environment of programs."""

    def __init__(self, private, way):  # noqa: F811
        folder = private.folder / "inject"
        self.is_inject = way == "inject"
        # A busy machine's daemon reads late.
        self.settings = ("trace.inject=true", f"trace.inject_folder={folder}", "trace.buffer_size=64M") if self.is_inject else ()
        self.env = library(folder) if self.is_inject else {}


def fetch(d, path="debug/pprof/cuda"):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{d.at}/{path}", timeout=20) as f:
        assert f.headers["Content-Type"] == "application/octet-stream"
        return f.read()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", ["metrics", "trace"])
def test_sums(private, level, way):  # noqa: F811
    """All profiles together must have each call once, and their times as the metrics; sampled ones with their stack."""
    begin = time.monotonic()
    w = Way(private, way)
    d = private.daemon("d", "profiles.interval=1s", *w.settings, level=level)
    counts = private.folder / "counts"
    # The names of its functions are read while it runs.
    private.sample("s", "--tokens", 300, FAKE_CUDA_COUNTS=str(counts), FAKE_DELAY_US="cuInit:200000,cuModuleUnload:500000", **w.env)
    m = d.until(lambda m: m.calls("s", "cuLaunchKernel") == driver_counts(counts)["cuLaunchKernel"])
    assert m.total("profile_samples_total") > 0 and m.total("profile_rejected_total") == m.total("profile_errors_total") == 0
    # A tenth of a second is allowed at once.
    assert 0 < m.total("profile_cpu_seconds_total") < 0.1 + 0.01 * (time.monotonic() - begin)
    d.stop()
    ps = profiles(d)
    assert all(dict(p.types) == TYPES and p.rows == p.keys for p in ps)
    labels = {k for p in ps for _, _, x in p.samples for k in x}
    assert {"process", "process_name", "stage"} <= labels <= {"process", "process_name", "thread", "thread_name", "stream", "stage"}
    assert {x["process_name"] for p in ps for _, _, x in p.samples} == {"s"}
    known = m.by("calls_total", "function", command="s")
    made = collections.Counter()
    for k, n in driver_counts(counts).items():
        made[k.removesuffix("_v2")] += n if k in known else 0
    assert by_function(ps) == +made
    for value, metric in ("launches", "launches_total"), ("graph_launches", "graph_launches_total"):
        assert sum(p.total(value) for p in ps) == m.total(metric, command="s"), value
    ns = round(1e9 * sum(v for n, x, v in m.samples if n == "call_duration_seconds_sum" and x["command"] == "s" and "api" not in x))
    # A driver call inside another counts once.
    assert 0 <= ns - sum(p.total("host_time") for p in ps) < 1e-4 * ns
    assert 0 < sum(p.total("wait_time") for p in ps) < ns
    deep = [(frames, v) for p in ps for frames, v, x in p.samples if "thread" in x and len(frames) > 2]
    assert any(name and file.endswith("/s") for frames, _ in deep for name, file, _ in frames), deep[:3]
    assert any("sampled: stacks are of " in c for p in ps for c in p.comments)
    assert not [e for e in d.lines() if e["type"] == "stack" or "stack" in e]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("level", ["metrics", "trace"])
def test_stages(private, level, way):  # noqa: F811
    """A call must have the stage of its moment, and the number of the iteration that was running; sums stay exact."""
    w = Way(private, way)
    d = private.daemon("d", "profiles.interval=10m", "profiles.iterations=cuStreamSynchronize", *w.settings, level=level)
    counts = private.folder / "counts"
    private.sample("s", "--tokens", 300, FAKE_CUDA_COUNTS=str(counts), **w.env)
    made = driver_counts(counts)
    d.until(lambda m: m.calls("s", "cuLaunchKernel") == made["cuLaunchKernel"])
    d.stop()
    p, = profiles(d)
    stages, last, marks, sizes = collections.defaultdict(set), 0, collections.Counter(), set()
    for frames, v, x in p.samples:
        name = next(f[0] for f in frames if f[0].startswith("cu"))
        assert x.get("stage") in ({"init", "load", "warmup", "inference"} if name not in ("cuDriverGetVersion", "cuGetProcAddress") else
                                  {None, "init", "load", "warmup", "inference"}), (name, x)
        stages[name].add(x.get("stage"))
        if "iteration" in x:
            size = x.get("iterations", 1)
            assert x["stage"] == "inference" or name == "cuStreamSynchronize" and x["iteration"] == 1, (name, x)
            assert x["iteration"] + size - 1 <= made["cuStreamSynchronize"] + size and size & (size - 1) == 0, (name, x)
            last = max(last, x["iteration"])
            sizes.add(size)
            if name == "cuStreamSynchronize":
                marks[x["iteration"], size] += v["calls"]
    assert stages["cuInit"] == {"init"} and stages["cuDevicePrimaryCtxRetain"] | stages["cuCtxCreate"] == {"init"}, stages
    assert "load" in stages["cuMemAlloc"], stages
    assert not {"init", "load"} & (stages["cuLaunchKernel"] | stages["cuGraphLaunch"]), stages
    assert by_function([p]) == +collections.Counter({k.removesuffix("_v2"): n for k, n in made.items() if k.removesuffix("_v2") in by_function([p])})
    # 64 groups, and those of half a size that came before.
    assert made["cuStreamSynchronize"] > 256 and max(sizes) > 1 and last > 64 and len(marks) <= 128, (marks, made)


PYTHON = """
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
def wait():
    cuda.cuCtxSynchronize()
def step():
    wait()
end = time.monotonic() + 6
while time.monotonic() < end:
    step()
    time.sleep(0.001)
"""


@pytest.mark.parametrize("way", WAYS)
def test_python(private, way):  # noqa: F811
    """Sampled calls must have the Python code that makes them."""
    w = Way(private, way)
    (private.folder / "step.py").write_text(PYTHON)
    d = private.daemon("d", "profiles.interval=10m", *w.settings)
    (private.folder / "python").symlink_to(sys.executable)
    p = private.start(private.folder / "python", private.folder / "step.py", env={"LD_LIBRARY_PATH": str(private.lib), **w.env})
    until(lambda: d.process(p.pid).get("seen") == ("inproc" if w.is_inject else None) and d.process(p.pid))
    p.wait(60)
    spent = d.metrics().total("profile_cpu_seconds_total")
    d.stop()
    assert p.returncode == 0
    profile, = profiles(d)
    calls = [(frames, v["calls"], x) for frames, v, x in profile.samples if frames[0][0] == "cuCtxSynchronize"]
    deep = sum(n for frames, n, _ in calls if [f[0] for f in frames if f[1].endswith("step.py")][:3] == ["wait", "step", "<module>"])
    assert deep > 0.95 * sum(n for _, n, _ in calls) > 1000, calls[:5]
    lines = {f[2] for frames, _, _ in calls for f in frames if f[0] == "wait"}
    assert lines == {8}, lines
    assert 0 < spent < 0.1 + 0.01 * 10


@pytest.mark.parametrize("way", WAYS)
def test_unfinished(private, way):  # noqa: F811
    """A sampled call that never returns must not become a line of a process that is only counted."""
    w = Way(private, way)
    d = private.daemon("d", "profiles.interval=10m", *w.settings)
    private.sample("s", "--tokens", 3, **w.env)
    slow = ",".join(f"{f}:{us}" for f, us in (("cuInit", 200000), ("cuCtxSynchronize", 60000000), ("cuStreamSynchronize", 60000000)))
    p = private.start(private.folder / "s", "--tokens", "9", env={"LD_LIBRARY_PATH": str(private.lib), "FAKE_DELAY_US": slow, **w.env})
    m = d.metrics()
    d.until(lambda now: now.calls("s", "cuMemAlloc_v2") > m.calls("s", "cuMemAlloc_v2"))
    time.sleep(1.5)
    p.kill()
    p.wait()
    time.sleep(1)
    d.stop()
    assert not [e for e in d.lines() if "symbol" in e]


def test_port(private):  # noqa: F811
    d = private.daemon("d", "profiles.interval=2s", "profiles.files=false")
    private.sample("s", "--tokens", 20)
    got = []

    def has_launches():
        try:
            got.append(Profile(fetch(d)))
        except urllib.error.HTTPError as e:
            assert e.code == 503 and not got
        return got and got[-1].total("launches")

    until(has_launches, 30)
    assert 1.9e9 < got[-1].duration < 6e9 and abs(got[-1].time / 1e9 - time.time()) < 60
    assert not profiles(d)


def test_off(private):  # noqa: F811
    d = private.daemon("d")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(d)


PROTO = "opentelemetry-proto==1.45.2", "protobuf==7.36.2"


def test_otlp(private):  # noqa: F811
    """The requests must be what the published descriptors define, and have the same sums per stack as the files."""
    try:
        pypi.use(*PROTO)
    except pypi.Missing as e:
        pytest.skip(f"opentelemetry-proto: {e}")
    from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
    collector = Collector(private)
    d = private.daemon("d", "profiles.interval=1s", f"otlp.endpoint=http://127.0.0.1:{collector.port}", "otlp.profiles=true")
    private.sample("s", "--tokens", 50)
    d.until(lambda m: m.calls("s", "cuLaunchKernel") > 50)
    d.stop()
    collector.p.kill()
    got, seen = collections.Counter(), set()
    for r in map(json.loads, collector.log.read_text().splitlines()):
        if r["path"] != "/v1development/profiles":
            continue
        assert r["headers"]["Content-Type"] == "application/x-protobuf"
        m = service.ExportProfilesServiceRequest.FromString(base64.b64decode(r["body"]))
        size = m.ByteSize()
        m.DiscardUnknownFields()
        assert m.ByteSize() == size, "fields that the descriptors lack"
        t = m.dictionary
        for table in t.mapping_table, t.location_table, t.function_table, t.link_table, t.attribute_table, t.stack_table:
            assert not table[0].ByteSize()
        assert not t.string_table[0] and len(set(t.string_table)) == len(t.string_table)

        def frame(i, t=t):
            line = t.location_table[i].lines[0]
            f = t.function_table[line.function_index]
            return t.string_table[f.name_strindex], t.string_table[f.filename_strindex], line.line

        for resource in m.resource_profiles:
            of = {a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes}
            assert of["service.name"] == of["process.executable.name"] == "s" and of["process.pid"] > 1 and of["host.name"]
            for p in resource.scope_profiles[0].profiles:
                assert len(p.profile_id) == 16 and p.profile_id not in seen and p.duration_nano and abs(p.time_unix_nano / 1e9 - time.time()) < 60
                seen.add(p.profile_id)
                kind = t.string_table[p.sample_type.type_strindex]
                assert t.string_table[p.sample_type.unit_strindex] == TYPES[kind]
                for s in p.samples:
                    got[kind, tuple(frame(i) for i in t.stack_table[s.stack_index].location_indices)] += s.values[0]
                    keys = {t.string_table[t.attribute_table[i].key_strindex] for i in s.attribute_indices}
                    assert keys <= {"thread.id", "thread.name", "cuda.device", "cuda.stream", "cuda.stage"}
    want = collections.Counter()
    for p in profiles(d):
        for frames, v, _ in p.samples:
            for kind, x in v.items():
                want[kind, tuple(frames)] += x
    assert got == +want and sum(x for (kind, _), x in got.items() if kind == "launches") > 100
