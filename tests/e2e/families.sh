#!/usr/bin/env bash
# Every family of models in whole runs, with its own normalizer and with DTN: the bits do not depend
# on threads, on recomputed blocks, or on where the run was resumed or killed. dtn-eval gives the
# figures of the training. Images are not square; sequences have different lengths. A run is killed
# once, or three times if DTN_TEST_DEEP is set.
source "$(dirname "$0")/lib/common.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"
kills=1
if [[ ${DTN_TEST_DEEP:-} ]]; then kills=3; fi

# A small model of each family that has every kind of part, and the family's setting for DTN.
declare -A model=(
  [vit]='preset: vit_t, image_size: [16, 24], patch_size: 4, embed_dim: 24, depth: 2, num_heads: 4,
         mlp_ratio: 2, class_token_at: 1, drop_path: 0.2'
  [pvt]='preset: pvt_tiny, image_size: [32, 48], patch_size: 4, embed_dim: [16, 24], depth: [2, 1],
         num_heads: [2, 3], mlp_ratio: 2, reduction: [4, 1], drop_path: 0.2, mhsa_position: true'
  [pvt_v2]='preset: pvt_v2_b3, image_size: [32, 48], patch_size: 4, embed_dim: [16, 24],
            depth: [2, 1], num_heads: [2, 3], mlp_ratio: 2, reduction: [4, 1], drop_path: 0.2'
  [swin]='preset: swin_t, image_size: [32, 48], patch_size: 4, embed_dim: [16, 24], depth: [2, 1],
          num_heads: [2, 3], mlp_ratio: 2, window: 2, drop_path: 0.2'
  [levit]='preset: levit_128s, image_size: [32, 48], embed_dim: [32, 64], depth: [1, 1],
           num_heads: [1, 2]'
  [t2t_vit]='preset: t2t_vit_t_14, image_size: [32, 48], embed_dim: 24, depth: 2, num_heads: 2,
             class_token_at: 1, drop_path: 0.2'
  [resnet]='preset: resnet50, image_size: [33, 41], embed_dim: [16, 24], depth: [1, 1]'
  [regnet]='preset: regnety_160, image_size: [33, 41], embed_dim: [8, 12], depth: [1, 1],
            num_heads: [2, 3]'
  [dit]='preset: dit_tiny, image_size: [16, 24], channels: 3, patch_size: 4, embed_dim: 24,
         depth: 2, num_heads: 2, mlp_ratio: 2, learn_sigma: true'
  [unet]='preset: unet_tiny, image_size: [16, 24], embed_dim: [8, 16], depth: [2, 1], bottleneck: 1,
          shortcut: dms'
  [sequence]='preset: listops_dense, max_length: 60, embed_dim: 24, depth: 2, num_heads: 4,
              mlp_ratio: 2, class_token_at: 1, drop_path: 0.2'
  [sequence-bigbird]='preset: listops_bigbird, max_length: 60, embed_dim: 24, depth: 2,
                      num_heads: 4, mlp_ratio: 2, attention: {block_size: 4}'
  [sequence-reformer]='preset: listops_reformer, max_length: 60, embed_dim: 24, depth: 2,
                       num_heads: 4, mlp_ratio: 2, attention: {hashes: 2, buckets: 4}'
)
declare -A with_dtn=([vit]='{type: dtn, layers: 1}' [pvt]='{type: dtn, pool: [2, 1]}'
  [pvt_v2]='{type: dtn, pool: [2, 1]}' [swin]='{type: dtn, pool: [2, 1]}' [levit]=dtn
  [t2t_vit]='{type: dtn, layers: 1}' [dit]='{type: dtn, layers: 1}' [unet]=dtn [sequence]='{type: dtn, init: local_1d}'
  [sequence-bigbird]=dtn [sequence-reformer]=in)
