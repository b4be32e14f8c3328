#!/usr/bin/env bash
# dtn-analyze: a run and its history, before and after training, files of weights, inputs, mistakes,
# NaN; and train.log_norms: a kill neither duplicates nor loses its lines.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
log_norms=(--set train.log_norms=2 --set train.keep=1 --set train.eval_every=0)

echo "norms.jsonl: at the start, every second step, at the end"
expect 0 dtn-train --config tiny.yaml "${log_norms[@]}" --set schedule.steps=11 --output run
expect_equal "steps of norms.jsonl" "$(python3 -c '
import json
print(*(json.loads(l)["step"] for l in open("run/norms.jsonl")))')" "0 2 4 6 8 10 11"
expect_equal "checkpoints" "$(ls run/checkpoints | tr '\n' ' ')" \
  "best last step-00000000 step-00000011 "
expect 0 dtn-train --config tiny.yaml --set schedule.steps=1 --output plain
expect_no_file plain/norms.jsonl
expect_no_file plain/checkpoints/step-00000000
expect 2 dtn-train --config tiny.yaml --set train.log_norms=often --output none
expect_text 'train.log_norms' 'like 1epoch'

echo "kill -9 neither duplicates nor loses lines of norms.jsonl"
for when in 1.50 2.10 3.90 1.05 2.75; do
  code=0
  python3 "$lib/interrupt.py" KILL "lines:$when:killed/norms.jsonl" "$bin/dtn-train" \
    --config tiny.yaml "${log_norms[@]}" --set schedule.steps=11 --set train.checkpoint_every=1 \
    --output killed --resume auto > "$log" 2>&1 || code=$?
  ((code == 137 || code == 0)) || fail "a killed run exited with $code: $(cat "$log")"
done
expect 0 dtn-train --config tiny.yaml "${log_norms[@]}" --set schedule.steps=11 \
  --set train.checkpoint_every=1 --output killed --resume auto
checks=$((checks + 1))
cmp run/norms.jsonl killed/norms.jsonl >&2 || fail "norms.jsonl of a killed run differs"
expect_file killed/checkpoints/step-00000000
expect_no_leftovers killed

echo "a run, twice, on any number of threads"
expect 0 dtn-analyze --help
expect_text --checkpoint --name --config --inputs --images --output --token --threads 'Exit codes'
expect 0 dtn-analyze --checkpoint run --output one
expect_text 'analyzing tiny' 'numbers: one/analysis.json'
expect 0 dtn-train analyze --checkpoint run --output two
for threads in 1 3; do
  expect 0 dtn-analyze --checkpoint run --threads "$threads" --output "threads$threads"
done
for other in two threads1 threads3; do
  checks=$((checks + 1))
  cmp one/analysis.json "$other/analysis.json" >&2 || fail "$other/analysis.json differs"
done
python3 - << 'EOF' || fail "one/analysis.json"
import json
found = json.load(open("one/analysis.json"))
assert list(found) == ["format", "inputs", "checkpoints", "cka"] and found["format"] == 1
assert found["inputs"]["count"] == 64 and found["inputs"]["labels"], found["inputs"]
draw = found["inputs"]["draw"]
assert draw["seed"] == 0 and draw["classes"] == 10 and draw["from"] > 64, draw
(c,) = found["checkpoints"]
assert (c["name"], c["source"], c["step"], c["normalizer"]) == ("tiny", "run", 11, "dtn")
assert (c["depth"], c["heads"], c["grid"], c["center_token"]) == (3, 4, [4, 4], 6)
history = c["lambda_history"]
assert history["steps"] == [0, 2, 4, 6, 8, 10, 11] and history["epochs"][1] == 0.4, history
assert history["lambda_mean"][-1] == c["lambda_mean"] and c["lambda_mean"][2] is None
assert history["lambda_var"][0][0][0] == [0.5] * 4
assert c["attention_to_class"][:2] == [None, None] and len(c["attention_to_class"][2]) == 4
assert len(c["rollout"]) == 8 and c["loss"] > 0 and found["cka"] == []
assert len(c["pca_points"]["after"]) == 64 * 16
EOF

echo "before and after training, and a new model"
expect 0 dtn-analyze --checkpoint run/checkpoints/step-00000000 --checkpoint init --checkpoint run \
  --config run/config.yaml --name before,anew,after --images 20 --output three
