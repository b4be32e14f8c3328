"""Stage peer: measures the training step of ViT-S* in PyTorch, each variant in its own process,
between two measurements of dtn."""
import itertools
import sys

from .errors import CannotRun, Failed
from .ledger import rounded
from .stage import Stage, Step
from .train import BATCH, STEPS, bench_train, parse_object

NORMS = ("ln", "dtn")
OURS = 20  # seconds of one measurement of dtn
FIRST = 4  # variants of each norm; the others wait for the end of all stages


class Peer(Stage):
    name = section = "peer"

    def rounds(self):
        self.require_torch()
        # The most important variant of each norm comes first. dtn is measured again at the end.
        variants = itertools.zip_longest(*(self.variants(norm) for norm in NORMS))
        yield 1, [*(self.ours(norm, 1) for norm in NORMS),
                  *filter(None, itertools.chain.from_iterable(variants)),
                  *(self.ours(norm, 2) for norm in NORMS)]

    def require_torch(self):
        attempt = "import torch; assert torch.cuda.is_available()"
        outcome = self.run([sys.executable, "-c", attempt], min(120, self.context.clock.left()),
                           "torch")
        if not outcome.good:
            raise CannotRun(f"{sys.executable} has no PyTorch that sees the GPU: "
                            + outcome.reason())

    def script(self, norm, *arguments):
        return [sys.executable, self.context.layout.gpu_speed, "--norm", norm, *arguments]

    def variants(self, norm):
        """Returns a step for each variant, the most important first. If the script does not list
        the variants, returns a step that fails with the reason."""
        outcome = self.run(self.script(norm, "--list"), min(120, self.context.clock.left()),
                           f"list_{norm}")
        names = [line.strip() for line in outcome.text().splitlines() if line.strip()]
        if outcome.good and names:
            return [self.theirs(norm, name, rank >= FIRST) for rank, name in enumerate(names)]

        def fail(seconds):
            raise Failed(f"gpu_speed.py names no variants: {outcome.reason()}")
        return [Step(f"{norm} list", 0, 1, fail, info=(norm, "variants", "list"))]

    def ours(self, norm, turn):
        return Step(f"{norm} ours {turn}", OURS, 120, info=(norm, "ours", turn),
                    work=lambda seconds: bench_train(self, f"{norm}_ours_{turn}", seconds, norm))

    def theirs(self, norm, name, late):
        return Step(f"{norm} {name}", 60, 300, leave=0 if late else len(NORMS) * OURS, late=late,
                    info=(norm, "variants", name),
                    work=lambda seconds: self.variant(seconds, norm, name))

    def variant(self, seconds, norm, name):
        command = self.script(norm, "--variant", name, "--steps", str(STEPS), "--batch", str(BATCH))
        outcome = self.run_well(command, seconds, f"{norm}_{name}")
        result = parse_object(outcome.text())
        rate = result.get("images_per_second")
        if not isinstance(rate, (int, float)) or rate <= 0:
            raise Failed(f"its output has no images_per_second: {result}")
        return result

    # ---- results: {norm: {"ours": [a, b], "variants": {name: {...}}, "failed": {name: reason}}}

    def of_norm(self, section, step):
        norm = step.info[0]
        return section.get("results", {}).get(norm) or {"ours": [], "variants": {}, "failed": {}}

    def is_done(self, section, step):
        _, kind, name = step.info
        entry = self.of_norm(section, step)
        return name in entry["variants"] if kind == "variants" else len(entry["ours"]) >= name

    def has_failed(self, section, step):
        return self.key(step) in self.of_norm(section, step)["failed"]

    @staticmethod
    def key(step):
        _, kind, name = step.info
        return name if kind == "variants" else f"ours {name}"

    def record(self, section, step, result):
        norm, kind, name = step.info
        entry = section["results"].setdefault(norm, self.of_norm(section, step))
        entry["failed"].pop(self.key(step), None)
        if kind == "variants":
            entry["variants"][name] = rounded(result)
        else:
            entry["ours"] = [*entry["ours"], rounded(result["images_per_second"])][-2:]

    def record_failure(self, section, step, reason):
        entry = section["results"].setdefault(step.info[0], self.of_norm(section, step))
        entry["failed"][self.key(step)] = reason

    def describe(self, step, result):
        return f"{step.name}: {result['images_per_second']:.1f} images/s"

