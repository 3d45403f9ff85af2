#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Which libcuda is traced, from when on, and in which processes: mapped already or later, by a child, in a container, deleted, replaced,
# several at once, stubs, 32-bit programs, files that are not libcuda.
# takes: 91
# own processes
set -u
. tests/lib.sh
needs_tracing finding
unset LD_LIBRARY_PATH

# trace NAME OPTION... [-- COMMAND...]: a whole trace; leaves $TMP/NAME.jsonl, .out (the command's), .err and $status
trace()
{
	local name=$1
	shift
	timeout -k 5 60 "$CUDATRACE" -q --jsonl "$TMP/$name.jsonl" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err"
	status=$?
}
is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
silent() { [ ! -s "$1" ] || { echo "says: $(cat "$1")"; return 1; }; }
as_expected() { tests/cases/expect.py "$TMP/$1.jsonl" "$TMP/$1.out"; }

# After a whole trace of a case: all calls must be there, without a message, and the exit status passed on.
whole()
{
	local label=$1 trace=$2
	check "$label: status" is $status 0
	check "$label: no call missed" as_expected "$trace"
	check "$label: accounts" holds "$TMP/$trace.jsonl" 'accounts()'
	check "$label: nothing to say" silent "$TMP/$trace.err"
}

mapped_already()
{
	caller target || return
	is "$(ask target open "$FAKE/libcuda.so.1")$(ask target init)$(ask target alloc 3)" 103 ||
		{ fail 'mapped already' 'the target does not run'; return; }
	tracer mapped -e "$ALL" -p "$target" || { fail 'mapped already' 'see above'; return; }
	ask target alloc 5 >"$TMP/answer"
	quit target
	ended $tracer
	check 'mapped already: status' is $? 0
	check 'mapped already: the target goes on' is "$(cat "$TMP/answer")" 5
	check 'mapped already: calls from then on' holds "$TMP/mapped.jsonl" \
		'sym == {"cuMemAlloc_v2": 5, "cuMemFree_v2": 5} and accounts()'
	check 'mapped already: header' holds "$TMP/mapped.jsonl" \
		'[l["path"] for l in head["libraries"]] == [path] and head["pids"] == [int(pid)]' \
		path="$FAKE/libcuda.so.1" pid="$target"
	check 'mapped already: ends with the process' holds "$TMP/mapped.jsonl" \
		'end["reason"] == "traced processes exited" and proc[-1]["op"] == "exit" and proc[-1]["exit_code"] == 0'
}

# A command's library is unknown until it is mapped: the command is stopped meanwhile.
dlopened()
{
	local dir="$TMP/od d\\012é/x"
	mkdir -p "$dir"
	cp "$FAKE/libcuda.so.1" "$dir/libcuda.so.987.65"
	ln -s libcuda.so.987.65 "$dir/driver.so"
	trace dlopen -e "$ALL" -- "$CASES/dlopen_late" "$dir/libcuda.so.987.65" 100
	whole 'dlopen at an odd path' dlopen
	check 'dlopen at an odd path: library event' holds "$TMP/dlopen.jsonl" \
		'[(l["op"], l["path"], l["lib"]) for l in lib] == [("attached", path, 1)] and not lib[0].get("note")' \
		path="$dir/libcuda.so.987.65"
	check 'dlopen at an odd path: before any call' holds "$TMP/dlopen.jsonl" \
		'lib[0]["ts"] < min(c["ts"] for c in calls) and lib[0]["pid"] == calls[0]["pid"]'
	trace link -e "$ALL" -- "$CASES/dlopen_late" "$dir/driver.so" 50
	whole 'dlopen through a link' link

	# One file under two names, opened by both: one library.
	ln "$dir/libcuda.so.987.65" "$TMP/libcuda.so.2"
	trace twice -e "$ALL" -- sh -c '"$1" "$2" 20; "$1" "$3" 20' sh "$CASES/dlopen_late" "$dir/libcuda.so.987.65" "$TMP/libcuda.so.2"
	whole 'one file, two names' twice
	check 'one file, two names: attached once' holds "$TMP/twice.jsonl" '[l["op"] for l in lib] == ["attached", "mapped"]'

	# Under another name, only the user can identify the library.
	cp "$FAKE/libcuda.so.1" "$TMP/mydriver.bin"
	trace named -e "$ALL" --libcuda "$TMP/mydriver.bin" -- "$CASES/dlopen_late" "$TMP/mydriver.bin" 20
	whole '--libcuda with another name' named
}

