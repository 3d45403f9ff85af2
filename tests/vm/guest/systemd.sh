#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Tests cudatrace's unit under systemd: run as root by busybox' sh in the virtual machine of tests/vm/systemd.sh.
export PATH=/usr/bin:/bin

ok() { echo "ok $1"; }
no() { echo "not ok $1 # $2"; }
# is NAME HAVE WANT
is() { if [ "$2" = "$3" ]; then ok "$1"; else no "$1" "$2, not $3"; fi; }
# until_ok SECONDS COMMAND...
until_ok()
{
	local n=$(($1 * 5))
	shift
	while ! "$@" >/dev/null 2>&1; do
		n=$((n - 1))
		[ $n -gt 0 ] || return 1
		sleep 0.2
	done
}
holds() { local name=$1; shift; if until_ok "$@"; then ok "$name"; else no "$name" "not in $1 s"; fi; }
of() { systemctl show -P "$1" cudatrace; }
is_active() { [ "$(of ActiveState)" = active ] && [ "$(of MainPID)" != "$1" ]; }
counted() { wget -qO- http://127.0.0.1:9464/metrics | grep -q '^cudatrace_launches_total{.*command="sample"}'; }
status() { cudatrace ctl status; }
# drop_in LINE...: in [Service]
drop_in()
{
	mkdir -p /run/systemd/system/cudatrace.service.d
	printf '[Service]\n' >/run/systemd/system/cudatrace.service.d/test.conf
	printf '%s\n' "$@" >>/run/systemd/system/cudatrace.service.d/test.conf
	systemctl daemon-reload
}

mkdir -p /etc/cudatrace
# Type=notify: this returns when it is ready.
systemctl start cudatrace
is 'start' "$? $(of ActiveState) $(of SubState) $(of Type)" '0 active running notify'
is 'its status is there at once' "$(status | grep -c '"level":"metrics"')" 1
pid=$(of MainPID)
is 'no new privileges, filters' "$(sed -n 's/^\(NoNewPrivs\|Seccomp\):.//p' /proc/"$pid"/status | tr '\n' ' ')" '1 2 '
is 'its folders' "$(ls -ld /run/cudatrace /var/lib/cudatrace | cut -c 1-10 | tr '\n' ' ')" 'drwxr-xr-x drwx------ '
LD_LIBRARY_PATH=/usr/lib sample --quiet --tokens 3 >/dev/null
holds 'traces' 10 counted

printf 'level: trace\n' >/etc/cudatrace/daemon.yaml
systemctl reload cudatrace
holds 'reload' 10 eval 'status | grep -q "\"level\":\"trace\""'
is 'reload: the same process' "$(of MainPID)" "$pid"
LD_LIBRARY_PATH=/usr/lib sample --quiet --tokens 3 >/dev/null
holds 'writes files below its folder' 10 eval 'ls /var/lib/cudatrace/trace-*'

LD_LIBRARY_PATH=/usr/lib sample --quiet --tokens 1000000 >/dev/null 2>&1 &
sample=$!
holds 'dossier: requested' 10 cudatrace ctl dossier $sample
holds 'dossier: complete, with a report' 60 eval 'grep "\"pid\":$sample,.*\"has_calls\":true" /var/lib/cudatrace/dossier-*/dossier.json && ls /var/lib/cudatrace/dossier-*/verdict.json'
is 'dossier: its threads' "$(cat /var/lib/cudatrace/dossier-*/threads.txt | grep -c '^thread')" 1
kill $sample

kill -9 "$pid"
holds 'killed: starts again by itself' 30 is_active "$pid"
is 'killed: once' "$(of NRestarts)" 1
holds 'killed: traces again' 10 status

# A daemon that hangs
drop_in WatchdogSec=3 RestartSec=1 TimeoutAbortSec=2
systemctl restart cudatrace
sleep 7
is 'watchdog: a daemon that runs is left alone' "$(of NRestarts) $(of ActiveState)" '0 active'
pid=$(of MainPID)
kill -STOP "$pid"
holds 'watchdog: one that hangs is ended, another started' 30 is_active "$pid"
is 'watchdog: by it' "$(journalctl -u cudatrace -o cat | grep -c 'Watchdog timeout')" 1

begin=$(date +%s)
systemctl stop cudatrace
took=$(($(date +%s) - begin))
if [ $took -le 5 ] && [ "$(of Result)" = success ]; then ok 'stop: in its time'; else no 'stop: in its time' "$took s, $(of Result)"; fi
is 'stop: nothing is left' "$(systemctl show -P TasksCurrent cudatrace) $(ls /run/cudatrace 2>/dev/null)" '[not set] '

# Memory
drop_in Restart=no
systemctl start cudatrace
group=/sys/fs/cgroup$(of ControlGroup)
is 'MemoryMax: the kernel has it' "$(cat "$group/memory.max")" $((544 << 20))
echo "# $(cat "$group/memory.current") bytes at the start, $(cat "$group/pids.current") processes"
systemctl stop cudatrace
drop_in Restart=no MemoryMax=8M
systemctl start cudatrace 2>/dev/null
# Memory of BPF counts: either it cannot be loaded, or the whole unit is killed.
is 'MemoryMax: is enforced' "$(of ActiveState) $({ of Result; journalctl -u cudatrace -o cat; } | grep -m 1 -c 'oom-kill\|Cannot allocate memory')" 'failed 1'
drop_in ''
systemctl reset-failed cudatrace
systemctl start cudatrace
is 'and starts again' "$(of ActiveState)" active
is 'it has said nothing of what is refused' "$(journalctl -u cudatrace -o cat | grep -c 'not permitted\|Permission denied')" 0
journalctl -u cudatrace -o cat | sed -n 's/^/# /p' | tail -40

level=$(systemd-analyze security --no-pager cudatrace | sed -n 's/.*Overall exposure level for cudatrace.service: \([0-9.]*\).*/\1/p')
echo "# systemd-analyze security: $level"
if [ "${level%.*}" -lt 5 ] 2>/dev/null; then ok 'systemd-analyze security: below 5'; else no 'systemd-analyze security: below 5' "$level"; fi
echo end
