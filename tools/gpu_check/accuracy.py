"""Errors of kernels, as the tests measure them."""
import json
import math
import re

LONGEST = 160  # maximum characters of the list of shapes


def read(text):
    """Returns an entry for each kernel and type, from the measurements of the tests (a JSON object
    per line)."""
    kernels, cases = {}, {}
    for line in filter(str.strip, text.splitlines()):
        # printf writes inf and nan, which JSON lacks. Both exceed every bound.
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
        entry["shapes"] = shortened("; ".join(cases[key]))
        for name in ("max_error", "of_bound"):
            entry[name] = float(f"{entry[name]:.3g}") if math.isfinite(entry[name]) else "inf"
    return [kernels[key] for key in sorted(kernels)]


def together(parts):
    """Returns the entries of several suites as one list."""
    kernels = {}
    for entry in (e for part in parts for e in part):
        key = (entry["kernel"], entry["dtype"])
        known = kernels.get(key)
        if known is None:
            kernels[key] = dict(entry)
            continue
        worst = max(known, entry, key=lambda e: as_number(e["max_error"]))
        kernels[key] = {
            **known, "cases": known["cases"] + entry["cases"],
            "failed": known["failed"] + entry["failed"],
            "max_error": worst["max_error"], "bound": worst["bound"],
            "of_bound": max(known["of_bound"], entry["of_bound"], key=as_number),
            "shapes": shortened(known["shapes"] + "; " + entry["shapes"])}
    return [kernels[key] for key in sorted(kernels)]


def as_number(value):
    return math.inf if value == "inf" else value


def shortened(shapes):
    return shapes if len(shapes) <= LONGEST else shapes[:LONGEST - 4] + " ..."
