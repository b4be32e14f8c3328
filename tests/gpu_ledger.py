#!/usr/bin/env python3
"""The record of checks on real GPUs: tests/gpu_ledger.json.

  gpu_ledger.py check            warns of sources that changed after their entry
  gpu_ledger.py merge FILE ...   takes over the runs of other ledgers
  gpu_ledger.py products         writes src/cuda/measured_products.inc, the fastest of the algorithms
                                 for matrix products on each card that runs have measured
  gpu_ledger.py report           each requirement of the latest run: measured, bound, verdict

tools/gpu-check.sh writes the file; tools/gpu_check/ledger.py describes its content.
"""
import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from gpu_check import ledger, products as measured, requirements, sources  # noqa: E402  (the path comes first)
from gpu_check.errors import Malformed  # noqa: E402


def check(options):
    for warning in sources.warnings(ledger.load(options.ledger), options.root):
        print(f"warning: {warning}")


def merge(options):
    whole = ledger.load(options.ledger)
    for file in options.files:
        ledger.merge(whole, ledger.load(file))
    ledger.save(options.ledger, whole)


def products(options):
    lines = measured.lines_of(ledger.load(options.ledger)["runs"])
    if not lines:
        sys.exit("gpu_ledger: no run has measured products; tools/gpu-check.sh --stage products does")
    options.output.write_text(measured.as_literal(lines))
    print(f"{options.output}: {len(lines)} products")


def report(options):
    runs = ledger.load(options.ledger)["runs"]
    if not runs:
        sys.exit("gpu_ledger: no runs")
    requirements.print_report(runs[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for function in (check, merge, products, report):
        sub = commands.add_parser(function.__name__)
        sub.set_defaults(function=function)
        sub.add_argument("--ledger", type=pathlib.Path, default=ROOT / "tests/gpu_ledger.json",
                         metavar="FILE")
        if function is check:
            sub.add_argument("--root", type=pathlib.Path, default=ROOT, metavar="FOLDER",
                             help="of the sources")
        if function is products:
            sub.add_argument("--output", type=pathlib.Path, metavar="FILE",
                             default=ROOT / "src/cuda/measured_products.inc")
        if function is merge:
            sub.add_argument("files", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    try:
        options.function(options)
    except Malformed as error:
        sys.exit(f"gpu_ledger: malformed: {error}")


if __name__ == "__main__":
    main()
