#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# safety.sh CUDATRACE [OLDER]: checks that tracing does not change a program, on a machine with an NVIDIA GPU, PyTorch and nvcc, as root.
# OLDER: another build, for comparison. Run it in the repository's folder.
set -u
ct=$(realpath "$1") older=${2:+$(realpath "$2")}
tmp=$(mktemp -d) && trap 'rm -rf "$tmp"' EXIT
chmod 777 "$tmp"
nvcc -arch=native -o "$tmp/faults" tests/corpus/faults.cu || exit 1
title() { printf '\n== %s\n' "$*"; }
end_of() { tail -n 1 "$1" | python3 -c '
import json, sys
end = json.loads(sys.stdin.read())
print("  end:", end["reason"], "entries", end.get("entries"), {k: v for k, v in end["drops"].items() if v}, {k: v for k, v in end.items() if k.startswith("python")})'; }

title "Nsight Compute as a command, root"
CUDATRACE=$ct timeout 150 sh tests/gpu/ncu_nsys.sh "$tmp/faults" none 2>&1 | cut -c1-200
title "Nsight Compute as a command, another user"
(cd "$tmp" && cp "$ct" ct && chmod 755 ct && setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$tmp" timeout 60 \
	./ct --no-summary --jsonl n.jsonl -- ncu --launch-count 1 ./faults none 2>&1 | grep -E 'ERROR|cudatrace|Duration' | head -5
grep -c '"symbol":"cu' n.jsonl)

title "A fork after cuInit: the child cannot use CUDA, the parent is traced"
for probe in uprobe inject; do
	"$ct" -q --no-summary --probe=$probe --jsonl "$tmp/f.jsonl" -- python3 -c "
import torch, os
torch.zeros(1, device='cuda')
pid = os.fork()
if pid == 0:
    try:
        torch.zeros(1, device='cuda')
    except RuntimeError as e:
        print('child:', str(e).splitlines()[0][:60])
    os._exit(0)
os.wait()
torch.zeros(1, device='cuda'); print('parent: fine')"
	echo "$probe: status $?"
	end_of "$tmp/f.jsonl"
done

title "Python names of a program that ends at once: 300 functions"
cat >"$tmp/names.py" <<'EOF'
import os, torch
x = torch.zeros(4, device="cuda")
fns = {}
for i in range(300):
    exec(f"def only_here_{i}(x):\n    x.add_(1)\n", fns)
for i in range(300):
    fns[f"only_here_{i}"](x)
os._exit(0)
EOF
for build in "$ct" $older; do
	"$build" -q --no-summary --python=launch --jsonl "$tmp/e.jsonl" -- python3 "$tmp/names.py"
	echo "$("$build" --version): $(grep -o 'only_here_[0-9]*' "$tmp/e.jsonl" | sort -u | wc -l) names"
	end_of "$tmp/e.jsonl"
done

title "SIGTERM: a checkpoint that takes four seconds"
cat >"$tmp/stop.py" <<'EOF'
import signal, sys, time, torch
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
x = torch.zeros(4, device="cuda")
open(sys.argv[1] + "/ready", "w").close()
while not stop:
    x.add_(1); torch.cuda.synchronize(); time.sleep(.01)
time.sleep(4)
x.add_(1); torch.cuda.synchronize()
open(sys.argv[1] + "/checkpoint", "w").write("saved")
sys.exit(5)
EOF
for probe in uprobe inject; do
	rm -f "$tmp/ready" "$tmp/checkpoint"
	"$ct" -q --no-summary --probe=$probe --jsonl "$tmp/s.jsonl" -- python3 "$tmp/stop.py" "$tmp" &
	pid=$!
	while [ ! -e "$tmp/ready" ]; do sleep 0.1; done
	kill -TERM $pid
	wait $pid
	echo "$probe: status $?, checkpoint $(cat "$tmp/checkpoint")"
	end_of "$tmp/s.jsonl"
done

title "GPT-2 untraced, in-process, by uprobes, milliseconds per token"
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
for round in 1 2; do
	echo "untraced $(python3 tests/gpu/gpt2.py --tokens 50 --rounds 4 | grep -o '"ms_per_token": [^]]*')"
	for build in "$ct" $older; do
		for probe in inject uprobe; do
			echo "$("$build" --version) $probe $("$build" -q --no-summary --probe=$probe --jsonl "$tmp/g.jsonl" -- \
				python3 tests/gpu/gpt2.py --tokens 50 --rounds 4 | grep -o '"ms_per_token": [^]]*')"
		done
	done
done
end_of "$tmp/g.jsonl"
