"""Requirements that a run of the ledger must meet, one row for each.

Older ledgers have other forms of some sections, which this module also reads: `tests` with sums in
place of suites and `kernels` beside it, `sanitizer` with `tools`, `peer` with `ratios`, and `quick`
sections, which have no requirements."""
import collections

from . import accuracy

TOOLS = ("memcheck", "racecheck")
PASSING = ("pass", "quick", "not in quick", "reduced", "left out", "no bound")
NOT_RUN = "not run"

# Bounds of the relative difference between the GPU's and the CPU's losses and gradient norms, in
# the first steps of a training.
#
# fp32: both sides compute in float32, without tf32. They differ in the order of sums and in the
# last bits of exponentials and roots. Two CPU builds with such differences (oneDNN and AVX-512,
# Eigen and AVX2) and the emulator agree to 2.5e-7. Another order of sums in cuBLASLt may cost
# sqrt(K) 2^-24 = 1e-6 in a product of K = 432. The bound 1e-5 allows ten such errors. It excludes a
# wrong kernel, and tf32, whose operands have errors of 2^-11 = 5e-4.
#
# bf16: one rounding changes a value by up to 2^-8 = 4e-3. Differences in rounding average out over
# tokens and channels: the two CPU builds and the emulator agree to 1e-3. The bound is one rounding.
# From one step to the next the losses change by ten times the bound, the norms by a hundred times.
BOUNDS = {"fp32": 1e-5, "bf16": 4e-3}


def rows_of(run):
    """Returns (stage, requirement, measured, bound, verdict) for each requirement."""
    for rows in (smoke_rows, kernel_rows, dtn_backward_rows, product_rows, train_rows, peer_rows, test_rows, sanitizer_rows,
                 rank_rows):
        yield from rows(run)


def missed(run, stages):
    """Returns True if the run does not meet all requirements of these stages."""
    return any(row[0] in stages and not row[4].startswith(PASSING) for row in rows_of(run))


def results_of(run, section):
    return run.get(section, {}).get("results", {})


def judged(stage, name, value, bound, text=None, most=False, missing="not measured"):
    """Returns the row of a figure that must reach a bound or, with `most`, must not exceed it."""
    limit = "no bound" if bound is None else f"{'<=' if most else '>='} {text or f'{bound:.2f}'}"
    if value is None:
        return stage, name, "-", limit, missing
    good = bound is None or (value <= bound if most else value >= bound)
    verdict = "no bound" if bound is None else "pass" if good else "MISS"
    return stage, name, f"{value:.1e}" if most else f"{value:.3f}", limit, verdict


# ---- smoke, kernels

def smoke_rows(run):
    results = results_of(run, "smoke")
    for precision, bound in BOUNDS.items():
        for norm in ("ln", "dtn"):
            error = results.get(f"losses_{norm}_{precision}", {}).get("error")
            name = f"first steps of ViT-S* {norm.upper()}, {precision}, against the CPU"
            yield judged("smoke", name, error, bound, f"{bound:.0e}", most=True)


NOT_KERNELS = ("summary", "trace_dtn", "trace_ln", "warpgroup_attention", "warpgroup_dtn",
               "warpgroup_ln", "twelve_warps_dtn_bwd", "twelve_warps_dtn")


def kernel_rows(run):
    section = run.get("speeds", {})
    results = section.get("results", {})
    failed = [name for name in section.get("failed", {}) if name not in NOT_KERNELS]
    measured = [name for name, entry in results.items() if "us" in entry]
    verdict = ("not measured" if not measured and not failed
               else f"MISS: {len(failed)} failed: {', '.join(failed[:3])}" if failed
               else "pass" if "summary" in results else "MISS: cut off")
    yield ("kernels", "kernels of a training step, each on its own",
           f"{len(measured)} measured" if measured else "-", "all", verdict)


def dtn_backward_rows(run):
    """Compares DTN's backward pass with 8 warps per block and with 12."""
    results = results_of(run, "speeds")
    us = {warps: next((entry["us"] for name, entry in results.items()
                       if name.startswith(prefix + "dtn_bwd ") and "us" in entry), None)
          for warps, prefix in ((8, ""), (12, "12 warps "))}
    known = None not in us.values()
    yield ("kernels", "DTN backward alone: 8 warps, 12 warps",
           ", ".join("-" if t is None else f"{t:.1f} us" for t in us.values()), "no bound",
           f"no bound, faster: {min(us, key=us.get)} warps" if known else "not measured")


