#include "data/classes/class_list.h"

#include <filesystem>
#include <sstream>
#include <unordered_set>
#include <utility>

#include "data/classes/label_columns.h"
#include "data/classes/match_classes.h"
#include "data/classes/only_classes.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/file.h"

namespace dtn {
namespace {

std::string list_path(const DataConfig& data) {
  return (std::filesystem::path(data.root) / *data.class_names).string();
}

}  // namespace

std::vector<std::string> read_class_list(const std::string& file) {
  constexpr std::int64_t kMaxBytes = 64 << 20;
  constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
  std::string content = read_text(file, kMaxBytes);
  if (content.starts_with(kUtf8Mark)) content.erase(0, kUtf8Mark.size());
  std::istringstream text(std::move(content));
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (std::string line; std::getline(text, line);) {
    const char* blanks = " \t\r";
    const std::size_t begin = line.find_first_not_of(blanks);
    if (begin == line.npos) continue;
    names.push_back(line.substr(begin, line.find_last_not_of(blanks) + 1 - begin));
    if (!seen.insert(names.back()).second) {
      throw DataError(cat(file, ": names the class '", names.back(), "' twice"));
    }
  }
  if (names.empty()) {
    throw DataError(cat(file, ": has no names; expected one per line, in the order of the labels"));
  }
  return names;
}

std::vector<std::string> listed_class_names(const DataConfig& data) {
  return read_class_list(list_path(data));
}

std::unique_ptr<Dataset> with_listed_classes(std::unique_ptr<Dataset> dataset,
                                             const DataConfig& data) {
  const bool is_multilabel = dataset->ready_fields().has("labels");
  if (!is_multilabel && !dataset->has_labels()) return dataset;
  const ClassList listed = named_classes(list_path(data), listed_class_names(data));
  const ClassMatch match =
      match_classes(class_list_of(*dataset), listed, "correct the list (data.class_names)");
  if (!match.note.empty()) log_info(match.note);
  if (is_multilabel) return with_label_columns(std::move(dataset), match, listed);
  const std::string description = dataset->description();
  return std::make_unique<OnlyClasses>(std::move(dataset), match.labels,
                                       ClassList{description, match.names, listed.count});
}

}  // namespace dtn
