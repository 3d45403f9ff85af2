#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other kernels, from below what is supported to the newest there is: tests/vm/kernels.txt, booted in qemu (no KVM
# needed), with stand-ins for NVIDIA's kernel modules. Each kernel is booted once: of every test that is for it, the
# part in the guest runs there, then the other part checks here what that left.
# timeout: 600
set -u
. tests/lib.sh

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

# --- tests ----------------------------------------------------------------------------------------------
#
# in_guest_NAME prints shell commands (busybox; tests/vm/run.sh says what else there is) that put what they find into
# files in $PWD; here_NAME checks them: $K is the kernel, $R the folder with the files, $TMP is shared by all.
# tests_of says which kernel has which tests.

tests_of()
{
	case $1 in
	5.10) echo refused ;;
	*) echo checked mechanisms probes old_driver uvm no_btf xid ;;
	esac
}
# The ways in which this kernel can probe libcuda.
mechanisms()
{
	case $1 in
	6.1) echo perf ;;
	6.12) echo multi perf ;;
	*) echo session multi perf ;;
	esac
}

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
	check "$K: check: what this kernel has" python3 - "$R" "$(uname_of)" "$(mechanisms "$K")" <<-'END'
		import json, sys
		folder, release, mechanisms = sys.argv[1:]
		d, none = json.load(open(folder + "/check.json")), json.load(open(folder + "/none.json"))
		text = open(folder + "/check").read()
		has = lambda d: {k["name"]: k["state"] for k in d["capabilities"]}
		want = {"uprobe_multi": "multi" in mechanisms, "uprobe_session": "session" in mechanisms, "cookie": True,
		        "kprobe": True, "fentry": True, "ringbuf": True, "nvidia_driver": True}
		bad = [f"{k}: {has(d).get(k)}" for k, v in want.items() if k in has(d) and (has(d)[k] == "yes") != v]
		if release not in text:
		    bad.append("does not say " + release)
		if "580.159.04" not in text:
		    bad.append("does not say the driver's version")
		sys.exit("; ".join(bad) or None)
	END
}

# The same program by every mechanism: the counts are the program's own.
SAMPLE='sample --tokens 4 --layers 2 --quiet --counts'
# Taking perf's probes off one by one takes a minute or two: some functions must do.
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
		# Those that it made itself: cuMemAllocPitch makes one of its own.
		check "$K: $m: counts" holds "$R/$m.jsonl" \
			'accounts() and collections.Counter(c["symbol"] for c in calls if "parent" not in c) == {k: int(n) for k, n in re.findall(r"^(cu\w+) (\d+)$", open(counts).read(), re.M) if few == "no" or re.match("cu(Mem(?!Get)|Launch)", k)}' \
			counts="$R/$m.counts" few="$(few "$m")"
		check "$K: $m: it was that" holds "$R/$m.jsonl" 'm in head["mechanism"] or (m == "perf" and head["mechanism"] == "uprobe")' m="$m"
	done
}

# What reaches the driver, in CUDA calls and outside, by each way of seeing it. One thread: on kernels that preempt
# (7.0 and later), a program of ours that is interrupted misses what others do meanwhile (fentry and tracepoint).
# cuFakeCallback, which has no row in the table, and few others.
CALLBACK='cuInit,cu[FP]*[aI]*[ke]'
in_guest_probes()
{
	local how
	for how in kprobe fentry tracepoint; do
		echo "cudatrace -q --kernel --kernel-probe=$how -e '$CALLBACK' --jsonl $how.jsonl -- drive-cuda -n 2 -c -s 20 -f 50 >$how.exp 2>$how.err; echo \$? >$how.status"
	done
	echo "cudatrace -q --kernel --kernel-probe=kprobe -e cuInit --jsonl threads.jsonl -- drive -n 5 -t 4 >threads.exp 2>threads.err"
	echo "cudatrace -q --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err"
}
here_probes()
{
	local how as
	for how in kprobe fentry tracepoint; do
		as=probe
		[ $how = tracepoint ] && as=$how
		check "$K: $how: status" is "$(cat "$R/$how.status")" 0
		check "$K: $how: the trace is what was done" tests/vm/compare.py $as "$R/$how.exp" "$R/$how.jsonl"
		check "$K: $how: it was that" holds "$R/$how.jsonl" 'head["kernel_probe"] == how' how=$how
	done
	check "$K: all three see the same" tests/vm/compare.py same "$R"/{kprobe,fentry,tracepoint}.jsonl
	check "$K: four threads, kprobe" tests/vm/compare.py probe "$R/threads.exp" "$R/threads.jsonl"
	check "$K: chosen by itself" tests/vm/compare.py probe "$R/auto.exp" "$R/auto.jsonl"
}

