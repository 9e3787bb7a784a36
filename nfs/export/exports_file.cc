#include "nfs/export/exports_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "stack/base/address.h"
#include "stack/base/fd.h"

namespace pollux::nfs {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// The server always has the effect of these options, or they mean nothing for NFS over RDMA.
constexpr std::array<absl::string_view, 14> kAlways = {
    "sync",     "wdelay",       "no_wdelay",        "hide",     "nocrossmnt",
    "insecure", "secure_locks", "no_subtree_check", "auth_nlm", "no_acl",
    "no_pnfs",  "sign_fh",      "xprtsec=none",     "sec=sys",
};

struct OptionNote {
  absl::string_view name;
  absl::string_view note;
};

// Harmless: the server is stricter, or clients of version 3 do not ask.
constexpr std::array<OptionNote, 9> kWithoutEffect = {{
    {"async", "every change is stored before its reply"},
    {"secure", "source ports are not checked, as Linux does not over RDMA"},
    {"subtree_check", "file handles lead out of the export only as nfsd's manual says"},
    {"insecure_locks", "locks are checked as accesses are"},
    {"no_auth_nlm", "locks are checked as accesses are"},
    {"fsid", "file handles identify the export by its path"},
    {"pnfs", "NFS version 4 is not served"},
    {"security_label", "NFS version 4 is not served"},
    {"nordirplus", "READDIRPLUS is always served"},
}};

constexpr std::array<OptionNote, 8> kLacking = {{
    {"crossmnt", "file systems mounted below an export are not part of it; export each"},
    {"nohide", "file systems mounted below an export are not part of it; mount each on the client"},
    {"mountpoint", "nfsd does not check whether a directory is a mount point"},
    {"mp", "nfsd does not check whether a directory is a mount point"},
    {"refer", "referrals are of NFS version 4, which is not served"},
    {"replicas", "replicas are of NFS version 4, which is not served"},
    {"sec", "AUTH_SYS is the only flavor (sec=sys)"},
    {"xprtsec", "RDMA has no TLS"},
}};

template <size_t kCount>
const OptionNote* Find(const std::array<OptionNote, kCount>& notes, absl::string_view name) {
  const auto found = std::ranges::find(notes, name, &OptionNote::name);
  return found == notes.end() ? nullptr : &*found;
}

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Splits the text into the words of logical lines.
class ExportLines {
 public:
  explicit ExportLines(absl::string_view text) : text_(text) {}

  bool AtEnd() const { return text_.empty(); }
  size_t line() const { return line_; }  // of the last word
  // Returns the words up to the end of a logical line. InvalidArgument without file and line.
  absl::StatusOr<std::vector<std::string>> Next() {
    std::vector<std::string> words;
    while (SkipBlanks()) {
      auto word = Word();
      if (!word.ok()) return word.status();
      words.push_back(*std::move(word));
    }
    return words;
  }

 private:
  bool TakeContinuation() {
    if (!absl::ConsumePrefix(&text_, "\\\n")) return false;
    ++next_line_;
    return true;
  }
  // Returns false at the end of the logical line, which is then skipped.
  bool SkipBlanks() {
    while (true) {
      if (TakeContinuation()) continue;
      if (text_.empty()) return false;
      if (text_.front() == '#') text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      if (text_.empty()) return false;
      if (absl::ConsumePrefix(&text_, "\n")) {
        ++next_line_;
        return false;
      }
      if (!absl::ConsumePrefix(&text_, " ") && !absl::ConsumePrefix(&text_, "\t") &&
          !absl::ConsumePrefix(&text_, "\r")) {
        return true;
      }
    }
  }
  absl::StatusOr<std::string> Word() {
    std::string word;
    bool quoted = false;
    line_ = next_line_;
    while (!text_.empty() && text_.front() != '\n') {
      const char c = text_.front();
      if (absl::StartsWith(text_, "\\\n") || (!quoted && (c == ' ' || c == '\t' || c == '\r')))
        break;
      if (c == '"') {
        quoted = !quoted;
        text_.remove_prefix(1);
      } else if (c == '\\' && text_.size() > 3 && text_[1] <= '3' &&
                 std::ranges::all_of(text_.substr(1, 3), IsOctal)) {
        word += static_cast<char>((text_[1] - '0') * 64 + (text_[2] - '0') * 8 + text_[3] - '0');
        text_.remove_prefix(4);
      } else {
        word += c;
        text_.remove_prefix(1);
      }
    }
    if (!quoted) return word;
    return absl::InvalidArgumentError(absl::StrCat("no closing quote after '", word, "'"));
  }

