#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Other results of make: installed files, the static binary, the BPF programs for arm64, a build without git, the demo.
# takes: 60
# longer
set -u
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL MFLAGS SUDO_UID SUDO_GID

is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }
makes() { building "$@" >"$TMP/make.log" 2>&1 || { tail -5 "$TMP/make.log"; return 1; }; }
below() { (cd "$1" && find . ! -type d | sort); }

install_it()
{
	local root=$TMP/root share=$TMP/root/usr/share f
	mkdir -p "$root/usr/share/doc/other"
	: >"$root/usr/share/doc/other/file"
	check 'install' makes install PREFIX=/usr DESTDIR="$root"
	check 'install: the program' is "$(stat -c %a "$root/usr/bin/cudatrace") $("$root/usr/bin/cudatrace" --version)" "755 $("$CUDATRACE" --version)"
	check 'install: the program works' is "$("$root/usr/bin/cudatrace" list --json -e cuInit | jq -r '.[].symbol')" cuInit
	for f in man/man1/cudatrace.1 bash-completion/completions/cudatrace zsh/site-functions/_cudatrace \
		fish/vendor_completions.d/cudatrace.fish doc/cudatrace/LICENSE doc/cudatrace/README.md doc/cudatrace/SCHEMA.md \
		doc/cudatrace/measured/calls.md; do
		check "install: $f" is "$(stat -c '%a %F' "$share/$f")" '644 regular file'
	done
	check 'install: the man page is of this version' grep -q "^\.TH CUDATRACE 1 .*$("$CUDATRACE" --version)" "$share/man/man1/cudatrace.1"
	if command -v groff >/dev/null && groff -man -z /dev/null 2>/dev/null; then
		check 'install: the man page is shown' eval 'groff -man -Tutf8 "$share/man/man1/cudatrace.1" | sed "s/.\x08//g" | grep -q "EXIT STATUS"'
	elif command -v mandoc >/dev/null; then
		check 'install: the man page is shown' eval 'mandoc "$share/man/man1/cudatrace.1" | sed "s/.\x08//g" | grep -q "EXIT STATUS"'
	else
		skip 'install: the man page is shown' 'neither groff nor mandoc is installed'
	fi
	check 'install: bash completes' is "$(bash -c '. "$1"; complete -p cudatrace' sh "$share/bash-completion/completions/cudatrace")" \
		'complete -F _cudatrace cudatrace'
	check 'install: twice' makes install PREFIX=/usr DESTDIR="$root"
	check 'uninstall' makes uninstall PREFIX=/usr DESTDIR="$root"
	check 'uninstall: leaves nothing of ours' is "$(below "$root")" ./usr/share/doc/other/file
	check 'uninstall: not even the folder' test ! -e "$share/doc/cudatrace"
	check 'install: a path with blanks' makes install PREFIX=/opt DESTDIR="$TMP/a b"
	check 'install: a path with blanks: the program' test -x "$TMP/a b/opt/bin/cudatrace"
	check 'uninstall: a path with blanks' makes uninstall PREFIX=/opt DESTDIR="$TMP/a b"
	check 'uninstall: a path with blanks: leaves nothing' is "$(below "$TMP/a b")" ''
}

static()
{
	local bin=$O/cudatrace-static root=$TMP/alone
	check 'static: builds' makes static
	[ -x "$bin" ] || return
	if readelf -lW "$bin" 2>/dev/null | grep -q INTERP; then fail 'static: no interpreter' "$(readelf -lW "$bin" | grep INTERP)"; else pass 'static: no interpreter'; fi
	check 'static: no libraries' is "$(readelf -dW "$bin" | grep -c NEEDED)" 0
	check 'static: of the same version' is "$("$bin" --version)" "$("$CUDATRACE" --version)"
	check 'static: lists the same' is "$("$bin" list --json | md5sum)" "$("$CUDATRACE" list --json | md5sum)"
	[ "$(id -u)" = 0 ] || { skip 'static: alone' 'needs root'; return; }
	mkdir -p "$root/proc" "$root/sys" "$root/dev"
	cp "$bin" "$root/cudatrace"
	check 'static: in an empty folder' is "$(chroot "$root" /cudatrace --version)" "$("$CUDATRACE" --version)"
	check 'static: in an empty folder: list' is "$(chroot "$root" /cudatrace list --names | md5sum)" "$("$CUDATRACE" list --names | md5sum)"
	# Without /proc the machine cannot be checked, but the command must end.
	check 'static: in an empty folder: check' is "$(chroot "$root" /cudatrace check --json 2>"$TMP/err" | jq -r type) $(cat "$TMP/err")" 'object '
	unshare -m true 2>/dev/null || { skip 'static: traces' 'needs mount namespaces'; return; }
	cat >"$TMP/inside" <<-'END'
	root=$1
	shift
	mount --rbind /proc "$root/proc" && mount --rbind /sys "$root/sys" || exit 99
	exec chroot "$root" "$@"
	END
	check 'static: in an empty folder, with /proc and /sys: check' is \
		"$(unshare -m sh "$TMP/inside" "$root" /cudatrace check | tail -1 | cut -c 1-19)" "$("$CUDATRACE" check | tail -1 | cut -c 1-19)"
}

