#!/usr/bin/env bash
# Uneven classes: the remarks of the programs; and runs with class weights, the focal loss and
# balanced sampling, which give the same bits for any workers, threads and interruptions.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
python3 - << 'EOF'
import os, random, files
random.seed(5)
tints = {"ant": (200, 30, 30), "bee": (30, 200, 30), "cow": (30, 30, 200)}

def image(path, tint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    noise = [random.randrange(50) for _ in range(256)]
    pixel = lambda x, y: [min(255, t + noise[16 * y + x]) for t in tint]
    open(path, "wb").write(files.bmp(16, 16, pixel))

for name, count in (("ant", 61), ("bee", 13), ("cow", 6)):
    for i in range(count):
        image(f"farm/train/{name}/{i}.bmp", tints[name])
    for i in range(3):
        image(f"farm/val/{name}/{i}.bmp", tints[name])
EOF
farm=(--config tiny.yaml --set data=null --set data.dataset=imagefolder --set data.root=farm
  --set model.num_classes=3 --set augment=none --set schedule.name=constant
  --set train.eval_every=1)

echo "remarks on uneven classes"
uneven="very uneven: 'cow' has 6 images, 'ant' has 61; data.sampling: balanced draws"
expect 0 dtn-data stats --root farm
expect_text "^classes are $uneven .*, train.class_weights: balanced"
expect 0 dtn-train "${farm[@]}" --dry-run --output dry
expect_text "^classes: $uneven .*, train.class_weights: balanced"
expect 0 dtn-train "${farm[@]}" --set train.loss=bce --dry-run --output dry
expect_text "^classes: $uneven all classes equally often$"
expect 0 dtn-train "${farm[@]}" --set data.sampling=balanced --dry-run --output dry
expect_text '^sampling: balanced over 3 classes of 6 to 61 images$'
if grep -q uneven "$log"; then fail "a remark although the sampling is balanced"; fi
expect 0 dtn-data stats --root farm --split val
if grep -q uneven "$log"; then fail "a remark on equal classes"; fi

echo "the same run for any workers, threads and interruptions"
# Epochs of 5 steps. The run of three parts stops within an epoch.
ways=("train.class_weights=balanced data.sampling=uniform train.loss=ce"
  "train.class_weights=[0.5,2,3.5] data.sampling=balanced train.loss=focal")
for way in 0 1; do
  options=("${farm[@]}")
  for set in ${ways[way]}; do options+=(--set "$set"); done
  expect 0 dtn-train "${options[@]}" --threads 1 --set data.workers=0 --output "whole-$way"
  for steps in 3 8 12; do
    expect 0 dtn-train "${options[@]}" --threads 3 --set data.workers=$((steps % 4)) \
      --set schedule.steps=$steps --output "parts-$way" --resume auto
  done
  expect_same_tensors "whole-$way/checkpoints/last" "parts-$way/checkpoints/last"
  expect_same_metrics "parts-$way" "whole-$way"
  expect_same_evaluation "whole-$way"
done
grep -q '; balanced class weights from 0.437 to 4.44; label smoothing 0.1; evaluations measure plain' \
  whole-0/train.log || fail "no class weights in whole-0/train.log: $(cat whole-0/train.log)"
grep -q 'sampling: balanced over 3 classes of 6 to 61 images' whole-1/train.log ||
  fail "no sampling in whole-1/train.log"
grep -q 'focal loss, gamma 2, about 0.488 before training; class weights from 0.5 to 3.5' \
  whole-1/train.log || fail "no focal loss in whole-1/train.log"

echo "refusals"
expect 2 dtn-train "${farm[@]}" --set 'train.class_weights=[1,2]' --output refused
expect_text 'train.class_weights has 2 weights for 3 classes; give one for each class'
