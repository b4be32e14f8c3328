#include <algorithm>
#include <map>

#include "apps/robustness/robustness_plan.h"
#include "apps/robustness/robustness_results.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Returns the entries of a folder without hidden ones, in byte order.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().native().starts_with('.')) entries.push_back(it->path());
  }
  if (error) throw DataError(cat("cannot list ", folder.string(), ": ", error.message()));
  std::ranges::sort(entries);
  return entries;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

class Search {
 public:
  explicit Search(const fs::path& root) : root_(root) {
    if (!is_folder(root)) {
      throw DataError(cat("no such folder: ", root.string(), layout_of_root()));
    }
    for (const fs::path& entry : entries_of(root)) {
      if (!add(entry) && !add_group(entry)) left_out_.push_back(entry);
    }
    if (found_.empty()) fail();
  }

  std::vector<RobustnessFolder> severities() {
    std::vector<RobustnessFolder> folders;
    for (const Corruption& corruption : corruptions()) {
      auto at = found_.find(corruption.name);
      if (at == found_.end()) continue;
      const std::size_t before = folders.size();
      for (const fs::path& entry : entries_of(at->second)) add_severity(entry, folders);
      if (folders.size() == before) {
        throw DataError(cat(at->second.string(), ": has none of the severity folders 1 to 5",
                            layout_of_root()));
      }
    }
    warn_left_out();
    return folders;
  }

 private:
  std::string layout_of_root() const {
    return cat("; expected ", root_.string(),
               "/[<group>/]<corruption>/<severity>/<class>/<image> (see docs/robustness.md)");
  }

  bool add(const fs::path& entry) {
    const std::string name = entry.filename();
    if (!find_corruption(name)) return false;
    check_folder(entry);
    auto [at, is_new] = found_.emplace(name, entry);
    if (is_new) return true;
    throw DataError(cat("found ", name, " twice: ", at->second.string(), " and ", entry.string(),
                        "; remove one"));
  }

  // Adds a folder of corruptions, such as blur/.
  bool add_group(const fs::path& entry) {
    if (!is_folder(entry)) return false;
    bool any = false;
    std::vector<fs::path> others;
    for (const fs::path& inner : entries_of(entry)) {
      if (add(inner)) {
        any = true;
      } else {
        others.push_back(inner);
      }
    }
    if (any) left_out_.insert(left_out_.end(), others.begin(), others.end());
    return any;
  }

  void add_severity(const fs::path& entry, std::vector<RobustnessFolder>& folders) {
    const std::string name = entry.filename();
    if (name.size() != 1 || name[0] < '1' || name[0] > '0' + static_cast<int>(kSeverities)) {
      left_out_.push_back(entry);
      return;
    }
    check_folder(entry);
    folders.push_back({cat(entry.parent_path().filename().string(), "/", name), entry});
  }

  void check_folder(const fs::path& entry) const {
    if (!is_folder(entry))
      throw DataError(cat(entry.string(), ": is not a folder", layout_of_root()));
  }

  [[noreturn]] void fail() const {
    std::string hint;
    for (const fs::path& entry : left_out_) {
      if (entry.extension() == ".tar") hint = cat("; unpack ", entry.filename().string());
      if (entry.filename() == "1")
        hint = "; it looks like the folder of one corruption: give its parent folder";
    }
    throw DataError(cat(root_.string(), ": has no folder named after a corruption of ImageNet-C (",
                        corruptions().front().name, ", ...)", hint, layout_of_root()));
  }

  void warn_left_out() const {
    std::string names;
    for (const fs::path& path : left_out_) {
      if (is_folder(path)) names += cat(names.empty() ? "" : ", ", path.string());
    }
    if (!names.empty())
      log_warn(cat("skipped folders that are no corruption or severity of ImageNet-C: ", names));
  }

  fs::path root_;
  std::map<std::string, fs::path> found_;
  std::vector<fs::path> left_out_;
};

}  // namespace

std::vector<RobustnessFolder> corruption_folders(const fs::path& root) {
  return Search(root).severities();
}

}  // namespace dtn
