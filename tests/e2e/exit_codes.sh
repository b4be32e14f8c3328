#!/usr/bin/env bash
# Each failure gives its exit code and a message: what failed, where, and what to do.
source "$(dirname "$0")/lib/common.sh"

clean_up() {
  if mountpoint -q "$work/disk" 2> /dev/null; then umount "$work/disk"; fi
}

tiny_config "$work/tiny.yaml"
tiny=(--config "$work/tiny.yaml" --threads 2)
cd "$work"

echo "2: usage"
expect 2 dtn-train
expect_text '^Usage: dtn-train'
expect 2 dtn-train --threads 1
expect_text '--config is required'
expect 2 dtn-train "${tiny[@]}" --no-such-flag
expect_text 'error: unknown option --no-such-flag; dtn-train --help'
expect 2 dtn-train --confg "$work/tiny.yaml"
expect_text 'error: unknown option --confg; did you mean --config\?'
expect 2 dtn-bench norm --shap=1,2,3
expect_text 'did you mean --shape\?'
expect 2 dtn-train "${tiny[@]}" oops
expect_text "error: .*'oops'"
expect 2 dtn-train "${tiny[@]}" --threads 0
expect_text "error: --threads: must be a number above 0, not '0'; dtn-train --help"
expect 2 dtn-train "${tiny[@]}" --threads many
expect_text "must be a number above 0, not 'many'"
expect 2 dtn-train --config no_such_config
expect_text "no config 'no_such_config'. Looked for: .*; dtn-info --configs lists all"
expect 2 dtn-train --config vit_s_star_dtm
expect_text 'vit_s_star_dtn'  # the nearest name
expect 2 dtn-eval
expect_text '^Usage: dtn-eval'
expect 2 dtn-eval --checkpoint "$work/absent"
expect_text "$work/absent"
expect 2 dtn-info
expect 2 dtn-info --config "$work/absent.yaml"
expect 2 dtn-bench
expect 2 dtn-bench train
expect 2 dtn-bench norm --shape 1,2
expect_text '--shape 1,2'
expect 2 dtn-bench norm --type no_such_norm
expect_text 'no_such_norm'
expect 2 dtn-bench attention --kind no_such_kind
expect 2 dtn-bench attention --shape 1,70,16 --heads 3
expect 2 dtn-bench attention --shape 1,70,16 --heads 2 --length 71
expect 0 dtn-bench attention --kind bigbird --shape 1,70,16 --heads 2 --length 40 --steps 1
expect 0 dtn-bench attention --kind reformer --shape 1,70,16 --heads 2 --variant lra --steps 1
expect 2 dtn-bench norm --shape 1,36,8 --heads 2 --grid 1,35
expect_text '1 x 35'
expect 2 dtn-bench norm --shape 1,36,8 --heads 2 --positions 0,-1
expect_text '--positions 0,-1'
expect 2 dtn-bench norm --shape 1,36,8 --heads 2 --type ln --positions 0,0,-1
expect_text 'no relative positions'
expect 0 dtn-bench norm --shape 1,2003,8 --heads 2 --steps 1  # more tokens than any image has

echo "2: BatchNorm on a single value, before anything is written"
cat > levit.yaml << 'EOF'
model: {preset: levit_128s, image_size: 32, embed_dim: [32, 64], depth: [1, 1], num_heads: [1, 2],
        num_classes: 10}
data: {dataset: synthetic, size: 8}
schedule: {steps: 1}
train: {batch_size: 4, micro_batch: 1}
EOF
expect 2 dtn-train --config levit.yaml --threads 2 --output levit
expect_text 'BatchNorm needs more than one value per channel in training.*train.batch_size'
expect_no_file levit
expect 0 dtn-train --config levit.yaml --threads 2 --output levit --set train.micro_batch=2
expect 0 dtn-eval --checkpoint levit --batch-size 1

echo "2: options and keys of other programs"
for word in lr learning-rate epochs batch-size bs workers; do
  expect 2 dtn-train "${tiny[@]}" --$word 1
  expect_text "unknown option --$word; set the config key: --set [a-z]+\.[a-z_]+=\.\.\.$"
done
for pair in optim.learning_rate:optim.lr train.bs:train.batch_size fp16:train.precision; do
  expect 2 dtn-train "${tiny[@]}" --set "${pair%:*}=1"
  expect_text "unknown key '${pair%:*}'; did you mean '${pair#*:}'\?"
