#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Security: what a running tracer can still do, what works without root, and the contents of records. Suite files tests obstacles that
# other users place in the way of files.
# takes: 70
# own processes
set -u
. tests/lib.sh
needs_tracing 'no way in'
export LD_LIBRARY_PATH=$FAKE
ENDLESS=(env FAKE_DELAY_US=cuStreamSynchronize:10000 "$FAKE/sample" --tokens 1000000 --layers 2 --quiet)

dir=$(mktemp -d /tmp/cudatrace-sec-XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 1777 "$dir"
nobody=65534

same() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
as_nobody() { setpriv --reuid=$nobody --regid=$nobody --clear-groups "$@"; }

# field NAME: a field of the tracer's status in /proc
field() { awk -v f="$1:" '$1 == f { print $2 }' "/proc/$tracer/status"; }
sandbox()
{
	rm -f "$TMP/a.jsonl"
	"$CUDATRACE" -q -e launch --stack --jsonl "$TMP/a.jsonl" "$@" -- "${ENDLESS[@]}" >/dev/null 2>"$TMP/err" &
	tracer=$!
	until_ok 20 grep -aq '"stack":' "$TMP/a.jsonl" # which takes cudatrace-read
	command=$(pgrep -P $tracer sample | head -n 1)
}
# A shell without job control started it with SIGINT ignored.
end_sandbox() { kill -TERM $tracer; wait $tracer 2>/dev/null; pkill -KILL -P $tracer 2>/dev/null; kill -KILL $command 2>/dev/null; }

# cudatrace-read, a child of the tracer, and its own child, which does the reading
reader_rights()
{
	local maker reader p
	maker=$(pgrep -P "$tracer" -x cudatrace-read)
	reader=$(pgrep -P "${maker:-1}" -x cudatrace-read)
	for p in $maker $reader; do
		awk '$1 ~ /^(CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters):/ { print $2 }' "/proc/$p/status" | xargs
	done
}
# CAP_DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE; each has a filter, and the second also the first one's
reads="0000010000080004 0000010000080004 0000010000080004 0000000000000000 1 2"
reader_is_small() { local want="$reads 1"$'\n'"$reads 2"; until_ok 5 eval 'same "$(reader_rights)" "$want"' || same "$(reader_rights)" "$want"; }
# Another user's program in a private mount namespace, whose files no other user can reach: library, stacks, names.
reads_all()
{
	local bin=$1 what=$2 pid
	mkdir -p "$TMP/theirs"
	unshare -m sh -c 'mount -t tmpfs none "$1" && cp "$2/libcuda.so.1" "$2/sample" "$1/" && chown -R $3:$3 "$1" && chmod 700 "$1" "$1"/* && cd "$1" &&
		exec setpriv --reuid=$3 --regid=$3 --clear-groups env LD_LIBRARY_PATH=. FAKE_DELAY_US=cuStreamSynchronize:10000 ./sample --tokens 1000000 --layers 2 --quiet' \
		sh "$TMP/theirs" "$FAKE" $nobody >/dev/null 2>"$TMP/theirs.err" &
	pid=$!
	until_ok 10 grep -qs libcuda "/proc/$pid/maps"
	"$bin" -q --stack --duration 1 --jsonl "$TMP/theirs.jsonl" -p "$pid" 2>"$TMP/err"
	kill "$pid"
	wait "$pid" 2>/dev/null
	check "$what: the files of a closed folder in another mount namespace: library and names" holds "$TMP/theirs.jsonl" \
		'(calls and head["libraries"][0]["path"] == place + "/libcuda.so.1" and head["libraries"][0]["build_id"] and
		[f for e in ev if e["type"] == "stack" for f in e["frames"] if f.get("symbol", "").startswith("work+") and f["module"] == place + "/sample"])' place="$TMP/theirs"
}

# links_rights: the rights of the process that attaches
links_rights() { awk '/^(CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp):/ { print $2 }' "/proc/$(pgrep -P $tracer -x cudatrace-links)/status" | xargs; }
# links_have CAPABILITIES: others must be dropped with its first library
links_have() { until_ok 10 eval "[ \"\$(links_rights)\" = '$1 $1 $1 1 2' ]" || { echo "$(links_rights), not $1"; false; }; }

