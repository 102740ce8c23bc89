#!/usr/bin/env bash
# Turns the inputs of the action, which are in the environment, into arguments of gate.sh. The gate's exit code goes to GITHUB_OUTPUT, so that
# the comment is written before the job fails by it.
set -euo pipefail

options=(--results "$RESULTS" --runs "$RUNS" ${UNDECIDED:+--undecided "$UNDECIDED"})
typed=()

# Appends the lines of $3 to the array named $1, each with the flag $2 before it where there is one. Blank lines are none.
each_line() {
  local -n into=$1
  local line
  while IFS= read -r line; do
    line=${line%$'\r'}
    [ -z "${line//[[:space:]]/}" ] || into+=(${2:+"$2"} "$line")
  done <<<"$3"
}

each_line options --fail-on "$FAIL_ON"
each_line options --require "$REQUIRE"
[ -z "$BASELINE" ] || options+=(--baseline "$BASELINE")
[ -z "$WRITE_BASELINE" ] || options+=(--write-baseline "$WRITE_BASELINE")
[ -z "${ACCEPT:-}" ] || typed+=(accept "$ACCEPT")
[ -z "$CONFIG" ] || typed+=(--config "$CONFIG")
each_line typed '' "$ARGUMENTS"
if [ -n "$SERVER_COMMAND" ]; then
  options+=(--server "$SERVER_COMMAND" ${BASE_URL:+--server-url "$BASE_URL"})
elif [ -n "$BASE_URL" ]; then
  typed+=(--base-url "$BASE_URL")
fi

code=0
"$(dirname "$0")/gate.sh" "${options[@]}" -- ${typed[@]+"${typed[@]}"} || code=$?
printf 'exit-code=%s\n' "$code" >>"$GITHUB_OUTPUT"
[ ! -f "$RESULTS/comment.md" ] || cat "$RESULTS/comment.md" >>"$GITHUB_STEP_SUMMARY"
