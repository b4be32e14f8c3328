"""Stage train: measures whole training steps of ViT-S* and the normalizers in them, and models of
sequences and of several stages, by dtn-bench."""
import json

from .errors import Failed
from .stage import Stage, Step

BATCH = 256
MODEL = ("--set", f"train.batch_size={BATCH}", "--set", f"train.micro_batch={BATCH}",
         "--set", "train.precision=bf16")
STEPS = 20


def bench(stage, log, seconds, *arguments, env=None):
    """Returns the object that a call of dtn-bench prints."""
    outcome = stage.run_well([stage.context.layout.program("dtn-bench"), *arguments,
                              "--device", "cuda", "--json"], seconds, log, env=env)
    return parse_object(outcome.text())


def parse_object(text):
    try:
        result = json.loads(text)
    except ValueError as error:
        raise Failed(f"its output is not JSON: {error}: {text[:200]!r}")
    if not isinstance(result, dict):
        raise Failed(f"its output is not a JSON object: {text[:200]!r}")
    return result


def bench_train(stage, log, seconds, norm, steps=STEPS, env=None):
    result = bench(stage, log, seconds, "train", "--config", f"vit_s_star_{norm}", *MODEL,
                   "--steps", str(steps), env=env)
    if not isinstance(result.get("images_per_second"), (int, float)):
        raise Failed(f"its output has no images_per_second: {result}")
    return result


class Train(Stage):
    name = "train"
    section = "bench"

    def rounds(self):
        steps = []
        # Alternates twice, because the GPU's speed may change as it warms up.
        for turn in (1, 2):
            for norm in ("ln", "dtn"):
                steps.append(self.step(
                    f"train_{norm}.{turn}", 20,
                    lambda seconds, name, norm=norm: bench_train(self, name, seconds, norm)))
        for norm in ("dtn", "ln"):
            steps.append(self.step(f"norm_{norm}", 8, lambda seconds, name, norm=norm: bench(
                self, name, seconds, "norm", "--type", norm, "--shape", f"{BATCH},196,432",
                "--heads", "9", "--dtype", "bf16", "--steps", str(STEPS))))
        for norm in ("ln", "dtn"):
            steps.append(self.step(f"eval_{norm}", 12, lambda seconds, name, norm=norm: bench(
                self, name, seconds, "eval", "--config", f"vit_s_star_{norm}", *MODEL,
                "--steps", str(STEPS))))
        steps.append(self.step("gemm", 12, lambda seconds, name: bench(
            self, name, seconds, "gemm", "--config", "vit_s_star_ln", *MODEL, "--dtype", "bf16")))
        steps.append(self.step("norm_line", 8, lambda seconds, name: bench(
            self, name, seconds, "norm", "--grid", "1,2001", "--positions", "0,0,-1", "--type", "dtn",
            "--shape", "32,2001,512", "--heads", "8", "--dtype", "bf16", "--steps", str(STEPS))))
        for kind in ("dense", "bigbird", "reformer"):
            steps.append(self.step(f"train_listops_{kind}", 25, lambda seconds, name, kind=kind: bench(
                self, name, seconds, "train", "--config", f"listops_{kind}_dtn",
                "--set", "train.precision=bf16", "--steps", "5")))
        for model in ("swin_t", "pvt_tiny"):
            steps.append(self.step(f"train_{model}", 25, lambda seconds, name, model=model: bench(
                self, name, seconds, "train", "--config", f"{model}_dtn", *MODEL, "--steps", "5")))
        yield 1, steps

    @staticmethod
    def step(name, estimate, measure):
        return Step(name, estimate, 120, lambda seconds: measure(seconds, name))

    def describe(self, step, result):
        figures = (f"{key} {value:.5g}" for key, value in result.items()
                   if isinstance(value, (int, float)))
        return f"{step.name}: {', '.join(figures)}"
