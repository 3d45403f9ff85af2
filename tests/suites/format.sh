#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The C style (.clang-format), scripts that parse, licence tags.
# takes: 20
# traces nothing
set -u

tools/check-format.sh
case $? in
0) echo 'ok format' ;;
77) echo 'skip format # needs clang-format 14: other versions differ in details' ;;
*) echo 'not ok format # run: make format' ;;
esac

files() { git ls-files -co --exclude-standard -- "$@" 2>/dev/null || find . -name "${1##*/}" -not -path './build/*'; }

bad=0
while read -r f; do
	[ -f "$f" ] && ! bash -n "$f" && bad=$((bad + 1))
done < <(files '*.sh'; echo .ci/run)
[ $bad -eq 0 ] && echo 'ok scripts parse' || echo "not ok scripts parse # $bad do not"

bad=0
while read -r f; do
	[ -f "$f" ] || continue
	head -3 "$f" | grep -q 'SPDX-License-Identifier: ' || { echo "$f: no SPDX-License-Identifier"; bad=$((bad + 1)); }
done < <(files '*.[ch]' '*.S' '*.sh' '*.def' '*.section' '*.py')
[ $bad -eq 0 ] && echo 'ok licence tags' || echo "not ok licence tags # $bad files have none"
