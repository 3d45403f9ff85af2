# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ctl_requests.py SOCKET REQUEST...: sends these requests of cudatrace ctl; prints how many were accepted, and why the last one was not."""
import json
import socket
import sys


def send(path, *requests):
    taken, why = 0, ""
    for request in requests:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(path))
            s.sendall(("\t".join(request.split()) + "\n").encode())
            answer = json.loads(s.makefile().readline())
        why = answer.get("error", why)
        taken += "error" not in answer
    return taken, why.split(":")[0]


if __name__ == "__main__":
    print(*send(*sys.argv[1:]))
