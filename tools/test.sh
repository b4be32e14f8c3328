#!/usr/bin/env bash
# Installs what is missing, builds and runs every test: the release build with all CTest labels,
# the CUDA kernels on the emulator among them; the CUDA backend with nvcc where there is one (its
# tests where there is a GPU, too); then the unit tests and the kernels on the emulator again under
# AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, with the Eigen fallback in place of
# oneDNN and the best instruction set of this machine; then each fuzz target for FUZZ_SECONDS
# (default 20), from what earlier runs found.
#   tools/test.sh quick   only the release build and its tests
#   tools/test.sh lint    only the style, clang-tidy and a look by clang, see tools/lint.sh
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
jobs=$(nproc)
# The compiler cache takes files of two build folders for the same: the CUDA backend's layers are
# compiled already.
export CCACHE_BASEDIR=$PWD
bash tools/install-deps.sh
# A browser for one test, which is skipped without; nothing else needs it.
if ! command -v chromium > /dev/null; then
  apt=(apt-get)
  if ((EUID != 0)); then apt=(sudo -n apt-get); fi
  DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y -qq --no-install-recommends chromium \
    > /dev/null 2>&1 || echo "no browser: chromium could not be installed"
fi

# stage TITLE: begins a part, and says how long the one before took.
stage() {
  if [[ ${begun:-} ]]; then echo "== that took $((SECONDS - begun)) s"; fi
  begun=$SECONDS
  echo "== $1"
}

if [[ $mode != quick ]]; then
  stage "lint"
  bash tools/lint.sh
fi
if [[ $mode == lint ]]; then exit 0; fi

stage "release"
cmake --preset release -B build -DDTN_TESTS=ON -DDTN_UNITY=ON
cmake --build build -j "$jobs"
ctest --test-dir build --output-on-failure -j $((jobs + 1))  # some do nothing but wait
python3 tests/gpu_ledger.py check  # which CUDA sources no GPU has run in this state
if [[ $mode == quick ]]; then exit 0; fi

export PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc > /dev/null; then
  stage "CUDA backend"
  cmake --preset cuda -B build-cuda -DDTN_UNITY=ON -DCMAKE_CUDA_ARCHITECTURES="80-real;90a-real"
  programs=(dtn-train)
  if nvidia-smi > /dev/null 2>&1; then programs+=(gpu_kernels gpu_train gpu_dist); fi
  cmake --build build-cuda -j "$jobs" --target "${programs[@]}"
  build-cuda/bin/dtn-train --version | grep ', CUDA [0-9]'
  if ((${#programs[@]} > 1)); then
    ctest --test-dir build-cuda --output-on-failure -j "$jobs" -L gpu
  else
    echo "tests on a GPU: SKIPPED, there is none"
  fi
else
  stage "CUDA backend: SKIPPED, there is no nvcc here"
fi

stage "sanitizers, Eigen in place of oneDNN"
cmake --preset asan -B build-asan -DDTN_ONEDNN=OFF -DDTN_ISAS=best -DDTN_UNITY=ON
cmake --build build-asan -j "$jobs" --target sanitized_tests
# Left out is what runs the same code once more: whole steps and programs, bits and digits compared;
# and what runs none of it.
again='emulator.(barriers|train|small_device|bench_kernels|bench_products)|CudaLearner|CudaSecondTask|CudaSequence|Schedules?$|Numerics[.]'
again+='|BitsDoNotDependOnThreads|EqualBitsAtAnyThreadCount|BitsOfSumAndNormApart|BitsOfKernelsOfTheirOwn'
again+='|NearLambdaOneNothingIsLost|unit[.](headers|includes|names|gpu_(ledger|check))'
LSAN_OPTIONS="suppressions='$PWD/tests/leaks.txt':print_suppressions=0" \
  UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build-asan --output-on-failure -j "$jobs" -L 'unit|emulator' -E "$again"

stage "fuzzing, ${FUZZ_SECONDS:=20} s a target"
cmake --preset fuzz -B build-fuzz -DDTN_ISAS=best -DDTN_UNITY=ON
cmake --build build-fuzz --target fuzzers -j "$jobs"
FUZZ_SECONDS=$FUZZ_SECONDS FUZZ_CORPUS=$PWD/build-fuzz/corpus \
  ctest --test-dir build-fuzz --output-on-failure -j "$jobs" -L fuzz
stage "done"
