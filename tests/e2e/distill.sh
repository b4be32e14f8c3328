#!/usr/bin/env bash
# A student learns from a teacher: its log and checkpoints, equal bits of a resumed and an
# uninterrupted run, and teachers that are refused.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
tiny=(--config "$work/tiny.yaml")
expect 0 dtn-train "${tiny[@]}" --set schedule.steps=6 --output "$work/teacher"
expect 0 dtn-train "${tiny[@]}" --set schedule.steps=6 --set seed=4 --output "$work/other"

student=("${tiny[@]}" --set model.norm=ln --set model.pos_embed=all --set model.class_token_at=0
  --set model.distilled=true --set train.loss=bce --set distill.type=soft --set distill.alpha=0.25
  --set distill.temperature=3)
taught=("${student[@]}" --set "distill.teacher=$work/teacher")
expect 0 dtn-train "${taught[@]}" --output "$work/unbroken"
expect_text 'loss: binary cross-entropy, mean .* and 0.25 of it distillation, soft at temperature 3, from vit_t of [0-9]+ parameters, weights [0-9a-f]{16}'
python3 - "$work/unbroken/metrics.jsonl" << 'EOF' || fail "the parts of the loss are not logged"
import json, sys
steps = [l for l in map(json.loads, open(sys.argv[1])) if "grad_norm" in l]
assert len(steps) == 12
for l in steps:
    assert abs(0.75 * l["loss_labels"] + 0.25 * l["loss_teacher"] - l["loss"]) < 1e-5, l
EOF

# Training without a teacher, and hard distillation, give other weights than soft distillation.
expect 0 dtn-train "${student[@]}" --set distill=null --output "$work/alone"
expect 0 dtn-train "${taught[@]}" --set distill.type=hard --output "$work/hard"
for run in alone hard; do
  checks=$((checks + 1))
  ! cmp -s "$work/$run/checkpoints/last/model.safetensors" \
    "$work/unbroken/checkpoints/last/model.safetensors" || fail "$run learns what soft distillation does"
done

# A checkpoint identifies the teacher by its weights, not by its path. The checkpoint holds only the
# student's weights.
for file in "$work"/unbroken/checkpoints/last/*; do
  checks=$((checks + 1))
  ! grep -qF "$work/teacher" "$file" || fail "$file holds the teacher's path"
done
expect_equal "tensors with a teacher and without" \
  "$(python3 -c 'import json,struct,sys; f=open(sys.argv[1],"rb"); n,=struct.unpack("<Q",f.read(8)); print(sorted(k for k in json.loads(f.read(n)) if k!="__metadata__"))' "$work/unbroken/checkpoints/last/model.safetensors")" \
  "$(python3 -c 'import json,struct,sys; f=open(sys.argv[1],"rb"); n,=struct.unpack("<Q",f.read(8)); print(sorted(k for k in json.loads(f.read(n)) if k!="__metadata__"))' "$work/alone/checkpoints/last/model.safetensors")"

# A resume with the teacher at another path, from its file alone, gives the same bits.
mv "$work/teacher" "$work/moved"
moved=$work/moved/checkpoints/best/model.safetensors
cp -r "$work/unbroken" "$work/resumed"
expect 2 dtn-train --resume "$work/resumed/checkpoints/step-00000009"
expect_text "distill.teacher: $work/teacher is neither a safetensors file nor a folder"
expect 2 dtn-train --resume "$work/resumed/checkpoints/step-00000009" --set "distill.teacher=$work/other"
expect_text 'distill.teacher has other weights than at the start of the run'
expect 0 dtn-train --resume "$work/resumed/checkpoints/step-00000009" --set "distill.teacher=$moved"
expect_same_checkpoint "$work/resumed/checkpoints/last" "$work/unbroken/checkpoints/last"
expect_same_metrics "$work/resumed" "$work/unbroken"

# Evaluating a student needs no teacher.
expect 0 dtn-eval --checkpoint "$work/unbroken" --set data.size=16 --json

# The memory estimate includes the teacher.
taught=("${student[@]}" --set "distill.teacher=$moved")
expect 0 dtn-train "${taught[@]}" --output "$work/dry" --dry-run
expect_text 'memory: about .* weights [0-9.]+ [KM]iB, teacher [0-9.]+ [KM]iB, gradients'

# Teachers that do not fit the student, or have no config.
expect 2 dtn-train "${taught[@]}" --output "$work/no" --set model.image_size=32
expect_text "its model.image_size is 16 x 16, but the student's is 32 x 32"
expect 2 dtn-train "${taught[@]}" --output "$work/no" --set model.num_classes=7
expect_text "its model.num_classes is 10, but the student's is 7"
python3 - "$moved" "$work/bare.safetensors" << 'EOF'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", data[:8])
table = json.loads(data[8:8 + n])
del table["__metadata__"]
text = json.dumps(table).encode()
text += b" " * (-len(text) % 8)
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
EOF
bare=("${student[@]}" --set "distill.teacher=$work/bare.safetensors")
expect 2 dtn-train "${bare[@]}" --output "$work/no"
expect_text 'bare.safetensors has no config; set distill.teacher_config'
expect 3 dtn-train "${bare[@]}" --output "$work/no" --set distill.teacher_config=fashion_mnist_ln \
  --set model.image_size=28 --set model.channels=1
expect 0 dtn-train "${bare[@]}" --set "distill.teacher_config=$work/tiny.yaml" --output "$work/bare"
expect_same_checkpoint "$work/bare/checkpoints/last" "$work/unbroken/checkpoints/last"
