// What the objects of a worker tell of themselves when they are asked.
#ifndef POLLUX_STACK_BASE_STATS_H_
#define POLLUX_STACK_BASE_STATS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace pollux {

// Either fields, or numbers, or lines. Bounds are those of a DPDK telemetry answer; what goes
// beyond them is left out.
class Stats {
 public:
  static constexpr size_t kMaxFields = 256;
  static constexpr size_t kMaxItems = 512;  // numbers or lines
  static constexpr size_t kMaxText = 127;   // bytes of a name, a text or a line

  enum class Shape : uint8_t { kFields, kNumbers, kLines };
  using Value = std::variant<uint64_t, std::string>;
  using Field = std::pair<std::string, Value>;

  // Names are letters, digits, '_' and '/'.
  void Set(std::string_view name, Value value);
  // Adds to the number that stands under the name: several of a kind may tell.
  void Count(std::string_view name, uint64_t value);
  // What it is, though there be none of them.
  void BeNumbers() { shape_ = Shape::kNumbers; }
  void BeLines() { shape_ = Shape::kLines; }
  // False when no more will be taken.
  bool AddNumber(uint64_t number);
  bool AddLine(std::string_view line);

  Shape shape() const { return shape_; }
  const std::vector<Field>& fields() const { return fields_; }
  const std::vector<uint64_t>& numbers() const { return numbers_; }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  Value* Find(std::string_view name);

  Shape shape_ = Shape::kFields;
  std::vector<Field> fields_;
  std::vector<uint64_t> numbers_;
  std::vector<std::string> lines_;
};

struct StatsQuery {
  std::string_view topic;
  std::optional<uint64_t> object;  // which of those that the topic is about; of lists: after which
};

// Told to a worker by what lives on it (Worker::AddStatsProvider).
class StatsProvider {
 public:
  virtual ~StatsProvider() = default;
  // On the worker's core, between polls of the packet path. False when it has nothing to say.
  virtual bool Collect(const StatsQuery& query, Stats* stats) = 0;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_STATS_H_
