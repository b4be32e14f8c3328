#include "apps/get/model_download.h"

#include <system_error>

#include "apps/get/fetch_record.h"
#include "apps/get/model_notes.h"
#include "apps/get/retries.h"
#include "apps/get/stopped.h"
#include "config/hub.h"
#include "config/layers.h"
#include "core/format.h"
#include "core/stop_signal.h"
#include "dtn/core/check.h"
#include "dtn/core/log.h"
#include "io/atomic_file.h"
#include "io/posix.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;

// Creates the folder, with those above it.
void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK) != 0) {
    throw Error(cat("cannot write to the folder ", folder.string(), ": ",
                    error ? error.message() : std::strerror(errno),
                    "; choose another one with DTN_CACHE or --output"));
  }
}

// Locks the folder, and waits while another process has it.
FileHandle lock_folder(const fs::path& folder) {
  FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) throw_errno("open", folder);
  for (bool said = false; !lock_file(handle.get()); sleep_until_stopped(0.1)) {
    if (!said) log_info(cat("another dtn-get is writing ", folder.string(), "; waiting for it"));
    said = true;
  }
  return handle;
}

// Checks that this program can load the model, and logs its size.
void check_config(const std::string& text, const std::string& source,
                  const ConfigSchemas& schemas) {
  const ExperimentConfig config = config::resolve(config::parse_hub_config(text, source, schemas),
                                                  schemas, Resample::kPillow13);
  const ModelConfig& model = config.model;
  const std::string classes =
      model.num_classes > 0 ? counted(model.num_classes, "classes") : "features, no classes";
  log_info(cat("model: ", config.name.empty() ? model.preset : config.name, ", ", classes, ", ",
               model.image_size.height, " x ", model.image_size.width, " pixels"));
}

class ModelDownload {
 public:
  ModelDownload(const ModelPlace& place, const GetOptions& options, const HubConnection& hub,
                const ConfigSchemas& schemas)
      : place_(place), options_(options), hub_(hub), schemas_(schemas) {}

  void run() {
    make_folder(place_.folder);
    const FileHandle lock = lock_folder(place_.folder);
    if (!options_.force && is_here(place_)) return;  // another process has just fetched it
    keep_config(fetch_config());
    HubModel pinned = place_.model;
    // The weights come from the commit that config.json comes from.
    const std::string& commit = files_[config::kHubConfig].facts.commit;
    if (!commit.empty()) pinned.revision = commit;
    const fs::path weights = place_.folder / kHubWeights;
    if (options_.force) drop_part(weights);
    files_[kHubWeights] = fetch_weights(hub_, {pinned, kHubWeights}, weights);
    write_record(place_.folder, place_.model, files_);
  }

 private:
  // Writes config.json. The record beside it says that the file is ours.
  void keep_config(const std::string& text) {
    const fs::path file = place_.folder / config::kHubConfig;
    if (!options_.force && fs::exists(file) && read_record(place_.folder).model.empty()) {
      throw ConfigError(cat(file.string(), " is there already, and dtn-get has not written it; ",
                            "choose another folder, or delete the file"));
    }
    write_record(place_.folder, place_.model, files_);
    write_file_atomic(file, text);
  }

  void drop_part(const fs::path& weights) const {
    for (const char* suffix : {".part", ".part.json"}) {
      std::error_code ignored;
      fs::remove(weights.string() + suffix, ignored);
    }
  }

  std::string fetch_config() {
    FetchedFile& fetched = files_[config::kHubConfig];
    std::string text = fetch_text(hub_, {place_.model, config::kHubConfig},
                                  static_cast<std::int64_t>(config::kMaxHubConfig), fetched);
    const std::string& commit = fetched.facts.commit;
    log_info(cat(place_.model.name(), " from ", hub_.endpoint.url.origin(),
                 commit.empty() ? "" : cat(", commit ", commit.substr(0, 10))));
    try {
      check_config(text, cat(place_.model.name(), "/", config::kHubConfig), schemas_);
    } catch (const ConfigError& e) {
      if (!options_.any_config) {
        throw ConfigError(cat(e.what(),
                              ". The weights were not fetched; --any-config fetches them "
                              "for use with --config"));
      }
      log_warn(cat(e.what(), "; these weights need --config"));
    }
    const auto notes = model_notes(text);
    for (const std::string& note : notes) log_info(note);
    if (notes.empty() || !notes.front().starts_with("license")) {
      log_info(cat("license: config.json names none; see ", hub_.endpoint.url.origin(),
                   hub_.endpoint.url.path, "/", place_.model.owner, "/", place_.model.repo));
    }
    return text;
  }

  const ModelPlace& place_;
  const GetOptions& options_;
  const HubConnection& hub_;
  const ConfigSchemas& schemas_;
  std::map<std::string, FetchedFile> files_;
};

}  // namespace

void get_model(const ModelPlace& place, const GetOptions& options, const HubConnection& hub,
               const ConfigSchemas& schemas) {
  ModelDownload(place, options, hub, schemas).run();
}

}  // namespace dtn::app
