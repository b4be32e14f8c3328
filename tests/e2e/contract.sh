#!/usr/bin/env bash
# The interface for scripts: files and their keys, flags, names, and numbers that must agree.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"

echo "help and flags"
for flags in 'dtn-train --config --set --output --resume --device --threads --print-config --dry-run' \
  'dtn-eval --checkpoint --config --set --ema --json --inputs --save-logits --device --threads' \
  'dtn-eval --save-features --save-attention --layers --suite --suite-root --classes --no-clean' \
  'dtn-info --config --norms --ops --presets' 'dtn-bench train eval data norm gemm kernels'; do
  read -r program words <<< "$flags"
  expect 0 "$program" --help
  # shellcheck disable=SC2086
  expect_text $words 'Exit codes'
done
for sub in train eval data norm gemm kernels; do
  expect 0 dtn-bench $sub --help
  expect_text --json --set
done

echo "dtn-info"
while read -r name parameters cost; do
  expect 0 dtn-info --config "$name"  # found by name from any folder
  check "dtn-info of $name" "$parameters" "$cost" << 'EOF'
parameters, cost = sys.argv[1:]
assert re.search(r"^parameters +(\d+)$", log, re.M)[1] == parameters, parameters
paper, real, computed = (float(x) for x in re.findall(r"([\d.]+) G per image", log))
assert cost == "-" or abs(paper / float(cost) - 1) < 0.015, cost  # Table 1
assert real <= paper
assert 0.85 * real < computed < real  # the last block computes only its class token
assert "MiB" in log
EOF
done << 'EOF'
vit_t_ln 5710312 1.26
vit_t_dtn 5710672 -
vit_t_star_ln 5710312 1.26
vit_t_star_dtn 5710792 1.40
vit_s_ln 22036456 4.60
vit_s_dtn 22037176 4.88
vit_s_star_ln 27776872 5.77
vit_s_star_dtn 27777952 6.08
vit_b_ln 86539240 17.58
vit_b_dtn 86540680 18.13
vit_b_star_ln 86539240 17.58
vit_b_star_dtn 86541160 18.13
EOF
# A model of features has no classifier, which would have 25 parameters for each of the 7 classes.
model='model: {preset: vit_t, image_size: 32, patch_size: 8, embed_dim: 24, depth: 2, num_heads: 2, num_classes: 7}'
echo "$model" > "$work/classifier.yaml"
printf 'task: supcon\naugment: supcon\n%s\n' "$model" > "$work/features.yaml"
expect 0 dtn-info "$work/classifier.yaml"
whole=$(sed -n 's/^parameters *//p' "$log")
expect 0 dtn-info "$work/features.yaml"
expect_text "^parameters +$((whole - 25 * 7))  \(without a head\)$"
expect 0 dtn-info --norms
expect_text '^ln$' '^dtn$' variant lambda position init
expect 0 dtn-info --presets
expect_text vit_t vit_t_star vit_s vit_s_star vit_b vit_b_star deit_tiny deit_small deit_base
expect 0 dtn-info --ops
expect_text attention linear

echo "configs"
for name in vit_s_star_dtn fashion_mnist_dtn imagenet/vit_t_ln vit_b_ln.yaml "$work/tiny.yaml"; do
  expect 0 dtn-train --config "$name" --print-config --set seed=5 --set optim.lr=1e-4
  cp "$log" printed.yaml
  expect_text '^seed: 5$' '^  lr: 1.0e-04$'
  expect 0 dtn-train --config printed.yaml --print-config
  cmp "$log" printed.yaml >&2 || fail "--print-config of what --print-config printed differs"
done
"$bin/dtn-train" --config <(cat printed.yaml) --print-config | cmp - printed.yaml >&2 ||
  fail "a config read from a pipe differs"
