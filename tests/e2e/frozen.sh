#!/usr/bin/env bash
# k-NN and linear evaluation of frozen features: data sets and given files, results, errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

# result WHAT [ARGUMENT...]: as check; `found` is the JSON of the last command.
result() {
  check "$@" < <(
    echo "found = [json.loads(l) for l in log.splitlines() if l.startswith('{')][-1]" && cat
  )
}

tiny_config tiny.yaml
expect 0 dtn-train --config tiny.yaml --output run --threads 2 --set augment.preset=light \
  --set augment.erase=0 --set schedule.steps=5

echo "k-NN on the data set"
expect 0 dtn-eval --checkpoint run --task knn
expect_text '^k-NN, k 20, temperature 0.07: top-1 +[0-9.]+ %  top-5 +[0-9.]+ %  80 images, ' \
  '^features: the pooled vector, 24 values$' 'train: 80 synthetic' 'head.weight: not used'
expect 0 dtn-eval --checkpoint run --task knn --json --save-features knn.safetensors --threads 1
cp "$log" one_thread.txt
result "k-NN" << 'EOC'
assert list(found) == ["top1", "top5", "loss", "count", "images_per_second", "skipped"], found
assert found["loss"] is None and found["count"] == 80 and found["skipped"] == 0, found
assert 0 <= found["top1"] <= found["top5"] <= 100, found
_, saved = files.read_safetensors("knn.safetensors")
assert saved["features"][:2] == ("F32", [80, 24]), saved["features"][:2]
assert files.values_of(saved["labels"]) == [i % 10 for i in range(80)]
EOC
expect 0 dtn-eval --checkpoint run --save-features head.safetensors
cmp knn.safetensors head.safetensors || fail "--task knn reads other features than the head"
expect 0 dtn-eval --checkpoint run --task knn --json --batch-size 7 --threads 3
result "threads and batches" << 'EOC'
(one,) = [json.loads(l) for l in open("one_thread.txt") if l.startswith("{")]
assert [one[k] for k in ("top1", "top5")] == [found[k] for k in ("top1", "top5")], (one, found)
EOC
expect 0 dtn-eval --checkpoint run --task knn --json --baselines
result "baselines" << 'EOC'
assert list(found["baselines"]) == ["untrained", "pixels"], found
assert found["baselines"]["pixels"]["top1"] > 50, found  # each class is a pattern with noise
EOC

echo "baselines of images that cannot be compared"
python3 - << 'EOC'
import files
for name, side in ("wide", 24), ("narrow", 16):
    images = files.floats([4, 3, side, side], [0.1 * i for i in range(4 * 3 * side * side)])
    tensors = {"images": images, "labels": files.integers([0, 1, 0, 1])}
    files.write_safetensors(f"{name}.safetensors", tensors)
EOC
expect 2 dtn-eval --checkpoint run --task knn --baselines --train-inputs wide.safetensors \
  --inputs narrow.safetensors --save-features never.safetensors
expect_text '--baselines compares pixels, but training images are \[3, 24, 24\] and evaluated'
test ! -e never.safetensors || fail "the error came after the evaluation"

echo "pictures of neighbours"
expect 0 dtn-eval --checkpoint run --task knn --save-neighbors near.html
checks=$((checks + 1))
python3 - << 'EOC' || fail "page of neighbours"
page = open("near.html", encoding="utf-8").read()
assert page.count("data:image/png;base64,") == 12 * 6, page.count("data:image/png")
assert "Nearest neighbours" in page and 'aria-label="right"' in page
EOC

echo "k-NN of given images, against a plain loop"
python3 - << 'EOC'
import files, random
random.seed(5)
for name, n in (("train", 60), ("val", 25), ("few", 7)):
    labels = [random.randrange(4) for _ in range(n)]
    labels[:4] = range(4)
    images = [random.gauss(0.4 * l * (i % 5), 1) for l in labels for i in range(768)]
    tensors = {"images": files.floats([n, 3, 16, 16], images), "labels": files.integers(labels)}
    files.write_safetensors(f"{name}.safetensors", tensors)
    files.write_safetensors(f"{name}_unlabelled.safetensors", {"images": tensors["images"]})
EOC
for split in train val; do
  expect 0 dtn-eval --checkpoint run --inputs $split.safetensors --save-features f_$split.safetensors
done
expect 0 dtn-eval --checkpoint run --task knn --k 5 --temperature 0.1 --json \
  --train-inputs train.safetensors --inputs val.safetensors
