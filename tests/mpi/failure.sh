#!/usr/bin/env bash
# If one process fails, the job ends and names the reason, and a later job continues the run.
# (kill.sh tests killed processes.)
source "$(dirname "$0")/../e2e/lib/common.sh"
source "$(dirname "$0")/lib/ranks.sh"

# expect_one_message PATTERN: one process reports the error. mpirun may repeat it below its banner.
expect_one_message() {  # PATTERN
  expect_equal "processes that say '$1'" \
    "$(grep "$1" "$log" | cut -d' ' -f3- | sort -u | wc -l)" 1
}

run_unbroken

# If mpirun hangs after its processes have ended, dtn-mpirun kills it and ends.
mkdir "$work/hanging"
cat > "$work/hanging/mpirun" << 'EOF'
#!/usr/bin/env bash
"$@" &
exec sleep 1000
EOF
chmod +x "$work/hanging/mpirun"
PATH=$work/hanging:$PATH bash "$bin/dtn-mpirun" sleep 2 > "$log" 2>&1 &
job=$!
ended 30
expect_equal "exit code of dtn-mpirun when mpirun hangs" $code 1
expect_text 'killing mpirun: its processes have ended but it has not'

# A signal to the launcher gives one checkpoint and exit code 75.
for signal in TERM INT USR1; do
  start "$work/stopped" 7 bash "$bin/dtn-mpirun" -n 2 "$bin/dtn-train"
  kill -$signal $job
  ended 30
  expect_equal "exit code of dtn-mpirun after SIG$signal" $code 75
  expect_text 'stopped by a signal at step [0-9]+; checkpoint in .*step-[0-9]{8}'
  expect_equal "SIG$signal: checkpoints written by it" "$(grep -c 'stopped by' "$log")" 1
done
start "$work/stopped" 7 mpirun -n 2 "$bin/dtn-train"
kill -USR1 $job
ended 30
expect_equal "exit code of mpirun after SIGUSR1" $code 75
expect_unbroken "$work/stopped"
# mpirun gives its processes one second, which is too short only on a busy machine: hence three
# attempts. The exit code of mpirun gives no information.
for attempt in {1..3}; do
  start "$work/terminated" 7 mpirun -n 2 "$bin/dtn-train"
  kill -TERM $job
  ended 30
  if grep -q 'stopped by a signal at step' "$log"; then break; fi
done
expect_text 'stopped by a signal at step'
expect_unbroken "$work/terminated"

# A stopped process is detected and named, whichever rank it has.
for rank in 0 1; do
  start "$work/frozen" 5 mpirun -n 2 "$bin/dtn-train" --rank-timeout 3
  mapfile -t processes < <(ranks_of "$work/frozen")
  kill -STOP "${processes[rank]}"
  ended 20
  expect_equal "exit code with rank $rank stopped" $code 1
  expect_text "error: .*rank $rank on .*, process ${processes[rank]} has not responded for [3-9] s"
done
expect_unbroken "$work/frozen"

# Processes with different options or data.
fashion=(--config fashion_mnist_dtn --set schedule.epochs=null --set schedule.steps=2)
pair 2 "${fashion[@]}" -- "${fashion[@]}" --set optim.lr=0.1
expect_text 'error: the config of rank 1 on .* differs from that of rank 0'
pair 3 "${fashion[@]}" -- "${fashion[@]}" --set data.root=/nowhere
expect_text 'rank 1: error: .*/nowhere'
mkdir "$work/other"
for kind in images-idx3 labels-idx1; do
  for split in train t10k; do
    ln -s "/usr/share/datasets/fashion-mnist/t10k-$kind-ubyte.gz" "$work/other/$split-$kind-ubyte.gz"
  done
done
pair 3 "${fashion[@]}" -- "${fashion[@]}" --set data.root="$work/other"
expect_text 'error: the images of rank 1 on .* differ from those of rank 0 on .* \(60000 '

# An evaluation also refuses processes with different sets of images.
got=0
eval=("$bin/dtn-eval" --checkpoint "$work/unbroken")
timeout 60 mpirun -n 1 "${eval[@]}" : -n 1 "${eval[@]}" --set data.size=61 > "$log" 2>&1 || got=$?
expect_equal "exit code of two evaluations" $got 2
expect_text 'the config of rank 1 on .* differs from that of rank 0'

# A job whose processes are all suspended, as by a scheduler, continues after they resume.
start "$work/suspended" 5 mpirun -n 2 "$bin/dtn-train" --rank-timeout 3
mapfile -t processes < <(ranks_of "$work/suspended")
kill -STOP "${processes[@]}"
sleep 7
kill -CONT "${processes[@]}"
ended 60
expect_equal "exit code of a job that was suspended" $code 0
expect_same_checkpoint "$work/suspended/checkpoints/last" "$work/unbroken/checkpoints/last"

# A run that diverges ends on all processes, with one message.
expect_ranks 4 2 dtn-train "${options[@]}" --set optim.lr=1e30 --set optim.clip_grad_norm=null \
  --set schedule.warmup_epochs=0 --output "$work/diverged"
expect_text 'training diverged' 'skipped the update'
expect_one_message 'training diverged'
# The message names the newest checkpoint with a finite loss, and `last` is this checkpoint.
cp -r "$work/unbroken" "$work/later"
expect_ranks 4 2 dtn-train "${options[@]}" --set optim.lr=1e30 --set optim.clip_grad_norm=null \
  --set schedule.steps=140 --output "$work/later" --resume auto
expect_text "finite loss is $work/later/checkpoints/$(readlink "$work/later/checkpoints/last")\\."
expect_one_message 'training diverged'
expect 0 dtn-eval --checkpoint "$work/later/checkpoints/last" --json
grep -q '"loss": \?[0-9]' "$log" || fail "the loss of the last checkpoint is not finite"

# Programs and options that work in one process refuse to run in two.
expect_ranks 2 2 dtn-sweep --config fashion_mnist_table3 --output "$work/sweep"
expect_text 'dtn-sweep works in one process'
expect_one_message 'works in one process'
expect_ranks 2 2 dtn-eval --checkpoint "$work/unbroken" --save-logits "$work/logits.safetensors"
expect_text 'work in one process'
