# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""kilobytes.py COMMAND...: prints its exit status and its peak memory. Its own output is discarded.

A separate, small program, since the peak memory of a process includes the time before it executed the command."""
import os
import subprocess
import sys

with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
    status, usage = os.wait4(p.pid, 0)[1:]
    p.returncode = os.waitstatus_to_exitcode(status)
print(p.returncode, usage.ru_maxrss)