result "k-NN of given images" << 'EOC'
import math
def features(split):
    tensors = files.read_safetensors(f"f_{split}.safetensors")[1]
    flat = files.values_of(tensors["features"])
    rows = [flat[i : i + 24] for i in range(0, len(flat), 24)]
    unit = [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in rows]
    return unit, files.values_of(tensors["labels"])
(bank, known), (queries, wanted) = features("train"), features("val")
hits = 0
for query, label in zip(queries, wanted):
    near = sorted(((-sum(a * b for a, b in zip(query, row)), i) for i, row in enumerate(bank)))[:5]
    votes = [0.0] * 4
    for negative, i in near:
        votes[known[i]] += math.exp(-negative / 0.1)
    hits += votes.index(max(votes)) == label
assert found["top1"] == 100 * hits / len(wanted), (found, hits)
EOC
expect 0 dtn-eval --checkpoint run --task knn --train-inputs few.safetensors --inputs val.safetensors
expect_text '^k-NN, k 7,' '--k 20: there are only 7 training images, and all of them vote'

echo "images of another size than the model's"
python3 - << 'EOC'
import files, random
random.seed(6)
for name, side, n in (("train24", 24, 12), ("val24", 24, 5), ("val12", 12, 5), ("val18", 18, 5)):
    labels = [i % 4 for i in range(n)]
    images = [random.gauss(0.4 * l * (i % 5), 1) for l in labels for i in range(3 * side * side)]
    files.write_safetensors(f"{name}.safetensors", {
        "images": files.floats([n, 3, side, side], images), "labels": files.integers(labels)})
EOC
for sizes in "train24 val24" "train val12" "train24 val"; do
  read -r training evaluated <<< "$sizes"
  expect 0 dtn-eval --checkpoint run --task knn --json --train-inputs "$training.safetensors" \
    --inputs "$evaluated.safetensors"
  cp "$log" knn.txt
  expect 0 dtn-eval --checkpoint run --task linear --blocks 2 --epochs 2 --json \
    --train-inputs "$training.safetensors" --inputs "$evaluated.safetensors"
  result "$sizes" << 'EOC'
(knn,) = [json.loads(l) for l in open("knn.txt") if l.startswith("{")]
assert knn["count"] == found["count"] > 0 and knn["top1"] is not None, (knn, found)
assert found["loss"] > 0, found
EOC
done
expect 2 dtn-eval --checkpoint run --task knn --train-inputs train.safetensors \
  --inputs val18.safetensors
expect_text 'images of 18 x 18 pixels: both sides must be multiples of 4'

echo "linear classifier"
expect 0 dtn-eval --checkpoint run --task linear --blocks 3 --epochs 3 --lr 0.5 --batch 32 \
  --save-linear linear.safetensors --save-features blocks.safetensors --json
cp "$log" first.txt
expect_text 'features: class tokens of the last 3 blocks, 72 values; 2 of the blocks gave the mean'
result "linear classifier" << 'EOC'
assert found["loss"] > 0 and found["count"] == 80, found
_, linear = files.read_safetensors("linear.safetensors")
assert linear["linear.weight"][:2] == ("F32", [10, 72]) and linear["linear.bias"][1] == [10]
assert files.read_safetensors("blocks.safetensors")[1]["features"][1] == [80, 72]
EOC
expect 0 dtn-eval --checkpoint run --task linear --blocks 3 --epochs 3 --lr 0.5 --batch 32 --json \
  --batch-size 11 --set data.workers=3
result "workers and batches of the features" << 'EOC'
(first,) = [json.loads(l) for l in open("first.txt") if l.startswith("{")]
assert [first[k] for k in ("top1", "loss")] == [found[k] for k in ("top1", "loss")], (first, found)
EOC
expect 0 dtn-eval --checkpoint run --task linear --avgpool --epochs 2 --no-augment
expect_text '^linear classifier, 2 epochs: ' 'class token and patch mean of the last block, 48 values'

# Each step takes all 60 rows. The reported loss must be the loss of the saved classifier.
expect 0 dtn-eval --checkpoint run --task linear --blocks 1 --epochs 40 --lr 0.5 --batch 60 --json \
  --train-inputs train.safetensors --inputs val.safetensors --save-linear linear.safetensors
