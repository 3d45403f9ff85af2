# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# timeout: 2400
# takes: 300
# long
# cpus: 2
"""Other kernels, from below the supported ones to the newest: tests/vm/kernels.txt, booted in qemu (no KVM needed), with mocks for
NVIDIA's kernel modules. Fetching and booting a kernel and building its modules take more processor time than any suite of make check,
which tests only the running kernel."""
import collections
import json
import platform
import re

import pytest
from helpers.run import ALL, passes
from helpers.vm import Guests, Results

MECHANISMS = {"6.1": ["perf"], "6.12": ["multi", "perf"], "newest": ["session", "multi", "perf"]}
# How each can probe the driver, best first. Debian's 6.1 has no CONFIG_FPROBE.
WAYS = {"6.1": ["fentry", "kprobe", "tracepoint"], "6.12": ["kprobe.multi", "fentry", "kprobe", "tracepoint"]}
WAYS["newest"] = WAYS["6.12"]
KERNELS = list(MECHANISMS)
GUESTS = Guests(before="[ -e /dev/nvidiactl ] || driver_load new", without=("checked", "refused"))
# Removing perf's probes one by one takes a minute or two, so only some functions are traced.
FEW = "cuMem*,cuLaunch*,!cuMemGet*"
SAMPLE = "sample --tokens 4 --layers 2 --quiet --counts"


@pytest.fixture
def r(kernel, request):
    GUESTS.booted(kernel)
    return Results(kernel, request.function.__name__.removeprefix("test_"))


@pytest.mark.parametrize("kernel", ["5.10", *KERNELS])
def test_boots(kernel):
    """It must come to an end."""
    if platform.machine() != "x86_64":
        pytest.skip("needs x86-64")
    ran = GUESTS.booted(kernel)
    assert ran.status == 0, ran


def as_made(r, name, how="probe"):
    """The trace must have what drive printed."""
    passes("vm/compare.py", how, r / f"{name}.exp", r / f"{name}.jsonl")


def says_of(how):
    return "tracepoint" if how == "tracepoint" else "probe"


def kernel_events(t):
    return sum(e["type"] == "kernel" for e in t.ev)


@GUESTS.part(["5.10"], """
cudatrace --jsonl t.jsonl -- sample >out 2>err
echo $? >status
cudatrace --kernel --jsonl t.jsonl >out2 2>err2
echo $? >>status
cudatrace check >check; echo $? >>status
""")
def test_refused(r):
    """Kernel 5.10 has no cookies for probes: nothing may be started or written, and one line must name the reason."""
    assert r.text("status") == "1\n1\n1\n" and r.text("out") == "" and not (r / "t.jsonl").exists()
    for err in ("err", "err2"):
        assert r.text(err).count("\n") == 1 and "Linux 5.15" in r.text(err)
    assert re.search("no *probe cookies", r.text("check"))


@GUESTS.part(KERNELS, """
cudatrace check --json >none.json
driver_load new
cudatrace check --json >check.json; echo $? >status
cudatrace check >check
""")
def test_checked(r):
    """`cudatrace check` must print what this kernel has."""
    assert r.text("status") == "0\n"
    passes("vm/checked.py", r.folder, r.release, " ".join(MECHANISMS[r.kernel]), " ".join(WAYS[r.kernel]))


@GUESTS.part(KERNELS, lambda kernel: "\n".join(
    f"cudatrace -q --mechanism={m} -e '{FEW if m == 'perf' else ALL}' --jsonl {m}.jsonl -- {SAMPLE} >{m}.counts 2>{m}.err\n"
    f"echo $? >{m}.status" for m in MECHANISMS[kernel]))
def test_mechanisms(r):
    """The same program by every mechanism: counts must equal the program's own. cuMemAllocPitch makes another call itself."""
    for m in MECHANISMS[r.kernel]:
        assert (r.text(f"{m}.status"), r.text(f"{m}.err")) == ("0\n", ""), m
        t, of = r.trace(f"{m}.jsonl"), r.counts(f"{m}.counts", r"cu(?:Mem(?!Get)|Launch)\w+" if m == "perf" else r"cu\w+")
        assert of and collections.Counter(c["symbol"] for c in t.calls if "parent" not in c) == of and t.accounts(), m
        assert m in t.head["mechanism"] or m == "perf" and t.head["mechanism"] == "uprobe"


