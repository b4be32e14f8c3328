#include "train/record/split_lists.h"

#include "data/table/csv.h"
#include "dtn/data/dataset.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

std::string list_of(const Dataset& images, bool with_labels) {
  const bool labels = with_labels && images.has_labels() && !images.class_names().empty();
  std::string text = labels ? "path,label\n" : "path\n";
  std::string last;
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const std::string name = images.file_name(i);
    if (i > 0 && name == last) continue;  // an image is a sample once for each label set
    text += csv_field(name);
    if (labels) {
      text += ',' + csv_field(images.class_names()[static_cast<std::size_t>(images.label(i))]);
    }
    text += '\n';
    last = name;
  }
  return text;
}

}  // namespace

std::vector<std::string> write_split_lists(const fs::path& run, const SampleSource& training,
                                           const SampleSource* validation, bool with_labels) {
  std::vector<std::string> changed;
  const auto write = [&](const std::string& name, const SampleSource* source) {
    const Dataset* images = source ? source->source_dataset() : nullptr;
    if (!images) return;
    const fs::path file = run / "splits" / name;
    const std::string text = list_of(*images, with_labels);
    if (fs::exists(file)) {
      if (read_text(file.string()) == text) return;
      changed.push_back("splits/" + name);
    }
    fs::create_directories(file.parent_path());
    write_file_atomic(file, text);
  };
  write("train.csv", &training);
  write("val.csv", validation);
  return changed;
}

}  // namespace dtn
