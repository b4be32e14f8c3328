#!/usr/bin/env bash
# dtn-eval --samples: agreement and Frechet distance of samples, with their references, and errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

# Images of 4 classes: bright left, right, upper or lower halves of each patch of 4 x 4 pixels, with
# noise. The files have MNIST's names and format.
python3 - << 'EOF'
import files, random, struct
random.seed(1)
def images(n):
    out = []
    for i in range(n):
        k = i % 4
        bright = lambda y, x: ((x if k < 2 else y) % 4 < 2) == (k % 2 == 0)
        out.append([random.randrange(150, 256) if bright(y, x) else random.randrange(90)
                    for y in range(8) for x in range(8)])
    return out
sets = {"train": images(96), "t10k": images(40)}
for name, rows in sets.items():
    open(f"{name}-images-idx3-ubyte", "wb").write(
        struct.pack(">HBBIII", 0, 8, 3, len(rows), 8, 8) + bytes(v for row in rows for v in row))
    open(f"{name}-labels-idx1-ubyte", "wb").write(
        struct.pack(">HBBI", 0, 8, 1, len(rows)) + bytes(i % 4 for i in range(len(rows))))
def samples(name, rows, labels, metadata=None):
    values = [v / 127.5 - 1 for row in rows for v in row]
    files.write_safetensors(name, {"samples": files.floats([len(rows), 1, 8, 8], values),
                                   "labels": files.integers(labels)}, metadata)
train, test = sets["train"], sets["t10k"]
samples("train.safetensors", train, [i % 4 for i in range(96)], {"guidance": "2", "steps": "50"})
samples("test.safetensors", test, [i % 4 for i in range(40)])
samples("turned.safetensors", train, [(i + (i % 4 == 1)) % 4 for i in range(96)])
samples("reversed.safetensors", train[::-1], [i % 4 for i in range(96)][::-1])
samples("few.safetensors", train[:10], [i % 4 for i in range(10)])
samples("one.safetensors", train[:1], [0])
samples("range.safetensors", train[:2], [0, 4])
samples("nan.safetensors", [[float("nan")] * 64] + train[:3], [0, 1, 2, 3])
files.write_safetensors("big.safetensors", {"samples": files.floats([2, 1, 9, 8], [0] * 144),
                                            "labels": files.integers([0, 1])})
files.write_safetensors("unlabelled.safetensors", {"samples": files.floats([2, 1, 8, 8], [0] * 128)})
EOF
cat > judge.yaml << 'EOF'
name: judge
seed: 2
model: {preset: vit_t, image_size: 8, patch_size: 4, channels: 1, num_classes: 4, embed_dim: 24, depth: 2,
        num_heads: 4, class_token_at: 1, norm: ln, drop_path: 0}
data: {dataset: idx, root: ., mean: 0.3, std: 0.4, crop_pct: 1, workers: 1}
augment: none
optim: {lr: 3.0e-3}
schedule: {epochs: 12, warmup_epochs: 0}
train: {batch_size: 16}
EOF
expect 0 dtn-train --config judge.yaml --output judge
judge() { expect "$1" dtn-eval --checkpoint judge --samples "${@:2}"; }