done
expect 2 dtn-train "${tiny[@]}" --set qqqq=1  # no key is similar
expect_text "unknown key 'qqqq'\. Keys at the top: "

echo "0: a config or a checkpoint without its option"
expect 0 dtn-train "$work/tiny.yaml" --print-config
expect 0 dtn-train tiny.yaml --set schedule.steps=1 --output "$work/short"
expect 0 dtn-eval "$work/short" --json
expect 0 dtn-info tiny.yaml
expect 0 dtn-bench train tiny.yaml --steps 1 --warmup 0 --json
expect 0 dtn-export "$work/short" --output "$work/short.onnx"
expect 0 dtn-analyze "$work/short" --images 4 --output "$work/inside"

echo "0: a manual, wherever it is asked for"
expect 0 dtn-train "${tiny[@]}" --man
expect_text '^\.TH "dtn-train" 1'

for program in 'dtn-train' "dtn-eval --checkpoint $work" 'dtn-bench train'; do
  # shellcheck disable=SC2086
  expect 2 $program "${tiny[@]}" --device cuda
  expect_text '--device cuda: .*CUDA'
  expect_equal "lines about --device cuda" "$(wc -l < "$log")" 1
done

echo "2: config"
# bad NAME CONFIG PATTERN...: the config must be refused with a message that has all patterns.
bad() {
  printf '%b' "$2" > "$work/$1.yaml"
  expect 2 dtn-train --config "$work/$1.yaml" --output "$work/never"
  expect_text "${@:3}"
}
bad unknown 'model: {preset: vit_t}\ntrain:\n  batch_sise: 4\n' 'unknown.yaml:3:3' batch_sise \
  batch_size
bad duplicate 'name: a\nmodel: {preset: vit_t}\nname: b\n' 'duplicate.yaml:3:1' name
bad type 'model:\n  preset: vit_t\n  depth: deep\n' 'type.yaml:3:10' depth
bad value 'model: {preset: vit_t}\noptim:\n  lr: -1\n' 'value.yaml:3:7' lr
bad preset 'model:\n  preset: vit_x\n' 'preset.yaml:2:11' vit_x
bad alias 'name: &a x\nmodel: {preset: vit_t}\n' 'alias.yaml:1'
bad syntax 'model: [\n' 'syntax.yaml:[0-9]+:[0-9]+'
bad both 'model: {preset: vit_t}\nschedule: {steps: 3, epochs: 2}\n' 'both.yaml' steps epochs
bad missing 'name: x\n' 'model.preset'
bad norm 'model:\n  preset: vit_t\n  norm: {type: dtn, lamda: 0.5}\n' 'norm.yaml:3:21' lamda lambda
expect_no_file "$work/never"

for set in 'train.batch_sise=4' 'optim.lr=fast' 'optim.lr' 'model.num_heads=5' 'train.micro_batch=3' \
  'schedule.steps=0' 'train.precision=fp8' 'train.precision=tf32' 'model.norm.type=gn2'; do
  expect 2 dtn-train "${tiny[@]}" --set "$set" --output "$work/never"
  expect_text "${set%%=*}"
done

echo "2: output and resume"
mkdir "$work/full" && touch "$work/full/something"
for dry in --dry-run --device=cpu; do
  expect 2 dtn-train "${tiny[@]}" --set augment.policy=rand-m11 --output "$work/never" $dry
  expect_text 'augment.policy .rand-m11.*0 to 10'
done
expect 2 dtn-train "${tiny[@]}" --output "$work/full"
expect_text "$work/full.*not empty.*--resume auto.*--output"
expect 2 dtn-train "${tiny[@]}" --resume "$work/absent"
expect_text "$work/absent: no such folder"
expect 2 dtn-train --resume auto
expect 2 dtn-train "${tiny[@]}" --output "$work/full/something"
expect_text 'is a file'
expect 2 dtn-train "${tiny[@]}" --output "$work/full/something" --resume auto
expect 2 dtn-train "${tiny[@]}" --resume "$work/full/something"
expect_text "$work/full/something"
expect 2 dtn-train "${tiny[@]}" --resume "$work/full"
expect_text 'contains no checkpoint'

expect 0 dtn-train "${tiny[@]}" --output "$work/run" --set schedule.steps=4
for set in model.depth=4 model.norm=ln model.num_classes=9; do
  expect 2 dtn-train "${tiny[@]}" --output "$work/run" --resume auto --set schedule.steps=8 \
    --set $set
  expect_text 'model section .*differs' "model[a-z._]* is "
