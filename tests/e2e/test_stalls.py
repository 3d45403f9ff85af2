# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 300
# takes: 40
"""--stalls: each sample that the mock CUPTI made is in the trace or counted as missing; refusals are reported; the report's numbers
agree with a second computation (tests/oracle/stalls.py); machine code is decoded as nvdisasm does."""
import collections
import copy
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.run import CUDATRACE, FAKE, O, TESTS, Ran, cudatrace, needs_tracing

sys.path.insert(0, TESTS + "/oracle")
import stalls as oracle  # noqa: E402

SAMPLE = FAKE + "/sample"
# Of one execution of a kernel of the mock.
REASONS = {"long_scoreboard": 600, "short_scoreboard": 200, "lg_throttle": 50, "selected": 75, "not_selected": 74, "other": 1}
# Of FFMA at 0x30, which a predicate may switch off and which issued; of MOV at 0x60, between BSSY and where it joins; LDG and STG that issued.
PLACES = {"guarded": 220, "diverged": 105, "issued_memory": 40, "issued_multiply": 20, "matrix": 0}
CLASSES = {"global_load": 500, "atomic": 100, "shared": 200, "global_store": 50}
EXECUTION, NOT_ISSUED = 1000, 750


class Traced:
    def __init__(self, tmp_path, words="", *args, probe="inject", command=(SAMPLE, "--quiet", "--tokens", "4"), cupti=O + "/cupti", **env):
        path, counts = tmp_path / "t.jsonl", tmp_path / "counts"
        counts.unlink(missing_ok=True)
        if probe == "uprobe":
            needs_tracing()
        self.ran = Ran([CUDATRACE, "-q", "--stalls", f"--probe={probe}", *args, "--jsonl", str(path), "--", *command],
                       env={"LD_LIBRARY_PATH": f"{FAKE}:{cupti}", "FAKE_CUPTI": words, "FAKE_CUPTI_COUNTS": str(counts), **env})
        assert self.ran.status == 0, self.ran
        self.path, self.t = path, Trace(path)
        self.lines = [e for e in self.t.ev if e["type"] == "stalls"]
        self.functions = [e for e in self.lines if e["op"] == "function"]
        self.made, self.nonuser = collections.Counter(), 0
        for line in counts.read_text().splitlines() if counts.exists() else []:
            if line.startswith("pc-nonuser "):
                self.nonuser = int(line.split()[1])
            elif line.startswith("pc "):
                self.made[line.split()[1]] += int(line.split()[2])
        self.said = [e for e in self.t.ev if e.get("op") == "stalls"]

    def end(self, name):
        return self.t.end["stall_" + name]

    def report(self):
        return json.loads(cudatrace("report", "--json", str(self.path)).out)

    def by_kernel(self, member):
        n = collections.Counter()
        for e in self.functions:
            n[e["kernel_mangled"]] += e.get(member, 0)
        return n


@pytest.mark.parametrize("probe", ["inject", "uprobe"])
@pytest.mark.parametrize("words", ["", "pc-late", "pc-exit"])
def test_each_sample_is_in_the_trace(tmp_path, probe, words):
    """Also what nobody had read when the program ended."""
    r = Traced(tmp_path, words, probe=probe)
    assert sum(r.made.values()) > 200 and len(r.made) > 3
    assert r.by_kernel("samples") == {k: EXECUTION * n for k, n in r.made.items()}
    assert r.by_kernel("not_issued") == {k: NOT_ISSUED * n for k, n in r.made.items()}
    for reason, cnt in REASONS.items():
        assert r.by_kernel(reason) == {k: cnt * n for k, n in r.made.items()}, reason
    for c, cnt in CLASSES.items():
        assert r.by_kernel("for_" + c) == {k: cnt * n for k, n in r.made.items()}, c
    for member, cnt in PLACES.items():
        assert r.by_kernel(member) == {k: cnt * n for k, n in r.made.items()}, member
    assert not {m for e in r.lines for m in e if m.startswith("for_")} - {"for_" + c for c in CLASSES} - {"for_offset", "for_operation", "for_class", "for_line"}
    assert r.end("samples") == EXECUTION * sum(r.made.values())
    assert {k: v for k, v in r.t.end.items() if k.startswith("stall_") and k != "stall_samples" and v} == {}
    assert r.t.head["stalls"] == 1 << 20 and [e["name"] for e in r.said] == ["on"]
    for e in r.functions:
        assert (e["code"], e["architecture"], e["period_cycles"], e["multiprocessors"]) == ("decoded", 90, 1 << 20, 132), e
        assert e["waiting"] / e["waiting_issued"] == pytest.approx(600 / 15)
    at = {e["offset"]: e for e in r.lines if e["op"] == "instruction"}
    assert set(at) == {"0x0", "0x10", "0x30", "0x60", "0x70"}
    assert [at[x].get("for_operation") for x in ("0x0", "0x10", "0x30", "0x60", "0x70")] == [None, "LDG", "LDS", "ATOMG", "STG"]
    assert (at["0x10"]["file"], at["0x10"]["line"], at["0x10"]["for_offset"], at["0x10"]["for_class"]) == ("kernels.cu", 101, "0x0", "global_load")
    assert not oracle.check(r.t.ev, r.report())


