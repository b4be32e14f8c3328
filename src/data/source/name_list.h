// Many short texts in one piece of memory: a million strings take several times as much.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtn {

class NameList {
 public:
  void add(std::string_view name) {
    starts_.push_back(text_.size());
    text_ += name;
  }
  std::size_t size() const { return starts_.size(); }
  // Valid until the next add().
  std::string_view operator[](std::size_t i) const {
    const std::size_t end = i + 1 < starts_.size() ? starts_[i + 1] : text_.size();
    return std::string_view(text_).substr(starts_[i], end - starts_[i]);
  }

 private:
  std::string text_;
  std::vector<std::size_t> starts_;
};

}  // namespace dtn
