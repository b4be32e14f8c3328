#!/usr/bin/env python3
"""Tests tools/gpu_check with stand-ins for the GPU and all programs (gpu_check_stand_in.sh). If any
measurement fails, in any way, the ledger has all the others. Time goes to the most valuable
measurements. A later call continues where an earlier one ended."""
import concurrent.futures
import json
import os
import pathlib
import tempfile
import time
import unittest
import unittest.mock

from gpu_check_machine import SOURCES, Machine, MachineTest
from gpu_check import cli, clock, process, requirements, smoke, suites

# Each measurement: its stage, its name in the ledger, a text that only its call contains, and the
# turn of the call if several calls contain the text.
MEASUREMENTS = [
    *(("smoke", f"losses_{norm}_{precision}", f"run_{norm}_{precision}", None)
      for norm, precision in smoke.CASES),
    ("smoke", "rates", "dtn-bench norm", None),
    ("kernels", "summary", "dtn-bench kernels", 1),
    ("kernels", "warpgroup_attention", "dtn-bench kernels", 2),
    ("kernels", "twelve_warps_dtn_bwd", "dtn-bench kernels", 3),
    ("kernels", "twelve_warps_dtn", "dtn-bench train --config vit_s_star_dtn", 3),
    *(("kernels", f"{kind}_{norm}", f"dtn-bench train --config vit_s_star_{norm}", turn)
      for norm in ("dtn", "ln") for turn, kind in ((1, "trace"), (2, "warpgroup"))),
    *(("products", f"products_{norm}", f"dtn-bench products --config vit_s_star_{norm}", None)
      for norm in ("dtn", "ln")),
    *(("products", f"train_{norm}_{kind}", f"dtn-bench train --config vit_s_star_{norm}", turn)
      for norm in ("dtn", "ln") for turn, kind in ((1, "first"), (2, "measured"))),
    *(("train", f"train_{norm}.{turn}", f"dtn-bench train --config vit_s_star_{norm}", turn)
      for norm in ("ln", "dtn") for turn in (1, 2)),
    *(("train", f"norm_{norm}", f"dtn-bench norm --type {norm}", None) for norm in ("ln", "dtn")),
    *(("train", f"eval_{norm}", f"dtn-bench eval --config vit_s_star_{norm}", None)
      for norm in ("ln", "dtn")),
    ("train", "gemm", "dtn-bench gemm", None),
    ("train", "norm_line", "dtn-bench norm --grid", None),
    *(("train", f"train_listops_{kind}", f"dtn-bench train --config listops_{kind}", None)
      for kind in ("dense", "bigbird", "reformer")),
    *(("train", f"train_{model}", f"dtn-bench train --config {model}_dtn", None)
      for model in ("swin_t", "pvt_tiny")),
    *(("peer", f"{norm} ours {turn}", f"dtn-bench train --config vit_s_star_{norm}", turn)
      for norm in ("ln", "dtn") for turn in (1, 2)),
    *(("peer", f"{norm} {name}", f"--norm {norm} --variant {name}", None) for norm in ("ln", "dtn")
      for name in ("released_compiled", "released_eager", "module_fast")),
    *(("ncu", kernel, f"regex:^{kernel}$", None) for kernel in cli.Ncu.kernels),
    ("ranks", "one rank", "mpirun --oversubscribe -n 1", None),
]
MODES = ("exit", "crash", "hang", "garbage")
DEEP = "DTN_TEST_DEEP" in os.environ


def modes_of(i, stage_name):
    """Returns the ways in which measurement i fails: one of them, or all in the deep run."""
    # Only the exit status of mpirun counts, so it cannot fail by garbage in its output.
    modes = MODES[:-1] if stage_name == "ranks" else MODES
    return modes if DEEP else (modes[i % len(modes)],)


