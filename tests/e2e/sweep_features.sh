#!/usr/bin/env bash
# Evaluations of frozen features in dtn-sweep: they use the kept checkpoints, run once each (also
# after kills and stops), and appear in all tables.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

cat > dino.yaml << 'EOS'
task: dino
augment: dino
model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4,
        mlp_ratio: 2, num_classes: 10, class_token_at: 2, norm: ln}
data: {dataset: synthetic, size: 80}
dino: {out_dim: 48, hidden_dim: 16, bottleneck_dim: 8, local_crops: 2, local_size: 8}
schedule: {name: dino, epochs: 4, warmup_epochs: 1}
train: {batch_size: 16, eval_every: 0}
EOS
cat > tiny.yaml << 'EOS'
title: "Tiny: features"
base: dino.yaml
baseline: ln
features:
  epochs: [2, 4]
  evaluations:
    - {name: linear, label: "linear, 2 blocks", task: linear, blocks: 2, epochs: 3}
    - {name: knn, task: knn, k: 5}
variants:
  - {name: ln, paper_features: {linear: [58.8, 67.2]}}
  - {name: dtn, set: {model.norm: dtn}}
EOS
sweep=(dtn-sweep --config tiny.yaml --device cpu --threads 2)

# expect_evaluations N: the last command started N evaluations.
expect_evaluations() {
  expect_equal "evaluations" "$(grep -c ': evaluating ' "$log" || true)" "$1"
}

echo "a whole sweep"
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text '^2 runs left' '^8 evaluations of features left; their time is not estimated$'
expect 0 "${sweep[@]}" --output whole
expect_evaluations 8
expect_text 'ln:0: linear, epoch 2: top-1 [0-9.]+ %' \
  '^## Features of the frozen model: top-1 \(%\), in parentheses the paper.s$' \
  '^\| ln +\| linear, 2 blocks \| +[0-9.]+ \(58.80\) \| +[0-9.]+ \(67.20\) \|$'
expect_file whole/ln/seed-0/checkpoints/step-00000010/ema.safetensors
expect_no_file whole/ln/seed-0/checkpoints/step-00000005
for step in 10 20; do
  expect 0 dtn-eval --checkpoint whole/dtn/seed-0/checkpoints/step-000000$step --task knn --k 5 --json
  grep '^{' "$log" > knn-$step.json
  expect 0 dtn-eval --checkpoint whole/dtn/seed-0/checkpoints/step-000000$step --task linear \
    --blocks 2 --epochs 3 --json
  grep '^{' "$log" > linear-$step.json
done
check "the results are those of dtn-eval" << 'EOS'
table = json.load(open("whole/table.json"))
assert [e["name"] for e in table["features"]] == ["linear", "knn"], table["features"]
ln, dtn = (v["features"] for v in table["variants"])
assert [p["paper"] for p in ln["linear"]] == [58.8, 67.2] and ln["knn"][0]["paper"] is None, ln
for name in "linear", "knn":
    for point, step in zip(dtn[name], (10, 20)):
        wanted = json.load(open(f"{name}-{step}.json"))["top1"]
        assert point["epoch"] == step // 5 and point["n"] == 1, point
        assert point["values"] == [{"seed": 0, "value": wanted}], (point, wanted)
assert "linear_epoch_2,paper_linear_epoch_2" in open("whole/table.csv").readline()
EOS
expect 0 "${sweep[@]}" --output whole
expect_evaluations 0
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text 'nothing is left to do'

echo "killed and stopped"
# results: prints the number of results of the sweep in the folder `killed`.
results() { find . -path './killed/*/features/*.json' | wc -l; }
for signal in KILL TERM; do
  before=$(results)
  "$bin/${sweep[0]}" "${sweep[@]:1}" --output killed > "$log" 2>&1 < /dev/null &
  pid=$!
  for _ in {1..6000}; do
    if (($(results) > before)) || ! kill -0 $pid 2> /dev/null; then break; fi
    sleep 0.01
  done
  kill -$signal $pid
  code=0
  wait $pid 2> /dev/null || code=$?
  if [[ $signal == KILL ]]; then
    expect_equal "exit code after kill -9" $code 137
  else
    expect_equal "exit code after SIGTERM" $code 75
    expect_text 'stopped; run the same command again to continue'
  fi
done
left=$((8 - $(results)))
if ((left < 1 || left > 6)); then fail "$left evaluations were left"; fi
expect 0 "${sweep[@]}" --output killed --jobs 2
expect_evaluations $left
check "the tables of both sweeps" << 'EOS'
tables = [json.load(open(f"{folder}/table.json")) for folder in ("whole", "killed")]
for table in tables:
    for variant in table["variants"]:
        assert variant.pop("images_per_second") > 0
assert tables[0] == tables[1], tables
EOS

echo "changed keys"
sed 's/k: 5/k: 7/' tiny.yaml > other.yaml
expect 0 dtn-sweep --config other.yaml --device cpu --output whole --dry-run
expect_text '^4 evaluations of features left'
expect 0 dtn-sweep --config other.yaml --device cpu --output whole
expect_evaluations 4

echo "results without weights, and a page"
printf 'title: "All"\nsweeps: [tiny.yaml]\n' > all.yaml
mkdir all && mv killed all/tiny
expect 0 dtn-sweep --config all.yaml --device cpu --output all --results kept
expect_evaluations 0
grep -q '<h3>Features of the frozen model: top-1 (%), in parentheses the paper' all/all.html ||
  fail "the page has no features"
expect_file kept/tiny/ln/seed-0/features/linear-2.json
expect 0 dtn-sweep --config all.yaml --device cpu --output elsewhere --results kept
expect_evaluations 0
cmp all/all.html elsewhere/all.html || fail "the pages differ"
expect_no_file elsewhere/tiny/ln

echo "failures"
rm -r all/tiny/ln/seed-0/checkpoints/step-00000010 all/tiny/*/seed-0/features
expect 1 "${sweep[@]}" --output all/tiny
expect_text 'ln:0: cannot evaluate linear, epoch 2: there is no .*step-00000010; delete .*ln/seed-0 '
expect_evaluations 6
sed 's/blocks: 2/blocks: 9/' tiny.yaml > wrong.yaml
expect 2 dtn-sweep --config wrong.yaml --device cpu --output never
expect_text "the evaluation 'linear' of variant 'ln': the model has 3 blocks, fewer than the 9"
expect 2 "${sweep[@]}" --output never --set schedule.epochs=3
expect_text 'tiny.yaml:5:15: epochs: the run has no epoch 4; schedule.epochs is 3'
expect_no_file never
