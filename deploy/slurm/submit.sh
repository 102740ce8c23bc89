#!/usr/bin/env bash
# Submits a run as an array of shards, and a job that merges their logs when all of them have ended.
#   submit.sh SHARDS RESULTS ARGUMENTS OF SOBENCH...
# RESULTS is a folder that all nodes see. SBATCH_PARTITION, SBATCH_ACCOUNT and their like are Slurm's own variables, and hold here.
set -euo pipefail

[ $# -ge 3 ] || { printf 'error: too few arguments\nhint: submit.sh 4 /shared/results --base-url http://gpu01:8000 --dataset json\n' >&2; exit 2; }
shards=$1 results=$2
shift 2
[[ $shards =~ ^[1-9][0-9]*$ ]] || { printf 'error: the number of shards is none: %s\n' "$shards" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$results"
results=$(cd "$results" && pwd)

array=$(sbatch --parsable --array="1-$shards" --output="$results/%A-shard-%a.out" "$here/shards.sbatch" "$results" "$@")
array=${array%%;*}
merge=$(sbatch --parsable --dependency="afterany:$array" --output="$results/$array-merge.out" \
  "$here/merge.sbatch" "$results/$array" "$shards")
printf 'shards: %s, merge: %s, results: %s\n' "$array" "${merge%%;*}" "$results/$array"