children()
{
	mkdir -p "$TMP/c"
	# A new file each time: another tracer may have probes in the previous one (docs/RELIABILITY.md).
	cp --remove-destination "$FAKE/libcuda.so.1" "$TMP/c/"
	trace sh -e "$ALL" -- sh -c '"$@"; "$@" & wait' sh "$CASES/dlopen_late" "$TMP/c/libcuda.so.1" 50
	whole 'loaded by children of a shell' sh
	check 'loaded by children of a shell: process events' holds "$TMP/sh.jsonl" \
		'[p["op"] for p in proc].count("fork") == 2 and [p["op"] for p in proc].count("exit") == 3'

	# The child starts, the parent ends, the child loads the library.
	trace orphan -e "$ALL" -- sh -c '"$@" 2>/dev/null &' sh "$CASES/dlopen_late" "$TMP/c/libcuda.so.1" 300
	whole 'loaded after the command has ended' orphan

	cp --remove-destination "$FAKE535/libcuda.so.1" "$TMP/c/"
	trace nofollow --no-follow -e "$ALL" -- sh -c '"$@"; exit 3' sh "$CASES/dlopen_late" "$TMP/c/libcuda.so.1" 20
	check '--no-follow, a command: status' is $status 3
	check '--no-follow, a command: no child' holds "$TMP/nofollow.jsonl" 'not calls and accounts()'
	trace fork --no-follow -e "$ALL" --libcuda "$FAKE/libcuda.so.1" -- env LD_LIBRARY_PATH="$FAKE" "$CASES/fork"
	check '--no-follow, fork: the parent alone' holds "$TMP/fork.jsonl" \
		'{c["pid"] for c in calls} == {proc[0]["pid"]} and sym["cuMemAlloc_v2"] == 2 and accounts()'
}

# -p with and without children, with one probe per process and with many threads
followed()
{
	local how=$1 option=$2 mech e
	for mech in session multi perf; do
		# Attaching hundreds of single events takes long.
		e=$ALL
		[ $mech = perf ] && e=cuInit,cuDevicePrimaryCtxRetain,cuCtxSetCurrent,cuMemAlloc,cuMemFree
		has_mechanism $mech || { skip "-p, $how, $mech" "kernel $(uname -r) has none"; continue; }
		caller kid || return
		ask kid open "$FAKE/libcuda.so.1" >/dev/null
		ask kid init >/dev/null
		# shellcheck disable=SC2086 # may be none
		tracer kid -e "$e" --mechanism=$mech -p "$kid" $option || { fail "-p, $how, $mech" 'see above'; return; }
		answers=$(ask kid child 7; ask kid threads 4 25; ask kid alloc 1)
		quit kid
		ended $tracer
		check "-p, $how, $mech: the target goes on" is "$answers" $'7\n100\n1'
		check "-p, $how, $mech: its own calls, all threads" holds "$TMP/kid.jsonl" \
			'len([c for c in calls if c["pid"] == int(pid)]) == 206 and len({c["tid"] for c in calls if c["pid"] == int(pid)}) == 5 and accounts()' pid=$kid
		if [ -n "$option" ]; then
			check "-p, $how, $mech: no child" holds "$TMP/kid.jsonl" '{c["pid"] for c in calls} == {int(pid)} and len(proc) == 1' pid=$kid
		else
			check "-p, $how, $mech: the child" holds "$TMP/kid.jsonl" \
				'len([c for c in calls if c["pid"] == proc[0]["pid"] != int(pid)]) == 17 and proc[0]["parent_pid"] == int(pid)' pid=$kid
		fi
	done
}

