#!/usr/bin/env bash
# Detectors: the same training for any threads, workers and interruptions; COCO's figures and
# results; raw outputs for given images; YOLO's layout; errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

expect 0 dtn-data shapes --output shapes --seed 1 --train 24 --val 10 --size 96
cat > tiny.yaml << 'EOF'
name: tiny
seed: 2
model: {preset: pvt_tiny, image_size: 64, embed_dim: [8, 16, 24, 32], depth: [1, 1, 1, 1], num_heads: [1, 2, 2, 4],
        mlp_ratio: [2, 2, 2, 2], norm: dtn, num_classes: 3, detector: retinanet, fpn_channels: 16, head_convs: 1,
        head_fc: 24, roi_samples: 32}
data: {dataset: coco, root: shapes, train: train, val: val, scale: [96, 96], workers: 1}
schedule: {name: constant, steps: 12}
optim: {lr: 2.0e-3}
train: {batch_size: 4, eval_every: 6, checkpoint_every: 4, log_every: 1, best: raw}
EOF

for kind in retinanet mask_rcnn; do
  echo "training $kind"
  set_kind=(--set "model.detector=$kind")
  expect 0 dtn-train --config tiny.yaml "${set_kind[@]}" --output "$kind"
  check "losses and figures of $kind" << EOF
lines = [json.loads(l) for l in open("$kind/metrics.jsonl")]
steps = [l for l in lines if "split" not in l]
evals = [l for l in lines if "split" in l]
names = ["loss_cls", "loss_bbox"] if "$kind" == "retinanet" else \
    ["loss_rpn_cls", "loss_rpn_bbox", "loss_cls", "loss_bbox", "loss_mask"]
assert len(steps) == 12, steps
for l in steps:
    assert abs(l["loss"] - sum(l[n] for n in names)) < 1e-4 * l["loss"], l
assert steps[-1]["loss"] < steps[0]["loss"], steps
assert [l["step"] for l in evals] == [6, 12] and all(0 <= l["bbox_AP"] <= 100 for l in evals), evals
assert (evals[0]["segm_AP"] is not None) == ("$kind" == "mask_rcnn"), evals
EOF
  expect_file "$kind/report.html"

  echo "the same training of $kind"
  expect 0 dtn-train --config tiny.yaml "${set_kind[@]}" --output other --threads 2 --set data.workers=3
  expect_same_tensors "$kind/checkpoints/last" other/checkpoints/last
  expect 0 dtn-train --config tiny.yaml "${set_kind[@]}" --output resumed --set schedule.steps=8
  expect 0 dtn-train --config tiny.yaml "${set_kind[@]}" --output resumed --resume auto
  expect_same_tensors "$kind/checkpoints/last" resumed/checkpoints/last
  rm -rf other resumed

  echo "evaluation of $kind"
  expect 0 dtn-eval --checkpoint "$kind" --json --save-results "$kind.json"
  cp "$log" own.txt
  expect 0 dtn-eval --coco-annotations shapes/annotations/instances_val.json --coco-results "$kind.json" --json
  cp "$log" files.txt
  check "figures of $kind from its results" << EOF
own, files = (json.loads([l for l in open(f) if l.startswith("{")][-1]) for f in ("own.txt", "files.txt"))
for overlap in (["bbox"] if "$kind" == "retinanet" else ["bbox", "segm"]):
    for name, value in files[overlap].items():
        assert abs(own[overlap][name] - value) < 1e-9, (overlap, name, own, files)
best = max(l["bbox_AP"] for l in map(json.loads, open("$kind/metrics.jsonl")) if "split" in l)
assert abs(best - 100 * own["bbox"]["AP"]) < 1e-9, (best, own)
assert own["count"] == 10 and own["skipped"] == 0, own
EOF
done

echo "size of a detector"
expect 0 dtn-info --config retinanet_pvt_tiny_ln
expect_text "22964724"
expect_text "image up to 800 x 1333"

echo "pictures and objects"
"$bin/dtn-predict" --checkpoint mask_rcnn shapes/val --output found --score 0 --json > objects.txt 2> "$log" ||
  fail "dtn-predict exited with $?"
check "objects of images" << 'EOF'
lines = [json.loads(l) for l in open("objects.txt")]
assert len(lines) == 10, len(lines)
for l in lines:
    scores = [d["score"] for d in l["detections"]]
    assert scores == sorted(scores, reverse=True) and len(scores) <= 100, l
    for d in l["detections"]:
        assert d["box"][0] <= d["box"][2] and d["mask"]["size"][0] > 0, d
