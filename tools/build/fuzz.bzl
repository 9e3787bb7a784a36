"""fuzz_test: one LLVMFuzzerTestOneInput, run two ways."""

def fuzz_test(name, srcs, deps = [], corpus = [], mutations = 20000, tags = [], **kwargs):
    """Declares two targets for one LLVMFuzzerTestOneInput.

    NAME is an ordinary test: every corpus file, then `mutations` seeded mutations of them, the same
    in every run. NAME_libfuzzer is the libFuzzer binary that `tools/dev fuzz` builds with clang.

    Args:
      name: of the test.
      srcs: the file with LLVMFuzzerTestOneInput.
      deps: of that file.
      corpus: seed inputs, one a file.
      mutations: how many mutated inputs the test runs.
      tags: of both targets.
      **kwargs: passed to the test.
    """
    native.cc_test(
        name = name,
        size = kwargs.pop("size", "small"),
        srcs = srcs,
        args = ["--mutations=%d" % mutations] + ["$(rootpaths %s)" % file for file in corpus],
        data = corpus,
        tags = tags,
        deps = deps + ["//tools/build:fuzz_driver"],
        **kwargs
    )
    native.cc_binary(
        name = name + "_libfuzzer",
        testonly = True,
        srcs = srcs,
        data = corpus,
        linkopts = ["-fsanitize=fuzzer"],
        tags = tags + ["fuzz", "manual"],
        deps = deps,
    )