def test_lines_of_the_last_interval(tmp_path):
    """CUPTI's tables of source lines are destroyed at the exit, after those of its start: an instruction that is new then is read before."""
    r = Traced(tmp_path, "pc-exit", command=(SAMPLE, "--quiet", "--tokens", "30"), FAKE_DELAY_US="cuLaunchKernel:10000")
    assert len({e["ts"] for e in r.functions}) > 3 and r.end("samples") == EXECUTION * sum(r.made.values())


def test_oracle_and_report(tmp_path):
    """A wrong number in a report is found; the text has the same facts; few samples have no numbers."""
    r = Traced(tmp_path, "", "--gpu-time")
    report = r.report()
    assert not oracle.check(r.t.ev, report) and "sm_busy" in report["stalls"]["kernels"][0]
    for member in ("samples", "share", "issue_share", "wait_cycles", "sm_share", "sm_busy"):
        wrong = copy.deepcopy(report)
        wrong["stalls"]["kernels"][1][member] *= 1.01
        assert oracle.check(r.t.ev, wrong), member
    text = cudatrace("report", "--section=stalls", str(r.path)).out
    flat = re.sub(r"\s+", " ", text)
    assert "60 % wait for data from global, local or texture memory; most at 0x10, which waits for LDG at 0x0 (kernels.cu:100)" in flat, text
    few = tmp_path / "few.jsonl"
    with open(few, "w", encoding="utf-8") as f:
        for e in r.t.ev:
            if e["type"] == "stalls" and e["op"] == "function":
                e = {**e, "samples": 299, "not_issued": 100}
            f.write(json.dumps(e) + "\n")
    report = json.loads(cudatrace("report", "--json", str(few)).out)
    rows = [k for k in report["stalls"]["kernels"] if not k["enough"]]
    assert rows and all("share" not in k and not k["reasons"] and not k["places"] for k in rows)
    assert not [x for x in oracle.check([json.loads(x) for x in open(few, encoding="utf-8")], report)]
    assert "not enough samples" in cudatrace("report", "--section=stalls", str(few)).out


@pytest.mark.parametrize("words, name, says", [
    ("pc-rights", "off", "CAP_PERFMON"), ("pc-unsupported", "off", "does not sample on this device"), ("taken", "off", "in use already"),
    ("bad", "off", "too old"), ("pc-full", "incomplete", "buffer was full"), ("pc-shared", "incomplete", "another program samples"),
    ("pc-error", "incomplete", "reading samples failed")])
def test_refusals(tmp_path, words, name, says):
    r = Traced(tmp_path, words)
    assert [e for e in r.said if e["name"] == name and says in e["why"]], r.said
    assert len([x for x in r.ran.err.splitlines() if "--stalls: process" in x]) == 1, r.ran.err
    if words == "pc-rights":
        assert "NVreg_RestrictProfilingToAdminUsers=0" in r.ran.err
    if name == "off":
        assert not r.lines and not r.end("samples")
    else:
        report = r.report()
        assert not report["complete"] and {"stall_stopped", "stall_shared"} & {x["id"] for x in report["lost"]}
    assert len(r.t.calls) > 100


