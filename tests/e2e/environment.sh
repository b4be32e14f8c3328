#!/usr/bin/env bash
# Idle threads spin briefly: libgomp reads GOMP_SPINCOUNT=3000 unless the environment chooses a spin
# count or wait policy. Child processes get the program's environment and GOMP_SPINCOUNT=3000.
source "$(dirname "$0")/lib/common.sh"
unset OMP_WAIT_POLICY

# spin_count_in VARIABLE=VALUE...: the last spin count libgomp reports in exactly this environment.
spin_count_in() {
  env -i OMP_DISPLAY_ENV=verbose "$@" "$bin/dtn-info" --version 2>&1 |
    sed -n "s/.*GOMP_SPINCOUNT = '\([0-9]*\)'.*/\1/p" | tail -n 1
}
if [[ -z $(spin_count_in) ]]; then
  echo "SKIPPED: this is not GCC's OpenMP, or it does not say what it reads"
  exit 0
fi
expect_equal "spin count" "$(spin_count_in)" 3000
expect_equal "a spin count of one's own" "$(spin_count_in HOME=/tmp GOMP_SPINCOUNT=77)" 77
expect_equal "a waiting policy of one's own" "$(spin_count_in HOME=/ OMP_WAIT_POLICY=passive)" 0

# A trainer that writes down the environment that dtn-sweep gives it.
mkdir "$work/bin"
cp "$bin/dtn-sweep" "$work/bin"
printf '#!/bin/sh\nenv > "%s"\nexit 1\n' "$work/environment" > "$work/bin/dtn-train"
chmod +x "$work/bin/dtn-train"
tiny_config "$work/tiny.yaml"
printf 'name: one\nbase: tiny.yaml\nseeds: [1]\nvariants:\n  - name: a\n' > "$work/sweep.yaml"
given=(A=1 HOME=/home B=2)
env -i "${given[@]}" "$work/bin/dtn-sweep" --config "$work/sweep.yaml" --output "$work/sweep" \
  > "$log" 2>&1 || true
expect_file "$work/environment"
for entry in "${given[@]}" GOMP_SPINCOUNT=3000; do
  checks=$((checks + 1))
  grep -qxF "$entry" "$work/environment" || fail "$entry is missing: $(cat "$work/environment")"
done
