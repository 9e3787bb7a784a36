"""static_library: one archive of several libraries, and the pkg-config files of its users."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# pkg-config and depsets remove repeated options, such as the second --whole-archive.
def _one_option(options):
    return "-Wl," + ",".join([
        option[4:] if option.startswith("-Wl,") else option
        for option in options
    ])

def _impl(ctx):
    linking = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).linking_context
    objects, options, shared_options = [], [], []
    for input in linking.linker_inputs.to_list():
        for library in input.libraries:
            objects += library.pic_objects or library.objects
        options += input.user_link_flags

        # A shared library contains DPDK, and what the rooms ask of the linker.
        if input.owner.workspace_name not in ["", "dpdk"]:
            shared_options += input.user_link_flags

    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    visible = ctx.actions.declare_file("lib%s_visible.a" % ctx.label.name)
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.add("qcsD", archive)
    arguments.add_all(objects)
    toolchain = find_cpp_toolchain(ctx)

    # Only the compiler that wrote the link-time optimizer's sections can read them.
    without_lto = "--enable-deterministic-archives --remove-section='.gnu.*lto_*' " + \
                  "--strip-symbol=__gnu_lto_v1"
    ctx.actions.run_shell(
        command = " && ".join([
            "%s \"$@\"" % toolchain.ar_executable,
            "%s %s %s %s" % (toolchain.objcopy_executable, without_lto, archive.path, visible.path),
            "%s %s --strip-unneeded %s" % (toolchain.strip_executable, without_lto, archive.path),
            "python3 %s %s" % (ctx.file._export_symbols.path, visible.path),
        ]),
        arguments = [arguments],
        inputs = depset(objects + [ctx.file._export_symbols], transitive = [toolchain.all_files]),
        outputs = [archive, visible],
        mnemonic = "StaticLibrary",
    )

    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        libraries = depset([cc_common.create_library_to_link(
            actions = ctx.actions,
            feature_configuration = features,
            cc_toolchain = toolchain,
            pic_static_library = visible,
            alwayslink = True,
        )]),
        user_link_flags = depset([_one_option(options)]),
    )

    modules = []
    for template in ctx.files.pkg_config:
        module = ctx.actions.declare_file(template.basename)
        ctx.actions.expand_template(
            template = template,
            output = module,
            substitutions = {
                "@LIBS@": _one_option(options),
                "@SHARED_LIBS@": _one_option(shared_options),
            },
        )
        modules.append(module)
    files = [archive] + modules
    return [
        DefaultInfo(
            files = depset(files),
            runfiles = ctx.runfiles(files = files),
        ),
        CcInfo(linking_context = cc_common.create_linking_context(
            linker_inputs = depset([linker_input]),
        )),
    ]

# Whoever depends on it is linked with all of the archive, whose functions are then visible.
static_library = rule(
    implementation = _impl,
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "pkg_config": attr.label_list(
            allow_files = [".pc"],
            mandatory = True,
            doc = "the pkg-config files; @LIBS@ stands for what the archive is linked with, " +
                  "@SHARED_LIBS@ for what programs need beside a shared library of it",
        ),
        "_export_symbols": attr.label(
            allow_single_file = True,
            default = "//tools/build:export_symbols.py",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
)
