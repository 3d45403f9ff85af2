# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Made-up programs with known truth: a plan is drawn, its truth is computed by formulas, and a trace of it is written.

usage: simulate.py SEED    prints the plan and its truth

plan(seed) draws numbers. truth(plan) computes the expected report from the plan alone, never from lines. trace(plan) writes lines.

The program runs `rounds` of workers one after another: a round is one process, a process of threads in step (on one device, or each on a
device of its own), or ranks in step. All workers of a round have the same clock, so what one device executes is known without looking at
lines. The last wait of a program that hangs does not return. A worker's step:

    host:   pause | copy call | launches (or a replay of a graph) | allocations, frees | wait              | pause ...
    GPU:                 [copy........]
                                 [kernels......................]          idle until the next step's first work
                                                                [NCCL]
"""
import json
import random
import sys

CALL, NAP = 4_000, 1_000  # a call, and the host's time between two, ns
QUEUE = 3_000             # from the start of a call to its start on the GPU
MIB = 1 << 20
SHAPES = ["one", "threads", "devices", "ranks", "processes"]
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def plan(seed):
    rng = random.Random(seed)
    shape = rng.choice(SHAPES)
    p = {"seed": seed, "shape": shape, "workers": 1, "rounds": 1, "steps": rng.randrange(12, 60)}
    if shape in ("threads", "devices", "ranks"):
        p["workers"] = rng.randrange(2, 5)
    if shape == "processes":
        p["rounds"] = rng.randrange(2, 4)
    p["how"] = rng.choice(["launches", "launches", "graph"])
    p["launches"] = rng.randrange(3, 20)
    # Longer than a launch takes on the host, so kernels follow each other without gaps.
    p["kernel_ns"] = rng.randrange(CALL + 2 * NAP, 200_000)
    p["pause_ns"] = rng.choice([20_000, 150_000, 900_000])
    p["lag_ns"] = rng.choice([2_000, 7_000])  # from the end on the GPU to the return of the wait
    p["copy"] = rng.random() < 0.7
    # The copy runs `ahead` before the kernels begin, the rest of it beside them.
    p["ahead_ns"] = rng.choice([CALL + NAP, 15_000, 60_000])
    p["beside_ns"] = rng.choice([0, 2_000, 5_000])
    p["blocking_copy"] = rng.choice([0, 0, 25_000])  # a DtoH copy at the end of a step, ns
    p["weights"] = [rng.randrange(1, 64) * MIB for _ in range(rng.randrange(1, 5))]
    p["pinned"] = rng.choice([0, 4 * MIB])
    p["temp"] = rng.choice([0, 2 * MIB])             # allocated and freed in each step
    p["temp_is"] = rng.choice(["device", "pool"])
    p["leak"] = rng.choice([0, 0, 64 << 10])         # allocated in each step and never freed
    p["vmm"] = rng.choice([0, 0, 16 * MIB])          # created, mapped, released; unmapped at the end
    p["host_pool"] = rng.choice([0, 0, 1 << 30])     # of a pool on the host: no device memory
    p["late_ns"] = rng.choice([0, 1_500_000, 4_000_000]) if shape == "ranks" else 0
    p["late_steps"] = rng.randrange(1, p["steps"] // 3) if p["late_ns"] else 0  # the last ones
    p["nccl_ns"] = rng.randrange(20_000, 90_000) if shape == "ranks" else 0
    p["ending"] = rng.choice(["exit", "context"])
    p["hang_ns"] = rng.choice([0, 0, 0, 5_000_000_000]) if p["rounds"] == 1 else 0
    return p


# ---- Lengths that follow from the plan. ----

def host_launch_ns(p):
    """From the first launch's start until the wait may start."""
    n = 1 if p["how"] == "graph" else p["launches"]
    calls = n + (1 if p["nccl_ns"] else 0) + (2 if p["temp"] else 0) + (1 if p["leak"] else 0)
    return calls * (CALL + NAP)


def compute_ns(p):
    return p["launches"] * p["kernel_ns"]


def submit_ns(p):
    """From the step's first call to the first launch: the copy, which runs ahead."""
    return p["ahead_ns"] if p["copy"] else 0


def late_in(p, step):
    return p["late_ns"] if step >= p["steps"] - p["late_steps"] else 0