containers()
{
	local where=$TMP/container
	mkdir -p "$where"
	if ! unshare -m true 2>/dev/null; then
		skip 'mount namespace' 'unshare -m is not allowed here'
		return
	fi
	cat >"$TMP/inside" <<-END
		#!/bin/sh
		# inside FOLDER FILE COMMAND...: mounts a private file system with FILE as libcuda.so.1
		mount -t tmpfs none "\$1" && cp "\$2" "\$1/libcuda.so.1" && shift 2 && exec "\$@"
	END
	chmod +x "$TMP/inside"
	trace mnt -e "$ALL" -- unshare -m "$TMP/inside" "$where" "$FAKE/libcuda.so.1" "$CASES/dlopen_late" "$where/libcuda.so.1" 50
	whole 'mount namespace, a command' mnt
	check 'mount namespace: not outside' test ! -e "$where/libcuda.so.1"
	check 'mount namespace, a command: library' holds "$TMP/mnt.jsonl" \
		'[(l["op"], l["path"]) for l in lib] == [("attached", path)] and len(lib[0]["build_id"]) == 40' path="$where/libcuda.so.1"

	# Outside, another file has the same path.
	cp "$FAKE535/libcuda.so.1" "$where/"
	CALLER=$TMP/into caller box || return
	ask box open "$where/libcuda.so.1" >/dev/null
	ask box init >/dev/null
	tracer box -e "$ALL" -p "$box" || { fail 'mount namespace, -p' 'see above'; return; }
	ask box alloc 2 >/dev/null
	quit box
	ended $tracer
	check 'mount namespace, -p: calls' holds "$TMP/box.jsonl" 'sym["cuMemAlloc_v2"] == 2 and accounts()'
	check 'mount namespace, -p: the file inside' holds "$TMP/box.jsonl" \
		'[l["build_id"] for l in head["libraries"]] == [id]' id="$(build_id "$FAKE/libcuda.so.1")"

	trace pidns -e "$ALL" -- unshare -p -f -m --mount-proc "$CASES/dlopen_late" "$TMP/c/libcuda.so.1" 50
	check 'PID namespace: status' is $status 0
	check 'PID namespace: calls, with the ids of outside' holds "$TMP/pidns.jsonl" \
		'sym == {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1, "cuMemAlloc_v2": 1, "cuMemFree_v2": 1} and {c["pid"] for c in calls} <= {p["pid"] for p in proc} and accounts()'
}
build_id() { readelf -n "$1" | sed -n 's/^ *Build ID: //p'; }

gone_from_disk()
{
	local dir=$TMP/gone
	mkdir -p "$dir"
	cp "$FAKE/libcuda.so.1" "$dir/libcuda.so.1"
	caller gone || return
	ask gone open "$dir/libcuda.so.1" >/dev/null
	ask gone init >/dev/null
	rm "$dir/libcuda.so.1"
	tracer gone -e "$ALL" -p "$gone" || { fail 'deleted while mapped' 'see above'; return; }
	ask gone alloc 2 >/dev/null
	stop $tracer
	check 'deleted while mapped: calls' holds "$TMP/gone.jsonl" 'sym["cuMemAlloc_v2"] == 2 and accounts()'
	check 'deleted while mapped: path' holds "$TMP/gone.jsonl" '[l["path"] for l in head["libraries"]] == [path]' path="$dir/libcuda.so.1"
	check 'deleted while mapped: ended by a signal' holds "$TMP/gone.jsonl" 'end["reason"] == "terminated"'

	# A new driver is installed under the running program.
	cp --remove-destination "$FAKE535/libcuda.so.1" "$dir/libcuda.so.1"
	tracer replaced -e "$ALL" -p "$gone" || { fail 'replaced while mapped' 'see above'; return; }
	ask gone alloc 2 >/dev/null
	quit gone
	ended $tracer
	check 'replaced while mapped: calls' holds "$TMP/replaced.jsonl" 'sym["cuMemAlloc_v2"] == 2 and accounts()'
	check 'replaced while mapped: the mapped one' holds "$TMP/replaced.jsonl" \
		'[l["build_id"] for l in head["libraries"]] == [id]' id="$(build_id "$FAKE/libcuda.so.1")"
}

