#!/usr/bin/env python3
"""The ledger of GPU runs: what enters it, what does not, and when it warns."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = "src/kernels/add.cu"


def line(kernel, case, dtype, error, bound):
    return (f'{{"kernel": "{kernel}", "case": "{case}", "dtype": "{dtype}", "max_error": {error}, '
            f'"bound": {bound}}}\n')


def junit(passed, failed=0, skipped=0):
    case = '<testcase name="t" time="0.5" status="{}">{}</testcase>'
    return ("<testsuite>" + case.format("run", "") * passed +
            case.format("fail", '<failure message=""/>') * failed +
            case.format("notrun", '<skipped message=""/>') * skipped + "</testsuite>")


class LedgerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.ledger = self.root / "ledger.json"
        self.write(KERNEL, "one")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run_ledger(self, command, *arguments, expect=0, ledger=None):
        done = subprocess.run([sys.executable, HERE / "gpu_ledger.py", command, "--root", self.root,
                               "--ledger", ledger or self.ledger, *arguments],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def append_tests(self, lines, *counts, ledger=None):
        self.run_ledger("append", "--gpu", "H200", "--lines", self.write("lines", lines), "--junit",
                        self.write("junit.xml", junit(*counts)), ledger=ledger)

    def test_a_source_is_entered_when_its_tests_pass_and_warned_of_when_it_changes(self):
        self.assertIn(f"{KERNEL} was never tested", self.run_ledger("check"))
        self.append_tests(line("add", "7", "float32", 1e-8, 1e-7), 1)
        self.assertEqual(self.run_ledger("check"), "")
        self.write(KERNEL, "two")
        self.assertIn(f"{KERNEL} changed after its tests on H200", self.run_ledger("check"))

    def test_what_did_not_pass_is_not_entered_and_takes_an_entry_away(self):
        good, bad = line("add", "7", "float32", 1e-8, 1e-7), line("add", "8", "float32", 2e-7, 1e-7)
        for lines, counts in ((good, (1, 1)), (good, (1, 0, 1)), (good, (0,)), ("", (1,)), (bad, (1,)),
                              (line("add", "9", "float32", "nan", 0), (1,))):
            self.append_tests(good, 1)
            self.append_tests(lines, *counts)
            self.assertIn("never tested", self.run_ledger("check"), (lines, counts))
        self.assertEqual(len(json.loads(self.ledger.read_text())["runs"]), 1)

    def test_a_kernel_and_a_type_make_one_line_with_the_largest_error(self):
        self.append_tests(line("add", "7", "bfloat16", 1e-3, 4e-3) * 3 +
                          line("add", "9", "bfloat16", 2e-3, 8e-3) +
                          line("add", "7", "float32", 0, 0) + line("mul", "7", "float32", "-inf", 1), 1)
        kernels = json.loads(self.ledger.read_text())["runs"][0]["kernels"]
        self.assertEqual([(k["kernel"], k["dtype"], k["cases"], k["max_error"], k["bound"],
                           k["of_bound"], k["failed"], k["shapes"]) for k in kernels],
                         [("add", "bfloat16", 2, 2e-3, 8e-3, 0.25, 0, "7; 9"),
                          ("add", "float32", 1, 0, 0, 0, 0, "7"),
                          ("mul", "float32", 1, "inf", 1, "inf", 1, "7")])

    def test_results_of_other_ledgers_are_merged_once(self):
        self.append_tests(line("add", "7", "float32", 1e-8, 1e-7), 1)
        other = self.write("other.json", self.ledger.read_text())
        self.run_ledger("append", "--gpu", "H200", "--bench",
                        self.write("train_ln.1.json", '{"mfu": 0.5, "images_per_second": 100}'),
                        ledger=other)
        for _ in range(2):
            self.run_ledger("merge", other)
        self.assertEqual(self.ledger.read_text(), other.read_text())
        report = self.run_ledger("report", "--stages", "bench", expect=1)
        self.assertRegex(report, r"LN training, mfu +0\.500 +>= 0\.40 +pass")
        self.assertRegex(report, r"DTN training, mfu +- +>= 0\.40 +not measured")
        self.run_ledger("report", "--stages", "tests")

    def test_quick_figures_are_not_judged_and_do_not_replace_real_ones(self):
        def bench(mfu, *options):
            file = self.write("train_ln.json", json.dumps({"mfu": mfu}))
            self.run_ledger("append", "--gpu", "H200", "--bench", file, *options)
            return self.run_ledger("report")
        self.assertRegex(bench(0.1, "--quick"), r"LN training, mfu +0\.100 +>= 0\.40 +quick")
        self.assertRegex(bench(0.3), r"LN training, mfu +0\.300 +>= 0\.40 +MISS")
        self.assertRegex(bench(0.9, "--quick"), r"LN training, mfu +0\.300 +>= 0\.40 +MISS")

    def test_sanitizer_jobs_count_only_when_they_came_to_their_end(self):
        def job(suite, summary, result="COMPLETED", done=True):
            base = self.root / f"memcheck-{suite}"
            base.with_name(base.name + ".log").write_text(f"========= ERROR SUMMARY: {summary}\n")
            base.with_name(base.name + ".json").write_text(json.dumps(
                {"failures": 0, "testsuites": [{"testsuite": [{"result": result}]}]}))
            if done:
                base.with_name(base.name + ".done").write_text("0\n")
            return f"memcheck gpu_kernels {suite} {suite}.* {base}\n"
        cases = ((job("A", "0 errors"), "1 tests .* pass"), (job("B", "2 errors"), "MISS: B: 2 errors"),
                 (job("C", "0 errors", "SKIPPED"), "MISS: C: 1 tests skipped"),
                 (job("D", "0 errors", done=False), "not run"))
        for jobs, verdict in cases:
            self.run_ledger("append", "--gpu", "H200", "--sanitizer", self.write("jobs", jobs))
            self.assertRegex(self.run_ledger("report"), f"memcheck of gpu_kernels .*{verdict}")

    def test_a_malformed_ledger_is_an_error(self):
        for text in ("{", "[]", '{"runs": []}', '{"sources": {}, "runs": [{"id": 1}]}',
                     '{"sources": {"a": {"hash": "x", "run": "nowhere"}}, "runs": []}'):
            self.ledger.write_text(text)
            self.assertIn("malformed", self.run_ledger("check", expect=1))

    def test_the_ledger_of_this_project_is_well_formed(self):
        self.run_ledger("check", ledger=HERE / "gpu_ledger.json")


if __name__ == "__main__":
    unittest.main()