def late_rank(p):
    return p.get("late_rank", p["workers"] - 1)


def late_of(p, rank, step):
    return late_in(p, step) if rank == late_rank(p) else 0


def nccl_begin(p, rank, step):
    """From the first kernel's start on the GPU, on ranks that are in time, to that of NCCL's kernel: after the others, and after its launch."""
    late, launched = late_of(p, rank, step), host_launch_ns(p) - CALL - NAP
    return max(compute_ns(p), launched) + late if p.get("late_first") else max(compute_ns(p), launched + late)


def gpu_ns(p, step):
    """From the first kernel's start on the GPU to the end of the step's last kernel. NCCL's kernel ends on all ranks at once."""
    return nccl_begin(p, late_rank(p), step) + p["nccl_ns"] if p["nccl_ns"] else compute_ns(p)


def wait_end(p, step):
    """From the step's first call to the wait's return. No wait is shorter than CALL."""
    host = submit_ns(p) + host_launch_ns(p) + late_in(p, step)
    return max(host + CALL, submit_ns(p) + QUEUE + gpu_ns(p, step) + p["lag_ns"])


def step_ns(p, step):
    return wait_end(p, step) + (NAP + p["blocking_copy"] if p["blocking_copy"] else 0) + p["pause_ns"]


def truth(p):
    t = {"errors": 0}
    for part in (truth_of_host, truth_of_gpu, truth_of_memory, truth_of_work):
        part(p, t)
    return t


def runs(p):
    return p["workers"] * p["rounds"]


