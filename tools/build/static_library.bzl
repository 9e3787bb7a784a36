"""static_library: one archive of several libraries, and the pkg-config file of its users."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _impl(ctx):
    linking = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).linking_context
    objects, options = [], []
    for input in linking.linker_inputs.to_list():
        for library in input.libraries:
            objects += library.pic_objects or library.objects
        options += input.user_link_flags

    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.add("qcsD", archive)
    arguments.add_all(objects)
    toolchain = find_cpp_toolchain(ctx)

    # Only the compiler that wrote the link-time optimizer's sections can read them.
    ctx.actions.run_shell(
        command = "%s \"$@\" && %s --enable-deterministic-archives --strip-unneeded %s %s" % (
            toolchain.ar_executable,
            toolchain.strip_executable,
            "--remove-section='.gnu.*lto_*' --strip-symbol=__gnu_lto_v1",
            archive.path,
        ),
        arguments = [arguments],
        inputs = depset(objects, transitive = [toolchain.all_files]),
        outputs = [archive],
        mnemonic = "StaticLibrary",
    )

    module = ctx.actions.declare_file(ctx.label.name + ".pc")
    ctx.actions.expand_template(
        template = ctx.file.pkg_config,
        output = module,
        # One option: pkg-config removes repeated ones, such as the second --whole-archive.
        substitutions = {"@LIBS@": "-Wl," + ",".join([
            option[4:] if option.startswith("-Wl,") else option
            for option in options
        ])},
    )
    return [DefaultInfo(
        files = depset([archive, module]),
        runfiles = ctx.runfiles(files = [archive, module]),
    )]

static_library = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "pkg_config": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "the pkg-config file; @LIBS@ stands for what `deps` are linked with",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
)
