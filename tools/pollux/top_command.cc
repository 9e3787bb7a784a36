// pollux top: cores, ports and connections of the processes that run here, live.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/common/interrupt.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/pollux/commands.h"
#include "tools/stat/process_stat.h"
#include "tools/stat/top_view.h"

namespace pollux::tools {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct TopOptions {
  ProcessChoice processes;
  TopChoice choice;
  double interval_s = 2;
  uint64_t count = 0;  // screens; 0: until it is ended
  bool batch = false;
};

// Returns all that the tables need: {"processes": [...]}. A process that ends meanwhile is left
// out.
absl::StatusOr<Json> TakeSample(const ProcessChoice& choice) {
  auto processes = FindProcesses(choice);
  if (!processes.ok()) return processes.status();
  Json sample = {{"processes", Json::array()}};
  for (const auto& process : processes->answering) {
    absl::StatusOr<Json> stat = GatherStat(*process, /*queue_pairs=*/false);
    if (absl::IsCancelled(stat.status())) return stat.status();
    if (!stat.ok()) continue;
    absl::StatusOr<Json> connections = GatherConnections(*process, /*recorders=*/false);
    if (absl::IsCancelled(connections.status())) return connections.status();
    if (!connections.ok()) continue;
    (*stat)["connections"] = std::move((*connections)["connections"]);
    sample["processes"].push_back(*std::move(stat));
  }
  return sample;
}

// The lines of a queue pair's flight recorder, oldest first. NotFound if it no longer exists.
absl::StatusOr<std::vector<std::string>> TakeRecorder(const TopConnection& of) {
  auto processes = LookForProcesses({.pid = of.pid});
  if (!processes.ok()) return processes.status();
  if (!processes->silent.empty()) return absl::UnavailableError(processes->silent.front().reason);
  if (processes->answering.empty()) return absl::NotFoundError("the process has ended");
  absl::StatusOr<Json> told = processes->answering.front()->Ask("recorder", absl::StrCat(of.qpn));
  if (!told.ok()) return told.status();
  std::vector<std::string> lines;
  for (const Json& line : *told) {
    if (line.is_string()) lines.push_back(line.get<std::string>());
  }
  return lines;
}

class Top {
 public:
  explicit Top(TopOptions options) : options_(std::move(options)) {}

  // Without a terminal: whole tables, one below the other.
  absl::Status RunBatch() {
    if (absl::Status status = Next(); !status.ok()) return status;
    const char* separator = "";
    for (uint64_t taken = 1;; ++taken) {
      SleepUntilInterrupted(static_cast<int>(options_.interval_s * 1000));
      if (Interrupted()) break;
      const absl::Status status = Next();
      const bool is_last = taken == options_.count;
      if (!status.ok() && (is_last || absl::IsCancelled(status))) return status;
      // The tables go on, since they are to show that a process restarts or lacks a CPU.
      if (!status.ok() && status.message() != error_) Fail("top", status);
      error_ = std::string(status.message());
      if (!status.ok()) continue;
      TopTables tables = Tables();
      std::vector<std::string>& lines = tables.head;
      lines.insert(lines.end(), tables.rows.begin(), tables.rows.end());
      absl::Status printed =
          PrintOut(absl::StrCat(separator, Title(), "\n", absl::StrJoin(lines, "\n"), "\n"));
      if (!printed.ok() || is_last) return printed;
      separator = "\n";
    }
    return absl::OkStatus();
  }

  absl::Status RunScreen() {
    termios before;
    if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0 ||
        tcgetattr(STDIN_FILENO, &before) != 0) {
      return absl::FailedPreconditionError(
          "standard input or output is not a terminal; use --batch");
    }
    if (absl::Status status = Next(); !status.ok()) return status;
    // So that a signal of a new size ends poll().
    struct sigaction resized {};
    resized.sa_handler = [](int) {};
    sigaction(SIGWINCH, &resized, nullptr);
    termios raw = before;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    // Ctrl-Z and Ctrl-\ would leave the shell on this screen.
    raw.c_cc[VSUSP] = raw.c_cc[VQUIT] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    // Another screen without a cursor; the shell's comes back at the end.
    absl::Status status = PrintOut("\033[?1049h\033[?25l");
    const absl::Cleanup restore = [&before] {
      (void)PrintOut("\033[?25h\033[?1049l");
      tcsetattr(STDIN_FILENO, TCSANOW, &before);
    };
    uint64_t shown = 1;
    while (status.ok() && !quit_ && !Interrupted()) {
      status = Draw();
      const auto left = std::max<Clock::duration>(
          looked_at_ + std::chrono::milliseconds(static_cast<int64_t>(options_.interval_s * 1000)) -
              Clock::now(),
          Clock::duration::zero());
      // Keys have priority over the next sample, which may take longer than the interval.
      pollfd keys{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
      if (poll(&keys, 1, static_cast<int>(ms)) == 1) {
        Keys();
      } else if (left == Clock::duration::zero()) {
        if (shown++ == options_.count && options_.count != 0) break;
        error_ = std::string(Next().message());
      }
    }
    return status;
  }

