#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Malicious clients and collectors, on 127.0.0.1 only, each for a limited time.

    hostile.py ATTACK PORT SECONDS          of the metrics port: pipeline, readers, header, body, connections, drip, flood,
                                            unread; as nobody
    hostile.py ctl-ATTACK SOCKET SECONDS    of the control socket: ctl-line, ctl-connections, ctl-readers, ctl-drip;
                                            as nobody of group nogroup
    hostile.py answer-ATTACK PORT SECONDS   a collector: answer-continue, answer-header, answer-chunk, answer-body, answer-drip

It prints the amount sent (MB), the number of connections, and for drip the lifetime of the longest one (s).
"""
import os, resource, socket, sys, threading, time

attack, where, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end = time.time() + seconds
sent = made = 0
longest = 0.0
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))


def connect(small=False):
    """Connects, and makes the socket non-blocking: data that cannot be sent is dropped."""
    global made
    s = socket.socket(socket.AF_UNIX if attack.startswith("ctl-") else socket.AF_INET)
    if small:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(1)
    s.connect(where if s.family == socket.AF_UNIX else ("127.0.0.1", int(where)))
    s.setblocking(False)
    made += 1
    return s


def push(s, data):
    """Returns False when the other end has closed."""
    global sent
    try:
        sent += s.send(data)
    except BlockingIOError:
        time.sleep(0.001)
    except OSError:
        return False
    return True


def is_open(s, read=1):
    try:
        return s.recv(read) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def endless(first, again):
    """Opens one connection after the other, which sends endlessly and reads nothing."""
    while time.time() < end:
        try:
            s = connect()
        except OSError:
            time.sleep(0.01)
            continue
        push(s, first)
        while time.time() < end and push(s, again):
            pass
        s.close()


def many(cnt, request, keep, pause=0.05):
    """Keeps cnt connections open; keep(s) is called for each in turn, and returns whether to keep it."""
    global longest
    all_of_them = {}
    while time.time() < end:
        while len(all_of_them) < cnt and time.time() < end:
            try:
                s = connect(small=True)
            except OSError:
                break
            all_of_them[s] = time.time()
            push(s, request)
        for s in list(all_of_them):
            if not keep(s):
                longest = max(longest, time.time() - all_of_them.pop(s))
                s.close()
        time.sleep(pause)
    longest = max([longest] + [time.time() - t for t in all_of_them.values()])


def unread(cnt, request):
    """Keeps the newest cnt connections open, each from an address of its own, and reads nothing."""
    global made
    kept = []
    while time.time() < end:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.settimeout(1)
        try:
            s.bind((f"127.{1 + made // 65536}.{made // 256 % 256}.{2 + made % 250}", 0))
            s.connect(("127.0.0.1", int(where)))
            push(s, request)
        except OSError:
            s.close()
            continue
        made += 1
        kept.append(s)
        if len(kept) > cnt:
            kept.pop(0).close()


def flood(request):
    while time.time() < end:
        try:
            s = connect()
        except OSError:
            continue
        push(s, request)
        s.setblocking(True)
        s.settimeout(1)
        try:
            while s.recv(65536):
                pass
        except OSError:
            pass
        s.close()


def collector(first, again, pause=0.0):
    """Accepts a request, and answers endlessly."""
    def serve(s):
        try:
            s.settimeout(seconds)
            s.recv(65536)
            s.sendall(first)
            while time.time() < end:
                s.sendall(again)
                global sent
                sent += len(again)
                time.sleep(pause)
        except OSError:
            pass
        s.close()
    def close_all():
        time.sleep(max(0, end - time.time()))
        report()
        os._exit(0)
    listener = socket.create_server(("127.0.0.1", int(where)))
    threading.Thread(target=close_all, daemon=True).start()
    global made
    while True:
        s, _ = listener.accept()
        made += 1
        threading.Thread(target=serve, args=(s,), daemon=True).start()


def report():
    print(f"{sent >> 20} {made} {longest:.1f}", flush=True)


GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
ATTACKS = {
    "pipeline": lambda: endless(b"", GET % b"/metrics" * 500),
    "header": lambda: endless(b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10000),
    "body": lambda: endless(b"GET / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"x" * 65536),
    "readers": lambda: many(100, GET % b"/metrics", lambda s: is_open(s, 64)),
    "connections": lambda: many(1000, b"", is_open),
    "drip": lambda: many(8, b"GET / HTTP/1.1\r\na:", lambda s: is_open(s) and push(s, b"b"), 0.3),
    "flood": lambda: flood(GET % b"/healthz"),
    "unread": lambda: unread(900, GET % b"/metrics"),
    "flood-metrics": lambda: flood(GET % b"/metrics"),
    "ctl-line": lambda: endless(b"", b"x" * 65536),
    "ctl-connections": lambda: many(200, b"", is_open),
    "ctl-readers": lambda: many(100, b"status\n", lambda s: is_open(s, 64)),
    "ctl-drip": lambda: many(4, b"", lambda s: is_open(s) and push(s, b"b"), 0.3),
    "answer-continue": lambda: collector(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "answer-header": lambda: collector(b"HTTP/1.1 200 OK\r\n", b"X-a: " + b"a" * 6000 + b"\r\n"),
    "answer-one-header": lambda: collector(b"HTTP/1.1 200 OK\r\nX: ", b"a" * 65536),
    "answer-chunk": lambda: collector(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"ff\r\n" + b"a" * 255 + b"\r\n"),
    "answer-one-chunk": lambda: collector(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", b"a" * 65536),
    "answer-body": lambda: collector(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"a" * 65536),
    "answer-drip": lambda: collector(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", b"a", 0.5),
}
if not attack.startswith("answer-") and os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ATTACKS[attack]()
report()
