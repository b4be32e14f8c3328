"""Runs a command so that nothing it does takes its caller along: it has a time limit, a process
group of its own that is killed as a whole, and files for what it writes."""
import atexit
import os
import pathlib
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Callable, Optional

GRACE = 2.0  # seconds between asking a command to end and killing it

closing = False  # this program was told to end
_running = set()
_lock = threading.Lock()


@dataclass
class Outcome:
    command: list
    status: Optional[int]  # as of subprocess: negative for a signal, None when it never started
    timed_out: bool
    seconds: float
    stdout: pathlib.Path
    stderr: pathlib.Path
    problem: str = ""  # why it could not be started

    @property
    def good(self):
        return self.status == 0 and not self.timed_out

    def text(self):
        """What it wrote to its standard output."""
        return self.stdout.read_text(errors="replace")

    def ending(self):
        """How it ended, in words, without what it said."""
        if self.status is None:
            return self.problem
        if self.timed_out:
            return f"still running after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal_name(-self.status)}"
        return f"exit status {self.status}"

    def reason(self):
        """How it ended and the last lines that it wrote, for a reader who has nothing else."""
        said = self.stderr if self.stderr.exists() and self.stderr.stat().st_size else self.stdout
        lines = said.read_text(errors="replace").split("\n") if said.exists() else []
        last = " | ".join(line.strip() for line in lines if line.strip())[-400:]
        return self.ending() + (f": {last}" if last else "")


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run(command, limit, log, env=None, on_line: Optional[Callable[[str], None]] = None, cwd=None):
    """Runs `command` for at most `limit` seconds. Its output goes to `log`.out and `log`.err;
    `on_line` gets each whole line of its standard output soon after it was written."""
    command = [str(part) for part in command]
    stdout, stderr = (log.with_name(log.name + suffix) for suffix in (".out", ".err"))
    stdout.parent.mkdir(parents=True, exist_ok=True)
    if closing:
        return Outcome(command, None, False, 0.0, stdout, stderr, "interrupted")
    begun = time.monotonic()
    with open(stdout, "wb") as out, open(stderr, "wb") as err:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd,
                env={**os.environ, **(env or {})}, start_new_session=True)
        except OSError as error:
            problem = f"{command[0]} cannot be started: {error.strerror}"
            return Outcome(command, None, False, 0.0, stdout, stderr, problem)
    with _lock:
        _running.add(process)
    try:
        timed_out = not _wait(process, begun + limit, stdout, on_line)
    finally:
        _end_group(process)
        with _lock:
            _running.discard(process)
    return Outcome(command, process.returncode, timed_out, time.monotonic() - begun, stdout, stderr)


def _wait(process, deadline, stdout, on_line):
    """Waits for the end and feeds `on_line`; False when the deadline passed."""
    with open(stdout, errors="replace") as lines:
        pending = ""
        while True:
            try:
                process.wait(min(0.1 if on_line else 1e9, max(0.0, deadline - time.monotonic())))
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            over = not ended and time.monotonic() >= deadline
            if on_line:
                *whole, pending = (pending + lines.read()).split("\n")
                for line in whole + ([pending] if ended and pending else []):
                    on_line(line)
            if ended or over:
                return ended


def _end_group(process):
    """Ends what is left of the command and of what it started."""
    for sent, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 5.0)):
        _signal_group(process, sent)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue  # after SIGKILL: a process that hangs in the driver is left behind
        if sent == signal.SIGTERM:
            _signal_group(process, signal.SIGKILL)  # its children may not have listened
        return


def _signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_all():
    """For a program that is told to end: what it has started ends first."""
    global closing
    closing = True
    with _lock:
        for process in _running:
            _signal_group(process, signal.SIGKILL)


atexit.register(kill_all)
