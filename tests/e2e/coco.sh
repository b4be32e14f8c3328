#!/usr/bin/env bash
# dtn-eval of detection files in COCO's format, without a model.
source "$(dirname "$0")/lib/common.sh"

cd "$work"
expect 0 dtn-data shapes --output data --seed 3 --train 1 --val 40 --size 64
truths=data/annotations/instances_val.json
python3 - << 'EOP'
import json
truth = json.load(open("data/annotations/instances_val.json"))
boxes = [{"image_id": a["image_id"], "category_id": a["category_id"], "bbox": a["bbox"], "score": 0.5}
         for a in truth["annotations"] if not a["iscrowd"]]
def write(name, results):
    json.dump(results, open(name, "w"))
write("perfect.json", boxes)
# Boxes extended to the left to twice the width have an overlap (IoU) of 1/2 with the object.
write("wide.json", [{**b, "bbox": [b["bbox"][0] - b["bbox"][2], b["bbox"][1], 2 * b["bbox"][2], b["bbox"][3]]}
                    for b in boxes])
write("none.json", [])
write("other_class.json", boxes + [{**boxes[0], "category_id": 999}])
write("other_image.json", [{**boxes[0], "image_id": 10**12}])
write("no_score.json", [{k: v for k, v in boxes[0].items() if k != "score"}])
open("cut.json", "w").write(json.dumps(boxes)[:-5])
write("nan.json", [{**boxes[0], "score": float("nan")}])
EOP
evaluate() { expect "$1" dtn-eval --coco-annotations $truths --coco-results "${@:2}"; }

echo "figures"
evaluate 0 perfect.json --json
expect_text '\{"bbox":\{"AP":1.0,"AP50":1.0,"AP75":1.0,"APs":' '"AR100":1.0,' '"ARl":-1.0\}\}$'
evaluate 0 perfect.json
expect_text '^% +AP +AP50 +AP75 +APs +APm +APl +AR1 +AR10 +AR100 +ARs +ARm +ARl$' \
  '^bbox +100.0 +100.0 +100.0 .* -$' '40 images, [0-9]+ annotations of 3 categories, [0-9]+ results'
evaluate 0 wide.json --json
expect_text '"AP":0.1,"AP50":1.0,"AP75":0.0,'
evaluate 0 none.json --json
expect_text '"AP":0.0,'
evaluate 0 other_class.json --json
expect_text '"AP":1.0,' 'left out 1 result of categories that .* does not list'
one=$(OMP_NUM_THREADS=1 "$bin/dtn-eval" --coco-annotations $truths --coco-results wide.json --json 2> /dev/null)
three=$(OMP_NUM_THREADS=3 "$bin/dtn-eval" --coco-annotations $truths --coco-results wide.json --json 2> /dev/null)
expect_equal "figures of three threads" "$three" "$one"

echo "errors"
evaluate 3 other_image.json
expect_text 'other_image.json: results\[0\] is of image 1000000000000, which .* does not list'
evaluate 3 no_score.json
expect_text 'no_score.json' 'score'
evaluate 3 cut.json
expect_text 'cut.json'
evaluate 3 nan.json
evaluate 3 missing.json
evaluate 3 perfect.json --coco-iou segm
expect_text 'has no segmentation'
evaluate 2 perfect.json --coco-iou mask
evaluate 2 perfect.json --checkpoint run
expect 2 dtn-eval --coco-annotations $truths
expect 2 dtn-eval --coco-results perfect.json
expect 2 dtn-eval --json
expect_text 'name the model with --checkpoint, or files of detections'
expect 3 dtn-eval --coco-annotations perfect.json --coco-results perfect.json
