"""The state of the sources: which files need to be tested on a GPU, and what a build is made of."""
import fnmatch
import hashlib
import subprocess

from .requirements import NOT_RUN, problem_of_tests, results_of

# What needs an entry: it cannot be tested in full without a GPU.
DEVICE_SOURCES = ("src/kernels/**/*.cu", "src/kernels/**/*.cuh", "src/cuda/*.cpp")
NOT_ON_DEVICE = ("src/cuda/absent.cpp",)
# What a build is made of, so that results are never those of other sources.
BUILD_SOURCES = ("CMakeLists.txt", "CMakePresets.json", "cmake/**/*", "configs/**/*",
                 "include/**/*", "src/**/*", "tests/*.h", "tests/CMakeLists.txt", "tests/cuda/**/*",
                 "tools/*.cpp", "tools/*.h", "tools/CMakeLists.txt")


def matching(root, patterns):
    files = {f for pattern in patterns for f in root.glob(pattern) if f.is_file()}
    return sorted(str(f.relative_to(root)) for f in files)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def snapshot(root):
    """The sources as they are: a hash of each that needs an entry, and one of the whole build."""
    device = [f for f in matching(root, DEVICE_SOURCES) if f not in NOT_ON_DEVICE]
    hashes = {f: digest((root / f).read_bytes()) for f in matching(root, BUILD_SOURCES)}
    whole = "".join(f"{file} {value}\n" for file, value in hashes.items())
    return {"tree": digest(whole.encode()), "sources": {f: hashes[f] for f in device}}


def commit_of(root):
    """What git says, with a + behind it for uncommitted changes."""
    def git(*arguments):
        return subprocess.run(("git", "-C", str(root), *arguments), check=True, text=True,
                              capture_output=True).stdout.strip()
    try:
        changed = git("status", "--porcelain")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def warnings(ledger, root):
    """A sentence for each source that no GPU has tested in its present state."""
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
    """Sources whose tests all passed in this run get an entry. Those whose tests failed lose the
    one of that version; tests for which there was no time say nothing. A source whose tests were
    left out keeps the entry that another card may have given it."""
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
    """The sources that no other tests cover than those left out for the lack of hardware."""
    patterns = {pattern for suite in results_of(run, "tests").values()
                for pattern in suite.get("untested", [])}
    return {name for name in sources
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
