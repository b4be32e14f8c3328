#include "apps/get/fetch_record.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "io/atomic_file.h"
#include "io/file.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRecord = "dtn-get.json";
constexpr std::int64_t kMaxRecordBytes = 1 << 20;

}  // namespace

FetchRecord read_record(const fs::path& folder) {
  const fs::path file = folder / kRecord;
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  const Json json = Json::parse(read_text(file.string(), kMaxRecordBytes), nullptr, false);
  FetchRecord record;
  if (!json.is_object()) return record;
  if (const auto model = json.find("model"); model != json.end() && model->is_string()) {
    record.model = model->get<std::string>();
  }
  const auto files = json.find("files");
  if (files == json.end() || !files->is_object()) return record;
  for (const auto& [name, entry] : files->items()) {
    if (!entry.is_object()) continue;
    const auto size = entry.find("size");
    if (size == entry.end() || !size->is_number_integer()) continue;
    record.sizes[name] = size->get<std::int64_t>();
  }
  return record;
}

void write_record(const fs::path& folder, const HubModel& model,
                  const std::map<std::string, FetchedFile>& files) {
  Json json{{"model", model.name()}, {"files", Json::object()}};
  for (const auto& [name, file] : files) {
    json["files"][name] = {
        {"url", file.address},         {"etag", file.facts.etag},
        {"commit", file.facts.commit}, {"size", file.size},
        {"sha256", file.sha256},       {"sha256_named_by_server", !file.facts.sha256.empty()}};
  }
  write_file_atomic(folder / kRecord,
                    json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace dtn::app
