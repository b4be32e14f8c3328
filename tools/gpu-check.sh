#!/bin/sh
# Checks the CUDA backend on a machine with a GPU; see --help and docs/gpu.md.
exec python3 "$(dirname "$0")/gpu_check" "$@"
