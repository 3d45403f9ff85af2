# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Arguments against the headers: a stub library and a client are generated from a header alone, and no table of src/decode is read.

usage: arguments.py HEADER    lists the functions that are found

The stub exports every function of the header. The client calls each one with random values and keeps a log of the bytes that it
passed: each argument, and what is behind each pointer. compare() decodes those bytes with the layouts that the compiler gives.
"""
import collections
import json
import math
import os
import re
import struct
import subprocess
import sys

from pycparser import c_ast, c_generator, c_parser

INCLUDES = ["/usr/local/cuda/include", "/usr/local/cuda-13.0/include", "/usr/include"]
# header: (pattern of its functions, file name of the library, definitions before it)
LIBRARIES = {
    "cuda.h": (r"cu[A-Z]", "libcuda.so.1", "-D__CUDA_API_VERSION_INTERNAL"),
    "nccl.h": (r"nccl[A-Z]", "libnccl.so.2", "-DNO_MORE"),
    "cublas_v2.h": (r"cublas[A-Z]", "libcublas.so.13", "-DNO_MORE"),
    "cudnn.h": (r"cudnn[A-Z]", "libcudnn_graph.so.9", "-DNO_MORE"),
    "cuda_runtime_api.h": (r"cuda[A-Z]", "libcudart.so.13", "-DNO_MORE"),
}
# Extensions in gcc's headers that C99 lacks.
PLAIN_C = ["-D__attribute__(x)=", "-D__extension__=", "-D__asm__(...)=", "-D__inline=inline", "-D__inline__=inline", "-D__restrict=", "-D__volatile__=",
           "-D__builtin_va_list=int", "-D_Float128=double", "-D_Float32=float", "-D_Float64=double", "-D_Float32x=double", "-D_Float64x=double",
           "-D__int128=long", "-D_Alignas(x)=", "-D__signed__=signed", "-D__const=const", "-D_Noreturn=", "-D__declspec(x)=", "-D_Static_assert(...)="]
BEHIND = 1032  # bytes of the log behind a pointer; an array is read up to 1,024
# The limits of a call's record (docs/SCHEMA.md, Arguments): null beyond them counts as a limit, not as a difference.
WORDS, POINTEES, REGISTERS = 16, 8, 6
WHOLE = struct.Struct("<I")

Scalar = collections.namedtuple("Scalar", "size signed enum")
Float = collections.namedtuple("Float", "size")
Pointer = collections.namedtuple("Pointer", "to size")
Array = collections.namedtuple("Array", "of count size")
Struct = collections.namedtuple("Struct", "members size union")  # members: [(name or None, offset, type)]


def include_of(header):
    return next((d for d in INCLUDES if os.path.exists(os.path.join(d, header))), None)


class Header:
    def __init__(self, name, folder, cc="cc"):
        self.name, self.cc, self.folder = name, cc, folder
        self.include = include_of(name)
        self.prefix, self.library, self.define = LIBRARIES[name]
        self.typedefs, self.structs, self.functions, self.enums, self.types = {}, {}, {}, {}, {}
        text = self.run([cc, "-E", "-P", "-I", self.include, self.define, *PLAIN_C, "-x", "c", "-"], self.source())
        self.read(c_parser.CParser().parse(text))
        # In old forms of a function, the parameters have other names than in the public prototype.
        public = c_parser.CParser().parse(self.run([cc, "-E", "-P", "-I", self.include, *PLAIN_C, "-x", "c", "-"], self.source()))
        self.names = {n.name: [p.name for p in n.type.args.params] for n in public.ext
                      if isinstance(n, c_ast.Decl) and isinstance(n.type, c_ast.FuncDecl) and n.type.args}
        self.lay_out()
        self.enumerators()

    def source(self):
        return f"#include <stddef.h>\n#include <stdint.h>\n#include <{self.name}>\n"

    @staticmethod
    def run(command, text=None):
        return subprocess.run(command, input=text, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout

    def read(self, tree):
        for node in tree.ext:
            self.note(node)
            if isinstance(node, c_ast.Typedef):
                self.typedefs[node.name] = node.type
            elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and re.match(self.prefix, node.name):
                params = node.type.args.params if node.type.args else []
                void = len(params) == 1 and not params[0].name
                if any(isinstance(p, c_ast.EllipsisParam) for p in params):
                    continue
                self.functions.setdefault(node.name, [] if void else params)

    def note(self, node):
        """Notes structs and enums declared in the node."""
        for _, child in node.children():
            self.note(child)
        if isinstance(node, (c_ast.Struct, c_ast.Union)) and node.name and node.decls:
            self.structs[type(node), node.name] = node
        elif isinstance(node, c_ast.Enum) and node.name and node.values:
            self.enums[node.name] = node

    # ---- sizes from the compiler ----

    def ask(self, expressions):
        out = {}
        if expressions:
            lines = "".join(f'printf("%lld\\n", (long long)({e}));\n' for e in expressions)
            path = os.path.join(self.folder, "ask")
            self.run([self.cc, "-w", "-I", self.include, self.define, "-x", "c", "-o", path, "-"], self.source() + "#include <stdio.h>\nint main(void)\n{\n" + lines + "}\n")
            out = dict(zip(expressions, map(int, self.run([path]).split())))
        return out

    def lay_out(self):
        """Sizes of the parameter types, and values of all enumerators."""
        self.wanted = [e.name for n in self.enums.values() for e in n.values.enumerators]
        for t in self.typedefs.values():
            inner = t.type if isinstance(t, c_ast.TypeDecl) else None
            if isinstance(inner, c_ast.Enum) and inner.values:
                self.wanted += [e.name for e in inner.values.enumerators]
        self.value = self.ask(list(dict.fromkeys(self.wanted)))

    def enumerators(self):
        """Values of enumerators, including macros that are numbers."""
        text = self.run([self.cc, "-E", "-dM", "-I", self.include, self.define, "-x", "c", "-"], self.source())
        for name, number in re.findall(r"^#define (CU\w+|NCCL_\w+|nccl\w+) +\(?(-?(?:0x)?[0-9a-fA-F]+)[uUlL]*\)?\s*$", text, re.M):
            self.value.setdefault(name, int(number, 0))
        self.value.setdefault("CU_STREAM_LEGACY", 1)

    PLAIN = {"char": (1, True), "signed char": (1, True), "unsigned char": (1, False), "short": (2, True), "unsigned short": (2, False), "int": (4, True), "unsigned": (4, False),
             "unsigned int": (4, False), "long": (8, True), "unsigned long": (8, False), "long long": (8, True), "unsigned long long": (8, False), "_Bool": (1, False)}

    def plain(self, names):
        words = [w for w in names if w not in ("signed",)] if len(names) > 1 else names
        text = " ".join(words)
        if "float" in words or "double" in words:
            return Float(4 if "float" in words else 8)
        unsigned = "unsigned" in words
        rest = [w for w in words if w not in ("unsigned", "int")] or ["int"]
        size, signed = self.PLAIN.get(" ".join(rest), self.PLAIN.get(text, (0, False)))
        return Scalar(size, signed and not unsigned, None) if size else None

    def of(self, node):
        """The type of a node; None for void and for unknown structs."""
        if isinstance(node, (c_ast.Decl, c_ast.TypeDecl, c_ast.Typename)):
            return self.of(node.type)
        if isinstance(node, c_ast.PtrDecl):
            return Pointer(node.type, 8)
        if isinstance(node, c_ast.FuncDecl):
            return None
        if isinstance(node, c_ast.ArrayDecl):
            inner = self.of(node.type)
            count = self.number(node.dim) if node.dim else 0
            return Array(inner, count, inner.size * count) if inner else None
        if isinstance(node, c_ast.IdentifierType):
            if len(node.names) == 1 and node.names[0] in self.typedefs:
                return self.of(self.typedefs[node.names[0]])
            return self.plain(node.names)
        if isinstance(node, c_ast.Enum):
            values = (self.enums.get(node.name) or node).values
            names = {e.name: self.value[e.name] for e in values.enumerators} if values else {}
            return Scalar(4, any(v < 0 for v in names.values()), tuple(names.items()))
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            return self.of_struct(node)
        return None

    def number(self, node):
        text = c_generator.CGenerator().visit(node)
        if text not in self.value:
            self.value.update(self.ask([text]))
        return self.value[text]

    def of_struct(self, node):
        """C's layout on 64-bit systems; check_sizes() compares it with the compiler's."""
        known = node if node.decls else self.structs.get((type(node), node.name))
        if known is None:
            return None
        key = id(known)
        if key not in self.types:
            members, at, widest, union = [], 0, 1, isinstance(known, c_ast.Union)
            for d in known.decls:
                t = self.of(d)
                if t is None:
                    return None
                align = self.align(t)
                at = 0 if union else -(-at // align) * align
                members.append((d.name, at, t))
                at, widest = at + t.size, max(widest, align)
            end = max((o + t.size for _, o, t in members), default=0)
            self.types[key] = Struct(tuple(members), -(-end // widest) * widest, union)
        return self.types[key]

    def align(self, t):
        if isinstance(t, Array):
            return self.align(t.of)
        if isinstance(t, Struct):
            return max((self.align(m) for _, _, m in t.members), default=1)
        return t.size

    def check_sizes(self):
        """Names of typed structs for which the compiler gives another size."""
        mine = {n: self.of(t) for n, t in self.typedefs.items() if re.match(r"CU|cuda|nccl|cublas|cudnn", n)}
        mine = {n: t.size for n, t in mine.items() if isinstance(t, Struct)}
        theirs = self.ask([f"sizeof({n})" for n in mine])
        return {n for n, size in mine.items() if theirs[f"sizeof({n})"] != size}

    # ---- the stub and the client ----

    def parameter(self, p, name):
        """Text of a variable that can be passed for parameter p."""
        t = p.type
        if isinstance(t, c_ast.ArrayDecl):
            t = c_ast.PtrDecl([], t.type)
        quals = t.quals if isinstance(t, c_ast.PtrDecl) else []
        del quals[:]
        inner = t
        while not isinstance(inner, c_ast.TypeDecl):
            inner = inner.type
        kept, inner.declname = inner.declname, name
        if isinstance(t, c_ast.TypeDecl):
            inner.quals = []
        text = c_generator.CGenerator().visit(c_ast.Decl(name, [], [], [], [], t, None, None))
        inner.declname = kept
        return text

    def is_string(self, p):
        t = p.type.type if isinstance(p.type, (c_ast.PtrDecl, c_ast.ArrayDecl)) else None
        return isinstance(t, c_ast.TypeDecl) and self.of(t) == Scalar(1, True, None)

    def behind(self, t):
        """The type behind a pointer that a client passes; None for a handle or a function."""
        return self.of(t.to) if isinstance(t, Pointer) else None

    def is_buffer(self, p):
        """Whether the prototype has a written-out pointer, which is neither a handle's typedef nor a function."""
        return isinstance(p.type, (c_ast.PtrDecl, c_ast.ArrayDecl)) and not isinstance(p.type.type, c_ast.FuncDecl)

    def selectors(self, t):
        """The selectors of union members in a type: place, total size, values and their number."""
        names = {id(self.of(node)): n for n, node in self.typedefs.items() if n in UNIONS and UNIONS[n][0]}

        def within(inner, off):
            if id(inner) in names:
                selector = UNIONS[names[id(inner)]][0]
                at, enum = next((at, m) for path, at, m in paths(inner) if path == (selector,))
                yield off + at, t.size, ", ".join(str(v) for n, v in enum.enum if not SENTINEL.search(n)), sum(not SENTINEL.search(n) for n, _ in enum.enum)
            elif isinstance(inner, Struct):
                for _, at, m in inner.members:
                    yield from within(m, off + at)
        return within(t, 0)

    def build(self, folder):
        names = sorted(self.functions)
        stub = "volatile int calls;\n" + "".join(f"__attribute__((noinline)) int {n}(void)\n{{\n\tcalls++;\n\treturn 0;\n}}\n" for n in names)
        library = os.path.join(folder, self.library)
        self.run(["cc", "-w", "-O1", "-shared", "-fPIC", "-fno-builtin", f"-Wl,-soname,{self.library}", "-x", "c", "-o", library, "-"], stub)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "arguments.h"), encoding="utf-8") as f:
            text = [self.source(), f.read()]
        for n in names:
            text.append(f"static void call_{n}(void)\n{{\n")
            for i, p in enumerate(self.functions[n]):
                text.append(f"\t{self.parameter(p, f'a{i}')};\n")
            for i, p in enumerate(self.functions[n]):
                t = self.of(p)
                if self.is_buffer(p):
                    text.append(f"\tpointer(&a{i}, {i}, {int(self.is_string(p))}, {int(isinstance(self.behind(t), Pointer))});\n")
                    text += [f"\tselector({i}, {off}, {size}, (const int[]){{{values}}}, {count});\n" for off, size, values, count in self.selectors(self.behind(t))]
                elif isinstance(t, Scalar) and t.enum:
                    values = ", ".join(str(v) for _, v in t.enum)
                    text.append(f"\tenumerator(&a{i}, (const long long[]){{{values}}}, {len(t.enum)});\n")
                elif isinstance(t, Float):
                    text.append(f"\ta{i} = (int)(next() % 2000001 - 1000000) / 64.0;\n")
                else:
                    text.append(f"\tvalue(&a{i}, sizeof(a{i}));\n")
            args = self.functions[n]
            text.append("".join(f"\twrite_arg(&a{i}, sizeof(a{i}), {i if self.is_buffer(p) else -1});\n" for i, p in enumerate(args)))
            text.append(f"\t{n}({', '.join(f'a{i}' for i in range(len(args)))});\n}}\n")
        text.append("int main(int argc, char **argv)\n{\n\tunsigned rounds = atoi(argv[3]);\n\n\tseed = atoi(argv[2]) * 2654435761u + 1;\n\tlog_file = fopen(argv[1], \"w\");\n"
                    "\twhile (rounds--) {\n")
        text += [f"\t\tstart({i});\n\t\tcall_{n}();\n" for i, n in enumerate(names)]
        text.append("\t}\n\treturn fclose(log_file);\n}\n")
        client = os.path.join(folder, "client")
        self.run(["cc", "-w", "-O0", "-I", self.include, self.define, "-x", "c", "-o", client, "-", "-x", "none", library], "".join(text))
        return client

    def log(self, path):
        """[(function, [(bytes of the argument, bytes behind it or None)])]"""
        with open(path, "rb") as f:
            data = f.read()
        at, names, calls = 0, sorted(self.functions), []

        def piece():
            nonlocal at
            size, = WHOLE.unpack_from(data, at)
            at += 4 + size
            return data[at - size:at]
        while at < len(data):
            name = names[WHOLE.unpack(piece())[0]]
            calls.append((name, [(piece(), piece() or None) for _ in self.functions[name]]))
        return calls


