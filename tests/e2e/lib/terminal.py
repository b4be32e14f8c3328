"""Runs a command on a pseudo terminal 100 columns wide, prints what it wrote, exits as it did."""
import fcntl
import os
import pty
import struct
import sys
import termios

child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:  # the other end is closed
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
