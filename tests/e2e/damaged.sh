#!/usr/bin/env bash
# Damaged images are named, counted and skipped, up to a limit; damaged checkpoints are noticed.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
# A 24 x 20 JPEG image.
base64 -d > good.jpg << 'EOF'
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWG
kJ6jq62rZ4C8ybqmx5moq6T/2wBDARweHigjKE4rK06kbl1upKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSkpKSk
pKSkpKSkpKSkpKSkpKT/wAARCAAUABgDASIAAhEBAxEB/8QAFwABAQEBAAAAAAAAAAAAAAAAAAQDBf/EABwQAAICAwEBAAAA
AAAAAAAAAAACAQMEUWERQf/EABcBAAMBAAAAAAAAAAAAAAAAAAEDBQb/xAAcEQACAgIDAAAAAAAAAAAAAAAAAQIDESIhMnH/
2gAMAwEAAhEDEQA/AOIlHChMfhVXRwqrx+C4bAqvI0x+A6i1RHz2QFupPDZShe8GdSRorVYhJmABVXR+GcqNakXQAF1rUpxf
B//Z
EOF
python3 - << 'EOF'
import os, shutil, files
# Four classes with 12 files in each split. One file of each class is damaged, each in another way.
for split in "train", "val":
    for c in range(4):
        folder = f"images/{split}/class{c}"
        os.makedirs(folder)
        for i in range(11):
            pixel = lambda x, y: ((50 * c + x * i) % 256, (20 * i + y) % 256, 60 * c)
            if i % 3 == 0:
                shutil.copy("good.jpg", f"{folder}/{i}.jpg")
            elif i % 3 == 1:
                open(f"{folder}/{i}.png", "wb").write(files.png(20, 18, pixel))
            else:
                open(f"{folder}/{i}.bmp", "wb").write(files.bmp(18, 21, pixel))
        bad = {
            0: ("bad.png", files.png(20, 18, lambda x, y: (x, y, 0))[:-30]),
            1: ("bad.jpg", b"<html>404 Not Found</html>"),
            2: ("bad.bmp", files.bmp(9, 9, lambda x, y: (0, 0, 0))[:40]),
            3: ("bad.jpeg", b""),
        }[c]
        open(f"{folder}/{bad[0]}", "wb").write(bad[1])
EOF
# Without repeats, so that an epoch meets every image.
folder=(--config "$work/tiny.yaml" --set data.dataset=imagefolder --set data.root="$work/images"
  --set schedule.name=constant --set schedule.steps=4 --set model.num_classes=4
  --set augment.repeats=1)
bad_files='class0/bad.png class1/bad.jpg class2/bad.bmp class3/bad.jpeg'

echo "images"
for workers in 0 3; do
  expect 0 dtn-train "${folder[@]}" --set data.workers=$workers --output "images-$workers"
  for file in $bad_files; do
    expect_text "skipped a damaged image: .*images/train/$file" \
      "skipped a damaged image: .*images/val/$file"
    expect_equal "warnings about train/$file" "$(grep -c "train/$file" "$log")" 1
  done
  expect_text 'skipped 4 damaged training images'
done
expect_same_checkpoint images-0/checkpoints/last images-3/checkpoints/last
expect_same_metrics images-0 images-3
expect 0 dtn-eval --checkpoint images-0/checkpoints/last --json --save-logits logits.safetensors
python3 - "$log" << 'EOF' || fail "an evaluation with damaged images"
import json, math, sys, files
(line,) = [l for l in open(sys.argv[1]) if l.startswith("{")]
assert json.loads(line)["count"] == 44, line
logits = files.read_safetensors("logits.safetensors")[1]["logits"]
assert logits[1] == [48, 4], logits[1]
values = files.values_of(logits)
lost = [i for i in range(48) if all(math.isnan(v) for v in values[4 * i : 4 * i + 4])]
assert lost == [11, 23, 35, 47], lost  # "bad" sorts after the digits
assert sum(math.isnan(v) for v in values) == 16
EOF
# After a resume within an epoch (of 3 steps), the same images replace the damaged ones.
expect 0 dtn-train "${folder[@]}" --set schedule.steps=5 --output images-whole
expect 0 dtn-train "${folder[@]}" --set schedule.steps=5 --output images-3 --resume auto
expect_text 'resumed at step 4'
expect_same_checkpoint images-3/checkpoints/last images-whole/checkpoints/last

