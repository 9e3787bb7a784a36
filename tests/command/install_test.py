"""Tests the installed command as a user other than the one who built it."""

import os
import pathlib
import shutil
import subprocess

from tests.command.harness import POLLUX, CommandTest, Host

INSTALL = os.path.abspath("tools/build/install.sh")
OTHER_USER = 65534


class InstalledTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.directory.chmod(0o755)
        self.prefix = self.directory / "prefix"

    def install(self, slash=""):
        built = pathlib.Path(POLLUX).parents[2]
        done = subprocess.run([INSTALL, built, f"{self.prefix}{slash}"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{self.prefix}/bin/pollux", done.stdout)

    def start_by_other(self, host, capabilities, *arguments):
        """Starts the installed command as another user with exactly these capabilities."""
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.skipTest("needs root and the command setpriv, to become another user")
        kept = ",".join(("-all", *(f"+{name.lower()}" for name in capabilities)))
        # A coverage build appends to files that another user cannot write.
        profile = pathlib.Path(os.environ.get("LLVM_PROFILE_FILE", ""))
        environment = {"LLVM_PROFILE_FILE": str(profile.with_name(f"{OTHER_USER}-{profile.name}"))
                       } if profile.name else {}
        return self.start(host, f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups",
                          f"--bounding-set={kept}", f"--inh-caps={kept}", f"--ambient-caps={kept}",
                          self.prefix / "bin/pollux", *arguments, program="setpriv",
                          environment=environment)


class InstallTest(InstalledTest):
    def by_other(self, *arguments):
        run = self.start_by_other(Host(), (), *arguments)
        run.wait()
        return run

    def test_run_uses_the_installed_libraries(self):
        self.install()
        self.install()  # a second time over the first
        self.assertEqual(len(list(self.prefix.glob("**/*.new"))), 0)
        run = self.finish(Host(), "run", "--netdev", "lo", "--", "sh", "-c",
                          "echo $LD_LIBRARY_PATH", program=self.prefix / "bin/pollux")
        self.assertEqual((run.process.returncode, run.stdout.split(":")[0].strip()),
                         (0, f"{self.prefix}/lib/pollux"), run.stderr)

    def test_units_and_pkg_config_have_the_prefix(self):
        self.install(slash="/")
        unit = self.prefix / "lib/systemd/system/pollux-nfsd@.service"
        self.assertIn(f"ExecStart={self.prefix}/bin/pollux nfsd", unit.read_text(encoding="utf-8"))
        module, = self.prefix.glob("lib/*/pkgconfig/pollux.pc")
        self.assertIn(f"prefix={self.prefix}\n", module.read_text(encoding="utf-8"))
        self.assertTrue((self.prefix / "include/pollux/stack/engine/device.h").is_file())

    def test_existing_directories_keep_their_mode(self):
        for directory in ("bin", "lib"):
            (self.prefix / directory).mkdir(parents=True)
            (self.prefix / directory).chmod(0o2775)
        self.install()
        for directory in ("bin", "lib"):
            self.assertEqual((self.prefix / directory).stat().st_mode & 0o7777, 0o2775)

    def test_a_prefix_that_the_loader_cannot_use_is_an_error(self):
        for name in ("of two words", "a:b", "a;b"):
            self.prefix = self.directory / name
            self.install()
            run = self.finish(Host(), "run", "--netdev", "lo", "--", "true",
                              program=self.prefix / "bin/pollux")
            self.assert_one_line(run, 1, f"{name}/lib/pollux", "space", "tools/dev install")

    def test_run_within_a_run_of_another_build_uses_its_own_libraries(self):
        self.install()
        outer = self.directory / "outer"
        shutil.copytree(self.prefix, outer)
        run = self.finish(Host(), "run", "--netdev", "lo", "--preload", "--",
                          self.prefix / "bin/pollux", "run", "--netdev", "lo", "--",
                          "sh", "-c", "echo $LD_PRELOAD", program=outer / "bin/pollux")
        self.assertEqual((run.process.returncode, run.stdout.strip()),
                         (0, f"{self.prefix}/lib/pollux/libpollux_device_file.so"), run.stderr)

    def test_another_user_can_run_programs(self):
        self.install()
        run = self.by_other("run", "--netdev", "lo", "--", "true")
        self.assertEqual((run.process.returncode, run.stderr), (0, ""))

    def test_missing_and_unreadable_libraries_are_errors(self):
        self.install()
        (self.prefix / "lib/pollux").chmod(0o700)
        run = self.by_other("run", "--netdev", "lo", "--", "true")
        self.assert_one_line(run, 1, "may not read", str(OTHER_USER), "tools/dev install")
        shutil.rmtree(self.prefix / "lib")
        run = self.by_other("run", "--netdev", "lo", "--", "true")
        self.assert_one_line(run, 1, "lib/pollux/libibverbs.so.1", "tools/dev install")

    def test_a_setuid_program_is_refused(self):
        self.install()
        program = self.directory / "program"
        shutil.copy(shutil.which("true"), program)
        program.chmod(0o4755)
        run = self.by_other("run", "--netdev", "lo", "--", program)
        self.assert_one_line(run, 126, str(program), "setuid")
        program.chmod(0o755)
        run = self.by_other("run", "--netdev", "lo", "--", program)
        self.assertEqual(run.process.returncode, 0, run.stderr)
        setcap = shutil.which("setcap")
        if setcap is None or subprocess.run([setcap, "cap_net_raw+ep", program], check=False,
                                            capture_output=True).returncode != 0:
            self.skipTest("needs the command setcap and the right to use it")
        run = self.by_other("run", "--netdev", "lo", "--", program)
        self.assert_one_line(run, 126, str(program), "file capabilities")

    def test_exporter_refuses_the_telemetry_of_another_user(self):
        self.install()
        (self.directory / "dpdk").mkdir()
        run = self.by_other("exporter", "--listen", "0")
        self.assert_one_line(run, 1, f"{self.directory}/dpdk belongs to user 0",
                             f"not to {OTHER_USER}")
