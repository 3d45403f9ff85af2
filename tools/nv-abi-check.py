#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Check src/decode/nv/*.def against an unpacked source of open-gpu-kernel-modules.

usage: nv-abi-check.py [--defs DIR] [--cc CC] SOURCE   compare with that source
       nv-abi-check.py --self-test                      compare with a made-up source, twice

Numbers are read from the headers: NV_ESC_*, RM controls, classes, UVM commands, status codes.
Layouts come from the compiler: a small program with the source's own headers prints sizeof and
offsetof. The tables' rows for the version in SOURCE/version.mk are compared.
Exit status: 0 the same, 1 differences (one a line), 2 wrong usage or no such source.
"""
import os
import re
import subprocess
import sys
import tempfile

BRANCHES = [515, 520, 525, 530, 535, 545, 550, 555, 560, 565, 570, 575, 580, 590, 595]
INCLUDES = ("src/common/sdk/nvidia/inc", "src/nvidia/arch/nvalloc/unix/include",
            "src/common/inc", "kernel-open/common/inc", "kernel-open/nvidia-uvm",
            "src/nvidia/inc/kernel", "src/nvidia-modeset/interface")
# Headers that others need without including them.
BASE = ("nvtypes.h", "nvstatus.h", "nvos.h")


def version(text):
    n = [int(x) for x in re.findall(r"\d+", text)]
    return tuple((n + [0, 0, 0])[:3])


def rows(defs, name, macros):
    """(macro, [arguments]) of each row; arguments are split at commas outside parentheses."""
    pattern = re.compile(r"^(%s)\((.*)\)\s*$" % "|".join(macros))
    arg = re.compile(r'(?:[^,("]|\([^()]*(?:\([^()]*\)[^()]*)*\)|"[^"]*")+')
    with open(os.path.join(defs, name), encoding="utf-8") as f:
        for line in f:
            m = pattern.match(line)
            if m:
                yield m.group(1), [a.strip() for a in arg.findall(m.group(2))]


def holds(v, since, until):
    """Like nv_fit_range: a later release of the last branch counts as that branch."""
    lo, hi = version(since), version(until)
    return v >= lo and (v <= hi or v[0] <= hi[0])


def in_branches(v, text):
    branch = max([b for b in BRANCHES if b <= v[0]] or [515])
    return any(int(a) <= branch <= int(b) for a, b in re.findall(r"B\((\d+), (\d+)\)", text))


def headers(source):
    for top in ("src/common", "src/nvidia", "src/nvidia-modeset", "kernel-open"):
        for folder, _, names in os.walk(os.path.join(source, top)):
            for name in names:
                if name.endswith(".h"):
                    yield os.path.join(folder, name)


def evaluate(text, known):
    """Value of a define's text: number, UVM_IOCTL_BASE(n), NV_IOCTL_BASE + n, or another define."""
    text = re.sub(r"/\*.*?(\*/|$)|//.*", "", text).strip()
    text = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"UVM_IOCTL_BASE\s*\(([^()]*)\)", r"(\1)", text)
    text = re.sub(r"UVM_TEST_IOCTL_BASE\s*\(([^()]*)\)", r"(200+\1)", text)
    for _ in range(4):
        m = re.search(r"[A-Za-z_]\w*", re.sub(r"0[xX][0-9a-fA-F]+", "", text))
        if not m:
            break
        if m.group(0) not in known:
            return None
        text = re.sub(r"\b%s\b" % m.group(0), "(%s)" % known[m.group(0)], text)
    if not re.fullmatch(r"[0-9a-fA-FxX()+|<\s-]+", text) or len(text) > 200:
        return None
    text = re.sub(r"\b0+(\d)", r"\1", text)
    try:
        value = eval(text, {"__builtins__": {}})  # digits and operators only, see above
    except (SyntaxError, TypeError, ValueError):
        return None
    return value if isinstance(value, int) else None


