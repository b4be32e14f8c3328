#!/usr/bin/env bash
# Trains detectors in two processes. A repeated run gives the same bytes. Losses and figures are
# those of one process. Each image is a micro-batch, because the loss of a micro-batch is divided by
# the number of its own truths.
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"
cd "$work"

expect 0 dtn-data shapes --output shapes --seed 1 --train 24 --val 9 --size 96
cat > tiny.yaml << 'EOC'
name: tiny
model: {preset: pvt_tiny, image_size: 64, embed_dim: [8, 16, 24, 32], depth: [1, 1, 1, 1], num_heads: [1, 2, 2, 4],
        mlp_ratio: [2, 2, 2, 2], norm: dtn, num_classes: 3, fpn_channels: 16, head_convs: 1, head_fc: 24,
        roi_samples: 32}
data: {dataset: coco, root: shapes, train: train, val: val, scale: [96, 96], workers: 1}
schedule: {name: constant, steps: 6}
optim: {lr: 2.0e-3}
train: {batch_size: 4, eval_every: 6, checkpoint_every: 6, log_every: 1, best: raw}
EOC

for kind in retinanet mask_rcnn; do
  set_kind=(--config tiny.yaml --set "model.detector=$kind")
  for run in two again; do
    expect_ranks 0 2 dtn-train "${set_kind[@]}" --set train.micro_batch=1 --threads 1 --output $kind-$run
  done
  expect_same_checkpoint $kind-two/checkpoints/last $kind-again/checkpoints/last
  expect 0 dtn-train "${set_kind[@]}" --set train.micro_batch=1 --output $kind-one
  expect 0 dtn-eval --checkpoint $kind-two --json
  cp "$log" figures.txt
  check "losses and figures of $kind" $kind-one $kind-two << 'EOC'
one, two = [[json.loads(l) for l in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:]]
steps = [[l for l in run if "split" not in l] for run in (one, two)]
assert len(steps[0]) == len(steps[1]) == 6, steps
for a, b in zip(*steps):
    for key in a:
        if key.startswith("loss"):
            assert abs(a[key] - b[key]) <= 1e-4 * abs(a[key]), (key, a, b)
logged = [l for l in two if "split" in l][-1]
alone = json.loads([l for l in open("figures.txt") if l.startswith("{")][-1])
for overlap in ("bbox", "segm"):
    if logged.get(overlap + "_AP") is not None:
        assert abs(logged[overlap + "_AP"] - 100 * alone[overlap]["AP"]) < 1e-9, (logged, alone)
assert alone["count"] == logged["count"] == 9, (alone, logged)
EOC
done
