# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""handles_sigchld.py PROGRAM: runs it, and ends with its status if the first SIGCHLD was its end, as supervisors expect."""
import os
import signal
import subprocess
import sys
import time

got = []
signal.signal(signal.SIGCHLD, lambda *_: got.append(1))
p = subprocess.Popen(sys.argv[1:])
while not got:  # the signal may have come already
    time.sleep(0.01)
status = p.poll()
os._exit(99 if status is None or len(got) != 1 else status)
