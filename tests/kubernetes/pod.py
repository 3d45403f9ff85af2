#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs the DaemonSet's container as a runtime would, without one: its mounts, its read-only root, its capabilities.

pod.py ROOTFS NODE [CAPABILITY]        without that capability
pod.py ROOTFS NODE +OVERLAY            with the capabilities of this overlay, too

To be started in mount, network, UTS, IPC and cgroup namespaces of its own. ROOTFS is the image's file system, NODE a
folder with the node's /var. What it does comes from dist/kubernetes/base/daemonset.yaml.
"""
import ctypes
import fcntl
import os
import re
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import manifests

PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38


def mount(*args):
    subprocess.run(['mount', *args], check=True)


def bind(source, target, read_only):
    mount('--bind', source, target)
    if read_only:
        mount('-o', 'remount,bind,ro', target)


def mount_all(root, node, pod, container):
    mount('--make-rprivate', '/')
    bind(root, root, container['securityContext']['readOnlyRootFilesystem'])
    mount('-t', 'proc', 'proc', f'{root}/proc')
    mount('-t', 'sysfs', '-o', 'ro', 'sysfs', f'{root}/sys')
    volumes = {v['name']: v for v in pod['volumes']}
    for m in container['volumeMounts']:
        v, target, read_only = volumes[m['name']], root + m['mountPath'], m.get('readOnly', False)
        if 'configMap' in v:
            bind(manifests.BASE, target, read_only)
        elif 'emptyDir' in v:
            mount('-t', 'tmpfs', 'tmpfs', target)
        elif v['hostPath']['path'].startswith('/sys/'):
            bind(v['hostPath']['path'], target, read_only)
        else:
            source = node + v['hostPath']['path']
            if v['hostPath']['type'] == 'DirectoryOrCreate':
                os.makedirs(source, exist_ok=True)
            bind(source, target, read_only)


def lo_up():
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 0x41))  # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING


def restrict(context, keep):
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for cap in range(64):
        if cap not in keep:
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)
    if not context['allowPrivilegeEscalation']:
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(*[context['runAsGroup']] * 3)
    os.setresuid(*[context['runAsUser']] * 3)


def main(root, node, change=''):
    pod = manifests.daemonset()['spec']
    container = pod['containers'][0]
    context = container['securityContext']
    assert context['capabilities']['drop'] == ['ALL'] and not context['privileged']
    keep = {manifests.number_of(c) for c in context['capabilities']['add'] if c != change}
    if change.startswith('+'):
        keep |= {manifests.number_of(c) for c in manifests.OVERLAYS[change[1:]]}
    with open('dist/container/Containerfile', encoding='utf-8') as f:
        entry = re.search(r'^ENTRYPOINT \["(.*)"\]$', f.read(), re.M)[1]
    mount_all(root, node, pod, container)
    lo_up()
    os.chroot(root)
    os.chdir('/')
    restrict(context, keep)
    os.execve(entry, [entry, *container['args']], {'PATH': '/', 'HOSTNAME': 'cudatrace-x2x4z'})


main(*sys.argv[1:])