# System calls to the driver, inside and outside CUDA calls, by each mechanism. One thread, because some mechanisms miss calls of many
# threads. cuFakeCallback, which has no row in the table, and few other functions.
CALLBACK = "cuInit,cu[FP]*[aI]*[ke]"


@GUESTS.part(KERNELS, lambda kernel: "\n".join(
    f"cudatrace -q --kernel --kernel-probe={how} -e '{CALLBACK}' --jsonl {how}.jsonl -- drive-cuda -n 2 -c -s 20 -f 50 >{how}.exp\n"
    f"echo $? >{how}.status" for how in WAYS[kernel]) + """
cudatrace -q --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err""")
def test_probes(r):
    """All ways must see the same, what was done; chosen by itself: the best."""
    for how in WAYS[r.kernel]:
        assert r.text(f"{how}.status") == "0\n" and r.trace(f"{how}.jsonl").head["kernel_probe"] == how
        as_made(r, how, says_of(how))
    passes("vm/compare.py", "same", *(r / f"{how}.jsonl" for how in WAYS[r.kernel]))
    as_made(r, "auto")
    assert (r.trace("auto.jsonl").head["kernel_probe"], r.text("auto.err")) == (WAYS[r.kernel][0], "")


@GUESTS.part(["6.1"], f"""
now() {{ cut -d ' ' -f 1 /proc/uptime; }}
links() {{ ps -o comm | grep -c cudatrace-links; }}
cudatrace -q --mechanism=perf -e '{FEW}' --jsonl a.jsonl -- sh -c '{SAMPLE} >a.counts; cut -d " " -f 1 /proc/uptime >ended' 2>err
now >back
links >meanwhile
cudatrace -q --mechanism=perf -e '{FEW}' --jsonl b.jsonl -- {SAMPLE} >b.counts 2>>err
i=0
while [ $(links) != 0 ] && [ $i -lt 300 ]; do sleep 0.5; i=$((i + 1)); done
links >after
now >off
""")
def test_prompt(r):
    """Perf events must be closed in the background, while the prompt is back and others attach. Without that it took 14 s."""
    ended, back, off = (float(r.text(name)) for name in ("ended", "back", "off"))
    print(f"prompt back after {ended} {back}, probes off at {off}")
    assert (r.text("err"), r.text("meanwhile"), r.text("after")) == ("", "1\n", "0\n") and back - ended <= 6
    for name in "ab":
        t = r.trace(f"{name}.jsonl")
        assert t.accounts() and {k: n for k, n in t.sym.items() if k.startswith("cuLaunch")} == r.counts(f"{name}.counts", r"cuLaunch\w+")


@GUESTS.part(KERNELS, """
cudatrace -q --kernel -e cuInit --jsonl fast.jsonl -- drive -t 8 -n 3 -f 500 >fast.exp 2>fast.err
cudatrace -q --kernel -e cuInit --jsonl wait.jsonl -- drive -t 24 -n 0 -s 400 >wait.exp 2>wait.err
cudatrace -q --kernel --kernel-probe=kprobe -e cuInit --jsonl kprobe.jsonl -- drive -t 24 -n 0 -s 400 >kprobe.exp 2>kprobe.err
""")
def test_many(r):
    """The default mechanism must lose nothing with eight threads at full speed, and with 24 in the driver at once. What is lost must be
    counted. (On preemptible kernels, programs miss calls of others while a program of ours is interrupted, kprobe.multi only on a very busy
    machine; kprobe has ten return probes per function here.)"""
    for name in "fast", "wait":
        t = r.trace(f"{name}.jsonl")
        if r.kernel == "newest" and t.end["drops"]["driver"]:
            made = sum(json.loads(line).get("_repeat", 1) for line in r.text(f"{name}.exp").splitlines())
            assert made - t.end["drops"]["driver"] <= kernel_events(t) <= made
            assert "the trace is incomplete" in r.text(f"{name}.err")
        else:
            as_made(r, name)
    t = r.trace("kprobe.jsonl")
    assert kernel_events(t) >= 58 and kernel_events(t) + t.end["drops"]["driver"] == 72 and t.end["drops"]["driver"] > 0


