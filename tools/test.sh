#!/usr/bin/env bash
# Installs what is missing, builds and tests.
#   tools/test.sh          lint, the release build and its tests, and one share of the long parts. The
#                          commit decides which share; successive commits cover all parts.
#   tools/test.sh deep     lint, the release build and its tests, and every long part
#   tools/test.sh quick    only the release build and its tests
#   tools/test.sh lint     only the style, clang-tidy and clang's warnings, see tools/lint.sh
#   tools/test.sh PART...  only these long parts:
#     cuda-80, cuda-90a    compile the CUDA backend with nvcc for one architecture; with a GPU at hand
#                          run its tests, too
#     sanitizers-data, sanitizers-models, sanitizers-programs, sanitizers-emulator
#                          unit tests of some layers, or the CUDA kernels on the emulator, under
#                          AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, with Eigen
#                          in place of oneDNN
#     fuzzers              run each fuzz target for FUZZ_SECONDS (default 20); keep what it finds
#     instruction-sets     compile the kernels for processors that this machine is not
#     schedules            run the kernels on the emulator under nine schedules in place of four; take
#                          out each barrier once: a test must fail
set -euo pipefail
cd "$(dirname "$0")/.."

# Each share takes some six minutes on two fast cores with an empty compiler cache.
shares=(
  "cuda-80 instruction-sets" "sanitizers-data" "fuzzers schedules" "cuda-90a" "sanitizers-models"
  "sanitizers-emulator" "sanitizers-programs"
)
read -ra parts <<< "${shares[*]}"
jobs=$(nproc)
export CCACHE_BASEDIR=$PWD  # build folders share objects in the compiler cache

# --- stages -------------------------------------------------------------------------------------

# begin NAME: ends the last stage and starts this one.
begin() {
  end
  stage=$1 begun=$SECONDS
  echo "== $stage"
}
end() {
  if [[ ${stage:-} ]]; then echo "== $stage took $((SECONDS - begun)) s"; fi
  stage=
}
trap 'if [[ ${stage:-} ]]; then
        echo "== $stage FAILED after $((SECONDS - begun)) s; tools/test.sh $stage repeats it" >&2
      fi' EXIT

lint() {
  begin lint
  bash tools/lint.sh
}

# configure PRESET FOLDER OPTION...: configures a build with unity sources.
configure() { cmake --preset "$1" -B "$2" -DDTN_UNITY=ON "${@:3}"; }

release() {
  begin quick
  configure release build -DDTN_TESTS=ON -DDTN_ISAS=runnable
  cmake --build build -j "$jobs"
  ctest --test-dir build --output-on-failure -j $((jobs + 2)) -LE deep  # some only wait
  python3 tests/gpu_ledger.py check  # CUDA sources that no GPU has tested in this state
}