def truth_of_host(p, t):
    every, naps = range(p["steps"]), bool(p["blocking_copy"])
    t["iterations.count"] = p["steps"]
    # The start of the first step is not planned: the program's start comes before it.
    t["iterations.median_ns"] = sorted(step_ns(p, i) for i in every[1:])[(p["steps"] - 1) // 2]
    hangs = runs(p) if p["hang_ns"] else 0
    t["waits.count"] = runs(p) * p["steps"] * (1 + naps) + hangs
    t["waits.unfinished"] = t["overview.unfinished"] = hangs
    t["hangs"] = bool(hangs)
    sync = sum(wait_end(p, i) - submit_ns(p) - host_launch_ns(p) for i in every)
    t["waits.total_ns"] = runs(p) * (sync + p["steps"] * p["blocking_copy"] + p["hang_ns"]) - p["rounds"] * sum(late_in(p, i) for i in every)
    # Threads in step are in the same calls at the same times, so the trace's time is divided like one worker's.
    if p["shape"] != "ranks":
        t["ratio.sync_ns"] = p["rounds"] * (sync + p["hang_ns"])
        t["ratio.transfer_ns"] = p["rounds"] * p["steps"] * (CALL * p["copy"] + p["blocking_copy"])
        each, nodes = (1, p["launches"]) if p["how"] == "graph" else (p["launches"], 0)
        t["ratio.launch_ns"] = p["rounds"] * (p["steps"] * each + nodes + bool(hangs)) * CALL
    # Idle time visible from the host: from the return of a call that waits for everything to the next call that submits work.
    processes = runs(p) if p["shape"] == "ranks" else p["rounds"]
    t["idle.total_ns"] = processes * ((p["steps"] - (not hangs)) * p["pause_ns"] + naps * p["steps"] * NAP)


def truth_of_gpu(p, t):
    """Threads in step execute the same at the same time, so a device does the work of one worker."""
    every, half = range(p["steps"]), p["blocking_copy"] // 2
    t["gpu.devices"] = p["workers"] if p["shape"] in ("ranks", "devices") else 1
    for d in range(t["gpu.devices"]):
        nccl = sum(gpu_ns(p, i) - nccl_begin(p, d, i) for i in every) if p["nccl_ns"] else 0
        copies = (p["ahead_ns"] + p["beside_ns"]) * p["copy"] + half
        beside = p["beside_ns"] * p["copy"]
        gpu = {"compute_ns": p["rounds"] * (p["steps"] * compute_ns(p) + nccl), "copy_ns": p["rounds"] * p["steps"] * copies,
               "overlap_ns": p["rounds"] * p["steps"] * beside, "communicating_ns": nccl, "alone_ns": nccl}
        gpu["busy_ns"] = gpu["compute_ns"] + gpu["copy_ns"] - gpu["overlap_ns"]
        if p["rounds"] == 1:
            last = p["steps"] - 1
            end = wait_end(p, last) + NAP + p["blocking_copy"] if half else submit_ns(p) + QUEUE + gpu_ns(p, last)
            gpu["span_ns"] = sum(step_ns(p, i) for i in every[:-1]) + end - QUEUE
            gpu["idle_ns"] = gpu["span_ns"] - gpu["busy_ns"]
        for name, value in gpu.items():
            t[f"gpu.{d}.{name}"] = value


def truth_of_memory(p, t):
    """Memory by process: threads share one, ranks live at the same time, those of different rounds do not."""
    together, leaks = p["workers"], p["leak"] * p["steps"]
    # The steps' memory is freed before the step's leak is allocated, and threads hold it at the same time.
    most = max(leaks, leaks - p["leak"] + p["temp"])
    t["memory.peak_bytes"] = together * (sum(p["weights"]) + p["vmm"] + most)
    for d in range(t["gpu.devices"]):
        t[f"memory.device {d}.peak_bytes"] = t["memory.peak_bytes"] // t["gpu.devices"]
    # Memory held by a running process is not a leak.
    ended = 0 if p["hang_ns"] else 1
    t["memory.leak_count"] = ended * runs(p) * (p["steps"] if p["leak"] else 0)
    t["memory.leak_bytes"] = ended * runs(p) * leaks
    t["memory.leaks by " + ("exit" if p["ending"] == "exit" else "context")] = t["memory.leak_bytes"]
    t["memory.host.peak_bytes"] = together * (p["pinned"] + p["host_pool"])
    t["memory.host.live_bytes"] = 0 if ended else t["memory.host.peak_bytes"]
    t["memory.vmm.peak_bytes"] = together * p["vmm"]
    t["memory.vmm.live_bytes"] = 0 if ended else t["memory.vmm.peak_bytes"]
    # A leak is freed with its context; at an exit it still exists.
    left = 0 if ended and p["ending"] == "context" else leaks
    t["memory.device.live_bytes"] = runs(p) * (left + (0 if ended else sum(p["weights"])))
    t["memory.pool.peak_bytes"] = together * (p["temp"] if p["temp_is"] == "pool" else 0)
    in_steps = p["temp"] if p["temp_is"] == "device" else 0
    t["memory.device.alloc_bytes"] = runs(p) * (sum(p["weights"]) + p["steps"] * (p["leak"] + in_steps))
    t["memory.bad_free_count"] = t["memory.unmatched_frees"] = t["memory.unseen_frees"] = 0


def truth_of_work(p, t):
    steps, graph = runs(p) * p["steps"], p["how"] == "graph"
    t["transfers.HtoD.count"] = steps if p["copy"] else 0
    t["transfers.HtoD.bytes"] = t["transfers.HtoD.count"] * MIB
    t["transfers.DtoH.count"] = steps if p["blocking_copy"] else 0
    t["kernels.launches"] = steps * ((0 if graph else p["launches"]) + (1 if p["nccl_ns"] else 0)) + (runs(p) if p["hang_ns"] else 0)
    t["kernels.nodes"] = runs(p) * p["launches"] if graph else 0
    t["graphs.launches"] = steps if graph else 0
    t["graphs.kernels_run"] = steps * p["launches"] if graph else 0
    t["communicators"] = 1 if p["nccl_ns"] else 0
    if p["nccl_ns"]:
        t["collectives.joined"] = p["steps"]
        for r in range(p["workers"]):
            is_late = r == late_rank(p) and p["late_ns"]
            t[f"rank.{r}.late"] = p["late_steps"] if is_late else 0
            t[f"rank.{r}.late_ns"] = p["late_steps"] * p["late_ns"] if is_late else 0
            t[f"rank.{r}.late_max_ns"] = p["late_ns"] if is_late else 0


def said(report, t):
    """The report's value for each number of the truth."""
    its, graphs, memory = report["iterations"], report["graphs"], report["memory"]
    got = {"errors": report["overview"]["errors"], "iterations.count": its["count"], "iterations.median_ns": its["time_ns"]["median"],
           "waits.count": report["waits"]["count"], "waits.total_ns": report["waits"]["total_ns"], "idle.total_ns": report["idle"]["total_ns"],
           "gpu.devices": len(report["gpu"]["devices"]), "kernels.launches": report["kernels"]["launches"], "kernels.nodes": report["kernels"]["nodes"],
           "graphs.launches": graphs["launches"], "graphs.kernels_run": graphs["kernels_run"], "communicators": len(report["communication"]["communicators"])}
    got["waits.unfinished"] = report["waits"].get("unfinished", 0)
    got["overview.unfinished"] = report["overview"]["unfinished"]
    got["hangs"] = report["findings"][:1] != [] and report["findings"][0]["id"] == "unfinished-wait"
    got.update({f"ratio.{name}": value for name, value in report["stages"]["ratio"].items()})
    got.update({f"memory.leaks by {name}": value["bytes"] for name, value in memory["leak_ends"].items()})
    got.update({f"memory.device {d['device']}.peak_bytes": 0 for d in memory["devices"]})
    for d in memory["devices"]:
        got[f"memory.device {d['device']}.peak_bytes"] = max(d["peak_bytes"], got[f"memory.device {d['device']}.peak_bytes"])
    for d in report["gpu"]["devices"]:
        got.update({f"gpu.{d['device']}.{name}": value for name, value in d.items()})
    got.update({f"memory.{name}": value for name, value in memory.items()})
    for k in memory["kinds"]:
        got.update({f"memory.{k['kind']}.{name}": value for name, value in k.items()})
    for x in report["transfers"]["directions"]:
        got.update({f"transfers.{x['direction']}.{name}": value for name, value in x.items()})
    for c in report["communication"]["communicators"]:
        got["collectives.joined"] = c["joined"]
        for r in c["ranks"]:
            got.update({f"rank.{r['rank']}.{name}": value for name, value in r.items()})
    return {name: got.get(name, 0) for name in t}


def differences(p, report):
    """Names of numbers that differ from the truth. Tolerance: the trace's resolution, a nanosecond for each end."""
    t = truth(p)
    got = said(report, t)
    return [f"{name}: the report has {got[name]}, the plan {t[name]}" for name in t if abs(got[name] - t[name]) > (t[name] * 1e-6 if name.endswith("_ns") else 0)]


# ---- The trace. ----

class Trace:
    def __init__(self):
        self.lines, self.ids, self.correlation = [], 0, 0

    def put(self, end, **line):
        self.lines.append((end, len(self.lines), line))

    def call(self, w, begin, took, kind, op, name, **more):
        self.ids += 1
        args = more.pop("args", {})
        self.put(begin + took, ts=begin / 1e6, type=kind, op=op, name=name, symbol=name, pid=w["pid"], tid=w["tid"], comm="sim", id=self.ids,
                 duration_us=took / 1e3, result=0, **more, args=args)
        return self.ids

    def execute(self, w, begin, took, op, call_id, stream, **more):
        self.correlation += 1
        self.put(begin + took + 1_000_000, ts=begin / 1e6, type="gpu", op=op, name=op, pid=w["pid"], tid=w["tid"], comm="sim", duration_us=took / 1e3,
                 device=w["device"], context=1, gpu_stream=stream, correlation=self.correlation, call_id=call_id, **more)


def allocate(t, w, now, size, how):
    ptr = hex(w["next"])
    w["next"] += -(-size // 4096) * 4096
    names = {"device": ("cuMemAlloc", "alloc", {"dptr": ptr, "bytesize": size}, {}),
             "host": ("cuMemHostAlloc", "alloc_host", {"pp": ptr, "bytesize": size, "Flags": 0}, {}),
             "pool": ("cuMemAllocAsync", "alloc_async", {"dptr": ptr, "bytesize": size, "hStream": w["stream"]}, {"stream": w["stream"]}),
             "host_pool": ("cuMemAllocFromPoolAsync", "alloc_async", {"dptr": ptr, "bytesize": size, "pool": "0x7770", "hStream": w["stream"]},
                           {"stream": w["stream"]})}
    name, op, args, more = names[how]
    t.call(w, now, CALL, "memory", op, name, size=size, ptr=ptr, **more, args=args)
    return ptr


def free(t, w, now, ptr, size, how):
    name, op, arg = {"device": ("cuMemFree", "free", "dptr"), "host": ("cuMemFreeHost", "free_host", "p"), "pool": ("cuMemFreeAsync", "free_async", "dptr"),
                     "host_pool": ("cuMemFreeAsync", "free_async", "dptr")}[how]
    more = {"stream": w["stream"]} if "pool" in how else {}
    t.call(w, now, CALL, "memory", op, name, size=size, ptr=ptr, **more, args={arg: ptr, **({"hStream": w["stream"]} if more else {})})


def location(kind):
    return {"type": f"CU_MEM_LOCATION_TYPE_{kind}", "id": 0}


def start(p, t, w, now):
    """Context, streams, memory, the graph. Returns the time after them. Each worker makes the same number of calls."""
    def call(*args, **more):
        nonlocal now
        t.call(w, now, CALL, *args, **more)
        now += CALL + NAP
    context = hex(0x5000 + w["device"])
    call("init", "init", "cuInit", args={"Flags": 0})
    call("context", "retain", "cuDevicePrimaryCtxRetain", args={"pctx": context, "dev": w["device"]})
    call("context", "set", "cuCtxSetCurrent", args={"ctx": context})
    for s in (w["stream"], w["copies"]):
        call("stream", "create", "cuStreamCreate", stream=s, args={"phStream": s, "Flags": "CU_STREAM_NON_BLOCKING"})
    w["blocks"] = []
    for size in p["weights"]:
        w["blocks"].append((allocate(t, w, now, size, "device"), size, "device"))
        now += CALL + NAP
    if p["pinned"]:
        w["blocks"].append((allocate(t, w, now, p["pinned"], "host"), p["pinned"], "host"))
        now += CALL + NAP
    if p["host_pool"]:
        call("memory", "create", "cuMemPoolCreate", args={"pool": "0x7770", "poolProps": {
            "allocType": "CU_MEM_ALLOCATION_TYPE_PINNED", "handleTypes": "CU_MEM_HANDLE_TYPE_NONE", "location": location("HOST")}})
        w["blocks"].append((allocate(t, w, now, p["host_pool"], "host_pool"), p["host_pool"], "host_pool"))
        now += CALL + NAP
    if p["vmm"]:
        handle, ptr = hex(0xabc000 + w["tid"]), hex(w["next"])
        w["next"] += p["vmm"]
        w["mapped"] = ptr
        call("memory", "create", "cuMemCreate", size=p["vmm"], ptr=handle, args={"handle": handle, "size": p["vmm"], "prop": {
            "type": "CU_MEM_ALLOCATION_TYPE_PINNED", "location": {"type": "CU_MEM_LOCATION_TYPE_DEVICE", "id": w["device"]}}, "flags": 0})
        call("memory", "reserve", "cuMemAddressReserve", size=p["vmm"], ptr=ptr, args={"ptr": ptr, "size": p["vmm"], "alignment": 0, "addr": "0x0", "flags": 0})
        call("memory", "map", "cuMemMap", size=p["vmm"], ptr=ptr, args={"ptr": ptr, "size": p["vmm"], "offset": 0, "handle": handle, "flags": 0})
        call("memory", "release", "cuMemRelease", size=p["vmm"], ptr=handle, args={"handle": handle})
    if p["nccl_ns"]:
        call("collective", "init", "ncclCommInitRank", api="nccl", communicator="0xc0", rank=w["rank"], nranks=p["workers"],
             args={"comm": "0xc1", "nranks": p["workers"], "rank": w["rank"]})
    if p["how"] == "graph":
        graph, w["exec"] = hex(0x6000 + w["tid"]), hex(0x8000 + w["tid"])
        call("graph", "capture_begin", "cuStreamBeginCapture", stream=w["stream"], args={"hStream": w["stream"], "mode": "CU_STREAM_CAPTURE_MODE_GLOBAL"})
        for i in range(p["launches"]):
            call("kernel", "launch", "cuLaunchKernel", stream=w["stream"], kernel=f"k{i % 3}", grid=[8, 1, 1], block=[128, 1, 1], shared_mem=0, capturing=True,
                 args={"hStream": w["stream"]})
        call("graph", "capture_end", "cuStreamEndCapture", stream=w["stream"], args={"hStream": w["stream"], "phGraph": graph})
        call("graph", "instantiate", "cuGraphInstantiateWithFlags", args={"phGraphExec": w["exec"], "hGraph": graph, "flags": 0})
    return now + p["pause_ns"]


def step(p, t, w, begin, i):
    late = late_of(p, w["rank"], i)
    now, first = begin, begin + submit_ns(p) + QUEUE
    gpu = first
    if p.get("late_first"):  # late before its first call, not before the collective
        now, gpu, late = now + late, gpu + late, 0
    if p["copy"]:
        c = t.call(w, now, CALL, "transfer", "copy", "cuMemcpyHtoDAsync", size=MIB, ptr=w["blocks"][0][0], stream=w["copies"], direction="HtoD",
                   args={"dstDevice": w["blocks"][0][0], "srcHost": "0x55550000", "ByteCount": MIB, "hStream": w["copies"]})
        t.execute(w, now + QUEUE, p["ahead_ns"] + p["beside_ns"], "copy", c, 2, size=MIB, direction="HtoD")
        now += submit_ns(p)
    if p["how"] == "graph":
        c = t.call(w, now, CALL, "graph", "launch", "cuGraphLaunch", stream=w["stream"], args={"hGraphExec": w["exec"], "hStream": w["stream"]})
        t.execute(w, gpu, compute_ns(p), "graph", c, 1)
        now += CALL + NAP
    else:
        for k in range(p["launches"]):
            c = t.call(w, now, CALL, "kernel", "launch", "cuLaunchKernel", stream=w["stream"], kernel=f"k{k % 3}", grid=[8, 1, 1], block=[128, 1, 1], shared_mem=0,
                       args={"hStream": w["stream"]})
            t.execute(w, gpu + k * p["kernel_ns"], p["kernel_ns"], "kernel", c, 1, kernel=f"k{k % 3}")
            now += CALL + NAP
    if p["temp"]:
        ptr = allocate(t, w, now, p["temp"], p["temp_is"])
        free(t, w, now + CALL + NAP, ptr, p["temp"], p["temp_is"])
        now += 2 * (CALL + NAP)
    if p["leak"]:
        allocate(t, w, now, p["leak"], "device")
        now += CALL + NAP
    if p["nccl_ns"]:
        now += late
        t.ids += 1
        outer = t.ids
        c = t.call(w, now + 1000, 2000, "kernel", "launch", "cuLaunchKernel", parent=outer, depth=1, api_depth=0, stream=w["stream"], kernel=NCCL, grid=[8, 1, 1],
                   block=[512, 1, 1], shared_mem=0, args={"hStream": w["stream"]})
        t.put(now + CALL, ts=now / 1e6, type="collective", op="all_reduce", name="ncclAllReduce", symbol="ncclAllReduce", api="nccl", pid=w["pid"], tid=w["tid"],
              comm="sim", id=outer, duration_us=CALL / 1e3, result=0, stream=w["stream"], count=MIB, datatype="float32", redop="sum", bytes=4 * MIB,
              communicator="0xc0", rank=w["rank"], nranks=p["workers"], seq=i + 1, args={})
        end, nccl = first + gpu_ns(p, i), first + nccl_begin(p, w["rank"], i)
        t.execute(w, nccl, end - nccl, "kernel", c, 1, kernel=NCCL)
        now += CALL + NAP
    end = begin + wait_end(p, i)
    t.call(w, now, end - now, "sync", "sync", "cuCtxSynchronize")
    if p["blocking_copy"]:
        end += NAP
        c = t.call(w, end, p["blocking_copy"], "transfer", "copy", "cuMemcpyDtoH", size=4096, ptr="0x55560000", direction="DtoH",
                   args={"dstHost": "0x55560000", "srcDevice": w["blocks"][0][0], "ByteCount": 4096})
        half = p["blocking_copy"] // 2
        t.execute(w, end + p["blocking_copy"] - half, half, "copy", c, 3, size=4096, direction="DtoH")


def hang(p, t, w, now):
    t.call(w, now, CALL, "kernel", "launch", "cuLaunchKernel", stream=w["stream"], kernel="endless", grid=[8, 1, 1], block=[128, 1, 1], shared_mem=0,
           args={"hStream": w["stream"]})
    now += CALL + NAP
    t.ids += 1
    t.put(now + p["hang_ns"], ts=now / 1e6, type="sync", op="sync", name="cuCtxSynchronize", symbol="cuCtxSynchronize", pid=w["pid"], tid=w["tid"], comm="sim",
          id=t.ids, unfinished=True, elapsed_us=p["hang_ns"] / 1e3, args={})
    return now + p["hang_ns"]


def finish(p, t, w, now):
    for ptr, size, how in w["blocks"]:
        free(t, w, now, ptr, size, how)
        now += CALL + NAP
    if p["vmm"]:
        t.call(w, now, CALL, "memory", "unmap", "cuMemUnmap", size=p["vmm"], ptr=w["mapped"], args={"ptr": w["mapped"], "size": p["vmm"]})
        now += CALL + NAP
        t.call(w, now, CALL, "memory", "unreserve", "cuMemAddressFree", size=p["vmm"], ptr=w["mapped"], args={"ptr": w["mapped"], "size": p["vmm"]})
        now += CALL + NAP
    return now


def trace(p):
    t, now = Trace(), 1_000_000
    pids, known = [], set()
    for r in range(p["rounds"]):
        workers = []
        for i in range(p["workers"]):
            pid = 1000 * (r + 1) + (100 * i if p["shape"] == "ranks" else 0)
            tid = pid + (0 if p["shape"] == "ranks" else i)
            device = i if p["shape"] in ("ranks", "devices") else 0
            workers.append({"pid": pid, "tid": tid, "device": device, "rank": i, "stream": hex(0x100 * (i + 1)), "copies": hex(0x100 * (i + 1) + 0x10),
                            "next": 0x7f0000000000 + (i << 38)})
            if pid not in pids:
                pids.append(pid)
                t.put(now, ts=now / 1e6, type="process", op="exec", name="exec", pid=pid, tid=pid, comm="sim")
            if (pid, device) not in known:
                known.add((pid, device))
                t.put(now, ts=now / 1e6, type="gpu_device", op="device", name="device", pid=pid, tid=pid, comm="", device=device,
                      uuid=f"GPU-{device:08x}-0000-0000-0000-000000000000", pci=f"0000:0{device}:00.0", model="NVIDIA H100 80GB HBM3", capability=90,
                      multiprocessors=132, clock_khz=1980000)
        begin = max([start(p, t, w, now) for w in workers])
        for i in range(p["steps"]):
            for w in workers:
                step(p, t, w, begin, i)
            begin += step_ns(p, i)
        now = max([(hang if p["hang_ns"] else finish)(p, t, w, begin) for w in workers])
        for pid in [] if p["hang_ns"] else sorted({w["pid"] for w in workers}):
            if p["ending"] == "context":
                for w in {w["device"]: w for w in workers if w["pid"] == pid}.values():
                    t.call(w, now, CALL, "context", "reset", "cuDevicePrimaryCtxReset", args={"dev": w["device"]})
            t.put(now + 2 * CALL, ts=(now + 2 * CALL) / 1e6, type="process", op="exit", name="exit", pid=pid, tid=pid, comm="sim", exit_code=0)
        now += 0 if p["hang_ns"] else 3 * CALL + p["pause_ns"]
    lines = [x for _, _, x in sorted(t.lines, key=lambda x: x[:2])]
    events = {}
    for x in lines:
        events[x["type"]] = events.get(x["type"], 0) + 1
    entries, unfinished = sum(1 for x in lines if "id" in x), sum(1 for x in lines if "unfinished" in x)
    head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["sim", str(p["seed"])], "host": "sim", "kernel": "6.1",
            "machine": "x86_64", "mechanism": "uprobe.session", "gpu_time": "graphs", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9,
            "wall_time": "2026-01-01T00:00:00.000000000Z"}
    tail = {"ts": now / 1e6, "type": "end", "name": "cudatrace", "reason": "command exited", "events": events, "calls": entries,
            "entries": entries, "drops": {"calls": 0}, "bad_records": 0, "unfinished": unfinished, "abandoned": 0, "filtered": 0, "wall_ms": now / 1e6}
    return [head, *lines, tail]


def main():
    p = plan(int(sys.argv[1]))
    if "--trace" in sys.argv:
        for line in trace(p):
            print(json.dumps(line))
        return
    print(json.dumps(p, indent=1))
    print(json.dumps(truth(p), indent=1))


if __name__ == "__main__":
    main()
