# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ports.py N: prints N free ports, outside the range of outgoing connections. They are free when it has ended."""
import random
import socket
import sys


def free():
    while True:
        s, n = socket.socket(), random.randrange(20000, 32000)
        try:
            s.bind(("127.0.0.1", n))
            return s
        except OSError:
            s.close()


def free_port():
    with free() as s:
        return s.getsockname()[1]


if __name__ == "__main__":
    print(*(s.getsockname()[1] for s in [free() for _ in range(int(sys.argv[1]))]))
