#!/usr/bin/env bash
# Class names: checkpoints and data are matched by class name. Only training may use a random head.
# Files left out of a data set are counted.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
python3 - << 'EOF'
import os, random, files
random.seed(2)
tints = {"cat": (200, 30, 30), "dog": (30, 200, 30), "fish": (30, 30, 200), "zebra": (90, 90, 90)}

def image(path, tint):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    noise = [random.randrange(50) for _ in range(256)]
    pixel = lambda x, y: [min(255, t + noise[16 * y + x]) for t in tint]
    open(path, "wb").write(files.bmp(16, 16, pixel))

for folder, classes, splits in (("abc", "cat dog fish", "train val"), ("bc", "dog fish", "val"),
                                ("bcd", "dog fish zebra", "train val"), ("cb", "fish dog", "train")):
    for split in splits.split():
        for name in classes.split():
            for i in range(8 if split == "train" else 3):
                image(f"{folder}/{split}/{name}/{i}.bmp", tints[name])
for i in range(12):
    image(f"numbers/val/{i}/0.bmp", (20 * i, 0, 0))
EOF
tiny=(--config tiny.yaml --set data=null --set data.dataset=imagefolder --set model.num_classes=3
  --set augment=none --set train.batch_size=12 --set train.micro_batch=null --set train.ema=null
  --set model.drop_path=0)
expect 0 dtn-train "${tiny[@]}" --set data.root=abc --set schedule.steps=40 --set optim.lr=5e-3 \
  --output animals
animals=animals/checkpoints/last

# top1 ARGUMENT...: the accuracy that dtn-eval prints.
top1() {
  expect 0 dtn-eval --checkpoint "$animals" --json "$@"
  sed -n 's/^{"top1":\([0-9.]*\),.*/\1/p' "$log"
}

echo "evaluations match classes by name"
expect_equal "top-1 of all classes" "$(top1)" 100.0
expect_equal "top-1 of two of them" "$(top1 --set data.root=bc)" 100.0
expect 3 dtn-eval --checkpoint "$animals" --set data.root=bcd
expect_text "bcd/val: its class 'zebra' is not among the 3 classes \('cat', 'dog', 'fish'\)"
expect 0 dtn-data pack --root bc --split val --output bc.packed
packed=(--set data.dataset=packed --set data.root=. --set data.val=bc.packed)
expect_equal "top-1 of a packed part" "$(top1 "${packed[@]}")" 100.0
expect 0 dtn-data pack --root bcd --split val --output bcd.packed
expect 3 dtn-eval --checkpoint "$animals" "${packed[@]}" --set data.val=bcd.packed
expect_text "its class 'zebra' is not among"
# Frozen features: the labels are those of the training images, with classes cat, dog and fish.
expect 0 dtn-data pack --root abc --split train --output abc.packed
frozen=("${packed[@]}" --set data.train=abc.packed)
expect 0 dtn-eval --checkpoint "$animals" --task knn --json "${frozen[@]}"
expect_text '"top1":100.0'
expect 0 dtn-eval --checkpoint "$animals" --task linear --blocks 1 --epochs 20 --lr 1 --batch 8 \
  --no-augment --save-features f.safetensors "${frozen[@]}"
expect_equal "labels of dogs and fish" "$(python3 -c "import files
labels = files.read_safetensors('f.safetensors')[1]['labels']
print(sorted(set(files.values_of(labels))))")" "[1, 2]"
expect 3 dtn-eval --checkpoint "$animals" --task knn "${frozen[@]}" --set data.val=bcd.packed
expect_text "its class 'zebra' is not among"
mv bc/val bc/dogs-and-fish
expect_equal "top-1 of a suite" \
  "$(top1 --suite imagenet-r --suite-root bc/dogs-and-fish --set data.root=abc)" 100.0
