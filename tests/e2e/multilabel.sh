#!/usr/bin/env bash
# Images with any number of classes: train from a table, be killed and resume, evaluate, report,
# predict, average, export, errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

python3 - << 'EOF'
import os, random, files
random.seed(4)
names = ["disc", "cross", "frame"]
rows = []
for i in range(160):
    has = [random.random() < p for p in (0.5, 0.4, 0.15)]
    x0, y0 = random.randint(6, 10), random.randint(6, 10)
    noise = [random.randrange(60) for _ in range(256)]
    def pixel(x, y):
        value = [noise[16 * y + x]] * 3
        if has[0] and (x - x0) ** 2 + (y - y0) ** 2 < 14: value[0] += 150
        if has[1] and (x == x0 or y == y0): value[1] += 150
        if has[2] and (x in (0, 15) or y in (0, 15)): value[2] += 150
        return [min(255, v) for v in value]
    folder = "photos/with space" if i % 5 == 0 else "photos"
    os.makedirs(folder, exist_ok=True)
    open(f"{folder}/{i}.bmp", "wb").write(files.bmp(16, 16, pixel))
    rows.append((f"{folder[7:]}/{i}.bmp".lstrip("/"), [n for n, h in zip(names, has) if h]))
write = lambda name, lines: open(f"photos/{name}", "w").write("\n".join(lines) + "\n")
write("several.csv", ["path,labels"] + [f"{path},{';'.join(labels)}" for path, labels in rows])
write("lines.csv", ["path,label"] + [f"{path},{l}" for path, labels in rows for l in labels or [""]])
write("columns.csv", ["file,cross,disc,frame"] + [
    path + "".join(f",{int(n in labels)}" for n in ("cross", "disc", "frame")) for path, labels in rows])
EOF
cat > shapes.yaml << 'EOF'
name: shapes
task: multilabel
model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 2, num_heads: 4, norm: dtn}
data: {dataset: imagefolder, root: photos, labels: several.csv, split: 0.25}
augment: {mixup: 0.2}
train: {batch_size: 16, micro_batch: 8, eval_every: 20, checkpoint_every: 10, log_every: 5, ema: 0.9}
optim: {lr: 3.0e-3}
schedule: {steps: 60, warmup_epochs: 1}
EOF

expect 0 dtn-train --config shapes.yaml --dry-run --set augment.hflip=0.9 --set 'augment.scale=[0.5, 1]'
expect_text 'warning: augment.scale, augment.hflip: no effect.*augment.preset: light'

echo "train, be killed, resume"
expect 0 dtn-train --config shapes.yaml --output run --threads 2
expect_text 'model.num_classes: 3, from the training data' \
  'images with labels of 3 classes in photos, from photos/several.csv \(header path,labels\)' \
  'evaluation at step 60 \(val\): mAP +[0-9.]+ +micro F1'
code=0
python3 "$lib/interrupt.py" KILL "lines:9.50:killed/metrics.jsonl" "$bin/dtn-train" --config shapes.yaml \
  --output killed --threads 2 > "$log" 2>&1 || code=$?
expect_equal "exit code of the killed run" "$code" 137
expect 0 dtn-train --config shapes.yaml --output killed --threads 2 --resume auto
expect_same_checkpoint run/checkpoints/step-00000060 killed/checkpoints/step-00000060

echo "the three layouts of a table mean the same"
for table in lines columns; do
  expect 0 dtn-train --config shapes.yaml --set data.labels=$table.csv --output $table --threads 2
  expect_same_tensors run/checkpoints/last $table/checkpoints/last
done

echo "packed files and shards have the same labels"
table=(--root photos --labels several.csv --task multilabel)
expect 0 dtn-data verify "${table[@]}"
expect_text '160 of 160 images verified, 0 bad'
expect 0 dtn-data stats "${table[@]}" --json
grep '^{' "$log" > table.json
mkdir -p packed shards
for split in train val; do
  expect 0 dtn-data pack "${table[@]}" --hold-out 0.25 --split $split --output packed/$split.packed
