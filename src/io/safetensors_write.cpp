#include <algorithm>
#include <nlohmann/json.hpp>

#include "dtn/io/safetensors.h"
#include "io/atomic_file.h"
#include "io/safetensors_checksum.h"
#include "io/safetensors_header.h"

namespace dtn {
namespace {

using namespace safetensors;
using Item = NamedTensors::value_type;

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.nbytes()};
}

// Widest type first, then by name.
std::vector<const Item*> file_order(const NamedTensors& tensors) {
  std::vector<const Item*> order;
  order.reserve(tensors.size());
  for (const Item& item : tensors) order.push_back(&item);
  std::ranges::sort(order, [](const Item* a, const Item* b) {
    std::size_t size_a = size_of(a->second.dtype());
    std::size_t size_b = size_of(b->second.dtype());
    return size_a != size_b ? size_a > size_b : a->first < b->first;
  });
  return order;
}

void check_arguments(const std::vector<const Item*>& order, const StringMap& metadata,
                     const std::string& file) {
  StringMap names;
  for (const Item* item : order) {
    const std::string& name = item->first;
    if (!item->second.defined())
      throw Error(cat(file, ": tensor ", in_quotes(name), " is undefined"));
    if (item->second.device() != kCpu) {
      throw Error(cat(file, ": tensor ", in_quotes(name), " is not in host memory"));
    }
    if (name == "__metadata__" || !names.emplace(name, "").second) {
      throw Error(cat(file, ": two tensors named ", in_quotes(name), ", or a reserved name"));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (key == kAlgorithmKey || key == kHeaderKey || key.starts_with(kTensorPrefix)) {
      throw Error(cat(file, ": the metadata key ", in_quotes(key), " is reserved for checksums"));
    }
  }
}

// The text as a JSON string with its quotes.
std::string json_text(std::string_view text, const std::string& file) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(cat(file, ": ", in_quotes(text), " is not valid UTF-8"));
  }
}

std::string make_header(const std::vector<const Item*>& order, const StringMap& metadata,
                        const std::string& file) {
  std::string json = "{\"__metadata__\":{";
  const char* comma = "";
  for (const auto& [key, value] : metadata) {
    json += cat(comma, json_text(key, file), ":", json_text(value, file));
    comma = ",";
  }
  json += "}";
  std::uint64_t at = 0;
  for (const Item* item : order) {
    const Tensor& tensor = item->second;
    json += cat(",", json_text(item->first, file), ":{\"dtype\":\"",
                stored_type_of(tensor.dtype()).name, "\",\"shape\":[");
    for (int d = 0; d < tensor.rank(); ++d) json += cat(d ? "," : "", tensor.dim(d));
    json += cat("],\"data_offsets\":[", at, ",", at + tensor.nbytes(), "]}");
    at += tensor.nbytes();
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  if (json.size() > kMaxHeaderBytes) {
    throw Error(cat(file, ": the header would have ", json.size(), " bytes; at most ",
                    kMaxHeaderBytes, " are allowed"));
  }
  return json;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const NamedTensors& tensors,
                       const StringMap& metadata) {
  std::string file = path.string();
  std::vector<const Item*> order = file_order(tensors);
  check_arguments(order, metadata, file);

  std::vector<std::size_t> sizes;
  sizes.reserve(order.size());
  for (const Item* item : order) sizes.push_back(item->second.nbytes());
  auto crcs = crc32_pieces(sizes, [&](std::size_t i, std::size_t begin, std::size_t) {
    return bytes_of(order[i]->second).data() + begin;
  });
  StringMap all = metadata;
  all.emplace(kAlgorithmKey, kAlgorithm);
  all.emplace(kHeaderKey, kNoChecksum);
  for (std::size_t i = 0; i < order.size(); ++i) {
    all.emplace(cat(kTensorPrefix, order[i]->first), to_hex(crcs[i]));
  }
  std::string json = make_header(order, all, file);
  std::size_t digits_at = find_header_digits(json);
  json.replace(digits_at, kNoChecksum.size(), to_hex(header_crc(json, digits_at)));

  AtomicFile out(path);
  std::uint64_t length = json.size();
  out.write(std::as_bytes(std::span<const std::uint64_t>(&length, 1)));
  out.write(json);
  for (const Item* item : order) out.write(bytes_of(item->second));
  out.commit();
}

}  // namespace dtn
