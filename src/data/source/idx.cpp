#include <algorithm>
#include <filesystem>
#include <utility>

#include "dtn/core/check.h"
#include "dtn/data/datasets.h"
#include "io/crc32c.h"
#include "io/file.h"
#include "io/gzip.h"

namespace dtn {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxIdxBytes = std::int64_t{1} << 36;
constexpr int kUnsignedByte = 0x08;
constexpr int kMaxRank = 4;
constexpr std::size_t kMagicBytes = 4;
constexpr std::int64_t kMaxSide = 65'500;  // image side, as in DecodeOptions

[[noreturn]] void fail_idx(const std::string& name, const std::string& what) {
  throw DataError(cat(name, ": ", what, "; see data/README.md for where to get the file"));
}

// Checks the magic number (two zero bytes, the element type, the rank) and returns the rank.
int rank_of(std::span<const std::byte> magic, const std::string& name) {
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail_idx(name, "is not an IDX file (it does not begin with two zero bytes)");
  }
  int type = std::to_integer<int>(magic[2]);
  if (type != kUnsignedByte) {
    fail_idx(name, cat("holds IDX elements of type ", type, ", expected 8 (unsigned bytes)"));
  }
  int rank = std::to_integer<int>(magic[3]);
  if (rank < 1 || rank > kMaxRank) {
    fail_idx(name, cat("has ", rank, " dimensions, expected 1 to ", kMaxRank));
  }
  return rank;
}

// Reads big-endian extents and returns their product.
std::uint64_t read_dims(std::span<const std::byte> bytes, const std::string& name,
                        std::vector<std::int64_t>& dims) {
  std::uint64_t product = 1;
  for (std::size_t d = 0; d < bytes.size() / 4; ++d) {
    std::uint32_t extent = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      extent = extent << 8 | std::to_integer<std::uint32_t>(bytes[4 * d + i]);
    }
    if (extent == 0) fail_idx(name, cat("is empty (dimension ", d, " is 0)"));
    if (__builtin_mul_overflow(product, std::uint64_t{extent}, &product)) {
      fail_idx(name, "declares more elements than 64 bits can count");
    }
    dims.push_back(extent);
  }
  return product;
}

// Parses header and content of a plain or gzipped file. `read` fills a span and returns the number
// of bytes it filled.
template <class Read>
IdxArray parse(const std::string& name, std::uint64_t capacity, Read read) {
  std::byte header[kMagicBytes + 4 * kMaxRank];
  std::span<std::byte> magic(header, kMagicBytes);
  if (read(magic) < magic.size()) fail_idx(name, "is too short for an IDX file");
  std::span<std::byte> extents(header + kMagicBytes,
                               4 * static_cast<std::size_t>(rank_of(magic, name)));
  if (read(extents) < extents.size()) fail_idx(name, "ends within its IDX header");
  IdxArray array;
  std::uint64_t promised = read_dims(extents, name, array.dims);
  if (promised > capacity) {
    fail_idx(name, cat("is cut short: its header declares ", promised,
                       " bytes, but it can hold at most ", capacity));
  }
  array.values.resize(promised);
  std::size_t got = read(std::as_writable_bytes(std::span(array.values)));
  if (got < promised) {
    fail_idx(name,
             cat("is cut short: its header declares ", promised, " bytes, but it holds ", got));
  }
  std::byte extra;
  if (read(std::span(&extra, 1)) != 0) {
    fail_idx(name, cat("holds more than the ", promised, " bytes that its header declares"));
  }
  return array;
}

IdxArray read_idx(const std::string& path) {
  return parse_idx(read_file(path, kMaxIdxBytes), path);
}

// Returns the plain file if there is one, otherwise the gzipped file.
std::string find_idx(const std::string& root, const std::string& file) {
  fs::path plain = fs::path(root) / file;
  fs::path zipped = plain;
  zipped += ".gz";
  std::error_code ignored;
  if (fs::exists(plain, ignored)) return plain.string();
  if (fs::exists(zipped, ignored)) return zipped.string();
  throw DataError(cat("no such file: ", plain.string(),
                      " or the same with .gz; set data.root to the folder of the IDX files and "
                      "data.train, data.val to their prefixes (data/README.md says where to get "
                      "them)"));
}

