#!/usr/bin/env bash
# On a terminal, training shows a table with a row for each epoch. Training and evaluation draw a
# progress bar that fits the line and is removed at the end.
source "$(dirname "$0")/lib/common.sh"

tiny_config "$work/tiny.yaml"
cd "$work"
# There are fewer steps than images to evaluate: the training bar must always count steps.
python3 "$lib/terminal.py" "$bin/dtn-train" --config tiny.yaml --output run \
  --set schedule.epochs=null --set schedule.steps=6 --set train.eval_every=3 \
  --set train.log_every=2 --set data.size=4096 > screen.txt
tr '\r' '\n' < screen.txt | sed 's/\x1b\[[0-9;]*[mK]//g' > lines.txt
grep -q 'training \[#*\.*\] [1-6]/6  loss [0-9.]*  [0-9.]* images/s  left ' lines.txt ||
  fail "no bar with loss, rate and time left: $(head -c 2000 lines.txt)"
grep -q 'evaluating [0-9]*/[0-9]*' lines.txt || fail "no progress of the evaluation"
# A table of 80 columns replaces the log lines, which go to train.log.
grep -q '^     epoch      loss  val loss         lr       top-1     images/s          left$' lines.txt ||
  fail "no names of columns: $(head -c 2000 lines.txt)"
grep -Eq '^ +[0-9.]+/[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.e-]+ +[0-9.]+ %[* ] +[0-9.]+ +0.0 s$' lines.txt ||
  fail "no row of the last step"
if grep -Eq 'step 6/6|evaluation at step' lines.txt; then fail "log lines on a terminal"; fi
grep -q 'step 6/6 .*loss' run/train.log || fail "no step in train.log"
grep -q '\] evaluation at step 6 (val): top-1' run/train.log || fail "no evaluation in train.log"
grep -Eq '^best: +top-1 [0-9.]+ % at step [36]$' lines.txt || fail "no best figure at the end"
grep -q '^Next: dtn-eval --checkpoint run' lines.txt || fail "no next command at the end"
longest=$(grep '^training \[' lines.txt | wc -L)
((longest < 100)) || fail "a bar of $longest columns on a terminal of 100"
[[ -f run/summary.json ]] || fail "the run did not end"

python3 "$lib/terminal.py" "$bin/dtn-eval" --checkpoint run/checkpoints/last > screen.txt
grep -q 'evaluating' screen.txt || fail "dtn-eval shows no progress"
grep -q 'top-1 ' screen.txt || fail "dtn-eval prints no result"

# The best figure is green and an error is red; NO_COLOR and dumb terminals give no colours.
again=(python3 "$lib/terminal.py" "$bin/dtn-train" --config tiny.yaml --set schedule.epochs=null
  --set schedule.steps=1)
env -u NO_COLOR TERM=xterm "${again[@]}" --output green > screen.txt
grep -q $'\033\[32m *[0-9.]* %\*\033\[0m' screen.txt || fail "the best figure has no colour"
env -u NO_COLOR TERM=xterm "${again[@]}" --output green > screen.txt && fail "a full folder is no error"
grep -q $'\033\[[0-9;]*merror: output folder green is not empty' screen.txt || fail "an error has no colour"
NO_COLOR=1 TERM=xterm "${again[@]}" --output plain > screen.txt
TERM=dumb "${again[@]}" --output dumb >> screen.txt
if grep -q $'\033\[[0-9;]*m' screen.txt; then fail "colour in spite of NO_COLOR or a dumb terminal"; fi

# Help is wrapped at the width of the terminal, and at 80 columns in a pipe.
for command in train eval predict sample average export analyze plot sweep info data bench; do
  widest=$("$bin/dtn-$command" --help | grep -v '^  dtn' | wc -L)
  ((widest <= 80)) || fail "dtn-$command --help has a line of $widest columns"
done
