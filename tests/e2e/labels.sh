#!/usr/bin/env bash
# Labels in a table, and a held-out validation split: the same figures as with class folders, the
# same split in training, evaluation and tools, and errors that name the line.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
sed -i '/num_classes/s/ num_classes: 10,//' tiny.yaml
python3 - << 'EOF'
import os, random, files
random.seed(5)
tints = {"cat": (200, 30, 30), "dog": (30, 200, 30), "sea fish": (30, 30, 200)}

def image(path, tint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    noise = [random.randrange(90) for _ in range(256)]
    pixel = lambda x, y: [min(255, t + noise[16 * y + x]) for t in tint]
    open(path, "wb").write(files.bmp(16, 16, pixel))

for split, each in (("train", 12), ("val", 5)):
    lines = []
    for name, tint in tints.items():
        for i in range(each):
            file = f"{name[0]}{i}, one.bmp"
            image(f"folders/{split}/{name}/{file}", tint)
            os.makedirs(f"flat/{split}", exist_ok=True)
            os.link(f"folders/{split}/{name}/{file}", f"flat/{split}/{file}")
            lines.append(f'"{file}",{name}')
    random.shuffle(lines)
    # As a spreadsheet writes it: a byte order mark and CRLF.
    text = "\ufeffFile,Label\r\n" + "".join(line + "\r\n" for line in lines)
    open(f"flat/{split}/labels.csv", "w", encoding="utf-8", newline="").write(text)
for i in range(40):
    for name, tint in tints.items():
        image(f"all/{name[0]}{i}.bmp", tint)
image("all/z.bmp", (90, 90, 90))
with open("all/labels.tsv", "w") as table:
    for i in range(40):
        for name in tints: table.write(f"{name[0]}{i}.bmp\t{name}\n")
    table.write("z.bmp\tzebra\n")
EOF
tiny=(--config tiny.yaml --set data=null --set data.dataset=imagefolder --set augment=light
  --set train.batch_size=12 --set train.micro_batch=null --set train.ema=null)

echo "a table gives the figures of class folders"
for layout in folders flat; do
  labels=()
  [[ $layout == flat ]] && labels=(--set data.labels=labels.csv)
  expect 0 dtn-train "${tiny[@]}" --set data.root=$layout "${labels[@]}" --set schedule.steps=30 \
    --set optim.lr=5e-3 --output run-$layout
done
expect_text 'model.num_classes: 3, from the training data' \
  'train: 36 train images of 3 classes in flat/train, labels from flat/train/labels.csv \(header File,Label\)' \
  'val: 15 val images'
expect_same_metrics run-folders run-flat
expect_same_tensors run-folders/checkpoints/last run-flat/checkpoints/last
expect_no_file run-flat/splits
# figures ARGUMENT...: the JSON of dtn-eval, without the speed.
figures() {
  expect 0 dtn-eval --json "$@"
  grep '^{' "$log" | sed 's/,"images_per_second":[^,}]*//'
}
by_folders=$(figures --checkpoint run-folders/checkpoints/last)
expect_equal "figures of the table" "$(figures --checkpoint run-flat/checkpoints/last)" "$by_folders"
expect_equal "figures of class folders by the model of the table" \
  "$(figures --checkpoint run-flat/checkpoints/last --set data.labels=null --set data.root=folders)" \
  "$by_folders"
expect_same_evaluation run-flat
expect 0 dtn-predict "flat/val/s0, one.bmp" --checkpoint run-flat --topk 3
expect_text 'sea fish' ' cat' ' dog'

echo "every tool follows the table"
expect 0 dtn-data stats --root flat --labels labels.csv --json
expect_text '"name":"sea fish","images":12'
expect 0 dtn-data verify --root flat --labels labels.csv --split val
expect_text '15 of 15 images verified, 0 bad'
expect 0 dtn-data preview --config run-flat/config.yaml --output sheet.png --images 3 --epochs 2
expect_text '^3 images in sheet.png'
expect 0 dtn-data pack --root flat --labels labels.csv --split val --output val.packed
expect_equal "figures of the packed table" \
  "$(figures --checkpoint run-flat/checkpoints/last --set data.dataset=packed --set data.root=. \
    --set data.val=val.packed)" "$by_folders"
expect 0 dtn-eval --checkpoint run-flat --task knn --json
expect_text '"count":15'
expect 2 dtn-data stats --dataset packed --root . --labels labels.csv
expect_text 'are for --dataset imagefolder'

echo "a split is held out"
held=("${tiny[@]}" --set data.root=all --set data.labels=labels.tsv --set data.split=0.25
  --set schedule.steps=12)
expect 0 dtn-train "${held[@]}" --output held
expect_text 'model.num_classes: 4, from the training data' \
  'train: [0-9]+ train images \(data.split: 0.25, seed: 3\) of 121 images of 4 classes in all' \
  'val: [0-9]+ val images \(data.split: 0.25, seed: 3\) of 121 images' \
  "1 class has a single image, which stays in the training split: 'zebra'"
check "the lists of a split divide the images" << 'EOF'
import csv
def rows(split): return list(csv.reader(open(f"held/splits/{split}.csv", newline="")))
train, val = rows("train"), rows("val")
assert train[0] == val[0] == ["path", "label"]
table = sorted(line.rstrip("\n").split("\t") for line in open("all/labels.tsv"))
assert sorted(train[1:] + val[1:]) == table
assert ["z.bmp", "zebra"] in train
for name in ("cat", "dog", "sea fish"):
    assert 2 <= sum(row[1] == name for row in val) <= 22, val
n = int(re.search(r"val: (\d+) val images", log)[1])
assert n == len(val) - 1, (n, len(val))
EOF
expect_same_evaluation held
count=$(($(wc -l < held/splits/val.csv) - 1))
expect 0 dtn-eval --checkpoint held/checkpoints/last --json
expect_text "\"count\":$count,"
expect 0 dtn-data stats --root all --labels "$PWD/held/splits/val.csv" --json
expect_text "^\{\"images\":$count,"
expect 0 dtn-data verify --config held/config.yaml --split val --no-decode
expect_text "^$count of $count images verified"
expect 0 dtn-eval --checkpoint held --task knn --json
expect_text "\"count\":$count"
cp -r held/splits before
expect 0 dtn-train --resume held --set schedule.steps=14
expect_equal "lists after a resume" "$(diff -r before held/splits)" ""

echo "new files do not move old files to the other split"
for i in {1..9}; do
  cp all/c0.bmp "all/new$i.bmp"
  printf 'new%s.bmp\tcat\n' "$i" >> all/labels.tsv
done
expect 0 dtn-train "${held[@]}" --output grown
check "the old files are where they were" << 'EOF'
lines = lambda run, split: set(open(f"{run}/{split}.csv"))
for split in ("train", "val"):
    old, new = lines("before", split), lines("grown/splits", split)
    assert old <= new and all("new" in line for line in new - old), (old - new, new - old)
EOF

echo "class folders are held out, too"
mkdir mine
cp -r folders/train/* mine/
expect 0 dtn-train "${tiny[@]}" --set data.root=mine --set data.split=0.3 --set schedule.steps=2 \
  --output mine1
expect_text 'val: [0-9]+ val images \(data.split: 0.3, seed: 3\) of 36 images of 3 classes in mine$'
expect_same_evaluation mine1
checks=$((checks + 1))
grep -q '^"sea fish/s[0-9]*, one.bmp",sea fish$' mine1/splits/train.csv || fail "no path below the root"
expect 3 dtn-train "${tiny[@]}" --set data.root=folders --set data.split=0.3 --output no
expect_text 'data.split is 0.3, but there is a validation split, folders/val'
expect 2 dtn-train "${tiny[@]}" --set data.root=mine --set data.split=0.3 --set data.val=x --output no
expect_text 'data.split holds out .*, but data.val names a validation split, x'
expect 3 dtn-eval --checkpoint mine1 --set data.root=folders
expect_text 'there is a validation split, folders/val'
expect 0 dtn-eval --checkpoint mine1 --set data.root=folders --set data.split=null
for share in 0 1 1.5 x; do
  expect 2 dtn-train "${tiny[@]}" --set data.root=mine --set data.split=$share --output no
  expect_text 'data.split '
done
expect 3 dtn-train "${tiny[@]}" --set data.root=mine --set data.train=. --output no
expect_text 'no such folder: mine/val' 'data.split'

echo "errors name the line"
# broken TEXT PATTERN...: training on a table with that text must fail.
broken() {
  printf '%b' "$1" > flat/train/broken.csv
  expect 3 dtn-train "${tiny[@]}" --set data.root=flat --set data.labels=broken.csv \
    --set model.num_classes=3 --output no
  expect_text "${@:2}"
}
broken 'path,label\nno.bmp,cat\n' 'flat/train/broken.csv:2: no such image: flat/train/no.bmp' \
  '1 of 1 listed image is missing'
broken '"c0, one.bmp",cat\n"c0, one.bmp",dog\n' \
  "broken.csv:2: 'c0, one.bmp' has the label 'dog' here and 'cat' in line 1"
broken 'path,label\nc0, one.bmp,cat\n' 'broken.csv:2: has 3 fields, line 1 has 2'
broken 'path,label,split\n' "broken.csv:1: unknown column 'split'"
broken 'path,label\n"c0, one.bmp",\n' "broken.csv:2: the label of 'c0, one.bmp' is empty"
expect_no_file no
printf '"c0, one.bmp",lynx\n' > flat/val/labels.csv
expect 3 dtn-eval --checkpoint run-flat/checkpoints/last
expect_text "flat/val/labels.csv:1: the label 'lynx' is not among the 3 classes of the training split"