# ---- comparing ----

def number(t, raw):
    return int.from_bytes(raw[:t.size], "little", signed=getattr(t, "signed", False))


# Enumerators that count the others, or mark their end: no program passes them.
SENTINEL = re.compile(r"_MAX$|_NUM_(OPTIONS|INPUT_TYPES)$|^nccl([Nn]um|[Mm]ax)|_dummy$")


def each(member, *keys):
    return {k: f"{member}.{k}" for k in keys}


HANDLES = {"OPAQUE_FD": {"fd": "handle.fd"}, "DMABUF_FD": {"fd": "handle.fd"}, "OPAQUE_WIN32": {"win32": "handle.win32"}, "OPAQUE_WIN32_KMT": {"win32": "handle.win32"},
           "D3D12_HEAP": {"win32": "handle.win32"}, "D3D11_RESOURCE_KMT": {"win32": "handle.win32"}, "D3D12_RESOURCE": {"win32": "handle.win32"}, "D3D11_RESOURCE": {"win32": "handle.win32"}, "NVSCIBUF": {"nvSciBufObject": "handle.nvSciBufObject"}}
FENCES = {"OPAQUE_FD": {"fd": "handle.fd"}, "OPAQUE_WIN32": {"win32": "handle.win32"}, "OPAQUE_WIN32_KMT": {"win32": "handle.win32"},
          "D3D11_KEYED_MUTEX": {"win32": "handle.win32"}, "D3D11_KEYED_MUTEX_KMT": {"win32": "handle.win32"}, "D3D12_FENCE": {"win32": "handle.win32"}, "D3D11_FENCE": {"win32": "handle.win32"},
          "NVSCISYNC": {"nvSciSyncObj": "handle.nvSciSyncObj"}, "TIMELINE_SEMAPHORE_FD": {"fd": "handle.fd"}, "TIMELINE_SEMAPHORE_WIN32": {"win32": "handle.win32"}}