// Returns the class names of Fashion-MNIST (Xiao et al., 2017), which is known by the checksum of
// its training or test labels. Returns nothing for other data.
std::vector<std::string> names_of_classes(std::span<const std::uint8_t> labels) {
  constexpr std::uint32_t kFashionTrain = 0x0047f202, kFashionTest = 0xe898e67e;
  const std::uint32_t checksum = crc32c(std::as_bytes(labels));
  if (checksum != kFashionTrain && checksum != kFashionTest) return {};
  return {"T-shirt/top", "trouser", "pullover", "dress", "coat",
          "sandal",      "shirt",   "sneaker",  "bag",   "ankle boot"};
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(std::string image_file, IdxArray images, const std::string& label_file,
             const IdxArray& labels, std::int64_t model_classes)
      : file_(std::move(image_file)), images_(std::move(images)) {
    labels_.assign(labels.values.begin(), labels.values.end());
    check_labels(labels_, model_classes, label_file);
    num_classes_ = *std::ranges::max_element(labels_) + 1;
    class_names_ = names_of_classes(labels.values);
    height_ = static_cast<int>(images_.dims[1]);
    width_ = static_cast<int>(images_.dims[2]);
    description_ = cat(size(), " images of ", width_, " x ", height_, " from ", file_);
  }

  Sample load(std::int64_t index, SampleWorkspace& workspace) const override {
    Image& image = workspace.image;
    image.reshape(width_, height_, 1);
    std::copy_n(images_.values.data() + index * std::ssize(image.pixels), image.pixels.size(),
                image.pixels.data());
    return {.encoded = {}, .image = &image, .ready = {}};
  }

  std::string sample_name(std::int64_t index) const override { return cat(file_, "[", index, "]"); }

 private:
  std::string file_;
  IdxArray images_;  // [N, height, width]
  int width_, height_;
};

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, const std::string& name) {
  if (is_gzip(bytes)) {
    GzipReader reader(bytes, name);
    return parse(name, max_inflated_bytes(bytes.size()),
                 [&](std::span<std::byte> out) { return reader.read(out); });
  }
  std::span<const std::byte> rest = bytes;
  return parse(name, bytes.size(), [&](std::span<std::byte> out) {
    std::size_t n = std::min(out.size(), rest.size());
    std::copy_n(rest.begin(), n, out.begin());
    rest = rest.subspan(n);
    return n;
  });
}

std::unique_ptr<Dataset> open_idx(const DataConfig& data, const ModelConfig& model, Split split) {
  std::string prefix =
      split == Split::kTrain ? data.train.value_or("train") : data.val.value_or("t10k");
  std::string image_file = find_idx(data.root, prefix + "-images-idx3-ubyte");
  std::string label_file = find_idx(data.root, prefix + "-labels-idx1-ubyte");
  IdxArray labels = read_idx(label_file);
  if (labels.dims.size() != 1) {
    fail_idx(label_file, cat("has ", labels.dims.size(), " dimensions, expected 1"));
  }
  IdxArray images = read_idx(image_file);
  if (images.dims.size() != 3) {
    fail_idx(image_file,
             cat("has ", images.dims.size(), " dimensions, expected 3 (images, rows, columns)"));
  }
  if (images.dims[1] > kMaxSide || images.dims[2] > kMaxSide) {
    fail_idx(image_file, cat("has images of ", images.dims[2], " x ", images.dims[1],
                             " pixels; a side may have at most ", kMaxSide));
  }
  if (images.dims[0] != labels.dims[0]) {
    fail_idx(image_file, cat("holds ", images.dims[0], " images, but ", label_file, " holds ",
                             labels.dims[0], " labels"));
  }
  return std::make_unique<IdxDataset>(std::move(image_file), std::move(images), label_file, labels,
                                      model.num_classes);
}

}  // namespace dtn