def product_rows(run):
    results = results_of(run, "products")
    for norm in ("ln", "dtn"):
        entry = results.get(f"products_{norm}", {})
        for kind, what in (("chosen", "by least waste"), ("best", "by the fastest")):
            ratio = or_none(lambda: entry[f"{kind}_ms"] / entry["first_ms"])
            yield judged("products", f"ViT-S* {norm.upper()}: products {what}, of cuBLASLt's first",
                         ratio, None)


# ---- speeds

def turns(results, name):
    """Returns the results with this name: a list, or name.1, name.2 and so on."""
    if isinstance(results.get(name), list):
        return results[name]
    return [entry for key, entry in results.items() if key.split(".")[0] == name]


def mean_of(results, name, key):
    found = [entry[key] for entry in turns(results, name)]
    return sum(found) / len(found)


def dtn_of_ln(results):
    rate = "images_per_second"
    return mean_of(results, "train_dtn", rate) / mean_of(results, "train_ln", rate)


SPEEDS = (
    ("DTN forward alone, of copy bandwidth", 0.40,
     lambda r: mean_of(r, "norm_dtn", "forward_of_copy")),
    ("ViT-S* LN training, mfu", 0.40, lambda r: mean_of(r, "train_ln", "mfu")),
    ("ViT-S* DTN training, mfu", 0.40, lambda r: mean_of(r, "train_dtn", "mfu")),
    ("ViT-S* training, DTN over LN", 0.94, dtn_of_ln),
)


def or_none(function, *arguments):
    """Returns the value of the function, or None if a figure that it needs is missing."""
    try:
        return function(*arguments)
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None


def train_rows(run):
    section = run.get("bench", {})
    for name, bound, figure in SPEEDS:
        row = judged("train", name, or_none(figure, section.get("results", {})), bound,
                     missing="not in quick" if section.get("quick") else "not measured")
        yield (*row[:4], "quick") if section.get("quick") and row[2] != "-" else row


def over_variants(entry, prefix):
    """Returns dtn's mean relative to the fastest variant with this prefix, and the variant's
    name."""
    rates = {name: v["images_per_second"] for name, v in entry["variants"].items()
             if name.startswith(prefix)}
    fastest = max(rates, key=rates.get)
    return sum(entry["ours"]) / len(entry["ours"]) / rates[fastest], fastest


PEERS = (("ln", "the fastest PyTorch", "", 1.0),
         ("dtn", "the fastest of the released module", "released", 2.0),
         ("dtn", "the fastest PyTorch of all", "", None))
OLD_PEERS = (("ln", "compiled", 1.0), ("ln", "eager", 1.5), ("dtn", "compiled", 2.0),
             ("dtn", "eager", 3.0))


def peer_rows(run):
    results = results_of(run, "peer")
    if any(f"peer_{norm}" in results for norm in ("ln", "dtn")):
        yield from old_peer_rows(results, run["peer"].get("quick"))
        return
    for norm, what, prefix, bound in PEERS:
        ratio, name = or_none(over_variants, results.get(norm, {}), prefix) or (None, None)
        label = f"ViT-S* {norm.upper()} training, over {what}"
        row = judged("peer", label, ratio, bound)
        yield (*row[:2], f"{row[2]} ({name})", *row[3:]) if name else row


def old_peer_rows(results, quick):
    for norm, kind, bound in OLD_PEERS:
        ratio = or_none(lambda: results[f"peer_{norm}"][-1]["ratios"].get(kind))
        row = judged("peer", f"ViT-S* {norm.upper()} training, over {kind} PyTorch", ratio, bound)
        yield (*row[:4], "quick") if quick and ratio is not None else row


# ---- tests

def counts_of_tests(run):
    """Returns the numbers of passed, failed and skipped tests and of suites not run, or None if no
    test ran."""
    section = run.get("tests")
    if not section:
        return None
    if "results" not in section:
        return section["passed"], section["failed"], section["skipped"], 0
    suites = section["results"].values()
    if not suites:
        return None
    return (sum(s["passed"] for s in suites), sum(len(s.get("failed", {})) for s in suites),
            sum(len(s.get("skipped", {})) for s in suites),
            max(0, section.get("planned", 0) - len(suites)))


