# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Traces of the sample program, and the content of their files."""
import json
import os

from .run import CUDATRACE, FAKE, Ran, passes

# The functions traced by default, except cuFakeLocked.
DEFAULT = "all,!query,!cu[FP]*[LI]*[de]"
ENV = {"LD_LIBRARY_PATH": FAKE}
SAMPLE = [FAKE + "/sample", "--tokens", "3", "--layers", "2"]
# Makes a few thousand calls per second until it is stopped.
ENDLESS = ["env", "FAKE_DELAY_US=cuStreamSynchronize:10000", FAKE + "/sample", "--tokens", "1000000", "--layers", "2", "--quiet"]


def ct(*args, env=None, **how):
    """Runs cudatrace, with variables of sudo only from env."""
    without = [f"--unset={k}" for k in ("SUDO_UID", "SUDO_GID") if k in os.environ and k not in (env or {})]
    return Ran([*(["env", *without] if without else []), CUDATRACE, *map(str, args)], env={**ENV, **(env or {})}, **how)


def schema(*args):
    passes("golden/schema_check.py", *args)


def chrome(path):
    """The calls and the end of a complete trace."""
    with open(path, encoding="utf-8") as f:
        ev = json.load(f)
    assert isinstance(ev, list) and all(isinstance(e, dict) for e in ev)
    assert ev[0]["name"] == "trace begins" and ev[-1]["name"] == "trace ends"
    return [e for e in ev if e["ph"] == "X"], ev[-1]["args"]
