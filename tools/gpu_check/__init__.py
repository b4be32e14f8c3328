"""Checks the CUDA backend on a machine with a GPU: see `tools/gpu-check.sh --help` and
docs/gpu.md."""
