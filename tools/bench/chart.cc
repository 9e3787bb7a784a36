#include "tools/bench/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace pollux::tools {
namespace {

// In units of the viewBox.
constexpr double kWidth = 640, kHeight = 380;
constexpr double kLeft = 78, kRight = 30, kTop = 14, kBottom = 58;
constexpr double kInnerWidth = kWidth - kLeft - kRight;
constexpr double kInnerHeight = kHeight - kTop - kBottom;
// Points closer to the one before are not drawn.
constexpr double kResolution = 0.8;
constexpr size_t kMaxTicks = 9;

// Told apart with any kind of colour vision (after Okabe and Ito), and by mark and dash besides.
constexpr std::array<const char*, Chart::kMaxSeries> kLight = {
    "#0072b2", "#c84e00", "#007a5a", "#a8447f", "#8a6100", "#2a8fc7", "#555555", "#6a3d9a"};
constexpr std::array<const char*, Chart::kMaxSeries> kDark = {
    "#5ab4f0", "#ff9248", "#35c99b", "#f0a3cb", "#f2c14e", "#9bd6fa", "#c4c4c4", "#bf9bea"};
constexpr std::array<const char*, Chart::kMaxSeries> kDashes = {"", "7 3", "2 3", "9 3 2 3",
                                                                "", "7 3", "2 3", "9 3 2 3"};

struct Range {
  double low = 0, high = 1;
};

// Where a value stands on its scale; NaN for what has no place there.
double Place(Scale scale, double value) {
  if (scale == Scale::kLog || scale == Scale::kBytes) {
    return value > 0 ? (scale == Scale::kLog ? std::log10(value) : std::log2(value)) : NAN;
  }
  if (scale == Scale::kNines) return value >= 0 && value < 1 ? -std::log10(1 - value) : NAN;
  return value;
}

// What all points need, up to round numbers.
Range RangeOf(const Axis& axis, const std::vector<double>& values) {
  if (axis.scale == Scale::kPercent) return {0, 1};
  Range range{INFINITY, -INFINITY};
  for (const double value : values) {
    const double at = Place(axis.scale, value);
    if (!std::isfinite(at)) continue;
    range.low = std::min(range.low, at);
    range.high = std::max(range.high, at);
  }
  if (range.low > range.high) return {0, 1};
  if (axis.scale == Scale::kLinear || axis.scale == Scale::kCount) {
    return {0, range.high > 0 ? range.high * 1.05 : 1};
  }
  if (axis.scale == Scale::kNines) return {0, std::max(1.0, range.high)};
  if (axis.scale == Scale::kBytes) return {range.low - 0.5, range.high + 0.5};
  // To the next 1, 2 or 5.
  const auto round = [](double at, bool up) {
    const double decade = std::floor(at);
    const double steps[] = {0, std::log10(2), std::log10(5), 1};
    double best = up ? decade + 1 : decade;
    for (const double step : steps) {
      const double candidate = decade + step;
      if (up ? candidate >= at - 1e-9 && candidate < best : candidate <= at + 1e-9) {
        best = candidate;
      }
    }
    return best;
  };
  range = {round(range.low, false), round(range.high, true)};
  if (range.high - range.low < 0.3) range.high = range.low + 1;
  return range;
}

struct Tick {
  double at;  // on the scale
  std::string label;
};

std::vector<Tick> LinearTicks(const Range& range, double least_step) {
  const double raw = (range.high - range.low) / 6;
  const double decade = std::pow(10, std::floor(std::log10(raw)));
  const double nice = decade * (raw <= decade * 1   ? 1
                                : raw <= decade * 2 ? 2
                                : raw <= decade * 5 ? 5
                                                    : 10);
  const double step = std::max(nice, least_step);
  std::vector<Tick> ticks;
  for (int i = 0; i * step <= range.high && ticks.size() <= kMaxTicks; ++i) {
    ticks.push_back({i * step, ShortNumber(i * step)});
  }
  return ticks;
}

std::vector<Tick> LogTicks(const Range& range) {
  std::vector<Tick> ticks;
  const bool few = range.high - range.low <= 2.5;
  const auto every = static_cast<int>(std::ceil((range.high - range.low) / kMaxTicks));
  for (int decade = static_cast<int>(std::floor(range.low)); decade <= range.high + 1e-9;
       decade += few ? 1 : every) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit > 1 && !few) break;
      const double at = decade + std::log10(digit);
      if (at < range.low - 1e-9 || at > range.high + 1e-9) continue;
      ticks.push_back({at, ShortNumber(digit * std::pow(10, decade))});
    }
  }
  return ticks;
}

