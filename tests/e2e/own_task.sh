#!/usr/bin/env bash
# A user-defined task that differs from classification and brings its own samples: estimates,
# training, resume, evaluation and sweeps work as for the built-in tasks.
source "$(dirname "$0")/lib/common.sh"

own=$(dirname "$bin")/tests/two_views
bin=/  # `expect` then takes absolute paths
cat > "$work/views.yaml" << 'EOS'
name: views
task: two_views
model: {preset: vit_t}
optim: {lr: 0.01}
schedule: {steps: 8}
train: {batch_size: 12, eval_every: 4}
EOS

echo "--dry-run"
expect 0 "$own" --config "$work/views.yaml" --dry-run --device cpu --threads 1
# 48 samples. The parameters counted are the student's, not those of model.preset.
expect_text '^train: 48 pairs of views$' '^parameters: 720$' '^steps per epoch: 4$' \
  ' samples/s ' '^time on this machine: '
if grep -q 'multiply-adds' "$log"; then fail "multiply-adds that the task does not tell"; fi

echo "training, resuming, evaluating"
expect 0 "$own" --config "$work/views.yaml" --set schedule.steps=4 --threads 1 --output "$work/run"
expect 0 "$own" --resume "$work/run" --set schedule.steps=8 --threads 1
expect_text 'step 8/8'
expect 0 "$own" eval --checkpoint "$work/run" --threads 1 --json
expect_text '^\{"score":'

echo "a sweep over it"
cat > "$work/sweep.yaml" << 'EOS'
base: views.yaml
metric: score
variants: [{name: slow, set: {optim.lr: 0.001}}, {name: fast}]
EOS
sweep=(sweep --config "$work/sweep.yaml" --output "$work/sweep" --device cpu --threads 1)
expect 0 "$own" "${sweep[@]}" --dry-run
expect_text '^slow:0 +8 +720 .* to do$' '2 runs left, about '
expect 0 "$own" "${sweep[@]}"
expect_text '2 of 2 runs finished'
expect_equal "rows of the table" "$(grep -cE '^\| (slow|fast) ' "$work/sweep/table.md")" 2
expect 0 "$own" "${sweep[@]}" --dry-run
expect_text 'nothing is left to do'
