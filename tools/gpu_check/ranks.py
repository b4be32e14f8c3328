"""Stage ranks: training under mpirun with one rank and with two, each with its own GPU."""
import shutil

from . import layout
from .errors import Failed, LeftOut
from .stage import Stage, Step

SETTINGS = ("data.dataset=synthetic", "data.size=64", "train.batch_size=16", "train.micro_batch=8",
            "schedule.epochs=null", "schedule.steps=6", "train.eval_every=0")
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
REFUSAL = "the same GPU"  # part of dtn's message for NCCL's error


class Ranks(Stage):
    name = section = "ranks"

    def rounds(self):
        build = self.context.layout.build
        if layout.tool("mpirun") is None:
            raise LeftOut("there is no mpirun")
        if not (build / "lib/dtn/dtn_mpi.so").exists():
            raise LeftOut(f"there is no {build}/lib/dtn/dtn_mpi.so: built without MPI")
        if "libnccl.so.2" in self.context.missing:
            raise LeftOut("there is no libnccl.so.2")
        yield 1, [Step("one rank", 20, 120, self.one), Step("two ranks", 20, 120, self.two)]

    def train(self, seconds, ranks):
        output = self.log(f"run_{ranks}")
        shutil.rmtree(output, ignore_errors=True)
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        return self.run([layout.tool("mpirun"), "--oversubscribe", "-n", str(ranks),
                         self.context.layout.program("dtn-train"), "--config", "vit_s_star_ln",
                         "--device", "cuda", "--output", output, *settings],
                        seconds, f"ranks_{ranks}", env=ENVIRONMENT)

    def gpus(self):
        outcome = self.run_well([layout.tool("nvidia-smi"), "--list-gpus"], 30, "gpus")
        return len(outcome.text().split("\n")) - 1

    def one(self, seconds):
        self.check(self.train(seconds, 1))
        return {"what": "one rank trains"}

    def two(self, seconds):
        """Runs two ranks. With a single GPU, they must be refused with a message that names the
        reason."""
        gpus = self.gpus()
        outcome = self.train(seconds, 2)
        if gpus > 1:
            self.check(outcome)
            return {"what": f"two ranks train on two of {gpus} GPUs"}
        if outcome.good:
            raise Failed("two ranks train on one GPU, which NCCL should have refused")
        if REFUSAL not in outcome.text() + outcome.stderr.read_text(errors="replace"):
            raise Failed(f"two ranks on one GPU failed without saying why: {outcome.reason()}")
        return {"what": "two ranks on one GPU are refused"}

    def describe(self, step, result):
        return result["what"]
