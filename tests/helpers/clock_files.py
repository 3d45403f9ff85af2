# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""clock_files.py FOLDER OFF...: checks that the names of the daemon's files and dumps increase with time, and that the header of each
has the time of the clock, which was off by these numbers of seconds."""
import datetime, glob, json, os, re, subprocess, sys, time
boot = time.time() - time.monotonic()
bad, traces, stamps = [], [], []
for path in sorted(glob.glob(sys.argv[1] + "/*"), key=lambda p: re.sub(r"^[a-z]*-", "", os.path.basename(p))):
    text = subprocess.run(["zstd", "-dcqf", path], capture_output=True).stdout if path.endswith(".zst") else open(path, "rb").read()
    lines = [json.loads(l) for l in text.splitlines()]
    wall = datetime.datetime.fromisoformat(lines[0]["wall_time"][:26]).replace(tzinfo=datetime.timezone.utc).timestamp()
    # The start of the file; for a dump, its end.
    stamps.append((os.path.basename(path), lines[1 if "/trace-" in path else -1]["ts"]))
    if "/trace-" in path:
        traces.append(round(wall - lines[0]["clock_base_ns"] / 1e9 - boot))
if [t for _, t in stamps] != sorted(t for _, t in stamps):
    bad.append(f"by name they are not in order: {stamps}")
want = [int(x) for x in sys.argv[2:]][:len(traces)]
if len(traces) < 3 or any(abs(a - b) > 2 for a, b in zip(traces, want)):
    bad.append(f"headers are off by {traces}, not {want}")
sys.exit("; ".join(bad) or None)
