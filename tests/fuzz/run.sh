#!/usr/bin/env bash
# Runs one libFuzzer program for FUZZ_SECONDS (default 60), or on FUZZ_RUNS inputs, in a temporary
# folder. It starts from the seed files, if there are any. If FUZZ_CORPUS names a folder, useful
# inputs are stored there, and the next run starts from them.
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
