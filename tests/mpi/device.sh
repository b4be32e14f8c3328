#!/usr/bin/env bash
# Processes with one CUDA device each (emulated here) train the same model as CPU processes.
source "$(dirname "$0")/../e2e/lib/common.sh"
bin=$bin/../emulated
if [[ ! -x $bin/dtn-train ]]; then
  echo "skipped: this build has no emulated programs"
  exit 77
fi
bin=$(cd "$bin" && pwd)
source "$(dirname "$0")/lib/ranks.sh"

# A batch of 12 gives each of two processes 6 rows in micro-batches of 2, and each of three 4 rows.
tiny_config "$work/tiny.yaml"
options=(--config "$work/tiny.yaml" --set model.image_size=8 --set model.embed_dim=16
  --set model.depth=2 --set model.class_token_at=1 --set model.norm=bn --set model.norm.sync=true
  --set train.batch_size=12 --set train.micro_batch=2 --set data.size=24 --set schedule.steps=8
  --set train.eval_every=4 --set train.checkpoint_every=2 --threads 1)
weights_apart() { distance "$work/$1/checkpoints/last" "$work/$2/checkpoints/last"; }

# Yardstick: the difference that other CPU kernels make, at least 60e-9, one rounding to float32.
expect_ranks 0 2 dtn-train "${options[@]}" --device cpu --output "$work/cpu-2"
DTN_ISA=generic expect_ranks 0 2 dtn-train "${options[@]}" --device cpu --output "$work/generic"
yardstick=$(weights_apart cpu-2 generic)
if ((yardstick < 60)); then yardstick=60; fi
expect_ranks 0 3 dtn-train "${options[@]}" --device cpu --output "$work/cpu-3"
for n in 2 3; do
  expect_ranks 0 $n dtn-train "${options[@]}" --device cuda --output "$work/cuda-$n"
  expect_text "float32 on $n processes with emulator each, fed by [0-9]+ data workers each" 'GPU waited' \
    'evaluation at step 8 \(val_ema\): .* 24 images'
  expect_no_leftovers "$work/cuda-$n"
  apart=$(weights_apart "cpu-$n" "cuda-$n")
  echo "$n devices: $apart e-9 from $n processes without, rounding: $yardstick e-9"
  checks=$((checks + 1))
  ((apart <= 2 * yardstick)) || fail "$n devices end $apart e-9 away from $n processes without"
done

# Without a CUDA graph, kernels run one by one and give the same bits.
expect_ranks 0 2 dtn-train "${options[@]}" --device cuda --set train.step_graph=false \
  --output "$work/eager"
expect_same_metrics "$work/eager" "$work/cuda-2"
expect_equal "weights without a graph" "$(weights_apart eager cuda-2)" 0

# A run that is stopped by a signal in a step, then killed, then resumed ends with the same bits.
options+=(--device cuda)
start "$work/broken" 3 mpirun -n 2 "$bin/dtn-train"
kill -USR1 $job
ended 20
expect_equal "exit code of a job that was stopped" $code 75
expect_text 'stopped by a signal at step [1-7];'
start "$work/broken" 1 mpirun -n 2 "$bin/dtn-train"
mapfile -t processes < <(ranks_of "$work/broken")
expect_equal "processes" "${#processes[@]}" 2
kill -KILL "${processes[RANDOM % 2]}"
ended 20
checks=$((checks + 1))
((code != 0)) || fail "a job of which one process was killed exited with 0"
expect_equal "processes after the kill" "$(ranks_of "$work/broken")" ""
expect_ranks 0 2 dtn-train "${options[@]}" --output "$work/broken" --resume auto
expect_text 'resumed at step [1-7]'
expect_same_checkpoint "$work/broken/checkpoints/last" "$work/cuda-2/checkpoints/last"
expect_same_metrics "$work/broken" "$work/cuda-2"

# Two ranks start a run and three continue it, in bfloat16 and with bfloat16 reduction.
expect_ranks 0 2 dtn-train "${options[@]}" --set train.precision=bf16 --set train.reduce=bf16 \
  --set schedule.steps=3 --output "$work/bf16"
expect_ranks 0 3 dtn-train "${options[@]}" --set train.precision=bf16 --set train.reduce=bf16 \
  --set schedule.steps=5 --output "$work/bf16" --resume auto
expect_text 'resumed at step 3' 'bfloat16 on 3 processes'

# Devices and CPU evaluate the same weights alike, also if a process has no rows of a batch.
evaluate() { expect_ranks 0 "$@" --checkpoint "$work/cuda-2/checkpoints/last" --json \
  --set data.size=13 --batch-size 6 && grep -o '{.*}' "$log"; }
device=$(evaluate 3 dtn-eval --device cuda) cpu=$(evaluate 1 dtn-eval --device cpu)
checks=$((checks + 1))
python3 - "$device" "$cpu" << 'EOP' || fail "evaluations differ: $device $cpu"
import json, sys
device, cpu = map(json.loads, sys.argv[1:])
assert device["count"] == cpu["count"] == 13
assert device["top1"] == cpu["top1"] and abs(device["loss"] - cpu["loss"]) < 1e-5 * cpu["loss"]
EOP

# Two processes cannot share a device.
DTN_EMULATOR_DEVICES=1 expect_ranks 2 2 dtn-train "${options[@]}" --output "$work/crowded"
expect_text 'error: two ranks would use the same GPU \(Duplicate GPU detected : rank . and rank .'
