# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""The section failure: failures planted in traces and in the mock driver must be explained, and healthy traces must have none. Suspects and
held memory are recomputed by tests/oracle/failure.py."""
import glob
import json
import os
import re
import sys

import pytest
from helpers.run import FAKE, O, TESTS, Ran, cudatrace

sys.path.insert(0, TESTS + "/oracle")
import oracle  # noqa: E402

PID = 4000
CORPUS = {os.path.basename(x).split(".")[0]: x for x in sorted(glob.glob(TESTS + "/corpus/*.jsonl.zst"))}
BLOCK = 0x7f055e000000
FAULT = ("pid={pid}, name=planted, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x{high:x}_{low:08x}. "
         "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE")


class Program:
    """The lines of a trace of a program from its start; times in us."""

    def __init__(self):
        self.lines, self.now, self.id = [], 1000, 0
        self.lines.append({"ts": 0.5, "type": "process", "op": "exec", "name": "exec", "pid": PID, "tid": PID, "comm": "planted"})
        self.add("init", "init", "cuInit", args={"Flags": 0})
        self.add("context", "retain", "cuDevicePrimaryCtxRetain", args={"pctx": "0xc000", "dev": 0})
        self.add("context", "set", "cuCtxSetCurrent", args={"ctx": "0xc000"})

    def add(self, kind, op, name, us=10, result=0, error=None, **more):
        self.id += 1
        done = {} if "unfinished" in more else {"duration_us": us, "result": result, **({"error": error} if error else {})}
        self.lines.append({"ts": self.now / 1e3, "type": kind, "op": op, "name": name, "symbol": name, "pid": PID, "tid": PID, "comm": "planted", "id": self.id, **done, **more})
        self.now += us

    def launch(self, kernel, stream="0x10", **params):
        self.add("kernel", "launch", "cuLaunchKernel", stream=stream, kernel=kernel, func="0x5", grid=[64, 1, 1], block=[128, 1, 1], shared_mem=0, **params,
                 args={"hStream": stream})

    def sync(self, result=0, error=None):
        self.add("sync", "sync", "cuCtxSynchronize", 100, result, error, args={})

    def alloc(self, ptr, size):
        self.add("memory", "alloc", "cuMemAlloc", ptr=hex(ptr), size=size, args={"dptr": hex(ptr), "bytesize": size})

    def free(self, ptr):
        self.add("memory", "free", "cuMemFree", ptr=hex(ptr), args={"dptr": hex(ptr)})

    def xid(self, number, message):
        self.lines.append({"ts": self.now / 1e3, "type": "xid", "op": "xid", "name": "xid", "pid": PID, "tid": PID, "comm": "planted", "xid": number, "gpu": "PCI:0000:3b:00",
                           "message": message})

    def gpu_load(self, busy, **busy_of):
        """NVML's sample of the time in which kernels ran, %; of processes by name."""
        for i, (name, n) in enumerate(busy_of.items()):
            pid = PID if name == "planted" else PID + 1 + i
            self.lines.append({"ts": self.now / 1e3, "type": "gpu_stats", "op": "process", "name": "NVML", "pid": pid, "tid": pid, "comm": name, "gpu": 0, "sm_util": n})
        self.lines.append({"ts": self.now / 1e3, "type": "gpu_stats", "op": "sample", "name": "NVML", "gpu": 0, "util": busy})

    def gpu_sample(self, total, **held):
        """NVML's processes, by name, and its device."""
        for name, n in held.items():
            pid = PID if name == "planted" else PID + 1 + list(held).index(name)
            self.lines.append({"ts": self.now / 1e3, "type": "gpu_stats", "op": "process", "name": "NVML", "pid": pid, "tid": pid, "comm": name, "gpu": 0, "memory_used": n})
        used = sum(held.values())
        self.lines.append({"ts": self.now / 1e3, "type": "gpu_stats", "op": "sample", "name": "NVML", "gpu": 0, "memory_used": used, "memory_free": total - used})
        self.now += 1

    def fault_at(self, address):
        self.xid(31, FAULT.format(pid=PID, high=address >> 32, low=address & 0xffffffff))

    def hang(self, name="cuCtxSynchronize", **more):
        self.add("sync", "sync", name, 5_000_000, unfinished=True, elapsed_us=5_000_000, **more)

    def write(self, path):
        head = {"ts": 0, "type": "header", "name": "cudatrace", "schema": 2, "version": "0", "command": ["planted"], "host": "h", "kernel": "6.1", "machine": "x86_64",
                "mechanism": "uprobe.session", "degraded": [], "clock": "CLOCK_MONOTONIC", "clock_base_ns": 10**9, "wall_time": "2026-01-01T00:00:00.000000000Z"}
        counts = {}
        for x in self.lines:
            counts[x["type"]] = counts.get(x["type"], 0) + 1
        tail = {"ts": self.now / 1e3, "type": "end", "name": "cudatrace", "reason": "command exited", "events": counts, "calls": self.id, "entries": self.id, "drops": {"calls": 0},
                "bad_records": 0, "unfinished": sum("unfinished" in x for x in self.lines), "abandoned": 0, "filtered": 0, "wall_ms": self.now / 1e3}
        path.write_text("".join(json.dumps(x) + "\n" for x in [head, *self.lines, tail]), encoding="utf-8")
        return path


