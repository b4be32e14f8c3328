#!/usr/bin/env bash
# The task translate: the same training for any workers, micro-batches and interruptions;
# evaluation; grids of pictures; errors in configs and in files of tensors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

python3 - << 'EOC'
import files, math, os
for split, count in ("train", 20), ("val", 6):
    os.makedirs(f"photos/{split}")
    for i in range(count):
        def pixel(x, y, i=i):
            return [int(128 + 100 * math.sin((x * (1 + i % 3) + y * (k + 1)) / 5 + i)) for k in range(3)]
        open(f"photos/{split}/{i:02d}.png", "wb").write(files.png(20 + i % 4, 18, pixel))
EOC

cat > tiny.yaml << 'EOC'
name: restore
task: translate
seed: 2
model: {preset: unet_tiny, image_size: 16, embed_dim: [8, 16], depth: [1, 2], shortcut: ms}
data: {root: photos, corruptions: [fog/1-2, gaussian_noise/3], workers: 1}
augment: light
schedule: {name: constant, steps: 12}
optim: {lr: 3.0e-3}
train: {batch_size: 8, ema: 0.9, eval_every: 4, checkpoint_every: 4, log_every: 1}
EOC

echo "training"
expect 0 dtn-train --config tiny.yaml --output run
expect_text 'Next: dtn-eval --checkpoint run --grid grid.png' 'dtn-predict --checkpoint run --output pictures'
expect_text 'warning: .*worse than nothing: its outputs have PSNR [0-9.]+ dB, the unchanged inputs [0-9.]+ dB'
check "metrics and summary" << 'EOC'
lines = [json.loads(l) for l in open("run/metrics.jsonl")]
steps = [l for l in lines if "split" not in l]
evals = [l for l in lines if "split" in l]
assert len(steps) == 12, steps
assert [l["split"] for l in evals] == ["val", "val_ema"] * 3, evals
figures = "psnr ssim l1 loss input_psnr input_ssim".split()
for l in evals:
    assert all(l[k] is not None for k in figures) and l["count"] == 6, l
    assert (l["input_psnr"], l["input_ssim"]) == (evals[0]["input_psnr"], evals[0]["input_ssim"]), l
    assert "top1" not in l or l["top1"] is None, l
    assert -1 < l["ssim"] < 1 and l["l1"] <= l["loss"] < l["l1"] + 0.1, l
assert evals[-2]["loss"] < evals[0]["loss"], evals
best = json.load(open("run/summary.json"))["best"]
psnr = [l["psnr"] for l in evals if l["split"] == ("val_ema" if best.get("weights") == "ema" else "val")]
assert best["psnr"] == max(psnr), (best, psnr)
EOC
python3 - << 'EOC' || fail "the pictures of the run"
import os, struct
for step in 4, 8, 12:
    data = open(f"run/samples/step-{step:08d}.png", "rb").read()
    assert struct.unpack(">II", data[16:24]) == (3 * 16, 6 * 16), step
page = open("run/report.html").read()
assert "from the defaults of unet_tiny" in page
assert "Input, output and target" in page and "PSNR of the input" in page
EOC

echo "the same training"
expect 0 dtn-train --config tiny.yaml --output other --threads 2 --set data.workers=3
expect_same_tensors run/checkpoints/last other/checkpoints/last
expect_same_metrics run other
expect 0 dtn-train --config tiny.yaml --output resumed --set schedule.steps=8
expect 0 dtn-train --config tiny.yaml --output resumed --resume auto
expect_same_tensors run/checkpoints/last resumed/checkpoints/last
cmp run/samples/step-00000012.png resumed/samples/step-00000012.png || fail "another picture"
killed=0
for lines in 3.5 2.2; do
  code=0
  python3 "$lib/interrupt.py" KILL "lines:$lines:killed/metrics.jsonl" "$bin/dtn-train" \
    --config tiny.yaml --output killed --resume auto > "$log" 2>&1 || code=$?
  if ((code != 137 && code != 0)); then fail "a killed run exited with $code: $(cat "$log")"; fi
  killed=$((killed + code / 137))
done
if ((killed == 0)); then fail "no kill met the training: the test tests nothing"; fi
expect 0 dtn-train --config tiny.yaml --output killed --resume auto
expect_same_checkpoint run/checkpoints/last killed/checkpoints/last
expect_same_metrics run killed
expect_no_leftovers killed
# InstanceNorm, because the statistics of BatchNorm depend on the micro-batch.
norm=(--set model.norm=in --set train.ema=0 --set schedule.steps=6)
expect 0 dtn-train --config tiny.yaml --output whole "${norm[@]}"
expect 0 dtn-train --config tiny.yaml --output parts "${norm[@]}" --set train.micro_batch=2
check "micro-batches" << 'EOC'
def losses(run):
    return [json.loads(l)["loss"] for l in open(f"{run}/metrics.jsonl") if "split" not in l]
for a, b in zip(losses("whole"), losses("parts"), strict=True):
    assert abs(a - b) < 1e-4 * a, (a, b)
