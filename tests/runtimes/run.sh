#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The daemon beside containers that Docker, Podman and containerd made, itself one of containerd's. Not part of
# `make check`: needs docker.io, podman, runc, containerd, busybox-static, zstd and root. Starts engines of its own; in a PID
# namespace of its own it disturbs nobody:
#
#   make static fake-all && sudo unshare -pf --mount-proc tests/runtimes/run.sh
#
# Prints a line for each runtime and ends with 0 when all of them were seen as they are. In one of Podman's a program is traced
# from within, too.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=$(realpath "${O:-build}")
T=$(mktemp -d)
port=39464
id3=$(date +%s%N | sha256sum | cut -c 1-64)
# Podman wants more than a shell may have.
limits=(--ulimit nofile=1024:1024 --ulimit nproc=4096:4096)
bad=0
docker() { command docker -H "unix://$T/docker.sock" "$@"; }
podman() { command podman --runtime runc --cgroup-manager=cgroupfs --storage-driver=vfs --root "$T/podman" --runroot "$T/podman.run" "$@"; }
ctr() { command ctr -a "$T/containerd.sock" -n k8s.io "$@"; }
until_ok() { for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
clean() {
	docker rm -f one >/dev/null 2>&1
	ctr task kill -s KILL "$id3" >/dev/null 2>&1
	ctr task kill cudatrace >/dev/null 2>&1
	podman rm -f two >/dev/null 2>&1
	kill $(jobs -p) 2>/dev/null
	wait
	grep -o "$T[^ ]*" /proc/self/mounts | sort -r | xargs -r umount -l
	rm -rf "$T"
}
trap clean EXIT

# What runs in each: the mock driver, a program that calls it, a shell.
image=$T/image
mkdir -p "$image"/{bin,cuda,lib64,lib/x86_64-linux-gnu,proc,sys,dev,tmp,etc}
chmod 1777 "$image/tmp"
cp -L /lib64/ld-linux-x86-64.so.2 "$image/lib64/"
cp -L /lib/x86_64-linux-gnu/{libc.so.6,libdl.so.2,libpthread.so.0,libm.so.6} "$image/lib/x86_64-linux-gnu/"
cp "$O/fake/libcuda.so.1" "$image/cuda/"
cp "$O/fake/sample" "$image/bin/"
cp /bin/busybox "$image/bin/sh"
cp "$O/cudatrace-static" "$image/bin/cudatrace"
# It stays for a while, so that somebody can ask who it is.
work='export LD_LIBRARY_PATH=/cuda; /bin/sample --tokens 100000 --quiet'

dockerd --iptables=false --ip6tables=false --bridge=none --data-root "$T/docker" --exec-root "$T/docker.exec" --pidfile "$T/docker.pid" \
	-H "unix://$T/docker.sock" --storage-driver=vfs >"$T/dockerd.log" 2>&1 &
containerd --root "$T/containerd" --state "$T/containerd.state" -a "$T/containerd.sock" >"$T/containerd.log" 2>&1 &
until_ok docker info && until_ok ctr version || { echo 'the engines do not start'; tail -3 "$T"/*.log; exit 1; }

# As dist/kubernetes/base/daemonset.yaml wants it, under containerd's default seccomp profile. Where Podman's and Docker's
# of Debian 12 refuse bpf() and do not know CAP_BPF: docs/KUBERNETES.md.
dist/container/rootfs.sh "$T/cudatrace" || exit 1
mkdir -p "$T/lib"
caps=(--cap-drop CAP_ALL)
for cap in BPF PERFMON SYS_PTRACE DAC_READ_SEARCH CHECKPOINT_RESTORE LEASE; do caps+=(--cap-add CAP_$cap); done
bind() { echo "type=bind,src=$1,dst=$2,options=rbind:${3-rw}"; }
ctr run --rm --rootfs --seccomp --read-only --net-host --with-ns pid:/proc/1/ns/pid "${caps[@]}" \
	--mount type=tmpfs,src=tmpfs,dst=/run/cudatrace --mount "$(bind "$T/lib" /var/lib/cudatrace)" \
	--mount "$(bind /sys/kernel/tracing /sys/kernel/tracing ro)" \
	"$T/cudatrace" cudatrace /cudatrace daemon --set metrics.listen=127.0.0.1:$port >"$T/daemon.log" 2>&1 &
metrics() { curl -sf --noproxy '*' -m 10 "http://127.0.0.1:$port/metrics"; }
until_ok metrics || { echo 'the daemon does not start'; cat "$T/daemon.log"; exit 1; }

tar -C "$image" -c . | docker import - work >/dev/null
id1=$(docker run -d --name one --network=none work /bin/sh -c "$work")
id2=$(podman run -d --name two --network=none "${limits[@]}" --rootfs "$image" /bin/sh -c "$work")
uid=8a1b2c3d-0001-4abc-9def-123456789abc
ctr run -d --rootfs --cgroup "/kubepods/burstable/pod$uid/$id3" "$image" "$id3" /bin/sh -c "$work" >"$T/ctr.log" 2>&1

status() { ctr task exec --exec-id "ask$RANDOM" cudatrace /cudatrace ctl status; }
counted() { metrics | grep -q "^cudatrace_launches_total{.*container=\"$1\",command=\"sample\"} [1-9]"; }
seen() {
	local want=$1 got
	got=$(status 2>/dev/null | jq -r --arg id "$2" '.processes[] | select(.container_id == $id) | "\(.comm) \(.runtime) \(.pod_uid)"')
	[ "$got" = "$want" ]
}
is() {
	if until_ok seen "$2" "$3" && until_ok counted "$4"; then
		echo "ok $1: $2"
	else
		echo "not ok $1: $2"
		status 2>/dev/null | jq -c '.processes[]'
		bad=1
	fi
}
is docker 'sample docker ' "$id1" "$id1"
is podman 'sample podman ' "$id2" "$id2"
is containerd "sample containerd $uid" "$id3" "$id3"

# Traced from within: no privilege, no file that can be written, a user whom nobody knows, Podman's default seccomp profile.
podman run --rm --name three --network=none --user 12345:12345 --cap-drop ALL --security-opt no-new-privileges --read-only "${limits[@]}" \
	--env LD_LIBRARY_PATH=/cuda --rootfs "$image" /bin/cudatrace -q --jsonl /dev/stdout -- /bin/sample --quiet >"$T/inside" 2>"$T/inside.err"
if [ "$(grep '^{' "$T/inside" | jq -r 'select(.type == "header").mechanism, (select(.type == "end") | .calls, .reason)' | xargs)" = 'inject 2504 command exited' ]; then
	echo 'ok podman: without privileges: from within the process'
else
	echo 'not ok podman: without privileges: from within the process'
	head -3 "$T/inside.err"
	tail -1 "$T/inside"
	bad=1
fi
[ $bad = 0 ] || { cat "$T/daemon.log" | tail -5; tail -2 "$T/ctr.log"; }
exit $bad
