#!/usr/bin/env bash
# dtn-sweep: the tables do not depend on kills, stops or parallel runs; a failing run does not stop
# the other runs; unsuitable folders and files are refused.
source "$(dirname "$0")/lib/common.sh"

seed=${DTN_TEST_SEED:-$RANDOM}
RANDOM=$seed
echo "random seed $seed (repeat with DTN_TEST_SEED)"

tiny_config "$work/tiny.yaml"
cd "$work"
cat > norms.yaml << 'EOS'
title: "Tiny: two normalizers"
base: tiny.yaml
set: {schedule.steps: 300, train: {eval_every: 100, checkpoint_every: 75}, optim.lr: 5.0e-3}
seeds: [0, 1]
milestones: [50, 100]
baseline: ln
notes: "Tiny models | on noise."
variants:
  - name: ln
    label: LayerNorm
    set: {model.norm: ln}
    paper: {top1: 80.6, top5: 95.2, params: 27.8M, flops: 5.77G}
  - {name: dtn, set: {model.norm: dtn}, paper: 81.7}
EOS
sweep=(dtn-sweep --config norms.yaml --device cpu)

# Two sweeps must give the same numbers, except for the speed.
expect_same_tables() {
  check "the tables of $1 and $2 differ" "$1" "$2" << 'EOS'
tables = []
for folder in sys.argv[1:]:
    table = json.load(open(folder + "/table.json"))
    for variant in table["variants"]:
        assert variant.pop("images_per_second") > 0
    tables.append(table)
    assert {os.path.exists(f"{folder}/table.{kind}") for kind in ("md", "csv")} == {True}
found, wanted = tables
assert found == wanted, f"{found}\n{wanted}"
EOS
  cmp "$1/curves.svg" "$2/curves.svg" >&2 || fail "the curves of $1 and $2 differ"
  expect_no_leftovers "$1"
}

echo "--dry-run"
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text '^ln:0 +300 +[0-9]+ +[0-9.]+ s  to do$' '^dtn:1 ' '4 runs left, about .* --jobs 1' \
  '^note: Tiny models \| on noise\.$'
expect_no_file whole

echo "a whole sweep"
start=$(date +%s%N)
expect 0 "${sweep[@]}" --output whole
whole_ms=$((($(date +%s%N) - start) / 1000000))
expect_text 'ln:0 starts, 300 steps' 'dtn:1 done: top-1 .*; 4 of 4 runs, left 0.0 s' \
  '^\| LayerNorm +\| +[0-9.]+ ± [0-9.]+ '
expect_equal "last steps in the log of a run" \
  "$(grep -c 'step 300/300' whole/ln/seed-0/train.log)" 1
check "the tables of a whole sweep" "$(hostname)" << 'EOS'
table = json.load(open("whole/table.json"))
assert [v["name"] for v in table["variants"]] == ["ln", "dtn"]
means = []
for v in table["variants"]:
    values = []
    for s in 0, 1:
        run = f"whole/{v['name']}/seed-{s}"
        config = open(run + "/config.yaml").read()
        assert f"name: norms-{v['name']}\nseed: {s}\n" in config and "steps: 300" in config, config
        assert "type: " + v["name"] in config
        values.append(json.load(open(run + "/summary.json"))["top1"])
    assert v["values"] == [{"seed": s, "value": values[s]} for s in (0, 1)], v
    assert v["n"] == 2 and abs(v["mean"] - sum(values) / 2) < 1e-9, v
    assert abs(v["std"] - abs(values[0] - values[1]) / 2**0.5) < 1e-9, v
    assert abs(v["difference"] - (v["mean"] - v["paper"])) < 1e-9, v
    for milestone in v["milestones"]:
        epochs = []
        for s in 0, 1:
            lines = [json.loads(l) for l in open(f"whole/{v['name']}/seed-{s}/metrics.jsonl")]
            curve = [(l["epoch"], l["top1"]) for l in lines if l.get("split") == "val"]
            if curve[0][1] >= milestone["top1"]:
                epochs.append(curve[0][0])
                continue
            for (a, x), (b, y) in zip(curve, curve[1:]):
                if x < milestone["top1"] <= y:
                    epochs.append(a + (b - a) * (milestone["top1"] - x) / (y - x))
                    break
        assert milestone["reached"] == len(epochs), (milestone, epochs)
        if epochs:
            assert abs(milestone["epochs"] - sum(epochs) / len(epochs)) < 1e-9, (milestone, epochs)
    means.append(v["mean"])
