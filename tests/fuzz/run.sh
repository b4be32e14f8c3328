#!/usr/bin/env bash
# Runs one libFuzzer program for FUZZ_SECONDS (default 60), or on FUZZ_RUNS inputs, in a folder of
# its own, from the seeds that lie beside this script when there are any. What it finds worth keeping
# stays in FUZZ_CORPUS, if that names a folder, and the next run begins there.
set -euo pipefail
program=$1
name=$(basename "$program")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
corpus=${FUZZ_CORPUS:-$work}/$name
mkdir -p "$corpus"
seeds=()
case $name in
  fuzz_coco) seeds=("$here/coco") ;;
  fuzz_hub) seeds=("$here/hub") ;;
  fuzz_image | fuzz_stb) seeds=("$here/../golden/data/images") ;;
  fuzz_labels) seeds=("$here/labels") ;;
  fuzz_listops) seeds=("$here/listops") ;;
  fuzz_rle) seeds=("$here/rle") ;;
  fuzz_yaml) seeds=("$here/../../configs/"{fashion_mnist,sweeps}) ;;
  fuzz_yolo) seeds=("$here/yolo") ;;
esac
for i in "${!seeds[@]}"; do
  if [[ ! -d ${seeds[i]} ]]; then unset "seeds[$i]"; fi
done
if [[ ${FUZZ_RUNS:-} ]]; then
  limit=-runs=$FUZZ_RUNS
else
  limit=-max_total_time=${FUZZ_SECONDS:-60}
fi
cd "$work"
"$program" "$limit" -rss_limit_mb=2048 -timeout=20 \
  -print_final_stats=1 "$corpus" "${seeds[@]}"
