// The page that shows live counters in a browser.
#ifndef POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_
#define POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_

namespace pollux::tools {

// HTML with its style and script. It asks for live.json beside it, which is TakeSample() with
// connections, and for nothing else.
extern const char* const kLivePage;

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_
