"""room_library and room_test: what every C++ source of the project is compiled by.

Parsing headers is most of a compilation's time, so sources start from a precompiled header, and
those of a library are compiled together, a few translation units a library.
"""

# How many sources are compiled together: more repeat less work, fewer are done sooner after an edit.
_SOURCES_PER_UNIT = 8

# Rooms on the packet path, whose programs are optimized across files when they are linked.
_LTO_ROOMS = ["cm", "compat", "oncrpc", "rpcrdma", "stack"]

# Objects hold code beside what the link-time optimizer reads: tests are linked without it.
LTO_COPTS = select({
    "//tools/build:without_lto": [],
    "//conditions:default": ["-flto=auto", "-ffat-lto-objects"],
})

# Optimizing a test's own source takes longer than running it. Without it gcc 12 does not see that
# rte_ring never copies 32 bytes of 8.
TEST_COPTS = ["-O0", "-U_FORTIFY_SOURCE", "-Wno-stringop-overread"]

def _precompiled(header):
    return ["-include", "tools/build/%s.h" % header, "-Winvalid-pch"]

def _joined_sources_impl(ctx):
    ctx.actions.write(
        ctx.outputs.out,
        "".join(["#include \"%s\"\n" % source.short_path for source in ctx.files.srcs]),
    )

# A source that includes those in `srcs`.
_joined_sources = rule(
    implementation = _joined_sources_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "srcs": attr.label_list(allow_files = [".cc"], mandatory = True),
    },
)

def _units(name, srcs, testonly):
    """The translation units of `srcs`: what is compiled, and the sources that it includes."""
    sources = [source for source in srcs if source.endswith(".cc")]
    others = [source for source in srcs if not source.endswith(".cc")]
    if len(sources) < 2:
        return struct(srcs = srcs, included = [])
    count = (len(sources) + _SOURCES_PER_UNIT - 1) // _SOURCES_PER_UNIT
    units = []
    for i in range(count):
        unit = "%s_unit_%d.cc" % (name, i + 1)
        _joined_sources(
            name = unit[:-3],
            out = unit,
            srcs = sources[len(sources) * i // count:len(sources) * (i + 1) // count],
            testonly = testonly,
            visibility = ["//visibility:private"],
        )
        units.append(unit)
    return struct(srcs = units + others, included = sources)

def room_library(
        name,
        srcs = [],
        hdrs = [],
        alone = [],
        copts = [],
        deps = [],
        testonly = None,
        **kwargs):
    """A cc_library whose sources are compiled together.

    Names in unnamed namespaces must therefore differ between the sources of a library.

    Args:
      name: of the library.
      srcs: its sources, and headers that nothing outside includes.
      hdrs: its headers.
      alone: sources that define macros for the headers they include: each is compiled by itself,
        without the precompiled header.
      copts: as of any library.
      deps: as of any library.
      testonly: as of any library.
      **kwargs: passed to the library.
    """
    room = native.package_name().split("/")[0]
    lto = LTO_COPTS if room in _LTO_ROOMS else []
    header = "lto_headers" if room in _LTO_ROOMS else "common_headers"
    units = _units(name, srcs, testonly)
    if alone:
        native.cc_library(
            name = name + "_alone",
            srcs = alone + hdrs,
            copts = copts + lto,
            testonly = testonly,
            visibility = ["//visibility:private"],
            deps = deps,
        )
    native.cc_library(
        name = name,
        srcs = units.srcs,
        hdrs = hdrs,
        copts = (_precompiled(header) if srcs else []) + copts + lto,
        testonly = testonly,
        textual_hdrs = units.included,
        deps = deps + (["//tools/build:" + header] if srcs else []) +
               ([name + "_alone"] if alone else []),
        **kwargs
    )

def room_test(name, srcs, copts = [], deps = [], **kwargs):
    """A cc_test of GoogleTest, whose sources are compiled together as those of a library.

    Args:
      name: of the test.
      srcs: its sources, and headers that nothing else includes.
      copts: as of any test.
      deps: what it uses besides GoogleTest.
      **kwargs: passed to the test.
    """
    units = _units(name, srcs, True)
    copts = _precompiled("test_headers") + TEST_COPTS + copts
    deps = deps + ["//tools/build:test_headers"]
    if units.included:
        native.cc_library(
            name = name + "_sources",
            testonly = True,
            textual_hdrs = units.included,
            visibility = ["//visibility:private"],
        )
        deps = deps + [name + "_sources"]
    native.cc_test(
        name = name,
        srcs = units.srcs,
        copts = copts,
        deps = deps + ["@com_google_googletest//:gtest_main"],
        **kwargs
    )
