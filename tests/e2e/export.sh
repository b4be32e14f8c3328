#!/usr/bin/env bash
# What leaves for other programs: ONNX files.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
expect 0 dtn-train --config tiny.yaml --set schedule.steps=2 --output run

echo "dtn-export"
expect 0 dtn-export --help
expect_text --checkpoint --config --set --ema --opset --output 'Exit codes'
expect 0 dtn-export --checkpoint run/checkpoints/last --output a.onnx
expect_text 'a.onnx: vit_t, dtn .* images \[N, 3, 16, 16\] -> logits \[N, 10\], opset 17, .* MB'
expect 0 dtn-train export --checkpoint run/checkpoints/last/model.safetensors --output b.onnx
cmp a.onnx b.onnx >&2 || fail "the same model gives two files"
expect 0 dtn-export --checkpoint run/checkpoints/last --ema --opset 20 --output b.onnx
if cmp -s a.onnx b.onnx; then fail "--ema --opset 20 changes nothing"; fi

echo "what it refuses"
expect 2 dtn-export --checkpoint run/checkpoints/last
expect_text '--output is required'
expect 2 dtn-export --checkpoint run/checkpoints/last --opset 16 --output c.onnx
expect_text 'opset'
expect 2 dtn-export --checkpoint absent --output c.onnx
expect_text 'absent'
expect 3 dtn-export --checkpoint tiny.yaml --output c.onnx
expect_text 'tiny.yaml: not a safetensors file'
expect 1 dtn-export --checkpoint run/checkpoints/last --output no/such/folder/c.onnx
expect_text 'no/such/folder'
expect_no_file c.onnx
expect_no_leftovers "$work"