def test_missing_samples_are_counted(tmp_path):
    r = Traced(tmp_path, "pc-nonuser,pc-drop")
    assert r.end("unattributed") == r.nonuser > 0 and r.end("dropped") > 0
    assert r.end("samples") == r.nonuser + EXECUTION * sum(r.made.values())
    lost = json.dumps(r.report()["lost"])
    assert "stall_unattributed" in lost and "stall_dropped" in lost


def test_a_program_is_killed(tmp_path):
    """What it had read, but not sent, is counted as lost."""
    r = Traced(tmp_path, command=("sh", "-c", f"{SAMPLE} --quiet --tokens 100000 & sleep 1.6; kill -9 $!; wait $!; true"))
    assert r.end("lost") and r.end("samples") == sum(r.by_kernel("samples").values()) + r.end("lost")
    assert "stall_lost" in json.dumps(r.report()["lost"])


def test_many_functions(tmp_path):
    """Functions and instructions beyond the tables are counted, and the sums of the others stay right."""
    r = Traced(tmp_path, "pc-many", command=(SAMPLE, "--quiet", "--tokens", "1"))
    assert r.by_kernel("samples") == {k: EXECUTION * n for k, n in r.made.items()} and len(r.made) > 300
    assert r.end("samples") == EXECUTION * sum(r.made.values()) and not r.end("refused")


@pytest.mark.parametrize("words, code", [("pc-nocode", "missing"), ("pc-moved", "missing"), ("pc-arch", "unknown-architecture")])
def test_reasons_without_instructions(tmp_path, words, code):
    r = Traced(tmp_path, words + ",pc-nolines")
    assert {e["code"] for e in r.functions} == {code} and r.by_kernel("long_scoreboard")
    assert not [e for e in r.lines if "for_offset" in e or "operation" in e or "file" in e or "for_global_load" in e or set(PLACES) & set(e)]
    assert (r.end("no_code") == len(r.made)) == (code == "missing")
    text = re.sub(r"\s+", " ", cudatrace("report", "--section=stalls", str(r.path)).out)
    assert "wait for data from global" in text and "LDG" not in text and "No source lines" in text
    assert not oracle.check(r.t.ev, r.report())


TWO = """
import ctypes, time
cu, a, b = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert not cu.cuInit(0) and not cu.cuCtxCreate_v2(ctypes.byref(a), 0, 0) and not cu.cuCtxCreate_v2(ctypes.byref(b), 0, 0)
time.sleep(0.3)
assert not cu.cuCtxDestroy_v2(b) and not cu.cuCtxDestroy_v2(a)
assert not cu.cuCtxCreate_v2(ctypes.byref(a), 0, 0)
"""


def test_one_context_of_a_gpu(tmp_path):
    """The mock fails, as CUPTI does, if two are sampled; a later one is sampled when the first is gone."""
    r = Traced(tmp_path, command=(sys.executable, "-c", TWO))
    assert r.end("contexts") == 1 and not r.end("shared")
    assert [e["name"] for e in r.said] == ["on", "incomplete"] and r.ran.err.count("second context") == 1


def test_no_nvperf(tmp_path):
    if "libnvperf_host" in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("the loader finds a libnvperf_host.so of a toolkit")
    shutil.copy(O + "/cupti/libcupti.so.13", tmp_path)
    r = Traced(tmp_path, cupti=tmp_path)
    assert "libnvperf_host.so was not found" in r.ran.err and not r.lines


def test_redacted(tmp_path):
    r = Traced(tmp_path, "", "--no-strings")
    assert r.functions and not [e for e in r.lines if {"kernel", "kernel_mangled", "file"} & set(e)]