done
expect 0 dtn-data verify --dataset packed --root packed
expect 0 dtn-data stats --dataset packed --root packed
expect_text 'classes  3, any number for each image; [0-9]+ images without one'
python3 - << 'EOF'
import csv, io, json, tarfile
def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
for split in "train", "val":
    with tarfile.open(f"shards/{split}.tar", "w") as tar:
        for row in csv.DictReader(open(f"run/splits/{split}.csv")):
            key, labels = row["path"].rsplit(".", 1)[0], row["labels"].split(";")
            add(tar, key + ".bmp", open("photos/" + row["path"], "rb").read())
            add(tar, key + ".json", json.dumps({"labels": [l for l in labels if l]}).encode())
EOF
expect 0 dtn-data stats --dataset webdataset --root shards --json
check "statistics of the table" << 'EOF'
table, names = json.load(open("table.json")), ["cross", "disc", "frame"]
rows = [l.rstrip("\n").split(",")[1].split(";") for l in open("photos/several.csv")][1:]
assert [c["name"] for c in table["classes"]] == names, table
assert [c["images"] for c in table["classes"]] == [sum(n in r for r in rows) for n in names], table
assert table["without_class"] == sum(r == [""] for r in rows) > 0, table
EOF
for kind in packed:packed shards:webdataset; do
  expect 0 dtn-train --config shapes.yaml --set data.dataset=${kind#*:} --set data.root=${kind%:*} \
    --set data.labels=null --set data.split=null --output from-${kind%:*} --threads 2
  expect_same_tensors run/checkpoints/last from-${kind%:*}/checkpoints/last
done
expect 3 dtn-data preview --config shapes.yaml --set task=classify --set data.dataset=packed \
  --set data.root=packed --set data.labels=null --set data.split=null --output x.png
expect_text 'any number of labels; set task: multilabel'
expect 0 dtn-train shards --dry-run
expect_text 'task: multilabel, because an image of the shards has several labels or none'

echo "dtn-eval finds the figures of the run"
last=run/checkpoints/last
expect 0 dtn-eval $last --json
grep '^{' "$log" > raw.json
expect 0 dtn-eval $last --ema --json --report report --csv --save-logits logits.safetensors
grep '^{' "$log" > ema.json
check "figures" << 'EOF'
logged = [json.loads(l) for l in open("run/metrics.jsonl")]
for split, name in ("val", "raw"), ("val_ema", "ema"):
    run = [l for l in logged if l.get("split") == split][-1]
    found = json.load(open(name + ".json"))
    for key in ("map", "f1_micro", "f1_macro", "threshold", "loss"):
        assert run[key] == found[key], (split, key, run, found)
    assert 0.5 < found["map"] <= 1, found
EOF

echo "the report's numbers follow from the logits"
check "report.json" << 'EOF'
import math
report = json.load(open("report/report.json"))
table = files.read_safetensors("logits.safetensors")[1]
names = ["cross", "disc", "frame"]
logits = files.values_of(table["logits"])
of = dict(line.rsplit(",", 1) for line in open("photos/several.csv").read().splitlines())
import csv
listed = list(csv.reader(open("run/splits/val.csv")))[1:]
assert all(sorted(of[path].split(";")) == labels.split(";") for path, labels in listed), listed
val = [path for path, _ in listed]
labels = [float(name in of[path].split(";")) for path in val for name in names]
count = len(logits) // 3
rows = lambda values: [values[3 * i:3 * i + 3] for i in range(count)]
logits, labels = rows(logits), rows(labels)
p = [[1 / (1 + math.exp(-z)) for z in row] for row in logits]
assert report["count"] == count == len(val)
def quotient(a, b): return a / b if b else 0
def f1(hits, predicted, support): return quotient(2 * hits, predicted + support)
totals = [0, 0, 0]
aps = []
for k, of in enumerate(report["classes"]):
    assert of["name"] == names[k], of
    predicted = [row[k] >= report["threshold"] for row in p]
    truth = [row[k] == 1 for row in labels]
    hits = sum(a and b for a, b in zip(predicted, truth))
    assert (of["support"], of["predicted"]) == (sum(truth), sum(predicted)), of
    assert abs(of["precision"] - quotient(hits, sum(predicted))) < 1e-12, of
    assert abs(of["recall"] - quotient(hits, sum(truth))) < 1e-12, of
    assert abs(of["f1"] - f1(hits, sum(predicted), sum(truth))) < 1e-12, of
    ap, found, seen = 0, 0, 0
    for score in sorted({row[k] for row in logits}, reverse=True):
        new = [t for row, t in zip(logits, truth) if row[k] == score]
        seen, found = seen + len(new), found + sum(new)
        ap += sum(new) / sum(truth) * found / seen
    assert abs(of["ap"] - ap) < 1e-12, (of, ap)
    aps.append(ap)
    for i, n in enumerate((hits, sum(predicted), sum(truth))): totals[i] += n
assert abs(report["map"] - sum(aps) / 3) < 1e-12
assert abs(report["f1_micro"] - f1(*totals)) < 1e-12
wrong = {}
for i in range(count):
    losses = [-math.log(p[i][k] if labels[i][k] else 1 - p[i][k]) for k in range(3)
              if (p[i][k] >= report["threshold"]) != (labels[i][k] == 1)]
    if losses: wrong[i] = max(losses)
worst = report["worst"]
assert len(worst) == min(100, len(wrong)), (len(worst), len(wrong))
for found, expected in zip(worst, sorted(wrong.values(), reverse=True)):
    assert abs(found["loss"] - expected) < 1e-6 and os.path.exists(found["file"]), found
# No other of a hundred thresholds has a larger micro F1 on the validation split than the run's.
assert max(at["f1"] for at in report["over_threshold"]) <= report["f1_micro"]
EOF
expect_file report/report.html
expect_file report/thresholds.csv

echo "predict"
expect 0 dtn-predict photos/1.bmp "photos/with space" --checkpoint run --json --topk 1
check "predictions" << 'EOF'
thresholds = files.read_safetensors("run/checkpoints/best/model.safetensors")[0]
threshold = float(thresholds["threshold"])
lines = [json.loads(l) for l in log.splitlines() if l.startswith("{")]
assert len(lines) == 33, len(lines)
for line in lines:
    top = line["top"]
    assert len(top) >= 1 and all(t["predicted"] for t in top[1:]), line
    assert all(t["predicted"] == (t["probability"] >= threshold) for t in top), line
EOF
expect 0 dtn-predict photos/1.bmp --checkpoint run --csv table.csv
expect_equal "header" "$(head -1 table.csv)" "file,rank,label,name,probability,predicted"

echo "given inputs"
python3 - << 'EOF'
import files, random
random.seed(9)
n = 5
values = [random.gauss(0, 1) for _ in range(n * 3 * 256)]
files.write_safetensors("inputs.safetensors", {
    "images": files.floats([n, 3, 16, 16], values),
    "labels": files.floats([n, 3], [float(i % 2) for i in range(3 * n)])})
EOF
expect 0 dtn-eval run --inputs inputs.safetensors --json
check "inputs" << 'EOF'
(found,) = [json.loads(l) for l in log.splitlines() if l.startswith("{")]
assert found["count"] == 5 and 0 <= found["map"] <= 1, found
EOF

echo "average, export, show, fine-tune"
expect 0 dtn-average run columns --evaluate \
  --output average.safetensors
expect_text 'average +mAP'
expect 0 dtn-eval average.safetensors
expect_text 'the file has no threshold, so F1 is measured at 0.5'
expect 0 dtn-export --checkpoint run --output model.onnx
expect_text '-> logits \[N, 3\]'
expect 0 dtn-data preview --config shapes.yaml --output preview.png
expect 0 dtn-train --config shapes.yaml --set model.init_weights=run --set schedule.steps=2 --output tuned
expect 0 dtn-train --config shapes.yaml --dry-run

echo "errors"
expect 2 dtn-train --config shapes.yaml --set train.label_smoothing=0.1 --output x
expect_text "train.label_smoothing is not read by the task 'multilabel'"
expect 2 dtn-train --config shapes.yaml --set data.labels=null --output x
expect_text 'set data.labels'
expect 3 dtn-train --config shapes.yaml --set model.num_classes=4 --output x
expect_text 'has 3 classes, but model.num_classes is 4; set it to 3'
expect 2 dtn-eval run killed
expect_text 'its task is multilabel; an ensemble is of classifiers'
expect 2 dtn-eval run --suite imagenet-r --suite-root photos
expect_text '--suite and --samples need a classifier of one class'
