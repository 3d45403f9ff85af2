#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""usage: made.py TRACE MADE: a trace with what the recorded one lacks: two threads, streams, stacks, failed, captured, nested and
unfinished calls, copies that block, a graph, ioctls in and outside of calls, and what they told the scheduler."""
import collections
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    lines = [json.loads(line) for line in f]
head, end = lines[0], lines[-1]
head.update(kernel_probe="kprobe.multi", stacks="sync, transfer")
made, ids = [], 0


def add(ts, tid=10, us=2.0, **more):
    global ids
    ids += 1
    symbol = {"symbol": more["name"], "id": ids, "result": 0, "args": {}} if more.pop("is_call", True) else {}
    made.append({"ts": ts, "pid": 10, "tid": tid, "comm": "made", "duration_us": us, **symbol, **more})
    return ids


def launch(ts, tid, kernel, **more):
    add(ts, tid, type="kernel", op="launch", name="cuLaunchKernel", stream=f"0x{tid}", kernel=kernel, func="0x1", grid=[1, 1, 1],
        block=[1, 1, 1], shared_mem=0, **more)


for number, frames in ((1, [{"ip": "0x10", "module": "/lib/app", "offset": "0x10", "symbol": "wait+0x1"}, {"ip": "0x99"}]),
                       (2, [{"ip": "0x20", "module": "/lib/app", "offset": "0x20"}])):
    made.append({"ts": 0.5, "type": "stack", "op": "stack", "name": "stack", "pid": 10, "tid": 10, "comm": "made", "id": number,
                 "frames": frames})
alloc = add(1.0, type="memory", op="alloc", name="cuMemAlloc", size=4096, ptr="0x1000", us=90.0)
for after, name, own in ((0.01, "NV_ESC_RM_ALLOC", True), (0.02, "NVA06C_CTRL_CMD_SET_TIMESLICE", True), (0.03, "NV_ESC_RM_FREE", False)):
    inside = {"call_id": alloc, "call": "cuMemAlloc"} if own else {}
    add(1 + after, type="kernel", op="ioctl", name=name, device="nvidiactl", fd=8, result=0, status="NV_OK", is_call=False, **inside)
made.append({"ts": 1.02, "type": "scheduler", "op": "timeslice", "name": "NVA06C_CTRL_CMD_SET_TIMESLICE", "pid": 10, "tid": 10,
             "comm": "made", "device": "nvidiactl", "meaning": "m", "status": "NV_OK", "call_id": alloc, "call": "cuMemAlloc"})
add(2.0, type="transfer", op="copy", name="cuMemcpyHtoD", direction="HtoD", size=4096, ptr="0x1000", us=50.0, stack=1)
launch(2.5, 10, "first")
add(2.6, type="sync", op="sync", name="cuCtxSynchronize", stack=2)
for step in range(4):
    for n in range(12):
        launch(3 + step + n / 100, 10, f"k{n % 3}")
        launch(3.005 + step + n / 100, 11, "other")
    launch(3.20 + step, 10, "failed", error="CUDA_ERROR_INVALID_VALUE")
    made[-1]["result"] = 1
    launch(3.21 + step, 10, "captured", capturing=True)
    outer = add(3.30 + step, type="memory", op="free", name="cuMemFree", us=40.0)
    add(3.31 + step, type="sync", op="sync", name="cuCtxSynchronize", depth=1, parent=outer, stack=1, us=5.0)
    collective = add(3.32 + step, type="collective", op="group_end", name="ncclGroupEnd", api="nccl", us=30.0)
    add(3.325 + step, type="sync", op="sync", name="cuStreamSynchronize", depth=1, api_depth=0, parent=collective, stack=1, us=4.0)
    add(3.40 + step, tid=11, type="sync", op="sync", name="cuStreamSynchronize", stream="0x11", stack=2 - step % 2, us=30.0)
    add(3.50 + step, tid=10, type="sync", op="sync", name="cuStreamSynchronize", stream="0x10", us=20.0)
    add(3.55 + step, tid=10, type="sync", op="sync", name="cuCtxSynchronize", us=1.0)
add(8.0, type="graph", op="launch", name="cuGraphLaunch", stream="0x10")
add(8.1, type="transfer", op="copy", name="cuMemcpyDtoHAsync", direction="DtoH", size=8, ptr="0x1", stream="0x12", stack=1)
add(8.2, type="sync", op="sync", name="cuStreamSynchronize", stream="0x10")
add(8.3, type="memory", op="free", name="cuMemFree")
add(8.4, tid=11, type="sync", op="sync", name="cuCtxSynchronize", unfinished=True, elapsed_us=9.0)
del made[-1]["duration_us"], made[-1]["result"]
end.update(ts=9.0, wall_ms=9.0, calls=sum("symbol" in e for e in made), unfinished=1, entries=sum("symbol" in e for e in made),
           events=dict(collections.Counter(e["type"] for e in made)))
with open(sys.argv[2], "w", encoding="utf-8") as f:
    f.writelines(json.dumps(e) + "\n" for e in [head, *made, end])
