#!/usr/bin/env bash
# A run that diverges goes back to the newest checkpoint with a finite loss, and goes on from there.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

# Twelve images for training, in batches of 4: epochs of 3 steps.
python3 - << 'EOS'
import os, files
for split, count in ("train", 4), ("val", 2):
    for c, name in enumerate(("cat", "dog", "fish")):
        os.makedirs(f"d/{split}/{name}")
        for i in range(count):
            def pixel(x, y):
                return ((83 * c + 7 * x + 31 * i) % 256, (59 * c + 11 * y) % 256, (x * y + i) % 256)
            open(f"d/{split}/{name}/{i}.png", "wb").write(files.png(40, 36, pixel))
EOS
cat > tiny.yaml << 'EOS'
name: tiny
model: {preset: deit_tiny, image_size: 32, patch_size: 8, embed_dim: 16, depth: 1, num_heads: 2,
        num_classes: 3}
data: {dataset: imagefolder, workers: 1, root: d}
augment: none
schedule: {name: constant, epochs: 100}
train: {batch_size: 4, eval_every: 0, checkpoint_every: 1epoch, log_every: 1}
EOS
train=(dtn-train --config tiny.yaml)

last_of() { readlink "$1/checkpoints/last" || echo none; }
step_of() { sed -E 's/.*step-0*([0-9])/\1/' <<< "$1"; }
evaluates() {  # the checkpoint `last` must have a finite loss
  expect 0 dtn-eval --checkpoint "$1/checkpoints/last" --json
  grep -qE '"loss": ?[0-9.]+' "$log" || fail "the loss of $(last_of "$1") is not finite"
}
# Trains in $1 and stops the run with SIGTERM after $2 lines of metrics.
stopped_after() {
  local run=$1 lines=$2 code=0
  shift 2
  timeout 300 python3 "$lib/interrupt.py" TERM "lines:$lines.5:$run/metrics.jsonl" \
    "$bin/dtn-train" --config tiny.yaml --output "$run" --resume auto "$@" > "$log" 2>&1 || code=$?
  expect_equal "exit code of a run that was stopped" $code 75
}
# Checks a diverged run: `last`, the message, the folder, the summary and the report.
expect_retreat() {
  local run=$1 confirmed=$2
  expect_text "training diverged: .*" \
    "newest checkpoint with a finite loss is $run/checkpoints/$confirmed\\." \
    'Lower optim.lr' 'continue with --resume auto'
  expect_equal "last of $run" "$(last_of "$run")" "$confirmed"
  expect_file "$run/checkpoints/$confirmed/state.safetensors"
  local set_aside
  set_aside=$(find "$run/checkpoints" -maxdepth 1 -name 'diverged-*' | wc -l)
  ((set_aside <= 1)) || fail "$set_aside checkpoints are set aside in $run"
  evaluates "$run"
  expect_no_leftovers "$run"
  grep -q 'Diverged at step' "$run/report.html" || fail "the report of $run does not say diverged"
  checks=$((checks + 1))
  python3 - "$run" "$confirmed" << 'EOS' || fail "summary.json of $run"
import json, os, sys
run, confirmed = sys.argv[1:]
summary = json.load(open(run + "/summary.json"))
assert summary["diverged"] is True, summary
assert summary["last_checkpoint"] == "checkpoints/" + confirmed, summary
assert summary["steps"] > int(confirmed[5:]), summary
aside = summary["set_aside"]
assert aside is None or os.path.isdir(f"{run}/{aside}") and "diverged-step-" in aside, summary
EOS
}

expect 0 "${train[@]}" --output unbroken

echo "stopped; a far too large rate, three times; then the first rate"
stopped_after run 40
confirmed=$(last_of run)
for _ in 1 2 3; do
  expect 4 "${train[@]}" --output run --resume auto --set optim.lr=1e25
  expect_retreat run "$confirmed"
done
expect 0 dtn-plot run --output plot
grep -q 'diverged at step' plot/plot.html || fail "the page of dtn-plot does not say diverged"
expect 0 "${train[@]}" --output run --resume auto
expect_same_tensors run/checkpoints/last unbroken/checkpoints/last
expect_same_metrics run unbroken
grep -q 'Finished at step 300' run/report.html || fail "the report does not say finished"
if grep -q diverged run/summary.json; then fail "the summary of a finished run says diverged"; fi
expect_equal "links of a finished run" "$(find run/checkpoints -type l -printf '%f\n' | sort | xargs)" \
  'best last'
expect_equal "checkpoints in the end" "$(find run/checkpoints -name 'step-*' -printf '%f\n' | sort)" \
  "$(find unbroken/checkpoints -name 'step-*' -printf '%f\n' | sort)"

