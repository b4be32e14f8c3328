#!/usr/bin/env bash
# dtn-train DIR: chooses a config for a folder of images, trains, reports errors; from scratch, with
# weights, resumed, and with unusual, damaged and foreign files in the folder.
source "$(dirname "$0")/lib/common.sh"
cd "$work"
export images=$(dirname "$(dirname "$lib")")/golden/data/images
python3 - << 'EOF'
import os, random, shutil, files
random.seed(6)
def image(path, tint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    noise = [random.randrange(80) for _ in range(40 * 30)]
    pixel = lambda x, y: [min(255, t + noise[40 * y + x]) for t in tint]
    open(path, "wb").write(files.bmp(40, 30, pixel))
for name, tint, n in (("cat", (120, 0, 0), 40), ("sea fish", (0, 120, 0), 30), ("emu", (0, 0, 120), 3)):
    for i in range(n): image(f"my photos/{name}/{i} one.bmp", tint)
open("my photos/cat/broken.jpg", "wb").write(b"\xff\xd8\xff\xe0broken")
open("my photos/cat/clip.mov", "wb").write(b"not an image")
open("my photos/notes.txt", "w").write("not an image")
for name in ("rotated.jpg", "cmyk.jpg", "gray16.png"):  # from a phone, for print, from a scanner
    shutil.copy(f"{os.environ['images']}/{name}", "my photos/cat/")
for i in range(30):
    image(f"tags/{i}.bmp", (120 * (i % 2), 120 * (i % 3 == 0), 0))
open("tags/labels.csv", "w").write("path,labels\n" + "".join(
    f"{i}.bmp,{';'.join(['red'] * (i % 2) + ['green'] * (i % 3 == 0))}\n" for i in range(30)))
EOF

echo "a folder becomes a run with a report"
expect 0 dtn-train "my photos" --minutes 0.1
expect_text 'labels: the folders in .*/my photos' 'validation: a fifth of the images' \
  'images: 40 x 30 \(median\), with colours; 1 of [0-9]+ are turned by their EXIF orientation' \
  'gray16.png: 16-bit grey values above 255 are read as white' 'length: [0-9]+ epochs?, about' 'sampling: balanced over 3 classes' \
  'skipped a damaged image: .*broken.jpg' 'top-1 [0-9.]+ %' \
  'errors: +runs/my photos/errors/report.html' "dtn-predict --checkpoint 'runs/my photos' IMAGE" '^best: +top-1 [0-9.]+ % at step [0-9]+'
expect_equal "warnings of files left out" "$(grep -c 'left out 1 .mov' "$log")" 1
run="runs/my photos"
for file in recipe.yaml config.yaml report.html errors/report.html errors/report.json splits/val.csv; do
  expect_file "$run/$file"
done
for part in 'exif: true ' '# Chosen by dtn-train for' 'num_classes: 3' 'sampling: balanced' 'split: 0.2' 'image_size: 28'; do
  checks=$((checks + 1))
  grep -q "$part" "$run/recipe.yaml" || fail "the recipe lacks '$part': $(cat "$run/recipe.yaml")"
done

echo "the recipe gives the same run"
expect 0 dtn-train --config "$run/recipe.yaml" --output again
expect_same_tensors "$run/checkpoints/last" again/checkpoints/last

echo "a run is not overwritten, and can be resumed"
expect 2 dtn-train "my photos" --minutes 0.1
expect_text 'is not empty; continue the run with --resume auto'
expect 0 dtn-train "my photos" --resume auto
expect_text 'the run is already finished' 'errors: '

echo "several labels"
expect 0 dtn-train tags/ --minutes 0.05 --output tagged
expect_text 'task: multilabel, because' 'mAP '

echo "weights"
expect 0 dtn-train "my photos" --weights "$run" --minutes 0.05 --output tuned
expect_text 'init_weights: .*my photos/checkpoints/.*model.safetensors' 'rates: '
grep -q 'layer_decay: 0.7' tuned/recipe.yaml || fail "the recipe of weights has no layer_decay"

echo "--dry-run and --print-config"
expect 0 dtn-train "my photos" --minutes 1 --dry-run
expect_text 'time on this machine'
expect 0 dtn-train "my photos" --minutes 1 --print-config
expect_text '# Chosen by dtn-train' 'for 1 minutes'

echo "an early stop, which a resume keeps"
stop=(--config "$run/recipe.yaml" --set train.early_stop.patience=2 --set schedule.epochs=60
  --set train.eval_every=1epoch --set optim.lr=1e-8 --output early)
expect 0 dtn-train "${stop[@]}"
expect_text 'stopped early at step [0-9]+: no better top-1 in the last 2 evaluations'
checks=$((checks + 1))
(($(grep -c '"split":"val"' early/metrics.jsonl) < 10)) || fail "the run did not stop early"
expect_file early/summary.json
before=$(sha256sum early/checkpoints/last/model.safetensors)
expect 0 dtn-train "${stop[@]}" --resume auto
expect_text 'the run has stopped early, at step' 'a larger train.early_stop.patience'
expect_equal "weights" "$(sha256sum early/checkpoints/last/model.safetensors)" "$before"
expect 0 dtn-train "${stop[@]}" --set train.early_stop.patience=3 --resume auto
expect_text 'stopped early at step [0-9]+: no better top-1 in the last 3 evaluations'

echo "errors"
mkdir empty
expect 3 dtn-train empty
expect_text 'neither class folders nor a table of labels'
expect_no_file runs/empty
expect 3 dtn-train "my photos/cat"
expect 2 dtn-train "my photos" --weights nowhere --output x
expect_text 'nowhere'
expect_no_file x
expect 2 dtn-train --config "$run/recipe.yaml" --weights "$run"
expect_text '--weights goes with a folder of images'
expect 2 dtn-train "my photos" --minutes 0
