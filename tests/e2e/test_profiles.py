# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 40
# own processes
"""The daemon's continuous profiles: exact sums, stacks of sampled calls, files, and the port."""
import collections
import time
import urllib.error
import urllib.request

import pytest
from helpers.daemon import driver_counts, private  # noqa: F401, a fixture
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


def fetch(d, path="debug/pprof/cuda"):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{d.at}/{path}", timeout=20) as f:
        assert f.headers["Content-Type"] == "application/octet-stream"
        return f.read()


@pytest.mark.parametrize("level", ["metrics", "trace"])
def test_sums(private, level):  # noqa: F811
    """All profiles together must have each call once, and their times as the metrics; sampled ones with their stack."""
    d = private.daemon("d", "profiles.interval=1s", level=level)
    counts = private.folder / "counts"
    private.sample("s", "--tokens", 300, FAKE_CUDA_COUNTS=str(counts))
    m = d.until(lambda m: m.calls("s", "cuLaunchKernel") == driver_counts(counts)["cuLaunchKernel"])
    assert m.total("profile_samples_total") > 0 and m.total("profile_rejected_total") == m.total("profile_errors_total") == 0
    d.stop()
    ps = profiles(d)
    assert all(dict(p.types) == TYPES and p.rows == p.keys for p in ps)
    labels = {k for p in ps for _, _, x in p.samples for k in x}
    assert {"process", "process_name"} <= labels <= {"process", "process_name", "thread", "thread_name", "stream"}
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
    deep = [(frames, v) for p in ps for frames, v, x in p.samples if "thread" in x and len(frames) > 3]
    assert any(name and file.endswith("/s") for frames, _ in deep for name, file, _ in frames), deep[:3]
    assert any("sampled: stacks are of " in c for p in ps for c in p.comments)
    assert not [e for e in d.lines() if e["type"] == "stack" or "stack" in e]


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