assert any(l["detections"] for l in lines)
EOF
expect_equal "pictures" "$(ls found | wc -l)" 10
expect 2 dtn-predict --checkpoint mask_rcnn shapes/val --output shapes/val

echo "raw outputs"
python3 - << 'EOF'
import files, random
random.seed(1)
files.write_safetensors("x.safetensors", {"images": files.floats([2, 3, 64, 96],
                                          [random.gauss(0, 1) for _ in range(2 * 3 * 64 * 96)])})
EOF
expect 0 dtn-eval --checkpoint retinanet --inputs x.safetensors --save-logits y.safetensors
check "shapes of the outputs" << 'EOF'
import files
tensors = files.read_safetensors("y.safetensors")[1]
grids = [(8, 12), (4, 6), (2, 3), (1, 2), (1, 1)]
assert len(tensors) == 10, list(tensors)
for level, (h, w) in enumerate(grids):
    assert list(tensors[f"cls.{level}"][1]) == [2, 27, h, w], tensors[f"cls.{level}"][:2]
    assert list(tensors[f"reg.{level}"][1]) == [2, 36, h, w], tensors[f"reg.{level}"][:2]
EOF

echo "YOLO's layout"
python3 - << 'EOF'
import json, os, shutil
for split in "train", "val":
    data = json.load(open(f"shapes/annotations/instances_{split}.json"))
    ids = sorted(c["id"] for c in data["categories"])
    os.makedirs(f"yolo/labels/{split}")
    shutil.copytree(f"shapes/{split}", f"yolo/images/{split}")
    for image in data["images"]:
        with open(f"yolo/labels/{split}/{os.path.splitext(image['file_name'])[0]}.txt", "w") as out:
            for a in data["annotations"]:
                if a["image_id"] != image["id"] or a["iscrowd"]: continue
                x, y, w, h = a["bbox"]
                print(ids.index(a["category_id"]), (x + w / 2) / image["width"], (y + h / 2) / image["height"],
                      w / image["width"], h / image["height"], file=out)
open("yolo/classes.txt", "w").write("disc\nsquare\ntriangle\n")
EOF
expect 0 dtn-train --config tiny.yaml --output yolo_run --set data.dataset=yolo --set data.root=yolo \
  --set schedule.steps=2 --set train.eval_every=2

echo "truths as pictures"
expect 0 dtn-data preview --config tiny.yaml --output truths.png --images 6 --epochs 1 --set data.flip=0
expect_text "23 images with [0-9]+ truths" "6 images in truths.png"
check "the truths are not drawn" << 'EOF'
import struct, zlib
data = open("truths.png", "rb").read()
width, height = struct.unpack(">II", data[16:24])
packed, at = b"", 8
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
    at += 12 + size
raw, stride = zlib.decompress(packed), 3 * width
above, seen = bytes(stride), set()
for y in range(height):
    kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
    for x in range(stride):
        left, up, corner = line[x - 3] if x > 2 else 0, above[x], above[x - 3] if x > 2 else 0
        guess = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
        line[x] = line[x] + (0, left, up, (left + up) // 2, guess)[kind] & 255
    above = bytes(line)
    seen.update(above[i:i + 3] for i in range(0, stride, 3))
# The colours of the first three classes.
assert {b"\x00\x72\xb2", b"\xe6\x9f\x00", b"\x00\x9e\x73"} <= seen, (width, height, len(seen))
EOF

echo "errors"
expect 3 dtn-train --config tiny.yaml --output bad --set task=classify
expect_text "has no class for each image"
sed 's/^name:/task: classify\nname:/' tiny.yaml > both.yaml
expect 2 dtn-train --config both.yaml --output bad
expect_text "model.detector is not read by the task 'classify'"
expect 2 dtn-train --config tiny.yaml --output bad --set augment.preset=deit
expect_text "not read by the task 'detect'"
expect 3 dtn-train --config tiny.yaml --output bad --set model.num_classes=2
expect_text "set it to 3"
expect 2 dtn-train --config tiny.yaml --output bad --set data.size_divisor=20
expect_text "data.size_divisor"
expect 2 dtn-eval --checkpoint retinanet --suite imagenet-r
expect_text "detect"
expect 2 dtn-eval --checkpoint retinanet --save-logits z.safetensors
expect_text "--inputs"
expect 2 dtn-eval --checkpoint retinanet --task knn
expect_text "the model is a detector"
expect 2 dtn-bench eval --config tiny.yaml
expect_text "dtn-bench train"
expect_no_leftovers .