def defines(source):
    """Name -> its values in the headers; and the names of controls: those whose value
    NVIDIA's generator annotates with an interface."""
    raw, status, controls = {}, {}, set()
    want = re.compile(r"#\s*define\s+(\w+)\s+(.+?)\s*$")
    for path in headers(source):
        with open(path, encoding="utf-8", errors="replace") as f:
            text = f.read().replace("\\\n", " ")
        for line in text.split("\n"):
            m = want.match(line)
            if m:
                raw.setdefault(m.group(1), set()).add(m.group(2))
                if re.search(r"Evaluated from \"\(FINN_\w+_INTERFACE_ID << 8\)", m.group(2)):
                    controls.add(m.group(1))
            m = re.match(r"\s*NV_STATUS_CODE\s*\(\s*(\w+)\s*,\s*(0x[0-9a-fA-F]+|\d+)", line)
            if m:
                status[m.group(1)] = {int(m.group(2), 0)}
    known = {k: next(iter(v)) for k, v in raw.items() if len(v) == 1 and len(next(iter(v))) < 60}
    known.setdefault("NV_IOCTL_BASE", "200")
    out = {}
    for name, texts in raw.items():
        values = {evaluate(t, known) for t in texts} - {None}
        if values:
            out[name] = values
    out.update(status)
    return out, controls


def wanted(defs, v):
    """(kind, name, number) of the tables for this version."""
    for _, a in rows(defs, "escape.def", ["ESC"]):
        if holds(v, a[4], a[5]):
            yield "escape", a[1], int(a[0], 0)
    for macro, a in rows(defs, "rmctrl.def", ["CTRL", "CTRLP"]):
        # Only some releases of a partial branch have the row: this may be one without it.
        if in_branches(v, a[4]) and not (macro == "CTRLP" and in_branches(v, a[5])):
            yield "control", a[1], int(a[0], 0)
    for _, a in rows(defs, "rmclass.def", ["CLASS"]):
        if in_branches(v, a[5]):
            yield "class", a[1], int(a[0], 0)
    for _, a in rows(defs, "uvm.def", ["UVM"]):
        if holds(v, a[4], a[5]):
            yield "uvm", a[1], int(a[0], 0)
    for _, a in rows(defs, "status.def", ["STATUS"]):
        if holds(v, a[2], a[3]):
            yield "status", a[1], int(a[0], 0)


def layouts(defs, v):
    """struct -> (size, [(offset, size, field)]): the last layout that is not newer."""
    out, cur, take = {}, None, False
    for macro, a in rows(defs, "struct.def", ["STRUCT_BEGIN", "FIELD", "STRUCT_END"]):
        if macro == "STRUCT_BEGIN":
            cur, take = a[0], holds(v, a[3], a[4])
            if take:
                out[cur] = (int(a[2]), [])
        elif macro == "FIELD" and take:
            out[cur][1].append((int(a[0]), int(a[1]), a[3]))
    return out


def header_texts(source):
    """Header, as an include directive would name it -> text."""
    out, roots = {}, [os.path.join(source, i) for i in INCLUDES]
    for path in sorted(headers(source)):
        root = next((r for r in roots if path.startswith(r + os.sep)), None)
        if root:
            with open(path, encoding="utf-8", errors="replace") as f:
                out.setdefault(os.path.relpath(path, root), f.read())
    return out


def header_choices(texts, struct):
    """Lists of headers to try, in turn: all that declare the struct, the same on top of the base,
    each alone (a header that needs the kernel's own would spoil the rest)."""
    word = re.compile(r"\}\s*%s\s*;|typedef\s[^;{}]*\b%s\s*;|struct\s+%s\s*\{" % ((struct,) * 3))
    heads = [rel for rel, text in texts.items() if word.search(text)]
    base = [b for b in BASE if b in texts]
    yield heads
    yield base + heads
    for h in heads:
        yield base + [h]