expect 3 dtn-eval --checkpoint "$animals" --suite imagenet-r --suite-root bcd/val
expect_text "'zebra' is not among the 3"
mv bc/dogs-and-fish bc/validation
expect_equal "top-1 of a folder 'validation'" "$(top1 --set data.root=bc)" 100.0
expect_text "its folder 'validation' is the validation split"
mv bc/validation bc/test
expect_equal "top-1 of a folder 'test'" "$(top1 --set data.root=bc)" 100.0
expect_text "its folder 'test' is evaluated"
expect 3 dtn-train "${tiny[@]}" --set data.root=bc --set data.train=test \
  --set train.batch_size=3 --output no
expect_text 'no such folder: bc/val'

echo "a head is kept by name"
start=(--set model.init_weights="$animals" --set optim.lr=1e-9 --set optim.weight_decay=0)
expect 0 dtn-train "${tiny[@]}" "${start[@]}" --set schedule.steps=1 --set model.num_classes=2 \
  --set data.root=cb --set data.val=train --output turned
expect_text 'head.weight: its 2 rows are matched by class name' 'top-1 100.00'
expect 3 dtn-train "${tiny[@]}" "${start[@]}" --set data.root=bcd --output no
expect_text "class 'zebra' is not among the 3 classes" 'model.init_head: reset'
expect 0 dtn-train "${tiny[@]}" "${start[@]}" --set data.root=bcd --set schedule.steps=1 \
  --set model.init_head=reset --output anew

echo "the classes of a teacher are matched by name"
teach=(--set distill.teacher="$animals" --set distill.alpha=1 --set distill.type=soft)
expect 0 dtn-train "${tiny[@]}" "${teach[@]}" --set data.root=cb --set data.val=train \
  --set model.num_classes=2 --set schedule.steps=2 --output taught
expect 0 dtn-train "${tiny[@]}" "${teach[@]}" --set data.root=cb --set data.val=train \
  --set model.num_classes=2 --output dry --dry-run
expect 3 dtn-train "${tiny[@]}" "${teach[@]}" --set data.root=bcd --output no2
expect_text "class 'zebra' is not among the 3 classes .* of the teacher in animals"

echo "a resumed run keeps its classes"
cp -r animals renamed && cp -r abc abd && mv abd/train/fish abd/train/zebra
mv abd/val/fish abd/val/zebra
expect 3 dtn-train --resume renamed --set data.root=abd --set schedule.steps=41
expect_text "class 'zebra' is not among" 'a resumed run needs the classes that it started with'
mv abd/train/zebra abd/train/aal && mv abd/val/zebra abd/val/aal
expect 3 dtn-train --resume renamed --set data.root=abd --set schedule.steps=41
expect_text "class 'aal' is not among"

echo "no head is random outside training"
python3 - "$animals/model.safetensors" << 'EOF'
import sys, files
metadata, tensors = files.read_safetensors(sys.argv[1])
files.write_safetensors("nohead.safetensors",
                        {k: t for k, t in tensors.items() if not k.startswith("head")})
files.write_safetensors("unnamed.safetensors", tensors)
EOF
for command in "dtn-eval --checkpoint" "dtn-predict abc/val --checkpoint" \
  "dtn-export --output no.onnx --checkpoint" "dtn-analyze --checkpoint"; do
  read -ra words <<< "$command"
  expect 3 "${words[@]}" nohead.safetensors --config "$animals/../../config.yaml"
  expect_text 'nohead.safetensors: has no head.weight' 'would be random'
  [[ ${words[0]} == dtn-analyze ]] && continue  # dtn-analyze has no --set
  expect 3 "${words[@]}" "$animals" --set model.num_classes=5
  expect_text 'its head has 3 classes, .*model.num_classes is 5' 'set model.num_classes: 3'
done
unnamed=(--checkpoint unnamed.safetensors --config animals/config.yaml)
expect 0 dtn-eval "${unnamed[@]}"
expect_text "does not name its classes; they are assumed to have the order of .*'cat', 'dog', 'fish'"
mv bc/test bc/val
expect 3 dtn-eval "${unnamed[@]}" --set data.root=bc
expect_text 'has 2 classes .* has 3 classes; only one of them names its classes'