several()
{
	local a=$FAKE/libcuda.so.1 b=$FAKE535/libcuda.so.1
	caller one && caller two || return
	ask one open "$a" >/dev/null && ask two open "$b" >/dev/null
	ask one init >/dev/null && ask two init >/dev/null
	tracer two -e "$ALL" || { fail 'two files at once' 'see above'; return; }
	ask one alloc 3 >/dev/null
	ask two alloc 4 >/dev/null
	# Started after the trace: a process, and one with a new file.
	mkdir -p "$TMP/later"
	cp "$a" "$TMP/later/libcuda.so.1"
	caller late && caller unknown
	ask late open "$a" >/dev/null
	ask late init >/dev/null
	ask unknown open "$TMP/later/libcuda.so.1" >/dev/null
	# A trace of the whole system stops no process: calls before the end of attaching are not recorded.
	until_ok 10 attached_later two "$TMP/later/libcuda.so.1"
	ask unknown init >/dev/null
	ask unknown alloc 6 >/dev/null
	ask late alloc 5 >/dev/null
	stop $tracer
	quit one; quit two; quit late; quit unknown
	check 'whole system: accounts' holds "$TMP/two.jsonl" 'accounts() and "pids" not in head and "command" not in head'
	check 'two files at once: both in the header' holds "$TMP/two.jsonl" \
		'{(l["path"], l["build_id"]) for l in head["libraries"]} >= {(a, ia), (b, ib)} and len({l["id"] for l in head["libraries"]}) == len(head["libraries"])' \
		a="$a" ia="$(build_id "$a")" b="$b" ib="$(build_id "$b")"
	local by='lambda path: [l["id"] for l in head["libraries"] if l["path"] == path][0]'
	check 'two files at once: each call has its own' holds "$TMP/two.jsonl" \
		"all(c.get('lib', 1) == ($by)(a if c['pid'] in (int(p1), int(p3)) else b) for c in calls if c['pid'] in (int(p1), int(p2), int(p3))) and [len([c for c in calls if c['pid'] == int(p)]) for p in (p1, p2)] == [6, 8]" \
		a="$a" b="$b" p1=$one p2=$two p3=$late
	check 'whole system: a process begun later' holds "$TMP/two.jsonl" \
		'collections.Counter(c["symbol"] for c in calls if c["pid"] == int(p)) == {"cuInit": 1, "cuDevicePrimaryCtxRetain": 1, "cuCtxSetCurrent": 1, "cuMemAlloc_v2": 5, "cuMemFree_v2": 5}' p=$late
	check 'whole system: a file found later' holds "$TMP/two.jsonl" \
		'[(l["op"], l["path"]) for l in lib if l["pid"] == int(p)] == [("attached", path)] and len([c for c in calls if c["pid"] == int(p)]) == 15' \
		p=$unknown path="$TMP/later/libcuda.so.1"
	check 'whole system: says from when on' holds "$TMP/two.jsonl" '"not seen" in [l["note"] for l in lib if l["pid"] == int(p)][0]' p=$unknown

	# One command with two files, and one process that has both.
	cp --remove-destination "$a" "$TMP/c/libcuda.so.1"
	mkdir -p "$TMP/d"
	cp "$b" "$TMP/d/libcuda.so.1"
	trace both -e "$ALL" -- sh -c '"$1" "$2" 50 & "$1" "$3" 50 & wait' sh "$CASES/dlopen_late" "$TMP/c/libcuda.so.1" "$TMP/d/libcuda.so.1"
	whole 'two files in one command' both
	check 'two files in one command: two ids' holds "$TMP/both.jsonl" \
		'sorted(l["lib"] for l in lib) == [1, 2] and all(c.get("lib", 1) == l["lib"] for l in lib for c in calls if c["pid"] == l["pid"])'
	caller both || return
	ask both open "$a" >/dev/null; ask both init >/dev/null
	tracer inone -e "$ALL" -p "$both" || { fail 'two files in one process' 'see above'; return; }
	ask both alloc 2 >/dev/null
	ask both open "$TMP/d/libcuda.so.1" >/dev/null
	until_ok 10 attached_later inone "$TMP/d/libcuda.so.1"
	ask both init >/dev/null; ask both alloc 3 >/dev/null
	ask both open "$a" >/dev/null; ask both alloc 4 >/dev/null
	quit both
	ended $tracer
	check 'two files in one process' holds "$TMP/inone.jsonl" \
		'[len([c for c in calls if c["symbol"] == "cuMemAlloc_v2" and c.get("lib", 1) == i]) for i in (1, 2)] == [6, 3] and accounts()'
}
# Another process may map and close its file in less than a millisecond: the file may be gone when the tracer looks.
loaded_at_once()
{
	local i n=3 found=0
	mkdir -p "$TMP/once"
	cp "$FAKE535/libcuda.so.1" "$TMP/once/"
	: >"$TMP/once.said"
	for ((i = 0; i < n; i++)); do
		caller once || return
		ask once open "$FAKE/libcuda.so.1" >/dev/null; ask once init >/dev/null
		tracer once -e cuMemAlloc,cuMemFree -p "$once" || { fail 'loaded as the trace begins' 'see above'; return; }
		ask once alloc 2 >/dev/null
		ask once open "$TMP/once/libcuda.so.1" >/dev/null
		until_ok 2 attached_later once "$TMP/once/libcuda.so.1" && found=$((found + 1))
		quit once
		ended $tracer
		cat "$TMP/once.err" >>"$TMP/once.said"
	done
	check 'loaded as the trace begins, three times: found each time' is "$found" $n
	check 'loaded as the trace begins: nothing is said' is "$(cat "$TMP/once.said")" ''
}

