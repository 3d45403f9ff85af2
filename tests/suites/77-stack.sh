#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# --stack: who made a call, by each mechanism, with and without frame pointers, symbols, a process that still lives;
# how much memory many stacks take; what the report makes of them.
# takes: 40
set -u
. tests/lib.sh
needs_tracing stack
unset LD_LIBRARY_PATH

lib=$FAKE/libcuda.so.1
few='cuInit,cuMemAlloc,cuLaunchKernel'
build() { ${CC:-gcc} -O2 -w -o "$TMP/$1" "${@:2}" tests/stacks.c -ldl -lpthread; }
build fp -g -fno-omit-frame-pointer -fno-optimize-sibling-calls && build nofp -fomit-frame-pointer &&
	build exec -g -fno-omit-frame-pointer -no-pie && strip -o "$TMP/stripped" "$TMP/fp" || exit 1
cat >"$TMP/plugin.cc" <<'END'
namespace app {
struct pool {
	__attribute__((noipa)) int grow(int (*alloc)(unsigned long *, unsigned long))
	{
		unsigned long p;
		int r = alloc(&p, 64);

		__asm__ volatile("" ::: "memory");
		return r;
	}
};
}
// Demanglers have taken for ever over this one.
extern "C" __attribute__((noipa)) int endless(app::pool *pool, int (*alloc)(unsigned long *, unsigned long)) __asm__("_Z1fDTsr1aC");
int endless(app::pool *pool, int (*alloc)(unsigned long *, unsigned long))
{
	int r = pool->grow(alloc);

	__asm__ volatile("" ::: "memory");
	return r;
}
extern "C" int plugin_alloc(int (*alloc)(unsigned long *, unsigned long))
{
	app::pool pool;
	int r = endless(&pool, alloc);

	__asm__ volatile("" ::: "memory");
	return r;
}
END
${CXX:-g++} -O2 -w -shared -fPIC -fno-omit-frame-pointer -Wl,--build-id -o "$TMP/plugin.so" "$TMP/plugin.cc" || exit 1

# The stand-in driver with frame pointers: else a stack of a call within a call ends in it.
make -s -f tests/fake/fake.mk O="$TMP/b" FAKE_CFLAGS='-O1 -fno-omit-frame-pointer' "$TMP/b/fake/libcuda.so.1" || exit 1

# stacks TRACE: of each call its function and the functions of its stack, one call a line; what is not the target's
# own (libc) is left out, and so are the offsets.
stacks()
{
	python3 - "$1" <<'END'
import json, sys
known = {}
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["type"] == "stack":
        # Each is defined once.
        assert e["id"] not in known, line
        known[e["id"]] = e["frames"]
    elif "symbol" in e:
        frames = known[e["stack"]] if "stack" in e else []
        own = [f for f in frames if "libc.so" not in f.get("module", "")]
        print(e["name"], *[f.get("symbol", "?").split("+0x")[0] for f in own])
END
}
# traced NAME OPTION... -- COMMAND...
traced()
{
	local name=$1
	shift
	LD_LIBRARY_PATH=$FAKE timeout -k 5 60 "$CUDATRACE" -q --jsonl "$TMP/$name.jsonl" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
}
same_stacks() { diff <(stacks "$1") - || { echo "other stacks: $1"; return 1; }; }

expected='cuInit main
cuMemAlloc inner outer main
cuLaunchKernel inner outer main
cuMemAlloc inner outer thread
cuMemAlloc app::pool::grow(int (*)(unsigned long*, unsigned long)) _Z1fDTsr1aC plugin_alloc main'

for mech in session multi perf; do
	has_mechanism $mech || { skip "stack: $mech" "kernel $(uname -r) has none"; continue; }
	traced $mech --mechanism=$mech -e $few --stack -- "$TMP/fp" "$lib" "$TMP/plugin.so"
	check "$mech: stacks of main, a thread, a plugin" same_stacks "$TMP/$mech.jsonl" <<<"$expected"
	check "$mech: the trace's sums" holds "$TMP/$mech.jsonl" 'accounts() and end["events"]["stack"] == 5 and head["stacks"]'
	traced $mech.entry --mechanism=$mech -e $few --stack --no-return all -- "$TMP/fp" "$lib" "$TMP/plugin.so"
	check "$mech: at the entry: the same stacks" same_stacks "$TMP/$mech.entry.jsonl" <<<"$expected"
	# Its kernel shows that address.
	kernel_at_least 6 11 || { skip "$mech: nested calls" "kernel $(uname -r)"; continue; }
	# A call in a call: the kernel has put its own address in the place of the outer one's return address.
	LD_LIBRARY_PATH=$TMP/b/fake "$CUDATRACE" -q --mechanism=$mech -e 'cuMemAlloc,cuMemAllocPitch' --stack \
		--jsonl "$TMP/$mech.nested.jsonl" -- "$TMP/fp" "$TMP/b/fake/libcuda.so.1" nest
	check "$mech: nested calls" same_stacks "$TMP/$mech.nested.jsonl" <<'END'
