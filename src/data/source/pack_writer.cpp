#include "data/source/pack_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string_view>

#include "core/seconds_since.h"
#include "data/source/packed_format.h"
#include "dtn/core/check.h"
#include "io/atomic_file.h"
#include "io/crc32c.h"
#include "io/cursor.h"
#include "io/file.h"

namespace dtn::packed {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kJournalMagic = "DTNPJRNL";
constexpr std::int64_t kMaxJournalBytes = 1ll << 40;
constexpr std::size_t kJournalHeader = 16;  // magic, version, job

struct JournalEntry {
  std::uint32_t bytes, crc;
  std::uint32_t check;  // checksum of both and of the record's number
};
constexpr std::size_t kEntryBytes = sizeof(JournalEntry);

JournalEntry journal_entry(std::int64_t record, std::uint32_t bytes, std::uint32_t crc) {
  std::string text;
  put(text, record);
  put(text, bytes);
  put(text, crc);
  return {bytes, crc, crc32c(as_bytes_of(text))};
}

std::string journal_header(std::uint32_t job) {
  std::string text(kJournalMagic);
  put(text, kOneLabel);
  put(text, job);
  return text;
}

fs::path with_suffix(const fs::path& path, const char* suffix) {
  fs::path out = path;
  out += suffix;
  return out;
}

int open_for_writing(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw_errno("create", path);
  return fd;
}

void truncate_to(int fd, std::int64_t size, const fs::path& path) {
  if (::ftruncate(fd, size) != 0) throw_errno("shorten", path);
  if (::lseek(fd, 0, SEEK_END) < 0) throw_errno("seek in", path);
}

}  // namespace

PackWriter::PackWriter(fs::path output, std::uint32_t job)
    : output_(std::move(output)),
      partial_(with_suffix(output_, ".partial")),
      journal_path_(with_suffix(output_, ".partial.journal")),
      file_(open_for_writing(partial_)),
      journal_(open_for_writing(journal_path_)) {
  if (!lock_file(file_.get())) {
    throw ConfigError(cat("another process is writing ", partial_.string(), "; let it finish"));
  }
  // The other process may have finished and renamed the file after it was opened here.
  struct stat ours {};
  struct stat named {};
  if (::fstat(file_.get(), &ours) != 0) throw_errno("examine", partial_);
  if (::stat(partial_.c_str(), &named) != 0 || named.st_ino != ours.st_ino) {
    throw ConfigError(cat("another process has just finished ", output_.string()));
  }
  take_up(job);
}

// Starts an empty file with space for the header, and a journal without entries.
void PackWriter::start(std::uint32_t job) {
  truncate_to(file_.get(), 0, partial_);
  truncate_to(journal_.get(), 0, journal_path_);
  const PackedHeader blank{};
  write_all(file_.get(), &blank, sizeof blank, partial_);
  const std::string header = journal_header(job);
  write_all(journal_.get(), header.data(), header.size(), journal_path_);
  end_ = synced_end_ = sizeof blank;
  records_ = 0;
}

// Goes back to the last record that both journal and file hold whole.
void PackWriter::take_up(std::uint32_t job) {
  struct stat status {};
  if (::fstat(file_.get(), &status) != 0) throw_errno("examine", partial_);
  const std::string journal = read_text(journal_path_.string(), kMaxJournalBytes);
  const bool begun = status.st_size >= static_cast<off_t>(sizeof(PackedHeader));
  if (!begun || journal.size() < kJournalHeader) return start(job);
  if (journal.compare(0, kJournalHeader, journal_header(job)) != 0) {
    throw ConfigError(cat(partial_.string(),
                          " was started with other data or other options; remove it and ",
                          journal_path_.string(), ", or choose another output"));
  }
  end_ = sizeof(PackedHeader);
  Cursor in(as_bytes_of(journal).subspan(kJournalHeader), journal_path_.string());
  while (in.left() >= kEntryBytes) {
    const auto entry = in.take<JournalEntry>();
    const bool intact = entry.check == journal_entry(records_, entry.bytes, entry.crc).check;
    if (!intact || end_ + entry.bytes > status.st_size) break;
    end_ += entry.bytes;
    ++records_;
  }
  synced_end_ = end_;
  truncate_to(file_.get(), end_, partial_);
  truncate_to(
      journal_.get(),
      static_cast<std::int64_t>(kJournalHeader) + records_ * static_cast<std::int64_t>(kEntryBytes),
      journal_path_);
}