echo "validation splits that lack a class"
cp -r abc less && rm -r less/val/dog
expect 0 dtn-train "${tiny[@]}" --set data.root=less --set schedule.steps=1 --output less1
expect_text "has folders for 2 of the 3 classes of the training split, but none for 'dog'"
mkdir less/val/dog
expect 0 dtn-train "${tiny[@]}" --set data.root=less --set schedule.steps=1 --output less2
expect_text "1 class folder has no images: 'dog'"
expect_equal "top-1 without dogs" "$(top1 --set data.root=less)" 100.0
rm -r less/val/cat/* less/val/fish/*
expect 3 dtn-eval --checkpoint "$animals" --set data.root=less --json
expect_text 'less/val: the folder has no images'
for class in cat dog fish; do echo BM > "less/val/$class/0.bmp"; done
expect 3 dtn-eval --checkpoint "$animals" --set data.root=less --json
expect_text 'no images to evaluate; 3 damaged images'
cp abc/val/cat/0.bmp less/val/cat/1.bmp
expect 0 dtn-eval --checkpoint "$animals" --set data.root=less --json
expect_text '"count":1,.*"skipped":3}'

echo "files left out are counted"
touch less/val/cat/{a.jxl,b.avif,c.avif,noext}
expect 0 dtn-eval --checkpoint "$animals" --set data.root=less
expect_text 'less/val: left out 2 .avif, 1 .jxl, 1 without an extension; images are read from .jpg'
ln -s /nowhere/x.bmp less/val/dog/x.bmp
expect 3 dtn-eval --checkpoint "$animals" --set data.root=less
expect_text 'less/val/dog/x.bmp: is a link to /nowhere/x.bmp, which does not exist'
mkdir shard && for i in 0 1 2; do
  cp abc/val/cat/0.bmp "shard/plain$i.bmp" && cp abc/val/cat/0.bmp "shard/img_0.$i.bmp"
  echo 0 | tee "shard/plain$i.cls" > "shard/img_0.$i.cls"
done
tar cf shard.tar -C shard $(ls shard)
expect 0 dtn-eval --checkpoint "$animals" --set data.dataset=webdataset --set data.root=. \
  --set data.val=shard.tar --json
expect_text 'left out 3 images with a second dot in their name .*, 3 labels without an image' \
  '"count":3,'

echo "numbers as names"
numbers=("${tiny[@]}" --set data.root=numbers --set data.train=val --set model.num_classes=12
  --set schedule.steps=1)
expect 0 dtn-train "${numbers[@]}" --output bytes
expect_text "label 2 is '10'" 'set data.class_order: natural'
expect 0 dtn-train "${numbers[@]}" --set data.class_order=natural --output natural
checks=$((checks + 1))
! grep -q 'names of the classes are numbers' "$log" || fail "a chosen order is warned of"

echo "models that are compared have the same classes"
python3 - "$animals/model.safetensors" << 'EOF'
import sys, files
metadata, tensors = files.read_safetensors(sys.argv[1])
metadata = {"config": metadata["config"], "classes": '["dog","cat","fish"]'}
files.write_safetensors("other.safetensors", tensors, metadata)
EOF
expect 2 dtn-analyze --checkpoint "$animals" --checkpoint other.safetensors --output compared
expect_text 'the same classes in the same order, but those of .* differ'

echo "the number of classes of the data"
sed '/num_classes/s/ num_classes: 10,//' tiny.yaml > open.yaml
open=(--config open.yaml "${tiny[@]:2}" --set model.num_classes=null --set data.root=abc)
expect 0 dtn-train "${open[@]}" --set schedule.steps=1 --output counted
expect_text 'model.num_classes: 3, from the training data \(not set in the config\)'
expect_equal "classes in config.yaml" "$(grep num_classes counted/config.yaml)" "  num_classes: 3"
mkdir abc/train/aardvark && cp abc/train/cat/0.bmp abc/train/aardvark
expect 3 dtn-train "${open[@]}" --set schedule.steps=2 --output counted --resume auto
expect_text 'its label 3 is outside \[0, 3\)'  # the run keeps its three outputs
rm -r abc/train/aardvark
expect 0 dtn-train --resume counted
expect_text 'the run is already finished, at step 1 \(schedule.steps is 1\)' '--set schedule.steps=N'
