#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Does a trace keep to docs/SCHEMA.md?

    schema_check.py [--cut] FILE...

Says FILE:LINE: what is wrong, at most 20 times a file. Exit status 0: nothing, 1: something, 2: usage.
--cut: the trace may end without an end line (the tracer was killed). "-" is stdin.

Strict: a member that the page does not describe is wrong, as is one at a type that it is not for. The values of
`args` are checked for their form only: their names are those of cuda.h.
"""
import collections
import json
import os
import re
import sys

SCHEMA = 2
MAX_SHOWN = 20

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../docs/SCHEMA.md')


def types_of_page():
    with open(PAGE, encoding='utf-8') as f:
        row = next(line for line in f if line.startswith('| `type` | string | `header`'))
    return set(re.findall(r'`(\w+)`', row)) - {'type'}


TYPES = types_of_page()
# Of type kernel, as launches are.
SYSTEM_CALLS = {'ioctl', 'mmap', 'open', 'close', 'poll'}
DROPS = {'calls', 'tasks', 'libraries', 'threads', 'depth'}
DIRECTIONS = {'HtoD', 'DtoH', 'DtoD', 'HtoH', 'peer'}
NOT_READY = 600

HEX = re.compile(r'0x(0|[1-9a-f][0-9a-f]*)\Z')
BUILD_ID = re.compile(r'([0-9a-f]{2})*\Z')
WALL_TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\Z')
ERROR = re.compile(r'(CUDA_ERROR_[A-Z0-9_]+|-?[1-9][0-9]*)\Z')


class Num(float):
    """A number that knows how it was written."""
    def __new__(cls, text):
        n = super().__new__(cls, text)
        n.text = text
        return n


class Bad(Exception):
    pass


def need(cond, why):
    if not cond:
        raise Bad(why)


# Types of members. Each takes a value and says whether it is one.

def num(v):
    return isinstance(v, Num)


def integer(v):
    return num(v) and re.fullmatch(r'-?\d+', v.text) is not None


def count(v):
    return integer(v) and v >= 0


def some(v):
    return integer(v) and v > 0


def fixed(digits):
    return lambda v: num(v) and re.fullmatch(r'-?(0|[1-9]\d*)\.\d{%d}' % digits, v.text) is not None


milli, micro = fixed(6), fixed(3)


def positive(check):
    return lambda v: check(v) and not v.text.startswith('-')


def text(v):
    return isinstance(v, str)


def word(v):
    return text(v) and v != ''


def or_null(check):
    return lambda v: v is None or check(v)


def matches(regex):
    return lambda v: text(v) and regex.match(v) is not None


hexa = matches(HEX)


def not_negative(v):
    return num(v) and v >= 0


def one_of(values):
    return lambda v: v in values


def is_true(v):
    return v is True


def array(check, size=None):
    return lambda v: isinstance(v, list) and (size is None or len(v) == size) and all(check(x) for x in v)


def is_object(v):
    return isinstance(v, dict)


def is_param(p):
    """A parameter of a kernel: its value has at most as many bytes as its size, and its addresses lie in their blocks."""
    def is_memory(m):
        at, size = int(m.get('at', 0)), int(m['size'])
        return (m.keys() <= {'at', 'ptr', 'size', 'offset', 'state', 'freed_by'} and hexa(m['ptr']) and (at + int(p['offset'])) % 8 == 0 and at + 8 <= int(p['size'])
                and (int(m['offset']) < size or not size) and m['state'] in ('live', 'freed') and ('freed_by' in m) == (m['state'] == 'freed'))
    value = p.get('value', '')
    return (p.keys() <= {'offset', 'size', 'value', 'memory'} and count(p['offset']) and some(p['size']) and text(value)
            and (hexa(value) if value.startswith('0x') else len(value) <= 2 * int(p['size'])) and all(map(is_memory, p.get('memory', ()))))


def known_ops():
    """Names of src/decode/cuda_ops.def by the page's promise; None where the sources are not at hand."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../src/decode/cuda_ops.def')
    try:
        with open(path, encoding='utf-8') as f:
            return set(re.findall(r'^OP\(\w+, "(\w+)"', f.read(), re.M)) or None
    except OSError:
        return None


