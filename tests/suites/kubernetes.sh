#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The image and the manifests must agree, the API must accept them, and the daemon must trace with exactly the DaemonSet's rights. There
# is no cluster here: tests/kubernetes/pod.py simulates a container runtime.
# takes: 120
# uses: cgroups
set -u
. tests/lib.sh
. tests/containers.sh

python3 tests/helpers/imports.py yaml 2>/dev/null || { skip kubernetes 'needs python3-yaml'; exit 0; }
same() { [ "$1" = "$2" ] || { printf '%s\n' "not as expected" "$1" "not:" "$2"; return 1; }; }
field() { python3 tests/kubernetes/manifests.py field "$1"; }

manifests()
{
	local out overlay
	check 'manifests agree with each other, the image and the systemd unit' python3 tests/kubernetes/manifests.py agree
	check 'daemon.yaml is a configuration' "$CUDATRACE" daemon --check-config --config dist/kubernetes/base/daemon.yaml
	mkdir "$TMP/json"
	python3 tests/kubernetes/manifests.py json "$TMP/json"
	out=$(tests/kubernetes/schema.sh "$TMP"/json/*.json 2>&1)
	case $? in
	0) pass 'schema: the API knows all of it' ;;
	77) skip 'schema: the API knows all of it' "$out" ;;
	*) fail 'schema: the API knows all of it' "$out" ;;
	esac
	if [[ $out != schema:* ]]; then
		jq '.spec.template.spec.hostPid = true' "$TMP/json/daemonset.json" >"$TMP/typo.json"
		check 'schema: a key that there is not is found' sh -c '! tests/kubernetes/schema.sh "$1"' sh "$TMP/typo.json"
	fi
	command -v kubectl >/dev/null || { skip 'kustomize' 'kubectl is not installed'; return; }
	check 'kustomize: the configuration is in it' same "$(kubectl kustomize dist/kubernetes/base | sed -n '/^  daemon.yaml/,/^kind/p' | sed '1d;$d;s/^    //')" \
		"$(cat dist/kubernetes/base/daemon.yaml)"
	overlay=$(kubectl kustomize dist/kubernetes/before-linux-6.6 | sed -n '/capabilities:/,/drop:/p' | sed -n 's/^ *- //p')
	check 'kustomize: before Linux 6.6, SYS_ADMIN too' same "$overlay" "$(field securityContext.capabilities.add)"$'\nSYS_ADMIN'
}
manifests

needs_tracing image
building static >"$TMP/make.log" 2>&1 || { fail 'image: the static binary' "$(tail -5 "$TMP/make.log")"; exit; }
check 'image: its file system' dist/container/rootfs.sh "$TMP/rootfs"
check 'image: one program' same "$(find "$TMP/rootfs" -type f -perm /111)" "$TMP/rootfs/cudatrace"
make_containers || { skip pod "$why"; exit 0; }

# Three containers that each need a capability: a libcuda that only the container has, one that only its owner may read, and one that is
# deleted while in use.
id_private=$(hash private) id_deleted=$(hash deleted)
cgroup[private]=/kubepods/besteffort/pod${uid_k3s%3}4/$id_private
cgroup[deleted]=/kubepods/besteffort/pod${uid_k3s%3}5/$id_deleted
cgroup[cudatrace]=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${uid_k3s//-/_}.slice/cri-containerd-$(hash cudatrace).scope
for name in private deleted cudatrace; do make_cgroup "$cgroup_root${cgroup[$name]}" || fail "$name: its cgroup"; done
own='mount -t tmpfs -o mode=755 none "$root/lib"; cp "'"$TMP/driver/libcuda.so.1"'" "$root/lib/"; cp -r "'"$TMP/image/lib/."'" "$root/lib/"'
enter private "$own"'; chmod 700 "$root/lib/libcuda.so.1"; chown 12345:12345 "$root/lib/libcuda.so.1"' 12345
enter deleted "$own" 0
# In the daemon's own image /var/run is not a link, and its namespace differs from theirs.
mkdir -p "$TMP/rootfs/run/secrets/kubernetes.io/serviceaccount"
printf cudatrace >"$TMP/rootfs/run/secrets/kubernetes.io/serviceaccount/namespace"

# pod [CAPABILITY]: runs the daemon like the DaemonSet, without one capability; $pod is its pid
pod()
{
	rm -rf "$TMP/node/var/lib/cudatrace"
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec unshare --mount --net --uts --ipc --cgroup python3 tests/kubernetes/pod.py "$@"' sh \
		"$cgroup_root${cgroup[cudatrace]}" "$TMP/rootfs" "$TMP/node" "$@" >"$TMP/pod.log" 2>&1 &
	pod=$!
	until_ok 10 eval 'scrape healthz || is_gone $pod'
	! is_gone $pod
}
end_pod() { kill -TERM $pod; ended $pod; }
# The view of the kubelet and Prometheus, in its network namespace.
scrape() { nsenter --net --target $pod python3 tests/helpers/fetch.py "http://127.0.0.1:9464/$1"; }
# Like kubectl exec.
ctl() { nsenter --all --root --wd=/ --target $pod /cudatrace ctl "$@" 2>&1; }
# seen: the containers whose allocations are counted, and the total
seen()
{
	local name id
	scrape metrics >"$TMP/metrics"
	for name in docker private deleted; do
		id=id_$name
		grep -q "^cudatrace_calls_total{namespace=\"[a-z]*\",pod=\"[^\"]*\",container=\"${!id}\",command=\"ct-caller\",function=\"cuMemAlloc_v2\".* 10$" "$TMP/metrics" && printf '%s ' $name
	done
}
use() { for name in docker private deleted; do ask "c_$name" alloc 10 >/dev/null; done; }

for name in docker private deleted; do
	CALLER=$TMP/$name/caller caller "c_$name" && ask "c_$name" open /lib/libcuda.so.1 >/dev/null && ask "c_$name" init >/dev/null
	check "$name: runs" same "$(ask "c_$name" alloc 1)" 1
done
for p in $(<"$cgroup_root${cgroup[deleted]}/cgroup.procs"); do rm -f "/proc/$p/root/lib/libcuda.so.1"; done

# box COMMAND: it must print something, or write a file.
box()
{
	PATH=$TMP/bin:$PATH bash -o pipefail -c "$1" >"$TMP/box" 2>&1 || { cat "$TMP/box"; return 1; }
	[[ -s $TMP/box || $1 == *'>vllm'* ]] || { echo 'says nothing'; return 1; }
}
# Runs the page's commands that read traces, on the trace of a program that decodes with graphs in three threads.
questions()
{
	local line n=0
	mkdir "$TMP/bin"
	ln -s "$CUDATRACE" "$TMP/bin/cudatrace"
	cd "$TMP/node/var/lib/cudatrace" || return
	while IFS= read -r line; do
		n=$((n + 1))
		check "docs: ${line:0:70}" box "$line"
	done < <(sed -n '/^```sh$/,/^```$/p' "$OLDPWD/docs/KUBERNETES.md" | grep -v '^```')
	check 'docs: there are such boxes' [ $n -ge 10 ]
	# "... 714 kernel launches, 24 graph launches"; some launches are captured
	check 'docs: graph launches are those of the sample' same "$(jq '[.graphs.list[].launches] | add' vllm.json) graph launches" \
		"$(grep -o '[0-9]* graph launches' "$TMP/said")"
	check 'docs: so are all launches' same "$(jq -s '[.[] | select(.type == "kernel" and .op == "launch")] | length' vllm.jsonl) kernel launches" \
		"$(grep -o '[0-9]* kernel launches' "$TMP/said")"
	check 'docs: of one container alone' same "$(jq -r 'select(.symbol) | .comm + " " + .pod' vllm.jsonl | sort -u)" 'ct-sample vllm-0'
	cd "$OLDPWD" || return
}

if pod; then
	pass 'pod: starts, with five capabilities and a read-only root'
	use
	check 'pod: traces containers' same "$(seen)" 'docker private deleted '
	mask=$(python3 tests/kubernetes/manifests.py mask)
	# After the start only cudatrace-links has PERFMON.
	has=$(printf '%016x' $((16#$mask & ~(1 << 38))))
	check 'pod: its capabilities are those, and it can get no others' same "$(awk '/^(CapPrm|CapEff|CapBnd|NoNewPrivs)/ { print $2 }' /proc/$pod/status | xargs)" \
		"$has $has $mask 1"
	check 'pod: cannot write to its root' sh -c '! touch /proc/$1/root/x 2>/dev/null' sh $pod
	# The daemon also reports libraries of other suites.
	said=$(grep -v -e 'tracing by' -e 'no libcuda found' "$TMP/pod.log" | awk -v mine="$TMP/" '!/\/lib[a-z]+\.so/ || index($0, mine)')
	check 'pod: said nothing but that it traces' same "$said" ''
	check 'pod: ctl, as by kubectl exec' same "$(ctl status | jq -r '.level')" metrics
	"$TMP/containerd/sample" --quiet --tokens 4 >/dev/null
	"$TMP/k3s/sample" --quiet --tokens 4 >/dev/null
	scrape metrics >"$TMP/metrics"
	check 'pod: names from the node'\''s disk' grep -q '^cudatrace_launches_total{namespace="llm",pod="vllm-0",container="vllm",command="ct-sample"' "$TMP/metrics"
	check 'pod: names from the container, not from its own' grep -q "^cudatrace_launches_total{namespace=\"batch\",pod=\"train-0\",container=\"$id_k3s\",command=\"ct-sample\"" "$TMP/metrics"
	ctl level "$(ctl status | jq '.processes[] | select(.container_id == "'"$id_docker"'") | .pid')" trace >/dev/null
	use
	ctl level '*ct-sample*' trace >/dev/null
	"$TMP/containerd/sample" --threads 3 --tokens 10 --layers 4 >"$TMP/said" 2>&1
	"$TMP/crio/sample" --quiet >/dev/null
	sleep 0.2
	end_pod
	check 'pod: traces are on the node' eval '[ "$(zstd -dcq "$TMP"/node/var/lib/cudatrace/trace-*.zst | grep -c "\"symbol\":\"cuMemAlloc_v2\".*\"container\":\"$id_docker\"")" = 10 ]'
	questions
else
	fail 'pod: starts, with five capabilities and a read-only root' "$(tail -3 "$TMP/pod.log")"
fi

# Each capability must be needed: without it, the loss in docs/KUBERNETES.md occurs.
without()
{
	if pod "$1"; then use; check "without $1: $2" same "$(seen)" "$3"; end_pod; else check "without $1: $2" same 'no start' "$3"; fi
}
without BPF 'it does not start' 'no start'
without PERFMON 'it does not start' 'no start'
without SYS_PTRACE 'containers are not looked into' ''
without DAC_READ_SEARCH 'not where only the owner may read libcuda' 'docker deleted '
without CHECKPOINT_RESTORE 'not where libcuda was deleted' 'docker private '
for name in docker private deleted; do quit "c_$name"; done
