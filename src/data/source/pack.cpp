#include "data/source/pack.h"

#include <algorithm>
#include <string>
#include <vector>

#include "data/sample/resample.h"
#include "data/source/pack_writer.h"
#include "data/source/packed_format.h"
#include "data/source/parallel_ordered.h"
#include "dtn/core/check.h"
#include "io/crc32c.h"
#include "io/cursor.h"
#include "io/image/image_encode.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

// Buffers of one thread.
struct PackWorkspace {
  SampleWorkspace sample;
  ResampleWorkspace resample;
  Image decoded, resized;
};

// One record to be written.
struct Record {
  std::vector<std::byte> bytes;
  std::string damage;  // reason why it could not be resized
  bool resized = false;
};

// Returns a checksum of everything that decides the file's contents, except those of the images.
std::uint32_t job_checksum(const Dataset& dataset, const PackOptions& options) {
  std::string text = cat("version 1 classes ", dataset.num_classes());
  if (options.short_side) {
    text += cat(" short side ", *options.short_side, " quality ", options.quality,
                options.interpolation == Interpolation::kBicubic ? " bicubic" : " bilinear",
                options.resample == Resample::kPillow13 ? " pillow13" : "");
  }
  for (const std::string& name : dataset.class_names()) text += cat('\n', name);
  std::uint32_t crc = crc32c(as_bytes_of(text));
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    std::string item = dataset.item_name(i);
    put(item, dataset.label(i));
    crc = crc32c(as_bytes_of(item), crc);
  }
  const Tensor* labels = dataset.ready_fields().find("labels");
  return labels ? crc32c(as_bytes_of(packed::packed_labels(*labels)), crc) : crc;
}

// Resizes a sample. Returns false if the image is small enough or damaged.
bool shrink(const Sample& sample, const PackOptions& options, PackWorkspace& workspace,
            Record& record) {
  const std::string& name = workspace.sample.name;
  try {
    const ImageInfo info = read_image_info(sample.encoded, name);
    const std::int64_t side = *options.short_side;
    const std::int64_t shorter = std::min(info.width, info.height);
    if (shorter <= side) return false;
    decode_image_into(sample.encoded, name, workspace.decoded, {}, ColorMode::kAsStored);
    // As in torchvision's Resize, the long side is truncated to an integer.
    const auto scaled = [&](int length) {
      return static_cast<int>(length == shorter ? side : side * length / shorter);
    };
    resize(view(workspace.decoded), scaled(info.width), scaled(info.height),
           {options.interpolation, options.resample}, workspace.resample, workspace.resized);
  } catch (const DataError& e) {
    record.damage = e.what();
    return false;
  }
  encode_jpeg(workspace.resized, options.quality, record.bytes, HuffmanCodes::kStandard,
              exif_orientation(sample.encoded));
  record.resized = true;
  return true;
}

void make_record(const Dataset& dataset, std::int64_t index, const PackOptions& options,
                 PackWorkspace& workspace, Record& record) {
  record.damage.clear();
  record.resized = false;
  const Sample sample = dataset.load(index, workspace.sample);
  if (!sample.ready.empty()) {
    throw ConfigError("a data set without pixels cannot be packed; it is one file already");
  }
  if (sample.image) return encode_png(*sample.image, record.bytes);
  if (options.short_side && shrink(sample, options, workspace, record)) return;
  record.bytes.assign(sample.encoded.begin(), sample.encoded.end());
}

void check(const Dataset& dataset, const fs::path& output, const PackOptions& options) {
  if (options.short_side && *options.short_side < 1)
    throw ConfigError("the short side must be at least 1");
  if (options.quality < 1 || options.quality > 100) {
    throw ConfigError(cat("JPEG quality ", options.quality, " is outside [1, 100]"));
  }
  if (!dataset.has_pixels()) {
    throw ConfigError(
        "a data set of tensors or sequences has no images to pack; it is one file already");
  }
  if (dataset.num_classes() > packed::kMaxClasses) throw ConfigError("too many classes");
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(output, ignored))) {
    throw ConfigError(cat(output.string(), " exists; remove it or choose another output"));
  }
}

std::string class_names_text(const Dataset& dataset) {
  std::string text;
  for (const std::string& name : dataset.class_names()) text.append(name).push_back('\0');
  return text;
}

PackReport pack(const Dataset& dataset, const fs::path& output, const PackOptions& options,
                packed::PackWriter& writer,
                const std::function<bool(const PackProgress&)>& keep_going,
                const std::function<void(const std::string&)>& on_damaged) {
  PackReport report;
  report.resumed_at = writer.records();
  for_each_in_order<PackWorkspace, Record>(
      writer.records(), dataset.size(), options.jobs,
      [&](std::int64_t i, PackWorkspace& workspace, Record& record) {
        make_record(dataset, i, options, workspace, record);
      },
      [&](std::int64_t, const Record& record) {
        if (!record.damage.empty()) {
          ++report.undecodable;
          if (on_damaged) on_damaged(record.damage);
        }
        report.resized += record.resized;
        writer.add(record.bytes);
        writer.sync_when_due(options.sync_bytes, options.sync_seconds);
        report.stopped =
            keep_going && !keep_going({writer.records(), writer.bytes(), report.resized});
        return !report.stopped;
      });
  report.images = writer.records();
  report.stopped = report.images < dataset.size();
  if (report.stopped) {
    writer.sync();
    report.bytes = writer.bytes();
    return report;
  }
  packed::PackWriter::Classes classes{static_cast<std::uint64_t>(dataset.num_classes()),
                                      class_names_text(dataset)};
  if (const Tensor* labels = dataset.ready_fields().find("labels")) classes.labels = *labels;
  writer.finish(classes, [&](std::int64_t i) -> packed::PackWriter::Description {
    return {dataset.item_name(i), static_cast<std::uint32_t>(dataset.label(i))};
  });
  report.bytes = static_cast<std::int64_t>(fs::file_size(output));
  return report;
}

}  // namespace

PackReport pack_dataset(const Dataset& dataset, const fs::path& output, const PackOptions& options,
                        const std::function<bool(const PackProgress&)>& keep_going,
                        const std::function<void(const std::string&)>& on_damaged) {
  check(dataset, output, options);
  packed::PackWriter writer(output, job_checksum(dataset, options));
  try {
    return pack(dataset, output, options, writer, keep_going, on_damaged);
  } catch (const ConfigError&) {
    throw;
  } catch (const Error& e) {
    const std::string what = cat(
        e.what(),
        "\nThe images packed so far are kept: fix this and run the same command again to continue");
    if (!dynamic_cast<const DataError*>(&e)) throw Error(what);
    writer.sync();  // a sample failed, not the disk
    throw DataError(what);
  }
}

}  // namespace dtn
