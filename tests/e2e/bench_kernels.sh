#!/usr/bin/env bash
# dtn-bench kernels: every kernel of a small model is timed, with the bytes that follow from its
# shapes; a failing kernel is reported as an error. With the emulated programs and `cuda` as $2 the
# kernels run on the device, and the trace of a step must show each kernel as often as the model
# calls it.
source "$(dirname "$0")/lib/common.sh"
device=${2:-cpu}

tiny_config "$work/tiny.yaml"
bench=(kernels --config "$work/tiny.yaml" --device "$device" --steps 1 --launches 1 --working-set 0
  --cube 64)

expect 0 dtn-bench "${bench[@]}" --set train.precision=bf16 --json
checks=$((checks + 1))
python3 - "$log" "$device" << 'EOP' || fail "dtn-bench kernels"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1]) if l.startswith("{")]
kernels = {k["kernel"]: k for k in lines[:-1]}
products = [l + p for l in ("qkv", "proj", "fc1", "fc2") for p in ("_fwd", "_dx", "_dw")]
rest = """normalize_images patchify gelu_fwd gelu_bwd bias_sums layer_norm_fwd layer_norm_bwd
    dtn_fwd dtn_bwd attention_fwd attention_bwd query_attention_fwd query_attention_bwd
    cross_entropy_fwd cross_entropy_bwd gradient_norm adamw ema""".split()
missing = set(products + rest) - set(kernels)
assert not missing, missing
for k in kernels.values():
    assert k["us"] > 0 and k["bytes"] > 0 and k["floor_us"] > 0 and k["flops"] >= 0, k
    assert k["shape"] and abs(k["ratio"] * k["floor_us"] / k["us"] - 1) < 1e-6, k
totals = lines[-1]
assert totals["copy_gbytes_per_second"] > 0 and totals["gemm_gflops"] > 0, totals
assert totals["kernels"] == len(kernels) == len(lines) - 1, totals

# 8 images of 16 tokens and 24 channels. In bfloat16: q, k and v, their gradients, dout and out. In
# float32: the sums of exponentials of 4 heads.
rows, c = 8 * 16, 24
assert kernels["attention_bwd"]["bytes"] == 2 * rows * (3 * c + 2 * c + 3 * c) + 4 * rows * 4
# fc2_dw reads dy and x, and it reads and writes the gradient in float32.
assert kernels["fc2_dw"]["bytes"] == 2 * rows * (2 * c + c) + 4 * 2 * 2 * c * c
for p in products[6:]:
    assert kernels[p]["flops"] == 2 * rows * c * 2 * c, kernels[p]
EOP

expect 0 dtn-bench "${bench[@]}" --only _norm
expect_text 'kernel +shape +us +MB +GFLOP +floor us +ratio' 'layer_norm_bwd +136 x 24 ' \
  'gradient_norm +[0-9]+ ' 'kernels +3'
expect 2 dtn-bench "${bench[@]}" --only convolution
expect_text '--only convolution: no kernel has this text in its name; the kernels are normalize_images, .*ema'
[[ $device == cuda ]] || exit 0

# With 1 KiB of shared memory some kernels fail and report an error. The others are timed.
code=0
DTN_EMULATOR_SHARED_KIB=1 dtn-bench "${bench[@]}" --only attention --json > "$log" || code=$?
expect_equal "exit code when a kernel fails" "$code" 1
expect_text '"kernel":"attention_fwd","error":"CUDA kernel attention' '"kernels":4'

# Nothing is traced unless DTN_CUDA_TRACE is set.
trace=(train --config "$work/tiny.yaml" --device cuda --steps 1 --warmup 3 --cube 64)
expect 0 dtn-bench "${trace[@]}"
checks=$((checks + 1))
if grep -q gaps "$log"; then fail "a trace that nobody asked for"; fi
export DTN_CUDA_TRACE=1
expect 0 dtn-bench "${trace[@]}"
checks=$((checks + 1))
python3 - "$log" << 'EOP' || fail "the trace of a step"
import re, sys
table, totals = {}, []
for line in open(sys.argv[1]):
    if m := re.fullmatch(r"(.{44}) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) %\n", line):
        table[m[1].strip()] = (int(m[2]), float(m[3]), float(m[5]))
        totals.append(float(m[3]))
    elif line.startswith("gaps: "):
        gaps, step = map(float, re.findall(r"-?[\d.]+", line)[:2])
all_calls, all_us, _ = table.pop("all")
assert totals[:-1] == sorted(totals[:-1], reverse=True)
assert all_calls == sum(calls for calls, _, _ in table.values())
assert abs(all_us - sum(us for _, us, _ in table.values())) <= 0.1 * len(table)
assert abs(step - all_us - gaps) < 1
# A step runs two micro-batches through three blocks: two blocks with DTN before both branches, and
# one block in which only the class token is a query.
calls = {name: n for name, (n, _, _) in table.items()}
wanted = {"dtn_plain_forward": 8, "dtn_plain_backward": 8, "attention_plain_forward": 4,
          "query_attention_backward": 2, "gelu_forward": 6, "layer_norm_backward": 6,
          "cross_entropy_forward": 2, "adamw": 2, "ema": 1, "matmul nt 128 x 72 x 24": 4,
          "matmul tn 72 x 24 x 128": 4}
assert wanted == {name: calls.get(name) for name in wanted}, calls
EOP
