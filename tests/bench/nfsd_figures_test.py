"""Tests how tools/dev bench --nfsd sets up its machines and evaluates fio's output."""

import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, "tests/bench")  # where the benchmark runs, and imports from

# pylint: disable=wrong-import-position
import nfsd_bench as bench
import nfsd_figures as figures


def fio(read, write):
    return json.dumps({"jobs": [{"read": {"iops": read[0], "bw_bytes": read[1]},
                                 "write": {"iops": write[0], "bw_bytes": write[1]}}]})


class NfsdFiguresTest(unittest.TestCase):
    def test_each_load_has_its_direction_and_unit(self):
        output = fio((100.0, 5_000_000), (200.0, 7_000_000))
        told = {name: figures.rate(output, *load) for name, load in figures.LOADS.items()}
        self.assertEqual(told, {"read 4 KiB": 100.0, "write 4 KiB": 200.0, "read 1 MiB": 5.0,
                                "write 1 MiB": 7.0})

    def test_a_report_without_a_job_is_an_error(self):
        with self.assertRaises(ValueError):
            figures.rate(json.dumps({"jobs": []}), "--rw=read", "MB/s")

    def measured(self):
        """Returns figures whose ratios in the three passes are 0.5, 5 and 4 to rxe, and 1, 10 and 8
        to TCP. The medians of these ratios are 4 and 8; the ratios of the medians are 2 and 4."""
        passes = {figures.POLLUX: [1.0, 20.0, 4.0], figures.OVER_RXE: [2.0, 4.0, 1.0],
                  figures.OVER_TCP: [1.0, 2.0, 0.5]}
        return {(where, load): values for load in figures.LOADS
                for where, values in passes.items()}

    def test_ratios_are_medians_of_passes(self):
        told = json.loads(figures.report(self.measured(), as_json=True))
        self.assertEqual(len(told["ratios"]), 2 * len(figures.LOADS))
        for load, (_, unit) in figures.LOADS.items():
            self.assertEqual(told["ratios"][f"{load}: pollux nfsd / knfsd by rxe"], 4.0)
            self.assertEqual(told["ratios"][f"{load}: pollux nfsd / knfsd by TCP"], 8.0)
            self.assertEqual(told["figures"][f"pollux nfsd, {load}"],
                             {"unit": unit, "median": 4.0, "low": 1.0, "high": 20.0})

    def test_the_text_report_has_medians_and_ratios(self):
        lines = figures.report(self.measured(), as_json=False).splitlines()
        self.assertEqual(lines[0].split(), ["median", "low", "high"])
        row, = (line for line in lines if line.startswith("pollux nfsd, read 1 MiB"))
        self.assertEqual(row.split()[-4:], ["4.0", "1.0", "20.0", "MB/s"])
        name = "write 4 KiB: pollux nfsd / knfsd by rxe"
        ratio, = (line for line in lines if line.startswith(name))
        self.assertEqual(ratio.split()[-1], "4.00")


class NfsdBenchTest(unittest.TestCase):
    def test_the_two_machines_have_addresses_of_their_own(self):
        """Functions that need root are replaced by ones with the same signature."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for owner, name in ((bench.image, "build"), (bench.network, "enter"), (bench, "shell"),
                            (figures, "report")):
            self.enterContext(mock.patch.object(owner, name, autospec=True))
        self.enterContext(mock.patch.object(bench, "build", return_value=("pollux", "peer")))
        self.enterContext(mock.patch.object(bench, "Bench"))
        booted = []

        def boot(guest, settings):
            booted.append((settings, " ".join(guest.hardware()), guest.addresses))

        self.enterContext(mock.patch.object(bench.guests.Guest, "boot", boot))
        bench.run(1, True, folder)
        places = bench.guests.FIRST_PLACE, bench.SECOND_PLACE
        self.assertEqual(len(booted), len(places))
        for (settings, hardware, addresses), place in zip(booted, places):
            self.assertEqual(addresses, (place.address, place.address6, place.vlan_address))
            self.assertTrue(all(address in settings for address in addresses), settings)
            self.assertIn(place.mac, hardware)
