"""Command line of the check."""
import argparse
import pathlib
import signal
import tarfile
from dataclasses import dataclass

from . import (architectures, build, gpu, layout, ledger, libraries, pack, process, requirements,
               smoke)
from .clock import Clock
from .errors import CannotRun, Failed, Malformed
from .kernels import Kernels
from .ncu import Ncu
from .peer import Peer
from .products import Products
from .ranks import Ranks
from .sanitizer import Sanitizer
from .smoke import Smoke
from .stage import Runner, say
from .tests import Tests
from .train import Train

STAGES = {stage.name: stage for stage in (Smoke, Kernels, Products, Train, Peer, Tests, Ncu,
                                          Sanitizer, Ranks)}
ALL_GOOD, MISSED, BAD_USAGE, COULD_NOT_RUN = 0, 1, 2, 3

HELP = """\
tools/gpu-check.sh [OPTIONS]         checks and measures the CUDA backend on this machine's GPU
tools/gpu-check.sh pack [FOLDER]     makes a folder of programs for a machine without build tools
tools/gpu-check.sh record-losses     writes tests/gpu_smoke_losses.json; needs only the CPU
"""

STAGE_HELP = """\
Stages, in the order in which they run: the most important first. Times are estimates for an H200
and 16 cores.
  build      8 min  in a checkout: cmake --preset cuda without oneDNN, for this GPU only (90a-real
                    on compute capability 9.0), or for the architectures of CMakeLists.txt if
                    nvidia-smi finds no GPU: dtn-bench, dtn-train, tests/gpu_*. A packed folder
                    needs no build.
  smoke      1 min  the output of nvidia-smi, rates of copies and products, and five steps of
                    ViT-S* with LayerNorm and with DTN, in float32 and bf16, compared with the CPU
  kernels    1 min  dtn-bench kernels: each kernel of a training step, compared with its lower
                    bound; then the kernels of whole steps, as tables in the logs; attention by
                    warpgroup products, alone and in whole steps, on GPUs that have them
  products   3 min  dtn-bench products: each matrix product with every algorithm of cuBLASLt; then
                    whole steps with the library's first and with the fastest algorithms
  train      5 min  dtn-bench train (LayerNorm and DTN alternately, twice), norm, eval and gemm;
                    DTN on sequences, steps of three Long ListOps models, Swin-T, PVT-Tiny
  peer      10 min  tests/peers/gpu_speed.py: variants of PyTorch, each in its own process, between
                    two runs of ours: the four most important of LayerNorm and of DTN. The other
                    variants (20 min) run after all stages. Needs PyTorch.
  tests      2 min  the tests gpu_*, suite by suite, four at a time. A skipped test does not count
                    as passed. A test for hardware that this GPU lacks is left out, and the ledger
                    gets no entry for the code that only it tests. A failed test runs again, alone
                    and with CUDA_LAUNCH_BLOCKING=1, so that a crash names its kernel.
  ncu        3 min  counters of a few kernels; left out if ncu is missing or cannot read counters
  sanitizer 10 min  compute-sanitizer must find two planted faults; then memcheck of all tests
                    except gpu_dist, and racecheck of our kernels in gpu_kernels, suite by suite
  ranks      1 min  dtn-train under mpirun: one rank, then two, which a single GPU must refuse.
                    Left out if mpirun, the MPI module or NCCL is missing.

If a measurement fails, crashes, hangs or prints malformed output, this is recorded and the others
continue. Each result is written to the ledger at once. A call continues from the results in the
ledger for the same sources, GPU, driver and CUDA version; measurements that failed in an earlier
call are retried at the end. Every call ends with a table of the requirements.

Needs: a GPU of compute capability 8.0 or newer with its driver, Python 3.9, and libcublasLt.so.13
(for gpu_dist and ranks also libnccl.so.2) in the system, in /usr/local/cuda or in the packages that
PyTorch installs. A packed folder needs glibc {glibc} or newer, and a GPU that it was packed for.
The stage build and the command pack need the CUDA Toolkit 13 and the packages of
tools/install-deps.sh; pack needs no GPU. Root is not needed.

Writes: the build folder (logs in DIR/gpu-check/logs), the ledger tests/gpu_ledger.json, and with
--out its copy DIR/gpu_ledger.json after each result and DIR/logs.tar.gz after each stage. To
continue in a new copy of a packed folder, put that gpu_ledger.json into its tests/. To merge the
results into a checkout: python3 tests/gpu_ledger.py merge FILE

Exit codes: 0 all chosen stages ran and met their requirements; 1 a stage failed, missed a
requirement or had no time; 2 bad usage; 3 a stage cannot run here, for the printed reason, such as
programs built for other GPUs.
"""


def positive(text):
    value = float(text)
    if not value > 0:
        raise ValueError
    return value


