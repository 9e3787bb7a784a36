"""Creates a Kerberos realm for a test: a KDC, a service with a keytab, a user with a ticket."""

import pathlib
import shutil
import subprocess
import unittest

from tests.command.harness import wait_for

REALM = "BLOCKS.TEST"
KDC = "127.0.0.1:8888"

KRB5_CONF = f"""
[libdefaults]
 default_realm = {REALM}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {REALM} = {{
  kdc = {KDC}
 }}
[domain_realm]
 .test = {REALM}
"""

KDC_CONF = """
[realms]
 {realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  kdc_listen = {kdc}
  kdc_tcp_listen = {kdc}
 }}
[logging]
 kdc = FILE:{directory}/kdc.log
"""


class Realm:
    """A realm whose KDC runs on `host` and can be reached only by programs there."""

    def __init__(self, directory, host, service, user):
        self.host = host
        self.directory = pathlib.Path(directory)
        self.tools = {}
        for tool in ("kdb5_util", "kadmin.local", "krb5kdc", "kinit"):
            self.tools[tool] = shutil.which(tool)
            if self.tools[tool] is None:
                raise unittest.SkipTest(f"needs the command {tool} (krb5-kdc, krb5-admin-server, "
                                        "krb5-user)")
        self.directory.mkdir()
        (self.directory / "krb5.conf").write_text(KRB5_CONF)
        (self.directory / "kdc.conf").write_text(
            KDC_CONF.format(realm=REALM, directory=self.directory, kdc=KDC))
        self.environment = {
            "KRB5_CONFIG": str(self.directory / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.directory}/ticket",
            "KRB5_KTNAME": f"FILE:{self.directory}/keytab",
            "KRB5RCACHEDIR": str(self.directory),
        }
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.run("kadmin.local", "-q", f"addprinc -randkey {service}")
        self.run("kadmin.local", "-q", f"addprinc -pw password {user}")
        self.run("kadmin.local", "-q", f"ktadd -k {self.directory}/keytab {service}")
        self.kdc = subprocess.Popen(host.argv([self.tools["krb5kdc"], "-n"]),
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, env=self.environment)
        # Fails until the KDC listens.
        wait_for("a ticket", lambda: self.completed("kinit", user, text="password\n",
                                                    host=host).returncode == 0)

    def completed(self, tool, *arguments, text="", host=None):
        argv = [self.tools[tool], *arguments]
        return subprocess.run(host.argv(argv) if host else argv, input=text, capture_output=True,
                              text=True, env=self.environment, check=False)

    def run(self, tool, *arguments):
        done = self.completed(tool, *arguments)
        if done.returncode != 0:
            raise AssertionError(f"{tool}: {done.stdout}{done.stderr}")

    def close(self):
        self.kdc.kill()
        self.kdc.wait()
