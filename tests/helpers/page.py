# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The content of a report's page: `cudatrace report --format=html`."""
import base64
import json
import re
import zlib


class Page:
    """text; report and meta: the JSON of the report, and of its events."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.text = f.read()
        part = dict(re.findall(r'<script type="application/[a-z-]+" id="(\w+)">(.*?)</script>', self.text, re.S))
        self.report, self.meta = json.loads(part["report"]), json.loads(part["meta"])
        self.packed = zlib.decompress(base64.b64decode(part["columns"]))

    def columns(self):
        """The events, lane by lane: begin (relative to the previous one), duration, index into meta's what, detail (0: none), id."""
        values, x, shift = [], 0, 0
        for b in self.packed:
            x |= (b & 127) << shift
            shift += 7
            if b < 128:
                values.append(x)
                x = shift = 0
        n = self.meta["events"]
        assert not shift and len(values) == 5 * n
        return [values[i * n:(i + 1) * n] for i in range(5)]
