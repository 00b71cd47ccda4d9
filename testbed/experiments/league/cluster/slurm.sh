#!/bin/sh
# The league as an array job of Slurm, one part a task (docs/league.md):
#
#   sbatch testbed/experiments/league/cluster/slurm.sh
#   evenkeel-testbed league --merge results/league/part-* --out results/league
#
# evenkeel-testbed is in PATH; the directory is one that all machines share. For fewer or more
# parts change --array alone. Arguments go to every part: sbatch slurm.sh --seeds 20
#SBATCH --job-name=league
#SBATCH --array=1-16
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=2G
#SBATCH --time=01:00:00
set -eu
part=$SLURM_ARRAY_TASK_ID
evenkeel-testbed league "$@" --shard "$part/$SLURM_ARRAY_TASK_COUNT" \
    --jobs "$SLURM_CPUS_PER_TASK" --out "results/league/part-$part"
