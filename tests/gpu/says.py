# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints the end line of a trace on stdin."""
import json, sys
e = json.loads(sys.stdin.readline())
print({k: e[k] for k in ("calls", "events", "drops", "unfinished", "cost_ms", "cost_share")})
