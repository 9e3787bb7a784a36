#include "stack/base/stats.h"

#include <algorithm>

namespace pollux {

Stats::Value* Stats::Find(std::string_view name) {
  const auto found = std::ranges::find(fields_, name.substr(0, kMaxText), &Field::first);
  return found == fields_.end() ? nullptr : &found->second;
}

void Stats::Set(std::string_view name, Value value) {
  if (auto* text = std::get_if<std::string>(&value); text != nullptr && text->size() > kMaxText) {
    text->resize(kMaxText);
  }
  if (Value* known = Find(name); known != nullptr) {
    *known = std::move(value);
  } else if (fields_.size() < kMaxFields) {
    fields_.emplace_back(name.substr(0, kMaxText), std::move(value));
  }
}

void Stats::Count(std::string_view name, uint64_t value) {
  Value* const known = Find(name);
  uint64_t* const number = known == nullptr ? nullptr : std::get_if<uint64_t>(known);
  if (number == nullptr) return Set(name, value);
  *number += value;
}

bool Stats::AddNumber(uint64_t number) {
  BeNumbers();
  if (numbers_.size() == kMaxItems) return false;
  numbers_.push_back(number);
  return true;
}

bool Stats::AddLine(std::string_view line) {
  BeLines();
  if (lines_.size() == kMaxItems) return false;
  lines_.emplace_back(line.substr(0, kMaxText));
  return true;
}

}  // namespace pollux
