# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of the sample program, and what is in their files."""
import json
import os

from .run import CUDATRACE, FAKE, Ran, passes

# What is traced by default, but for cuFakeLocked.
DEFAULT = "all,!query,!cu[FP]*[LI]*[de]"
ENV = {"LD_LIBRARY_PATH": FAKE}
SAMPLE = [FAKE + "/sample", "--tokens", "3", "--layers", "2"]
# Makes some thousand calls a second until it is stopped.
ENDLESS = ["env", "FAKE_DELAY_US=cuStreamSynchronize:10000", FAKE + "/sample", "--tokens", "1000000", "--layers", "2", "--quiet"]


def ct(*args, env=None, **how):
    """cudatrace; nobody's sudo but that of env."""
    without = [f"--unset={k}" for k in ("SUDO_UID", "SUDO_GID") if k in os.environ and k not in (env or {})]
    return Ran([*(["env", *without] if without else []), CUDATRACE, *map(str, args)], env={**ENV, **(env or {})}, **how)


def schema(*args):
    passes("golden/schema_check.py", *args)


def chrome(path):
    """Its calls, and what its end says. It is whole."""
    with open(path, encoding="utf-8") as f:
        ev = json.load(f)
    assert isinstance(ev, list) and all(isinstance(e, dict) for e in ev)
    assert ev[0]["name"] == "trace begins" and ev[-1]["name"] == "trace ends"
    return [e for e in ev if e["ph"] == "X"], ev[-1]["args"]
