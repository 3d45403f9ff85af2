# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""How long the daemon takes to answer /healthz under each attack of the suites. It needs processors for the attacks, the daemon and this
program, but no GPU:

    answers.py CUDATRACE STANDIN_LIBCUDA [SECONDS [ATTACK...]]

Prints for each attack the number of requests, the median, the 99th percentile and the maximum in milliseconds, and the daemon's longest
turn. An unloaded daemon is the first row. Fails if an answer takes more than 100 ms.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

TESTS = pathlib.Path(__file__).resolve().parent.parent
LIMIT_MS = 100
cudatrace, standin, seconds = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "4"
folder = pathlib.Path(tempfile.mkdtemp(prefix="answers-"))
folder.chmod(0o755)
lib = shutil.copy(standin, folder / "libcuda.so.1")


def built(source, *args):
    out = folder / pathlib.Path(source).stem
    subprocess.run([os.environ.get("CC", "gcc"), "-O1", "-w", "-D_GNU_SOURCE", *args, "-o", out, TESTS / source, "-ldl", "-lpthread"], check=True)
    return out


def slow_elf(what, name):
    (folder / what).mkdir()
    subprocess.run([sys.executable, TESTS / "helpers/slow_elf.py", what, folder / what / name], check=True)
    return folder / what / name


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


churn, stall, greedy, linger = built("churn.c"), built("stall.c"), built("inject/greedy.c", f"-I{TESTS}/../include"), built("inject/linger.c")
metrics, sock, door = port(), folder / "ctl.sock", folder / "inject"
config = folder / "d.yaml"
config.write_text(f"""level: off
rules:
  - match: {{command: "{folder}/*"}}
    level: trace
trace: {{inject: true, inject_folder: {door}}}
metrics: {{listen: '127.0.0.1:{metrics}'}}
ctl: {{socket: {sock}, group: nogroup}}
files: {{directory: {folder}/files}}
recorder: {{seconds: 60s}}
""")
ATTACKS = {
    "none": ["sleep", seconds],
    **{f"churn {w}": [churn, w, seconds, lib] for w in ("renames", "forks", "sessions", "threads", "execs", "loads")},
    **{f"stall {w}": [stall, w, "FOLDER", seconds] for w in ("fds", "deleted", "mounts", "files", "threads", "forks")},
    "stall lines": [stall, "lines", "FOLDER", seconds, lib],
    **{f"elf {w}": [stall, "elf", "FOLDER", seconds, slow_elf(w, n)] for w, n in
       (("sections", "libnccl.so.2"), ("names", "libcuda.so.1"), ("symbols", "libcuda.so.1"), ("chain", "libcuda.so.1"), ("torch", "libtorch_cpu.so"))},
    **{f"library {w}": [greedy, lib, w, seconds] for w in ("fillers", "broken", "nested", "hellos", "old")},
    "library memory": [greedy, lib, "memory", seconds, "200"],
    "library linger": [linger, door / "socket", "seqpacket", "4", "3"],
    **{f"http {w}": [sys.executable, TESTS / "hostile.py", w, str(metrics), seconds] for w in
       ("pipeline", "readers", "header", "body", "connections", "flood", "unread")},
    **{f"ctl {w}": [sys.executable, TESTS / "hostile.py", "ctl-" + w, sock, seconds] for w in ("line", "connections", "readers")},
}


def answer():
    """The milliseconds until /healthz has answered."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", metrics), timeout=30) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b""
        while part := s.recv(4096):
            text += part
    assert text.startswith(b"HTTP/1.1 200"), text
    return (time.monotonic() - begin) * 1000


def longest_turn():
    with socket.create_connection(("127.0.0.1", metrics), timeout=30) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: s.recv(65536), b""))
    return next((float(line.split()[1]) * 1000 for line in text.decode().splitlines() if line.startswith("cudatrace_loop_turn_max_seconds ")), -1)


late = []
print(f"{'attack':<20} {'requests':>8} {'median':>8} {'99 %':>8} {'max ms':>8} {'turn ms':>8}")
for name, command in ATTACKS.items():
    if sys.argv[4:] and name not in sys.argv[4:]:
        continue
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen([cudatrace, "daemon", "--config", config, "--libcuda", lib], stdout=log, stderr=log)
    end = time.monotonic() + 60
    while b"metrics on" not in (folder / "log").read_bytes():
        assert daemon.poll() is None and time.monotonic() < end, (folder / "log").read_text()
        time.sleep(0.05)
    own = pathlib.Path(tempfile.mkdtemp(dir=folder))
    os.chown(own, 65534, 65534)
    took, refused = [], 0
    # hostile.py becomes nobody by itself.
    user = [] if TESTS / "hostile.py" in command else ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    p = subprocess.Popen([*user, *(str(own if a == "FOLDER" else a) for a in command)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "CUDATRACE_SOCKET": str(door / "socket")},
                         start_new_session=True)
    end = time.monotonic() + float(seconds) + 4
    while p.poll() is None and time.monotonic() < end:
        try:
            took.append(answer())
        except (AssertionError, OSError):
            refused += 1
        time.sleep(0.01)
    try:
        os.killpg(p.pid, 9)
    except ProcessLookupError:
        pass
    p.wait()
    turn = longest_turn()
    daemon.terminate()
    began = time.monotonic()
    daemon.wait(60)
    took.sort()
    if took[-1] > LIMIT_MS:
        late.append(name)
    print(f"{name:<20} {len(took):>8} {took[len(took) // 2]:>8.2f} {took[len(took) * 99 // 100]:>8.2f} {took[-1]:>8.1f} {turn:>8.1f}"
          f"  ended in {time.monotonic() - began:.2f} s" + (f", {refused} requests refused" if refused else ""), flush=True)
shutil.rmtree(folder)
print(f"{os.cpu_count()} processors;", f"over {LIMIT_MS} ms: {', '.join(late)}" if late else f"every answer within {LIMIT_MS} ms")
sys.exit(bool(late))
