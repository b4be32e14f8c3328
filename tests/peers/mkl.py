"""The fast path of MKL on AMD processors.

PyTorch multiplies float32 matrices with MKL, which takes a slow path on processors that are not
Intel's: 215 of 497 GFLOP/s for a product of 2048 x 2048 on two cores of an EPYC (Zen 5). A library
that defines mkl_serv_intel_cpu_true() and is loaded first opens the fast path. A comparison must give
both figures: PyTorch as it is installed, and at its best.
"""
import functools
import os
import pathlib
import subprocess
import sys
import tempfile

INSTALLED, FAST = "as installed", "with MKL's fast path"
SOURCE = "int mkl_serv_intel_cpu_true(void) { return 1; }\n"


def ways():
    """The ways to run PyTorch here: both on an AMD processor, else the one as installed."""
    with open("/proc/cpuinfo") as info:
        return [INSTALLED, FAST] if "AuthenticAMD" in info.read() else [INSTALLED]


@functools.lru_cache
def library():
    """Compiles the library and returns its path. Raises OSError or CalledProcessError."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="dtn-mkl-")) / "fast_path.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-o", path, "-"], input=SOURCE, text=True,
                   check=True)
    return path


def environment(way):
    """The environment of a process that runs PyTorch in this way."""
    if way == INSTALLED:
        return dict(os.environ)
    return {**os.environ, "LD_PRELOAD": f"{library()}:{os.environ.get('LD_PRELOAD', '')}"}


def restart_at_best():
    """Restarts this script with the fast path where there is one. Returns the way it runs in."""
    best = ways()[-1]
    if best != INSTALLED and "fast_path.so" not in os.environ.get("LD_PRELOAD", ""):
        os.execve(sys.executable, [sys.executable, *sys.argv], environment(best))
    return best