# bits of CAP_KILL 5, DAC_READ_SEARCH 2, SYS_PTRACE 19, LEASE 28, PERFMON 38, BPF 39, CHECKPOINT_RESTORE 40; SYS_ADMIN 21
few=0000018010080024
sandboxed()
{
	sandbox
	check 'sandbox: capabilities' same "$(field CapEff) $(field CapPrm) $(field CapBnd) $(field CapAmb)" "$few $few $few 0000000000000000"
	check 'sandbox: cudatrace-read: capabilities, no_new_privs, seccomp' reader_is_small
	check 'sandbox: cudatrace-links: capabilities, no_new_privs, seccomp' links_have 000001c000080004
	check 'sandbox: no_new_privs, seccomp' same "$(field NoNewPrivs) $(field Seccomp)" '1 2'
	check 'sandbox: the command has none of it' same "$(awk '/^(NoNewPrivs|Seccomp):/ { print $2 }' "/proc/$command/status" | xargs)" '0 0'
	end_sandbox
	sandbox --mechanism perf
	check 'sandbox: probes of single perf events: CAP_SYS_ADMIN is for cudatrace-links' same "$(field CapEff)" $few
	check 'sandbox: cudatrace-links, perf events: capabilities, no_new_privs, seccomp' links_have 000001c000280004
	end_sandbox
	sandbox --format-threads 2
	check 'sandbox: threads that write: filtered, and without any capability' same \
		"$(awk -v t=$tracer 'FNR == 1 { n++ } /^Pid:/ { p = $2 } /^(CapEff|CapPrm|NoNewPrivs|Seccomp):/ && p != t { print $2 }
			END { print n }' /proc/$tracer/task/*/status | xargs)" '0000000000000000 0000000000000000 1 2 0000000000000000 0000000000000000 1 2 3'
	end_sandbox
	sandbox --no-sandbox
	check '--no-sandbox' same "$(field NoNewPrivs) $(field Seccomp)" '0 0'
	until_ok 5 eval '[ "$(reader_rights | wc -l)" = 2 ]'
	check '--no-sandbox: cudatrace-read' same "$(reader_rights | cut -d' ' -f6 | xargs)" '0 0'
	end_sandbox
	reads_all "$CUDATRACE" sandbox
	if [ ! -x "$O/cudatrace-static" ]; then
		skip 'sandbox, static' 'not built: make static'
		return
	fi
	CUDATRACE=$O/cudatrace-static sandbox
	check 'sandbox, static: capabilities, no_new_privs, seccomp' same "$(field CapEff) $(field CapBnd) $(field NoNewPrivs) $(field Seccomp)" "$few $few 1 2"
	check 'sandbox, static: cudatrace-read: capabilities, no_new_privs, seccomp' reader_is_small
	end_sandbox
	reads_all "$O/cudatrace-static" 'sandbox, static'
}

# An ordinary user with the few capabilities that docs/SECURITY.md names, set on the file.
privileges()
{
	if ! command -v setcap >/dev/null; then
		skip 'file capabilities' 'setcap is not installed'
		return
	fi
	local bin=$dir/cudatrace n
	# Other users may not read the build folder.
	install -m 755 "$CUDATRACE" "$bin"
	install -m 755 "$O/fake/libcuda.so.1" "$O/fake/sample" "$dir/"
	if ! setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore+ep "$bin" 2>"$TMP/err"; then
		skip 'file capabilities' "$(cat "$TMP/err")"
		return
	fi
	mkdir -m 777 "$dir/user"
	# The dynamic linker ignores LD_* for programs with capabilities.
	as_nobody env CUDATRACE_SANDBOX=kill "$bin" -q --jsonl "$dir/user/a.jsonl" -- env LD_LIBRARY_PATH="$dir" "$dir/sample" >"$TMP/out" 2>"$TMP/err"
	check 'few capabilities: traces' same "$? $(tail -n 1 "$dir/user/a.jsonl" | jq -c '[.type, .drops.calls, .unfinished]')" '0 ["end",0,0]'
	n=$(grep -oE '[0-9]+ kernel launches' "$TMP/out" | cut -d' ' -f1)
	check 'few capabilities: every launch' same "$(grep -c '"op":"launch","name":"cuLaunchKernel' "$dir/user/a.jsonl")" "$n"
	check 'few capabilities: the file is the user'"'"'s' same "$(stat -c %u:%a "$dir/user/a.jsonl")" $nobody:600
	as_nobody "$bin" -q -e init --jsonl /dev/null -- grep '^Cap[IPEA]' /proc/self/status >"$TMP/out" 2>"$TMP/err"
	check 'few capabilities: the command has none' same "$? $(awk '{ print $2 }' "$TMP/out" | sort -u)" '0 0000000000000000'
	lent "$bin"
	setcap -r "$bin"
	as_nobody "$bin" -q --probe=uprobe -e init --jsonl "$dir/user/b.jsonl" -- true 2>"$TMP/err"
	check 'no capabilities: says what is missing' same "$? $(grep -c 'privilege CAP_BPF, privilege CAP_PERFMON' "$TMP/err")" '1 1'
}