def left_out_tests(run):
    """Returns the hardware that left-out tests need, with the number of tests for each."""
    return collections.Counter(need for suite in results_of(run, "tests").values()
                               for need in suite.get("left_out", {}).values())


def kernels_of(run):
    """Returns the errors of kernels over all suites."""
    if "kernels" in run:
        return run["kernels"]
    return accuracy.together(s.get("kernels", []) for s in results_of(run, "tests").values())


def told(left_out):
    """Returns the end of a verdict: the left-out tests and the hardware that they need."""
    return "".join(f", {count} left out (no {need})" for need, count in left_out.items())


def problem_of_tests(run):
    """Returns the reason why the tests have not passed, or an empty text. Tests that are left out
    for lack of hardware are no problem."""
    counts = counts_of_tests(run)
    if counts is None:
        return NOT_RUN
    passed, failed, skipped, not_run = counts
    kernels = kernels_of(run)
    outside = sum(k["failed"] for k in kernels)
    return ("no test ran" if not passed else f"{failed} failed" if failed
            else f"{outside} results out of bounds" if outside
            else f"{skipped} skipped" if skipped else f"{not_run} suites {NOT_RUN}" if not_run
            else "no measurements" if not kernels else "")


def test_rows(run):
    counts, kernels = counts_of_tests(run), kernels_of(run)
    problem = problem_of_tests(run)
    yield ("tests", "tests on the device", f"{counts[0]} passed" if counts else "-",
           "all, none skipped",
           NOT_RUN if not counts
           else (f"MISS: {problem}" if problem else "pass") + told(left_out_tests(run)))
    worst = max((accuracy.as_number(k["of_bound"]) for k in kernels), default=None)
    yield ("tests", f"worst error over its bound ({len(kernels)} kernels x types)",
           "-" if worst is None else f"{worst:.3f}", "<= 1.00",
           NOT_RUN if worst is None else "pass" if worst <= 1 else "MISS")


# ---- sanitizer, ranks

def tools_of(run):
    """Returns the findings of compute-sanitizer by (tool, program): jobs, jobs not run, tests,
    errors, failures, True if suites were cut short, and left-out tests as in left_out_tests()."""
    section = run.get("sanitizer", {})
    if "tools" in section:
        return {(t["tool"], t["program"]): (t["suites"], len(t["not_run"]), t["tests"], t["errors"],
                                            t["failed"], t["reduced"], {})
                for t in section["tools"]}
    found = {}
    for group, planned in section.get("suites", {}).items():
        jobs = {name: job for name, job in section["results"].items()
                if name.startswith(group + " ")}
        failed = [f"{name.split(' ')[2]}: {job['problem']}" for name, job in jobs.items()
                  if job["problem"]]
        found[tuple(group.split(" "))] = (planned, planned - len(jobs),
                                          sum(j["tests"] for j in jobs.values()),
                                          sum(j["errors"] for j in jobs.values()), failed, False,
                                          sum((collections.Counter(j.get("left_out", {}))
                                               for j in jobs.values()), collections.Counter()))
    return found


def sanitizer_rows(run):
    found = tools_of(run)
    for key in sorted(set(found) | {(tool, "gpu_kernels") for tool in TOOLS}):
        jobs, not_run, tests, errors, failed, reduced, left_out = found.get(
            key, (0, 0, 0, 0, [], False, {}))
        ended = jobs - not_run
        yield ("sanitizer", f"{key[0]} of {key[1]}",
               f"{errors} errors in {tests} tests" if ended else "-", "0, all run",
               NOT_RUN if not ended else f"MISS: {'; '.join(failed[:3])}" if failed
               else f"MISS: {not_run} of {jobs} suites not run" if not_run
               else "reduced" if reduced else "pass" + told(left_out))


def rank_rows(run):
    section = run.get("ranks", {})
    results = section.get("results", {})
    yield ("ranks", "training under mpirun", "; ".join(r["what"] for r in results.values()) or "-",
           "one rank and two", f"left out: {section['left_out']}" if "left_out" in section
           else "pass" if len(results) == 2 else NOT_RUN if not section.get("failed") else "MISS")


def print_report(run, stages=()):
    print(f"{run['gpu']}, driver {run['driver']}, CUDA {run['cuda']}, commit {run['commit']}, "
          f"run {run['id']}")
    for stage, name, measured, bound, verdict in rows_of(run):
        if not stages or stage in stages:
            print(f"{name:52s} {measured:>26s}   {bound:18s} {verdict}")