def report(path):
    ran = cudatrace("report", "-q", "--json", path)
    assert ran.status == 0, ran
    return json.loads(ran.out)


def started():
    """A program that has allocated a block and run a kernel to its end."""
    p = Program()
    p.alloc(BLOCK, 64 << 20)
    p.launch("warm_up(float*)")
    p.sync()
    return p


def fault(code, error, address=None, before=None):
    def plant():
        p = started()
        if before:
            before(p)
        p.launch("bad(float*)")
        if address is not None:
            p.fault_at(address)
        p.sync(code, error)
        return p
    return plant


def endless():
    p = started()
    p.launch("bad(float*)")
    p.hang(args={})
    return p


def late(*found, hangs=False, synced=False):
    """A program that is older than the trace, which has these lookups of kernels."""
    def plant():
        p = Program()
        p.lines.clear()
        if synced:
            p.sync()
        for kernel, stream in ("other()", "0x20"), ("bad(float*)", "0x10"), ("other()", "0x10"):
            if kernel in found:
                p.add("module", "lookup", "cuModuleGetFunction", kernel=kernel, args={"hfunc": "0x5", "hmod": "0x6", "name": kernel})
            p.launch(kernel, stream)
        if hangs:
            p.hang(args={})
        else:
            p.sync(*ILLEGAL)
        return p
    return plant


def flag_of_the_host():
    p = started()
    p.add("stream", "memop", "cuStreamWaitValue32", stream="0x10", args={"stream": "0x10"})
    p.hang(args={})
    return p


def event_never_recorded():
    p = started()
    p.hang("cuEventSynchronize", event="0xe1", args={"hEvent": "0xe1"})
    return p


def out_of_memory():
    p = started()
    p.alloc(BLOCK + (1 << 30), 32 << 20)
    p.add("memory", "alloc", "cuMemAlloc", 10, 2, "CUDA_ERROR_OUT_OF_MEMORY", size=1 << 40, args={"bytesize": 1 << 40})
    return p


def out_of_memory_by_others(*samples):
    def plant():
        p = started()
        for x in samples:
            p.gpu_sample(80 << 30, **x)
        p.add("memory", "alloc", "cuMemAlloc", 10, 2, "CUDA_ERROR_OUT_OF_MEMORY", size=8 << 30, args={"bytesize": 8 << 30})
        return p
    return plant


def steps(kept):
    """Steps with a launch, a wait and an allocation, which is freed unless kept(step)."""
    p = started()
    for i in range(40):
        at = BLOCK + (1 << 30) + i * (8 << 20)
        p.alloc(at, 4 << 20)
        p.launch("step(float*)")
        p.launch("update(float*)")
        p.sync()
        if not kept(i):
            p.free(at)
    p.add("memory", "alloc", "cuMemAlloc", 10, 2, "CUDA_ERROR_OUT_OF_MEMORY", size=1 << 40, args={"bytesize": 1 << 40})
    return p


