#include "data/archive/shard_labels.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/format.h"
#include "core/text.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxLabel = 999'999;

ShardLabel label_of(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= kMaxLabel) {
    return {std::to_string(value.get<std::uint64_t>()), true};
  }
  if (!value.is_string()) {
    throw DataError(
        "has a .json file with a label that is not a whole number from 0 to 999999, a text or a "
        "list of these");
  }
  const std::string& text = value.get_ref<const std::string&>();
  const bool has_control = std::ranges::any_of(text, [](char c) { return '\0' <= c && c < ' '; });
  if (text.empty() || has_control) {
    throw DataError("has a .json file with a label that is empty or has control characters");
  }
  return {text, false};
}

}  // namespace

std::optional<std::int32_t> label_number(const std::string& text) {
  const auto number = parse_number<std::int32_t>(text);
  return number && 0 <= *number && *number <= kMaxLabel ? number : std::nullopt;
}

std::vector<ShardLabel> parse_json_labels(std::string_view json) {
  const Json object = Json::parse(json, nullptr, false);
  if (object.is_discarded()) throw DataError("has a .json file that is not JSON");
  const Json* value = nullptr;
  for (const char* name : {"labels", "label"}) {
    if (object.is_object() && object.contains(name)) value = &object[name];
  }
  if (!value) {
    throw DataError(
        "has no label: there is no .cls file beside its image, and its .json file has no member "
        "\"label\" or \"labels\"");
  }
  std::vector<ShardLabel> labels;
  if (!value->is_array()) return {label_of(*value)};
  for (const Json& each : *value) labels.push_back(label_of(each));
  std::sort(labels.begin(), labels.end());
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  return labels;
}

std::int32_t ShardLabels::add(const std::vector<ShardLabel>& list, const std::string& shard,
                              const std::string& key) {
  const auto next = static_cast<std::int32_t>(lists_.size());
  const auto [place, is_new] = position_of_.emplace(list, next);
  if (!is_new) return place->second;
  lists_.push_back(&place->first);
  for (const ShardLabel& label : list) {
    const auto [sample, first] = samples_.try_emplace(label);
    if (first) sample->second = cat(shard, ": the sample '", printable(key), "'");
  }
  return next;
}

std::vector<std::int32_t> ShardLabels::add(const ShardLabels& other) {
  samples_.insert(other.samples_.begin(), other.samples_.end());
  std::vector<std::int32_t> places;
  for (const std::vector<ShardLabel>* list : other.lists_) {
    places.push_back(add(*list, {}, {}));
  }
  return places;
}

bool ShardLabels::are_numbers() const {
  return std::ranges::all_of(
      samples_, [](const auto& of) { return label_number(of.first.text).has_value(); });
}

void ShardLabels::check_kinds() const {
  const auto number =
      std::ranges::find_if(samples_, [](const auto& of) { return of.first.is_number; });
  const auto name =
      std::ranges::find_if(samples_, [](const auto& of) { return !label_number(of.first.text); });
  if (number == samples_.end() || name == samples_.end()) return;
  throw DataError(cat(number->second, " has the label ", number->first.text, ", a number, but ",
                      name->second, " has the name '", printable(name->first.text),
                      "'; write numbers alone or names alone"));
}

void ShardLabels::classify(ArchiveIndex& index) const {
  check_kinds();
  const bool numbers = are_numbers();
  if (!numbers) {
    for (const auto& [label, sample] : samples_) index.classes.push_back(label.text);
    std::ranges::sort(index.classes);
  }
  const auto class_of = [&](const ShardLabel& label) {
    if (numbers) return *label_number(label.text);
    const auto place = std::ranges::lower_bound(index.classes, label.text);
    return static_cast<std::int32_t>(place - index.classes.begin());
  };
  std::vector<std::vector<std::int32_t>> lists;
  bool all_single = true;
  for (const std::vector<ShardLabel>* written : lists_) {
    std::vector<std::int32_t>& list = lists.emplace_back();
    for (const ShardLabel& label : *written) list.push_back(class_of(label));
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());  // 3 and "3"
    all_single = all_single && list.size() == 1;
  }
  if (!all_single) {
    index.lists = std::move(lists);
    return;
  }
  for (ArchiveIndex::Image& image : index.images) {
    image.label = lists[static_cast<std::size_t>(image.label)].front();
  }
}

}  // namespace dtn
