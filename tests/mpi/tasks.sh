#!/usr/bin/env bash
# Each task trains the same model in any number of processes, apart from rounding. A repeated run
# gives the same bits. DINO's centre and SupCon's pairs are over the whole batch.
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"
cd "$work"

# config TASK LINE...: a config of a tiny model on synthetic images, with 12 steps.
config() {
  printf '%s\n' "name: $1" "task: $1" "data: {dataset: synthetic, size: 80}" \
    "train: {batch_size: 16, log_every: 1, eval_every: 6, checkpoint_every: 12}" "${@:2}" > "$1.yaml"
}
vit="preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4,
  mlp_ratio: 2, num_classes: 10, class_token_at: 2, norm: dtn"
config dino "model: {$vit}" "augment: dino" \
  "dino: {out_dim: 48, hidden_dim: 16, bottleneck_dim: 8, local_crops: 2, local_size: 8}" \
  "schedule: {name: dino, steps: 12, warmup_epochs: 1}"
config supcon "model: {$vit}" "augment: supcon" "supcon: {feat_dim: 8}" "schedule: {steps: 12}"
config diffusion "model: {preset: dit_tiny, image_size: 8, patch_size: 2, channels: 1, num_classes: 4,
  embed_dim: 24, depth: 2, num_heads: 2, learn_sigma: true, label_dropout: 0.2}" \
  "schedule: {steps: 12}" "diffusion: {sample_every: 12, sample_steps: 5}"

# Uses InstanceNorm, because BatchNorm's statistics are over the samples of one process.
config translate "model: {preset: unet_tiny, image_size: 16, embed_dim: [8, 16], depth: [2, 1],
  shortcut: dms, norm: in}" "augment: light" "schedule: {steps: 12}"
sed -i 's/^data: .*/data: {dataset: synthetic, size: 80, corruptions: [fog\/1-3]}/' translate.yaml

for task in dino supcon diffusion translate; do
  expect 0 dtn-train --config $task.yaml --output $task
  for n in 2 4; do
    expect_ranks 0 $n dtn-train --config $task.yaml --threads 1 --output $task-$n
    check "$task: the losses of $n processes" $task $task-$n << 'EOC'
runs = [[json.loads(l) for l in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:]]
assert len(runs[0]) == len(runs[1]), [len(r) for r in runs]
for one, several in zip(*runs):
    for key in "loss", "mse", "vb", "teacher_entropy", "center_norm", "psnr", "ssim", "input_psnr":
        if one.get(key) is None:
            continue
        apart = abs(one[key] - several[key])
        assert apart <= 1e-5 * abs(one[key]), (key, one, several)
EOC
  done
  expect_ranks 0 2 dtn-train --config $task.yaml --threads 2 --output $task-again
  expect_same_checkpoint $task-2/checkpoints/last $task-again/checkpoints/last
done
cmp diffusion/samples/step-00000012.png diffusion-4/samples/step-00000012.png ||
  fail "other samples with four processes"
expect_file translate-4/samples/step-00000012.png
