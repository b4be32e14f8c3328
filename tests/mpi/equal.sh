#!/usr/bin/env bash
# Any number of processes trains the same model, apart from rounding; a repeat gives the same bits.
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"

tiny_config "$work/tiny.yaml"
# A batch of 24 gives each of 3 processes 8 rows, and each of 4 processes 6 rows.
options=(--config "$work/tiny.yaml" --set schedule.steps=50 --set train.batch_size=24
  --set train.micro_batch=12 --set data.size=96 --set train.eval_every=25)
expect 0 dtn-train "${options[@]}" --output "$work/alone"
alone=$work/alone/checkpoints/step-00000050

# Yardstick: the difference that another order of the same sums makes. Other numbers of processes
# may differ by a few times as much.
expect 0 dtn-train "${options[@]}" --set train.micro_batch=null --output "$work/whole"
yardstick=$(distance "$alone" "$work/whole/checkpoints/step-00000050")
if ((yardstick == 0)); then fail "micro-batches change nothing: the yardstick measures nothing"; fi

for n in 1 2 3 4; do
  for again in first again; do
    expect_ranks 0 $n dtn-train "${options[@]}" --threads $((1 + RANDOM % 2)) \
      --output "$work/$n-$again"
    expect_no_leftovers "$work/$n-$again"
  done
  expect_same_checkpoint "$work/$n-first/checkpoints/last" "$work/$n-again/checkpoints/last"
  expect_same_metrics "$work/$n-first" "$work/$n-again"
  apart=$(distance "$alone" "$work/$n-first/checkpoints/step-00000050")
  echo "$n processes: $apart e-9 from one, micro-batches: $yardstick e-9"
  checks=$((checks + 1))
  ((apart <= 5 * yardstick)) || fail "$n processes end $apart e-9 away from one"
  expect_equal "checkpoints of $n processes" "$(ls "$work/$n-first/checkpoints")" \
    "$(ls "$work/alone/checkpoints")"
done
expect_same_checkpoint "$work/1-first/checkpoints/last" "$alone"

# Gradients reduced as bfloat16 give another result.
expect_ranks 0 2 dtn-train "${options[@]}" --set train.reduce=bf16 --output "$work/bf16"
apart=$(distance "$alone" "$work/bf16/checkpoints/step-00000050")
echo "gradients as bfloat16: $apart e-9"
if ((apart <= 5 * yardstick || apart > 100000000)); then
  fail "gradients as bfloat16 end $apart e-9 away"
fi

# Each process loads the teacher and checks that all processes have the same one.
expect 0 dtn-train "${options[@]}" --set schedule.steps=4 --set seed=9 --output "$work/teacher"
expect 0 dtn-train "${options[@]}" --set schedule.steps=4 --set seed=8 --output "$work/other"
taught=("${options[@]}" --set schedule.steps=25 --set optim.name=muon --set optim.clip_adaptive=0.02
  --set distill.type=soft --set "distill.teacher=$work/teacher")
expect 0 dtn-train "${taught[@]}" --output "$work/taught"
expect 0 dtn-train "${taught[@]}" --set train.micro_batch=null --output "$work/taught-whole"
taught_yardstick=$(distance "$work/taught/checkpoints/last" "$work/taught-whole/checkpoints/last")
for again in first again; do
  expect_ranks 0 2 dtn-train "${taught[@]}" --output "$work/taught-$again"
done
expect_same_checkpoint "$work/taught-first/checkpoints/last" "$work/taught-again/checkpoints/last"
apart=$(distance "$work/taught/checkpoints/last" "$work/taught-first/checkpoints/last")
echo "2 processes with a teacher and Muon: $apart e-9, micro-batches: $taught_yardstick e-9"
checks=$((checks + 1))
((apart <= 5 * taught_yardstick)) || fail "2 processes with a teacher end $apart e-9 away from one"
pair 2 "${taught[@]}" -- "${taught[@]}" --set "distill.teacher=$work/other"
expect_text 'error: the config of rank 1 on .* differs .* the same distill\.teacher'

# The loss is divided by the sum of the class weights in the whole batch, over all processes. All
# processes draw the same balanced epochs.
weighted=("${options[@]}" --set schedule.steps=25 --set augment=none --set data.sampling=balanced
  --set train.loss=focal --set "train.class_weights=[0.2,1,4,0.5,3,0.1,2,0.7,5,1.5]")
