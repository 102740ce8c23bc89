#!/usr/bin/env bash
# Runs sobench, holds the run against a baseline, and writes what a pull request should say. Needs bash 5.1 and sobench, and knows no CI.
#
#   gate.sh [--baseline FILE] [--write-baseline FILE] [--fail-on RULE]... [--require RULE]... [--undecided pass|fail] [--runs N]
#           [--server COMMAND] [--server-url URL] [--results FOLDER] -- ARGUMENTS OF SOBENCH...
#
# Environment: SOBENCH is the program (default: sobench on the PATH).
# Writes into FOLDER: runs/*.jsonl (run logs), comment.md, and what sobench and the server printed.
# Exit codes are sobench's: 0 passed; 1 a rule was broken; 2 wrong input; 3 a run did not take place; 4 not comparable; 5 a rule was not decided
# (--undecided pass makes it 0, fail 1); 130 interrupted.
set -euo pipefail

sobench=${SOBENCH:-sobench}
baseline='' written='' server='' url=http://127.0.0.1:8000 runs=1 folder=sobench-results
fail_on=() require=() compare=()

# The worse of two exit codes: undecided (5) ranks between passed and failed.
rank() { case $1 in 0) echo 0 ;; 5) echo 1 ;; *) echo $(($1 + 1)) ;; esac; }
worse() { if [ "$(rank "$1")" -ge "$(rank "$2")" ]; then echo "$1"; else echo "$2"; fi; }
# Whether a run was complete, so that the next step can follow.
goes_on() { [ "$(rank "$1")" -le "$(rank 1)" ]; }

fail() { printf 'error: %s\nhint: %s\n' "$2" "$3" >&2; exit "$1"; }
refuse() { fail 2 "$@"; }

while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --baseline | --write-baseline | --fail-on | --require | --undecided | --runs | --server | --server-url | --results) ;;
    *) refuse "no such option: $1" "arguments of sobench come after --" ;;
  esac
  [ -n "${2:-}" ] || refuse "no value for $1" "give it one, or leave it out"
  case $1 in
    --baseline) baseline=$2 ;;
    --write-baseline) written=$2 ;;
    --fail-on) fail_on+=(--fail-on "$2") ;;
    --require) require+=(--require "$2") ;;
    --undecided) compare+=(--undecided "$2") ;;
    --runs) runs=$2 ;;
    --server) server=$2 ;;
    --server-url) url=$2 ;;
    --results) folder=$2 ;;
  esac
  shift 2