# The trace is written every half second.
attached_later() { grep -q "\"type\":\"library\",\"op\":\"attached\".*\"path\":\"$2\"" "$TMP/$1.jsonl"; }

# Functions of minimal size: 680 functions that return 34, like NVIDIA's stub for linking.
stubs()
{
	local dir=$TMP/stubs real
	mkdir -p "$dir"
	nm -D --defined-only "$FAKE/libcuda.so.1" | awk '$2 == "T" { print "int " $3 "(void) { return 34; }" }' >"$TMP/stub.c"
	${CC:-gcc} -O2 -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$dir/libcuda.so.1" "$TMP/stub.c"
	stub 'a stub made here' "$dir/libcuda.so.1"
	real=$(command -v nvcc) && real=$(dirname "$(dirname "$(realpath "$real")")")/lib64/stubs/libcuda.so
	[ -e "${real:-/none}" ] || real=$(ls /usr/local/cuda*/lib*/stubs/libcuda.so 2>/dev/null | head -1)
	if [ -e "$real" ]; then
		stub "the CUDA toolkit's stub" "$real"
	else
		skip "the CUDA toolkit's stub" 'no CUDA toolkit here'
	fi
}
stub()
{
	local label=$1 file=$2
	trace stub --libcuda "$file" -- true
	check "$label, --libcuda: refused" is $status 1
	check "$label, --libcuda: says why" grep -q 'stub' "$TMP/stub.err"
	# The stub is loaded before the driver, as with a wrong LD_LIBRARY_PATH.
	trace stub -e "$ALL" -- sh -c '"$1" "$2" 20 >/dev/null 2>&1; "$1" "$3" 20' sh "$CASES/dlopen_late" "$file" "$TMP/c/libcuda.so.1"
	check "$label, loaded: nothing of it traced" as_expected stub
	check "$label, loaded: not attached" holds "$TMP/stub.jsonl" '[l["path"] for l in lib if l["op"] == "attached"] == [path] and accounts()' path="$TMP/c/libcuda.so.1"
}

