#!/usr/bin/env bash
# A model folder of the Hugging Face hub, with model.safetensors and config.json, needs no dtn
# config. Names of public models are configs. Errors in the folder or the name are reported.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

name=vit_tiny_patch16_224.augreg_in21k_ft_in1k
small=(--set data.dataset=synthetic --set data.size=8 --set model.image_size=32 --set model.depth=1
       --set model.num_classes=5 --set train.batch_size=4 --set schedule.steps=1)

echo "a public model trains by its name"
expect 0 dtn-train --config "$name" "${small[@]}" --output run

# The trained weights as timm saves them: no metadata, and the MLP weights in float16.
python3 - << 'EOF'
import array, json, os, struct
import files
_, tensors = files.read_safetensors("run/checkpoints/last/model.safetensors")
half = lambda t: ("F16", t[1], b"".join(struct.pack("<e", v) for v in files.values_of(t)))
os.mkdir("hub")
files.write_safetensors("hub/model.safetensors",
                        {n: half(t) if "mlp" in n else t for n, t in tensors.items()})
json.dump({"architecture": "vit_tiny_patch16_224", "num_classes": 5, "global_pool": "token",
           "model_args": {"depth": 1, "img_size": 32},
           "pretrained_cfg": {"tag": "augreg_in21k_ft_in1k", "input_size": [3, 224, 224],
                              "mean": [0.5] * 3, "std": [0.5] * 3, "crop_pct": 0.9}},
          open("hub/config.json", "w"))
pixels = [(i * 7919 % 1000) / 500 - 1 for i in range(2 * 3 * 32 * 32)]
files.write_safetensors("images.safetensors", {"images": files.floats([2, 3, 32, 32], pixels)})
EOF

echo "the folder gives the run's logits"
expect 0 dtn-eval --checkpoint run --inputs images.safetensors --save-logits run.safetensors
expect 0 dtn-eval --checkpoint hub --inputs images.safetensors --save-logits hub.safetensors
expect 0 dtn-eval --checkpoint hub/model.safetensors --inputs images.safetensors \
  --save-logits file.safetensors
cmp hub.safetensors file.safetensors
python3 - << 'EOF'
import files
run, hub = (files.values_of(files.read_safetensors(f"{n}.safetensors")[1]["logits"])
            for n in ("run", "hub"))
assert max(map(abs, run)) > 0.01, run
worst = max(abs(a - b) for a, b in zip(run, hub))
assert 0 < worst < 2e-3 * max(map(abs, run)), worst  # float16 has 11 significant bits
EOF

echo "prefixes of wrappers, and files that are not safetensors"
python3 - << 'EOF'
import files
_, tensors = files.read_safetensors("hub/model.safetensors")
files.write_safetensors("wrapped.safetensors", {"module." + n: t for n, t in tensors.items()})
open("pointer.safetensors", "w").write("version https://git-lfs.github.com/spec/v1\nsize 123\n")
open("pickle.pth", "wb").write(b"PK\3\4" + bytes(26) + b"archive/data.pkl" + bytes(40))
EOF
wrapped=(--config hub/config.json --inputs images.safetensors --save-logits wrapped_logits.safetensors)
expect 0 dtn-eval --checkpoint wrapped.safetensors "${wrapped[@]}"
expect_text "removed the prefix 'module.' from [0-9]+ tensors"
cmp hub.safetensors wrapped_logits.safetensors || fail "the prefix changes the logits"
expect 3 dtn-eval --checkpoint pointer.safetensors "${wrapped[@]}"
expect_text "pointer.safetensors is a Git LFS pointer.*'git lfs pull'"
expect 3 dtn-eval --checkpoint pickle.pth "${wrapped[@]}"
expect_text "pickle.pth is a PyTorch checkpoint.*python3 -c .*pickle.pth pickle.safetensors "
mkdir pickled
cp pickle.pth pickled/pytorch_model.bin
expect 2 dtn-eval --checkpoint pickled "${wrapped[@]}"
expect_text 'contains a PyTorch pickle but no model.safetensors'

echo "dtn-info and dtn-train take the folder, too"
expect 0 dtn-info hub
expect_text '^model +vit_tiny_patch16_224: 192 channels, 3 heads, depth 1, patch 16, image 32 x 32$'
expect 0 dtn-train --config hub "${small[@]}" --set model.init_weights=hub --output from_hub
expect 0 dtn-info --models
expect_text "^$name +5.7 +224 +16 +192 +12 +1000 +0.9$" '^vit_giant_patch14_dinov2.lvd142m +1136.5 '

echo "errors"
expect 2 dtn-info vit_tiny_patch16_225
expect_text "did you mean 'vit_tiny_patch16_224'"
expect 2 dtn-eval --checkpoint hub --config eva02_tiny_patch14_224 --inputs images.safetensors
expect_text rotary
expect 3 dtn-train --config hub "${small[@]}" --set model.init_weights=absent --output absent
expect_text 'model.init_weights: absent is neither'
expect 3 dtn-eval --checkpoint hub --set model.patch_size=8 --inputs images.safetensors
expect_text 'patches are 16 pixels wide.*model.patch_size: 16'
for wrong in '{"architecture"' '{"architecture": "resnet50"}' \
  '{"architecture": "vit_tiny_patch16_224", "model_args": {"depth": "one"}}'; do
  echo "$wrong" > hub/config.json
  expect 2 dtn-eval --checkpoint hub --inputs images.safetensors
  expect_text 'hub/config.json'
done
expect_text 'model_args.depth'
rm hub/config.json
expect 2 dtn-eval --checkpoint hub --inputs images.safetensors
expect_text 'contains no config, and there is no config.json beside it'
