#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Says which C files clang-format would change; with --fix changes them. Exit status 77: the clang-format here
# is not the version that the tree is formatted with. vmlinux/ is laid out by hand, and so are the .def tables.
set -u
cd "$(dirname "$0")/.." || exit 1

fmt=${CLANG_FORMAT:-clang-format}
command -v "$fmt" >/dev/null || { echo "$fmt is not installed; run: tools/install-deps.sh check" >&2; exit 77; }
"$fmt" --version | grep -q 'version 14\.' || exit 77

# New files count before they are committed.
mapfile -t files < <(git ls-files -co --exclude-standard -- '*.c' '*.cc' '*.h' ':!vmlinux' | sort -u |
	while read -r f; do [ -f "$f" ] && echo "$f"; done)
[ ${#files[@]} -gt 0 ] || { echo 'no files: not a git checkout?' >&2; exit 77; }

if [ "${1-}" = --fix ]; then
	exec "$fmt" -i "${files[@]}"
fi
out=$("$fmt" --dry-run -Werror "${files[@]}" 2>&1) && exit 0
# One line a place, "FILE:LINE:COL: error: code should be clang-formatted".
grep -a 'clang-formatted' <<<"$out" | cut -d: -f1,2 | head -40
exit 1