expect 0 dtn-train --config tiny.yaml --print-config
cp "$log" plain.yaml
expect 0 dtn-train --config tiny.yaml --print-config=commented
expect_text '^  # .*learning rate' '^  # number above 0; default 5.0e-04$'
grep -v '^ *#' "$log" | cmp - plain.yaml >&2 || fail "comments change what a config says"
cp "$log" commented.yaml
expect 0 dtn-train --config commented.yaml --print-config
cmp "$log" plain.yaml >&2 || fail "a config with comments does not read back"
expect 2 dtn-train --config tiny.yaml --print-config=loud
expect 0 dtn-info --keys optim.l
expect_text '^optim.lr: ' '^    number above 0; default 5.0e-04'
expect 2 dtn-info --keys nowhere
expect_text "no key contains 'nowhere'$"
expect 2 dtn-info --keys learning_rate
expect_text "did you mean 'optim.lr'\?"
expect 0 dtn-info --configs
expect_text '^vit_s_star_dtn +ViT-S\* ' '^fashion_mnist_dtn '
printf 'base: tiny.yaml\nname: child\nmodel: {norm: ln}\ntrain: {ema: null, eval_every: 1epoch}\n' \
  > child.yaml
expect 0 dtn-train --config child.yaml --print-config
expect_text '^name: child' '^    type: ln' '^  ema: null' '^  eval_every: 1epoch' '^  embed_dim: 24'
printf 'model: {preset: vit_t}\n' > least.yaml
expect 0 dtn-train --config least.yaml --print-config
expect_text '^  precision: fp32' '^  clip_grad_norm: null' '^  ema: null' '^  label_smoothing: 0$' \
  '^  lr_scale_batch: null' '^  name: adamw' '^  weight_decay: 0.05' '^  betas: \[0.9, 0.999\]' \
  '^  eps: 1.0e-08' '^  warmup_epochs: 0$' '^  preset: none'

echo "--dry-run"
expect 0 dtn-train --config tiny.yaml --dry-run
expect_text '^parameters: [0-9]+' '^steps: 12$' '^steps per epoch: 5$' 'runs/tiny$' \
  '^effective learning rate: 0.001, after 1 epoch of warmup from 1e-06, down to 1e-05$' \
  '^memory: about [0-9.]+ MiB: weights .* gradients .* moments .* average .* activations .* batches ' \
  '^time on this machine: about [0-9.]+ s: training .*, 6 evaluations '
expect_no_file runs
expect 0 dtn-train --config fashion_mnist_dtn --dry-run --set data.root="$work/absent"
expect_text "no data: .*$work/absent" 'the estimates use synthetic images' 'train: 60000 synthetic' \
  'val: 10000 synthetic' '^steps per epoch: 468$'

echo "a run in runs/<name>"
expect 0 dtn-train --config tiny.yaml --device cpu --set schedule.steps=26 --set optim.lr=5e-3
expect_text 'waited for data [0-9]+ %' 'trained and evaluated for .*; waited .* for training images'
run=$work/runs/tiny
for pattern in $'\r' $'\033'; do
  if grep -q "$pattern" "$log"; then fail "control characters in piped output"; fi
done
check "files of a run" "$run" << 'EOF'
run = sys.argv[1]
have = set(os.listdir(run))
assert have == {"config.yaml", "metrics.jsonl", "summary.json", "tensorboard", "checkpoints",
                "train.log", "attempts.json", "report.html", "samples.png", "gradients.jsonl"}, have
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
steps = [l for l in lines if "split" not in l]
evals = [l for l in lines if "split" in l]
assert [l["step"] for l in steps] == list(range(1, 27))
for l in steps:
    assert list(l) == ["step", "epoch", "loss", "lr", "grad_norm", "images_per_second"], l
    assert l["epoch"] == l["step"] / 5 and l["images_per_second"] > 0 and l["grad_norm"] > 0, l
assert [(l["step"], l["split"]) for l in evals] == [
    (s, split) for s in (4, 8, 12, 16, 20, 24, 26) for split in ("val", "val_ema")]
for l in evals:
    assert list(l) == ["step", "epoch", "split", "top1", "top5", "loss", "count"], l
    assert 0 <= l["top1"] <= l["top5"] <= 100 and l["count"] == 80, l
assert evals[-2]["loss"] < evals[0]["loss"], "it learns nothing"

summary = json.load(open(run + "/summary.json"))
assert list(summary) == ["top1", "top5", "loss", "count", "steps", "wall_seconds",
                         "images_per_second", "attempts", "best", "ema", "version", "commit",
                         "device"], summary
assert summary["attempts"] == 1 and summary["device"].startswith("cpu, "), summary
best = summary["best"]
assert best["weights"] == "raw" and best["top1"] == max(
    l["top1"] for l in evals if l["split"] == "val"), best