void PackWriter::add(std::span<const std::byte> record) {
  if (record.size() > kMaxRecordBytes) {
    throw DataError(cat(output_.string(), ": record ", records_, " has ", record.size(),
                        " bytes, but at most ", kMaxRecordBytes, " are allowed"));
  }
  append_all(file_.get(), {reinterpret_cast<const char*>(record.data()), record.size()}, partial_);
  put(pending_, journal_entry(records_, static_cast<std::uint32_t>(record.size()), crc32c(record)));
  end_ += static_cast<std::int64_t>(record.size());
  ++records_;
}

void PackWriter::sync() {
  if (::fdatasync(file_.get()) != 0) throw_errno("sync", partial_);
  append_all(journal_.get(), pending_, journal_path_);
  pending_.clear();
  if (::fdatasync(journal_.get()) != 0) throw_errno("sync", journal_path_);
  synced_end_ = end_;
  synced_at_ = std::chrono::steady_clock::now();
}

void PackWriter::sync_when_due(std::int64_t after_bytes, double after_seconds) {
  if (end_ - synced_end_ >= after_bytes || seconds_since(synced_at_) >= after_seconds) sync();
}

void PackWriter::finish(const Classes& classes,
                        const std::function<Description(std::int64_t)>& describe) {
  sync();
  const std::string journal = read_text(journal_path_.string(), kMaxJournalBytes);
  Cursor in(as_bytes_of(journal), journal_path_.string());
  in.take_bytes(kJournalHeader);
  std::string index, names;
  std::uint64_t entry_at = sizeof(PackedHeader);
  for (std::int64_t i = 0; i < records_; ++i) {
    const auto record = in.take<JournalEntry>();
    const Description description = describe(i);
    put(index, PackedEntry{entry_at, names.size(), record.bytes, record.crc, description.label,
                           static_cast<std::uint32_t>(description.name.size())});
    entry_at += record.bytes;
    names += description.name;
  }
  PackedHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  const std::string labels = classes.labels.defined() ? packed_labels(classes.labels) : "";
  header.version = classes.labels.defined() ? kAnyLabels : kOneLabel;
  header.num_records = static_cast<std::uint64_t>(records_);
  header.num_classes = classes.count;
  header.index_at = (static_cast<std::uint64_t>(end_) + 7) / 8 * 8;
  header.names_bytes = names.size();
  header.classes_bytes = classes.names.size();
  header.index_crc = crc32c(as_bytes_of(index));
  header.strings_crc = crc32c(as_bytes_of(classes.names), crc32c(as_bytes_of(names)));
  header.file_bytes =
      header.index_at + index.size() + names.size() + classes.names.size() + labels.size();
  if (!labels.empty()) header.labels_crc = crc32c(as_bytes_of(labels));
  header.header_crc = header_checksum(header);
  const std::string padding(header.index_at - static_cast<std::uint64_t>(end_), '\0');
  for (const std::string_view part :
       std::array<std::string_view, 5>{padding, index, names, classes.names, labels}) {
    append_all(file_.get(), part, partial_);
  }
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) throw_errno("seek in", partial_);
  write_all(file_.get(), &header, sizeof header, partial_);
  if (::fsync(file_.get()) != 0) throw_errno("sync", partial_);
  if (::rename(partial_.c_str(), output_.c_str()) != 0) throw_errno("rename", partial_);
  const fs::path parent = output_.parent_path();
  sync_directory(parent.empty() ? fs::path(".") : parent);
  ::unlink(journal_path_.c_str());
}

}  // namespace dtn::packed
