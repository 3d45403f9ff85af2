# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""watch_files.py SECONDS FOLDER: see daemon-files."""
import gzip, json, os, subprocess, sys, time
end, folder, most, seen, bad = time.time() + float(sys.argv[1]), sys.argv[2], 0, set(), 0
def whole(path):
    try:
        data = open(path, "rb").read()
    except FileNotFoundError:
        return True
    if path.endswith(".zst"):
        run = subprocess.run(["zstd", "-dcq"], input=data, capture_output=True)
        data = b"" if run.returncode else run.stdout
    elif path.endswith(".gz"):
        data = gzip.decompress(data)
    lines = data.splitlines()
    return len(lines) > 2 and json.loads(lines[0])["type"] == "header" and json.loads(lines[-1])["type"] == "end"
while time.time() < end or ((most <= 400000 or len(seen) <= 8) and time.time() < end + 60):
    total = 0
    for d in (folder, folder + "/pending"):
        try:
            with os.scandir(d) as entries:
                for e in entries:
                    if not e.is_file():
                        continue
                    try:
                        total += e.stat().st_size
                    except FileNotFoundError:
                        continue
                    if not e.name.endswith(".part") and e.name not in seen:
                        seen.add(e.name)
                        bad += not whole(e.path)
        except FileNotFoundError:
            pass
    most = max(most, total)
    time.sleep(0.002)
print(most, len(seen), bad)
