#!/usr/bin/env bash
# dtn-eval --suite on a small ImageNet-C and a small ImageNet-R must agree with plain dtn-eval on
# every folder.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"

# The model need not classify these pictures correctly; its answers must only differ.
python3 - << 'EOF'
import os, random, files
random.seed(5)

def image(path, width, height):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    tint = [random.randrange(256) for _ in range(3)]
    pixels = [[[(t + random.randrange(90)) % 256 for t in tint] for _ in range(width)]
              for _ in range(height)]
    open(path, "wb").write(files.bmp(width, height, lambda x, y: pixels[y][x]))

classes = [f"n{i}" for i in range(10)]
for c in classes:
    for i in range(4):
        image(f"clean/val/{c}/{i}.bmp", 22, 30)
for corruption, severities in {"noise/shot_noise": range(1, 6), "fog": range(1, 6),
                               "blur/zoom_blur": (2, 4), "extra/saturate": range(1, 6)}.items():
    for s in severities:
        for c in classes:
            image(f"c/{corruption}/{s}/{c}/0.bmp", 16, 16)
image("c/fog/3/n4/1.bmp", 40, 25)  # to be resized
open("c/fog/3/n5/1.bmp", "wb").write(b"BM damaged")
for c in "n7", "n1", "n4":
    for i in range(5):
        image(f"r/{c}/{i}.bmp", 30, 24)
EOF
expect 0 dtn-train --config tiny.yaml --output run --set schedule.steps=15 --set optim.lr=5e-3 \
  --set augment=light --set train.label_smoothing=0
model=(--checkpoint run/checkpoints/last --set data.dataset=imagefolder)
evaluate() { expect 0 dtn-eval "${model[@]}" "$@" --json && grep '^{' "$log" > result.json; }

echo "plain runs"
for folder in noise/shot_noise/{1..5} fog/{1..5} blur/zoom_blur/{2,4} extra/saturate/{1..5}; do
  evaluate --set data.root=c --set "data.val=$folder" --set data.crop_pct=1
  cp result.json "plain-${folder//\//-}.json"
