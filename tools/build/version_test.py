"""Tests version.sh in trees with and without git, tags and commits."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path("tools/build/version.sh").resolve()


class VersionTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tree = pathlib.Path(directory.name) / "tree"
        (self.tree / "tools/build").mkdir(parents=True)
        shutil.copy(SCRIPT, self.tree / "tools/build/version.sh")
        (self.tree / "VERSION").write_text("0.2.0\n", encoding="utf-8")

    def run_in(self, directory, *command):
        return subprocess.run(command, cwd=directory, capture_output=True, text=True,
                              check=True).stdout.strip()

    def git(self, *arguments, directory=None):
        return self.run_in(directory or self.tree, "git", "-c", "user.name=Name", "-c",
                           "user.email=name@example.org", *arguments)

    def commit(self, directory=None):
        self.git("init", "-q", directory=directory)
        self.git("add", "-A", directory=directory)
        self.git("commit", "-q", "--allow-empty", "-m", "A change", directory=directory)

    def version(self, *arguments):
        return self.run_in("/", str(self.tree / "tools/build/version.sh"), *arguments)

    def sorts_before(self, first, second):
        return subprocess.run(["dpkg", "--compare-versions", first, "lt", second],
                              check=False).returncode == 0

    def test_outside_git_the_version_is_that_of_the_file(self):
        self.assertEqual(self.version(), "0.2.0")
        self.assertEqual(self.version("--debian"), "0.2.0")

    def test_the_abi_is_of_the_minor_version_before_version_1_and_then_of_the_major_one(self):
        for number, abi in (("0.2.0", "0.2"), ("0.10.3", "0.10"), ("1.4.0", "1"), ("12.0.1", "12")):
            (self.tree / "VERSION").write_text(f"{number}\n", encoding="utf-8")
            self.assertEqual(self.version("--abi"), abi)

    def test_another_repository_does_not_change_the_version(self):
        self.commit(self.tree.parent)
        self.assertEqual(self.version(), "0.2.0")

    def test_versions_increase_before_the_first_release(self):
        self.commit()
        self.assertRegex(self.version(), r"^0\.2\.0-dev-1-g[0-9a-f]{7,}$")
        first = self.version("--debian")
        self.assertRegex(first, r"^0\.2\.0~dev1\+g[0-9a-f]{7,}$")
        self.commit()
        self.assertTrue(self.sorts_before(first, self.version("--debian")))
        self.assertTrue(self.sorts_before(self.version("--debian"), "0.2.0"))

    def test_versions_increase_after_a_release(self):
        self.commit()
        self.git("tag", "v0.2.0")
        self.assertEqual(self.version(), "0.2.0")
        self.commit()
        self.assertRegex(self.version(), r"^0\.2\.0-1-g[0-9a-f]{7,}$")
        self.assertTrue(self.sorts_before("0.2.0", self.version("--debian")))
        self.assertTrue(self.sorts_before(self.version("--debian"), "0.2.1"))

    def test_a_changed_tree_is_dirty(self):
        self.commit()
        (self.tree / "VERSION").write_text("0.3.0\n", encoding="utf-8")
        self.assertTrue(self.version().endswith("-dirty"))