def one_fails(scenario):
    """Runs a stage in which one measurement fails. Returns the problem of the outcome, or None."""
    (stage_name, name, plant, turn), mode, everything = scenario
    machine = Machine()
    try:
        status = machine.check("--stage", stage_name, plant=plant, mode=mode, turn=turn)
        found, failed = machine.results(stage_name)
    except Exception as error:  # reported with the scenario
        return f"{scenario[:2]}: {type(error).__name__}: {error}"
    finally:
        machine.close()
    missing = {name}
    if name == "summary":  # the ledger has the kernel before the failure
        missing |= {"b 2x3", "dtn_bwd 2x3"}
    elif name == "warpgroup_attention":
        missing |= {"warpgroup b 2x3", "warpgroup dtn_bwd 2x3"}
    elif name == "twelve_warps_dtn_bwd":
        missing |= {"12 warps b 2x3", "12 warps dtn_bwd 2x3"}
    elif " ours " in name:  # the remaining one of two is the first
        missing = {name[:-1] + "2"}
    if status == 1 and set(failed) == {name} and found == everything - missing:
        return None
    return (f"{name}, {mode}: status {status}, failed {failed}, missing {everything - found}\n"
            f"{machine.said}")


class GpuCheckTest(MachineTest):
    def test_measures_and_judges_everything(self):
        self.check(expect=0)
        said = self.machine.said
        self.assertRegex(said, r"over the fastest PyTorch +2\.000 \(\w+\) +>= 1\.00 +pass")
        self.assertRegex(said, r"over the fastest of the released module +2\.000 .* >= 2\.00 +pass")
        self.assertRegex(said, r"over the fastest PyTorch of all +2\.000 .* no bound")
        self.assertRegex(said, r"tests on the device +8 passed +all, none skipped +pass")
        self.assertRegex(said, r"memcheck of gpu_kernels +0 errors in 4 tests +0, all run +pass")
        self.assertRegex(said, r"DTN backward alone: 8 warps, 12 warps +4\.5 us, 4\.0 us +no bound +"
                               r"no bound, faster: 12 warps")
        self.assertRegex(said, r"DTN, bf16, against the CPU +0\.0e\+00 +<= 4e-03 +pass")
        self.assertNotIn("MISS", said)
        for name, _, plant, _ in MEASUREMENTS:
            self.assertTrue(any(plant in call for call in self.machine.calls), plant)
        self.assertEqual(list(self.machine.ledger()["sources"]), list(SOURCES))

    def test_each_failure_affects_only_its_measurement(self):
        self.check(expect=0)
        everything = {name: self.machine.results(name)[0] for name in cli.STAGES}
        named = {(m[0], m[1]) for m in MEASUREMENTS}
        for name in ("smoke", "train", "peer", "ncu"):
            self.assertEqual({n for s, n in named if s == name}, everything[name] - {"machine"})
        scenarios = [(m, mode, everything[m[0]])
                     for i, m in enumerate(MEASUREMENTS) for mode in modes_of(i, m[0])]
        with concurrent.futures.ProcessPoolExecutor(8) as pool:
            wrong = [problem for problem in pool.map(one_fails, scenarios, chunksize=1) if problem]
        self.assertFalse(wrong, "\n".join(wrong[:3]))

    def test_all_measurements_may_fail(self):
        for mode in ("exit", "crash"):
            self.check(plant="dtn-bench", mode=mode, expect=1)
            self.assertEqual(self.machine.results("train")[0], set())
            self.assertEqual(len(self.machine.results("train")[1]), 15)
            self.assertRegex(self.machine.results("train")[1]["gemm"],
                             "exit status 7: planted" if mode == "exit" else "SIGSEGV")
            self.assertEqual(len(self.machine.results("smoke")[0]), 5)
            self.assertEqual(len(self.machine.results("tests")[0]), 4)

    def test_missing_program_does_not_affect_others(self):
        (self.machine.root / "build/bin/dtn-bench").unlink()
        self.check(expect=1)
        self.assertEqual(len(self.machine.results("smoke")[0]), 5)
        self.assertIn("cannot be started: No such file", self.machine.results("train")[1]["gemm"])
        (self.machine.root / "build/tests/gpu_train").unlink()
        self.check("--again", "--stage", "tests", "sanitizer", expect=1)
        self.assertIn("gpu_train lists no tests", self.machine.said)
        self.assertEqual(len(self.machine.results("sanitizer")[0]), 7)

    def test_reports_failed_kernel_beside_other_results(self):
        self.check("--stage", "kernels", KERNEL_FAILS="1", expect=1)
        found, failed = self.machine.results("kernels")
        kernels = {prefix + name for prefix in ("", "warpgroup ", "12 warps ")
                   for name in ("a 2x3", "b 2x3", "dtn_bwd 2x3")}
        self.assertEqual(found, kernels | {"summary", "trace_dtn", "trace_ln", "warpgroup_attention",
                                           "warpgroup_dtn", "warpgroup_ln", "twelve_warps_dtn_bwd",
                                           "twelve_warps_dtn"})
        self.assertEqual(failed, {"c": "planted", "warpgroup c": "planted", "12 warps c": "planted"})
        self.assertIn("MISS: 3 failed: c, warpgroup c, 12 warps c", self.machine.said)

    def test_reruns_failed_tests_with_synchronous_launches(self):
        for mode, message in (("exit", ""), ("crash", "ended by SIGSEGV in this test"),
                              ("hang", "still running")):
            self.check("--again", "--stage", "tests", plant="gtest_filter=Alpha", mode=mode,
                       expect=1)
            suite = self.machine.section("tests")["results"]["gpu_kernels Alpha"]
            self.assertEqual(list(suite["failed"]),
                             ["Alpha.two"] + ["Alpha.three"] * (mode == "hang"))
            self.assertIn(message, suite["failed"]["Alpha.two"])
            self.assertEqual(suite["passed"], 1 if mode == "hang" else 2)
            again = suite["again"]["Alpha.two"]
            self.assertEqual(again["outcome"], "failed")
            self.assertIn("in bad_kernel", again["message"])
            self.assertRegex(self.machine.said, r"Alpha.two, alone .* failed .*in bad_kernel")
            self.assertNotIn("gpu_ledger: no", self.machine.said)
        self.assertRegex(self.machine.said, "tests on the device .* MISS: 4 failed")

    def test_skipped_test_does_not_count_as_passed(self):
        self.check("--stage", "tests", SKIPS="Alpha.two", expect=1)
        self.assertRegex(self.machine.said, "tests on the device +6 passed .* MISS: 2 skipped")

    def test_sanitizer_must_detect_planted_faults(self):
        self.check("--stage", "sanitizer", plant="planted_faults racecheck", mode="exit", expect=3)
        self.assertIn("racecheck does not find a planted fault", self.machine.said)

    def test_failed_sanitizer_suite_does_not_affect_others(self):
        for mode, problem in (("exit", "printed no summary"), ("crash", "SIGSEGV"),
                              ("garbage", "printed no summary")):
            machine = Machine()
            self.addCleanup(machine.close)
            plant = ("compute-sanitizer --tool racecheck --error-exitcode 9 --kernel-regex kns=dtn "
                     f"{machine.root}/build/tests/gpu_kernels --gtest_filter=Alpha")
            self.assertEqual(machine.check("--stage", "sanitizer", plant=plant, mode=mode), 1)
            jobs = machine.section("sanitizer")["results"]
            self.assertEqual(len(jobs), 7)
            self.assertEqual([name for name, job in jobs.items() if job.get("problem")],
                             ["racecheck gpu_kernels Alpha"])
            self.assertIn(problem, jobs["racecheck gpu_kernels Alpha"]["problem"])

    def test_skips_unreadable_counters(self):
        (self.machine.root / "tools/ncu").unlink()
        (self.machine.root / "tools/ncu").write_text("#!/bin/sh\necho ERR_NVGPUCTRPERM; exit 1\n")
        (self.machine.root / "tools/ncu").chmod(0o755)
        self.check("--stage", "ncu", expect=0)
        self.assertIn("ncu is left out: ncu cannot read the counters", self.machine.said)
        (self.machine.root / "build/lib/dtn/dtn_mpi.so").unlink()
        self.check("--stage", "ranks", expect=0)
        self.assertIn("left out: there is no", self.machine.said)

    def test_exception_in_stage_does_not_stop_others(self):
        class Broken(cli.Train):
            def rounds(self):
                raise ZeroDivisionError("planted")
        self.addCleanup(cli.STAGES.update, dict(cli.STAGES))
        cli.STAGES["train"] = Broken
        self.check("--stage", "train", "tests", expect=1)
        self.assertIn("train FAILED: ZeroDivisionError: planted", self.machine.said)
        self.assertIn("raise ZeroDivisionError",
                      (self.machine.root / "build/gpu-check/logs/train/traceback.txt").read_text())
        self.assertEqual(len(self.machine.results("tests")[0]), 4)

    def test_postpones_least_valuable_measurements(self):
        with unittest.mock.patch.object(clock.Clock, "gone", return_value=0.0):
            self.check("--until", "35", expect=1)  # on a slow machine, too
        self.assertRegex(self.machine.said, "peer: not run: no time: ln released_compiled, ")
        found = {name: self.machine.results(name) for name in cli.STAGES}
        self.assertEqual({n for n in found["peer"][0] if "ours" not in n}, set())
        self.assertEqual(found["peer"][1], {})
        self.assertEqual(len(found["train"][0]), 15)
        self.check(expect=0)
        measured = [call for call in self.machine.calls
                    if "nvidia-smi" not in call and "list" not in call and "-c" not in call.split()]
        self.assertEqual(len(measured), 6, measured)  # the variants, and nothing a second time
        self.assertTrue(all("--variant" in call for call in measured), measured)
        self.check("--again", "--stage", "train", expect=0)
        self.assertEqual(len([c for c in self.machine.calls if c.startswith("dtn-bench")]), 15)

    def test_suite_cut_by_time_limit_has_not_failed(self):
        self.check("--stage", "tests", "--until", "200", plant="gpu_kernels --gtest_filter=Alpha",
                   mode="hang", expect=1)
        found, failed = self.machine.results("tests")
        self.assertEqual((len(found), failed), (3, {}))
        self.assertIn("tests: not run: no time: gpu_kernels Alpha", self.machine.said)
        self.assertIn("MISS: 1 suites not run", self.machine.said)
        self.check("--stage", "tests", expect=0)

    def test_repeats_earlier_failures_last(self):
        self.check("--stage", "train", plant="eval --config vit_s_star_ln", expect=1)
        self.check("--stage", "train", "tests", expect=0)
        bench = [i for i, call in enumerate(self.machine.calls) if call.startswith("dtn-bench")]
        last_test = max(i for i, c in enumerate(self.machine.calls) if c.startswith("gpu_"))
        self.assertEqual(len(bench), 1)
        self.assertGreater(bench[0], last_test)

    def test_copies_ledger_and_logs(self):
        out = self.machine.root / "out"
        self.check("--stage", "smoke", "--out", str(out), expect=0)
        self.assertEqual((out / "gpu_ledger.json").read_text(),
                         (self.machine.root / "tests/gpu_ledger.json").read_text())
        self.assertTrue((out / "logs.tar.gz").stat().st_size)

    def test_reports_why_it_cannot_run(self):
        self.check("--stage", "peer", plant="import torch", expect=3)
        self.assertIn("has no PyTorch that sees the GPU", self.machine.said)
        self.check(plant="nvidia-smi", expect=3)
        self.assertIn("nvidia-smi finds no GPU;", self.machine.said)
        (self.machine.root / "build/gpu-check/built.json").unlink()
        self.check(expect=3)
        self.assertIn("there is no build in", self.machine.said)
        (self.machine.root / "CMakeLists.txt").touch()
        (self.machine.root / "build-gpu").symlink_to("build")
        (self.machine.root / "build/gpu-check/built.json").write_text('{"tree": "other"}')
        self.check("--stage", "smoke", expect=3)
        self.assertIn("was built from other sources", self.machine.said)
        (self.machine.root / "tests/gpu_ledger.json").write_text("{")
        with self.assertRaises(SystemExit) as usage:
            self.check("--until", "0", expect=2)
        self.assertEqual(usage.exception.code, 2)

    def test_different_losses_are_a_miss(self):
        file = self.machine.root / "tests/gpu_smoke_losses.json"
        file.write_text(file.read_text().replace("6.5", "6.5002"))
        self.check("--stage", "smoke", expect=1)
        self.assertRegex(self.machine.said, r"LN, fp32, .* 3\.1e-05 +<= 1e-05 +MISS")
        self.assertRegex(self.machine.said, r"LN, bf16, .* 3\.1e-05 +<= 4e-03 +pass")


