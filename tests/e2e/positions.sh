#!/usr/bin/env bash
# Positions of another grid: a checkpoint stores its grid. For other files, model.init_image_size
# gives the grid in every program that loads weights.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

cat > wide.yaml << 'EOF'
name: wide
model: {preset: deit_tiny, image_size: [24, 40], patch_size: 8, embed_dim: 16, depth: 1,
  num_heads: 2, num_classes: 3}
data: {dataset: synthetic, size: 8}
augment: none
schedule: {steps: 1}
train: {batch_size: 4}
EOF
sed 's/\[24, 40\]/[48, 80]/' wide.yaml > large.yaml
sed 's/\[24, 40\]/[40, 24]/' wide.yaml > high.yaml
expect 0 dtn-train --config wide.yaml --output run
python3 - << 'EOF'
import files
_, tensors = files.read_safetensors("run/checkpoints/last/model.safetensors")
files.write_safetensors("foreign.safetensors", tensors)
for name, (h, w) in {"large": (48, 80), "high": (40, 24)}.items():
    pixels = [(i * 7919 % 1000) / 500 - 1 for i in range(2 * 3 * h * w)]
    files.write_safetensors(f"{name}.safetensors", {"images": files.floats([2, 3, h, w], pixels)})
EOF

logits_of() {  # NAME SIZE OPTION...: dtn-eval on SIZE.safetensors, logits in NAME.logits
  local name=$1 size=$2
  shift 2
  expect 0 dtn-eval "$@" --inputs "$size.safetensors" --save-logits "$name.logits"
}

echo "a checkpoint stores its grid"
logits_of own large --checkpoint run --set 'model.image_size=[48, 80]'
expect_text 'pos_embed: interpolated from 3 x 5 to 6 x 10'
logits_of turned high --checkpoint run --set 'model.image_size=[40, 24]'
expect_text 'pos_embed: interpolated from 3 x 5 to 5 x 3'

echo "other files need model.init_image_size"
for size in large high; do
  expect 3 dtn-eval --checkpoint foreign.safetensors --config $size.yaml \
    --inputs $size.safetensors --save-logits none
  expect_text 'pos_embed has 15 grid positions' 'set model.init_image_size: \[H, W\]'
done
foreign=(--checkpoint foreign.safetensors --set 'model.init_image_size=[24, 40]')
logits_of foreign large "${foreign[@]}" --config large.yaml
cmp own.logits foreign.logits
logits_of foreign high "${foreign[@]}" --config high.yaml
cmp turned.logits foreign.logits
expect 0 dtn-export "${foreign[@]}" --config large.yaml --output large.onnx
expect_text 'interpolated from 3 x 5 to 6 x 10'
expect 3 dtn-eval --checkpoint foreign.safetensors --config large.yaml \
  --set 'model.init_image_size=[24, 48]' --inputs large.safetensors --save-logits none
expect_text 'but model.init_image_size 24 x 48 gives a grid of 3 x 6'

echo "a run that started from such a file has a grid of its own"
expect 0 dtn-train --config large.yaml --output from_foreign \
  --set model.init_weights=foreign.safetensors --set 'model.init_image_size=[24, 40]'
expect_text 'init_weights: pos_embed: interpolated from 3 x 5 to 6 x 10'
logits_of again large --checkpoint from_foreign
logits_of again high --checkpoint from_foreign --set 'model.image_size=[40, 24]'
expect_text 'pos_embed: interpolated from 6 x 10 to 5 x 3'
logits_of again large --checkpoint from_foreign --set model.init_image_size=48
expect_text 'model.init_image_size 48 x 48 is not used: the config in the file'