# no_more_than_user BIN WORD...: must be refused as without capabilities, and print nothing from $dir/closed
no_more_than_user()
{
	local out rc
	out=$(cd "$dir/user" && as_nobody timeout 30 "$@" 2>&1 </dev/null)
	rc=$?
	[ $rc -ne 0 ] && [ $rc -ne 124 ] && grep -q 'Permission denied\|may not\|not executable' <<<"$out" && ! grep -q 'k3y\|precious\|cuLaunchKernel' <<<"$out" ||
		{ echo "exit $rc: $out"; return 1; }
}
# The file's capabilities are for tracing: with them, the user must not be able to read or reach more files.
lent()
{
	local bin=$1 set=(--set "ctl.socket=$dir/user/ctl" --set metrics.listen= --set "files.directory=$dir/user/files") daemon
	mkdir -m 700 "$dir/closed"
	mkdir -m 777 "$dir/closed/open"
	printf 'k3y: precious\n' >"$dir/closed/config"
	printf 'k3y: precious\n' >"$dir/user/closed"
	chmod 600 "$dir/closed/config" "$dir/user/closed"
	cp "$dir/user/a.jsonl" "$dir/libcuda.so.1" "$dir/closed/"
	install -m 755 /bin/true "$dir/closed/"
	check 'lent: --check-config: another user'"'"'s file' no_more_than_user "$bin" daemon --check-config --config "$dir/user/closed"
	check 'lent: --check-config: a file in a closed folder' no_more_than_user "$bin" daemon --check-config --config "$dir/closed/config"
	check 'lent: --check-config: by /proc' no_more_than_user "$bin" daemon --check-config --config /proc/1/environ
	check 'lent: daemon --config' no_more_than_user "$bin" daemon "${set[@]}" --config "$dir/user/closed"
	check 'lent: ctl --config' no_more_than_user "$bin" ctl --config "$dir/user/closed" status
	check 'lent: report' no_more_than_user "$bin" report "$dir/closed/a.jsonl"
	check 'lent: report, of several' no_more_than_user "$bin" report "$dir/closed/a.jsonl" "$dir/closed/a.jsonl"
	check 'lent: report -o' no_more_than_user "$bin" report -o "$dir/closed/open/x.html" --format=html "$dir/user/a.jsonl"
	check 'lent: diff' no_more_than_user "$bin" diff "$dir/user/a.jsonl" "$dir/closed/a.jsonl"
	check 'lent: list --libcuda' no_more_than_user "$bin" list --libcuda "$dir/closed/libcuda.so.1"
	check 'lent: check --libcuda' no_more_than_user "$bin" check --libcuda "$dir/closed/libcuda.so.1"
	check 'lent: --libcuda' no_more_than_user "$bin" --libcuda "$dir/closed/libcuda.so.1" -- true
	check 'lent: --jsonl in a closed folder' no_more_than_user "$bin" --jsonl "$dir/closed/open/x" -- true
	check 'lent: a command in a closed folder' no_more_than_user "$bin" --jsonl /dev/null -- "$dir/closed/true"
	check 'lent: --user' no_more_than_user "$bin" --jsonl /dev/null --user root -- true
	check 'lent: nothing was made in a closed folder' same "$(ls -A "$dir/closed/open" | wc -l)" 0
	check 'lent: -p and check see what they need' as_nobody "$bin" check
	# An ordinary user's daemon, including files that it opens later.
	setpriv --reuid=$nobody --regid=$nobody --clear-groups "$bin" daemon --config /dev/null "${set[@]}" --set "files.directory=$dir/closed/open/f" \
		--set otlp.endpoint=http://127.0.0.1:9 --set "otlp.headers_file=$dir/closed/config" --set otlp.interval=1s --set level=trace >"$TMP/log" 2>&1 &
	daemon=$!
	check 'lent: daemon: folder and headers in a closed folder' until_ok 20 eval 'grep -q "cannot write to.*Permission denied" "$TMP/log" &&
		grep -q "cannot read.*Permission denied" "$TMP/log"'
	check 'lent: daemon: runs' eval '! is_gone $daemon'
	kill -TERM $daemon
	ended $daemon
	check 'lent: daemon: ends' same $? 0
	chmod u+s "$bin"
	check 'a setuid file: refused' fails_with 'this program is setuid' as_nobody "$bin" report "$dir/user/a.jsonl"
	chmod u-s,g+s "$bin"
	check 'a setgid file: refused' fails_with 'this program is setuid' as_nobody "$bin" report "$dir/user/a.jsonl"
	chmod g-s "$bin"
}
fails_with() { local want=$1 out; shift; out=$("$@" 2>&1) && { echo "passes: $out"; return 1; }; [[ $out == *"$want"* ]] || { echo "$out"; return 1; }; }

