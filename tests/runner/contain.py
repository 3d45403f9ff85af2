# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A supervisor process for a suite. Afterwards it ends, unmounts and removes what the suite left, whether the suite
ended, took too long or was interrupted, and also when the whole run was killed.

Whatever becomes of a suite's processes (other sessions, parents that are gone), they stay descendants of this one
(PR_SET_CHILD_SUBREAPER).
"""
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
CLONE_NEWNS, CLONE_NEWPID, MS_REC, MS_PRIVATE = 0x20000, 0x20000000, 1 << 14, 1 << 18
INIT = "init of a suite"
ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
WATCHED = ENDS | {signal.SIGCHLD}
# Time for a suite to clean up; time for its processes to end after SIGTERM.
CLEAN_UP_S, ASKED_S = 15, 3


def prctl(option, value):
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def own_processes():
    """Continues in a PID namespace (and mount namespace) of its own, if possible. The namespace's first process stays until all of its
    processes have ended, so that supervise() sees which are left."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWPID):
        return
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    status, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os._exit((os.read(status, 1) or b"\x46")[0])
    prctl(PR_SET_NAME, INIT.encode())
    libc.mount(b"proc", b"/proc", b"proc", 0, None)
    child = os.fork()
    if not child:
        os.close(tell)
        return
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    while True:
        try:
            pid, raw = os.wait()
            if pid == child:
                os.write(tell, bytes([os.waitstatus_to_exitcode(raw) & 255]))
        except ChildProcessError:
            os._exit(0)
        except BrokenPipeError:
            pass


def descendants(pid):
    """Its descendants, without zombies, the nearest first."""
    children, names = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as f:
                stat = f.read()
        except OSError:
            continue
        name, _, rest = stat[stat.index(b"(") + 1:].rpartition(b")")
        state, parent = rest.split()[:2]
        if state not in (b"Z", b"X"):
            names[int(entry)] = name.decode(errors="replace")
        children.setdefault(int(parent), []).append(int(entry))
    found, todo = {}, [pid]
    while todo:
        for child in children.get(todo.pop(0), ()):
            todo.append(child)
            if child in names:
                found[child] = names[child]
    return found


def send(pids, sig):
    for pid in pids:
        try:
            os.kill(pid, sig)
        except OSError:
            pass


def reap(seconds, until):
    """Reaps children until until() is true, or the time is over; returns its last value."""
    end = time.monotonic() + seconds
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if until():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def end_all(pid):
    """Ends all descendants, and reaps ours. SIGTERM comes first, so that a tracer removes its probes."""
    left = descendants(pid)
    if not left:
        return
    send(left, signal.SIGTERM)
    send(left, signal.SIGCONT)
    if reap(ASKED_S, lambda: not descendants(pid)):
        return
    # New ones may be created while these end.
    for _ in range(100):
        left = descendants(pid)
        if not left:
            return
        send(left, signal.SIGKILL)
        reap(0.1, lambda: not descendants(pid))


def unmount(folder):
    """The mounts of this mount namespace at folder or below, the innermost first."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        points = [line.split()[4].encode("latin1", "surrogateescape").decode("unicode_escape") for line in f]
    for point in sorted((p for p in points if p == folder or p.startswith(folder + "/")), reverse=True):
        subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL, check=False)


def remove_cgroups(listed):
    """The cgroups that a suite reported (helpers/container.py) and that still exist."""
    try:
        with open(listed, encoding="utf-8") as f:
            made = f.read().split("\n")
    except OSError:
        return
    for path in made:
        if not path or not os.path.isdir(path):
            continue
        try:
            with open(path + "/cgroup.procs", encoding="ascii") as f:
                send(map(int, f.read().split()), signal.SIGKILL)
        except OSError:
            pass
        for _ in range(100):
            try:
                os.rmdir(path)
                break
            except OSError:
                time.sleep(0.02)
        # Remove empty parents; those of other suites stay.
        try:
            while os.path.dirname(path).count("/") > 3:
                path = os.path.dirname(path)
                os.rmdir(path)
        except OSError:
            pass


def tidy(folder):
    remove_cgroups(folder + "/cgroups.made")
    unmount(folder)
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.exists(folder):
        subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL, check=False)


class Contained:
    """The result of a suite: status (as in a shell), 'timeout' or 'ended', seconds, processor seconds, processes left
    running."""

    def __init__(self):
        self.status, self.why, self.left = None, "", []


def supervise(body, timeout, folder):
    """Runs body() in a process with its own session until it ends, for at most timeout seconds; ends what it leaves.
    Runs in a process that was forked for this."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    result, me = Contained(), os.getpid()
    child = os.fork()
    if not child:
        os.setsid()
        for sig in ENDS:
            signal.signal(sig, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        body()
        os._exit(70)
    status = []

    def ended():
        while not status:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == child:
                status.append(raw)
            elif not pid:
                break
        return bool(status)

    deadline = time.monotonic() + timeout
    while not ended():
        left = deadline - time.monotonic()
        got = signal.sigtimedwait(WATCHED, max(left, 0)) if left > 0 else None
        if got and got.si_signo in ENDS:
            result.why = "ended"
        elif not got and time.monotonic() >= deadline:
            result.why = "timeout"
        if result.why:
            break
    if not status:
        # Signal its whole process group, like a terminal: a shell waits for its children.
        try:
            os.killpg(child, signal.SIGTERM)
        except OSError:
            pass
        end = time.monotonic() + CLEAN_UP_S
        while not ended() and time.monotonic() < end:
            time.sleep(0.02)
    elif not result.why:
        # Processes that are about to end do not count as left.
        reap(3, lambda: not descendants(me))
        # On a busy machine a tracer and its readers take longer. cudatrace-links removes probes after its tracer has
        # ended (src/attach/probe/links.h): with perf events that is slow.
        reap(60, lambda: not any(name.startswith("cudatrace") for name in descendants(me).values()))
        result.left = sorted(set(descendants(me).values()) - {INIT})
    end_all(me)
    tidy(folder)
    if status:
        result.status = os.waitstatus_to_exitcode(status[0])
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    result.cpu = usage.ru_utime + usage.ru_stime
    return result


def start(body, timeout, folder, tell):
    """Forks a supervisor of body(), which calls tell(result) at its end. Returns its pid."""
    parent = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
        return pid
    try:
        os.setsid()
        # A run that was killed cannot end it: the kernel sends a signal.
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        tell(supervise(body, timeout, folder))
    except BaseException as e:  # pylint: disable=broad-except
        print(f"runner: {type(e).__name__}: {e}", file=sys.stderr)
        os._exit(1)
    os._exit(0)