echo "the judge's images as samples"
judge 0 train.safetensors --json
grep '^{' "$log" > train.json
# A model without classes is asked for none.
python3 - << 'EOF'
import files
tensors = files.read_safetensors("train.safetensors")[1]
files.write_safetensors("unasked.safetensors", tensors, {"unconditional": "1"})
EOF
judge 0 unasked.safetensors --json
check "samples without classes" << 'EOF'
found = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])
asked = json.load(open("train.json"))
assert found["agreement"] is None and found["references"]["noise"]["agreement"] is None, found
assert found["classes"] == [] and found["frechet_distance"] == asked["frechet_distance"], found
assert found["references"]["test_images"] == asked["references"]["test_images"], found
EOF
judge 0 unasked.safetensors
expect_text '^samples +- +[0-9.e+-]+  96 images$' 'of a model without classes, so there is no agreement'
# Samples are whole images, so references must not be cropped.
judge 0 train.safetensors --json --set data.crop_pct=0.875
expect_text 'data.crop_pct: 1 in place of 0.875, because samples are compared with whole images'
expect_equal "judgement of whole images" "$(grep '^{' "$log")" "$(cat train.json)"
judge 0 turned.safetensors --json --batch-size 7 --threads 2
grep '^{' "$log" > turned.json
judge 0 reversed.safetensors --json --references 96
grep '^{' "$log" > reversed.json
judge 0 test.safetensors --json --reference-samples turned.safetensors
grep '^{' "$log" > test.json
expect 0 dtn-eval --checkpoint judge --json
check "agreement, distances and references" << 'EOF'
top1 = json.loads([l for l in log.splitlines() if l.startswith("{")][-1])["top1"]
train, turned, back, test = (json.load(open(f"{n}.json")) for n in ("train", "turned", "reversed", "test"))
assert train["count"] == train["training_images"] == 96 and train["features"] == 24, train
scale = train["references"]["noise"]["frechet_distance"]
assert scale > 1, scale
# The training images are the reference: their distance is 0 except for rounding.
assert train["frechet_distance"] < 1e-4 * scale and back["frechet_distance"] < 1e-4 * scale, (train, back)
assert back["agreement"] == train["agreement"] and train["agreement"] > 60, train
# The labels of one class of four are wrong.
right = {c["label"]: c for c in train["classes"]}
assert [c["count"] for c in train["classes"]] == [24] * 4
found = {c["label"]: c for c in turned["classes"]}
assert found[2]["count"] == 48 and 1 not in found, found
assert found[0]["agreement"] == right[0]["agreement"]
assert turned["agreement"] < train["agreement"] - 10, (turned, train)
assert abs(turned["frechet_distance"] - train["frechet_distance"]) < 1e-4 * scale
# Test images as samples give the figures of the test-image reference, and dtn-eval's accuracy.
images = test["references"]["test_images"]
assert images["accuracy"] == top1 == test["agreement"], (images, top1, test["agreement"])
assert images["count"] == images["accuracy_count"] == 40
assert abs(images["frechet_distance"] - test["frechet_distance"]) < 1e-4 * scale, test
assert 1e-4 * scale < images["frechet_distance"] < scale
other = test["references"]["samples"]
assert other["agreement"] == turned["agreement"] and other["count"] == 96
assert train["references"]["samples"] is None and train["sampling"] == {"steps": "50", "guidance": "2"}, train
EOF
judge 0 test.safetensors --reference-samples turned.safetensors
expect_text '^samples +[0-9.]+ % +[0-9.e+-]+  40 images$' "^test images .*40 images; the judge's accuracy$" \
  '^noise .*40 images of normal noise$' '^reference samples .*96 images, turned.safetensors$' \
  'the 24 features before the judge.s head with those of 96 training images\. It depends on the judge'
judge 0 test.safetensors --references 30
expect_text 'those of 30 training images'
judge 0 few.safetensors
expect_text '10 samples are too few for the covariance of 24 features' \
  '^test images .*10 images; the judge.s accuracy, on 40$'

echo "errors"
judge 3 one.safetensors
expect_text 'features of 1 image have no covariance'
judge 3 range.safetensors
expect_text 'label 4 is no class of .*which has 4: 0 to 3'
judge 3 nan.safetensors
expect_text '1 of 4 samples has values that are not finite'
judge 3 big.safetensors
expect_text 'samples of 1 channels and 9 x 8 pixels, but the judge reads 1 channels and 8 x 8'
judge 3 unlabelled.safetensors
expect_text 'has no tensor `labels`; write the file with dtn-sample --save-samples'
judge 3 absent.safetensors
judge 2 test.safetensors --precision bf16
expect_text '--samples computes in float32'
expect 2 dtn-eval --checkpoint judge --references 5
expect 2 dtn-eval --checkpoint judge --samples test.safetensors --inputs test.safetensors
