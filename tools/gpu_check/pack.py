"""`gpu-check.sh pack [FOLDER]`: programs and scripts in a folder for a machine that has a driver
and Python, and neither compiler nor network."""
import json
import lzma
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
# What the target has: its C library, and NVIDIA's, which the check looks for there.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d|ld-linux-.*|libcublasLt\.so\.13")
FILES = ("tests/gpu_ledger.json", "tests/gpu_smoke_losses.json", "LICENSE")
DOOR = '#!/bin/sh\nexec python3 "$(dirname "$0")/tools/gpu_check" "$@"\n'
# The programs have most of their code in common, which a window of this size sees.
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 128 << 20}]


def pack(folder, where, clock, architectures, commit):
    if folder.exists() and not (folder / ARCHIVE).exists():
        raise CannotRun(f"{folder} exists and is not one that pack made; name another")
    # One instruction set of the CPU is enough beside a GPU; sections of kernels are compressed.
    flags = [*build.static_flags(), "-DDTN_ISAS=avx2", "-DCMAKE_CUDA_FLAGS=--compress-mode=size"]
    build.Build(where, clock, commit, architectures, flags)()
    built = where.built()
    new = folder.with_name(folder.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "build/tests").mkdir(parents=True)
    (new / "build/bin").mkdir()
    packed = layout.Layout(new / "build", new)
    for name in ("dtn", "planted_faults", *built["tests"]):
        strip(where.program(name), packed.program(name))
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
        f"when it is used; GPUs {architectures}, CUDA {built['cuda']}, commit {built['commit']}")
    if size > LARGEST:
        raise Failed(f"{new} has more than {LARGEST >> 20} MiB; name fewer architectures by --arch")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)


def strip(program, to):
    """Copies a program without symbols; what it loads must be on the target."""
    def run(*command):
        return subprocess.run(command, check=True, text=True, capture_output=True).stdout
    run("strip", "-o", str(to), str(program))
    for name in re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", str(to))):
        if not SYSTEM.fullmatch(name):
            raise Failed(f"{program.name} needs {name}, which the target need not have")


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
    """The programs of a packed folder, where they are not unpacked yet."""
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
