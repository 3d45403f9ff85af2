# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 20
"""The Chrome trace in a real viewer, chrome://tracing, in headless Chromium. The viewer's model is compared with the input.
Screenshots are left in $O/check/."""
import json
import os
import subprocess
import sys

import pytest
from helpers.run import CC, O, TESTS


class Loaded:
    """The viewer's model."""

    def __init__(self, trace, *picture):
        p = subprocess.run([sys.executable, TESTS + "/chrome/load.py", trace, *picture], capture_output=True, text=True, check=False)
        if p.returncode == 77:
            pytest.skip(p.stderr.strip().split("\n")[-1])
        assert p.returncode == 0, p.stdout[:1000] + p.stderr[-2000:]
        self.__dict__.update(json.loads(p.stdout))


@pytest.fixture(scope="module")
def made():
    """The trace, and its expected contents."""
    folder = os.environ["TMP"]
    subprocess.run([*CC, "-std=gnu11", "-O1", "-D_GNU_SOURCE=", "-Isrc", "-Iinclude", "-Itests", TESTS + "/chrome/make_trace.c", O + "/libct.a",
                    "-lz", "-lseccomp", "-l:libiberty.a", "-l:libstdc++.a", "-lpthread", "-ldl", "-lm", "-o", folder + "/make_trace"], check=True)
    wanted = json.loads(subprocess.check_output([folder + "/make_trace", folder + "/trace.json"]))
    return folder + "/trace.json", wanted


@pytest.fixture(scope="module")
def found(made):
    f = Loaded(made[0], O + "/check/chrome.png")
    print("viewer:", f.viewer, "in Chromium", f.browser)
    return f


def test_loads(found):
    assert not found.warnings


@pytest.mark.parametrize("what", ["slices", "arrows", "counters", "processes", "threads", "global_instants", "process_instants", "nested"])
def test_same(found, made, what):
    assert getattr(found, what) == made[1][what]


def test_arrows_have_two_ends(found):
    assert found.arrow_pairs and all(a and b for a, b in found.arrow_pairs)


def test_colours_are_of_its_palette(found):
    assert found.bad_colours == []


def test_names(found):
    assert "python3 (pid 4711)" in found.names and "python3" in found.names


@pytest.mark.parametrize("cut", [5, 150])
def test_cut(found, made, tmp_path, cut):
    """A trace of a killed tracer (whole lines, no end) must load. It is cut dozens of lines before the end and half-way."""
    path = tmp_path / "cut.json"
    with open(made[0], encoding="utf-8") as f:
        text = "".join(f.readlines()[:-cut])
    path.write_text(text)
    assert Loaded(str(path)).slices == text.count('"ph":"X"')
