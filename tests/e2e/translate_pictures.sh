#!/usr/bin/env bash
# dtn-predict with image-to-image models: pictures of any size, folders, grey and colour, styles,
# damaged files and paths of outputs. The other programs that take an image-to-image model.
source "$(dirname "$0")/lib/common.sh"
cd "$work"

python3 - << 'EOC'
import files, os, random
random.seed(4)
def noise(width, height):
    values = [[[random.randrange(256) for _ in range(3)] for _ in range(width)] for _ in range(height)]
    return files.png(width, height, lambda x, y: values[y][x])
for split, count in ("train", 12), ("val", 4):
    os.makedirs(f"photos/{split}")
    for i in range(count):
        open(f"photos/{split}/{i:02d}.png", "wb").write(noise(16, 16))
os.makedirs("given/deep/er")
for name, size in ("even.png", (24, 32)), ("deep/odd.png", (13, 7)), ("deep/er/tiny.png", (1, 1)):
    open(f"given/{name}", "wb").write(noise(*size))
open("given/deep/grey.pgm", "wb").write(b"P5 9 11 255\n" + bytes(random.randrange(256) for _ in range(99)))
open("style.png", "wb").write(noise(40, 20))
EOC
cat > tiny.yaml << 'EOC'
name: restore
task: translate
model: {preset: unet_tiny, image_size: 16, embed_dim: [8, 16, 16], depth: [1, 1, 1], residual: true}
data: {root: photos, corruptions: [gaussian_noise/1, contrast/5]}
schedule: {name: constant, steps: 2}
train: {batch_size: 4, eval_every: 2, checkpoint_every: 1}
EOC
expect 0 dtn-train --config tiny.yaml --output run --set optim.lr=1e-12

