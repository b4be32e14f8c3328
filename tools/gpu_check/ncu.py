"""Stage ncu: hardware counters of a few kernels."""
import csv

from . import layout
from .errors import Failed, LeftOut
from .stage import Stage, Step
from .train import MODEL

METRICS = {"gpu__time_duration.sum": "time", "dram__bytes_read.sum": "read",
           "dram__bytes_write.sum": "written",
           "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
           "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent",
           "sm__inst_executed.sum": "instructions", "launch__registers_per_thread": "registers",
           "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent"}
# Kernels that are expected to lose most time above their floor.
KERNELS = ("dtn_tensor_forward_kernel", "dtn_tensor_backward_kernel", "attention_forward_kernel",
           "attention_backward_queries_kernel", "attention_backward_keys_kernel",
           "layer_norm_backward_kernel", "mlp_gelu_backward_kernel")
REFUSALS = ("ERR_NVGPUCTRPERM", "LibraryNotLoaded", "Failed to initialize the profiler",
            "not supported")


class Ncu(Stage):
    name = "ncu"
    kernels = KERNELS
    section = "profile"

    def rounds(self):
        self.program = layout.tool("ncu")
        if self.program is None:
            raise LeftOut("there is no ncu; it comes with Nsight Compute")
        yield 1, [Step(kernel, 25, 120, lambda seconds, k=kernel: self.profile(seconds, k))
                  for kernel in self.kernels]

    def profile(self, seconds, kernel):
        """Profiles one launch after some warm-up launches, then ends the program."""
        outcome = self.run([
            self.program, "--clock-control", "none", "--csv", "--page", "raw",
            "--print-units", "base", "--metrics", ",".join(METRICS),
            "--kernel-name-base", "function", "--kernel-name", f"regex:^{kernel}$",
            "--launch-skip", "2", "--launch-count", "1", "--kill", "yes",
            self.context.layout.program("dtn-bench"), "kernels", "--config", "vit_s_star_dtn",
            *MODEL, "--device", "cuda", "--json"], seconds, kernel)
        # With --kill the exit status is that of a killed program.
        result = parse(outcome.text())
        if result:
            return result
        said = outcome.text() + outcome.stderr.read_text(errors="replace")
        for refusal in REFUSALS:
            if refusal in said:
                raise LeftOut(f"ncu cannot read the counters here: {refusal}")
        self.check(outcome)
        raise Failed(f"ncu saw no launch of {kernel}: {outcome.reason()}")

    def describe(self, step, result):
        return f"{step.name}: " + ", ".join(f"{k} {v}" for k, v in result.items())


def parse(text):
    """Returns the metrics of the last launch in ncu's table, or None if there is no table."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if len(rows) < 3:  # names, units, one row per launch
        return None
    launch = dict(zip(rows[0], rows[-1]))
    found = {}
    for metric, name in METRICS.items():
        try:
            found[name] = float(launch[metric].replace(",", ""))
        except (KeyError, ValueError):
            continue
    return found or None