  absl::string_view text_;
  size_t line_ = 1, next_line_ = 1;
};

class Parser {
 public:
  Parser(absl::string_view name, HostResolver resolve) : name_(name), resolve_(resolve) {}

  absl::StatusOr<ExportsFile> Parse(absl::string_view text) {
    ExportLines lines(text);
    while (!lines.AtEnd()) {
      auto line = lines.Next();
      line_ = lines.line();
      const absl::Status status = line.ok() ? TakeLine(*line) : line.status();
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat(name_, ":", line_, ": ", status.message()));
      }
    }
    for (Export& exported : file_.exports) exported.RankRules();
    return std::move(file_);
  }

 private:
  static absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

  absl::Status TakeLine(std::vector<std::string>& words) {
    if (words.empty()) return absl::OkStatus();
    if (!NormalizeDirectory(&words[0])) {
      return Invalid(absl::StrCat(
          "'", words[0], "' is not an absolute directory; write DIR CLIENT(OPTION,...)..."));
    }
    const absl::StatusOr<Export*> exported = ExportOf(words[0]);
    if (!exported.ok()) return exported.status();
    ClientRights defaults;
    size_t next = 1;
    if (words.size() > 1 && words[1].starts_with('-')) {
      const absl::Status status = TakeOptions(absl::string_view(words[1]).substr(1), &defaults);
      if (!status.ok()) return status;
      ++next;
    }
    if (next == words.size()) {
      return Invalid(absl::StrCat(words[0], " has no clients; write *(ro) for every client"));
    }
    for (; next < words.size(); ++next) {
      const absl::Status status = TakeClient(words[next], defaults, *exported);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Export*> ExportOf(const std::string& directory) {
    const auto found = std::ranges::find(file_.exports, directory, &Export::directory);
    if (found != file_.exports.end()) return &*found;
    if (file_.exports.size() == kMaxServedExports) {
      return Invalid(absl::StrCat("more than ", kMaxServedExports, " directories"));
    }
    return &file_.exports.emplace_back(Export{.directory = directory, .clients = {}});
  }

  absl::Status TakeClient(absl::string_view word, ClientRights rights, Export* exported) {
    const size_t parenthesis = std::min(word.find('('), word.size());
    const std::string client(word.substr(0, parenthesis));
    absl::string_view options = word.substr(parenthesis);
    if (!options.empty() &&
        (!absl::ConsumePrefix(&options, "(") || !absl::ConsumeSuffix(&options, ")") ||
         absl::StrContains(options, ')'))) {
      return Invalid(absl::StrCat("'", word, "': write CLIENT(OPTION,...) without spaces"));
    }
    if (client.empty()) {
      return Invalid(absl::StrCat("'", word, "' has no client; write *", word,
                                  " for every client, or no space before it"));
    }
    if (absl::Status status = TakeOptions(options, &rights); !status.ok()) return status;
    const auto networks = NetworksOf(client);
    if (!networks.ok()) return networks.status();
    for (const std::optional<Network>& network : *networks) {
      if (exported->clients.size() == kMaxClientNetworks) {
        return Invalid(
            absl::StrCat("more than ", kMaxClientNetworks, " clients of ", exported->directory));
      }
      exported->clients.push_back({network, rights});
    }
    return absl::OkStatus();
  }

  using Networks = std::vector<std::optional<Network>>;

  absl::StatusOr<Networks> NetworksOf(const std::string& client) {
    if (client == "*") return Networks{std::nullopt};
    if (client.starts_with('@') || client.find_first_of("*?[") != std::string::npos) {
      return Invalid(absl::StrCat("client '", client,
                                  "': netgroups and wildcards are not supported; write an address, "
                                  "a network, the name of a host, or *"));
    }
    const absl::StatusOr<Network> network = ParseNetwork(client);
    if (network.ok()) return Networks{*network};
    if (client.find('/') != std::string::npos) return network.status();
    const auto [known, is_new] = resolved_.try_emplace(client);
    if (!is_new) return known->second;
    const auto addresses = resolve_(client);
    if (!addresses.ok()) return Invalid(addresses.status().message());
    for (const Gid& address : *addresses) {
      known->second.push_back(ParseNetwork(FormatAddress(address)).value());
    }
    return known->second;
  }

  absl::Status TakeOptions(absl::string_view options, ClientRights* rights) {
    for (const absl::string_view option : absl::StrSplit(options, ',', absl::SkipEmpty())) {
      if (absl::Status status = TakeOption(option, rights); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status TakeOption(absl::string_view option, ClientRights* rights) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (option == "ro" || option == "rw") {
      rights->read_only = option == "ro";
    } else if (option == "root_squash" || option == "no_root_squash") {
      rights->root_squash = option == "root_squash";
    } else if (option == "all_squash" || option == "no_all_squash") {
      rights->all_squash = option == "all_squash";
    } else if (parts.first == "anonuid" || parts.first == "anongid") {
      return TakeId(option, parts.second,
                    parts.first == "anonuid" ? &rights->anonymous_uid : &rights->anonymous_gid);
    } else if (std::ranges::count(kAlways, option) > 0) {
      return absl::OkStatus();
    } else if (const OptionNote* const vain = Find(kWithoutEffect, parts.first)) {
      if (warned_.insert(vain->name).second) {
        file_.warnings.push_back(absl::StrCat(name_, ":", line_, ": option '", vain->name,
                                              "' has no effect: ", vain->note));
      }
    } else if (const OptionNote* const lacking = Find(kLacking, parts.first)) {
      return Invalid(absl::StrCat("option '", option, "' is not supported: ", lacking->note));
    } else {
      return Invalid(absl::StrCat("'", option, "' is not an option of exports(5)"));
    }
    return absl::OkStatus();
  }

  // -2 and 4294967294 are the same user to exports(5). UINT32_MAX is nobody's ID.
  static absl::Status TakeId(absl::string_view option, absl::string_view text, uint32_t* id) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < INT32_MIN || number >= UINT32_MAX ||
        number == -1) {
      return Invalid(
          absl::StrCat("option '", option, "': the value is not the ID of a user or group"));
    }
    *id = static_cast<uint32_t>(number);
    return absl::OkStatus();
  }

  const absl::string_view name_;
  HostResolver resolve_;
  size_t line_ = 0;
  // The addresses of names. A resolver whose name server is down waits for it in each call.
  std::map<std::string, Networks> resolved_;
  std::set<absl::string_view> warned_;
  ExportsFile file_;
};

}  // namespace

absl::StatusOr<ExportsFile> ParseExports(absl::string_view text, absl::string_view name,
                                         HostResolver resolve) {
  return Parser(name, resolve).Parse(text);
}

absl::StatusOr<ExportsFile> ReadExports(const std::string& path, HostResolver resolve) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return absl::ErrnoToStatus(errno, path);
  std::string text(kMaxFileBytes + 1, 0);
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has more than ", kMaxFileBytes, " bytes"));
  }
  return ParseExports(absl::string_view(text).substr(0, size), path, resolve);
}

}  // namespace pollux::nfs
