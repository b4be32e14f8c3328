#!/usr/bin/env bash
# dtn-data shapes: the same bytes for any number of threads; a complete data set or none after a
# kill; a layout that COCO's tools read; invalid options are refused.
source "$(dirname "$0")/lib/common.sh"

cd "$work"
same_folders() {
  checks=$((checks + 1))
  diff -r "$1" "$2" >&2 || fail "$1 and $2 differ"
}

echo "any number of threads"
small=(--seed 5 --train 60 --val 26 --size 64)
expect 0 dtn-data shapes --output one "${small[@]}" --json
expect_text '"output":"one","pictures":86,"shapes":[0-9]+,"crowds":7,"empty":3,' '"stopped":false'
OMP_NUM_THREADS=1 expect 0 dtn-data shapes --output a/b/ "${small[@]}"
expect_text '^60 and 26 pictures with [0-9]+ shapes and 7 crowds, 3 without an object, [0-9.]+ [KM]iB, in a/b'
same_folders one a/b
expect 0 dtn-data shapes --output other --seed 6 --train 60 --val 26 --size 64
checks=$((checks + 1))
if cmp -s one/annotations/instances_val.json other/annotations/instances_val.json; then
  fail "the seed changes nothing"
fi
expect_equal "folders" "$(ls one | xargs)" "annotations train val"
expect_equal "annotations" "$(ls one/annotations | xargs)" "instances_train.json instances_val.json"

echo "the layout of COCO"
check "the files are not what they should be" one << 'EOP'
import struct, zlib

def size_of(path):
    data = open(path, "rb").read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n", path
    width, height = struct.unpack(">II", data[16:24])
    length = struct.unpack(">I", data[33:37])[0]
    assert data[37:41] == b"IDAT" and len(zlib.decompress(data[41:41 + length])) == height * (3 * width + 1)
    return width, height

for split, count in ("train", 60), ("val", 26):
    root = sys.argv[1]
    truth = json.load(open(f"{root}/annotations/instances_{split}.json"))
    images = {i["id"]: i for i in truth["images"]}
    assert len(images) == count and len(os.listdir(f"{root}/{split}")) == count
    for i in images.values():
        assert size_of(f"{root}/{split}/{i['file_name']}") == (i["width"], i["height"]), i
        assert max(i["width"], i["height"]) == 64 and min(i["width"], i["height"]) < 64
    assert {i["width"] > i["height"] for i in images.values()} == {True, False}
    names = {c["id"]: c["name"] for c in truth["categories"]}
    assert sorted(names.values()) == ["disc", "square", "triangle"]
    ids = sorted(names)
    assert ids[0] > 0 and ids != list(range(ids[0], ids[0] + 3)), ids
    assert len({a["id"] for a in truth["annotations"]}) == len(truth["annotations"])
    corners = {"disc": 32, "square": 4, "triangle": 3}
    for a in truth["annotations"]:
        image, (x, y, w, h) = images[a["image_id"]], a["bbox"]
        assert 0 <= x and x + w <= image["width"] and 0 <= y and y + h <= image["height"] and w * h > 0, a
        if a["iscrowd"]:
            s = a["segmentation"]
            assert s["size"] == [image["height"], image["width"]], a
            assert sum(s["counts"]) == image["height"] * image["width"], a
            assert sum(s["counts"][1::2]) == a["area"] == w * h, a
        else:
            (polygon,) = a["segmentation"]
            xs, ys = polygon[::2], polygon[1::2]
            assert len(xs) == len(ys) == corners[names[a["category_id"]]], a
            assert [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)] == a["bbox"], a
            area = sum(xs[i - 1] * ys[i] - xs[i] * ys[i - 1] for i in range(len(xs))) / 2
            assert abs(area) == a["area"], a
EOP
# The pictures can also be read as a folder of images without labels.
expect 0 dtn-data verify --root one --split val --json
expect_text '"verified":26,"bad":\[\]'

echo "existing files are not changed"
cp -r one before
expect 2 dtn-data shapes --output one "${small[@]}"
expect_text 'one already holds files \((train|val|annotations)\) and was not changed; choose another --output'
same_folders one before
expect 2 dtn-data shapes --output one/annotations/instances_val.json --seed 5
expect_text 'is not a folder'
mkdir empty
expect 0 dtn-data shapes --output empty "${small[@]}"
same_folders one empty

echo "killed"
killed=0
for ms in 150 400 900; do
  code=0
  python3 "$lib/interrupt.py" KILL "seconds:0.$(printf %03d $ms)" \
    "$bin/dtn-data" shapes --output broken --seed 5 --train 100000 > "$log" 2>&1 || code=$?
  expect_equal "exit code of a killed run" "$code" 137
  if [[ -n $(find broken -name '*.tmp-*' 2> /dev/null) ]]; then killed=$((killed + 1)); fi
  expect_no_file broken/annotations
done
if ((killed == 0)); then fail "no kill met the work: the test tests nothing"; fi
expect 0 dtn-data shapes --output broken "${small[@]}"
same_folders one broken
code=0
python3 "$lib/interrupt.py" TERM seconds:0.5 \
  "$bin/dtn-data" shapes --output stopped --seed 5 --train 100000 --json > "$log" 2>&1 || code=$?
expect_equal "exit code of a stopped run" "$code" 75
expect_text '"stopped":true'
expect_no_file stopped

echo "refusals"
refused() {  # PATTERN OPTION...
  expect 2 dtn-data shapes --output none --seed 5 "${@:2}"
  expect_text "$1"
  expect_no_file none
}
refused '--size is 20, but must be from 32 to 4096' --size 20
refused '--size is 5000,' --size 5000
refused '--train is 0,' --train 0
refused '--val is -1,' --val -1
expect 2 dtn-data shapes --seed 5
expect_text '--output is required'
expect 2 dtn-data shapes --output none
expect_text '--seed is required'
expect 0 dtn-data shapes --help
expect_text 'object detection'