# Made without a compiler: a program of six instructions, and one that maps a file named libcuda.so.1.
make32()
{
	cat >"$TMP/$1.s" && as --32 -o "$TMP/$1.o" "$TMP/$1.s" && ld -m elf_i386 -o "$TMP/$1" "$TMP/$1.o"
}
programs32()
{
	make32 wait32 <<-END 2>"$TMP/as.err" &&
		.globl _start
		_start: mov \$29, %eax
		int \$0x80
		jmp _start
	END
	make32 map32 <<-END 2>"$TMP/as.err"
		.globl _start
		_start: mov \$5, %eax
		mov \$file, %ebx
		xor %ecx, %ecx
		int \$0x80
		mov %eax, %edi
		mov \$192, %eax
		xor %ebx, %ebx
		mov \$4096, %ecx
		mov \$5, %edx
		mov \$2, %esi
		xor %ebp, %ebp
		int \$0x80
		mov \$1, %eax
		mov \$7, %ebx
		int \$0x80
		.section .rodata
		file: .asciz "$TMP/c/libcuda.so.1"
	END
}
bits32()
{
	local pid
	[ "$(uname -m)" = x86_64 ] || { skip '32-bit programs' 'not x86-64'; return; }
	programs32 || { skip '32-bit programs' "$(head -1 "$TMP/as.err")"; return; }
	"$TMP/map32"
	[ $? = 7 ] || { skip '32-bit programs' 'this kernel does not run them'; return; }
	"$TMP/wait32" &
	pid=$!
	sleep 0.1
	trace wait32 -p $pid
	check '32-bit, -p: refused' is $status 1
	check '32-bit, -p: says why, in one line' is "$(grep -c . "$TMP/wait32.err") $(grep -c '32-bit' "$TMP/wait32.err")" '1 1'
	check '32-bit, -p: left alone' grep -q '^State:.S' /proc/$pid/status
	kill $pid
	ended $pid
	trace map32 -e "$ALL" -- sh -c '"$1"; "$2" "$3" 20' sh "$TMP/map32" "$CASES/dlopen_late" "$TMP/c/libcuda.so.1"
	check '32-bit, a command: warned' grep -q '32-bit program' "$TMP/map32.err"
	check '32-bit, a command: library event' holds "$TMP/map32.jsonl" '(lib[0]["op"], lib[0]["note"]) == ("failed", "32-bit program")'
	check '32-bit, a command: the rest is traced' as_expected map32
	trace exit32 -e "$ALL" -- "$TMP/map32"
	check '32-bit, a command: its exit status' is $status 7
}

