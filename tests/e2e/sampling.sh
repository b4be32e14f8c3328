#!/usr/bin/env bash
# dtn-sample: the same images for any batch, threads and number of images; PyTorch's samples from
# the same noise; files, pictures and errors; and the samples that a run draws.
source "$(dirname "$0")/lib/common.sh"
goldens=$(cd "$(dirname "$0")/../golden/data" && pwd)/samplers.txt
cd "$work"

cat > tiny.yaml << 'EOF'
name: dit
task: diffusion
seed: 2
model: {preset: dit_tiny, image_size: 8, patch_size: 2, channels: 1, num_classes: 4, embed_dim: 24,
        depth: 2, num_heads: 2}
data: {dataset: tensors, train: train.safetensors, workers: 1}
schedule: {name: constant, steps: 30}
optim: {lr: 3.0e-3}
train: {batch_size: 8, ema: 0.9, checkpoint_every: 10, log_every: 10}
diffusion: {clip: true, sample_steps: 4, sample_count: 5}
EOF
python3 - << 'EOF'
import files, random
random.seed(1)
images = [random.uniform(-1, 1) for _ in range(32 * 64)]
files.write_safetensors("train.safetensors", {"images": files.floats([32, 1, 8, 8], images),
                                              "labels": files.integers([i % 4 for i in range(32)])})
EOF
expect 0 dtn-train --config tiny.yaml --output run

echo "samples of a run"
for step in 10 20 30; do expect_file "run/samples/step-000000$step.png"; done
expect_file run/samples.png
check "the report shows the samples" << 'EOF'
page = open("run/report.html").read()
assert "drawn with the weights after step 30" in page and "Samples over the run" in page
events = b"".join(open("run/tensorboard/" + f, "rb").read() for f in os.listdir("run/tensorboard"))
assert events.count(b"generated") == 3 and open("run/samples/step-00000020.png", "rb").read() in events
EOF
expect 0 dtn-train --config tiny.yaml --output resumed --set schedule.steps=10
expect 0 dtn-train --config tiny.yaml --output resumed --resume auto
for step in 10 20 30; do
  cmp "run/samples/step-000000$step.png" "resumed/samples/step-000000$step.png" || fail "step $step differs"
done
expect 0 dtn-train --config tiny.yaml --output undrawn --set diffusion.sample_every=0
expect_no_file undrawn/samples
expect_same_tensors run/checkpoints/last undrawn/checkpoints/last

echo "the same images"
expect 0 dtn-sample --help
expect_text --checkpoint --config --ema --classes --seed --sampler --steps --eta --cfg-scale --output \
  --save-samples --noise --batch --threads 'Exit codes'
for sampler in "ddim --eta 0" "ddim --eta 1" "ddpm"; do
  # shellcheck disable=SC2086
  draw() { expect 0 dtn-sample --checkpoint run --sampler $sampler --steps 10 --seed 5 "$@"; }
  draw --classes 0,1,2,3,0,1,2 --save-samples all.safetensors --output all.png
  expect_text 'using the moving average of the weights, run/checkpoints/.*/ema.safetensors' '7 images in 10 steps'
  draw --classes 0,1,2,3,0,1,2 --save-samples again.safetensors --output again.png --batch 3 --threads 2
  cmp all.safetensors again.safetensors || fail "$sampler: batches or threads change the samples"
  cmp all.png again.png || fail "$sampler: the pictures differ"
  draw --classes 0,1,2 --save-samples three.safetensors --threads 1
  check "the first images" << 'EOF'
of = lambda name: files.read_safetensors(name)[1]["samples"]
dtype, shape, data = of("all.safetensors")
assert (dtype, shape) == ("F32", [7, 1, 8, 8]), (dtype, shape)
assert of("three.safetensors")[2] == data[: 3 * 64 * 4]
values = files.values_of(of("all.safetensors"))
assert all(-1.000001 <= v <= 1.000001 for v in values), "diffusion.clip does nothing"
EOF
done
expect 0 dtn-sample --checkpoint run --classes 0,1 --steps 4 --save-samples a.safetensors --seed 5
expect 0 dtn-sample --checkpoint run --classes 0,1 --steps 4 --save-samples b.safetensors --seed 6
if cmp -s a.safetensors b.safetensors; then fail "the seed changes nothing"; fi

