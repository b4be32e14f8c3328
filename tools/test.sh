#!/usr/bin/env bash
# Installs what is missing, builds and runs every test: the release build with all CTest labels,
# then the unit tests again under AddressSanitizer and UndefinedBehaviorSanitizer, with the Eigen
# fallback in place of oneDNN, then each fuzz target for FUZZ_SECONDS (default 60).
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
if [[ $mode == quick ]]; then exit 0; fi

echo "== sanitizers, Eigen in place of oneDNN"
cmake --preset asan -B build-asan -DDTN_ONEDNN=OFF
cmake --build build-asan -j "$jobs"
# libgomp's threads look like leaks of their own; everything else is checked.
ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
  ctest --test-dir build-asan --output-on-failure -j "$jobs" -L 'unit|gradcheck'

echo "== fuzzing, ${FUZZ_SECONDS:=60} s a target"
cmake --preset fuzz -B build-fuzz
cmake --build build-fuzz --target fuzzers -j "$jobs"
FUZZ_SECONDS=$FUZZ_SECONDS ctest --test-dir build-fuzz --output-on-failure -j "$jobs" -L fuzz
