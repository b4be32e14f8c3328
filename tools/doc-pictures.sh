#!/usr/bin/env bash
# Makes the pictures of docs/pictures anew: the quickstart's model with LayerNorm and with DTN on
# Fashion-MNIST, six epochs each, beside each other, and a look inside. Needs what
# tools/quickstart.sh installs and builds, and Chromium for one of them.
#   tools/doc-pictures.sh [RUNS]   where the runs are kept, and found again (default: runs/pictures)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=$(realpath -m "${1:-runs/pictures}")
for norm in ln dtn; do
  build/bin/dtn-train --config "fashion_mnist_$norm" --output "$runs/$norm" --resume auto \
    --set train.log_norms=100
done
build/bin/dtn-analyze --checkpoint "$runs/ln" --checkpoint "$runs/dtn" --name LayerNorm,DTN \
  --images 256 --output "$runs/analysis"
build/bin/dtn-plot "$runs/ln" "$runs/dtn" --output "$runs/plot"
mkdir -p docs/pictures
chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,1320 \
  --screenshot=docs/pictures/run_report.png "file://$runs/dtn/report.html"
cp "$runs"/plot/figures/val_top1.png docs/pictures/
for figure in lambda_mean_history_2 p_norm1 attention_distance token_magnitude_norm1; do
  cp "$runs/analysis/figures/$figure.png" docs/pictures/
done
