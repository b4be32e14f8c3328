#include <algorithm>
#include <charconv>
#include <string_view>
#include <type_traits>
#include <vector>

#include "data/sample/auto_augment.h"
#include "dtn/core/check.h"

namespace dtn {
namespace {

constexpr const char* kLanguage =
    "a policy is `none`, `three`, or `rand` followed by any of -m0 .. -m10 (magnitude), -n1 .. -n8 "
    "(operations), -mstd0 .. -mstd10 (deviation of the magnitude), -inc0 or -inc1 (whether all "
    "grow with the magnitude) and -w0 (weighted choice), such as rand-m9-mstd0.5-inc1";

[[noreturn]] void fail_policy(const std::string& policy, const std::string& what) {
  throw ConfigError(cat("augment.policy `", policy, "`: ", what, "; ", kLanguage));
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t dash; (dash = text.find('-')) != text.npos; text.remove_prefix(dash + 1))
    parts.push_back(text.substr(0, dash));
  parts.push_back(text);
  return parts;
}

// Parses the number after the key of a part.
template <class T>
T number(const std::string& policy, std::string_view part, std::size_t key_size, T low, T high) {
  T value{};
  const char* const end = part.data() + part.size();
  const auto result = std::from_chars(part.data() + key_size, end, value);
  if (result.ec != std::errc() || result.ptr != end || !(low <= value && value <= high))
    fail_policy(policy,
                cat("`", part, "` needs a ", std::is_integral_v<T> ? "whole number" : "number",
                    " from ", low, " to ", high, " after `", part.substr(0, key_size), "`"));
  return value;
}

}  // namespace

RandAugmentPolicy parse_rand_augment(const std::string& text) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.front() != "rand") fail_policy(text, cat("`", parts.front(), "` is not a policy"));
  RandAugmentPolicy policy;
  std::vector<std::string_view> seen;
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const std::size_t size = std::min(part->find_first_of("+.0123456789"), part->size());
    const std::string_view key = part->substr(0, size);
    if (std::ranges::find(seen, key) != seen.end())
      fail_policy(text, cat("`", key, "` appears twice"));
    seen.push_back(key);
    if (key == "m") {
      policy.magnitude = number(text, *part, size, 0, 10);
    } else if (key == "n") {
      policy.ops = number(text, *part, size, 1, AugmentDraw::kMaxSteps);
    } else if (key == "mstd") {
      policy.magnitude_std = number(text, *part, size, 0.0, 10.0);
    } else if (key == "inc") {
      policy.increasing = number(text, *part, size, 0, 1) == 1;
    } else if (key == "w") {
      policy.weighted = number(text, *part, size, 0, 0) == 0;
    } else {
      fail_policy(text, cat("`", *part, "` is unknown"));
    }
  }
  return policy;
}

}  // namespace dtn
