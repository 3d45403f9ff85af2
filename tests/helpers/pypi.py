# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Packages of the Python package index, for tests only. They are installed to $O/pypi/, at fixed versions, and kept there; installing
them runs none of their code. Missing is raised with the reason if they are unavailable."""
import os
import shutil
import subprocess
import sys

ROOM = os.environ.get("O", "build") + "/pypi"


class Missing(Exception):
    """The packages are unavailable."""


def pip(*args):
    ran = subprocess.run([sys.executable, "-m", "pip", "-q", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    if ran.returncode:
        raise Missing("pip: " + (ran.stderr.strip().split("\n") or ["?"])[-1])


def placed(name, make):
    """Returns the folder of that name, which is created once, and atomically."""
    at = f"{ROOM}/{name}"
    if not os.path.isdir(at):
        new = f"{at}.{os.getpid()}"
        try:
            make(new)
            os.rename(new, at)
        except OSError:
            if not os.path.isdir(at):
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return at


def folder(*packages, needs=False):
    """The folder with these packages ("name==version"); needs: and with the packages that they need."""
    more = [] if needs else ["--no-deps"]
    return placed("-".join(packages), lambda new: pip("install", "--only-binary=:all:", *more, "--no-compile", "--target", new, *packages))


def use(*packages, needs=False):
    """They can be imported."""
    at = folder(*packages, needs=needs)
    if at not in sys.path:
        sys.path.insert(0, at)
