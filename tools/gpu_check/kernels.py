"""Stage kernels: times each kernel of a training step alone, beside its lower bound."""
import json

from .errors import Failed
from .ledger import rounded
from .stage import Stage, Step, say
from .train import MODEL, bench_train


WARPGROUPS = {"DTN_CUDA_WGMMA": "1"}
TWELVE_WARPS = {"DTN_CUDA_DTN_WARPS": "12"}


class Kernels(Stage):
    name = "kernels"
    section = "speeds"

    def rounds(self):
        steps = [Step("summary", 30, 240, self.kernels)]
        for norm in ("dtn", "ln"):
            steps.append(Step(f"trace_{norm}", 15, 90,
                              lambda seconds, norm=norm: self.trace(seconds, norm)))
        # Attention by wgmma, which is off by default. GPUs without wgmma ignore the switch.
        steps.append(Step("warpgroup_attention", 10, 120, lambda seconds: self.kernels(
            seconds, "warpgroup_attention", "warpgroup ", ("--only", "attention"), WARPGROUPS)))
        for norm in ("dtn", "ln"):
            steps.append(Step(f"warpgroup_{norm}", 20, 120, lambda seconds, norm=norm: bench_train(
                self, f"warpgroup_{norm}", seconds, norm, env=WARPGROUPS)))
        # DTN's backward pass with 12 warps per block. The step `summary` measures 8 warps.
        steps.append(Step("twelve_warps_dtn_bwd", 10, 120, lambda seconds: self.kernels(
            seconds, "twelve_warps_dtn_bwd", "12 warps ", ("--only", "dtn_bwd"), TWELVE_WARPS)))
        steps.append(Step("twelve_warps_dtn", 20, 120, lambda seconds: bench_train(
            self, "twelve_warps_dtn", seconds, "dtn", env=TWELVE_WARPS)))
        yield 1, steps

    def kernels(self, seconds, log="kernels", prefix="", choice=(), env=None):
        """Writes each kernel to the ledger when it is measured. Returns the last line, the
        summary."""
        lines = Lines(self, prefix)
        outcome = self.run([self.context.layout.program("dtn-bench"), "kernels", "--config",
                            "vit_s_star_dtn", *MODEL, "--device", "cuda", "--json", *choice],
                           seconds, log, env=env, on_line=lines.take)
        lines.print_table()
        if not (outcome.status == 1 and lines.failed and lines.summary):  # names the kernels
            self.check(outcome)
        if lines.malformed:
            raise Failed(f"{len(lines.malformed)} lines of the output are malformed; the first: "
                         f"{lines.malformed[0][:200]!r}")
        if lines.summary is None:
            raise Failed("the summary line is missing")
        return lines.summary

    def trace(self, seconds, norm):
        """Returns the table of the kernels of an eager step, which the logs keep as text."""
        log = f"trace_{norm}"
        result = bench_train(self, log, seconds, norm, steps=3, env={"DTN_CUDA_TRACE": "1"})
        table = self.log(log + ".err")
        text = table.read_text(errors="replace").strip()
        if text.count("\n") < 2:  # the header, a kernel, and the gaps between kernels
            raise Failed(f"DTN_CUDA_TRACE=1 printed no table: {text or 'nothing'}")
        return {"images_per_second": result["images_per_second"], "table": table.name}

    def describe(self, step, result):
        if "table" not in result:
            return f"{step.name}: " + ", ".join(f"{k} {v:.5g}" if isinstance(v, float) else f"{k} {v}"
                                             for k, v in result.items())
        return f"a table of the kernels of a step: {self.log(result['table'])}"


class Lines:
    """Reads the output of dtn-bench kernels line by line."""

    def __init__(self, stage, prefix):
        self.stage, self.prefix, self.summary = stage, prefix, None
        self.malformed, self.measured, self.failed = [], [], []

    def take(self, line):
        if not line.strip():
            return
        try:
            entry = rounded(json.loads(line))
            if "kernel" in entry:
                name = f"{self.prefix}{entry['kernel']} {entry.get('shape', '')}".strip()
                self._enter(name, entry)
            else:
                self.summary = {**entry, "kernels": int(entry["kernels"])}
        except (ValueError, TypeError, KeyError):
            self.malformed.append(line)

    def _enter(self, name, entry):
        if "error" not in entry:
            for key in ("us", "floor_us", "ratio"):
                entry[key] = float(entry[key])
        with self.stage.context.ledger.changed(self.stage.section) as (section, _, _):
            if "error" in entry:
                section.setdefault("failed", {})[name] = str(entry["error"])[:500]
                self.failed.append(name)
                say(f"kernels: {name} FAILED: {entry['error']}")
                return
            section["results"][name] = entry
            section.get("failed", {}).pop(name, None)
        self.measured.append((name, entry))

    def print_table(self):
        """Prints the kernels, those that lose most time above their floor first."""
        for name, e in sorted(self.measured, key=lambda item: item[1]["floor_us"] - item[1]["us"]):
            say(f"kernels: {e['us']:9.1f} us, {e['ratio']:6.2f} of its floor  {name}")
