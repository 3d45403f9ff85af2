# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""fetch.py URL: what is there; 40 seconds at most."""
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=40) as answer:
    sys.stdout.write(answer.read().decode())
