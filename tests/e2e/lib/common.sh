# Sourced first by every end-to-end test, which is called with the folder of the programs as $1.
# Gives a scratch folder $work (deleted at the end), the programs as functions, and checks that say
# what was expected and what was found.
set -euo pipefail

bin=$(cd "${1:?usage: bash $0 <folder of the programs>}" && pwd)
lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/dtn-e2e-XXXXXX")
log=$work/log.txt  # output of the last command that `expect` ran
touch "$log"
export PYTHONPATH=$lib PYTHONDONTWRITEBYTECODE=1
# Waiting threads must sleep: the tests share a busy machine and run more threads than it has cores.
export OMP_WAIT_POLICY=passive
checks=0

finish() {
  local status=$?
  if declare -F clean_up > /dev/null; then clean_up; fi
  rm -rf "$work"
  if ((status == 0)); then echo "passed: $(basename "$0"), $checks checks, $SECONDS s"; fi
}
trap finish EXIT
trap 'echo "failed: $(basename "$0"), line $LINENO: $BASH_COMMAND" >&2' ERR

dtn-train() { "$bin/dtn-train" "$@"; }
dtn-eval() { "$bin/dtn-eval" "$@"; }
dtn-info() { "$bin/dtn-info" "$@"; }
dtn-bench() { "$bin/dtn-bench" "$@"; }
dtn-data() { "$bin/dtn-data" "$@"; }

fail() {
  echo "FAILED ($(basename "$0"), line ${BASH_LINENO[-2]}): $*" >&2
  exit 1
}

# expect CODE COMMAND...: runs the command with all its output in $log; its exit code must be CODE.
expect() {
  local wanted=$1 got=0
  shift
  timeout 300 "$bin/$1" "${@:2}" > "$log" 2>&1 < /dev/null || got=$?
  checks=$((checks + 1))
  ((got == wanted)) && return
  sed 's/^/  | /' "$log" >&2
  fail "'$*' exited with $got, expected $wanted"
}

# expect_text PATTERN...: the last output must match each extended regular expression.
expect_text() {
  local pattern
  for pattern in "$@"; do
    checks=$((checks + 1))
    grep -qE -- "$pattern" "$log" && continue
    sed 's/^/  | /' "$log" >&2
    fail "the output above does not match '$pattern'"
  done
}

# check WHAT [ARGUMENT...]: the Python program on standard input must pass its assertions. Its
# variable `log` has the last output.
check() {
  checks=$((checks + 1))
  { echo "import json, math, os, re, sys, files; log = open('$log').read()" && cat; } > "$work/check.py"
  python3 "$work/check.py" "${@:2}" > "$work/check.txt" 2>&1 && return
  sed 's/^/  | /' "$work/check.txt" "$log" >&2
  fail "$1"
}

expect_equal() {  # WHAT FOUND EXPECTED
  checks=$((checks + 1))
  [[ $2 == "$3" ]] || fail "$1: found '$2', expected '$3'"
}

expect_file() {
  checks=$((checks + 1))
  [[ -e $1 ]] || fail "$1 does not exist; its folder holds: $(ls "$(dirname "$1")" 2>&1)"
}

expect_no_file() {
  checks=$((checks + 1))
  [[ ! -e $1 ]] || fail "$1 exists"
}

# Two checkpoint folders must hold the same files with the same bytes.
expect_same_checkpoint() {
  expect_equal "files of $1 and $2" "$(ls "$1")" "$(ls "$2")"
  local file
  for file in "$1"/*; do
    checks=$((checks + 1))
    cmp "$file" "$2/$(basename "$file")" >&2 || fail "$file differs from $2/$(basename "$file")"
  done
}

# Two checkpoint folders must hold the same weights, averages and moments. The configs in their
# metadata may differ.
expect_same_tensors() {
  checks=$((checks + 1))
  python3 - "$lib" "$1" "$2" << 'EOF' || fail "the tensors of $1 and $2 differ"
import os, sys
sys.path.insert(0, sys.argv[1])
from files import read_safetensors
for name in sorted(os.listdir(sys.argv[2])):
    a, b = (read_safetensors(os.path.join(d, name))[1] for d in sys.argv[2:])
    assert a == b, (name, [k for k in a if a[k] != b.get(k)])
EOF
}

# dtn-eval of a finished run must give the figures of the run's last evaluation.
expect_same_evaluation() {
  expect 0 dtn-eval --checkpoint "$1/checkpoints/last" --json
  checks=$((checks + 1))
  python3 - "$log" "$1/metrics.jsonl" << 'EOF' || fail "dtn-eval disagrees with the training of $1"
import json, sys
found = [json.loads(l) for l in open(sys.argv[1]) if l.startswith("{")][-1]
said = [l for l in map(json.loads, open(sys.argv[2])) if l.get("split") == "val"][-1]
assert found.get("top1") == said["top1"] and abs(found["loss"] - said["loss"]) < 1e-6, (found, said)
EOF
}

# The metrics of two runs must be the same, except for the speed, and contain each step once.
expect_same_metrics() {
  checks=$((checks + 1))
  python3 "$lib/compare_metrics.py" "$1/metrics.jsonl" "$2/metrics.jsonl" ||
    fail "the metrics of $1 and $2 differ"
}

# A run must not leave half-written files.
expect_no_leftovers() {
  local found
  found=$(find "$1" -name '*.tmp-*' -o -name '.trash-*')
  expect_equal "half-written files in $1" "$found" ""
}

# A tiny model with all features: DTN, class token, drop path, all of DeiT's augmentation,
# gradient accumulation, a moving average, and epochs of 5 steps.
tiny_config() {
  cat > "$1" << EOF
name: tiny
seed: 3
model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4,
        mlp_ratio: 2, num_classes: 10, class_token_at: 2, norm: dtn, drop_path: 0.2}
data: {dataset: synthetic, size: 80}
augment: {preset: deit, erase: 0.5, mix_chance: 0.9}
optim: {lr: 1.0e-3, clip_grad_norm: 1.0}
schedule: {steps: 12, warmup_epochs: 1}
train: {batch_size: 16, micro_batch: 8, label_smoothing: 0.1, ema: 0.9, log_every: 1,
        eval_every: 4, checkpoint_every: 3}
EOF
}
