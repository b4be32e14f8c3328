"""interrupt.py SIGNAL WHEN COMMAND...: runs a command, sends it a signal and exits as it does.

WHEN is `seconds:0.25` after the start, or `lines:3.75:FILE`: FILE has grown by 3 lines, and then
0.75 of the duration of the last line has passed. The exit code is 128 + signal for a command that
a signal killed, as in a shell. A command that ended before the signal gives its own code.
"""
import os
import signal
import subprocess
import sys
import time


def lines_of(path):
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for_lines(process, path, lines, fraction):
    seen = lines_of(path)
    wanted, last, took = seen + lines, time.monotonic(), 0.0
    while seen < wanted and process.poll() is None:
        time.sleep(0.001)
        now = lines_of(path)
        if now > seen:
            took, last = (time.monotonic() - last) / (now - seen), time.monotonic()
        # A resumed run may first remove lines of steps that it does again.
        wanted -= max(0, seen - now)
        seen = now
    time.sleep(fraction * took)


number = getattr(signal, "SIG" + sys.argv[1])
kind, amount, *path = sys.argv[2].split(":", 2)
process = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL)
if kind == "seconds":
    try:
        process.wait(float(amount))
    except subprocess.TimeoutExpired:
        pass
else:
    wait_for_lines(process, path[0], int(float(amount)), float(amount) % 1)
if process.poll() is None:
    os.kill(process.pid, number)
code = process.wait()
sys.exit(code if code >= 0 else 128 - code)
