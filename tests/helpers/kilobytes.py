# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""kilobytes.py COMMAND...: prints its exit status and the most memory that it took. What it says itself is not shown.

A program of its own, a small one: the most that a process took counts from before it became the command."""
import os
import subprocess
import sys

with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
    status, usage = os.wait4(p.pid, 0)[1:]
    p.returncode = os.waitstatus_to_exitcode(status)
print(p.returncode, usage.ru_maxrss)
