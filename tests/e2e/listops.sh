#!/usr/bin/env bash
# dtn-data listops: the same bytes for any number of jobs; all three files or none after a kill;
# impossible requests are refused.
source "$(dirname "$0")/lib/common.sh"

cd "$work"
# The files of a folder and a checksum of each.
list_of() { (cd "$1" && find . -type f | sort | xargs -r sha256sum); }
same_folders() {
  checks=$((checks + 1))
  diff <(list_of "$1") <(list_of "$2") >&2 || fail "$1 and $2 differ"
}
expect_empty() {  # ignores the temporary files of a killed process
  expect_equal "files in $1" "$(find "$1" -type f ! -name '*.tmp-*')" ""
}

echo "any number of jobs"
small=(--train 700 --val 80 --test 90)
expect 0 dtn-data listops --output one --seed 5 "${small[@]}" --jobs 1 --json
expect_text '"output":"one","trees":870,"tries":[0-9]+,"duplicates":0,"bytes":[0-9]+' \
  '"stopped":false'
expect 0 dtn-data listops --output a/three/ --seed 5 "${small[@]}" --jobs 3
expect_text '700, 80 and 90 different trees of 501 to 1999 tokens, [0-9.]+ MiB, in a/three' \
  'kept 1 of [0-9.]+ random trees, discarded 0 duplicates, [0-9]+ trees/s'
same_folders one a/three
expect_equal "files" "$(ls one | xargs)" "basic_test.tsv basic_train.tsv basic_val.tsv"
for file in train:701 val:81 test:91; do
  expect_equal "lines of $file" "$(wc -l < "one/basic_${file%:*}.tsv")" "${file#*:}"
done
expect 0 dtn-data listops --output other --seed 6 "${small[@]}"
if cmp -s one/basic_val.tsv other/basic_val.tsv; then fail "the seed changes nothing"; fi
# The trees do not depend on how they are divided among the files.
expect 0 dtn-data listops --output divided --seed 5 --train 90 --val 700 --test 80
trees_of() { for s in train val test; do tail -n +2 "$1/basic_$s.tsv"; done | sha256sum; }
expect_equal "trees" "$(trees_of divided)" "$(trees_of one)"

echo "the words, read as the Long-Range Arena does"
checks=$((checks + 1))
python3 - one << 'EOP' || fail "the files are not what they should be"
import csv, re, sys