result "loss and accuracy of the saved classifier" << 'EOC'
import math
linear = files.read_safetensors("linear.safetensors")[1]
assert linear["linear.weight"][1] == [4, 24]
weight, bias = (files.values_of(linear[k]) for k in ("linear.weight", "linear.bias"))
val = files.read_safetensors("f_val.safetensors")[1]
rows, labels = files.values_of(val["features"]), files.values_of(val["labels"])
loss, hits = 0, 0
for n, label in enumerate(labels):
    z = [b + sum(weight[24 * k + c] * rows[24 * n + c] for c in range(24)) for k, b in enumerate(bias)]
    loss += math.log(sum(map(math.exp, z))) - z[label]
    hits += z.index(max(z)) == label
assert abs(found["loss"] - loss / len(labels)) < 1e-5, (found, loss / len(labels))
assert found["top1"] == 100 * hits / len(labels), (found, hits)
assert found["top1"] > 40, found
EOC

echo "a given classifier"
cp "$log" trained.txt
given=(--task linear --blocks 1 --json --linear)
expect 0 dtn-eval --checkpoint run "${given[@]}" linear.safetensors --inputs val.safetensors
result "figures of the saved classifier" << 'EOC'
(trained,) = [json.loads(l) for l in open("trained.txt") if l.startswith("{")]
assert [trained[k] for k in ("top1", "top5", "loss", "count")] == \
    [found[k] for k in ("top1", "top5", "loss", "count")], (trained, found)
metadata, linear = files.read_safetensors("linear.safetensors")
wrapped = {"module." + name: tensor for name, tensor in linear.items()}
files.write_safetensors("wrapped.safetensors", wrapped)
wider = dict(linear)
wider["linear.weight"] = files.floats([4, 48], [0.0] * 192)
files.write_safetensors("wide.safetensors", wider)
files.write_safetensors("odd.safetensors", linear | {"linear.weight": files.floats([4, 25], [0.0] * 100)})
files.write_safetensors("weight.safetensors", {"linear.weight": linear["linear.weight"]})
EOC
cp "$log" plain.txt
expect 0 dtn-eval --checkpoint run "${given[@]}" wrapped.safetensors --inputs val.safetensors
result "prefix of a classifier" << 'EOC'
(plain,) = [json.loads(l) for l in open("plain.txt") if l.startswith("{")]
assert [plain[k] for k in ("top1", "loss")] == [found[k] for k in ("top1", "loss")], (plain, found)
EOC
expect 0 dtn-eval --checkpoint run --task linear --linear linear.safetensors --blocks 1 \
  --inputs val_unlabelled.safetensors
expect_text '^linear classifier of linear.safetensors: no accuracy, because the evaluated images have'
expect 3 dtn-eval --checkpoint run "${given[@]}" linear.safetensors # 10 classes in the validation split, 4 in the file
expect_text 'has 10 classes, linear.safetensors has 4 classes'
expect 2 dtn-eval --checkpoint run "${given[@]}" odd.safetensors --inputs val.safetensors
expect_text 'linear.weight is \[4, 25\], for 25 features, but there are 24 .*belongs to another model'
expect 2 dtn-eval --checkpoint run "${given[@]}" wide.safetensors --inputs val.safetensors
expect_text 'for 48 features, but there are 24 .the pooled vector.*use --blocks 2 or --avgpool'
expect 3 dtn-eval --checkpoint run "${given[@]}" weight.safetensors --inputs val.safetensors
expect_text 'weight.safetensors: has no tensor linear.bias'
for training in '--epochs 3' '--lr 1' '--batch 8' --no-augment '--save-linear x' --baselines \
  '--train-inputs train.safetensors'; do
  # shellcheck disable=SC2086
  expect 2 dtn-eval --checkpoint run "${given[@]}" linear.safetensors $training
done
expect 2 dtn-eval --checkpoint run --task knn --linear linear.safetensors


echo "a given classifier, and a folder with validation images alone"
python3 - << 'EOC'
import os, files
for name in "abcd":
    for i in range(3):
        for split in "both/train", "both/val", "alone/val":
            os.makedirs(f"{split}/{name}", exist_ok=True)
            shade = lambda x, y: (60 * "abcd".index(name), 9 * i + x, (x * y) % 256)
            open(f"{split}/{name}/{i}.bmp", "wb").write(files.bmp(16, 16, shade))
EOC
for root in both alone; do
  expect 0 dtn-eval --checkpoint run "${given[@]}" linear.safetensors --set data.size=null \
    --set data.dataset=imagefolder --set data.root=$root --save-features $root.safetensors
  grep '^{' "$log" | grep -o '"top1.*"count":[0-9]*' > $root.txt
