"""Stage smoke: rates of the GPU, and a comparison of short training runs with the CPU, in a
minute."""
import json
import math
import shutil

from . import gpu, layout
from .errors import CannotRun, Failed
from .requirements import BOUNDS
from .stage import Stage, Step
from .train import bench

STEPS = 5
# ViT-S* at 224 x 224 with drop path. The few steps still change the weights.
SETTINGS = ("data.dataset=synthetic", "data.size=16", "train.batch_size=2", "train.micro_batch=2",
            "schedule.epochs=null", f"schedule.steps={STEPS}", "train.eval_every=0",
            "train.log_every=1", "optim.lr=1e-4")
CASES = [(norm, precision) for precision in ("fp32", "bf16") for norm in ("ln", "dtn")]


def command(program, norm, precision, device, output):
    settings = [part for s in (*SETTINGS, f"train.precision={precision}") for part in ("--set", s)]
    return [program, "--config", f"vit_s_star_{norm}", "--device", device, "--output", output,
            *settings]


def read_run(output):
    """Returns the loss and the gradient norm of each logged step of a run."""
    file = output / "metrics.jsonl"
    try:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found = {key: [float(line[key]) for line in lines if "split" not in line]
                 for key in ("loss", "grad_norm")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"{file} cannot be read: {type(error).__name__}: {error}")
    if len(found["loss"]) != STEPS:
        raise Failed(f"{file} has {len(found['loss'])} steps, not {STEPS}")
    return found


def furthest(found, expected):
    """Returns the largest difference relative to the expected value, or a non-finite value if an
    input is not finite."""
    return max((abs(a - b) / abs(b) for a, b in zip(found, expected)),
               key=lambda error: math.inf if math.isnan(error) else error)


class Smoke(Stage):
    name = section = "smoke"

    def rounds(self):
        steps = [Step("machine", 1, 120, self.machine), Step("rates", 8, 90, self.rates)]
        for norm, precision in CASES:
            steps.append(Step(f"losses_{norm}_{precision}", 8, 90,
                              lambda seconds, case=(norm, precision): self.losses(seconds, *case)))
        yield 1, steps

    def machine(self, seconds):
        found = gpu.describe(self.context.layout.logs)
        found["tools"] = [name for name in ("compute-sanitizer", "ncu", "nvcc", "mpirun")
                          if layout.tool(name)]
        found["missing"] = sorted(self.context.missing)
        return found

    def rates(self, seconds):
        """Measures the rates of copies and of the large product, in one process."""
        found = bench(self, "rates", seconds, "norm", "--type", "ln", "--shape", "256,196,432",
                      "--heads", "9", "--dtype", "bf16", "--steps", "10")
        return {key: found[key] for key in ("copy_gbytes_per_second", "gemm_gflops")}

    def losses(self, seconds, norm, precision):
        expected = self.expected(norm, precision)
        output = self.log(f"run_{norm}_{precision}")
        shutil.rmtree(output, ignore_errors=True)
        program = self.context.layout.program("dtn-train")
        self.run_well(command(program, norm, precision, "cuda", output), seconds,
                      f"losses_{norm}_{precision}")
        found = read_run(output)
        shutil.rmtree(output / "checkpoints", ignore_errors=True)
        errors = {key: furthest(found[key], expected[key]) for key in expected}
        if not all(map(math.isfinite, errors.values())):
            raise Failed(f"not all of these are finite: {found}")
        return {**found, "loss_error": errors["loss"], "grad_norm_error": errors["grad_norm"],
                "error": max(errors.values())}

    def expected(self, norm, precision):
        file = self.context.layout.smoke_losses
        advice = "run tools/gpu-check.sh record-losses"
        try:
            stored = json.loads(file.read_text())
            if stored["settings"] != list(SETTINGS):
                raise Failed(f"{file} was recorded with other settings; {advice}")
            return stored["runs"][f"{norm}_{precision}"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Failed(f"{file}: {type(error).__name__}: {error}; {advice}")

    def describe(self, step, result):
        if step.name == "machine":
            return ", ".join(f"{k} {v}" for k, v in result.items())
        if step.name == "rates":
            return (f"copies {result['copy_gbytes_per_second']:.0f} GB/s, "
                    f"products {result['gemm_gflops'] / 1e3:.0f} TFLOP/s")
        bound = BOUNDS[step.name.split("_")[-1]]
        return (f"{step.name}: {result['loss_error']:.1e} from the CPU's, norms of gradients "
                f"{result['grad_norm_error']:.1e}, "
                f"{'within' if result['error'] <= bound else 'BEYOND'} {bound:.0e}")


def record(layout_, process_run):
    """Writes the losses of the CPU: `gpu-check.sh record-losses`."""
    program = layout_.program("dtn-train")
    if not program.exists():
        raise CannotRun(f"there is no {program}; build it, or name its build with --build-dir")
    runs = {}
    for norm, precision in CASES:
        output = layout_.logs / "record" / f"{norm}_{precision}"
        shutil.rmtree(output, ignore_errors=True)
        outcome = process_run(command(program, norm, precision, "cpu", output), 1800,
                              output.with_name(output.name + "_log"))
        if not outcome.good:
            raise Failed(outcome.reason())
        runs[f"{norm}_{precision}"] = read_run(output)
        shutil.rmtree(output)
    text = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in runs.items())
    layout_.smoke_losses.write_text(
        f'{{\n  "settings": {json.dumps(list(SETTINGS))},\n  "runs": {{\n{text}\n  }}\n}}\n')
