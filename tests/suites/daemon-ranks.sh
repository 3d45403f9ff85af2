#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon must report while a rank of NCCL is missing in a collective, and when it has arrived.
# takes: 25
set -u
. tests/lib.sh
needs_tracing daemon-ranks
command -v curl >/dev/null || { skip daemon-ranks 'needs curl'; exit 0; }
. tests/daemon.sh

cp "$FAKE/libnccl.so.2" "$lib/"
${CC:-gcc} -O1 -w -D_GNU_SOURCE -o "$TMP/ranks" tests/nccl/ranks.c -ldl -lpthread
rules trace >"$TMP/ranks.yaml"
start ranks || exit 0
mkfifo "$TMP/go"
LD_LIBRARY_PATH=$lib "$TMP/ranks" 2 5 late=1:16000 begin <"$TMP/go" >"$TMP/pids" &
ranks=$!
exec 5>"$TMP/go"
# Calls made before a process's level is known are counted, but have no line.
both() { [ "$(wc -l <"$TMP/pids")" = 2 ] && while read -r pid; do knows "$pid" || return; done <"$TMP/pids"; }
check 'the daemon knows the ranks' until_ok 20 both
exec 5>&-
waits='collective 1 (all_reduce) of communicator 0x[0-9a-f]* waits for [0-9.]* s: begun by rank 0, not by rank 1'
check 'a hanging collective is said, with who is in it and who is not' until_ok 15 grep -q "$waits" "$log"
check 'and where each of them is' until_ok 5 grep -q 'rank 1 of 0x[0-9a-f]* (process [0-9]*): thread [0-9]* waits in .* < case_sleep_ms+0x[0-9a-f]* < be_rank+' "$log"
check 'while it hangs' kill -0 $ranks
check 'and that all have begun it' until_ok 15 grep -q 'collective 1 of communicator 0x[0-9a-f]* has begun on all ranks' "$log"
# Of two ranks, which have made one or more collectives each by now.
counted() { get "$url/metrics" >"$TMP/metrics" && grep -q "^cudatrace_collective$1{.*op=\"all_reduce\"} $2\$" "$TMP/metrics"; }
check 'metrics: collectives by operation' until_ok 10 counted s_total '[2-9]'
check 'metrics: their bytes' counted _bytes_total '[1-9][0-9]*'
check 'metrics: the time in them' counted _host_seconds_total '[0-9.e-]*[1-9][0-9.e-]*'
kill -KILL $ranks
wait $ranks 2>/dev/null
finish
written() { zstd -qdc "$files"/*.zst | grep -q '"type":"tracer","op":"hang","name":"nccl"'; }
check 'it is in the files, too' written
in_files() { zstd -qdc "$files"/*.zst | grep '"type":"stack"' | grep -q '"symbol":"case_sleep_ms+'; }
check 'so are the stacks' in_files
