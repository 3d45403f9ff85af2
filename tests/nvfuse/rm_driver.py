#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""rm_driver.py SCENARIO LOG COMMAND...: runs COMMAND with a mock for the NVIDIA driver that logs context switches.

In a separate mount namespace, /dev has nvidiactl and nvidiaN, which a FUSE server of ours answers: the RM calls of src/gpu/, and memory to
map. LOG has its requests, one JSON object per line. If the driver would overwrite its own memory, or follow an invalid pointer, there is a
line with "hazard". Its exit status is COMMAND's.

SCENARIO is JSON: {"version": "580.159.04", "gpus": [{"minor": 0, "mig": 2, "batches": [[RECORD, ...], ...]}],
"fail": {WHAT: STATUS, ...}, "reason": N}. A RECORD is {"tag", "pid", "context", "us"} and, for odd ones, "skip" (number of omitted sequence
numbers), "type". us of the first batch, which is available at once, counts from the start of the log; that of the others from the first
time that the reader frees what it has read. Each time one more batch is available, and all remaining ones at a flush. WHAT is the name of a
call below, as "bind"; STATUS is the driver's, a negative one an errno of ioctl().
"""
import ctypes
import errno
import json
import os
import select
import stat
import struct
import sys
import tempfile
import time

CLONE_NEWNS, MS_NOSUID, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 2, 4096, 16384, 1 << 18
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, INTERRUPT, IOCTL, BATCH_FORGET = \
    1, 2, 3, 14, 15, 17, 18, 25, 26, 36, 39, 42
NOTIFY_INVAL_INODE = 2
FILE_SZ = 8 << 20
# From the CPU's clock to the GPU's.
GPU_AHEAD = 10 ** 15
PARAMS = {"id_info": 0x205, "gpu_info": 0x20800102, "times": 0x20800406, "bind": 0x20801238, "enable": 0x90cd0101,
          "update_get": 0x90cd0102, "flush": 0x90cd0104}
CONTROLS = {v: k for k, v in PARAMS.items()}
CLASSES = {0x41: "client", 0x80: "device", 0x2080: "subdevice", 0x90ce: "memory", 0x90cd: "buffer"}
INVALID_ARGUMENT, INVALID_OBJECT, INVALID_PARAM_STRUCT, NOT_SUPPORTED = 0x1f, 0x33, 0x3a, 0x56
libc = ctypes.CDLL(None, use_errno=True)


def check(ret, what):
    if ret < 0:
        raise OSError(ctypes.get_errno(), what)


def mount(source, target, kind, flags, data=None):
    check(libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, data and data.encode()), "mount " + target)


def now_of_gpu():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) + GPU_AHEAD


class Gpu:
    """A log bound to a buffer: get, put and the number of drops are in the header's memory."""

    def __init__(self, say, card):
        self.minor, self.mig, self.batches = card["minor"], card.get("mig", 2), [*card["batches"]]
        self.buffer, self.enabled, self.given_back, self.seq = None, 0, False, 100
        self.say = say

    def write(self, records):
        header, ring, cnt = self.buffer["header"], self.buffer["records"], self.buffer["cnt"]
        get, put, _, dropped = struct.unpack_from("=IIQQ", header)
        for r in records:
            self.seq = self.seq + 1 + r.get("skip", 0) & 0xffff
            if (put + 1) % cnt == get:
                dropped += 1
                continue
            struct.pack_into("=HHIBBHIIHBBQ", ring, put * 32, r.get("type", 134), 0, 0, r["tag"], 0, self.seq, r["context"], r["pid"], 0, 0xff, 0xff,
                             self.enabled + int(r["us"] * 1000))
            put = (put + 1) % cnt
        struct.pack_into("=IIQQ", header, 0, get, put, cnt, dropped)

    def next(self):
        if self.buffer and self.enabled and self.batches:
            self.write(self.batches.pop(0))


