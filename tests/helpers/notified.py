# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""notified.py SOCKET: prints the notifications that systemd would receive."""
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind(sys.argv[1])
while 1: print(s.recv(4096).decode(), flush=True)
