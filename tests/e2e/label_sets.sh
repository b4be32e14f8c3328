#!/usr/bin/env bash
# One model with several label sets: the same run for any workers, threads and interruptions; the
# accuracy of each set; predictions for a set; sets that do not fit are refused.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
sets=(--config tiny.yaml --set augment=none --set train.ema=null --set model.num_classes=14
  --set model.norm=adaln --set model.norm.layers=3 --set model.condition.from=index
  --set model.condition.styles=2 --set model.condition.size=6
  --set 'data.label_sets=[digit, kind = a b c d a b c d a b]')

echo "threads, workers and interruptions do not change a run"
expect 0 dtn-train "${sets[@]}" --threads 1 --set data.workers=0 --output whole
expect_text "in 2 label sets"
expect 0 dtn-train "${sets[@]}" --threads 2 --set data.workers=2 --output other
expect_same_checkpoint other/checkpoints/last whole/checkpoints/last
cp -r whole again
older=$(find again/checkpoints -maxdepth 1 -name 'step-*' | sort | head -1)
find again/checkpoints -maxdepth 1 -name 'step-*' ! -path "$older" -exec rm -r {} +
expect 0 dtn-train --resume "$older"
expect_same_checkpoint again/checkpoints/last whole/checkpoints/last
expect_same_metrics again whole

echo "each set has its accuracy"
expect 0 dtn-eval --checkpoint whole --json
expect_text '"top1_digit":[0-9.]+'
expect_text '"top1_kind":[0-9.]+'
expect_equal "samples of 80 images" "$(grep -o '"count":[0-9]*' "$log")" '"count":160'

echo "predictions are for one set"
python3 -c "import files
open('a.bmp', 'wb').write(files.bmp(16, 16, lambda x, y: (9 * x, 9 * y, 80)))"
expect 0 dtn-predict a.bmp --checkpoint whole --style kind --json
by_name=$(cat "$log")
expect 0 dtn-predict a.bmp --checkpoint whole --style 1 --json
expect_equal "predictions by name and number" "$(grep -o '"top".*' <<< "$by_name")" \
  "$(grep -o '"top".*' "$log")"
expect_text '"(digit/[0-9]|kind/[abcd])"'
expect 2 dtn-predict a.bmp --checkpoint whole
expect_text "set --style to a number from 0 to 1; the label sets are: digit, kind"
expect 2 dtn-predict a.bmp --checkpoint whole --style 2

echo "other programs take the model"
expect 0 dtn-bench eval "${sets[@]}" --steps 1
expect 0 dtn-bench norm --type adaln --shape 2,4,8 --heads 2 --steps 1
expect 0 dtn-analyze --checkpoint whole --images 8 --output analysis
expect 0 dtn-data pack "${sets[@]}" --split train --output all.packed
expect_text "packed 80 of 80"

echo "what does not fit is refused"
expect 2 dtn-train "${sets[@]}" --set model.condition.styles=3 --output none
expect_text "has 2 sets, and model.condition.styles is 3"
expect 2 dtn-train "${sets[@]}" --set augment.mixup=0.2 --output none
expect_text "set augment.mixup: 0"
expect 3 dtn-train "${sets[@]}" --set model.num_classes=11 --output none
expect_text "data.label_sets has 14 classes, but model.num_classes is 11"
expect 2 dtn-eval --checkpoint whole --task knn
expect_text "evaluate its classes without --task"
expect 2 dtn-eval --checkpoint whole --set 'data.label_sets=[kind = a b c d a b c d a b]'
expect_text "data.label_sets has 1 set, and model.condition.styles is 2"
expect 3 dtn-eval --checkpoint whole --set 'data.label_sets=[kind = a b c d a b c d a b, digit]'
expect_text "give the label sets that the model was trained with, in their order"
expect 3 dtn-train "${sets[@]}" --set 'data.label_sets=[kind = a b c d a b c d a b, digit]' \
  --set model.init_weights=whole --output none
expect_text "its classes have another order"
expect 2 dtn-export --checkpoint whole --output a.onnx
expect_text "adaln cannot be exported"