OPS = known_ops()

# Member: (type, always there)
HEADER = {
    'ts': (milli, True), 'type': (text, True), 'name': (one_of({'cudatrace'}), True),
    'schema': (some, True), 'version': (word, True), 'command': (array(text), False),
    'pids': (array(some), False), 'host': (text, True), 'kernel': (text, True), 'machine': (text, True),
    'driver_version': (or_null(word), True), 'cuda_version': (or_null(matches(re.compile(r'\d+\.\d+\Z'))), True),
    'libraries': (array(is_object), True), 'traced': (text, True), 'not_traced': (text, True),
    'mechanism': (one_of({'uprobe.session', 'uprobe.multi', 'uprobe', 'inject'}), True),
    'gpu_ctxsw': (word, False), 'counted': (word, False), 'entry_only': (word, False), 'min_duration_ns': (some, False), 'redacted': (one_of({'strings', 'arguments'}), False), 'stacks': (word, False), 'python': (word, False),
    'kernel_probe': (one_of({'kprobe.multi', 'fentry', 'kprobe', 'tracepoint', 'inject'}), False), 'degraded': (array(word), True),
    'probe_cost_ns': (lambda v: num(v) and v >= 0, True), 'clock': (one_of({'CLOCK_MONOTONIC'}), True),
    'clock_base_ns': (count, True), 'wall_time': (matches(WALL_TIME), True),
    'boot_id': (matches(re.compile(r'[0-9a-f-]{36}\Z')), False), 'segment': (some, False),
}
LIBRARY_OF_HEADER = {
    'path': (word, True), 'build_id': (matches(BUILD_ID), True), 'id': (some, True), 'functions': (count, True),
}
EVENT = {
    'ts': (milli, True), 'type': (text, True), 'op': (word, True), 'name': (word, True), 'pid': (count, True),
    'tid': (count, True), 'comm': (or_null(text), True),
}
CALL = dict(EVENT, **{
    'symbol': (word, True), 'id': (some, True), 'parent': (some, False), 'depth': (some, False),
    'lib': (some, False), 'duration_us': (positive(micro), False), 'elapsed_us': (positive(micro), False),
    'result': (integer, False),
    'error': (matches(ERROR), False), 'unfinished': (is_true, False), 'abandoned': (is_true, False),
    'entry_only': (is_true, False), 'stack': (some, False), 'args': (is_object, True),
    'ioctls': (count, False), 'ioctl_us': (not_negative, False), 'off_cpu_us': (not_negative, False),
    'size': (count, False), 'ptr': (hexa, False), 'stream': (hexa, False), 'event': (hexa, False),
    'direction': (one_of(DIRECTIONS), False), 'bandwidth_gbps': (lambda v: num(v) and v >= 0, False),
    'kernel': (word, False), 'kernel_mangled': (word, False), 'kernel_source': (one_of({'handle'}), False),
    'func': (hexa, False), 'grid': (array(count, 3), False), 'block': (array(count, 3), False),
    'shared_mem': (count, False), 'cluster': (array(count, 3), False), 'cooperative': (is_true, False),
    'capturing': (is_true, False), 'params': (or_null(array(is_param)), False), 'params_cut': (is_true, False),
})
PROCESS = dict(EVENT, **{
    'op': (one_of({'fork', 'exec', 'exit'}), True), 'parent_pid': (count, False), 'exit_code': (count, False),
    'signal': (some, False),
})
LIBRARY = dict(EVENT, **{
    'lib': (some, False), 'path': (or_null(word), False), 'build_id': (or_null(matches(BUILD_ID)), False),
    'note': (text, False),
})
# What the driver's commands have; status is a name or a number.
OBJECTS = {
    'device': (matches(re.compile(r'nvidia(ctl|\d+|-uvm|-uvm-tools|-modeset|-other)\Z')), True),
    'client': (hexa, False), 'object': (hexa, False), 'object_class': (word, False), 'status': (or_null(word), False),
    'unfinished': (is_true, False), 'result': (integer, False), 'call_id': (some, False), 'call': (word, False),
}
SYSTEM_CALL = dict(EVENT, **OBJECTS, **{
    'op': (one_of(SYSTEM_CALLS), True), 'duration_us': (positive(micro), False),
    'elapsed_us': (positive(micro), False), 'fd': (count, False),
    'cmd': (hexa, False), 'escape': (word, False), 'uvm': (word, False), 'control': (word, False),
    'control_cmd': (hexa, False), 'params': (word, False), 'params_size': (count, False), 'class': (word, False),
    'parent': (hexa, False), 'new': (hexa, False), 'function': (word, False), 'address': (hexa, False),
    'length': (count, False), 'target_fd': (integer, False), 'version': (word, False), 'xfer': (is_true, False),
    'size': (some, False), 'ptr': (hexa, False),
})
SCHEDULER = dict(EVENT, **OBJECTS, **{'meaning': (word, True), 'values': (word, False)})
PROCESSOR = matches(re.compile(r'(CPU|GPU\d+)\Z'))
XID = dict(EVENT, **{
    'op': (one_of({'xid'}), True), 'xid': (count, True), 'gpu': (text, False), 'meaning': (word, False),
    'message': (text, False),
})
UVM = dict(EVENT, **{
    'op': (one_of({'fault', 'migration', 'eviction'}), True), 'ptr': (hexa, True), 'processor': (PROCESSOR, False),
    'write': (lambda v: isinstance(v, bool), False), 'size': (count, False), 'from': (PROCESSOR, False),
    'to': (PROCESSOR, False), 'cause': (lambda v: word(v) or count(v), False),
})
LEVEL = matches(re.compile(r'(trace|sample 1/\d+|count|count entries)\Z'))
WAIT = {
    'process': (some, False), 'thread': (some, False), 'function': (word, False), 'waited_us': (num, False), 'over': (is_true, False), 'work': (word, False),
    'work_id': (some, False), 'stream': (hexa, False), 'launched_by': (word, False), 'behind': (count, False),
    'deadlock': (one_of({'host-function', 'event'}), False), 'certain': (is_true, False), 'stack': (some, False),
}
TRACER = dict(EVENT, **WAIT, **{'op': (one_of({'level', 'lost', 'hang'}), True), 'from': (LEVEL, False), 'to': (LEVEL, False), 'events': (some, False),
                                'why': (word, True)})
