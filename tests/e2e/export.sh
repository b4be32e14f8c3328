#!/usr/bin/env bash
# Models for other programs: ONNX files, and folders for timm.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
expect 0 dtn-train --config tiny.yaml --set schedule.steps=2 --output run

echo "dtn-export"
expect 0 dtn-export --help
expect_text --checkpoint --config --set --ema --opset --output --hub 'Exit codes'
expect 0 dtn-export --checkpoint run/checkpoints/last --output a.onnx
expect_text 'a.onnx: vit_t, dtn, 3 blocks, .* images \[N, 3, 16, 16\] -> logits \[N, 10\], opset 17, .* MiB'
expect 0 dtn-train export --checkpoint run/checkpoints/last/model.safetensors --output b.onnx
cmp a.onnx b.onnx >&2 || fail "the same model gives two files"
expect 0 dtn-export --checkpoint run/checkpoints/last --ema --opset 20 --output b.onnx
if cmp -s a.onnx b.onnx; then fail "--ema --opset 20 changes nothing"; fi

echo "a folder for timm"
vit=(--config vit_tiny_patch16_224 --set data.dataset=synthetic --set data.size=8 --set train.batch_size=4
     --set train.micro_batch=null --set model.image_size=16 --set model.patch_size=4 --set model.depth=2
     --set model.num_classes=5 --set schedule.steps=2)
expect 0 dtn-train "${vit[@]}" --set model.registers=1 --set model.pos_embed=patch --set model.act=gelu_tanh \
  --set model.layer_scale=0.1 --output vit
expect 0 dtn-export --checkpoint vit --hub hub
expect_text 'timm.create_model\("local-dir:hub", pretrained=True\)'
check "the config of timm" << 'EOF'
config = json.load(open("hub/config.json"))
args, prepared = config["model_args"], config["pretrained_cfg"]
assert config["architecture"] == "vit_base_patch16_224" and config["num_classes"] == 5
assert args == {"img_size": [16, 16], "patch_size": 4, "in_chans": 3, "embed_dim": 192, "depth": 2,
                "num_heads": 3, "mlp_ratio": 4.0, "qkv_bias": True, "qk_norm": False,
                "init_values": 0.1, "global_pool": "token", "class_token": True,
                "no_embed_class": True, "reg_tokens": 1, "pre_norm": False, "fc_norm": False,
                "act_layer": "gelu_tanh"}, args
assert prepared["input_size"] == [3, 16, 16] and len(prepared["mean"]) == 3
# Weights without dtn's metadata, as another program saves them.
import os
os.mkdir("theirs")
json.dump(config, open("theirs/config.json", "w"))
files.write_safetensors("theirs/model.safetensors", files.read_safetensors("hub/model.safetensors")[1])
import random
random.seed(1)
files.write_safetensors("pixels.safetensors",
                        {"images": files.floats([3, 3, 16, 16], [random.gauss(0, 1) for _ in range(2304)])})
EOF
for model in vit hub theirs; do
  expect 0 dtn-eval --checkpoint $model --inputs pixels.safetensors --save-logits $model.safetensors
  cmp vit.safetensors $model.safetensors >&2 || fail "the logits of $model differ from those of the run"
done
expect 0 dtn-export --checkpoint vit --hub hub --output vit.onnx
expect_file vit.onnx
expect 2 dtn-export --checkpoint run --hub dtn
expect_text '--hub: timm has no norm dtn' 'docs/export.md'
expect_no_file dtn
expect 2 dtn-export --checkpoint vit --hub vit.onnx
expect_text 'vit.onnx'

echo "refusals"
expect 2 dtn-export --checkpoint run/checkpoints/last
expect_text 'name what to write'
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
    assert maps[1][1:] == [4, 17, 17]  # 16 patches and the class token
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
