#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the report concludes about planted failures, on a machine with a GPU and nvcc, as root:
#   tests/gpu/failures.sh CUDATRACE FOLDER [WAY...]
# Ways: kernel, uprobe, inject: from the start; late, late-inject: attached to the running program; user: in-process, by a user
# without privileges. CASES: names of failures.cu; all by default. Prints a table: case, way, verdict, the first kernel, whether it
# is called certain, the parameter that leads to the memory, the memory at the address, the program's own message.
set -u
ct=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
cases=${CASES:-use_after_free past_end_4_bytes past_end_1_gib null_pointer misaligned stack_overflow traps asserts endless host_flag never_recorded out_of_memory none}
[ -x "$out/failures" ] || nvcc -arch=native -lineinfo -o "$out/failures" "$here/failures.cu" || exit 1
chmod 0711 "$out"
mkdir -p "$out/user"
chmod 0777 "$out/user"

# attached OPTIONS CASE TRACE
attached()
{
	local pid i
	timeout -s KILL 12 "$out/failures" "$2" 3 >"$3.said" 2>&1 &
	for ((i = 0; i < 100; i++)); do
		grep -q ready "$3.said" 2>/dev/null && break
		sleep 0.1
	done
	pid=$(pgrep -f -n "^$out/failures $2 3")
	# shellcheck disable=SC2086
	timeout -s KILL 30 "$ct" -q $1 --stack --duration 8 --jsonl "$3" -p "$pid" >"$3.log" 2>&1
	wait
}

# trace WAY CASE TRACE
trace()
{
	local how=(timeout -s KILL 30 "$ct" -q --stack --duration 4 --jsonl "$3") run=(timeout -s KILL 6 "$out/failures" "$2")
	case $1 in
	kernel) "${how[@]}" --probe=uprobe --kernel -- "${run[@]}" ;;
	uprobe) "${how[@]}" --probe=uprobe -- "${run[@]}" ;;
	inject) "${how[@]}" --probe=inject -- "${run[@]}" ;;
	user) setpriv --reuid 65534 --regid 65534 --clear-groups "${how[@]}" -- "${run[@]}" ;;
	esac >"$3.said" 2>"$3.log"
}

row()
{
	local trace=$out/$2-$1.jsonl
	if [ "$1" = user ]; then trace=$out/user/$2.jsonl; fi
	rm -f "$trace" "$trace.said"
	case $1 in
	late) attached --probe=uprobe "$2" "$trace" ;;
	late-inject) attached --probe=inject "$2" "$trace" ;;
	*) trace "$1" "$2" "$trace" ;;
	esac
	# shellcheck disable=SC2016
	"$ct" report --json "$trace" 2>/dev/null | python3 -c '
import json, sys
case, way, said = sys.argv[1:]
report = json.loads(sys.stdin.read() or "{}")
rows = report.get("failure") or []
first = rows[0] if rows else {}
suspects = first.get("suspects") or [{}]
name = (suspects[0].get("kernel") or suspects[0].get("function") or "-").split("(")[0]
memory, link = first.get("memory") or {}, suspects[0].get("link", "")
with open(said, encoding="utf-8", errors="replace") as f:
    words = [line.split(": ")[1].split(";")[0] for line in f if line.startswith(case + ": ")]
print("| `%s` | %s | %s | %s | %s | %s %s | %s | %s |" % (case, way, first.get("kind", ""), name, first.get("certain", ""), link, suspects[0].get("parameter", ""), memory.get("state", ""),
                                                    *(words or ["(killed)"])))
print("    ", first.get("verdict", "")[:600])
' "$2" "$1" "$trace.said" >"$out/$2-$1.row" 2>&1
}

for way in ${*:-kernel uprobe inject}; do
	for which in $cases; do
		# Other processes on the GPU do not change a verdict.
		while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do wait -n; done
		row "$way" "$which" &
	done
	wait
	for which in $cases; do cat "$out/$which-$way.row"; done
done
