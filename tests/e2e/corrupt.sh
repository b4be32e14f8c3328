#!/usr/bin/env bash
# dtn-data corrupt: the same bytes for any number of jobs and after any kill; dtn-eval gives the
# same figures on the fly as from the folders.
source "$(dirname "$0")/lib/common.sh"

cd "$work"
# The files of a folder and a checksum of each.
list_of() { (cd "$1" && find . -type f | sort | xargs sha256sum); }
same_folders() {
  checks=$((checks + 1))
  diff <(list_of "$1") <(list_of "$2") >&2 || fail "$1 and $2 differ"
}

python3 - << 'EOF'
import os, random, files
random.seed(8)

def picture():
    tint = [random.randrange(256) for _ in range(3)]
    wave = random.uniform(3, 20)
    return lambda x, y: tuple(int((t + 90 * ((x + y * k) / wave % 1)) % 256)
                              for k, t in enumerate(tint))

for c in range(4):
    for i in range(3):
        width, height = [(300, 260), (256, 280), (90, 120)][(c + i) % 3]
        os.makedirs(f"clean/val/n{c}", exist_ok=True)
        name, make = (f"{i}.bmp", files.bmp) if i else (f"{i}.png", files.png)
        open(f"clean/val/n{c}/{name}", "wb").write(make(width, height, picture()))
        os.makedirs(f"small/val/n{c}", exist_ok=True)
        open(f"small/val/n{c}/{i}.bmp", "wb").write(files.bmp(32, 32, picture()))
EOF

echo "any number of jobs"
corrupt=(corrupt --root clean/val --severity 1,5)
expect 0 dtn-data "${corrupt[@]}" --output one --corruption all --jobs 1 --json
expect_text '"files":456,"there":0,"made":456' '"frost":"frost \(stand-in\)"' '"unreadable":\[\]'
expect 0 dtn-data "${corrupt[@]}" --output three --corruption all --jobs 3
expect_text '12 images x 38 folders = 456 files' 'made 456 of 456 files' 'frost \(stand-in\)'
same_folders one three
expect_file one/fog/5/n2/1.JPEG
expect_file one/saturate/1/n0/0.JPEG
expect_no_leftovers one
expect 0 dtn-data corrupt --root clean --severity 5 --output fewer --corruption spatter,fog --jobs 2
for folder in spatter/5 fog/5; do same_folders "one/$folder" "fewer/$folder"; done
expect 0 dtn-data "${corrupt[@]}" --seed 1 --output seed --corruption fog,contrast
if cmp -s one/fog/5/n2/1.JPEG seed/fog/5/n2/1.JPEG; then fail "the seed changes nothing"; fi
same_folders one/contrast seed/contrast

echo "other data sets"
expect 0 dtn-data pack --root clean --split val --output clean/val.packed
expect 0 dtn-data corrupt --dataset packed --root clean --severity 5 --output packed \
  --corruption glass_blur,frost
for folder in glass_blur/5 frost/5; do same_folders "one/$folder" "packed/$folder"; done

echo "--root takes precedence over the config"
cat > data.yaml << 'YAML'
model: {preset: vit_t, num_classes: 4}
data: {dataset: imagefolder, root: /nowhere}
YAML
for root in clean clean/val; do
  expect 0 dtn-data corrupt --config data.yaml --root "$root" --output none --dry-run
  expect_text '12 images x 75 folders'
done
expect 3 dtn-data corrupt --config data.yaml --output none --dry-run
expect_text '/nowhere'

echo "killed and resumed"
start=$(date +%s%N)
expect 0 dtn-data "${corrupt[@]}" --output unbroken --corruption all --jobs 1
whole_ms=$((($(date +%s%N) - start) / 1000000))
killed=0
for part in 3 2 2; do
  code=0
  ms=$((whole_ms / part))
  python3 "$lib/interrupt.py" KILL "seconds:$((ms / 1000)).$(printf %03d $((ms % 1000)))" \
    "$bin/dtn-data" "${corrupt[@]}" --output broken --corruption all --jobs 1 > "$log" 2>&1 ||
    code=$?
  if ((code == 0)); then break; fi
  expect_equal "exit code of a killed run" "$code" 137
  killed=$((killed + 1))
