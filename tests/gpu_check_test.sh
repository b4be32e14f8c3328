#!/usr/bin/env bash
# tools/gpu-check.sh with stand-ins for the GPU and for dtn-bench: whichever measurement fails, the
# ledger has all the others.
set -euo pipefail
source_folder=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/tests" "$work/tree/tools" "$work/bin"
cd "$work/tree"
cp -r "$source_folder/src" "$source_folder/include" .
cp -r "$source_folder"/tests/{cuda,gpu_ledger.py,gpu_results.py,gpu_ledger.json} tests/
cp "$source_folder/tools/gpu-check.sh" tools/

stand_in() {  # FILE: a program of the text on standard input
  mkdir -p "$(dirname "$1")"
  { echo '#!/usr/bin/env bash' && cat; } > "$1"
  chmod +x "$1"
}
stand_in "$work/bin/nvidia-smi" << 'EOS'
case $* in *name*) echo "stand-in" ;; *compute_cap*) echo 9.0 ;; *) echo 1 ;; esac
EOS
# Fails for what $FAILS names, otherwise every figure is 1.
stand_in build/bin/dtn-bench << 'EOS'
if [[ "$1 $*" == *"$FAILS"* ]]; then echo "a planted failure" >&2; exit 1; fi
echo '{"images_per_second": 1, "mfu": 1, "forward_of_copy": 1}'
EOS
for folder in tests/cuda/*/; do
  stand_in "build/tests/gpu_$(basename "$folder")" <<< true
done
mkdir -p build/gpu-check
python3 tests/gpu_ledger.py snapshot > build/gpu-check/sources.json
echo 13.0 > build/gpu-check/cuda-version
touch build/gpu-check/built

names='eval_dtn eval_ln gemm norm_dtn norm_ln train_dtn train_ln'
# check FAILS STATUS NAMES: the exit status, and what the ledger has afterwards.
check() {
  local status=0 found
  cp "$source_folder/tests/gpu_ledger.json" tests/
  FAILS=$1 PATH=$work/bin:$PATH bash tools/gpu-check.sh --stage bench --build-dir build \
    --commit none > log.txt 2>&1 || status=$?
  found=$(python3 - << 'EOP'
import json
runs = json.load(open("tests/gpu_ledger.json"))["runs"]
print(*sorted(r for run in runs if run["gpu"] == "stand-in" for r in run.get("bench", {"results": {}})["results"]))
EOP
)
  if [[ $status == "$2" && $found == "$3" ]]; then return; fi
  cat log.txt
  echo "FAILED: with '$1' failing the status was $status and the ledger has: $found"
  exit 1
}
check nothing 0 "$names"
for name in $names; do
  norm=${name#*_}
  case $name in
    norm_*) fails="norm --type $norm" ;;
    gemm) fails="gemm --config" ;;
    *) fails="${name%_*} --config vit_s_star_$norm" ;;
  esac
  left=" $names "
  left=${left/ $name / }
  left=${left# }
  check "$fails" 1 "${left% }"
done
echo "passed"
