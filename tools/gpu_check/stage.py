"""Stages and their runner. A stage is a list of steps; each is a measurement that fails alone. The
runner runs the steps that fit into the time, and writes each result to the ledger before the next
step."""
import concurrent.futures
import threading
import traceback
from dataclasses import dataclass
from typing import Callable

from . import process
from .errors import CannotRun, Failed, LeftOut, TookTooLong
from .ledger import rounded


def say(text):
    print(f"gpu-check: {text}", flush=True)


@dataclass
class Step:
    name: str  # key of the result in the ledger
    estimate: float  # expected seconds on an H200
    limit: float  # seconds until it counts as hanging
    work: Callable  # work(time limit in seconds) returns the result
    leave: float = 0  # seconds reserved for more important steps after it
    late: bool = False  # waits for the end of all stages
    info: object = None  # data of the stage


class Stage:
    """Interface of a stage. `context` has layout, ledger, gpu, environment, built."""

    name = ""
    section = ""  # key of the stage in a run of the ledger

    def __init__(self, context):
        self.context = context

    def rounds(self):
        """Yields (number of steps at once, steps), the most important first. Raises CannotRun or
        LeftOut."""
        raise NotImplementedError

    def is_done(self, section, step):
        return step.name in section.get("results", {})

    def has_failed(self, section, step):
        return step.name in section.get("failed", {})

    def record(self, section, step, result):
        section["results"][step.name] = rounded(result)
        section.get("failed", {}).pop(step.name, None)

    def record_failure(self, section, step, reason):
        section.setdefault("failed", {})[step.name] = reason

    def describe(self, step, result):
        """Returns a line about the result for the output, or None."""
        return None

    def finish(self):
        """Called after the last step, also if some steps had no time."""

    # ---- for the stages

    def content(self):
        """Returns the section of the ledger, empty if there is none yet."""
        return self.context.ledger.run().get(self.section, {})

    def plan(self, count):
        """Stores the expected number of results, so that missing ones are noticed."""
        if self.content().get("planned") != count:
            with self.context.ledger.changed(self.section) as (section, _, _):
                section["planned"] = count

    def log(self, name):
        return self.context.layout.logs / self.name / name.replace("/", "-").replace(" ", "-")

    def run(self, command, seconds, log, env=None, on_line=None):
        """Runs a command in the environment in which programs find their libraries."""
        return process.run(command, seconds, self.log(log), on_line=on_line,
                           env={**self.context.environment, **(env or {})})

    def run_well(self, command, seconds, log, **options):
        """Runs a command. Raises Failed unless it ends with exit code 0."""
        outcome = self.run(command, seconds, log, **options)
        self.check(outcome)
        return outcome

    @staticmethod
    def check(outcome):
        if outcome.timed_out:
            raise TookTooLong(outcome.reason())
        if not outcome.good:
            raise Failed(outcome.reason())


class Runner:
    def __init__(self, clock, again=False):
        self.clock, self.again = clock, again
        self.failed = self.refused = False
        self._dropped = []
        self._late, self._retries = [], []  # (stage, step), to run at the end of the call
        self._lock = threading.Lock()

    def guard(self, name, do, trace):
        """Calls `do` and catches every exception. Returns True if there was none."""
        try:
            do()
            return True
        except CannotRun as reason:
            say(f"{name} cannot run: {reason}")
            self.refused = True
        except LeftOut as reason:
            say(f"{name} is left out: {reason}")
        except Exception as error:  # the other stages continue
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_text(traceback.format_exc())
            say(f"{name} FAILED: {type(error).__name__}: {error} (see {trace})")
            self.failed = True
        return False

    def run(self, stage):
        """Runs all steps that are not in the ledger yet, except the waiting ones: see
        run_what_waits."""
        before, self._dropped = self.clock.gone(), []
        trace = stage.context.layout.logs / stage.name / "traceback.txt"
        self.guard(stage.name, lambda: self._run_rounds(stage), trace)
        self.guard(stage.name, stage.finish, trace)
        self._tell_dropped(stage)
        say(f"{stage.name} took {self.clock.gone() - before:.0f} s")

    def run_what_waits(self):
        """Runs the waiting steps, then those that failed in an earlier call."""
        waiting = self._late + self._retries
        for stage in dict.fromkeys(stage for stage, _ in waiting):
            say(f"== {stage.name}, remaining part")
            self._dropped = []
            trace = stage.context.layout.logs / stage.name / "traceback.txt"
            for step in (step for other, step in waiting if other is stage):
                self.guard(stage.name, lambda step=step: self._run_step(stage, step), trace)
            self.guard(stage.name, stage.finish, trace)
            self._tell_dropped(stage)

    def _tell_dropped(self, stage):
        if self._dropped:
            more = f" and {len(self._dropped) - 8} more" if len(self._dropped) > 8 else ""
            say(f"{stage.name}: not run: no time: {', '.join(self._dropped[:8])}{more}")

    def _run_rounds(self, stage):
        try:
            for parallel, steps in stage.rounds():
                self._run_steps(stage, steps, parallel)
        except LeftOut as reason:
            with stage.context.ledger.changed(stage.section) as (section, _, _):
                section["left_out"] = str(reason)
            raise

    def _run_steps(self, stage, steps, parallel):
        section, due, there = stage.content(), [], 0
        for step in steps:
            if not self.again and stage.is_done(section, step):
                there += 1
            elif not self.again and stage.has_failed(section, step):
                self._retries.append((stage, step))
            elif step.late:
                self._late.append((stage, step))
            else:
                due.append(step)
        if there:
            say(f"{stage.name}: {there} of {len(steps)} results are already in the ledger")
        with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
            try:
                list(pool.map(lambda step: self._run_step(stage, step), due))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _run_step(self, stage, step):
        left = self.clock.left() - step.leave
        if left < step.estimate:
            self._drop(step)
            return
        allowed = min(step.limit, left)
        try:
            result = step.work(allowed)
            with stage.context.ledger.changed(stage.section) as (section, _, _):
                section.pop("left_out", None)
                stage.record(section, step, result)
            text = stage.describe(step, result)
            if text:
                say(f"{stage.name}: {text}")
        except (CannotRun, LeftOut):
            raise
        except TookTooLong as reason:
            if allowed == left:  # the time of the call, not of the step, is over
                self._drop(step)
            else:
                self._fail(stage, step, str(reason))
        except Failed as reason:
            self._fail(stage, step, str(reason))
        except Exception as error:  # an error in this program fails one measurement only
            stage.log(step.name + ".traceback").parent.mkdir(parents=True, exist_ok=True)
            stage.log(step.name + ".traceback").write_text(traceback.format_exc())
            self._fail(stage, step, f"{type(error).__name__}: {error}")

    def _drop(self, step):
        with self._lock:
            self._dropped.append(step.name)

    def _fail(self, stage, step, reason):
        if process.closing:  # it ended with this program and did not fail
            return
        self.failed = True
        say(f"{stage.name}: {step.name} FAILED: {reason}")
        with stage.context.ledger.changed(stage.section) as (section, _, _):
            stage.record_failure(section, step, reason[:500])