cuMemAlloc run_alloc_pitch fake_dispatch ? cuMemAllocPitch_v2 nest outer main
cuMemAllocPitch nest outer main
END
done

traced set -e $few --stack=memory -- "$TMP/fp" "$lib"
check '--stack=memory: no stacks of others' same_stacks "$TMP/set.jsonl" <<'END'
cuInit
cuMemAlloc inner outer main
cuLaunchKernel
cuMemAlloc inner outer thread
END
traced none -e $few -- "$TMP/fp" "$lib"
check 'without --stack: none' holds "$TMP/none.jsonl" 'accounts() and "stack" not in end["events"] and "stacks" not in head and not any("stack" in e for e in calls)'

# The address is the one that addr2line takes; the build id is the file's.
for exe in fp exec; do
	traced $exe -e $few --stack -- "$TMP/$exe" "$lib"
	read -r offset id < <(python3 - "$TMP/$exe.jsonl" <<'END'
import json, sys
for e in map(json.loads, open(sys.argv[1])):
    for f in e.get("frames", []):
        if f.get("symbol", "").startswith("outer+"):
            print(f["offset"], f["build_id"])
            sys.exit()
END
	)
	line=$(addr2line -f -e "$TMP/$exe" "$offset" | head -1)
	check "$exe: addr2line knows the address" [ "$line" = outer ]
	check "$exe: build id" grep -q "Build ID: $id\$" <(readelf -n "$TMP/$exe")
done

traced nofp -e $few --stack -- "$TMP/nofp" "$lib"
check 'without frame pointers: the caller is right' \
	diff <(stacks "$TMP/nofp.jsonl" | cut -d' ' -f1,2) <(printf '%s\n' 'cuInit main' 'cuMemAlloc inner' 'cuLaunchKernel inner' 'cuMemAlloc inner')
traced stripped -e $few --stack -- "$TMP/stripped" "$lib"
check 'stripped: modules and addresses' holds "$TMP/stripped.jsonl" \
	'(accounts() and [f for e in ev if e["type"] == "stack" and e["id"] == 2 for f in e["frames"]][2]["module"].endswith("/stripped")
	and all("offset" in f and "build_id" in f for e in ev if e["type"] == "stack" for f in e["frames"]))'

# 40,000 stacks of 20 frames: all are there, and memory is bounded.
LD_LIBRARY_PATH=$FAKE /usr/bin/env python3 - "$CUDATRACE" "$TMP" "$lib" <<'END' >"$TMP/many.out" 2>&1
import os, resource, subprocess, sys
cudatrace, tmp, lib = sys.argv[1:]
subprocess.run([cudatrace, "-q", "--buffer", "64M", "--jsonl", f"{tmp}/many.jsonl", "-e", "cuMemAlloc", "--stack", "--", f"{tmp}/fp", lib, "deep", "40000"], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
check '40,000 stacks: each is its own' holds "$TMP/many.jsonl" 'accounts() and len({e.get("stack") for e in calls}) == 40000'
rss=$(tail -1 "$TMP/many.out")
check '40,000 stacks: less than 250 MB' [ "${rss:-999999}" -lt 250000 ]

# What is named by the program itself, as Python's -X perf does: only its own user is believed.
cat >"$TMP/jit.py" <<'END'
import ctypes, mmap, os, sys, time
cuda = ctypes.CDLL(sys.argv[1])
alloc = ctypes.cast(cuda.cuMemAlloc_v2, ctypes.c_void_p).value
# push %rbp; mov %rsp,%rbp; mov $alloc,%rax; call *%rax; pop %rbp; ret
code = b"\x55\x48\x89\xe5\x48\xb8" + alloc.to_bytes(8, "little") + b"\xff\xd0\x5d\xc3"
mem = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
mem.write(code)
at = ctypes.addressof(ctypes.c_char.from_buffer(mem))
name = f"/tmp/perf-{os.getpid()}.map"
with open(name, "w") as f:
    f.write(f"{at:x} {len(code):x} {os.environ.get('JIT_NAME', 'py::train:model.py')}\n{at + 4096:x} 10 half")
if len(sys.argv) > 2:
    os.chown(name, 12345, -1)
ctx = ctypes.c_void_p()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0), cuda.cuCtxSetCurrent(ctx)
p = ctypes.c_uint64()
ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(at)(ctypes.addressof(p), 64)
time.sleep(0.3)
os.unlink(name)
END
if [ "$(uname -m)" = x86_64 ]; then
	traced jit -e cuMemAlloc --stack -- python3 "$TMP/jit.py" "$lib"
	check 'perf map: the name of code that was made' holds "$TMP/jit.jsonl" \
		'(lambda f: f["symbol"] == "py::train:model.py+0x10" and f["module"] == "[anon]")([e for e in ev if e["type"] == "stack"][0]["frames"][0])'
	JIT_NAME=_Z1fDTsr1aC traced endless -e cuMemAlloc --stack -- python3 "$TMP/jit.py" "$lib"
	check 'perf map: a name that no demangler ends' holds "$TMP/endless.jsonl" \
		'accounts() and [e for e in ev if e["type"] == "stack"][0]["frames"][0]["symbol"] == "_Z1fDTsr1aC+0x10"'
	traced liar -e cuMemAlloc --stack -- python3 "$TMP/jit.py" "$lib" other
	check "perf map: of another user's: not believed" holds "$TMP/liar.jsonl" \
		'(lambda f: "symbol" not in f and f["module"] == "[anon]")([e for e in ev if e["type"] == "stack"][0]["frames"][0])'