class Driver:
    def __init__(self, scenario, log):
        self.scenario, self.log = scenario, log
        self.gpus = [Gpu(self.say, card) for card in scenario["gpus"]]
        self.objects, self.next_handle, self.fds = {}, 0xcaf00001, {}
        self.nodes, self.memory_of, self.last_ctl = {}, {}, None

    def say(self, **what):
        self.log.write(json.dumps(what) + "\n")
        self.log.flush()

    def hazard(self, what):
        self.say(hazard=what)

    # --- calls, which return a status

    def alloc(self, mem, a):
        root, parent, _, kind, params, _, size, *_ = a
        name = CLASSES.get(kind, hex(kind))
        status = self.scenario.get("fail", {}).get(name, 0)
        self.say(call="alloc", what=name, parent=parent, status=status)
        if status:
            return status, 0
        new = {"kind": name, "parent": parent}
        if name == "device":
            new["gpu"] = self.gpus[struct.unpack_from("=I", mem(params, size))[0]]
        elif name == "subdevice":
            new["gpu"] = self.objects[parent]["gpu"]
        elif name == "memory":
            p = struct.unpack("=IIIIIiIIIIIIQQQQQQQIIIIiI", mem(params, size))
            if parent != root or not p[7] >> 22 & 1:
                return INVALID_ARGUMENT, 0
            new["bytes"] = bytearray(p[14])
        elif name == "buffer":
            p = struct.unpack("=QQIIQIIQIIIIII", mem(params, size))
            size_of, cnt, notification, subdevice, header, records = p[2], p[3], p[7], p[9], p[11], p[12]
            if subdevice not in self.objects or self.objects[subdevice]["kind"] != "subdevice":
                self.hazard("no subdevice")
            if size_of < 32:
                self.hazard(f"records of {size_of} bytes")
            if notification:
                self.hazard(f"notification {notification}")
            if len(self.objects[records]["bytes"]) < cnt * size_of or p[0] or p[1]:
                return INVALID_ARGUMENT, 0
            new.update(header=self.objects[header]["bytes"], records=self.objects[records]["bytes"], cnt=cnt, gpu=self.objects[subdevice]["gpu"])
        handle, self.next_handle = self.next_handle, self.next_handle + 1
        self.objects[handle] = new
        return 0, handle

    def control(self, mem, client, handle, command, params, size):
        name, o = CONTROLS.get(command, hex(command)), self.objects.get(handle)
        status = self.scenario.get("fail", {}).get(name, 0)
        self.say(call="control", what=name, size=size, status=status)
        if client not in self.objects or not o:
            return INVALID_OBJECT
        gpu = o.get("gpu")
        data = bytearray(mem(params, size)) if size else bytearray()
        if name == "bind":
            if gpu.mig != 2:
                self.hazard("bound with MIG: the log of others ends")
            struct.pack_into("=I", data, 20, self.scenario.get("reason", 0) if status else 0)
            if not status:
                gpu.buffer = self.objects[struct.unpack_from("=I", data)[0]]
        elif name == "id_info":
            n = struct.unpack_from("=I", data)[0]
            struct.pack_into("=II", data, 8, n - 0x1000, 0)
        elif name == "gpu_info":
            if size != 564:
                return INVALID_PARAM_STRUCT
            struct.pack_into("=I", data, 8, gpu.mig)
        elif name == "times":
            if data[0] != 3 or data[1] != 1:
                return INVALID_ARGUMENT
            struct.pack_into("=QQ", data, 8, now_of_gpu() - GPU_AHEAD, now_of_gpu())
        elif name == "enable" and not status:
            if struct.unpack("=BxxxI", data) != (1, 1):
                return INVALID_ARGUMENT
            gpu.enabled = now_of_gpu()
            gpu.next()
        elif name == "update_get" and not status:
            struct.pack_into("=I", o["header"], 0, struct.unpack_from("=I", data)[0])
            struct.pack_into("=Q", o["header"], 16, 0)
            if gpu.enabled and not gpu.given_back:
                gpu.enabled, gpu.given_back = now_of_gpu(), True
            gpu.next()
        elif name == "flush":
            for _ in list(gpu.batches):
                gpu.next()
        elif name not in PARAMS:
            return NOT_SUPPORTED
        if size:
            mem(params, size, data)
        return status

    def map(self, pid, device, client, memory, length, flags, fd):
        status = self.scenario.get("fail", {}).get("map", 0)
        self.say(call="map", length=length, flags=flags, status=status)
        if status:
            return status
        if device != client or flags != 1 or not os.readlink(f"/proc/{pid}/fd/{fd}").endswith("/nvidiactl"):
            return INVALID_ARGUMENT
        self.memory_of[self.last_ctl] = self.objects[memory]["bytes"]
        return 0

    def free(self, handle):
        o = self.objects.pop(handle, None)
        self.say(call="free", what=o and o["kind"])
        if o and o["kind"] == "buffer":
            o["gpu"].buffer = None
        for child in [h for h, x in self.objects.items() if x["parent"] == handle]:
            self.free(child)
        return 0 if o else INVALID_OBJECT

    def ioctl(self, pid, node, nr, arg):
        """Returns 0 or an errno, and the data to copy back."""
        def mem(address, size, data=None):
            with open(f"/proc/{pid}/mem", "r+b", buffering=0) as f:
                f.seek(address)
                return f.write(data) if data else f.read(size)
        status = 0
        if nr == 0x2b and len(arg) == 48:
            a = [*struct.unpack("=IIIIQQIIII", arg)]
            status, handle = self.alloc(mem, a)
            a[2] = handle
            a[8] = max(status, 0)
            arg = struct.pack("=IIIIQQIIII", *a)
            if handle and a[3] == 0x41:
                self.fds[node] = handle
        elif nr == 0x2a and len(arg) == 32:
            client, handle, command, flags, params, size, _ = struct.unpack("=IIIIQII", arg)
            status = self.control(mem, client, handle, command, params, size)
            arg = struct.pack("=IIIIQII", client, handle, command, flags, params, size, max(status, 0))
        elif nr == 0x29 and len(arg) == 16:
            root, parent, handle, _ = struct.unpack("=IIII", arg)
            arg = struct.pack("=IIII", root, parent, handle, self.free(handle))
        elif nr == 0x4e and len(arg) == 56:
            a = [*struct.unpack("=IIIIQQQIIiI", arg)]
            status = self.map(pid, a[1], a[0], a[2], a[5], a[8], a[9])
            a[6], a[7] = 0x7e5700000000, max(status, 0)
            arg = struct.pack("=IIIIQQQIIiI", *a)
        elif nr == 200:
            out = bytearray(len(arg))
            for i, gpu in enumerate(self.gpus):
                struct.pack_into("=BxxxIBBBxHHI", out, 72 * i, 1, 0, 0x3b + i, 0, 0, 0x10de, 0x2330, 0x1000 + i)
                struct.pack_into("=I", out, 72 * i + 56, gpu.minor)
            arg = bytes(out)
        elif nr == 201:
            self.say(call="register_fd")
        elif nr == 210:
            status = self.scenario.get("fail", {}).get("version", 0)
            text = self.scenario.get("version", "580.159.04").encode()
            arg = struct.pack("=II64s", ord("2"), 1, text)
        else:
            return errno.EINVAL, b""
        return (-status if status < 0 else 0), bytes(arg)


