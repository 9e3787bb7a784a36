#include "tools/bench/page.h"

#include <sys/utsname.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tools/bench/core_to_core.h"

namespace pollux::tools {
namespace {

// A distribution's last values are single ones: a percentile closer to the top than half a value
// has nothing to show.
std::vector<std::pair<double, double>> Steps(const Histogram& latency_ns, bool by_percentile) {
  std::vector<std::pair<double, double>> points;
  const auto total = static_cast<double>(latency_ns.count());
  uint64_t seen = 0;
  latency_ns.ForEach([&](uint64_t bound_ns, uint64_t count) {
    const double us = static_cast<double>(bound_ns) * 1e-3;
    const double before = static_cast<double>(seen) / total;
    seen += count;
    const double after = std::min(static_cast<double>(seen), total - 0.5) / total;
    if (by_percentile) {
      points.emplace_back(before, us);
      points.emplace_back(after, us);
    } else {
      points.emplace_back(us, before);
      points.emplace_back(us, static_cast<double>(seen) / total);
    }
  });
  return points;
}

Chart Distribution(const std::string& title, const NamedLatencies& latencies_ns,
                   bool by_percentile) {
  const Axis latency = {.label = "latency, \u00b5s", .scale = Scale::kLog};
  Chart chart;
  chart.title = title;
  chart.marks = false;
  if (by_percentile) {
    chart.note =
        "Steps to the right: the slowest tenth, hundredth, thousandth. Low and flat is good.";
    chart.x = {.label = "percentile", .scale = Scale::kNines};
    chart.y = latency;
  } else {
    chart.note = "The share of operations that took no longer. Steep and to the left is good.";
    chart.x = latency;
    chart.y = {.label = "operations, cumulative", .scale = Scale::kPercent};
  }
  for (const auto& [name, histogram] : latencies_ns) {
    chart.series.push_back({name, Steps(*histogram, by_percentile)});
  }
  return chart;
}

std::string TableHtml(const PageTable& table) {
  std::string html = absl::StrCat("<div class=\"scroll\"><table>\n<caption>",
                                  EscapeHtml(table.caption), "</caption>\n<thead><tr>");
  for (const std::string& name : table.head) {
    absl::StrAppend(&html, "<th scope=\"col\">", EscapeHtml(name), "</th>");
  }
  absl::StrAppend(&html, "</tr></thead>\n<tbody>\n");
  for (const std::vector<std::string>& row : table.rows) {
    absl::StrAppend(&html, "<tr>");
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&html, i == 0 ? "<th scope=\"row\">" : "<td>", EscapeHtml(row[i]),
                      i == 0 ? "</th>" : "</td>");
    }
    absl::StrAppend(&html, "</tr>\n");
  }
  return absl::StrCat(html, "</tbody>\n</table></div>\n");
}

std::string VerdictsHtml(const std::vector<Verdict>& verdicts) {
  std::string html =
      "<div class=\"scroll\"><table class=\"verdicts\">\n<caption>Verdicts: medians of the ratios "
      "of each pass</caption>\n<thead><tr><th scope=\"col\">ratio</th><th scope=\"col\">median</th>"
      "<th scope=\"col\">low</th><th scope=\"col\">high</th><th scope=\"col\">target</th>"
      "<th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n";
  for (const Verdict& verdict : verdicts) {
    const char* judged = verdict.met() ? "met" : "missed";
    const char* mark = verdict.met() ? "\u2713 " : "\u2717 ";
    absl::StrAppendFormat(
        &html,
        "<tr><th scope=\"row\">%s</th><td>%.2f</td><td>%.2f</td><td>%.2f</td><td>%s</td>"
        "<td class=\"%s\">%s%s</td></tr>\n",
        EscapeHtml(verdict.name), verdict.value(), verdict.ratios.Low(), verdict.ratios.High(),
        TargetWords(verdict), verdict.target ? judged : "unjudged", verdict.target ? mark : "",
        VerdictWords(verdict));
  }
  return absl::StrCat(html, "</tbody>\n</table></div>\n");
}

std::string SectionHtml(const PageSection& section) {
  std::string html = absl::StrCat("<section>\n<h2>", EscapeHtml(section.title), "</h2>\n");
  if (!section.note.empty()) absl::StrAppend(&html, "<p>", EscapeHtml(section.note), "</p>\n");
  if (!section.verdicts.empty()) absl::StrAppend(&html, VerdictsHtml(section.verdicts));
  if (!section.charts.empty()) {
    absl::StrAppend(&html, "<div class=\"charts\">\n");
    for (const Chart& chart : section.charts) absl::StrAppend(&html, RenderChart(chart));
    absl::StrAppend(&html, "</div>\n");
  }
  for (const PageTable& table : section.tables) absl::StrAppend(&html, TableHtml(table));
  return absl::StrCat(html, "</section>\n");
}

