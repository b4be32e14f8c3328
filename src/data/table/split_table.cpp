#include "data/table/split_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/format.h"
#include "data/classes/class_order.h"
#include "data/source/split_folders.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "dtn/data/datasets.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;
using Labels = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

bool is_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

// Returns the positions of the paths of a table that are not files of `folder`, in the order of its
// lines.
std::vector<std::size_t> missing_files(const LabelTable& table, const std::string& folder) {
  std::vector<std::size_t> missing;
  std::string path;
  for (std::size_t i = 0; i < table.paths.size(); ++i) {
    join_path(folder, table.paths[i], path);
    if (!is_file(path)) missing.push_back(i);
  }
  std::ranges::sort(missing, {}, [&](std::size_t i) { return table.lines[i]; });
  return missing;
}

// Throws DataError that names the first files that a table lists and that do not exist.
void check_files(const LabelTable& table, const std::string& folder) {
  constexpr std::size_t kShown = 4;
  const std::vector<std::size_t> missing = missing_files(table, folder);
  if (missing.empty()) return;
  const std::string_view first = table.paths[missing.front()];
  std::string path, others;
  join_path(folder, first, path);
  for (std::size_t k = 1; k < missing.size() && k < kShown; ++k) {
    others += cat(k == 1 ? "; others are '" : ", '", table.paths[missing[k]], "' (line ",
                  table.lines[missing[k]], ")");
  }
  const bool is_windows = first.find('\\') != first.npos;
  table.fail_at(table.lines[missing.front()],
                cat("no such image: ", path, "; ", missing.size(), " of ",
                    counted(table.paths.size(), "listed images"),
                    missing.size() == 1 ? " is missing" : " are missing", others,
                    missing.size() > kShown ? ", ..." : "", "; paths begin at ", folder,
                    is_windows ? ", and folders are separated by / instead of \\" : ""));
}

fs::path table_path(const DataConfig& data, const fs::path& folder) {
  return folder / *data.labels;
}

// Reads the table of a folder. Throws DataError if it does not exist.
LabelTable read_table(const DataConfig& data, const fs::path& folder, LabelsPerImage labels) {
  const fs::path path = table_path(data, folder), in_root = table_path(data, data.root);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    const bool is_in_root = fs::exists(in_root, ignored);
    throw DataError(cat("no such file: ", path.string(),
                        "; data.labels is sought in the folder of "
                        "the split",
                        is_in_root ? cat("; move ", in_root.string(),
                                         " there, with paths that begin at that folder")
                                   : std::string(", and in data.root if there is none")));
  }
  return read_label_table(FileSource(path.string()), labels);
}

// The classes of a data set, in label order, and their owner for messages.
struct Classes {
  Names names;
  std::string owner;
};

// Returns the classes of a table in the order of the config.
Classes classes_of(const LabelTable& table, const DataConfig& data, const std::string& owner) {
  Names names = table.texts;
  warn_of_class_order(names, data, table.name);
  sort_class_names(names, data.class_order.value_or(ClassOrder::kBytes));
  return {std::move(names), owner};
}

// True if the image i of a table has the label.
bool has_label(const LabelTable& table, std::size_t i, std::int32_t text) {
  const std::int32_t of = table.text_of[i];
  if (table.combinations.empty()) return of == text;
  return std::ranges::binary_search(table.combinations[static_cast<std::size_t>(of)], text);
}

// Returns the line of the first image with that label in the file; the first line without one.
std::int64_t first_line_of(const LabelTable& table, std::size_t text) {
  std::int64_t line = table.lines.front();
  bool found = false;
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    if (!has_label(table, i, static_cast<std::int32_t>(text))) continue;
    line = found ? std::min(line, table.lines[i]) : table.lines[i];
    found = true;
  }
  return line;
}

// Returns the label of each text of a table. Throws DataError for a text that is no class.
Labels labels_of_texts(const LabelTable& table, const Classes& classes) {
  std::vector<std::size_t> order(classes.names.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto name_of = [&](std::size_t i) -> const std::string& { return classes.names[i]; };
  std::ranges::sort(order, {}, name_of);
  Labels labels;
  for (std::size_t text = 0; text < table.texts.size(); ++text) {
    const auto found = std::ranges::lower_bound(order, table.texts[text], {}, name_of);
    if (found == order.end() || name_of(*found) != table.texts[text]) {
      table.fail_at(first_line_of(table, text),
                    cat("the label '", table.texts[text], "' is not among the ",
                        counted(classes.names.size(), "classes"), " of ", classes.owner,
                        "; correct it, or remove its lines"));
    }
    labels.push_back(static_cast<std::int64_t>(*found));
  }
  return labels;
}

// Logs the classes without an image.
void note_missing_classes(const LabelTable& table, const Classes& classes, const Labels& labels) {
  std::vector<bool> has_images(classes.names.size());
  const auto mark = [&](std::int32_t text) {
    has_images[static_cast<std::size_t>(labels[static_cast<std::size_t>(text)])] = true;
  };
  for (const std::int32_t of : table.text_of) {
    if (table.combinations.empty()) {
      mark(of);
    } else {
      std::ranges::for_each(table.combinations[static_cast<std::size_t>(of)], mark);
    }
  }
  Names missing;
  for (std::size_t i = 0; i < classes.names.size(); ++i) {
    if (!has_images[i]) missing.push_back(classes.names[i]);
  }
  if (missing.empty()) return;
  log_info(cat(table.name, ": has images of ", classes.names.size() - missing.size(), " of the ",
               classes.names.size(), " classes of the training split, but none of ",
               listed_names(missing)));
}

// Returns true if the training split has a table that decides the classes of another split.
bool has_train_table(const DataConfig& data) {
  std::error_code ignored;
  return fs::is_regular_file(table_path(data, train_folder_of(data)), ignored);
}

}  // namespace

void join_path(const std::string& folder, std::string_view name, std::string& path) {
  path.clear();
  if (!name.starts_with('/')) path.append(folder).append("/");
  path.append(name);
}

SplitTable read_split_table(const DataConfig& data, const ModelConfig& model, Split split,
                            LabelsPerImage labels) {
  const fs::path folder = folder_of(data, split);
  LabelTable table = read_table(data, folder, labels);
  if (table.repeated > 0) {
    log_info(cat(table.name, ": left out ", counted(table.repeated, "lines"),
                 " whose image and label are in an earlier line"));
  }
  const bool by_train = split == Split::kVal && !data.split && has_train_table(data);
  const LabelTable deciding = by_train ? read_table(data, train_folder_of(data), labels) : table;
  Classes classes = classes_of(deciding, data, cat("the training split, ", deciding.name));
  if (labels == LabelsPerImage::kOne) {
    check_class_count(static_cast<std::int64_t>(classes.names.size()), model, deciding.name);
  }
  Labels label_of = labels_of_texts(table, classes);
  if (by_train) note_missing_classes(table, classes, label_of);
  check_files(table, folder.string());
  return {std::move(table), folder.string(), std::move(classes.names), std::move(label_of)};
}

std::vector<std::string> listed_classes(const DataConfig& data, LabelsPerImage labels) {
  Names names = read_table(data, folder_of(data, Split::kTrain), labels).texts;
  std::ranges::sort(names);
  return names;
}

}  // namespace dtn