# refused LABEL FILE: must give one line with the file and the error, status 1, at once
refused()
{
	local label=$1 file=$2 lines
	timeout -k 1 5 "$CUDATRACE" -q -e cuInit --jsonl "$TMP/refused.jsonl" --libcuda "$file" -- true >"$TMP/refused.out" 2>"$TMP/refused.err"
	status=$?
	lines=$(wc -l <"$TMP/refused.err")
	if [ $status = 1 ] && [ "$lines" = 1 ] && grep -q '^cudatrace: ' "$TMP/refused.err"; then
		pass "--libcuda $label"
		echo "# $(sed "s|$TMP|...|" "$TMP/refused.err")"
	else
		fail "--libcuda $label" "status $status, $lines lines: $(head -3 "$TMP/refused.err")"
	fi
}
# damaged OUT OFFSET FORMAT VALUE: the stand-in with a number changed
damaged()
{
	cp "$FAKE/libcuda.so.1" "$1" && python3 tests/helpers/put_number.py "$@"
}
# Offsets in the stand-in: dyn TAG prints that of a dynamic entry's value
dyn()
{
	python3 tests/helpers/elf_dynamic.py "$FAKE/libcuda.so.1" "$1"
}
no_libcuda()
{
	local f=$TMP/bad.so size n
	size=$(stat -c %s "$FAKE/libcuda.so.1")
	refused 'that is not there' "$TMP/none/libcuda.so.1"
	refused 'that is a folder' "$TMP"
	mkfifo "$TMP/fifo"
	refused 'that is a FIFO' "$TMP/fifo"
	refused 'that is a device' /dev/zero
	: >"$f"
	refused 'of no bytes' "$f"
	echo 'int main(void) { return 0; }' >"$f"
	refused 'that is no ELF' "$f"
	refused 'that is a program' "$CASES/nested"
	echo 'int zero(void) { return 0; }' | ${CC:-gcc} -shared -fPIC -xc - -o "$f" && refused 'that is another library' "$f"
	[ ! -e "$TMP/wait32" ] || refused 'of 32 bits' "$TMP/wait32"
	for n in 4 63 64 200 4096 $((size / 2)) $((size - 1)); do
		head -c "$n" "$FAKE/libcuda.so.1" >"$f"
		refused "cut after $n bytes" "$f"
	done
	damaged "$f" 18 '<H' 183; refused 'of another machine' "$f"
	damaged "$f" 5 B 2; refused 'of another byte order' "$f"
	damaged "$f" 32 '<Q' 0xffffffffffffff00; refused 'with program headers beyond the end' "$f"
	damaged "$f" 54 '<H' 1; refused 'with tiny program headers' "$f"
	damaged "$f" 56 '<H' 0xffff; refused 'with 65535 program headers' "$f"
	damaged "$f" 56 '<H' 0; refused 'without program headers' "$f"
	damaged "$f" "$(dyn 5)" '<Q' 0xfffffffffffffff0; refused 'with a string table nowhere' "$f"
	damaged "$f" "$(dyn 10)" '<Q' 0x7fffffffffffffff; refused 'with an endless string table' "$f"
	damaged "$f" "$(dyn 6)" '<Q' 1; refused 'with a symbol table in the header' "$f"
	damaged "$f" "$(dyn 0x6ffffef5)" '<Q' 0; refused 'without a hash table' "$f"
	damaged "$f" "$(dyn 0x6ffffef5)" '<Q' 0xffffffffffff; refused 'with a hash table nowhere' "$f"

	# Any other damage must cause no crash and no hang; if the file is still a library, it is traced.
	mutate
}
mutate()
{
	local f=$TMP/mutant.so seed bad=0 refused=0
	for seed in $(seq 8); do
		python3 tests/helpers/mutant.py "$FAKE/libcuda.so.1" "$f" "$seed"
		timeout -k 1 10 "$CUDATRACE" -q -e cuInit --jsonl "$TMP/mutant.jsonl" --libcuda "$f" -- true >/dev/null 2>"$TMP/mutant.err"
		status=$?
		[ $status = 1 ] && refused=$((refused + 1)) && [ "$(wc -l <"$TMP/mutant.err")" = 1 ] && continue
		[ $status = 0 ] && continue
		bad=$((bad + 1))
		echo "# seed $seed: status $status: $(head -3 "$TMP/mutant.err")"
	done
	check "--libcuda with random damage ($refused of 8 refused)" is $bad 0
}

# Mapped files may also be hostile: those are not traced, and all else is.
hostile_mapped()
{
	mkdir -p "$TMP/h"
	head -c 8192 /dev/zero | tr '\0' 'x' >"$TMP/h/libcuda.so.1"
	trace hostile -e "$ALL" -- sh -c 'python3 "$0" "$1"; "$2" "$3" 20' tests/helpers/map_code.py \
		"$TMP/h/libcuda.so.1" "$CASES/dlopen_late" "$TMP/c/libcuda.so.1"
	check 'no libcuda, but named and mapped so: goes on' is $status 0
	check 'no libcuda, but named and mapped so: said once' is "$(grep -c . "$TMP/hostile.err") $(grep -c 'not an ELF file' "$TMP/hostile.err")" '1 1'
	check 'no libcuda, but named and mapped so: the rest is traced' as_expected hostile
	check 'no libcuda, but named and mapped so: accounts' holds "$TMP/hostile.jsonl" 'accounts()'
}

