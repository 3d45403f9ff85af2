#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Creates the file system of the image in a new folder. Run it in the top folder of a source tree after `make static`:
#
#	dist/container/rootfs.sh DIR
set -eu

root=${1:?usage: rootfs.sh DIR}
build=${O:-build}

# The Debian packages that are linked into the static binary.
linked='libc6-dev libstdc++6 libbpf-dev libelf-dev zlib1g-dev libzstd-dev libyaml-dev libevent-dev libseccomp-dev libncurses-dev libiberty-dev
	rapidjson-dev'

mkdir "$root"
install -D -m 755 "$build/cudatrace-static" "$root/cudatrace"
install -D -m 644 dist/daemon.yaml "$root/etc/cudatrace/daemon.yaml"
install -D -m 644 -t "$root/licenses/cudatrace" LICENSE LICENSES/* src/report/page/html/vendor/uPlot.LICENSE
for package in $linked; do
	install -D -m 644 "/usr/share/doc/$package/copyright" "$root/licenses/$package"
done
# Mount points: the image is read-only.
for dir in proc sys dev tmp run/cudatrace var/lib/cudatrace var/log/pods var/log/containers; do
	mkdir -p "$root/$dir"
done
