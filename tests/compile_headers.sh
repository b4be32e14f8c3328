#!/usr/bin/env bash
# Compiles every public header alone, seeing nothing but public headers: compile_headers.sh COMPILER
set -euo pipefail
cd "$(dirname "$0")/../include"

alone() {
  echo "#include \"$2\"" |
    "$1" -std=c++20 -fopenmp -Wall -Wextra -Werror -fsyntax-only -I . -x c++ - ||
    { echo "$2 does not compile alone" >&2; return 1; }
}
export -f alone
find dtn -name '*.h' -print0 | sort -z |
  xargs -0 -P "$(nproc)" -I{} bash -c 'alone "$@"' _ "${1:?which compiler?}" {}
echo "$(find dtn -name '*.h' | wc -l) headers compile alone"
