"""Exceptions of the check."""


class CannotRun(Exception):
    """A stage cannot run on this machine, for the given reason."""


class LeftOut(Exception):
    """A stage has nothing to run on this machine. This is no failure."""


class Failed(Exception):
    """A measurement failed, for the given reason. The other measurements continue."""


class TookTooLong(Failed):
    """A measurement was stopped at its time limit."""


class Malformed(Exception):
    """A ledger does not have the format that this program writes."""
