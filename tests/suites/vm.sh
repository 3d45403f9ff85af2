#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other kernels, from below the supported ones to the newest: tests/vm/kernels.txt, booted in qemu (no KVM needed), with stand-ins for
# NVIDIA's kernel modules. Each kernel is booted once: the guest part of each of its tests runs there, and then the other part checks
# the results here. Fetching and booting a kernel and building its modules take more processor time than any suite of make check, which
# tests only the running kernel.
# timeout: 2400
# takes: 300
# long
set -u
. tests/lib.sh
. tests/vm/suite.sh

# --- tests ----------------------------------------------------------------------------------------------

tests_of()
{
	case $1 in
	6.1) echo checked mechanisms probes prompt many cut old_driver uvm no_btf lesser xid lockdown ;;
	5.10) echo refused ;;
	*) echo checked mechanisms probes many cut old_driver uvm no_btf lesser xid lockdown ;;
	esac
}
# The mechanisms by which this kernel can probe libcuda.
mechanisms()
{
	case $1 in
	6.1) echo perf ;;
	6.12) echo multi perf ;;
	*) echo session multi perf ;;
	esac
}
# The mechanisms by which it can probe the driver, best first. Debian's 6.1 has no CONFIG_FPROBE.
ways()
{
	case $1 in
	6.1) echo fentry kprobe tracepoint ;;
	*) echo kprobe.multi fentry kprobe tracepoint ;;
	esac
}
best_way() { ways "$1" | cut -d ' ' -f 1; }

# Kernel 5.10 has no cookies for probes.
in_guest_refused()
{
	cat <<-'END'
		cudatrace --jsonl t.jsonl -- sample >out 2>err
		echo $? >status
		cudatrace --kernel --jsonl t.jsonl >out2 2>err2
		echo $? >>status
		cudatrace check >check; echo $? >>status
	END
}
here_refused()
{
	local f
	check "$K: refused: status" is "$(paste -sd " " "$R/status")" '1 1 1'
	for f in err err2; do
		check "$K: refused: one line says why" is "$(wc -l <"$R/$f") $(grep -c 'Linux 5.15' "$R/$f")" '1 1'
	done
	check "$K: refused: nothing started, nothing written" test ! -s "$R/out" -a ! -e "$R/t.jsonl"
	check "$K: refused: check says what is lacking" grep -q 'no *probe cookies' "$R/check"
}

in_guest_checked()
{
	cat <<-'END'
		cudatrace check --json >none.json
		driver_load new
		cudatrace check --json >check.json; echo $? >status
		cudatrace check >check
	END
}
here_checked()
{
	check "$K: check: status" is "$(cat "$R/status")" 0
	check "$K: check: what this kernel has" python3 tests/vm/checked.py "$R" "$(uname_of)" "$(mechanisms "$K")" "$(ways "$K")"
}

# The same program by every mechanism: counts must equal the program's own.
SAMPLE='sample --tokens 4 --layers 2 --quiet --counts'
# Removing perf's probes one by one takes a minute or two, so only some functions are traced.
FEW='cuMem*,cuLaunch*,!cuMemGet*'
few() { if [ "$1" = perf ]; then echo yes; else echo no; fi; }
in_guest_mechanisms()
{
	local m set
	for m in $(mechanisms "$K"); do
		set=$ALL
		[ "$(few "$m")" = yes ] && set=$FEW
		echo "cudatrace -q --mechanism=$m -e '$set' --jsonl $m.jsonl -- $SAMPLE >$m.counts 2>$m.err; echo \$? >$m.status"
	done
}
here_mechanisms()
{
	local m
	for m in $(mechanisms "$K"); do
		check "$K: $m: status" is "$(cat "$R/$m.status") $(head -3 "$R/$m.err")" '0 '
		# Only the program's own calls: cuMemAllocPitch makes another one.
		check "$K: $m: counts" holds "$R/$m.jsonl" \
			'accounts() and collections.Counter(c["symbol"] for c in calls if "parent" not in c) == {k: int(n) for k, n in re.findall(r"^(cu\w+) (\d+)$", open(counts).read(), re.M) if few == "no" or re.match("cu(Mem(?!Get)|Launch)", k)}' \
			counts="$R/$m.counts" few="$(few "$m")"
		check "$K: $m: it was that" holds "$R/$m.jsonl" 'm in head["mechanism"] or (m == "perf" and head["mechanism"] == "uprobe")' m="$m"
	done
}