done
expect 2 dtn-train "${tiny[@]}" --output "$work/run" --resume auto --set optim.name=sgd \
  --set schedule.steps=8
expect_text 'state.safetensors.*another config'
expect 2 dtn-train "${tiny[@]}" --output "$work/run" --resume auto --set data.size=160 \
  --set schedule.steps=8
expect_text '5 steps per epoch, this run has 10'
expect 2 dtn-eval --checkpoint "$work/run/checkpoints/last" --set no.such.key=1

echo "3: data"
data() {
  expect 3 dtn-train "${tiny[@]}" --output "$work/data-run" "${@}"
  [[ ! -e $work/data-run ]] || fail "a run that never began left its folder behind"
}
data --set data.dataset=imagefolder --set data.root="$work/nothing"
expect_text "$work/nothing/train" data.root
mkdir -p "$work/images/train/"{cat,dog}
python3 - "$work/images/train/cat/1.bmp" << 'EOF'
import sys, files
open(sys.argv[1], "wb").write(files.bmp(16, 16, lambda x, y: (x, y, 0)))
EOF
data --set data.dataset=imagefolder --set data.root="$work/images"
expect_text "$work/images/train/dog.*no images"
cp "$work/images/train/cat/1.bmp" "$work/images/train/dog/2.bmp"
data --set data.dataset=imagefolder --set data.root="$work/images" --set train.batch_size=2 \
  --set train.micro_batch=2
expect_text "$work/images/val"  # the validation split is missing

mkdir "$work/idx"
python3 - "$work/idx" << 'EOF'
import sys, files
folder = sys.argv[1]
for prefix in "train", "t10k":
    open(f"{folder}/{prefix}-images-idx3-ubyte", "wb").write(files.idx([32, 16, 16], [7] * 8192))
    labels = [i % 10 for i in range(32)]
    open(f"{folder}/{prefix}-labels-idx1-ubyte", "wb").write(files.idx([32], labels))
EOF
idx=(--set data.dataset=idx --set data.root="$work/idx" --set model.channels=1)
expect 0 dtn-train "${tiny[@]}" --output "$work/idx-run" "${idx[@]}" --set schedule.steps=2
data "${idx[@]}" --set model.num_classes=9
expect_text 'train-labels-idx1-ubyte: label 9 at index 9 is outside \[0, 9\)' model.num_classes
truncate -s -1 "$work/idx/t10k-images-idx3-ubyte"
data "${idx[@]}"
expect_text 't10k-images-idx3-ubyte: is cut short.*8192.*8191'
printf 'hello world' > "$work/idx/t10k-images-idx3-ubyte"
data "${idx[@]}"
expect_text 't10k-images-idx3-ubyte: is not an IDX file'
data --set data.size=8  # less than one full batch
expect_text 'batch'
expect 3 dtn-train "${tiny[@]}" --dry-run --set data.size=8
expect_text 'train.batch_size'

echo "4: divergence"
python3 - "$work" << 'EOF'
import math, sys, files
folder = sys.argv[1]
good = [math.sin(0.1 * i) for i in range(16 * 3 * 16 * 16)]
labels = files.integers([i % 10 for i in range(16)])
for name, first in ("good", good[0]), ("nan", math.nan), ("inf", math.inf):
    tensors = {"images": files.floats([16, 3, 16, 16], [first] + good[1:]), "labels": labels}
    files.write_safetensors(f"{folder}/{name}.safetensors", tensors)
EOF
# An epoch is one batch, so each step after the three good steps sees the bad value.
tensors=("${tiny[@]}" --set data.dataset=tensors --set data.root="$work" --set augment.repeats=1
  --set data.val=good.safetensors --set train.checkpoint_every=1 --set train.keep=9)
for value in nan inf; do
  run=$work/diverged-$value
  expect 0 dtn-train "${tensors[@]}" --output "$run" --set data.train=good.safetensors \
    --set schedule.steps=3
  cp -r "$run/checkpoints" "$work/before"
  expect 4 dtn-train "${tensors[@]}" --output "$run" --set data.train=$value.safetensors \
    --set schedule.steps=12 --resume auto
  expect_text 'step 4: .*1 of 3' 'step 6: .*3 of 3' 'training diverged: .*steps 4 to 6' \
    "finite loss is $run/checkpoints/step-00000003\\." 'Lower optim.lr'
  # Step 3 was evaluated, so bad data do not set its checkpoint aside. Bad steps write nothing.
  diff -r -x confirmed "$work/before" "$run/checkpoints" >&2 ||
    fail "bad steps changed the checkpoints"
  checks=$((checks + 1))
  # The data are repaired: the run goes on from its good weights.
  expect 0 dtn-train "${tensors[@]}" --output "$run" --set data.train=good.safetensors \
    --set schedule.steps=12 --resume auto
  rm -rf "$work/before"
