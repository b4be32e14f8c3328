#!/usr/bin/env bash
# The task diffusion: the same training for any workers, micro-batches and interruptions;
# evaluation of a split and of given inputs; errors.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

cat > tiny.yaml << 'EOC'
name: dit
task: diffusion
seed: 2
model: {preset: dit_tiny, image_size: 8, patch_size: 2, channels: 1, num_classes: 4, embed_dim: 24,
        depth: 2, num_heads: 2, learn_sigma: true}
data: {dataset: synthetic, size: 36, workers: 1}
schedule: {name: constant, steps: 12}
optim: {lr: 3.0e-3}
train: {batch_size: 8, ema: 0.9, best: ema, eval_every: 4, checkpoint_every: 4, log_every: 1}
diffusion: {sample_every: 0}
EOC

echo "training"
expect 0 dtn-train --config tiny.yaml --output run
check "metrics and summary" << 'EOC'
lines = [json.loads(l) for l in open("run/metrics.jsonl")]
steps = [l for l in lines if "split" not in l]
evals = [l for l in lines if "split" in l]
assert len(steps) == 12, steps
for l in steps:
    quarters = [l[f"mse_q{q}"] for q in (1, 2, 3, 4)]
    assert any(q is not None for q in quarters), l
    given = [q for q in quarters if q is not None]
    assert min(given) - 1e-6 <= l["mse"] <= max(given) + 1e-6, l
    assert abs(l["loss"] - l["mse"] - l["vb"]) < 1e-5 * l["loss"], l
assert 0.9 < steps[0]["mse"] < 1.1, steps[0]  # the output of a new model is zero
assert [l["split"] for l in evals] == ["val", "val_ema"] * 3, evals
assert all(l["top1"] is None and l["count"] == 36 for l in evals), evals
summary = json.load(open("run/summary.json"))
assert summary["top1"] is None and summary["loss"] == evals[-2]["loss"], summary
averaged = [l["loss"] for l in evals if l["split"] == "val_ema"]
assert summary["best"]["loss"] == min(averaged), (summary, averaged)
EOC
expect_file run/report.html

echo "the same training"
expect 0 dtn-train --config tiny.yaml --output other --threads 2 --set data.workers=3
expect_same_tensors run/checkpoints/last other/checkpoints/last
expect 0 dtn-train --config tiny.yaml --output resumed --set schedule.steps=8
expect 0 dtn-train --config tiny.yaml --output resumed --resume auto
expect_same_tensors run/checkpoints/last resumed/checkpoints/last
expect 0 dtn-train --config tiny.yaml --output parts --set train.micro_batch=2
check "micro-batches" << 'EOC'
def losses(run):
    return [json.loads(l) for l in open(f"{run}/metrics.jsonl") if "split" not in l]
for a, b in zip(losses("run"), losses("parts")):
    for key in "loss", "mse", "vb", "mse_q1", "mse_q2", "mse_q3", "mse_q4":
        assert (a[key] is None) == (b[key] is None), (key, a, b)
        assert a[key] is None or abs(a[key] - b[key]) < 1e-4 * abs(a[key]) + 1e-6, (key, a, b)
EOC

echo "evaluation"
expect 0 dtn-eval --checkpoint run --json
check "JSON" << 'EOC'
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
assert list(found) == ["loss", "mse", "vb", "count", "images_per_second", "skipped"], found
last = [json.loads(l) for l in open("run/metrics.jsonl") if '"val"' in l][-1]
assert all(found[k] == last[k] for k in ("loss", "mse", "vb", "count")), (found, last)
EOC
expect 0 dtn-eval --checkpoint run --batch-size 5 --threads 2 --save-logits split.safetensors
expect_text '^loss [0-9.]+  mse [0-9.]+  vb [0-9.]+  36 images'
python3 - << 'EOC'
import files, random
random.seed(3)
n = 5
tensors = {"images": files.floats([n, 1, 8, 8], [random.uniform(-1, 1) for _ in range(64 * n)]),
           "labels": files.integers([0, 1, 2, 3, 4]),
           "timesteps": files.integers([0, 1, 500, 999, 20]),
           "noise": files.floats([n, 1, 8, 8], [random.gauss(0, 1) for _ in range(64 * n)])}
files.write_safetensors("inputs.safetensors", tensors)
for name, value in (("timesteps", 1000), ("labels", 5)):
    wrong = dict(tensors, **{name: files.integers([value, 1, 2, 3, 4])})
    files.write_safetensors(f"wrong_{name}.safetensors", wrong)
EOC
expect 0 dtn-eval --checkpoint run --inputs inputs.safetensors --save-logits output.safetensors --json
check "output of given inputs" << 'EOC'
found = [json.loads(l) for l in log.splitlines() if l.startswith("{")][-1]
_, saved = files.read_safetensors("output.safetensors")
assert saved["output"][:2] == ("F32", [5, 2, 8, 8]), saved["output"][:2]
output = files.values_of(saved["output"])
noise = files.values_of(files.read_safetensors("inputs.safetensors")[1]["noise"])
errors = [(output[b * 128 + i] - noise[b * 64 + i]) ** 2 for b in range(5) for i in range(64)]
assert abs(sum(errors) / len(errors) - found["mse"]) < 1e-5, (sum(errors) / len(errors), found)
assert found["count"] == 5 and found["vb"] > 0, found
assert files.read_safetensors("split.safetensors")[1]["output"][1] == [36, 2, 8, 8]
EOC

echo "errors"
expect 3 dtn-eval --checkpoint run --inputs wrong_timesteps.safetensors
expect_text 'wrong_timesteps.safetensors\[0\]: `timesteps` is 1000'
expect 3 dtn-eval --checkpoint run --inputs wrong_labels.safetensors
expect_text 'label 5 is outside \[0, 4\]'
expect 2 dtn-eval --checkpoint run --save-features f.safetensors
expect 2 dtn-train --config tiny.yaml --output no --set data.mean=0.5
expect_text "data.mean is not read by the task 'diffusion'"
expect 2 dtn-train --config tiny.yaml --output no --set augment.preset=light
expect 2 dtn-train --config tiny.yaml --output no --set diffusion.steps=20
expect 2 dtn-train --config tiny.yaml --output no --set model.preset=vit_t
