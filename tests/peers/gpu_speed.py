#!/usr/bin/env python3
"""Training steps of ViT-S* on one GPU: PyTorch in every form that could be its fastest, and dtn.

  gpu_speed.py --norm dtn --list                            the forms, most valuable first
  gpu_speed.py --norm ln --variant NAME                     one of them, in this process
  gpu_speed.py --norm ln --bench build-gpu/bin/dtn-bench    dtn, all of them, dtn again
  gpu_speed.py --smoke                                      checks the peer itself, on the CPU

Both sides take the step of the configs vit_s_star_ln and vit_s_star_dtn: bf16, drop path 0.1, label
smoothing 0.1, AdamW, no clipping, the whole batch at once, random images that are already on the
device. gpu_variants.py describes the forms. CUDA events time a step from the end of the step
before; nothing waits in between. Compilation and warm-up are left out, and the median counts.

One variant prints one JSON object: norm, variant, images_per_second, step_ms, peak_bytes, torch,
gpu, batch, steps and compile_seconds, the time of everything before the warm-up. A variant that
cannot run exits with 1; the last line on stderr gives the reason. Without --variant each runs in a
separate process, so that a crash ends no other. Each prints its object as one line, dtn's are
called dtn-bench, and stderr ends with a table. The exit code is 0 if a variant of PyTorch was
measured, and with --bench also dtn. Needs PyTorch 2.11, except for --list; not part of the tests.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import traceback

from gpu_variants import parse, variants

RESERVE = 45  # seconds kept for the second run of dtn


def note(text):
    print(f"gpu_speed: {text}", file=sys.stderr, flush=True)


def run_in_group(command, seconds):
    """Returns the stdout of a command and ends its children. Raises RuntimeError with the
    reason."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"not done after {seconds:.0f} s") from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode:
        print(errors[-4000:], file=sys.stderr)
        lines = errors.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"exit code {process.returncode}: {lines[-1]}")
    return out


def ours(args, seconds):
    command = [args.bench, "train", "--config", f"vit_s_star_{args.norm}", "--device",
               "cpu" if args.tiny else "cuda", "--steps", str(args.steps), "--warmup",
               str(args.warmup), "--json"]
    settings = {"train.batch_size": args.batch, "train.micro_batch": args.batch,
                "train.precision": "bf16"}
    if args.tiny:
        settings.update({"model.image_size": 32, "model.depth": 1, "model.class_token_at": 1,
                         "model.num_classes": 10})
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    result = json.loads(run_in_group(command, seconds))
    return {"norm": args.norm, "variant": "dtn-bench",
            **{key: result[key] for key in ("images_per_second", "step_ms", "peak_bytes")},
            "batch": args.batch, "steps": args.steps}


def theirs(args, name, seconds):
    command = [sys.executable, os.path.abspath(__file__), "--norm", args.norm, "--variant", name,
               "--steps", str(args.steps), "--warmup", str(args.warmup), "--batch", str(args.batch)]
    return json.loads(run_in_group(command + ["--tiny"] * args.tiny, seconds))


def measure_all(args):
    """Returns the records of what could be measured, and the reasons for the rest, by name."""
    begin, records, failures = time.monotonic(), [], {}
    jobs = [(v.name, lambda seconds, name=v.name: theirs(args, name, seconds))
            for v in variants(args.norm)]
    if args.bench:
        mine = ("dtn-bench", lambda seconds: ours(args, seconds))
        jobs = [mine, *jobs, mine]
    for i, (name, job) in enumerate(jobs):
        is_last = i + 1 == len(jobs)
        left = args.until - (time.monotonic() - begin)
        left -= RESERVE if args.bench and not is_last else 0
        if left <= 0:
            failures.setdefault(name, "no time was left")
            continue
        try:
            record = job(left)
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            failures[name] = str(error) or type(error).__name__
            note(f"{name}: {failures[name]}")
            continue
        records.append(record)
        print(json.dumps(record), flush=True)
        note(f"{name}: {record['images_per_second']:.1f} images/s")
    return records, failures


def print_table(norm, records, failures):
    own = [r["images_per_second"] for r in records if r["variant"] == "dtn-bench"]
    width = max(len(name) for name in [r["variant"] for r in records] + list(failures) + [norm])
    say = lambda *row: print("{:{}}  {:>9}  {:>8}  {:>6}  {}".format(row[0], width, *row[1:]),
                             file=sys.stderr)
    say(norm, "images/s", "ms", "GiB", "ours over it")
    for r in sorted(records, key=lambda r: -r["images_per_second"]):
        rate, peak = r["images_per_second"], r["peak_bytes"]
        say(r["variant"], f"{rate:.1f}", f"{r['step_ms']:.2f}",
            "-" if peak is None else f"{peak / 2**30:.1f}",
            f"{statistics.mean(own) / rate:.3f}" if own else "-")
    for name, reason in failures.items():
        print(f"{name:{width}}  not measured: {reason}", file=sys.stderr)


def reason_of(error):
    """One line. torch.compile wraps the original error, so the line has the first and the last."""
    texts = []
    while error:
        texts.append(f"{type(error).__name__}: {' '.join(str(error).split())}"[:300])
        error = error.__cause__ or error.__context__
    return texts[0] if len(texts) == 1 else f"{texts[0]}; at its root {texts[-1]}"


def measure_one(args):
    """Prints a record on stdout, or a reason on stderr. Returns the exit code."""
    try:
        variant = parse(args.norm, args.variant)
    except ValueError as error:
        note(error)
        return 1
    try:
        from training_torch import measure
        record = measure(variant, args.batch, args.steps, args.warmup, args.tiny)
    except Exception as error:  # errors of a compiler have no common type
        traceback.print_exc()
        note(f"{args.variant}: {reason_of(error)}")
        return 1
    print(json.dumps(record))
    return 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--norm", choices=("ln", "dtn"), default="ln", help="default: %(default)s")
    add("--list", action="store_true", help="prints the variants, most valuable first")
    add("--variant", metavar="NAME", help="measures this one alone, in this process")
    add("--bench", metavar="PATH", help="dtn-bench, measured before and after all variants")
    add("--until", type=float, metavar="SECONDS", default=float("inf"),
        help="starts nothing later, and ends what then runs; some of it is kept for --bench")
    add("--batch", type=int, default=256, help="images of a step (default: %(default)s)")
    add("--steps", type=int, default=20, help="timed steps (default: %(default)s)")
    add("--warmup", type=int, default=5, help="steps before them (default: %(default)s)")
    add("--smoke", action="store_true",
        help="a tiny model on the CPU: variants compute what the plain model does, and learn")
    add("--tiny", action="store_true",
        help="measures a tiny model on the CPU, to try this script; compiles, but has no graphs")
    args = parser.parse_args()
    if min(args.batch, args.steps) < 1 or args.warmup < 0:
        parser.error("--batch and --steps take 1 or more, --warmup 0 or more")
    return args


def main():
    args = arguments()
    if args.list:
        print("\n".join(v.name for v in variants(args.norm)))
        return 0
    if args.smoke:
        from smoke_torch import check_all
        return check_all()
    if args.variant:
        return measure_one(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("gpu_speed: ended from outside"))
    records, failures = measure_all(args)
    print_table(args.norm, records, failures)
    measured = {r["variant"] for r in records}
    return 0 if measured - {"dtn-bench"} and (not args.bench or "dtn-bench" in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
