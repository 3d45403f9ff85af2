#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# --kernel on this machine's kernel, without the driver. A FUSE server (tests/nvfuse/server.c) stands in for the devices. A program
# (drive.c) makes system calls to it, inside and outside CUDA calls of the stand-in libcuda, and prints the expected trace. Its files
# are recognized by name, and only tracepoints record them: tests/vm tests probes on the driver's own functions.
# takes: 30
set -u
. tests/lib.sh
needs_tracing kernel
unset LD_LIBRARY_PATH CUDATRACE_TEST_NV_BY_NAME

# drive.c uses the layouts of the newest known driver, which cudatrace uses if none is loaded.
if [ -e /sys/module/nvidia ]; then
	skip kernel 'the NVIDIA driver is loaded: its version would choose the layouts'
	exit 0
fi

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

for src in server drive; do
	${CC:-gcc} -O1 -g -w -D_GNU_SOURCE -o "$TMP/$src" tests/nvfuse/$src.c -ldl -lpthread ||
		{ fail "builds: $src.c" 'see above'; exit 1; }
done
NV=$TMP/nv DRIVE=$TMP/drive
mkdir "$NV"
"$TMP/server" "$NV" >"$TMP/server.out" 2>"$TMP/server.err" &
server=$!
# The server unmounts at its end; a mounted folder cannot be removed.
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null' EXIT
trap 'exit 130' INT TERM HUP
if ! until_ok 5 grep -q ready "$TMP/server.out"; then
	skip kernel "no stand-in device: $(head -1 "$TMP/server.err")"
	exit 0
fi

# The tracer takes files named nvidiactl for devices; traced programs use the stand-in libcuda.
BY_NAME=(env CUDATRACE_TEST_NV_BY_NAME=1)
by_name() { CUDATRACE_TEST_NV_BY_NAME=1 tracer "$@"; }
# traced NAME COMMAND...: leaves $TMP/NAME.jsonl, .json, .stdout, .err
traced()
{
	local name=$1
	shift
	LD_LIBRARY_PATH=$FAKE CUDATRACE_TEST_NV_BY_NAME=1 timeout -k 5 40 "$CUDATRACE" -q --kernel -e "$ALL" \
		--jsonl "$TMP/$name.jsonl" --chrome "$TMP/$name.json" -- "$@" >"$TMP/$name.stdout" 2>"$TMP/$name.err"
}
compare() { tests/nvfuse/compare.py "$@"; }

# Every command of the server, and every kind of error.
all_commands()
{
	traced all "$DRIVE" "$NV"
	check 'all commands: status' is "$? $(cat "$TMP/all.err")" '0 '
	check 'all commands: the trace is what was done' compare "$TMP/all.jsonl" "$TMP/all.stdout"
	check 'all commands: slices nest in a Chrome trace' compare "$TMP/all.jsonl" "$TMP/all.stdout" "$TMP/all.json"
	check 'all commands: sums' holds "$TMP/all.jsonl" 'head["kernel_probe"] == "tracepoint" and accounts()'
	# Opened devices are recognized by their path, so this uses a private /dev.
	# shellcheck disable=SC2016 # expanded by that shell
	traced dev unshare -m sh -c 'mount --bind "$1" /dev && exec "$2" /dev' sh "$NV" "$DRIVE"
	check 'devices in /dev: status' is "$? $(cat "$TMP/dev.err")" '0 '
	check 'devices in /dev: opens too' compare "$TMP/dev.jsonl" "$TMP/dev.stdout" "$TMP/dev.json"
	check 'devices in /dev: eight opens' holds "$TMP/dev.jsonl" 'sum(e.get("op") == "open" for e in ev) == 8'
}

# waiting sets these.
target='' flood='' idle=''
# waiting NAME [N]: starts a drive that waits for a line; its pid in $NAME, the descriptor for the line in $NAME_to
waiting()
{
	mkfifo "$TMP/$1.to"
	"$DRIVE" "$NV" wait "${2:-1}" <"$TMP/$1.to" >"$TMP/$1.expected" 2>"$TMP/$1.drive.err" &
	printf -v "$1" %d $!
	local to
	exec {to}>"$TMP/$1.to"
	printf -v "$1_to" %d $to
	until_ok 10 grep -q ready "$TMP/$1.expected"
}
# go NAME: starts it; returns when it has ended
go()
{
	local to=$1_to
	echo >&"${!to}"
	ended "${!1}"
}

