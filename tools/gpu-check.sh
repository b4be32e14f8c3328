#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU; see --help and docs/gpu.md.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  cat << 'HELP'
tools/gpu-check.sh [OPTIONS]        builds, tests and measures the CUDA backend on this machine's GPU
tools/gpu-check.sh pack [FOLDER]    collects what the build needs, for a machine that has no network

Options
  --stage S ...     only these stages, in the order given, of build tests ranks sanitizer bench
                    peer, and peer:ln and peer:dtn for half of the last (default: all six)
  --quick           a short look: one sanitized test per suite, few timed steps, no torch.compile.
                    Its speeds are recorded as quick and not held against the bounds.
  --build-dir DIR   where to build (default: build-gpu)
  --deps DIR        what `pack` collected (default: .gpu-deps; the system's packages if absent)
  --limit SECONDS   no stage runs longer than this (default: 540)
  --commit HASH     what the ledger names as the commit where there is no git
  --out DIR         copies the ledger and the logs (logs.tar.gz) there in the end
  --help

Stages. Times are estimates for 16 cores and an H200; --limit is what is certain.
  build      4 min  cmake --preset cuda without oneDNN, for this GPU only: dtn-bench and the test
                    programs tests/gpu_*. Where nvidia-smi finds no GPU it builds for all the
                    architectures of CMakeLists.txt.
  tests      1 min  ctest -L gpu; a skipped test is not a passed one. gpu_dist exchanges memory by
                    NCCL, between as many GPUs as there are, up to three.
  ranks      1 min  dtn-train under mpirun: one rank, then two, on a GPU each; where there is one
                    GPU alone, two ranks must be refused with a message that says why. Left out,
                    with a remark, where there is no mpirun, MPI or NCCL.
  sanitizer  6 min  compute-sanitizer finds two planted faults, then memcheck and racecheck of
                    tests/gpu_kernels and memcheck of the other programs but gpu_dist, whose kernels
                    are NCCL's, without the caching allocator, suite by suite, four at a time;
                    racecheck of our kernels alone, not of cuBLASLt's. What --limit cuts off is
                    reported as not run; calling the stage again goes on from there.
  bench      3 min  dtn-bench norm, train, eval and gemm
  peer       6 min  tests/peers/gpu_speed.py: PyTorch, eager and compiled, between two runs of ours

A stage needs the build of the same sources, else it refuses; it needs no other stage. All but ranks
append their results to tests/gpu_ledger.json, where stages of several calls meet in one run. A
table of the requirements closes every call.

Needs: nvcc 13 with cuBLASLt, nccl.h, CMake 3.25, Ninja and g++ to build; a GPU of compute capability
8.0 or newer and libnccl.so.2 for the rest (where the system has no NCCL, PyTorch's will do);
compute-sanitizer; python3, with PyTorch 2 for `peer`. Root is not needed. Where
there is no network and no package manager, carry along the checkout and .gpu-deps, packed on a
Debian 12 that tools/install-deps.sh has been run on (less than 25 MiB).

Writes: the build folder (state and logs in DIR/gpu-check), tests/gpu_ledger.json, and what --out
names. Where calls run on copies of the checkout, bring gpu_ledger.json back after each, and take
it over with: python3 tests/gpu_ledger.py merge FILE

Exit codes: 0 every stage ran and its requirements are met; 1 a stage failed or missed a
requirement; 2 bad usage; 3 a stage could not run here, for the reason given.
HELP
}

say() { echo "gpu-check: $*"; }
bad_usage() {
  echo "gpu-check: $*; see --help" >&2
  exit 2
}
# Ends the stage that calls it.
cannot_run() {
  echo "gpu-check: $stage cannot run: $*" >&2
  exit 3
}

# ---- pack

# Debian's packages that the build takes headers, CMake packages and static libraries from. Where
# there is only a shared library (spdlog, fmt) the headers alone do.
packed=(libeigen3-dev libyaml-cpp-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev
  zlib1g-dev libstb-dev libjpeg62-turbo-dev libgtest-dev)

# Where a file of the system goes in the folder; empty for those that are not needed.
packed_path() {
  case $1 in
    */eigen3/unsupported/* | */libstb.a | */cmake/fmt/* | */cmake/libjpeg-turbo/*) ;;
    */spdlogConfig.cmake | */spdlogConfigTargets*) ;;
    /usr/include/stb/stb_image.h | /usr/include/stb/stb_image_write.h) echo "${1#/usr/}" ;;
    /usr/include/stb/*) ;;
    # Compilers know this folder below /usr only.
    "/usr/include/$multiarch/"*) echo "include/${1#"/usr/include/$multiarch/"}" ;;
    /usr/include/* | /usr/*/cmake/* | /usr/lib/*.a) echo "${1#/usr/}" ;;
  esac
}

# Debian's package for a shared spdlog, here for its headers.
write_spdlog_config() {
  cat > "$1/spdlogConfig.cmake" << 'CONFIG'
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET spdlog::spdlog)
  get_filename_component(prefix "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
  add_library(spdlog::spdlog INTERFACE IMPORTED)
  set_target_properties(spdlog::spdlog PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "SPDLOG_FMT_EXTERNAL;FMT_HEADER_ONLY=1"
    INTERFACE_INCLUDE_DIRECTORIES "${prefix}/include"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
CONFIG
}

# Fails when a build takes one of the libraries from elsewhere.
check_origin() {
  local cache=$1/CMakeCache.txt folder=$2 name value
  for name in Eigen3_DIR yaml-cpp_DIR spdlog_DIR nlohmann_json_DIR CLI11_DIR GTest_DIR \
    ZLIB_INCLUDE_DIR ZLIB_LIBRARY_RELEASE JPEG_INCLUDE_DIR JPEG_LIBRARY_RELEASE STB_INCLUDE_DIR; do
    value=$(sed -n "s|^$name:[A-Z]*=||p" "$cache")
    [[ $value == "$folder"/* ]] || {
      echo "gpu-check: $name is '$value', which is not in $folder" >&2
      return 1
    }
  done
}

pack() {
  local folder=${1:-.gpu-deps} package file to lib
  command -v dpkg > /dev/null || { say "pack needs Debian's packages, and finds no dpkg" >&2; exit 3; }
  mkdir -p "$(dirname "$folder")"
  folder=$(cd "$(dirname "$folder")" && pwd)/$(basename "$folder")
  if [[ -e $folder && ! -e $folder/packages.txt ]]; then
    bad_usage "pack: $folder exists and is not one that pack made"
  fi
  multiarch=$(g++ -print-multiarch)
  dpkg-query -W "${packed[@]}" > /dev/null || {
    say "pack: run tools/install-deps.sh first" >&2
    exit 3
  }
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  local new=$scratch/deps
  mkdir "$new"
  for package in "${packed[@]}"; do
    while read -r file; do
      to=$(packed_path "$file")
      if [[ -z $to || ! -f $file ]]; then continue; fi
      mkdir -p "$new/$(dirname "$to")"
      cp -L --preserve=timestamps "$file" "$new/$to"
    done < <(dpkg -L "$package")
  done
  lib=$new/lib/$multiarch
  write_spdlog_config "$lib/cmake/spdlog"
  # Debian's package names the shared library and ships the static one beside it.
  sed -i -e 's/add_library(yaml-cpp SHARED IMPORTED)/add_library(yaml-cpp STATIC IMPORTED)/' \
    -e 's/libyaml-cpp\.so[.0-9]*"/libyaml-cpp.a"/' -e '/IMPORTED_SONAME/d' \
    "$lib"/cmake/yaml-cpp/*.cmake
  if grep -rlE '_IMPORT_PREFIX\}[^"]*\.so' "$lib/cmake"; then
    say "pack: the CMake packages above name shared libraries" >&2
    exit 1
  fi
  # What CMake needs of the CUDA Toolkit and some installations lack: header files.
  local cuda=/usr/local/cuda/include
  if [[ -f $cuda/cublasLt.h ]]; then
    mkdir -p "$new/cuda/include"
    cp -L "$cuda/cublasLt.h" "$cuda/cublas_api.h" "$new/cuda/include/"
    cp -rL "$cuda/nvtx3" "$new/cuda/include/"
  fi
  if [[ -f $cuda/nccl.h ]]; then
    mkdir -p "$new/cuda/include"
    cp -L "$cuda/nccl.h" "$new/cuda/include/"
  fi
  dpkg-query -W "${packed[@]}" > "$new/packages.txt"
  rm -rf "$folder"
  mv "$new" "$folder"

  cmake -S . -B "$scratch/build" -G Ninja -DCMAKE_PREFIX_PATH="$folder" -DDTN_ONEDNN=OFF \
    > "$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
  check_origin "$scratch/build" "$folder"
  say "packed $folder: $(du -sh --apparent-size "$folder" | cut -f 1)," \
    "$(find "$folder" -type f | wc -l) files; CMake finds every library there"
}

# ---- what the stages share

require() { command -v "$1" > /dev/null || cannot_run "$1 is not installed${2:+ ($2)}"; }

find_tools() {
  local folder
  for folder in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/nvidia/compute-sanitizer; do
    if [[ -d $folder ]]; then PATH=$PATH:$folder; fi
  done
}

# A file of NVIDIA's packages for Python, which PyTorch brings along; nothing when there is none.
python_package_file() {
  command -v python3 > /dev/null || return 0
  python3 - "$1" << 'PYTHON'
import glob
import sys
found = [f for p in sys.path for f in glob.glob(p + "/nvidia/*/" + sys.argv[1])]
print(found[0] if found else "")
PYTHON
}

