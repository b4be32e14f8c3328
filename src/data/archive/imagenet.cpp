// Reads the original archives of ILSVRC2012 in place.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "data/archive/archive_dataset.h"
#include "data/archive/ilsvrc_devkit.h"
#include "data/source/image_names.h"
#include "dtn/core/check.h"
#include "dtn/core/parallel.h"
#include "dtn/data/datasets.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTar = ".tar";

// A class and the place of its archive inside the outer archive.
struct ClassArchive {
  std::string name;
  std::int64_t begin, size;
};

// Returns the classes, sorted by name.
std::vector<ClassArchive> find_classes(const ByteSource& archive, PassedOver& passed_over) {
  std::vector<ClassArchive> classes;
  TarReader reader(archive);
  for (TarMember member; reader.next(member);) {
    const std::string_view file = base_name(member.name);
    if (is_hidden_path(member.name) || !file.ends_with(kTar)) continue;
    classes.push_back(
        {std::string(file.substr(0, file.size() - kTar.size())), member.offset, member.size});
  }
  passed_over.add(reader);
  std::ranges::sort(classes, {}, &ClassArchive::name);
  const auto twice = std::ranges::adjacent_find(classes, {}, &ClassArchive::name);
  if (twice != classes.end()) {
    throw DataError(cat(archive.name(), ": holds ", twice->name, kTar, " twice"));
  }
  if (classes.empty()) {
    throw DataError(cat(archive.name(),
                        ": holds no class archive (n01440764.tar, ...); is it "
                        "ILSVRC2012_img_train.tar? See data/README.md"));
  }
  return classes;
}

ArchiveIndex search_train(const ArchiveSet& archives, SearchProgress& progress) {
  const auto archive = archives.open(0);
  PassedOver passed_over;
  const std::vector<ClassArchive> classes = find_classes(*archive, passed_over);
  std::vector<ArchiveIndex> parts(classes.size());
  std::vector<PassedOver> parts_passed_over(classes.size());
  parallel_for(static_cast<std::int64_t>(classes.size()), [&](std::int64_t i) {
    const auto c = static_cast<std::size_t>(i);
    const ClassArchive& at = classes[c];
    parts[c] = find_images(*archive, 0, at.begin, at.begin + at.size, parts_passed_over[c]);
    progress.add(at.size);
  });
  ArchiveIndex index;
  for (std::size_t c = 0; c < classes.size(); ++c) {
    passed_over.add(parts_passed_over[c]);
    if (parts[c].images.empty()) {
      const std::string kinds = parts_passed_over[c].files.kinds();
      throw DataError(cat(archive->name(), ": ", classes[c].name, kTar, " holds no images (",
                          kImageEndings, kinds.empty() ? "" : "; it has ", kinds, ")"));
    }
    for (ArchiveIndex::Image& image : parts[c].images) {
      image.label = static_cast<std::int32_t>(c);
      index.add(image, cat(classes[c].name, "/", parts[c].name(image)));
    }
    parts[c] = {};
  }
  index.remark = passed_over.remark(archive->name());
  return index;
}

// Returns the classes of an index from search_train(): the folders of the names, in their order.
std::vector<std::string> classes_of(const ArchiveIndex& index, const std::string& path) {
  std::vector<std::string> classes;
  for (const ArchiveIndex::Image& image : index.images) {
    const std::string_view name = index.name(image);
    const std::string_view folder = name.substr(0, name.find('/'));
    if (classes.empty() || classes.back() != folder) classes.emplace_back(folder);
    if (image.label + 1 != static_cast<std::int32_t>(classes.size())) {
      throw DataError(cat(path, ": the labels of its index are not in order; delete the index"));
    }
  }
  return classes;
}

ArchiveIndex search_val(const ArchiveSet& archives, SearchProgress& progress) {
  const auto archive = archives.open(0);
  PassedOver passed_over;
  ArchiveIndex index = find_images(*archive, 0, 0, archive->size(), passed_over);
  progress.add(archive->size());
  index.remark = passed_over.remark(archive->name());
  return index;
}

// Returns 293 for ILSVRC2012_val_00000293.JPEG, and 0 for a name of another form.
std::size_t number_of(std::string_view file) {
  constexpr std::string_view kPrefix = "ILSVRC2012_val_";
  if (!file.starts_with(kPrefix)) return 0;
  file.remove_prefix(kPrefix.size());
  std::size_t number = 0;
  const auto [stop, error] = std::from_chars(file.data(), file.data() + file.size(), number);
  const bool whole = error == std::errc() && stop < file.data() + file.size() && *stop == '.';
  return whole ? number : 0;
}

// Returns the index that the images would have in folders by class.
ArchiveIndex by_class(const ArchiveIndex& flat, const std::vector<std::int32_t>& labels,
                      const std::string& path) {
  if (flat.images.size() != labels.size()) {
    throw DataError(cat(path, ": holds ", flat.images.size(),
                        " images, but the development kit has the classes of ", labels.size(),
                        "; are both from ILSVRC2012? See data/README.md"));
  }
  ArchiveIndex index;
  std::set<std::size_t> seen;
  for (ArchiveIndex::Image image : flat.images) {
    const std::string_view file = base_name(flat.name(image));
    const std::size_t number = number_of(file);
    if (number == 0 || number > labels.size() || !seen.insert(number).second) {
      throw DataError(cat(path, ": '", file,
                          "' is not a validation image of the development kit, or appears twice"));
    }
    image.label = labels[number - 1];
    index.add(image, cat(imagenet_class_names()[static_cast<std::size_t>(image.label)], "/", file));
  }
  sort_images(index);
  index.remark = flat.remark;
  return index;
}

}  // namespace

std::unique_ptr<Dataset> open_imagenet(const DataConfig& data, const ModelConfig& model,
                                       Split split) {
  const bool train = split == Split::kTrain;
  const fs::path path =
      fs::path(data.root) / (train ? data.train.value_or("ILSVRC2012_img_train.tar")
                                   : data.val.value_or("ILSVRC2012_img_val.tar"));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw DataError(cat("no such file: ", path.string(), "; set data.root to the folder of the ",
                        "archives from image-net.org, and data.", name_of(split),
                        " if this file has another name (see data/README.md; for unpacked ",
                        "folders, data.dataset is imagefolder)"));
  }
  ArchiveSet archives({path.string()});
  std::vector<std::string> classes;
  ArchiveIndex index;
  if (train) {
    index = load_or_build_index(archives, "imagenet train 2", [&](SearchProgress& progress) {
      return search_train(archives, progress);
    });
    classes = classes_of(index, path.string());
  } else {
    const std::vector<std::int32_t> labels = read_ilsvrc_labels(data.root);
    index = load_or_build_index(archives, "imagenet val 2", [&](SearchProgress& progress) {
      return search_val(archives, progress);
    });
    index = by_class(index, labels, path.string());
    classes = imagenet_class_names();
  }
  const std::int64_t count = std::ssize(classes);
  check_class_count(count, model, path.string());
  return std::make_unique<ArchiveDataset>(std::move(archives), std::move(index),
                                          ClassList{"", std::move(classes), count}, split,
                                          path.string());
}

}  // namespace dtn