# Perf events must be closed in the background, while the prompt is back and others attach.
in_guest_prompt()
{
	local run="sample --tokens 4 --layers 2 --quiet --counts"
	cat <<-END
		now() { cut -d ' ' -f 1 /proc/uptime; }
		links() { ps -o comm | grep -c cudatrace-links; }
		cudatrace -q --mechanism=perf -e '$FEW' --jsonl a.jsonl -- sh -c '$run >a.counts; cut -d " " -f 1 /proc/uptime >ended' 2>err
		now >back
		links >meanwhile
		cudatrace -q --mechanism=perf -e '$FEW' --jsonl b.jsonl -- $run >b.counts 2>>err
		i=0
		while [ \$(links) != 0 ] && [ \$i -lt 300 ]; do sleep 0.5; i=\$((i + 1)); done
		links >after
		now >off
	END
}
here_prompt()
{
	local t
	check "$K: prompt: nothing said" is "$(cat "$R/err")" ''
	# It took 14 s before a separate process closed them.
	check "$K: prompt: back soon" awk -v back="$(cat "$R/back")" -v ended="$(cat "$R/ended")" 'BEGIN { print back - ended " s"; exit back - ended > 6 }'
	check "$K: prompt: while the probes come off" is "$(cat "$R/meanwhile")" 1
	for t in a b; do
		check "$K: prompt: $t sees all" holds "$R/$t.jsonl" \
			'accounts() and {k: n for k, n in sym.items() if k.startswith("cuLaunch")} == {k: int(n) for k, n in re.findall(r"^(cuLaunch\w+) (\d+)$", open(counts).read(), re.M)}' counts="$R/$t.counts"
	done
	check "$K: prompt: nobody stays" is "$(cat "$R/after")" 0
	echo "# $K: prompt back after $(cat "$R/ended") $(cat "$R/back"), probes off at $(cat "$R/off")"
}

