#!/usr/bin/env python3
"""The record of what was checked on real GPUs: tests/gpu_ledger.json.

  gpu_ledger.py check                       warns of sources that changed after their entry
  gpu_ledger.py snapshot > FILE             hashes of the sources as they are now, before a build
  gpu_ledger.py append --gpu NAME ...       adds results to the run of these sources on this GPU
  gpu_ledger.py merge FILE ...              takes over the runs of other ledgers
  gpu_ledger.py report [--stages S ...]     each requirement: measured, bound, verdict

tools/gpu-check.sh calls snapshot, append and report. A run is one state of the sources on one GPU,
driver and CUDA version; stages that ran in several calls add to the same run. An entry below
`sources` says in which run the tests last passed with that version of the file.
"""
import argparse
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys

from gpu_results import (problems_of_tests, read_junit, read_lines, read_results, read_sanitizer,
                         rows_of)

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEDGER = ROOT / "tests/gpu_ledger.json"

# What needs an entry: it cannot be tested in full without a GPU.
DEVICE_SOURCES = ("src/kernels/**/*.cu", "src/kernels/**/*.cuh", "src/cuda/*.cpp")
NOT_ON_DEVICE = ("src/cuda/absent.cpp",)
# What a build is made of, so that results are never those of other sources.
BUILD_SOURCES = ("CMakeLists.txt", "CMakePresets.json", "cmake/**/*", "configs/**/*", "include/**/*",
                 "src/**/*", "tests/*.h", "tests/CMakeLists.txt", "tests/cuda/**/*", "tools/*.cpp",
                 "tools/*.h", "tools/CMakeLists.txt")
SECTIONS = ("tests", "kernels", "sanitizer", "bench", "peer")
STAGES = ("tests", "sanitizer", "bench", "peer:ln", "peer:dtn")
PASSING = ("pass", "quick", "not in quick", "reduced")  # what was cut short is not judged


class Malformed(Exception):
    pass


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- the file

def load(path):
    if not path.exists():
        return {"sources": {}, "runs": []}
    try:
        ledger = json.loads(path.read_text())
        for name, entry in ledger["sources"].items():
            if not (isinstance(entry["hash"], str) and isinstance(entry["run"], str)):
                raise Malformed(f"{path}: source {name}: hash and run must be strings")
        ids = [run["id"] for run in ledger["runs"]]
        for run in ledger["runs"]:
            for key in ("id", "date", "commit", "tree", "gpu", "driver", "cuda"):
                if not isinstance(run[key], str):
                    raise Malformed(f"{path}: run {run['id']}: {key} must be a string")
        if len(set(ids)) != len(ids):
            raise Malformed(f"{path}: two runs have the same id")
        unknown = {e["run"] for e in ledger["sources"].values()} - set(ids)
        if unknown:
            raise Malformed(f"{path}: sources refer to runs that are not there: {', '.join(unknown)}")
        return ledger
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Malformed(f"{path}: {type(error).__name__}: {error}") from error


def write_value(value, indent=0):
    """JSON with each object that nests nothing on a line of its own."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(child and isinstance(child, (dict, list)) for child in children):
        return json.dumps(value)
    pad = "\n" + "  " * (indent + 1)
    if isinstance(value, dict):
        lines = [f"{json.dumps(k)}: {write_value(v, indent + 1)}" for k, v in value.items()]
        opening, closing = "{", "}"
    else:
        lines = [write_value(v, indent + 1) for v in value]
        opening, closing = "[", "]"
    return opening + pad + ("," + pad).join(lines) + pad[:-2] + closing


def save(path, ledger):
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(write_value(ledger) + "\n")
    temporary.replace(path)


# ---- sources

def matching(root, patterns):
    files = {f for pattern in patterns for f in root.glob(pattern) if f.is_file()}
    return sorted(str(f.relative_to(root)) for f in files)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def snapshot(root):
    """The sources as they are: a hash of each that needs an entry, and one of the whole build."""
    device = [f for f in matching(root, DEVICE_SOURCES) if f not in NOT_ON_DEVICE]
    whole = "".join(f"{f} {digest((root / f).read_bytes())}\n" for f in matching(root, BUILD_SOURCES))
    return {"tree": digest(whole.encode()),
            "sources": {f: digest((root / f).read_bytes()) for f in device}}


def commit_of(root):
    def git(*arguments):
        return subprocess.run(("git", "-C", str(root), *arguments), check=True, text=True,
                              capture_output=True).stdout.strip()
    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# ---- commands

def check(options):
    ledger = load(options.ledger)
    runs = {run["id"]: run for run in ledger["runs"]}
    for name, current in snapshot(options.root)["sources"].items():
        entry = ledger["sources"].get(name)
        if entry is None:
            print(f"warning: {name} was never tested on a GPU")
        elif entry["hash"] != current:
            run = runs[entry["run"]]
            print(f"warning: {name} changed after its tests on {run['gpu']} ({run['date'][:10]}, "
                  f"commit {run['commit']})")
    return 0


def find_run(ledger, options, state):
    same = {"tree": state["tree"], "gpu": options.gpu, "driver": options.driver, "cuda": options.cuda}
    for run in reversed(ledger["runs"]):
        if all(run[key] == value for key, value in same.items()):
            return run
    date, commit = now(), options.commit or commit_of(options.root)
    run = {"id": f"{date}-{state['tree'][:6]}", "date": date, "commit": commit, **same}
    ledger["runs"].append(run)
    return run


def enter_sources(ledger, sources, run):
    """Sources whose tests passed get an entry; those whose tests did not lose that version's."""
    if not problems_of_tests(run):
        ledger["sources"] = {name: {"hash": value, "run": run["id"]}
                             for name, value in sources.items()}
    else:
        ledger["sources"] = {name: entry for name, entry in ledger["sources"].items()
                             if entry["hash"] != sources.get(name)}


