// Reads WebDataset's tar shards (https://github.com/webdataset/webdataset, "The WebDataset Format")
// in place.
#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "core/format.h"
#include "core/text.h"
#include "data/archive/archive_dataset.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxLabelBytes = 32;
constexpr std::int32_t kMaxLabel = 999'999;
constexpr std::string_view kLabelEnding = ".cls";
constexpr std::string_view kJsonEnding = ".json";
constexpr std::int64_t kMaxJsonBytes = 1 << 20;

// Image and label of one key, as found so far.
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
  ShardSearch(const FileSource& shard, std::uint32_t number) : shard_(shard), number_(number) {}

  ArchiveIndex run(PassedOver& passed_over) {
    TarReader reader(shard_);
    for (TarMember member; reader.next(member);) {
      if (is_hidden_path(member.name)) continue;
      std::string key = key_of(member.name);
      if (key.empty()) {
        passed_over.files.add_file(member.name);
        continue;
      }
      if (key != group_.key) finish_group(passed_over.files);
      group_.key = std::move(key);
      take(member);
    }
    finish_group(passed_over.files);
    passed_over.add(reader);
    return std::move(index_);
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

  // Reads a label: digits, with white space around them.
  std::int32_t read_label(const TarMember& member) const {
    if (member.size > kMaxLabelBytes) fail("has a .cls file that is too long for a label");
    std::string text(static_cast<std::size_t>(member.size), ' ');
    shard_.read(member.offset, std::as_writable_bytes(std::span(text)));
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    const std::size_t end = std::max(begin, text.find_last_not_of(" \t\r\n") + 1);
    const auto label = parse_number<std::int32_t>(text.substr(begin, end - begin));
    if (label && 0 <= *label && *label <= kMaxLabel) return *label;
    fail("has a .cls file that does not hold a label from 0 to 999999 in digits");
  }

  // Reads the member `label` of an object: a number, or a text of digits.
  std::int32_t read_json_label(const TarMember& member) const {
    if (member.size > kMaxJsonBytes) fail("has a .json file of more than 1 MiB");
    std::string text(static_cast<std::size_t>(member.size), ' ');
    shard_.read(member.offset, std::as_writable_bytes(std::span(text)));
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) fail("has a .json file that is not JSON");
    if (!json.is_object() || !json.contains("label")) {
      fail(
          "has no label: there is no .cls file beside its image, and its .json file has no member "
          "\"label\"");
    }
    const nlohmann::json& value = json["label"];
    std::optional<std::int64_t> label;
    if (value.is_number_integer()) label = value.get<std::int64_t>();
    if (value.is_string()) label = parse_number<std::int64_t>(value.get_ref<const std::string&>());
    if (label && 0 <= *label && *label <= kMaxLabel) return static_cast<std::int32_t>(*label);
    fail(
        "has a .json file whose \"label\" is not a whole number from 0 to 999999; names of classes "
        "are not read there");
  }

  // A label without an image is not a sample. The image is missing, has a format that is not read,
  // or has a second dot in its name. In WebDataset's layout, a key ends at the first dot.
  void finish_group(LeftOut& left_out) {
    if (group_.image && !group_.label && group_.json) group_.label = read_json_label(*group_.json);
    if (group_.image && !group_.label)
      fail("has no label: there is no .cls or .json file beside its image");
    if (group_.image) {
      index_.add(image_at(*group_.image, number_, *group_.label), group_.image->name);
    } else {
      count_left_out(left_out);
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
  ArchiveIndex index_;
  Group group_;
};

ArchiveIndex search(const ArchiveSet& shards, SearchProgress& progress) {
  std::vector<ArchiveIndex> parts(shards.count());
  std::vector<PassedOver> parts_passed_over(shards.count());
  parallel_for(static_cast<std::int64_t>(shards.count()), [&](std::int64_t i) {
    const auto s = static_cast<std::size_t>(i);
    const auto shard = shards.open(s);
    parts[s] = ShardSearch(*shard, static_cast<std::uint32_t>(s)).run(parts_passed_over[s]);
    progress.add(shard->size());
  });
  ArchiveIndex index;
  PassedOver passed_over;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    index.append(parts[s]);
    passed_over.add(parts_passed_over[s]);
    parts[s] = {};
  }
  sort_images(index);
  index.remark = passed_over.remark(shards.path(0));
  return index;
}

}  // namespace

std::unique_ptr<Dataset> open_webdataset(const DataConfig& data, const ModelConfig& model,
                                         Split split) {
  const auto& given = split == Split::kTrain ? data.train : data.val;
  const fs::path pattern = fs::path(data.root) / given.value_or(cat("*", name_of(split), "*.tar"));
  ArchiveSet shards(expand_shards(pattern.string()));
  ArchiveIndex index = load_or_build_index(
      shards, "webdataset 4", [&](SearchProgress& progress) { return search(shards, progress); });
  if (index.images.empty()) {
    throw DataError(cat(shards.path(0),
                        ": the shards hold no images with labels (key.cls or key.json beside an "
                        "image of the same key: ",
                        kImageEndings, ")", index.remark.empty() ? "" : "; ", index.remark));
  }
  std::int64_t classes = 0;
  for (const ArchiveIndex::Image& image : index.images) {
    if (image.label < 0) throw DataError(cat(shards.path(0), ": its index has no labels"));
    classes = std::max<std::int64_t>(classes, image.label + 1);
  }
  check_class_count(classes, model, pattern.string());
  const std::string where = cat(counted(shards.count(), "shards"), ", ", pattern.string());
  return std::make_unique<ArchiveDataset>(std::move(shards), std::move(index),
                                          std::vector<std::string>(), classes, split, where);
}

}  // namespace dtn
