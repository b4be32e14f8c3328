"""Suites and results of GoogleTest programs, read from the output of the program. So the results
are known up to a crash."""
import re

MESSAGE = 400  # maximum characters of the message of a failed test
# Message of a test that skips for lack of hardware (tests/cuda/hardware.h): the hardware, and the
# sources that no other test covers.
ABSENT_HARDWARE = re.compile(r"needs hardware: (.+?); not tested:(.*)")
OUTCOME = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w/]+\.[\w/]+)")


def parse_list(text):
    """Returns the suites with the full names of their tests, from the output of
    --gtest_list_tests."""
    suites, suite = {}, None
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if re.fullmatch(r"[\w/]+\.", name):
            suite = name[:-1]
        elif suite and re.fullmatch(r"  [\w/]+", name) and "DISABLED_" not in suite + name:
            suites.setdefault(suite, []).append(f"{suite}.{name.strip()}")
    return suites


def read(text, tests, ending, good):
    """Returns the results of `tests`, from the output of a program and the way it ended: ({passed
    test}, {failed test: message}, {skipped test: message}, [tests not begun]). A test that ran when
    the program ended has failed. If a test lacks hardware, its message is the line that
    absent_hardware() reads."""
    passed, failed, skipped = set(), {}, {}
    running, said = None, []
    for line in text.splitlines():
        match = OUTCOME.search(line)
        kind, test = match.groups() if match else (None, None)
        if test not in tests:
            said.append(line.strip())
            continue
        if kind == "RUN":
            running, said = test, []
        elif running == test:
            message = " ".join(filter(None, said))[:MESSAGE]
            if kind == "OK":
                passed.add(test)
            elif kind == "FAILED":
                failed[test] = message
            else:
                skipped[test] = next(filter(ABSENT_HARDWARE.fullmatch, said), message)
            running = None
    if running:
        message = " ".join(filter(None, [ending + " in this test:", *said]))
        failed[running] = message[:MESSAGE]
    left = [t for t in tests if t not in passed and t not in failed and t not in skipped]
    if not running and left and not (passed or failed or skipped):
        failed[left.pop(0)] = f"{ending} before the first test: {text.strip()[-MESSAGE:]}"
    elif not running and not left and not good and not failed:
        failed[tests[-1]] = f"{ending} after the last test"
        passed.discard(tests[-1])
    return passed, failed, skipped, left


def absent_hardware(skipped):
    """Returns the skipped tests that lack hardware, and the sources that no other test covers:
    ({test: hardware that it needs}, [patterns])."""
    matches = {test: ABSENT_HARDWARE.fullmatch(message) for test, message in skipped.items()}
    found = {test: match for test, match in matches.items() if match}
    patterns = {pattern for match in found.values() for pattern in match.group(2).split()}
    return {test: match.group(1) for test, match in found.items()}, sorted(patterns)
