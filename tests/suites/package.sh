#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# `make deb`: lintian must report nothing, the contents of the package must work, and a rebuilt package must be identical.
# long
# takes: 150
# timeout: 1500
# cpus: 2
set -u
. tests/lib.sh

for t in dpkg-buildpackage dh lintian; do
	command -v $t >/dev/null || { skip 'package' "$t is not installed"; exit; }
done
is() { [ "$1" = "$2" ] || { echo "$1, not $2"; return 1; }; }

copy=$TMP/copy
mkdir "$copy" && git ls-files -z | tar --null -cT- | tar -xC "$copy" && git init -q "$copy" && git -C "$copy" add -A
made()
{
	DEBEMAIL=cudatrace@debian.org make -C "$copy" O=build deb >"$TMP/log" 2>&1 || { tail -5 "$TMP/log"; return 1; }
	cp "$copy"/build/deb/cudatrace_*.deb "$TMP/$1.deb"
}
check 'a package is made' made first
clean()
{
	lintian --fail-on error,warning "$copy"/build/deb/*.changes >"$TMP/lintian" 2>&1 || { head -5 "$TMP/lintian"; return 1; }
}
check 'lintian: no error, no warning' clean

dpkg-deb -x "$TMP/first.deb" "$TMP/root"
check 'the program runs' is "$("$TMP/root/usr/bin/cudatrace" --version | head -1)" "cudatrace $(sed -n 's/^VERSION := //p' Makefile)"
# The same places as with `make install PREFIX=/usr`, except those that differ in this release.
(cd "$TMP/root" && find . -type f | sed 's/\.gz$//; s|^\./lib/|./usr/lib/|; s/vendor-completions/site-functions/' | sort) >"$TMP/in-package"
make -s O="$O" PREFIX=/usr DESTDIR="$TMP/installed" install >/dev/null 2>&1
(cd "$TMP/installed" && find . -type f | sort) >"$TMP/in-install"
check 'it has what make install installs' is "$(comm -13 "$TMP/in-package" "$TMP/in-install")" ''
check 'and besides: its changelog, copyright and lintian override' is "$(comm -23 "$TMP/in-package" "$TMP/in-install" | tr '\n' ' ')" \
	'./usr/share/doc/cudatrace/changelog ./usr/share/doc/cudatrace/copyright ./usr/share/lintian/overrides/cudatrace '
needs_root() { [ "$(id -u)" = 0 ] || { skip "$1" 'needs root'; return 1; }; }
# Installed by the package manager into a private system: nothing is installed on this one.
installed()
{
	mkdir -p "$TMP/sys/var/lib/dpkg/info" "$TMP/sys/var/lib/dpkg/updates" && : >"$TMP/sys/var/lib/dpkg/status" || return 1
	dpkg --root="$TMP/sys" --force-depends --force-script-chrootless --no-triggers -i "$TMP/first.deb" >"$TMP/log" 2>&1 ||
		{ tail -3 "$TMP/log"; return 1; }
	is "$(dpkg-query --admindir="$TMP/sys/var/lib/dpkg" -W -f '${Status}' cudatrace)" 'install ok installed' &&
		[ -x "$TMP/sys/usr/bin/cudatrace" ] || return 1
	dpkg --root="$TMP/sys" --force-script-chrootless --no-triggers -P cudatrace >"$TMP/log" 2>&1 || { tail -3 "$TMP/log"; return 1; }
	is "$(find "$TMP/sys/usr" -type f | head -3)" ''
}
needs_root 'dpkg' && check 'dpkg installs and removes it' installed
check 'made again' made second
check 'and the same bytes' cmp "$TMP/first.deb" "$TMP/second.deb"
