# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""holds.py TRACE EXPRESSION [NAME=VALUE...]: evaluates a Python expression over a JSONL trace, see Trace and tests/lib.sh."""
# pylint: disable=eval-used
import collections
import json
import os
import re
import sys

from jsonl import Trace

try:
    trace = Trace(sys.argv[1])
except AssertionError as e:
    sys.exit(str(e))
scope = {"collections": collections, "json": json, "os": os, "re": re, "accounts": trace.accounts}
scope.update(vars(trace))
for arg in sys.argv[3:]:
    name, _, value = arg.partition("=")
    scope[name] = value
try:
    result = eval(sys.argv[2], scope)
except AssertionError as e:
    sys.exit(str(e))
except Exception as e:  # pylint: disable=broad-except
    sys.exit(f"{sys.argv[2]}: {type(e).__name__}: {e}")
if not result:
    short = [{k: v for k, v in e.items() if k not in ("args", "comm")} for e in trace.ev[1:-1]]
    print("not so:", sys.argv[2])
    print("\n".join(json.dumps(e)[:250] for e in short[:6]))
    print(json.dumps(trace.end)[:600])
    sys.exit(1)
