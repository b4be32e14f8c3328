#!/usr/bin/env bash
# dtn-eval --inputs for sequence models: tokens in a file give the results of the data set, whatever
# values follow the tokens; invalid sequences are refused.
source "$(dirname "$0")/lib/common.sh"

cd "$work"
expect 0 dtn-data listops --output short --seed 3 --train 64 --val 40 --test 1 \
  --min-length 10 --max-length 60
cat > tiny.yaml << 'EOF'
model: {preset: listops_dense, max_length: 59, embed_dim: 16, num_heads: 2, depth: 2, norm: dtn}
data: {dataset: listops, root: short}
optim: {name: adamw, lr: 0.01}
schedule: {steps: 3}
train: {batch_size: 8}
EOF
expect 0 dtn-train --config tiny.yaml --output run --threads 2

expect 0 dtn-eval --checkpoint run --report errors
check "a report on sequences has lists in place of pictures" << 'EOF'
page, report = open("errors/report.html").read(), json.load(open("errors/report.json"))
assert "<img" not in page and "of 40 sequences" in page and "Most confused classes" in page
assert report["count"] == 40 and len(report["classes"]) == 10 and report["worst"]
EOF

evaluate() { expect 0 dtn-eval --checkpoint run "$@" --json && tail -n 1 "$log" > result.json; }

echo "tokens in files"
python3 - << 'EOF'
import array, csv, random, files
words = ["", *"0123456789", "[MAX", "[MED", "[MIN", "[SM", "]"]
sequences, labels = [], []
for row in csv.DictReader(open("short/basic_val.tsv"), delimiter="\t"):
    sequences.append([words.index(w) for w in row["Source"].split() if w not in "()"])
    labels.append(int(row["Target"]))
lengths = [len(s) for s in sequences]
assert len(sequences) == 40 and min(lengths) > 10 and max(lengths) < 60

def table(width, fill):
    ids = array.array("i")
    for s in sequences:
        ids.extend(s + [fill() for _ in range(width - len(s))])
    return "I32", [len(sequences), width], ids.tobytes()

def numbers(values):
    return "I32", [len(values)], array.array("i", values).tobytes()

labelled = {"labels": files.integers(labels)}
files.write_safetensors("padded.safetensors", {"tokens": table(max(lengths), lambda: 0), **labelled})
# With lengths, all values beyond a length are ignored.
random.seed(1)
anything = table(59, lambda: random.choice([-5, 0, 3, 16, 17, 2**31 - 1]))
files.write_safetensors("counted.safetensors", {"tokens": anything, "lengths": numbers(lengths)})

def one(name, ids, length=None, **more):
    tensors = {"tokens": ("I32", [1, len(ids)], array.array("i", ids).tobytes()), **more}
    if length is not None:
        tensors["lengths"] = numbers([length])
    files.write_safetensors(name + ".safetensors", tensors)

one("unknown", [11, 1, 2, 16, 15])  # 16 is a valid id, but no file of ListOps has its word
one("beyond", [11, 1, 17, 15])
one("negative", [11, -1, 2, 15])
one("inside", [11, 1, 0, 2, 15, 0])
one("counted_inside", [11, 1, 0, 2, 15], 5)
one("empty", [0, 0, 0])
one("no_length", [11, 1, 2, 15], 0)
one("long_length", [11, 1, 2, 15], 5)
one("wide", [1] * 60)
one("label", [11, 1, 2, 15], labels=files.integers([10]))
one("labels", [11, 1, 2, 15], labels=files.integers([1, 2]))
files.write_safetensors("lengths.safetensors", {"tokens": anything, "lengths": numbers(lengths[:9])})
files.write_safetensors("floats.safetensors", {"tokens": files.floats([1, 2], [1, 2])})
files.write_safetensors("images.safetensors", {"images": files.floats([1, 1, 1, 2], [1, 2])})
EOF
evaluate --save-logits data.safetensors --save-features data-features.safetensors
cp result.json data.json
evaluate --inputs padded.safetensors --save-logits padded-logits.safetensors --batch-size 7 \
  --save-features padded-features.safetensors
cp result.json padded.json
evaluate --inputs counted.safetensors --save-logits counted-logits.safetensors --threads 1
python3 - << 'EOF'
import json, files
data, padded, counted = (json.load(open(n + ".json")) for n in ("data", "padded", "result"))
for key in "top1", "top5", "loss", "count":
    assert data[key] == padded[key], (key, data, padded)
assert counted["count"] == 40 and counted["top1"] is None and counted["loss"] is None, counted
read = lambda name: files.read_safetensors(name + ".safetensors")[1]
logits = read("data")["logits"]
assert logits[:2] == ("F32", [40, 10])
assert logits == read("padded-logits")["logits"] == read("counted-logits")["logits"]
assert read("data-features") == read("padded-features") and "labels" in read("data-features")
assert len(set(files.values_of(logits))) > 350, "the sequences are too alike to tell their order"
EOF
expect 0 dtn-eval --checkpoint run --inputs padded.safetensors
expect_text '40 sequences, .* sequences/s'
evaluate --inputs unknown.safetensors

echo "invalid sequences"
refused() {  # NAME PATTERN
  expect 3 dtn-eval --checkpoint run --inputs "$1.safetensors"
  expect_text "$1.safetensors: $2"
}
refused beyond 'token 2 of sequence 0 is 17; ids are 1 to 16'
refused negative 'token 1 of sequence 0 is -1; ids are 1 to 16'
refused inside 'token 2 of sequence 0 is 0, which is padding inside the sequence'
refused counted_inside 'token 2 of sequence 0 is 0, which is padding inside the sequence'
refused empty 'sequence 0 has only padding'
refused no_length '.lengths. of sequence 0 is 0; it must be 1 to 4'
refused long_length '.lengths. of sequence 0 is 5; it must be 1 to 4'
refused wide 'needs an int32 tensor .tokens. \[N, T\] with T from 1 to 59, but has .*60'
refused label 'label.* 10'
refused labels '.labels. must be int64 \[1\]'
refused lengths '.lengths. must be int32 \[40\]'
refused floats 'needs an int32 tensor .tokens.'
refused images 'needs an int32 tensor .tokens.'
expect 2 dtn-eval --checkpoint run --inputs padded.safetensors --save-attention maps.safetensors

echo "dtn-bench"
for what in train eval; do
  expect 0 dtn-bench $what --config tiny.yaml --steps 2 --warmup 1 --cube 64 --json
  expect_text '"images_per_second":[0-9]' '"mfu":[0-9.]+'
done
