#!/usr/bin/env bash
# Means of models: their numbers, greedy choice, running statistics, and refusals.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
for seed in 1 2 3; do
  expect 0 dtn-train --config tiny.yaml --set seed=$seed --set schedule.steps=3 --output "run$seed"
done

echo "the numbers"
expect 0 dtn-average --help
expect_text --output --shares --greedy --evaluate --update-bn --ema 'Exit codes'
expect 0 dtn-average run1 run2 run3/checkpoints/last --output mean.safetensors
expect_text 'mean.safetensors: the mean of 3 models'
expect 0 dtn-average run1 run2 --shares 3,1 --output quarter.safetensors
cp run1/checkpoints/best/model.safetensors copy.safetensors
expect 0 dtn-average run1 copy.safetensors --output same.safetensors
check "means" << 'EOF'
read = lambda name: {k: files.values_of(v) for k, v in files.read_safetensors(name)[1].items()}
models = [read(f"run{i}/checkpoints/best/model.safetensors") for i in (1, 2)]
models.append(read("run3/checkpoints/last/model.safetensors"))
mean, quarter, same = (read(f"{name}.safetensors") for name in ("mean", "quarter", "same"))
assert list(mean) == list(models[0])
rounding = 2 ** -24
for name, values in mean.items():
    for got, part, alike, *parts in zip(values, quarter[name], same[name], *(m[name] for m in models)):
        size = max(map(abs, parts))
        assert abs(got - sum(parts) / 3) <= rounding * size, (name, got, parts)
        assert abs(part - (3 * parts[0] + parts[1]) / 4) <= rounding * size, (name, part, parts)
        assert alike == parts[0], name
metadata = files.read_safetensors("mean.safetensors")[0]
assert json.loads(metadata["averaged"]) == ["run1", "run2", "run3/checkpoints/last"]
EOF

echo "as a model"
expect 0 dtn-eval mean.safetensors --json
expect 0 dtn-train --config tiny.yaml --set model.init_weights=mean.safetensors --set schedule.steps=1 --output tuned
expect 0 dtn-average --ema run1 run2 --output averages.safetensors
if cmp -s averages.safetensors quarter.safetensors; then fail "--ema changes nothing"; fi

echo "greedy"
expect 0 dtn-average run1 run2 run3 --greedy --json --output greedy.safetensors
check "a greedy soup" << 'EOF'
found = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])
models = sorted(found["models"], key=lambda m: -m["alone"]["top1"])
assert models[0]["taken"] and "together" not in models[0]
best = models[0]["alone"]["top1"]
for m in models[1:]:
    assert m["taken"] == (m["together"]["top1"] >= best), found
    best = m["together"]["top1"] if m["taken"] else best
assert found["average"]["top1"] == best, found
taken = [m["checkpoint"] for m in models if m["taken"]]
assert json.loads(files.read_safetensors("greedy.safetensors")[0]["averaged"]) == taken
EOF
expect 0 dtn-average run1 run2 --evaluate --output evaluated.safetensors
expect_text '^run1 +top-1 .*loss' '^run2 +top-1' '^average +top-1'

echo "an ensemble"
python3 - << 'EOF'
import random, files
random.seed(1)
files.write_safetensors("some.safetensors", {
    "images": files.floats([9, 3, 16, 16], [random.gauss(0, 1) for _ in range(9 * 3 * 256)]),
    "labels": files.integers([i % 10 for i in range(9)])})
EOF
for model in run1 run2; do
  expect 0 dtn-eval $model --inputs some.safetensors --save-logits $model.safetensors
done
expect 0 dtn-eval run1 run2 --inputs some.safetensors --json --save-logits both.safetensors
expect_text 'the mean of the probabilities of 2 models'
check "the mean of two models" << 'EOF'
rows = lambda name: [v[i:i + 10] for v in [files.values_of(files.read_safetensors(name)[1]["logits"])]
                     for i in range(0, 90, 10)]
def softmax(row):
    powers = [math.exp(x) for x in row]
    return [p / sum(powers) for p in powers]
hits, loss = 0, 0
for i, (a, b, got) in enumerate(zip(rows("run1.safetensors"), rows("run2.safetensors"), rows("both.safetensors"))):
    mean = [(p + q) / 2 for p, q in zip(softmax(a), softmax(b))]
    assert all(abs(math.exp(g) - m) < 1e-6 for g, m in zip(got, mean)), i
    hits += mean[i % 10] == max(mean)
    loss -= math.log(mean[i % 10])
found = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])
assert abs(found["top1"] - 100 * hits / 9) < 1e-9 and abs(found["loss"] - loss / 9) < 1e-5, found
EOF
expect 0 dtn-eval --checkpoint run1 --checkpoint run2 --checkpoint run3 --report report
expect_file report/report.html
expect 2 dtn-eval run1 run2 --task knn
expect_text 'an ensemble of several checkpoints has'
expect 0 dtn-train --config tiny.yaml --set model.image_size=32 --set schedule.steps=1 --output large
expect 2 dtn-eval run1 large
expect_text 'large: the models of an ensemble see the same inputs, but its model.image_size is 32'