assert summary["ema"] == {k: evals[-1][k] for k in ("top1", "top5", "loss")}, summary
kept = open(run + "/train.log").read()
assert re.search(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] train: ", kept), kept
for line in log.splitlines():
    assert line in kept, line
assert "evaluation at step 26 (val): " in kept and " in float32 " in kept
assert summary["steps"] == 26 and summary["wall_seconds"] > 0 and summary["images_per_second"] > 0
for key in "top1", "top5", "loss", "count":
    assert summary[key] == evals[-2][key], key

checkpoints = run + "/checkpoints"
raw = [l for l in evals if l["split"] == "val"]
best = max(raw, key=lambda l: (l["top1"], -l["step"]))["step"]
assert os.readlink(checkpoints + "/best") == f"step-{best:08}", best
assert os.readlink(checkpoints + "/last") == "step-00000026"
kept = sorted(s for s in os.listdir(checkpoints) if s.startswith("step-"))
saved = {s for s in range(1, 27) if s % 3 == 0} | {26} | {
    l["step"] for i, l in enumerate(raw) if all(l["top1"] > e["top1"] for e in raw[:i])}
wanted = sorted({f"step-{s:08}" for s in sorted(saved)[-2:] + [best]})
assert kept == wanted, (kept, wanted)
for folder in kept:
    assert sorted(os.listdir(f"{checkpoints}/{folder}")) == [
        "ema.safetensors", "model.safetensors", "state.safetensors"], folder
EOF
check "contents of a checkpoint" "$run" "$work" << 'EOF'
run, work = sys.argv[1:]
config = open(run + "/config.yaml").read()
for name in "model", "ema", "state":
    metadata, tensors = files.read_safetensors(f"{run}/checkpoints/last/{name}.safetensors")
    assert metadata["config"] == config, name
    text = json.dumps(metadata)
    for private in work, "runs/", os.uname().nodename + "/", "thread", "cpu", "cuda", "/tmp":
        assert private not in text, f"{private} in the metadata of {name}"
    if name == "state":
        for key in "step", "epoch", "position", "seed":
            assert key in metadata, key
        assert [metadata[k] for k in ("step", "epoch", "position", "seed")] == ["26", "5", "1", "3"]
    else:
        wanted = {"cls_token", "pos_embed", "patch_embed.proj.weight", "blocks.0.attn.qkv.weight",
                  "blocks.0.norm1.mean_norm_weight", "blocks.0.norm1.pos_proj.weight",
                  "blocks.2.mlp.fc2.bias", "norm.weight", "head.weight", "head.bias"}
        assert wanted <= set(tensors), wanted - set(tensors)
        assert tensors["patch_embed.proj.weight"][:2] == ("F32", [24, 3, 4, 4])
        assert tensors["pos_embed"][1] == [1, 16, 24]
moments = [n for n in tensors if n.endswith("blocks.0.attn.qkv.weight")]
assert len(moments) == 2, moments
EOF
check "TensorBoard events" "$run/tensorboard" << 'EOF'
import struct
(name,) = os.listdir(sys.argv[1])
assert name.startswith("events.out.tfevents."), name
data, at, records = open(f"{sys.argv[1]}/{name}", "rb").read(), 0, []
while at < len(data):  # length, its checksum, record, its checksum
    (size,) = struct.unpack_from("<Q", data, at)
    records.append(data[at + 12 : at + 12 + size])
    at += 16 + size
assert at == len(data) and b"brain.Event:2" in records[0]
for tag in b"train/loss", b"train/lr", b"val/top1", b"val_ema/loss":
    assert any(tag in r for r in records), tag
EOF
expect 0 dtn-train --config "$run/config.yaml" --print-config
cmp "$log" "$run/config.yaml" >&2 || fail "config.yaml is not what --print-config prints"
expect 0 dtn-train --config tiny.yaml --set schedule.steps=26 --set optim.lr=5e-3 \
  --set train.best=ema --output best-ema
check "best by the moving average" best-ema << 'EOF'
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
ema = [l for l in lines if l.get("split") == "val_ema"]
best = max(ema, key=lambda l: (l["top1"], -l["step"]))["step"]
assert os.readlink(sys.argv[1] + "/checkpoints/best") == f"step-{best:08}", best
EOF

