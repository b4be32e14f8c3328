#!/usr/bin/env bash
# Training gives the same bits for any number of computing threads and loading workers.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"

for precision in fp32 bf16; do
  reference=$work/$precision
  for threads in 1 2 3 4 8; do
    for workers in 0 1 4; do
      run=$work/$precision-$threads-$workers
      expect 0 dtn-train --config "$work/tiny.yaml" --output "$run" --threads $threads \
        --set train.precision=$precision --set data.workers=$workers
      if [[ ! -d $reference ]]; then mv "$run" "$reference" && continue; fi
      expect_same_checkpoint "$run/checkpoints/last" "$reference/checkpoints/last"
      expect_same_checkpoint "$run/checkpoints/best" "$reference/checkpoints/best"
      expect_same_metrics "$run" "$reference"
      rm -rf "$run"
    done
  done
done

# The comparison can fail: seed 4 gives other weights than seed 3 in either precision.
expect 0 dtn-train --config "$work/tiny.yaml" --output "$work/seed" --set seed=4
for other in fp32/checkpoints/last bf16/checkpoints/last; do
  if cmp -s "$work/seed/checkpoints/last/model.safetensors" "$work/$other/model.safetensors"; then
    fail "seed 4 gave the weights of $other"
  fi
done

# The gradients of the weights are sums over 1024 x 49 = 50,176 rows and more.
cat > "$work/long.yaml" << EOF
name: long
model: {preset: vit_t, image_size: 28, patch_size: 4, channels: 1, embed_dim: 16, depth: 2,
        num_heads: 4, mlp_ratio: 2, num_classes: 10, class_token_at: 1, norm: dtn}
data: {dataset: synthetic, size: 1024}
schedule: {steps: 2}
train: {batch_size: 1024, eval_every: 0, checkpoint_every: 0, log_every: 1}
EOF
for precision in fp32 bf16; do
  for threads in 1 2 3 4 8; do
    run=$work/long-$precision-$threads
    expect 0 dtn-train --config "$work/long.yaml" --output "$run" --threads $threads \
      --set train.precision=$precision
    expect_same_checkpoint "$run/checkpoints/last" "$work/long-$precision-1/checkpoints/last"
    expect_same_metrics "$run" "$work/long-$precision-1"
  done
done
