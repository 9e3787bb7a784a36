"""python_test: a unittest file as a test target."""

def python_test(name, src, data = [], tags = [], **kwargs):
    """Runs the unittest file `src`; `data` are the files it imports or reads.

    A file whose cases take minutes has a shard_count: several processes share the cases.

    Under sanitizers it runs nightly only: the rooms' own tests run the same code with more care.
    """
    native.sh_test(
        name = name,
        srcs = ["//tools/build:unittest_main.sh"],
        args = ["$(rootpath %s)" % src],
        data = [src, "//tools/build:unittest_main.py"] + data,
        tags = tags + ["nightly"],
        **kwargs
    )