static_traces()
{
	local bin=$O/cudatrace-static root=$TMP/alone pid
	needs_tracing 'static: traces'
	LD_LIBRARY_PATH=$FAKE "$bin" -q -e "$ALL" --jsonl "$TMP/static.jsonl" --chrome "$TMP/static.json" -- "$FAKE/sample" --tokens 2 --counts >"$TMP/counts" 2>"$TMP/err"
	check 'static: traces: status' is "$? $(cat "$TMP/err")" '0 '
	check 'static: traces' holds "$TMP/static.jsonl" \
		'len(calls) > 300 and {k: int(v) for k, v in (l.split() for l in open(f) if l.startswith("cu"))} == collections.Counter(c["symbol"] for c in calls if "parent" not in c) and accounts()' f="$TMP/counts"
	check 'static: kernel names are demangled' holds "$TMP/static.jsonl" 'any(c.get("kernel") == "matmul(float const*, float const*, float*, int)" for c in calls)'
	# In an otherwise empty container, traces a process outside.
	FAKE_DELAY_US=cuStreamSynchronize:10000 LD_LIBRARY_PATH=$FAKE "$FAKE/sample" --tokens 1000000 --quiet >/dev/null &
	pid=$!
	until_ok 5 grep -q libcuda /proc/$pid/maps
	unshare -m sh "$TMP/inside" "$root" /cudatrace -q -e launch --duration 0.5 --jsonl /trace.jsonl -p $pid 2>"$TMP/err"
	check 'static: traces a process from an empty folder: status' is "$? $(cat "$TMP/err")" '0 '
	kill $pid
	wait $pid 2>/dev/null
	check 'static: traces a process from an empty folder' holds "$root/trace.jsonl" 'calls and end["reason"] == "duration" and accounts()'
}

others()
{
	local want t
	make help >"$TMP/help" 2>&1
	for t in all static demo check bench install uninstall deps bpf-arm64; do
		check "make help: $t" grep -Eq "^ +$t  +[a-z]" "$TMP/help"
	done
	want=$(sed -n 's/^\([a-z][a-z0-9-]*\):.*##.*/\1/p' Makefile | wc -l)
	check 'make help: all documented targets' is "$(wc -l <"$TMP/help")" "$want"
	check 'make help: 100 columns' is "$(awk 'length > 100' "$TMP/help")" ''
}

# Rebuilt
others_long()
{
	local t src
	check 'arm64: the BPF side compiles' makes bpf-arm64
	check 'arm64: it is BPF with BTF' eval 'readelf -hW "$O/arm64/cudatrace.bpf.o" | grep -q BPF && readelf -SW "$O/arm64/cudatrace.bpf.o" | grep -q "\.BTF\.ext"'

	# The files that git tracks, without git, like a release's archive, with local changes.
	src=$TMP/src
	mkdir "$src"
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -z --cached --others --exclude-standard -- Makefile dist src include bpf inject nvml nvtx vmlinux tools tests/fake tests/cases tests/fuzz tests/inject |
			while IFS= read -r -d '' t; do [ -e "$t" ] && printf '%s\0' "$t"; done | tar cf - --null -T - | tar xf - -C "$src"
	else
		cp -r Makefile dist src include bpf inject nvml nvtx vmlinux tools tests "$src/"
	fi
	if (cd "$src" && env -u O GIT_CEILING_DIRECTORIES="$TMP" GIT_DIR=/nowhere make -j2 OPT=-O0 >"$TMP/make.log" 2>&1); then
		pass 'without git: builds'
		check 'without git: version' grep -Eqx 'cudatrace [0-9]+\.[0-9]+\.[0-9]+' <("$src/build/cudatrace" --version)
		check 'without git: no warnings' is "$(grep -i -m 3 warning "$TMP/make.log")" ''
		check 'nothing to do the second time' is "$(cd "$src" && env -u O GIT_DIR=/nowhere make OPT=-O0 | grep -c '^  [A-Z]')" 0
	else
		fail 'without git: builds' "$(grep -m 3 -i error "$TMP/make.log")"
	fi
}

demo()
{
	local dir=$TMP/demo
	needs_tracing demo
	# The demo writes to traces/ in its working folder; tools/demo.sh changes to the folder above its own.
	mkdir -p "$dir/tools"
	cp tools/demo.sh "$dir/tools/"
	(cd "$dir" && O=$O timeout 60 tools/demo.sh) >"$TMP/demo.log" 2>&1
	check 'demo: status' is $? 0
	check 'demo: prints the summary' grep -Eq '^sample: .* [0-9,]+ CUDA calls, 1 failed, complete' "$TMP/demo.log"
	check 'demo: says where the JSON lines are' grep -q '^JSON lines    traces/demo.jsonl' "$TMP/demo.log"
	check 'demo: says where the Chrome trace is' grep -q '^Chrome trace  traces/demo.json' "$TMP/demo.log"
	check 'demo: the JSON lines' holds "$dir/traces/demo.jsonl" 'len(calls) > 1000 and {"kernel", "memory", "transfer", "graph", "stream", "event", "sync", "module"} <= {c["type"] for c in calls} and accounts()'
	check 'demo: the Chrome trace' jq -e 'length > 1000' "$dir/traces/demo.json"
	# The commands that it proposes must work.
	sed -n '/^Try:/,$p' "$TMP/demo.log" | sed 1d >"$TMP/try"
	check 'demo: proposes something' test "$(grep -c jq "$TMP/try")" -ge 3
	while IFS= read -r line; do
		# head may exit before jq has written everything.
		check "demo: ${line# *}" test -n "$(cd "$dir" && bash -c "$line" 2>"$TMP/err")" -a -z "$(grep -v 'Broken pipe' "$TMP/err")"
	done <"$TMP/try"
}

if [ "$LONG" = 1 ]; then
	others_long
	exit
fi
install_it
static
others
static_traces
demo
