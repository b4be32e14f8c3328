"""What the parts of the check tell each other by exceptions."""


class CannotRun(Exception):
    """A stage cannot run on this machine, for the reason given."""


class LeftOut(Exception):
    """A stage has nothing to run on this machine, and that is no fault."""


class Failed(Exception):
    """A measurement failed, for the reason given; the others go on."""


class TookTooLong(Failed):
    """A measurement was ended since the time it was given was over."""


class Malformed(Exception):
    """A ledger is not what this program writes."""