def value(words):
    word = next(words)
    if not word.startswith("["):
        return int(word) if word != "X" else None
    values = []
    while (v := value(words)) is not None:
        values.append(v)
    values.sort()
    n = len(values)
    return {"[MIN": values[0], "[MAX": values[-1], "[SM": sum(values) % 10,
            "[MED": (values[(n - 1) // 2] + values[n // 2]) // 2}[word]

seen = set()
for split, count in ("train", 700), ("val", 80), ("test", 90):
    rows = list(csv.DictReader(open(f"{sys.argv[1]}/basic_{split}.tsv", newline=""), delimiter="\t"))
    assert len(rows) == count and list(rows[0]) == ["Source", "Target"], (split, len(rows))
    for row in rows:
        source = row["Source"].replace("]", "X").replace("(", "").replace(")", "")
        words = source.split()
        assert 500 < len(words) < 2000 and source not in seen, row
        seen.add(source)
        assert re.fullmatch("[0-9]", row["Target"]) and value(iter(words)) == int(row["Target"]), row
        assert row["Source"].count("(") == row["Source"].count(")") > 0
EOP

echo "files as a data set"
cat > listops.yaml << 'EOF'
model: {preset: vit_t, num_classes: 10}
data: {dataset: listops, root: one}
schedule: {steps: 1}
train: {batch_size: 8}
EOF
verify() { expect 0 dtn-data verify --config listops.yaml --json "${@:2}" && expect_text "$1"; }
verify '"images":700,"verified":700,"bad":\[\]'
verify '"images":80,' --split val
verify '"images":90,' --split val --set data.val=one/basic_test.tsv
mkdir -p lra windows damaged
cp -r one lra/listops-1000
verify '"images":80,' --split val --set data.root=lra
sed 's/$/\r/' one/basic_val.tsv > windows/basic_val.tsv
verify '"images":80,' --split val --set data.root=windows
sed '7s/\[M/[A/' one/basic_val.tsv > damaged/basic_val.tsv
expect 3 dtn-data verify --config listops.yaml --split val --set data.root=damaged
expect_text 'damaged/basic_val.tsv:7: unknown word .\[A'
expect 3 dtn-data verify --config listops.yaml --set data.root=absent
expect_text 'no such file: absent/basic_train.tsv, .*dtn-data listops --output absent'
expect 0 dtn-data verify --config listops.yaml
expect_text '^700 of 700 sequences verified, 0 bad, [0-9]+ sequences/s'
expect 2 dtn-data stats --config listops.yaml
expect 2 dtn-train --config listops.yaml --output run
expect_text 'the model takes images, but the data set has sequences of tokens: .*one/basic_train.tsv'

echo "existing files are not changed"
before=$(list_of one)
expect 2 dtn-data listops --output one --seed 5 "${small[@]}"
expect_text 'one already holds files \(basic_[a-z]*.tsv\) and was not changed; choose another --output'
mkdir notes
echo mine > notes/notes.txt
expect 2 dtn-data listops --output notes --seed 5 "${small[@]}"
expect_text 'notes.txt'
expect_equal "a foreign folder" "$(ls -A notes)" notes.txt
expect_equal "what was there" "$(list_of one)" "$before"
expect 2 dtn-data listops --output one/basic_val.tsv --seed 5
expect_text 'is not a folder'
mkdir empty
expect 0 dtn-data listops --output empty --seed 5 "${small[@]}"
same_folders one empty

echo "killed"
many=(--train 100000 --val 100 --test 100 --jobs 1)
killed=0
for ms in 60 250 600; do
  code=0
  python3 "$lib/interrupt.py" KILL "seconds:0.$(printf %03d $ms)" \
    "$bin/dtn-data" listops --output broken --seed 5 "${many[@]}" > "$log" 2>&1 || code=$?
  expect_equal "exit code of a killed run" "$code" 137
  if [[ -n $(find broken -name '*.tmp-*' 2> /dev/null) ]]; then killed=$((killed + 1)); fi
  if [[ -d broken ]]; then expect_empty broken; fi
done
if ((killed == 0)); then fail "no kill met the work: the test tests nothing"; fi
expect 0 dtn-data listops --output broken --seed 5 "${small[@]}"
same_folders one broken
expect_no_leftovers broken
for signal in INT TERM; do
  code=0
  python3 "$lib/interrupt.py" $signal seconds:0.4 \
    "$bin/dtn-data" listops --output stopped --seed 5 "${many[@]}" --json > "$log" 2>&1 || code=$?
  expect_equal "exit code of a stopped run" "$code" 75
  expect_text '"stopped":true'
  expect_no_file stopped
done
code=0
(trap '' XFSZ && ulimit -f 2000 && exec "$bin/dtn-data" listops --output full --seed 5 \
  "${small[@]}") > "$log" 2>&1 || code=$?
expect_equal "exit code where files may not grow" "$code" 1
expect_text 'cannot write .*basic_train.tsv'
expect_no_file full
# Two processes cannot write to one folder at the same time.
"$bin/dtn-data" listops --output shared --seed 5 "${many[@]}" > first.txt 2>&1 &
first=$!
until [[ -n $(find shared -name '*.tmp-*' 2> /dev/null) ]]; do sleep 0.01; done
expect 2 dtn-data listops --output shared --seed 5 "${small[@]}"
expect_text 'another process is writing shared'
kill -INT "$first"
code=0
wait "$first" || code=$?
expect_equal "exit code of the first" "$code" 75

echo "refusals"
refused() {  # PATTERN OPTION...
  expect 2 dtn-data listops --output none --seed 5 "${@:2}"
  expect_text "$1"
  expect_no_file none
}
refused 'only 4400 different trees .* but 10004000 are requested' \
  --train 10000000 --min-length 3 --max-length 6
refused 'no length is above --min-length 500 and below --max-length 501' --max-length 501
refused '--max-depth 2 and --max-args 10 have at most 12 tokens' --max-depth 2
refused '--train is 0' --train 0
refused '--val is -1' --val -1
refused '--max-args is 1,' --max-args 1
refused 'depth' --max-depth deep
expect 2 dtn-data listops --seed 5
expect_text '--output is required'
expect 2 dtn-data listops --output none
expect_text '--seed is required'