 private:
  absl::Status Next() {
    absl::StatusOr<Json> sample = TakeSample(options_.processes);
    if (is_recorder_shown_) UpdateRecorder();
    // The interval begins at the end of a query, so workers get a pause even if their answers took
    // long.
    looked_at_ = Clock::now();
    if (!sample.ok()) return sample.status();
    before_ = std::exchange(now_, *std::move(sample));
    return absl::OkStatus();
  }

  TopTables Tables() const { return MakeTopTables(now_, before_, options_.choice); }

  // Of the selected connection. Keeps the last lines of one that has ended.
  void UpdateRecorder() {
    absl::StatusOr<std::vector<std::string>> lines = TakeRecorder(*selected_);
    recorder_status_ = lines.status();
    if (lines.ok()) recorder_ = *std::move(lines);
  }

  std::string Title() const {
    const size_t processes = now_.is_object() ? now_["processes"].size() : 0;
    std::string title = absl::StrFormat("pollux top: %u process%s, every %g s, by %s", processes,
                                        processes == 1 ? "" : "es", options_.interval_s,
                                        TopSortName(options_.choice.sort));
    if (!options_.choice.filter.empty()) {
      absl::StrAppend(&title, ", only ", Printable(options_.choice.filter));
    }
    return title;
  }

  absl::Status Draw() const {
    winsize size{};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    // A serial console has no size, or only the number of rows or columns that stty has set.
    if (size.ws_row == 0) size.ws_row = 24;
    if (size.ws_col == 0) size.ws_col = 80;
    const std::vector<std::string> lines = is_recorder_shown_
                                               ? RecorderLines(size.ws_row, size.ws_col)
                                               : TableLines(size.ws_row, size.ws_col);
    std::string text = "\033[H";
    for (const std::string& line : lines) {
      absl::StrAppend(&text, text.size() > 3 ? "\n" : "", line, "\033[K");
    }
    return PrintOut(absl::StrCat(text, "\033[J"));
  }

  std::vector<std::string> TableLines(size_t rows, size_t columns) const {
    TopTables tables = Tables();
    std::vector<std::string> head = {Title()};
    head.push_back(typing_ ? absl::StrCat("filter: ", Printable(options_.choice.filter), "_")
                   : !error_.empty()
                       ? error_
                       : "r:rate p:packets t:resent a:age n:peer s:state /:filter Enter:recorder "
                         "q:quit");
    for (std::string& line : tables.head) head.push_back(std::move(line));
    const size_t at = PlaceOfSelected(tables);
    size_t first = 0;
    if (at < tables.rows.size()) {
      tables.rows[at].front() = '>';
      const size_t room = rows - std::min(rows, head.size());
      first = at < room ? 0 : at - room + 1;
    }
    return Fit(std::move(head), tables.rows, first, rows, columns);
  }

  std::vector<std::string> RecorderLines(size_t rows, size_t columns) const {
    std::vector<std::string> head = {
        absl::StrFormat("pollux top: flight recorder of process %u, queue pair %u, peer %s%s",
                        selected_->pid, selected_->qpn, selected_->peer,
                        absl::IsNotFound(recorder_status_) ? "; it has ended" : ""),
        recorder_status_.ok() || absl::IsNotFound(recorder_status_)
            ? "up, down:scroll Enter:back q:quit"
            : std::string(recorder_status_.message())};
    const size_t room = rows - std::min(rows, head.size());
    const size_t first = recorder_.size() - std::min(recorder_.size(), room + scrolled_);
    return Fit(std::move(head), recorder_, first, rows, columns);
  }

  // The number of rows if none is selected, or the selected connection has ended.
  size_t PlaceOfSelected(const TopTables& tables) const {
    if (!selected_) return tables.rows.size();
    return static_cast<size_t>(std::ranges::find(tables.connections, *selected_) -
                               tables.connections.begin());
  }

  void Move(bool down) {
    if (is_recorder_shown_) {
      if (!down) scrolled_ = std::min(scrolled_ + 1, recorder_.size());
      if (down && scrolled_ > 0) --scrolled_;
      return;
    }
    const TopTables tables = Tables();
    if (tables.rows.empty()) return;
    size_t at = PlaceOfSelected(tables);
    if (at == tables.rows.size()) {
      at = 0;
    } else if (down) {
      at = std::min(at + 1, tables.rows.size() - 1);
    } else if (at > 0) {
      --at;
    }
    selected_ = tables.connections[at];
  }

  void ShowRecorder() {
    const TopTables tables = Tables();
    if (tables.rows.empty()) return;
    if (PlaceOfSelected(tables) == tables.rows.size()) Move(/*down=*/true);
    is_recorder_shown_ = true;
    scrolled_ = 0;
    recorder_.clear();
    UpdateRecorder();
  }

