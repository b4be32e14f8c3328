#include "apps/get/part_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/format.h"
#include "io/atomic_file.h"
#include "io/file.h"

namespace dtn::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxStateBytes = 1 << 16;

fs::path with_suffix(const fs::path& file, const char* suffix) { return file.string() + suffix; }

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns nothing useful, with no size, for a state that is absent or damaged.
FileFacts read_facts(const fs::path& state) {
  std::error_code error;
  if (!fs::exists(state, error)) return {};
  const Json json = Json::parse(read_text(state.string(), kMaxStateBytes), nullptr, false);
  if (!json.is_object()) return {};
  FileFacts facts{.size = {},
                  .sha256 = text_at(json, "sha256"),
                  .etag = text_at(json, "etag"),
                  .commit = text_at(json, "commit"),
                  .validator = text_at(json, "validator")};
  const auto size = json.find("size");
  if (size != json.end() && size->is_number_integer()) facts.size = size->get<std::int64_t>();
  return facts;
}

void write_facts(const fs::path& state, const FileFacts& facts) {
  const Json json{{"size", facts.size.value_or(0)},
                  {"sha256", facts.sha256},
                  {"etag", facts.etag},
                  {"commit", facts.commit},
                  {"validator", facts.validator}};
  write_file_atomic(state, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::int64_t size_of_file(int fd, const fs::path& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno("read", path);
  if (!S_ISREG(status.st_mode)) throw Error(cat(path.string(), " is not a regular file; move it"));
  return status.st_size;
}

}  // namespace

PartFile::PartFile(fs::path file)
    : file_(std::move(file)),
      part_(with_suffix(file_, ".part")),
      state_(with_suffix(file_, ".part.json")),
      handle_(::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)) {
  if (handle_.get() < 0) throw_errno("create", part_);
  bytes_ = size_of_file(handle_.get(), part_);
  facts_ = read_facts(state_);
  if (bytes_ > facts_.size.value_or(0)) {
    if (::ftruncate(handle_.get(), 0) != 0) throw_errno("shorten", part_);
    bytes_ = 0;
  }
  if (::lseek(handle_.get(), bytes_, SEEK_SET) < 0) throw_errno("read", part_);
}

bool PartFile::belongs_to(const FileFacts& served) const {
  if (served.size && served.size != facts_.size) return false;
  if (!served.sha256.empty() && !facts_.sha256.empty()) return served.sha256 == facts_.sha256;
  return !served.etag.empty() && served.etag == facts_.etag;
}

void PartFile::restart(const FileFacts& facts) {
  if (::ftruncate(handle_.get(), 0) != 0) throw_errno("shorten", part_);
  if (::lseek(handle_.get(), 0, SEEK_SET) < 0) throw_errno("write", part_);
  bytes_ = hashed_ = 0;
  hash_ = {};
  facts_ = facts;
  write_facts(state_, facts_);
}

void PartFile::append(std::span<const std::byte> bytes) {
  try {
    write_all(handle_.get(), bytes.data(), bytes.size(), part_);
  } catch (const Error& e) {
    std::error_code none;
    const auto space = fs::space(part_.parent_path(), none);
    const std::string free =
        none ? "" : cat("; ", bytes_text(static_cast<double>(space.available)), " are free there");
    throw Error(cat(e.what(), free, ". ", bytes_text(static_cast<double>(bytes_)),
                    " of the file are kept; make room and run the same command again"));
  }
  if (hashed_ == bytes_) {
    hash_.add(bytes);
    hashed_ += static_cast<std::int64_t>(bytes.size());
  }
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

std::string PartFile::sha256() {
  std::vector<std::byte> piece(std::size_t{1} << 20);
  const FileSource source(part_.string());
  while (hashed_ < bytes_) {
    const auto n =
        std::min<std::int64_t>(static_cast<std::int64_t>(piece.size()), bytes_ - hashed_);
    const std::span some = std::span(piece).first(static_cast<std::size_t>(n));
    source.read(hashed_, some);
    hash_.add(some);
    hashed_ += n;
  }
  return hash_.hex();
}

void PartFile::commit() {
  if (::fsync(handle_.get()) != 0) throw_errno("sync", part_);
  rename_durably(part_, file_);
  std::error_code ignored;
  fs::remove(state_, ignored);
}

void PartFile::discard() {
  std::error_code ignored;
  fs::remove(part_, ignored);
  fs::remove(state_, ignored);
}

}  // namespace dtn::app
