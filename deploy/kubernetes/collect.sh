#!/usr/bin/env bash
# Copies the run logs of `deploy/kubernetes/collect` out of the pods as they end, and merges them here.
#   collect.sh SHARDS RESULTS [NAMESPACE]
set -euo pipefail

shards=$1 results=$2 namespace=${3:-sobench}
mkdir -p "$results"
logs=()
for ((index = 0; index < shards; index++)); do
  log=$results/shard-$index.jsonl
  logs+=("$log")
  selector=batch.kubernetes.io/job-name=sobench,batch.kubernetes.io/job-completion-index=$index
  pod=$(kubectl -n "$namespace" get pods -l "$selector" -o jsonpath='{.items[*].metadata.name}')
  while :; do
    state=$(kubectl -n "$namespace" get pod "$pod" -o jsonpath='{.status.phase}{range .status.containerStatuses[?(@.name=="sobench")].state}/{.terminated.reason}/{.waiting.reason}{end}')
    case $state in
      */CreateContainerConfigError | */InvalidImageName | */ErrImageNeverPull | */ImagePullBackOff)
        printf 'error: %s cannot start: %s\nhint: kubectl -n %s describe pod %s\n' "$pod" "${state##*/}" "$namespace" "$pod" >&2
        exit 1
        ;;
      Failed* | Succeeded*) printf 'warning: %s is gone, and the log of shard %s with it\n' "$pod" "$index" >&2; break ;;
      Running/?*/)
        kubectl -n "$namespace" cp -c keeper "$pod:/results/run-1/shard-$index.jsonl" "$log" ||
          printf 'warning: %s has no log\n' "$pod" >&2
        kubectl -n "$namespace" exec -c keeper "$pod" -- touch /results/collected
        break
        ;;
    esac
    sleep 5
  done
done
exec "${SOBENCH:-sobench}" merge --allow-missing "${logs[@]}" --output "$results/run.jsonl"
