# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
# A suite that boots kernels of tests/vm/kernels.txt, each once: of every test that is for it, the part in the guest runs
# there, then the other part checks here what that left. Source it after tests/lib.sh, define
#
#   tests_of KERNEL   which tests that kernel has
#   in_guest_NAME     prints shell commands (busybox; tests/vm/run.sh says what else there is) that put what they find into
#                     files in $PWD
#   here_NAME         checks them: $K is the kernel, $R the folder with the files, $TMP is shared by all
#   before NAME       prints what is to be done in the guest before that test, if anything
#
# and call machines KERNEL...; $guest_files are options -a of tests/vm/run.sh.

guest_files=()
is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
uname_of() { cat "$O/vm/$K/release"; }
kernels() { sed 's/#.*//' tests/vm/kernels.txt | awk 'NF { print $1 }'; }

guest_script() # KERNEL
{
	local t
	for t in $(tests_of "$1"); do
		# On the console: of a machine that does not come to an end nothing else arrives.
		echo "mkdir -p /results/$t; cd /results/$t; echo \"# \$(cut -d ' ' -f 1 /proc/uptime) s: $t\" >/dev/console"
		before "$t"
		K=$1 in_guest_$t
	done
	echo true
}
boot() # KERNEL
{
	local start=$SECONDS
	guest_script "$1" >"$TMP/$1.sh"
	tests/vm/run.sh -q -n suite -t 900 ${guest_files[@]+"${guest_files[@]}"} -f "$TMP/$1.sh" "$1" >"$TMP/$1.out" 2>&1
	echo $? >"$TMP/$1.status"
	echo "# $1: $(cat "$O/vm/$1/release"), $((SECONDS - start)) s"
}
# As many at once as there are CPUs, two at most. What they have in common is made by the first.
machines() # KERNEL...
{
	local running=0 t
	for K; do
		[ -n "$(tests_of "$K")" ] || continue
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
	for K; do
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
}