# Puts NCCL's library where programs find it: that of the system, the toolkit, or PyTorch.
find_nccl() {
  local file
  if ldconfig -p 2> /dev/null | grep -q 'libnccl\.so\.2'; then return; fi
  for file in /usr/local/cuda/lib64/libnccl.so.2 "$(python_package_file lib/libnccl.so.2)"; do
    if [[ -f $file ]]; then
      export LD_LIBRARY_PATH=${file%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
      return
    fi
  done
}

# A property of the first GPU; nothing when there is none.
ask_gpu() {
  local answer
  if answer=$(nvidia-smi --query-gpu="$1" --format=csv,noheader 2> /dev/null); then head -n 1 <<< "$answer"; fi
}

require_gpu() {
  require nvidia-smi "it comes with the driver"
  [[ -n $(ask_gpu name) ]] || cannot_run "nvidia-smi finds no GPU here"
}

# Seconds until `deadline`; one when it has passed, since timeout takes 0 for never.
seconds_left() { echo $((deadline > SECONDS ? deadline - SECONDS : 1)); }

# Test programs by folder: tests/cuda/<layer>/*_test.cpp becomes tests/gpu_<layer>.
test_programs() {
  local folder
  for folder in tests/cuda/*/; do
    if compgen -G "$folder*_test.cpp" > /dev/null; then echo "gpu_$(basename "$folder")"; fi
  done
}

ledger() { python3 tests/gpu_ledger.py "$@"; }

append() {
  local about=(--gpu "$(ask_gpu name)" --driver "$(ask_gpu driver_version)"
    --cuda "$(cat "$state/cuda-version")" --snapshot "$state/sources.json")
  if [[ -n $commit ]]; then about+=(--commit "$commit"); fi
  if ((quick)); then about+=(--quick); fi
  ledger append "${about[@]}" "$@"
}

# The build is that of the sources as they are now.
require_build() {
  local program
  require python3
  [[ -f $state/built ]] || cannot_run "there is no build in $build; run --stage build first"
  for program in bin/dtn-bench $(test_programs | sed 's|^|tests/|'); do
    [[ -x $build/$program ]] || cannot_run "$build/$program is not there; run --stage build first"
  done
  ledger snapshot | cmp -s - "$state/sources.json" ||
    cannot_run "$build was built from other sources; run --stage build first"
}

# ---- stages

stage_build() {
  local tool capability targets flags=(-DDTN_ONEDNN=OFF -DDTN_TESTS=ON -DDTN_CUDA_STRICT=OFF)
  require nvcc "CUDA Toolkit 13"
  for tool in cmake ninja g++ python3; do require "$tool"; done
  mkdir -p "$state"
  ledger snapshot > "$state/sources.new"
  if ! cmp -s "$state/sources.new" "$state/sources.json"; then rm -rf "$state/sanitizer"; fi
  rm -f "$state/built"
  mv "$state/sources.new" "$state/sources.json"
  nvcc --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p' > "$state/cuda-version"

  capability=$(ask_gpu compute_cap)
  if [[ -n $capability ]]; then flags+=(-DCMAKE_CUDA_ARCHITECTURES="${capability/./}-real"); fi
  if [[ -d $deps ]]; then flags+=(-DCMAKE_PREFIX_PATH="$deps"); fi
  mapfile -t -O "${#flags[@]}" flags < <(toolkit_flags)
  cmake --preset cuda -B "$build" "${flags[@]}" > "$state/configure.log" 2>&1 ||
    { tail -n 40 "$state/configure.log"; return 1; }
  if [[ -d $deps ]]; then check_origin "$build" "$deps"; fi
  mapfile -t targets < <(test_programs)
  if grep -q '^build lib/dtn/dtn_mpi.so' "$build/build.ninja"; then targets+=(dtn-train dtn_mpi); fi
  timeout "$limit" cmake --build "$build" --target dtn-bench "${targets[@]}" \
    > "$state/build.log" 2>&1 || { tail -n 60 "$state/build.log"; return 1; }
  touch "$state/built"
  say "built dtn-bench ${targets[*]} in $SECONDS s"
}

# A toolkit without cuBLASLt or nccl.h can take PyTorch's, and the header files that pack brought
# along.
toolkit_flags() {
  local toolkit library header
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  if ! compgen -G "$toolkit/*/libcublasLt.so" > /dev/null &&
    ! compgen -G "$toolkit/targets/*/lib/libcublasLt.so" > /dev/null; then
    library=$(python_package_file lib/libcublasLt.so.13)
    if [[ -n $library ]]; then echo "-DCUDA_cublasLt_LIBRARY=$library"; fi
  fi
  if [[ ! -f $toolkit/include/cublasLt.h && -d $deps/cuda/include ]]; then
    echo "-DCMAKE_CXX_FLAGS=-isystem $deps/cuda/include"
    echo "-DCMAKE_CUDA_FLAGS=-isystem $deps/cuda/include"
  fi
  if [[ ! -f $toolkit/include/nccl.h && ! -f /usr/include/nccl.h ]]; then
    header=$(python_package_file include/nccl.h)
    if [[ -z $header ]]; then header=$deps/cuda/include/nccl.h; fi
    if [[ -f $header ]]; then echo "-DNCCL_INCLUDE_DIR=${header%/*}"; fi
  fi
}

stage_tests() {
  local status=0
  require_gpu
  require_build
  rm -f "$state"/tests.{xml,jsonl}
  # A test that hangs must not take the report of the others with it.
  DTN_LEDGER=$state/tests.jsonl timeout "$limit" ctest --test-dir "$build" -L '^gpu$' -j 4 \
    --timeout $((limit / 2)) --no-tests=error --output-on-failure \
    --output-junit "$state/tests.xml" > "$state/tests.log" 2>&1 || status=$?
  grep -E 'tests (passed|failed)|Skipped|Failed|Timeout' "$state/tests.log" | tail -n 40 || true
  [[ -f $state/tests.xml ]] || { tail -n 40 "$state/tests.log"; say "ctest was cut off"; return 1; }
  touch "$state/tests.jsonl"
  append --junit "$state/tests.xml" --lines "$state/tests.jsonl"
  return "$status"
}

# train_in_ranks RANKS: a few steps of a small model, each rank on a GPU of its own.
train_in_ranks() {
  rm -rf "$state/ranks"
  timeout $((limit / 3)) mpirun --oversubscribe -n "$1" "$build/bin/dtn-train" \
    --config vit_s_star_ln --device cuda --output "$state/ranks" --set data.dataset=synthetic \
    --set data.size=64 --set train.batch_size=16 --set train.micro_batch=8 --set schedule.epochs=null \
    --set schedule.steps=6 --set train.eval_every=0 > "$state/ranks.log" 2>&1
}

stage_ranks() {
  local gpus
  require_gpu
  require_build
  if ! command -v mpirun > /dev/null || [[ ! -f $build/lib/dtn/dtn_mpi.so ]]; then
    say "ranks: left out, there is no ${build##*/}/lib/dtn/dtn_mpi.so or no mpirun"
    return
  fi
  if grep -q '^NCCL_INCLUDE_DIR:.*NOTFOUND' "$build/CMakeCache.txt"; then
    say "ranks: left out, the build found no nccl.h"
    return
  fi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  train_in_ranks 1 || { tail -n 20 "$state/ranks.log"; say "ranks: one rank failed"; return 1; }
  say "ranks: one rank trains"
  gpus=$(nvidia-smi --list-gpus | wc -l)
  if ((gpus > 1)); then
    train_in_ranks 2 || { tail -n 20 "$state/ranks.log"; say "ranks: two ranks failed"; return 1; }
    say "ranks: two ranks train, on two of $gpus GPUs"
  elif train_in_ranks 2; then
    say "ranks: two ranks train on one GPU, which NCCL should have refused"
    return 1
  elif grep -m 1 'the same GPU' "$state/ranks.log"; then
    say "ranks: two ranks on one GPU are refused, as expected"
  else
    tail -n 20 "$state/ranks.log"
    say "ranks: two ranks on one GPU failed without saying why"
    return 1
  fi
}

# One line per job: tool, program, suite, filter, and where its results go.
sanitizer_jobs() {
  local tool program test suite suffix=
  if ((quick)); then suffix=-quick; fi
  for tool in memcheck racecheck; do
    for program in gpu_kernels $(test_programs | grep -vxE 'gpu_kernels|gpu_dist'); do
      if [[ $program != gpu_kernels && $tool != memcheck ]]; then continue; fi
      "$build/tests/$program" --gtest_list_tests > "$state/list"
      # The suites, each with its first test.
      awk '/^[A-Za-z0-9_\/]+\.( |$)/ {suite = $1; next}
           suite && /^  / {print suite, suite $1; suite = ""}' "$state/list" |
        while read -r suite test; do
          suite=${suite%.}
          if ((!quick)); then test="$suite.*"; fi
          echo "$tool $program $suite $test $state/sanitizer/$tool-$program-${suite//\//-}$suffix"
        done
    done
  done
}

# sanitizer TOOL PROGRAM ARGUMENTS...: the kernels whose names say dtn, but for memcheck all.
sanitizer() {
  local tool=$1 options=(--tool "$1" --error-exitcode 9)
  shift
  if [[ $tool == racecheck ]]; then options+=(--kernel-regex kns=dtn); fi
  DTN_CUDA_CACHE=0 OMP_WAIT_POLICY=passive OMP_NUM_THREADS=4 timeout "$(seconds_left)" \
    compute-sanitizer "${options[@]}" "$@"
}

# One job. Cut off by the time limit is not done.
sanitize() {
  local tool=$1 program=$2 test=$3 base=$4 status=0
  if [[ -f $base.done ]] || ((SECONDS + 5 > deadline)); then return; fi
  rm -f "$base".{log,json}
  sanitizer "$tool" "$build/tests/$program" --gtest_filter="$test" --gtest_brief=1 \
    --gtest_output="json:$base.json" > "$base.log" 2>&1 || status=$?
  if ((status != 124)); then echo "$status" > "$base.done"; fi
}

# A sanitizer that does not see planted faults here would see none in our kernels either.
find_planted_faults() {
  local tool log=$state/sanitizer/planted.txt
  nvcc -std=c++20 -arch="sm_$(ask_gpu compute_cap | tr -d .)" -o "$build/tests/planted_faults" \
    tests/cuda/planted_faults.cu
  for tool in memcheck racecheck; do
    sanitizer "$tool" "$build/tests/planted_faults" "$tool" > "$log" 2>&1 || true
    grep -qE 'SUMMARY: [1-9]' "$log" || {
      head -n 20 "$log"
      cannot_run "compute-sanitizer's $tool does not find a planted fault on this machine"
    }
  done
}

stage_sanitizer() {
  local tool program suite test base file deadline=$((SECONDS + limit))
  require_gpu
  require_build
  require nvcc "it builds the planted faults"
  require compute-sanitizer "it comes with the CUDA Toolkit or Nsight Compute"
  mkdir -p "$state/sanitizer"
  find_planted_faults
  sanitizer_jobs > "$state/sanitizer/jobs"
  [[ -s $state/sanitizer/jobs ]] || cannot_run "the test programs list no tests"
  while read -r tool program suite test base; do
    while (($(jobs -rp | wc -l) >= 4)); do wait -n || true; done
    sanitize "$tool" "$program" "$test" "$base" &
  done < "$state/sanitizer/jobs"
  wait
  append --sanitizer "$state/sanitizer/jobs"
  # The first findings, for a reader who has this output alone.
  while read -r tool program suite test base; do
    if [[ -f $base.done && $(cat "$base.done") != 0 ]]; then
      echo "--- $tool of $program, $suite"
      grep -E '=========|FAILED|rror' "$base.log" | head -n 12 || true
    fi
  done < "$state/sanitizer/jobs"
}

# measure NAME ARGUMENTS...: dtn-bench, its JSON to NAME.json and at once into the ledger. One that
# fails takes no other along: it is counted in `missing`.
measure() {
  local name=$1
  shift
  if ! timeout "$(seconds_left)" "$build/bin/dtn-bench" "$@" --device cuda --json \
    > "$state/bench/$name.part" 2> "$state/bench/$name.log"; then
    cat "$state/bench/$name.log"
    say "dtn-bench $* failed or ran out of time"
    missing=$((missing + 1))
    return
  fi
  mv "$state/bench/$name.part" "$state/bench/$name.json"
  echo "$name: $(cat "$state/bench/$name.json")"
  append --bench "$state"/bench/*.json
}

stage_bench() {
  local deadline=$((SECONDS + limit)) steps=20 missing=0 i norm
  require_gpu
  require_build
  if ((quick)); then steps=5; fi
  rm -rf "$state/bench"
  mkdir -p "$state/bench"
  local model=(--set train.batch_size=256 --set train.micro_batch=256 --set train.precision=bf16)
  for norm in dtn ln; do
    measure "norm_$norm" norm --type "$norm" --shape 256,196,432 --heads 9 --dtype bf16 --steps "$steps"
  done
  for i in 1 2; do  # in turn, so that a card that warms up is fair to both
    for norm in ln dtn; do
      measure "train_$norm.$i" train --config "vit_s_star_$norm" "${model[@]}" --steps "$steps"
    done
  done
  for norm in ln dtn; do
    measure "eval_$norm" eval --config "vit_s_star_$norm" "${model[@]}" --steps "$steps"
  done
  measure gemm gemm --config vit_s_star_ln "${model[@]}" --dtype bf16
  if ((missing)); then say "bench: $missing figures are missing"; return 1; fi
}

stage_peer() {
  local norm failed=0 deadline=$((SECONDS + limit)) options=(--steps 20)
  require_gpu
  require_build
  python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null ||
    cannot_run "python3 has no PyTorch that sees the GPU"
  if ((quick)); then options=(--steps 5 --no-compile); fi
  mkdir -p "$state/peer"
  for norm; do
    if ! timeout "$(seconds_left)" python3 tests/peers/gpu_speed.py --norm "$norm" \
      --bench "$build/bin/dtn-bench" "${options[@]}" > "$state/peer/peer_$norm.json"; then
      say "the comparison for $norm failed or ran out of time"
      failed=1
      continue
    fi
    cat "$state/peer/peer_$norm.json"
    append --peer "$state/peer/peer_$norm.json"
  done
  return "$failed"
}

# ---- main

stages=() quick=0 build=build-gpu deps=.gpu-deps limit=540 commit="" out=""
if [[ ${1:-} == pack ]]; then
  if (($# > 2)); then bad_usage "pack takes one folder"; fi
  pack "${@:2}"
  exit 0
fi
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --quick) quick=1 ;;
    --stage)
      while (($# > 1)) && [[ $2 != -* ]]; do
        case $2 in
          build | tests | ranks | sanitizer | bench | peer | peer:ln | peer:dtn) stages+=("$2") ;;
          *) bad_usage "there is no stage '$2'" ;;
        esac
        shift
      done
      ((${#stages[@]})) || bad_usage "--stage needs a name" ;;
    --build-dir | --deps | --limit | --commit | --out)
      (($# > 1)) || bad_usage "$1 needs a value"
      case $1 in
        --build-dir) build=$2 ;;
        --deps) deps=$2 ;;
        --limit) limit=$2 ;;
        --commit) commit=$2 ;;
        --out) out=$2 ;;
      esac
      shift ;;
    *) bad_usage "unknown argument '$1'" ;;
  esac
  shift
done
[[ $limit =~ ^[1-9][0-9]*$ ]] || bad_usage "--limit takes a number of seconds"
if ((${#stages[@]} == 0)); then stages=(build tests ranks sanitizer bench peer); fi
build=$(realpath -m "$build")
deps=$(realpath -m "$deps")
state=$build/gpu-check
find_tools
find_nccl

failed=0 refused=0 judged=()
for stage in "${stages[@]}"; do
  say "== $stage"
  SECONDS=0
  set +e
  (
    set -e
    case $stage in
      build) stage_build ;;
      tests) stage_tests ;;
      ranks) stage_ranks ;;
      sanitizer) stage_sanitizer ;;
      bench) stage_bench ;;
      peer) stage_peer ln dtn ;;
      peer:*) stage_peer "${stage#peer:}" ;;
    esac
  )
  status=$?
  set -e
  say "$stage took $SECONDS s and ended with status $status"
  if ((status == 3)); then refused=1; elif ((status)); then failed=1; fi
  case $stage in
    build) if ((status)); then break; fi ;;
    peer) judged+=(peer:ln peer:dtn) ;;
    ranks) ;;  # its status says it all
    *) judged+=("$stage") ;;
  esac
done

if [[ -f $state/sources.json ]] && command -v python3 > /dev/null; then
  say "== requirements"
  ledger report --snapshot "$state/sources.json" --stages "${judged[@]}" || failed=1
fi
if [[ -n $out ]]; then
  mkdir -p "$out"
  cp tests/gpu_ledger.json "$out/"
  if [[ -d $state ]]; then tar -C "$build" -czf "$out/logs.tar.gz" gpu-check; fi
fi
if ((refused)); then exit 3; fi
exit "$failed"
