"""A machine for the tests of tools/gpu_check. gpu_check_stand_in.sh stands in for its GPU and for
all programs."""
import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from gpu_check import cli, clock, layout, process, smoke, stage  # noqa: E402

PROGRAMS = ("bin/dtn-bench", "bin/dtn-train", "tests/gpu_kernels", "tests/gpu_train",
            "tests/planted_faults")
TOOLS = ("nvidia-smi", "python", "compute-sanitizer", "ncu", "mpirun")
COMPILERS = ("cmake", "ninja", "g++", "nvcc")
SOURCES = ("src/kernels/a.cu", "src/kernels/warpgroup.cu")  # tests of the latter need 9.0


class Leap(threading.local):
    seconds = 0.0  # lead of the clock in this thread


leap = Leap()


class Program(subprocess.Popen):
    """A stand-in that hangs writes its process group to `$CALLS.hanging`. The clock of the thread
    that waits for it then leaps past every limit. So no test waits for a limit, and the limits are
    those of real use, which a busy machine keeps."""

    leapt = False

    def wait(self, timeout=None):
        if timeout is None:
            return super().wait()
        end = time.monotonic() + timeout
        while True:
            try:
                return super().wait(max(0.0, min(0.02, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                if self.hangs() and not self.leapt:
                    self.leapt = True
                    leap.seconds += 1e6
                    raise
                if time.monotonic() >= end:
                    raise

    def hangs(self):
        hanging = pathlib.Path(os.environ["CALLS"] + ".hanging")
        return hanging.exists() and str(self.pid) in hanging.read_text().split()


@contextlib.contextmanager
def leaping_time():
    """Lets the time leap only in a step whose program hangs."""
    run_step = stage.Runner._run_step

    def in_time(self, *step):
        try:
            run_step(self, *step)
        finally:
            leap.seconds = 0.0

    fake = types.SimpleNamespace(monotonic=lambda: time.monotonic() + leap.seconds)
    patch = unittest.mock.patch.object
    with (patch(subprocess, "Popen", Program), patch(process, "time", fake),
          patch(clock, "time", fake), patch(stage.Runner, "_run_step", in_time)):
        yield


class Machine:
    """A packed folder of stand-ins for `architectures`, on a card with a compute capability, and
    the results of a call in it."""

    def __init__(self, capability="9.0", architectures="90a-real"):
        self.root = pathlib.Path(tempfile.mkdtemp())
        build, tools = self.root / "build", self.root / "tools"
        for name in PROGRAMS + tuple(f"../tools/{tool}" for tool in TOOLS):
            self.stand_in(build / name)
        (build / "lib/dtn").mkdir(parents=True)
        (build / "lib/dtn/dtn_mpi.so").touch()
        (build / "gpu-check").mkdir()
        (build / "gpu-check/built.json").write_text(json.dumps({
            "tree": "tree", "sources": dict.fromkeys(SOURCES, "hash"), "cuda": "13.0",
            "commit": "none", "architectures": architectures,
            "tests": ["gpu_kernels", "gpu_train"]}))
        (self.root / "tests").mkdir()
        (self.root / "tests/gpu_smoke_losses.json").write_text(json.dumps({
            "settings": list(smoke.SETTINGS), "runs": {
                f"{norm}_{precision}": {"loss": [6.5] * 5, "grad_norm": [40.0] * 5}
                for norm, precision in smoke.CASES}}))
        self.environment = {"PATH": f"{tools}:/usr/bin:/bin", "CALLS": str(self.root / "calls"),
                            "CAPABILITY": capability}

    @staticmethod
    def stand_in(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(HERE / "gpu_check_stand_in.sh")

    def become_checkout(self):
        """Adds sources and compilers, and the build in build-gpu."""
        for name in ("CMakeLists.txt", *SOURCES, "tests/cuda/kernels/a_test.cpp",
                     "tests/cuda/train/a_test.cpp"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).touch()
        for name in COMPILERS:
            self.stand_in(self.root / "tools" / name)
        (self.root / "build-gpu").symlink_to("build")

    def built(self):
        return json.loads((self.root / "build/gpu-check/built.json").read_text())

    def ledger(self):
        return json.loads((self.root / "tests/gpu_ledger.json").read_text())

    def check(self, *arguments, plant="", mode="exit", turn=None, **environment):
        """Returns the exit status of a call, and stores its output in `said`."""
        layout.ROOT = self.root
        sys.executable = str(self.root / "tools/python")
        os.environ.update(self.environment, PLANT=plant, MODE=mode,
                          TURN=str(turn or ""), **environment)
        (self.root / "calls").write_text("")
        for name in ("calls.turns", "calls.hanging"):
            (self.root / name).unlink(missing_ok=True)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), leaping_time():
            status = cli.main(arguments)
        for name in environment:
            del os.environ[name]
        self.said, self.calls = said.getvalue(), (self.root / "calls").read_text().splitlines()
        return status

    def section(self, stage_name):
        file = self.root / "tests/gpu_ledger.json"
        runs = json.loads(file.read_text())["runs"] if file.exists() else [{}]
        assert len(runs) == 1, runs
        return runs[0].get(cli.STAGES[stage_name].section, {})

    def results(self, stage_name):
        """Returns the names of the measurements, and the failed ones with the reason."""
        section = self.section(stage_name)
        found = section.get("results", {})
        if stage_name != "peer":
            return set(found), section.get("failed", {})
        names = {f"{norm} {name}" for norm, entry in found.items() for name in entry["variants"]}
        names |= {f"{norm} ours {i + 1}" for norm, entry in found.items()
                  for i in range(len(entry["ours"]))}
        return names, {f"{norm} {name}": reason for norm, entry in found.items()
                       for name, reason in entry["failed"].items()}

    def close(self):
        shutil.rmtree(self.root)


class MachineTest(unittest.TestCase):
    """Makes a machine, and restores the state of this process."""

    def setUp(self):
        self.machine = Machine()
        self.addCleanup(self.machine.close)
        kept = (layout.ROOT, sys.executable, dict(os.environ))

        def restore():
            layout.ROOT, sys.executable = kept[:2]
            os.environ.clear()
            os.environ.update(kept[2])
        self.addCleanup(restore)

    def check(self, *arguments, expect, **options):
        status = self.machine.check(*arguments, **options)
        self.assertEqual(status, expect, self.machine.said)