def run_program(source, cc, lines, folder):
    """The output of the program, or None when it does not compile."""
    src, exe = os.path.join(folder, "m.c"), os.path.join(folder, "m")
    with open(src, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))
    cmd = [cc, "-w", "-DNV_LINUX", "-DNV_UNIX", "-DNVCPU_X86_64"]
    cmd += [x for i in INCLUDES for x in ("-I", os.path.join(source, i))]
    if subprocess.run(cmd + [src, "-o", exe], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL, check=False).returncode:
        return None
    return subprocess.run([exe], stdout=subprocess.PIPE, check=True).stdout.decode()


def measure(source, cc, heads, struct, fields, folder):
    """The layout from the compiler: {field or '': (offset, size)}, or None: does not compile."""
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <stdint.h>"]
    lines += ['#include "%s"' % h for h in heads]
    lines += ["int main(void)", "{", '\tprintf("- 0 %%zu\\n", sizeof(%s));' % struct]
    for f in fields:
        lines.append('\tprintf("%s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));' % (
            f, struct, f, struct, f))
    lines += ["\treturn 0;", "}", ""]
    text = run_program(source, cc, lines, folder)
    if text is None:
        return None
    out = {}
    for line in text.splitlines():
        name, off, size = line.split()
        out["" if name == "-" else name] = (int(off), int(size))
    return out


def check_numbers(defs, source, v, say):
    found, controls = defines(source)
    cnt = missing = 0
    for what, name, number in wanted(defs, v):
        if name not in found:
            missing += 1
            say("%s %s: in the tables, in no header" % (what, name))
        elif number not in found[name]:
            say("%s %s: %#x in the tables, %s in the headers" % (
                what, name, number, " ".join("%#x" % n for n in sorted(found[name]))))
        cnt += 1
    have = {name for _, name, _ in wanted(defs, v)} | {
        a[1] for _, a in rows(defs, "rmctrl.def", ["CTRLP", "CTRLX"])}
    for name in sorted(n for n in found if n.startswith("NV_ESC_") and n not in have):
        say("escape %s: in the headers, not in the tables" % name)
    for name in sorted(controls - have):
        say("control %s: in the headers, not in the tables" % name)
    return cnt, missing


def check_layouts(defs, source, v, cc, say):
    want, texts = layouts(defs, v), header_texts(source)
    cnt = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for struct, (size, fields) in sorted(want.items()):
            names, got = [f for _, _, f in fields], None
            # NVKMS has no typedef; a facts table may have a _t that the header lacks.
            for tag, spelled in ((struct, struct), (struct, "struct " + struct),
                                 (re.sub("_t$", "", struct),) * 2):
                for heads in header_choices(texts, tag):
                    got = got or (heads and measure(source, cc, heads, spelled, names, folder))
            if not got:
                skipped += 1
                sys.stderr.write("not measured: %s\n" % struct)
                continue
            cnt += 1
            if got[""][1] != size:
                say("struct %s: %d bytes in the tables, %d compiled" % (struct, size, got[""][1]))
            for off, fsize, name in fields:
                if got[name] != (off, fsize):
                    say("struct %s: %s at %d, %d bytes in the tables; at %d, %d bytes compiled" % (
                        (struct, name, off, fsize) + got[name]))
    return cnt, skipped


def size_at(v, text):
    """The last S(first version, bytes) that is not newer than v, or None."""
    out = None
    for since, size in re.findall(r"S\((V\([\d, ]+\)|0), (\d+)\)", text):
        if since == "0" or version(since) <= v:
            out = int(size)
    return out