durations()
{
	local start pid took
	mkdir -p "$TMP/e"
	cp "$FAKE/libcuda.so.1" "$TMP/e/"
	LD_LIBRARY_PATH=$TMP/e tracer duration -e "$ALL" --duration 1.5 || { fail 'whole system, --duration' 'see above'; return; }
	start=${EPOCHREALTIME/./}
	LD_LIBRARY_PATH=$TMP/e "$CASES/nested" >"$TMP/duration.out" &
	pid=$!
	ended $pid
	ended $tracer
	check 'whole system, --duration: status' is $? 0
	took=$(((${EPOCHREALTIME/./} - start) / 1000))
	check "whole system, --duration: ends by itself ($took ms)" test $took -ge 1000 -a $took -lt 10000
	check 'whole system, --duration: so the trace says' holds "$TMP/duration.jsonl" \
		'end["reason"] == "duration" and end["wall_ms"] >= 1500 and accounts()'
	# The trace may have other programs of this machine.
	grep "\"pid\":$pid," "$TMP/duration.jsonl" >"$TMP/started.jsonl"
	mv "$TMP/duration.out" "$TMP/started.out"
	check 'whole system, --duration: a program begun later' as_expected started
}

# Kernels loaded before the tracer: their names are read from the memory behind the handles.
late_names()
{
	local pid to
	mkfifo "$TMP/late.to"
	# The process must still exist when its last handles are read: cudatrace takes up to a second when little happens.
	FAKE_DELAY_US=cuStreamSynchronize:1200000 LD_LIBRARY_PATH=$FAKE "$CASES/late_names" <"$TMP/late.to" >"$TMP/late.out" &
	pid=$!
	exec {to}>"$TMP/late.to"
	until_ok 10 grep -q ready "$TMP/late.out"
	tracer late -e "$ALL" -p $pid || { fail 'late attach' 'see above'; return; }
	echo >&$to
	exec {to}>&-
	ended $pid
	check 'late attach: the target goes on' is $? 0
	ended $tracer
	check 'late attach: kernel names' as_expected late
	check 'late attach: says where they are from' holds "$TMP/late.jsonl" \
		'collections.Counter(c.get("kernel_source") for c in calls if c["symbol"] == "cuLaunchKernel") == {"handle": 12, None: 3} and accounts()'
}

two_tracers()
{
	local first second
	caller shared || return
	ask shared open "$FAKE/libcuda.so.1" >/dev/null
	ask shared init >/dev/null
	tracer first -e "$ALL" -p "$shared" || { fail 'two tracers' 'see above'; return; }
	first=$tracer
	ask shared alloc 10 >/dev/null
	tracer second -e "$ALL" -p "$shared" || { fail 'two tracers' 'see above'; return; }
	second=$tracer
	ask shared alloc 100 >/dev/null
	stop $first
	answer=$(ask shared alloc 1000)
	quit shared
	ended $second
	check 'two tracers: the target goes on' is "$answer" 1000
	check 'two tracers: the first' holds "$TMP/first.jsonl" 'sym == {"cuMemAlloc_v2": 110, "cuMemFree_v2": 110} and accounts()'
	check 'two tracers: the second' holds "$TMP/second.jsonl" 'sym == {"cuMemAlloc_v2": 1100, "cuMemFree_v2": 1100} and accounts()'
}

# If a call is in progress when the tracer attaches, its return must be no event, and the thread's next call not nested in it.
in_flight()
{
	local pid
	LD_LIBRARY_PATH=$FAKE "$CASES/inflight" 5000 >"$TMP/flight.out" &
	pid=$!
	until_ok 10 grep -q ready "$TMP/flight.out"
	tracer flight -e "$ALL" -p $pid || { fail 'a call under way' 'see above'; return; }
	ended $pid
	ended $tracer
	check 'a call under way: not in the trace' as_expected flight
	check 'a call under way: accounts' holds "$TMP/flight.jsonl" 'accounts()'
}

${CC:-gcc} -O1 -w -o "$TMP/caller" tests/caller.c -ldl -lpthread || { fail finding 'cannot compile tests/caller.c'; exit; }
printf '#!/bin/sh\nexec unshare -m %q %q %q %q\n' "$TMP/inside" "$TMP/container" "$FAKE/libcuda.so.1" "$TMP/caller" >"$TMP/into"
chmod +x "$TMP/into"

mapped_already
dlopened
children
followed 'with children' ''
followed --no-follow --no-follow
containers
gone_from_disk
several
loaded_at_once
stubs
bits32
no_libcuda
hostile_mapped
durations
late_names
two_tracers
in_flight
