# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""lease.py FILE: holds a lease on it, and releases it a moment after the request."""
import fcntl, os, signal, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
signal.signal(signal.SIGIO, lambda *_: (time.sleep(0.2), fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK), sys.exit(0)))
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
print("held", flush=True)
time.sleep(20)
sys.exit(1)