cuda() {  # ARCHITECTURE
  begin "cuda-$1"
  local build=build-cuda-$1 programs=(programs)
  export PATH=$PATH:/usr/local/cuda/bin
  if ! command -v nvcc > /dev/null; then
    echo "SKIPPED: nvcc not found"
    return
  fi
  configure cuda "$build" -DDTN_ISAS=runnable -DCMAKE_CUDA_ARCHITECTURES="$1-real"
  if nvidia-smi > /dev/null 2>&1; then programs+=(gpu_kernels gpu_train gpu_dist); fi
  cmake --build "$build" -j "$jobs" --target "${programs[@]}"
  "$build/bin/dtn" --version | grep ', CUDA [0-9]'
  if ((${#programs[@]} > 1)); then
    ctest --test-dir "$build" --output-on-failure -j "$jobs" -L gpu
  else
    echo "tests on a GPU: SKIPPED, no GPU found"
  fi
}

# Tests left out under sanitizers: those that repeat code to compare bits or digits of whole steps
# and programs, and those that run no code of ours.
again='emulator.(train|small_device|bench_kernels|bench_products)|CudaLearner|CudaSecondTask|CudaSequence|Schedules?$|Numerics[.]'
again+='|BitsDoNotDependOnThreads|EqualBitsAtAnyThreadCount|SameBitsAsSeparateSumAndNorm|SameBitsAsSeparateKernels'
again+='|KeepsAccuracyNearLambdaOne'

sanitizers() {  # NAME TEST-PROGRAM...
  begin "sanitizers-$1"
  local programs=("${@:2}")
  configure asan build-asan -DDTN_ONEDNN=OFF -DDTN_ISAS=best
  cmake --build build-asan -j "$jobs" --target "${programs[@]}"
  local labels
  labels=$(IFS='|' && echo "${programs[*]}")
  LSAN_OPTIONS="suppressions='$PWD/tests/leaks.txt':print_suppressions=0" \
    UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir build-asan --output-on-failure -j "$jobs" -L "^($labels)\$" -E "$again"
}

# unit_tests LAYER...: prints the test programs of the layers that have tests.
unit_tests() { for layer in "$@"; do [[ -d tests/unit/$layer ]] && echo "unit_$layer"; done; }

fuzzers() {
  begin fuzzers
  configure fuzz build-fuzz -DDTN_ISAS=best
  cmake --build build-fuzz --target fuzzers -j "$jobs"
  FUZZ_SECONDS=${FUZZ_SECONDS:-20} FUZZ_CORPUS=$PWD/build-fuzz/corpus \
    ctest --test-dir build-fuzz --output-on-failure -j "$jobs" -L fuzz
}

instruction_sets() {
  begin instruction-sets
  if g++ -march=native -dM -E -x c++ /dev/null | grep -q __AVX512BF16__; then
    echo "SKIPPED: this machine runs all instruction sets, and the release build contains them"
    return
  fi
  configure release build-isas -DDTN_TESTS=OFF -DDTN_ISAS=foreign
  cmake --build build-isas -j "$jobs" --target dtn_kernels
}

schedules() {
  begin schedules
  configure release build -DDTN_TESTS=ON -DDTN_ISAS=runnable
  cmake --build build -j "$jobs" --target emulator_kernels emulator_ops emulator_norms
  DTN_EMULATOR_SCHEDULES=9 ctest --test-dir build --output-on-failure -j "$jobs" \
    -L '^(emulator_kernels|emulator_ops|emulator_norms|deep)$'
}

part() {
  case $1 in
    cuda-*) cuda "${1#cuda-}" ;;
    sanitizers-data) sanitizers data $(unit_tests core config io plot data coco yolo table classes dist) ;;
    sanitizers-models)
      sanitizers models \
        $(unit_tests kernels autograd ops nn norms models optim boxes coco_figures class_figures \
          label_figures tasks translate) ;;
    sanitizers-programs)
      sanitizers programs $(unit_tests train $(ls src/apps)) ;;
    sanitizers-emulator)
      sanitizers emulator emulator_self emulator_{kernels,ops,norms,data,dist,train} ;;
    fuzzers) fuzzers ;;
    instruction-sets) instruction_sets ;;
    schedules) schedules ;;
  esac
}

# --- what to run --------------------------------------------------------------------------------

# Prints the share of this commit, or the first one if there is no git history.
share() {
  local commit
  commit=$(git rev-parse HEAD 2> /dev/null || echo 0)
  echo "${shares[16#${commit:0:7} % ${#shares[@]}]}"
}

chosen=()
case ${1:-} in
  "") read -ra chosen <<< "$(share)" ;;
  deep)
    chosen=("${parts[@]}")
    export DTN_TEST_DEEP=1  # more moments of kills, more faults
    export LINT_TIDY_FILES=1000
    ;;
  quick | lint) ;;
  *)
    for name in "$@"; do
      if [[ " ${parts[*]} " != *" $name "* ]]; then
        echo "tools/test.sh: unknown part '$name'; use one of: deep quick lint ${parts[*]}" >&2
        exit 2
      fi
    done
    chosen=("$@")
    ;;
esac

bash tools/install-deps.sh
# One test needs a browser and one needs doxygen. Without it, the test is skipped.
for package in chromium doxygen; do
  if command -v "$package" > /dev/null; then continue; fi
  apt=(apt-get)
  if ((EUID != 0)); then apt=(sudo -n apt-get); fi
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends "$package" \
    > /dev/null 2>&1 || echo "warning: cannot install $package; a test is skipped"
done

case ${1:-} in
  "" | deep)
    lint
    release
    ;;
  lint) lint ;;
  quick) release ;;
esac
for name in ${chosen[@]+"${chosen[@]}"}; do part "$name"; done
end

left=()
for name in "${parts[@]}"; do
  if [[ " ${chosen[*]} " != *" $name "* ]]; then left+=("$name"); fi
done
echo "== passed in $((SECONDS / 60)) min $((SECONDS % 60)) s; long parts run: ${chosen[*]:-none}"
if ((${#left[@]})); then
  echo "== long parts not run: ${left[*]}; tools/test.sh deep runs all of them"
fi
