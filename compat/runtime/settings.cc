#include "compat/runtime/settings.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "stack/base/address.h"
#include "stack/base/mac_text.h"

namespace pollux::compat {
namespace {

// Takes over what was parsed, or says why nothing was.
template <class Value, class Target>
absl::Status Assign(absl::StatusOr<Value> parsed, Target* target) {
  if (!parsed.ok()) return parsed.status();
  *target = *std::move(parsed);
  return absl::OkStatus();
}

template <class Value>
absl::Status Append(absl::StatusOr<Value> parsed, std::vector<Value>* target) {
  if (!parsed.ok()) return parsed.status();
  target->push_back(*std::move(parsed));
  return absl::OkStatus();
}

template <class Number>
absl::StatusOr<Number> ParseNumber(const std::string& text) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(text, &number) && number <= static_cast<uint64_t>(INT32_MAX)) {
    return static_cast<Number>(number);
  }
  return absl::InvalidArgumentError("not a number");
}

// Options whose target is not where the value ends up.
struct Deferred {
  uint16_t vlan = kNoVlan;  // of the addresses that name none
};

absl::Status TakeAddressing(const std::string& name, const std::string& value, Settings* settings,
                            Deferred* deferred) {
  engine::DeviceOptions& device = settings->device;
  if (name == "port") return Assign<std::string>(value, &device.port);
  if (name == "netdev") return Assign<std::string>(value, &device.netdev);
  if (name == "kernel-path") return Assign<std::string>(value, &device.kernel_path);
  if (name == "mac") return Assign(ParseMac(value), &device.mac);
  if (name == "mtu") return Assign(ParseNumber<uint16_t>(value), &device.mtu);
  if (name == "address") return Append(ParseInterfaceAddress(value), &device.addresses);
  if (name == "gateway") return Append(ParseAddress(value), &device.gateways);
  if (name == "vlan") return Assign(ParseNumber<uint16_t>(value), &deferred->vlan);
  return absl::InvalidArgumentError("no such option");
}

absl::Status Take(const std::string& name, const std::string& value, Settings* settings,
                  Deferred* deferred) {
  engine::DeviceOptions& device = settings->device;
  if (name == "memory") return Assign(ParseNumber<unsigned>(value), &settings->eal.memory_mib);
  if (name == "file-prefix") {
    // Telemetry has files, which a process that replaces itself (exec) or ends without exit(3)
    // leaves behind: only for who asks for it by name.
    settings->eal.telemetry = true;
    return Assign<std::string>(value, &settings->eal.file_prefix);
  }
  if (name == "capture") return Assign<std::string>(value, &settings->capture);
  if (name == "supervisor") return Assign<std::string>(value, &settings->supervisor);
  if (name == "core") return Assign(ParseNumber<int>(value), &settings->core);
  if (name == "idle") return Assign(engine::ParseIdle(value), &settings->idle);
  if (name == "queue-pairs") return Assign(ParseNumber<uint32_t>(value), &device.queue_pairs);
  if (name == "yield-after") return Assign(ParseNumber<uint32_t>(value), &settings->yield_after);
  if (name == "impair") return Assign(io::ImpairmentOptions::Parse(value), &device.impairment);
  if (name == "dcqcn-parameters") {
    return Assign(transport::DcqcnParameters::Parse(value), &device.dcqcn);
  }
  if (name == "dcqcn") {
    if (!device.dcqcn) device.dcqcn.emplace();
    return absl::OkStatus();
  }
  return TakeAddressing(name, value, settings, deferred);
}

}  // namespace

absl::StatusOr<Settings> Settings::Parse(std::string_view text) {
  Settings settings;
  Deferred deferred;
  settings.device.queue_pairs = 0;
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> option =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const absl::Status status = Take(option.first, option.second, &settings, &deferred);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          kSettingsVariable, ": '", line, "': ", status.message(), "; `pollux run` sets it"));
    }
  }
  if (settings.device.port.empty() && settings.device.netdev.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kSettingsVariable, " names no port; start the program with `pollux run`"));
  }
  for (InterfaceAddress& address : settings.device.addresses) {
    if (address.vlan == kNoVlan) address.vlan = deferred.vlan;
  }
  if (settings.device.queue_pairs == 0) {
    settings.device.queue_pairs =
        settings.device.netdev.empty() ? engine::DeviceOptions().queue_pairs : kQueuePairsOnNetdev;
  }
  return settings;
}

}  // namespace pollux::compat
