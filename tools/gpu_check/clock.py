"""Time limit that all stages of a call share."""
import math
import time

CLOSING = 3.0  # seconds reserved for the table and for ending processes


class Clock:
    def __init__(self, until=None):
        self.begun = time.monotonic()
        self.until = math.inf if until is None else until

    def gone(self):
        return time.monotonic() - self.begun

    def left(self):
        return max(0.0, self.until - CLOSING - self.gone())
