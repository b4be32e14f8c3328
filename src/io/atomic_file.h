// Atomic writes of files and folders: after a crash of the process or the machine, the new content
// is there either whole or not at all. Content is written under a temporary name beside the final
// one, synced and renamed; then the parent folder is synced. All functions throw Error with the
// path and the system's reason, and then remove the temporary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dtn {

// Writes one file. Without commit(), the new content is discarded and an older file is kept.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Overwrites bytes that are already written. The next write() still appends at the end.
  void rewrite(std::uint64_t offset, std::string_view text);
  // Waits for the disk now, so that commit() need not wait.
  void sync();
  void commit();
  // Commits without waiting for the disk. After a kill, the file is whole or absent, as with
  // commit(). After a power failure, it may exist and be empty. For millions of files that can be
  // rewritten.
  void commit_unsynced();

 private:
  int open_file() const;  // throws Error after commit()

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
};

void write_file_atomic(const std::filesystem::path& path, std::string_view content);

// Writes a folder. Fill staging(), then call commit(): it syncs all content and renames the folder.
// An existing folder of that name is exchanged for the new one in one step, then deleted. On file
// systems without RENAME_EXCHANGE, the exchange takes two steps.
class AtomicDirectory {
 public:
  explicit AtomicDirectory(const std::filesystem::path& path);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  void commit();

 private:
  void replace_by_two_renames();

  std::filesystem::path path_;
  std::filesystem::path staging_;
};

// Points the symbolic link `link` at `target`, and replaces an older link in one step. `target` is
// stored as given, so it is usually relative.
void replace_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

// Renames a file or a folder within its folder, durably. No folder may already have the new name.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

// Deletes a folder. It loses its name in one step, before its content is deleted.
void remove_directory_atomic(const std::filesystem::path& path);

// Deletes temporaries of the functions above that a killed process left in `folder`. Nothing else
// may be writing there.
void remove_stale_temporaries(const std::filesystem::path& folder);

// Syncs the entries of `folder` to disk.
void sync_directory(const std::filesystem::path& folder);

}  // namespace dtn
