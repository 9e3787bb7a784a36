"""Runs rdma-core's own tests on the libraries that this process loads, by way of pyverbs.

usage: rdma_core_suite.py TESTS_DIRECTORY DEVICE XML_FILE
"""

import os
import runpy
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    directory, device, xml = sys.argv[1:]
    helpers = runpy.run_path(os.path.join(ROOT, "tools/build/unittest_main.py"))
    # The suite imports its modules both directly and from a package named `tests`.
    sys.path[:0] = [os.path.dirname(directory), directory]
    from args_parser import parser  # pylint: disable=import-outside-toplevel
    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    suite = unittest.defaultTestLoader.loadTestsFromName("tests")
    result = unittest.TextTestRunner(resultclass=helpers["Recorder"], verbosity=2).run(suite)
    helpers["write_xml"](result, xml)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
