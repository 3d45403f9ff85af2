# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""says.py FILE EXPRESSION: evaluates a Python expression over d, the content of a JSON file ("-": stdin), and ph(PHASE), its events
of a phase of a Chrome trace. For tests/unit."""
import json
import sys

with (sys.stdin if sys.argv[1] == "-" else open(sys.argv[1], encoding="utf-8")) as f:
    d = json.load(f)
globals()["ph"] = lambda phase: [e for e in d if e["ph"] == phase]
sys.exit(not eval(sys.argv[2]))  # pylint: disable=eval-used
