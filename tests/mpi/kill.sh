#!/usr/bin/env bash
# Kills either process with SIGKILL at eight random moments (twenty in the deep run). Some moments
# are at the start, where mpirun itself may hang. The job ends, nothing is lost, and the resumed run
# ends with the bits of a run without interruption.
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"
run_unbroken

tries=8 kills=0
if [[ ${DTN_TEST_DEEP:-} ]]; then tries=20; fi
for ((i = 0; i < tries; ++i)); do
  further=$((RANDOM % 9))
  launcher=(mpirun)
  if ((further == 0)); then launcher=(bash "$bin/dtn-mpirun"); fi
  start "$work/killed" $further "${launcher[@]}" -n 2 "$bin/dtn-train"
  sleep 0.0$((RANDOM % 10))
  mapfile -t processes < <(ranks_of "$work/killed")
  if ((${#processes[@]} == 2)); then
    kill -KILL "${processes[RANDOM % 2]}" 2> /dev/null && kills=$((kills + 1))
  fi
  ended 90  # enough for a whole run on a busy machine
  if ((code == 0)); then rm -rf "$work/killed"; fi  # the run had finished: start again
done
echo "killed $kills times"
((4 * kills >= 3 * tries)) || fail "only $kills of $tries jobs were there to be killed"
expect_unbroken "$work/killed"