EOC

echo "evaluation"
expect 0 dtn-eval --checkpoint run/checkpoints/last --json
check "JSON" << 'EOC'
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
figures = "psnr ssim l1 loss input_psnr input_ssim iou count".split()
assert list(found) == figures + ["images_per_second", "skipped"], found
last = [json.loads(l) for l in open("run/metrics.jsonl") if '"val"' in l][-1]
assert all(found[k] == last[k] for k in figures), (found, last)
EOC
expect 0 dtn-eval --checkpoint run/checkpoints/last --batch-size 4 --grid split.png --grid-images 4
expect_text '^PSNR [0-9.]+ dB  SSIM [0-9.-]+  \(input [0-9.]+ dB, [0-9.]+\)  loss [0-9.]+  6 images'
python3 - << 'EOC'
import files, random
random.seed(3)
n = 5
pixels = lambda low, high: files.floats([n, 3, 16, 16], [random.uniform(low, high) for _ in range(768 * n)])
tensors = {"input": pixels(0, 1), "target": pixels(-0.3, 1.4)}  # pixels outside [0, 1] are accepted
files.write_safetensors("pairs.safetensors", tensors)
small = lambda t: (t[0], [15, 1, 16, 16], t[2])
files.write_safetensors("grey.safetensors", {k: small(t) for k, t in tensors.items()})
files.write_safetensors("no_target.safetensors", {"input": tensors["input"]})
files.write_safetensors("other_count.safetensors",
                        {**tensors, "target": ("F32", [4, 3, 16, 16], tensors["target"][2][:4 * 3072])})
for name, values in ("styles", [0, 2, 1, 0, 2]), ("wrong_styles", [0, 1, 3, 0, 1]):
    files.write_safetensors(f"{name}.safetensors", {**tensors, "style": files.integers(values)})
for name, label in ("maps", 3), ("wrong_maps", 4):
    labels = [0] * (256 * n - 1) + [label]
    files.write_safetensors(f"{name}.safetensors",
                            {**tensors, "map": ("I64", [n, 16, 16], files.integers(labels)[2])})
EOC
expect 0 dtn-eval --checkpoint run --inputs pairs.safetensors --save-logits output.safetensors \
  --grid grid.png --grid-images 3 --json
check "output of given inputs" << 'EOC'
import struct
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
_, saved = files.read_safetensors("output.safetensors")
assert list(saved) == ["output"] and saved["output"][:2] == ("F32", [5, 3, 16, 16]), saved
output = files.values_of(saved["output"])
_, given = files.read_safetensors("pairs.safetensors")
x, t = (files.values_of(given[k]) for k in ("input", "target"))
clamp = lambda v: min(1, max(0, v))
def psnr(a):
    rows = range(0, len(a), 768)
    mse = [sum((clamp(a[r + i]) - clamp(t[r + i])) ** 2 for i in range(768)) / 768 for r in rows]
    return sum(-10 * math.log10(m) for m in mse) / len(mse)
mean = lambda values: sum(values) / len(t)
expected = {"psnr": psnr(output), "input_psnr": psnr(x),
            "l1": mean(abs(clamp(a) - clamp(b)) for a, b in zip(output, t)),
            "loss": mean(abs(a - b) for a, b in zip(output, t))}
for key, value in expected.items():
    assert abs(found[key] - value) < 1e-9 * value, (key, found, value)
assert found["count"] == 5 and found["loss"] > found["l1"] + 0.01, found
def size(path):
    return struct.unpack(">II", open(path, "rb").read()[16:24])
assert size("grid.png") == (3 * 16, 3 * 16), size("grid.png")
assert size("split.png") == (3 * 16, 4 * 16), size("split.png")
EOC

echo "pictures below 11 pixels have no SSIM"
expect 0 dtn-train --config tiny.yaml --output below --set model.image_size=10 --set schedule.steps=2 \
  --set train.eval_every=2
expect 0 dtn-eval --checkpoint below --json
expect_text '"ssim":null,"l1":0' '"input_psnr":[0-9.]+,"input_ssim":null,"iou":null,"count":6'

echo "tensors, with what the normalizers read"
tensors=(--config tiny.yaml --set data.root=. --set data.dataset=tensors --set data.corruptions=null
  --set augment.preset=none --set train.batch_size=4 --set schedule.steps=2 --set train.ema=0)
cin=(--set model.decoder_norm=cin --set model.condition.from=index --set model.condition.styles=3)
spade=(--set 'model.decoder_norm={type: spade, hidden: 8}' --set model.condition.size=4)
expect 0 dtn-train "${tensors[@]}" --set data.train=pairs.safetensors --output no_val
expect_text 'no evaluation'
expect_equal "evaluations without data.val" "$(grep -c split no_val/metrics.jsonl)" 0
expect 0 dtn-train "${tensors[@]}" "${cin[@]}" --set data.train=styles.safetensors \
  --set data.val=styles.safetensors --output cin
