# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""--kernel-args: the values of kernel parameters in the trace must be those that the program (tests/kernel_args.c) prints itself, and the memory
that they point to that of its allocations."""
import json
import os
import re
import subprocess

import pytest
from helpers.jsonl import Trace
from helpers.live import compiled
from helpers.outputs import schema
from helpers.run import CUDATRACE, FAKE, O, TESTS, cudatrace, inside, needs_mechanism, until


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("args") / "kernel_args", f"-I{TESTS}", f"{TESTS}/kernel_args.c")


def traced(path, program, *args, driver=FAKE, run=inside, check=schema):
    ran = run("-q", *args, "--jsonl", path, "--", program, env={"LD_LIBRARY_PATH": driver})
    assert ran.status == 0, ran
    check(path)
    t = Trace(path)
    assert t.accounts()
    return ran.out.splitlines(), t


def as_bytes(p):
    """A value as the program prints it: its bytes in memory."""
    value = p.get("value")
    if value is None:
        return "-"
    return int(value, 16).to_bytes(p["size"], "little").hex() if value.startswith("0x") else value


def shown(x):
    """The line of the program for this launch."""
    name = x["kernel"].split("(")[0] + (" cut" if x.get("params_cut") else "")
    if x["params"] is None:
        return name + " unknown"
    return " ".join([name, *(f"{p['offset']}:{p['size']}:{as_bytes(p)}" for p in x["params"])])


def launches(t):
    return [x for x in t.calls if x["type"] == "kernel"]


@pytest.mark.parametrize("driver", ["fake", "fake535"])
@pytest.mark.parametrize("args", [(), ("--kernel-args", "--stack"), ("--no-strings",)], ids=" ".join)
def test_values(tmp_path, program, driver, args):
    (block, freed, *said), t = traced(tmp_path / "t.jsonl", program, *args, driver=f"{O}/{driver}")
    rows = launches(t)
    if "--no-strings" in args:  # kernels have no names, but their parameters are no strings
        said = [line.split(" ", 1)[1].removeprefix("cut ") for line in said]
        rows = [{**x, "kernel": "", "params_cut": False} for x in rows]
    assert [shown(x).strip() for x in rows] == said and len(said) == 36
    # Query calls are not the program's.
    assert not [x for x in t.calls if "ParamInfo" in x["name"] or "CaptureMode" in x["name"]]
    # Each word that may be an address, against the program's blocks.
    block, freed = (int(x.split()[1], 16) for x in (block, freed))
    free = next(x["id"] for x in t.calls if x["name"] == "cuMemFree")
    for x in rows:
        for p in x["params"] or ():
            expected = []
            raw = bytes.fromhex(as_bytes(p)) if "value" in p else b""
            for at in range(-p["offset"] % 8, len(raw) - 7, 8):
                address = int.from_bytes(raw[at:at + 8], "little")
                for ptr, size, more in ((block, 4096, {"state": "live"}), (freed, 8192, {"state": "freed", "freed_by": free})):
                    if ptr <= address < ptr + size:
                        expected.append({**({"at": at} if at else {}), "ptr": hex(ptr), "size": size, "offset": address - ptr, **more})
            assert p.get("memory", []) == expected
    assert sum(len(p.get("memory", [])) for x in rows for p in x["params"] or ()) == 34


def test_same_in_workers(tmp_path, program):
    """Lines that other threads format."""
    _, t = traced(tmp_path / "one.jsonl", program, "--format-threads", 0)
    _, u = traced(tmp_path / "two.jsonl", program, "--format-threads", 2)
    assert [[(p["size"], "memory" in p) for p in x["params"] or ()] for x in launches(t)] == [[(p["size"], "memory" in p) for p in x["params"] or ()] for x in launches(u)]


@pytest.mark.parametrize("args", [("--no-args",), ("--kernel-args=off",), ("-e", "launch")], ids=" ".join)
def test_off(tmp_path, program, args):
    """-e launch does not see when a handle becomes another kernel's."""
    _, t = traced(tmp_path / "t.jsonl", program, *args)
    assert launches(t) and not [x for x in launches(t) if "params" in x]
    # No form of its values either.
    text = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    assert "1234567" not in text and "796563412" not in text and "78563412" not in text


def test_driver_without_it(tmp_path, program):
    """The functions of this driver cannot be called behind the exports."""
    said, t = traced(tmp_path / "t.jsonl", program, driver=O + "/fakeplain")
    assert [x["params"] for x in launches(t)] == [None] * (len(said) - 2)


def test_by_probes(tmp_path, program):
    needs_mechanism("session")
    _, t = traced(tmp_path / "t.jsonl", program, "--probe=uprobe", run=cudatrace)
    assert not [x for x in launches(t) if "params" in x]
    said, t = traced(tmp_path / "both.jsonl", program, "--kernel-args", run=cudatrace)
    assert [shown(x) for x in launches(t)] == said[2:]
    # With frames and operators, too.
    said, t = traced(tmp_path / "frames.jsonl", program, "--kernel-args", "--python", "--torch", run=cudatrace, check=os.stat)
    assert [shown(x) for x in launches(t)] == said[2:] and all(x["id"] >> 48 == 2 for x in launches(t))
    ran = cudatrace("--kernel-args", "--probe=uprobe", "--", "true")
    assert ran.status == 2 and "--kernel-args needs --probe=inject" in ran.err


def test_late(tmp_path, program):
    """Kernels of a running program, also those that were loaded before; these have no names."""
    needs_mechanism("session")
    path = tmp_path / "t.jsonl"
    with subprocess.Popen([program, "late"], env={**os.environ, "LD_LIBRARY_PATH": FAKE}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        try:
            until(lambda: p.stdout.readline() == "ready\n")
            with subprocess.Popen([CUDATRACE, "-q", "--kernel-args", "-p", str(p.pid), "--jsonl", path], stderr=subprocess.PIPE, text=True) as tracer:
                # Its ids show that the library has taken over.
                until(lambda: path.exists() and re.search(r'"id":56\d{13},', path.read_text()))
                said = p.communicate("\n", 60)[0].splitlines()
                assert p.returncode == 0 and tracer.wait(60) == 0 and not tracer.stderr.read()
        finally:
            p.kill()
    t = Trace(path)
    assert t.accounts() and all(x["id"] >> 48 == 2 for x in launches(t))
    rows, said = launches(t), [line.split(" ", 1) for line in said if ":" in line or "unknown" in line]
    assert len(rows) == len(said) == 36
    for x, (name, params) in zip(rows, said):
        assert shown({**x, "kernel": name}).removeprefix(name + " ").removeprefix("cut ") == params.removeprefix("cut "), x
    assert sum("kernel" in x for x in rows) > 20 and all("kernel" in x and x["kernel"].startswith(name) for x, (name, _) in list(zip(rows, said))[-20:])


def test_saved(tmp_path, program):
    """A report on such a trace reads it, and writes its lines unchanged."""
    path = tmp_path / "t.jsonl"
    _, t = traced(path, program)
    ran = cudatrace("report", "-q", "--json", path)
    assert ran.status == 0 and json.loads(ran.out)["overview"]["calls"] == len(t.calls)
