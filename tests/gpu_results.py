"""Reads what the stages of tools/gpu-check.sh leave behind, and holds it against the requirements."""
import json
import math
import pathlib
import re
import xml.etree.ElementTree

TOOLS = ("memcheck", "racecheck")


def read_lines(text):
    """The measurements of the tests, one line of JSON each, to one entry per kernel and type."""
    kernels, cases = {}, {}
    for line in filter(str.strip, text.splitlines()):
        # printf writes inf and nan, which JSON does not have; neither is within any bound.
        record = json.loads(re.sub(r": -?(inf|nan)\b", ": Infinity", line))
        error, bound = float(record["max_error"]), float(record["bound"])
        ratio = 0.0 if error == 0 else error / bound if bound > 0 else math.inf
        key = (record["kernel"], record["dtype"])
        entry = kernels.setdefault(key, {"kernel": key[0], "dtype": key[1], "cases": 0, "failed": 0,
                                         "max_error": -1.0, "bound": 0.0, "of_bound": 0.0})
        if error > entry["max_error"]:
            entry.update(max_error=error, bound=bound)
        entry["of_bound"] = max(entry["of_bound"], ratio)
        entry["failed"] += ratio > 1
        cases.setdefault(key, {})[record["case"]] = None  # each runs several times
    for key, entry in kernels.items():
        entry["cases"] = len(cases[key])
        shapes = "; ".join(cases[key])
        entry["shapes"] = shapes if len(shapes) <= 160 else shapes[:156] + " ..."
        for name in ("max_error", "of_bound"):
            entry[name] = float(f"{entry[name]:.3g}") if math.isfinite(entry[name]) else "inf"
    return [kernels[key] for key in sorted(kernels)]


def read_junit(path):
    """CTest's report. What did not run is told apart from what passed."""
    result = {"passed": 0, "failed": 0, "skipped": 0, "seconds": 0.0, "not_passed": []}
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status", "")
        kind = ("failed" if status == "fail" or case.find("failure") is not None
                else "passed" if status == "run" and case.find("skipped") is None else "skipped")
        result[kind] += 1
        result["seconds"] += float(case.get("time") or 0)
        if kind != "passed":
            result["not_passed"].append(case.get("name"))
    result["seconds"] = round(result["seconds"], 1)
    return result


def read_sanitizer(jobs_file):
    """One line per job, `tool program suite filter base`; a job leaves base.log, base.json and,
    when it came to its end, base.done."""
    summary = {}
    for line in filter(str.strip, jobs_file.read_text().splitlines()):
        tool, program, suite, test_filter, base = line.split(maxsplit=4)
        entry = summary.setdefault((tool, program), {
            "tool": tool, "program": program, "suites": 0, "tests": 0, "errors": 0,
            "reduced": False, "not_run": [], "failed": []})
        entry["suites"] += 1
        entry["reduced"] |= test_filter != suite + ".*"
        problem, tests, errors = read_job(pathlib.Path(base))
        entry["tests"] += tests
        entry["errors"] += errors
        if problem:
            entry["not_run" if problem == "not run" else "failed"].append(
                suite if problem == "not run" else f"{suite}: {problem}")
    return list(summary.values())


def read_job(base):
    if not base.with_name(base.name + ".done").exists():
        return "not run", 0, 0
    log = base.with_name(base.name + ".log").read_text(errors="replace")
    counts = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", log)
    if not counts:
        return "the sanitizer did not come to its summary", 0, 0
    errors = sum(int(a or b) for a, b in counts)
    try:
        report = json.loads(base.with_name(base.name + ".json").read_text())
    except (OSError, ValueError):
        return "the test program did not come to its end", 0, errors
    cases = [case for suite in report["testsuites"] for case in suite["testsuite"]]
    ran = [c for c in cases if c.get("result") == "COMPLETED"]
    problem = (f"{errors} errors" if errors else f"{report['failures']} tests failed"
               if report["failures"] else f"{len(cases) - len(ran)} tests skipped"
               if len(ran) < len(cases) else "no test ran" if not ran else "")
    return problem, len(ran), errors


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def read_results(files):
    """JSON files called name.json or name.N.json: one list of results per name."""
    results = {}
    for file in sorted(files):
        result = rounded(json.loads(file.read_text()))
        results.setdefault(file.name.split(".")[0], []).append(result)
    return results