# sudo cudatrace report -o: must use the caller's rights
reports_by_sudo()
{
	local out=$dir/reports
	mkdir -m 777 "$out"
	[ -d "$dir/root-only" ] || mkdir -m 700 "$dir/root-only"
	SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" report -o "$out/a.html" --format=html tests/golden/h200-triton.jsonl 2>"$TMP/err"
	check 'sudo report -o: belongs to its caller' same "$? $(stat -c %u:%g:%a "$out/a.html")" "0 $nobody:$nobody:600"
	SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" report -o "$out/all" --format=all tests/golden/h200-triton.jsonl 2>"$TMP/err"
	check 'sudo report --format=all: they all do' same "$? $(stat -c %u "$out"/all* | sort -u) $(ls "$out" | grep -c all)" "0 $nobody $(ls "$out" | grep -c all)"
	rm -f "$dir/root-only/x"
	SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" report -o "$dir/root-only/x" tests/golden/h200-triton.jsonl 2>"$TMP/err"
	check 'sudo report -o: no file where its caller may not write' same "$? $(ls "$dir/root-only" | wc -l)" '1 0'
	echo precious >"$out/root"
	SUDO_UID=$nobody SUDO_GID=$nobody "$CUDATRACE" report -o "$out/root" tests/golden/h200-triton.jsonl 2>"$TMP/err"
	check 'sudo report -o: a file of root is not written to' same "$? $(cat "$out/root")" '1 precious'
}