def parse(arguments):
    parser = argparse.ArgumentParser(prog="gpu-check.sh", usage="\n" + HELP,
                                     epilog=STAGE_HELP.format(glibc=pack.NEWEST_GLIBC),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=("check", "pack", "record-losses"),
                        default="check", help=argparse.SUPPRESS)
    parser.add_argument("folder", nargs="?", help=argparse.SUPPRESS)
    add = parser.add_argument
    add("--stage", nargs="+", metavar="S", choices=("build", *STAGES), help="only these "
        "stages (default: all, and build in a checkout)")
    add("--until", type=positive, metavar="SECONDS", help="time limit from the start. A "
        "measurement that is not expected to fit does not start, and a running one is stopped; "
        "both are reported as not run. (default: no limit)")
    add("--again", action="store_true", help="repeat measurements that are in the ledger")
    add("--out", type=pathlib.Path, metavar="DIR", help="folder for copies of ledger and logs")
    add("--build-dir", type=pathlib.Path, metavar="DIR", help="the build folder (default: "
        "build-gpu; in a packed folder build; for pack build-gpu-pack; for record-losses build)")
    add("--commit", metavar="HASH", help="commit to record in the ledger (default: the commit of "
        "the sources)")
    add("--arch", default="90a-real", metavar="LIST", help="for pack: GPU architectures in CMake's "
        "notation, like '80-real;90a-real' (default: %(default)s, only for H100 and H200)")
    options = parser.parse_args(arguments)
    if options.folder and options.command != "pack":
        parser.error(f"{options.command} takes no folder")
    return options


@dataclass
class Context:
    """Objects that all stages share."""
    layout: layout.Layout
    clock: Clock
    ledger: ledger.Ledger
    environment: dict
    missing: dict
    built: dict


class Check:
    def __init__(self, options):
        self.options = options
        self.clock = Clock(options.until)
        packed = not (layout.ROOT / "CMakeLists.txt").exists()
        default = "build" if packed else "build-gpu"
        self.layout = layout.Layout((options.build_dir or layout.ROOT / default).absolute())
        self.runner = Runner(self.clock, options.again)
        self.context = None

    def stages(self):
        chosen = self.options.stage or [*(() if self.layout.packed else ("build",)), *STAGES]
        return [name for name in ("build", *STAGES) if name in chosen]

    def trace(self, name):
        return self.layout.logs / name / "traceback.txt"

    def __call__(self):
        if self.layout.packed:
            pack.unpack(layout.ROOT, self.layout.build)
        stages = self.stages()
        if "build" in stages:
            say("== build")
            make = build.Build(self.layout, self.clock, self.options.commit)
            if not self.runner.guard("build", make, self.trace("build")):
                self.copy_logs()
                return self.status()
            stages.remove("build")
        if stages and self.runner.guard("the check", self.prepare, self.trace("prepare")):
            for name in stages:
                say(f"== {name}")
                self.runner.run(STAGES[name](self.context))
                self.copy_logs()
            self.runner.run_what_waits()
            self.report(stages)
        self.copy_logs()
        return self.status()

    def prepare(self):
        """Returns the context of the stages. Raises CannotRun if no stage can run."""
        found = gpu.identify(self.layout.logs)
        built = self.layout.built()
        architectures.require(built["architectures"], found["compute_cap"], found["name"],
                              self.remedy(found["compute_cap"]))
        for name in ("dtn-bench", "dtn-train", *built["tests"]):
            if not self.layout.program(name).exists():
                say(f"{self.layout.program(name)} is missing; the stages that need it will fail")
        environment, missing = libraries.find()
        environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the numbering of nvidia-smi
        environment["GOMP_SPINCOUNT"] = "3000"  # else programs restart to set it
        for sentence in missing.values():
            say(sentence)
        ledger.load(self.layout.ledger)  # reports a malformed ledger early
        identity = {"tree": built["tree"], "gpu": found["name"], "driver": found["driver_version"],
                    "cuda": built["cuda"]}
        book = ledger.Ledger(self.layout.ledger, identity, self.options.commit or built["commit"],
                             self.options.out)
        self.context = Context(self.layout, self.clock, book, environment, missing, built)

    def remedy(self, capability):
        if self.layout.packed:
            return f"pack with --arch '{architectures.for_capability(capability)}'"
        return "run --stage build, which builds for this one"

    def report(self, stages):
        say("== requirements")
        run = self.context.ledger.run()
        if not run:
            say("nothing was measured")
            self.runner.failed = True
            return
        requirements.print_report(run, stages)
        self.runner.failed |= requirements.missed(run, stages)

    def copy_logs(self):
        if self.options.out:
            self.runner.guard("copying the logs", self.write_archive, self.trace("out"))

    def write_archive(self):
        self.options.out.mkdir(parents=True, exist_ok=True)
        if self.layout.logs.exists():
            with tarfile.open(self.options.out / "logs.tar.gz", "w:gz") as archive:
                archive.add(self.layout.logs, "logs")

    def status(self):
        return COULD_NOT_RUN if self.runner.refused else MISSED if self.runner.failed else ALL_GOOD


def make_pack(options):
    where = layout.Layout((options.build_dir or layout.ROOT / "build-gpu-pack").absolute())
    folder = pathlib.Path(options.folder or layout.ROOT / ".gpu-pack").absolute()
    pack.pack(folder, where, Clock(options.until), options.arch, options.commit)


def record_losses(options):
    where = layout.Layout((options.build_dir or layout.ROOT / "build").absolute())
    smoke.record(where, process.run)
    say(f"wrote {where.smoke_losses}")


def interrupted(number, frame):
    process.kill_all()
    raise KeyboardInterrupt


def main(arguments):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    try:
        if options.command == "check":
            return Check(options)()
        {"pack": make_pack, "record-losses": record_losses}[options.command](options)
        return ALL_GOOD
    except CannotRun as reason:
        say(f"cannot run: {reason}")
        return COULD_NOT_RUN
    except (Failed, Malformed) as reason:
        say(str(reason))
        return MISSED
    except KeyboardInterrupt:
        process.kill_all()
        say("interrupted; the finished measurements are in the ledger")
        return MISSED
