#!/usr/bin/env bash
# Runs whole programs on the emulated device: a training with its CUDA graph, evaluations and
# checkpoints, and one that is stopped and resumed. Compares the results with those of the CPU.
source "$(dirname "$0")/../e2e/lib/common.sh"

tiny_config "$work/tiny.yaml"
small=(--config "$work/tiny.yaml" --set data.size=40 --set train.batch_size=8
  --set train.micro_batch=4 --set model.depth=2 --set model.class_token_at=1)

same_losses() {  # A B TOLERANCE
  checks=$((checks + 1))
  python3 - "$1/metrics.jsonl" "$2/metrics.jsonl" "$3" << 'EOP' || fail "losses of $1 and $2 differ"
import json, sys
a, b = ([json.loads(l) for l in open(p)] for p in sys.argv[1:3])
assert [(l["step"], l.get("split")) for l in a] == [(l["step"], l.get("split")) for l in b]
worst = max(abs(x["loss"] - y["loss"]) / abs(y["loss"]) for x, y in zip(a, b))
print(f"largest relative difference of {len(a)} losses: {worst:.1e}")
assert worst <= float(sys.argv[3]), worst
EOP
}

expect 0 dtn-train "${small[@]}" --device cuda --output "$work/device"
expect_text 'on emulator' 'GPU waited' 'evaluation at step 12 \(val_ema\)'
expect 0 dtn-train "${small[@]}" --device cpu --output "$work/host"
expect_text 'waited for data'
same_losses "$work/device" "$work/host" 1e-4

# Devices that are too old, or for which the program has no code, are refused at the start.
DTN_EMULATOR_OLD_DEVICES=8 expect 2 dtn-train "${small[@]}" --device cuda --output "$work/old"
expect_text 'has compute capability 7.5; 8.0 or newer is needed'
DTN_EMULATOR_WITHOUT_CODE=1 expect 2 dtn-train "${small[@]}" --device cuda --output "$work/foreign"
expect_text 'has no code for the device, emulator' 'CMAKE_CUDA_ARCHITECTURES=90a-real' \
  '--arch 90a-real'
DTN_EMULATOR_OLD_DEVICES=3 expect 0 dtn-train "${small[@]}" --device cuda --output "$work/mixed" \
  --set schedule.steps=2
expect_text 'on emulator'

# A run on the device that is stopped and resumed ends with the same bits, as on the CPU.
code=0
timeout 300 python3 "$lib/interrupt.py" TERM "lines:5.5:$work/stopped/metrics.jsonl" \
  "$bin/dtn-train" "${small[@]}" --device auto --output "$work/stopped" > "$log" 2>&1 || code=$?
expect_equal "exit code of a stopped run" $code 75
expect 0 dtn-train "${small[@]}" --device cuda --output "$work/stopped" --resume auto
expect_text 'resumed at step [1-9]'
expect_same_checkpoint "$work/stopped/checkpoints/last" "$work/device/checkpoints/last"
expect_same_metrics "$work/stopped" "$work/device"

# Without a CUDA graph, kernels run one by one and give the same numbers.
expect 0 dtn-train "${small[@]}" --device cuda --set train.step_graph=false --output "$work/eager"
expect_same_metrics "$work/eager" "$work/device"

# A run started on the GPU can be continued on the CPU.
expect 0 dtn-train "${small[@]}" --device cuda --set schedule.steps=6 --output "$work/half"
expect 0 dtn-train "${small[@]}" --device cpu --resume "$work/half/checkpoints/last" \
  --output "$work/other_half"
expect_text 'resumed at step 6'

# A custom normalizer, written in primitive operations, works on the device as on the CPU.
own=("${small[@]}" --set model.norm.type=mean_size --set schedule.steps=6)
expect 0 own_normalizer "${own[@]}" --device cuda --output "$work/own_device"
expect_text 'on emulator'
expect 0 own_normalizer "${own[@]}" --device cpu --output "$work/own_host"
same_losses "$work/own_device" "$work/own_host" 1e-4