for limit in 0 3; do
  for workers in 0 2; do
    rm -rf few
    expect 3 dtn-train "${folder[@]}" --set data.max_bad_images=$limit --output few \
      --set data.workers=$workers
    # Workers may find more damaged images before the run ends.
    expect_text "[1-4] damaged images, data.max_bad_images allows $limit" 'images/train/class'
    expect 3 dtn-eval --checkpoint images-0/checkpoints/last \
      --set data.max_bad_images=$limit --set data.workers=$workers
    expect_text "data.max_bad_images allows $limit" 'images/val/class'
  done
done
expect 0 dtn-train "${folder[@]}" --set data.max_bad_images=4 --output just-enough

echo "truncated and changed checkpoints"
small=(--config "$work/tiny.yaml" --set model.embed_dim=8 --set model.depth=2
  --set model.class_token_at=1 --set train.checkpoint_every=1 --set train.keep=3)
expect 0 dtn-train "${small[@]}" --output run --set schedule.steps=6
last=run/checkpoints/$(readlink run/checkpoints/last)
cp -r "$last" intact
expect 0 dtn-eval --checkpoint intact
expect_refused() {  # FILE COMMAND...: must exit with 3 and name the damaged file
  expect 3 "${@:2}"
  expect_text "$1"
}
for name in model ema state; do
  file=intact/$name.safetensors
  cp "$file" whole
  reader=(dtn-eval --checkpoint intact)
  if [[ $name == ema ]]; then reader+=(--ema); fi
  if [[ $name == state ]]; then reader=(dtn-train "${small[@]}" --output never --resume intact); fi
  # Sizes around the borders of the file's parts, and ten random sizes.
  sizes=$(python3 - "$file" << 'EOF'
import os, random, struct, sys
size = os.path.getsize(sys.argv[1])
(header,) = struct.unpack("<Q", open(sys.argv[1], "rb").read(8))
random.seed(size)
cuts = {0, 1, 7, 8, 9, 8 + header // 2, 7 + header, 8 + header, 9 + header, size - 4, size - 1}
print(*sorted(cuts | set(random.sample(range(size), 10))))
EOF
  )
  for size in $sizes; do
    head -c "$size" whole > "$file"
    expect_refused "$name.safetensors" "${reader[@]}"
  done
  cat whole whole > "$file"
  expect_refused "$name.safetensors" "${reader[@]}"
  for _ in {1..8}; do
    python3 - whole "$file" $RANDOM << 'EOF'
import random, sys
data = bytearray(open(sys.argv[1], "rb").read())
random.seed(sys.argv[3])
data[random.randrange(len(data))] ^= 1 << random.randrange(8)
open(sys.argv[2], "wb").write(data)
EOF
    expect_refused "$name.safetensors" "${reader[@]}"
  done
  rm "$file"
  if [[ $name == state ]]; then
    expect 2 "${reader[@]}"  # no longer a checkpoint folder
  fi
  cp whole "$file"
  expect 0 dtn-eval --checkpoint intact --ema
done

echo "--resume auto goes back to an intact checkpoint"
small+=(--set schedule.name=constant)  # so that a shorter run equals the start of a longer one
expect 0 dtn-train "${small[@]}" --output unbroken --set schedule.steps=9
cut() { truncate -s 100 "broken/checkpoints/$1"; }
stop_at() { expect 0 dtn-train "${small[@]}" --output broken --set schedule.steps="$1"; }

stop_at 7
cut last/model.safetensors
expect 0 dtn-train "${small[@]}" --output broken --set schedule.steps=9 --resume auto
expect_text 'skipping the damaged checkpoint .*step-00000007: .*model.safetensors' 'resumed at step 6'
expect_same_checkpoint broken/checkpoints/last unbroken/checkpoints/last

rm -rf broken
stop_at 7
cut step-00000007/state.safetensors
rm broken/checkpoints/step-00000006/ema.safetensors
ln -sfn step-00000099 broken/checkpoints/last  # and the target of the link does not exist
expect 0 dtn-train "${small[@]}" --output broken --set schedule.steps=9 --resume auto
expect_text 'skipping the damaged checkpoint .*step-00000007:' \
  'skipping the damaged checkpoint .*step-00000006:' 'resumed at step 5'
expect_same_checkpoint broken/checkpoints/last unbroken/checkpoints/last
expect_no_leftovers broken

rm -rf broken
stop_at 3
for folder in broken/checkpoints/step-*; do truncate -s 0 "$folder/model.safetensors"; done
expect 3 dtn-train "${small[@]}" --output broken --set schedule.steps=9 --resume auto
expect_text 'all [0-9]+ checkpoints in broken/checkpoints are damaged'
