#!/usr/bin/env bash
# Judged samples in dtn-sweep: one judge judges each run once, also after results were lost; all
# tables show the results.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

cat > dit.yaml << 'EOF'
task: diffusion
model: {preset: dit_tiny, image_size: 8, patch_size: 2, channels: 1, num_classes: 4, embed_dim: 24,
        depth: 2, num_heads: 2}
data: {dataset: synthetic, size: 48, workers: 1}
schedule: {name: constant, steps: 6}
train: {batch_size: 8, ema: 0.9}
diffusion: {clip: true, sample_every: 0}
EOF
cat > judge.yaml << 'EOF'
model: {preset: vit_t, image_size: 8, patch_size: 4, channels: 1, num_classes: 4, embed_dim: 24, depth: 2,
        num_heads: 4, class_token_at: 1, norm: ln}
data: {dataset: synthetic, size: 48, workers: 1}
schedule: {epochs: 2, warmup_epochs: 0}
train: {batch_size: 16}
EOF
cat > tiny.yaml << 'EOF'
title: "Tiny: samples"
base: dit.yaml
seeds: [0, 1]
samples: {judge: judge.yaml, count: 32, steps: 4, guidance: [1, 2], references: 48}
variants:
  - {name: zero}
  - {name: plain, set: {model.condition.into: adaln}, seeds: [0]}
EOF
sweep=(dtn-sweep --config tiny.yaml --device cpu --threads 2)

# expect_judged N: the last command judged N files of samples.
expect_judged() { expect_equal "judged samples" "$(grep -c ': judging samples at .*; log in' "$log" || true)" "$1"; }

echo "a whole sweep"
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text '^3 runs left' '^6 evaluations of samples left; their time, and that of training the judge'
expect 0 "${sweep[@]}" --output whole
expect_judged 6
expect_equal "trained judges" "$(grep -c 'judge: training; log' "$log")" 1
expect_text 'zero:1: samples at guidance 2: agreement [0-9.]+ %, Frechet distance [0-9.]+' '^## Samples$' \
  '^\| test images +\| +[0-9.]+ \| +[0-9.]+ \|' '^\| noise +\|' '^\| untrained model +\| +[0-9.]+ \|' \
  '^\| zero +\| +[0-9.]+ ± [0-9.]+ \|'
expect_file whole/zero/seed-0/samples/grid.png
expect_no_file whole/zero/seed-1/samples/grid.png
expect_equal "files of samples" "$(find whole -name '*.safetensors' -path '*/samples/*')" ""
grep -q '!\[samples of zero\](zero/seed-0/samples/grid.png)' whole/table.md || fail "no picture in table.md"
expect 0 dtn-sample --checkpoint whole/plain/seed-0/checkpoints/last --count 32 --steps 4 --cfg-scale 2 \
  --save-samples s.safetensors
expect 0 dtn-eval --checkpoint whole/judge/checkpoints/last --samples s.safetensors --references 48 --json
check "the results are those of dtn-sample and dtn-eval" << 'EOF'
wanted = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])
table = json.load(open("whole/table.json"))
found = table["variants"][1]["samples"][1]
assert found["guidance"] == 2 and found["values"] == [
    {"seed": 0, "agreement": wanted["agreement"], "frechet_distance": wanted["frechet_distance"]}], (found, wanted)
noise = table["samples"]["guidance"][0]["noise"]
assert noise["frechet_distance"] == wanted["references"]["noise"]["frechet_distance"], (noise, wanted)
metadata, tensors = files.read_safetensors("s.safetensors")
assert files.values_of(tensors["labels"]) == [i % 4 for i in range(32)]
assert (metadata["guidance"], metadata["steps"], metadata["sampler"]) == ("2", "4", "ddim"), metadata
EOF
expect 0 "${sweep[@]}" --output whole
expect_judged 0
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text 'nothing is left to do'

echo "an archive, and lost results"
expect 0 "${sweep[@]}" --output whole --results kept
expect_file kept/zero/seed-0/samples/grid.png
expect 0 "${sweep[@]}" --output elsewhere --results kept
expect_judged 0
cmp whole/table.csv elsewhere/table.csv || fail "the tables differ"
rm whole/zero/seed-1/samples/guidance-2.json
expect 0 "${sweep[@]}" --output whole
expect_judged 1
cmp whole/table.csv elsewhere/table.csv || fail "the tables differ after another evaluation"

echo "errors"
expect 2 "${sweep[@]}" --output never --set model.label_dropout=0
expect_text "samples: variant 'zero': guidance 2 needs a model with model.label_dropout above 0"
sed 's/image_size: 8/image_size: 16/' judge.yaml > large.yaml
sed 's/judge.yaml/large.yaml/' tiny.yaml > wrong.yaml
expect 2 dtn-sweep --config wrong.yaml --device cpu --output never
expect_text 'do not fit the judge, which reads 1 channels and 16'
sed 's/judge.yaml/dit.yaml/' tiny.yaml > wrong.yaml
expect 2 dtn-sweep --config wrong.yaml --device cpu --output never
expect_text 'samples.judge: the task diffusion does not classify'
expect_no_file never
