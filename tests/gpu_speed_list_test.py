#!/usr/bin/env python3
"""gpu_speed.py lists its variants without PyTorch, and refuses an unknown one in one line."""
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "peers/gpu_speed.py"


def gpu_speed(*arguments):
    # -S hides installed packages, so that an import of PyTorch fails.
    return subprocess.run([sys.executable, "-S", SCRIPT, *arguments], capture_output=True, text=True)


class GpuSpeedListTest(unittest.TestCase):
    def names(self, norm):
        done = gpu_speed("--norm", norm, "--list")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_names_are_unique(self):
        for norm in ("ln", "dtn"):
            names = self.names(norm)
            self.assertGreaterEqual(len(names), 8)
            self.assertEqual(len(set(names)), len(names))

    def test_both_dtn_implementations_come_first(self):
        first = [name.split("-")[0] for name in self.names("dtn")]
        self.assertEqual(set(first), {"module", "released"})
        self.assertEqual(set(first[:2]), {"module", "released"})

    def test_rejects_unknown_names(self):
        for norm, name in (("ln", "compiled-cudnn-bf16res"), ("ln", "no-such"),
                           ("ln", "cudnn-compiled-bf16res-lastrow"),
                           ("ln", self.names("dtn")[0]), ("dtn", self.names("ln")[0]),
                           ("dtn", "module-each-compiled-cudnn-bf16res-lastrow"),
                           ("ln", "maxautotune-graph-cudnn-bf16res-lastrow")):
            done = gpu_speed("--norm", norm, "--variant", name)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("is no variant", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
