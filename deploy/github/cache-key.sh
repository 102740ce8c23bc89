#!/usr/bin/env bash
# Prints a digest of everything that the built program depends on: the files that the build reads, the compiler, and the runner's
# image with its libraries. action.yml uses it as the key of the cached program.
#   cache-key.sh SOURCE
set -euo pipefail

paths=(Cargo.toml Cargo.lock src crates tools schemas grammars fixtures)

cd "$1"
for path in .cargo rust-toolchain.toml; do [ ! -e "$path" ] || paths+=("$path"); done
{
  printf '%s %s\n' "${ImageOS:-}" "${ImageVersion:-}"
  cat /etc/os-release 2>/dev/null || uname -sr
  rustc -vV 2>/dev/null || printf 'no rustc\n'
  find "${paths[@]}" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
} | sha256sum | cut -c 1-32