fi

# A program in a root of its own, whose /tmp is a link to where there is a file of ours: what is in it is none of its names.
cat >"$TMP/other_root.sh" <<'END'
set -e
root=$1/root
mkdir -p "$root/proc" "$root/fake" "$root/usr" "$root/w"
for l in /bin /lib /lib64; do [ ! -L $l ] || cp -a $l "$root/"; [ -L $l ] || { mkdir -p "$root$l"; mount --bind $l "$root$l"; }; done
mount --bind /usr "$root/usr"
mount --bind "$2" "$root/fake"
mount --bind "$1/outside" "$root/w"
mount -t proc proc "$root/proc"
ln -s "$1/outside" "$root/tmp"
exec chroot "$root" /usr/bin/env python3 /w/jit.py /fake/libcuda.so.1
END
other_root()
{
	mkdir -p "$TMP/outside"
	sed -e 's,^name = .*,name = f"/w/perf-{os.getpid()}.map",' -e 's,py::train:model.py,s3cr3t,' "$TMP/jit.py" >"$TMP/outside/jit.py"
	traced root -e cuMemAlloc --stack -- unshare -m bash "$TMP/other_root.sh" "$TMP" "$FAKE"
}
if [ "$(uname -m)" = x86_64 ] && unshare -m mount -t tmpfs tmpfs /mnt 2>/dev/null; then
	other_root
	check 'perf map: not behind a link that leads out of its root' holds "$TMP/root.jsonl" \
		'(lambda f: "symbol" not in f and f["module"] == "[anon]")([e for e in ev if e["type"] == "stack"][0]["frames"][0])'
fi

# The report.
traced leak -e all,'!other' --stack --chrome "$TMP/leak.json" -- "$TMP/fp" "$lib"
"$CUDATRACE" report --format json -o "$TMP/leak.report" "$TMP/leak.jsonl" 2>"$TMP/leak.err"
check 'report: the stack of the leak' python3 -c '
import json, sys
leaks = json.load(open(sys.argv[1]))["memory"]["leaks"]
names = [f.split("+0x")[0] for f in leaks[0]["stack"][:3]]
assert len(leaks) == 1 and names == ["inner", "outer", "main"], leaks' "$TMP/leak.report"
# What the report needs of a process is gone when the process is.
LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q --all --stack --jsonl "$TMP/live.jsonl" --report "$TMP/live.json" --report "$TMP/live.html" -- "$FAKE/sample" >/dev/null 2>"$TMP/live.err"
check 'live report with stacks: ends well' [ $? = 0 -a -s "$TMP/live.html" ]
"$CUDATRACE" report -q --format=json -o "$TMP/saved.json" "$TMP/live.jsonl"
check 'live report with stacks: the page has who calls' grep -q '"callers":\[{"' "$TMP/live.html"
check 'live report with stacks: as of the saved trace' python3 -c '
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
a.pop("files"), b.pop("files")
assert a["waits"]["callers"], a["waits"]
sys.exit("\n".join(f"{k}: {json.dumps(a[k])[:300]}, not {json.dumps(b[k])[:300]}" for k in a if a[k] != b[k]) or 0)' "$TMP/live.json" "$TMP/saved.json"
check 'report: and in words' grep -q 'was allocated by inner < outer < main' <("$CUDATRACE" report "$TMP/leak.jsonl" 2>/dev/null)
check 'Chrome: names' python3 -c '
import json, sys
alloc = [e for e in json.load(open(sys.argv[1])) if e["name"] == "cuMemAlloc"][0]
assert [f.split("+0x")[0] for f in alloc["args"]["stack"][:3]] == ["inner", "outer", "main"], alloc
assert not any(e["name"] == "stack" for e in json.load(open(sys.argv[1])))' "$TMP/leak.json"
traced sync -e all,'!other' --stack -- "$TMP/fp" "$lib" sync
"$CUDATRACE" report --format json -o "$TMP/sync.report" "$TMP/sync.jsonl" 2>"$TMP/sync.err"
check 'report: who waits' python3 -c '
import json, sys
waits = json.load(open(sys.argv[1]))["waits"]
callers = waits["callers"]
assert sorted((c["count"], c["name"], c["stack"][0].split("+")[0]) for c in callers) == [
	(1, "cuCtxSynchronize", "main"), (3, "cuCtxSynchronize", "waiter")], callers
assert sum(c["total_ns"] for c in callers) == waits["total_ns"]' "$TMP/sync.report"

for bad in --stack=nosuch --stack= --stack=,; do
	LD_LIBRARY_PATH=$FAKE "$CUDATRACE" $bad -- true 2>"$TMP/bad.err"
	check "$bad: usage error" [ $?,$(wc -l <"$TMP/bad.err") = 2,1 ]
done
