"""Paths in a checkout with a build folder, or in a folder that `pack` made. A packed folder has the
same names and no sources."""
import json
import os
import pathlib
import shutil

from . import sources
from .errors import CannotRun

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Folders of the CUDA Toolkit's tools, which may be missing from PATH.
TOOL_FOLDERS = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer",
                "/opt/nvidia/compute-sanitizer", "/opt/nvidia/nsight-compute/*")


class Layout:
    def __init__(self, build, root=None):
        self.root = root = root or ROOT
        self.packed = not (root / "CMakeLists.txt").exists()
        self.build = build
        self.state = build / "gpu-check"
        self.logs = self.state / "logs"
        self.built_file = self.state / "built.json"
        self.ledger = root / "tests/gpu_ledger.json"
        self.smoke_losses = root / "tests/gpu_smoke_losses.json"
        self.gpu_speed = root / "tests/peers/gpu_speed.py"

    def program(self, name):
        """Returns the path of a program of the build, which may not exist."""
        return self.build / ("tests" if name.startswith("gpu_") or name == "planted_faults"
                             else "bin") / name

    def built(self):
        """Returns a description of the build: `tree` and `sources` as in the ledger, `cuda`,
        `commit`, `architectures`, `tests` (the names of the test programs)."""
        try:
            built = json.loads(self.built_file.read_text())
        except (OSError, ValueError):
            raise CannotRun(f"there is no build in {self.build}; "
                            + ("pack again" if self.packed else "run --stage build first"))
        if not self.packed and built["tree"] != sources.snapshot(self.root)["tree"]:
            raise CannotRun(f"{self.build} was built from other sources; run --stage build first")
        return built


def tool(name):
    """Returns the path of a tool of NVIDIA or of the system, or None."""
    folders = [str(folder) for pattern in TOOL_FOLDERS
               for folder in sorted(pathlib.Path("/").glob(pattern[1:]), reverse=True)]
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", "")] + folders))
