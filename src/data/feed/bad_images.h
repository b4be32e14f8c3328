// Damaged images found while loading. Each is logged and counted once; too many are an error.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace dtn {

class BadImages {
 public:
  explicit BadImages(std::int64_t max) : max_(max) {}

  // Adds a damaged image. Throws DataError with the first names if there are too many. Thread-safe.
  void add(std::int64_t index, const std::string& name, const std::string& what);

  std::int64_t count() const;
  std::vector<std::string> names() const;

 private:
  [[noreturn]] void fail(const std::string& last) const;

  std::int64_t max_;
  mutable std::mutex mutex_;
  std::unordered_set<std::int64_t> seen_;
  std::vector<std::string> names_;
};

}  // namespace dtn