# ---- the requirements

def problems_of_tests(run):
    tests, kernels = run.get("tests"), run.get("kernels", [])
    if not tests:
        return "not run"
    outside = sum(k["failed"] for k in kernels)
    return ("no test ran" if not tests["passed"] else f"{tests['failed']} failed" if tests["failed"]
            else f"{tests['skipped']} not run" if tests["skipped"]
            else "no measurements" if not kernels
            else f"{outside} results out of bounds" if outside else "")


class Speed:
    """A figure that must reach a bound; `of` finds it in a run or gives None."""

    def __init__(self, stage, name, bound, of):
        self.stage, self.name, self.bound, self.of = stage, name, bound, of

    def row(self, run):
        section = run.get(self.stage.split(":")[0]) or {}
        try:
            value = self.of(section.get("results", {}))
        except (KeyError, IndexError, TypeError, ZeroDivisionError):
            value = None
        if value is None:
            verdict = "not in quick" if section.get("quick") else "not measured"
            return self.stage, self.name, "-", f">= {self.bound:.2f}", verdict
        verdict = ("quick" if section.get("quick") else "pass" if value >= self.bound else "MISS")
        return self.stage, self.name, f"{value:.3f}", f">= {self.bound:.2f}", verdict


def mean_of(name, key):
    return lambda results: sum(r[key] for r in results[name]) / len(results[name])


def peer_ratio(norm, key):
    return lambda results: results[f"peer_{norm}"][-1]["ratios"].get(key)


def dtn_of_ln(results):
    rate = "images_per_second"
    return mean_of("train_dtn", rate)(results) / mean_of("train_ln", rate)(results)


SPEEDS = (
    Speed("bench", "DTN forward alone, of copy bandwidth", 0.40, mean_of("norm_dtn", "forward_of_copy")),
    Speed("bench", "ViT-S* LN training, mfu", 0.40, mean_of("train_ln", "mfu")),
    Speed("bench", "ViT-S* DTN training, mfu", 0.40, mean_of("train_dtn", "mfu")),
    Speed("bench", "ViT-S* training, DTN over LN", 0.93, dtn_of_ln),
    Speed("peer:ln", "ViT-S* LN training, over torch.compile", 1.0, peer_ratio("ln", "compiled")),
    Speed("peer:ln", "ViT-S* LN training, over eager PyTorch", 1.5, peer_ratio("ln", "eager")),
    Speed("peer:dtn", "ViT-S* DTN training, over torch.compile", 2.0, peer_ratio("dtn", "compiled")),
    Speed("peer:dtn", "ViT-S* DTN training, over eager PyTorch", 3.0, peer_ratio("dtn", "eager")),
)


def rows_of(run):
    tests, kernels = run.get("tests"), run.get("kernels", [])
    problem = problems_of_tests(run)
    yield ("tests", "tests on the device", f"{tests['passed']} passed" if tests else "-",
           "all, none skipped", "not run" if not tests else f"MISS: {problem}" if problem else "pass")
    worst = max((math.inf if k["of_bound"] == "inf" else k["of_bound"] for k in kernels), default=None)
    yield ("tests", f"worst error over its bound ({len(kernels)} kernels x types)",
           "-" if worst is None else f"{worst:.3f}", "<= 1.00",
           "not run" if worst is None else "pass" if worst <= 1 else "MISS")
    tools = {(t["tool"], t["program"]): t for t in run.get("sanitizer", {}).get("tools", [])}
    for key in sorted(set(tools) | {(tool, "gpu_kernels") for tool in TOOLS}):
        t = tools.get(key)
        ended = 0 if not t else t["suites"] - len(t["not_run"])
        yield ("sanitizer", f"{key[0]} of {key[1]}",
               f"{t['errors']} errors in {t['tests']} tests" if ended else "-", "0, all run",
               "not run" if not ended else f"MISS: {'; '.join(t['failed'][:3])}" if t["failed"]
               else f"MISS: {len(t['not_run'])} of {t['suites']} suites not run" if t["not_run"]
               else "reduced" if t["reduced"] else "pass")
    for speed in SPEEDS:
        yield speed.row(run)
