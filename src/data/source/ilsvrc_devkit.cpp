#include "data/source/ilsvrc_devkit.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "data/source/mat_file.h"
#include "dtn/core/check.h"
#include "io/cursor.h"
#include "io/file.h"
#include "io/gzip.h"
#include "io/tar.h"

namespace dtn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "ILSVRC2012_devkit_t12";
constexpr const char* kMetaFile = "data/meta.mat";
constexpr const char* kTruth = "data/ILSVRC2012_validation_ground_truth.txt";
constexpr std::int64_t kMaxDevkitBytes = 64 << 20;    // the kit's files have a megabyte at most
constexpr std::int64_t kMaxArchiveBytes = 256 << 20;  // inflated

// ILSVRC2012_ID -> WordNet id, of the synsets without children: the thousand that images belong to.
std::map<int, std::string> leaf_synsets(std::span<const std::byte> meta, const std::string& name) {
  const std::vector<std::string> fields = {"ILSVRC2012_ID", "WNID", "num_children"};
  const std::string file = cat(name, ": ", kMetaFile);
  std::map<int, std::string> leaves;
  for (const auto& synset : parse_mat_structs(meta, file, "synsets", fields)) {
    const std::optional<double> id = synset[0].number, children = synset[2].number;
    const std::string& wnid = synset[1].text;
    if (!id || !children || !(*id >= 1 && *id <= 1e6) || wnid.empty() || wnid.size() > 64 ||
        wnid.find('/') != wnid.npos) {
      throw DataError(cat(file, ": a synset without its ILSVRC2012_ID, WNID or num_children"));
    }
    if (*children != 0) continue;
    if (!leaves.emplace(static_cast<int>(*id), wnid).second) {
      throw DataError(cat(file, ": ILSVRC2012_ID ", *id, " is given to two classes"));
    }
  }
  if (leaves.empty()) throw DataError(cat(file, ": has no synset without children"));
  return leaves;
}

std::vector<int> parse_truth(std::span<const std::byte> truth, const std::string& file) {
  std::vector<int> ids;
  std::string_view rest(reinterpret_cast<const char*>(truth.data()), truth.size());
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    int id = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), id);
    if (error != std::errc() || stop != line.data() + line.size()) {
      throw DataError(cat(file, ": line ", ids.size() + 1, " is not the number of a class"));
    }
    ids.push_back(id);
  }
  return ids;
}

// The two files of the kit's archive, found by the end of their names.
IlsvrcDevkit read_archive(const std::string& path) {
  const std::vector<std::byte> bytes = read_gzip_file(path, kMaxArchiveBytes);
  const MemorySource source(bytes, path);
  TarReader reader(source);
  std::span<const std::byte> meta, truth;
  for (TarMember member; reader.next(member);) {
    const auto content = std::span(bytes).subspan(static_cast<std::size_t>(member.offset),
                                                  static_cast<std::size_t>(member.size));
    if (member.name.ends_with(kMetaFile)) meta = content;
    if (member.name.ends_with(kTruth)) truth = content;
  }
  if (meta.empty() || truth.empty()) {
    throw DataError(cat(path, ": has no ", meta.empty() ? kMetaFile : kTruth,
                        "; is it the development kit of tasks 1 and 2?"));
  }
  return parse_ilsvrc_devkit(meta, truth, path);
}

}  // namespace

IlsvrcDevkit parse_ilsvrc_devkit(std::span<const std::byte> meta, std::span<const std::byte> truth,
                                 const std::string& name) {
  const std::map<int, std::string> leaves = leaf_synsets(meta, name);
  IlsvrcDevkit kit;
  for (const auto& [id, wnid] : leaves) kit.classes.push_back(wnid);
  std::ranges::sort(kit.classes);
  if (std::ranges::adjacent_find(kit.classes) != kit.classes.end()) {
    throw DataError(cat(name, ": ", kMetaFile, ": a WNID is given to two classes"));
  }
  const std::string file = cat(name, ": ", kTruth);
  for (int id : parse_truth(truth, file)) {
    const auto found = leaves.find(id);
    if (found == leaves.end()) {
      throw DataError(
          cat(file, ": line ", kit.val_classes.size() + 1, ": no class has the number ", id));
    }
    const auto at = std::ranges::lower_bound(kit.classes, found->second);
    kit.val_classes.push_back(static_cast<std::int32_t>(at - kit.classes.begin()));
  }
  return kit;
}

IlsvrcDevkit read_ilsvrc_devkit(const fs::path& root) {
  const fs::path folder = root / kFolder;
  const fs::path archive = root / cat(kFolder, ".tar.gz");
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) {
    return parse_ilsvrc_devkit(read_file((folder / kMetaFile).string(), kMaxDevkitBytes),
                               read_file((folder / kTruth).string(), kMaxDevkitBytes),
                               folder.string());
  }
  if (fs::exists(archive, ignored)) return read_archive(archive.string());
  throw DataError(cat("no such file: ", archive.string(), " (or the folder ", folder.string(),
                      "); it knows the classes of the validation images. Download the development "
                      "kit of tasks 1 and 2 from image-net.org (see data/README.md)"));
}

}  // namespace dtn
