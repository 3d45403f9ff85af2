# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""open_often.py FILE: opens it for writing as often as possible, for 3 s."""
import sys, time
end = time.monotonic() + 3
while time.monotonic() < end:
    open(sys.argv[1], "ab").close()
