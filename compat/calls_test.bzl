"""Tests of the engine's calls, by the names that programs know them by and nothing between."""

load("//tools/build:cc.bzl", "room_test")

def calls_test(name, folder, size, deps = [], tags = [], env = {}):
    """A test of googletest in FOLDER/NAME.cc, linked with the engine.

    Args:
      name: of the test, and of its source without the suffix.
      folder: where its source lies.
      size: as of any test.
      deps: what it uses besides the engine.
      tags: as of any test.
      env: as of any test.
    """
    room_test(
        name = name,
        size = size,
        srcs = [folder + "/" + name + ".cc"],
        linkopts = ["$(location calls.lds)"],
        tags = tags,
        env = env,
        deps = [
            "calls.lds",
            ":engine",
        ] + deps,
    )
