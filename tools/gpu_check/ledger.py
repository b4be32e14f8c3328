"""The ledger, tests/gpu_ledger.json: `sources` and `runs`.

A run is one state of the sources on one GPU, driver and CUDA version. Calls add to the same run.
Besides its identity, a run has a section for each stage:

  {"date": ..., "results": {name: ...}, "failed": {name: reason}, "planned": N, "left_out": reason}

A section has `planned` if the number of results is known beforehand, and `left_out` if the stage
had nothing to run. The result of a test suite has `left_out`, the tests that lack hardware and the
hardware that they need, and `untested`, patterns of the sources that no other test covers. An entry
of `sources` names the run in which the tests last passed with that version of the file."""
import contextlib
import datetime
import json
import shutil
import threading

from .errors import Malformed
from .sources import digest

IDENTITY = ("tree", "gpu", "driver", "cuda")
SECTIONS = ("smoke", "speeds", "products", "bench", "peer", "tests", "kernels", "profile",
            "sanitizer", "ranks")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


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
            for key in ("id", "date", "commit", *IDENTITY):
                if not isinstance(run[key], str):
                    raise Malformed(f"{path}: run {run['id']}: {key} must be a string")
        if len(set(ids)) != len(ids):
            raise Malformed(f"{path}: two runs have the same id")
        unknown = {e["run"] for e in ledger["sources"].values()} - set(ids)
        if unknown:
            raise Malformed(f"{path}: sources refer to runs that are not there: {sorted(unknown)}")
        return ledger
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Malformed(f"{path}: {type(error).__name__}: {error}") from error


def write_value(value, indent=0):
    """Writes JSON. Each object without nested objects stands on its own line."""
    children = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)):
        return json.dumps(value)
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
    """Replaces the file atomically: after a kill, the file is the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(write_value(ledger) + "\n")
    temporary.replace(path)


def find_run(ledger, identity):
    """Returns the latest run of these sources on this machine, or None."""
    for run in reversed(ledger["runs"]):
        if all(run[key] == identity[key] for key in IDENTITY):
            return run
    return None


def rounded(value):
    """Rounds to five digits; a measurement repeats fewer."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


class Ledger:
    """Run that a call adds to. Each change is on the disk when its method returns."""

    def __init__(self, path, identity, commit, copy_to=None):
        self.path, self.identity, self.commit, self.copy_to = path, identity, commit, copy_to
        self._lock = threading.Lock()

    def run(self):
        """Returns the run as stored on the disk, for reading. The run is empty if there is none
        yet."""
        return find_run(load(self.path), self.identity) or {}

    @contextlib.contextmanager
    def changed(self, section):
        """Context manager that yields a section for writing, the run and the whole ledger."""
        with self._lock:
            whole = load(self.path)
            run = find_run(whole, self.identity)
            if run is None:
                date = now()
                machine = digest(json.dumps(self.identity).encode())[:6]
                run = {"id": f"{date}-{machine}", "date": date, "commit": self.commit,
                       **self.identity}
                whole["runs"].append(run)
            content = run.setdefault(section, {})
            content.update(date=now())
            content.setdefault("results", {})
            yield content, run, whole
            save(self.path, whole)
            if self.copy_to:
                with contextlib.suppress(OSError):  # the ledger itself is safe
                    self.copy_to.mkdir(parents=True, exist_ok=True)
                    shutil.copy(self.path, self.copy_to / "gpu_ledger.json")


def union(older, newer):
    """Returns the union of two dictionaries. The newer one overrides the older one."""
    if not (isinstance(older, dict) and isinstance(newer, dict)):
        return newer
    return {**older, **{k: union(older[k], v) if k in older else v for k, v in newer.items()}}


def merge_sections(ours, theirs):
    """Merges sections that consist of parts. Of other sections, returns the later one."""
    for name in SECTIONS:
        # Older ledgers have the errors of kernels beside the tests, with the date of the tests.
        dated = "tests" if name == "kernels" else name
        if name not in theirs:
            continue
        dates = [run.get(dated, {}).get("date", "") for run in (ours, theirs)]
        older, newer = (ours, theirs) if dates[1] > dates[0] else (theirs, ours)
        if name not in ours or name == "kernels" or not all(
                isinstance(run[name].get("results"), dict) for run in (ours, theirs)):
            ours[name] = newer.get(name, theirs[name])
            continue
        merged = union(older[name], newer[name])
        if "failed" in merged:  # a retry that succeeded removes the failure
            merged["failed"] = {k: v for k, v in merged["failed"].items()
                                if k not in merged["results"]}
        ours[name] = merged


def merge(ledger, other):
    """Adds the runs and entries of another ledger."""
    renamed = {}
    for theirs in other["runs"]:
        ours = next((run for run in ledger["runs"] if run["id"] == theirs["id"]), None) \
            or find_run(ledger, theirs)
        if ours is None:
            ledger["runs"].append(theirs)
        else:
            merge_sections(ours, theirs)
        renamed[theirs["id"]] = (ours or theirs)["id"]
    ledger["runs"].sort(key=lambda run: run["date"])
    dates = {run["id"]: run["date"] for run in ledger["runs"]}
    for name, entry in other["sources"].items():
        ours, theirs = ledger["sources"].get(name), {**entry, "run": renamed[entry["run"]]}
        if ours is None or dates[theirs["run"]] > dates[ours["run"]]:
            ledger["sources"][name] = theirs
    ledger["sources"] = dict(sorted(ledger["sources"].items()))
