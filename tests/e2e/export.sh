#!/usr/bin/env bash
# What leaves for other programs: ONNX files.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
expect 0 dtn-train --config tiny.yaml --set schedule.steps=2 --output run

echo "dtn-export"
expect 0 dtn-export --help
expect_text --checkpoint --config --set --ema --opset --output 'Exit codes'
expect 0 dtn-export --checkpoint run/checkpoints/last --output a.onnx
expect_text 'a.onnx: vit_t, dtn, 3 blocks, .* images \[N, 3, 16, 16\] -> logits \[N, 10\], opset 17, .* MiB'
expect 0 dtn-train export --checkpoint run/checkpoints/last/model.safetensors --output b.onnx
cmp a.onnx b.onnx >&2 || fail "the same model gives two files"
expect 0 dtn-export --checkpoint run/checkpoints/last --ema --opset 20 --output b.onnx
if cmp -s a.onnx b.onnx; then fail "--ema --opset 20 changes nothing"; fi

echo "what it refuses"
expect 2 dtn-export --checkpoint run/checkpoints/last
expect_text '--output is required'
expect 2 dtn-export --checkpoint run/checkpoints/last --opset 16 --output c.onnx
expect_text 'opset'
expect 2 dtn-export --checkpoint absent --output c.onnx
expect_text 'absent'
expect 3 dtn-export --checkpoint tiny.yaml --output c.onnx
expect_text 'tiny.yaml: not a safetensors file'
expect 1 dtn-export --checkpoint run/checkpoints/last --output no/such/folder/c.onnx
expect_text 'no/such/folder'
expect_no_file c.onnx
expect_no_leftovers "$work"

echo "features and attention"
python3 - << 'EOF'
import random, files
random.seed(1)
images = files.floats([9, 3, 16, 16], [random.gauss(0, 1) for _ in range(9 * 3 * 256)])
files.write_safetensors("some.safetensors", {"images": images})
EOF
eval=(dtn-eval --checkpoint run/checkpoints/last)
expect 0 "${eval[@]}" --set data.size=40 --save-logits logits.safetensors \
  --save-features features.safetensors --save-attention attention.safetensors --layers 0,2
expect 0 "${eval[@]}" --inputs some.safetensors --save-features some_features.safetensors
expect 0 "${eval[@]}" --inputs some.safetensors --set model.num_classes=0 --batch-size 4 \
  --save-logits headless.safetensors --save-attention some_attention.safetensors --layers 2
python3 - << 'EOF' || fail "features or attention"
import files
read = lambda name: files.read_safetensors(name + ".safetensors")[1]
features, attention = read("features"), read("attention")
assert read("logits")["logits"][1] == [40, 10] and features["features"][1] == [40, 24]
assert files.values_of(features["labels"]) == [i % 10 for i in range(40)]
some, headless = read("some_features"), read("headless")["logits"]
assert list(some) == ["features"] and some["features"][1] == headless[1] == [9, 24]
for a, b in zip(files.values_of(some["features"]), files.values_of(headless)):
    assert abs(a - b) < 1e-5 and a != 0
assert attention["attention.0"][1] == [40, 4, 16, 16], attention["attention.0"][1]
for maps in attention["attention.2"], read("some_attention")["attention.2"]:
    assert maps[1][1:] == [4, 17, 17]  # the class token has joined
    values = files.values_of(maps)
    assert all(abs(sum(values[i:i + 17]) - 1) < 1e-5 for i in range(0, len(values), 17))
EOF
expect 2 "${eval[@]}" --set data.size=65 --save-attention a.safetensors --layers 0
expect_text '65 images' 'at most 64'
expect 2 "${eval[@]}" --set data.size=4 --save-attention a.safetensors --layers 3
expect_text '--layers 3: the model has blocks 0 to 2'
expect 2 "${eval[@]}" --set data.size=4 --save-attention a.safetensors
expect_text 'needs --layers'
expect_no_file a.safetensors
expect_no_leftovers "$work"
