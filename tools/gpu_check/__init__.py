"""Checks the CUDA backend on a machine with a GPU: `tools/gpu-check.sh --help`, docs/gpu.md."""
