#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Hostile clients and collectors (tests/hostile.py): the daemon's memory must have a limit, others get responses, and every call of a
# traced program is counted meanwhile.
# takes: 90
# own processes
set -u
. tests/lib.sh
needs_tracing daemon-hostile
command -v curl >/dev/null || { skip daemon-hostile 'needs curl'; exit 0; }
. tests/daemon.sh

ROOM=$((32 << 10)) # kB that an attack may cost
hwm() { awk '/^VmHWM:/ { print $2 }' "/proc/$daemon/status"; }
forget_peak() { echo 5 >"/proc/$daemon/clear_refs"; }
attack() { python3 tests/hostile.py "$@"; }
# Within a second, like a health check; a busy machine may exceed it once.
prompt() { curl -sf --noproxy '*' -m 1 -o /dev/null "$url/healthz"; }
answers()
{
	local i late=0
	for i in $(seq 10); do
		prompt || late=$((late + 1))
		sleep 0.15
	done
	[ $late -le 1 ] || { echo "$late of 10 were late or refused"; return 1; }
}
# Responses must be complete for Prometheus; a busy machine may be too slow once.
scrapes()
{
	local i bad=0
	for i in $(seq 12); do
		curl -sf --noproxy '*' -m 10 -o /dev/null "$url/metrics" || bad=$((bad + 1))
		sleep 0.1
	done
	[ $bad -le 1 ] || { echo "$bad of 12 were cut or refused"; return 1; }
}
below() { [ "$1" -le "$2" ] || { echo "$1 kB, at most $2"; return 1; }; }

also=
# during NAME COMMAND...: checks what must hold while the command, an attack, runs; also runs $also
during()
{
	local name=$1 before pid
	shift
	forget_peak
	before=$(hwm)
	"$@" >"$TMP/attack.out" 2>&1 &
	pid=$!
	sleep 0.5
	check "$name: another client is answered within a second" answers
	ask victim alloc 2000 >/dev/null
	made=$((made + 2000))
	eval "$also"
	wait $pid
	check "$name: takes place" awk '{ ok = $2 > 0 } END { exit !ok }' "$TMP/attack.out"
	check "$name: memory" below "$(hwm)" $((before + ROOM))
	check "$name: every call is counted, none is dropped" until_shows shows \
		'total("calls_total", command="w-victim", function="cuMemAlloc_v2") == int(made) and total("dropped_total") == 0' made=$made
	echo "# $name: $before, then $(hwm) kB; the attack: $(tail -1 "$TMP/attack.out")"
}

# A /metrics response that exceeds the socket's buffers.
large_reply()
{
	local i
	for i in {0..69}; do ln "$TMP/caller" "$TMP/many$i"; done
	for i in {0..69}; do
		cp --reflink=auto -n "$FAKE/sample" "$TMP/many$i.x" 2>/dev/null
		mv -f "$TMP/many$i.x" "$TMP/many$i"
		LD_LIBRARY_PATH=$lib "$TMP/many$i" --tokens 1 --layers 1 >/dev/null
	done
	until_ok 10 eval '[ "$(get "$url/metrics" | wc -c)" -gt 1000000 ]'
	check 'metrics: more than a megabyte' test "$(get "$url/metrics" | wc -c)" -gt 1000000
}

http()
{
	local port=${url##*:}
	check 'http: one answer a connection, with its length' eval 'curl -si --noproxy "*" -m 5 "$url/healthz" | tr -d "\r" | grep -qx "Content-Length: 3"'
	check 'http: HEAD' eval '[ "$(curl -sI --noproxy "*" -m 5 "$url/metrics" | head -1 | tr -d "\r")" = "HTTP/1.1 200 OK" ]'
	check 'http: other methods' eval '[ "$(curl -s --noproxy "*" -m 5 -o /dev/null -w "%{http_code}" -X DELETE "$url/metrics")" = 405 ]'
	check 'http: no such page' eval '[ "$(curl -s --noproxy "*" -m 5 -o /dev/null -w "%{http_code}" "$url/x?y")" = 404 ]'
	check 'http: a request that is too long' eval '[ "$(curl -s --noproxy "*" -m 5 -o /dev/null -w "%{http_code}" -H "X: $(head -c 9000 /dev/zero | tr "\\0" a)" "$url/")" = 431 ]'
	for what in pipeline header body connections flood flood-metrics; do during "$what" attack $what "$port" 3; done
	large_reply
	during 'slow readers of a large reply' attack readers "$port" 4
	also="check 'unread answers to many addresses: a scrape is whole' scrapes"
	during 'unread answers to many addresses' attack unread "$port" 9
	also=
	during 'pipeline of large replies' attack pipeline "$port" 3
	check 'connections that had to go are counted' shows 'total("http_connections_closed_total") > 500'
}

# Attacks by a member of ctl.group.
control()
{
	for what in line connections readers; do
		also="check 'control: $what: root is answered' timeout 10 $CUDATRACE ctl --set ctl.socket=$sock status"
		during "control: $what" attack ctl-$what "$sock" 3
	done
	also=
}

drips()
{
	attack ctl-drip "$sock" 14 >"$TMP/drip.ctl" &
	during 'a byte now and then' attack drip "${url##*:}" 14
	wait $!
	for what in attack.out drip.ctl; do
		check "a byte now and then: ended after 10 s ($what)" \
			awk '$3 < 9 || $3 > 13 { print "the longest lived for " $3 " s"; exit 1 } END { exit !NR }' "$TMP/$what"
	done
}

chmod 711 "$TMP"
start hostile --set ctl.group=nogroup --set trace.buffer_size=32M --set recorder.seconds=0s || exit
worker victim || { fail 'the victim starts' "$(tail -3 "$log")"; exit; }
made=0
http
control
drips
quit victim
finish
check 'the daemon has lived through it' is $? 0

# The collector is hostile.
collectors()
{
	local what before port
	for what in continue header chunk drip; do
		port=$(port)
		python3 tests/hostile.py "answer-$what" "$port" 13 >"$TMP/attack.out" 2>&1 &
		collector=$!
		start "otlp-$what" --set otlp.endpoint=http://127.0.0.1:"$port" --set otlp.interval=1s --set recorder.seconds=0s || return
		forget_peak
		before=$(hwm)
		check "collector: $what: the daemon answers" answers
		# A request may take at most 10 s.
		check "collector: $what: the request is given up" until_ok 5 shows 'total("otlp_failures_total") > 0'
		check "collector: $what: memory" below "$(hwm)" $((before + ROOM))
		echo "# collector: $what: $before, then $(hwm) kB"
		finish
		kill $collector 2>/dev/null
		wait $collector 2>/dev/null || :
	done
}
collectors
