#!/usr/bin/env bash
# dtn-predict: names from the checkpoint, pictures and folders, damaged files, dtn-eval's figures.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
python3 - << 'EOF'
import os, random, files
random.seed(1)
def picture(tint):
    noise = [random.randrange(60) for _ in range(40 * 30)]
    return lambda x, y: [min(255, t + noise[y * 40 + x]) for t in tint]
for split, count in ("train", 20), ("val", 4):
    for name, tint in ("blue sky", (20, 40, 190)), ("red, \"hot\"", (190, 30, 20)):
        folder = f"data/{split}/{name}"
        os.makedirs(folder)
        for i in range(count):
            write, end = (files.png, "png") if i % 2 else (files.bmp, "bmp")
            open(f"{folder}/{i}.{end}", "wb").write(write(40, 30, picture(tint)))
EOF
expect 0 dtn-train --config tiny.yaml --set data.dataset=imagefolder --set data.root="$work/data" \
  --set model.num_classes=2 --set augment.preset=none --set schedule.steps=30 \
  --set optim.lr=5e-3 --output run
best=run/checkpoints/last

echo "names, text and tables"
expect 0 dtn-predict --help
expect_text IMG --checkpoint --config --set --ema --topk --csv --json --device --threads 'Exit codes'
cp "data/val/blue sky/0.bmp" sky
expect 0 dtn-predict sky --checkpoint "$best"
expect_text '^sky$' '%  blue sky$' '%  red, "hot"$' '1 image in'
expect 0 dtn-train predict data/val --checkpoint "$best" --topk 1 --csv table.csv
python3 - << 'EOF' || fail "table.csv"
import csv
rows = list(csv.DictReader(open("table.csv")))
assert list(rows[0]) == ["file", "rank", "label", "name", "probability"], rows[0]
assert len(rows) == 8 and all(r["rank"] == "1" for r in rows), rows
for r in rows:
    assert r["file"].split("/")[2] == r["name"], r  # the trained model is right on these images
    assert 0.5 <= float(r["probability"]) <= 1, r
EOF

echo "dtn-eval's figures, one picture at a time or many"
expect 0 dtn-eval --checkpoint "$best" --save-logits logits.safetensors
"$bin/dtn-predict" data/val --checkpoint "$best" --json > one.json 2> "$log" || fail "--json"
"$bin/dtn-predict" data/val/ --checkpoint "$best" --json --batch-size 3 > some.json 2> "$log"
python3 - << 'EOF' || fail "predictions and logits differ"
import json, math, files
_, tensors = files.read_safetensors("logits.safetensors")
logits = files.values_of(tensors["logits"])
for name in "one.json", "some.json":
    lines = [json.loads(line) for line in open(name)]
    assert len(lines) == 8 and all(l["file"].startswith("data/val/") for l in lines)
    for i, line in enumerate(lines):
        row = logits[2 * i:2 * i + 2]
        total = sum(math.exp(v) for v in row)
        assert [t["probability"] for t in line["top"]] == sorted(
            (t["probability"] for t in line["top"]), reverse=True)
        for t in line["top"]:
            assert abs(t["probability"] - math.exp(row[t["label"]]) / total) < 1e-5, (line, row)
EOF

echo "damage"
mkdir mixed
cp sky mixed/1.bmp
head -c 300 sky > mixed/2.bmp
cp "data/val/red, \"hot\"/1.png" mixed/3.png
: > mixed/4.jpg
code=0
"$bin/dtn-predict" mixed --checkpoint "$best" --json > mixed.json 2> "$log" || code=$?
expect_equal "exit code with damaged pictures" "$code" 3
expect_text 'mixed/2.bmp' 'mixed/4.jpg' '2 of 4 images could not be read'
python3 - << 'EOF' || fail "mixed.json"
import json
lines = [json.loads(line) for line in open("mixed.json")]
assert [l["file"] for l in lines] == [f"mixed/{n}" for n in ("1.bmp", "2.bmp", "3.png", "4.jpg")]
assert ["error" in l for l in lines] == [False, True, False, True], lines
EOF

echo "GIF, TGA, PSD, HDR and PIC, in folders, shards and packed files"
mkdir -p formats/val/a packed
i=0
for name in interlaced.gif rgb8.tga cmyk.psd runs.hdr mixed.pic; do
  cp "$lib/../../golden/data/images/$name" "formats/val/a/$i.${name##*.}"
  echo 0 > "formats/val/a/$i.cls"
  i=$((i + 1))
done
expect 0 dtn-predict formats --checkpoint "$best"
expect_text 'a/0.gif' 'a/1.tga' 'a/2.psd' 'a/3.hdr' 'a/4.pic' '5 images in'
tar cf shard.tar -C formats/val/a $(ls formats/val/a)
expect 0 dtn-eval --checkpoint "$best" --set data.dataset=webdataset --set data.root=. \
  --set data.val=shard.tar --json
expect_text '"count":5,.*"skipped":0}'
rm formats/val/a/*.cls
expect 0 dtn-data pack --dataset imagefolder --root formats --split val --output packed/val.packed
expect 0 dtn-data verify --dataset packed --root packed --split val
expect_text '5 images'
head -c 100 formats/val/a/4.pic > short.pic
expect 3 dtn-predict short.pic --checkpoint "$best"
expect_text 'short.pic: the file is cut short'

echo "refusals"
expect 2 dtn-predict
expect 2 dtn-predict --checkpoint "$best"
expect_text 'images is required'
expect 2 dtn-predict sky
expect_text '--checkpoint is required'
expect 3 dtn-predict absent.jpg --checkpoint "$best"
expect_text 'absent.jpg: no such file or folder'
mkdir empty
expect 3 dtn-predict empty --checkpoint "$best"
expect_text 'empty: contains no image file'
expect 2 dtn-predict sky --checkpoint "$best" --set model.num_classes=0
expect_text 'no head'
