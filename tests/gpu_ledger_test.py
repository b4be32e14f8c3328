#!/usr/bin/env python3
"""Tests the ledger of GPU runs: which results enter it, which do not, and when it warns."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from gpu_check import accuracy, ledger, requirements, sources  # noqa: E402

KERNEL = "src/kernels/add.cu"


def line(kernel, case, dtype, error, bound):
    return (f'{{"kernel": "{kernel}", "case": "{case}", "dtype": "{dtype}", "max_error": {error}, '
            f'"bound": {bound}}}\n')


GOOD = line("add", "7", "float32", 1e-8, 1e-7)


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

    def run_ledger(self, command, *arguments, expect=0):
        root = ("--root", self.root) if command == "check" else ()
        done = subprocess.run([sys.executable, HERE / "gpu_ledger.py", command, *root, "--ledger",
                               self.ledger, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def book(self, path=None, driver="1"):
        state = sources.snapshot(self.root)
        identity = {"tree": state["tree"], "gpu": "H200", "driver": driver, "cuda": "13.0"}
        return ledger.Ledger(path or self.ledger, identity, "abc")

    def tests(self, *suites, planned=None, path=None):
        """Enters the results of suites, as stage tests does."""
        with self.book(path).changed("tests") as (section, run, whole):
            section.update(planned=planned or len(suites),
                           results={f"gpu_kernels S{i}": suite for i, suite in enumerate(suites)})
            sources.enter(whole, run, sources.snapshot(self.root)["sources"])

    @staticmethod
    def suite(passed, lines=GOOD, **others):
        return {"passed": passed, "seconds": 1, "kernels": accuracy.read(lines), **others}

    def test_records_source_after_passed_tests_and_warns_after_changes(self):
        self.assertIn(f"{KERNEL} was never tested", self.run_ledger("check"))
        self.tests(self.suite(1))
        self.assertEqual(self.run_ledger("check"), "")
        self.write(KERNEL, "two")
        self.assertIn(f"{KERNEL} changed after its tests on H200", self.run_ledger("check"))

    def test_failed_tests_remove_the_entry_of_a_source(self):
        bad, nan = line("add", "8", "float32", 2e-7, 1e-7), line("add", "9", "float32", "nan", 0)
        for suite in (self.suite(1, failed={"S.a": "why"}), self.suite(1, skipped={"S.a": ""}),
                      self.suite(0), self.suite(1, ""), self.suite(1, bad), self.suite(1, nan)):
            self.tests(self.suite(1))
            self.assertEqual(self.run_ledger("check"), "")
            self.tests(suite)
            self.assertIn("never tested", self.run_ledger("check"), suite)
        self.assertEqual(len(json.loads(self.ledger.read_text())["runs"]), 1)

    def test_tests_that_did_not_run_keep_the_entry(self):
        self.tests(self.suite(1), planned=2)
        self.assertIn("never tested", self.run_ledger("check"))
        self.tests(self.suite(1), self.suite(1))
        self.tests(self.suite(1), planned=2)
        self.assertEqual(self.run_ledger("check"), "")
        self.assertIn("MISS: 1 suites not run", self.run_ledger("report"))

    def test_writes_measured_products_as_source_table(self):
        table = self.root / "table.inc"
        self.assertIn("no run has measured products",
                      self.run_ledger("products", "--output", table, expect=1))
        for driver, algorithm in (("1", "slow"), ("2", "quick")):
            with self.book(driver=driver).changed("products") as (section, _, _):
                section["results"] = {
                    "products_ln": {"table": [["H200", "13", "float32, 2 x 3", algorithm]]},
                    "train_ln_first": {"images_per_second": 1}}
        self.assertIn("1 products", self.run_ledger("products", "--output", table))
        self.assertEqual(table.read_text().splitlines()[-2:],
                         ['R"(H200\t13\tfloat32, 2 x 3\tquick', ')"'])
        (self.root / "main.cpp").write_text(
            f'#include <cstdio>\nint main() {{ std::puts(\n#include "{table}"\n); }}\n')
        subprocess.run(["c++", "-o", self.root / "main", self.root / "main.cpp"], check=True)
        said = subprocess.run([self.root / "main"], check=True, capture_output=True, text=True)
        self.assertEqual(said.stdout.splitlines()[-2], "H200\t13\tfloat32, 2 x 3\tquick")

    def test_summarizes_largest_error_per_kernel_and_type(self):
        expected = [("add", "bfloat16", 2, 2e-3, 8e-3, 0.25, 0, "7; 9"),
                    ("add", "float32", 1, 0, 0, 0, 0, "7"),
                    ("mul", "float32", 1, "inf", 1, "inf", 1, "7")]
        parts = (line("add", "7", "bfloat16", 1e-3, 4e-3) * 3,
                 line("add", "9", "bfloat16", 2e-3, 8e-3) + line("add", "7", "float32", 0, 0) +
                 line("mul", "7", "float32", "-inf", 1))
        for kernels in (accuracy.read("".join(parts)),
                        accuracy.together(map(accuracy.read, parts))):
            self.assertEqual([(k["kernel"], k["dtype"], k["cases"], k["max_error"], k["bound"],
                               k["of_bound"], k["failed"], k["shapes"]) for k in kernels], expected)

    def test_merges_results_of_other_ledgers(self):
        self.tests(self.suite(1))
        other = self.write("other.json", self.ledger.read_text())
        with self.book(other).changed("bench") as (section, _, _):
            section["results"]["train_ln.1"] = {"mfu": 0.5}
        for _ in range(2):
            self.run_ledger("merge", other)
        self.assertEqual(self.ledger.read_text(), other.read_text())
        # A call that began without the ledger adds another run of the same sources and machine.
        other.write_text('{"sources": {}, "runs": []}')
        with self.book(other).changed("bench") as (section, run, _):
            section["results"]["train_ln.2"] = {"mfu": 0.3}
            run["id"] = "another"
        with self.book(other, driver="2").changed("bench") as (section, _, _):
            section["results"]["train_ln.1"] = {"mfu": 0.1}
        self.run_ledger("merge", other)
        runs = json.loads(self.ledger.read_text())["runs"]
        self.assertEqual([sorted(run["bench"]["results"]) for run in runs],
                         [["train_ln.1", "train_ln.2"], ["train_ln.1"]])
        row = next(row for row in requirements.rows_of(runs[0]) if "LN training, mfu" in row[1])
        self.assertEqual(row[2:], ("0.400", ">= 0.40", "pass"))
        self.assertTrue(requirements.missed(runs[0], ["train"]))
        self.assertFalse(requirements.missed(runs[0], ["tests"]))

    def test_success_in_another_ledger_removes_failure(self):
        with self.book().changed("bench") as (section, _, _):
            section["failed"] = {"gemm": "why", "eval_ln": "why"}
        other = self.write("other.json", '{"sources": {}, "runs": []}')
        with self.book(other).changed("bench") as (section, _, _):
            section["results"]["gemm"] = {"gemm_gflops": 1}
        self.run_ledger("merge", other)
        section = json.loads(self.ledger.read_text())["runs"][0]["bench"]
        self.assertEqual((section["results"], section["failed"]),
                         ({"gemm": {"gemm_gflops": 1}}, {"eval_ln": "why"}))

    def test_failed_change_keeps_file(self):
        self.tests(self.suite(1))
        before = self.ledger.read_text()
        with self.assertRaises(ZeroDivisionError):
            with self.book().changed("bench") as (section, _, _):
                section["results"]["gemm"] = 1 / 0
        self.assertEqual(self.ledger.read_text(), before)

    def test_rejects_malformed_ledger(self):
        for text in ("{", "[]", '{"runs": []}', '{"sources": {}, "runs": [{"id": 1}]}',
                     '{"sources": {"a": {"hash": "x", "run": "nowhere"}}, "runs": []}'):
            self.ledger.write_text(text)
            self.assertIn("malformed", self.run_ledger("check", expect=1))

    def test_project_ledger_is_well_formed(self):
        self.ledger = HERE / "gpu_ledger.json"
        self.run_ledger("check")


if __name__ == "__main__":
    unittest.main()
