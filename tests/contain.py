#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""contain.py ROOT USER PROGRAM ARGUMENT...: the last steps of a container runtime.

Must run in its own mount namespace: makes the mount ROOT the only mount and the root, and runs PROGRAM there. USER is a
number; "NUMBER+" also creates a user namespace, if that is allowed.
"""
import ctypes
import os
import sys

MNT_DETACH, CLONE_NEWUSER = 2, 0x10000000
PIVOT_ROOT = {'x86_64': 155, 'aarch64': 41}[os.uname().machine]


def pivot(libc, root):
    os.chdir(root)
    if libc.syscall(PIVOT_ROOT, b'.', b'.') or libc.umount2(b'.', MNT_DETACH):
        raise OSError(ctypes.get_errno(), 'pivot_root')
    os.chdir('/')


def put(proc, name, text):
    fd = os.open(name, os.O_WRONLY, dir_fd=proc)
    os.write(fd, text)
    os.close(fd)


def main(root, user, program, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    uid = int(user.rstrip('+'))
    proc = os.open('/proc/self', os.O_DIRECTORY)
    pivot(libc, root)
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        # The change of user made root the owner of /proc/self.
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
    if user.endswith('+') and not libc.unshare(CLONE_NEWUSER):
        put(proc, 'setgroups', b'deny')
        put(proc, 'uid_map', f'0 {uid} 1'.encode())
        put(proc, 'gid_map', f'0 {uid} 1'.encode())
    os.close(proc)
    os.execv(program, [program, *args])


main(*sys.argv[1:])