done
[ $# -eq 0 ] || shift
arguments=("$@")
for argument in ${arguments[@]+"${arguments[@]}"}; do
  case ${argument//_/-} in
    --disable-tqdm | --run-log | --run-log=* | --no-run-log)
      refuse "$argument is not for the runs of a gate" "leave it out: logs and pages are in the folder of --results" ;;
  esac
done

[[ $runs =~ ^[1-9][0-9]{0,2}$ ]] || refuse "runs is no number from 1 to 999: $runs" "--runs 5 makes five runs of the same requests"
[ -z "$baseline" ] || [ -f "$baseline" ] || refuse "no baseline at $baseline" "make one with --write-baseline, and commit it"
[ -n "$baseline$written" ] || [ ${#fail_on[@]} -eq 0 ] || refuse "rules of --fail-on need a baseline" "give --baseline, or --require alone"
command -v "$sobench" >/dev/null || refuse "no program $sobench" "install sobench, or name it in the variable SOBENCH"

mkdir -p "$folder/runs" 2>/dev/null || fail 3 "no folder can be made at $folder/runs" "name one in --results that can be written to"
[ -z "$written" ] || mkdir -p "$(dirname "$written")" 2>/dev/null || fail 3 "no folder can be made for $written" "name another file in --write-baseline"
[ -z "$(ls -A "$folder/runs")" ] || refuse "$folder/runs has runs already" "name a new folder in --results"

# Ends the run. A signal that comes before the program has started can be lost, so it is sent again.
end_run() {
  while kill -TERM "$run_pid" 2>/dev/null; do
    for ((tenth = 0; tenth < 300; tenth++)); do
      kill -0 "$run_pid" 2>/dev/null || break
      sleep 0.1
    done
  done
  wait "$run_pid" || true
}

# Ends what was started, the run first, and waits until it is gone. The server has a process group of its own, so that its workers go with it.
server_pid='' run_pid=''
# shellcheck disable=SC2317,SC2329  # the trap calls it
tidy_up() {
  trap - EXIT
  [ -z "$run_pid" ] || end_run
  if [ -n "$server_pid" ]; then
    kill -TERM -- "-$server_pid" 2>/dev/null || true
    for ((tenth = 0; tenth < 300; tenth++)); do
      kill -0 -- "-$server_pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL -- "-$server_pid" 2>/dev/null || true
  fi
  wait 2>/dev/null || true
}
trap tidy_up EXIT
trap 'exit 130' INT TERM HUP

if [ -n "$server" ]; then
  set -m
  bash -c "$server" >"$folder/server.log" 2>&1 &
  server_pid=$!
  set +m
  arguments+=(--base-url "$url" --ready-check-timeout-sec 1800)
fi

# One run; its exit code. A server that ends before the run does takes it along: nobody is left to wait for.
run_once() {
  local log=$1 code=0 ended=''
  shift
  "$sobench" "${arguments[@]}" --disable-tqdm --run-log "$log" --save "$folder/run.md" "$@" >"$folder/run.txt" 2>"$folder/run.err" &
  run_pid=$!
  wait -n -p ended "$run_pid" ${server_pid:+"$server_pid"} || code=$?
  if [ "$ended" != "$run_pid" ]; then
    end_run
    {
      printf 'error: the server ended before the run did, with status %s\n' "$code"
      printf 'hint: read its log: %s\n' "$folder/server.log"
    } >>"$folder/run.err"
    # Not for the comment: a server may print its key.
    tail -n 20 "$folder/server.log" >&2
    server_pid='' code=3
  fi
  run_pid=''
  return "$code"
}

# Bounds of the run itself are checked beside the baseline where there is one, over all runs.
bounds=()
[ -n "$baseline" ] || [ ${#require[@]} -eq 0 ] || bounds=("${require[@]}" ${compare[@]+"${compare[@]}"})
code=0
for ((run = 1; run <= runs; run++)); do
  goes_on "$code" || break
  once=0
  run_once "$folder/runs/$(printf %03d "$run").jsonl" ${bounds[@]+"${bounds[@]}"} || once=$?
  cat "$folder/run.err" >&2
  code=$(worse "$code" "$once")
done

if goes_on "$code" && [ -n "$written" ]; then
  kept=0
  "$sobench" compare "$folder/runs" --write-baseline "$written" >/dev/null 2>"$folder/baseline.err" || kept=$?
  tee -a "$folder/run.err" <"$folder/baseline.err" >&2
  code=$(worse "$code" "$kept")
fi
of_run=$code
if goes_on "$code" && [ -n "$baseline" ]; then
  [ ${#fail_on[@]} -gt 0 ] || fail_on=(--gate)
  held=0
  "$sobench" compare "$baseline" "$folder/runs" "${fail_on[@]}" ${require[@]+"${require[@]}"} ${compare[@]+"${compare[@]}"} \
    --format markdown >"$folder/compare.md" 2>"$folder/compare.err" || held=$?
  cat "$folder/compare.err" >&2
  code=$(worse "$code" "$held")
fi

case $code in
  0) verdict=passed ;;
  1)
    verdict='failed: a rule was broken'
    ! grep -q '^gate failed: partial run' "$folder/compare.err" 2>/dev/null || verdict='failed: a run ended early'
    ;;
  2) verdict='not done: wrong input' ;;
  3) verdict='not done, or not to the end' ;;
  4) verdict='not comparable with the baseline' ;;
  5) verdict='undecided: a rule needs more requests or runs' ;;
  *) verdict="interrupted (exit code $code)" ;;
esac

# What was held against nothing has passed nothing.
if [ "$code$baseline" = 0 ] && [ ${#require[@]} -eq 0 ] && [ "${arguments[0]:-}" != accept ]; then
  verdict='done, with no baseline and no bound to hold it against'
  [ -z "$written" ] || verdict='the baseline was written'
fi
[ "$code" != 1 ] || [ "$of_run" != 1 ] || verdict='failed: a bound was not kept, or the client is not trusted'
[ "$code" != 1 ] || [ "${arguments[0]:-}" != accept ] || verdict='failed: a rule is not met'

# What was said on stderr, in a block that its own words cannot end.
# shellcheck disable=SC2016  # those are backticks of Markdown
quoted() { [ ! -s "$1" ] || { printf '\n````text\n'; tail -n 30 "$1" | sed 's/````/` ` ` `/g'; printf '````\n'; }; }
# The answers that lead a page, and the page behind a fold.
page=$folder/compare.md
[ -s "$page" ] || page=$folder/run.md
folded() { [ ! -s "$2" ] || { printf '\n<details><summary>%s</summary>\n\n' "$1"; cat "$2"; printf '\n</details>\n'; }; }
{
  printf '### sobench: %s\n\n' "$verdict"
  [ ! -s "$page" ] || grep -E '^- \*\*[a-z]+\?\*\* ' "$page" || true
  [ "$of_run" = 0 ] || quoted "$folder/run.err"
  quoted "$folder/compare.err"
  folded 'The comparison' "$folder/compare.md"
  folded 'The last run' "$folder/run.md"
} >"$folder/comment.md"
printf 'sobench: %s\n' "$verdict" >&2
exit "$code"
