"""Tests that the copied benchmark needs nothing of the machine that it runs on."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BENCH = os.path.abspath("tests/bench/bench")
PORTABLE = os.path.abspath("tests/bench/portable.sh")


class PortableTest(unittest.TestCase):

    def test_it_runs_with_its_own_libraries(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()
        subprocess.run([PORTABLE, BENCH, directory], check=True)
        listed = subprocess.run([directory / "lib/ld-linux-x86-64.so.2", "--library-path",
                                 directory / "lib", "--list", directory / "bench"],
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        paths = [line.split()[2] for line in listed.splitlines() if "=>" in line]
        self.assertGreater(len(paths), 10)
        # The loader itself is named by the program, and started by its path here.
        self.assertEqual([path for path in paths if not path.startswith(f"{directory}/")
                          and "ld-linux" not in path], [])
        run = subprocess.run([directory / "run", "--json", "--passes", "1", "--scale", "0.001"],
                             stdout=subprocess.PIPE, text=True, check=True, cwd="/", env={})
        figures = json.loads(run.stdout)["net_ring"]["figures"]
        self.assertIn("SEND 64 B, one port, 1 worker", figures)


if __name__ == "__main__":
    unittest.main()