done
if ((killed == 0)); then fail "no kill met the work: the test tests nothing"; fi
mkdir -p broken/fog/1/n0
touch broken/fog/1/n0/0.JPEG.tmp-1-1
expect 0 dtn-data "${corrupt[@]}" --output broken --corruption all --jobs 3
same_folders one broken
expect_no_leftovers broken
code=0
python3 "$lib/interrupt.py" TERM "lines:1:stopped/corruptions.txt" "$bin/dtn-data" \
  "${corrupt[@]}" --output stopped --corruption all --jobs 1 > "$log" 2>&1 || code=$?
expect_equal "exit code of a stopped run" "$code" 75
expect_text 'run the same command again to continue'
expect 0 dtn-data "${corrupt[@]}" --output stopped --corruption all --json
expect_text '"stopped":false'
same_folders one stopped

echo "--dry-run"
expect 0 dtn-data corrupt --root clean/val --output none --dry-run
expect_text '12 images x 75 folders = 900 files; about [1-9][0-9.]+ MiB, and '
expect_no_file none
expect 0 dtn-data "${corrupt[@]}" --output one --corruption all --dry-run --json
expect_text '"files":456,"there":456'

echo "errors"
expect 2 dtn-data corrupt --root clean/val --output none --corruption fogg
expect_text "no corruption 'fogg'; did you mean 'fog'"
expect 2 dtn-data corrupt --root clean/val --output none --severity 0-3
expect_text "no severity '0-3'"
expect 2 dtn-data corrupt --root clean/val
expect 2 dtn-data corrupt --root clean/val --output one --corruption fog --seed 2
expect_text 'made with --seed 0, not 2'
expect 2 dtn-data corrupt --root clean/val --output one --corruption fog --format png
expect 3 dtn-data corrupt --root absent --output none
expect 3 dtn-data corrupt --root clean/val --output none --corruption frost --frost-dir absent
expect_no_file none
cp -r clean damaged
printf 'no image' > damaged/val/n1/bad.jpg
expect 3 dtn-data corrupt --root damaged/val --severity 1,5 --output found --corruption fog --json
expect_text 'skipped: .*n1/bad.jpg' '"made":24' '"unreadable":\[\{"index":6,"name":"[^"]*n1/bad.jpg'
same_folders one/fog found/fog
cp clean/val/n0/1.bmp damaged/val/n0/0.bmp  # beside 0.png
expect 3 dtn-data corrupt --root damaged/val --output twice
expect_text 'n0/0.bmp and n0/0.png would both become n0/0.JPEG'

echo "on the fly as in the folders"
tiny_config tiny.yaml
expect 0 dtn-train --config tiny.yaml --output run --set schedule.steps=15 --set optim.lr=5e-3 \
  --set augment=light --set model.num_classes=4
model=(--checkpoint run/checkpoints/last --set data.dataset=imagefolder)
evaluate() { expect 0 dtn-eval "${model[@]}" "${@:2}" --json && grep '^{' "$log" > "$1"; }
fly=(--suite imagenet-c --corrupt-on-the-fly --corruption all --severity 1,5)
expect 0 dtn-data "${corrupt[@]}" --output lossless --corruption all --format png
expect_file lossless/fog/5/n2/1.png
evaluate folders.json --set data.root=clean --suite imagenet-c --suite-root one
evaluate flying.json --set data.root=clean "${fly[@]}" --save kept.json
evaluate png.json --set data.root=clean --suite imagenet-c --suite-root lossless
evaluate flying_png.json --set data.root=clean "${fly[@]}" --corrupt-format png
check "figures on the fly" << 'EOF'
read = lambda name: json.load(open(name))
def scores(report):
    found = {"clean": report["clean"]}
    for part in "corruptions", "extra":
        for name, entry in report[part].items():
            found.update({f"{name}/{s}": v for s, v in entry["severities"].items() if v})
    return found
