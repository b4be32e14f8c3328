#!/usr/bin/env bash
# kill -9 at 50 random times, many during a save: the resumed run equals an uninterrupted run.
source "$(dirname "$0")/lib/common.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"

tiny_config "$work/tiny.yaml"
expect 0 dtn-train --config "$work/tiny.yaml" --output "$work/one" --set schedule.steps=1
start=$(date +%s%N)
expect 0 dtn-train --config "$work/tiny.yaml" --output "$work/two" --set schedule.steps=1
one_ms=$((($(date +%s%N) - start) / 1000000))  # duration of a run of one step

for every in 1 2; do
  options=(--config "$work/tiny.yaml" --set schedule.steps=100 --threads 2
    --set train.checkpoint_every="$every" --set train.eval_every=5)
  expect 0 dtn-train "${options[@]}" --output "$work/unbroken-$every"

  run=$work/killed-$every
  killed=0
  in_save=0
  for _ in {1..25}; do
    # One kill in four comes while the run starts, the others anywhere in a step or its save.
    when=lines:$((1 + RANDOM % 4)).$(printf %02d $((RANDOM % 100))):$run/metrics.jsonl
    if ((RANDOM % 4 == 0)); then
      ms=$((RANDOM % (one_ms + 1)))
      when=seconds:$(printf "%d.%03d" $((ms / 1000)) $((ms % 1000)))
    fi
    code=0
    python3 "$lib/interrupt.py" KILL "$when" "$bin/dtn-train" "${options[@]}" --output "$run" \
      --resume auto > "$log" 2>&1 || code=$?
    if ((code != 137 && code != 0)); then
      sed 's/^/  | /' "$log" >&2
      fail "a run resumed after kill -9 exited with $code, expected to be killed (137) or done"
    fi
    if ((code == 137)); then killed=$((killed + 1)); fi
    if [[ -n $(find "$run" -name '*.tmp-*' -o -name '.trash-*' 2> /dev/null) ]]; then
      in_save=$((in_save + 1))
    fi
  done
  reached=$(readlink "$run/checkpoints/last" || echo nothing)
  echo "checkpoint_every $every: killed $killed times, $in_save within a save, reached $reached"
  if ((killed < 10)); then fail "only $killed of 25 runs were still there to be killed"; fi
  if ((in_save == 0)); then fail "no kill met a save: the test tests nothing"; fi

  expect 0 dtn-train "${options[@]}" --output "$run" --resume auto
  if grep -q 'damaged' "$log"; then fail "a kill damaged a checkpoint: $(cat "$log")"; fi
  expect_same_checkpoint "$run/checkpoints/last" "$work/unbroken-$every/checkpoints/last"
  expect_same_checkpoint "$run/checkpoints/best" "$work/unbroken-$every/checkpoints/best"
  expect_equal "checkpoints of $run" "$(ls "$run/checkpoints")" \
    "$(ls "$work/unbroken-$every/checkpoints")"
  expect_same_metrics "$run" "$work/unbroken-$every"
  expect_no_leftovers "$run"
done
