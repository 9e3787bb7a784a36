"""Tests what tools/dev installs and writes before it builds. Nothing is installed here."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path("tools/dev").resolve()
OTHER_USER = 65534
DAEMONS = {"krb5-kdc", "prometheus", "rpcbind"}


class DevTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.directory.chmod(0o755)
        self.tree = self.directory / "tree"
        (self.tree / "tools").mkdir(parents=True)
        shutil.copy(SCRIPT, self.tree / "tools/dev")
        self.programs = self.directory / "programs"
        self.programs.mkdir()
        # Another user must be able to enter these, whatever the umask.
        for path in (self.tree, self.tree / "tools", self.tree / "tools/dev", self.programs):
            path.chmod(0o755)
        self.program("apt-get", "exit 1")
        self.program("sudo", 'exec "$@"')

    def program(self, name, text):
        """Makes a program that tools/dev finds before the host's."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    def dev(self, *arguments, **keywords):
        environment = {"PATH": f"{self.programs}:{os.environ['PATH']}",
                       "HOME": str(self.directory)}
        return subprocess.run([self.tree / "tools/dev", *arguments], env=environment,
                              capture_output=True, text=True, check=False, **keywords)

    def installed_by(self, *arguments):
        """Returns the packages that a command would install on a host that has none."""
        self.program("dpkg-query", "exit 1")
        said = self.dev(*arguments).stderr
        first, _, rest = said.partition("\n")
        self.assertTrue(first.startswith("tools/dev: installing "), said)
        self.assertEqual(rest, "tools/dev: apt-get update failed\n")
        return set(first.split()[2:])

    def test_commands_that_only_build_install_no_daemon(self):
        for command in (("demo",), ("install",), ("package", self.directory / "packages"),
                        ("conformance", "capture.pcap")):
            installed = self.installed_by(*command)
            self.assertIn("libdpdk-dev", installed)
            self.assertEqual(installed & DAEMONS, set(), command)

    def test_packages_for_another_release_are_made_in_a_chroot(self):
        self.program("dpkg-query", "echo installed")
        chroot = self.tree / "tools/build/package_chroot.sh"
        chroot.parent.mkdir()
        chroot.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
        chroot.chmod(0o755)
        release = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
        other = "trixie" if "VERSION_CODENAME=bookworm" in release else "bookworm"
        done = self.dev("package", "--suite", other)
        self.assertEqual((done.stdout, done.returncode),
                         (f"{self.tree} {other} {self.tree}/packages/{other}\n", 0), done.stderr)
        done = self.dev("package", "--check", "--suite", other, self.directory / "packages")
        self.assertEqual(done.stdout,
                         f"{self.tree} {other} {self.directory}/packages --check\n", done.stderr)

    def test_the_check_of_packages_installs_what_it_runs(self):
        self.program("dpkg-query", """\
for name; do :; done
case $name in debootstrap|iproute2|lintian|procps) exit 1 ;; esac
echo installed""")
        helper = self.tree / "tools/build/package.sh"
        helper.parent.mkdir()
        helper.write_text("#!/bin/sh\n", encoding="utf-8")
        helper.chmod(0o755)
        said = self.dev("package", "--check", self.directory / "packages").stderr
        self.assertEqual(said.partition("\n")[0],
                         "tools/dev: installing debootstrap iproute2 lintian procps", said)

    def test_packages_are_made_for_known_releases_only(self):
        for arguments in (("--suite",), ("--suite", "sid")):
            done = self.dev("package", *arguments)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--suite is bookworm or trixie", done.stderr)

    def test_commands_that_run_tests_install_the_programs_of_tests(self):
        for command in ("setup", "test", "bench", "mutate"):
            self.assertLessEqual({"libdpdk-dev", "perftest", *DAEMONS},
                                 self.installed_by(command), command)

    def test_a_file_that_root_has_left_is_replaced(self):
        self.program("dpkg-query", "echo installed")
        cache = self.tree / ".bazelrc.cache"
        cache.write_text("of root\n", encoding="utf-8")
        user = {}
        if os.geteuid() == 0:
            os.chown(self.tree, OTHER_USER, OTHER_USER)
            user = {"user": OTHER_USER, "group": OTHER_USER, "extra_groups": []}
        else:
            cache.chmod(0o444)
        done = self.dev("setup", **user)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"--disk_cache={self.directory}/.cache/pollux",
                      cache.read_text(encoding="utf-8"))