seen = set()
for folders, flying in ("folders.json", "flying.json"), ("png.json", "flying_png.json"):
    a, b = scores(read(folders)), scores(read(flying))
    assert list(a) == list(b) and len(a) == 39, (list(a), list(b))
    for name in a:
        for key in "top1", "top5", "count", "bad_images":
            assert a[name][key] == b[name][key], (name, key, a[name], b[name])
        assert abs(a[name]["loss"] - b[name]["loss"]) <= 1e-6 * a[name]["loss"], (name, a, b)
        wanted = True if name.startswith("frost") else None
        assert a[name].get("stand_in") == b[name].get("stand_in") == wanted, (name, a[name])
        seen.add(a[name]["loss"])
assert len(seen) > 60, "the folders are too alike"
for name in "folders.json", "flying.json":
    found = read(name)
    assert found["frost"] == found["corruptions"]["frost"]["name"] == "frost (stand-in)"
    assert found["without_frost"]["complete_corruptions"] == 0
EOF
evaluate again.json --set data.root=clean "${fly[@]}" --save kept.json
expect_text '; 0 images left'
cmp again.json flying.json || fail "a finished suite is not as it was"
expect 0 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-c --corrupt-on-the-fly \
  --corruption frost,fog
expect_text '^frost \(stand-in\) ' 'not comparable with published values; the other 1: mean CE'
expect 0 dtn-eval "${model[@]}" --set data.root=clean --suite imagenet-c --corrupt-on-the-fly \
  --corruption fog --seed 5 --save kept.json --severity 1
expect_text 'fog/1: the images have changed since the evaluation saved in'

echo "small images"
expect 0 dtn-eval "${model[@]}" --set data.root=small --suite imagenet-c --corrupt-on-the-fly
expect_text '492 images in 41 folders' 'first image: 32 x 32' 'over clean' '^speckle_noise ' \
  '^mean error of 8 corruptions .* above the error on clean images .*no mCE'
if grep -qE 'mCE [0-9]|^fog' "$log"; then fail "small images have an mCE"; fi
evaluate small.json --set data.root=small --suite imagenet-c --corrupt-on-the-fly
check "the report of small images" << 'EOF'
found = json.load(open("small.json"))
assert found["mce"] is None and found["mean_ce"] is None and "no mCE" in found["no_mce"]
assert found["complete"] is True
entries = {**found["corruptions"], **found["extra"]}
assert sorted(entries) == sorted("gaussian_noise shot_noise impulse_noise speckle_noise brightness "
                                 "contrast saturate jpeg_compression".split()), sorted(entries)
mean = sum(e["error"] for e in entries.values()) / 8
assert abs(found["mean_error"] - mean) < 1e-9 and found["complete_corruptions"] == 8
assert abs(found["relative_mean_error"] - (mean - found["clean"]["error"])) < 1e-9
assert all("ce" not in e for e in entries.values())
EOF
expect 2 dtn-eval "${model[@]}" --set data.root=small --suite imagenet-c --corrupt-on-the-fly \
  --corruption fog,contrast
expect_text 'smaller than 224 x 224, the smallest size for fog'
expect 2 dtn-eval "${model[@]}" --suite imagenet-r --corrupt-on-the-fly
expect 2 dtn-eval "${model[@]}" --suite imagenet-c --corruption fog
expect 2 dtn-eval "${model[@]}" --suite imagenet-c --corrupt-on-the-fly --suite-root one
expect 3 dtn-eval "${model[@]}" --set data.root=absent --suite imagenet-c --corrupt-on-the-fly