# The daemon end to end, where a system call outside its list would kill it: file, socket, port, collector, command, a library that
# comes later, a reload with another port and group.
daemon_sandboxed()
{
	read -r port other <<<"$(two_ports)"
	sock=$TMP/d.sock files=$TMP/d.files
	rm -rf "$TMP/late" "$files"
	mkdir "$TMP/late"
	cat >"$TMP/collector.py" <<-'END'
	import http.server, sys
	class H(http.server.BaseHTTPRequestHandler):
	    def do_POST(self):
	        self.rfile.read(int(self.headers["Content-Length"]))
	        with open(sys.argv[1], "a") as f:
	            print(self.path, self.headers["X-Token"], file=f)
	        self.send_response(200)
	        self.end_headers()
	s = http.server.HTTPServer(("127.0.0.1", 0), H)
	print(s.server_port, flush=True)
	s.serve_forever()
	END
	python3 "$TMP/collector.py" "$TMP/posts" >"$TMP/collector.port" 2>/dev/null &
	collector=$!
	until_ok 10 test -s "$TMP/collector.port"
	echo 'X-Token: t0ken' >"$TMP/headers"
	cat >"$TMP/d.yaml" <<-END
	level: off
	rules:
	  - {match: {command: "$TMP/*"}, level: trace}
	metrics: {listen: "127.0.0.1:$port"}
	ctl: {socket: "$sock"}
	files: {directory: "$files", rotate_age: 1s, on_rotate: "(ulimit -n; cat /proc/self/status) >$TMP/command; test -s \"\$1\""}
	otlp: {endpoint: "http://localhost:$(cat "$TMP/collector.port")", headers_file: "$TMP/headers", interval: 1s}
	END
	(ulimit -Sn 1000; exec "$CUDATRACE" daemon --config "$TMP/d.yaml" "$@") >"$TMP/d.log" 2>&1 &
	tracer=$!
	until_ok 30 grep -q '^Seccomp:.2' /proc/$tracer/status || tail -3 "$TMP/d.log"
}
ask_daemon() { "$CUDATRACE" ctl --set ctl.socket="$sock" "$@"; }
runs_late() { cp "$FAKE/sample" "$FAKE/libcuda.so.1" "$TMP/late/" && LD_LIBRARY_PATH=$TMP/late "$TMP/late/sample" --tokens 2000 --layers 2 --quiet >/dev/null; }
daemons()
{
	local how port other collector sock files
	for how in session multi; do
		has_mechanism $how || continue
		daemon_sandboxed --mechanism $how
		# Without CAP_KILL, with CAP_CHOWN
		check "daemon: $how: capabilities" same "$(field CapEff) $(field CapPrm) $(field CapBnd) $(field CapAmb)" \
			'0000018010080005 0000018010080005 0000018010080005 0000000000000000'
		check "daemon: $how: no_new_privs, seccomp" same "$(field NoNewPrivs) $(field Seccomp)" '1 2'
		check "daemon: $how: a program whose library comes later" runs_late
		check "daemon: $how: cudatrace-read: capabilities, no_new_privs, seccomp" reader_is_small
		check "daemon: $how: metrics" until_ok 15 eval 'curl -sf --noproxy "*" -m 10 http://127.0.0.1:$port/metrics | grep -q "^cudatrace_calls_total.*cuLaunchKernel"'
		check "daemon: $how: on_rotate runs" until_ok 20 test -s "$TMP/command"
		check "daemon: $how: with the limits and rights of the start" same "$(sed -n '1p;/^\(NoNewPrivs\|Seccomp\):/p' "$TMP/command" | xargs)" \
			'1000 NoNewPrivs: 0 Seccomp: 0'
		check "daemon: $how: and takes the file" until_ok 20 compgen -G "$files/trace-*"
		check "daemon: $how: collector" until_ok 20 grep -q '/v1/metrics t0ken' "$TMP/posts"
		check "daemon: $how: ctl dump" ask_daemon dump
		sed -i "s/:$port/:$other/; s/^ctl: {/&group: nogroup, /" "$TMP/d.yaml"
		check "daemon: $how: reload" ask_daemon reload
		check "daemon: $how: reload: another port, another group" until_ok 10 eval 'curl -sf --noproxy "*" -m 10 http://127.0.0.1:$other/healthz &&
			[ "$(stat -c "%G %a" "$sock")" = "nogroup 660" ]'
		check "daemon: $how: is there" eval '! is_gone $tracer'
		kill -TERM $tracer
		ended $tracer
		check "daemon: $how: ends well" same $? 0
		kill $collector
		wait $collector 2>/dev/null
		rm -f "$TMP/command" "$TMP/posts" "$TMP/collector.port"
	done
}

# With perf events each probe is opened separately, also after the filter is on. Few functions, because closing takes long.
daemon_by_perf()
{
	local port other collector sock files
	has_mechanism perf || return
	daemon_sandboxed --mechanism perf --set trace.functions=cuLaunchKernel
	check 'daemon: perf: capabilities, no_new_privs, seccomp' same "$(field CapEff) $(field CapBnd) $(field NoNewPrivs) $(field Seccomp)" \
		'0000018010080005 0000018010080005 1 2'
	check 'daemon: perf: a program whose library comes later' runs_late
	check 'daemon: perf: that library is attached, its calls are counted' until_ok 15 eval \
		'ask_daemon status | jq -e "any(.libraries[]; .path == \"$TMP/late/libcuda.so.1\")" &&
		curl -sf --noproxy "*" -m 10 http://127.0.0.1:$port/metrics | grep "^cudatrace_calls_total.*command=\"sample\".*cuLaunchKernel" | grep -qv " 0$"'
	check 'daemon: perf: is there' eval '! is_gone $tracer'
	kill -TERM $tracer
	ended $tracer
	check 'daemon: perf: ends well' same $? 0
	kill $collector
	wait $collector 2>/dev/null
	rm -f "$TMP/command" "$TMP/posts" "$TMP/collector.port"
}

