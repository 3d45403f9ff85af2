# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Suites that boot kernels of tests/vm/kernels.txt, each once: the guest part of every test for that kernel runs there, then the tests
check what that left in files."""
import concurrent.futures
import os
import pathlib
import re

import pytest

from .jsonl import Trace
from .run import O, Ran


class Results:
    """What a test's part in a guest left."""

    def __init__(self, kernel, name):
        self.kernel, self.folder = kernel, pathlib.Path(O, "vm", kernel, "suite", name)
        self.release = pathlib.Path(O, "vm", kernel, "release").read_text(encoding="utf-8").strip()
        assert self.folder.is_dir(), f"{kernel}: {name} did not run"

    def __truediv__(self, name):
        return self.folder / name

    def text(self, name):
        return (self.folder / name).read_text(errors="replace")

    def trace(self, name):
        return Trace(self.folder / name)

    def counts(self, name, pattern=r"cu\w+"):
        """Calls by function, as the sample printed them."""
        return {k: int(n) for k, n in re.findall(rf"^({pattern}) (\d+)$", self.text(name), re.M)}


class Guests:
    """The guest parts of a module's tests: shell commands (busybox; tests/vm/run.sh describes the rest) that leave files in their working
    folder. before: commands for all but those in without."""

    def __init__(self, before="", without=(), files=lambda: ()):
        self.parts, self.before, self.without, self.files, self.boots = {}, before, without, files, {}

    def part(self, kernels, script):
        """The test has this part in these kernels. script may be a function of the kernel's name."""
        def decorate(test):
            name = test.__name__.removeprefix("test_")
            self.parts[name] = {k: script(k) if callable(script) else script for k in kernels}
            return pytest.mark.parametrize("kernel", kernels)(test)
        return decorate

    def _script(self, kernel):
        for name, of in self.parts.items():
            if kernel in of:
                # On the console: when a machine does not end, nothing else arrives.
                yield f"mkdir -p /results/{name}; cd /results/{name}; echo \"# $(cut -d ' ' -f 1 /proc/uptime) s: {name}\" >/dev/console"
                yield self.before if name not in self.without else ""
                yield of[kernel]
        yield "true\n"

    def _boot(self, kernel):
        path = f"{os.environ['TMP']}/{kernel}.sh"
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(self._script(kernel)))
        options = [word for file in self.files() for word in ("-a", file)]
        return Ran(["tests/vm/run.sh", "-q", "-n", "suite", "-t", "1500", *options, "-f", path, kernel], timeout=1800)

    def _begin(self):
        """Boots all kernels, two at once at most. What they have in common is made by the first."""
        pool = concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1))
        for kernel in dict.fromkeys(kernel for of in self.parts.values() for kernel in of):
            ran = Ran(["tests/vm/fetch.sh", kernel], timeout=600)
            self.boots[kernel] = pool.submit(self._boot, kernel) if ran.status == 0 else ran

    def booted(self, kernel):
        """The run of this kernel, which has ended."""
        if not self.boots:
            self._begin()
        ran = self.boots[kernel]
        ran = ran if isinstance(ran, Ran) else ran.result()
        if ran.status == 77:
            pytest.skip((ran.err + ran.out).strip().split("\n")[-1])
        return ran
