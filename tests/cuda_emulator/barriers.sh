#!/usr/bin/env bash
# Takes every barrier out of every kernel, one at a time, and asks the tests to notice.
#   barriers.sh PROGRAM [SUITES]   PROGRAM: tests on the emulator; SUITES: a regular expression
# Prints a line for each barrier; fails when a removal goes unnoticed: then the barrier is not
# needed, or the tests do not see what it is for.
set -euo pipefail
program=$1 wanted=${2:-.}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_WAIT_POLICY=passive DTN_CUDA_CACHE=0

# Which suite passes which barriers.
mapfile -t suites < <("$program" --gtest_list_tests | grep -E '^[A-Za-z0-9_/]+\.' | tr -d '.' |
  awk '{print $1}' | grep -E "$wanted")
for suite in "${suites[@]}"; do
  DTN_EMULATOR_SITES=$folder/$suite "$program" --gtest_filter="$suite.*" --gtest_brief=1 \
    > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
done

sites=$(cat "$folder"/* 2> /dev/null | grep -E '^[^ ]+\.(cu|cuh|h|cpp):[0-9]+$' | sort -u)
missed=0 count=0
for site in $sites; do
  noticed=no
  for suite in "${suites[@]}"; do
    grep -qxF "$site" "$folder/$suite" 2> /dev/null || continue
    if ! DTN_EMULATOR_REMOVE=$site timeout 120 "$program" --gtest_filter="$suite.*" \
        --gtest_fail_fast --gtest_brief=1 > /dev/null 2>&1; then
      noticed=$suite
      break
    fi
  done
  count=$((count + 1))
  echo "$site: $([[ $noticed == no ]] && echo "REMOVED UNNOTICED" || echo "noticed by $noticed")"
  [[ $noticed == no ]] && missed=$((missed + 1))
done
echo "barriers: $count, removed unnoticed: $missed"
[[ $count -gt 0 && $missed -eq 0 ]]