def check_sizes(defs, source, v, cc, say):
    """Parameter structs of controls: one program for all, as the control headers go together."""
    want, texts = {}, header_texts(source)
    for macro, a in rows(defs, "rmctrl.def", ["CTRL"]):
        size = size_at(v, a[5])
        if in_branches(v, a[4]) and a[2] != "NOP" and size:
            want.setdefault(a[2][2:-1], set()).add(size)
    heads = [h for h in texts if h.startswith("ctrl")]
    declared = set(re.findall(r"\b\w+_PARAMS\b", " ".join(texts[h] for h in heads)))
    names = sorted(set(want) & declared)
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <stdint.h>"]
    lines += ['#include "%s"' % h for h in [b for b in BASE if b in texts] + heads]
    lines += ["int main(void)", "{"]
    lines += ['\tprintf("%s %%zu\\n", sizeof(%s));' % (n, n) for n in names]
    with tempfile.TemporaryDirectory() as folder:
        got = run_program(source, cc, lines + ["\treturn 0;", "}", ""], folder)
    if got is None:
        sys.stderr.write("not measured: parameters of controls (their headers do not compile)\n")
        return 0, len(want)
    for line in got.splitlines():
        name, size = line.split()
        if int(size) not in want[name]:
            say("parameters %s: %s bytes in the tables, %s compiled" % (
                name, " or ".join(map(str, sorted(want[name]))), size))
    return len(names), len(want) - len(names)


def check(defs, source, cc, say):
    try:
        with open(os.path.join(source, "version.mk"), encoding="utf-8") as f:
            m = re.search(r"NVIDIA_VERSION\s*=\s*([\d.]+)", f.read())
    except OSError as e:
        sys.stderr.write("nv-abi-check: %s\n" % e)
        return 2
    if not m:
        sys.stderr.write("nv-abi-check: no NVIDIA_VERSION in %s/version.mk\n" % source)
        return 2
    v, bad = version(m.group(1)), []

    def note(line):
        bad.append(line)
        say(line)
    numbers, missing = check_numbers(defs, source, v, note)
    structs, skipped = check_layouts(defs, source, v, cc, note)
    sizes, unsized = check_sizes(defs, source, v, cc, note)
    sys.stderr.write("%s: %d numbers (%d in no header), %d structs (%d not measured), "
                     "parameters of %d controls (%d not measured), %d differences\n" % (
                         m.group(1), numbers, missing, structs, skipped, sizes, unsized, len(bad)))
    return 1 if bad else 0


FIXTURE_DEFS = {
    "escape.def": "ESC(0x2a, NV_ESC_RM_CONTROL, CTL, NOP, V(515, 43, 4), V(595, 45, 4))\n"
                  "ESC(0xc9, NV_ESC_REGISTER_FD, ANY, NOP, V(515, 43, 4), V(595, 45, 4))\n"
                  "ESC(0xda, NV_ESC_WAIT_OPEN_COMPLETE, GPU, NOP, V(550, 40, 7), V(595, 45, 4))\n",
    "rmctrl.def": "CTRL(0xa06c0101, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, NOP, CPU, B(515, 595), NOS)\n"
                  "CTRL(0x00000103, NV0000_CTRL_CMD_GONE, NOP, CPU, B(515, 530), NOS)\n",
    "rmclass.def": 'CLASS(0xc86f, HOPPER_CHANNEL_GPFIFO_A, "channel", NOP, 0, B(520, 595), "")\n',
    "uvm.def": "UVM(34, UVM_FREE, UVM, P(UVM_FREE_PARAMS), V(515, 43, 4), V(595, 45, 4))\n",
    "status.def": "STATUS(0x00000056, NV_ERR_NOT_SUPPORTED, V(515, 43, 4), V(595, 45, 4))\n",
    "struct.def": "STRUCT_BEGIN(UVM_FREE_PARAMS, 0, 24, V(515, 43, 4), V(580, 142, 0))\n"
                  "FIELD(0, 8, UINT, base)\nFIELD(16, 4, STATUS, rmStatus)\n"
                  "STRUCT_END(UVM_FREE_PARAMS, 0)\n"
                  "STRUCT_BEGIN(UVM_FREE_PARAMS, 1, 16, V(590, 44, 1), V(595, 45, 4))\n"
                  "FIELD(0, 8, UINT, base)\nFIELD(8, 4, STATUS, rmStatus)\n"
                  "STRUCT_END(UVM_FREE_PARAMS, 1)\n",
}
FIXTURE_SOURCE = {
    "version.mk": "NVIDIA_VERSION = 535.54.03\n",
    "src/nvidia/arch/nvalloc/unix/include/nv_escape.h": "#define NV_ESC_RM_CONTROL 0x2A\n",
    "kernel-open/common/inc/nv-ioctl-numbers.h":
        "#define NV_IOCTL_BASE 200\n#define NV_ESC_REGISTER_FD (NV_IOCTL_BASE + 1)\n",
    "src/common/sdk/nvidia/inc/ctrl/ctrla06c.h":
        '#define NVA06C_CTRL_CMD_GPFIFO_SCHEDULE (0xa06c0101U) '
        '/* finn: Evaluated from "(FINN_X_INTERFACE_ID << 8) | 0x1" */\n'
        '#define NVA06C_CTRL_CMD_GPFIFO_SCHEDULE_FLAG (0x1U)\n',
    "src/common/sdk/nvidia/inc/class/clc86f.h": "#define HOPPER_CHANNEL_GPFIFO_A (0x0000C86F)\n",
    "src/common/sdk/nvidia/inc/nvstatuscodes.h":
        'NV_STATUS_CODE(NV_ERR_NOT_SUPPORTED, 0x00000056, "text")\n',
    "kernel-open/nvidia-uvm/uvm_ioctl.h":
        "#include <stdint.h>\n#define UVM_IOCTL_BASE(i) i\n#define UVM_FREE UVM_IOCTL_BASE(34)\n"
        "typedef struct { uint64_t base, length; uint32_t rmStatus; } UVM_FREE_PARAMS;\n",
}