by_pid()
{
	waiting target 20
	waiting other 20
	by_name pid --kernel -p "$target" || { fail '-p: starts' 'see above'; return; }
	go other
	go target
	ended $tracer
	check '-p: status' is $? 0
	check '-p: this process and no other' compare "$TMP/pid.jsonl" "$TMP/target.expected"
	check '-p: sums' holds "$TMP/pid.jsonl" 'accounts()'
}

# Without a CUDA program: the whole machine.
system_wide()
{
	by_name sys --kernel --duration 2s || { fail 'system-wide: starts' 'see above'; return; }
	waiting one 7
	waiting two 9
	go one
	go two
	ended $tracer
	check 'system-wide: status' is $? 0
	cat "$TMP/one.expected" "$TMP/two.expected" >"$TMP/sys.expected"
	check 'system-wide: programs that start meanwhile' compare --only "$TMP/sys.jsonl" "$TMP/sys.expected"
	check 'system-wide: ends by the clock' holds "$TMP/sys.jsonl" 'end["reason"] == "duration" and 1900 < end["wall_ms"] < 6000'
}

# A driver call that does not return.
blocked()
{
	local pid
	# The kernel ends a system call of a killed process: its return is recorded, with EINTR.
	traced killed "$DRIVE" "$NV" block &
	tracer=$!
	until_ok 10 grep -q blocking "$TMP/killed.stdout"
	pid=$(sed -n 's/^blocking //p' "$TMP/killed.stdout")
	sleep 0.3
	kill -9 "$pid"
	ended $tracer
	check 'killed in an ioctl: the ioctl' holds "$TMP/killed.jsonl" \
		'([(e["name"], e.get("result"), "status" in e, e["duration_us"] > 200e3, e["call"]) for e in ev if e.get("op") == "ioctl"]
		 == [("NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", -4, False, True, "cuFakeCallback")])'
	check 'killed in an ioctl: its call' holds "$TMP/killed.jsonl" \
		'[(c["ioctls"], "result" in c) for c in calls if c.get("unfinished")] == [(1, False)] and accounts()'

	LD_LIBRARY_PATH=$FAKE by_name cut --kernel -e "$ALL" --duration 700ms -- "$DRIVE" "$NV" block ||
		{ fail 'trace ends in an ioctl: starts' 'see above'; return; }
	until_ok 10 grep -q blocking "$TMP/cut.stdout"
	pid=$(sed -n 's/^blocking //p' "$TMP/cut.stdout")
	# When its trace is complete, the tracer still waits for the command's status.
	until_ok 10 grep -q '"type":"end"' "$TMP/cut.jsonl"
	kill -9 "$pid"
	ended $tracer
	check 'trace ends in an ioctl: it is unfinished' holds "$TMP/cut.jsonl" \
		'([(e["name"], e.get("unfinished"), e["object"]) for e in ev if e.get("op") == "ioctl"
		  and not set(e) & {"result", "status", "duration_us"}]
		 == [("NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", True, "0x5c000001")])'
	check 'trace ends in an ioctl: its call' holds "$TMP/cut.jsonl" '[c["symbol"] for c in calls if c.get("unfinished")] == ["cuFakeCallback"] and accounts()'
}