expect 0 dtn-eval --checkpoint cin --inputs styles.safetensors --json
expect_text '"count":5'
expect 0 dtn-eval --checkpoint cin --inputs styles.safetensors --style-table --json
check "a table of styles" << 'EOC'
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
assert found["styles"] == ["style 0", "style 1", "style 2"] and found["style_counts"] == [2, 1, 2], found
table = found["style_psnr"]
assert [len(row) for row in table] == [3, 3, 3], found
own = sum(table[k][k] * n for k, n in enumerate(found["style_counts"])) / 5
assert abs(own - found["psnr"]) < 1e-9, found
assert table[0][0] != table[1][0], found
EOC
expect 0 dtn-eval --checkpoint cin --inputs styles.safetensors --style-table
expect_text 'style 0 +[0-9.]+ +[0-9.]+ +[0-9.]+$' 'pictures +2 +1 +2$'
expect 0 dtn-eval --checkpoint cin --inputs styles.safetensors --shuffle-condition --json
check "conditions of the next samples" << 'EOC'
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
assert found["count"] == 5 and "style_psnr" not in found, found
EOC
expect 2 dtn-eval --checkpoint cin --inputs styles.safetensors --style-table --shuffle-condition
expect_text 'shuffle-condition excludes --style-table'
expect 2 dtn-eval --checkpoint run --shuffle-condition
expect_text 'shuffle-condition: this model reads no condition'
expect 2 dtn-eval --checkpoint run --style-table
expect_text 'style-table: this model reads no condition'
expect 0 dtn-train "${tensors[@]}" "${spade[@]}" --set data.train=maps.safetensors --output spade

echo "errors of data"
expect 3 dtn-eval --checkpoint run --inputs no_target.safetensors
expect_text "no_target.safetensors: has no tensor 'target'"
expect 3 dtn-eval --checkpoint run --inputs grey.safetensors
expect_text '`input` is float32 \[15, 1, 16, 16\]'
expect 3 dtn-eval --checkpoint run --inputs other_count.safetensors
expect_text '`target` is float32 \[4, 3, 16, 16\], expected float32 \[5, 3, 16, 16\]'
expect 3 dtn-eval --checkpoint cin --inputs pairs.safetensors
expect_text "pairs.safetensors: has no tensor 'style'"
expect 3 dtn-eval --checkpoint cin --inputs wrong_styles.safetensors
expect_text '`style` 3 at index 2 is outside \[0, 3\)'
expect 3 dtn-train "${tensors[@]}" "${cin[@]}" --set data.train=wrong_styles.safetensors --output no
expect_text '`style` 3 at index 2 is outside \[0, 3\)'
expect 3 dtn-train "${tensors[@]}" "${spade[@]}" --set data.train=pairs.safetensors --output no
expect_text "has no tensor 'map'"
expect 3 dtn-train "${tensors[@]}" "${spade[@]}" --set data.train=wrong_maps.safetensors --output no
expect_text '`map` has the label 4 at index \[4, 15, 15\]'

echo "errors of configs"
refused() {  # TEXT SETTING...: the settings must be refused with an error that has the text
  local options=() setting
  for setting in "${@:2}"; do options+=(--set "$setting"); done
  expect 2 dtn-train --config tiny.yaml --output no "${options[@]}"
  expect_text "$1"
}
refused 'data.mean is not read by the task .translate' data.mean=0.5
refused 'model.norm.*adain|adain.*model.decoder_norm' model.norm=adain model.condition.from=image
refused 'model.condition.styles' model.decoder_norm=cin model.condition.from=index
refused 'model.condition.from' model.decoder_norm=cin model.condition.styles=3
refused 'model.condition.size' model.decoder_norm=spade
refused 'the field `map`' model.decoder_norm=spade model.condition.size=4
refused 'model.residual' model.residual=true model.out_channels=1
refused 'model.image_size' model.image_size=15
refused 'model.depth' 'model.depth=[1, 2, 1]'
refused 'model.embed_dim' 'model.embed_dim=[8, 12]'
refused 'l1, l2 and charbonnier are all 0' translate.l1=0
refused 'translate.l1' translate.l1=-1
refused 'translate.charbonnier_eps' translate.charbonnier=1 translate.charbonnier_eps=0
refused 'vit_t' model.preset=vit_t model.embed_dim=null model.depth=null model.shortcut=null
refused 'model.shortcut' 'model.embed_dim=[8]' 'model.depth=[1]'
refused 'needs pairs of pictures' data.corruptions=null
refused 'fogg' 'data.corruptions=[fogg/1]'
refused 'augment' augment.preset=deit
refused 'model.condition.styles is 2, but data.corruptions has 3' model.decoder_norm=cin \
  model.condition.from=index model.condition.styles=2
expect 2 dtn-eval --checkpoint run --save-features f.safetensors
expect_text 'translate'
expect 2 dtn-eval --checkpoint run --grid-images 3
expect_text 'grid'
expect 2 dtn-export --checkpoint run --output model.onnx
expect_text 'translate'