# Drivers to branch 535 have entry points of other names, one calling the other, and other layouts.
in_guest_old_driver()
{
	local how
	echo 'driver_unload; driver_load old'
	for how in kprobe fentry tracepoint; do
		echo "cudatrace -q --kernel --kernel-probe=$how -e cuInit --jsonl $how.jsonl -- drive -d 535 >$how.exp 2>$how.err"
	done
	echo 'driver_unload; driver_load new'
}
here_old_driver()
{
	local how as
	for how in kprobe fentry tracepoint; do
		as=probe
		[ $how = tracepoint ] && as=$how
		check "$K: driver 535, $how" tests/vm/compare.py $as "$R/$how.exp" "$R/$how.jsonl"
	done
}

# Page faults, migrations and evictions of managed memory, and what is none of these; up to branch 525 the events have
# other numbers, and fields lie elsewhere.
in_guest_uvm()
{
	local d how
	for d in new:580 old:535 older:525; do
		echo "driver_unload; driver_load ${d%:*}"
		for how in kprobe fentry; do
			echo "cudatrace -q --kernel --kernel-probe=$how -e cuInit --jsonl $how${d#*:}.jsonl -- drive -d ${d#*:} -n 0 -u >$how${d#*:}.exp"
		done
	done
	echo 'driver_unload; driver_load new'
}
here_uvm()
{
	local d how
	for d in 580 535 525; do
		for how in kprobe fentry; do
			check "$K: managed memory, driver $d, $how" tests/vm/compare.py probe "$R/$how$d.exp" "$R/$how$d.jsonl"
		done
	done
}

# Modules without type information, as where headers bring no vmlinux: no fentry.
in_guest_no_btf()
{
	cat <<-'END'
		driver_unload; driver_load nobtf
		cudatrace -q --kernel -e cuInit --jsonl auto.jsonl -- drive >auto.exp 2>auto.err
		cudatrace -q --kernel --kernel-probe=fentry -e cuInit --jsonl no.jsonl -- true >out 2>err
		echo $? >status
		driver_unload; driver_load new
	END
}
here_no_btf()
{
	check "$K: modules without BTF: kprobes by themselves" holds "$R/auto.jsonl" 'head["kernel_probe"] == "kprobe"'
	check "$K: modules without BTF: the trace is what was done" tests/vm/compare.py probe "$R/auto.exp" "$R/auto.jsonl"
	check "$K: modules without BTF: fentry is refused" is "$(cat "$R/status") $(grep -c '^cudatrace: ' "$R/err")" '1 1'
}

in_guest_xid()
{
	cat <<-'END'
		cudatrace -q --kernel -e cuInit --jsonl xid.jsonl -- sh -c 'echo "79 GPU has fallen off the bus." >/proc/driver/nvidia/xid; sleep 1'
	END
}
here_xid()
{
	check "$K: an Xid" holds "$R/xid.jsonl" \
		'[(e["xid"], e["gpu"]) for e in ev if e["type"] == "xid"] == [(79, "0000:3b:00.0")] and "fallen" in [e for e in ev if e["type"] == "xid"][0]["message"]'
}

# --- the machines ---------------------------------------------------------------------------------------

uname_of() { cat "$O/vm/$K/release"; }

guest_script() # KERNEL
{
	local t
	for t in $(tests_of "$1"); do
		echo "mkdir -p /results/$t; cd /results/$t; date +%s.%N >begun 2>/dev/null"
		K=$1 in_guest_$t
	done
	echo true
}
boot() # KERNEL
{
	local start=$SECONDS
	guest_script "$1" >"$TMP/$1.sh"
	tests/vm/run.sh -q -n suite -t 240 -f "$TMP/$1.sh" "$1" >"$TMP/$1.out" 2>&1
	echo $? >"$TMP/$1.status"
	echo "# $1: $(cat "$O/vm/$1/release"), $((SECONDS - start)) s"
}

mapfile -t kernels < <(sed 's/#.*//' tests/vm/kernels.txt | awk 'NF { print $1 }')
[ "$(uname -m)" = x86_64 ] || { skip vm 'needs x86-64'; exit 0; }
# As many at once as there are CPUs, two at most. What they have in common is made by the first.
running=0
for K in "${kernels[@]}"; do
	tests/vm/fetch.sh "$K" >"$TMP/$K.fetch" 2>&1
	case $? in
	0) ;;
	77) skip "$K" "$(tail -1 "$TMP/$K.fetch")"; continue ;;
	*) fail "$K: fetched" "$(tail -1 "$TMP/$K.fetch")"; continue ;;
	esac
	[ $running -lt 2 ] && [ $running -lt "$(nproc)" ] || { wait -n; running=$((running - 1)); }
	boot "$K" &
	running=$((running + 1))
done
wait
for K in "${kernels[@]}"; do
	[ -e "$TMP/$K.status" ] || continue
	case $(cat "$TMP/$K.status") in
	0) ;;
	77) skip "$K" "$(tail -1 "$TMP/$K.out")"; continue ;;
	*) fail "$K: boots and comes to an end" "$(tail -1 "$TMP/$K.out")" ;;
	esac
	for t in $(tests_of "$K"); do
		R=$O/vm/$K/suite/$t
		if [ -d "$R" ]; then here_$t; else fail "$K: $t" 'did not run'; fi
	done
done