class Server:
    def __init__(self, dev, driver):
        self.dev, self.driver = dev, driver
        self.names, self.next_node, self.open_cnt = {1: ""}, 2, 0

    def answer(self, unique, error=0, data=b""):
        try:
            os.write(self.dev, struct.pack("=IiQ", 16 + len(data), -error, unique) + data)
        except OSError as e:
            if e.errno != errno.ENOENT:
                raise

    def attr(self, node):
        mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o666
        return struct.pack("=QQQQQQIIIIIIIIII", node, 0 if node == 1 else FILE_SZ, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def look_anew(self):
        """The mapped part of changed memory. Meanwhile the reader waits for an ioctl of ours and accesses none of it."""
        for node in self.driver.memory_of:
            data = struct.pack("=QqQ", node, 0, 0)
            try:
                os.write(self.dev, struct.pack("=IiQ", 16 + len(data), NOTIFY_INVAL_INODE, 0) + data)
            except OSError as e:
                if e.errno != errno.ENOENT:
                    raise

    def serve(self, request):
        _, op, unique, node, _, _, pid, _ = struct.unpack_from("=IIQQIIII", request)
        body = request[40:]
        if op == INIT:
            _, minor, *_ = struct.unpack_from("=IIII", body)
            self.answer(unique, data=struct.pack("=IIIIHHIIHHI28x", 7, min(minor, 31), 0, 0, 0, 0, 65536, 1, 0, 0, 0))
        elif op == LOOKUP:
            name = body.rstrip(b"\0").decode()
            if name != "nvidiactl" and name not in (f"nvidia{g.minor}" for g in self.driver.gpus):
                self.answer(unique, errno.ENOENT)
                return
            # Each open file has its own pages.
            node, self.next_node = self.next_node, self.next_node + 1
            self.names[node] = name
            self.answer(unique, data=struct.pack("=QQQQII", node, 0, 0, 3600, 0, 0) + self.attr(node))
        elif op == GETATTR:
            self.answer(unique, data=struct.pack("=QII", 3600, 0, 0) + self.attr(node))
        elif op == OPEN:
            self.driver.say(call="open", what=self.names[node])
            self.open_cnt += 1
            if self.names[node] == "nvidiactl":
                self.driver.last_ctl = node
            self.answer(unique, data=struct.pack("=QII", node, 0, 0))
        elif op == READ:
            _, offset, size, *_ = struct.unpack_from("=QQI", body)
            data = bytes(self.driver.memory_of.get(node, b""))[offset:offset + size]
            self.answer(unique, data=data.ljust(size, b"\0"))
        elif op == IOCTL:
            _, _, command, _, in_size, _ = struct.unpack_from("=QIIQII", body)
            error, data = self.driver.ioctl(pid, node, command & 0xff, body[32:32 + in_size])
            self.look_anew()
            self.answer(unique, data=struct.pack("=iIII", -error, 0, 0, 0) + (b"" if error else data))
        elif op == RELEASE:
            self.driver.say(call="close", what=self.names[node])
            self.open_cnt -= 1
            client = self.driver.fds.pop(node, None)
            if client in self.driver.objects:
                self.driver.free(client)
            self.driver.memory_of.pop(node, None)
            self.answer(unique)
        elif op not in (FORGET, BATCH_FORGET, INTERRUPT):
            self.answer(unique, 0 if op == FLUSH else errno.ENOSYS)


def replace_dev(folder, gpus):
    new = tempfile.mkdtemp()
    mount("dev", new, "tmpfs", MS_NOSUID, "mode=755")
    for name in ("null", "zero", "full", "random", "urandom", "tty", "kmsg"):
        open(f"{new}/{name}", "w", encoding="ascii").close()
        mount(f"/dev/{name}", f"{new}/{name}", None, MS_BIND)
    os.mkdir(new + "/shm", 0o1777)
    os.symlink("/proc/self/fd", new + "/fd")
    for name in ("nvidiactl", *(f"nvidia{g['minor']}" for g in gpus)):
        os.symlink(f"{folder}/{name}", f"{new}/{name}")
    mount(new, "/dev", None, MS_BIND | MS_REC)


def main(scenario, log, *command):
    with open(scenario, encoding="utf-8") as f:
        scenario = json.load(f)
    check(libc.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    dev, folder = os.open("/dev/fuse", os.O_RDWR), tempfile.mkdtemp()
    mount("nvidia", folder, "fuse", MS_NOSUID, f"fd={dev},rootmode=40000,user_id=0,group_id=0,allow_other")
    child = os.fork()
    if not child:
        os.close(dev)
        replace_dev(folder, scenario["gpus"])
        os.environ["CUDATRACE_TEST_NV_BY_NAME"] = "1"
        os.execvp(command[0], command)
    done = os.pidfd_open(child)
    with open(log, "w", encoding="utf-8") as out:
        server, end = Server(dev, Driver(scenario, out)), None
        # Children may hold COMMAND's open files for a moment longer.
        while not end or server.open_cnt and time.monotonic() < end:
            ready = [fd for fd, _ in poll_of(dev, *([] if end else [done])).poll(100)]
            if dev in ready:
                server.serve(os.read(dev, 1 << 20))
            elif done in ready:
                end = time.monotonic() + 20
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def poll_of(*fds):
    p = select.poll()
    for fd in fds:
        p.register(fd, select.POLLIN)
    return p


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
