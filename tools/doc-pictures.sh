#!/usr/bin/env bash
# Makes the pictures of docs/pictures anew. The curves of top-1 come from docs/results. The others
# come from the quickstart's model with LayerNorm and with DTN on Fashion-MNIST, six epochs each.
# Needs what tools/quickstart.sh installs and builds, and Chromium for one of them.
#   tools/doc-pictures.sh [RUNS]   where the runs are kept, and found again (default: runs/pictures)
set -euo pipefail
cd "$(dirname "$0")/.."

runs=$(realpath -m "${1:-runs/pictures}")
mkdir -p docs/pictures
build/bin/dtn-plot docs/results/images32_claim/{ln,dtn} --name LayerNorm,DTN --width 480 \
  --output "$runs/claim"
cp "$runs/claim/figures/val_top1.svg" docs/pictures/claim_top1.svg
build/bin/dtn-plot docs/results/fashion_mnist_table2/pvt_tiny_{ln,dtn} --name LayerNorm,DTN \
  --output "$runs/plot"
cp "$runs/plot/figures/val_top1.svg" docs/pictures/

for norm in ln dtn; do
  build/bin/dtn-train --config "fashion_mnist_$norm" --output "$runs/$norm" --resume auto \
    --set train.log_norms=100
done
build/bin/dtn-analyze --checkpoint "$runs/ln" --checkpoint "$runs/dtn" --name LayerNorm,DTN \
  --images 256 --output "$runs/analysis"
chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,1280 \
  --screenshot=docs/pictures/run_report.png "file://$runs/dtn/report.html"
for figure in lambda_mean_history_2 attention_distance; do
  cp "$runs/analysis/figures/$figure.svg" docs/pictures/
done
for figure in p_norm1 token_magnitude_norm1; do  # maps of pixels: a site may block images in SVG
  cp "$runs/analysis/figures/$figure.png" docs/pictures/
done
