# Sourced by the tests of jobs of several processes, behind end-to-end's common.sh.

if ! command -v mpirun > /dev/null || [[ ! -e $bin/../lib/dtn_mpi.so ]]; then
  echo "skipped: this build has no MPI, or there is no mpirun"
  exit 77
fi
# Tests run as root in containers, and on fewer cores than they start processes.
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

# How far the weights of two checkpoints are apart, as a share of their norm, in units of 1e-9.
distance() { python3 "$(dirname "${BASH_SOURCE[0]}")/distance.py" "$1" "$2"; }