# The member of a union that is in use: cuda.h describes it in words, by an enumerator. struct: (selector, prefix of its enumerators,
# {enumerator: {key of the trace: member}}). No keys except those and the struct's own members may be there.
UNIONS = {
    # None: an argument of the call is the selector.
    "CUlaunchAttributeValue": (None, "CU_LAUNCH_ATTRIBUTE_", {name: {"value": member} for name, member in {
        "ACCESS_POLICY_WINDOW": "accessPolicyWindow", "COOPERATIVE": "cooperative", "SYNCHRONIZATION_POLICY": "syncPolicy", "CLUSTER_DIMENSION": "clusterDim",
        "CLUSTER_SCHEDULING_POLICY_PREFERENCE": "clusterSchedulingPolicyPreference", "PROGRAMMATIC_EVENT": "programmaticEvent", "PRIORITY": "priority",
        "PROGRAMMATIC_STREAM_SERIALIZATION": "programmaticStreamSerializationAllowed", "MEM_SYNC_DOMAIN_MAP": "memSyncDomainMap", "MEM_SYNC_DOMAIN": "memSyncDomain",
        "PREFERRED_CLUSTER_DIMENSION": "preferredClusterDim", "LAUNCH_COMPLETION_EVENT": "launchCompletionEvent",
        "DEVICE_UPDATABLE_KERNEL_NODE": "deviceUpdatableKernelNode", "PREFERRED_SHARED_MEMORY_CARVEOUT": "sharedMemCarveout", "NVLINK_UTIL_CENTRIC_SCHEDULING": "nvlinkUtilCentricScheduling"}.items()}),
    "CUDA_RESOURCE_DESC": ("resType", "CU_RESOURCE_TYPE_", {
        "ARRAY": each("res.array", "hArray"), "MIPMAPPED_ARRAY": each("res.mipmap", "hMipmappedArray"),
        "LINEAR": each("res.linear", "devPtr", "format", "numChannels", "sizeInBytes"),
        "PITCH2D": each("res.pitch2D", "devPtr", "format", "numChannels", "width", "height", "pitchInBytes")}),
    "CUDA_EXTERNAL_MEMORY_HANDLE_DESC": ("type", "CU_EXTERNAL_MEMORY_HANDLE_TYPE_", HANDLES),
    "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC": ("type", "CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_", FENCES),
    "CUmemcpy3DOperand": ("type", "CU_MEMCPY_OPERAND_TYPE_", {"POINTER": each("op.ptr", "ptr", "rowLength", "layerHeight", "locHint"), "ARRAY": each("op.array", "array", "offset")}),
    "CUexecAffinityParam": ("type", "CU_EXEC_AFFINITY_TYPE_", {"SM_COUNT": {"smCount": "param.smCount.val"}}),
    "CUgraphNodeParams": ("type", "CU_GRAPH_NODE_TYPE_", {name: {member: member} for name, member in {
        "KERNEL": "kernel", "MEMCPY": "memcpy", "MEMSET": "memset", "HOST": "host", "GRAPH": "graph", "WAIT_EVENT": "eventWait", "EVENT_RECORD": "eventRecord",
        "EXT_SEMAS_SIGNAL": "extSemSignal", "EXT_SEMAS_WAIT": "extSemWait", "MEM_ALLOC": "alloc", "MEM_FREE": "free", "BATCH_MEM_OP": "memOp",
        "CONDITIONAL": "conditional"}.items()}),
    "CUdevResource": ("type", "CU_DEV_RESOURCE_TYPE_", {"SM": each("sm", "smCount", "minSmPartitionSize", "smCoscheduledAlignment")}),
    "CUstreamBatchMemOpParams": ("operation", "CU_STREAM_MEM_OP_", {
        "WAIT_VALUE_32": each("waitValue", "address", "value", "flags"), "WRITE_VALUE_32": each("writeValue", "address", "value", "flags"),
        "WAIT_VALUE_64": {**each("waitValue", "address", "flags"), "value": "waitValue.value64"},
        "WRITE_VALUE_64": {**each("writeValue", "address", "flags"), "value": "writeValue.value64"},
        "FLUSH_REMOTE_WRITES": each("flushRemoteWrites", "flags"), "BARRIER": each("memoryBarrier", "flags")}),
}


