// The page that shows live counters in a browser.
#ifndef POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_
#define POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_

namespace pollux::tools {

// HTML with its style and script. It requests only live.json, which must be the result of
// TakeSample() with connections.
extern const char* const kLivePage;

}  // namespace pollux::tools

#endif  // POLLUX_TOOLS_EXPORTER_LIVE_PAGE_H_