# Properties that a program inherits from its parent: they must be the same when traced.
started()
{
	(
		ulimit -Sn 1000
		ulimit -Sl 64
		umask 027
		trap '' USR1
		echo 300 >/proc/self/oom_score_adj
		exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
		exec nice -n 5 env -i "${BLOCK[@]}" A=b PATH="$PATH" "$@"
	) <&- >/dev/null 2>&1
}
as_started()
{
	${CC:-gcc} -O1 -w -o "$dir/attributes" tests/attributes.c || { skip 'what a command has from who starts it' 'no compiler'; return; }
	local BLOCK=() how
	env --block-signal=USR2 true 2>/dev/null && BLOCK=(--block-signal=USR2)
	started "$dir/attributes" "$TMP/plain"
	check 'a command starts as without us: what is compared' eval '! grep "^fd/0:" "$TMP/plain" && for l in "limit 7: 1000 " "limit 8: 65536 " \
		"status: Umask:.0027" "status: SigIgn:.*2..$" "status: SigBlk:" "status: CapBnd" "status: NoNewPrivs" "status: Seccomp:" "oom_score_adj: 300" \
		"fd/1: /dev/null" "environment: A=b" "nice 5"; do grep -q "^$l" "$TMP/plain" || { echo "no $l"; exit 1; }; done'
	for how in '' --no-sandbox '--mechanism perf' --kernel --stack --sched; do
		# shellcheck disable=SC2086 # words
		started "$CUDATRACE" -q -e init --jsonl /dev/null $how -- "$dir/attributes" "$TMP/traced"
		check "a command starts as without us: ${how:-as a rule}" diff "$TMP/plain" "$TMP/traced"
	done
	# The environment is the user's, so --user is compared with its environment.
	chmod 777 "$TMP"
	started setpriv --reuid=$nobody --regid=$nobody --groups=$nobody "$dir/attributes" "$TMP/plain-user"
	started "$CUDATRACE" -q -e init --jsonl /dev/null --user $nobody -- "$dir/attributes" "$TMP/traced-user"
	check '--user: starts as by setpriv' diff <(grep -v '^environment: \(HOME\|USER\|LOGNAME\)=' "$TMP/plain-user") \
		<(grep -v '^environment: \(HOME\|USER\|LOGNAME\)=' "$TMP/traced-user")
	chmod 700 "$TMP"
}

# Secrets that records must not contain: every string and every address of the program.
secrecy()
{
	ct --all --jsonl "$TMP/a.jsonl" --chrome "$TMP/a.json" -- "$CASES/modules"
	check 'secrecy: without it names are there' grep -q '"kernel":"' "$TMP/a.jsonl"
	n=$(grep -c '"symbol"' "$TMP/a.jsonl")
	ct --all --no-strings --jsonl "$TMP/b.jsonl" --chrome "$TMP/b.json" -- "$CASES/modules"
	check '--no-strings: as many calls' same "$(grep -c '"symbol"' "$TMP/b.jsonl")" "$n"
	check '--no-strings: no names of kernels, no files' same "$(tail -n +2 "$TMP/b.jsonl" | grep -cE '"kernel(_mangled)?":"[^0]|"(name|fname)":"[a-z_/]*(add|mul|\.cubin|\.ptx)')" 0
	check '--no-strings: numbers are there' grep -q '"size":[1-9]' <("$CUDATRACE" -q --no-strings --jsonl - -- "$FAKE/sample" --tokens 1 --layers 1 --quiet)
	check '--no-strings: the header says so' grep -q '"redacted":"strings"' <(head -n 1 "$TMP/b.jsonl")
	ct --all --no-args --jsonl "$TMP/b.jsonl" -- "$CASES/modules"
	check '--no-args: as many calls' same "$(grep -c '"symbol"' "$TMP/b.jsonl")" "$n"
	check '--no-args: no arguments and no meaning' same "$(grep '"symbol"' "$TMP/b.jsonl" | grep -vcE '"result":[0-9]+(,"error":"[A-Z_]+")?,"args":\{\}\}$')" 0
	check '--no-args: the header says so' grep -q '"redacted":"arguments"' <(head -n 1 "$TMP/b.jsonl")
	check '--no-args: the schema holds' tests/golden/schema_check.py "$TMP/b.jsonl"
}