STACK = dict(EVENT, **{'op': (one_of({'stack'}), True), 'id': (some, True), 'frames': (array(is_object), True), 'python': (array(is_object), False)})
FRAME = {
    'ip': (hexa, True), 'module': (word, False), 'offset': (hexa, False), 'build_id': (matches(BUILD_ID), False),
    'symbol': (word, False),
}
PYTHON_FRAME = {'function': (word, False), 'file': (text, False), 'line': (some, False), 'code': (hexa, False)}
CTXSW = dict(EVENT, **{
    'op': (one_of({'slice'}), True), 'duration_us': (positive(micro), False), 'elapsed_us': (positive(micro), False), 'unfinished': (is_true, False),
    'minor': (count, True), 'gpu': (word, True), 'context': (count, True), 'owner': (one_of({'kernel', 'other user'}), False),
    'truncated_start': (is_true, False), 'lost_before': (some, False),
})
INTERRUPT = dict(EVENT, **{'op': (one_of({'interrupt'}), True), 'irq': (count, True), 'cpu': (count, True)})
JOB = dict(EVENT, **{'op': (one_of({'rank'}), True), 'global_rank': (count, True)})
GPU_DEVICE = dict(EVENT, **{
    'op': (one_of({'device'}), True), 'device': (count, True), 'uuid': (word, False), 'pci': (word, False), 'model': (text, False),
    'capability': (some, False), 'multiprocessors': (some, False), 'clock_khz': (some, False), 'memory_khz': (some, False), 'bus_bits': (some, False),
})
END = {
    'ts': (milli, True), 'type': (text, True), 'name': (one_of({'cudatrace'}), True), 'reason': (word, True),
    'events': (is_object, True), 'calls': (count, True), 'entries': (count, False), 'counted': (is_object, False), 'continued': (some, False),
    'count_cost_ns': (not_negative, False), 'drops': (is_object, True),
    'unfinished': (count, True), 'abandoned': (count, True), 'filtered': (count, True), 'orphans': (count, True),
    'duplicates': (count, True), 'bad_records': (count, True), 'wall_ms': (milli, True),
    'probe_cost_ns': (lambda v: num(v) and v >= 0, True), 'cost_ms': (positive(milli), True),
    'cost_share': (lambda v: num(v) and v >= 0, True), 'max_thread_overhead': (lambda v: num(v) and v >= 0, False),
    'max_overhead_tid': (count, False), 'costs': (is_object, False), 'detail_low_saving_ms': (positive(milli), False), 'unseen': (text, False), 'not_traced': (text, True), 'write_error': (word, False),
    'lines_lost': (count, False), 'buffer_size': (count, False), 'objects_refused': (count, False), 'objects_unknown': (count, False),
    'limits_hit': (is_object, False), **{f'python_{k}': (count, False) for k in ('calls', 'early', 'cut', 'broken', 'unread')},
}