std::vector<Tick> TicksOf(const Axis& axis, const Range& range) {
  std::vector<Tick> ticks;
  switch (axis.scale) {
    case Scale::kLinear:
      return LinearTicks(range, 0);
    case Scale::kCount:
      return LinearTicks(range, 1);
    case Scale::kLog:
      return LogTicks(range);
    case Scale::kPercent:
      for (const int percent : {0, 20, 40, 60, 80, 100}) {
        ticks.push_back({percent / 100.0, absl::StrCat(percent, " %")});
      }
      return ticks;
    case Scale::kNines:
      ticks.push_back({0, "0 %"});
      ticks.push_back({std::log10(2), "50 %"});
      for (int nines = 1; nines <= range.high + 1e-9; ++nines) {
        ticks.push_back({static_cast<double>(nines),
                         nines == 1 ? "90 %"
                                    : absl::StrFormat("%.*f %%", std::max(0, nines - 2),
                                                      100 - std::pow(10, 2 - nines))});
      }
      return ticks;
    case Scale::kBytes: {
      // Multiples, so that the units themselves are among them.
      int every = 1;
      for (const int step : {2, 5, 10}) {
        if ((range.high - range.low) / every > 10) every = step;
      }
      for (int power = static_cast<int>(std::ceil(range.low / every)) * every; power <= range.high;
           power += every) {
        ticks.push_back({static_cast<double>(power), ShortBytes(std::exp2(power))});
      }
      return ticks;
    }
  }
  return ticks;
}

struct Frame {
  const Chart& chart;
  Range x, y;

  double X(double at) const { return kLeft + (at - x.low) / (x.high - x.low) * kInnerWidth; }
  double Y(double at) const {
    return kTop + kInnerHeight - (at - y.low) / (y.high - y.low) * kInnerHeight;
  }
};

std::string Label(const Axis& axis, double value) {
  if (axis.scale == Scale::kBytes) return ShortBytes(value);
  if (axis.scale == Scale::kNines || axis.scale == Scale::kPercent) {
    return absl::StrFormat("%.5g %%", 100 * value);
  }
  return ShortNumber(value);
}

// A mark of the series' own shape around (x, y).
std::string Mark(size_t series, double x, double y) {
  switch (series % 4) {
    case 0:
      return absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"", x, y);
    case 1:
      return absl::StrFormat("<rect x=\"%.1f\" y=\"%.1f\" width=\"7\" height=\"7\"", x - 3.5,
                             y - 3.5);
    case 2:
      return absl::StrFormat("<path d=\"M%.1f %.1fl4.5 8h-9z\"", x, y - 5);
    default:
      return absl::StrFormat("<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"", x, y - 5);
  }
}

void DrawAxes(const Frame& frame, std::string* svg) {
  const double bottom = kTop + kInnerHeight, right = kLeft + kInnerWidth;
  for (const Tick& tick : TicksOf(frame.chart.y, frame.y)) {
    const double y = frame.Y(tick.at);
    absl::StrAppendFormat(
        svg,
        "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
        kLeft, y, right, y, kLeft - 8, y + 4, EscapeHtml(tick.label));
  }
  for (const Tick& tick : TicksOf(frame.chart.x, frame.x)) {
    const double x = frame.X(tick.at);
    absl::StrAppendFormat(
        svg,
        "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
        x, kTop, x, bottom, x, bottom + 19, EscapeHtml(tick.label));
  }
  absl::StrAppendFormat(
      svg,
      "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n"
      "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n"
      "<text class=\"label\" transform=\"translate(16 %.1f) rotate(-90)\" "
      "text-anchor=\"middle\">%s</text>\n",
      kLeft, kTop, bottom, right, kLeft + kInnerWidth / 2, kHeight - 10,
      EscapeHtml(frame.chart.x.label), kTop + kInnerHeight / 2, EscapeHtml(frame.chart.y.label));
}

void DrawSeries(const Frame& frame, size_t number, std::string* svg) {
  const ChartSeries& series = frame.chart.series[number];
  std::string path, marks;
  double last_x = -INFINITY, last_y = -INFINITY;
  for (const auto& [x_value, y_value] : series.points) {
    const double x = frame.X(Place(frame.chart.x.scale, x_value));
    const double y = frame.Y(Place(frame.chart.y.scale, y_value));
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    if (std::abs(x - last_x) < kResolution && std::abs(y - last_y) < kResolution) continue;
    absl::StrAppendFormat(&path, "%s%.1f %.1f", path.empty() ? "M" : "L", x, y);
    last_x = x;
    last_y = y;
    if (!frame.chart.marks) continue;
    absl::StrAppend(&marks, Mark(number, x, y), "><title>", EscapeHtml(series.name), ": ",
                    EscapeHtml(Label(frame.chart.x, x_value)), ", ",
                    EscapeHtml(Label(frame.chart.y, y_value)), "</title>",
                    number % 4 == 0   ? "</circle>"
                    : number % 4 == 1 ? "</rect>"
                                      : "</path>",
                    "\n");
  }
  absl::StrAppendFormat(
      svg,
      "<g class=\"series s%d\"><path class=\"curve\" d=\"%s\"><title>%s</title></path>\n%s</g>\n",
      number, path, EscapeHtml(series.name), marks);
}

