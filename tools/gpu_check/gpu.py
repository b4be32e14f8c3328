"""The GPU as nvidia-smi describes it."""
from . import layout, process
from .errors import CannotRun

QUESTIONS = ("name", "driver_version", "compute_cap", "memory.total", "memory.used", "clocks.sm",
             "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
             "temperature.gpu", "pstate", "mig.mode.current")
# The driver has changed the name of this one; an unknown name spoils a whole query.
THROTTLED = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
SECONDS = 30


def ask(questions, logs):
    """What nvidia-smi says of the first GPU; None when it does not answer."""
    program = layout.tool("nvidia-smi")
    if program is None:
        raise CannotRun("there is no nvidia-smi, which comes with the driver")
    outcome = process.run([program, f"--query-gpu={','.join(questions)}",
                           "--format=csv,noheader"], SECONDS, logs / "nvidia-smi")
    answer = outcome.text().split("\n")[0].split(",") if outcome.good else []
    if len(answer) != len(questions) or not answer[0].strip():
        return None
    return dict(zip(questions, (part.strip() for part in answer)))


def identify(logs):
    """Name, driver and compute capability of the GPU."""
    found = ask(("name", "driver_version", "compute_cap"), logs)
    if found is None:
        raise CannotRun(f"nvidia-smi finds no GPU; its output is in {logs}/nvidia-smi.out")
    return found


def describe(logs):
    """All that is worth keeping, for a reader who wonders at a speed."""
    found = ask(QUESTIONS, logs)
    if found is None:  # a question that this driver does not know
        found = {}
        for question in QUESTIONS:
            found.update(ask((question,), logs) or {})
    for question in THROTTLED:
        reasons = ask((question,), logs)
        if reasons:
            found["throttle_reasons"] = reasons[question]
            break
    return found
