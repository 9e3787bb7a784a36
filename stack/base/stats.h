// Statistics that the objects of a worker report on request.
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

// A result of one shape: named fields, a list of numbers or a list of lines. The bounds are those
// of a DPDK telemetry reply; anything beyond them is dropped.
class Stats {
 public:
  static constexpr size_t kMaxFields = 256;
  static constexpr size_t kMaxItems = 512;  // numbers or lines
  static constexpr size_t kMaxText = 127;   // bytes of a name, a text or a line

  enum class Shape : uint8_t { kFields, kNumbers, kLines };
  using Value = std::variant<uint64_t, std::string>;
  using Field = std::pair<std::string, Value>;

  // Sets a field. Names consist of letters, digits, '_' and '/'.
  void Set(std::string_view name, Value value);
  // Adds to the number under this name, so that several objects of one kind can report together.
  void Count(std::string_view name, uint64_t value);
  // Make this a list of numbers or of lines, even if nothing is added.
  void BeNumbers() { shape_ = Shape::kNumbers; }
  void BeLines() { shape_ = Shape::kLines; }
  // Both return false when the list is full.
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
  std::optional<uint64_t> object;  // the object to report on; for lists: list those after this one
};

// Implemented by objects that report statistics. Registered with a worker by
// Worker::AddStatsProvider(), and not owned by it.
class StatsProvider {
 public:
  virtual ~StatsProvider() = default;
  // Answers a query. Called on the worker's core, between polls of the packet path. Returns false
  // if this provider has no answer.
  virtual bool Collect(const StatsQuery& query, Stats* stats) = 0;
};

}  // namespace pollux

#endif  // POLLUX_STACK_BASE_STATS_H_