def cut(kernel):
    yield """
# A condition that never holds must fail this test only, not all later ones.
await() { local n=0; until eval "$1" || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done; }
# pidof finds a program only after the shell's child has become it.
drive_there() { await 'pidof drive-cuda >/dev/null'; }
in_ioctl() { await 'grep -q "^16 " /proc/$(pidof drive-cuda)/syscall 2>/dev/null'; }
# A process that is not gone yet has a process id, too.
kill_drive() { killall -9 drive-cuda; await '! pidof drive-cuda >/dev/null'; }
mkfifo go"""
    for how in WAYS[kernel][:-1]:
        traced = f"cudatrace -q --kernel --kernel-probe={how} -e '{CALLBACK}' --jsonl {how}"
        yield f"""
drive-cuda -w -c -n 0 -s 60000 <go >exp &
exec 3>go
drive_there
{traced}.cut.jsonl -p $(pidof drive-cuda) 2>{how}.cut.err &
t=$!
await "[ -s {how}.cut.jsonl ]"
echo >&3
in_ioctl
kill -TERM $t
wait $t
kill_drive
exec 3>&-
{traced}.killed.jsonl -- drive-cuda -c -n 0 -s 60000 >exp 2>{how}.killed.err &
t=$!
in_ioctl
kill_drive
wait $t"""


@GUESTS.part(KERNELS, lambda kernel: "".join(cut(kernel)))
def test_cut(r):
    """In an ioctl inside a CUDA call, when the trace ends, and when the process is killed: the kernel ends the system call. Suite kernel
    tests tracepoints. A preemptible kernel may skip our program for a thread that ends at the same time as another: this counts as a drop.
    So do ioctls for whose return probe the kernel had no space."""
    info, missed = "NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", ["tasks", "driver"]
    for how in WAYS[r.kernel][:-1]:
        t = r.trace(f"{how}.cut.jsonl")
        (call,) = [c for c in t.calls if c.get("unfinished")]
        ioctls = [e for e in t.ev if e.get("op") == "ioctl" and not set(e) & {"result", "status", "duration_us"}]
        assert [(e["name"], e.get("unfinished"), e["call_id"], e["call"]) for e in ioctls] == [(info, True, call["id"], "cuFakeCallback")]
        assert call["symbol"] == "cuFakeCallback" and t.accounts(missed=missed)
        t = r.trace(f"{how}.killed.jsonl")
        (call,) = [c for c in t.calls if c.get("unfinished")]
        ioctls = [(e["name"], e["result"], "status" in e, e["duration_us"] > 0, e["call_id"]) for e in t.ev if e.get("op") == "ioctl"]
        assert ioctls == [(info, -4, False, True, call["id"])]
        assert (call["symbol"], call["ioctls"]) == ("cuFakeCallback", 1) and t.accounts(missed=missed)


@GUESTS.part(KERNELS, lambda kernel: "\n".join(["driver_unload; driver_load old", *(
    f"cudatrace -q --kernel --kernel-probe={how} -e cuInit --jsonl {how}.jsonl -- drive -d 535 >{how}.exp" for how in WAYS[kernel]),
    "driver_unload; driver_load new"]))
def test_old_driver(r):
    """Drivers up to branch 535 have entry points with other names, one calling the other, and other layouts."""
    for how in WAYS[r.kernel]:
        as_made(r, how, says_of(how))


DRIVERS = {"580": "new", "525": "older"}


@GUESTS.part(KERNELS, lambda kernel: "\n".join([line for version, driver in DRIVERS.items() for line in [
    f"driver_unload; driver_load {driver}",
    *(f"cudatrace -q --kernel --kernel-probe={how} -e cuInit --jsonl {how}{version}.jsonl -- drive -d {version} -n 0 -u >{how}{version}.exp"
      for how in ("kprobe", WAYS[kernel][0]))]]) + """
driver_unload; driver_load new
cudatrace -q --kernel --no-args -e cuInit --jsonl redacted.jsonl -- drive -d 580 -n 0 -u >redacted.exp""")
def test_uvm(r):
    """Page faults, migrations and evictions of managed memory, and other events. Up to branch 525 the events have other numbers, and their
    fields other offsets. With --no-args: as many events, without address and size."""
    def kinds(t):
        return collections.Counter((e["op"], e.get("processor"), e.get("cause"), e.get("from")) for e in t.ev if e["type"] == "uvm")
    best, redacted = WAYS[r.kernel][0], r.trace("redacted.jsonl")
    assert kinds(redacted) == kinds(r.trace(f"{best}580.jsonl")) and len(kinds(redacted)) >= 2
    assert not [e for e in redacted.ev if e["type"] == "uvm" and {"ptr", "size"} & e.keys()]
    for version in DRIVERS:
        as_made(r, f"kprobe{version}")
        as_made(r, f"{best}{version}")


