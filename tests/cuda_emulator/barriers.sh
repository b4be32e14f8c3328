#!/usr/bin/env bash
# Removes each barrier of each kernel, one at a time, and checks that a test fails.
#   barriers.sh PROGRAM [TESTS]   PROGRAM: tests on the emulator; TESTS: a regular expression
# Prints a line for each barrier. Fails if no test notices a removal: then the barrier is not
# needed, or a test for it is missing.
set -euo pipefail
program=$1 wanted=${2:-.}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OMP_WAIT_POLICY=passive DTN_CUDA_CACHE=0
export DTN_EMULATOR_SCHEDULES=${DTN_EMULATOR_SCHEDULES:-9}

# Records the barriers that each test passes, and the time that it takes.
mapfile -t tests < <("$program" --gtest_list_tests | awk '
  /^[^ ].*\.( |$)/ { suite = $1 }
  /^  / { print suite $1 }' | grep -E "$wanted")
for i in "${!tests[@]}"; do
  begin=${EPOCHREALTIME/./}
  DTN_EMULATOR_SITES=$folder/$i.sites "$program" --gtest_filter="${tests[i]}" --gtest_brief=1 \
    > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  echo $((${EPOCHREALTIME/./} - begin)) "$i" >> "$folder/times"
done
mapfile -t quickest_first < <(sort -n "$folder/times" | awk '{print $2}')

sites=$(cat "$folder"/*.sites | grep -E '^[^ ]+\.(cu|cuh|h|cpp):[0-9]+$' | sort -u)
missed=0 count=0
for site in $sites; do
  noticed=no
  for i in "${quickest_first[@]}"; do
    grep -qxF "$site" "$folder/$i.sites" 2> /dev/null || continue
    if ! DTN_EMULATOR_REMOVE=$site timeout 120 "$program" --gtest_filter="${tests[i]}" \
        --gtest_brief=1 > /dev/null 2>&1; then
      noticed=${tests[i]}
      break
    fi
  done
  count=$((count + 1))
  echo "$site: $([[ $noticed == no ]] && echo "REMOVED UNNOTICED" || echo "noticed by $noticed")"
  [[ $noticed == no ]] && missed=$((missed + 1))
done
echo "barriers: $count, removed unnoticed: $missed"
[[ $count -gt 0 && $missed -eq 0 ]]
