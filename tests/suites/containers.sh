#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The daemon and hand-made containers: namespaces, cgroups with names as from container runtimes and the kubelet, private root file
# systems. The counts must match those that the programs print; labels and levels are checked for each.
# takes: 30
# uses: cgroups
set -u
. tests/lib.sh
. tests/containers.sh
needs_tracing containers
make_containers || { skip containers "$why"; exit 0; }

same() { [ "$1" = "$2" ] || { printf '%s\n' "not as expected" "$1" "not:" "$2"; return 1; }; }
port=$(python3 tests/helpers/ports.py 1)
sock=$TMP/ctl.sock files=$TMP/files
ctl() { timeout 10 "$CUDATRACE" ctl --set ctl.socket="$sock" "$@" </dev/null; }
# scrape PATH
scrape() { python3 tests/helpers/fetch.py "http://127.0.0.1:$port/$1"; }
# Other suites may trace and be traced on this machine.
libraries() { ctl status | jq --arg tmp "$TMP/" '[.libraries[].path | select(startswith($tmp) or . == "/lib/libcuda.so.1")] | length'; }
# of NAME FILTER: applies jq to the entry of a container's process in ctl's output
of() { ctl status | jq -r --arg cgroup "${cgroup[$1]}" '.processes[] | select(.cgroup == $cgroup and .comm == "ct-caller") | '"$2"; }

cat >"$TMP/c.yaml" <<END
level: off
rules:
  - match: {namespace: llm, container: vllm}
    level: trace
  - match: {pod: "vllm-*"}
    level: metrics
  - match: {pod: $uid_k3s}
    level: trace
  - match: {container: "${id_docker:0:12}*"}
    level: trace
  - match: {container: $id_podman, user: "12345"}
    level: metrics
  - match: {cgroup: "/ct79.slice/*"}
    level: trace
END
# The two existing libraries must be probed before any process uses them.
LD_LIBRARY_PATH=$TMP/image/lib CUDATRACE_HOST_ROOT=$TMP/node "$CUDATRACE" daemon --config "$TMP/c.yaml" --libcuda "$TMP/driver/libcuda.so.1" \
	--set trace.functions="$ALL" --set files.directory="$files" --set ctl.socket="$sock" --set metrics.listen=127.0.0.1:"$port" \
	>"$TMP/log" 2>&1 &
daemon=$!
until_ok 20 scrape healthz || { fail 'daemon starts' "$(tail -3 "$TMP/log")"; exit; }
before=$(libraries)

# name      namespace pod     container     level    allocations failures
expect="containerd  llm       vllm-0  vllm          trace    101         1
crio        llm       vllm-1  $id_crio      metrics  102         2
k3s         batch     train-0 $id_k3s       trace    103         3
docker      -         -       $id_docker    trace    104         4
podman      -         -       $id_podman    metrics  105         5
job         -         -       -             trace    106         6"

