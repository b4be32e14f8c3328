"""Stage tests: runs the tests gpu_* on the device, suite by suite. Failed tests run again with
launches that wait, so that a crash names its kernel."""
import time

from . import accuracy, sources, suites
from .errors import CannotRun, Failed, TookTooLong
from .stage import Stage, Step

ENVIRONMENT = {"DTN_CUDA_CACHE": "0", "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "4"}
AT_ONCE = 4
TOLD = 200  # maximum characters that are printed of a message; the ledger has more
HANG = 240  # seconds, four times those of the slowest suite


def list_suites(stage, program):
    """Returns the suites of a test program, with their tests."""
    outcome = stage.run([stage.context.layout.program(program), "--gtest_list_tests"], 60,
                        f"list_{program}")
    found = suites.parse_list(outcome.text()) if outcome.good else {}
    if not found:
        raise Failed(f"{program} lists no tests: {outcome.reason()}")
    return found


class Tests(Stage):
    name = section = "tests"

    def rounds(self):
        steps, broken = [], []
        for program in self.context.built["tests"]:
            try:
                for suite, tests in list_suites(self, program).items():
                    steps.append(self.step(program, suite, tests))
            except Failed as reason:
                broken.append(self.broken(program, str(reason)))
        if not steps:
            raise CannotRun("no test program lists its tests; see the logs")
        self.plan(len(steps) + len(broken))
        yield AT_ONCE, steps + broken
        yield 1, list(self.second_runs())

    def step(self, program, suite, tests):
        return Step(f"{program} {suite}", 5, HANG,
                    lambda seconds: self.suite(seconds, program, suite, tests))

    @staticmethod
    def broken(program, reason):
        def fail(seconds):
            raise Failed(reason)
        return Step(program, 0, 1, fail)

    def suite(self, seconds, program, suite, tests):
        """Runs all tests of a suite. After a crash, the remaining tests run in another process."""
        begun = time.monotonic()
        passed, failed, skipped, left = 0, {}, {}, tests
        lines = self.log(f"{program}_{suite}.jsonl")
        lines.unlink(missing_ok=True)
        while left:
            # A pattern for the whole suite keeps the command line short.
            chosen = f"{suite}.*" if left == tests else ":".join(left)
            outcome = self.run([self.context.layout.program(program), f"--gtest_filter={chosen}"],
                               begun + seconds - time.monotonic(), f"{program}_{suite}",
                               env={**ENVIRONMENT, "DTN_LEDGER": str(lines)})
            if outcome.timed_out and not self.context.clock.left():
                raise TookTooLong(outcome.reason())
            text = outcome.text() + ("" if outcome.good else
                                     outcome.stderr.read_text(errors="replace"))
            good, bad, without, left = suites.read(text, left, outcome.ending(), outcome.good)
            passed += len(good)
            failed.update(bad)
            skipped.update(without)
            if outcome.timed_out:  # no time is left for the other tests
                failed.update({test: "not reached: a test before it hung" for test in left})
                break
        errors = accuracy.read(lines.read_text()) if lines.exists() else []
        left_out, untested = suites.absent_hardware(skipped)
        skipped = {test: message for test, message in skipped.items() if test not in left_out}
        return {"passed": passed, "seconds": round(time.monotonic() - begun, 1),
                **({"failed": failed} if failed else {}),
                **({"skipped": skipped} if skipped else {}),
                **({"left_out": left_out} if left_out else {}),
                **({"untested": untested} if untested else {}),
                **({"kernels": errors} if errors else {})}

    # ---- second runs of failed tests

    def second_runs(self):
        for name, result in self.content().get("results", {}).items():
            for test in result.get("failed", {}):
                program = name.split(" ")[0]
                yield Step(f"again {program} {test}", 5, 120, info=(name, test),
                           work=lambda seconds, p=program, t=test: self.once_more(seconds, p, t))

    def once_more(self, seconds, program, test):
        outcome = self.run([self.context.layout.program(program), f"--gtest_filter={test}"],
                           seconds, f"again_{program}_{test}",
                           env={**ENVIRONMENT, "CUDA_LAUNCH_BLOCKING": "1"})
        if outcome.timed_out and not self.context.clock.left():
            raise TookTooLong(outcome.reason())
        text = outcome.text() + outcome.stderr.read_text(errors="replace")
        passed, failed, skipped, _ = suites.read(text, [test], outcome.ending(), outcome.good)
        return {"outcome": "passed" if passed else "skipped" if skipped else "failed",
                "message": next(iter((failed or skipped).values()), "")}

    def is_done(self, section, step):
        if step.info is None:
            return super().is_done(section, step)
        name, test = step.info
        return test in section["results"].get(name, {}).get("again", {})

    def record(self, section, step, result):
        if step.info is None:
            super().record(section, step, result)
            return
        name, test = step.info
        section["results"][name].setdefault("again", {})[test] = result

    def describe(self, step, result):
        if step.info:
            return (f"{step.info[1]}, alone and with CUDA_LAUNCH_BLOCKING=1: {result['outcome']} "
                    f"{result['message'][:TOLD]}")
        bad = [f"{test} {kind.upper()}: {message[:TOLD]}" for kind in ("failed", "skipped")
               for test, message in result.get(kind, {}).items()]
        more = [f"and {len(bad) - 3} more of {step.name}"] if len(bad) > 3 else []
        left_out = result.get("left_out", {})
        absent = [f"{step.name}: {len(left_out)} left out: no {what}"
                  for what in dict.fromkeys(left_out.values())]
        return "\n           ".join(bad[:3] + more + absent) or None

    def finish(self):
        """Adds entries for the tested sources if all tests passed, otherwise removes entries."""
        if not self.content().get("results"):
            return
        with self.context.ledger.changed(self.section) as (_, run, whole):
            sources.enter(whole, run, self.context.built["sources"])