def test_options(tmp_path):
    for arg, cycles in ("14", 1 << 14), ("65536", 1 << 16), ("1048576", 1 << 20):
        r = Traced(tmp_path, "", "--stalls=" + arg, command=(SAMPLE, "--quiet", "--tokens", "1"))
        assert r.t.head["stalls"] == cycles == r.functions[0]["period_cycles"]
    for arg in "5", "32", "1000000", "x", "-1", "":
        ran = cudatrace("--stalls=" + arg, "--", "true")
        assert ran.status == 2 and "--stalls" in ran.err, (arg, ran)
    ran = cudatrace("--stalls", "-p", "1")
    assert ran.status == 2 and "--stalls" in ran.err and "COMMAND" in ran.err, ran


# The first word of nvdisasm's text, and the class that must be known for it.
KNOWN = {"LDG": "global_load", "LD": "global_load", "STG": "global_store", "ST": "global_store", "LDL": "local_load", "STL": "local_store", "ATOMG": "atomic", "ATOM": "atomic",
         "RED": "atomic", "REDG": "atomic", "LDS": "shared", "STS": "shared", "ATOMS": "shared", "LDSM": "shared", "MUFU": "special", "F2F": "special", "F2I": "special",
         "I2F": "special", "SHFL": "shuffle", "LDC": "constant", "LDGSTS": "async_copy", "TLD": "texture", "TEX": "texture", "BAR": "barrier", "HMMA": "tensor", "FFMA": "multiply", "DFMA": "multiply", "HFMA2": "multiply", "FFMA2": "multiply", "BRA": "branch", "EXIT": "branch"}

DECODE = """
#include "decode/sass.h"
#include "../inject/cubin.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	static uint8_t buf[8 << 20];
	FILE *f = fopen(argv[1], "rb");
	size_t size = fread(buf, 1, sizeof(buf), f);
	for (int i = 2; i < argc; i++) {
		struct cubin_code c;
		if (!code_find(buf, size, argv[i], &c))
			return 1;
		struct sass s = {c.at, c.size, c.arch};
		for (uint32_t pc = 0; pc < c.size; pc += 16)
			printf("%s %u %x %s %s %d %d %d %d\\n", argv[i], c.arch, pc, sass_class_name(sass_class_at(&s, pc)), sass_name_at(&s, pc) ?: "-",
			       (int)sass_waits_for(&s, pc, true), (int)sass_waits_for(&s, pc, false), sass_is_guarded(&s, pc), (int)sass_joins_at(&s, pc));
	}
}
"""


def tools(tmp_path):
    """nvcc, nvdisasm, and a program that decodes."""
    nvcc = shutil.which("nvcc") or next((p for p in ("/usr/local/cuda/bin/nvcc",) if os.path.exists(p)), None)
    disasm = shutil.which("nvdisasm") or os.environ.get("NVDISASM") or next((p for p in ("/usr/local/cuda/bin/nvdisasm",) if os.path.exists(p)), None)
    if not nvcc or not disasm:
        pytest.skip("no nvcc or no nvdisasm")
    root = os.path.dirname(TESTS)
    (tmp_path / "decode.c").write_text(DECODE)
    return nvcc, disasm, compiled(tmp_path / "decode", tmp_path / "decode.c", "-I", root + "/src", "-I", root + "/inject", root + "/src/decode/sass.c", root + "/inject/cubin.c")


