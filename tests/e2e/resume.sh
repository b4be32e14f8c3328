#!/usr/bin/env bash
# A run that SIGTERM and SIGINT stop several times ends with the bits of an uninterrupted run.
source "$(dirname "$0")/lib/common.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"

tiny_config "$work/tiny.yaml"
# Steps are so slow that a signal can arrive in them; evaluations and epochs end at different steps.
slow=(--config "$work/tiny.yaml" --set data.size=160 --set train.batch_size=32
  --set model.image_size=32 --set model.embed_dim=48 --set schedule.steps=72
  --set train.eval_every=4 --set train.checkpoint_every=7)
expect 0 dtn-train "${slow[@]}" --output "$work/unbroken"

# Stops the run in $1 with signal $2, after $after lines of metrics or at a random point. The other
# arguments are options. Fails if the run ended before the signal.
interrupted() {
  local run=$1 signal=$2 code=0
  shift 2
  timeout 300 python3 "$lib/interrupt.py" "$signal" \
    "lines:${after:-$((1 + RANDOM % 9)).$((RANDOM % 10))}:$run/metrics.jsonl" \
    "$bin/dtn-train" "$@" --threads $((1 + RANDOM % 3)) > "$log" 2>&1 || code=$?
  if ((code == 0)); then return 1; fi  # the run ended before the signal
  if ((code != 75)); then
    sed 's/^/  | /' "$log" >&2
    fail "SIG$signal: exit code $code, expected 75"
  fi
  expect_text 'stopped by a signal at step [0-9]+; checkpoint in .*step-[0-9]{8}'
  expect_file "$run/checkpoints/last/state.safetensors"
  local named
  named=$(grep -oE 'step-[0-9]{8}' "$log" | tail -1)
  expect_equal "the last checkpoint" "$(readlink "$run/checkpoints/last")" "$named"
}

expect_unbroken() {
  expect_same_checkpoint "$1/checkpoints/last" "$work/unbroken/checkpoints/last"
  expect_same_checkpoint "$1/checkpoints/best" "$work/unbroken/checkpoints/best"
  expect_equal "best of $1" "$(readlink "$1/checkpoints/best")" \
    "$(readlink "$work/unbroken/checkpoints/best")"
  expect_same_metrics "$1" "$work/unbroken"
  expect_no_leftovers "$1"
  cmp -s "$1/config.yaml" "$work/unbroken/config.yaml" || fail "$1/config.yaml differs"
}

# --resume auto from the start: it starts a new run if there is none.
stops=0
mid_epoch=0
for i in {1..8}; do
  signal=TERM
  if ((i % 2)); then signal=INT; fi
  interrupted "$work/auto" $signal "${slow[@]}" --output "$work/auto" --resume auto || break
  stops=$((stops + 1))
  step=$(readlink "$work/auto/checkpoints/last" | grep -oE '[1-9][0-9]*$')
  if ((step % 5)); then mid_epoch=1; fi
done
expect 0 dtn-train "${slow[@]}" --output "$work/auto" --resume auto
expect_unbroken "$work/auto"
if ((stops < 3 || !mid_epoch)); then fail "only $stops stops, within an epoch: $mid_epoch"; fi
echo "stopped $stops times"

# --resume DIR without a config: the run folder, then a link to a checkpoint.
run=$work/folder
interrupted "$run" TERM "${slow[@]}" --output "$run" || fail "the run was done before the signal"
interrupted "$run" INT --resume "$run" || true
expect 0 dtn-train --resume "$run/checkpoints/last"
expect_unbroken "$run"

# From an older checkpoint: the steps after it are repeated, and logged once.
older=$(find "$run/checkpoints" -maxdepth 1 -name 'step-*' | sort | head -1)
expect 0 dtn-train --resume "$older"
expect_unbroken "$run"

# Stopped within an evaluation: the evaluation is repeated, and logged once.
long=(--config "$work/tiny.yaml" --set data.size=4000 --set schedule.steps=3
  --set train.eval_every=2 --set train.checkpoint_every=0)
expect 0 dtn-train "${long[@]}" --output "$work/long-unbroken"
after=2 interrupted "$work/long" TERM "${long[@]}" --output "$work/long" ||
  fail "the run was done before the signal"
expect_equal "lines before the evaluation" "$(wc -l < "$work/long/metrics.jsonl")" 2
expect 0 dtn-train "${long[@]}" --output "$work/long" --resume auto
expect_same_checkpoint "$work/long/checkpoints/last" "$work/long-unbroken/checkpoints/last"
expect_same_metrics "$work/long" "$work/long-unbroken"

# A finished run stays as it is.
snapshot() { (cd "$1" && find . -type f ! -path './tensorboard/*' -exec sha256sum {} + | sort -k2); }
before=$(snapshot "$run")
expect 0 dtn-train "${slow[@]}" --output "$run" --resume auto
expect_equal "files of a finished run that was resumed" "$(snapshot "$run")" "$before"
expect 0 dtn-train --resume "$run"
expect_equal "files of a finished run that was resumed" "$(snapshot "$run")" "$before"

# More steps for a finished run.
expect 0 dtn-train "${slow[@]}" --output "$run" --resume auto --set schedule.steps=73
expect_text 'schedule section differs from the checkpoint.s: schedule.steps is 73, was 72'
grep -q 'steps: 72' "$run/config.yaml.1" || fail "the config of before is not kept"
expect_equal "last step" "$(readlink "$run/checkpoints/last")" step-00000073
python3 - "$run" << 'EOF' || fail "summary.json was not renewed"
import json, sys
summary = json.load(open(sys.argv[1] + "/summary.json"))
attempts = json.load(open(sys.argv[1] + "/attempts.json"))["attempts"]
assert summary["steps"] == 73
assert summary["attempts"] == len(attempts) >= 3, (summary, attempts)
assert abs(summary["wall_seconds"] - sum(attempt["seconds"] for attempt in attempts)) < 1, (summary, attempts)
assert attempts[-1]["from_step"] == 72 and attempts[-1]["to_step"] == 73, attempts
EOF

# A run older than data.resample keeps its pixels, even if the config is given again.
sed -i '/^  resample:/d' "$run/config.yaml"
expect 0 dtn-train "${slow[@]}" --output "$run" --resume auto --set schedule.steps=74
expect_equal "resizing of an old run" "$(grep 'resample:' "$run/config.yaml")" '  resample: pillow12'