# sizes FOLDER: name, width, height and PNG's colour type (0 grey, 2 colour) of each picture.
sizes() {
  (cd "$1" && python3 -c '
import pathlib, struct
for path in sorted(pathlib.Path(".").rglob("*.png")):
    print(path, *struct.unpack(">IIxB", path.read_bytes()[16:26]), end="; ")')
}

echo "pictures of any size"
expect 0 dtn-predict given --checkpoint run --output out
expect_text '^out/deep/odd.png$' '4 images in'
expect_equal "pictures" "$(sizes out)" \
  "deep/er/tiny.png 1 1 2; deep/grey.png 9 11 2; deep/odd.png 13 7 2; even.png 24 32 2; "
# The residual model is almost untrained, so its output is its input.
expect 0 dtn-predict out --checkpoint run --output again --json
expect_text '^\{"file":"out/deep/odd.png","output":"again/deep/odd.png"\}'
for name in even deep/odd deep/grey deep/er/tiny; do
  cmp "out/$name.png" "again/$name.png" || fail "$name.png is not the input"
done
python3 - << 'EOC' || fail "the pictures are not the inputs"
import struct, zlib
def rows(path):
    data = open(path, "rb").read()
    width, height = struct.unpack(">II", data[16:24])
    body, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at:at + 4])
        if data[at + 4:at + 8] == b"IDAT": body += data[at + 8:at + 8 + size]
        at += size + 12
    raw, out, step = zlib.decompress(body), [], 3 * width + 1
    for y in range(height):
        line, kind = bytearray(raw[y * step + 1:(y + 1) * step]), raw[y * step]
        above = out[-1] if out else bytes(3 * width)
        for x in range(3 * width):
            a, b, c = (line[x - 3] if x > 2 else 0), above[x], (above[x - 3] if x > 2 else 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[x] = (line[x] + (0, a, b, (a + b) // 2, paeth)[kind]) % 256
        out.append(line)
    return out
for name in "even", "deep/odd", "deep/er/tiny":
    assert rows(f"given/{name}.png") == rows(f"out/{name}.png"), name
EOC

echo "a model of grey pictures"
expect 0 dtn-train --config tiny.yaml --output grey --set model.channels=1
expect 0 dtn-predict given/deep --checkpoint grey --output grey_out
expect_equal "grey pictures" "$(sizes grey_out)" "er/tiny.png 1 1 0; grey.png 9 11 0; odd.png 13 7 0; "

echo "damage"
mkdir mixed
cp given/even.png mixed/1.png
head -c 300 given/even.png > mixed/2.png
cp given/deep/odd.png mixed/3.png
code=0
"$bin/dtn-predict" mixed --checkpoint run --output mixed_out --json > mixed.json 2> "$log" || code=$?
expect_equal "exit code with a damaged picture" "$code" 3
expect_text 'mixed/2.png' '1 of 3 images could not be read'
expect_equal "pictures beside a damaged one" "$(sizes mixed_out)" "1.png 24 32 2; 3.png 13 7 2; "
grep -q '^{"file":"mixed/2.png","error":' mixed.json || fail "mixed.json: $(cat mixed.json)"

echo "paths of outputs"
cp given/even.png twin.png
cp given/deep/odd.png given/even.bmp
expect 0 dtn-predict given --checkpoint run --output twins
expect_file twins/even.png.png
expect_file twins/even.bmp.png
expect 2 dtn-predict twin.png given/even.png given/deep/../even.png "$work/mixed/../twin.png" \
  --checkpoint run --output .
expect_text 'would replace the image twin.png'
mkdir other
cp given/deep/odd.png other/twin.png
expect 2 dtn-predict twin.png other/twin.png --checkpoint run --output collision
expect_text 'twin.png and other/twin.png would have the same picture'
expect_no_file collision
expect 2 dtn-predict given --checkpoint run --output given
expect_text 'would replace'
expect 2 dtn-predict twin.png --checkpoint run
expect_text '\-\-output'
expect 2 dtn-predict twin.png --checkpoint run --output o --csv table.csv
expect_text '\-\-csv'
expect 3 dtn-predict absent.png --checkpoint run --output o
expect_no_file o

echo "styles"
expect 0 dtn-train --config tiny.yaml --output styles --set data.corrupted=target \
  --set model.decoder_norm=cin --set model.condition.from=index --set model.condition.styles=2 \
  --set model.residual=false --set model.norm=none
expect_text 'Next: .*' 'dtn-predict --checkpoint styles --style 0 --output pictures'
expect 0 dtn-predict twin.png --checkpoint styles --output style0 --style 0
expect 0 dtn-predict twin.png --checkpoint styles --output style1 --style 1
cmp -s style0/twin.png style1/twin.png && fail "both styles give the same picture"
for wrong in 2 -1 blue; do
  expect 2 dtn-predict twin.png --checkpoint styles --output o --style=$wrong
  expect_text "--style $wrong is not a number from 0 to 1"
done
expect 2 dtn-predict twin.png --checkpoint styles --output o
expect_text 'set --style to a number from 0 to 1'
expect 2 dtn-predict twin.png --checkpoint styles --output o --style 0 --style-image style.png
expect_text '\-\-style-image'
expect 2 dtn-predict twin.png --checkpoint run --output o --style 0
expect_text '\-\-style'
expect 0 dtn-train --config tiny.yaml --output adain --set model.decoder_norm=adain \
  --set model.condition.from=image --set model.residual=false --set model.norm=none
expect_text 'dtn-predict --checkpoint adain --style-image STYLE_IMAGE --output pictures'
expect 0 dtn-predict given --checkpoint adain --output adain0 --style-image style.png
expect 0 dtn-predict given/even.png --checkpoint adain --output adain1 --style-image mixed/1.png
cmp -s adain0/even.png.png adain1/even.png && fail "both style images give the same picture"
expect 2 dtn-predict given --checkpoint adain --output o
expect_text '\-\-style-image'
expect 3 dtn-predict twin.png --checkpoint adain --output o --style-image mixed/2.png
expect_text 'mixed/2.png'
expect 2 dtn-predict twin.png --checkpoint run --output o --style-image style.png
expect_text 'leave --style-image out'
expect_no_file o

echo "other programs"
expect 0 dtn-train --config tiny.yaml --dry-run
expect_text 'parameters: ' 'speed: '
expect 0 dtn-train --config tiny.yaml --dry-run --set data.dataset=pairs --set data.corruptions=null \
  --set data.root=absent --set 'model.decoder_norm={type: spade, hidden: 8}' --set model.norm=bn \
  --set data.dataset=tensors --set model.condition.size=3
expect_text 'the estimates use synthetic' 'parameters: '
expect 0 dtn-data preview --config tiny.yaml --output preview.png --images 3
expect_text '3 images in preview.png'
expect 0 dtn-data stats --config tiny.yaml --json
expect_text '"images":12'
expect 0 dtn-data verify --config tiny.yaml --split val
expect_text '4 of 4 images verified'
expect 0 dtn-average --checkpoint run/checkpoints/step-00000001 --checkpoint run/checkpoints/last \
  --output mean.safetensors --update-bn 2
expect 0 dtn-eval --checkpoint mean.safetensors --json
expect_text '"psnr":[0-9.]+'
expect 0 dtn-info tiny.yaml
expect_text '^model +unet_tiny: 8 16 16 channels, depth 1 1 1, image 16 x 16$' '^normalizer +bn$'
expect 0 dtn-info --norms
check "families of conditional normalizers" << 'EOC'
for norm in "none", "cin", "adain", "adain_mlp", "cbn", "spade":
    assert re.search(rf"^{norm}\n.*\(for models of the family unet: it needs ", log, re.M), norm
assert re.search(r"^adaln\n.*\(needs model.condition.from\)", log, re.M)
EOC
expect 0 dtn-info --keys translate
expect_text 'translate.charbonnier_eps'

echo "benchmarks without data"
bench=(--config tiny.yaml --json --steps 1 --warmup 1 --cube 64 --set model.residual=false)
expect 0 dtn-bench train "${bench[@]}"
expect_text '"images_per_second":[0-9]'
expect 0 dtn-bench eval "${bench[@]}"
expect_text '"images_per_second":[0-9]'
pairs=(--set data.dataset=tensors --set data.corruptions=null --set model.condition.size=3)
for norm in cin:index adain_mlp:image cbn:vector adaln:index; do
  expect 0 dtn-bench train "${bench[@]}" "${pairs[@]}" --set "model.decoder_norm=${norm%:*}" \
    --set "model.condition.from=${norm#*:}" --set model.condition.styles=3
done
expect 0 dtn-bench train "${bench[@]}" --set model.decoder_norm=adain --set model.condition.from=image
expect 0 dtn-bench train "${bench[@]}" "${pairs[@]}" --set model.decoder_norm=spade

echo "a sweep"
cat > sweep.yaml << 'EOC'
title: "Tiny: shortcuts"
base: tiny.yaml
seeds: [0]
metric: psnr
variants:
  - {name: none, set: {model.shortcut: none}}
  - {name: ms, set: {model.shortcut: ms}}
EOC
expect 0 dtn-sweep --config sweep.yaml --output sweep --device cpu
expect_text 'ms:0 done: PSNR \(dB\) [0-9.]+'
grep -q 'unet_tiny at 16 x 16 (8 16 16 channels, 1 1 1 blocks)' sweep/table.md ||
  fail "sweep/table.md: $(cat sweep/table.md)"