expect 0 dtn-train "${weighted[@]}" --output "$work/weighted"
expect 0 dtn-train "${weighted[@]}" --set train.micro_batch=null --output "$work/weighted-whole"
rounding=$(distance "$work/weighted/checkpoints/last" "$work/weighted-whole/checkpoints/last")
if ((rounding < yardstick)); then rounding=$yardstick; fi
for n in 2 3; do
  expect_ranks 0 $n dtn-train "${weighted[@]}" --output "$work/weighted-$n"
  apart=$(distance "$work/weighted/checkpoints/last" "$work/weighted-$n/checkpoints/last")
  echo "$n processes with class weights: $apart e-9 from one, micro-batches: $rounding e-9"
  checks=$((checks + 1))
  ((apart <= 5 * rounding)) || fail "$n processes with class weights end $apart e-9 away"
done

# With sync, normalizers over the batch use the batch of all processes, otherwise that of one. Here
# micro-batches would be separate batches, so other kernels are the yardstick of rounding.
batch_options=(--config "$work/tiny.yaml" --set schedule.steps=25 --set train.batch_size=24
  --set train.micro_batch=null --set data.size=96 --set train.eval_every=25)
for norm in bn power; do
  norm_options=("${batch_options[@]}" --set model.norm=$norm)
  expect 0 dtn-train "${norm_options[@]}" --output "$work/$norm"
  DTN_ISA=generic expect 0 dtn-train "${norm_options[@]}" --output "$work/$norm-generic"
  norm_yardstick=$(distance "$work/$norm/checkpoints/last" "$work/$norm-generic/checkpoints/last")
  if ((norm_yardstick < yardstick)); then norm_yardstick=$yardstick; fi
  for n in 2 3; do
    expect_ranks 0 $n dtn-train "${norm_options[@]}" --set model.norm.sync=true \
      --output "$work/$norm-$n"
    apart=$(distance "$work/$norm/checkpoints/last" "$work/$norm-$n/checkpoints/last")
    echo "$n processes with $norm and sync: $apart e-9, rounding: $norm_yardstick e-9"
    checks=$((checks + 1))
    ((apart <= 5 * norm_yardstick)) || fail "$n processes with $norm and sync end $apart e-9 away"
  done
  expect_ranks 0 2 dtn-train "${norm_options[@]}" --output "$work/$norm-own"
  apart=$(distance "$work/$norm/checkpoints/last" "$work/$norm-own/checkpoints/last")
  echo "2 processes with $norm, each with a batch of its own: $apart e-9"
  checks=$((checks + 1))
  ((apart > 100 * norm_yardstick)) || fail "$norm without sync ends only $apart e-9 away"
done

# Evaluation counts every image once and gives the same digits on any number of processes, also if
# some processes have no rows of a batch.
for n in 1 2 3 4; do
  expect_ranks 0 $n dtn-eval --checkpoint "$alone" --set data.size=61 --batch-size 5 --json
  grep -o '{.*}' "$log" | sed 's/,"images_per_second":[^,}]*//' > "$work/eval-$n.json"
  expect_equal "evaluation by $n processes" "$(cat "$work/eval-$n.json")" \
    "$(cat "$work/eval-1.json")"
done
grep -q '"count":61' "$work/eval-1.json" || fail "not all images were counted"

# Two processes start a run, one continues it, and four finish it.
options+=(--set schedule.name=constant)
expect 0 dtn-train "${options[@]}" --output "$work/unbroken"
for part in "2 20" "1 35" "4 50"; do
  read -r n steps <<< "$part"
  expect_ranks 0 "$n" dtn-train "${options[@]}" --set schedule.steps="$steps" \
    --output "$work/mixed" --resume auto
done
expect_text 'resumed at step 35'
apart=$(distance "$work/unbroken/checkpoints/last" "$work/mixed/checkpoints/last")
echo "by two, one and four processes: $apart e-9"
((apart <= 5 * yardstick)) || fail "two, one and four processes end $apart e-9 away from one"

# A batch that gives one process fewer micro-batches than the others is refused.
expect_ranks 2 3 dtn-train "${options[@]}" --set train.batch_size=8 --set train.micro_batch=1 \
  --output "$work/uneven"
expect_text 'cannot be divided among 3 processes in micro-batches of 1; use fewer processes'
