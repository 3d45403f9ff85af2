#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Lists the C files that clang-format would change; with --fix changes them. Exit status 77: another version of
# clang-format is installed than the tree is formatted with. vmlinux/ and the .def tables are formatted by hand.
set -u
cd "$(dirname "$0")/.." || exit 1

fmt=${CLANG_FORMAT:-clang-format}
command -v "$fmt" >/dev/null || { echo "$fmt is not installed; run: tools/install-deps.sh check" >&2; exit 77; }
"$fmt" --version | grep -q 'version 14\.' || exit 77

# Include new files that are not committed yet.
mapfile -t files < <(git ls-files -co --exclude-standard -- '*.c' '*.cc' '*.h' ':!vmlinux' | sort -u |
	while read -r f; do [ -f "$f" ] && echo "$f"; done)
[ ${#files[@]} -gt 0 ] || { echo 'no files: not a git checkout?' >&2; exit 77; }

if [ "${1-}" = --fix ]; then
	exec "$fmt" -i "${files[@]}"
fi
out=$("$fmt" --dry-run -Werror "${files[@]}" 2>&1) && exit 0
# One line for each place, "FILE:LINE:COL: error: code should be clang-formatted".
grep -a 'clang-formatted' <<<"$out" | cut -d: -f1,2 | head -40
exit 1
