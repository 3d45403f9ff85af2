# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""overwritten_files.py FOLDER PID: prints what the daemon recorded of a library that was overwritten, and of the program that used it."""
import glob, json, subprocess, sys
ev = []
for f in glob.glob(sys.argv[1] + "/*.jsonl*"):
    ev += [json.loads(l) for l in subprocess.run(["zstd", "-dcqf", f], capture_output=True).stdout.decode().splitlines()]
its = [e for e in ev if e.get("pid") == int(sys.argv[2])]
n = sum(e.get("symbol") == "cuMemAlloc_v2" for e in its)
said = [e["op"] for e in ev if e["type"] == "library" and e["op"] in ("detached", "attached")]
# Attached again by us, or because a process mapped it meanwhile. If that process is not traced, the line of the program names the file.
again = said[said.index("detached"):].count("attached") if "detached" in said else -1
mapped = any(e["type"] == "library" and e["op"] == "mapped" for e in its)
sys.exit(not (n == 4 and (again == 1 or again == 0 and mapped)) and f"{n} {said} {mapped}")
