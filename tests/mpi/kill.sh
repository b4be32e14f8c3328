#!/usr/bin/env bash
# kill -9 of either process at twenty moments, the start among them, where mpirun itself may hang:
# the job ends, nothing is lost, and it comes to the bits of a run that nobody disturbed.
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"
run_unbroken

kills=0
for i in {1..20}; do
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
((kills >= 15)) || fail "only $kills of 20 jobs were there to be killed"
expect_unbroken "$work/killed"
