// Expands a name with braces or wildcards to the files that it stands for.
#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "core/text.h"
#include "dtn/core/check.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxShards = 1'000'000;

[[noreturn]] void fail_shards(const std::string& pattern, const std::string& what) {
  throw DataError(cat("shards ", pattern, ": ", what, " (see data/README.md, WebDataset)"));
}

// Expands the text inside braces: "000..146" (padded to the digits of the first number) or "a,b".
std::vector<std::string> alternatives(const std::string& inside, const std::string& pattern) {
  std::vector<std::string> out;
  if (const std::size_t dots = inside.find(".."); dots != inside.npos) {
    const std::string low = inside.substr(0, dots);
    const auto first = parse_number<std::uint64_t>(low);
    const auto last = parse_number<std::uint64_t>(inside.substr(dots + 2));
    if (!first || !last || *first > *last || *last - *first >= kMaxShards) {
      fail_shards(pattern, cat("{", inside, "} is not a range like {000000..000146}"));
    }
    for (std::uint64_t i = *first; i <= *last; ++i) {
      std::string number = std::to_string(i);
      number.insert(0, low.size() - std::min(low.size(), number.size()), '0');
      out.push_back(std::move(number));
    }
    return out;
  }
  for (const std::string_view part : split(inside, ',')) out.emplace_back(part);
  return out;
}

std::vector<std::string> expand_braces(const std::string& pattern) {
  std::vector<std::string> done = {""};
  for (std::size_t at = 0; at < pattern.size();) {
    const std::size_t open = std::min(pattern.find('{', at), pattern.size());
    for (std::string& s : done) s.append(pattern, at, open - at);
    if (open == pattern.size()) break;
    const std::size_t close = pattern.find('}', open);
    if (close == pattern.npos) fail_shards(pattern, "a brace is not closed");
    const auto choices = alternatives(pattern.substr(open + 1, close - open - 1), pattern);
    if (choices.size() > kMaxShards / done.size())
      fail_shards(pattern, cat("it expands to more than ", kMaxShards, " files"));
    std::vector<std::string> next;
    for (const std::string& s : done) {
      for (const std::string& choice : choices) next.push_back(s + choice);
    }
    done = std::move(next);
    at = close + 1;
  }
  return done;
}

// Returns the matching files in glob's order, which is sorted.
std::vector<std::string> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return files;
}

std::vector<std::string> tars_in(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path& path = it->path();
    if (path.extension() == ".tar" && !path.filename().native().starts_with('.')) {
      files.push_back(path.string());
    }
  }
  if (error) fail_shards(folder.string(), cat("cannot list the folder: ", error.message()));
  std::ranges::sort(files);
  return files;
}

}  // namespace

std::vector<std::string> expand_shards(const std::string& pattern) {
  std::error_code ignored;
  std::vector<std::string> shards;
  if (fs::is_directory(pattern, ignored)) {
    shards = tars_in(pattern);
  } else {
    for (const std::string& name : expand_braces(pattern)) {
      if (name.find_first_of("*?[") != name.npos && !fs::exists(name, ignored)) {
        const std::vector<std::string> found = files_like(name);
        shards.insert(shards.end(), found.begin(), found.end());
      } else if (fs::exists(name, ignored)) {
        shards.push_back(name);
      } else {
        fail_shards(pattern, cat("there is no ", name));
      }
    }
  }
  if (shards.empty()) {
    fail_shards(pattern,
                "no file matches; set data.root, and data.train or data.val, to a folder "
                "of .tar files or to a name like imagenet-train-{000000..000146}.tar");
  }
  return shards;
}

}  // namespace dtn
