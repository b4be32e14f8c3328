#!/usr/bin/env bash
# Figures of a collection of sweeps: dtn-analyze makes them once, when their runs are finished. The
# page shows them. A figure that fails does not affect the tables.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
cat > norms.yaml << 'EOF'
base: tiny.yaml
seeds: [0]
set: {schedule.steps: 6, train: {eval_every: 0, log_norms: 2}}
variants:
  - {name: ln, label: "ViT, LN", set: {model.norm: ln}}
  - {name: dtn, set: {model.norm: dtn}}
EOF
cat > again.yaml << 'EOF'
base_sweep: norms.yaml
only: [dtn]
EOF
collection() { # FIGURE...: writes all.yaml with these entries
  {
    echo 'title: "All of it"'
    echo 'sweeps:'
    printf '  - %s\n' "$@" norms.yaml again.yaml
  } > all.yaml
}
distance='{title: Distance, figure: distance, analyze: [norms/ln, again/dtn], images: 8,
     pictures: [attention_distance, p_norm3]}'
start='{title: Start, figure: start, analyze: [norms/dtn], before: true, images: 8, pictures: [p_norm1]}'
drawings='{title: Drawings, figure: drawings, illustrations: true}'
sweep=(dtn-sweep --config all.yaml --device cpu --output all)

echo "--dry-run"
collection "$distance" "$start" "$drawings"
expect 0 "${sweep[@]}" --dry-run
expect_text '^distance: waits for 1 run of norms and 1 run of again$' '^start: waits for 1 run of norms$' \
  '^drawings: ready$' '^output: all/figures/start$'
expect_no_file all

echo "figures of a whole collection"
expect 0 "${sweep[@]}"
expect_text 'drawings: drawing illustrations; log in all/figures/drawings/analyze.log' \
  'distance: analyzing 2 runs' 'start: analyzing 1 run;'
expect_no_file all/again/dtn
for file in distance/analysis.json distance/report.html distance/figures/attention_distance.svg \
  start/figures/p_norm1.svg drawings/figures/illustration_p.svg; do
  expect_file "all/figures/$file"
done
python3 - << 'EOF' || fail "figures and page"
import json, re
found = json.load(open("all/figures/distance/analysis.json"))
assert found["inputs"]["count"] == 8
names = [c["name"] for c in found["checkpoints"]]
assert names == ["ViT LN", "dtn"], names  # without the comma, because commas separate names
sources = [c["source"] for c in found["checkpoints"]]
assert sources == ["all/norms/ln/seed-0", "all/norms/dtn/seed-0"], sources
start = json.load(open("all/figures/start/analysis.json"))["checkpoints"]
assert [c["step"] for c in start] == [0, 6] and start[0]["before_training_of"] == 1
page = open("all/all.html").read()
shown = re.findall(r'<figure id="([^"]*)"', page)
assert shown == ["distance-attention_distance", "start-p_norm1", "drawings-illustration_p",
                 "drawings-illustration_positions", "norms", "again"], shown
assert len(set(shown)) == len(shown)
assert "dtn-analyze did not draw p_norm3 for these runs." in page
assert "Figures made from the runs: 3 of 3." in page
assert "Runs: norms/ln:0, again/dtn:0." in page
EOF

echo "figures are made again only from other inputs"
expect 0 "${sweep[@]}"
if grep -qE 'analyzing|drawing' "$log"; then fail "a figure was made again"; fi
expect 0 "${sweep[@]}" --dry-run
expect_text '^distance: made$' '^drawings: made$' '^All of it: 0 runs left'
collection "${distance/images: 8/images: 9}" "$start" "$drawings"
expect 0 "${sweep[@]}" --only start
if grep -qE 'analyzing' "$log"; then fail "a figure that was not asked for was made"; fi
expect 0 "${sweep[@]}" --only distance
expect_text 'distance: analyzing 2 runs'
if grep -qE 'start: analyzing' "$log"; then fail "a figure was made again"; fi

echo "a failing figure"
collection "$distance" '{title: Bad, figure: bad, analyze: [norms/dtn], token: 999}' "$start" "$drawings"
rm -r all/figures/start all/norms/ln
expect 1 "${sweep[@]}"
expect_text 'bad: dtn-analyze failed with exit code 2; see all/figures/bad/analyze.log' \
  'ln:0 starts' 'start: analyzing' 'distance: analyzing 2 runs'
grep -q -- '--token 999' all/figures/bad/analyze.log || fail "the log does not say why"
for file in norms/table.md again/table.md figures/start/report.html figures/distance/report.html; do
  expect_file "all/$file"
done
grep -q 'Not made yet: failed (2), will be retried' all/all.html || fail "the page hides a failure"
expect 0 "${sweep[@]}" --dry-run
expect_text '^bad: failed \(2\), will be retried; see figures/bad/analyze.log$'
expect 1 "${sweep[@]}"
expect_text 'bad: analyzing 1 run'
collection "$distance" "$start"
expect 0 "${sweep[@]}"

echo "runs of which only the results are kept"
expect 0 "${sweep[@]}" --results kept
rm -r all
expect 0 "${sweep[@]}" --results kept --dry-run
expect_text '^start: needs the weights of norms/dtn:0, of which only the results are there$'

echo "mistakes"
collection '{title: T, figure: f, analyze: [norms/lm]}'
expect 2 "${sweep[@]}"
expect_text "all.yaml:3:37: analyze: the sweep norms has no variant 'lm'"
collection "$distance"
expect 2 "${sweep[@]}" --only distence
expect_text 'no such sweep or figure; it has distance, norms, again'
