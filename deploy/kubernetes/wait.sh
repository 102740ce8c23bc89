#!/usr/bin/env bash
# Waits until a job has ended. `kubectl wait` waits for one condition only, and a failed job never gets that of a complete one.
# Ends with 0 if the job is complete, and with 1 and the reason if it failed or if its pods cannot start.
#   wait.sh JOB [NAMESPACE]
set -euo pipefail

job=$1 namespace=${2:-sobench}
# The job of the run has a deadline, so that this loop ends.
while :; do
  ended=$(kubectl -n "$namespace" get job "$job" \
    -o jsonpath='{range .status.conditions[?(@.status=="True")]}{.type}{" "}{.message}{"\n"}{end}')
  case $'\n'$ended in
    *$'\n'Complete*) printf 'job %s is complete\n' "$job"; exit 0 ;;
    *$'\n'Failed*)
      printf 'error: job %s failed: %s\n' "$job" "$(sed -n 's/^Failed //p' <<<"$ended")" >&2
      printf 'hint: kubectl -n %s logs -l batch.kubernetes.io/job-name=%s --prefix --tail=20\n' "$namespace" "$job" >&2
      exit 1
      ;;
  esac
  stuck=$(kubectl -n "$namespace" get pods -l "batch.kubernetes.io/job-name=$job" -o jsonpath='{range .items[*]}{.metadata.name}{": "}{range .status.containerStatuses[*]}{.state.waiting.reason}{" "}{.state.waiting.message}{end}{"\n"}{end}' |
    grep -E ': (CreateContainerConfigError|InvalidImageName|ErrImageNeverPull|ImagePullBackOff)' || true)
  if [ -n "$stuck" ]; then
    printf 'error: pods of job %s cannot start:\n%s\n' "$job" "$stuck" >&2
    printf 'hint: create the missing secret or correct the image, then delete and create the job\n' >&2
    exit 1
  fi
  sleep 5
done
