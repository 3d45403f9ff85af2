#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Includes: a folder of src/ uses only those that the table in docs/ARCHITECTURE.md allows it, and every
# header compiles alone, so that the order of includes never matters.
set -u

if out=$(tools/check-layers.sh 2>&1); then
	echo 'ok layers'
else
	printf '%s\n' "$out"
	echo "not ok layers # $(grep -c . <<<"$out") includes against the table"
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