echo "no EMA, no evaluation but the last"
expect 0 dtn-train --config tiny.yaml --set train.ema=null --set train.eval_every=0 \
  --set train.checkpoint_every=0 --set train.log_every=1epoch --output plain --resume auto
check "a plain run" plain << 'EOF'
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
assert [(l["step"], l.get("split")) for l in lines] == [
    (1, None), (5, None), (10, None), (12, None), (12, "val")], lines
assert sorted(os.listdir(sys.argv[1] + "/checkpoints")) == ["best", "last", "step-00000012"]
assert sorted(os.listdir(sys.argv[1] + "/checkpoints/last")) == [
    "model.safetensors", "state.safetensors"]
EOF
expect 2 dtn-eval --checkpoint plain/checkpoints/last --ema
expect_text 'no ema.safetensors'
expect 2 dtn-eval --checkpoint plain --ema
expect_text 'no ema.safetensors; the run had no train.ema'
expect 0 dtn-eval --checkpoint plain
expect_text 'weights: .*/plain/checkpoints/step-00000012/model.safetensors, step 12$'
rm plain/checkpoints/best
expect 0 dtn-eval --checkpoint plain
expect_text 'step-00000012/model.safetensors, step 12$'
cp -r plain/checkpoints/step-00000012 damaged && rm damaged/model.safetensors
expect 2 dtn-eval --checkpoint damaged
expect_text 'damaged has no model.safetensors; name another checkpoint'
mkdir empty
expect 2 dtn-eval --checkpoint empty
expect_text 'contains no model.safetensors; name a safetensors file, a checkpoint folder or a run'
mkdir begun && cp plain/config.yaml begun/
expect 2 dtn-eval --checkpoint begun
expect_text 'begun: this run has no checkpoint yet'

echo "a progress bar on a terminal"
checks=$((checks + 1))
python3 - "$bin/dtn-train" --config tiny.yaml --output terminal > "$log" << 'EOF'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
EOF
expect_text $'\r\033\\[Ktraining \\[[#.]*\\] [0-9]+/12 '

echo "dtn-eval"
evaluate() { expect 0 dtn-eval "$@" --json && grep '^{' "$log" > result.json; }
metric() {  # SPLIT CHECKPOINT: dtn-eval's last result must be that of the training run
  check "dtn-eval of $2 against metrics.jsonl ($1)" "$run" "$@" << 'EOF'
run, split, checkpoint = sys.argv[1:]
step = int(os.path.realpath(f"{run}/checkpoints/{checkpoint}").split("-")[-1])
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
(wanted,) = [l for l in lines if l["step"] == step and l.get("split") == split]
found = json.load(open("result.json"))
assert list(found) == ["top1", "top5", "loss", "count", "images_per_second", "skipped"], found
for key in "top1", "top5", "count":
    assert found[key] == wanted[key], (key, found, wanted)
assert abs(found["loss"] - wanted["loss"]) < 1e-5 * wanted["loss"], (found, wanted)
assert found["images_per_second"] > 0
EOF
}
evaluate --checkpoint "$run/checkpoints/best" && metric val best
evaluate --checkpoint "$run/checkpoints/best" --ema && metric val_ema best
evaluate --checkpoint "$run/checkpoints/last" --threads 1 --device auto && metric val last
evaluate --checkpoint "$run/checkpoints/last/model.safetensors" && metric val last
evaluate --checkpoint "$run/checkpoints/last/ema.safetensors" && metric val_ema last
evaluate --checkpoint "$run/checkpoints/last" --set data.size=30
check "--set of dtn-eval" <<< 'assert json.load(open("result.json"))["count"] == 30'
expect_equal "lines on standard output" \
  "$("$bin/dtn-eval" --checkpoint "$run/checkpoints/last" --json 2> /dev/null | wc -l)" 1

echo "weights of another program: no checksums, no config"
python3 - "$run" << 'EOF'
import sys, files
metadata, tensors = files.read_safetensors(sys.argv[1] + "/checkpoints/last/model.safetensors")
files.write_safetensors("bare.safetensors", tensors)
del tensors["head.bias"]
files.write_safetensors("headless.safetensors", tensors)
EOF
evaluate --checkpoint bare.safetensors --config tiny.yaml && metric val last
expect 2 dtn-eval --checkpoint bare.safetensors
expect_text '--config'
expect 3 dtn-eval --checkpoint bare.safetensors --config tiny.yaml --set model.depth=2
expect_text 'blocks.2'
expect 3 dtn-eval --checkpoint headless.safetensors --config tiny.yaml
expect_text 'head.bias'

