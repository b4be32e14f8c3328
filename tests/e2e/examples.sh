#!/usr/bin/env bash
# Every example of the manual pages runs unchanged. Small models and data replace the ones that the
# examples name. Every page that a manual names exists.
source "$(dirname "$0")/lib/common.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$work"
export PATH=$bin:$PATH

# These configs take precedence over the shipped configs of the same names.
export DTN_CONFIGS=$work/configs
mkdir -p configs/sweeps
tiny_config configs/vit_s_star_dtn.yaml
sed 's/name: tiny/name: fashion_mnist_dtn/; s/preset: deit.*}/preset: light}/' \
  configs/vit_s_star_dtn.yaml > configs/fashion_mnist_dtn.yaml
cat > configs/sweeps/fashion_mnist_table3.yaml << 'EOC'
base: fashion_mnist_dtn
seeds: [0]
variants:
  - {name: ln, set: {model.norm: ln}}
  - {name: bn, set: {model.norm: bn}}
  - {name: dtn, set: {model.norm: dtn}}
EOC
python3 - << 'EOC'
import files, os
for folder in "pictures", *(f"data/imagenet/{s}/n{c}" for s in ("train", "val") for c in range(2)):
    os.makedirs(folder)
    for i in range(2):
        shade = lambda x, y: ((x * 5 + i * 9) % 256, y * 3 % 256, i * 20)
        open(f"{folder}/{i}.png", "wb").write(files.png(64, 48, shade))
os.link("pictures/0.png", "shirt.png")
for c in range(2):
    os.makedirs(f"photos/{c}")
    for i in range(8): os.link(f"pictures/{i % 2}.png", f"photos/{c}/{i}.png")
EOC

# The run of a diffusion model that the examples of dtn-sample use.
train_dit() {
  cat > dit.yaml << 'EOC'
task: diffusion
model: {preset: dit_tiny, depth: 1, embed_dim: 32, num_heads: 2}
data: {dataset: tensors, train: dit.safetensors}
schedule: {name: constant, steps: 1}
train: {batch_size: 4}
diffusion: {sample_every: 0}
EOC
  python3 -c "import files; files.write_safetensors('dit.safetensors', {
    'images': files.floats([4, 1, 28, 28], [0.0] * 3136), 'labels': files.integers([0, 1, 2, 3])})"
  dtn-train --config dit.yaml --output runs/fashion_mnist_dit_ln
}

# The run of an image-to-image model that an example of dtn-predict uses.
train_restorer() {
  cat > restore.yaml << 'EOC'
task: translate
model: {preset: unet_tiny, embed_dim: [8, 16], depth: [1, 1]}
data: {dataset: synthetic, size: 8, corruptions: [gaussian_noise/3]}
schedule: {name: constant, steps: 1}
train: {batch_size: 4}
EOC
  dtn-train --config restore.yaml --output runs/restore
}

# Runs that the examples of dtn-average and dtn-export use.
train_small() {  # NAME [OPTION...]
  dtn-train --config fashion_mnist_dtn --set schedule.steps=2 --output "runs/$1" "${@:2}" > "$log" 2>&1 ||
    fail "the run $1 fails"
}
train_soup() {
  for seed in 1 2 3; do train_small "$(tr 123 abc <<< $seed)" --set seed=$seed; done
  cp runs/b/checkpoints/last/model.safetensors pretrained.safetensors
}

# examples_of PROGRAM: the examples of its manual page.
examples_of() {
  "$1" --man | sed -n '/^\.SH EXAMPLES/,/^\.SH SEE/s/^\.B //p' | sed 's/\\-/-/g; s/\\e/\\/g'
}

source "$lib/hub.sh"
export HF_ENDPOINT=$hub/plain  # for dtn-get

mapfile -t programs < <(cd "$bin" && find . -lname dtn -printf '%f\n' | sort -r)  # dtn-train first
for program in dtn "${programs[@]}"; do
  if [[ $program == dtn-train ]]; then rm -r runs; fi  # the runs of `dtn train`
  if [[ $program == dtn-sample ]]; then train_dit > "$log" 2>&1 || fail "the diffusion model fails"; fi
  if [[ $program == dtn-predict ]]; then train_restorer > "$log" 2>&1 || fail "the restorer fails"; fi
  if [[ $program == dtn-average ]]; then train_soup; fi
  if [[ $program == dtn-export ]]; then
    train_small vit_s_ln --set model.norm.type=ln --set model.class_token_at=0
  fi
  mapfile -t examples < <(examples_of "$program")
  echo "$program: ${#examples[@]} examples"
  ((${#examples[@]} >= 2)) || fail "the manual of $program has ${#examples[@]} examples"
  "$program" --help > help.txt
  for example in "${examples[@]}"; do
    checks=$((checks + 1))
    # Ten minutes are too long for a test.
    timeout 100 bash -c "${example/--minutes 10/--minutes 0.05}" > "$log" 2>&1 < /dev/null || {
      sed 's/^/  | /' "$log" >&2
      fail "the example '$example' of $program fails"
    }
    grep -qF "  $example" help.txt || fail "$program --help lacks '$example'"
  done
  "$program" --man > page.1
  for page in $(grep -o 'docs/[a-z.-]*\.md' <<< "$(sed 's/\\-/-/g' page.1)"); do
    expect_file "$root/$page"
  done
  for other in $(sed -n 's/^\.BR \(dtn[a-z\\-]*\) (1).*/\1/p' page.1 | sed 's/\\-/-/g'); do
    expect_file "$bin/$other"
  done
  if command -v man > /dev/null; then
    man --warnings -l page.1 > page.txt 2> warnings.txt || fail "man fails"
    [[ ! -s warnings.txt ]] || fail "man warns of $program: $(cat warnings.txt)"
  fi
done
expect_file runs/fashion_mnist_dtn/checkpoints/last
expect_file plot/plot.html
