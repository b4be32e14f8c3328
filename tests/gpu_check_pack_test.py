#!/usr/bin/env python3
"""tools/gpu-check.sh pack: the glibc that packed programs need."""
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))

from gpu_check import build, errors, pack  # noqa: E402

READELF = """\
Version symbols section '.gnu.version' contains 3 entries:
  000:   0 (*local*)       2 (GLIBC_2.99)     3 (GLIBC_2.4)        1 (*global*)

Version needs section '.gnu.version_r' contains 3 entries:
 Addr: 0x0000000000001868  Offset: 0x00001868  Link: 7 (.dynstr)
  000000: Version: 1  File: libm.so.6  Cnt: 1
  0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 10
  0x0020: Version: 1  File: libstdc++.so.6  Cnt: 1
  0x0030:   Name: GLIBCXX_3.4.30  Flags: none  Version: 9
  0x0040: Version: 1  File: libc.so.6  Cnt: 3
  0x0050:   Name: GLIBC_2.9  Flags: none  Version: 13
  0x0060:   Name: GLIBC_2.34  Flags: none  Version: 3
  0x0070:   Name: GLIBC_2.4  Flags: WEAK  Version: 2
"""
# Uses each function that older_glibc.cpp defines.
PROGRAM = """\
#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>
int main(int argc, char**) {
  const double x = argc;
  std::random_device device;
  try {
    if (device() != device() || device() != device()) throw std::runtime_error("thrown");
  } catch (const std::exception& error) {
    std::printf("%s %g %g %g %g %g\\n", error.what(), std::hypot(3 * x, 4 * x),
                std::hypot(3e300 * x, -4e300 * x), std::hypot(3e-300 * x, 4e-300 * x),
                std::hypot(x * NAN, -INFINITY), std::hypot(x * NAN, 1.0));
  }
}
"""


class GlibcTest(unittest.TestCase):
    def test_finds_newest_glibc_version(self):
        self.assertEqual(pack.glibc_of(READELF), "2.34")
        self.assertEqual(pack.glibc_of(READELF.replace("GLIBC_2.9", "GLIBC_2.100")), "2.100")
        self.assertEqual(pack.glibc_of("No version information found in this file."), "0")
        for name in ("PRIVATE", "ABI_DT_RELR"):
            found = pack.glibc_of(READELF.replace("GLIBC_2.9", f"GLIBC_{name}"))
            self.assertEqual(found, name)
            self.assertGreater(pack.age(found), pack.age("2.100"))
        self.assertGreater(pack.age("2.34"), pack.age("2.4"))

    @unittest.skipUnless(platform.machine() == "x86_64", "packs are for x86-64")
    def test_packed_program_works_with_oldest_supported_glibc(self):
        with tempfile.TemporaryDirectory() as folder:
            source, program, packed = (pathlib.Path(folder) / name for name in ("t.cpp", "t", "p"))
            source.write_text(PROGRAM)
            made = build.older_glibc(pathlib.Path(folder) / "state")
            subprocess.run(["g++", "-O1", "-o", program, source, "-static-libstdc++",
                            "-static-libgcc", made], check=True)
            self.assertLessEqual(pack.age(pack.strip(program, packed)), pack.age(pack.NEWEST_GLIBC))
            said = subprocess.run([packed], check=True, capture_output=True, text=True).stdout
            self.assertEqual(said.replace("-nan", "nan"), "thrown 5 5e+300 5e-300 inf nan\n")
            names = subprocess.run(["nm", "-D", program], check=True, capture_output=True,
                                   text=True).stdout
            self.assertNotRegex(names, r"arc4random|hypot|_dl_find_object")  # not exported either
            with mock.patch.object(pack, "NEWEST_GLIBC", "2.2"), \
                    self.assertRaisesRegex(errors.Failed, r"t needs glibc 2\.\d+, but targets "
                                           r"may have only 2\.2;"):
                pack.strip(program, packed)


if __name__ == "__main__":
    unittest.main()
