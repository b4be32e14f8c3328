#!/usr/bin/env bash
# dtn-eval --report: every figure of report.json and of the tables is recomputed from the logits of
# --save-logits. The page is opened in a browser if one is installed.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
python3 - << 'EOC'
import os, random, files
random.seed(5)
tints = {"a cat": (190, 60, 60), "dog": (150, 90, 60), "fish, raw": (60, 60, 190), "owl": (90, 90, 90)}

def image(path, tint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    noise = [random.randrange(160) - 80 for _ in range(256)]
    pixel = lambda x, y: [max(0, min(255, t + noise[16 * y + x])) for t in tint]
    open(path, "wb").write(files.bmp(16, 16, pixel))

for split, names in ("train", list(tints)), ("val", ["a cat", "dog", "fish, raw"]):
    for k, name in enumerate(names):
        for i in range(12 if split == "train" else 14 - 4 * k):
            image(f"pets/{split}/{name}/{i}.bmp", tints[name])
# Three images with a wrong label, which count as errors, and a damaged file, which is skipped.
for i in range(3):
    image(f"pets/val/dog/wrong{i}.bmp", tints["fish, raw"])
open("pets/val/a cat/damaged.bmp", "wb").write(b"BM")
EOC
expect 0 dtn-train --config tiny.yaml --set data=null --set data.dataset=imagefolder \
  --set data.root=pets --set model.num_classes=4 --set augment=none --set train.batch_size=12 \
  --set train.micro_batch=null --set model.drop_path=0 --set schedule.steps=30 --set optim.lr=3e-3 \
  --output run
grep -qF "dtn-eval --checkpoint run --report run/errors" run/report.html ||
  fail "report.html of a run does not say how to find its errors"

# recompute FOLDER LOGITS WITH_FILES: compares report.json of the folder, and its tables if it has
# any, with the logits. labels.json holds the labels and, for a data set, the file names.
cat > recompute.py << 'EOC'
import csv, json, math, os, sys, files

folder, logits_file, with_files = sys.argv[1], sys.argv[2], sys.argv[3] == "files"
truths, names = json.load(open("labels.json"))
shape, data = (lambda t: (t[1], files.values_of(t)))(files.read_safetensors(logits_file)[1]["logits"])
K = shape[1]
rows = [data[i * K : (i + 1) * K] for i in range(shape[0])]
kept = [i for i in range(len(rows)) if not math.isnan(rows[i][0])]
report = json.load(open(folder + "/report.json"))
near = lambda a, b: abs(a - b) < 1e-6
every = lambda a, b: len(a) == len(b) and all(map(near, a, b))

samples = []
for i in kept:
    most = max(rows[i])
    e = [math.exp(v - most) for v in rows[i]]
    prediction = rows[i].index(most)
    samples.append((i, truths[i], prediction, 1 / sum(e), math.log(sum(e)) + most - rows[i][truths[i]]))
n = len(samples)
matrix = [[0] * K for _ in range(K)]
for _, t, p, _, _ in samples: matrix[t][p] += 1
assert report["confusion"] == matrix, (report["confusion"], matrix)
assert near(report["top1"], 100 * sum(matrix[k][k] for k in range(K)) / n), report["top1"]
over = lambda a, b: a / b if b else 0
support = [sum(matrix[k]) for k in range(K)]
predicted = [sum(row[k] for row in matrix) for k in range(K)]
f1 = [over(2 * matrix[k][k], support[k] + predicted[k]) for k in range(K)]
for k, c in enumerate(report["classes"]):
    assert list(c) == ["name", "support", "precision", "recall", "f1"], c
    assert c["support"] == support[k]
    assert every([c["precision"], c["recall"], c["f1"]],
                 [over(matrix[k][k], predicted[k]), over(matrix[k][k], support[k]), f1[k]]), c
assert [c["name"] for c in report["classes"]] == ["a cat", "dog", "fish, raw", "owl"]
assert near(report["macro_f1"], sum(f1) / K)
bins, ece = [[] for _ in range(15)], 0
for s in samples: bins[next(i for i in range(15) if s[3] <= (i + 1) / 15)].append(s)
for i, (b, found) in enumerate(zip(bins, report["reliability"])):
    accuracy = over(sum(t == p for _, t, p, _, _ in b), len(b))
    confidence = over(sum(s[3] for s in b), len(b))
    assert found["count"] == len(b)
    assert every([found["from"], found["to"], found["confidence"], found["accuracy"]],
                 [i / 15, (i + 1) / 15, confidence, accuracy]), (found, confidence, accuracy)
    ece += len(b) / n * abs(accuracy - confidence)
assert near(report["ece"], ece)
hits = [sum(sum(v > rows[i][t] or v == rows[i][t] and j < t for j, v in enumerate(rows[i])) < k
            for i, t, *_ in samples) / n for k in range(1, K + 1)]
assert every(report["top_k"], hits), (report["top_k"], hits)
file_of = (lambda i: names[i]) if with_files else (lambda i: i)
wrong = sorted((s for s in samples if s[1] != s[2]), key=lambda s: -s[4])
assert wrong and len(report["worst"]) == len(wrong)
for s, found in zip(wrong, report["worst"]):
    assert list(found) == ["file", "truth", "prediction", "probability", "loss"], found
    assert [found["file"], found["truth"], found["prediction"]] == [file_of(s[0]), s[1], s[2]], found
    assert every([found["probability"], found["loss"]], s[3:]), (found, s)
if not os.path.exists(folder + "/classes.csv"): sys.exit()

table = lambda name: list(csv.DictReader(open(f"{folder}/{name}.csv", newline="")))
assert [(r["name"], int(r["support"]), int(r["predicted"])) for r in table("classes")] == [
    (c["name"], support[k], predicted[k]) for k, c in enumerate(report["classes"])]
assert every([float(r["f1"]) for r in table("classes")], f1)
assert {(int(r["truth"]), int(r["prediction"])): int(r["count"]) for r in table("confusions")} == {
    (t, p): c for t, row in enumerate(matrix) for p, c in enumerate(row) if c}
assert every([float(r["accuracy"]) for r in table("top_k")], hits)
assert [int(r["count"]) for r in table("reliability")] == [len(b) for b in bins]
assert [(r["file"], r["truth_name"], int(r["prediction"])) for r in table("samples")] == [
    (str(file_of(i)), report["classes"][t]["name"], p) for i, t, p, _, _ in samples]
EOC

echo "a data set"
python3 -c "
import os, json
names = [f'pets/val/{k}/{f}' for k in sorted(os.listdir('pets/val')) for f in sorted(os.listdir('pets/val/' + k))]
kinds = ['a cat', 'dog', 'fish, raw', 'owl']
json.dump([[kinds.index(n.split('/')[2]) for n in names], names], open('labels.json', 'w'))"
expect 0 dtn-eval --checkpoint run --json --save-logits logits.safetensors --report deep/er --csv
expect_text 'report: deep/er/report.html' '"macro_f1":0\.[0-9]+,"ece":0\.' '"count":33,.*"skipped":1'
checks=$((checks + 1))
python3 recompute.py deep/er logits.safetensors files || fail "report.json differs from the logits"
check "report.json agrees with --json" << 'EOC'
printed = json.loads(log.splitlines()[-1])
report = json.load(open("deep/er/report.json"))
for key in "top1", "macro_f1", "ece", "count", "skipped": assert printed[key] == report[key], key
assert abs(printed["loss"] - report["loss"]) < 1e-5
assert list(report)[:3] == ["top1", "macro_f1", "macro_f1_present"]
page = open("deep/er/report.html").read()
worst = report["worst"][0]["file"].removeprefix("pets/val/")
assert worst in page and "fish, raw" in page and "No image belongs to owl." in page
assert "1 damaged image left out." in page
assert page.count("data:image/png;base64,") > len(report["worst"])
EOC
expect 0 dtn-eval --checkpoint run --ema --save-logits logits.safetensors --report ema
python3 recompute.py ema logits.safetensors files || fail "report.json of the average differs"
expect_no_file ema/classes.csv
expect 0 dtn-eval --checkpoint run --ema --report ema  # again, to the same folder

echo "a file of tensors"
python3 - << 'EOC'
import files, json, random
random.seed(1)
images = [random.gauss(0, 1) for _ in range(30 * 3 * 256)]
labels = [random.randrange(3) for _ in range(30)]
json.dump([labels, None], open("labels.json", "w"))
given = {"images": files.floats([30, 3, 16, 16], images)}
files.write_safetensors("unlabelled.safetensors", given)
files.write_safetensors("given.safetensors", given | {"labels": files.integers(labels)})
EOC
expect 0 dtn-eval --checkpoint run --inputs given.safetensors --save-logits logits.safetensors \
  --report given --csv
checks=$((checks + 1))
python3 recompute.py given logits.safetensors places || fail "report.json of --inputs differs"
expect 3 dtn-eval --checkpoint run --inputs unlabelled.safetensors --report no
expect_text "unlabelled.safetensors: --report needs the tensor 'labels'"

echo "errors"
cat > dit.yaml << 'EOC'
task: diffusion
model: {preset: dit_tiny, image_size: 16, channels: 3, num_classes: 4, depth: 1, embed_dim: 32, num_heads: 2}
data: {root: pets}
schedule: {name: constant, steps: 1}
train: {batch_size: 4}
diffusion: {sample_every: 0}
EOC
expect 0 dtn-train --config dit.yaml --output dit
expect 2 dtn-eval --checkpoint dit --report no
expect_text '--report is for classifiers; the task of this model is diffusion'
touch file
expect 2 dtn-eval --checkpoint run --report file
expect_text 'file'
expect 2 dtn-eval --checkpoint run --csv
expect_text '--csv requires --report'
expect 2 dtn-eval --checkpoint run --task knn --report no
expect 2 dtn-eval --checkpoint run --suite imagenet-r --report no
expect_no_file no
python3 - << 'EOC'
import files, math
metadata, tensors = files.read_safetensors("run/checkpoints/last/model.safetensors")
dtype, shape, data = tensors["head.bias"]
tensors["head.bias"] = files.floats(shape, [math.nan] * shape[0])
# No checksums in the metadata, as in a file of another program.
metadata = {key: metadata[key] for key in ("config", "classes")}
files.write_safetensors("diverged.safetensors", tensors, metadata)
EOC
expect 3 dtn-eval --checkpoint diverged.safetensors --report no
expect_text 'the logits of a cat/0.bmp are not finite'
expect_no_file no

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ ! $browser ]]; then
  echo "the page is not opened: there is no browser here (Debian package chromium)"
  exit 0
