# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# takes: 60
# own processes
"""The daemon's files: rotation and its limits, the command that takes them away, SIGHUP meanwhile, a full disk."""
import collections
import contextlib
import gzip
import json
import signal
import subprocess
import threading
import time

import pytest
from helpers.daemon import lines_of
from helpers.run import cudatrace, until


def report(*files):
    """The report in JSON, and its contents."""
    ran = cudatrace("report", "--format=json", "-o", "-", *files)
    return json.loads(ran.out), ran.err


def is_whole(path):
    """From header to end; or it has been removed meanwhile."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return True
    if path.suffix == ".zst":
        data = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=False).stdout
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    return len(lines) > 2 and json.loads(lines[0])["type"] == "header" and json.loads(lines[-1])["type"] == "end"


def watch(folder, seconds=2):
    """Looks at the folder as often as possible, until the time is over and files have been removed. Returns the largest total of bytes, and
    the names of finished files, with whether they were complete when they appeared."""
    most, seen, there, end = 0, {}, {}, time.monotonic() + seconds
    while time.monotonic() < end or not (len(seen) > 8 and seen.keys() - there) and time.monotonic() < end + 60:
        there = {}
        for f in [*folder.glob("*"), *folder.glob("pending/*")]:
            with contextlib.suppress(FileNotFoundError):
                there[f.name] = f.stat().st_size if f.is_file() else 0
                if f.is_file() and f.suffix != ".part" and f.name not in seen:
                    seen[f.name] = is_whole(f)
        most = max(most, sum(there.values()))
        time.sleep(0.002)
    return most, seen


# Without and with format threads.
@pytest.mark.parametrize("how,threads", [("zstd", 2), ("gzip", 0), ("none", 2)])
def test_rotation(private, how, threads):
    """Never more bytes than files.total_size; each file is complete when it appears; each call is a line or counted as dropped."""
    d = private.daemon("rot", "files.rotate_size=64K", "files.total_size=1M", f"files.compress={how}", f"files.format_threads={threads}",
                       "trace.buffer_size=32M", "recorder.seconds=0s", level="trace")
    c, stop = d.worker("rot"), threading.Event()

    def busy():
        while not stop.is_set():
            c.tell("alloc 3000")
    thread = threading.Thread(target=busy)
    thread.start()
    most, seen = watch(d.files)
    stop.set()
    thread.join()
    assert 400000 < most <= 1 << 20
    assert len(seen) > 8 and all(seen.values()), seen
    d.until(lambda m: m.total("file_lines_total") + m.total("file_lines_dropped_total") >= m.total("calls_total", command="w-rot") - 40
            and m.total("file_lines_dropped_total") == 0 < m.total("files_removed_total") and 0 < m.total("file_bytes") <= 1 << 20)
    c.end()
    d.stop()
    whole, said = report(*d.all_files())
    assert whole["overview"]["complete"] and not any(word in said for word in ("begins", "missing", "goes back"))
    # The end of each file counts its lines.
    for f in d.all_files():
        lines = list(lines_of(f))
        assert sum(lines[-1]["events"].values()) == len(lines) - 2 and lines[-1]["calls"] == sum("symbol" in x for x in lines)
    assert "cuMem" in cudatrace("report", "--full", d.all_files()[-1]).out


def test_reloads(private):
    """Rotation by age, with SIGHUP all the time: no call may be lost."""
    d = private.daemon("age", "files.rotate_age=1s", "trace.buffer_size=32M", level="trace")
    c = d.worker("aged")
    for i in range(20):
        d.p.send_signal(signal.SIGHUP)
        c.tell("alloc 500")
        time.sleep(0.1)
        if i == 6:
            d.conf.write_text("levle: off\n")
        if i == 7:
            d.until(lambda m: m.total("config_reload_failures_total") >= 1)
            d.rules("trace")
    time.sleep(1.5)
    # No file is open when no line comes.
    until(lambda: not d.all_files("*.part"), 5)
    # Signals that arrive while one is pending are merged.
    d.until(lambda m: 0 < m.total("config_reload_failures_total") <= 3 and m.total("config_reloads_total") > 2
            and m.total("config_reloads_total") + m.total("config_reload_failures_total") <= 20)
    assert "age.yaml:1: levle: there is no such key; did you mean level?" in d.said()

    def none_lost_or_twice(m):
        calls = [e for e in d.lines() if "symbol" in e]
        sym = collections.Counter(e["symbol"] for e in calls)
        return sym["cuMemAlloc_v2"] == sym["cuMemFree_v2"] == m.calls("w-aged") == 10000 and len({e["id"] for e in calls}) == len(calls)
    d.until(none_lost_or_twice)


def test_on_rotate(private):
    """The command gets each file until it accepts it; files that it has not accepted stay."""
    tried, go, copies = (private.folder / name for name in ("tried", "go", "copies"))
    copies.mkdir()
    command = f'echo "$1" >>{tried}; test -e {go} && cp "$1" {copies}/'
    d = private.daemon("cmd", "files.rotate_age=1s", f"files.on_rotate={command}", level="trace")
    d.worker("sent").tell("alloc 100")
    until(lambda: tried.exists() and len(tried.read_text().splitlines()) > 1, 12)
    assert len(set(tried.read_text().splitlines())) == 1
    assert d.all_files("pending/trace-*.zst") and not d.all_files("trace-*.zst")
    go.touch()
    until(lambda: d.all_files("trace-*.zst") and not d.all_files("pending/*"), 12)
    for f in d.all_files("trace-*.zst"):
        assert f.read_bytes() == (copies / f.name).read_bytes()
    # The calls traced meanwhile may be a file of their own, which counts when the command's end is known.
    d.until(lambda m: m.total("files_handled_total") == len(list(copies.iterdir())) >= 1 <= m.total("files_take_failures_total")
            and m.total("files_removed_total") == 0)


@pytest.fixture
def full_disk(private):
    folder = private.folder / "full.files"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        pytest.skip("no tmpfs can be mounted")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def lost_lines(of):
    return next((x for x in of["lost"] if x["id"] == "lines"), {"count": 0}) if not of["complete"] else {"count": 0}


def test_full_disk(private, full_disk):
    """The daemon must continue, count and report what it cannot write, and write again when there is space."""
    d = private.daemon("full", "files.compress=none", "files.format_threads=2", "trace.buffer_size=32M", "sample.cooldown=1s",
                       "recorder.on.error=true", level="trace")
    c = d.worker("filler")
    c.tell("alloc 3000")
    until(lambda: "No space left on device" in d.said() and d.ctl("status")["files"].get("error"), 5)
    c.tell("alloc 1000")
    c.tell("fail 1")
    d.until(lambda m: m.calls("w-filler") == 4000 and m.total("file_lines_dropped_total") > 2000
            and m.total("file_lines_total") + m.total("file_lines_dropped_total") >= m.total("calls_total", command="w-filler") - 40)
    lost = lost_lines(d.ctl("status"))
    assert lost["count"] > 2000 and lost["why"] == "No space left on device"
    # No half dump is left.
    for f in d.all_files("dump-*"):
        subprocess.run(["zstd", "-tq", f], check=True)
    for f in full_disk.iterdir():
        f.unlink()
    # The daemon tries again after a few seconds.
    time.sleep(10)
    c.tell("alloc 10")
    until(lambda: "lines are written again" in d.said() and d.all_files("trace-*.part"), 3)
    c.end()
    d.stop()
    # The next file lists what was not written before it.
    assert lost_lines(report(*d.all_files())[0])["count"] > 2000
