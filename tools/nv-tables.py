#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Turn tab separated facts about the NVIDIA kernel ABI into the rows of src/decode/nv/*.def.

usage: nv-tables.py FACTS [OUT]         write OUT/*.def (OUT defaults to src/decode/nv)
       nv-tables.py --check FACTS [OUT] write nothing, print which files differ; exit 1 if any

A developer runs this when the facts grow. Its output is committed, so that a build needs neither
the facts nor Python. scheduler.def and xid.def are written by hand and are not touched.
"""
import csv
import os
import re
import sys

HEAD = "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */\n"
MADE = "/*\n * %s Made by tools/nv-tables.py:\n * edit the facts or the tool, not the rows.\n *\n"
BRANCHES = "515 520 525 530 535 545 550 555 560 565 570 575 580 590 595".split()
OLDEST, NEWEST = "515.43.04", "595.45.04"
NVKMS_TAGS = ("515.43.04 525.147.05 535.288.01 550.163.01 570.211.01 580.142 590.48.01 "
              "595.45.04").split()
HISTORY = "size_history(first tag with it, tags sorted by number)"


def rows(facts, name):
    with open(os.path.join(facts, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def ver(tag):
    """580.142 -> V(580, 142, 0)"""
    n = [int(x) for x in tag.split(".")]
    return "V(%d, %d, %d)" % tuple(n + [0] * (3 - len(n)))


def header(contents, text):
    out = HEAD + MADE % contents
    for line in text.strip().split("\n"):
        out += (" * " + line).rstrip() + "\n"
    return out + " */\n"


def mask(names):
    """List of branches -> B(515, 595), joined by | where there are holes."""
    parts, idx = [], sorted(BRANCHES.index(n) for n in names)
    while idx:
        first = last = idx.pop(0)
        while idx and idx[0] == last + 1:
            last = idx.pop(0)
        parts.append("B(%s, %s)" % (BRANCHES[first], BRANCHES[last]))
    return " | ".join(parts) or "0"


def branches(text):
    """'525(21/27) 530' -> mask of all branches, mask of those where only some releases have it"""
    words = text.split()
    return mask([w[:3] for w in words]), mask([w[:3] for w in words if "(" in w])


def params(name):
    return "P(%s)" % name if name else "NOP"


def ctrl_sizes(r):
    """S(first version, bytes)...; a version takes the last entry that is not newer than itself."""
    text = r["params_size_by_branch_if_it_varies"]
    if not text:
        size = r["params_size_595.45.04"] or r["params_size_580.142"]
        if not size:
            m = re.match(r"last size (\d+)", r["note"])
            size = m.group(1) if m else ""
        # From the export table of the newest drivers; older ones had other sizes.
        since = ver("580") if r["params_source"] == "nvoc" else "0"
        return "S(%s, %s)" % (since, size) if size else "NOS"
    out, last = [], None
    for word in text.split():
        branch, hist = word.split(":")
        for i, item in enumerate(hist.split("/")):
            size, _, tag = item.partition("@")
            if size == "-":
                size = "0"
            if size != last:
                out.append("S(%s, %s)" % (ver(tag or branch), size))
            last = size
    return " ".join(out)


def rmctrl(facts):
    out = header("Control commands of the driver's resource manager (RM).", """
CTRL(value, name, parameter struct, what runs it, branches, sizes)
CTRLP(value, name, parameter struct, what runs it, branches, branches where only some releases
have it, sizes)
CTRLX(value, name, parameter struct, what runs it, why, sizes): a name without known branches:
ALIAS, second name of the row before; UNPUB, in no published header.

Ascending by value; of rows with one value the newest name comes first. GSP: forwarded to the
GSP firmware where there is one. CPU: run by the kernel's RM (which may still call the GSP). NO:
not known. S(first version, bytes).""")
    who = {"gsp": "GSP", "cpu": "CPU", "": "NO"}
    rs = rows(facts, "rm_controls.tsv")
    for r in sorted(rs, key=lambda r: int(r["value_hex"], 16)):
        brs, part = branches(r["branches_with_this_value"])
        col = [r["value_hex"], r["name"], params(r["params_struct"]), who[r["handled_by"]]]
        macro = "CTRL"
        if r["origin"] in ("gvisor", "nvoc", "head-alias"):
            macro = "CTRLX"
            col.append("ALIAS" if r["origin"] == "head-alias" else "UNPUB")
        else:
            col.append(brs)
            if part != "0":
                macro = "CTRLP"
                col.append(part)
        col.append(ctrl_sizes(r))
        out += "%s(%s)\n" % (macro, ", ".join(col))
    return out


def rmclass(facts):
    out = header("Classes of objects in the driver's resource manager (RM).", """
CLASS(number, name, kind, allocation parameters, their bytes in the newest driver, branches, other
names). Ascending by number. No branches: in the driver's list of resources, in no class header.
Bytes by version are in struct.def for the structs that are there.""")
    for r in sorted(rows(facts, "rm_classes.tsv"), key=lambda r: int(r["hClass_u32"], 16)):
        brs, _ = branches(r["branches"])
        size = r["alloc_params_size_595.45.04"] or r["alloc_params_size_580.142"] or "0"
        out += 'CLASS(0x%04x, %s, "%s", %s, %s, %s, "%s")\n' % (
            int(r["hClass_u32"], 16), r["name"], r["kind"], params(r["alloc_params_struct"]),
            size, brs, r["other_names"])
    return out


def escape_span(r):
    name, note = r["name"], r["kernel_handler_and_notes"]
    m = re.match(r"(\d+\.[\d.]+\d)\.\.(\d+\.[\d.]+\d) only", note)
    if m:
        return m.group(1), m.group(2)
    hist = [h.split(":") for h in r[HISTORY].split()]
    first = OLDEST
    if len(hist) > 1 and hist[0][1] == "-":
        first = hist[1][0]
    return first, "590.48.01" if "CONFIG_" in name else NEWEST


def escape(facts):
    out = header("Requests to /dev/nvidiactl and /dev/nvidiaN (escapes).", """
ESC(nr, name, devices, parameter struct, first version, last version)
ESC_SHORT(...): the 32-byte form of the row before it.

Devices: CTL /dev/nvidiactl, GPU /dev/nvidiaN, ANY both, NODEV: in a header, handled by no driver
on Linux. The kernel looks at _IOC_NR only, never at the type byte.""")
    for r in rows(facts, "frontend_escapes.tsv"):
        name, dev = r["name"], r["device"]
        short = name.endswith("(NVOS21)")
        first, last = escape_span(r)
        if dev.startswith("-"):
            d = "NODEV"
        elif dev.startswith("any") or "any)" in dev:
            d = "ANY"
        else:
            d = "GPU" if dev.startswith("gpu") else "CTL"
        struct = r["param_struct"]
        out += "%s(0x%02x, %s, %s, %s, %s, %s)\n" % (
            "ESC_SHORT" if short else "ESC", int(r["nr_dec"]), name.split("(")[0], d,
            params(struct if re.match(r"\w+$", struct) else ""), ver(first), ver(last))
    return out


def uvm(facts):
    out = header("Requests to /dev/nvidia-uvm, which manages memory.", """
UVM(number, name, device, parameter struct, first version, last version)
UVM_TEST(number, name): built-in tests; they run only where the module was loaded with
uvm_enable_builtin_tests=1, and their numbers drift between releases.

Device: UVM /dev/nvidia-uvm, TOOLS /dev/nvidia-uvm-tools, NODEV: in the header, but not routed on
Linux. Versions: those that route it; for NODEV those that define it.""")
    for r in rows(facts, "uvm_ioctls.tsv"):
        dev, num = r["device"], int(r["number_dec"])
        if "(test)" in dev:
            out += "UVM_TEST(%d, %s)\n" % (num, r["name"])
            continue
        d = "NODEV" if "not routed" in dev else "TOOLS" if "tools" in dev else "UVM"
        span = (r["routed_tags"] or r["defined_tags"]).split("..")
        out += "UVM(%s, %s, %s, %s, %s, %s)\n" % (
            num if num < 4096 else hex(num), r["name"], d, params(r["params_struct"]),
            ver(span[0]), ver(span[1]))
    return out


def status(facts):
    out = header("Status codes of the driver.", """
STATUS(value, name, first version, last version). Ascending by value; of rows with one value the
newest name comes first. 0x1xxxx are warnings.""")
    for r in sorted(rows(facts, "nv_status.tsv"), key=lambda r: int(r["value_dec"])):
        m = re.match(r"gone after (\S+)", r["note"])
        out += "STATUS(0x%08x, %s, %s, %s)\n" % (
            int(r["value_dec"]) & 0xffffffff, r["name"], ver(r["first_tag"]),
            ver(m.group(1) if m else NEWEST))
    return out


def nvkms(facts):
    out = header("Requests to the driver's display part (NVKMS).", """
RELEASE(version): the releases that the columns stand for.
NVKMS(name, number in each release, NA where it has none). The driver numbers these with an enum
that grows in the middle, so a number means nothing without a version.""")
    out += "".join("RELEASE(%s)\n" % ver(t) for t in NVKMS_TAGS)
    for r in rows(facts, "nvkms_ioctls.tsv"):
        out += "NVKMS(%s, %s)\n" % (r["name"], ", ".join(r["cmd_" + t] or "NA" for t in NVKMS_TAGS))
    return out


KINDS = (("NvHandle", "HANDLE"), ("NvP64", "PTR"), ("NvBool", "BOOL"), ("NV_STATUS", "STATUS"),
         ("NvS", "INT"), ("int", "INT"), ("NvU", "UINT"), ("NvV32", "UINT"), ("uint", "UINT"))


def kind(name, ctype, size):
    if size not in (1, 2, 4, 8) or "[" in ctype or "{" in ctype:
        return "BYTES"
    if re.search(r"(^|\.)([sS]tatus|rmStatus)$", name):
        return "STATUS"
    for prefix, k in KINDS:
        if ctype.startswith(prefix):
            return k
    return "UINT"


def guess(name):
    """Type of a field of which the facts have only name, offset and size."""
    base = name.split(".")[-1]
    if re.search(r"(^|_)fd$|Fd$", base):
        return "int"
    if re.match(r"h[A-Z]", base):
        return "NvHandle"
    return "NvP64" if re.match(r"p+h?[A-Z]", base) else "NvU32"


def fields_of(text):
    text = re.sub(r" \(as of [^)]*\)$", "", text)
    return [(n, int(o), int(s)) for n, o, s in re.findall(r"(\S+)@(\d+):(\d+)", text)]


def layout_blocks(facts):
    """(struct, first, last, size, [(name, offset, size, kind)]) for all structs of the facts."""
    blocks, have = [], set()
    for r in rows(facts, "param_layouts.tsv"):
        key = (r["struct"], r["first_tag"], r["last_tag"], int(r["struct_size"]))
        if not blocks or blocks[-1][:4] != key:
            blocks.append(key + ([],))
        name, size = r["field"], int(r["size"])
        blocks[-1][4].append((name, int(r["offset"]), size, kind(name, r["type"], size)))
        have.add(r["struct"])
    for r in rows(facts, "frontend_escapes.tsv"):
        name, fs = r["param_struct"], fields_of(r["fields(name@off:size)"])
        if not fs or name in have:
            continue
        hist = [h.split(":") for h in r[HISTORY].split()]
        hist = [h for h in hist if h[1] != "-"]
        for i, (tag, size) in enumerate(hist):
            # The layout ends where the next one starts; only the start of each is compared.
            last = hist[i + 1][0] if i + 1 < len(hist) else NEWEST
            blocks.append((name, tag, last, int(size), [
                (n, o, s if o + s <= int(size) else int(size) - o, kind(n, guess(n), s))
                for n, o, s in fs]))
        have.add(name)
    for r in rows(facts, "uvm_ioctls.tsv"):
        name, fs = r["params_struct"], fields_of(r["fields(name@off:size)"])
        if not fs or name in have:
            continue
        first, last = r["defined_tags"].split("..")
        end = max(o + s for _, o, s in fs)
        size = r["size_580.142"] or r["size_595.45.04"] or (end + 7) // 8 * 8
        blocks.append((name, first, last, int(size), [
            (n, o, s, kind(n, guess(n), s)) for n, o, s in fs]))
        have.add(name)
    return sorted(blocks, key=lambda b: (b[0], [int(x) for x in b[1].split(".")]))


def struct(facts):
    out = header("Layouts of the driver's parameter structs by version.", """
STRUCT_BEGIN(name, n, bytes, first version, last version) FIELD(offset, bytes, kind, name)...
STRUCT_END(name, n): layout number n of a struct. Sorted by name, then by version; a version takes
the last layout that is not newer than itself. Dots name members of members.""")
    n, prev = 0, None
    for name, first, last, size, fs in layout_blocks(facts):
        n = n + 1 if name == prev else 0
        prev = name
        out += "STRUCT_BEGIN(%s, %d, %d, %s, %s)\n" % (name, n, size, ver(first), ver(last))
        for f, off, sz, k in fs:
            out += "FIELD(%d, %d, %s, %s)\n" % (off, sz, k, f)
        out += "STRUCT_END(%s, %d)\n" % (name, n)
    return out


TABLES = {"escape.def": escape, "rmctrl.def": rmctrl, "rmclass.def": rmclass, "uvm.def": uvm,
          "status.def": status, "nvkms.def": nvkms, "struct.def": struct}


def main():
    args = sys.argv[1:]
    check = "--check" in args
    args = [a for a in args if a != "--check"]
    if not 1 <= len(args) <= 2 or args[0].startswith("-"):
        sys.stderr.write(__doc__)
        return 2
    here = os.path.dirname(os.path.abspath(__file__))
    outdir = args[1] if len(args) == 2 else os.path.join(here, "..", "src", "decode", "nv")
    differ = 0
    for name, make in TABLES.items():
        path, text = os.path.join(outdir, name), make(args[0])
        if check:
            old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
            if old != text:
                print("%s: differs from the facts" % name)
                differ = 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return differ


if __name__ == "__main__":
    sys.exit(main())
