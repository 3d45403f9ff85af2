#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Runs SQL with DuckDB: an object of names and queries on stdin, one of names and rows on stdout; an error's text in
# place of the rows.
#
# The npm package goes to $O/duckdb/, at a fixed version, and stays there; nothing of it runs while it is installed.
# Exit status 77, with one line that says why, where it cannot be had.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(realpath -m "${O:-build}")/duckdb
package=@duckdb/node-api@1.5.6-r.1

cannot() { echo "duckdb: $*" >&2; exit 77; }
command -v npm >/dev/null && command -v node >/dev/null || cannot 'npm is not installed'
mkdir -p "$dir" || exit 1
if [ "$(cat "$dir/package" 2>/dev/null)" != "$package" ]; then
	(cd "$dir" && echo '{"private": true, "type": "module"}' >package.json &&
		timeout 120 npm install --silent --fetch-retries=1 --fetch-retry-maxtimeout=5000 --fetch-timeout=60000 --no-audit --no-fund --ignore-scripts --no-save "$package" >npm.log 2>&1) ||
		cannot "npm cannot fetch $package"
	echo "$package" >"$dir/package"
fi
cp tests/queries/duckdb.mjs "$dir/" && cd "$OLDPWD" && exec node "$dir/duckdb.mjs"
