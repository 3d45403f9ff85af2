# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ctl_patterns.py SOCKET NAME...: sends these patterns of cudatrace ctl level; prints how many were accepted, and why the last one was not."""
import json
import socket
import sys


def send(path, *names):
    taken, why = 0, ""
    for name in names:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(path))
            s.sendall(f"level\t{name}\toff\n".encode())
            answer = json.loads(s.makefile().readline())
        why = answer.get("error", why)
        taken += "error" not in answer
    return taken, why.split(":")[0]


if __name__ == "__main__":
    print(*send(*sys.argv[1:]))
