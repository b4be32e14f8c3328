#!/usr/bin/env python3
"""Tests tools/gpu_check on stand-ins for several cards: architectures of a build, tests that a card
cannot run, programs that do not run on a card."""
import pathlib
import re
import subprocess
import tempfile
import unittest

from gpu_check_machine import HERE, SOURCES, Machine, MachineTest
from gpu_check import architectures, errors, sources, suites

# Compute capability of a card, its architecture in CMake, and nvcc's option for it.
HOPPER = ("9.0", "90a-real", "-gencode=arch=compute_90a,code=[sm_90a]")
AMPERE = ("8.0", "80-real", "-gencode=arch=compute_80,code=[sm_80]")
ADA = ("8.9", "89-real", "-gencode=arch=compute_89,code=[sm_89]")


class GpusTest(MachineTest):
    def use(self, capability, architectures="90a-real"):
        self.machine = Machine(capability, architectures)
        self.addCleanup(self.machine.close)

    def calls_of(self, program):
        return [call for call in self.machine.calls if call.startswith(program + " ")]

    def test_builds_checkout_for_the_gpu(self):
        for capability, architecture, code in (HOPPER, AMPERE, ADA):
            self.use(capability)
            self.machine.become_checkout()
            self.check("--stage", "build", "tests", expect=0)
            configure = self.calls_of("cmake")[0].split()
            self.assertIn(f"-DCMAKE_CUDA_ARCHITECTURES={architecture}", configure)
            planted = [call for call in self.calls_of("nvcc") if "planted_faults" in call]
            self.assertEqual(re.findall(r"-gencode\S+", planted[0]), [code])
            self.assertEqual(self.machine.built()["architectures"], architecture)

    def test_build_without_gpu_records_architectures(self):
        self.machine.become_checkout()
        self.check("--stage", "build", plant="nvidia-smi", expect=0)
        self.assertNotIn("-DCMAKE_CUDA_ARCHITECTURES", self.calls_of("cmake")[0])
        self.assertEqual(self.machine.built()["architectures"], "80-real;90a-real;90-virtual")
        # A build folder keeps the architectures that it was configured for, and these count.
        self.check("--stage", "tests", expect=0)
        self.machine.environment["CAPABILITY"] = "7.5"
        self.check("--stage", "tests", expect=3)
        self.assertIn("built for 80-real;90a-real;90-virtual, which do not run on this stand-in "
                      "of 7.5 of compute capability 7.5; run --stage build", self.machine.said)

    def test_skips_tests_of_absent_hardware_and_does_not_record_their_sources(self):
        for capability, architecture, _ in (AMPERE, ADA):
            self.use(capability, architecture)
            self.check("--stage", "tests", expect=0)
            self.assertRegex(self.machine.said, r"tests on the device +6 passed +all, none skipped "
                             r"+pass, 2 left out \(no compute capability 9\.0\)")
            self.assertIn("gpu_train Beta/0: 1 left out: no compute capability 9.0",
                          self.machine.said)
            self.assertEqual(list(self.machine.ledger()["sources"]), [SOURCES[0]])
            self.assertEqual(self.machine.section("tests")["results"]["gpu_train Beta/0"]
                             ["left_out"], {"Beta/0.four": "compute capability 9.0"})
        self.use(*HOPPER[:2])
        self.check("--stage", "tests", expect=0)
        self.assertNotIn("left out", self.machine.said)
        self.assertEqual(list(self.machine.ledger()["sources"]), list(SOURCES))

    def test_source_keeps_entry_of_another_gpu(self):
        self.use("9.0", "80-real;90a-real")
        self.check("--stage", "tests", expect=0)
        hopper = self.machine.ledger()["runs"][0]["id"]
        self.machine.environment["CAPABILITY"] = "8.0"
        self.check("--stage", "tests", expect=0)
        self.assertEqual(len(self.machine.ledger()["runs"]), 2)
        entries = self.machine.ledger()["sources"]
        self.assertNotEqual(entries[SOURCES[0]]["run"], hopper)
        self.assertEqual(entries[SOURCES[1]]["run"], hopper)
        # A failed test removes the entries of the sources that it may have tested.
        self.check("--again", "--stage", "tests", plant="gtest_filter=Alpha", expect=1)
        self.assertEqual(list(self.machine.ledger()["sources"]), [SOURCES[1]])

    def test_skip_for_another_reason_is_a_miss(self):
        self.use(*AMPERE[:2])
        self.check("--stage", "tests", SKIPS="Alpha.two", expect=1)
        self.assertRegex(self.machine.said, r"tests on the device +4 passed .* MISS: 2 skipped, "
                         r"2 left out \(no compute capability 9\.0\)")
        self.assertEqual(self.machine.ledger()["sources"], {})

    def test_sanitizer_skips_the_same_tests(self):
        self.use(*AMPERE[:2])
        self.check("--stage", "sanitizer", expect=0)
        self.assertRegex(self.machine.said, r"racecheck of gpu_kernels +0 errors in 3 tests +0, "
                         r"all run +pass, 1 left out \(no compute capability 9\.0\)")
        self.check("--again", "--stage", "sanitizer", SKIPS="Alpha.two", expect=1)
        self.assertRegex(self.machine.said,
                         "racecheck of gpu_kernels .*MISS: Alpha: 1 tests skipped")

    def test_rejects_programs_built_for_other_gpus(self):
        self.use("8.9", "90a-real")
        self.check(expect=3)
        self.assertIn("cannot run: the programs are built for 90a-real, which do not run on this "
                      "stand-in of 8.9 of compute capability 8.9; pack with --arch '89-real'",
                      self.machine.said)
        self.assertEqual({call.split()[0] for call in self.machine.calls}, {"nvidia-smi"})
        self.use("8.9", "80-real")
        self.check("--stage", "tests", expect=0)
        self.use("9.0", "80-real")
        self.check("--stage", "tests", expect=3)
        self.assertIn("pack with --arch '90a-real'", self.machine.said)


