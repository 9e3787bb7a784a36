"""precompiled_header: headers that most sources include, parsed once.

A source that is compiled with `-include tools/build/NAME.h` and sees the target `NAME` starts
from gcc's precompiled header of the same name. The header itself is empty where precompiled
headers are off (clang cannot read gcc's).
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    outputs = [header]
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    if not ctx.attr.enabled:
        ctx.actions.write(header, "")
    else:
        ctx.actions.symlink(output = header, target_file = ctx.file.src)
        precompiled = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
        outputs.append(precompiled)
        toolchain = find_cpp_toolchain(ctx)
        features = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        )
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            source_file = header.path,
            output_file = precompiled.path,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts +
                                 ctx.attr.copts + ["-x", "c++-header"],
            quote_include_directories = context.quote_includes,
            include_directories = context.includes,
            system_include_directories = context.system_includes,
            preprocessor_defines = context.defines,
            use_pic = True,
        )
        ctx.actions.run(
            executable = cc_common.get_tool_for_action(
                feature_configuration = features,
                action_name = "c++-compile",
            ),
            arguments = cc_common.get_memory_inefficient_command_line(
                feature_configuration = features,
                action_name = "c++-compile",
                variables = variables,
            ),
            env = cc_common.get_environment_variables(
                feature_configuration = features,
                action_name = "c++-compile",
                variables = variables,
            ),
            inputs = depset(
                [header, ctx.file.src],
                transitive = [toolchain.all_files, context.headers],
            ),
            outputs = [precompiled],
            mnemonic = "PrecompileHeader",
            progress_message = "Precompiling " + ctx.file.src.short_path,
        )
    return [
        DefaultInfo(files = depset(outputs)),
        CcInfo(compilation_context = cc_common.create_compilation_context(
            defines = context.defines,
            headers = depset(outputs),
        )),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "as those of the sources that start from it"),
        "deps": attr.label_list(providers = [CcInfo]),
        "enabled": attr.bool(default = True),
        "src": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
