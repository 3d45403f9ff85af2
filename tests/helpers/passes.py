# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Prints which values of include/ct_pm.def some chips count in one pass, as pm/gpu.c chooses them: passes.py LIBCUPTI. Needs no GPU."""
import ctypes
import json
import os
import re
import sys

CHIPS = ("GH100", "GB100", "GA100", "GA102", "AD102", "GB202")
WORD = ctypes.c_size_t
PERCENT, RATE = ".avg.pct_of_peak_sustained_elapsed", ".sum.per_second"


def rows():
    with open(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + "/include/ct_pm.def", encoding="utf-8") as f:
        for name, text in re.findall(r'^VALUE\(\w+, (\w+), \w+, "[^"]*", (.*?), "[^"]*"\)$', f.read(), re.M):
            parts = [{"PERCENT": PERCENT, "RATE": RATE}.get(x) or x.strip('"') for x in re.findall(r'"[^"]*"|PERCENT|RATE', text)]
            yield name, "".join(parts).split()


class Cupti:
    def __init__(self, path):
        ctypes.CDLL(os.path.dirname(path) + "/libnvperf_host.so", ctypes.RTLD_GLOBAL)
        self.lib = ctypes.CDLL(path)

    def call(self, name, *words):
        """Calls a function whose parameters are these words, after size and NULL. Returns (its result, the words)."""
        params = (WORD * (len(words) + 2))(8 * (len(words) + 2), 0, *words)
        return self.lib[name](params), list(params)[2:]

    def passes(self, chip, metrics):
        text = ctypes.create_string_buffer(chip.encode())
        names = (ctypes.c_char_p * len(metrics))(*[m.encode() for m in metrics])
        ret, (*_, host) = self.call("cuptiProfilerHostInitialize", 1, ctypes.addressof(text), 0, 0)
        assert not ret, (chip, ret)
        try:
            if self.call("cuptiProfilerHostConfigAddMetrics", host, ctypes.addressof(names), len(metrics))[0]:
                return 0
            ret, (_, size) = self.call("cuptiProfilerHostGetConfigImageSize", host, 0)
            image = ctypes.create_string_buffer(size)
            if ret or self.call("cuptiProfilerHostGetConfigImage", host, size, ctypes.addressof(image))[0]:
                return 0
            return self.call("cuptiProfilerHostGetNumOfPasses", size, ctypes.addressof(image), 0)[1][2]
        finally:
            self.call("cuptiProfilerHostDeinitialize", host)


def main(path):
    cupti, found = Cupti(path), {}
    for chip in CHIPS:
        metrics, found[chip] = [], []
        for value, candidates in rows():
            fits = [c for c in candidates if cupti.passes(chip, [*metrics, c]) == 1][:1]
            metrics += fits
            found[chip] += [value] if fits else []
    print(json.dumps(found))


main(sys.argv[1])
