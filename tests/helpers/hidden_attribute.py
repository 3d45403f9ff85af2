# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""hidden_attribute.py GOT: checks that each resource that the collector received has the attribute that arguments are redacted."""
import base64, json, sys
bodies = [json.loads(base64.b64decode(json.loads(line)["body"])) for line in open(sys.argv[1])]
for kind in ("resourceSpans", "resourceMetrics"):
    assert any(b.get(kind) for b in bodies), kind
    for r in (r for b in bodies for r in b.get(kind, [])):
        assert {"key": "cudatrace.redacted", "value": {"stringValue": "arguments"}} in r["resource"]["attributes"], r["resource"]
