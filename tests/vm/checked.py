# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""checked.py FOLDER RELEASE MECHANISMS WAYS: compares the output of `cudatrace check` in the guest with this kernel."""
import json, sys
folder, release, mechanisms, ways = sys.argv[1:]
d, none = json.load(open(folder + "/check.json")), json.load(open(folder + "/none.json"))
text = open(folder + "/check").read()
has = lambda d: {k["name"]: k["state"] for k in d["capabilities"]}
want = {"uprobe_multi": "multi" in mechanisms, "uprobe_session": "session" in mechanisms, "cookie": True,
        "kprobe": True, "fentry": True, "kprobe_multi": "kprobe.multi" in ways, "ringbuf": True, "nvidia_driver": True}
bad = [f"{k}: {has(d).get(k)}" for k, v in want.items() if k in has(d) and (has(d)[k] == "yes") != v]
if release not in text:
    bad.append("does not say " + release)
best = ways.split()[0]
if (d["kernel_probe"], none["kernel_probe"]) != (best, best) or f"probes the driver by {best}.\n" not in text:
    bad.append(f"way of seeing the driver: {none['kernel_probe']}, {d['kernel_probe']}; {text[-80:]}")
if "580.159.04" not in text:
    bad.append("does not say the driver's version")
sys.exit("; ".join(bad) or None)