std::string Legend(const Chart& chart) {
  std::string html = "<ul class=\"legend\">\n";
  for (size_t i = 0; i < chart.series.size(); ++i) {
    absl::StrAppendFormat(&html,
                          "<li><svg class=\"sample\" viewBox=\"0 0 36 14\" aria-hidden=\"true\">"
                          "<g class=\"series s%d\"><path class=\"curve\" d=\"M1 7H35\"/>%s</g>"
                          "</svg>%s</li>\n",
                          i, chart.marks ? Mark(i, 18, 7) + "/>" : "",
                          EscapeHtml(chart.series[i].name));
  }
  return html + "</ul>\n";
}

std::string Variables(const std::array<const char*, Chart::kMaxSeries>& colours) {
  std::string css;
  for (size_t i = 0; i < colours.size(); ++i) absl::StrAppend(&css, "--s", i, ":", colours[i], ";");
  return css;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ShortBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  const int decimals = bytes == std::floor(bytes) ? 0 : 1;
  return absl::StrFormat("%.*f %s", decimals, bytes, kUnits[unit]);
}

std::string ShortNumber(double number) {
  if (number == 0) return "0";
  const double size = std::abs(number);
  if (size < 1000) {
    std::string text = absl::StrFormat("%.3g", number);
    return size < 1e-4 || text.find('e') == std::string::npos ? text
                                                              : absl::StrFormat("%.0f", number);
  }
  const std::string digits = absl::StrFormat("%.0f", size);
  std::string grouped = number < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string RenderChart(const Chart& chart) {
  Chart shown = chart;
  if (shown.series.size() > Chart::kMaxSeries) shown.series.resize(Chart::kMaxSeries);
  std::vector<double> xs, ys;
  for (const ChartSeries& series : shown.series) {
    for (const auto& [x, y] : series.points) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  const Frame frame{shown, RangeOf(shown.x, xs), RangeOf(shown.y, ys)};
  std::string html = absl::StrFormat(
      "<figure class=\"chart\">\n<figcaption><h3>%s</h3>%s</figcaption>\n"
      "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">\n",
      EscapeHtml(shown.title),
      shown.note.empty() ? "" : absl::StrCat("<p>", EscapeHtml(shown.note), "</p>"), kWidth,
      kHeight, EscapeHtml(absl::StrCat(shown.title, ": ", shown.y.label, " by ", shown.x.label)));
  DrawAxes(frame, &html);
  for (size_t i = 0; i < shown.series.size(); ++i) DrawSeries(frame, i, &html);
  return absl::StrCat(html, "</svg>\n", Legend(shown), "</figure>\n");
}

std::string ChartStyle() {
  std::string css = absl::StrCat(
      ":root{", Variables(kLight), "}\n@media (prefers-color-scheme:dark){:root{", Variables(kDark),
      "}}\n",
      ".chart{margin:0;padding:1rem 1.1rem .7rem;background:var(--card);"
      "border:1px solid var(--line);border-radius:10px}\n"
      ".chart h3{margin:0;font-size:1rem}\n"
      ".chart p{margin:.2rem 0 .5rem;font-size:.85rem;color:var(--dim)}\n"
      ".chart svg{display:block;width:100%;height:auto}\n"
      ".grid{stroke:var(--line);stroke-width:1}\n"
      ".axis{fill:none;stroke:var(--dim);stroke-width:1.2}\n"
      ".tick{font-size:12.5px;fill:var(--dim)}\n"
      ".label{font-size:13.5px;fill:var(--ink)}\n"
      ".curve{fill:none;stroke-width:2.2;stroke-linejoin:round}\n"
      ".legend{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.4rem 0 0;padding:0;"
      "list-style:none;font-size:.85rem}\n"
      ".legend li{display:flex;align-items:center;gap:.4rem}\n"
      ".legend .sample{width:36px;flex:none}\n");
  for (size_t i = 0; i < Chart::kMaxSeries; ++i) {
    absl::StrAppendFormat(
        &css, ".s%d{stroke:var(--s%d);fill:var(--s%d)}.s%d .curve{stroke-dasharray:%s}\n", i, i, i,
        i, *kDashes[i] == '\0' ? "none" : kDashes[i]);
  }
  return css;
}

}  // namespace pollux::tools