def test_decoding_as_nvdisasm(tmp_path):
    """Operations of sm_80 to sm_120 as nvdisasm names them; what a use waits for defines a register that it reads."""
    nvcc, disasm, program = tools(tmp_path)
    for arch in 80, 86, 89, 90, 100, 120:
        cubin = tmp_path / f"{arch}.cubin"
        subprocess.run([nvcc, f"-arch=sm_{arch}", "-cubin", "-o", cubin, TESTS + "/gpu/stalls.cu"], check=True, capture_output=True)
        text = subprocess.run([disasm, "-hex", "-c", cubin], check=True, capture_output=True, text=True).stdout
        said, function, label, guarded, parts, labels = {}, None, None, set(), {}, {}
        for line in text.splitlines():
            if m := re.match(r"\.text\.(\S+):", line):
                function = m[1]
            elif m := re.search(r"/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?((\w+)[^;]*);", line):
                said[function, int(m[1], 16)] = (m[4], m[3])
                at = function, int(m[1], 16)
                if m[2] and m[4] not in ("BRA", "EXIT", "BSSY", "BSYNC", "RET", "CALL"):
                    guarded.add(at)
                if target := m[4] == "BSSY" and re.search(r"`\((\S+)\)", m[3]):
                    parts[at] = target[1]
            elif m := re.match(r"(\.L\w+):", line):
                label = m[1]
            if function and re.search(r"/\*[0-9a-f]{4,}\*/", line) and label:
                labels[label], label = int(re.search(r"/\*([0-9a-f]{4,})\*/", line)[1], 16), None
        names = sorted({f for f, _ in said})
        out = subprocess.run([program, cubin, *names], check=True, capture_output=True, text=True).stdout
        checked, waits, right = 0, 0, 0
        for line in out.splitlines():
            name, has, pc, cls, op, long, short, off, joins = line.split()
            assert (off == "1") == ((name, int(pc, 16)) in guarded), (arch, line)
            assert int(joins) == labels.get(parts.get((name, int(pc, 16))), 0), (arch, line)
            assert int(has) == arch
            word, text = said[name, int(pc, 16)]
            # HFMA2.MMA has the number of an integer addition of sm_100.
            if word in KNOWN and not text.startswith("HFMA2.MMA"):
                assert cls == KNOWN[word], (arch, line, word)
                assert op in (word, word.rstrip("G")) or word == "REDG", (arch, line, word)
                checked += 1
            elif cls in ("global_load", "local_load", "atomic", "shared", "tensor", "multiply"):
                raise AssertionError((arch, line, word))
            for at in (int(long), int(short)):
                if at < 0:
                    continue
                # The register that the one defines is read, or written again, by the one that waits.
                word, source = said[name, at]
                waits += 1
                regs, here = (set(re.findall(r"\bU?[RP]\d+\b", x)) for x in (source, text))
                regs |= {f"R{int(r[1:]) + k}" for r in regs if r.startswith("R") for k in range(4)}
                here |= {f"R{int(r[1:]) + k}" for r in here if r.startswith("R") for k in range(4)}
                right += bool(regs & here) or word in ("LDGSTS", "LDGDEPBAR", "DEPBAR")
        assert len(parts) > 2 and len(guarded) > 5, (arch, len(parts), len(guarded))
        assert checked > 100 and waits > 50 and right / waits > 0.8, (arch, checked, waits, right)


@pytest.mark.parametrize("arch, words", [
    ("80", "HMMA IMMA DMMA BMMA"), ("89", "HMMA IMMA DMMA BMMA QMMA"), ("90a", "HMMA IMMA DMMA BMMA HGMMA QGMMA IGMMA BGMMA"),
    ("100a", "HMMA IMMA DMMA UTCHMMA UTCQMMA UTCIMMA FFMA2"), ("120a", "HMMA IMMA DMMA QMMA")])
def test_matrix_instructions(tmp_path, arch, words):
    """Instructions of tensor cores and multiply-adds, and no others."""
    nvcc, disasm, program = tools(tmp_path)
    cubin = tmp_path / "m.cubin"
    subprocess.run([nvcc, f"-arch=sm_{arch}", "-cubin", "-o", cubin, TESTS + "/gpu/matrix.cu"], check=True, capture_output=True)
    text = subprocess.run([disasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    name = re.search(r"\.text\.(\S+):", text)[1]
    said = {int(at, 16): word for at, word in re.findall(r"/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?(\w+)", text)}
    assert {"FFMA", "HFMA2", "DFMA", *words.split()} <= set(said.values())
    for line in subprocess.run([program, cubin, name], check=True, capture_output=True, text=True).stdout.splitlines():
        _, _, pc, cls, op, *_ = line.split()
        word = said[int(pc, 16)]
        should = "tensor" if word.endswith("MMA") else "multiply" if word in ("FFMA", "FFMA2", "HFMA2", "DFMA") else None
        assert (cls if cls in ("tensor", "multiply") else None) == should, (line, word)
        assert not should or op in (word, "UTCMMA"), (line, word)
