# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The memory section, recomputed: every allocation of a process is a row of a dictionary until it is freed.

For complete traces only: after a loss it is unknown which memory was freed. CUDA's behaviour is from cuda.h: cuMemRelease of mapped
memory frees it with the last mapping. A context's memory goes with it, but not that of cuMemCreate and of pools. A captured
allocation is a node.
"""
import collections

ON_GPU = "device", "array", "vmm", "pool"
OF_CONTEXT = "device", "host", "managed", "array", "registered"
MAKES = {"alloc": "device", "alloc_pitch": "device", "alloc_host": "host", "alloc_managed": "managed", "alloc_async": "pool", "create": "vmm",
         "reserve": "reserved", "register": "registered", "alloc_array": "array"}
FREES = "free", "free_host", "free_async", "free_array", "release", "unreserve", "unregister"
BY_HANDLE = "create", "release", "alloc_array", "free_array"


class Block:
    def __init__(self, call, kind, size, born):
        self.call, self.kind, self.size, self.born = call, kind, size, born
        self.refs, self.maps, self.counted = 1, 0, False


class Process:
    def __init__(self):
        self.addresses, self.handles, self.mapped, self.pools, self.by_thread, self.contexts = {}, {}, {}, {}, {}, {}


class Ledger:
    def __init__(self):
        self.processes = collections.defaultdict(Process)
        self.live, self.peak = collections.Counter(), collections.Counter()
        self.allocs, self.frees, self.bytes, self.left = (collections.Counter() for _ in range(4))
        self.device_live = self.device_peak = 0
        self.of_process, self.peak_of_process = collections.Counter(), collections.Counter()
        self.sizes, self.size_bytes = collections.Counter(), collections.Counter()
        self.leaks, self.failed, self.unmatched, self.unsure = [], [], 0, None

    def charge(self, pid, b):
        b.counted = True
        self.live[b.kind] += b.size
        self.peak[b.kind] = max(self.peak[b.kind], self.live[b.kind])
        if b.kind in ON_GPU:
            self.device_live += b.size
            self.device_peak = max(self.device_peak, self.device_live)
            self.of_process[pid] += b.size
            self.peak_of_process[pid] = max(self.peak_of_process[pid], self.of_process[pid])

    def discharge(self, pid, b):
        if b.counted:
            b.counted = False
            self.live[b.kind] -= b.size
            if b.kind in ON_GPU:
                self.device_live -= b.size
                self.of_process[pid] -= b.size

    def make(self, c, p):
        kind, args = MAKES[c["op"]], c["args"]
        if c["op"] == "create" and c["name"] != "cuMemCreate":
            return
        where = args.get("prop", {}).get("location", {}) if c["name"] == "cuMemCreate" else {}
        if "HOST" in str(where.get("type")):
            kind = "host"
        elif "pool" in args:
            kind = p.pools.get(args["pool"], kind)
        if c.get("result"):
            self.failed.append(c)
            return
        table = p.handles if c["op"] in BY_HANDLE else p.addresses
        if c.get("ptr") in table:
            self.unsure = f"{c['name']} {c['id']} gave a live address"
            return
        b = table[c["ptr"]] = Block(c, kind, c.get("size", 0), c["tid"])
        b.context = p.by_thread.get(c["tid"]) or (next(iter(p.contexts)) if len(p.contexts) == 1 else None)
        self.allocs[kind] += 1
        self.bytes[kind] += b.size
        if kind != "reserved" and "size" in c:
            self.sizes[1 << b.size.bit_length() if b.size else 1] += 1
            self.size_bytes[1 << b.size.bit_length() if b.size else 1] += b.size
        self.charge(c["pid"], b)

    def free(self, c, p):
        key, table = c.get("ptr"), p.handles if c["op"] in BY_HANDLE else p.addresses
        if c.get("result") or key is None or int(key, 16) == 0:
            return
        b = table.get(key)
        if not b:
            self.unmatched += 1
            return
        self.frees[b.kind] += 1
        b.refs -= 1
        if not b.refs:
            del table[key]
            if not b.maps:
                self.discharge(c["pid"], b)

    def unmap(self, pid, p, ptr):
        b = p.mapped.pop(ptr)[1]
        if b:
            b.maps -= 1
            if not b.maps and not b.refs:
                self.discharge(pid, b)

    def memory(self, c, p):
        if c["op"] in MAKES and c["type"] == "memory":
            self.make(c, p)
        elif c["op"] in FREES:
            self.free(c, p)
        if c.get("result"):
            return
        if c["name"] == "cuMemMap":
            b = p.handles.get(c["args"]["handle"])
            p.mapped[c["ptr"]] = c["size"], b
            if b:
                b.maps += 1
        elif c["name"] == "cuMemUnmap":
            at, end = int(c["ptr"], 16), int(c["ptr"], 16) + c["size"]
            for ptr in [x for x in p.mapped if at <= int(x, 16) < end]:
                self.unmap(c["pid"], p, ptr)
        elif c["name"] == "cuMemPoolCreate":
            p.pools[c["args"]["pool"]] = "host" if "HOST" in c["args"]["poolProps"]["location"]["type"] else "pool"
        elif c["name"] == "cuMemRetainAllocationHandle":
            b = p.handles.get(c["args"]["handle"])
            if b:
                b.refs += 1
            else:
                self.unsure = "a released handle is retained"

    def gone(self, pid, p, end, context=None):
        for ptr in list(p.mapped) if context is None else ():
            b = p.mapped[ptr][1]
            if b and b.maps == 1 and not b.refs:
                self.leak(pid, b, end)
                self.left[b.kind] += b.size
            self.unmap(pid, p, ptr)
        for table in (p.addresses, p.handles):
            for key in list(table):
                b = table[key]
                if context is not None and (b.context != context or b.kind not in OF_CONTEXT):
                    continue
                del table[key]
                self.leak(pid, b, end)
                self.left[b.kind] += b.size if context is None else 0
                b.refs = 0
                if not b.maps:
                    self.discharge(pid, b)

    def leak(self, pid, b, end):
        if b.kind not in ("reserved", "ipc"):
            self.leaks.append((pid, b, end))

    def context(self, c, p):
        args = c["args"]
        if c["name"] in ("cuDevicePrimaryCtxRetain", "cuCtxCreate"):
            p.contexts.setdefault(args["pctx"], {"device": args["dev"], "refs": 0})["refs"] += 1
            if c["name"] == "cuCtxCreate":
                p.by_thread[c["tid"]] = args["pctx"]
        elif c["name"] == "cuCtxSetCurrent":
            p.by_thread[c["tid"]] = args["ctx"]
        elif c["name"] in ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRelease"):
            for handle, x in p.contexts.items():
                if x["device"] == args["dev"]:
                    x["refs"] -= 1
                    if x["refs"] <= 0 or c["name"] == "cuDevicePrimaryCtxReset":
                        self.gone(c["pid"], p, "context", handle)
        elif c["op"] in ("destroy", "push", "pop", "create", "detach", "attach"):
            self.unsure = f"{c['name']}: contexts that this reader does not follow"

    def read(self, lines):
        for c in lines:
            p = self.processes[c.get("pid")]
            if c["type"] == "process" and c["op"] in ("exit", "exec"):
                self.gone(c["pid"], p, c["op"])
                self.processes[c["pid"]] = Process()
            if "duration_us" not in c or c.get("abandoned") or c.get("capturing"):
                continue
            if c["type"] == "memory":
                self.memory(c, p)
            elif c["type"] == "context" and not c.get("result"):
                self.context(c, p)
            elif c["type"] == "interop" or (c["name"].startswith("cuIpc") and c["op"] != "get"):
                self.unsure = c["name"]


def check(o, d, lines, report):
    """Returns the reason if the memory cannot be computed."""
    ledger, section = Ledger(), report["memory"]
    if not report["complete"] or section["late_frees"] or section["unseen_frees"]:
        return "incomplete"
    ledger.read(lines)
    if ledger.unsure or any("import" == c.get("op") for c in lines):
        return ledger.unsure or "memory of others"
    for row in section["kinds"]:
        k = row["kind"]
        d.same(f"memory.{k}.allocs", row["allocs"], ledger.allocs[k])
        d.same(f"memory.{k}.frees", row["frees"], ledger.frees[k])
        d.same(f"memory.{k}.alloc_bytes", row["alloc_bytes"], ledger.bytes[k])
        d.same(f"memory.{k}.peak_bytes", row["peak_bytes"], ledger.peak[k])
        d.same(f"memory.{k}.live_bytes", row["live_bytes"], ledger.live[k] + ledger.left[k])
    d.law(f"memory.kinds: {set(ledger.allocs)} have no row", set(ledger.allocs) <= {row["kind"] for row in section["kinds"]})
    d.same("memory.peak_bytes", section["peak_bytes"], ledger.device_peak)
    for row in section["devices"]:
        if sum(x["pid"] == row["pid"] for x in section["devices"]) == 1:
            d.same(f"memory.devices.{row['pid']}.peak_bytes", row["peak_bytes"], ledger.peak_of_process[row["pid"]])
    for row in section["sizes"]:
        d.same(f"memory.sizes.{row['below']}.count", row["count"], ledger.sizes[row["below"]])
        d.same(f"memory.sizes.{row['below']}.bytes", row["bytes"], ledger.size_bytes[row["below"]])
    d.same("memory.unmatched_frees", section["unmatched_frees"], ledger.unmatched)
    if section["too_late_frees"]:
        return None
    d.same("memory.leak_count", section["leak_count"], len(ledger.leaks))
    d.same("memory.leak_bytes", section["leak_bytes"], sum(b.size for _, b, _ in ledger.leaks))
    for end, row in section["leak_ends"].items():
        d.same(f"memory.leak_ends.{end}.count", row["count"], sum(1 for x in ledger.leaks if x[2] == end))
        d.same(f"memory.leak_ends.{end}.bytes", row["bytes"], sum(b.size for _, b, e in ledger.leaks if e == end))
    for row, size in zip(section["leaks"], sorted((b.size for _, b, _ in ledger.leaks), reverse=True)):
        d.same("memory.leaks.size", row["size"], size)
    ids = {(pid, b.call["id"]) for pid, b, _ in ledger.leaks}
    for row in section["leaks"]:
        d.law(f"memory.leaks: call {row['id']} leaks nothing", (row["pid"], row["id"]) in ids)
    if "failed_allocs" in section:
        d.same("memory.failed_allocs.count", section["failed_allocs"]["count"], len(ledger.failed))
        d.same("memory.failed_allocs.largest", section["failed_allocs"]["largest"], max(c.get("size", 0) for c in ledger.failed))
        d.same("memory.failed_allocs.first_ts", section["failed_allocs"]["first_ts"], min(c["ts"] for c in ledger.failed), 1e-6)
    else:
        d.law("memory.failed_allocs: an allocation failed", not ledger.failed)
    return None
