#!/usr/bin/env bash
# The tasks dino and supcon: train with evaluations, stop and resume, evaluate, fine-tune, errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

# config TASK SECTION...: a config of a tiny model on synthetic images.
config() {
  {
    printf 'name: %s\ntask: %s\naugment: %s\n' "$1" "$1" "$1"
    echo "model: {preset: vit_t, image_size: 16, patch_size: 4, embed_dim: 24, depth: 3, num_heads: 4,
        mlp_ratio: 2, num_classes: 10, class_token_at: 2, norm: dtn, drop_path: 0.2}"
    echo "data: {dataset: synthetic, size: 80}"
    echo "train: {batch_size: 16, micro_batch: 8, log_every: 1, eval_every: 6, checkpoint_every: 4}"
    printf '%s\n' "${@:2}"
  } > "$1.yaml"
}
config dino "dino: {out_dim: 48, hidden_dim: 16, bottleneck_dim: 8, local_crops: 2, local_size: 8}" \
  "optim: {weight_decay_end: 0.4, clip_param_norm: 3}" \
  "schedule: {name: dino, steps: 12, warmup_epochs: 1}"
config supcon "supcon: {feat_dim: 8}" "schedule: {steps: 12}"
tiny_config tiny.yaml
for task in dino supcon; do
  echo "$task: train, be killed, resume"
  expect 0 dtn-train --config $task.yaml --output $task --threads 2
  expect_text 'evaluation at step 12 \(val\): top-1 +[0-9.]+ %'
  expect_file $task/samples.png
  expect_file $task/neighbors.png
  grep -q 'id="neighbors"' $task/report.html || fail "$task: no neighbours in the report"
  code=0
  python3 "$lib/interrupt.py" KILL "lines:7.50:$task-killed/metrics.jsonl" "$bin/dtn-train" \
    --config $task.yaml --output $task-killed --threads 2 > "$log" 2>&1 || code=$?
  expect_equal "exit code of the killed run" "$code" 137
  expect 0 dtn-train --config $task.yaml --output $task-killed --threads 2 --resume auto
  cmp $task/neighbors.png $task-killed/neighbors.png || fail "$task: other neighbours after a kill"
  expect_same_checkpoint $task/checkpoints/step-00000012 $task-killed/checkpoints/step-00000012
  expect 0 dtn-eval --checkpoint $task --task knn --json
  cp "$log" knn.txt
  python3 - $task << 'EOC' || fail "k-NN of the run and of dtn-eval differ"
import json, sys
(found,) = [json.loads(l) for l in open("knn.txt") if l.startswith("{")]
logged = [json.loads(l) for l in open(sys.argv[1] + "/metrics.jsonl")]
last = [l for l in logged if "split" in l][-1]
assert abs(found["top1"] - last["top1"]) < 1e-9 and found["count"] == last["count"], (found, last)
if sys.argv[1] == "dino":
    step = [l for l in logged if "loss" in l][-1]
    for key in ("weight_decay", "teacher_momentum", "teacher_temp", "teacher_entropy", "center_norm"):
        assert key in step, (key, step)
EOC
  expect 2 dtn-eval --checkpoint $task
  expect_text 'has no classes; evaluate its features with --task knn or --task linear'
  expect 2 dtn-predict $task/samples.png --checkpoint $task
  expect_text "the model of the task $task has no classes to predict. Fine-tune it" \
    "model.init_weights=$task" "dtn-eval --checkpoint $task --task knn"
  expect 0 dtn-export --checkpoint $task --output $task.onnx
  expect_text "$task.onnx: vit_t.*images \[N, 3, 16, 16\] -> features \[N, 24\]"
  expect 0 dtn-train --config $task.yaml --output $task-estimate --dry-run
  expect_text 'steps'
done

echo "the teacher is exported"
for weights in ema model; do
  expect 0 dtn-export --checkpoint dino/checkpoints/last/$weights.safetensors --output $weights.onnx
done
cmp dino.onnx ema.onnx || fail "the folder of a run does not export its teacher"
if cmp -s dino.onnx model.onnx; then fail "student and teacher are equal"; fi

echo "the untrained network is the model that the run started with"
for task in dino supcon; do
  expect 0 dtn-train --config $task.yaml --output $task-start --threads 2 --set optim.lr=1e-12 --set schedule.min_lr=0 \
    --set schedule.steps=1
  expect 0 dtn-eval --checkpoint $task-start --task knn --json --baselines
  check "$task: the start of the run" << 'EOC'
(found,) = [json.loads(l) for l in log.splitlines() if l.startswith("{")]
for figure in ("top1", "top5"):
    assert found["baselines"]["untrained"][figure] == found[figure], found
EOC
done

echo "a collapse"
expect 0 dtn-train --config dino.yaml --output hot --threads 2 --set dino.teacher_temp=1 \
  --set dino.warmup_teacher_temp=1
expect_text 'step 6: all elements of the teacher.s outputs are nearly equal: .* of ln K = 3.871' \
  'Lower dino.teacher_temp \(1\)'
