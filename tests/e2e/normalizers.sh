#!/usr/bin/env bash
# Every normalizer in a whole run: the bits, including running statistics, do not depend on threads,
# on recomputed blocks, or on the step of a resume. dtn-eval gives the figures of the training.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
expect 0 dtn-info --norms
types=$(grep -oE '^[a-z]+$' "$log" || true)
for type in ln rms bn in gn sn scale power dtn adaln; do
  grep -qx $type <<< "$types" || fail "dtn-info --norms does not list $type"
done

for type in $types; do
  train=(--config "$work/tiny.yaml" --set "model.norm.type=$type" --set train.keep=10)
  if [[ $type == adaln ]]; then
    train+=(--set model.condition.from=index --set model.condition.styles=3
      --set augment.mixup=0 --set augment.cutmix=0)
  fi
  if ! "$bin/dtn-train" "${train[@]}" --dry-run > "$log" 2>&1; then
    expect_text "'$type' needs .*, which models of the family vit do not have; it is for: unet"
    continue
  fi
  run=$work/$type
  expect 0 dtn-train "${train[@]}" --output "$run" --threads 1
  expect 0 dtn-train "${train[@]}" --output "$run-again" --threads 3 \
    --set train.checkpoint_blocks=true
  expect_same_tensors "$run/checkpoints/last" "$run-again/checkpoints/last"

  cp -r "$run" "$run-resumed"
  expect 0 dtn-train --resume "$run-resumed/checkpoints/step-00000006" --threads 2
  expect_same_checkpoint "$run-resumed/checkpoints/last" "$run/checkpoints/last"

  expect_same_evaluation "$run"
done

# The checkpoint has the running statistics under PyTorch's names, and training has changed them.
python3 - "$lib" "$work/bn/checkpoints/last" << 'EOF' || fail "running statistics of BatchNorm"
import os, sys
sys.path.insert(0, sys.argv[1])
from files import read_safetensors, values_of
for name in ("model", "ema"):
    tensors = read_safetensors(os.path.join(sys.argv[2], name + ".safetensors"))[1]
    for which, start in (("running_mean", 0), ("running_var", 1)):
        values = values_of(tensors["blocks.1.norm2." + which])
        assert len(values) == 24 and all(v != start for v in values), (name, which, values)
EOF

# Groups that do not divide the channels are refused; the error names the key.
expect 2 dtn-train --config "$work/tiny.yaml" --set model.norm.type=gn --set model.norm.groups=5 \
  --output "$work/none"
expect_text "groups.*5.*24"