COUNTED = {
    'calls': (count, True), 'errors': (count, False), 'total_us': (positive(micro), False),
    'max_us': (positive(micro), False), 'entry_only': (some, False), 'unfinished': (some, False), 'abandoned': (some, False),
}

# Whose members they are. Sizes of memory that other classes talk of (cuStreamAttachMemAsync) are sizes too.
MEMBER_OF = {
    'size': {'memory', 'transfer', 'stream'}, 'ptr': {'memory', 'transfer'}, 'direction': {'transfer'},
    'bandwidth_gbps': {'transfer'}, 'kernel': {'kernel', 'module'}, 'kernel_mangled': {'kernel', 'module'},
    'kernel_source': {'kernel', 'module'}, 'func': {'kernel'}, 'grid': {'kernel'}, 'block': {'kernel'},
    'params': {'kernel'}, 'params_cut': {'kernel'}, 'shared_mem': {'kernel'}, 'cluster': {'kernel'}, 'cooperative': {'kernel'}, 'capturing': {'kernel', 'transfer'},
}


def members(obj, spec, what):
    for name, value in obj.items():
        need(name in spec, f'{what}: no member "{name}" in docs/SCHEMA.md')
        need(spec[name][0](value), f'{what}: "{name}" is {json.dumps(value, default=str)[:100]}')
    for name, (_, always) in spec.items():
        need(not always or name in obj, f'{what}: no "{name}"')


def together(obj, *names):
    have = [n for n in names if n in obj]
    need(len(have) in (0, len(names)), f'{obj.get("name")}: {have} without the rest of {list(names)}')


def check_arg(v, path):
    """A value in args: what an argument can be by the page."""
    if isinstance(v, dict):
        for name, x in v.items():
            if name.endswith('_cut'):
                need(is_true(x) and isinstance(v.get(name[:-4]), str), f'{path}.{name} without its string')
            check_arg(x, f'{path}.{name}')
    elif isinstance(v, list):
        for i, x in enumerate(v):
            need(x != '...' or i == len(v) - 1, f'{path}: "..." is not the last element')
            check_arg(x, path + '[]')
    elif isinstance(v, str):
        # Kernel names never begin like this; a pointer must be one whole hexadecimal number.
        need(not re.match(r'0x[0-9a-fA-F]+\Z', v) or HEX.match(v), f'{path}: {v!r} is no pointer as we write them')


