# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ctl_patterns_again.py SOCKET: each pattern is a rule that every new process is compared with: a repeated one must use no more memory."""
import collections, json, socket, sys
def ask(pattern):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sys.argv[1])
        s.sendall(f"level\t{pattern}\toff\n".encode())
        return json.loads(s.makefile().readline()).get("error", "")
got = [ask(f"none-{i % 256}") for i in range(600)] + [ask("none-256"), ask("none-7")]
sys.exit(None if not any(got[:600]) and "256 patterns" in got[600] and not got[601] else
         f"{collections.Counter(got[:600])} {got[600:]}")
