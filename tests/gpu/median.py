# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""median.py NAME FILE: prints milliseconds per token from the last line of gpt2.py's output."""
import json, sys
r = json.loads(open(sys.argv[2]).readlines()[-1])["ms_per_token"]
print(sys.argv[1].ljust(13), "ms per token", sorted(r)[len(r) // 2], r)