python3 - << 'EOF' || fail "three/analysis.json"
import json
found = json.load(open("three/analysis.json"))
before, anew, after = found["checkpoints"]
assert [c["name"] for c in found["checkpoints"]] == ["before", "anew", "after"]
assert before["step"] == anew["step"] == 0 and after["step"] == 11
texts = "name", "source", "lambda_history"
assert all(before[k] == anew[k] for k in before if k not in texts)
assert before["lambda_history"] is None and after["lambda_history"]
assert before["attention_distance"] != after["attention_distance"]
assert [(c["a"], c["b"]) for c in found["cka"]] == [(0, 1), (0, 2), (1, 2)]
assert all(abs(found["cka"][0]["matrix"][i][i] - 1) < 1e-12 for i in range(4))
assert found["inputs"]["count"] == 20
EOF

echo "--before: the checkpoint of step 0, or else a new model"
expect 0 dtn-analyze --before --checkpoint run --checkpoint plain --name a,b --images 20 \
  --output pairs
expect_text 'b, before training: there is no checkpoint of step 0'
expect 0 dtn-analyze --before --checkpoint init --config run/config.yaml --images 20 --output alone
expect 0 dtn-analyze --checkpoint run --images 20 --seed 1 --output seeded
python3 - << 'EOF' || fail "pairs, alone and seeded/analysis.json"
import json
found = json.load(open("pairs/analysis.json"))
names = [c["name"] for c in found["checkpoints"]]
assert names == ["a, before training", "a", "b, before training", "b"], names
assert [c["before_training_of"] for c in found["checkpoints"]] == [1, None, 3, None]
a_before, a, b_before, b = found["checkpoints"]
three = json.load(open("three/analysis.json"))["checkpoints"]
assert a_before["source"] == "run/checkpoints/step-00000000", a_before["source"]
assert b_before["source"] == "init of plain", b_before["source"]
for key in "p_center_token", "attention_distance", "loss", "step":
    assert a_before[key] == b_before[key] == three[0][key], key  # the configs have equal seeds
    assert a[key] == three[2][key], key
assert a["loss"] != a_before["loss"] and a["p_center_token"] != a_before["p_center_token"]
assert len(json.load(open("alone/analysis.json"))["checkpoints"]) == 1
seeded = json.load(open("seeded/analysis.json"))
assert seeded["inputs"]["draw"]["seed"] == 1 and seeded["checkpoints"][0]["loss"] != a["loss"]
EOF
expect 0 dtn-train --config tiny.yaml --set schedule.steps=1 --set model.init_weights=run \
  --output tuned
expect 2 dtn-analyze --before --checkpoint tuned
expect_text 'began from model.init_weights' 'train it with train.log_norms'