images='data: {dataset: synthetic, size: 48}
augment: {preset: deit, erase: 0.5, mix_chance: 0.9}'
noised='task: diffusion
data: {dataset: synthetic, size: 48}
diffusion: {sample_every: 0}'
pairs='task: translate
data: {dataset: synthetic, size: 48, corruptions: [fog/1-2, gaussian_noise/3]}
augment: light'
expressions="data: {dataset: listops, root: $work/listops}"
expect 0 dtn-data listops --output "$work/listops" --seed 1 --train 48 --val 16 --test 4 \
  --min-length 9 --max-length 70

config_of() {  # FILE FAMILY NORM
  local data=$images classes='num_classes: 10,'
  if [[ $2 == sequence* ]]; then data=$expressions; fi
  if [[ $2 == dit ]]; then data=$noised; fi
  if [[ $2 == unet ]]; then data=$pairs classes=''; fi
  cat > "$1" << EOF
name: small
seed: 3
model: {$classes ${model[$2]}${3:+, norm: $3}}
$data
optim: {lr: 1.0e-3, clip_grad_norm: 1.0}
schedule: {steps: 8, warmup_epochs: 1}
train: {batch_size: 16, micro_batch: 8, ema: 0.9, log_every: 1, eval_every: 4, checkpoint_every: 1,
        keep: 10}
EOF
}

check_run() {  # CONFIG RUN
  local config=$1 run=$2 i code
  expect 0 dtn-train --config "$config" --output "$run" --threads 1
  for precision in fp32 bf16; do
    local first=$run
    if [[ $precision == bf16 ]]; then
      first=$run-$precision
      expect 0 dtn-train --config "$config" --output "$first" --threads 2 \
        --set train.precision=$precision
    fi
    expect 0 dtn-train --config "$config" --output "$run-again" --threads 3 \
      --set train.precision=$precision --set train.checkpoint_blocks=true
    expect_same_metrics "$run-again" "$first"
    expect_same_tensors "$run-again/checkpoints/last" "$first/checkpoints/last"
    rm -rf "$run-again"
  done

  cp -r "$run" "$run-resumed"
  expect 0 dtn-train --resume "$run-resumed/checkpoints/step-00000003" --threads 2
  expect_same_checkpoint "$run-resumed/checkpoints/last" "$run/checkpoints/last"

  for ((i = 0; i < kills; ++i)); do
    code=0
    python3 "$lib/interrupt.py" KILL \
      "lines:$((1 + RANDOM % 3)).$(printf %02d $((RANDOM % 100))):$run-killed/metrics.jsonl" \
      "$bin/dtn-train" --config "$config" --output "$run-killed" --threads 2 --resume auto \
      > "$log" 2>&1 || code=$?
    if ((code != 137 && code != 0)); then
      sed 's/^/  | /' "$log" >&2
      fail "a run resumed after kill -9 exited with $code, expected to be killed (137) or done"
    fi
  done
  expect 0 dtn-train --config "$config" --output "$run-killed" --threads 2 --resume auto
  expect_same_checkpoint "$run-killed/checkpoints/last" "$run/checkpoints/last"
  expect_same_metrics "$run-killed" "$run"

  expect_same_evaluation "$run"
}

expect 0 dtn-info --presets
families=$(awk 'NR > 1 && NF > 3 { print $2 }' "$log" | sort -u)
families+=' sequence-bigbird sequence-reformer'
for family in $families; do
  if [[ ! ${model[$family]:-} ]]; then fail "no small model of the family $family here"; fi
  config_of "$work/$family.yaml" "$family" ''
  check_run "$work/$family.yaml" "$work/$family"
  if [[ ${with_dtn[$family]:-} ]]; then
    config_of "$work/$family-dtn.yaml" "$family" "${with_dtn[$family]}"
    check_run "$work/$family-dtn.yaml" "$work/$family-dtn"
  else
    expect 2 dtn-train --config "$work/$family.yaml" --set model.norm.type=dtn --dry-run
  fi
done
