# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A decoder of pprof profiles that shares nothing with the writer."""
import collections
import gzip

TYPES = {"host_time": "nanoseconds", "wait_time": "nanoseconds", "gpu_time": "nanoseconds", "calls": "count", "launches": "count", "graph_launches": "count",
         "executions": "count", "alloc_space": "bytes"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message: by number, the list of their values."""
    got, at = collections.defaultdict(list), 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 in (0, 2), tag
        value, at = varint(data, at)
        if tag & 7 == 2:
            assert at + value <= len(data)
            value, at = data[at:at + value], at + value
        got[tag >> 3].append(value)
    return got


def packed(data):
    got, at = [], 0
    while at < len(data):
        value, at = varint(data, at)
        got.append(value)
    return got


def one(message, field, default=0):
    values = message.get(field, [default])
    assert len(values) == 1, (field, values)
    return values[0]


class Profile:
    """A profile of which each reference is checked. samples: (frames, values by type, labels), frames: (name, file, line), leaf first."""

    def __init__(self, data):
        p = fields(gzip.decompress(data))
        assert set(p) <= {1, 2, 4, 5, 6, 9, 10, 11, 12, 13, 14}, set(p)
        self.strings = [s.decode() for s in p[6]]
        assert self.strings[0] == "" and len(set(self.strings)) == len(self.strings)
        used = {0}

        def text(i):
            used.add(i)
            return self.strings[i]

        def value_type(data):
            t = fields(data)
            return text(one(t, 1)), text(one(t, 2))

        self.types = [value_type(t) for t in p[1]]
        functions, locations = {}, {}
        for f in map(fields, p[5]):
            assert one(f, 1) and one(f, 1) not in functions and one(f, 2)
            assert 3 not in f, "pprof drops template arguments if the system name is the name"
            functions[one(f, 1)] = (text(one(f, 2)), text(one(f, 4)))
        for x in map(fields, p[4]):
            line = fields(one(x, 4))
            assert one(x, 1) and one(x, 1) not in locations
            locations[one(x, 1)] = (*functions[one(line, 1)], one(line, 2))
        assert len(set(functions.values())) == len(functions) and len(set(locations.values())) == len(locations)
        self.samples, places = [], set()
        for s in map(fields, p[2]):
            ids, values, labels = packed(one(s, 1)), packed(one(s, 2)), {}
            assert ids and len(values) == len(self.types) and any(values)
            for label in map(fields, s.get(3, [])):
                key = text(one(label, 1))
                assert key not in labels and (2 in label) != (3 in label)
                labels[key] = text(one(label, 2)) if 2 in label else one(label, 3)
            places.update(ids)
            self.samples.append(([locations[i] for i in ids], dict(zip((t for t, _ in self.types), values)), labels))
        assert places == set(locations)
        keys = [(tuple(frames), *sorted((k, str(v)) for k, v in labels.items())) for frames, _, labels in self.samples]
        self.rows, self.keys = len(keys), len(set(keys))
        self.comments = [text(i) for i in p[13]]
        self.period_type, self.period = value_type(one(p, 11)), one(p, 12)
        self.time, self.duration, self.default = one(p, 9), one(p, 10), text(one(p, 14))
        assert used == set(range(len(self.strings)))

    def total(self, name):
        return sum(v[name] for _, v, _ in self.samples)

    def by_leaf(self, name):
        got = collections.Counter()
        for frames, v, _ in self.samples:
            if v[name]:
                got[frames[0][0]] += v[name]
        return got