echo "lone weights of another depth, and inputs with and without labels"
python3 - << 'EOF'
import random, files
random.seed(1)
metadata, tensors = files.read_safetensors("run/checkpoints/last/model.safetensors")
files.write_safetensors("lone.safetensors", tensors)
deeper = {n.replace("blocks.2.", "blocks.3."): t for n, t in tensors.items()} | tensors
files.write_safetensors("deeper.safetensors", deeper)
broken = dict(tensors)
kind, shape, data = broken["blocks.1.mlp.fc2.bias"]
broken["blocks.1.mlp.fc2.bias"] = files.floats(shape, [float("nan")] * (len(data) // 4))
files.write_safetensors("broken.safetensors", broken)
images = files.floats([5, 3, 16, 16], [random.gauss(0, 1) for _ in range(5 * 3 * 256)])
files.write_safetensors("images.safetensors", {"images": images})
labels = files.integers([0, 1, 2, 3, 4])
files.write_safetensors("labelled.safetensors", {"images": images, "labels": labels})
files.write_safetensors("beyond.safetensors",
                        {"images": images, "labels": files.integers([0, 1, 2, 3, 10])})
files.write_safetensors("small.safetensors",
                        {"images": files.floats([1, 3, 8, 8], [0.0] * 192)})
EOF
sed 's/depth: 3/depth: 4/; s/name: tiny/name: deeper/' run/config.yaml > deeper.yaml
expect 2 dtn-analyze --checkpoint lone.safetensors
expect_text 'contains no config'
expect 0 dtn-analyze --checkpoint run --checkpoint deeper.safetensors --config deeper.yaml \
  --inputs images.safetensors --token 0 --output depths
expect 0 dtn-analyze --checkpoint lone.safetensors --config run/config.yaml \
  --inputs labelled.safetensors --output lone
python3 - << 'EOF' || fail "depths/analysis.json and lone/analysis.json"
import json
depths = json.load(open("depths/analysis.json"))
run, deeper = depths["checkpoints"]
assert (run["depth"], deeper["depth"]) == (3, 4) and deeper["step"] is None
matrix = depths["cka"][0]["matrix"]
assert len(matrix) == 4 and all(len(row) == 5 for row in matrix), matrix
assert run["loss"] is None and run["gradient_norm"] is None and run["center_token"] == 0
assert not depths["inputs"]["labels"]
(lone,) = json.load(open("lone/analysis.json"))["checkpoints"]
assert lone["loss"] > 0 and len(lone["branch_gradient_norm"][0]) == 3
assert lone["attention_distance"] == run["attention_distance"]
assert lone["lambda_history"] is None
EOF

echo "numbers that are not finite"
expect 0 dtn-analyze --checkpoint broken.safetensors --config run/config.yaml \
  --inputs labelled.safetensors --output broken
expect_text 'warning: tiny: residual_rms: 2 numbers are not finite; written as null' \
  'warning: tiny: loss: 1 number is not finite; written as null'
python3 - << 'EOF' || fail "broken/analysis.json"
import json
def refuse(word):
    raise ValueError(word)
(c,) = json.load(open("broken/analysis.json"), parse_constant=refuse)["checkpoints"]
assert c["residual_rms"][1] and c["residual_rms"][2] is None, c["residual_rms"]
EOF

echo "mistakes"
expect 2 dtn-analyze --output x
expect_text '--checkpoint is required'
expect 2 dtn-analyze --checkpoint absent
expect_text 'no such file or folder'
expect 2 dtn-analyze --checkpoint init
expect_text '--checkpoint init needs --config'
expect 2 dtn-analyze --checkpoint run --name a,b
expect_text '--name has 2 names for 1 checkpoint;'
expect 2 dtn-analyze --checkpoint run --token 16 --images 2
expect_text '--token 16: no layer has so many tokens'
expect 2 dtn-analyze --checkpoint run --images 2 --inputs images.safetensors
expect 2 dtn-analyze --checkpoint run --seed 1 --inputs images.safetensors
expect 2 dtn-analyze --checkpoint run --images 0
expect 3 dtn-analyze --checkpoint run --inputs small.safetensors
expect_text '\[N, 3, 16, 16\]' 'has float32 \[1, 3, 8, 8\]'
expect 3 dtn-analyze --checkpoint run --inputs beyond.safetensors
expect 3 dtn-analyze --checkpoint run --inputs absent.safetensors
printf 'nothing' > torn.safetensors
expect 3 dtn-analyze --checkpoint torn.safetensors
expect 3 dtn-analyze --checkpoint run --inputs torn.safetensors
sed 's/image_size: 16/image_size: 32/' deeper.yaml > larger.yaml
expect 2 dtn-analyze --checkpoint run --checkpoint init --config larger.yaml
expect_text 'compared models must take the same images'

echo "an image-to-image model beside its state before training"
cat > unet.yaml << 'EOC'
name: restore
task: translate
model: {preset: unet_tiny, image_size: [16, 24], embed_dim: [8, 16], depth: [2, 1], shortcut: ms}
data: {dataset: synthetic, size: 32, corruptions: [gaussian_noise/3]}
schedule: {steps: 8}
train: {batch_size: 8}
EOC
expect 0 dtn-train --config unet.yaml --output unet
expect 0 dtn-analyze --before --checkpoint unet --images 6 --output maps
check "maps/analysis.json" << 'EOC'
found = json.load(open("maps/analysis.json"))
before, after = found["checkpoints"]
assert before["before_training_of"] == 1 and found["inputs"]["count"] == 6, found["inputs"]
sites = ["enc.0.0", "enc.0.1", "enc.1.0", "dec.0.0", "dec.0.1"]
for run in before, after:
    moments = run["moments"]
    assert moments["sites"] == sites, moments["sites"]
    for maps in moments["mean"], moments["std"]:
        shapes = [(len(m), len(m[0]), len(m[0][0])) for m in maps]
        assert shapes == [(4, 16, 24)] * 2 + [(4, 8, 12)] + [(4, 16, 24)] * 2, shapes
    for key in "moment_brightness", "moment_edges":
        assert len(run[key]) == 5 and all(-1 <= r <= 1 for pair in run[key] for r in pair), run[key]
    assert run["loss"] > 0 and all(g > 0 for g in run["gradient_norm"]), run["loss"]
assert before["moments"] != after["moments"]
page = open("maps/report.html").read()
assert "Mean and deviation over the channels" in page and "enc.1.0, before training" in page
assert os.path.exists("maps/figures/moments_2.svg") and not os.path.exists("maps/figures/moments_1.svg")
EOC
expect 2 dtn-analyze --checkpoint unet --checkpoint run --output mixed
expect_text 'the tasks of restore and tiny are translate and classify'
expect 0 dtn-analyze --checkpoint run --images 4 --output vit_maps
check "maps of a transformer" << 'EOC'
(run,) = json.load(open("vit_maps/analysis.json"))["checkpoints"]
assert run["moments"]["sites"][:3] == ["blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1"]
assert len(run["moments"]["mean"][0]) == 4 and len(run["moments"]["mean"][0][0]) == 4
EOC
