#!/usr/bin/env bash
# Folders, ImageNet's archives, shards and packed files give the same results; packing survives
# kill -9.
source "$(dirname "$0")/lib/common.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"
cd "$work"
export XDG_CACHE_HOME=$work/cache

# Three classes in all four forms, and 2400 larger images to pack.
python3 - << 'EOF'
import io, os, struct, tarfile, zlib, files

def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))

images = []  # label, name, content
for i in range(48):
    c = i % 3
    data = files.bmp(18 + i % 5, 17, lambda x, y: ((60 * c + x * i) % 256, (20 * i + y) % 256, 90 * c))
    images.append((c, f"img_{i * 29 % 48:03d}.bmp", data))
names = ["n01", "n02", "n03"]
for c, name, data in images:
    for split in "train", "val":
        os.makedirs(f"folder/{split}/{names[c]}", exist_ok=True)
        open(f"folder/{split}/{names[c]}/{name}", "wb").write(data)

os.makedirs("archives")
with tarfile.open("archives/ILSVRC2012_img_train.tar", "w", format=tarfile.GNU_FORMAT) as outer:
    for c in 2, 0, 1:
        inner = io.BytesIO()
        with tarfile.open(fileobj=inner, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for label, name, data in images:
                if label == c:
                    add(tar, name, data)
        add(outer, names[c] + ".tar", inner.getvalue())

os.makedirs("shards")
for s in range(4):
    for split in "train", "val":
        with tarfile.open(f"shards/in-{split}-{s:06d}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
            for label, name, data in images[::-1][s::4]:
                add(tar, name, data)
                add(tar, name[:-4] + ".cls", b"%d\n" % label)

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

for i in range(300):
    row = bytes((x * (i + 3) // 7) % 256 for x in range(3 * 480))
    rows = b"".join(b"\0" + row[y % 90:] + row[:y % 90] for y in range(360))
    os.makedirs(f"large/train/c{i % 4}", exist_ok=True)
    open(f"large/train/c{i % 4}/{i:03d}.png", "wb").write(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 480, 360, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
    for k in "abcdefg":  # packing must take longer than the half second between two syncs
        os.link(f"large/train/c{i % 4}/{i:03d}.png", f"large/train/c{i % 4}/{i:03d}{k}.png")
EOF

echo "the four forms train alike"
mkdir packed
for split in train val; do
  expect 0 dtn-data pack --root folder --split $split --output packed/$split.packed --json
  expect_text '"images":48'
done
expect 0 dtn-data pack --dataset imagenet --root archives --output again.packed
cmp again.packed packed/train.packed || fail "folder and archives pack to different files"
tiny_config tiny.yaml
tiny=(--config tiny.yaml --threads 2 --set model.num_classes=3 --set data.workers=2)
for form in imagefolder:folder webdataset:shards packed:packed; do
  dataset=${form%:*}
  expect 0 dtn-train "${tiny[@]}" --set data.dataset="$dataset" --set data.root="${form#*:}" \
    --output "run-$dataset"
  expect_same_metrics "run-$dataset" run-imagefolder
done
expect 0 dtn-data verify --dataset imagenet --root archives --json
expect_text '"images":48,"verified":48,"bad":\[\]'
expect_file archives/ILSVRC2012_img_train.tar.dtn-index
expect_file shards/in-val-000000.tar+3.dtn-index

echo "a data set named by options takes precedence over the config"
mkdir 'folder: #2'
cp packed/val.packed 'folder: #2/only.packed'
cat > elsewhere.yaml << 'EOF'
model: {preset: vit_t, num_classes: 3}
data: {dataset: imagefolder, root: /nowhere}
EOF
expect 3 dtn-data verify --config elsewhere.yaml
expect_text '/nowhere'
expect 0 dtn-data verify --config elsewhere.yaml --root folder --split val
expect_text '48 of 48 images verified, 0 bad'
expect 0 dtn-data verify --config elsewhere.yaml --set data.root=/other --dataset packed \
  --root 'folder: #2' --val only.packed --split val
expect_text '48 of 48 images verified, 0 bad'
expect 0 dtn-data stats --config elsewhere.yaml --root folder
expect 0 dtn-data pack --config elsewhere.yaml --root folder --output by_config.packed
cmp by_config.packed packed/train.packed || fail "the config's root was packed"

echo "bad images are named"
printf 'no image' > folder/train/n02/bad.jpg
expect 3 dtn-data verify --root folder
expect_text 'bad: .*folder/train/n02/bad.jpg' '49 of 49 images verified, 1 bad'
expect 0 dtn-data stats --root folder --json
expect_text '"images":48,"unreadable":\[\{"index":16,.*bad.jpg' '"formats":\{"bmp":48\}'
python3 - << 'EOF'
data = bytearray(open("packed/val.packed", "rb").read())
data[1000] ^= 1
open("packed/val.packed", "r+b").write(data)
EOF
expect 3 dtn-data verify --dataset packed --root packed --split val
expect_text 'bad: .*val.packed: n01/img_000.bmp: .*checksum' '1 bad'
truncate -s -1 packed/val.packed
expect 3 dtn-data verify --dataset packed --root packed --split val
expect 3 dtn-data verify --dataset packed --root nowhere
expect_text 'nowhere/train.packed' 'dtn-data pack'
expect 2 dtn-data pack --root folder --output again.packed
expect_text 'again.packed exists'
expect 2 dtn-data verify

echo "packing, killed again and again"
options=(pack --root large --short-side 256 --jobs 1)
start=$(date +%s%N)
expect 0 dtn-data "${options[@]}" --output unbroken.packed
whole_ms=$((($(date +%s%N) - start) / 1000000))
# interrupted SIGNAL OUTPUT: packs, and sends the signal after a random time: 1/4 to 3/4 of the
# duration of an uninterrupted run. Sets $code.
interrupted() {
  local ms=$((whole_ms / 4 + RANDOM % (whole_ms / 2 + 1)))
  if ((ms < 650)); then ms=650; fi  # at least one sync is done by then
  code=0
  python3 "$lib/interrupt.py" "$1" "seconds:$((ms / 1000)).$(printf %03d $((ms % 1000)))" \
    "$bin/dtn-data" "${options[@]}" --output "$2" > "$log" 2>&1 || code=$?
}
killed=0
for _ in {1..6}; do
  interrupted KILL killed.packed
  if ((code == 0)); then break; fi
  if ((code != 137)); then fail "a pack resumed after kill -9 exited with $code: $(cat "$log")"; fi
  expect_no_file killed.packed
  killed=$((killed + 1))
done
if ((killed == 0)); then fail "no kill met the packing: the test tests nothing"; fi
if ((code != 0)); then
  expect 0 dtn-data "${options[@]}" --output killed.packed --json
  expect_text '"resumed_at":[1-9]'
fi
cmp killed.packed unbroken.packed || fail "a killed and resumed pack differs from an unbroken one"
expect_equal "left beside killed.packed" "$(ls killed.packed*)" killed.packed
expect 0 dtn-data verify --dataset packed --root . --train killed.packed
echo "killed $killed times, of a pack that takes $whole_ms ms"

interrupted TERM stopped.packed
if ((code != 0)); then
  expect_equal "exit code of a stopped pack" "$code" 75
  expect_file stopped.packed.partial.journal
  expect 0 dtn-data "${options[@]}" --output stopped.packed --json
  expect_text '"resumed_at":[1-9]'
fi
cmp stopped.packed unbroken.packed || fail "a stopped and resumed pack differs from an unbroken one"

echo "views of images without classes"
mkdir -p flat/train
cp folder/train/n01/* flat/train
sed 's/^data: .*/data: {root: flat}/; s/^augment: .*/augment: dino/; s/ label_smoothing: 0.1, ema: 0.9,//
  s/^seed:/task: dino\nseed:/' tiny.yaml > views.yaml
expect 0 dtn-data preview --config views.yaml --output views.png --images 3
expect_text '16 train images in flat/train; views of each: 2 of 16 x 16, 8 of 96 x 96' \
  '3 images in views.png'
# The small images are stacked in one column: one column of 16 pixels and eight of 96.
expect_equal "size of the preview" "$(python3 -c '
import struct
print(*struct.unpack(">II", open("views.png", "rb").read()[16:24]))')" \
  "$((16 + 8 * 98)) $((3 * 98 - 2))"
expect 0 dtn-bench data --config views.yaml --seconds 1 --json
expect_text '"views_per_second":[0-9]'