# System calls to the driver, inside and outside CUDA calls, by each mechanism. One thread, because some mechanisms miss calls of many
# threads, see below.
# cuFakeCallback, which has no row in the table, and few other functions.
CALLBACK='cuInit,cu[FP]*[aI]*[ke]'
in_guest_probes()
{
	local how
	for how in $(ways "$K"); do
		echo "cudatrace -q --kernel --kernel-probe=$how -e '$CALLBACK' --jsonl $how.jsonl -- drive-cuda -n 2 -c -s 20 -f 50 >$how.exp 2>$how.err; echo \$? >$how.status"
	done
	echo "cudatrace -q --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err"
}
here_probes()
{
	local how as
	for how in $(ways "$K"); do
		as=probe
		[ $how = tracepoint ] && as=$how
		check "$K: $how: status" is "$(cat "$R/$how.status")" 0
		check "$K: $how: the trace is what was done" tests/vm/compare.py $as "$R/$how.exp" "$R/$how.jsonl"
		check "$K: $how: it was that" holds "$R/$how.jsonl" 'head["kernel_probe"] == how' how=$how
	done
	# shellcheck disable=SC2046 # words are wanted
	check "$K: all ways see the same" tests/vm/compare.py same $(ways "$K" | sed "s|[^ ]*|$R/&.jsonl|g")
	check "$K: chosen by itself" tests/vm/compare.py probe "$R/auto.exp" "$R/auto.jsonl"
	check "$K: chosen by itself: the best" is "$(head -1 "$R/auto.jsonl" | grep -o '"kernel_probe":"[^"]*"') $(cat "$R/auto.err")" \
		"\"kernel_probe\":\"$(best_way "$K")\" "
}

# The default mechanism must lose nothing with eight threads at full speed, and with 24 in the driver at once. What is lost must be
# counted. (On preemptible kernels, fentry and tracepoint miss calls of others while a program of ours is interrupted; kprobe has ten
# return probes per function here.)
in_guest_many()
{
	cat <<-'END'
		cudatrace -q --kernel -e cuInit --jsonl fast.jsonl -- drive -t 8 -n 3 -f 500 >fast.exp 2>fast.err
		cudatrace -q --kernel -e cuInit --jsonl wait.jsonl -- drive -t 24 -n 0 -s 400 >wait.exp 2>wait.err
		cudatrace -q --kernel --kernel-probe=kprobe -e cuInit --jsonl kprobe.jsonl -- drive -t 24 -n 0 -s 400 >kprobe.exp 2>kprobe.err
	END
}
here_many()
{
	check "$K: eight threads lose nothing" tests/vm/compare.py probe "$R/fast.exp" "$R/fast.jsonl"
	check "$K: 24 threads that wait lose nothing" tests/vm/compare.py probe "$R/wait.exp" "$R/wait.jsonl"
	check "$K: kprobe: what is lost is counted" holds "$R/kprobe.jsonl" \
		'((n := sum(e["type"] == "kernel" for e in ev)) >= 58 and n + end["drops"]["driver"] == 72 and end["drops"]["driver"] > 0)'
}

# In an ioctl inside a CUDA call, when the trace ends, and when the process is killed: the kernel ends the system call. kernel.sh tests
# tracepoints.
in_guest_cut()
{
	local how
	cat <<-'END'
		# A condition that never holds must fail this test only, not all later ones.
		await() { local n=0; until eval "$1" || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done; }
		# pidof finds a program only after the shell's child has become it.
		drive_there() { await 'pidof drive-cuda >/dev/null'; }
		in_ioctl() { await 'grep -q "^16 " /proc/$(pidof drive-cuda)/syscall 2>/dev/null'; }
		# A process that is not gone yet has a process id, too.
		kill_drive() { killall -9 drive-cuda; await '! pidof drive-cuda >/dev/null'; }
		mkfifo go
	END
	for how in $(ways "$K" | sed "s/ tracepoint//"); do
		cat <<-END
			drive-cuda -w -c -n 0 -s 60000 <go >exp &
			exec 3>go
			drive_there
			cudatrace -q --kernel --kernel-probe=$how -e '$CALLBACK' --jsonl $how.cut.jsonl -p \$(pidof drive-cuda) 2>$how.cut.err &
			t=\$!
			await "[ -s $how.cut.jsonl ]"
			echo >&3
			in_ioctl
			kill -TERM \$t
			wait \$t
			kill_drive
			exec 3>&-
			cudatrace -q --kernel --kernel-probe=$how -e '$CALLBACK' --jsonl $how.killed.jsonl -- drive-cuda -c -n 0 -s 60000 >exp 2>$how.killed.err &
			t=\$!
			in_ioctl
			kill_drive
			wait \$t
		END
	done
}
# A preemptible kernel may skip our program for a thread that ends at the same time as another: this counts as a drop. So do ioctls for
# whose return probe the kernel had no space.
here_cut()
{
	local how
	for how in $(ways "$K" | sed "s/ tracepoint//"); do
		check "$K: $how: the trace ends in an ioctl" holds "$R/$how.cut.jsonl" \
			'((c := [c for c in calls if c.get("unfinished")]) and [c["symbol"] for c in c] == ["cuFakeCallback"] and
			 [(e["name"], e.get("unfinished"), e["call_id"], e["call"]) for e in ev if e.get("op") == "ioctl" and not set(e) & {"result", "status", "duration_us"}]
			 == [("NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", True, c[0]["id"], "cuFakeCallback")] and accounts(missed=["tasks", "driver"]))'
		check "$K: $how: killed in an ioctl" holds "$R/$how.killed.jsonl" \
			'((c := [c for c in calls if c.get("unfinished")]) and [(c["symbol"], c["ioctls"]) for c in c] == [("cuFakeCallback", 1)] and
			 [(e["name"], e["result"], "status" in e, e["duration_us"] > 0, e["call_id"]) for e in ev if e.get("op") == "ioctl"]
			 == [("NV0000_CTRL_CMD_SYSTEM_GET_CPU_INFO", -4, False, True, c[0]["id"])] and accounts(missed=["tasks", "driver"]))'
	done
}

