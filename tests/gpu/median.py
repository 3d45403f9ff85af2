# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""median.py NAME FILE: milliseconds per token, of the last line of what gpt2.py printed."""
import json, sys
r = json.loads(open(sys.argv[2]).readlines()[-1])["ms_per_token"]
print(sys.argv[1].ljust(13), "ms per token", sorted(r)[len(r) // 2], r)