assert abs(table["variants"][1]["to_baseline"] - (means[1] - means[0])) < 1e-9
ln, dtn = table["variants"]
top5 = [json.load(open(f"whole/ln/seed-{s}/summary.json"))["top5"] for s in (0, 1)]
assert abs(ln["figures"]["top5"]["mean"] - sum(top5) / 2) < 1e-9, ln["figures"]
assert ln["figures"]["top5"]["paper"] == 95.2 and dtn["figures"]["top5"]["paper"] is None
assert (ln["paper_parameters"], ln["paper_multiply_adds"]) == (27800000, 5770000000), ln
assert "paper_parameters" not in dtn and type(ln["multiply_adds"]["dense"]) is int
assert dtn["multiply_adds"]["dense"] > ln["multiply_adds"]["dense"] > 0
assert table["notes"] == ["Tiny models | on noise."]
text = open("whole/table.md").read()
assert "\n- Tiny models | on noise.\n" in text, text
row = next(line for line in text.splitlines() if line.startswith("| LayerNorm"))
assert "(95.20) |" in row and "k (27.8 M) |" in row and "(5.77 G) |" in row, row
for private in os.getcwd(), "/tmp/", sys.argv[1] + "/", "whole/":
    for name in "table.md", "table.json", "table.csv", "curves.svg":
        assert private not in open("whole/" + name).read(), (private, name)
assert "dtn-sweep --config norms.yaml --device cpu" in text, text
assert "synthetic images; vit_t at 16 x 16" in text and "300 steps" in text, text
EOS
expect 0 "${sweep[@]}" --output whole
expect_text '4 runs, 4 finished'
if grep -q starts "$log"; then fail "a finished run was run again"; fi
expect 0 "${sweep[@]}" --output whole --dry-run
expect_text '^ln:0 +300 .*  finished$' 'nothing is left to do'

echo "results that are kept"
expect 0 "${sweep[@]}" --output whole --results kept
expect 0 "${sweep[@]}" --output elsewhere --results kept
expect_text '4 runs, 4 finished'
if grep -q starts "$log"; then fail "a run was run again whose result is kept"; fi
expect_same_tables elsewhere whole
expect_same_tables kept whole
expect_no_file elsewhere/ln
expect 0 "${sweep[@]}" --output absent --results kept --dry-run
expect_text 'nothing is left to do'
expect 2 "${sweep[@]}" --output kept --results kept
expect_text '--results and --output are the same folder'
expect 2 "${sweep[@]}" --output other --results kept --set optim.lr=0.125
expect_text 'ln:0 was run with another config: optim.lr is 0.125'

