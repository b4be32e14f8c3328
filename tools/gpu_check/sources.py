"""State of the sources: the files that need a test on a GPU, and the files that a build consists
of."""
import fnmatch
import hashlib
import subprocess

from .requirements import NOT_RUN, problem_of_tests, results_of

# Sources that need an entry, because only a GPU can test them in full.
DEVICE_SOURCES = ("src/kernels/**/*.cu", "src/kernels/**/*.cuh", "src/cuda/*.cpp")
NOT_ON_DEVICE = ("src/cuda/absent.cpp",)
# All sources of a build. Their hash ties results to them.
BUILD_SOURCES = ("CMakeLists.txt", "CMakePresets.json", "cmake/**/*", "configs/**/*",
                 "include/**/*", "src/**/*", "tests/*.h", "tests/CMakeLists.txt", "tests/cuda/**/*",
                 "tools/*.cpp", "tools/*.h", "tools/CMakeLists.txt")


def matching(root, patterns):
    files = {f for pattern in patterns for f in root.glob(pattern) if f.is_file()}
    return sorted(str(f.relative_to(root)) for f in files)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def snapshot(root):
    """Returns a hash of each source that needs an entry, and a hash of the whole build."""
    device = [f for f in matching(root, DEVICE_SOURCES) if f not in NOT_ON_DEVICE]
    hashes = {f: digest((root / f).read_bytes()) for f in matching(root, BUILD_SOURCES)}
    whole = "".join(f"{file} {value}\n" for file, value in hashes.items())
    return {"tree": digest(whole.encode()), "sources": {f: hashes[f] for f in device}}


def commit_of(root):
    """Returns git's commit, followed by + if there are uncommitted changes."""
    def git(*arguments):
        return subprocess.run(("git", "-C", str(root), *arguments), check=True, text=True,
                              capture_output=True).stdout.strip()
    try:
        changed = git("status", "--porcelain")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def warnings(ledger, root):
    """Returns a sentence for each source that no GPU has tested in its present version."""
    runs = {run["id"]: run for run in ledger["runs"]}
    for name, current in snapshot(root)["sources"].items():
        entry = ledger["sources"].get(name)
        if entry is None:
            yield f"{name} was never tested on a GPU"
        elif entry["hash"] != current:
            run = runs[entry["run"]]
            yield (f"{name} changed after its tests on {run['gpu']} ({run['date'][:10]}, "
                   f"commit {run['commit']})")


def enter(ledger, run, sources):
    """Updates the entries of sources. A source whose tests all passed in this run gets an entry. A
    source whose tests failed loses the entry of its version. Tests that did not run change nothing.
    A source whose tests were left out keeps the entry from another GPU."""
    problem, untested = problem_of_tests(run), untested_sources(run, sources)
    if not problem:
        kept = {name: entry for name, entry in ledger["sources"].items() if name in untested}
        entered = {name: {"hash": value, "run": run["id"]} for name, value in sources.items()
                   if name not in untested}
        ledger["sources"] = dict(sorted({**kept, **entered}.items()))
    elif not problem.endswith(NOT_RUN):
        ledger["sources"] = {name: entry for name, entry in ledger["sources"].items()
                             if name in untested or entry["hash"] != sources.get(name)}


def untested_sources(run, sources):
    """Returns the sources that only left-out tests cover."""
    patterns = {pattern for suite in results_of(run, "tests").values()
                for pattern in suite.get("untested", [])}
    return {name for name in sources
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
