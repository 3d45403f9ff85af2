#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""kills.py COUNT FOLDER PID CUDATRACE OPTION...: COUNT tracers of PID, one after another, each killed by SIGKILL at
another moment: while it attaches, while it traces, while it detaches (a while after SIGINT). The files
that each leaves must be valid, and nothing of it may stay in the kernel. Prints the number killed at each stage."""
import ctypes, json, os, platform, random, signal, struct, subprocess, sys, time

RING = 2 << 20  # the size identifies our ring
libc = ctypes.CDLL(None, use_errno=True)
number = {'x86_64': 321, 'aarch64': 280}[platform.machine()]


def rings():
    """Number of the kernel's maps of our size: a program or a link of ours would keep its map."""
    found, key = 0, 0
    while True:
        buf = (ctypes.c_uint32 * 32)(key)
        if libc.syscall(number, 12, buf, ctypes.sizeof(buf)) < 0:  # BPF_MAP_GET_NEXT_ID
            return found
        key = buf[1]
        get = (ctypes.c_uint32 * 32)(key)
        fd = libc.syscall(number, 14, get, ctypes.sizeof(get))  # BPF_MAP_GET_FD_BY_ID
        if fd < 0:
            continue
        info = (ctypes.c_uint32 * 32)()
        ask = struct.pack('<IIQ', fd, ctypes.sizeof(info), ctypes.addressof(info)) + bytes(112)
        if libc.syscall(number, 15, ask, len(ask)) == 0:  # BPF_OBJ_GET_INFO_BY_FD
            found += info[0] == 27 and info[4] == RING  # type RINGBUF, max_entries
        os.close(fd)


def check_files(jsonl, chrome):
    """All lines must be whole, except perhaps the last one."""
    for path in jsonl, chrome:
        if not os.path.exists(path):
            continue
        with open(path, 'rb') as f:
            lines = f.read().split(b'\n')[:-1]
        if path == jsonl:
            for line in lines[:3] + lines[-200:]:
                json.loads(line)
            if lines and json.loads(lines[0])['type'] != 'header':
                sys.exit(f'{path} begins with {lines[0]!r}')
        elif len(lines) > 1:
            text = b'\n'.join(lines[:1] + lines[1:][-200:]).rstrip()
            json.loads(text if text.endswith(b']') else text.rstrip(b',') + b']')
        os.unlink(path)


def main():
    count, folder, pid, command = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    random.seed(int(os.environ.get('FAULTS_SEED', '1')))
    when = {'before the trace': 0, 'in the trace': 0, 'in the end': 0, 'after the end': 0}
    jsonl, chrome = f'{folder}/k.jsonl', f'{folder}/k.json'
    for i in range(count):
        p = subprocess.Popen([*command, '--buffer-size', '2M', '--jsonl', jsonl, '--chrome', chrome, '-p', pid],
                             stderr=subprocess.DEVNULL)
        moment = i % 4
        if moment:
            while not (os.path.exists(chrome) and os.path.getsize(chrome)) and p.poll() is None:
                time.sleep(0.002)
        time.sleep(random.random() * (0.25 if moment == 0 else 0.1))
        if moment == 3:
            p.send_signal(signal.SIGINT)
            time.sleep(random.random() * 0.15)
        begun = os.path.exists(chrome) and os.path.getsize(chrome) > 0
        p.kill()
        ended = p.wait() == 0
        when['after the end' if ended else 'in the end' if moment == 3 else
             'in the trace' if begun else 'before the trace'] += 1
        check_files(jsonl, chrome)
        os.kill(int(pid), 0)
    for _ in range(100):
        left = rings()
        if not left:
            break
        time.sleep(0.1)
    print(', '.join(f'{n} {k}' for k, n in when.items()))
    if left:
        sys.exit(f'{left} ring buffers are left after 10 seconds')


main()
