# Sourced by the tests of jobs of several processes, after tests/e2e/lib/common.sh.

if ! command -v mpirun > /dev/null || [[ ! -e $bin/../lib/dtn/dtn_mpi.so ]]; then
  echo "skipped: this build has no MPI, or there is no mpirun"
  exit 77
fi
# Allows mpirun to run as root, as in containers, and with more processes than cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none

# expect_ranks CODE N PROGRAM...: `expect` for a job of N processes.
expect_ranks() {
  local wanted=$1 n=$2 got=0
  shift 2
  timeout 300 mpirun -n "$n" "$bin/$1" "${@:2}" > "$log" 2>&1 < /dev/null || got=$?
  checks=$((checks + 1))
  ((got == wanted)) && return
  sed 's/^/  | /' "$log" >&2
  fail "$n processes of '$*' exited with $got, expected $wanted"
}

# Prints the distance of the weights of two checkpoints, relative to their norm, in units of 1e-9.
distance() { python3 "$(dirname "${BASH_SOURCE[0]}")/distance.py" "$1" "$2"; }

# pair CODE OPTIONS-OF-ONE -- OPTIONS-OF-THE-OTHER: one job of two processes with different options.
pair() {
  local wanted=$1 got=0 first=()
  shift
  while [[ $1 != -- ]]; do
    first+=("$1")
    shift
  done
  shift
  timeout 60 mpirun -n 1 "$bin/dtn-train" "${first[@]}" --output "$work/pair" : \
    -n 1 "$bin/dtn-train" "$@" --output "$work/pair" > "$log" 2>&1 || got=$?
  expect_equal "exit code of $*" $got "$wanted"
  rm -rf "$work/pair"
}

# --- a job in the background ---

# Makes the reference run in $work/unbroken. Interrupted runs must end with the same bits.
run_unbroken() {
  tiny_config "$work/tiny.yaml"
  options=(--config "$work/tiny.yaml" --set data.size=160 --set train.batch_size=32
    --set model.image_size=32 --set model.embed_dim=48 --set schedule.steps=120
    --set train.checkpoint_every=2 --threads 1)
  expect_ranks 0 2 dtn-train "${options[@]}" --output "$work/unbroken"
}

expect_unbroken() {
  expect_ranks 0 2 dtn-train "${options[@]}" --output "$1" --resume auto
  expect_same_checkpoint "$1/checkpoints/last" "$work/unbroken/checkpoints/last"
  expect_same_checkpoint "$1/checkpoints/best" "$work/unbroken/checkpoints/best"
  expect_same_metrics "$1" "$work/unbroken"
  expect_no_leftovers "$1"
}

lines() { if [[ -e $1/metrics.jsonl ]]; then wc -l < "$1/metrics.jsonl"; else echo 0; fi; }

# start OUTPUT N LAUNCHER...: starts a job with ${options[@]} and writes its output to $log. Returns
# when the run in OUTPUT has N more lines in its metrics, or the job has ended.
start() {
  local run=$1 further=$2
  shift 2
  # Background jobs of a shell ignore SIGINT by default.
  env --default-signal=INT "$@" "${options[@]}" --output "$run" --resume auto \
    > "$log" 2>&1 < /dev/null &
  job=$!
  local begun
  begun=$(lines "$run")
  for _ in {1..3000}; do
    if (($(lines "$run") >= begun + further)) || ! kill -0 $job 2> /dev/null; then return; fi
    sleep 0.01
  done
  fail "the job made no $further steps in 30 s: $(cat "$log")"
}

# The processes of the run in $1, in the order of their ranks on this machine.
ranks_of() { pgrep -f "^$bin/dtn-train .*$1( |/|\$)" | sort -n; }

# ended WITHIN: waits for the job and stores its exit code in $code. If the job has not ended after
# WITHIN seconds, shows its remaining processes and fails.
ended() {
  local before=$SECONDS
  code=0
  checks=$((checks + 1))
  while kill -0 $job 2> /dev/null; do
    if ((SECONDS - before > $1)); then
      cat "$log"
      ps -eo pid,ppid,stat,wchan:24,etime,args | grep -E "PID|[m]pirun|$work" | cut -c1-160
      fail "the job has not ended in $1 s; its output and what runs of it are above"
    fi
    sleep 0.05
  done
  wait $job || code=$?
  job=  # another process may have this id from now on
}

clean_up() {
  local left
  mapfile -t left < <(ranks_of "$work")
  if [[ ${job:-} ]]; then left+=("$job"); fi
  if ((${#left[@]} > 0)); then kill -KILL "${left[@]}" 2> /dev/null || true; fi
}