echo "stopped at an unconfirmed checkpoint of bad weights"
# One step at the large rate, then a kill: the bad weights are saved and not yet detected.
expect 0 "${train[@]}" --output killed --set schedule.epochs=10
confirmed=$(last_of killed)
expect_equal "last of a short run" "$confirmed" step-00000030
expect_no_file killed/checkpoints/confirmed
bad=(--set optim.lr=1e25 --set train.checkpoint_every=1)
expect 4 "${train[@]}" --output killed --resume auto "${bad[@]}"
expect_retreat killed "$confirmed"
aside=$(find killed/checkpoints -maxdepth 1 -name 'diverged-step-*')
expect_equal "step set aside" "$(step_of "$aside")" 31
# The state after a kill between that save and the next step.
mv "$aside" killed/checkpoints/step-00000031
ln -sfn step-00000031 killed/checkpoints/last
expect 4 "${train[@]}" --output killed --resume auto --set optim.lr=1e25
expect_text 'resumed at step 31'
expect_retreat killed "$confirmed"
expect_file killed/checkpoints/diverged-step-00000031
expect 0 "${train[@]}" --output killed --resume auto
expect_same_tensors killed/checkpoints/last unbroken/checkpoints/last

echo "no checkpoint with a finite loss"
fresh=("${train[@]}" --output fresh --resume auto --set schedule.epochs=20)
for every in 0 1 1epoch; do
  expect 4 "${fresh[@]}" --set optim.lr=1e25 --set train.checkpoint_every=$every
  expect_text 'No checkpoint in fresh has a finite loss' 'start again with --resume auto'
  expect_equal "last" "$(last_of fresh)" none
  expect_equal "checkpoints" "$(find fresh/checkpoints -name 'step-*' 2> /dev/null)" ""
  expect_equal "checkpoint of the summary" \
    "$(grep -o '"last_checkpoint": [a-z]*' fresh/summary.json)" '"last_checkpoint": null'
done
expect 2 dtn-eval --checkpoint fresh
expect_text 'this run diverged and has no checkpoint with a finite loss'
expect 0 "${fresh[@]}"
expect_equal "last" "$(last_of fresh)" step-00000060

echo "a NaN at the last step"
# The update of the last step, 61, is far too large. The evaluation after it shows this.
end=("${train[@]}" --output fresh --resume auto --set schedule.epochs=null --set schedule.steps=61
  --set optim.lr=1e25)
expect 4 "${end[@]}"
expect_text 'the loss of the last evaluation, at step 61, was not finite'
expect_retreat fresh step-00000060
expect_equal "best" "$(readlink fresh/checkpoints/best)" step-00000060

echo "a bad step now and then, stopped again and again"
python3 - << 'EOS'
import math, files
pixels = [math.sin(0.1 * i) for i in range(64 * 3 * 16 * 16)]
labels = files.integers([i % 10 for i in range(64)])
for name, first in ("good", pixels[0]), ("nan", math.nan):
    tensors = {"images": files.floats([64, 3, 16, 16], [first] + pixels[1:]), "labels": labels}
    files.write_safetensors(f"{name}.safetensors", tensors)
EOS
tiny_config deit.yaml
odd=(--config deit.yaml --set data.dataset=tensors --set data.root="$work" --set augment.repeats=1
  --set data.train=nan.safetensors --set data.val=good.safetensors --set train.keep=99
  --set schedule.steps=40 --set train.checkpoint_every=1 --set train.eval_every=1)
expect 0 dtn-train "${odd[@]}" --output odd
expect_text '1 of 3'
check_odd() {
  checks=$((checks + 1))
  python3 - "$1" << 'EOS' || fail "checkpoints of bad steps in $1"
import json, os, sys
run = sys.argv[1]
lines = [json.loads(line) for line in open(run + "/metrics.jsonl")]
bad = {l["step"] for l in lines if "split" not in l and l["loss"] is None}
assert len(bad) > 5, bad
saved = {int(n[5:]) for n in os.listdir(run + "/checkpoints") if n.startswith("step-")}
good = set(range(1, 41)) - bad | {40}
# A stop before the first finite step saves step 0.
assert saved - {0} == good, (sorted(saved ^ good), sorted(bad))
EOS
}
check_odd odd
stops=0
for _ in {1..12}; do
  code=0
  when=lines:5.$((RANDOM % 10)):odd-stopped/metrics.jsonl
  timeout 300 python3 "$lib/interrupt.py" TERM "$when" "$bin/dtn-train" "${odd[@]}" \
    --output odd-stopped --resume auto > "$log" 2>&1 || code=$?
  if ((code == 0)); then break; fi
  expect_equal "exit code of a run that was stopped" $code 75
  stops=$((stops + 1))
done
if ((stops < 3)); then fail "only $stops stops"; fi
expect 0 dtn-train "${odd[@]}" --output odd-stopped --resume auto
expect_same_checkpoint odd-stopped/checkpoints/last odd/checkpoints/last
expect_same_checkpoint odd-stopped/checkpoints/best odd/checkpoints/best
expect_same_metrics odd-stopped odd
check_odd odd-stopped
