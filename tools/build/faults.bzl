"""Builds a test with planted faults compiled in (stack/base/planted_fault.h)."""

def _with_faults_impl(settings, attr):
    return {"//command_line_option:copt": settings["//command_line_option:copt"] +
                                          ["-DPOLLUX_PLANTED_FAULTS"]}

_with_faults = transition(
    implementation = _with_faults_impl,
    inputs = ["//command_line_option:copt"],
    outputs = ["//command_line_option:copt"],
)

def _faulty_test_impl(ctx):
    executable = ctx.actions.declare_file(ctx.label.name)
    binary = ctx.attr.binary[0][DefaultInfo]
    ctx.actions.symlink(
        output = executable,
        target_file = binary.files_to_run.executable,
        is_executable = True,
    )
    return [DefaultInfo(executable = executable, runfiles = binary.default_runfiles)]

# Runs `binary` (a cc_test, tagged manual) as built with every dependency under
# POLLUX_PLANTED_FAULTS.
faulty_test = rule(
    implementation = _faulty_test_impl,
    attrs = {
        "binary": attr.label(cfg = _with_faults, executable = True, mandatory = True),
        "_whitelist_function_transition": attr.label(
            default = "@bazel_tools//tools/whitelists/function_transition_whitelist",
        ),
    },
    test = True,
)