constexpr char kStyle[] =
    ":root{color-scheme:light dark;--ground:#f6f7f9;--card:#fff;--ink:#1b1f24;--dim:#59636e;"
    "--line:#d9dee4;--good:#00694d;--bad:#b03a00}\n"
    "@media (prefers-color-scheme:dark){:root{--ground:#111418;--card:#191e24;--ink:#e8ebef;"
    "--dim:#a3acb7;--line:#333b45;--good:#4fd0a5;--bad:#ff9a5c}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--ground);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif}\n"
    "main{max-width:1180px;margin:0 auto;padding:2rem 1.2rem 4rem}\n"
    "h1{margin:0 0 .3rem;font-size:1.9rem;line-height:1.2}\n"
    "h2{margin:2.6rem 0 .4rem;font-size:1.35rem}\n"
    "p{margin:.3rem 0 1rem;max-width:75ch}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));"
    "gap:1rem;margin:1rem 0}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1.2rem;margin:0;"
    "padding:1rem 1.1rem;background:var(--card);border:1px solid var(--line);border-radius:10px}\n"
    "dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}\n"
    ".scroll{overflow-x:auto;margin:1rem 0}\n"
    "table{border-collapse:collapse;background:var(--card);border:1px solid var(--line);"
    "font-variant-numeric:tabular-nums;font-size:.92rem}\n"
    "caption{text-align:left;color:var(--dim);font-size:.85rem;padding:.2rem 0}\n"
    "th,td{padding:.3rem .8rem;border-bottom:1px solid var(--line);text-align:right;"
    "white-space:nowrap}\n"
    "th:first-child{text-align:left;font-weight:500}\n"
    "thead th{color:var(--dim);font-weight:600}\n"
    ".met{color:var(--good);font-weight:600}.missed{color:var(--bad);font-weight:600}\n"
    "@media print{body{background:#fff}.chart{break-inside:avoid}}\n";

std::string ProcessorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "model name")) continue;
    const size_t colon = rest.find(':');
    if (colon != absl::string_view::npos) {
      return std::string(absl::StripAsciiWhitespace(rest.substr(colon + 1)));
    }
  }
  return "unknown";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> MachineConditions() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  utsname names{};
  uname(&names);
  return {
      {"date", date},
      {"processor", absl::StrCat(ProcessorName(), ", ", UsableCpus().size(), " CPUs to run on")},
      {"kernel", absl::StrCat(names.sysname, " ", names.release, ", ", names.machine)}};
}

Chart PercentileChart(const std::string& title, const NamedLatencies& latencies_ns) {
  return Distribution(title, latencies_ns, true);
}

Chart CdfChart(const std::string& title, const NamedLatencies& latencies_ns) {
  return Distribution(title, latencies_ns, false);
}

std::string RenderPage(const Page& page) {
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      // A browser asks the server for an icon otherwise.
      "<link rel=\"icon\" href=\"data:,\">\n<title>",
      EscapeHtml(page.title), "</title>\n<style>\n", kStyle, ChartStyle(),
      "</style>\n</head>\n<body>\n<main>\n<h1>", EscapeHtml(page.title), "</h1>\n<p>",
      EscapeHtml(page.lead), "</p>\n<h2>Conditions</h2>\n<dl>\n");
  for (const auto& [name, value] : page.conditions) {
    absl::StrAppend(&html, "<dt>", EscapeHtml(name), "</dt><dd>", EscapeHtml(value), "</dd>\n");
  }
  absl::StrAppend(&html, "</dl>\n");
  for (const PageSection& section : page.sections) absl::StrAppend(&html, SectionHtml(section));
  return absl::StrCat(html, "</main>\n</body>\n</html>\n");
}

PageFile::PageFile(const std::string& path) {
  if (!path.empty()) file_.emplace(path);
}

absl::Status PageFile::Write(const Page& page) {
  if (!file_) return absl::OkStatus();
  if (!file_->status().ok()) return file_->status();
  const std::string html = RenderPage(page);
  const auto* bytes = reinterpret_cast<const uint8_t*>(html.data());
  absl::Status status = WriteBlock(file_->fd(), 0, {bytes, html.size()});
  return status.ok() ? file_->Complete() : status;
}

}  // namespace pollux::tools