echo "pictures, with rsvg-convert and without"
if command -v rsvg-convert > /dev/null; then
  for picture in values curves; do
    expect_equal "the start of $picture.png" "$(head -c 4 whole/$picture.png | tail -c 3)" PNG
  done
  rm whole/*.png
fi
code=0
PATH=$work/absent "$bin/${sweep[0]}" "${sweep[@]:1}" --output whole > "$log" 2>&1 || code=$?
expect_equal "exit code without rsvg-convert" $code 0
expect_equal "lines about it" "$(grep -c 'only SVG figures to whole: .*librsvg2-bin' "$log")" 1
expect_no_file whole/curves.png
expect_file whole/curves.svg
expect_file whole/values.svg

echo "killed"
# A killed sweep ends its runs too. A sweep whose run is killed continues with the other runs.
running() { pgrep -f -- "--output killed/" || true; }
kills=0
for victim in sweep sweep sweep run run; do
  "$bin/${sweep[0]}" "${sweep[@]:1}" --output killed --jobs 2 > "$log" 2>&1 < /dev/null &
  pid=$!
  ms=$((30 + RANDOM % (whole_ms / 8 + 1)))
  sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
  target=$pid
  if [[ $victim == run ]]; then
    for _ in {1..50}; do  # until a run exists
      target=$(pgrep -P $pid dtn-train | head -1) || true
      if [[ -n $target ]] || ! kill -0 $pid 2> /dev/null; then break; fi
      sleep 0.02
    done
  fi
  # The last runs may be done before the kill.
  if [[ -z $target ]] || ! kill -9 "$target" 2> /dev/null; then
    wait $pid || true
    continue
  fi
  code=0
  wait $pid 2> /dev/null || code=$?
  # The killed run may have been about to end. Then every run that was started is done.
  if [[ $victim == run && $code == 0 ]]; then
    expect_equal "runs that are done" "$(grep -c ' done: ' "$log")" \
      "$(grep -cE ' starts,| continues at step ' "$log")"
    continue
  fi
  kills=$((kills + 1))
  if [[ $victim == run ]]; then
    expect_equal "exit code after a run was killed" $code 1
    expect_text '(ln|dtn):[01] failed with signal 9' 'failed runs .*\(137\)'
    continue
  fi
  expect_equal "exit code after kill -9" $code 137
  for _ in {1..50}; do
    [[ -z $(running) ]] && break
    sleep 0.02
  done
  expect_equal "runs that outlived their sweep" "$(running)" ""
done
echo "$kills kills"
if ((kills < 3)); then fail "only $kills of 5 were still there to be killed"; fi
expect 0 "${sweep[@]}" --output killed --jobs 2
expect_same_tables killed whole

echo "stopped by signals, and two at once"
# One stop as soon as a run starts; then two stops during the run.
for stop in "TERM lines:2:$log" INT\ lines:{50,10}:stopped/ln/seed-0/metrics.jsonl; do
  code=0
  # shellcheck disable=SC2086
  python3 "$lib/interrupt.py" $stop "$bin/${sweep[0]}" "${sweep[@]:1}" --output stopped \
    > "$log" 2>&1 || code=$?
  expect_equal "exit code after SIG$stop" $code 75
  expect_text 'stopping: 1 run saves a checkpoint' 'stopped; run the same command again to continue'
  if [[ $stop == *:50:* ]]; then expect_text 'ln:0 stopped at step [1-9]'; fi
done
expect_text 'ln:0 continues at step [1-9]'
expect 0 "${sweep[@]}" --output stopped
expect_same_tables stopped whole

: > first.txt
long=("${sweep[@]:1}" --output long --set schedule.steps=100000)
"$bin/${sweep[0]}" "${long[@]}" > first.txt 2>&1 < /dev/null &
pid=$!
for _ in {1..500}; do
  grep -q starts first.txt && break
  sleep 0.02
done
expect 2 "${sweep[0]}" "${long[@]}"
expect_text 'long: another dtn-sweep is running in this folder'
kill -TERM $pid
code=0
wait $pid || code=$?
expect_equal "exit code of the first of two" $code 75

echo "--only, and a progress line on a terminal"
python3 "$lib/terminal.py" "$bin/${sweep[0]}" "${sweep[@]:1}" --output only --only ln:1 > "$log"
expect_text $'\r\033\\[Ksweep \\[[#.]*\\] 0/1 runs  ln:1 [0-9]+ %  left '
expect 0 "${sweep[@]}" --output only --only ln:1
expect_text '1 of 1 runs finished' '^\| LayerNorm .* 1 of 2 \|$' '^\| dtn .* 0 of 2 \|$'
expect_equal "runs of --only ln:1" "$(echo only/*/*)" only/ln/seed-1
expect 2 "${sweep[@]}" --output only --only ln:7
expect_text 'no such variant or run; the sweep has ln, dtn, ln:0'

echo "a run that fails"
cat > bad.yaml << 'EOS'
base_sweep: norms.yaml
seeds: [0]
set: {schedule.steps: 6}
only: [ln, bad]
variants:
  - {name: bad, set: {optim: {name: sgd, lr: 1.0e+38, clip_grad_norm: null}, train.ema: null,
                      train.checkpoint_every: 1}}
EOS
for begins in 'starts' 'continues at step 1' 'continues at step 1'; do  # only step 1 is finite
  expect 1 dtn-sweep --config bad.yaml --output bad
  expect_text "bad:0 $begins, 6 steps"
  expect_text 'bad:0 failed with exit code 4: training diverged' 'failed runs .*: bad:0 \(4\)' \
    '1 of 2 runs finished'
