#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The documents' statements about this tree. A folder of src/ may use only those that the table in docs/ARCHITECTURE.md allows. Tests in
# tables of promises must exist, and so must files and functions named in documents and comments. Every header must compile alone, so
# that the order of includes never matters.
# takes: 20
# traces nothing
set -u

if out=$(tools/check-layers.sh 2>&1); then
	echo 'ok layers'
else
	printf '%s\n' "$out"
	echo "not ok layers # $(grep -c . <<<"$out") includes against the table"
fi

# The check must fail: for an include, a libbpf call, and a file of a process in a wrong folder.
mkdir -p "$TMP/tree/tools" "$TMP/tree/docs" "$TMP/tree/src/record" "$TMP/tree/src/util" "$TMP/tree/bpf"
cp tools/check-layers.sh "$TMP/tree/tools/"
cp docs/ARCHITECTURE.md "$TMP/tree/docs/"
printf '#include "util/x.h"\nvoid f(void) { bpf_object__open("x"); }\n' >"$TMP/tree/src/record/bad.c"
printf '#include "record/x.h"\nint f(int pid) { snprintf(p, 9, "/proc/%%d/maps", pid); }\n' >"$TMP/tree/src/util/bad.c"
touch "$TMP/tree/src/util/x.h" "$TMP/tree/src/record/x.h"
out=$("$TMP/tree/tools/check-layers.sh" 2>&1)
if [ "$(grep -oE '^src/(record/bad.c:2: record/ may use libbpf|util/bad.c:1: util/ may not use record|util/bad.c:[12]: a target can)' <<<"$out" | wc -l)" = 3 ]; then
	echo 'ok layers: what is wrong is found'
else
	printf '%s\n' "$out"
	echo 'not ok layers: what is wrong is found # it is not'
fi

if out=$(tools/check-promises.py 2>&1); then
	echo 'ok promises'
else
	printf '%s\n' "$out"
	echo "not ok promises # $(grep -c . <<<"$out") without a test that is there"
fi
# The check must fail: for a row without a test, and for a missing check, suite and unit test.
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
if [ "$(tools/check-names.py "$TMP/bad.md" | grep -ci "$TMP/bad.md:1: .*none.* does not exist")" = 8 ]; then
	echo 'ok names: what is missing is found'
else
	tools/check-names.py "$TMP/bad.md"
	echo 'not ok names: what is missing is found # it is not, or what is there is not'
fi

if out=$(tools/check-words.py 2>&1); then
	echo 'ok words'
else
	printf '%s\n' "$out"
	echo "not ok words # $(grep -c . <<<"$out") that docs/GLOSSARY.md lists as not used"
fi
# Each row must cause a failure, in code and in a sentence, and alone.
sed -n '/^## Not used/,$s/^| `\([^`]*\)` .*/x \1, y/p' docs/GLOSSARY.md >"$TMP/bad.md"
if [ "$(tools/check-words.py "$TMP/bad.md" | grep -c "$TMP/bad.md:[0-9]*: write ")" = "$(grep -c . "$TMP/bad.md")" ] && [ -s "$TMP/bad.md" ]; then
	echo 'ok words: what is not used is found'
else
	echo 'not ok words: what is not used is found # it is not'
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
