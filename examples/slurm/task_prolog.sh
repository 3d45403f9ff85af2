#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# TaskProlog of slurm.conf: runs as the user before each task; Slurm adds the variables that it prints to the task's
# environment. Tasks of jobs that were submitted with `sbatch --export=ALL,CUDATRACE_JOB=1` (or `CUDATRACE_JOB=1 sbatch`)
# record their CUDA calls in-process, without root (docs/INJECT.md); other jobs are left alone.
library=/usr/local/lib/cudatrace/libcudatrace-inject.so

[ -n "$CUDATRACE_JOB" ] && [ -r "$library" ] || exit 0
# The working folder of the job: on a file system that all nodes share, with slurm-JOB.out.
folder=$PWD/slurm-$SLURM_JOB_ID.cudatrace
mkdir -p "$folder" || exit 0
echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}"
echo "export CUDATRACE_OUT=$folder/$SLURMD_NODENAME.$SLURM_STEP_ID.$SLURM_PROCID.jsonl"