class Trace:
    def __init__(self, cut):
        self.cut = cut
        self.types = collections.Counter()
        self.calls = self.unfinished = self.abandoned = 0
        self.ids = set()
        self.libs = set()
        self.stacks = set()
        self.parents = {}
        self.end = None
        self.header = False

    def line(self, raw, number):
        need(raw.endswith(b'\n'), 'the line is not whole')
        try:
            obj = json.loads(raw.decode('utf-8'), parse_float=Num, parse_int=Num, parse_constant=self.constant,
                             object_pairs_hook=self.pairs)
        except (UnicodeDecodeError, json.JSONDecodeError) as e:
            raise Bad(f'no JSON: {e}') from None
        need(isinstance(obj, dict), 'no object')
        kind = obj.get('type')
        need(kind in TYPES, f'type is {kind!r}')
        need((number == 1) == (kind == 'header'), 'the header is the first line and no other')
        need(self.end is None, 'a line behind the end line')
        if kind == 'header':
            self.check_header(obj)
        elif kind == 'end':
            self.check_end(obj)
        else:
            self.types[kind] += 1
            checks = {'process': self.check_process, 'library': self.check_library, 'uvm': self.check_uvm,
                      'scheduler': lambda o: members(o, SCHEDULER, o.get('name', kind)),
                      'xid': lambda o: members(o, XID, kind), 'interrupt': lambda o: members(o, INTERRUPT, kind),
                      'ctxsw': lambda o: members(o, CTXSW, kind), 'gpu_device': lambda o: members(o, GPU_DEVICE, kind),
                      'job': lambda o: members(o, JOB, kind),
                      'tracer': self.check_tracer, 'stack': self.check_stack}
            if kind == 'kernel' and obj.get('op') in SYSTEM_CALLS:
                checks[kind] = self.check_system_call
            checks.get(kind, self.check_call)(obj)

    def check_stack(self, s):
        members(s, STACK, 'stack')
        need(s['id'] not in self.stacks, f'stack {s["id"]} is defined twice')
        self.stacks.add(s['id'])
        for f in s['frames']:
            members(f, FRAME, 'frame')
            together(f, 'module', 'offset')
        for f in s.get('python', []):
            members(f, PYTHON_FRAME, 'frame of Python')
            need(('file' in f) != ('code' in f), 'a frame of Python has a file, or its names were not read')

    @staticmethod
    def check_tracer(o):
        members(o, TRACER, 'tracer')
        together(o, 'from', 'to')
        need(('from' in o) == (o['op'] == 'level') and ('events' in o) == (o['op'] == 'lost'), 'tracer: a level has from and to, a loss events')
        need(o['op'] == 'hang' or not o.keys() & WAIT.keys(), 'tracer: only a hang has these members')
        if o['name'] == 'wait':
            need(o.keys() >= {'process', 'thread', 'function', 'waited_us'}, 'tracer: a wait has its thread and its call')
            together(o, 'work', 'work_id')
            together(o, 'work', 'stream')
            together(o, 'work', 'behind')

    @staticmethod
    def constant(name):
        raise Bad(f'{name} is no JSON')

    @staticmethod
    def pairs(pairs):
        obj = dict(pairs)
        need(len(obj) == len(pairs), 'a member twice: ' + ', '.join(n for n, _ in pairs))
        return obj

    def check_header(self, h):
        members(h, HEADER, 'header')
        need(h['schema'] == SCHEMA, f'schema {h["schema"].text}: this checks {SCHEMA}')
        need(h['ts'].text == '0.000000', 'the header is not at ts 0')
        need('command' not in h or h['command'], 'an empty command')
        for lib in h['libraries']:
            members(lib, LIBRARY_OF_HEADER, 'libraries')
            need(int(lib['id']) not in self.libs, f'two libraries with id {lib["id"].text}')
            self.libs.add(int(lib['id']))
        self.header = True

    def check_process(self, p):
        members(p, PROCESS, 'process')
        need(p['name'] == p['op'], 'name and op differ')
        need(('parent_pid' in p) == (p['op'] == 'fork'), f'{p["op"]}: parent_pid is for fork')
        need(('exit_code' in p) + ('signal' in p) == (p['op'] == 'exit'), f'{p["op"]}: exit_code or signal is for exit')

    def check_library(self, lib):
        members(lib, LIBRARY, 'library')
        if 'lib' in lib:
            self.libs.add(int(lib['lib']))

    @staticmethod
    def check_system_call(c):
        who = f'{c.get("name")} on {c.get("device")}'
        members(c, SYSTEM_CALL, who)
        ioctl = c['op'] == 'ioctl'
        need(('cmd' in c) == ioctl, f'{who}: cmd is for ioctls')
        need(ioctl or not {'escape', 'uvm', 'control', 'class', 'client', 'status'} & set(c), f'{who}: it is no ioctl')
        need(not ('escape' in c and 'uvm' in c), f'{who}: escape and uvm')
        need('control' not in c or 'control_cmd' in c, f'{who}: a control without its number')
        need(('duration_us' in c) != ('unfinished' in c), f'{who}: duration_us is for what returned')
        need('elapsed_us' not in c or 'unfinished' in c, f'{who}: elapsed_us is for what did not return')
        need('unfinished' not in c or not {'status', 'result'} & set(c), f'{who}: an answer, but it is unfinished')
        need('call' not in c or 'call_id' in c, f'{who}: a call without its id')
        need(not ioctl or int(c.get('result', 0)) >= 0 or 'status' not in c, f'{who}: ioctl failed, but has a status')

    @staticmethod
    def check_uvm(u):
        members(u, UVM, 'uvm')
        need(('processor' in u) == (u['op'] == 'fault'), 'uvm: processor is for faults')
        together(u, 'size', 'from', 'to', 'cause')

    def check_call(self, c):
        members(c, CALL, c.get('name', 'call'))
        who = f'{c["symbol"]} (id {c["id"].text})'
        for name in c:
            need(name not in MEMBER_OF or c['type'] in MEMBER_OF[name], f'{who}: "{name}" is not for {c["type"]}')
        need(OPS is None or c['op'] in OPS, f'{who}: no op "{c["op"]}" in cuda_ops.def')
        need(c['symbol'].startswith(c['name']), f'{who}: symbol and name do not fit')
        need('lib' not in c or c['lib'] != 1, f'{who}: lib is left out when it is 1')
        need(not self.libs or int(c.get('lib', 1)) in self.libs, f'{who}: a lib that was never named')
        self.check_outcome(c, who)
        self.check_launch(c, who)
        need('direction' not in c or c['op'] == 'copy', f'{who}: a direction, but no copy')
        need('bandwidth_gbps' not in c or ('size' in c and 'direction' in c and 'duration_us' in c
                                           and 'Async' not in c['name']), f'{who}: bandwidth of what?')
        need(int(c['id']) not in self.ids, f'{who}: the id is there twice')
        self.ids.add(int(c['id']))
        need(('parent' in c) == ('depth' in c), f'{who}: parent and depth come together')
        if 'parent' in c:
            need(c['parent'] != c['id'], f'{who}: its own parent')
        need('ioctl_us' not in c or c.get('ioctls', 0) > 0, f'{who}: time of no ioctls')
        check_arg(c['args'], f'{who}: args')
        self.calls += 1

    def check_outcome(self, c, who):
        over = 'unfinished' in c, 'abandoned' in c, 'entry_only' in c
        need(sum(over) < 2, f'{who}: more than one of unfinished, abandoned and entry_only')
        self.unfinished += over[0]
        self.abandoned += over[1]
        for name in ('duration_us', 'result'):
            need((name in c) != any(over), f'{who}: {name} is for calls that returned')
        need('elapsed_us' not in c or any(over), f'{who}: elapsed_us is for calls that did not return')
        result = int(c.get('result', 0))
        need(('error' in c) == (result not in (0, NOT_READY)), f'{who}: result {result}, error {c.get("error")}')

    @staticmethod
    def check_launch(c, who):
        together(c, 'grid', 'block', 'shared_mem')
        launch = c['type'] == 'kernel' and c['op'] == 'launch'
        need(sum(int(p['size']) for p in c.get('params') or () if 'value' in p and p['value'].startswith('0x')) <= 256, f'{who}: too many bytes')
        for name in ('func', 'grid', 'cluster', 'cooperative', 'params', 'params_cut'):
            need(name not in c or launch, f'{who}: "{name}" is for launches')
        need('capturing' not in c or launch or c['type'] == 'transfer', f'{who}: "capturing" is for what the GPU would run')
        need('cluster' not in c or 'grid' in c, f'{who}: a cluster, but no grid')
        need('kernel_mangled' not in c or c.get('kernel', c['kernel_mangled']) != c['kernel_mangled'],
             f'{who}: kernel_mangled is what kernel is, or alone')
        need('kernel_source' not in c or 'kernel' in c, f'{who}: the source of no name')

    def check_end(self, e):
        self.end = e
        members(e, END, 'end')
        need(set(e['drops']) >= DROPS and all(count(v) for v in e['drops'].values()), 'drops are not whole')
        need(set(e['events']) <= TYPES - {'header', 'end'} and all(some(v) for v in e['events'].values()),
             'events: types and how many')
        together(e, 'write_error', 'lines_lost')
        lost = int(e.get('lines_lost', 0))
        events = {k: int(v) for k, v in e['events'].items()}
        if lost:
            need(sum(events.values()) == sum(self.types.values()) + lost,
                 f'{sum(events.values())} events, but {sum(self.types.values())} lines and {lost} lost')
            return
        need(events == dict(self.types), f'events {events}, but lines {dict(self.types)}')
        need(e['calls'] == self.calls, f'calls {e["calls"].text}, but {self.calls} lines')
        together(e, 'max_thread_overhead', 'max_overhead_tid')
        need(sum(e.get('costs', {}).values()) <= e['cost_ms'] + 1e-5, f'costs {e.get("costs")} of {e["cost_ms"].text} ms')
        need(e.get('detail_low_saving_ms', 0) <= e['cost_ms'] + 1e-5, f'--detail=low would save {e.get("detail_low_saving_ms")} of {e["cost_ms"].text} ms')
        need(all(milli(v) for v in e.get('costs', {}).values()), f'costs {e.get("costs")}')
        for symbol, c in e.get('counted', {}).items():
            members(c, COUNTED, f'counted {symbol}')
            together(c, 'errors', 'total_us', 'max_us')
        for name, lines in ('unfinished', self.unfinished), ('abandoned', self.abandoned):
            lines += sum(int(c.get(name, 0)) for c in e.get('counted', {}).values())
            # Lines may rightly be fewer: dropped, or shorter than --min-duration.
            few = lines < e[name] and (e['drops']['calls'] > 0 or e['filtered'] > 0)
            need(e[name] == lines or few, f'{name} {e[name].text}, but {lines} lines')

    def finish(self):
        need(self.header, 'no header: the file is empty')
        need(self.end is not None or self.cut, 'no end line')


def check_file(path, cut):
    trace, bad, number = Trace(cut), 0, 0

    def say(line, why):
        nonlocal bad
        bad += 1
        if bad <= MAX_SHOWN:
            print(f'{path}:{line}: {why}')

    with (sys.stdin.buffer if path == '-' else open(path, 'rb')) as f:
        for number, raw in enumerate(f, 1):
            try:
                trace.line(raw, number)
            except Bad as e:
                say(number, e)
    try:
        trace.finish()
    except Bad as e:
        say(max(number, 1), e)
    if bad > MAX_SHOWN:
        print(f'{path}: {bad - MAX_SHOWN} more')
    return bad == 0


def main():
    args = sys.argv[1:]
    cut = '--cut' in args
    files = [a for a in args if a != '--cut']
    if not files or any(a.startswith('-') and a != '-' for a in files):
        print(__doc__.split('\n\n')[1].strip(), file=sys.stderr)
        return 2
    ok = True
    for path in files:
        try:
            ok &= check_file(path, cut)
        except OSError as e:
            print(f'{path}: {e.strerror}', file=sys.stderr)
            ok = False
    return 0 if ok else 1


if __name__ == '__main__':
    sys.exit(main())
