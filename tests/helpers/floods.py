# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs of other users that fill a daemon's tables (tests/flood.c), with libraries that return anything (tests/liar.c)."""
import json
import shutil
import subprocess

from .daemon import as_user
from .live import compiled
from .run import TESTS, until

SHARED = "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"


class Floods:
    """In the folder hostile of a place (helpers/daemon.py). new: floods that are about to begin."""

    def __init__(self, place):
        self.folder, self.place = place.folder / "hostile", place
        self.new, self.all = [], []
        self.folder.mkdir()
        self.flood = compiled(self.folder / "flood", f"{TESTS}/flood.c")
        self.lib = self.library(".", f"{TESTS}/liar.c")

    def library(self, name, *args):
        """Builds a libcuda in a folder of this name."""
        (self.folder / name).mkdir(exist_ok=True)
        return compiled(self.folder / name / "libcuda.so.1", *SHARED, *args)

    def many(self, name="many"):
        """A library with 1500 functions that are in no table."""
        header = self.folder / "many.h"
        header.write_text("".join(f"int cuMany{i}(void) {{ return 0; }}\n" for i in range(1, 1501)))
        return self.library(name, f'-DMORE="{header}"', f"{TESTS}/liar.c")

    def copies(self, count):
        """Copies of the library, which the daemon finds as different ones."""
        for i in range(count):
            (self.folder / f"copy.{i}").mkdir()
        return [shutil.copy(self.lib, self.folder / f"copy.{i}") for i in range(count)]

    def start(self, uid, *args):
        """Another user's program, which prints lines, and waits for lines."""
        p = self.place.start(*as_user(uid), *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.all.append(p)
        return p

    def add(self, uid, what, count, *libs):
        p = self.start(uid, self.flood, what, count, *(libs or [self.lib]))
        self.new.append(p)
        return p

    def go(self, d):
        """Begins the new floods when all are ready, and the daemon has found their library."""
        assert {p.stdout.readline() for p in self.new} == {"ready\n"}
        until(lambda: self.libraries(d), 10)
        for p in self.new:
            tell(p)

    def done(self):
        assert {p.stdout.readline() for p in self.new} == {"done\n"}
        self.new = []

    def run(self, d):
        self.go(d)
        self.done()

    def libraries(self, d):
        """How many of their libraries the daemon has; 0 also if it refuses to answer. Other programs may have some of their own."""
        ran = d.ask("status")
        return sum(x["path"].startswith(f"{self.folder}/") for x in json.loads(ran.out)["libraries"]) if ran.status == 0 else 0

    def leave(self):
        """Ends all of them."""
        for p in self.all:
            tell(p)
            p.stdin.close()
        for p in self.all:
            p.wait()
            p.stdout.close()
        self.all = []

    def kill(self):
        for p in self.all:
            p.terminate()
        for p in self.all:
            p.wait()
        self.all = []


def tell(p):
    p.stdin.write("\n")
    p.stdin.flush()
