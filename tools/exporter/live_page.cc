#include "tools/exporter/live_page.h"

namespace pollux::tools {

const char* const kLivePage =
#include "tools/exporter/live_page.inc"
    ;

}  // namespace pollux::tools
