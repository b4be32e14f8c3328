"""Finds NVIDIA's libraries that are too large to pack, in the system, the CUDA Toolkit or PyTorch's
packages."""
import glob
import os
import pathlib
import site
import subprocess
import sys
import sysconfig

NEEDED = {"libcublasLt.so.13": "every program of a build with CUDA",
          "libnccl.so.2": "stage ranks and the test gpu_dist"}
TOOLKIT = ("/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/cuda/targets/*/lib")


def site_folders():
    folders = [*sys.path, *site.getsitepackages(), site.getusersitepackages(),
               *(sysconfig.get_paths()[kind] for kind in ("purelib", "platlib"))]
    return [folder for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def in_python_packages(name):
    """Returns the path of a file in NVIDIA's Python packages, such as include/nccl.h, or None."""
    for folder in site_folders():
        found = sorted(glob.glob(f"{folder}/nvidia/**/{name}", recursive=True))
        if found:
            return pathlib.Path(found[0])
    return None


def loads(name):
    """Returns True if the loader finds a library by itself. Asks in a separate process."""
    attempt = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    return subprocess.run([sys.executable, "-c", attempt, name], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def folder_of(name):
    """Returns the folder of a library that the loader does not find by itself, or None."""
    for pattern in TOOLKIT:
        for file in sorted(glob.glob(f"{pattern}/{name}")):
            return os.path.dirname(file)
    found = in_python_packages(f"lib/{name}")
    return str(found.parent) if found else None


def find():
    """Returns the LD_LIBRARY_PATH that the programs need, and a remark for each missing library."""
    folders, missing = [], {}
    for name, user in NEEDED.items():
        if loads(name):
            continue
        folder = folder_of(name)
        if folder:
            folders.append(folder)
        else:
            missing[name] = (
                f"cannot find {name}, which {user} needs, in the system, in /usr/local/cuda or in "
                "Python's packages nvidia/**/lib; install it or add its folder to LD_LIBRARY_PATH")
    path = [*dict.fromkeys(folders), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, path))}, missing