# The reader is too slow.
losses()
{
	local cnt=3000
	waiting flood $cnt
	by_name flood --kernel --buffer-size 64K -p "$flood" || { fail 'losses: starts' 'see above'; return; }
	kill -STOP $tracer
	go flood
	kill -CONT $tracer
	ended $tracer
	check 'losses: status' is $? 0
	# The closes of the four files count, too.
	check 'losses: what is there and what is not makes what was done' holds "$TMP/flood.jsonl" \
		'((n := sum(e["type"] == "kernel" for e in ev)) > 50 and end["drops"]["driver"] > 1000
		 and n + end["drops"]["driver"] == int(cnt) + 4)' cnt=$cnt
	# Each processor has its own ring: when one was full, another may have had space.
	check 'losses: nothing out of place' holds "$TMP/flood.jsonl" \
		'((n := [e["params_size"] for e in ev if e.get("op") == "ioctl"]) == sorted(set(n)) and n[:50] == list(range(50))
		 and accounts(drops=True))'
	# With a running reader, losses depend on the machine, but the sum must be right.
	LD_LIBRARY_PATH=$FAKE "${BY_NAME[@]}" "$CUDATRACE" -q --kernel --buffer-size 64K --jsonl "$TMP/many.jsonl" -- \
		"$DRIVE" "$NV" many 20000 2>"$TMP/many.err"
	check 'many ioctls: sum' holds "$TMP/many.jsonl" 'sum(e["type"] == "kernel" for e in ev) + end["drops"]["driver"] == 20004'
}

# More objects than the limit for a process: 16,384 objects, one of them a client.
full_table()
{
	"${BY_NAME[@]}" "$CUDATRACE" -q --kernel --buffer-size 256M --summary=full --jsonl "$TMP/objects.jsonl" -- \
		"$DRIVE" "$NV" objects 16448 2>"$TMP/objects.err" >"$TMP/objects.stdout"
	check 'full table: status' is $? 0
	check 'full table: who is in it has a class, who is not has none' holds "$TMP/objects.jsonl" \
		'([e.get("object_class") for e in ev if e.get("escape") == "NV_ESC_RM_CONTROL"]
		 == ["NV01_DEVICE_0"] * 3 + [None] * 3 + ["NV01_DEVICE_0"] and accounts())'
	check 'full table: counted' holds "$TMP/objects.jsonl" '(end["objects_refused"], end["objects_unknown"]) == (65, 3)'
	check 'full table: the summary says so' is \
		"$(grep -cxE '  3 ioctls on objects whose allocation was not seen: no class|  65 objects not stored: the table of handles was full' "$TMP/objects.err")" 2
}

# Threads that wait off the CPU and threads that spin; drive compares with the thread's CPU clock. An interrupt between its read of the
# clock and its call counts as off-CPU time in only one of the two.
off_cpu_agrees()
{
	LD_LIBRARY_PATH=$FAKE "${BY_NAME[@]}" "$CUDATRACE" -q --kernel --sched -e "$ALL" --jsonl "$TMP/sched.jsonl" -- \
		"$DRIVE" "$NV" sched 150 >"$TMP/sched.expected" 2>"$TMP/sched.err"
	echo "$? $(cat "$TMP/sched.err")" >"$TMP/sched.status"
	holds "$TMP/sched.jsonl" '((want := [json.loads(line)["off_cpu_us"] for line in open(file)])
		 and [c["symbol"] for c in calls] == ["cuInit", "cuFakeSleep", "cuFakeCallback", "cuFakeCallback"]
		 and max(abs(c["off_cpu_us"] - w) for c, w in zip(calls[1:], want)) < 10000 and accounts())' file="$TMP/sched.expected"
}
each_is_itself()
{
	holds "$TMP/sched.jsonl" \
		'((s := calls[1]) and (spins := calls[2]) and (waits := calls[3])
		 and 150e3 <= s["off_cpu_us"] <= s["duration_us"] and spins["duration_us"] >= 150e3
		 and spins["off_cpu_us"] < spins["duration_us"] * .8 and 15e3 < waits["off_cpu_us"] <= waits["duration_us"])'
}
off_cpu()
{
	check '--sched: off the CPU as long as its thread' eval 'off_cpu_agrees || off_cpu_agrees || off_cpu_agrees'
	check '--sched: status' is "$(cat "$TMP/sched.status")" '0 '
	# A busy machine may interrupt the spinning thread at any rate: the first check compared that.
	check '--sched: one sleeps, one spins, one waits for the driver' eval \
		'each_is_itself || { off_cpu_agrees; each_is_itself; } || { off_cpu_agrees; each_is_itself; } || { off_cpu_agrees; each_is_itself; }'
}

