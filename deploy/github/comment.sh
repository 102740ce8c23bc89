#!/usr/bin/env bash
# Says a Markdown file in a pull request: writes its comment anew where there is one, else a new one. Needs `gh` and GH_TOKEN.
#   comment.sh OWNER/REPOSITORY NUMBER FILE [NAME]
# NAME keeps several comments of one pull request apart.
set -euo pipefail

repository=$1 number=$2 file=$3 name=${4:-sobench}
[[ $number =~ ^[0-9]+$ ]] || { printf 'error: no number of a pull request: %s\n' "$number" >&2; exit 2; }
[[ $name =~ ^[A-Za-z0-9._-]+$ ]] || { printf 'error: a name has letters, digits, . _ and -: %s\n' "$name" >&2; exit 2; }

marker="<!-- sobench:$name -->"
body=$(mktemp)
trap 'rm -f "$body"' EXIT
# GitHub takes 65,536 characters: whole lines, as many as fit.
{
  printf '%s\n' "$marker"
  LC_ALL=C awk '{ size += length($0) + 1 } size > 60000 { print "\n(cut here; the whole page is among the results)"; exit } { print }' "$file"
} >"$body"

comments="repos/$repository/issues/$number/comments"
found=$(gh api --paginate "$comments" --jq ".[] | select(.body | startswith(\"$marker\")) | .id")
if [ -n "$found" ]; then
  gh api --silent --method PATCH "repos/$repository/issues/comments/${found%%$'\n'*}" -F "body=@$body"
else
  gh api --silent --method POST "$comments" -F "body=@$body"
fi
