#!/usr/bin/env bash
# On a terminal, training and evaluation draw a progress bar that fits the line and ends clean.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
# Fewer steps than images to evaluate: the bar counts steps all along.
python3 "$lib/terminal.py" "$bin/dtn-train" --config tiny.yaml --output run \
  --set schedule.epochs=null --set schedule.steps=6 --set train.eval_every=3 \
  --set train.log_every=2 --set data.size=4096 > screen.txt
tr '\r' '\n' < screen.txt | sed 's/\x1b\[[0-9;]*[mK]//g' > lines.txt
grep -q 'training \[#*\.*\] [1-6]/6  loss [0-9.]*  [0-9.]* images/s  left ' lines.txt ||
  fail "no bar with loss, rate and time left: $(head -c 2000 lines.txt)"
grep -q 'evaluating [0-9]*/[0-9]*' lines.txt || fail "no progress of the evaluation"
longest=$(grep '^training \[' lines.txt | wc -L)
((longest < 100)) || fail "a bar of $longest columns on a terminal of 100"
[[ -f run/summary.json ]] || fail "the run did not end"

python3 "$lib/terminal.py" "$bin/dtn-eval" --checkpoint run/checkpoints/last > screen.txt
grep -q 'evaluating' screen.txt || fail "dtn-eval shows no progress"
grep -q 'top-1 ' screen.txt || fail "dtn-eval prints no result"

evaluate=(python3 "$lib/terminal.py" "$bin/dtn-eval" --checkpoint run/checkpoints/last)
env -u NO_COLOR TERM=xterm "${evaluate[@]}" > screen.txt
grep -q $'\033\[3[0-9]*m' screen.txt || fail "no colour on a terminal"
NO_COLOR=1 TERM=xterm "${evaluate[@]}" > screen.txt
if grep -q $'\033\[[0-9;]*m' screen.txt; then fail "colour in spite of NO_COLOR"; fi
