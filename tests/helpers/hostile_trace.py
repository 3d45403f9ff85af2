#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""hostile_trace.py ROUNDS [NAME_LENGTH]: prints a hostile saved trace, made to use many resources.

Nothing in it comes twice: each round has a process, a thread, a kernel, a stream, a stack, an allocation, a pool, a graph,
a command of the driver ... of its own, and none of them ends. Every 64th has a header and an end of its own, with lists.
"""
import sys

LENGTH = int(sys.argv[2]) if len(sys.argv) > 2 and sys.argv[2].isdigit() else 100

HEADER = ('{"ts":0,"type":"header","name":"cudatrace","schema":2,"clock_base_ns":%d,"boot_id":"x","command":[%s],'
          '"libraries":[{"path":"/l%d","id":1,"functions":3}]}\n')
END = ('{"ts":%d,"type":"end","name":"cudatrace","reason":"r%d","counted":{%s}}\n')
HEAD = '"pid":%d,"tid":%d,"comm":"c%d","id":%d,"duration_us":%s,"result":0,'


def call(kind, op, name, symbol, fields, duration='1'):
    return ('{"ts":%d.%06d,"type":"' + kind + '","op":"' + op + '","name":"' + name + '","symbol":"' + symbol + '",' + HEAD.replace(
        '%s', duration) + fields + '}\n')


CALLS = [
    call('init', 'init', 'cuInit', 'cuInit', '"args":{"Flags":0}'),
    call('context', 'create', 'cuCtxCreate', 'cuCtxCreate_v2', '"context":"0x%x","args":{"pctx":"0x%x","flags":0,"dev":0}'),
    call('memory', 'alloc', 'cuMemAlloc', 'cuMemAlloc_v2', '"size":64,"ptr":"0x%x","args":{"dptr":"0x%x","bytesize":64}'),
    call('memory', 'create', 'cuMemPoolCreate', 'cuMemPoolCreate',
         '"args":{"pool":"0x%x","poolProps":{"location":{"type":"CU_MEM_LOCATION_TYPE_DEVICE","id":%d}}}'),
    call('kernel', 'launch', 'cuLaunchKernel', 'cuLaunchKernel',
         '"stream":"0x%x","kernel":"k%d_' + 'n' * LENGTH + '","grid":[1,1,1],"block":[1,1,1],"shared_mem":0,"args":{"f":"0x1"}'),
    call('event', 'record', 'cuEventRecord', 'cuEventRecord', '"stream":"0x%x","event":"0x%x","args":{}'),
    call('graph', 'create', 'cuGraphCreate', 'cuGraphCreate', '"args":{"phGraph":"0x%x","flags":%d}'),
    call('graph', 'instantiate', 'cuGraphInstantiate', 'cuGraphInstantiateWithFlags',
         '"args":{"phGraphExec":"0x%x","hGraph":"0x%x","flags":0}'),
    call('graph', 'capture_begin', 'cuStreamBeginCapture', 'cuStreamBeginCapture_v2', '"stream":"0x%x","args":{"hStream":"0x%x","mode":0}'),
    call('sync', 'sync', 'cuStreamSynchronize', 'cuStreamSynchronize', '"stream":"0x%x","args":{"hStream":"0x%x"}', '900'),
    call('other', 'none', 'cuNo%d', 'cuNo%d', '"args":{}'),
]
STACK = ('{"ts":%d.%06d,"type":"stack","op":"stack","name":"stack","pid":%d,"tid":%d,"comm":"c%d","id":%d,"frames":['
         '{"ip":"0x%x","module":"/m%d","offset":"0x1","build_id":"b%d","symbol":"s%d"}]}\n')
IOCTL = ('{"ts":%d.%06d,"type":"kernel","op":"ioctl","name":"NV_%d","pid":%d,"tid":%d,"comm":"c%d","duration_us":1,"device":"nvidia%d","fd":8,'
         '"cmd":"0xc030462b","escape":"NV_ESC_RM_ALLOC","class":"C%d","client":"0x1","status":"NV_OK","result":0,"call_id":%d,"call":"cu%d"}\n')


def main():
    out = sys.stdout
    no = 0
    for i in range(1, int(sys.argv[1]) + 1):
        if i % 64 == 1:
            out.write(HEADER % (no * 1000, ','.join(f'"a{i}.{n}"' for n in range(64)), i))
        pid, x = i, i << 12
        lines = []
        for n, form in enumerate(CALLS):
            no += 1
            head = (no // 1000000, no % 1000000)
            who = (pid, pid + n % 3, i, no)
            if n == 10:
                lines.append(form % (*head, i, i, *who))
            elif n == 0:
                lines.append(form % (*head, *who))
            elif n == 4:
                text = form % (*head, *who, x, i)
                lines.append(text.replace('"args"', f'"stack":{i},"args"'))
            else:
                text = form % (*head, *who, x, x if n != 3 else i % 8)
                lines.append(text.replace('"args"', f'"stack":{i},"args"') if n == 9 else text)
        out.write(STACK % (*head, pid, pid, i, i, x, i, i, i))
        out.write(''.join(lines))
        out.write(IOCTL % (*head, i, pid, pid, i, i, i, no, i))
        if i % 64 == 0:
            out.write(END % (no // 1000000 + 1, i, ','.join(f'"cu{i}_{n}":{{"calls":1}}' for n in range(64))))


if __name__ == '__main__':
    try:
        main()
    except BrokenPipeError:
        pass
