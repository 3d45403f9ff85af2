# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""fetch.py URL: prints the content; at most 40 seconds."""
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=40) as answer:
    sys.stdout.write(answer.read().decode())
