"""A stage is a list of steps, each a measurement that fails alone; the runner runs them in the time
that there is and writes each result to the ledger before it begins the next."""
import concurrent.futures
import threading
import traceback
from dataclasses import dataclass
from typing import Callable

from . import process
from .errors import CannotRun, Failed, LeftOut, TookTooLong
from .ledger import rounded

PATIENCE = 1.0  # times the limit of a step; tests have less of it


def say(text):
    print(f"gpu-check: {text}", flush=True)


@dataclass
class Step:
    name: str  # of its result in the ledger
    estimate: float  # seconds it is expected to take on an H200
    limit: float  # seconds after which it is taken to hang
    work: Callable  # work(seconds it may take) gives the result
    leave: float = 0  # seconds that shall be left behind it, for more valuable steps
    late: bool = False  # waits until all stages had their turn
    info: object = None  # the stage's own


class Stage:
    """What the runner asks of a stage. `context` has layout, ledger, gpu, environment, built."""

    name = ""
    section = ""  # of the run in the ledger

    def __init__(self, context):
        self.context = context

    def rounds(self):
        """Gives (how many at once, steps) one after the other, most valuable first. Raises
        CannotRun or LeftOut."""
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
        """A line for a reader who sees nothing else; None for nothing."""
        return None

    def finish(self):
        """After the last step, also when there was no time for some."""

    # ---- for the stages

    def content(self):
        """The section as it is in the ledger; empty when there is none yet."""
        return self.context.ledger.run().get(self.section, {})

    def plan(self, count):
        """Notes how many results there will be, so that missing ones are seen."""
        if self.content().get("planned") != count:
            with self.context.ledger.changed(self.section) as (section, _, _):
                section["planned"] = count

    def log(self, name):
        return self.context.layout.logs / self.name / name.replace("/", "-").replace(" ", "-")

    def run(self, command, seconds, log, env=None, on_line=None):
        """Runs a command, in the environment in which programs find their libraries."""
        return process.run(command, seconds, self.log(log), on_line=on_line,
                           env={**self.context.environment, **(env or {})})

    def run_well(self, command, seconds, log, **options):
        """The same, where all but a good end is a failure."""
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
        self._late, self._retries = [], []  # (stage, step) for the end of the call
        self._lock = threading.Lock()

    def guard(self, name, do, trace):
        """Calls `do`, so that no exception goes further. True when it came to its end."""
        try:
            do()
            return True
        except CannotRun as reason:
            say(f"{name} cannot run: {reason}")
            self.refused = True
        except LeftOut as reason:
            say(f"{name} is left out: {reason}")
        except Exception as error:  # of whatever kind: the other stages go on
            trace.parent.mkdir(parents=True, exist_ok=True)
            trace.write_text(traceback.format_exc())
            say(f"{name} FAILED: {type(error).__name__}: {error} (see {trace})")
            self.failed = True
        return False

    def run(self, stage):
        """All that is not in the ledger yet, but for what waits: see run_what_waits."""
        before, self._dropped = self.clock.gone(), []
        trace = stage.context.layout.logs / stage.name / "traceback.txt"
        self.guard(stage.name, lambda: self._run_rounds(stage), trace)
        self.guard(stage.name, stage.finish, trace)
        self._tell_dropped(stage)
        say(f"{stage.name} took {self.clock.gone() - before:.0f} s")

    def run_what_waits(self):
        """What was left for the end, and at last what failed in an earlier call."""
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
        allowed = min(step.limit * PATIENCE, left)
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
            if allowed == left:  # the end of the call has come first
                self._drop(step)
            else:
                self._fail(stage, step, str(reason))
        except Failed as reason:
            self._fail(stage, step, str(reason))
        except Exception as error:  # a fault of this program is one measurement's, no more
            stage.log(step.name + ".traceback").parent.mkdir(parents=True, exist_ok=True)
            stage.log(step.name + ".traceback").write_text(traceback.format_exc())
            self._fail(stage, step, f"{type(error).__name__}: {error}")

    def _drop(self, step):
        with self._lock:
            self._dropped.append(step.name)

    def _fail(self, stage, step, reason):
        if process.closing:  # it was ended with this program and has not failed
            return
        self.failed = True
        say(f"{stage.name}: {step.name} FAILED: {reason}")
        with stage.context.ledger.changed(stage.section) as (section, _, _):
            stage.record_failure(section, step, reason[:500])
