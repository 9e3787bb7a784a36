// Compiled when a program is linked: with --stamp, Bazel defines what --embed_label gave.
extern const char pollux_build_label[];
const char pollux_build_label[] = BUILD_EMBED_LABEL;
