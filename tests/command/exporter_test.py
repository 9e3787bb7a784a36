"""Tests pollux exporter beside running processes, read by Prometheus, promtool and a browser."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from tests.command.browser import LivePage
from tests.command.harness import (CLIENT, SERVER, TIMEOUT_S, CommandTest, Host, Run,
                                   wait_for)

DASHBOARD = pathlib.Path("docs/grafana_dashboard.json").absolute()
DOCUMENT = pathlib.Path("docs/monitoring.md").absolute()
OPEN_METRICS = "application/openmetrics-text;version=1.0.0"
PNG = b"\x89PNG\r\n\x1a\n"


def needs(program):
    found = shutil.which(program)
    if found is None:
        raise unittest.SkipTest("needs the package prometheus (tools/dev setup)")
    return found


def parsed(text):
    """Returns the metric families of an OpenMetrics text, parsed by the reference parser."""
    try:
        # pylint: disable=import-outside-toplevel
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
    except ImportError:
        raise unittest.SkipTest(
            "needs the package python3-prometheus-client (tools/dev setup)") from None
    return list(text_string_to_metric_families(text))


def get(url, accept="*/*"):
    """Returns status, content type and body of an HTTP GET."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


class Prometheus:
    """A Prometheus that scrapes every 5 s, which is also the time limit of a scrape."""

    def __init__(self, test, target):
        self.program = needs("prometheus")
        self.test = test
        configuration = test.directory / "prometheus.yml"
        configuration.write_text(json.dumps({  # JSON is YAML
            "global": {"scrape_interval": "5s"},
            "scrape_configs": [{"job_name": "pollux", "static_configs": [{"targets": [target]}]}]}),
            encoding="utf-8")
        self.address = f"127.0.0.1:{free_port()}"
        self.run = Run(Host(), [f"--config.file={configuration}",
                                f"--storage.tsdb.path={test.directory}/tsdb",
                                f"--web.listen-address={self.address}"],
                       test.directory, program=self.program)
        test.addCleanup(self.run.close)
        wait_for("Prometheus", self.is_ready)

    def is_ready(self):
        if self.run.process.poll() is not None:
            raise AssertionError(self.run.stderr)
        try:
            return get(f"http://{self.address}/-/ready")[0] == 200
        except OSError:
            return False

    def query(self, expression):
        """Returns the series that an expression yields now."""
        status, _, body = get(f"http://{self.address}/api/v1/query?"
                              + urllib.parse.urlencode({"query": expression}))
        self.test.assertEqual(status, 200, f"{expression}: {body}")
        return json.loads(body)["data"]["result"]


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class ExporterTest(CommandTest):
    def setUp(self):
        super().setUp()
        # A browser fails its requests (ERR_NETWORK_CHANGED) while interfaces of its namespace come
        # and go, as those of other tests do.
        own = Host.make()
        self.addCleanup(own.close)
        self.assertTrue(own.shell("ip link set lo up"))
        self.enterContext(own.entered())
        self.root = self.directory / "root"
        self.root.mkdir()

    def place(self, role, name="m"):
        return ("--port", f"net_memif0,role={role},socket={self.directory}/{name}", "--address",
                f"{SERVER if role == 'server' else CLIENT}/24", "--idle", "sleep")

    def serve(self, *arguments, name="m"):
        run = self.start(Host(), "serve", *self.place("server", name), "--root", self.root,
                         *arguments)
        run.wait_for_line("^serving ")
        return run

    def busy(self, rate=500):
        server = self.serve("--file-prefix", "the-server")
        client = self.start(Host(), "bench", *self.place("client"), "--file-prefix", "the-client",
                            "--measure", "null", "--seconds", "0", "--count", "1000000000",
                            "--rate", str(rate), SERVER)
        server.wait_for_line(" connected")
        return server, client

    def export(self, *arguments):
        """Starts an exporter; returns it and the URL of its page."""
        run = self.start(Host(), "exporter", "--listen", "0", *arguments)
        run.wait_for_line("^serving metrics at ")
        return run, re.search("live counters at (.*)$", run.stderr, re.MULTILINE).group(1)

    def series(self, url):
        """Returns all samples."""
        status, kind, text = get(url + "metrics", OPEN_METRICS)
        self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; "
                                               "charset=utf-8"))
        return [sample for family in parsed(text) for sample in family.samples]

    def value(self, url, name, **labels):
        """Returns the value of the only series with this name and labels; None if there is none."""
        found = [one.value for one in self.series(url)
                 if one.name == name and labels.items() <= one.labels.items()]
        self.assertLessEqual(len(found), 1, f"{name} {labels}")
        return found[0] if found else None

    def assert_documented_are_there(self, url, wanted):
        """Asserts that each documented metric for which `wanted(name)` is true exists."""
        named = set(re.findall(r"\bpollux_\w+[a-z]\b", DOCUMENT.read_text(encoding="utf-8")))
        there = {one.name for one in self.series(url)}
        there |= {name.removesuffix("_count") for name in there}  # of histograms
        # Only a process with several workers has steering metrics.
        self.assertEqual({name for name in named - there
                          if wanted(name) and "_steering_" not in name}, set())

    def judge(self, url):
        """Asserts that promtool finds nothing wrong with the metrics; returns their text."""
        status, kind, text = get(url + "metrics")
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        judged = subprocess.run([needs("promtool"), "check", "metrics"], input=text, text=True,
                                capture_output=True, check=False)
        self.assertEqual((judged.returncode, judged.stdout + judged.stderr), (0, ""), text)
        return text

    def page(self, url):
        page = LivePage(self.directory, url)
        self.addCleanup(page.close)
        return page

    def keep(self, name, png):
        """Keeps a PNG where a person can look at it: bazel-testlogs/.../test.outputs."""
        self.assertEqual(png[:8], PNG)
        kept = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
        if kept:
            (pathlib.Path(kept) / name).write_bytes(png)

    def test_without_a_process_the_scrape_succeeds(self):
        exporter, url = self.export()
        text = self.judge(url)
        self.assertIn("\npollux_processes 0\n", text)
        self.assertIn("\npollux_exporter_scrape_success 1\n", text)
        self.assertNotIn("pollux_up", text)
        page = self.page(url)
        wait_for("the page", lambda: page.text("#status") == ["no Pollux process answers"])
        self.assertEqual(page.text("#cores"), ["No Pollux process answers."])
        self.assertEqual(get(url + "other")[0], 404)
        # Clients that close the connection before the answer do no harm.
        place = urllib.parse.urlsplit(url)
        for _ in range(20):
            with socket.create_connection((place.hostname, place.port)) as asked:
                asked.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        self.judge(url)
        self.assertEqual(exporter.interrupt(), 0, exporter.stderr)
        wait_for("the end", lambda: page.text("#status")[0].startswith("the exporter does not"))

    def test_metrics_of_both_ends_match_pollux_stat(self):
        server, client = self.busy()
        exporter, url = self.export("--connections")

        def both_answer():
            return self.value(url, "pollux_processes") == 2

        wait_for("both", both_answer)
        for name, run in (("the-server", server), ("the-client", client)):
            self.assertEqual(self.value(url, "pollux_up", process=name, pid=str(run.process.pid)),
                             1)
        self.judge(url)

        def told():
            """Asks the exporter first, then `pollux stat`, whose counters may have grown since."""
            samples = self.series(url)
            (process,) = self.told("stat", "--file-prefix", "the-server")
            mine = [one for one in samples if one.labels.get("process") == "the-server"]
            return (mine, process["workers"][0]) if mine else None

        samples, worker = wait_for("the server", told)
        self.assert_documented_are_there(url, lambda name: "_nfs_" not in name)
        (port,) = worker["ports"]
        for metric, number in (("pollux_port_packets_transmitted_total", port["sent_pkts"]),
                               ("pollux_port_data_received_bytes_total", port["rcvd_bytes"]),
                               ("pollux_worker_polls_total", worker["core"]["polls"])):
            (sample,) = [one for one in samples if one.name == metric]
            self.assertGreater(sample.value, 0, metric)
            self.assertLessEqual(sample.value, number, metric)
        # No counter of these parts is lost, as one would be if two had the same metric name.
        for part, numbers, label in (("port", port, "device"), ("cm", worker["cm"], None),
                                     ("rpc", worker["rpc"], "role"),
                                     ("memory", worker["memory"], None)):
            # The count of a histogram is the sum of its buckets.
            others = ("pollux_port_info", "pollux_rpc_call_duration_seconds_count")
            ours = [one for one in samples if one.name not in others
                    and (label in one.labels if label else
                         one.name.startswith(f"pollux_{part}_"))]
            self.assertEqual(len(ours), sum(isinstance(value, int) for value in numbers.values()),
                             part)
        states = {one.labels["state"]: one.labels for one in samples
                  if one.name == "pollux_connection_info"}
        self.assertEqual(set(states), {"LISTEN", "ESTABLISHED"})
        peer = states["ESTABLISHED"]["peer"]
        self.assertTrue(peer.startswith(CLIENT), peer)
        self.assertTrue(any(one.name == "pollux_connection_data_received_bytes_total"
                            and one.labels["peer"] == peer and one.value > 0 for one in samples))
        self.assertEqual(exporter.interrupt(), 0, exporter.stderr)

    def test_file_prefix_selects_a_process(self):
        self.busy()
        _, url = self.export("--file-prefix", "the-client")
        wait_for("the client", lambda: self.value(url, "pollux_processes") == 1)
        names = {one.labels["process"] for one in self.series(url) if "process" in one.labels}
        self.assertEqual(names, {"the-client"})
        self.assertNotIn("pollux_connection_info", get(url + "metrics")[2])

    def test_a_stopped_process_is_down_until_it_ends(self):
        server = self.serve("--file-prefix", "the-server")
        other = self.serve("--file-prefix", "other", name="o")
        _, url = self.export()
        up = lambda name: self.value(url, "pollux_up", process=name)
        wait_for("both", lambda: up("the-server") == up("other") == 1)
        server.process.send_signal(signal.SIGSTOP)
        wait_for("one that is stopped", lambda: up("the-server") == 0 and up("other") == 1)
        self.judge(url)
        page = self.page(url)
        wait_for("what it says of it",
                 lambda: "does not answer" in page.text("#status")[0]
                 and page.value("document.querySelector('#status').className") == "bad")
        server.process.send_signal(signal.SIGCONT)
        wait_for("the process that was continued", lambda: up("the-server") == 1)
        server.interrupt(signal.SIGKILL)
        wait_for("one that has ended", lambda: up("the-server") is None and up("other") == 1)
        self.assertEqual(other.interrupt(), 0, other.stderr)
        wait_for("none", lambda: self.value(url, "pollux_processes") == 0)

    def test_several_stopped_processes_do_not_cost_the_metrics_of_others(self):
        stopped = [self.serve("--file-prefix", name, name=name) for name in "abcdef"]
        self.serve("--file-prefix", "live", name="live")
        _, url = self.export()
        for run in stopped:
            run.process.send_signal(signal.SIGSTOP)

        def scraped():
            start = time.monotonic()
            up = {one.labels["process"]: one.value for one in self.series(url)
                  if one.name == "pollux_up"}
            taken_s = time.monotonic() - start
            # Prometheus waits 10 s by default. On a busy machine the live one may answer too late.
            return taken_s < 10 and up == {**dict.fromkeys("abcdef", 0), "live": 1}

        wait_for("all processes in one scrape", scraped)

    def assert_panels_have_series(self, prometheus, wanted):
        """Asserts that each dashboard query for which `wanted(query)` is true yields a series."""
        queries = [(panel["title"], target["expr"])
                   for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
                   for target in panel.get("targets", ()) if wanted(target["expr"])]
        self.assertGreater(len(queries), 4)
        for title, query in queries:
            for name, value in (("$__rate_interval", "5m"), ("$instance", ".*"),
                                ("$process", ".*")):
                query = query.replace(name, value)
            self.assertNotIn("$", query)
            wait_for(f"'{title}': {query}", lambda of=query: prometheus.query(of))

    def test_dashboard_panels_have_series_in_prometheus(self):
        self.busy()
        _, url = self.export()
        prometheus = Prometheus(self, urllib.parse.urlsplit(url).netloc)
        wait_for("a scrape", lambda: prometheus.query('up{job="pollux"} == 1'))
        wait_for("both", lambda: len(prometheus.query("pollux_up == 1")) == 2)
        wait_for("rates", lambda: prometheus.query(
            'rate(pollux_rpc_calls_received_total{process="the-server"}[5m]) > 0'))
        self.assert_panels_have_series(prometheus, lambda query: "pollux_nfs_" not in query)

    def test_nfs_dashboard_panels_have_series_in_prometheus(self):
        with open("/proc/self/uid_map", encoding="ascii") as file:
            if os.geteuid() != 0 or int(file.read().split()[2]) < 1 << 31:
                self.skipTest("needs root outside a user namespace")
        # MOUNT needs its usual port, hence a host of its own. No client calls: all counters are 0.
        host = Host.make()
        self.addCleanup(host.close)
        nfsd = self.start(host, "nfsd", *self.place("server"), "--export",
                          f"{self.root}:ro,clients={CLIENT}/32", "--file-prefix", "nfsd",
                          "--key-file", self.directory / "key", "--lock-file",
                          self.directory / "locks")
        nfsd.wait_for_line("^serving NFS ")
        _, url = self.export()
        prometheus = Prometheus(self, urllib.parse.urlsplit(url).netloc)
        wait_for("nfsd", lambda: prometheus.query('pollux_up{process="nfsd"} == 1'))
        self.assert_panels_have_series(prometheus, lambda query: "pollux_nfs_" in query)
        self.assert_documented_are_there(url, lambda name: "_nfs_" in name)

    def test_the_page_shows_processes_in_a_browser(self):
        server, client = self.busy(rate=2000)
        _, url = self.export()
        page = self.page(url)
        tiles = lambda: dict(zip(page.text("#tiles dt"), page.text("#tiles dd")))
        wait_for("calls", lambda: re.search("^[1-9]", tiles()["RPC calls"]))
        shown = tiles()
        self.assertEqual(list(shown), ["sent", "received", "packets sent", "packets received",
                                       "RPC calls", "retransmitted", "dropped", "connections"])
        wait_for("both connections", lambda: tiles()["connections"] == "2")
        self.assertEqual(page.text("figure h2"), ["Throughput", "Packets",
                                                  "Time of calls at servers",
                                                  "Busy share of cores",
                                                  "Retransmissions and drops"])
        wait_for("percentiles", lambda: all(
            any(re.fullmatch(rf"{name} [\d.]+ [num]?s", text) for text in page.text(".legend li"))
            for name in ("median", "99 %", "99.9 %")))
        rows = "[...document.querySelectorAll('#%s tbody tr')].map((row) => row.textContent)"
        wait_for("a row per worker", lambda: len(page.value(rows % "cores")) == 2)
        wait_for("a row per connection", lambda: all(
            any(text in row for row in page.value(rows % "connections"))
            for text in (f"the-client{SERVER}:20049ESTABLISHED", f"the-server{CLIENT}")))
        points = "document.querySelector('figure .curve').getAttribute('d').split('L').length"
        wait_for("a curve", lambda: page.value(points) >= 15)
        self.assertNotIn("NaN", page.value("document.body.innerHTML"))
        self.assertEqual(page.complaints, [])
        self.assertFalse(page.value("document.documentElement.scrollWidth > innerWidth"))
        self.keep("light.png", page.screenshot())
        page.prefer("dark")
        self.keep("dark.png", page.screenshot())
        # The exporter continues when one of them ends.
        client.interrupt()
        wait_for("one less", lambda: page.text("#status") == ["1 process"])
        wait_for("a curve that ends", lambda: any("ended" in text
                                                  for text in page.text(".legend li")))
        self.assertEqual(server.interrupt(), 0, server.stderr)
        wait_for("none", lambda: page.text("#status") == ["no Pollux process answers"])
        self.assertEqual(page.complaints, [])

    def test_invalid_arguments_get_one_error_line(self):
        _, url = self.export()
        taken = urllib.parse.urlsplit(url).netloc
        self.assert_one_line(self.finish(Host(), "exporter", "--listen", taken), 1, taken,
                             "Address already in use")
        self.assert_one_line(self.finish(Host(), "exporter", "--listen", "192.0.2.1"), 1,
                             "192.0.2.1:14791", "Cannot assign requested address")
        self.assert_one_line(self.finish(Host(), "exporter", "--listen", "nowhere:80"), 2,
                             "'nowhere:80'", "127.0.0.1:14791")
        self.assert_one_line(self.finish(Host(), "exporter", "--pid", "x"), 2, "--pid")
        self.assert_one_line(self.finish(Host(), "exporter", "extra"), 2, "extra",
                             "usage: pollux exporter")
