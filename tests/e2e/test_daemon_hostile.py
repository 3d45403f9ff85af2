# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 90
# own processes
"""Hostile clients and collectors (tests/hostile.py): the daemon's memory must have a limit, others get responses, and every call of a
traced program is counted meanwhile."""
import contextlib
import ctypes
import http.client
import os
import pathlib
import socket
import statistics
import time
import urllib.error

import pytest
from helpers.daemon import Private, fetch, served
from helpers.ports import free_port
from helpers.health import healthy
from helpers.run import needs_tracing, until

ROOM = 32 << 10  # kB that an attack may cost


@pytest.fixture(scope="module")
def place():
    needs_tracing()
    p = Private(os.environ["TMP"])
    yield p
    p.close()


@pytest.fixture(scope="module")
def daemon(place):
    """A daemon, and a program whose calls must all be counted. It ends well after all attacks."""
    d = place.daemon("hostile", "ctl.group=nogroup", "trace.buffer_size=32M", "recorder.seconds=0s").begin_victim()
    yield d
    d.victim.end()
    d.stop()


def quick(d):
    """The median time of 20 requests of root must be short, with the connections of another user in the way."""
    took = []
    for _ in range(20):
        begin = time.monotonic()
        with socket.create_connection(d.at.split(":"), timeout=10) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert s.recv(4096).startswith(b"HTTP/1.1 200")
        took.append(time.monotonic() - begin)
    assert statistics.median(took) < 0.06, took


def scrapes(d):
    served(d, 10, 12, "metrics")


def status(d):
    """Root gets a response of the control socket."""
    assert d.ctl("status", timeout=10)


def forget_peak(d):
    pathlib.Path(f"/proc/{d.pid}/clear_refs").write_text("5")
    return d.kilobytes("VmHWM")


@contextlib.contextmanager
def attack(d, what, seconds):
    """Checks what must hold during an attack. Yields its sums: MB, connections, lifetime of the longest (s)."""
    sums, before = [], forget_peak(d)
    p = d.place.attack(what, d.sock if what.startswith("ctl-") else d.at.split(":")[1], seconds, out="attack")
    time.sleep(0.5)
    with healthy(d.at):
        time.sleep(1)
    served(d)
    d.victim_allocates(2000)
    yield sums
    p.wait()
    sums += map(float, (d.place.folder / "attack").read_text().split()[-3:])
    assert sums[1] > 0, "it has taken place"
    print(what, before, "then", d.kilobytes("VmHWM"), "kB; the attack:", *sums)
    assert d.kilobytes("VmHWM") <= before + ROOM
    d.until_all_counted()


@pytest.mark.parametrize("method,path,header,want", [
    ("GET", "/healthz", "", 200), ("HEAD", "/metrics", "", 200), ("DELETE", "/metrics", "", 405), ("GET", "/x?y", "", 404),
    ("GET", "/", "a" * 9000, 431)], ids=["length", "HEAD", "other methods", "no such page", "a request that is too long"])
def test_http(daemon, method, path, header, want):
    """One response per connection, with its length."""
    c = http.client.HTTPConnection(daemon.at, timeout=5)
    c.request(method, path, headers={"X": header})
    r = c.getresponse()
    body = r.read()
    assert r.status == want and r.will_close and (path != "/healthz" or r.headers["Content-Length"] == str(len(body)) == "3")


@pytest.mark.parametrize("what,seconds,check", [
    ("pipeline", 3, ()), ("header", 3, ()), ("body", 3, ()), ("flood", 3, ()), ("flood-metrics", 3, ()),
    ("connections", 6, (quick, scrapes)), ("ctl-line", 3, (status,)), ("ctl-connections", 3, (status,)), ("ctl-readers", 3, (status,))])
def test_attack(daemon, what, seconds, check):
    """Another client is answered within a second, root gets responses, memory is limited, and no call is lost."""
    with attack(daemon, what, seconds):
        for one in check:
            one(daemon)


def test_large_replies(daemon):
    """A /metrics response that exceeds the socket's buffers, and is not read."""
    for i in range(70):
        daemon.place.sample(f"many{i}", "--tokens", 1, "--layers", 1, FAKE_DELAY_US="")
    until(lambda: len(daemon.metrics().text) > 1000000, 10)
    for what, seconds in ("readers", 4), ("unread", 9), ("pipeline", 3):
        with attack(daemon, what, seconds):
            if what == "unread":
                scrapes(daemon)
    assert daemon.metrics().total("http_connections_closed_total") > 500


def test_a_byte_now_and_then(daemon):
    """Slow requests are ended after 10 s, at the port and at the control socket."""
    other = daemon.place.attack("ctl-drip", daemon.sock, 14, out="drip.ctl")
    with attack(daemon, "drip", 14) as sums:
        pass
    other.wait()
    for longest in sums[2], float((daemon.place.folder / "drip.ctl").read_text().split()[-1]):
        assert 9 <= longest <= 13


def test_main_thread_stops(daemon):
    """/healthz needs nothing of the main thread, and reports that it does not run. A tracer stops only that thread."""
    ptrace, attach, detach = ctypes.CDLL(None).ptrace, 16, 17
    health = f"http://{daemon.at}/healthz"
    assert ptrace(attach, daemon.pid, 0, 0) == 0
    os.waitpid(daemon.pid, os.WUNTRACED)
    try:
        with healthy(daemon.at):
            time.sleep(1)
        with pytest.raises(OSError):
            fetch(f"http://{daemon.at}/metrics", 1)
        until(lambda: not daemon.healthy(1), 12)
        with pytest.raises(urllib.error.HTTPError, match="503"):
            fetch(health, 1)
    finally:
        ptrace(detach, daemon.pid, 0, 0)
    until(daemon.healthy, 10)
    assert daemon.metrics().total("http_connections_closed_total") >= 0


@pytest.mark.parametrize("what", ["continue", "header", "chunk", "drip"])
def test_collector(place, what):
    """A collector whose response never ends: the daemon answers others, and gives the request up after 10 s."""
    port = free_port()
    collector = place.attack("answer-" + what, port, 13, out="collector")
    d = place.daemon("otlp-" + what, f"otlp.endpoint=http://127.0.0.1:{port}", "otlp.interval=1s", "recorder.seconds=0s")
    before = forget_peak(d)
    served(d)
    d.until(lambda m: m.total("otlp_failures_total") > 0)
    print(before, "then", d.kilobytes("VmHWM"), "kB")
    assert d.kilobytes("VmHWM") <= before + ROOM
    d.stop()
    collector.kill()
