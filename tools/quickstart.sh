#!/usr/bin/env bash
# From a fresh clone to a trained vision transformer with Dynamic Token Normalization: installs what
# is missing, builds, trains on Fashion-MNIST for a few minutes and evaluates.
# Run it again to go on with a training that was stopped.
set -euo pipefail
cd "$(dirname "$0")/.."

run=${1:-runs/fashion_mnist_dtn}

bash tools/install-deps.sh
cmake --preset release -B build -DDTN_UNITY=ON >/dev/null
cmake --build build --target dtn-train dtn-eval dtn-info dtn-bench

build/bin/dtn-train --config fashion_mnist_dtn --output "$run" --resume auto
result=$(build/bin/dtn-eval --checkpoint "$run/checkpoints/last" --json)
top1=$(sed -n 's/.*"top1":\([0-9.]*\).*/\1/p' <<<"$result")

echo
echo "The run is in $run; it goes on from any interruption with: tools/quickstart.sh"
echo "Test accuracy (top-1 on the Fashion-MNIST test images): $top1 %"
