#!/usr/bin/env bash
# kill -9 of either process at eight moments (twenty in the deep run), the start among them, where
# mpirun itself may hang: the job ends, nothing is lost, and the run comes to the bits of one that
# nobody disturbed.
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
  ended 90  # a whole run, where other tests have the cores
  if ((code == 0)); then rm -rf "$work/killed"; fi  # it was done: once more
done
echo "killed $kills times"
((4 * kills >= 3 * tries)) || fail "only $kills of $tries jobs were there to be killed"
expect_unbroken "$work/killed"
