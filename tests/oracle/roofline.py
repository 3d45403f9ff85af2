# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Rooflines from the lines alone (see oracle.py), with the numbers of data sheets instead of rates per multiprocessor."""
import collections
import re

# Model: memory in GB/s; peak in TFLOP/s and the clock in MHz that the data sheet assumes.
SHEETS = {name: (gbps, {"FP64": (66.9, 1980), "FP32": (66.9, 1980), "TF32": (494.7, 1830), "FP16": (989.4, 1830), "BF16": (989.4, 1830), "FP8": (1978.9, 1830)})
          for name, gbps in (("NVIDIA H100 80GB HBM3", 3352), ("NVIDIA H200", 4800))}
SIZES = {"float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "long": 8, "bool": 1, "int": 4}
SLACK = 2e-3
BITS = re.compile(r"CUDA_([RC])_(\d+)")
# Kernels of planted traces: a pattern with types, and the bytes by parameters, types and blocks.
KERNELS = [
    (r"vectorized_elementwise_kernel<\d+, at::native::CUDAFunctor_add<([\w:]+)>", lambda p, t, g: 3 * p[0] * t[0]),
    (r"vectorized_elementwise_kernel<\d+, at::native::FillFunctor<([\w:]+)>", lambda p, t, g: p[0] * t[0]),
    (r"vectorized_layer_norm_kernel<([\w:]+), ([\w:]+),", lambda p, t, g: g * (2 * p[0] * t[0] + 2 * t[1]) + p[0] * t[0] * (bool(p[3]) + bool(p[4]))),
]


def bits(name):
    kind, number = BITS.match(name).groups()
    return int(number) * (2 if kind == "C" else 1)


def operands(call):
    if call.get("api") == "cudnn":
        return call.get("operand_bytes", 0)
    a, b, c = call.get("a_type") or call.get("b_type"), call.get("b_type") or call.get("a_type"), call.get("c_type")
    if not (a and b and c):
        return 0
    cnt = {x: 1 if call.get("args", {}).get(x) == 0 else call["batch"] for x in ("strideA", "strideB")}
    if call.get("args", {}).get("A") and call["args"]["A"] == call["args"].get("B"):
        cnt["strideB"] = 0
    return (call["m"] * call["k"] * bits(a) * cnt["strideA"] + call["k"] * call["n"] * bits(b) * cnt["strideB"] + call["m"] * call["n"] * bits(c) * call["batch"]) / 8


def type_of(call, kernel):
    a, compute = call.get("a_type") or call.get("b_type"), call.get("compute_type")
    if call.get("b_type") not in (None, a) and not ("8F" in a and "8F" in call["b_type"]):
        return None
    if "8F" in a:
        return "FP8" if compute == "CUBLAS_COMPUTE_32F" else None
    if a == "CUDA_R_32F":
        said = {"CUBLAS_COMPUTE_32F_PEDANTIC": "FP32", "CUBLAS_COMPUTE_32F_FAST_TF32": "TF32", "CUBLAS_COMPUTE_32F_FAST_16F": "FP16",
                "CUBLAS_COMPUTE_32F_FAST_16BF": "BF16"}.get(compute)
        if said or compute not in (None, "CUBLAS_COMPUTE_32F") or "tensorop" in kernel:
            return said
        return "TF32" if "tf32" in kernel else "FP32" if "_sgemm_" in kernel or "_ffma_" in kernel else None
    return {("CUDA_R_64F", None): "FP64", ("CUDA_R_16F", None): "FP16", ("CUDA_R_16F", "CUBLAS_COMPUTE_32F"): "FP16",
            ("CUDA_R_16BF", "CUBLAS_COMPUTE_32F"): "BF16"}.get((a, compute))


def kernel_bytes(launch):
    values = [int(p["value"], 16) if p.get("value", "").startswith("0x") else None for p in launch.get("params") or ()]
    for pattern, of in KERNELS if values else ():
        found = re.search(pattern, launch["kernel"])
        if found and values[0] is not None:
            return of(values, [SIZES[t] for t in found.groups()], launch["grid"][0])
    return 0


class Sums:
    def __init__(self):
        self.executions = self.gpu_ns = self.known = self.works = self.bytes = self.ops = self.roof = self.memory = self.compute = self.whole = 0

    def add(self, ns, work=None, roof=0.0):
        """work: None: unknown; (): a further kernel of a product; bytes, operations, and their times."""
        self.executions += 1
        self.gpu_ns += ns
        if work is None:
            return
        self.known += ns
        self.roof += roof
        if work:
            self.works += 1
            self.bytes += work[0]
            self.ops += work[1]
            self.memory += work[2]
            self.compute += work[3]
            self.whole += max(work[2:])

    def merge(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


def compare(d, where, got, want):
    d.same(f"{where}.executions", got["executions"], want.executions)
    d.same(f"{where}.gpu_ns", got["gpu_ns"], want.gpu_ns, 1e-6)
    d.same(f"{where}.known_work_ns", got["known_work_ns"], want.known, 1e-6)
    if not want.works:
        d.law(f"{where}: unknown work has a roof", not {"works", "bytes", "ops", "limit", "roof_ns", "headroom_ns"} & set(got))
        return
    d.same(f"{where}.works", got.get("works"), want.works)
    d.same(f"{where}.bytes", got.get("bytes"), want.bytes, 1e-6)
    d.same(f"{where}.ops", got.get("ops"), want.ops, 1e-5)
    # Each execution has whole picoseconds.
    d.law(f"{where}.roof_ns is {got.get('roof_ns')}, not {want.roof}", abs(got["roof_ns"] - want.roof) <= SLACK * want.roof + 1e-3 * want.executions)
    d.compares(got["roof_ns"])
    # A difference of two: as exact as these.
    d.law(f"{where}.headroom_ns", abs(got["headroom_ns"] - (want.known - want.roof)) <= SLACK * want.known + 1)
    d.compares(got["headroom_ns"])
    d.same(f"{where}.gbps", got.get("gbps"), want.bytes / want.known, 1e-4)
    if want.ops:
        d.same(f"{where}.tflops", got.get("tflops"), want.ops / want.known / 1e3, 1e-4)
        d.same(f"{where}.intensity", got.get("intensity"), want.ops / want.bytes, 1e-4)
    cached = want.whole / 1.02 / want.known
    if abs(cached - 1) > SLACK and (want.known < 0.499 * want.gpu_ns or want.known > 0.501 * want.gpu_ns):
        limit = None if want.known < want.gpu_ns / 2 else "cache" if cached > 1 else "memory" if want.memory >= want.compute else "compute"
        d.law(f"{where}.limit is {got.get('limit')}, not {limit}", got.get("limit") == limit)
        if limit and limit != "cache":
            d.law(f"{where}.roof_share", abs(got["roof_share"] - min(1, want.roof / want.known)) <= SLACK * want.roof / want.known + 1e-5)
            d.compares(got["roof_share"])


def execute(lines):
    """The sums by row, and by operator; None if the trace has work that only the report can place."""
    by_id = {(x["pid"], x["id"]): x for x in lines if "id" in x and "duration_us" in x and x["type"] not in ("operator", "range")}
    devices, left, rows, operators = {}, {}, collections.defaultdict(Sums), collections.defaultdict(Sums)
    for x in lines:
        if x["type"] == "gpu_device":
            devices[x["pid"], x["device"]] = x
        if x["type"] != "gpu":
            continue
        if "graph_node" in x:
            return None, None
        ns, device = round(x["duration_us"] * 1e3), devices.get((x["pid"], x["device"]), {})
        gbps, peaks = SHEETS.get(device.get("model"), (0, {}))
        if "memory_khz" in device and "bus_bits" in device:
            gbps = 2 * device["memory_khz"] * device["bus_bits"] / 8e6
        launch = by_id.get((x["pid"], x.get("call_id")), {})
        if launch.get("result"):
            launch = {}
        work, roof, key = None, 0.0, (x["op"], x.get("kernel") if x["op"] == "kernel" else x.get("direction"))
        call = launch
        while call and not (call.get("flops") and not call.get("result")):
            call = by_id.get((x["pid"], call.get("parent")))
        if x["op"] == "kernel" and call:
            name = type_of(call, x.get("kernel", ""))
            at = call["pid"], call["id"]
            if at not in left and name in peaks and gbps and operands(call):
                tflops, mhz = peaks[name]
                size = operands(call)
                work = size, call["flops"], size / gbps, call["flops"] / (tflops * device["clock_khz"] / 1e3 / mhz) / 1e3
                left[at] = [max(work[2:]), name]
            elif at in left:
                work = ()
            if work is not None:
                roof = min(left[at][0], ns)
                left[at][0] -= roof
                key = ("product", call["name"], call["op"], call["m"], call["n"], call["k"], call["batch"], left[at][1])
        elif x["op"] == "kernel" and launch.get("kernel"):
            size = kernel_bytes(launch)
            if size and gbps:
                work, roof = (size, 0, size / gbps, 0), min(size / gbps, ns)
        elif x["op"] in ("copy", "memset") and gbps and x.get("size") and (x["op"] == "memset" or x.get("direction") == "DtoD"):
            size = x["size"] * (2 if x["op"] == "copy" else 1)
            work, roof = (size, 0, size / gbps, 0), min(size / gbps, ns)
        for sums in (rows[key], operators[launch["operator"]]) if "operator" in launch else (rows[key],):
            sums.add(ns, work, roof)
    return rows, operators


def check(o, d, lines, report):
    section = report.get("roofline")
    gpu = [x for x in lines if x["type"] == "gpu"]
    if not gpu or not section or report.get("rejected"):
        return
    d.law("roofline: known work takes part of the time", section["known_work_ns"] <= section["gpu_ns"])
    d.law("roofline: rows and total differ", sum(r["executions"] for r in section["list"]) == section["executions"])
    for x in section["devices"]:
        sheet = SHEETS.get(x.get("model"))
        if not sheet:
            continue
        if x.get("memory_source") == "data sheet":
            d.same("roofline.devices.memory_gbps", x["memory_gbps"], sheet[0], SLACK)
        for name, (tflops, mhz) in sheet[1].items():
            d.same(f"roofline.devices.peak_tflops.{name}", x["peak_tflops"][name], tflops, SLACK)
            d.same(f"roofline.devices.roof_tflops.{name}", x["roof_tflops"][name], tflops * x["clock_mhz"] / mhz, SLACK)
    rows, operators = execute(lines)
    if rows is None:
        return
    got = collections.defaultdict(list)
    for row in section["list"]:
        key = ("product", *(row[k] for k in ("name", "op", "m", "n", "k", "batch", "type"))) if row["kind"] == "product" else \
            (row["kind"], row["name"] if row["kind"] == "kernel" else row.get("direction"))
        got[key].append(row)
    d.law(f"roofline: rows {set(map(str, got)) ^ set(map(str, rows))}", set(got) == set(rows))
    total = Sums()
    for key, want in rows.items():
        total.merge(want)
        # Devices, and types of operands, have rows of their own.
        if len(got[key]) == 1:
            compare(d, f"roofline.{key}", got[key][0], want)
        else:
            d.same(f"roofline.{key}.gpu_ns", sum(r["gpu_ns"] for r in got[key]), want.gpu_ns, 1e-6)
            d.same(f"roofline.{key}.headroom_ns", sum(r.get("headroom_ns", 0) for r in got[key]), want.known - want.roof if want.works else 0, 0.05)
    compare(d, "roofline", section, total)
    for row in section["operators"]:
        compare(d, f"roofline.{row['name']}", row, operators[row["name"]])
    d.law("roofline: operators differ", {row["name"] for row in section["operators"]} == set(operators))
