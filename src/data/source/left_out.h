// Files of a data set that are not read, counted by kind for one warning.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dtn {

class LeftOut {
 public:
  // Counts a file by the ending of its name.
  void add_file(std::string_view name);
  // Counts files of a kind in words, such as "label without an image", "labels without an image".
  void add(const std::string& one, const std::string& many, std::int64_t files = 1);
  void add(const LeftOut& other);

  std::int64_t count() const { return count_; }
  // Returns "2 .gif, 1 without an extension", the most frequent first; empty if nothing was left
  // out.
  std::string kinds() const;
  // Returns the warning "<where>: left out 2 .gif, ...", with the endings that are read; empty if
  // nothing was left out.
  std::string warning(const std::string& where) const;

 private:
  struct Kind {
    std::string one;
    std::int64_t files = 0;
  };
  std::map<std::string, Kind> kinds_;  // by their plural
  std::int64_t count_ = 0;
};

}  // namespace dtn