done
expect_text '2 runs, 1 finished'
check "the table of a failed run" << 'EOS'
ln, bad = json.load(open("bad/table.json"))["variants"]
assert ln["n"] == 1 and ln["std"] is None and ln["failures"] == []
assert bad["n"] == 0 and bad["mean"] is None and bad["failures"][0]["code"] == 4, bad
text = open("bad/table.md").read()
assert re.search(r"^\| bad +\| +failed \|", text, re.M) and "`bad`, seed 0: failed with exit" in text
assert "finite loss is bad/seed-0/checkpoints/step-00000001. " in text, text
assert "The checkpoint after it is now bad/seed-0/checkpoints/diverged-step-00000002. " in text, text
summary = json.load(open("bad/bad/seed-0/summary.json"))
assert summary["diverged"] is True, summary
assert summary["last_checkpoint"] == "checkpoints/step-00000001", summary
EOS
expect 1 dtn-sweep --config bad.yaml --output bad-first --only bad,ln --no-keep-going \
  --set optim.lr=1e38 --set optim.name=sgd --set optim.clip_grad_norm=null
expect_text '0 of 2 runs finished'
expect_no_file bad-first/bad

echo "a collection"
cat > again.yaml << 'EOS'
title: "The same again, and one more"
base_sweep: norms.yaml
seeds: [0]
evaluate: [imagenet-r]
variants:
  - {name: bn, set: {model.norm: bn}, paper_suites: {imagenet-r: 30}}
EOS
cat > all.yaml << 'EOS'
title: "All <tables>"
sweeps:
  - norms.yaml
  - {title: "Table 4", not_yet: "sequences"}
  - title: "Table 7b"
    costs: {base: tiny.yaml, norms: [{norm: ln, parameters: 2C}, {norm: dtn}], notes: "by layer"}
  - again.yaml
EOS
expect 0 dtn-sweep --config all.yaml --output all --device cpu --dry-run
expect_text 'again$|The same again' 'ln:0 .* the same as norms/ln:0' 'not yet: sequences' \
  '^Table 7b$' '^\| ln +\| +[0-9]+ \(2C\) \|' '^note: by layer$' \
  'All <tables>: 5 runs left, about'
expect_no_file all
expect 0 dtn-sweep --config all.yaml --output all --results kept-all --device cpu
expect_text 'sweep norms: 4 runs, 0 finished' 'sweep again: 3 runs, 2 finished' \
  'skipping imagenet-r: name its folder with --suite-root imagenet-r=DIR'
expect_no_file all/again/ln
expect_file kept-all/again/ln/seed-0/summary.json
grep -q 'All &lt;tables&gt;' all/all.html || fail "the title is not in the page"
grep -q '<p>by layer</p>' all/all.html || fail "the page has no table of costs"
grep -q '<p>Tiny models | on noise.</p>' all/all.html || fail "the page has no notes"
grep -q 'Not yet: sequences' all/all.html || fail "the page is silent about a table"
cmp all/all.html kept-all/all.html || fail "the pages differ"
expect 0 dtn-sweep --config all.yaml --output elsewhere-all --results kept-all --device cpu
if grep -q starts "$log"; then fail "a run was run again whose result is kept"; fi
expect 0 dtn-sweep --config all.yaml --output all --device cpu --only again
expect 2 dtn-sweep --config all.yaml --output all --device cpu --only table1
expect_text 'the collection has no such sweep or figure; it has norms, again'

echo "refused"
expect 2 "${sweep[@]}" --output whole --set optim.lr=1e-3
expect_text 'ln:0 was run with another config: optim.lr is 0.001, was 0.005; delete whole/ln/seed-0'
expect 2 "${sweep[@]}" --output whole --set optim.lr=1e-3 --dry-run
mkdir thesis && touch thesis/chapter1
expect 2 "${sweep[@]}" --output thesis
expect_text 'thesis: contains files but no sweep'
expect_equal "files of a folder that is not ours" "$(ls -A thesis)" chapter1
expect 2 "${sweep[@]}" --output norms.yaml
expect_text 'is a file'
expect 2 "${sweep[@]}" --output never --set model.norm.type=lm
expect_text "model.norm.type=lm: .*\(variant 'ln'\)"
expect 2 dtn-sweep --config no_such_sweep --output never
expect 2 dtn-sweep --output never
expect 2 "${sweep[@]}" --output never --jobs 0
expect 2 dtn-sweep --config tiny.yaml --output never
expect_text 'tiny.yaml:[0-9]+:1: unknown key'
expect 2 "${sweep[@]}" --output never --device tpu
expect 3 "${sweep[@]}" --output never-ran --set data.dataset=idx --set data.root="$work/absent"
expect_no_file never
expect_no_file never-ran/ln
expect 0 dtn-sweep --help
expect_text --config --output --set --only --jobs --threads --device --dry-run 'Exit codes'
