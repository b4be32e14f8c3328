"""Stage products: times each matrix product of a training step with every algorithm of cuBLASLt,
and whole steps with the fastest ones. `python3 tests/gpu_ledger.py products` makes the built-in
table of the programs from these measurements."""
import json

from .errors import Failed
from .stage import Stage, Step
from .train import MODEL, bench_train

HEAD = """# The fastest algorithms of cuBLASLt, as measured: card, version, product, algorithm. Written by
# tests/gpu_ledger.py products."""
# A possible replacement for the library's first candidates. `chosen_ms` follows this rule.
LEAST_WASTE = {"DTN_CUDA_PRODUCTS": "least-waste"}
FIELDS = ("card", "library", "product", "best")


class Products(Stage):
    name = "products"
    section = "products"

    def rounds(self):
        steps = []
        for norm in ("dtn", "ln"):
            steps.append(Step(f"products_{norm}", 30, 240,
                              lambda seconds, norm=norm: self.products(seconds, norm)))
        # Whole steps with the library's first candidates and with the fastest algorithms.
        for kind, table in (("first", lambda norm: "first"), ("measured", self.table)):
            for norm in ("dtn", "ln"):
                steps.append(Step(f"train_{norm}_{kind}", 20, 120,
                                  lambda seconds, norm=norm, kind=kind, table=table:
                                  self.train(seconds, norm, kind, table(norm))))
        yield 1, steps

    def table(self, norm):
        return str(self.log(f"table_{norm}"))

    def products(self, seconds, norm):
        outcome = self.run_well(
            [self.context.layout.program("dtn-bench"), "products", "--config",
             f"vit_s_star_{norm}", *MODEL, "--device", "cuda", "--json", "--output",
             self.table(norm), "--steps", "10", "--launches", "10"], seconds, f"products_{norm}",
            env=LEAST_WASTE)
        try:
            *lines, total = [json.loads(line) for line in outcome.text().splitlines()]
            measured = [[line[field] for field in FIELDS] for line in lines]
            return {"products": int(total["products"]), "table": measured,
                    **{key: float(total[key]) for key in ("first_ms", "chosen_ms", "best_ms")}}
        except (ValueError, TypeError, KeyError) as error:
            raise Failed(f"unexpected output: {type(error).__name__}: "
                         f"{error}")

    def train(self, seconds, norm, kind, table):
        return bench_train(self, f"train_{norm}_{kind}", seconds, norm,
                           env={"DTN_CUDA_PRODUCTS": table})

    def describe(self, step, result):
        figures = (f"{key} {value:.5g}" for key, value in result.items()
                   if isinstance(value, (int, float)))
        return f"{step.name}: {', '.join(figures)}"


def lines_of(runs):
    """Returns a line for each measured product. Of several runs, the last one counts."""
    best = {}
    for run in runs:
        for result in run.get("products", {}).get("results", {}).values():
            for card, version, product, algorithm in result.get("table", []):
                best[card, version, product] = algorithm
    return ["\t".join((*key, algorithm)) for key, algorithm in sorted(best.items())]


def as_literal(lines):
    """Returns the text of src/cuda/measured_products.inc, in literals that are short enough for
    every compiler."""
    return "".join(f'R"({line}\n)"\n' for line in (*HEAD.splitlines(), *lines))