def runs(process_folder):
    try:
        return (process_folder / "stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class HelpersTest(unittest.TestCase):
    def test_timeout_ends_command_and_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "log"
            outcome = process.run(["sh", "-c", "sleep 600 & echo $!; wait"], 2.0, log)
            self.assertTrue(outcome.timed_out)
            self.assertLess(outcome.seconds, 60)
            child = pathlib.Path("/proc") / outcome.text().strip()
            self.assertTrue(child.name.isdigit())
            for _ in range(1000):
                if not runs(child):
                    break
                time.sleep(0.02)
            self.assertFalse(runs(child))

    def test_reads_progress_from_test_output(self):
        tests = ["A.a", "A.b", "A.c"]
        begun = "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n[ RUN      ] A.b\nsaid\n"
        self.assertEqual(suites.read(begun, tests, "ended by SIGABRT", False),
                         ({"A.a"}, {"A.b": "ended by SIGABRT in this test: said"}, {}, ["A.c"]))
        self.assertEqual(suites.read("no library", tests, "exit status 127", False)[1:],
                         ({"A.a": "exit status 127 before the first test: no library"}, {},
                          ["A.b", "A.c"]))
        done = "[ RUN      ] A.a\n[       OK ] A.a (1 ms)\n"
        self.assertEqual(suites.read(done, ["A.a"], "ended by SIGSEGV", False)[1],
                         {"A.a": "ended by SIGSEGV after the last test"})

    def test_names_faster_backward_pass_of_dtn(self):
        def row(**us):
            run = {"speeds": {"results": {f"{name} 2x3".replace("twelve", "12 warps dtn_bwd"): {"us": t}
                                          for name, t in us.items()}}}
            return next(requirements.dtn_backward_rows(run))[2:]
        self.assertEqual(row(dtn_bwd=100.0, twelve=101.0),
                         ("100.0 us, 101.0 us", "no bound", "no bound, faster: 8 warps"))
        self.assertEqual(row(dtn_bwd=100.0), ("100.0 us, -", "no bound", "not measured"))
        self.assertEqual(row(), ("-, -", "no bound", "not measured"))

    def test_reports_rows_of_old_ledgers(self):
        run = {"tests": {"passed": 3, "failed": 0, "skipped": 0, "not_passed": []}, "kernels": [
            {"kernel": "k", "dtype": "float32", "cases": 1, "failed": 0, "max_error": 1, "bound": 2,
             "of_bound": 0.5, "shapes": "7"}],
            "bench": {"quick": True, "results": {"train_ln": [{"mfu": 0.1}, {"mfu": 0.3}]}},
            "peer": {"quick": False, "results": {"peer_ln": [{"ratios": {"compiled": 1.5}}]}},
            "sanitizer": {"tools": [{
                "tool": "memcheck", "program": "gpu_kernels", "suites": 2, "tests": 9, "errors": 0,
                "reduced": True, "not_run": [], "failed": []}]}}
        rows = {row[1]: row[2:] for row in requirements.rows_of(run)}
        self.assertEqual(rows["ViT-S* LN training, mfu"], ("0.200", ">= 0.40", "quick"))
        self.assertEqual(rows["ViT-S* LN training, over compiled PyTorch"],
                         ("1.500", ">= 1.00", "pass"))
        self.assertEqual(rows["memcheck of gpu_kernels"],
                         ("0 errors in 9 tests", "0, all run", "reduced"))
        self.assertEqual(rows["tests on the device"], ("3 passed", "all, none skipped", "pass"))


if __name__ == "__main__":
    unittest.main()
