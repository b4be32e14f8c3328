#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "dtn/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace dtn {
namespace safetensors {
namespace {

// Returns the text as a JSON string with its quotes.
std::string json_text(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(cat(file, ": ", in_quotes(text), " is not valid UTF-8"));
  }
}

}  // namespace

void check_names(const std::vector<Item>& items, const StringMap& metadata,
                 const std::string& file) {
  std::set<std::string_view> names;
  for (const Item& item : items) {
    if (item.name == "__metadata__" || !names.insert(item.name).second) {
      throw Error(
          cat(file, ": the tensor name ", in_quotes(item.name), " is used twice or reserved"));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (key == kAlgorithmKey || key == kHeaderKey || key.starts_with(kTensorPrefix)) {
      throw Error(cat(file, ": the metadata key ", in_quotes(key), " is reserved for checksums"));
    }
  }
}

std::string make_header(const std::vector<Item>& items, const std::vector<std::uint32_t>& checksums,
                        const StringMap& metadata, const std::string& file) {
  StringMap all = metadata;
  all.emplace(kAlgorithmKey, kAlgorithm);
  all.emplace(kHeaderKey, kNoChecksum);
  for (std::size_t i = 0; i < items.size(); ++i) {
    all.emplace(cat(kTensorPrefix, items[i].name), to_hex(checksums[i]));
  }
  std::string json = "{\"__metadata__\":{";
  const char* comma = "";
  for (const auto& [key, value] : all) {
    json += cat(comma, json_text(key, file), ":", json_text(value, file));
    comma = ",";
  }
  json += "}";
  std::uint64_t at = 0;
  for (const Item& item : items) {
    json += cat(",", json_text(item.name, file), ":{\"dtype\":\"", stored_type_of(item.dtype).name,
                "\",\"shape\":[");
    for (int d = 0; d < item.shape.rank(); ++d) json += cat(d ? "," : "", item.shape[d]);
    json += cat("],\"data_offsets\":[", at, ",", at + item.nbytes(), "]}");
    at += item.nbytes();
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw Error(cat(file, ": the header would have ", json.size(), " bytes; at most ",
                    kMaxHeaderBytes, " are allowed"));
  }
  const std::size_t digits_at = find_header_digits(json);
  json.replace(digits_at, kNoChecksum.size(), to_hex(header_crc(json, digits_at)));
  return json;
}

}  // namespace safetensors

namespace {

using namespace safetensors;

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.nbytes()};
}

// Sorts by type, widest first, then by name.
NamedTensors in_file_order(NamedTensors tensors, const std::string& file) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) throw Error(cat(file, ": tensor ", in_quotes(name), " is undefined"));
    if (tensor.device() != kCpu) {
      throw Error(cat(file, ": tensor ", in_quotes(name), " is not in host memory"));
    }
  }
  std::ranges::sort(tensors, [](const auto& a, const auto& b) {
    const std::size_t size_a = size_of(a.second.dtype()), size_b = size_of(b.second.dtype());
    return size_a != size_b ? size_a > size_b : a.first < b.first;
  });
  return tensors;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const StringMap& metadata) {
  const std::string file = path.string();
  const NamedTensors ordered = in_file_order(tensors, file);
  std::vector<Item> items;
  std::vector<std::size_t> sizes;
  for (const auto& [name, tensor] : ordered) {
    items.push_back({name, tensor.dtype(), tensor.shape()});
    sizes.push_back(tensor.nbytes());
  }
  check_names(items, metadata, file);
  const auto crcs = crc32_pieces(sizes, [&](std::size_t i, std::size_t begin, std::size_t) {
    return bytes_of(ordered[i].second).data() + begin;
  });
  const std::string json = make_header(items, crcs, metadata, file);
  AtomicFile out(path);
  const std::uint64_t length = json.size();
  out.write(std::as_bytes(std::span<const std::uint64_t>(&length, 1)));
  out.write(json);
  for (const auto& [name, tensor] : ordered) out.write(bytes_of(tensor));
  out.commit();
}

}  // namespace dtn
