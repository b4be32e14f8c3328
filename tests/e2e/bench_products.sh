#!/usr/bin/env bash
# dtn-bench products: on the CPU it says that it is for CUDA devices. With the emulated programs and
# `cuda` as $2, each product of a step is measured with every algorithm for it. Algorithms that do
# not repeat their bits are excluded. Another program takes the best algorithms from the table.
source "$(dirname "$0")/lib/common.sh"
device=${2:-cpu}

tiny_config "$work/tiny.yaml"
bench=(products --config "$work/tiny.yaml" --device "$device" --steps 1 --launches 1 --working-set 0)
if [[ $device == cpu ]]; then
  expect 2 dtn-bench "${bench[@]}"
  expect_text 'add --device cuda'
  exit 0
fi

DTN_EMULATOR_UNSTEADY_PRODUCTS=1 expect 0 dtn-bench "${bench[@]}" --set train.precision=bf16 --json \
  --output "$work/table"
checks=$((checks + 1))
python3 - "$log" "$work/table" << 'EOP' || fail "dtn-bench products"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1]) if l.startswith("{")]
products, total = {p["product"]: p for p in lines[:-1]}, lines[-1]
assert total["products"] == len(products) == len(lines) - 1 and total["failed"] == 0, total
# A micro-batch goes through three blocks. The last block has one row for each of 8 images.
q = products["bfloat16 to bfloat16, 128 x 72 x 24 nt, rows of 24 24 72"]
assert q["uses"] == 2 and q["flops"] == 2 * 128 * 72 * 24, q
dw = products["bfloat16 to float32, 72 x 24 x 128 tn, rows of 72 24 24, added to"]
assert dw["uses"] == 2, dw
for p in products.values():
    assert p["candidates"] == 6 and p["unsteady"] == 1 and "custom=0" in p["best"], p
    assert min(p["first_us"], p["chosen_us"], p["best_us"]) > 0, p
table = [l.rstrip("\n").split("\t") for l in open(sys.argv[2]) if not l.startswith("#")]
assert {(name, best) for _, _, name, best in table} == \
    {(name, p["best"]) for name, p in products.items()}
# The next program must take tile=15 from this table, even if it was not the fastest.
with open(sys.argv[2] + ".64", "w") as out:
    for card, version, name, _ in table:
        recipe = q["best"].split()
        recipe[1] = "tile=15"
        print(card, version, name, " ".join(recipe), sep="\t", file=out)
EOP

DTN_CUDA_PRODUCTS=$work/table.64 expect 0 dtn-bench "${bench[@]}" --set train.precision=bf16 \
  --only 'x 72 x' --json
checks=$((checks + 1))
python3 - "$log" << 'EOP' || fail "the table is taken"
import json, sys
for p in [json.loads(l) for l in open(sys.argv[1]) if l.startswith("{")][:-1]:
    assert "tile=15 " in p["chosen"], p
EOP

expect 0 dtn-bench "${bench[@]}" --only 'tn, rows'
expect_text 'first us +chosen us +best us +uses +candidates +TFLOP/s +product' 'products of a micro-batch: '
expect 2 dtn-bench "${bench[@]}" --only convolution
expect_text '--only convolution: no product has this text in its name; the products are'
DTN_CUDA_PRODUCTS=/nowhere/table expect 2 dtn-bench "${bench[@]}"
expect_text 'DTN_CUDA_PRODUCTS: /nowhere/table cannot be read'
