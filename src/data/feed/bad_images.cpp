#include "data/feed/bad_images.h"

#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {

namespace {
constexpr std::size_t kMaxNames = 100;
constexpr std::size_t kNamesInError = 5;
}  // namespace

void BadImages::add(std::int64_t index, const std::string& name, const std::string& what) {
  std::lock_guard lock(mutex_);
  if (seen_.insert(index).second) {
    if (names_.size() < kMaxNames) names_.push_back(name);
    log_warn(cat("skipped a damaged image: ", what));
  }
  if (static_cast<std::int64_t>(seen_.size()) > max_) fail(what);
}

void BadImages::fail(const std::string& last) const {
  std::string message = cat(seen_.size(), " damaged images, data.max_bad_images allows ", max_,
                            "; repair or remove them, or raise it. The last: ", last);
  message += "\nThe first:";
  for (std::size_t i = 0; i < names_.size() && i < kNamesInError; ++i)
    message += "\n  " + names_[i];
  throw DataError(message);
}

std::int64_t BadImages::count() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(seen_.size());
}

std::vector<std::string> BadImages::names() const {
  std::lock_guard lock(mutex_);
  return names_;
}

}  // namespace dtn
