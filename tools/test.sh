#!/usr/bin/env bash
# Installs what is missing, builds and runs every test: the release build with all CTest labels,
# the CUDA kernels on the emulator among them; the CUDA backend with nvcc where there is one (its
# tests on a GPU are skipped without one); then the unit tests and the kernels on the emulator again
# under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, with the Eigen fallback in
# place of oneDNN; then each fuzz target for FUZZ_SECONDS (default 60).
#   tools/test.sh quick   only the release build and its tests
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-all}
jobs=$(nproc)
bash tools/install-deps.sh

echo "== release"
cmake --preset release -B build -DDTN_TESTS=ON
cmake --build build -j "$jobs"
ctest --test-dir build --output-on-failure -j "$jobs"
python3 tests/gpu_ledger.py check  # which CUDA sources no GPU has run in this state
if [[ $mode == quick ]]; then exit 0; fi

export PATH=$PATH:/usr/local/cuda/bin
if command -v nvcc > /dev/null; then
  echo "== CUDA backend"
  cmake --preset cuda -B build-cuda
  cmake --build build-cuda -j "$jobs" --target dtn-train dtn-eval dtn-bench gpu_kernels gpu_train gpu_dist
  ctest --test-dir build-cuda --output-on-failure -j "$jobs" -L gpu
else
  echo "== CUDA backend: SKIPPED, there is no nvcc here"
fi

echo "== sanitizers, Eigen in place of oneDNN"
cmake --preset asan -B build-asan -DDTN_ONEDNN=OFF
cmake --build build-asan -j "$jobs" --target sanitized_tests
# Left out is what runs the same code once more: gradients by finite differences, bits and digits
# compared.
again='emulator.barriers|CudaLearner|BitsDoNotDependOnThreads|EqualBitsAtAnyThreadCount|Numerics[.]'
LSAN_OPTIONS="suppressions='$PWD/tests/leaks.txt':print_suppressions=0" \
  UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build-asan --output-on-failure -j "$jobs" -L 'unit|emulator' -E "$again"

echo "== fuzzing, ${FUZZ_SECONDS:=60} s a target"
cmake --preset fuzz -B build-fuzz
cmake --build build-fuzz --target fuzzers -j "$jobs"
FUZZ_SECONDS=$FUZZ_SECONDS ctest --test-dir build-fuzz --output-on-failure -j "$jobs" -L fuzz
