"""Tests of several programs on one interface that are too slow for every change."""

from tests.command import run_mpi_test as mpi
from tests.command.harness import SERVER, wait_for
from tests.command.run_shared_test import PORT, SharedTest

PROGRAMS = 64
ROUNDS = 3  # of killing half of them: each lasts a minute on two busy CPUs


class ManyProgramsTest(SharedTest):
    def test_64_programs_on_an_interface_serve_64_on_another(self):
        servers = [self.rping_server(i, "-C", 10) for i in range(PROGRAMS)]
        clients = [self.rping_client(self.client_host, i, "-C", 10, "-V") for i in range(PROGRAMS)]
        for run in (*clients, *servers):
            self.assert_succeeds(run)

    def test_programs_go_on_while_others_are_killed_again_and_again(self):
        """Kills half of the servers, and starts them again, while the others' clients go on."""
        count = 8
        servers = [self.rping_server(i, "-P") for i in range(count)]
        # The second half of the clients is on the servers' own host.
        hosts = [(self.client_host, self.server_host)[i // (count // 2)] for i in range(count)]
        clients = [self.rping_client(hosts[i], i, "-v") for i in range(count)]
        for round_number in range(ROUNDS):
            for i, client in enumerate(clients):
                before = len(client.stdout)
                wait_for("pings", lambda client=client, before=before:
                         len(client.stdout) > before + 1000)
                self.assertIsNone(servers[i].process.poll(), servers[i].stderr)
            killed = [i for i in range(count) if i % 2 == round_number % 2]
            for i in killed:
                servers[i].process.kill()
            for i in killed:
                # A DREQ ends the client at once: it need not wait for its retries.
                clients[i].wait(self.timeout_s)
                self.assertIn("DISCONNECT EVENT", clients[i].stderr)
                servers[i].close()
                clients[i].close()
            for i in killed:
                servers[i] = self.rping_server(i, "-P")
                clients[i] = self.rping_client(hosts[i], i, "-v")

    def test_perftest_fio_and_files_share_an_interface(self):
        content = self.file("content", 8 << 20)
        root = self.directory / "served"
        root.mkdir()
        root.chmod(0o777)
        serve = self.start(self.server_host, "nfsd", "--netdev", "wire", "--idle", "sleep",
                           "--export", f"{root}:rw", "--key-file", self.directory / "key")
        serve.wait_for_line("^serving NFS at ")
        servers, clients = [], []
        for i, program in enumerate(("ib_write_bw", "ib_send_lat")):
            argv = (program, "-R", "-p", PORT + 100 + i, "-D", 10, "-F")
            servers.append(self.start_server(*argv, name=f"perftest{i}"))
            clients.append(self.run_program(self.client_host, *argv, SERVER))
        fio = ("fio", "--name=job", "--thread", "--ioengine=rdma", f"--port={PORT + 200}",
               "--bs=64k", "--size=64m", "--verb=write")
        servers.append(self.start_server(*fio, "--rw=read", name="fio"))
        clients.append(self.run_program(self.client_host, *fio, "--rw=write",
                                        f"--hostname={SERVER}", "--iodepth=4"))
        put = self.finish(self.client_host, "nfs", "put", "--netdev", "wire", "--idle", "sleep",
                          content, f"nfs://{SERVER}{root}/copy")
        self.assertEqual(put.process.returncode, 0, put.stderr)
        self.assertEqual((root / "copy").read_bytes(), content.read_bytes())
        for run in (*clients, *servers):
            self.assert_succeeds(run)
        self.assertEqual(serve.interrupt(), 0, serve.stderr)


class MpichOnOneInterfaceTest(mpi.MpichTest):
    ranks_per_host = 8


class OpenMpiOnOneInterfaceTest(mpi.OpenMpiTest):
    ranks_per_host = 8