expect 0 dtn-sample --checkpoint run --count 7 --sampler ddpm --steps 10 --seed 5 --save-samples counted.safetensors
check "counted images go through the classes in turn" << 'EOF'
counted, asked = (files.read_safetensors(f"{name}.safetensors") for name in ("counted", "all"))
assert counted == asked and files.values_of(counted[1]["labels"]) == [0, 1, 2, 3, 0, 1, 2], counted[0]
assert (counted[0]["sampler"], counted[0]["steps"], counted[0]["seed"]) == ("ddpm", "10", "5"), counted[0]
EOF

echo "the picture"
check "pixels of the picture" << 'EOF'
import struct, zlib
data, at, body = open("all.png", "rb").read(), 8, b""
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at : at + 8])
    if kind == b"IHDR":
        width, height, bits, color = struct.unpack(">IIBB", data[at + 8 : at + 18])
    if kind == b"IDAT":
        body += data[at + 8 : at + 8 + size]
    at += size + 12
assert (width, height, bits, color) == (24, 24, 8, 0), (width, height, bits, color)
raw, rows, last = zlib.decompress(body), [], [0] * width
for y in range(height):
    kind, line = raw[y * (width + 1)], list(raw[y * (width + 1) + 1 : (y + 1) * (width + 1)])
    for x in range(width):
        left, up, corner = (line[x - 1] if x else 0), last[x], (last[x - 1] if x else 0)
        paeth = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
        line[x] = (line[x] + [0, left, up, (left + up) // 2, paeth][kind]) % 256
    rows.append(line)
    last = line
values = files.values_of(files.read_safetensors("all.safetensors")[1]["samples"])
for i in range(9):
    for y in range(8):
        for x in range(8):
            found = rows[i // 3 * 8 + y][i % 3 * 8 + x]
            v = values[i * 64 + y * 8 + x] if i < 7 else -1
            assert abs(found - min(max(127.5 * (v + 1), 0), 255)) <= 0.5001, (i, y, x, found, v)
EOF

echo "weights"
best=$(readlink -f run/checkpoints/last)
same() { cmp "$1" "$2" > /dev/null; }
draw() { expect 0 dtn-sample --classes 1 --steps 4 --save-samples "$1" --checkpoint "${@:2}"; }
draw folder.safetensors "$best"
draw raw.safetensors "$best/model.safetensors"
draw beside.safetensors "$best/model.safetensors" --ema
draw average.safetensors "$best/ema.safetensors"
same folder.safetensors average.safetensors || fail "a folder does not give the average"
same beside.safetensors average.safetensors || fail "--ema does not give the average beside a file"
if same raw.safetensors average.safetensors; then fail "a file gives the average"; fi

echo "samples of PyTorch"
cat > golden.py << 'EOF'
import files, math, sys

goldens, wanted = sys.argv[1:]
STEPS, NOISE, SHAPE = 20, 1.75, [2, 4, 4, 4]

def values(seed, count, scale, shift=0.0):
    out = []
    for i in range(count):
        h = (i * 2654435761 + seed * 40503) & 0xFFFFFFFF
        h ^= h >> 13
        h = h * 0x5BD1E995 & 0xFFFFFFFF
        h ^= h >> 15
        out.append(((h >> 16) / 32768 - 1) * scale + shift)
    return out

def positions(side, width):
    n, out = width // 4, []
    for y in range(side):
        for x in range(side):
            for place in x, y:
                angles = [place * 10000 ** (-k / n) for k in range(n)]
                out += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    return files.floats([1, side * side, width], out)

networks = []
for line in open(goldens):
    kind, rest = line.split(" ", 1)
    if kind == "model":
        networks.append((rest.strip(), {"pos_embed": positions(2, 16)}))
    elif kind == "tensor":
        name, shift, scale, *shape = rest.split()
        shape, tensors = [int(d) for d in shape], networks[-1][1]
        tensors[name] = files.floats(
            shape, values(len(tensors), math.prod(shape), float(scale), float(shift)))
    elif rest.split()[0] == wanted:
        head, numbers = rest.split(" : ")
        _, sampler, guidance, eta, clip, sigma = head.split()
        model, tensors = networks[1 - int(sigma)]
        files.write_safetensors("golden.safetensors", tensors)
        open("golden.yaml", "w").write(
            f"task: diffusion\nmodel: {{{model}}}\ndata: {{dataset: tensors}}\n"
            f"diffusion: {{beta_end: 0.004, clip: {'true' if clip == '1' else 'false'}}}\n")
        noise = lambda seed: values(seed, math.prod(SHAPE), NOISE)
        z = [v for k in range(STEPS) for v in noise(2000 + k)]
        files.write_safetensors("noise.safetensors", {"x": files.floats(SHAPE, noise(1000)),
                                                      "z": files.floats([STEPS] + SHAPE, z)})
        open("expected.txt", "w").write(numbers)
        print("--sampler", sampler, "--cfg-scale", guidance, "--eta", eta)
EOF
for name in $(sed -n 's/^case \([a-z_]*\) .*/\1/p' "$goldens"); do
  read -ra options < <(python3 golden.py "$goldens" "$name")
  expect 0 dtn-sample --checkpoint golden.safetensors --config golden.yaml --classes 3,0 --steps 20 \
    "${options[@]}" --noise noise.safetensors --save-samples found.safetensors --output none.png
  expect_text 'wrote no none.png: images of 4 channels are no picture'
  expect_no_file none.png
  check "samples of $name" << 'EOF'
found = files.values_of(files.read_safetensors("found.safetensors")[1]["samples"])
expected = [float(v) for v in open("expected.txt").read().split()]
assert len(found) == len(expected) == 128
error = max(abs(a - b) for a, b in zip(found, expected))
assert error < 3e-4, error
EOF
done

echo "errors"
sample() { expect "$1" dtn-sample --checkpoint run "${@:2}"; }
sample 2 --output a.png
expect_text 'no images to draw; name their classes, --classes 0,3,7, or --count N'
sample 2 --classes 0 --count 3 --output a.png
sample 2 --classes 0
expect_text 'nothing to write; name a picture with --output'
sample 2 --classes 0,4 --output a.png
expect_text '4 is no class of the model, which has 4: 0 to 3'
sample 2 --classes 0 --output absent/a.png
expect_text 'there is no folder absent'
sample 2 --classes 0 --output a.png --sampler ddpm --eta 0.5
expect_text '--eta 0.5 is for --sampler ddim'
sample 2 --classes 0 --output a.png --eta 2
expect_text 'eta is 2; it must be from 0 to 1'
sample 2 --classes 0 --output a.png --cfg-scale -1
expect_text 'guidance scale is -1'
sample 2 --classes 0 --output a.png --steps 37
expect_text 'DDIM cannot take 37 steps.*take 36 or 38 steps, or use the DDPM sampler'
sample 0 --classes 0 --output a.png --steps 37 --sampler ddpm
for steps in 1 1001; do
  sample 2 --classes 0 --output a.png --steps $steps
  expect_text 'take 2 to 1000'
done
sample 2 --classes 0 --output a.png --cfg-scale 1.5 --set model.label_dropout=0
expect_text 'label_dropout is 0.*use --cfg-scale 1'
expect 2 dtn-sample --checkpoint golden.safetensors --config golden.yaml --classes 0 --output a.png
expect_text 'images of 4 channels are no picture; write them with --save-samples'
sample 3 --classes 0 --output a.png --noise noise.safetensors
expect_text '`x` is \[2, 4, 4, 4\], expected \[1, 1, 8, 8\]'
sample 3 --classes 0 --output a.png --noise absent.safetensors
tiny_config classifier.yaml
expect 0 dtn-train --config classifier.yaml --set schedule.steps=1 --set schedule.epochs=null --output classifier
expect 2 dtn-sample --checkpoint classifier --classes 0 --output a.png
expect_text 'dtn-sample needs a diffusion model; the task of this model is classify'

echo "a signal"
code=0
python3 "$lib/interrupt.py" INT seconds:4 "$bin/dtn-sample" --checkpoint run --sampler ddpm --steps 1000 \
  --classes "0$(printf ',0%.0s' {1..3000})" --output stopped.png > "$log" 2>&1 || code=$?
expect_equal "exit code after a signal" "$code" 75
expect_text 'stopped by a signal; wrote nothing'
expect_no_file stopped.png
expect_no_leftovers .
