# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mock devices of the NVIDIA driver: a FUSE server (tests/nvfuse/server.c) in a folder."""
import contextlib
import os
import subprocess

import pytest

from .live import compiled
from .run import TESTS

# The tracer takes files named nvidiactl for devices.
BY_NAME = {"CUDATRACE_TEST_NV_BY_NAME": "1"}


def needs_no_driver():
    """drive.c uses the layouts of the newest known driver, which cudatrace uses if none is loaded."""
    if os.path.exists("/sys/module/nvidia"):
        pytest.skip("the NVIDIA driver is loaded: its version would choose the layouts")


@contextlib.contextmanager
def mock_devices(folder):
    """Yields a folder with the devices; unmounted at the end."""
    needs_no_driver()
    nv = f"{folder}/nv"
    os.makedirs(nv, exist_ok=True)
    server = compiled(f"{folder}/server", f"{TESTS}/nvfuse/server.c")
    with subprocess.Popen([server, nv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        if p.stdout.readline() != "ready\n":
            pytest.skip("no mock device: " + p.stderr.read())
        yield nv
        p.terminate()