done
expect_text 'linear.safetensors does not name its classes; they are assumed to have the order of'
expect_equal "figures without training images" "$(cat alone.txt)" "$(cat both.txt)"
cmp both.safetensors alone.safetensors || fail "labels without training images"
rm -r alone/val/d
expect 3 dtn-eval --checkpoint run "${given[@]}" linear.safetensors --set data.size=null \
  --set data.dataset=imagefolder --set data.root=alone
expect_text 'alone.* has 3 classes.*, linear.safetensors has 4 classes'

echo "a given classifier with names, and other classes than its own"
folder=(--set data.size=null --set data.dataset=imagefolder --set "data.root=$work/both")
expect 0 dtn-eval --checkpoint run --task linear --blocks 1 --no-augment --epochs 300 --lr 10 \
  --batch 12 "${folder[@]}" --save-linear named.safetensors
expect_text 'top-1 100.00 %'
rm -r both/{train,val}/{a,b}
expect 0 dtn-eval --checkpoint run "${given[@]}" named.safetensors "${folder[@]}"
expect_text '"top1":100.0,.*"count":6,'
mv both/train/d both/train/e
mv both/val/d both/val/e
expect 3 dtn-eval --checkpoint run "${given[@]}" named.safetensors "${folder[@]}"
expect_text "its class 'e' is not among the 4 classes .* of named.safetensors"
expect 3 dtn-eval --checkpoint run "${given[@]}" linear.safetensors "${folder[@]}"
expect_text 'has 2 classes .*, linear.safetensors has 4 classes'

echo "a linear classifier that is not finite"
expect 4 dtn-eval --checkpoint run --task linear --blocks 1 --lr 1e36 --epochs 5 --batch 12 \
  --train-inputs train.safetensors --inputs val.safetensors --save-linear never.safetensors
expect_text 'diverged in epoch [1-5]: .*; lower --lr 1e\+36'
python3 - << 'EOC'
import files
tensors = files.read_safetensors("train.safetensors")[1]
images = files.values_of(tensors["images"])
images[5] = float("nan")
files.write_safetensors("nan.safetensors", tensors | {"images": files.floats([60, 3, 16, 16], images)})
EOC
for inputs in "nan train" "train nan"; do
  read -r training evaluated <<< "$inputs"
  expect 3 dtn-eval --checkpoint run --task linear --blocks 1 --epochs 1 --batch 12 \
    --train-inputs "$training.safetensors" --inputs "$evaluated.safetensors" \
    --save-linear never.safetensors
  expect_text 'the features of some (training|evaluated) images are not finite'
done
test ! -e never.safetensors || fail "a classifier that is not finite was written"

echo "labels"
expect 0 dtn-eval --checkpoint run --task knn --json --train-inputs train.safetensors \
  --inputs val_unlabelled.safetensors --save-features u.safetensors
result "no labels" << 'EOC'
assert found["top1"] is None and found["top5"] is None and found["count"] == 25, found
assert list(files.read_safetensors("u.safetensors")[1]) == ["features"]
EOC
expect 0 dtn-eval --checkpoint run --task knn --train-inputs train_unlabelled.safetensors \
  --inputs val.safetensors
expect_text '^k-NN: no accuracy, because the training images have no labels  25 images'
expect 3 dtn-eval --checkpoint run --task linear --blocks 1 --inputs val.safetensors \
  --train-inputs train_unlabelled.safetensors
expect_text 'train_unlabelled.safetensors: has no labels, which a linear classifier learns'
python3 - << 'EOC'
import files
tensors = files.read_safetensors("val.safetensors")[1]
labels = files.values_of(tensors["labels"])
labels[3] = 6
files.write_safetensors("strange.safetensors", tensors | {"labels": files.integers(labels)})
EOC
expect 0 dtn-eval --checkpoint run --task knn --train-inputs train.safetensors \
  --inputs strange.safetensors
expect_text 'no training image has the label 6 of evaluated images; these images count as wrong'
expect 3 dtn-eval --checkpoint run --task linear --blocks 1 --train-inputs train.safetensors \
  --inputs strange.safetensors
expect_text 'label 6'

echo "a folder of images without labels"
python3 - << 'EOC'
import os, files
for i in range(30):
    data = files.bmp(18, 17, lambda x, y: ((9 * i + x * y) % 256, (20 * i + y) % 256, 7 * i))
    for path in f"loose/train/{i:02d}.bmp", f"sorted/train/{'ab'[i % 2]}/{i:02d}.bmp":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").write(data)
EOC
expect 0 dtn-data stats --root loose
expect_text '^30 images, 0 unreadable' '^classes  none: the images have no labels'
expect 0 dtn-data stats --root loose --json
expect_text '"classes":\[\]'
expect 0 dtn-data verify --root loose
expect_text '30 of 30 images verified, 0 bad'
loose=(dtn-eval --checkpoint run --set data.size=null --set data.dataset=imagefolder
  --set data.root=loose)