# Drivers up to branch 535 have entry points with other names, one calling the other, and other layouts.
in_guest_old_driver()
{
	local how
	echo 'driver_unload; driver_load old'
	for how in $(ways "$K"); do
		echo "cudatrace -q --kernel --kernel-probe=$how -e cuInit --jsonl $how.jsonl -- drive -d 535 >$how.exp 2>$how.err"
	done
	echo 'driver_unload; driver_load new'
}
here_old_driver()
{
	local how as
	for how in $(ways "$K"); do
		as=probe
		[ "$how" = tracepoint ] && as=$how
		check "$K: driver 535, $how" tests/vm/compare.py $as "$R/$how.exp" "$R/$how.jsonl"
	done
}

# Page faults, migrations and evictions of managed memory, and other events. Up to branch 525 the events have other numbers, and their
# fields other offsets.
in_guest_uvm()
{
	local d how
	for d in new:580 older:525; do
		echo "driver_unload; driver_load ${d%:*}"
		for how in kprobe "$(best_way "$K")"; do
			echo "cudatrace -q --kernel --kernel-probe=$how -e cuInit --jsonl $how${d#*:}.jsonl -- drive -d ${d#*:} -n 0 -u >$how${d#*:}.exp"
		done
	done
	echo 'driver_unload; driver_load new'
	echo "cudatrace -q --kernel --no-args -e cuInit --jsonl redacted.jsonl -- drive -d 580 -n 0 -u >redacted.exp"
}
here_uvm()
{
	local d how
	check "$K: managed memory, --no-args: as many events, without address and size" holds "$R/redacted.jsonl" \
		'(lambda kinds: kinds(ev) == kinds(map(json.loads, open(shown))) and len(kinds(ev)) >= 2 and not [e for e in ev if e["type"] == "uvm" and {"ptr", "size"} & e.keys()])(
		lambda events: collections.Counter((e["op"], e.get("processor"), e.get("cause"), e.get("from")) for e in events if e["type"] == "uvm"))' \
		shown="$R/$(best_way "$K")580.jsonl"
	for d in 580 525; do
		for how in kprobe "$(best_way "$K")"; do
			check "$K: managed memory, driver $d, $how" tests/vm/compare.py probe "$R/$how$d.exp" "$R/$how$d.jsonl"
		done
	done
}

# Modules without type information, as when headers have no vmlinux: no fentry.
in_guest_no_btf()
{
	cat <<-'END'
		driver_unload; driver_load nobtf
		cudatrace --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err
		cudatrace -q --kernel --kernel-probe=fentry -e cuInit --jsonl no.jsonl -- true >out 2>err
		echo $? >status
		driver_unload; driver_load new
	END
}
here_no_btf()
{
	check "$K: modules without BTF: kprobes by themselves" holds "$R/auto.jsonl" 'head["kernel_probe"] == how' \
		how="$(ways "$K" | sed 's/fentry //; s/ .*//')"
	check "$K: modules without BTF: the trace is what was done" tests/vm/compare.py probe "$R/auto.exp" "$R/auto.jsonl"
	check "$K: modules without BTF: what is not seen is said" is "$(grep -c '^cudatrace: --kernel: page faults and migrations' "$R/auto.err")" 1
	check "$K: modules without BTF: fentry is refused" is "$(cat "$R/status") $(grep -c '^cudatrace: ' "$R/err")" '1 1'
}

