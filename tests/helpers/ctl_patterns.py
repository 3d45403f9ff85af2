# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ctl_patterns.py SOCKET WHO N: sends the patterns WHO-0 to WHO-(N-1) of cudatrace ctl level; prints how many were accepted, and the
answer to the last one that was not."""
import json, socket, sys
path, who, n = sys.argv[1:]
taken, why = 0, ""
for i in range(int(n)):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(path)
        s.sendall(f"level\t{who}-{i}\toff\n".encode())
        answer = json.loads(b"".join(iter(lambda: s.recv(4096), b"")))
        why = answer.get("error", why)
        taken += "error" not in answer
print(taken, why.split(":")[0])