# Other suites write Xids of other GPUs.
xid()
{
	local from hide=() redacted
	from="cudatrace test $$"
	if ! (echo "$from" >/dev/kmsg) 2>/dev/null; then
		skip 'Xid from the kernel log' 'it cannot be written here'
		return
	fi
	echo "NVRM: Xid (PCI:0000:ff:00): 1, before, $from" >/dev/kmsg
	waiting idle
	for redacted in strings args; do
		by_name "xid-$redacted" --kernel --no-$redacted -p "$idle" || { fail 'Xid: starts' 'see above'; return; }
		hide+=("$tracer")
	done
	by_name xid --kernel -p "$idle" || { fail 'Xid: starts' 'see above'; return; }
	# Waits until the tracer has written its header and opened the log.
	sleep 0.3
	{
		echo "NVRM: Xid (PCI:0000:6c:00): 79, pid=1234, name=python, GPU has fallen off the bus. $from"
		echo "NVRM: Xid: not one, $from"
		echo "NVRM: Xid (PCI:0000:6c:00): many, $from"
		echo "NVRM: Xid (PCI:0000:6d:00): 31, $from"
	} | while read -r line; do echo "$line" >/dev/kmsg; done
	sleep 0.3
	go idle
	ended $tracer
	check 'Xid from the kernel log: status' is $? 0
	check 'Xid from the kernel log' holds "$TMP/xid.jsonl" \
		'((x := [e for e in ev if e["type"] == "xid" and mark in e.get("message", "")])
		 and [(e["xid"], e["gpu"]) for e in x] == [(79, "PCI:0000:6c:00"), (31, "PCI:0000:6d:00")]
		 and x[0]["message"] == "pid=1234, name=python, GPU has fallen off the bus. " + mark
		 and "PCI bus" in x[0]["meaning"] and accounts())' mark="$from"
	ended "${hide[@]}"
	for redacted in strings args; do
		check "Xid from the kernel log: --no-$redacted: its number and place, not its text" holds "$TMP/xid-$redacted.jsonl" \
			'([79, 31] == [e["xid"] for e in ev if e["type"] == "xid" and e["gpu"] in ("PCI:0000:6c:00", "PCI:0000:6d:00")][-2:] and
			not [e for e in ev if e["type"] == "xid" and "message" in e] and mark not in open(file).read())' mark="$from" file="$TMP/xid-$redacted.jsonl"
	done
	check 'Xid from the kernel log: on the clock of the trace' holds "$TMP/xid.jsonl" \
		'all(0 < e["ts"] < end["ts"] for e in ev if e["type"] == "xid" and mark in e["message"])' mark="$from"
}

refused()
{
	local way
	LD_LIBRARY_PATH=$FAKE "$CUDATRACE" -q --kernel -e "$ALL" --jsonl "$TMP/none.jsonl" -- "$DRIVE" "$NV" \
		>"$TMP/none.stdout" 2>"$TMP/none.err"
	check 'driver not loaded: status' is $? 0
	check 'driver not loaded: says so' is "$(grep -c '^cudatrace: warning: .*driver is not loaded' "$TMP/none.err")" 1
	check 'driver not loaded: CUDA calls are traced' holds "$TMP/none.jsonl" \
		'sym["cuFakeCallback"] == 7 and "kernel_probe" not in head and not [e for e in ev if e["type"] == "kernel"] and accounts()'
	for way in kprobe fentry; do
		LD_LIBRARY_PATH=$FAKE "${BY_NAME[@]}" "$CUDATRACE" -q --kernel --kernel-probe=$way --jsonl "$TMP/$way.jsonl" -- \
			"$DRIVE" "$NV" many 1 >"$TMP/$way.stdout" 2>"$TMP/$way.err"
		check "$way on a driver that is not there: status" is $? 1
		check "$way on a driver that is not there: one line" is "$(wc -l <"$TMP/$way.err") $(grep -c -e "--kernel-probe=$way" "$TMP/$way.err")" '1 1'
	done
}

all_commands
by_pid
system_wide
blocked
losses
full_table
off_cpu
xid
refused