# each COMMAND: runs it with each container's values in variables
each()
{
	while read -r name namespace pod container level allocs fails; do
		namespace=${namespace#-} pod=${pod#-} container=${container#-}
		"$@"
	done <<<"$expect"
}

for name in containerd crio k3s docker podman job; do
	CALLER=$TMP/$name/caller caller "c_$name" || fail "$name starts" "$(cat "$TMP/c_$name.caller.err")"
	check "$name: opens its libcuda" same "$(ask "c_$name" open /lib/libcuda.so.1)" 1
done
# A container's own copy must be found while it is mapped.
check 'a library that only one container has is attached to' until_ok 5 eval '[ "$(libraries)" = $((before + 1)) ]'
use()
{
	ask "c_$name" init >/dev/null
	check "$name: allocates" same "$(ask "c_$name" alloc "$allocs")" "$allocs"
	check "$name: fails" same "$(ask "c_$name" fail "$fails")" "$fails"
}
each use
sleep 1.2

labels()
{
	local uid=uid_$name id=id_$name
	check "$name: names" same "$(of "$name" '[.namespace, .pod, .container] | join(" ")')" "$namespace $pod $container"
	check "$name: container, pod, runtime" same "$(of "$name" '[.container_id, .pod_uid, .runtime] | join(" ")')" \
		"${!id-} ${!uid-} ${runtime[$name]}"
	check "$name: level by its rule" same "$(of "$name" .level)" "$level"
}
each labels
check 'pid: the machine'\''s, not that of the namespace' eval 'grep -q ct-caller /proc/$(of docker .pid)/comm && [ "$(awk "/^NSpid/ { print \$NF }" /proc/$(of docker .pid)/status)" = 1 ]'

if setpriv --reuid 12345 --regid 12345 --clear-groups unshare --user true 2>/dev/null; then
	check 'podman: is in a user namespace' eval '[ "$(readlink /proc/$(of podman .pid)/ns/user)" != "$(readlink /proc/self/ns/user)" ]'
fi

# Every function of the sample must have the stand-in's count. Only for libraries that were probed before.
for name in containerd crio k3s podman job; do
	"$TMP/$name/sample" --quiet --tokens 7 --layers 3 >"$TMP/out" 2>&1 || fail "$name: sample runs" "$(cat "$TMP/out")"
done
sleep 1.2
scrape metrics >"$TMP/metrics"
counts()
{
	check "$name: metrics are those of what ran in it, and labelled" python3 tests/containers.py metrics "$TMP/metrics" \
		"$namespace" "$pod" "$container" "$allocs" "$fails" "$TMP/$name/upper/out/sample"
	echo "$(of "$name" .pid) $name $level $allocs $fails" "${namespace:--} ${pod:--} ${container:--}" >>"$TMP/traced"
}
each counts
check 'containers that share a file: it is attached to once' same "$(libraries)" $((before + 1))

# A rule that changes
sed -i '0,/level: trace/s//level: off/' "$TMP/c.yaml"
ctl reload >/dev/null
check 'reload: the rule of a namespace says off' same "$(of containerd .level)" off
ask c_containerd alloc 50 >/dev/null
ask c_crio alloc 50 >/dev/null
sleep 1.2
scrape metrics >"$TMP/metrics"
check 'reload: its calls are not counted any more' python3 tests/containers.py metrics "$TMP/metrics" llm vllm-0 vllm 101 1 "$TMP/containerd/upper/out/sample"
check 'reload: those of another container are' python3 tests/containers.py metrics "$TMP/metrics" llm vllm-1 "$id_crio" 152 2 "$TMP/crio/upper/out/sample"

# Containers that are destroyed while traced: their calls stay counted, with labels, and no other call is missed.
# allocs NAME: the number of allocations counted for this container
allocs()
{
	scrape metrics | awk -v name="$1" 'index($0, "cudatrace_calls_total{") && index($0, "container=\"" name) && /function="cuMemAlloc_v2"/ { n += $2 } END { print n + 0 }'
}
# again NAME: starts another process in this container; $again is its process id outside
again()
{
	CALLER=$TMP/$1/caller caller "r_$1" && [ "$(ask "r_$1" open /lib/libcuda.so.1)" = 1 ] && [ "$(ask "r_$1" init)" = 0 ] &&
		until_ok 10 is_other "$1"
}
is_other() { again=$(of "$1" .pid | grep -vx "${known[$1]}") && [ -n "$again" ]; }
declare -A known
for name in crio docker k3s; do known[$name]=$(of $name .pid); done
more() { [ "$(allocs "$1")" -gt "$2" ]; }
gone_from_ctl() { ! ctl status | jq -e ".processes[] | select(.pid == $1)"; }
# remove_cgroup DIR: moves its processes elsewhere first
remove_cgroup()
{
	local pid
	while read -r pid; do echo "$pid" >"$cgroup_root/cgroup.procs"; done <"$1/cgroup.procs"
	rmdir "$1"
}
removed()
{
	local was pid

	# The cgroup of a living process is removed: the process must keep its labels.
	again crio || { fail 'cgroup removed: a process'; return; }
	was=$(allocs "$id_crio")
	check 'cgroup removed: it is' until_ok 10 remove_cgroup "$cgroup_root${cgroup[crio]}"
	check 'cgroup removed: calls go on' same "$(ask r_crio alloc 70)" 70
	check 'cgroup removed: counted as before' until_ok 10 more "$id_crio" $((was + 69))
	mkdir "$cgroup_root${cgroup[crio]}"

	# First the library's file system is unmounted, then the whole root.
	again k3s || { fail 'unmounted: a process'; return; }
	check 'unmounted: it is' python3 tests/helpers/unmount_in.py "$again"
	check 'unmounted: calls go on' same "$(ask r_k3s alloc 70)" 70
	check 'unmounted: as before' same "$(ctl status | jq -r ".processes[] | select(.pid == $again) | .level")" trace

	# Killed in the middle of calls; cgroup and files are removed at once.
	again docker || { fail 'killed: a process'; return; }
	was=$(allocs "$id_docker")
	(ask r_docker threads 2 50000000 >/dev/null) &
	until_ok 10 more "$id_docker" $((was + 1000))
	while read -r pid; do kill -9 "$pid"; done <"$cgroup_root${cgroup[docker]}/cgroup.procs"
	check 'killed: its cgroup goes' until_ok 10 rmdir "$cgroup_root${cgroup[docker]}"
	rm -rf "$TMP/docker/upper"
	check 'killed: it is gone' until_ok 20 gone_from_ctl "$again"
	check 'killed: what it did stays counted' more "$id_docker" $((was + 999))
	check 'killed: its library is taken off' until_ok 10 eval 'ctl reload >/dev/null; [ "$(libraries)" = "$before" ]'
	check 'killed: others are counted' eval '[ "$(ask c_podman alloc 30)" = 30 ] && until_ok 10 more "$id_podman" 134'
	check 'the daemon is well' scrape healthz
}
removed

for name in containerd crio k3s docker podman job; do quit "c_$name"; done
for name in crio k3s docker; do quit "r_$name" 2>/dev/null; done
check 'processes that ended are gone' until_ok 5 eval '[ "$(ctl status | jq "[.processes[] | select(.comm == \"ct-caller\")] | length")" = 0 ]'
kill -TERM $daemon
wait $daemon
# Except messages about mounts, libraries and processes of other suites.
check 'nothing else was said' same "$(grep -v -e 'tracing by' -e 'flight recorder' -e 'configuration read' -e '(FUSE)' -e 'warning: collective ' -e 'warning: rank ' -e '/libnccl' -e 'is open for writing' -e 'not an ELF file' "$TMP/log")" ''
zstd -dcq "$files"/trace-*.zst >"$TMP/lines"
check 'files: each event has its container'\''s labels, and none is missing' python3 tests/containers.py lines "$TMP/lines" "$TMP/traced"