done
evaluate --set data.root=clean --save-logits clean.safetensors
cp result.json plain-clean.json
mkdir -p all/r && cp -r r/* all/r/ && mkdir -p all/r/n{0..9}  # a folder for each class of the model
evaluate --set data.root=all --set data.val=r --save-logits r.safetensors

echo "imagenet-c"
evaluate --set data.root=clean --suite imagenet-c --suite-root c --save kept.json
cp result.json c.json
expect_text 'damaged image: .*c/fog/3/n5/1.bmp' 'fog/3: top-1 error' 'centre crop'
check "the report of ImageNet-C" << 'EOF'
found = json.load(open("c.json"))
assert list(found)[:5] == ["top1", "top5", "loss", "count", "images_per_second"]
plain = lambda name: json.load(open(f"plain-{name}.json"))
def same(score, name):
    other = plain(name)
    for key in "top1", "top5", "count":
        assert score[key] == other[key], (name, key, score, other)
    assert abs(score["loss"] - other["loss"]) <= 1e-6 * other["loss"], (name, score, other)
    assert score["error"] == 100 - score["top1"]
    return 100 - other["top1"]
errors = {}
for folder, there in {"noise-shot_noise": "12345", "fog": "12345", "blur-zoom_blur": "24"}.items():
    name = folder.split("-")[-1]
    entry = found["corruptions"][name]
    assert list(entry["severities"]) == list("12345")
    errors[name] = [same(entry["severities"][s], f"{folder}-{s}") for s in there]
    assert all(entry["severities"][s] is None for s in "12345" if s not in there)
alexnet = {"shot_noise": 0.894468, "fog": 0.819324}
ce = {name: sum(errors[name]) / (5 * a) for name, a in alexnet.items()}
close = lambda a, b: abs(a - b) < 1e-9
for name in ce:
    assert close(found["corruptions"][name]["ce"], ce[name]), (name, ce)
assert found["corruptions"]["zoom_blur"]["ce"] is None and len(found["corruptions"]) == 15
assert found["mce"] is None and found["complete_corruptions"] == 2
assert found["complete"] is True, "of what is there"
assert close(found["mean_ce"], sum(ce.values()) / 2)
assert close(found["mean_error"], sum(sum(errors[name]) for name in ce) / 10)
(extra,) = found["extra"].values()
saturate = [same(extra["severities"][s], f"extra-saturate-{s}") for s in "12345"]
assert close(extra["error"], sum(saturate) / 5) and "ce" not in extra
same(found["clean"], "clean")
assert found["corruptions"]["fog"]["severities"]["3"]["bad_images"] == 1
assert found["count"] == 121 and found["corruptions"]["fog"]["severities"]["3"]["count"] == 11
hits = sum(s["top1"] * s["count"] for c in found["corruptions"].values()
           for s in c["severities"].values() if s)
assert close(found["top1"], hits / 121)
assert len(set(errors["fog"] + errors["shot_noise"] + saturate)) > 3, "the folders are too alike"
assert json.load(open("kept.json")) == found
EOF
expect 0 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-c --suite-root c/noise
expect_text '^shot_noise +[0-9.]+ ' '^gaussian_noise +- ' 'mean CE of 1 of 15' 'clean, 10 classes'

echo "finished folders are not evaluated again"
check "mark and remove" << 'EOF'
kept = json.load(open("kept.json"))
kept["corruptions"]["fog"]["severities"]["2"]["top1"] = 12.5
kept["corruptions"]["fog"]["severities"]["4"] = kept["clean"] = None
json.dump(kept, open("kept.json", "w"))
EOF
evaluate --set data.root=clean --suite imagenet-c --suite-root c --save kept.json
expect_text 'the results of 16 folders; 50 images left'
check "a resumed suite" << 'EOF'
found, first = json.load(open("result.json")), json.load(open("c.json"))
assert found["corruptions"]["fog"]["severities"]["2"]["top1"] == 12.5
for severities in (r["corruptions"]["fog"]["severities"] for r in (found, first)):
    for key in "seconds", "images":
        severities["4"].pop(key)
assert found["corruptions"]["fog"]["severities"]["4"] == first["corruptions"]["fog"]["severities"]["4"]
assert found["clean"]["top1"] == first["clean"]["top1"]
EOF
cp kept.json before.json
for other in --ema --precision=bf16 --set=data.crop_pct=0.9 --set=data.interpolation=bilinear; do
  expect 2 dtn-eval "${model[@]}" --set data.root=clean "$other" --suite imagenet-c \
    --suite-root c --save kept.json
  expect_text 'kept.json: was made with other settings: '
done
expect 2 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-r --suite-root r \
  --save kept.json
cmp kept.json before.json || fail "a refused file was changed"
expect 2 dtn-eval "${model[@]}" --suite imagenet-c --suite-root c --save tiny.yaml
grep -q 'name: tiny' tiny.yaml || fail "a file of somebody else was overwritten"

echo "imagenet-r"
evaluate --set data.root=clean --suite imagenet-r --suite-root r
cp result.json r.json
check "a choice between the classes that are there" << 'EOF'
found = json.load(open("r.json"))
def top1(name, choice, per_class, labels):
    rows = files.values_of(files.read_safetensors(name)[1]["logits"])
    rows = [rows[i : i + 10] for i in range(0, len(rows), 10)]
    rows = [(row, i // per_class) for i, row in enumerate(rows)]
    rows = [(row, labels[label]) for row, label in rows if label in labels]
    hits = [max(choice, key=lambda k: row[k]) == label for row, label in rows]
    return 100 * sum(hits) / len(hits), len(hits)
choice = [1, 4, 7]
want, count = top1("r.safetensors", choice, 5, {0: 1, 1: 4, 2: 7})
assert count == found["count"] == 15 and found["classes"] == 3
assert abs(found["top1"] - want) < 1e-9, (found, want)
assert want != top1("r.safetensors", range(10), 5, {0: 1, 1: 4, 2: 7})[0], "the choice is idle"
assert found["top5"] == 100 and found["renditions"]["top1"] == found["top1"]
want, count = top1("clean.safetensors", choice, 4, {1: 1, 4: 4, 7: 7})
assert count == found["clean"]["count"] == 12
assert abs(found["clean"]["top1"] - want) < 1e-9, (found, want)
EOF
for c in n{0..9}; do echo $c; done > classes.txt
expect 3 dtn-eval "${model[@]}" --set data.root=absent --suite imagenet-r --suite-root r
expect_text "with the 10 classes of the model" '--classes' 'data.root'
evaluate --set data.root=absent --suite imagenet-r --suite-root r --classes classes.txt
check "classes from a file" << 'EOF'
found, known = (json.load(open(name)) for name in ("result.json", "r.json"))
assert found["clean"] is None and found["renditions"]["top1"] == known["renditions"]["top1"]
EOF
evaluate --set data.root=clean --suite imagenet-r --suite-root r --no-clean --batch-size 4
check "no clean images" <<< 'assert json.load(open("result.json"))["clean"] is None'
expect 0 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-r --suite-root r
expect_text '^top-1 .* ImageNet-R, 3 classes, 15 images$' '^top-1 .* clean, 3 classes, 12 images$'
checks=$((checks + 1))
python3 "$lib/terminal.py" "$bin/dtn-eval" "${model[@]}" --set data.root=clean --suite imagenet-r \
  --suite-root r > "$log"
expect_text $'\r\033\\[Kimagenet-r \\[[#.]*\\] [0-9]+/27  .* images/s  left '

echo "a signal"
python3 - << 'EOF'
import os
os.makedirs("many/snow/1/n0")
for i in range(12000):
    os.link("c/fog/1/n0/0.bmp", f"many/snow/1/n0/{i}.bmp")
EOF
got=0
python3 "$lib/interrupt.py" INT lines:1:stopped.json "$bin/dtn-eval" "${model[@]}" \
  --set data.root=clean --suite imagenet-c --suite-root many --save stopped.json --threads 1 \
  --set data.workers=0 > "$log" 2>&1 || got=$?
expect_equal "exit code of a stopped suite" "$got" 75
expect_text 'stopped by a signal; the results of .* folders are saved in stopped.json'
check "what a stopped suite leaves" <<< \
  'assert json.load(open("stopped.json"))["corruptions"]["snow"]["severities"]["1"] is None'
expect_no_leftovers .

echo "bad usage and bad folders"
expect 2 dtn-eval "${model[@]}" --suite imagenet-x --suite-root c
expect 2 dtn-eval "${model[@]}" --suite-root c
expect 2 dtn-eval "${model[@]}" --suite imagenet-c --suite-root c --save-logits x.safetensors
expect 3 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-c
expect_text 'clean: has no folder named after a corruption'
expect 3 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-r --suite-root c
expect_text "the suite: its class 'blur' is not among the 10 classes"
expect 3 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-r --suite-root absent
expect_text 'absent: no such folder'