def paths(t, path=(), off=0):
    """Yields each member of a struct, also nested ones: names, place, type."""
    for name, at, m in t.members:
        here = path + ((name,) if name else ())
        if name:
            yield here, off + at, m
        if isinstance(m, Struct):
            yield from paths(m, here, off + at)


def called(path, key):
    """Nested members have the names of their path; value64 is a union's other value."""
    names = ["_".join(path[-k:]) for k in range(1, len(path) + 1)]
    return key in names or any(re.fullmatch(key + "(64|_)", n) for n in names)


class Compare:
    def __init__(self, header):
        self.h, self.found, self.compared, self.count = header, [], 0, set()
        self.limits, self.unnamed, self.untyped, self.newer = collections.Counter(), [], [], []
        self.unions, self.chosen = {id(header.of(t)): n for n, t in header.typedefs.items() if n in UNIONS}, collections.Counter()

    def symbols(self, text):
        """The number for a text of names and hexadecimal digits."""
        x = 0
        for word in text.split("|"):
            if re.fullmatch(r"0x[0-9a-f]+", word):
                x |= int(word, 16)
            elif word in self.h.value:
                x |= self.h.value[word]
            else:
                return None
        return x

    def scalar(self, t, raw, got):
        bits = (1 << 8 * t.size) - 1
        x = number(t, raw)
        if isinstance(got, bool):
            return False
        if isinstance(got, int):
            # A number for which the header has a name.
            if got == x:
                self.unnamed += [n for n, v in getattr(t, "enum", None) or () if v == x and not SENTINEL.search(n)][:1]
            elif getattr(t, "enum", None) and got != x and -bits // 2 - 1 <= got <= bits and got & bits == x & bits:
                # A row uses int for an enum: the bits are right, the sign differs from the header's.
                self.untyped.append(got)
                return True
            return got == x
        if got is None:
            return x == 0 and isinstance(t, Pointer)
        if not isinstance(got, str):
            return False
        if t.size == 1 and got == raw[:1].hex():
            return True
        enum = getattr(t, "enum", None)
        if enum and re.fullmatch(r"[A-Za-z]\w*", got) and got not in self.h.value and not any(v == x and not SENTINEL.search(n) for n, v in enum):
            self.newer.append(got)  # an enumerator of a later header, for a number that is unnamed in this one
            return True
        y = self.symbols(got)
        return y is not None and y <= bits and y & bits == x & bits

    def same(self, t, raw, got):
        if isinstance(t, Float):
            x, = struct.unpack("<f" if t.size == 4 else "<d", raw[:t.size])
            if not math.isfinite(x):
                return got is None
            return isinstance(got, (int, float)) and (math.isclose(got, x, rel_tol=1e-5) or abs(got - x) < 1e-40)
        if isinstance(t, (Scalar, Pointer)):
            return self.scalar(t, raw, got)
        if isinstance(t, Array):
            text = raw[:t.size]
            if isinstance(got, str):
                return got == text.hex() or got == text.split(b"\0")[0].decode("utf-8", "replace")
            return isinstance(got, list) and len(got) == t.count and all(self.same(t.of, raw[i * t.of.size:], x) for i, x in enumerate(got))
        if isinstance(t, Struct):
            if len(t.members) == 1 and isinstance(got, int):  # CUexecAffinitySmCount: the wrapped number
                return self.same(t.members[0][2], raw, got)
            if isinstance(got, list):  # dim3 and similar types, in the order of members
                return len(got) == len(t.members) and not t.union and all(self.same(m, raw[o:], x) for (_, o, m), x in zip(t.members, got)) \
                    or t.union and any(self.same(m, raw[o:], got) for _, o, m in t.members)
            if isinstance(got, dict):
                return all(self.member(t, raw, k, v) for k, v in got.items()) and self.selected(t, raw, got)
            return got == raw[:t.size].hex() or t.union and any(self.same(m, raw[o:], got) for _, o, m in t.members)
        return False

    def member(self, t, raw, key, got):
        """For unions that UNIONS lacks, the tracer chooses the member."""
        if key.endswith("_cut") or key == "attrs" or (key == "value" and id(t) in self.unions):
            return True  # selected() checks unions
        named = [(off, m) for path, off, m in paths(t) if called(path, key)]
        if not named and t.union and key == "value":
            return self.same(t, raw, got)
        return any(self.same(m, raw[off:], got) for off, m in named)

    def selected(self, t, raw, got):
        """Whether a union has the member in use, all of it, and no other."""
        name = self.unions.get(id(t))
        if not name:
            return True
        selector, prefix, members = UNIONS[name]
        places = {".".join(path): (off, m) for path, off, m in paths(t)}
        enum, x = self.by_arg if selector is None else (places[selector][1], raw[places[selector][0]:])
        values = {v: n.removeprefix(prefix) for n, v in enum.enum}
        enumerator = values.get(number(enum, x))
        wanted = members.get(enumerator, {})
        own = {n for n, _, m in t.members if n and not (isinstance(m, Struct) and m.union)}
        if t.union:
            own = {selector} - {None}
        cut = len(raw) < t.size
        self.chosen[name, enumerator] += 1
        return cut or {k for k in got if k not in own} == set(wanted) and all(self.same(places[m][1], raw[places[m][0]:], got[k]) for k, m in wanted.items())

    def argument(self, p, raw, behind, got):
        t = self.h.of(p)
        if behind is None:
            return got in (None, "0x0") and not any(raw) if self.h.is_buffer(p) else self.value(t, raw, got)
        to = self.h.of(p.type.type)
        if self.scalar(Pointer(None, 8), raw, got):
            return True  # not opened
        if got is None and 0 in self.count and "const" not in (getattr(p.type.type, "quals", None) or []):
            return True  # an array without elements, which the call would fill
        if self.h.is_string(p):
            return isinstance(got, str) and (got == behind.split(b"\0")[0].decode("utf-8", "replace") or behind.hex().startswith(got))
        if isinstance(to, Pointer) and got in ("behind", None):
            return True
        if to is None:
            return isinstance(got, (list, int, str, dict))  # void *: only the table knows the type
        if not isinstance(got, list) or isinstance(to, Array):
            return self.same(to, behind, got)
        cut = bool(got) and got[-1] == "..."
        got = got[:-1] if cut else got
        if not cut and len(got) not in self.count:
            return False
        return all(self.same(to, behind[i * to.size:], x) for i, x in enumerate(got) if (i + 1) * to.size <= len(behind))

    def beyond(self, params):
        """For each argument, why it may be null although it was passed, by the calling convention of x86-64."""
        registers, stack, buffers, why = 0, 0, 0, {}
        for i, p in enumerate(params):
            t = self.h.of(p) or Pointer(None, 8)
            if self.h.is_buffer(p):
                t = Pointer(None, 8)
                buffers += 1
                if buffers > POINTEES:
                    why[i] = "pointees"
            if isinstance(t, Float):
                why[i] = "float"
            elif not isinstance(t, Struct) and registers < REGISTERS or isinstance(t, Struct) and t.size <= 16 and registers + -(-t.size // 8) <= REGISTERS:
                registers += -(-t.size // 8)
            else:
                stack += -(-t.size // 8)
                why.setdefault(i, "words")
        # Some words on the stack are skipped so that later ones fit.
        return {i: w for i, w in why.items() if w != "words" or REGISTERS + stack > WORDS}

    def value(self, t, raw, got):
        """Compares an argument that is no pointer to known data; types that the header does not lay out are handles."""
        return self.same(t or Pointer(None, 8), raw, got)

    def call(self, name, logged, args):
        params = self.h.functions[name]
        names = [p.name for p in params]
        keys = [k for k in args if not k.endswith("_cut")]
        if keys not in (names, self.h.names.get(name)):
            self.found.append(f"{name}: arguments {keys}, header {self.h.names.get(name, names)}")
            return
        self.count = {number(self.h.of(p), raw) for p, (raw, _) in zip(params, logged) if isinstance(self.h.of(p), Scalar)}
        self.count |= {int.from_bytes(b[:8], "little") for _, b in logged if b} | {int.from_bytes(b[:4], "little") for _, b in logged if b}
        beyond = self.beyond(params)
        for i, (p, key, (raw, behind)) in enumerate(zip(params, keys, logged)):
            self.compared += 1
            if getattr(self.h.of(p), "enum", None):
                self.by_arg = self.h.of(p), raw
            if (args[key] == "..." or args[key] == "" and key + "_cut" in args) and sum(b is not None for _, b in logged[:i]) > 1:
                self.limits["room"] += 1  # 2 KiB for all data behind pointers
            elif args[key] is None and i in beyond and (any(raw) or not self.h.is_buffer(p)):
                self.limits[beyond[i]] += 1
            elif not self.argument(p, raw, behind, args[key]):
                self.found.append(f"{name}: {key} is {json.dumps(args[key])[:200]}, passed {raw.hex()} {(behind or b'')[:64].hex()}")


def compare(header, logged, traced):
    """traced: [(symbol, args)] in the order of calls."""
    c, calls = Compare(header), iter(traced)
    for name, args in logged:
        symbol, got = next(calls, (None, None))
        if symbol != name:
            c.found.append(f"{name} was called, the trace has {symbol}")
            break
        c.call(name, args, got)
    return c


if __name__ == "__main__":
    print("\n".join(sorted(Header(sys.argv[1], "/tmp").functions)))