expect 0 "${loose[@]}" --task knn --json --save-neighbors loose.html --save-features l.safetensors
expect_text 'val: none, so the training images are compared with each other' \
  'no accuracy, because the images have no labels'
result "a folder without labels" << 'EOC'
import re
assert found["top1"] is None and found["count"] == 30, found
tensors = files.read_safetensors("l.safetensors")[1]
assert list(tensors) == ["features"] and tensors["features"][1] == [30, 24]
features = files.values_of(tensors["features"])
rows = [features[i : i + 24] for i in range(0, len(features), 24)]
def similarity(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return dot(a, b) / (dot(a, a) * dot(b, b)) ** 0.5
page = open("loose.html", encoding="utf-8").read()
assert 'aria-label="right"' not in page and 'aria-label="wrong"' not in page
shown = [re.findall(r">(\d\d)\.bmp<", row) for row in page.split("<li>")]
shown = [[int(name) for name in row] for row in shown if row]
assert len(shown) == 12 and all(len(row) == 6 for row in shown), shown
for query, *near in shown:
    assert query not in near, (query, near)
    others = sorted((-similarity(rows[query], rows[i]), i) for i in range(30) if i != query)
    assert abs(-others[4][0] - similarity(rows[query], rows[near[4]])) < 1e-6, (query, near)
EOC
expect 0 "${loose[@]}" --task knn
expect_text '--save-neighbors FILE writes a page' '^k-NN: no accuracy'
expect 0 "${loose[@]}" --task knn --set data.root=sorted --k 40 --baselines
expect_text '--k 40: there are only 29 other training images' '^k-NN, k 29,.* top-1 .* 30 images' \
  'k-NN of the pixels: top-1 '
expect 0 "${loose[@]}" --task knn --set data.root=. --set data.train=sorted/train \
  --set data.val=loose/train --save-neighbors vote.html
expect_text 'no accuracy, because the evaluated images have no labels'
grep -q 'vote: [ab]<' vote.html || fail "images without labels have no vote"
expect 3 "${loose[@]}" --task linear --blocks 2 --set data.val=train
expect_text 'loose/train: has no labels, which a linear classifier learns'

echo "a backbone of another program"
python3 - << 'EOC'
import files, glob
metadata, tensors = files.read_safetensors("run/checkpoints/last/model.safetensors")
renamed = {f"module.backbone.{k}": t for k, t in tensors.items() if not k.startswith("head.")}
renamed["module.head.mlp.0.weight"] = files.floats([2, 3], range(6))
files.write_safetensors("backbone.safetensors", renamed, {"config": metadata["config"]})
EOC
expect 0 dtn-eval --checkpoint backbone.safetensors --task knn --save-features b.safetensors
expect 0 dtn-eval --checkpoint run/checkpoints/last --task knn --save-features l.safetensors
cmp b.safetensors l.safetensors || fail "the prefix backbone. changes the features"

echo "errors"
for wrong in '--task kmeans' '--task knn --blocks 2' '--task knn --save-linear x' '--k 5' \
  '--task linear --avgpool --blocks 4' '--task linear --blocks 9' '--task knn --precision bf16' \
  '--task linear --k 5' '--task linear --temperature 0.1' '--task knn --save-logits x' '--task linear --save-neighbors x' '--task knn --k 0' '--task linear --lr 0'; do
  # shellcheck disable=SC2086
  expect 2 dtn-eval --checkpoint run $wrong
done
expect 2 dtn-eval --checkpoint run --task linear --k 5
expect_text '--k is for --task knn and --baselines, but the task is linear'
cat > pyramid.yaml << 'EOC'
base: tiny.yaml
model: {preset: pvt_tiny, image_size: 32, embed_dim: [8, 16, 24, 32], depth: 1,
        num_heads: [1, 2, 3, 4], mlp_ratio: 2, num_classes: 10, norm: ln}
augment: {preset: light, erase: 0}
schedule: {steps: 1}
train: {eval_every: 1epoch}
EOC
expect 0 dtn-train --config pyramid.yaml --output pyramid
expect 2 dtn-eval --checkpoint pyramid --task linear
expect_text 'this model gives its pooled vector only.*; use --blocks 1'
expect 0 dtn-eval --checkpoint pyramid --task linear --blocks 1 --epochs 1
expect_text 'features: the pooled vector, 32 values'
