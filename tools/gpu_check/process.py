"""Runs a command in isolation: with a time limit, in a process group that is killed as a whole, and
with files for its output."""
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

closing = False  # this program is about to end
_running = set()
_lock = threading.Lock()


@dataclass
class Outcome:
    command: list
    status: Optional[int]  # as in subprocess: negative for a signal, None if it did not start
    timed_out: bool
    seconds: float
    stdout: pathlib.Path
    stderr: pathlib.Path
    problem: str = ""  # reason for a failed start

    @property
    def good(self):
        return self.status == 0 and not self.timed_out

    def text(self):
        """Returns the standard output of the command."""
        return self.stdout.read_text(errors="replace")

    def ending(self):
        """Describes the end of the command in words, without its output."""
        if self.status is None:
            return self.problem
        if self.timed_out:
            return f"still running after {self.seconds:.0f} s"
        if self.status < 0:
            return f"ended by {signal_name(-self.status)}"
        return f"exit status {self.status}"

    def reason(self):
        """Describes the end of the command, with its last lines of output."""
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
    """Runs `command` for at most `limit` seconds. The output goes to `log`.out and `log`.err.
    `on_line` gets each complete line of the standard output soon after it is written."""
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
    """Waits for the end and calls `on_line`. Returns False after the deadline."""
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
    """Ends the command and all processes that it started."""
    for sent, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 5.0)):
        _signal_group(process, sent)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue  # after SIGKILL: leave a process that hangs in the driver
        if sent == signal.SIGTERM:
            _signal_group(process, signal.SIGKILL)  # its children may have ignored SIGTERM
        return


def _signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def kill_all():
    """Ends all running commands, before this program ends."""
    global closing
    closing = True
    with _lock:
        for process in _running:
            _signal_group(process, signal.SIGKILL)


atexit.register(kill_all)