fi
echo "the page in a browser"
# A copy without the content security policy runs a script. The script writes into the title by how
# much the page is too wide, and the first class in each order.
python3 - << 'EOC'
import re
page = open("deep/er/report.html").read()
page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
script = """<script>const all = document.documentElement, said = [];
for (const choice of document.querySelectorAll('.sorted>input')) {
  choice.checked = true;
  const cells = [...document.querySelectorAll('.sorted td:first-child')];
  said.push(choice.nextSibling.textContent + ': ' + cells.reduce((a, b) =>
    a.getBoundingClientRect().top <= b.getBoundingClientRect().top ? a : b).textContent);
}
document.title = all.scrollWidth - all.clientWidth + ' too wide; ' + said.join('; ');</script>"""
open("measured.html", "w").write(page.replace("</body>", script + "</body>"))
EOC
for width in 390 1280; do
  timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$work/profile" --no-first-run --disable-background-networking \
    --window-size="$width,1600" --dump-dom "file://$work/measured.html" > page 2> said < /dev/null ||
    fail "$browser: $(tail -3 said | cut -c -300)"
  grep -m 1 -o '<title>[^<]*' page > "$log"
  expect_text '^<title>0 too wide; lowest F1: ' 'most images: a cat; fewest images: owl' \
    'label order: a cat$'
done
