"""Properties of the GPU, from nvidia-smi."""
from . import layout, process
from .errors import CannotRun

QUESTIONS = ("name", "driver_version", "compute_cap", "memory.total", "memory.used", "clocks.sm",
             "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
             "temperature.gpu", "pstate", "mig.mode.current")
# The name depends on the driver's version. An unknown name makes a whole query fail.
THROTTLED = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
SECONDS = 30


def ask(questions, logs):
    """Returns the properties of the first GPU, or None if nvidia-smi fails."""
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
    """Returns name, driver and compute capability of the GPU."""
    found = ask(("name", "driver_version", "compute_cap"), logs)
    if found is None:
        raise CannotRun(f"nvidia-smi finds no GPU; its output is in {logs}/nvidia-smi.out")
    return found


def describe(logs):
    """Returns all properties that may explain a speed."""
    found = ask(QUESTIONS, logs)
    if found is None:  # this driver does not know one of the properties
        found = {}
        for question in QUESTIONS:
            found.update(ask((question,), logs) or {})
    for question in THROTTLED:
        reasons = ask((question,), logs)
        if reasons:
            found["throttle_reasons"] = reasons[question]
            break
    return found