# Sequences of different lengths. The host does not know the lengths in a step on the device. A norm
# that needs them is refused by name, but trains without a CUDA graph.
sequences=(--config listops_short_dense_dtn --set data.dataset=synthetic --set data.size=16
  --set train.batch_size=4 --set model.embed_dim=16 --set model.depth=2 --set model.num_heads=2
  --set model.max_length=30 --set schedule.steps=5 --set train.eval_every=5 --set train.log_every=1)
expect 0 dtn-train "${sequences[@]}" --device cuda --output "$work/lines_device"
expect_text 'on emulator' 'evaluation at step 5'
expect 0 dtn-train "${sequences[@]}" --device cpu --output "$work/lines_host"
same_losses "$work/lines_device" "$work/lines_host" 1e-4
expect 2 dtn-train "${sequences[@]}" --device cuda --set model.norm=bn --output "$work/lines_bn"
expect_text "'bn'" 'train.step_graph: false'
expect 0 dtn-train "${sequences[@]}" --device cuda --set model.norm=bn --set train.step_graph=false \
  --output "$work/lines_eager"

# The CPU and the device evaluate the same weights alike, also in bfloat16.
evaluate() { expect 0 dtn-eval --checkpoint "$work/device/checkpoints/last" --json "$@" &&
  grep '^{' "$log"; }
host=$(evaluate --device cpu) device=$(evaluate --device cuda) low=$(evaluate --device cuda --precision bf16)
checks=$((checks + 1))
python3 - "$host" "$device" "$low" << 'EOP' || fail "evaluations differ: $host $device $low"
import json, sys
host, device, low = map(json.loads, sys.argv[1:])
assert device["count"] == low["count"] == host["count"] > 0
assert device["top1"] == host["top1"] and abs(device["loss"] - host["loss"]) < 1e-5 * host["loss"]
assert abs(low["loss"] - host["loss"]) < 2e-2 * host["loss"]
EOP

# The CPU and the device predict the same labels for pictures.
python3 -c "
import os, files
os.makedirs('$work/pictures')
for i in range(5):
    picture = files.bmp(20 + i, 18, lambda x, y: (9 * x % 256, 11 * y % 256, 40 * i))
    open(f'$work/pictures/{i}.bmp', 'wb').write(picture)
"
for device in cpu cuda; do
  expect 0 dtn-train predict "$work/pictures" --checkpoint "$work/device/checkpoints/last" --json \
    --batch-size 2 --device $device
  grep '^{' "$log" > "$work/$device.json"
done
checks=$((checks + 1))
python3 - "$work/cpu.json" "$work/cuda.json" << 'EOP' || fail "predictions differ"
import json, sys
host, device = ([json.loads(l) for l in open(p)] for p in sys.argv[1:])
assert [l["file"] for l in host] == [l["file"] for l in device] and len(host) == 5
for a, b in zip(host, device):
    for x, y in zip(a["top"], b["top"]):
        assert x["label"] == y["label"] and abs(x["probability"] - y["probability"]) < 1e-5, (a, b)
EOP

# Three non-finite updates in a row end the run. The message says which checkpoint is still good.
expect 4 dtn-train "${small[@]}" --device cuda --set optim.lr=1e30 --set optim.clip_grad_norm=null \
  --output "$work/diverged"
expect_text 'training diverged' 'No checkpoint in .* has a finite loss'

# Training works in tf32 and in bf16.
for precision in tf32 bf16; do
  expect 0 dtn-train "${small[@]}" --device cuda --set train.precision=$precision \
    --set schedule.steps=4 --output "$work/$precision"
done

# Evaluations of a training in tf32 are in float32, as those of dtn-eval.
checks=$((checks + 1))
expect 0 dtn-eval --checkpoint "$work/tf32/checkpoints/last" --json --device cuda
python3 - "$work/tf32/metrics.jsonl" "$(grep '^{' "$log")" << 'EOP' || fail "evaluation in tf32"
import json, sys
last = [l for l in map(json.loads, open(sys.argv[1])) if l.get("split") == "val"][-1]
want = json.loads(sys.argv[2])["loss"]
assert abs(last["loss"] - want) < 1e-6 * want, (last, want)
EOP