  void Keys() {
    char keys[1024];  // so that no key of several bytes is cut
    const ssize_t bytes = read(STDIN_FILENO, keys, sizeof keys);
    if (bytes <= 0) quit_ = true;  // the terminal is gone
    for (ssize_t i = 0; i < bytes; ++i) {
      // An arrow or another key of several bytes.
      if (keys[i] == '\033' && i + 1 < bytes) {
        const bool is_up_or_down = i + 2 < bytes && (keys[i + 1] == '[' || keys[i + 1] == 'O') &&
                                   (keys[i + 2] == 'A' || keys[i + 2] == 'B');
        if (!is_up_or_down) return;
        Move(/*down=*/keys[i + 2] == 'B');
        i += 2;
        continue;
      }
      if (typing_) {
        Type(keys[i]);
      } else {
        Press(keys[i]);
      }
    }
  }

  void Press(char key) {
    constexpr std::pair<char, TopSort> kSorts[] = {
        {'r', TopSort::kRate}, {'p', TopSort::kPackets}, {'t', TopSort::kRetransmissions},
        {'a', TopSort::kAge},  {'n', TopSort::kPeer},    {'s', TopSort::kState}};
    for (const auto& [letter, sort] : kSorts) {
      if (key == letter) options_.choice.sort = sort;
    }
    quit_ |= key == 'q';
    const bool is_enter = key == '\n' || key == '\r';
    if (is_recorder_shown_) {
      is_recorder_shown_ = !is_enter && key != '\033';
      return;
    }
    if (is_enter) ShowRecorder();
    if (key == '/') {
      typing_ = true;
      options_.choice.filter.clear();
    }
    if (key == '\033') options_.choice.filter.clear();
  }

  void Type(char key) {
    constexpr char kDelete = 127, kBackspace = 8;
    std::string& filter = options_.choice.filter;
    if (key == '\n' || key == '\r') {
      typing_ = false;
    } else if (key == '\033') {
      typing_ = false;
      filter.clear();
    } else if (key == kDelete || key == kBackspace) {
      if (!filter.empty()) filter.pop_back();
    } else if (key >= ' ') {
      filter += key;
    }
  }

  TopOptions options_;
  Json before_, now_;
  Clock::time_point looked_at_;  // when the last query ended
  std::string error_;            // why there is no newer sample
  std::optional<TopConnection> selected_;
  bool is_recorder_shown_ = false;  // of selected_
  std::vector<std::string> recorder_;
  size_t scrolled_ = 0;           // lines below the screen
  absl::Status recorder_status_;  // why there are no newer lines
  bool typing_ = false;
  bool quit_ = false;
};

}  // namespace

int TopCommand(int argc, char** argv) {
  TopOptions top;
  Options options(
      "top [options]",
      "Shows cores, ports and connections of the pollux processes that run here, live: packets\n"
      "and bytes per second, busy share, retransmissions, drops by reason, round-trip times.\n"
      "Keys: r, p, t, a, n, s sort by rate, packets, retransmissions, age, peer or state;\n"
      "/ types a filter, Enter ends it, Esc removes it; the up and down arrows select a\n"
      "connection, Enter shows its flight recorder; q quits.");
  options.Text("file-prefix", "NAME", "only processes of this name (pollux-PID)",
               &top.processes.file_prefix);
  options.Switch("batch", "print the tables, without a terminal", &top.batch);
  options.Letter("batch", 'b');
  options.Number("count", "end after this many tables or screens", 1, 1'000'000'000, &top.count);
  options.Letter("count", 'n');
  options.Real("interval", "seconds between two tables or screens (2)", 0.1, 86'400,
               &top.interval_s);
  options.Letter("interval", 'd');
  options.Parsed("sort", "KEY", "rate, packets, retransmissions, age, peer or state (rate)",
                 [&top](const std::string& text) {
                   const auto sort = ParseTopSort(text);
                   if (sort) top.choice.sort = *sort;
                   return sort ? absl::OkStatus()
                               : absl::InvalidArgumentError(absl::StrCat(
                                     "'", text,
                                     "' is not one of rate, packets, retransmissions, age, peer, "
                                     "state"));
                 });
  options.Text("filter", "TEXT", "only connections with this text in their row",
               &top.choice.filter);
  std::vector<std::string> operands;
  if (auto done = ParseOperands("top", options, argc, argv, 0, 0, &operands)) return *done;
  CatchInterrupts(ClosedPipe::kEnds);
  const bool batch = top.batch;
  Top view(std::move(top));
  const absl::Status status = batch ? view.RunBatch() : view.RunScreen();
  return status.ok() || absl::IsCancelled(status) ? kExitOk : Fail("top", status);
}

}  // namespace pollux::tools
