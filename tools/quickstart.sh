#!/usr/bin/env bash
# From a fresh clone to a trained vision transformer with Dynamic Token Normalization: installs what
# is missing, builds all programs, trains on Fashion-MNIST for a few minutes and evaluates.
# Run it again to continue an interrupted training.
set -euo pipefail
cd "$(dirname "$0")/.."

run=${1:-runs/fashion_mnist_dtn}
images=60000 test_images=10000  # of Fashion-MNIST

minutes() { awk -v s="$1" 'BEGIN { printf "%.1f minutes", s / 60 }'; }

bash tools/install-deps.sh

cores=$(nproc)
echo "-- building with $cores cores: about $(minutes $((800 / cores))) the first time"
SECONDS=0
cmake --preset release -B build -DDTN_UNITY=ON >/dev/null
cmake --build build --target programs
echo "-- built in $(minutes $SECONDS)"

# images_per_second PRECISION: of training steps, measured here.
images_per_second() {
  build/bin/dtn-bench train --config fashion_mnist_dtn --set train.precision="$1" \
    --steps 12 --warmup 3 --json | sed -n 's/.*"images_per_second":\([0-9]*\).*/\1/p'
}

options=()
if [[ -f $run/config.yaml ]]; then
  echo "-- continuing the run in $run, with its config.yaml"
  options=(--config "$run/config.yaml")
else
  # bfloat16 is twice as fast where the processor multiplies it, and slower than float32 elsewhere.
  echo "-- measuring this machine"
  bf16=$(images_per_second bf16)
  fp32=$(images_per_second fp32)
  precision=bf16 rate=$bf16
  if ((fp32 > bf16)); then precision=fp32 rate=$fp32; fi
  # As many epochs as fit into 4.5 minutes on a fast machine or 8 on a slow one, from 4 to 6.
  budget=480
  if ((rate >= 1200)); then budget=270; fi
  epochs=$((rate * budget / images))
  epochs=$((epochs < 4 ? 4 : epochs > 6 ? 6 : epochs))
  # An evaluation takes a third of the work of a step per image, in float32.
  seconds=$((epochs * images / (rate + 1) + epochs * test_images / (3 * fp32 + 1)))
  echo "-- $bf16 images/s in bfloat16, $fp32 in float32: training $epochs epochs in $precision takes" \
    "about $(minutes $seconds)"
  options=(--config fashion_mnist_dtn --set train.precision="$precision"
    --set schedule.epochs="$epochs")
  # Smaller batches help in few epochs: 3 epochs reach 86.3 % with 64, and 85.3 % with 128.
  if ((epochs < 6)); then options+=(--set train.batch_size=64 --set schedule.warmup_epochs=0.5); fi
fi

build/bin/dtn-train "${options[@]}" --output "$run" --resume auto
result=$(build/bin/dtn-eval --checkpoint "$run/checkpoints/last" --json)
top1=$(sed -n 's/.*"top1":\([0-9.]*\).*/\1/p' <<<"$result")

echo
echo "The run is in $run. After an interruption, tools/quickstart.sh continues it."
echo "Test accuracy (top-1 on the Fashion-MNIST test images): $top1 %"
