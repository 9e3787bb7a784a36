// Decoded frames as lines for people and for programs.
#ifndef POLLUX_TOOLS_DECODE_TEXT_H_
#define POLLUX_TOOLS_DECODE_TEXT_H_

#include <cstdint>
#include <string>

#include "tools/decode/decoder.h"

namespace pollux::decode {

struct FrameTime {
  uint64_t number = 0;       // from 1, as tshark counts
  uint64_t ns = 0;           // since 1970
  uint64_t since_first = 0;  // ns after the first frame of the file; 0 if the clock was set back
};

// "     3   0.000012345  192.0.2.2 > 192.0.2.1  UD SEND Only ...", followed by DecodedFrame::cut in
// parentheses and by " !! " with the problem.
std::string ToLine(const FrameTime& time, const DecodedFrame& frame);
// One line for each header, with lists and nested headers indented further. Each line ends with a
// newline.
std::string ToDetails(const DecodedFrame& frame);
// One object in one line: "frame", "time_ns", "ok", "problem" and "cut" if there are any, "roce",
// "source", "destination", "summary", and the headers.
std::string ToJsonLine(const FrameTime& time, const DecodedFrame& frame);

}  // namespace pollux::decode

#endif  // POLLUX_TOOLS_DECODE_TEXT_H_
