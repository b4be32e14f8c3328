// Reads WebDataset's tar shards (https://github.com/webdataset/webdataset, "The WebDataset Format")
// in place.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include "core/format.h"
#include "core/text.h"
#include "data/archive/archive_dataset.h"
#include "data/archive/shard_labels.h"
#include "data/source/image_names.h"
#include "data/source/label_matrix.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxLabelBytes = 32;
constexpr std::string_view kLabelEnding = ".cls";
constexpr std::string_view kJsonEnding = ".json";
constexpr std::int64_t kMaxJsonBytes = 1 << 20;

// The images that a search finds in some shards. Their labels are positions in `labels`.
struct Found {
  ArchiveIndex index;
  ShardLabels labels;
  PassedOver passed_over;
};

// Image and labels of one key, as found so far.
struct Group {
  std::string key;
  std::optional<TarMember> image;
  std::optional<std::int32_t> label;
  std::optional<TarMember> json;
  // Members to report only if the key has no image: their names, and the number of labels whose
  // name has a second dot.
  std::vector<std::string> others;
  std::int64_t dotted_labels = 0;
};

// True for an image format that is not read; false for fields of a sample such as .json.
bool is_unread_image(std::string_view ending) {
  constexpr std::array<std::string_view, 7> kEndings = {".avif", ".heic", ".heif", ".tif",
                                                        ".tiff", ".jp2",  ".jxl"};
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

// Returns the name up to the first dot of its last part; empty if there is no dot.
std::string key_of(const std::string& name) {
  const std::size_t file = name.rfind('/') + 1;
  const std::size_t dot = name.find('.', file);
  return dot == name.npos ? std::string() : name.substr(0, dot);
}

class ShardSearch {
 public:
  ShardSearch(const FileSource& shard, std::uint32_t number, Found& found)
      : shard_(shard), number_(number), found_(found) {}

  void run() {
    TarReader reader(shard_);
    for (TarMember member; reader.next(member);) {
      if (is_hidden_path(member.name)) continue;
      std::string key = key_of(member.name);
      if (key.empty()) {
        found_.passed_over.files.add_file(member.name);
        continue;
      }
      if (key != group_.key) finish_group();
      group_.key = std::move(key);
      take(member);
    }
    finish_group();
    found_.passed_over.add(reader);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(cat(shard_.name(), ": the sample '", printable(group_.key), "' ", what,
                        "; write the shard again, or leave it out"));
  }

  void take(const TarMember& member) {
    const std::string extension = lowered(member.name.substr(group_.key.size()));
    if (extension.find('.', 1) != extension.npos) {
      group_.others.push_back(member.name);
      group_.dotted_labels += extension.ends_with(kLabelEnding);
    } else if (is_image_name(extension)) {
      if (group_.image) fail("has two images");
      group_.image = member;
    } else if (extension == kLabelEnding) {
      if (group_.label) fail("has two labels");
      group_.label = read_label(member);
    } else if (extension == kJsonEnding) {
      if (group_.json) fail("has two .json files");
      group_.json = member;
    } else {
      group_.others.push_back(member.name);
    }
  }

  std::string read_text(const TarMember& member) const {
    std::string text(static_cast<std::size_t>(member.size), ' ');
    shard_.read(member.offset, std::as_writable_bytes(std::span(text)));
    return text;
  }

  // Reads a label: digits, with white space around them.
  std::int32_t read_label(const TarMember& member) const {
    if (member.size > kMaxLabelBytes) fail("has a .cls file that is too long for a label");
    const std::string text = read_text(member);
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    const std::size_t end = std::max(begin, text.find_last_not_of(" \t\r\n") + 1);
    if (const auto label = label_number(text.substr(begin, end - begin))) return *label;
    fail("has a .cls file that does not hold a label from 0 to 999999 in digits");
  }

  // Returns the labels of the group. A .cls decides if there is one.
  std::vector<ShardLabel> read_labels() const {
    if (group_.label) return {{std::to_string(*group_.label), true}};
    if (!group_.json) fail("has no label: there is no .cls or .json file beside its image");
    if (group_.json->size > kMaxJsonBytes) fail("has a .json file of more than 1 MiB");
    try {
      return parse_json_labels(read_text(*group_.json));
    } catch (const DataError& e) {
      fail(e.what());
    }
  }

  // A label without an image is not a sample. The image is missing, has a format that is not read,
  // or has a second dot in its name. In WebDataset's layout, a key ends at the first dot.
  void finish_group() {
    if (group_.image) {
      const std::int32_t list = found_.labels.add(read_labels(), shard_.name(), group_.key);
      found_.index.add(image_at(*group_.image, number_, list), group_.image->name);
    } else {
      count_left_out(found_.passed_over.files);
    }
    group_ = {};
  }

  void count_left_out(LeftOut& left_out) const {
    left_out.add("label without an image", "labels without an image",
                 group_.dotted_labels + static_cast<std::int64_t>(group_.label.has_value()));
    for (const std::string& name : group_.others) {
      if (is_image_name(name)) {
        left_out.add("image with a second dot in its name (a key ends at the first)",
                     "images with a second dot in their name (a key ends at the first)");
      } else if (is_unread_image(lower_ending(name))) {
        left_out.add_file(name);
      }
    }
  }

  const FileSource& shard_;
  std::uint32_t number_;
  Found& found_;
  Group group_;
};

ArchiveIndex search(const ArchiveSet& shards, SearchProgress& progress) {
  std::vector<Found> parts(shards.count());
  parallel_for(static_cast<std::int64_t>(shards.count()), [&](std::int64_t i) {
    const auto s = static_cast<std::size_t>(i);
    const auto shard = shards.open(s);
    ShardSearch(*shard, static_cast<std::uint32_t>(s), parts[s]).run();
    progress.add(shard->size());
  });
  ArchiveIndex index;
  ShardLabels labels;
  PassedOver passed_over;
  for (Found& part : parts) {
    const std::vector<std::int32_t> places = labels.add(part.labels);
    for (ArchiveIndex::Image& image : part.index.images) {
      image.label = places[static_cast<std::size_t>(image.label)];
    }
    index.append(part.index);
    part.index = {};
    passed_over.add(part.passed_over);
  }
  labels.classify(index);
  sort_images(index);
  index.remark = passed_over.remark(shards.path(0));
  return index;
}

// The shards of a split and their index.
struct OpenShards {
  std::string pattern;
  ArchiveSet archives;
  ArchiveIndex index;

  std::string where() const { return cat(counted(archives.count(), "shards"), ", ", pattern); }
};

OpenShards open_shards(const DataConfig& data, Split split) {
  const auto& given = split == Split::kTrain ? data.train : data.val;
  const fs::path pattern = fs::path(data.root) / given.value_or(cat("*", name_of(split), "*.tar"));
  ArchiveSet archives(expand_shards(pattern.string()));
  ArchiveIndex index = load_or_build_index(archives, "webdataset 5", [&](SearchProgress& progress) {
    return search(archives, progress);
  });
  if (index.images.empty()) {
    throw DataError(cat(archives.path(0),
                        ": the shards hold no images with labels (key.cls or key.json beside an "
                        "image of the same key: ",
                        kImageEndings, ")", index.remark.empty() ? "" : "; ", index.remark));
  }
  return {pattern.string(), std::move(archives), std::move(index)};
}

// Throws DataError that names the first image with several labels or none.
void check_single_labels(const OpenShards& shards) {
  if (shards.index.lists.empty()) return;
  for (const ArchiveIndex::Image& image : shards.index.images) {
    const std::size_t count = shards.index.lists[static_cast<std::size_t>(image.label)].size();
    if (count == 1) continue;
    throw DataError(cat(shards.archives.path(image.archive), ": ", shards.index.name(image),
                        count == 0 ? " has no label" : cat(" has ", count, " labels"),
                        "; for images with any number of labels, set task: multilabel"));
  }
  throw DataError(cat(shards.archives.path(0), ": its index is damaged; delete it"));
}

// Returns the classes of the images; without names, up to the largest number.
ClassList classes_of(const OpenShards& shards) {
  const ArchiveIndex& index = shards.index;
  ClassList classes{"", index.classes, std::ssize(index.classes)};
  const auto count = [&](std::int32_t label) {
    if (label < 0) throw DataError(cat(shards.archives.path(0), ": its index has no labels"));
    classes.count = std::max<std::int64_t>(classes.count, label + 1);
  };
  if (index.lists.empty()) {
    for (const ArchiveIndex::Image& image : index.images) count(image.label);
  }
  for (const std::vector<std::int32_t>& list : index.lists) std::ranges::for_each(list, count);
  return classes;
}

// Returns images with exactly one label.
std::unique_ptr<Dataset> with_one_label(OpenShards shards, const ModelConfig& model, Split split) {
  check_single_labels(shards);
  const ClassList classes = classes_of(shards);
  check_class_count(classes.count, model, shards.pattern);
  const std::string where = shards.where();
  return std::make_unique<ArchiveDataset>(std::move(shards.archives), std::move(shards.index),
                                          classes, split, where);
}

// Returns images with any number of labels.
std::unique_ptr<Dataset> with_any_labels(OpenShards shards, Split split) {
  const ClassList classes = classes_of(shards);
  if (classes.count == 0) throw DataError(cat(shards.pattern, ": no image has a label"));
  std::vector<std::int32_t> list_of;
  for (const ArchiveIndex::Image& image : shards.index.images) list_of.push_back(image.label);
  std::vector<std::vector<std::int32_t>> lists = std::move(shards.index.lists);
  if (lists.empty()) {
    for (std::int32_t label = 0; label < classes.count; ++label) lists.push_back({label});
  }
  Tensor labels = label_matrix(list_of, lists, classes.count);
  const std::string where = shards.where();
  return std::make_unique<ArchiveDataset>(std::move(shards.archives), std::move(shards.index),
                                          classes, std::move(labels), split, where);
}

}  // namespace

std::unique_ptr<Dataset> open_webdataset(const DataConfig& data, const ModelConfig& model,
                                         Split split) {
  return with_one_label(open_shards(data, split), model, split);
}

std::unique_ptr<Dataset> open_multilabel_webdataset(const DataConfig& data, const ModelConfig&,
                                                    Split split) {
  return with_any_labels(open_shards(data, split), split);
}

std::unique_ptr<Dataset> open_any_webdataset(const DataConfig& data, const ModelConfig& model,
                                             Split split) {
  OpenShards shards = open_shards(data, split);
  if (shards.index.lists.empty()) return with_one_label(std::move(shards), model, split);
  return with_any_labels(std::move(shards), split);
}

}  // namespace dtn
