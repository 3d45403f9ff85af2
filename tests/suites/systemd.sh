#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The unit of dist/ under a real systemd, this machine's own, as the first process of a virtual machine. It must start, trace, reload,
# restart after a kill or a hang, stop in time, and stay within its memory limit.
# timeout: 900
# takes: 90
# long
# beside the others
set -u
. tests/lib.sh

LIMIT=840 tests/vm/systemd.sh >"$TMP/out" 2>"$TMP/err"
rc=$?
[ $rc -ne 77 ] || { skip systemd "$(tail -1 "$TMP/err")"; exit 0; }
sed -E 's/^(ok|not ok) /&systemd: /' "$TMP/out"
check 'systemd: ran to the end' [ $rc -eq 0 ]
[ $rc -eq 0 ] || cat "$TMP/err"