expect_equal "warnings" "$(grep -c equal_outputs hot/warnings.jsonl)" 1
grep -q 'Warning at step 6' hot/report.html || fail "the report has no warning"
test ! -e dino/warnings.jsonl || fail "a warning in a run without a collapse: $(cat dino/warnings.jsonl)"

echo "fine-tuning"
expect 0 dtn-train --config tiny.yaml --output finetuned --threads 2 --set schedule.steps=2 \
  --set augment.preset=light --set augment.erase=0 \
  --set model.init_weights=dino
expect_text 'init_weights: .*ema.safetensors'

echo "a checkpoint of the public DINO code"
python3 - << 'EOC'
import files
metadata, student = files.read_safetensors("dino/checkpoints/last/model.safetensors")
_, teacher = files.read_safetensors("dino/checkpoints/last/ema.safetensors")
_, state = files.read_safetensors("dino/checkpoints/last/state.safetensors")
full = {"student.module." + name: tensor for name, tensor in student.items()}
full |= {"teacher." + name: tensor for name, tensor in teacher.items()}
full["dino_loss.center"] = state["dino.center"]
files.write_safetensors("full.safetensors", full)
EOC
# The first learning rate is 0, so one step does not change the student.
expect 0 dtn-train --config dino.yaml --output from-full --threads 2 --set schedule.steps=1 \
  --set schedule.warmup_lr=0 --set model.init_weights=full.safetensors
expect_text 'init_weights: student, teacher and center: each from its own tensors'
python3 - << 'EOC' || fail "the networks do not start from their tensors"
import files
read = lambda run, file: files.read_safetensors(f"{run}/checkpoints/last/{file}.safetensors")[1]
assert read("dino", "model") == read("from-full", "model")
before, after, student = read("dino", "ema"), read("from-full", "ema"), read("dino", "model")
for name in before:
    a, b, s = (files.values_of(t[name]) for t in (before, after, student))
    # One update of the moving average, with the initial momentum.
    assert all(abs(0.996 * x + 0.004 * z - y) < 1e-5 for x, y, z in zip(a, b, s)), name
EOC
expect 0 dtn-eval --checkpoint dino/checkpoints/last --task knn --json --save-features run.safetensors
expect 0 dtn-eval --checkpoint full.safetensors --config dino.yaml --task knn --json \
  --save-features full-features.safetensors
cmp run.safetensors full-features.safetensors || fail "a full checkpoint does not give its teacher"
expect 0 dtn-train --config tiny.yaml --output finetuned-full --threads 2 --set schedule.steps=2 \
  --set augment.preset=light --set augment.erase=0 --set model.init_weights=full.safetensors
expect_text "removed the prefix 'teacher.backbone.' from .* others are not used"
expect 0 dtn-export --checkpoint full.safetensors --config dino.yaml --set task=classify \
  --set augment.preset=none --set model.num_classes=0 --output features.onnx

echo "views without a preset: given ones"
python3 - << 'EOC'
import files, random
random.seed(1)
def views(count, side):
    return files.floats([6, count, 3, side, side],
                        [random.gauss(0, 1) for _ in range(6 * count * 3 * side * side)])
files.write_safetensors("train.safetensors", {"global": views(2, 16), "local": views(2, 8)})
EOC
given=(--config dino.yaml --set data.size=null --set data.dataset=tensors --set data.root=.)
for preset in none supcon dino; do
  expect 0 dtn-train "${given[@]}" --set augment.preset=$preset --set schedule.steps=1 \
    --set train.batch_size=4 --set train.micro_batch=null --output given-$preset
  grep -q 'save-neighbors neighbors.html' given-$preset/report.html || \
    fail "the report of a run without evaluations does not say how to see neighbours"
  expect 0 dtn-data preview "${given[@]}" --set augment.preset=$preset --output given-$preset.png
  expect 0 dtn-bench data "${given[@]}" --set augment.preset=$preset --seconds 0.2 --json
  expect_text views_per_second
done

echo "errors"
for wrong in 'dino none dino' 'dino supcon dino' 'supcon dino supcon' 'supcon light supcon'; do
  read -r task preset advice <<< "$wrong"
  expect 2 dtn-train --config "$task.yaml" --output no --set "augment.preset=$preset"
  expect_text "set augment.preset: $advice"
  expect 2 dtn-data preview --config "$task.yaml" --output no.png --set "augment.preset=$preset"
done
expect 2 dtn-train --config tiny.yaml --output no --set augment.preset=dino --set augment.erase=0
expect_text 'the task classify takes one; set augment.preset: deit, light or none'
expect 2 dtn-train --config dino.yaml --output no --set dino.local_size=10
expect_text 'dino.local_size 10 is not divisible by model.patch_size'
expect 2 dtn-train --config dino.yaml --output no --set dino.out_dim=1
expect 2 dtn-train --config dino.yaml --output no --set train.ema=0.9
expect_text 'dino.teacher_momentum'
expect 2 dtn-train --config supcon.yaml --output no --set dino.out_dim=10
expect_text "dino.out_dim is not read by the task 'supcon'"