ct() { "$CUDATRACE" -q "$@" >"$TMP/out" 2>"$TMP/err" || cat "$TMP/err"; }

hardened()
{
	local h s bin=$1 what=$2
	if [ ! -x "$bin" ]; then
		skip "hardening: $what" 'not built: make static'
		return
	fi
	h=$(readelf -hldW "$bin")
	s=$(nm "$bin")
	check "hardening: $what: PIE" grep -q 'DYN (' <<<"$h"
	check "hardening: $what: BIND_NOW and RELRO" same "$(grep -cE 'BIND_NOW|GNU_RELRO' <<<"$h")" 2
	check "hardening: $what: no executable stack" grep -qE 'GNU_STACK.*RW ' <<<"$h"
	check "hardening: $what: nothing writable is executable" same "$(grep -cE 'LOAD.*(RWE|WE)' <<<"$h")" 0
	check "hardening: $what: stack protector" grep -q __stack_chk_fail <<<"$s"
	check "hardening: $what: fortified functions" grep -qE '__(mem|str|snprintf|vsnprintf|read)[a-z]*_chk' <<<"$s"
}

# How often the string and the number are in the tracer's memory, including the ring: 0 or more.
in_memory()
{
	python3 tests/helpers/secret_in_memory.py "$1"
}
# leak WANT OPTION...
leak()
{
	local want=$1 got
	shift
	rm -f "$TMP/called" "$TMP/stay"
	mkfifo "$TMP/stay"
	"$CUDATRACE" -q --all --jsonl "$TMP/a.jsonl" "$@" -- python3 tests/helpers/secret.py "$TMP/called" <"$TMP/stay" 2>"$TMP/err" &
	tracer=$!
	exec 9>"$TMP/stay"
	until_ok 20 test -e "$TMP/called"
	# The ring is drained every 50 ms, and records that were read are still being processed.
	sleep 0.5
	got=$($LOOK $tracer)
	exec 9>&-
	wait $tracer
	[ "$got" = "$want" ] && holds "$TMP/a.jsonl" 'sym["cuModuleGetFunction"] == 52 and accounts()' || { echo "seen: $got, not $want"; return 1; }
}
# Bytes in the ring outside a record's own data: the padding of a capture to a multiple of 8.
filling()
{
	python3 tests/helpers/ring_filling.py "$1"
}
leaks()
{
	LOOK=in_memory
	check 'memory: strings and arguments are there' leak 'some some'
	check 'memory: --no-strings: no string ever gets there' leak 'none some' --no-strings
	check 'memory: --no-args: nothing ever gets there' leak 'none none' --no-args
	LOOK=filling
	check 'ring: nothing of a call before' leak 'True 0' --buffer-size 16M
}

messages()
{
	"$CUDATRACE" --jsonl $'/nowhere/\e[2J\a\n\xc2\x9b' -- true 2>"$TMP/err"
	check 'messages hold no control characters' same "$(controls "$TMP/err") $(grep -c '?' "$TMP/err")" '0 1'
	# Every string of a trace that is not from our own tables: names, commands, hosts, kernels.
	python3 tests/helpers/spoilt_trace.py >"$TMP/h.jsonl"
	"$CUDATRACE" report --full "$TMP/h.jsonl" >"$TMP/out" 2>"$TMP/err"
	check 'report: a hostile trace' same "$? $(grep -c . "$TMP/err")" '0 0'
	check 'report: what it says of it holds no control characters' same "$(controls "$TMP/out") $(grep -ac '?\[2J' "$TMP/out" | sed 's/[1-9].*/some/')" '0 some'
}
# Lines with a control character, including U+0080 to U+009F
controls() { LC_ALL=C grep -aPc '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]' "$1"; }

sandboxed
daemons
daemon_by_perf
privileges
reports_by_sudo
as_started
secrecy
leaks
hardened "$CUDATRACE" cudatrace
hardened "$O/cudatrace-static" cudatrace-static
messages