@GUESTS.part(KERNELS, """
driver_unload; driver_load nobtf
cudatrace --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err
cudatrace -q --kernel --kernel-probe=fentry -e cuInit --jsonl no.jsonl -- true >out 2>err
echo $? >status
driver_unload; driver_load new
""")
def test_no_btf(r):
    """Modules without type information, as when headers have no vmlinux: kprobes are chosen, missing events reported, fentry refused."""
    assert r.trace("auto.jsonl").head["kernel_probe"] == [how for how in WAYS[r.kernel] if how != "fentry"][0]
    as_made(r, "auto")
    assert len(re.findall("^cudatrace: --kernel: page faults and migrations", r.text("auto.err"), re.M)) == 1
    assert r.text("status") == "1\n" and len(re.findall("^cudatrace: ", r.text("err"), re.M)) == 1


@GUESTS.part(KERNELS, """
echo 2 >/proc/sys/kernel/kptr_restrict
cudatrace -q --kernel -e cuInit --jsonl next.jsonl -- drive >next.exp 2>next.err
echo 0 >/proc/sys/kernel/kptr_restrict
if echo 0 >/proc/sys/kernel/ftrace_enabled; then
	cudatrace -q --kernel -e cuInit --jsonl off.jsonl -- drive >off.exp 2>off.err
	cudatrace check >off.check
	echo 1 >/proc/sys/kernel/ftrace_enabled
fi
""")
def test_lesser(r):
    """If the best mechanism is refused, the next one must be used, and reported: kallsyms hides addresses, or all probes on functions are
    switched off (not possible on kernel 7.3)."""
    said = "cudatrace: warning: --kernel: kprobe.multi does not work here (No such file or directory): the driver is probed by fentry\n"
    assert r.trace("next.jsonl").head["kernel_probe"] == "fentry"
    assert r.text("next.err") == ("" if WAYS[r.kernel][0] == "fentry" else said)
    as_made(r, "next")
    if (r / "off.jsonl").exists():
        assert r.trace("off.jsonl").head["kernel_probe"] == "tracepoint" and r.text("off.check").count("kernel.ftrace_enabled is 0") == 3
        as_made(r, "off", "tracepoint")


FALLEN = "-e cuInit --jsonl {0}.jsonl -- sh -c 'echo \"79 GPU has fallen off the bus.\" >/proc/driver/nvidia/xid; sleep 1'"


@GUESTS.part(KERNELS, f"cudatrace -q --kernel {FALLEN.format('xid')}\ncudatrace -q --kernel --no-strings {FALLEN.format('quiet')}")
def test_xid(r):
    """With its text, and with --no-strings without it."""
    (xid,) = [e for e in r.trace("xid.jsonl").ev if e["type"] == "xid"]
    assert (xid["xid"], xid["gpu"]) == (79, "0000:3b:00.0") and "fallen" in xid["message"]
    (quiet,) = [e for e in r.trace("quiet.jsonl").ev if e["type"] == "xid"]
    assert (quiet["xid"], quiet["gpu"]) == (79, "0000:3b:00.0") and "fallen" not in r.text("quiet.jsonl").split("\n", 1)[1]


# The last one, because lockdown cannot be undone.
@GUESTS.part(KERNELS, """
mount -t securityfs none /sys/kernel/security
echo integrity >/sys/kernel/security/lockdown
cudatrace -q --kernel -e cuInit --jsonl integrity.jsonl -- drive >integrity.exp 2>integrity.err
echo confidentiality >/sys/kernel/security/lockdown
cudatrace -q --kernel -e cuInit --jsonl none.jsonl -- drive >out1 2>err1
echo $? >status
umount /sys/kernel/security
cudatrace -q --kernel -e cuInit --jsonl none.jsonl -- drive >out2 2>err2
echo $? >>status
""")
def test_lockdown(r):
    """Integrity must do no harm. Confidentiality must be reported in one line, even if only a try detects it."""
    as_made(r, "integrity")
    assert (r.trace("integrity.jsonl").head["kernel_probe"], r.text("integrity.err")) == (WAYS[r.kernel][0], "")
    assert r.text("status") == "1\n1\n" and r.text("out1") == r.text("out2") == ""
    for err in ("err1", "err2"):
        assert re.fullmatch("cudatrace: cannot trace without: .*boot without lockdown=confidentiality.*\n", r.text(err))