done
# Two bad steps, then the run is over: no divergence, but a warning for each.
expect 0 dtn-train "${tensors[@]}" --output "$work/two" --set data.train=nan.safetensors \
  --set schedule.steps=2
expect_text 'step 2: .*2 of 3'
# A learning rate that is far too large.
expect 4 dtn-train "${tiny[@]}" --output "$work/far" --set optim.lr=1e30 --set schedule.steps=40 \
  --set schedule.warmup_epochs=0 --set train.checkpoint_every=1 --set train.eval_every=0
expect_text 'training diverged: .*steps [0-9]+ to [0-9]+'
python3 - "$work/far" << 'EOF' || fail "metrics.jsonl of a diverged run"
import json, os, sys
lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
last = json.load(open(sys.argv[1] + "/summary.json"))["steps"]
assert [l["step"] for l in lines] == list(range(1, last + 1)), [l["step"] for l in lines]
assert all(l["loss"] is None or l["grad_norm"] is None for l in lines[-3:]), lines[-3:]
assert not os.path.exists(f"{sys.argv[1]}/checkpoints/step-{last - 3:08}"), "the bad weights"
EOF
checks=$((checks + 1))

echo "1: the disk is full"
expect 0 dtn-train "${tiny[@]}" --output "$work/whole" --set train.checkpoint_every=1 \
  --set train.keep=100 --set schedule.steps=30
# Each checkpoint left by a full disk, or made after a resume, must load and must equal the
# checkpoint of the uninterrupted run.
expect_survivors() {
  local run=$1 folder
  for folder in "$run"/checkpoints/step-*; do
    expect 0 dtn-eval --checkpoint "$folder" --json
    expect 0 dtn-eval --checkpoint "$folder" --ema
    expect_same_checkpoint "$folder" "$work/whole/checkpoints/$(basename "$folder")"
  done
  expect_file "$run/checkpoints/last/state.safetensors"
  expect_no_leftovers "$run"
}
full=("${tiny[@]}" --set train.checkpoint_every=1 --set train.keep=100 --set schedule.steps=30)

# Files are limited to 64 KiB: state.safetensors cannot be written, not even at the first step.
code=0
(trap '' XFSZ && ulimit -f 64 && exec "$bin/dtn-train" "${full[@]}" --output "$work/small") \
  > "$log" 2>&1 || code=$?
expect_equal "exit code with a limit on file sizes" $code 1
expect_text 'step-00000001.*File too large'
expect_no_leftovers "$work/small"
expect 0 dtn-train "${full[@]}" --output "$work/small" --resume auto
expect_survivors "$work/small"

mkdir "$work/disk"
if mount -t tmpfs -o size=1m tmpfs "$work/disk" 2> /dev/null; then
  run=$work/disk/run
  expect 1 dtn-train "${full[@]}" --output "$run"
  expect_text 'No space left on device' "$run"
  expect_survivors "$run"
  expect 1 dtn-train "${full[@]}" --output "$run" --resume auto  # still full
  expect_text 'No space left on device'
  expect_survivors "$run"
  mount -o remount,size=64m "$work/disk"
  expect 0 dtn-train "${full[@]}" --output "$run" --resume auto
  expect_survivors "$run"
  expect_same_metrics "$run" "$work/whole"
else
  echo "SKIPPED: a disk that fills up (cannot mount a tmpfs here)"
fi

# One process at a time in a run folder.
"$bin/dtn-train" "${tiny[@]}" --set schedule.steps=1000000 --output "$work/shared" > /dev/null 2>&1 &
other=$!
for _ in {1..500}; do
  [[ -s $work/shared/metrics.jsonl ]] && break
  sleep 0.02
done
expect 2 dtn-train "${tiny[@]}" --output "$work/shared" --resume auto
expect_text 'another dtn-train is running in this folder'
kill -KILL $other
wait $other || true
expect 0 dtn-train "${tiny[@]}" --output "$work/shared" --resume auto
