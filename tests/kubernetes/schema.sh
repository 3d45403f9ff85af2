#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Checks manifests against the API of Kubernetes (and of the Prometheus operator), as generated into the npm packages
# kubernetes-models: by their JSON schemas, and, for keys that there are not, by their types.
#
#	tests/kubernetes/schema.sh MANIFEST.json...        one object each
#
# The packages go to $O/kubernetes/, at fixed versions, and stay there; nothing of them runs while they are installed.
# Exit status 77, with one line that says why, where they cannot be had.
set -u
cd "$(dirname "$0")/../.." || exit 1
dir=$(realpath -m "${O:-build}")/kubernetes
packages='kubernetes-models@5.1.0 @kubernetes-models/prometheus-operator@6.0.0 typescript@5.9.3'

cannot() { echo "schema: $*" >&2; exit 77; }
command -v npm >/dev/null && command -v node >/dev/null || cannot 'npm is not installed'
mkdir -p "$dir" || exit 1
if [ "$(cat "$dir/packages" 2>/dev/null)" != "$packages" ]; then
	# shellcheck disable=SC2086
	(cd "$dir" && echo '{"private": true, "type": "module"}' >package.json &&
		timeout 120 npm install --silent --fetch-retries=1 --fetch-retry-maxtimeout=5000 --fetch-timeout=60000 --no-audit --no-fund --ignore-scripts --no-save $packages >npm.log 2>&1) ||
		cannot "npm cannot fetch $packages"
	echo "$packages" >"$dir/packages"
fi
cp tests/kubernetes/schema.mjs "$dir/" && cd "$OLDPWD" && exec node "$dir/schema.mjs" "$@"
