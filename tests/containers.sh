# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2034 # who sources it uses them
#
# Containers without a container runtime: make_containers leaves, for each NAME, $TMP/NAME/caller and $TMP/NAME/sample,
# which run these programs in it (the mock driver's own counts are in $TMP/NAME/upper/out/), ${cgroup[NAME]}, $id_NAME, and
# $uid_NAME of pods. Returns 1 with $why where it cannot.
#
#   containerd, crio  pods, systemd driver; libcuda is a file of the image, whose layer they share with job
#   k3s               a pod, cgroupfs driver; libcuda is the driver's, mounted from the node
#   docker            a libcuda of its own
#   podman            another user, in a user namespace; the driver's libcuda
#   job               a cgroup that no runtime makes

# hash TEXT: what container ids look like. Another run at the same time has others.
hash() { printf '%s %d' "$1" $$ | sha256sum | cut -c 1-64; }

declare -A cgroup runtime
make_cgroups()
{
	local u
	for name in containerd crio k3s docker podman; do printf -v "id_$name" %s "$(hash "$name")"; done
	uid_containerd=8a1b2c3d-0001-4abc-9def-000000000001
	uid_crio=8a1b2c3d-0001-4abc-9def-000000000002
	uid_k3s=8a1b2c3d-0001-4abc-9def-000000000003
	u=${uid_containerd//-/_}
	cgroup[containerd]=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod$u.slice/cri-containerd-$id_containerd.scope
	cgroup[crio]=/kubepods.slice/kubepods-pod${uid_crio//-/_}.slice/crio-$id_crio.scope
	cgroup[k3s]=/kubepods/besteffort/pod$uid_k3s/$id_k3s
	cgroup[docker]=/system.slice/docker-$id_docker.scope
	cgroup[podman]=/machine.slice/libpod-$id_podman.scope/container
	cgroup[job]=/ct79.slice/batch/job-$$
	runtime=([containerd]=containerd [crio]=cri-o [k3s]=containerd [docker]=docker [podman]=podman [job]=)
	cgroup_root=$(findmnt -n -o TARGET -t cgroup2 | head -1)
	[ -n "$cgroup_root" ] || { why='no cgroup2 is mounted'; return 1; }
	trap remove_cgroups EXIT
	mkdir "$cgroup_root/ct79-$$" 2>/dev/null && rmdir "$cgroup_root/ct79-$$" || { why='cgroups cannot be made'; return 1; }
	for name in "${!cgroup[@]}"; do make_cgroup "$cgroup_root${cgroup[$name]}" || { why="no cgroup ${cgroup[$name]}"; return 1; }; done
}
# make_cgroup DIR: with its parents. Another run that removes empty ones may take a parent from under us.
make_cgroup()
{
	# Should we be killed: tests/runner/contain.py removes them.
	echo "$1" >>"$TMP/cgroups.made"
	until_ok 2 mkdir -p "$1"
}

# Only those that are empty go: others' stay.
remove_cgroups()
{
	local name dir pid
	for name in "${!cgroup[@]}"; do
		dir=$cgroup_root${cgroup[$name]}
		[ -d "$dir" ] || continue
		while read -r pid; do kill -9 "$pid"; done <"$dir/cgroup.procs"
		until_ok 5 rmdir "$dir"
		while dir=${dir%/*}; [ "$dir" != "$cgroup_root" ] && rmdir "$dir" 2>/dev/null; do :; done
	done
}

# The image: both programs, by names that nobody else's have, what they load, and a libcuda.
make_image()
{
	local so
	mkdir -p "$TMP/image/lib" "$TMP/driver"
	mkdir -m 1777 "$TMP/image/out"
	${CC:-gcc} -O1 -w -o "$TMP/image/ct-caller" tests/caller.c -ldl -lpthread || return 1
	cp "$FAKE/sample" "$TMP/image/ct-sample"
	for so in $(ldd "$TMP/image/ct-caller" "$TMP/image/ct-sample" | grep -oE ' /[^ ]+|^\s/[^ ]+' | sort -u); do
		mkdir -p "$TMP/image${so%/*}" && cp -L "$so" "$TMP/image$so" || return 1
	done
	cp "$FAKE/libcuda.so.1" "$TMP/image/lib/"
	cp "$FAKE/libcuda.so.1" "$TMP/driver/"
}

# cuInit takes long: the sample would be over before a busy machine's daemon has looked whose it is.
# enter NAME COMMAND USER: COMMAND mounts in the container's file system $root; USER as tests/contain.py has it
enter()
{
	local name=$1 mounts=$2 user=$3 program root=$TMP/$1/root
	mkdir -p "$TMP/$name/upper" "$TMP/$name/work" "$root"
	for program in caller sample; do
		cat >"$TMP/$name/$program" <<END
#!/bin/bash
echo \$\$ >'$cgroup_root${cgroup[$name]}/cgroup.procs' || exit 1
export LD_LIBRARY_PATH=/lib FAKE_CUDA_COUNTS=/out/$program FAKE_DELAY_US=cuInit:500000 root='$root'
exec unshare --mount --pid --fork --kill-child --uts --ipc --propagation private bash -c '
	mount -t overlay image -o lowerdir=$TMP/image,upperdir=$TMP/$name/upper,workdir=$TMP/$name/work "\$root" || exit 1
	hostname $name
	$mounts
	exec python3 "$PWD/tests/contain.py" "\$root" $user /ct-$program "\$@"' sh "\$@"
END
		chmod +x "$TMP/$name/$program"
	done
}

make_containers()
{
	make_cgroups && make_image || return 1
	setpriv --reuid 12345 --regid 12345 --clear-groups unshare --user true 2>/dev/null ||
		skip 'podman: a user namespace' 'users other than root may not make any'
	enter containerd : 0
	enter crio : 0
	enter k3s 'mount --bind "'"$TMP/driver/libcuda.so.1"'" "$root/lib/libcuda.so.1"' 0
	enter docker 'mount -t tmpfs none "$root/lib"; cp "'"$TMP/driver/libcuda.so.1"'" "$root/lib/"; cp -r "'"$TMP/image/lib/."'" "$root/lib/"' 0
	enter podman 'mount --bind "'"$TMP/driver/libcuda.so.1"'" "$root/lib/libcuda.so.1"' 12345+
	enter job : 0
	why="no overlay file systems here: $("$TMP/job/sample" --help 2>&1 | tail -1)"
	"$TMP/job/sample" --help >/dev/null 2>&1 || return 1

	# What the kubelet leaves on the node's disk; of the third pod nothing, but what is in the container.
	mkdir -p "$TMP/node/var/log/containers" "$TMP/node/var/log/pods/llm_vllm-1_$uid_crio/server"
	: >"$TMP/node/var/log/containers/vllm-0_llm_vllm-$id_containerd.log"
	mkdir -p "$TMP/k3s/upper/etc" "$TMP/k3s/upper/var" "$TMP/k3s/upper/run/secrets/kubernetes.io/serviceaccount"
	ln -s /run "$TMP/k3s/upper/var/run"
	echo train-0 >"$TMP/k3s/upper/etc/hostname"
	printf batch >"$TMP/k3s/upper/run/secrets/kubernetes.io/serviceaccount/namespace"
}
