#!/usr/bin/env bash
# Checks the style, without building: the format of every source by clang-format, the direction of
# includes, unique names of types, the files that comments and docs name, the API reference if
# doxygen is there, clang-tidy on the layers and programs that changed since BASE (default: where
# this branch left origin/main, or the last commit), and all sources by clang, with warnings as
# errors.
#   tools/lint.sh [BASE]
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)

echo "-- clang-format"
git ls-files -z '*.h' '*.cpp' '*.cu' '*.cuh' '*.inc' | xargs -0 -n 40 -P "$jobs" clang-format --dry-run -Werror

echo "-- includes, names and paths"
python3 tests/check_includes.py
python3 tests/check_names.py
python3 tests/check_comments.py
python3 tests/check_paths.py

# Configures a build for clang's flags; nothing is built. clang-tidy guesses the flags of a source
# that is compiled together with others from those of its neighbours.
cmake --preset release -B build-lint -DCMAKE_CXX_COMPILER=clang++ -DDTN_TESTS=ON -DDTN_ISAS=best \
  -DDTN_UNITY=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON > /dev/null

if command -v doxygen > /dev/null; then
  echo "-- API reference"
  python3 tests/check_api_reference.py build-lint/Doxyfile.docs
fi

base=${1:-$(git merge-base HEAD origin/main 2> /dev/null || true)}
if [[ -z $base || $base == "$(git rev-parse HEAD)" ]]; then base=HEAD~1; fi
if ! git rev-parse -q --verify "$base^{commit}" > /dev/null; then base=HEAD; fi  # shallow clone
mapfile -t changed < <(
  git diff --name-only --diff-filter=d "$base" -- {src,tools}/'*.cpp' | xargs -r ls -t)
echo "-- clang-tidy: ${#changed[@]} files changed since $(git rev-parse --short "$base")"
most=${LINT_TIDY_FILES:-8}  # each takes many seconds
if ((${#changed[@]} > most)); then
  echo "checking only the newest $most, see LINT_TIDY_FILES"
  changed=("${changed[@]:0:most}")
fi
if ((${#changed[@]} > 0)); then
  printf '%s\0' "${changed[@]}" |
    xargs -0 -n 1 -P "$jobs" clang-tidy -p build-lint --quiet --warnings-as-errors='*' \
      2> >(grep -v 'warnings generated' >&2)  # it counts warnings that it does not show
fi

echo "-- clang"
python3 tests/compile_with_clang.py build-lint src tools
