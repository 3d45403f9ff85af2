#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Epilog of slurm.conf: runs as root on each node when a job has ended. The job's first node makes one report of all
# ranks (docs/MACHINES.md), as the user: slurm-JOB.cudatrace.md beside slurm-JOB.out, of the traces in
# slurm-JOB.cudatrace/. `sacct -o JobID,WorkDir` shows the folder.
cudatrace=/usr/local/bin/cudatrace

first=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}" | head -n 1)
[ "$SLURMD_NODENAME" = "$first" ] || exit 0
folder=$SLURM_JOB_WORK_DIR/slurm-$SLURM_JOB_ID.cudatrace
as_user() { setpriv --reuid "$SLURM_JOB_UID" --regid "$SLURM_JOB_GID" --init-groups "$@"; }
as_user test -d "$folder" || exit 0

# Collectors end within a second after the programs. An epilog must not take long, and must not fail: a node whose
# epilog fails is drained.
sleep 2
as_user timeout 60 "$cudatrace" report -q --format=markdown -o "$folder.md" "$folder"
exit 0