echo "features: no head, no figures, nothing to train"
evaluate --checkpoint "$run/checkpoints/last" --set model.num_classes=0 \
  --save-logits features.safetensors
check "features" << 'EOF'
import files
found = json.load(open("result.json"))
assert [found[key] for key in ("top1", "top5", "loss")] == [None] * 3, found
_, tensors = files.read_safetensors("features.safetensors")
assert tensors["logits"][:2] == ("F32", [found["count"], 24]), tensors["logits"][:2]
EOF
expect 2 dtn-train --config tiny.yaml --set model.num_classes=0 --output features
expect_text 'the model has no head to train'

echo "only the split that is read; logits in data order; --inputs"
# A data set of 16 x 16 images, which evaluation does not resize. File names sort by bytes, like
# class names, not by number; the files are written in another order.
python3 - << 'EOF'
import math, os, random, files
random.seed(1)
images, labels, rows = [], [], []
names = [(c, f) for c in ("b", "a", "B", "a1") for f in ("10.png", "9.bmp", "Z.png", "1.bmp")]
for c, f in names:
    pixels = [[[random.randrange(256) for _ in range(3)] for _ in range(16)] for _ in range(16)]
    os.makedirs("folder/val/" + c, exist_ok=True)
    write = files.png if f.endswith("png") else files.bmp
    open(f"folder/val/{c}/{f}", "wb").write(write(16, 16, lambda x, y: pixels[y][x]))
    rows.append((c, f, pixels))
rows.sort(key=lambda r: r[:2])  # Python also compares ASCII text by its bytes
classes = sorted({c for c, _, _ in rows})
for i in range(6):  # a folder for each of the model's ten classes; the model has no class names
    os.makedirs(f"folder/val/c{i}")
values = [((p[y][x][k] / 255) - 0.5) / 0.5
          for _, _, p in rows for k in range(3) for y in range(16) for x in range(16)]
tensors = {"images": files.floats([16, 3, 16, 16], values)}
files.write_safetensors("unlabelled.safetensors", tensors)
tensors["labels"] = files.integers([classes.index(c) for c, _, _ in rows])
files.write_safetensors("labelled.safetensors", tensors)
os.makedirs("tensors", exist_ok=True)
files.write_safetensors("tensors/val.safetensors", tensors)
# IDX images have one channel. This test only checks that they are read without a train file.
os.makedirs("idx", exist_ok=True)
open("idx/t10k-images-idx3-ubyte", "wb").write(files.idx([20, 16, 16], range(0, 1)) + bytes(5119))
open("idx/t10k-labels-idx1-ubyte", "wb").write(files.idx([20], [i % 10 for i in range(20)]))
EOF
last=$run/checkpoints/last
plainly=(--set 'data.mean=[0.5,0.5,0.5]' --set 'data.std=[0.5,0.5,0.5]' --set data.crop_pct=1)
evaluate --checkpoint "$last" --set data.dataset=imagefolder --set data.root=folder "${plainly[@]}" \
  --save-logits folder-logits.safetensors
cp result.json folder.json
evaluate --checkpoint "$last" --set data.dataset=tensors --set data.root=tensors
cp result.json tensors.json
evaluate --checkpoint "$last" --inputs labelled.safetensors --save-logits labelled-logits.safetensors
cp result.json labelled.json
evaluate --checkpoint "$last" --inputs unlabelled.safetensors \
  --save-logits unlabelled-logits.safetensors
check "the same images by three ways" << 'EOF'
read = lambda name: json.load(open(name))
assert read("tensors.json")["count"] == read("folder.json")["count"] == 16
for other in "tensors.json", "folder.json":
    for key in "top1", "top5", "loss":
        a, b = read("labelled.json")[key], read(other)[key]
        assert abs(a - b) <= 1e-5 * max(1, abs(a)), (other, key, a, b)
