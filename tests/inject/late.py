# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""As late.c, in Python: threads that launch, compress and hash, and one that starts programs."""
import ctypes
import hashlib
import json
import signal
import subprocess
import threading
import time
import zlib

lib = ctypes.CDLL("libcuda.so.1")
launch = lib.cuLaunchKernel
launch.argtypes = [ctypes.c_void_p] + [ctypes.c_uint32] * 7 + [ctypes.c_void_p] * 3
lib.late_launches.restype = ctypes.c_uint64
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
calls, wrong = [0] * 4, []


def work(k):
    try:
        while not stop.is_set():
            n = calls[k] = calls[k] + 1
            assert launch(n + 16 * k, n, k, 7, n % 1000 + 1, k, 3, n % 4096, n + 16 * k + 8, None, None) == 0
            text = json.dumps({"a": [n] * 30}).encode()
            assert zlib.decompress(zlib.compress(text * 20)) == text * 20 and hashlib.sha256(text).digest()
            if k == 3 and n % 20 == 0:
                assert subprocess.run(["true"], check=False).returncode == 0
    except BaseException as e:
        wrong.append(e)


threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
for t in threads:
    t.start()
print("ready", flush=True)
while not stop.is_set():
    time.sleep(0.02)
for t in threads:
    t.join()
assert not wrong, wrong
assert lib.late_launches() == sum(calls)
for k in (1, 2, 3):
    print(k, calls[k])