echo "validation images of some of the classes, elsewhere"
python3 - << 'EOF'
import os, files
for split, names in ("train", "abc"), ("val", "bc"):
    for k, name in enumerate(names):
        os.makedirs(f"photos/{split}/{name}")
        for i in range(4):
            shade = lambda x, y: (60 * "abc".index(name) + 7 * i, 9 * y % 256, 9 * x % 256)
            open(f"photos/{split}/{name}/{i}.png", "wb").write(files.png(20, 20, shade))
EOF
photos=(--config tiny.yaml --set data.dataset=imagefolder --set data.root=photos --set data.size=null
        --set model.num_classes=3 --set train.batch_size=4 --set train.micro_batch=4 --set schedule.steps=6)
for seed in 1 2; do
  expect 0 dtn-train "${photos[@]}" --set seed=$seed --output "photos$seed"
done
mkdir elsewhere
mv photos/val elsewhere/val
for seed in 1 2; do
  expect 0 dtn-eval photos$seed --set data.root=elsewhere --json
  grep '^{' "$log" > "alone$seed.json"
done
for way in --evaluate --greedy; do
  expect 0 dtn-average photos1 photos2 --set data.root=elsewhere $way --json --output photos.safetensors
  check "the figures of dtn-eval" << 'EOF'
found = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])
for i, model in enumerate(found["models"], 1):
    alone = json.load(open(f"alone{i}.json"))
    assert model["alone"]["top1"] == alone["top1"] and model["alone"]["loss"] == alone["loss"], (model, alone)
EOF
done

sed '/^augment/d' tiny.yaml > supcon.yaml
printf 'augment: supcon\nsupcon: {feat_dim: 8}\n' >> supcon.yaml
expect 0 dtn-train --config supcon.yaml --set task=supcon --set schedule.steps=1 --output supcon
expect 2 dtn-average supcon --evaluate --output a.safetensors
expect_text 'models of the task supcon have features' 'dtn-eval --task knn'

echo "teachers of self-distillation"
sed '/^augment/d; s/label_smoothing: 0.1, ema: 0.9, //' tiny.yaml > dino.yaml
printf 'augment: dino\ndino: {out_dim: 32, hidden_dim: 16, bottleneck_dim: 8, local_crops: 0}\n' >> dino.yaml
expect 0 dtn-train --config dino.yaml --set task=dino --set schedule.steps=4 --output dino \
  --set train.checkpoint_every=2 --set train.keep=2
expect 0 dtn-average dino/checkpoints/step-0000000{2,4} --output dino.safetensors
check "the mean of the teachers" << 'EOF'
def values(path):
    tensors = files.read_safetensors(path)[1]
    return {name: files.values_of(tensor) for name, tensor in tensors.items()}
first, second = (values(f"dino/checkpoints/step-0000000{i}/ema.safetensors") for i in (2, 4))
mean = values("dino.safetensors")
assert mean.keys() == first.keys(), mean.keys() ^ first.keys()
for name, found in mean.items():
    for a, b, c in zip(first[name], second[name], found):
        assert abs((a + b) / 2 - c) < 1e-6, (name, a, b, c)
EOF

echo "running statistics"
for seed in 1 2; do
  expect 0 dtn-train --config tiny.yaml --set model.norm.type=bn --set seed=$seed --set schedule.steps=3 \
    --output "bn$seed"
done
expect 0 dtn-average bn1 bn2 --output stale.safetensors
expect_text 'warning.*running statistics' '--update-bn 100'
expect 0 dtn-average bn1 bn2 --update-bn 3 --output fresh.safetensors
for threads in 1 3; do
  expect 0 dtn-average bn1 bn2 --update-bn 3 --threads $threads --output threads.safetensors
  cmp fresh.safetensors threads.safetensors >&2 || fail "statistics depend on threads"
done
check "statistics" << 'EOF'
stale, fresh = (files.read_safetensors(f"{name}.safetensors")[1] for name in ("stale", "fresh"))
changed = {name for name in stale if stale[name] != fresh[name]}
assert changed and all(".running_" in name for name in changed), changed
EOF

for seed in 1 2; do
  expect 0 dtn-train --config tiny.yaml --set model.norm.type=power --set seed=$seed --set schedule.steps=1 \
    --output "power$seed"
done
expect 0 dtn-average power1 power2 --output power.safetensors
expect_text 'warning.*running statistics'
if grep -q 'update-bn' "$log"; then fail "--update-bn is named where it cannot help"; fi

echo "refusals"
expect 2 dtn-average --output a.safetensors
expect_text 'name the models to average'
expect 2 dtn-average run1 run1/checkpoints/best --output a.safetensors
expect_text 'is named twice' '--shares'
expect 2 dtn-average run1 bn1 --output a.safetensors
expect_text 'bn1: another model than the first' 'model.norm.type'
expect 2 dtn-average run1 run2 --shares 1 --output a.safetensors
expect_text '--shares has 1 numbers for 2 models'
expect 2 dtn-average run1 run2 --shares 1,0 --output a.safetensors
expect 2 dtn-average run1 run2 --shares 1,2 --greedy --output a.safetensors
expect 2 dtn-average run1 run2 --update-bn 2 --output a.safetensors
expect_text 'no running statistics that can be measured; its norm is dtn'
expect 2 dtn-average run1 absent --output a.safetensors
expect_text 'absent: no such file or folder'
expect 1 dtn-average run1 run2 --output no/such/folder/a.safetensors
expect_text 'no/such/folder'
expect_no_file a.safetensors
expect_no_leftovers "$work"