found = read("result.json")
assert list(found) == ["top1", "top5", "loss", "count", "images_per_second", "skipped"]
assert found["top1"] is None and found["top5"] is None and found["loss"] is None
assert found["count"] == 16
logits = {}
for name in "folder", "labelled", "unlabelled":
    _, tensors = files.read_safetensors(name + "-logits.safetensors")
    assert set(tensors) == {"logits"} and tensors["logits"][:2] == ("F32", [16, 10]), name
    logits[name] = files.values_of(tensors["logits"])
assert logits["labelled"] == logits["unlabelled"]
scale = max(abs(x) for x in logits["labelled"])
worst = max(abs(a - b) for a, b in zip(logits["folder"], logits["labelled"]))
assert worst <= 1e-5 * scale, worst
rows = [logits["labelled"][10 * i : 10 * i + 10] for i in range(16)]
nearest = min(max(abs(x - y) for x, y in zip(a, b)) for a in rows for b in rows if a is not b)
assert nearest > 10 * worst, "the images are too alike to tell their order"
EOF
evaluate --checkpoint "$last" --inputs unlabelled.safetensors --batch-size 3 --save-logits three
expect 3 dtn-eval --checkpoint "$last" --inputs bare.safetensors
expect_text 'bare.safetensors' 'images'
echo nonsense > tensors/train.safetensors  # it is not opened
evaluate --checkpoint "$last" --set data.dataset=tensors --set data.root="$work/tensors"
expect 0 dtn-train --config tiny.yaml --set model.channels=1 --output gray --set schedule.steps=2
evaluate --checkpoint gray/checkpoints/last --set data.dataset=idx --set data.root=idx
check "an IDX data set without training files" <<< \
  'assert json.load(open("result.json"))["count"] == 20'
gzip idx/*
evaluate --checkpoint gray/checkpoints/last --set data.dataset=idx --set data.root=idx

echo "dtn-bench"
# bench KEYS COMMAND...: the output is one JSON object in which all KEYS are positive numbers.
bench() {
  local keys=$1
  shift
  expect 0 dtn-bench "$@" --json
  check "dtn-bench $*" "$keys" << 'EOF'
(line,) = [l for l in log.splitlines() if l.startswith("{")]
result = json.loads(line)
for key in sys.argv[1].split():
    assert isinstance(result[key], (int, float)) and result[key] > 0, (key, result)
if "mfu" in result:
    wanted = result["gflops_per_image"] * result["images_per_second"] / result["gemm_gflops"]
    assert abs(result["mfu"] / wanted - 1) < 1e-6, result
EOF
}
bench 'images_per_second step_ms gflops_per_image gemm_gflops mfu peak_bytes' \
  train --config tiny.yaml --set train.batch_size=32 --steps 2 --warmup 1
check "the cost of a training image is 6 x the multiply-adds that are computed" "$bin/dtn-info" << 'EOF'
import subprocess
info = subprocess.run([sys.argv[1], "--config", "tiny.yaml"], capture_output=True, text=True).stdout
real = float(re.findall(r"([\d.]+) G per image", info)[2])
found = json.loads(log)["gflops_per_image"]
assert abs(found - 6 * real) <= 6 * 0.5e-4, (found, real)
EOF
bench 'images_per_second gflops_per_image gemm_gflops mfu' \
  eval --config tiny.yaml --steps 2 --warmup 1
bench 'images_per_second images augment_us normalize_us' data --config tiny.yaml --seconds 0.1
bench 'images_per_second images normalize_us' data --config tiny.yaml --seconds 0.1 --eval
for dtype in fp32 bf16; do
  bench 'forward_ms backward_ms' norm --type dtn --shape 2,49,36 --heads 4 --steps 3 --dtype $dtype
done
# 36 tokens in a line, not in a square; windows of 13 tokens.
bench 'forward_ms backward_ms multiply_adds_per_element' \
  norm --type dtn --shape 2,36,16 --grid 1,36 --heads 4 --steps 3 --positions 0,0,-1
check "a window of 13 tokens is multiplied eight times" << 'EOF'
(line,) = [l for l in log.splitlines() if l.startswith("{")]
assert json.loads(line)["multiply_adds_per_element"] == 8 * 13, line
EOF
bench 'forward_ms backward_ms' norm --type ln --shape 2,49,36 --steps 3 --set norm.eps=1e-6
bench 'gemm_gflops' gemm --config tiny.yaml