def broken_hardware():
    p = started()
    p.xid(79, "GPU has fallen off the bus.")
    return p


def healthy_beside(p):
    """A kernel that has completed before is submitted again before the bad one."""
    p.launch("other()", "0x20")
    p.sync()
    p.launch("other()", "0x20")


ILLEGAL = (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
# What is planted; kind, whether it is certain, the first suspect, the state of the memory, words of the verdict.
PLANTED = {
    "use after free": (fault(*ILLEGAL, BLOCK + (4 << 20), lambda p: p.free(BLOCK)), "fault", True, "bad(float*)", "freed", "which cuMemFree freed 10.0 µs before the launch"),
    "past the end": (fault(*ILLEGAL, BLOCK + (64 << 20) + 4), "fault", True, "bad(float*)", "past-end", "4 B past the end of a block of 64.0 MiB"),
    "far past the end": (fault(*ILLEGAL, BLOCK + (64 << 20) + (1 << 30)), "fault", True, "bad(float*)", "past-end", "1.00 GiB past the end"),
    "null": (fault(*ILLEGAL, 16), "fault", True, "bad(float*)", "null", "null pointer"),
    "peer without access": (fault(*ILLEGAL, BLOCK), "fault", True, "bad(float*)", "live", "has no access to it"),
    "without an Xid": (fault(*ILLEGAL), "fault", True, "bad(float*)", None, "cuCtxSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS"),
    "misaligned": (fault(716, "CUDA_ERROR_MISALIGNED_ADDRESS"), "fault", True, "bad(float*)", None, "not aligned"),
    "stack overflow": (fault(714, "CUDA_ERROR_HARDWARE_STACK_ERROR"), "fault", True, "bad(float*)", None, "exceeded its call stack"),
    "trap": (fault(719, "CUDA_ERROR_LAUNCH_FAILED"), "fault", True, "bad(float*)", None, "bad(float*), grid 64x1x1, failed"),
    "assertion": (fault(710, "CUDA_ERROR_ASSERT"), "fault", True, "bad(float*)", None, "failed an assertion"),
    "two candidates": (fault(*ILLEGAL, before=lambda p: p.launch("other()", "0x20")), "fault", False, "other()", None, "One of 2 submissions"),
    "two candidates, one new": (fault(*ILLEGAL, before=healthy_beside), "fault", False, "bad(float*)", None, "most likely bad(float*), of which no earlier launch is known"),
    "late": (late(), "fault", False, "other()", None, "One of 3 submissions accessed an address that is not valid: the first is other()"),
    "late, one found": (late("bad(float*)"), "fault", False, "bad(float*)", None, "most likely bad(float*), the only one that the program looked up after the trace began"),
    "late, both found": (late("bad(float*)", "other()"), "fault", False, "other()", None, "the first is other()"),
    "late, synchronized": (late("bad(float*)", synced=True), "fault", False, "bad(float*)", None, "most likely bad(float*), the only one that the program looked up"),
    "late and endless": (late("bad(float*)", hangs=True), "hang", False, "bad(float*)", None, "bad(float*), the only one that the program looked up after the trace began"),
    "endless kernel": (endless, "hang", True, "bad(float*)", None, "bad(float*) runs"),
    "flag of the host": (flag_of_the_host, "hang", True, None, None, "waits for a value in memory"),
    "event never recorded": (event_never_recorded, "hang", False, None, None, "the event 0xe1, which the trace has no record of"),
    "out of memory": (out_of_memory, "out-of-memory", False, None, None, "The process held 96.0 MiB in 2 blocks"),
    "memory of others": (out_of_memory_by_others({"planted": 1 << 30, "vllm": 60 << 30}, {"planted": 1 << 30, "jupyter": 12 << 30, "vllm": 64 << 30}), "out-of-memory",
                         False, None, None, "NVML showed 76.0 GiB in other processes before: 64.0 GiB in process 4003 (vllm), 12.0 GiB in process 4002 (jupyter)"),
    "memory that grows": (lambda: steps(lambda i: True), "out-of-memory", False, None, None, "32 of the latest 32 steps left blocks that were still held, 4.00 MiB per step"),
    "memory that grows at times": (lambda: steps(lambda i: i % 2), "out-of-memory", False, None, None, "16 of the latest 32 steps left blocks that were still held, 2.00 MiB"),
    "hardware": (broken_hardware, "xid", False, None, None, "the hardware is at fault"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted(tmp_path, name):
    plant, kind, certain, kernel, state, words = PLANTED[name]
    path = plant().write(tmp_path / "t.jsonl")
    r = report(path)
    [case] = r["failure"]
    assert (case["kind"], case["certain"]) == (kind, certain) and words in case["verdict"], case
    assert not kernel or case["suspects"][0]["kernel"] == kernel
    assert case.get("memory", {}).get("state") == state
    assert not [x for x in oracle.check(oracle.read(str(path)), r) if x.startswith("failure")]
    text = cudatrace("report", "-q", path).out
    assert text.split("\n\n")[1].startswith("Cause of failure: 1\n")


def pointers(*values, freed_by=None):
    """The parameters of a kernel; the last one points to memory that this call freed."""
    rows = [{"offset": 8 * i, "size": 8, "value": hex(x)} for i, x in enumerate(values)]
    if freed_by:
        rows[-1]["memory"] = [{"ptr": hex(BLOCK), "size": 64 << 20, "offset": values[-1] - BLOCK, "state": "freed", "freed_by": freed_by}]
    return rows


OTHER = BLOCK + (1 << 30)
# Two new kernels, each of them with these parameters: of the first, the second, and whether it was launched after the free of BLOCK; the address
# of the fault; the link and the parameter of the suspect that is named, words of the verdict. Without a link, the first kernel is named.
LINKED = {
    "freed, by its address": (pointers(OTHER), pointers(1, BLOCK + 4096), True, BLOCK + (4 << 20), ("block", 2),
                              "most likely bad(float*), the only one with a parameter that leads to the memory of the fault"),
    "freed, without an address": (pointers(OTHER), pointers(BLOCK + 256, freed_by=8), True, None, ("freed", 1), "leads to freed memory: a block of 64.0 MiB of cuMemAlloc, which cuMemFree freed"),
    "null, without an address": (pointers(OTHER), pointers(0), False, None, ("null", 1), "Parameter 1 of the kernel is a null pointer"),
    "null, by its address": (pointers(OTHER), pointers(0), False, 64, ("null", 1), "Parameter 1 of the kernel is a null pointer"),
    "past the end": (pointers(OTHER), pointers(BLOCK), False, BLOCK + (64 << 20) + 4, ("block", 1), "Parameter 1 of the kernel (0x7f055e000000) leads to that block"),
    "in a struct": (pointers(OTHER), [{"offset": 0, "size": 24, "value": "00" * 16 + (BLOCK + 1).to_bytes(8, "little").hex()}], True, BLOCK + 9, ("block", 1),
                    "Parameter 1 of the kernel, at offset 16, (0x7f055e000001) leads to that block"),
    # Neither the only one, nor near enough to be it.
    "both": (pointers(BLOCK), pointers(BLOCK), True, BLOCK, None, "the first is other()"),
    "far past the end": (pointers(OTHER), pointers(BLOCK), False, BLOCK + (72 << 20), None, "the first is other()"),
    "not recorded": (None, None, True, BLOCK, None, "the first is other()"),
    # The kernel's second parameter is no pointer.
    "a number": (pointers(OTHER), pointers(OTHER, 0), False, None, None, "the first is other()"),
    "not a value": (pointers(OTHER), [{"offset": 0, "size": 8, "value": "none"}, {"size": 1 << 40}, 5], True, BLOCK, None, "the first is other()"),
}


@pytest.mark.parametrize("name", LINKED)
def test_parameters(tmp_path, name):
    """The parameter of a kernel shows which of two is the cause. It is not certain: a kernel may read a pointer from memory."""
    first, second, frees, address, link, words = LINKED[name]
    p = started()
    p.alloc(OTHER, 1 << 20)
    if frees:
        p.free(BLOCK)
    p.launch("other()", "0x20", params=first)
    p.launch("bad(float*)", params=second)
    if address is not None:
        p.fault_at(address)
    p.sync(*ILLEGAL)
    path = p.write(tmp_path / "t.jsonl")
    [case] = report(path)["failure"]
    assert words in case["verdict"] and case["suspect_count"] == 2 and not case["certain"], case
    said = case["suspects"][0]
    assert said["kernel"] == ("bad(float*)" if link else "other()")
    if link:
        assert (said["link"], said["parameter"]) == link and "link" not in case["suspects"][1], case
    text = cudatrace("report", "-q", "--section=failure", path).out
    assert "leads to" in text or "null pointer" in text or not link


# What the kernel's launch has of a block that the trace has no allocation of; the address of the fault, the state, the offset, words.
LATE = {
    "live": ({}, 4096, "live", 4096, "The address is in a block of 64.0 MiB that was allocated before the trace began, which is live"),
    "past the end": ({}, (64 << 20) + 4, "past-end", 4, "4 B past the end of a block of 64.0 MiB that was allocated before the trace began"),
    "next to it": ({}, 64 << 20, "past-end", 0, "directly past the end"),
    "freed": ({"state": "freed", "freed_by": 3}, 4096, "freed", 4096, "which had been freed before the launch"),
}


@pytest.mark.parametrize("name", LATE)
def test_block_of_a_parameter(tmp_path, name):
    """A trace that begins late, as a flight recorder's, has a block only where a launch points to it."""
    more, at, state, offset, words = LATE[name]
    p = started()
    p.lines = [x for x in p.lines if x["name"] != "cuMemAlloc"]
    memory = {"ptr": hex(BLOCK), "size": 64 << 20, "offset": 256, "state": "live", **more}
    p.launch("other()", "0x20", params=pointers(OTHER))
    p.launch("bad(float*, int)", params=[{"offset": 0, "size": 8, "value": hex(BLOCK + 256), "memory": [memory]}, {"offset": 8, "size": 4, "value": "0x7"}])
    p.fault_at(BLOCK + at)
    p.sync(*ILLEGAL)
    [case] = report(p.write(tmp_path / "t.jsonl"))["failure"]
    assert words in case["verdict"], case["verdict"]
    assert (case["memory"]["state"], case["memory"]["offset"], case["memory"]["ptr"]) == (state, offset, hex(BLOCK)) and "allocated_by" not in case["memory"]
    said = case["suspects"][0]
    assert (said["kernel"], said["link"], said["parameter"]) == ("bad(float*, int)", "block", 1)
    want = {"parameter": 1, "value": hex(BLOCK + 256), "ptr": hex(BLOCK), "size": 64 << 20, "offset": 256}
    assert said["parameters"] == [{**want, **({"freed_by": 3} if more else {})}]
    text = cudatrace("report", "-q", "--section=failure", "--width", "200", tmp_path / "t.jsonl").out
    assert "Parameters of bad(float*, int) that may be addresses:" in text and "256 B of a block of 64.0 MiB" + (" that had been freed" if more else "") in text


def reset(p):
    p.add("context", "destroy", "cuDevicePrimaryCtxReset", args={"dev": 0})


def released(p):
    p.add("context", "release", "cuDevicePrimaryCtxRelease", args={"dev": 0})


def released_once(p):
    p.add("context", "retain", "cuDevicePrimaryCtxRetain", args={"pctx": "0xc000", "dev": 0})
    released(p)


@pytest.mark.parametrize("ends, names", [(reset, ["bad(float*)"]), (released, ["bad(float*)"]), (released_once, ["bad(float*)", "old()"])], ids=lambda x: getattr(x, "__name__", None))
@pytest.mark.parametrize("hangs", [False, True])
def test_context_that_ended(tmp_path, ends, names, hangs):
    """Work of a context that has ended cannot fail or run, although the next context has its address."""
    p = started()
    p.launch("old()", "0x20")
    ends(p)
    p.add("context", "retain", "cuDevicePrimaryCtxRetain", args={"pctx": "0xc000", "dev": 0})
    p.launch("bad(float*)")
    if hangs:
        p.hang(args={})
    else:
        p.sync(*ILLEGAL)
    path = p.write(tmp_path / "t.jsonl")
    r = report(path)
    [case] = r["failure"]
    assert sorted(x["kernel"] for x in case["suspects"]) == names, case
    assert not [x for x in oracle.check(oracle.read(str(path)), r) if x.startswith("failure")]


@pytest.mark.parametrize("load, says", [
    ((100, {"planted": 97, "vllm": 2}), "In NVML's last sample kernels ran for 100 % of the time, kernels of this process for 97 %"),
    ((100, {}), "In NVML's last sample kernels ran for 100 % of the time"), ((0, {}), "In NVML's last sample no kernel ran on the GPU")], ids=["own", "unknown", "idle"])
def test_busy_while_hanging(tmp_path, load, says):
    """NVML's sample during the wait belongs to the verdict, one before it does not."""
    for during in True, False:
        p, (busy, of) = started(), load
        p.launch("bad(float*)")
        if not during:
            p.gpu_load(busy, **of)
        p.now += 1000
        p.hang(args={})
        if during:
            hang = p.lines.pop()
            p.gpu_load(busy, **of)
            p.lines.append(hang)
        [case] = report(p.write(tmp_path / f"{during}.jsonl"))["failure"]
        assert case["verdict"].endswith(says) if during else "NVML" not in case["verdict"], case["verdict"]
        assert case.get("gpu_busy") == (busy / 100 if during else None)
        assert case.get("gpu_busy_own") == (of["planted"] / 100 if during and of else None)
        path = str(tmp_path / f"{during}.jsonl")
        assert not [x for x in oracle.check(oracle.read(path), report(path)) if x.startswith("failure")]


SLICES = {
    "own": ([(0, 5000, None)], (1.0, 0, None), "this process had the GPU for 100 % of the last 5.00 s"),
    "other": ([(-100, 500, None), (500, 4500, "vllm"), (4500, 5000, "jupyter")], (0.1, 0.9, PID + 1),
              "this process had the GPU for 10 % of the last 5.00 s, others for 90 %, most of it process 4001 (vllm)"),
    "other user": ([(0, 1000, None), (1000, 5000, "")], (0.2, 0.8, None), "this process had the GPU for 20 % of the last 5.00 s, others for 80 %"),
    "before": ([(-100, 0, None)], None, None),
    "another GPU": ([(0, 1000, None), (0, 5000, "vllm", 1)], (0.2, 0, None), "this process had the GPU for 20 % of the last 5.00 s"),
}


@pytest.mark.parametrize("name", SLICES)
def test_who_has_the_gpu(tmp_path, name):
    """The log of context switches during a hang; slices in ms since its begin."""
    slices, shares, words = SLICES[name]
    p = started()
    p.launch("bad(float*)")
    begin = p.now / 1e3
    p.hang(args={})
    for start, end, who, *minor in slices:
        pid, owner = (PID, {}) if who is None else (PID + 1 + (who != "vllm"), {}) if who else (0, {"owner": "other user"})
        p.lines.append({"ts": begin + start, "type": "ctxsw", "op": "slice", "name": "ctxsw", "pid": pid, "tid": pid, "comm": who or "", "duration_us": (end - start) * 1e3,
                        "minor": minor[0] if minor else 0, "gpu": "0000:3b:00.0", "context": pid, **owner})
    [case] = report(p.write(tmp_path / "t.jsonl"))["failure"]
    if not words:
        assert "context switches" not in case["verdict"] and "resident_own" not in case
        return
    assert case["verdict"].endswith(words), case["verdict"]
    assert (case["resident_own"], case["resident_others"], case.get("resident_pid")) == shares


def aged(p, seconds):
    p.now += seconds * 1_000_000


@pytest.mark.parametrize("seconds", [100, 10])
def test_last_minute(tmp_path, seconds):
    """What a process allocated and freed in the last minute before its memory was exhausted; of a trace that is shorter, nothing is older."""
    p = started()
    p.alloc(OTHER, 16 << 20)
    aged(p, seconds)
    p.alloc(2 * OTHER, 128 << 20)
    p.alloc(3 * OTHER, 4 << 20)
    p.free(OTHER)
    p.alloc(4 * OTHER, 2 << 20)
    p.free(4 * OTHER)
    p.add("memory", "alloc", "cuMemAlloc", 10, 2, "CUDA_ERROR_OUT_OF_MEMORY", size=1 << 40, args={"bytesize": 1 << 40})
    [case] = report(p.write(tmp_path / "t.jsonl"))["failure"]
    if seconds < 60:
        assert case["recent"] == case["held"] and not case["recent_freed"] and "last minute" not in case["verdict"]
        return
    assert (case["held"], case["recent"], case["recent_count"], case["recent_freed"]) == (196 << 20, 132 << 20, 2, 16 << 20)
    assert "It allocated 132 MiB of this in the last minute, and freed 16.0 MiB of older memory" in case["verdict"], case["verdict"]
    assert case["holders"][0]["recent"] == 132 << 20


def torch(p, op, ptr, size, allocated, reserved):
    where = {} if op == "oom" else {"ptr": hex(ptr)}
    p.lines.append({"ts": p.now / 1e3, "type": "allocator", "op": op, "name": "c10::reportMemoryUsageToProfiler", "pid": PID, "tid": PID, "comm": "planted", "size": size,
                    "device": "cuda:0", "allocated": allocated, "reserved": reserved, **where})


@pytest.mark.parametrize("whole", [True, False], ids=["from the start", "late"])
def test_fragmented(tmp_path, whole):
    """PyTorch's segments have free parts, none of which is large enough. Of a trace that began late the parts are not known."""
    mib, p, used = 1 << 20, started(), 0
    for segment in 2, 3, 4:
        p.alloc(segment * OTHER, 100 * mib)
        for i in range(5):
            used += 20 * mib
            if whole or segment == 4:
                torch(p, "alloc", segment * OTHER + i * 20 * mib, 20 * mib, used, (segment - 1) * 100 * mib)
    for segment, i in (2, 1), (3, 0), (3, 1), (4, 4):
        used -= 20 * mib
        torch(p, "free", segment * OTHER + i * 20 * mib, 20 * mib, used, 300 * mib)
    p.add("memory", "alloc", "cuMemAlloc", 10, 2, "CUDA_ERROR_OUT_OF_MEMORY", size=60 * mib, args={"bytesize": 60 * mib})
    torch(p, "oom", 0, 60 * mib, used, 300 * mib)
    [case] = report(p.write(tmp_path / "t.jsonl"))["failure"]
    assert (case["torch_reserved"], case["torch_allocated"], case.get("torch_hole")) == (300 * mib, 220 * mib, 40 * mib if whole else None)
    assert "PyTorch's allocator held 300 MiB and used 220 MiB of it" in case["verdict"] and ("free part of a block that it used was 40.0 MiB" in case["verdict"]) == whole
    assert "expandable_segments" in case["advice"]


@pytest.mark.parametrize("sample", [{"planted": 76 << 30}, {"vllm": 60 << 30, "other": 1 << 30}], ids=["alone", "numbers of a container"])
def test_no_others(tmp_path, sample):
    [case] = report(out_of_memory_by_others(sample)().write(tmp_path / "t.jsonl"))["failure"]
    assert "others" not in case and "other processes" not in case["verdict"] and "other processes" not in case["advice"]


@pytest.mark.parametrize("kept", [lambda i: False, lambda i: i < 5, lambda i: i > 36], ids=["freed", "at first", "at last"])
def test_no_growth(tmp_path, kept):
    """Blocks of the first steps, or of a few, are not growth."""
    [case] = report(steps(kept).write(tmp_path / "t.jsonl"))["failure"]
    assert case["kind"] == "out-of-memory" and "growth_per_step" not in case and "It grew" not in case["verdict"]


def test_program_went_on(tmp_path):
    """The short report does not begin with an allocation that the program does without."""
    p = out_of_memory()
    p.launch("k()")
    path = p.write(tmp_path / "t.jsonl")
    assert [x["kind"] for x in report(path)["failure"]] == ["out-of-memory"]
    assert "Cause of failure" not in cudatrace("report", "-q", path).out
    assert "Cause of failure" in cudatrace("report", "-q", "--section=failure", path).out


HEALTHY = {
    "no failure": lambda p: p.sync(),
    "an error of the caller": lambda p: p.sync(1, "CUDA_ERROR_INVALID_VALUE"),
    "errors at exit": lambda p: p.sync(4, "CUDA_ERROR_DEINITIALIZED"),
    "a query that is not ready": lambda p: p.add("stream", "query", "cuStreamQuery", 10, 600, "CUDA_ERROR_NOT_READY", stream="0x10", args={"hStream": "0x10"}),
    "an Xid of another program": lambda p: p.xid(31, FAULT.format(pid=PID + 1, high=0, low=0)),
    "a short wait at the end": lambda p: p.add("sync", "sync", "cuCtxSynchronize", 900_000, unfinished=True, elapsed_us=900_000, args={}),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy(tmp_path, name):
    p = started()
    p.launch("k()")
    HEALTHY[name](p)
    path = p.write(tmp_path / "t.jsonl")
    assert report(path)["failure"] == [] and "Cause of failure" not in cudatrace("report", "-q", "--full", path).out


# Kind, kernel, words of the place that launched it.
REAL = {"after-free": ("fault", "after_free(float*, unsigned long)", "launched by main"), "past-end": ("fault", "past_end(float*, unsigned long)", "launched by main"),
        "misaligned": ("fault", "misaligned(char const*, int*)", "launched by main"), "endless": ("hang", "spins(int volatile*)", "launched by main"),
        "device-assert": ("fault", "indexSelectSmallIndex", "programs.py:183 device_assert"), "out-of-memory": ("out-of-memory", None, "programs.py:168 out_of_memory.<locals>.grow")}


@pytest.mark.parametrize("name", CORPUS)
def test_corpus(name):
    cases = report(CORPUS[name])["failure"]
    if name not in REAL:
        assert cases == []
        return
    kind, kernel, words = REAL[name]
    assert [c["kind"] for c in cases] == [kind] and words in cases[0]["verdict"], cases
    assert not kernel or kernel in cases[0]["suspects"][0]["kernel"]
    assert cases[0]["certain"] == (kind == "fault")
    # Who did it, from where, and what: in this order.
    assert kind != "fault" or re.match(rf".*{re.escape(kernel)}.*, launched by .*, grid [\dx]+, [^.,]+\. cu", cases[0]["verdict"]), cases[0]["verdict"]


def run(path, *options, **env):
    """The mock driver's program, traced in-process: that needs no privileges."""
    ran = cudatrace("-q", "--probe=inject", "--jsonl", path, *options, "--", "timeout", "-s", "KILL", "20", f"{FAKE}/sample", "--tokens", "2", "--layers", "1", "--quiet",
                    env={"LD_LIBRARY_PATH": FAKE, **env})
    assert path.exists(), ran
    r = report(path)
    assert not [x for x in oracle.check(oracle.read(str(path)), r) if x.startswith("failure")]
    # The program tries an allocation that is too large.
    return [c for c in r["failure"] if c["kind"] != "out-of-memory"]


@pytest.mark.parametrize("code,words", [(700, "not valid"), (716, "not aligned"), (719, " failed"), (714, "call stack"), (999, "the driver gives no reason")])
def test_driver_fault(tmp_path, code, words):
    """The kernel is among the candidates, and none is called certain."""
    [case] = run(tmp_path / "t.jsonl", FAKE_FAULT=f"_Z7softmaxPKfPfi:{code}")
    assert case["kind"] == "fault" and words in case["verdict"]
    assert any("softmax" in s.get("kernel", "") for s in case["suspects"]) and not case["certain"]


def test_driver_hang(tmp_path):
    [case] = run(tmp_path / "t.jsonl", "--duration", "4", FAKE_HANG="_Z7softmaxPKfPfi")
    assert case["kind"] == "hang" and case["function"] == "cuCtxSynchronize" and case["behind"] > 0 and not case["certain"]


def test_driver_healthy(tmp_path):
    assert run(tmp_path / "t.jsonl") == []
