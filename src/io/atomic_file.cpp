#include "io/atomic_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <system_error>
#include <vector>

#include "io/posix.h"

namespace dtn {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr std::string_view kTrashMark = ".trash-";

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// Unique among processes and threads: "<pid>-<count>".
std::string unique_suffix() {
  static std::atomic<unsigned> count{0};
  return cat(::getpid(), "-", count.fetch_add(1));
}

fs::path temporary_for(const fs::path& path) {
  fs::path name = path;
  name += cat(kTemporaryMark, unique_suffix());
  return name;
}

// "model/" means the folder model, whose parent is not model.
fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

void sync_path(const fs::path& path, int flags) {
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (file.get() < 0) throw_errno("open", path);
  // Some network file systems cannot sync a folder and return EINVAL. That error is ignored.
  if (::fsync(file.get()) != 0 && errno != EINVAL) throw_errno("sync", path);
}

void sync_tree(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::end(entry); entry.increment(error)) {
    if (entry->is_symlink(error)) continue;
    if (entry->is_directory(error)) folders.push_back(entry->path());
    if (entry->is_regular_file(error)) sync_path(entry->path(), 0);
  }
  if (error) throw_errno("list", folder, error.value());
  for (const fs::path& f : folders) sync_path(f, O_DIRECTORY);
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("move a finished file to", to);
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)), temporary_(temporary_for(path_)) {
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_errno("create", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_all(open_file(), bytes.data(), bytes.size(), path_);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void AtomicFile::rewrite(std::uint64_t offset, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::pwrite(open_file(), text.data(), text.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw_errno("write", path_);
    text.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void AtomicFile::sync() {
  if (::fsync(open_file()) != 0) throw_errno("sync", path_);
}

void AtomicFile::commit() {
  sync();
  commit_unsynced();
  sync_directory(parent_of(path_));
}

void AtomicFile::commit_unsynced() {
  const int file = open_file();
  rename_or_throw(temporary_, path_);
  ::close(file);
  fd_ = -1;
}

int AtomicFile::open_file() const {
  DTN_CHECK(fd_ >= 0, path_.string(), " is already committed");
  return fd_;
}

void write_file_atomic(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

AtomicDirectory::AtomicDirectory(const fs::path& path)
    : path_(without_trailing_slash(path)), staging_(temporary_for(path_)) {
  std::error_code error;
  if (!fs::create_directory(staging_, error)) throw_errno("create", staging_, error.value());
}

AtomicDirectory::~AtomicDirectory() {
  if (!staging_.empty()) remove_quietly(staging_);
}

void AtomicDirectory::commit() {
  DTN_CHECK(!staging_.empty(), path_.string(), " is already committed");
  sync_tree(staging_);
  if (::rename(staging_.c_str(), path_.c_str()) == 0) {
    staging_.clear();
  } else if (errno != ENOTEMPTY && errno != EEXIST) {
    throw_errno("move a finished folder to", path_);
  } else if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) !=
             0) {
    replace_by_two_renames();
  }
  sync_directory(parent_of(path_));
  if (!staging_.empty()) remove_quietly(staging_);  // the replaced folder
  staging_.clear();
}

// For file systems without RENAME_EXCHANGE, such as NFS. Between the two renames no folder has the
// name: a process that dies there leaves the earlier folder with .old behind its name, which
// remove_stale_temporaries() does not touch.
void AtomicDirectory::replace_by_two_renames() {
  const fs::path old = path_.string() + ".old";
  remove_quietly(old);
  rename_or_throw(path_, old);
  if (::rename(staging_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    (void)::rename(old.c_str(), path_.c_str());
    throw_errno("move a finished folder to", path_, error);
  }
  staging_ = old;
}

void replace_symlink(const fs::path& link, const fs::path& target) {
  fs::path temporary = temporary_for(link);
  if (::symlink(target.c_str(), temporary.c_str()) != 0) throw_errno("create", temporary);
  if (::rename(temporary.c_str(), link.c_str()) != 0) {
    int error = errno;
    ::unlink(temporary.c_str());
    throw_errno("replace the link", link, error);
  }
  sync_directory(parent_of(link));
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("rename", from);
  sync_directory(parent_of(to));
}

void remove_directory_atomic(const fs::path& path) {
  fs::path folder = without_trailing_slash(path);
  fs::path trash = parent_of(folder) / cat(kTrashMark, unique_suffix());
  if (::rename(folder.c_str(), trash.c_str()) != 0) throw_errno("remove", folder);
  std::error_code error;
  fs::remove_all(trash, error);
  if (error) throw_errno("remove", trash, error.value());
}

void remove_stale_temporaries(const fs::path& folder) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(kTrashMark) || name.find(kTemporaryMark) != std::string::npos) {
      stale.push_back(entry.path());
    }
  }
  if (error) throw_errno("list", folder, error.value());
  for (const fs::path& path : stale) {
    fs::remove_all(path, error);
    if (error) throw_errno("remove", path, error.value());
  }
}

void sync_directory(const fs::path& folder) { sync_path(folder, O_DIRECTORY); }

}  // namespace dtn
