"""Stage sanitizer: runs compute-sanitizer's memcheck on all test programs and racecheck on our
kernels, suite by suite, after it has found two planted faults."""
import collections
import json
import re

from . import layout
from .errors import CannotRun, Failed, TookTooLong
from .stage import Stage, Step
from .suites import ABSENT_HARDWARE
from .tests import ENVIRONMENT, list_suites

AT_ONCE = 4
LIMIT = 400
# Its kernels are NCCL's, and its processes wait for each other.
NOT_SANITIZED = ("gpu_dist",)


class Sanitizer(Stage):
    name = section = "sanitizer"

    def rounds(self):
        self.program = layout.tool("compute-sanitizer")
        if self.program is None:
            raise CannotRun("there is no compute-sanitizer; it comes with the CUDA Toolkit or "
                            "Nsight Compute")
        yield 1, [Step("planted faults", 10, 90, self.find_planted_faults)]
        if "planted faults" not in self.content().get("results", {}):
            return  # there was no time
        yield AT_ONCE, self.jobs()

    def groups(self):
        """Returns the tools and their programs, our kernels first."""
        programs = [p for p in self.context.built["tests"] if p not in NOT_SANITIZED]
        return [("memcheck", "gpu_kernels"), ("racecheck", "gpu_kernels"),
                *(("memcheck", program) for program in programs if program != "gpu_kernels")]

    def jobs(self):
        """Returns a step for each group and suite. The ledger stores their number."""
        steps, failing, planned = [], [], {}
        for tool, program in self.groups():
            group = f"{tool} {program}"
            try:
                suites = list_suites(self, program)
            except Failed as reason:
                failing.append(self.broken(group, str(reason)))
                continue
            planned[group] = len(suites)
            steps += [Step(f"{group} {suite}", 10, LIMIT, info=(tool, program, suite),
                           work=lambda seconds, job=(tool, program, suite):
                           self.sanitize(seconds, *job)) for suite in suites]
        with self.context.ledger.changed(self.section) as (section, _, _):
            section["suites"] = planned
        return steps + failing

    @staticmethod
    def broken(group, reason):
        def fail(seconds):
            raise Failed(reason)
        return Step(group, 0, 1, fail)

    def sanitizer(self, tool, program, seconds, log, *arguments):
        """Runs the sanitizer on a program. Racecheck checks only kernels with dtn in their
        names."""
        options = ["--tool", tool, "--error-exitcode", "9"]
        if tool == "racecheck":
            options += ["--kernel-regex", "kns=dtn"]
        return self.run([self.program, *options, self.context.layout.program(program), *arguments],
                        seconds, log, env=ENVIRONMENT)

    def find_planted_faults(self, seconds):
        """Checks that the sanitizer finds two planted faults. Otherwise it would find none in our
        kernels either."""
        for tool in ("memcheck", "racecheck"):
            outcome = self.sanitizer(tool, "planted_faults", seconds / 2, f"planted_{tool}", tool)
            if outcome.timed_out:
                raise TookTooLong(outcome.reason())
            if not re.search(r"SUMMARY: [1-9]", outcome.text()):
                raise CannotRun(f"compute-sanitizer's {tool} does not find a planted fault on this "
                                f"machine: {outcome.reason()}")
        return {"found": 2}

    def sanitize(self, seconds, tool, program, suite):
        log = f"{tool}_{program}_{suite}"
        report = self.log(log + ".json")
        report.unlink(missing_ok=True)
        outcome = self.sanitizer(tool, program, seconds, log, f"--gtest_filter={suite}.*",
                                 "--gtest_brief=1", f"--gtest_output=json:{report}")
        if outcome.timed_out:
            raise TookTooLong(outcome.reason())
        return verdict(outcome, report)

    def describe(self, step, result):
        if not result.get("problem"):
            return None
        text = self.log("_".join(step.info) + ".out").read_text(errors="replace")
        findings = [line for line in text.splitlines()
                    if re.search(r"=========|FAILED|rror", line)][:12]
        return "\n           ".join([f"{step.name}: {result['problem']}", *findings])


def verdict(outcome, report):
    """Returns the result of a job: the number of tests, the errors, and the reason of a failure."""
    counts = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard",
                        outcome.text())
    if not counts:
        return {"tests": 0, "errors": 0,
                "problem": f"the sanitizer printed no summary: {outcome.ending()}"}
    errors = sum(int(a or b) for a, b in counts)
    try:
        found = json.loads(report.read_text())
        cases = [case for suite in found["testsuites"] for case in suite["testsuite"]]
        failures = found["failures"]
    except (OSError, ValueError, KeyError, TypeError):
        return {"tests": 0, "errors": errors,
                "problem": f"the test program did not finish: {outcome.ending()}"}
    ran = sum(case.get("result") == "COMPLETED" for case in cases)
    matches = filter(None, map(ABSENT_HARDWARE.fullmatch, outcome.text().splitlines()))
    left_out = collections.Counter(match.group(1) for match in matches)
    skipped = len(cases) - ran - sum(left_out.values())
    problem = (f"{errors} errors" if errors else f"{failures} tests failed" if failures
               else f"{skipped} tests skipped" if skipped > 0
               else "no test ran" if not cases else "")
    return {"tests": ran, "errors": errors, "problem": problem,
            **({"left_out": dict(left_out)} if left_out else {})}