# If the best mechanism is refused, the next one must be used, and reported: kallsyms hides addresses, or all probes on functions are
# switched off (not possible on kernel 7.3).
in_guest_lesser()
{
	cat <<-'END'
		echo 2 >/proc/sys/kernel/kptr_restrict
		cudatrace -q --kernel -e cuInit --jsonl next.jsonl -- drive >next.exp 2>next.err
		echo 0 >/proc/sys/kernel/kptr_restrict
		if echo 0 >/proc/sys/kernel/ftrace_enabled; then
			cudatrace -q --kernel -e cuInit --jsonl off.jsonl -- drive >off.exp 2>off.err
			cudatrace check >off.check
			echo 1 >/proc/sys/kernel/ftrace_enabled
		fi
	END
}
here_lesser()
{
	local says=
	[ "$(best_way "$K")" = fentry ] || says='cudatrace: warning: --kernel: kprobe.multi does not work here (No such file or directory): the driver is probed by fentry'
	check "$K: no addresses: the next best way" holds "$R/next.jsonl" 'head["kernel_probe"] == "fentry"'
	check "$K: no addresses: says so" is "$(cat "$R/next.err")" "$says"
	check "$K: no addresses: the trace is what was done" tests/vm/compare.py probe "$R/next.exp" "$R/next.jsonl"
	[ -e "$R/off.jsonl" ] || return
	check "$K: no probes on functions: system calls" holds "$R/off.jsonl" 'head["kernel_probe"] == "tracepoint"'
	check "$K: no probes on functions: the trace is what was done" tests/vm/compare.py tracepoint "$R/off.exp" "$R/off.jsonl"
	check "$K: no probes on functions: check says why" is "$(grep -c 'kernel.ftrace_enabled is 0' "$R/off.check")" 3
}

in_guest_xid()
{
	cat <<-'END'
		cudatrace -q --kernel -e cuInit --jsonl xid.jsonl -- sh -c 'echo "79 GPU has fallen off the bus." >/proc/driver/nvidia/xid; sleep 1'
		cudatrace -q --kernel --no-strings -e cuInit --jsonl quiet.jsonl -- sh -c 'echo "79 GPU has fallen off the bus." >/proc/driver/nvidia/xid; sleep 1'
	END
}
here_xid()
{
	check "$K: an Xid" holds "$R/xid.jsonl" \
		'[(e["xid"], e["gpu"]) for e in ev if e["type"] == "xid"] == [(79, "0000:3b:00.0")] and "fallen" in [e for e in ev if e["type"] == "xid"][0]["message"]'
	check "$K: an Xid, --no-strings: without its text" holds "$R/quiet.jsonl" \
		'[(e["xid"], e["gpu"]) for e in ev if e["type"] == "xid"] == [(79, "0000:3b:00.0")] and "fallen" not in open(file).read().split("\n", 1)[1]' file="$R/quiet.jsonl"
}

# The last test, because lockdown cannot be undone. Integrity must do no harm. Confidentiality must be reported in one line, even if
# only a try detects it.
in_guest_lockdown()
{
	cat <<-'END'
		mount -t securityfs none /sys/kernel/security
		echo integrity >/sys/kernel/security/lockdown
		cudatrace -q --kernel -e cuInit --jsonl integrity.jsonl -- drive >integrity.exp 2>integrity.err
		echo confidentiality >/sys/kernel/security/lockdown
		cudatrace -q --kernel -e cuInit --jsonl none.jsonl -- drive >out1 2>err1
		echo $? >status
		umount /sys/kernel/security
		cudatrace -q --kernel -e cuInit --jsonl none.jsonl -- drive >out2 2>err2
		echo $? >>status
	END
}
here_lockdown()
{
	check "$K: lockdown, integrity: the trace is what was done" tests/vm/compare.py probe "$R/integrity.exp" "$R/integrity.jsonl"
	check "$K: lockdown, integrity: by the best way" is "$(head -1 "$R/integrity.jsonl" | grep -o '"kernel_probe":"[^"]*"') $(cat "$R/integrity.err")" \
		"\"kernel_probe\":\"$(best_way "$K")\" "
	check "$K: lockdown, confidentiality: status" is "$(paste -sd ' ' "$R/status") $(cat "$R/out1" "$R/out2")" '1 1 '
	for f in err1 err2; do
		check "$K: lockdown, confidentiality: one line says so" is \
			"$(wc -l <"$R/$f") $(grep -c '^cudatrace: cannot trace without: .*boot without lockdown=confidentiality' "$R/$f")" '1 1'
	done
}

# Those tests need no driver, or load it themselves.
before() { [ "$1" = checked ] || [ "$1" = refused ] || echo '[ -e /dev/nvidiactl ] || driver_load new'; }

[ "$(uname -m)" = x86_64 ] || { skip vm 'needs x86-64'; exit 0; }
mapfile -t kernels < <(kernels | grep -v '^arm64-')
machines "${kernels[@]}"