class ArchitecturesTest(unittest.TestCase):
    def test_code_fits_gpus_of_its_architecture(self):
        cards = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
        for name, running in {
                "80-real": "8.0 8.6 8.9", "86-real": "8.6 8.9", "90-real": "9.0", "90a-real": "9.0",
                "90a-virtual": "9.0", "90a": "9.0", "90-virtual": "9.0 10.0 10.3 12.0",
                "86": "8.6 8.9 9.0 10.0 10.3 12.0", "100-real": "10.0 10.3", "103-real": "10.3",
                "100f-real": "10.0 10.3", "100a": "10.0", "120": "12.0",
                "all": " ".join(cards)}.items():
            self.assertEqual([c for c in cards if architectures.fits(name, c)], running.split(),
                             name)
        with self.assertRaises(errors.CannotRun):
            architectures.fits("sm_80", "8.0")

    def test_one_matching_architecture_is_enough(self):
        architectures.require("80-real;90a-real", "9.0", "H200", "")
        with self.assertRaisesRegex(errors.CannotRun, "80-real;90a-real, .* this B200 .*; pack"):
            architectures.require("80-real;90a-real", "10.0", "B200", "pack")

    def test_passes_each_architecture_to_nvcc_once(self):
        self.assertEqual(architectures.flags("80-real;90a-real;90-virtual;90a-real;86"),
                         ["-gencode=arch=compute_80,code=[sm_80]",
                          "-gencode=arch=compute_90a,code=[sm_90a]",
                          "-gencode=arch=compute_90,code=[compute_90]",
                          "-gencode=arch=compute_86,code=[compute_86,sm_86]"])
        self.assertEqual(architectures.flags("all-major"), ["-arch=all-major"])


class HardwareTest(unittest.TestCase):
    """Messages of tests/cuda/hardware.h, and their parser in gpu_check."""

    def test_parses_message_of_absent_hardware(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "t.cpp", pathlib.Path(folder) / "t"
            source.write_text('#include "cuda/hardware.h"\n'
                              'TEST(S, a) { DTN_NEEDS_HARDWARE(false, "two GPUs", "x/*.cu y"); }\n'
                              'TEST(S, b) { GTEST_SKIP() << "why"; }\n'
                              'TEST(S, c) { DTN_NEEDS_HARDWARE(true, "a GPU", ""); }\n'
                              'TEST(S, d) { DTN_NEEDS_HARDWARE(false, "a GPU", ""); }\n')
            subprocess.run(["c++", "-std=c++17", "-I", HERE, "-o", program, source, "-lgtest",
                            "-lgtest_main", "-pthread"], check=True)
            said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
            brief = subprocess.run([program, "--gtest_brief=1"], check=True, capture_output=True,
                                   text=True).stdout
        passed, failed, skipped, _ = suites.read(said, ["S.a", "S.b", "S.c", "S.d"], "", True)
        self.assertEqual((passed, failed, list(skipped)), ({"S.c"}, {}, ["S.a", "S.b", "S.d"]))
        self.assertEqual(suites.absent_hardware(skipped),
                         ({"S.a": "two GPUs", "S.d": "a GPU"}, ["x/*.cu", "y"]))
        # Programs under the sanitizer have brief output, which also contains these lines.
        matches = filter(None, map(suites.ABSENT_HARDWARE.fullmatch, brief.splitlines()))
        self.assertEqual([match.group(1) for match in matches], ["two GPUs", "a GPU"])

    def test_sources_named_by_tests_exist(self):
        named = re.compile(r'DTN_NEEDS_HARDWARE\([^;]*?"[^"]+",[\s\\]*"([^"]*)"\)')
        known, patterns = sources.snapshot(HERE.parent)["sources"], []
        for file in (HERE / "cuda").rglob("*_test.cpp"):
            text = file.read_text()
            found = named.findall(text)
            self.assertEqual(len(found), text.count("DTN_NEEDS_HARDWARE"), file)
            patterns += " ".join(found).split()
        self.assertTrue(patterns)
        for pattern in patterns:
            run = {"tests": {"results": {"suite": {"untested": [pattern]}}}}
            self.assertTrue(sources.untested_sources(run, known), pattern)


if __name__ == "__main__":
    unittest.main()