def append(options):
    ledger = load(options.ledger)
    state = json.loads(options.snapshot.read_text()) if options.snapshot else snapshot(options.root)
    run = find_run(ledger, options, state)
    if options.lines:
        run["kernels"] = read_lines(options.lines.read_text())
    if options.junit:
        run["tests"] = {"date": now(), **read_junit(options.junit)}
        enter_sources(ledger, state["sources"], run)
    if options.sanitizer:
        tools = read_sanitizer(options.sanitizer)
        before = run.get("sanitizer", {"tools": []})["tools"]
        if not before or any(t["reduced"] for t in before) or not any(t["reduced"] for t in tools):
            run["sanitizer"] = {"date": now(), "tools": tools}
    for name, files in (("bench", options.bench), ("peer", options.peer)):
        if files:
            run.setdefault(name, {"date": now(), "quick": options.quick, "results": {}})
            if run[name]["quick"] and not options.quick:  # better figures replace all of the quick
                run[name]["results"] = {}
            if run[name]["quick"] or not options.quick:
                run[name].update(date=now(), quick=options.quick)
                run[name]["results"].update(read_results(files))
    save(options.ledger, ledger)
    return 0


def merge(options):
    ledger = load(options.ledger)
    for file in options.files:
        other = load(file)
        runs = {run["id"]: run for run in ledger["runs"]}
        for theirs in other["runs"]:
            ours = runs.get(theirs["id"])
            if ours is None:
                ledger["runs"].append(theirs)
                continue
            for section in SECTIONS:
                dated = "tests" if section == "kernels" else section
                if theirs.get(dated, {}).get("date", "") > ours.get(dated, {}).get("date", ""):
                    ours[section] = theirs.get(section, ours.get(section))
        ledger["runs"].sort(key=lambda run: run["date"])
        dates = {run["id"]: run["date"] for run in ledger["runs"]}
        for name, entry in other["sources"].items():
            ours = ledger["sources"].get(name)
            if ours is None or dates[entry["run"]] > dates[ours["run"]]:
                ledger["sources"][name] = entry
        ledger["sources"] = dict(sorted(ledger["sources"].items()))
    save(options.ledger, ledger)
    return 0


def report(options):
    ledger = load(options.ledger)
    if options.snapshot:
        tree = json.loads(options.snapshot.read_text())["tree"]
        ledger["runs"] = [run for run in ledger["runs"] if run["tree"] == tree]
    if not ledger["runs"]:
        print("gpu_ledger: no run of these sources" if options.snapshot else "gpu_ledger: no runs")
        return 1
    run = ledger["runs"][-1]
    print(f"{run['gpu']}, driver {run['driver']}, CUDA {run['cuda']}, commit {run['commit']}, "
          f"run {run['id']}")
    missed = False
    for stage, name, measured, bound, verdict in rows_of(run):
        print(f"{name:52s} {measured:>26s}   {bound:18s} {verdict}")
        missed |= stage in options.stages and verdict not in PASSING
    return int(missed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    path = pathlib.Path
    commands = parser.add_subparsers(dest="command", required=True)
    parsers = {}
    for name, function in (("check", check), ("snapshot", None), ("append", append),
                           ("merge", merge), ("report", report)):
        parsers[name] = sub = commands.add_parser(name)
        sub.set_defaults(function=function)
        sub.add_argument("--ledger", type=path, default=LEDGER, metavar="FILE")
        sub.add_argument("--root", type=path, default=ROOT, metavar="FOLDER", help="of the sources")
    add = parsers["append"].add_argument
    add("--gpu", required=True, metavar="NAME")
    add("--driver", default="unknown", metavar="VERSION")
    add("--cuda", default="unknown", metavar="VERSION")
    add("--commit", metavar="HASH", help="default: what git says")
    add("--snapshot", type=path, metavar="FILE", help="the sources when they were built; "
        "default: as they are")
    add("--lines", type=path, metavar="FILE", help="what the tests wrote to $DTN_LEDGER")
    add("--junit", type=path, metavar="FILE", help="ctest --output-junit of the same tests")
    add("--sanitizer", type=path, metavar="FILE", help="the jobs of compute-sanitizer")
    add("--bench", type=path, nargs="+", metavar="FILE", help="results of dtn-bench --json")
    add("--peer", type=path, nargs="+", metavar="FILE", help="results of tests/peers/gpu_speed.py")
    add("--quick", action="store_true", help="these speeds are not to be held against the bounds")
    parsers["merge"].add_argument("files", type=path, nargs="+", metavar="FILE")
    parsers["report"].add_argument("--snapshot", type=path, metavar="FILE")
    parsers["report"].add_argument("--stages", nargs="*", default=[], choices=STAGES,
                                   help="fail unless the requirements of these are met")
    options = parser.parse_args()
    if options.command == "snapshot":
        print(json.dumps(snapshot(options.root)))
        return 0
    try:
        return options.function(options)
    except Malformed as error:
        print(f"gpu_ledger: malformed: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
