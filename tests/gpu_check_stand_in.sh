#!/bin/sh
# Stand-in for every program that tools/gpu_check calls: links with the names of these programs lead
# here. It answers as they do without errors. Among the calls that contain $PLANT, the $TURN-th, or
# each if TURN is empty, ends as $MODE says: exit, crash, hang, garbage. Each call is a line of
# $CALLS. The card has the compute capability $CAPABILITY.
name=${0##*/}
call="$name $*"
echo "$call" >> "$CALLS"
mode=
if [ -n "$PLANT" ]; then
  case "$call" in *"$PLANT"*)
    if [ -z "$TURN" ]; then
      mode=$MODE
    else
      echo x >> "$CALLS.turns"
      if [ "$(wc -l < "$CALLS.turns")" -eq "$TURN" ]; then mode=$MODE; fi
    fi ;;
  esac
fi
fail() {
  case $mode in
    exit) echo "planted" >&2; exit 7 ;;
    crash) kill -SEGV $$ ;;
    hang)
      read -r _ _ _ _ group _ < /proc/$$/stat
      echo "$group" >> "$CALLS.hanging"
      exec sleep 60 ;;
    garbage) echo '{"images_per_second": '; exit 0 ;;
  esac
}

# skip TEST REASON: reports that a test skips.
skip() {
  echo "a_test.cpp:9: Skipped"
  echo "$2"
  echo
  echo "[  SKIPPED ] $1 (0 ms)"
  cases="$cases{\"result\": \"SKIPPED\"},"
}

# Runs the stand-in's GoogleTest tests. Alpha.two fails as planted, Beta/0.four needs compute
# capability 9.0, and $SKIPS skips.
run_tests() {
  filter=${call##*--gtest_filter=}
  filter=${filter%% *}
  report=${call##*--gtest_output=json:}
  if [ -n "$DTN_LEDGER" ]; then
    echo '{"kernel": "k", "case": "'"$filter"'", "dtype": "float32", "max_error": 1e-8,' \
      '"bound": 1e-7}' >> "$DTN_LEDGER"
  fi
  cases=
  for test in Alpha.one Alpha.two Alpha.three Beta/0.four; do
    chosen=
    old=$IFS
    IFS=:
    for pattern in $filter; do
      case $test in $pattern) chosen=1 ;; esac
    done
    IFS=$old
    if [ -z "$chosen" ]; then continue; fi
    echo "[ RUN      ] $test"
    if [ "$test" = Alpha.two ] && [ -n "$mode" ]; then
      if [ -n "$CUDA_LAUNCH_BLOCKING" ]; then echo "in bad_kernel"; fi
      if [ "$mode" = exit ]; then echo "[  FAILED  ] $test (1 ms)"; fi
      fail
    fi
    if [ "$test" = "$SKIPS" ]; then
      skip "$test" "for another reason"
      continue
    fi
    if [ "$test" = Beta/0.four ] && [ "$CAPABILITY" != 9.0 ]; then
      skip "$test" "needs hardware: compute capability 9.0; not tested: src/kernels/warp*"
      continue
    fi
    echo "[       OK ] $test (1 ms)"
    cases="$cases{\"result\": \"COMPLETED\"},"
  done
  if [ "$report" != "$call" ]; then
    echo "{\"failures\": 0, \"testsuites\": [{\"testsuite\": [${cases%,}]}]}" > "$report"
  fi
}

case $name in
  gpu_*)
    case $* in
      *--gtest_list_tests*)
        fail
        printf 'Alpha.\n  one\n  two\n  three\n  DISABLED_five\n'
        printf 'Beta/0.  # TypeParam = float\n  four\n' ;;
      *) run_tests ;;
    esac ;;
  nvidia-smi)
    fail
    case $* in
      *--list-gpus*) echo "GPU 0: stand-in" ;;
      *)  # a value for each question
        echo "$*" | sed -e 's/.*--query-gpu=//' -e 's/ .*//' -e "s/compute_cap/$CAPABILITY/" \
          -e 's/[a-z_][a-z._]*/1/2g' -e "s/^[a-z_][a-z._]*/stand-in of $CAPABILITY/" ;;
    esac ;;
  cmake)
    fail
    case $* in
      *--preset*)
        asked=${call##*-DCMAKE_CUDA_ARCHITECTURES=}
        if [ "$asked" = "$call" ]; then asked="80-real;90a-real;90-virtual"; fi
        folder=${call##*-B }
        echo "DTN_CUDA_ARCHITECTURES:INTERNAL=${asked%% *}" > "${folder%% *}/CMakeCache.txt" ;;
    esac ;;
  nvcc)
    fail
    echo "Cuda compilation tools, release 13.0, V13.0.88" ;;
  dtn-bench)
    if [ "$1" = kernels ]; then
      echo '{"kernel": "a", "shape": "2x3", "us": 2.0, "floor_us": 1.0, "ratio": 2.0}'
      fail
      echo '{"kernel": "b", "shape": "2x3", "us": 3.0, "floor_us": 1.0, "ratio": 3.0}'
      us=4.5
      if [ "$DTN_CUDA_DTN_WARPS" = 12 ]; then us=4.0; fi
      echo '{"kernel": "dtn_bwd", "shape": "2x3", "us": '$us', "floor_us": 1.0, "ratio": 4.5}'
      if [ -n "$KERNEL_FAILS" ]; then echo '{"kernel": "c", "error": "planted"}'; fi
      echo '{"copy_gbytes_per_second": 1.0, "gemm_gflops": 1.0, "kernels": 3}'
      exit ${KERNEL_FAILS:-0}
    fi
    fail
    if [ "$1" = products ]; then
      echo '{"product": "p", "card": "H200", "library": "1", "best": "quick"}'
      echo '{"products": 1, "failed": 0, "first_ms": 2.0, "chosen_ms": 1.5, "best_ms": 1.0}'
      exit 0
    fi
    if [ -n "$DTN_CUDA_TRACE" ]; then printf "kernel us\na 1\ngaps 0\n" >&2; fi
    echo '{"images_per_second": 4, "mfu": 1, "forward_of_copy": 1,' \
      '"copy_gbytes_per_second": 1, "gemm_gflops": 1}' ;;
  dtn-train)
    fail
    output=${call##*--output }
    output=${output%% *}
    mkdir -p "$output"
    for step in 1 2 3 4 5; do
      echo '{"step": '$step', "loss": 6.5, "grad_norm": 40.0}'
    done > "$output/metrics.jsonl" ;;
  python)
    case $* in
      *--list*) fail && printf 'released_compiled\nreleased_eager\nmodule_fast\n' ;;
      *--variant*) fail; echo '{"images_per_second": 2, "peak_bytes": 1}' ;;
      *) fail ;;
    esac ;;
  compute-sanitizer)
    fail
    case $* in
      *planted_faults\ memcheck) echo "========= ERROR SUMMARY: 1 error" ;;
      *planted_faults\ racecheck) echo "========= RACECHECK SUMMARY: 1 hazard displayed" ;;
      *)
        while [ "${1##*/gpu_}" = "$1" ]; do shift; done
        "$@" || exit
        echo "========= ERROR SUMMARY: 0 errors" ;;
    esac ;;
  ncu)
    fail
    printf '"ID","gpu__time_duration.sum","dram__bytes_read.sum"\n"","ns","byte"\n'
    printf '"0","1,200","4"\n' ;;
  mpirun)
    fail
    case $* in *"-n 2 "*) echo "two ranks would use the same GPU"; exit 2 ;; esac ;;
esac
exit 0
