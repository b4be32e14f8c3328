"""Stage build: builds the programs that the other stages run, from the current sources."""
import json
import pathlib
import re
import subprocess

from . import architectures, gpu, layout, libraries, process, sources
from .errors import CannotRun, Failed, LeftOut
from .stage import say

# Saves time: no fast products on the CPU, and no errors for warnings. Other builds check warnings.
FLAGS = ("-DDTN_ONEDNN=OFF", "-DDTN_TESTS=ON", "-DDTN_CUDA_STRICT=OFF", "-DDTN_UNITY=ON")


def test_programs(root):
    """Returns the test programs, one per folder: tests/cuda/<layer>/*_test.cpp becomes
    gpu_<layer>."""
    names = sorted(f"gpu_{folder.name}" for folder in (root / "tests/cuda").iterdir()
                   if any(folder.glob("*_test.cpp")))
    return sorted(names, key=lambda name: name != "gpu_kernels")  # the most valuable first


class Build:
    def __init__(self, where, clock, commit=None, architectures=None, flags=(), objects=()):
        self.layout, self.clock, self.commit = where, clock, commit
        self.architectures, self.flags = architectures, list(flags)
        self.objects = objects  # linked into planted_faults

    def __call__(self):
        if self.layout.packed:
            raise LeftOut("this packed folder already contains the programs")
        nvcc = self.require("nvcc", "it comes with the CUDA Toolkit 13")
        for name in ("cmake", "ninja", "g++"):
            self.require(name, "tools/install-deps.sh installs it")
        self.layout.built_file.unlink(missing_ok=True)
        before = sources.snapshot(self.layout.root)
        self.configure(nvcc)
        targets = ["programs", *test_programs(self.layout.root)]
        self.run("build", "cmake", "--build", self.layout.build, "--target", *targets)
        self.build_planted_faults(nvcc)
        version = re.search(r"release ([\d.]+)", self.run("nvcc", nvcc, "--version").text())
        self.layout.built_file.write_text(json.dumps({
            **before, "cuda": version.group(1) if version else "unknown",
            "commit": self.commit or sources.commit_of(self.layout.root),
            "architectures": self.architectures,
            "tests": test_programs(self.layout.root)}))
        say(f"built {' '.join(targets)} in {self.clock.gone():.0f} s")

    @staticmethod
    def require(name, advice):
        program = layout.tool(name)
        if program is None:
            raise CannotRun(f"there is no {name}; {advice}")
        return program

    def run(self, log, *command):
        outcome = process.run(command, self.clock.left(), self.layout.logs / "build" / log,
                              cwd=self.layout.root)
        if not outcome.good:
            for line in outcome.text().splitlines()[-40:]:
                print(line)
            raise Failed(f"{log}: {outcome.reason()}")
        return outcome

    def configure(self, nvcc):
        if self.architectures is None:
            try:
                capability = gpu.identify(self.layout.logs)["compute_cap"]
                self.architectures = architectures.for_capability(capability)
            except CannotRun:
                pass
        flags = [*FLAGS, *self.flags, f"-DCMAKE_CUDA_COMPILER={nvcc}", *toolkit_flags(nvcc)]
        if self.architectures:
            flags.append(f"-DCMAKE_CUDA_ARCHITECTURES={self.architectures}")
        self.run("configure", "cmake", "--preset", "cuda", "-B", self.layout.build, *flags)
        self.architectures = self.built_architectures()

    def built_architectures(self):
        """Returns the list of architectures that CMake has chosen."""
        cache = (self.layout.build / "CMakeCache.txt").read_text()
        found = re.search(r"^DTN_CUDA_ARCHITECTURES:INTERNAL=(.+)$", cache, re.MULTILINE)
        if not found:
            raise Failed(f"{self.layout.build}/CMakeCache.txt has no DTN_CUDA_ARCHITECTURES")
        return found.group(1)

    def build_planted_faults(self, nvcc):
        self.run("planted_faults", nvcc, "-std=c++20", *architectures.flags(self.architectures),
                 "-Xcompiler=-static-libgcc", "-Xcompiler=-static-libstdc++",
                 "-o", self.layout.program("planted_faults"),
                 self.layout.root / "tests/cuda/planted_faults.cu", *self.objects)


def toolkit_flags(nvcc):
    """Returns CMake options for cuBLASLt and NCCL's header from PyTorch's packages, if the toolkit
    lacks them."""
    toolkit = pathlib.Path(nvcc).resolve().parent.parent
    flags = []
    if not [*toolkit.glob("lib*/libcublasLt.so"), *toolkit.glob("targets/*/lib/libcublasLt.so")]:
        library = libraries.in_python_packages("lib/libcublasLt.so.13")
        if library:
            flags.append(f"-DCUDA_cublasLt_LIBRARY={library}")
    if not (toolkit / "include/cublasLt.h").exists():
        header = libraries.in_python_packages("include/cublasLt.h")
        if header:
            flags += [f"-DCMAKE_{language}_FLAGS=-isystem {header.parent}"
                      for language in ("CXX", "CUDA")]
    if not ((toolkit / "include/nccl.h").exists() or pathlib.Path("/usr/include/nccl.h").exists()):
        header = libraries.in_python_packages("include/nccl.h")
        if header:
            flags.append(f"-DNCCL_INCLUDE_DIR={header.parent}")
    return flags


def static_flags(objects):
    """Returns CMake options that link third-party libraries statically, as Debian has them, and the
    programs with `objects`."""
    packages = layout.ROOT / "tools/gpu_check/static"
    return ["-DDTN_MPI=OFF", f"-Dyaml-cpp_DIR={packages}", f"-Dspdlog_DIR={packages}",
            f"-DZLIB_LIBRARY={static_library('libz.a')}",
            f"-DJPEG_LIBRARY={static_library('libjpeg.a')}",
            f"-DPNG_LIBRARY={static_library('libpng16.a')}",
            f"-DWEBP_LIBRARY={static_library('libwebp.a')}",
            f"-DWEBP_DEMUX_LIBRARY={static_library('libwebpdemux.a')}",
            f"-DOpenMP_gomp_LIBRARY={static_library('libgomp.a')}",
            "-DCMAKE_EXE_LINKER_FLAGS=" + " ".join(["-static-libstdc++ -static-libgcc",
                                                    *map(str, objects)])]


def older_glibc(folder):
    """Compiles the object file that lets programs start on a glibc older than the one of this
    machine. The name of the file changes with its source, so that programs are linked again."""
    source = layout.ROOT / "tools/gpu_check/static/older_glibc.cpp"
    made = folder / f"older_glibc_{sources.digest(source.read_bytes())}.o"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["g++", "-std=c++20", "-O2", "-c", "-o", made, source], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRun(f"{source} cannot be compiled: {error}")
    return made


def static_library(name):
    """Returns the path at which the compiler finds a static library."""
    try:
        found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, text=True,
                               capture_output=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotRun(f"g++ cannot locate {name}: {error}")
    if not pathlib.Path(found).is_absolute():
        raise CannotRun(f"there is no {name}; tools/install-deps.sh installs it")
    return found
