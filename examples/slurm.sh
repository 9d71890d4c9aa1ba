#!/bin/bash
# A sweep as a Slurm job array, in a folder that all nodes share:
#
#   sbatch examples/slurm.sh examples/bandwidth.toml        # prints the number of the array
#   sbatch --dependency=afterany:NUMBER --wrap "netsim sweep examples/bandwidth.toml --merge"
#
# A shard that was killed, or ran out of time, resumes when it is submitted again: sbatch --array=3,7 examples/slurm.sh ...
#SBATCH --job-name=netsim
#SBATCH --array=1-16
#SBATCH --cpus-per-task=2
#SBATCH --mem-per-cpu=2G
#SBATCH --time=04:00:00
#SBATCH --output=slurm-%A-%a.out
set -euo pipefail
SHARDS=16      # the length of the whole array; SLURM_ARRAY_TASK_COUNT is smaller if only some shards are submitted

# source .venv/bin/activate      # or: module load python
netsim sweep "$1" --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --workers "${SLURM_CPUS_PER_TASK:-1}"