def write_tree(top, tree):
    for rel, text in tree.items():
        path = os.path.join(top, rel)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def self_test(cc):
    with tempfile.TemporaryDirectory() as top:
        defs, source, lines = os.path.join(top, "defs"), os.path.join(top, "source"), []
        write_tree(defs, FIXTURE_DEFS)
        write_tree(source, FIXTURE_SOURCE)
        if check(defs, source, cc, lines.append) or lines:
            print("self-test: a matching source was reported as different:", *lines, sep="\n  ")
            return 1
        write_tree(source, {
            "src/nvidia/arch/nvalloc/unix/include/nv_escape.h":
                "#define NV_ESC_RM_CONTROL 0x2B\n#define NV_ESC_NEW 0x77\n",
            "kernel-open/nvidia-uvm/uvm_ioctl.h":
                FIXTURE_SOURCE["kernel-open/nvidia-uvm/uvm_ioctl.h"].replace(", length", ""),
        })
        if check(defs, source, cc, lines.append) != 1:
            print("self-test: a different source was reported as matching")
            return 1
        want = ["escape NV_ESC_RM_CONTROL: 0x2a in the tables, 0x2b in the headers",
                "escape NV_ESC_NEW: in the headers, not in the tables",
                "struct UVM_FREE_PARAMS: 24 bytes in the tables, 16 compiled",
                "struct UVM_FREE_PARAMS: rmStatus at 16, 4 bytes in the tables; "
                "at 8, 4 bytes compiled"]
        if lines != want:
            print("self-test: expected", *want, "got", *lines, sep="\n  ")
            return 1
    print("self-test: ok")
    return 0


def main():
    args, cc = sys.argv[1:], "cc"
    defs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "decode", "nv")
    rest = []
    while args:
        a = args.pop(0)
        if a == "--defs" and args:
            defs = args.pop(0)
        elif a == "--cc" and args:
            cc = args.pop(0)
        else:
            rest.append(a)
    if rest == ["--self-test"]:
        return self_test(cc)
    if len(rest) != 1 or rest[0].startswith("-"):
        sys.stderr.write(__doc__)
        return 2
    return check(defs, rest[0], cc, print)


if __name__ == "__main__":
    sys.exit(main())
