#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the documents say of this tree: a folder of src/ uses only those that the table in docs/ARCHITECTURE.md allows it, and
# the tests that tables of promises name are there, as are files and functions that documents and comments name. Every header
# compiles alone, so that the order of includes never matters.
# takes: 20
# traces nothing
set -u

if out=$(tools/check-layers.sh 2>&1); then
	echo 'ok layers'
else
	printf '%s\n' "$out"
	echo "not ok layers # $(grep -c . <<<"$out") includes against the table"
fi

if out=$(tools/check-promises.py 2>&1); then
	echo 'ok promises'
else
	printf '%s\n' "$out"
	echo "not ok promises # $(grep -c . <<<"$out") without a test that is there"
fi
# It can fail: a row that names none, a check, a suite and a unit test that are not there.
printf '| promise | held by |\n|---|---|\n| a | by hand |\n| b | `format: no such check`, `99-none: x` |\n| c | `test_quota: none` |\n' >"$TMP/bad.md"
if [ "$(tools/check-promises.py "$TMP/bad.md" | grep -c "$TMP/bad.md:[345]: ")" = 4 ]; then
	echo 'ok promises: what is missing is found'
else
	echo 'not ok promises: what is missing is found # it is not'
fi

if out=$(tools/check-names.py 2>&1); then
	echo 'ok names'
else
	printf '%s\n' "$out"
	echo "not ok names # $(grep -c . <<<"$out") of files and functions that are not there"
fi
printf '`src/none.c`, `none.h`, `src/none/`, [x](none.md), `none__new()`, src/none, NONE.md, [y](#none); there: `src/main.c`, `out.h`, `src/*/out.c`, docs/USE.md\n' >"$TMP/bad.md"
if [ "$(tools/check-names.py "$TMP/bad.md" | grep -c "$TMP/bad.md:1: there is no .*none\|there is no NONE.md")" = 8 ]; then
	echo 'ok names: what is missing is found'
else
	tools/check-names.py "$TMP/bad.md"
	echo 'not ok names: what is missing is found # it is not, or what is there is not'
fi

CC=${CC:-gcc}
shopt -s globstar nullglob
for h in include/*.h src/**/*.h; do
	if out=$($CC -std=gnu11 -D_GNU_SOURCE= -Wall -Wextra -Werror -Isrc -Iinclude -I"$O" \
		-fsyntax-only -include "$h" -xc /dev/null 2>&1); then
		echo "ok alone: $h"
	else
		printf '%s\n' "$out" | head -5
		echo "not ok alone: $h # does not compile on its own"
	fi
done
