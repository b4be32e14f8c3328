"""`gpu-check.sh pack [FOLDER]`: collects programs and scripts in a folder, for a machine that has a
driver and Python, but no compiler and no network."""
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import tarfile

from . import build, layout
from .errors import CannotRun, Failed
from .stage import say

LARGEST = 64 << 20
ARCHIVE = "programs.tar.xz"
# Libraries of the target machine: the C library and NVIDIA's.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d|ld-linux-.*|libcublasLt\.so\.13")
# Newest glibc that programs may need. RHEL 9 has it; Ubuntu 22.04 has 2.35, Debian 12 2.36.
# static/older_glibc.cpp defines the symbols of newer versions.
NEWEST_GLIBC = "2.34"
FILES = ("tests/gpu_ledger.json", "tests/gpu_smoke_losses.json", "LICENSE")
DOOR = '#!/bin/sh\nexec python3 "$(dirname "$0")/tools/gpu_check" "$@"\n'
# The programs share most of their code. A window of this size finds it.
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 128 << 20}]


def pack(folder, where, clock, architectures, commit):
    if folder.exists() and not (folder / ARCHIVE).exists():
        raise CannotRun(f"{folder} exists and was not made by pack; name another folder")
    # One CPU instruction set suffices beside a GPU. The sections of kernels are compressed.
    objects = [build.older_glibc(where.state)]
    flags = [*build.static_flags(objects), "-DDTN_ISAS=avx2",
             "-DCMAKE_CUDA_FLAGS=--compress-mode=size"]
    build.Build(where, clock, commit, architectures, flags, objects)()
    built = where.built()
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "build/tests").mkdir(parents=True)
    (new / "build/bin").mkdir()
    packed = layout.Layout(new / "build", new)
    glibc = max((strip(where.program(name), packed.program(name))
                 for name in ("dtn", "planted_faults", *built["tests"])), key=age)
    for name in ("dtn-bench", "dtn-train"):
        packed.program(name).symlink_to("dtn")
    shutil.copytree(where.root / "configs", new / "build/share/dtn/configs")
    (new / "build/gpu-check").mkdir()
    (new / "build/gpu-check/built.json").write_text(json.dumps(built))
    unpacked = size_of(new / "build")
    compress(new)
    copy_scripts(where.root, new)
    size = size_of(new)
    say(f"{folder}: {size / 2**20:.1f} MiB, of which {unpacked / 2**20:.0f} MiB are unpacked "
        f"when it is used; GPUs {built['architectures']}, CUDA {built['cuda']}, glibc {glibc} or "
        f"newer, commit {built['commit']}")
    if size > LARGEST:
        raise Failed(f"{new} exceeds {LARGEST >> 20} MiB; name fewer architectures with --arch")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def strip(program, to):
    """Copies a program without symbols. Returns the version of glibc that it needs. Raises an error
    if the program loads a library that the target machine may lack."""
    def run(*command):
        return subprocess.run(command, check=True, text=True, capture_output=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout
    run("strip", "-o", str(to), str(program))
    for name in re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(to))):
        if not SYSTEM.fullmatch(name):
            raise Failed(f"{program.name} needs {name}, which the target may not have")
    glibc = glibc_of(run("readelf", "-V", str(to)))
    if age(glibc) > age(NEWEST_GLIBC):
        raise Failed(f"{program.name} needs glibc {glibc}, but targets may have only "
                     f"{NEWEST_GLIBC}; find the symbols of {glibc} with nm -D {program}, and "
                     "define them in tools/gpu_check/static/older_glibc.cpp")
    return glibc


def glibc_of(versions):
    """Returns the version of glibc that a program needs, from the output of readelf -V."""
    return max(re.findall(r"Name: GLIBC_(\S+)", versions), key=age, default="0")


def age(version):
    """Sort key of versions. Names sort behind numbers: PRIVATE belongs to one version alone, and
    names that begin with ABI are newer than NEWEST_GLIBC."""
    if not re.fullmatch(r"[\d.]+", version):
        return (math.inf,)
    return tuple(map(int, version.split(".")))


def compress(new):
    with lzma.open(new / ARCHIVE, "wb", filters=FILTERS) as stream, \
            tarfile.open(fileobj=stream, mode="w|") as archive:
        archive.add(new / "build", "build")
    shutil.rmtree(new / "build")


def copy_scripts(root, new):
    for pattern in ("tools/gpu_check/*.py", "tests/peers/*.py"):
        for file in root.glob(pattern):
            (new / file.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, new / file.relative_to(root))
    for name in FILES:
        shutil.copy(root / name, new / name)
    (new / "gpu-check.sh").write_text(DOOR)
    (new / "gpu-check.sh").chmod(0o755)


def size_of(folder):
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file())


def unpack(root, to):
    """Unpacks the programs of a packed folder, unless this has been done."""
    archive = root / ARCHIVE
    if not archive.exists():
        return
    state = f"{archive.stat().st_size} {archive.stat().st_mtime_ns}"
    mark = to / "unpacked.txt"
    if mark.exists() and mark.read_text() == state:
        return
    new = to.with_name(f"{to.name}.new{os.getpid()}")
    with tarfile.open(archive) as programs:
        programs.extractall(new)
    shutil.rmtree(to, ignore_errors=True)
    (new / "build").rename(to)
    new.rmdir()
    mark.write_text(state)
