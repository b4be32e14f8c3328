// Writes the archives that tests read: tar files, and MAT-files as in ILSVRC's development kit.
#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dtn::test {

// A tar archive, member by member.
class TarFile {
 public:
  using Header = std::array<char, 512>;

  static void set(Header& h, std::size_t at, std::string_view text) {
    std::memcpy(&h[at], text.data(), text.size());
  }
  static void set_checksum(Header& h) {
    set(h, 148, "        ");
    unsigned sum = 0;
    for (char c : h) sum += static_cast<unsigned char>(c);
    std::snprintf(&h[148], 8, "%06o", sum);
  }

  // Any header, with what `change` does to it before (or, when it returns true, after) the checksum
  // is made.
  TarFile& add(const std::string& name, std::string_view content, char type = '0',
               const std::function<void(Header&)>& change = {}) {
    Header h{};
    set(h, 0, std::string_view(name).substr(0, 100));
    set(h, 100, "0000644");
    std::snprintf(&h[124], 12, "%011o", static_cast<unsigned>(content.size()));
    h[156] = type;
    set(h, 257, std::string_view("ustar\00000", 8));
    if (change) change(h);
    set_checksum(h);
    block(std::string_view(h.data(), h.size()));
    block(content);
    return *this;
  }
  static std::string pax(const std::string& key, const std::string& value) {
    const std::size_t rest = key.size() + value.size() + 3;  // " ", "=" and the line break
    std::size_t size = rest + 1;
    while (std::to_string(size).size() + rest != size) ++size;
    return std::to_string(size) + " " + key + "=" + value + "\n";
  }
  // Appends content, padded to whole blocks.
  TarFile& block(std::string_view content) {
    bytes_ += content;
    bytes_.resize((bytes_.size() + 511) / 512 * 512);
    return *this;
  }
  const std::string& without_end() const { return bytes_; }
  std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

// A MAT-file with one array of structures, `synsets`, as meta.mat has it.
struct Synset {
  int id;
  std::string wnid;
  int children;
};

namespace mat {

inline std::string tag(std::uint32_t type, std::string content) {
  const auto size = static_cast<std::uint32_t>(content.size());
  std::string out(8, '\0');
  if (size > 0 && size <= 4) {
    const std::uint32_t both = size << 16 | type;
    std::memcpy(&out[0], &both, 4);
    std::memcpy(&out[4], content.data(), size);
    return out;
  }
  std::memcpy(&out[0], &type, 4);
  std::memcpy(&out[4], &size, 4);
  content.resize((content.size() + 7) / 8 * 8);
  return out + content;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

// The beginning of every array: flags, dimensions, name.
inline std::string array_head(std::uint32_t array_class, int rows, int columns,
                              const std::string& name) {
  return tag(6, raw<std::uint32_t>({array_class, 0})) + tag(5, raw<std::int32_t>({rows, columns})) +
         tag(1, name);
}

// MATLAB stores a number as small as it can.
inline std::string number(int value) {
  const std::string content = value < 256 ? tag(2, raw<std::uint8_t>({std::uint8_t(value)}))
                                          : tag(4, raw<std::uint16_t>({std::uint16_t(value)}));
  return tag(14, array_head(6, 1, 1, "") + content);
}

inline std::string text(const std::string& value) {
  std::string wide;
  for (char c : value) wide += raw<std::uint16_t>({static_cast<std::uint16_t>(c)});
  return tag(14, array_head(4, 1, static_cast<int>(value.size()), "") + tag(4, wide));
}

inline std::string file(const std::string& matrix, bool compressed) {
  std::string out = "MATLAB 5.0 MAT-file, Platform: GLNXA64";
  out.resize(124, ' ');
  out += std::string("\0\1IM", 4);
  if (!compressed) return out + matrix;
  uLongf size = compressBound(matrix.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(matrix.data()), matrix.size());
  packed.resize(size);
  return out + raw<std::uint32_t>({15, static_cast<std::uint32_t>(size)}) + packed;
}

inline std::string synsets(const std::vector<Synset>& all, bool compressed = true,
                           const std::string& variable = "synsets") {
  constexpr std::size_t kWidth = 32;
  std::string names;
  for (const char* field : {"ILSVRC2012_ID", "WNID", "words", "gloss", "num_children"}) {
    std::string name = field;
    name.resize(kWidth);
    names += name;
  }
  std::string content = array_head(2, static_cast<int>(all.size()), 1, variable) +
                        tag(5, raw<std::int32_t>({kWidth})) + tag(1, names);
  for (const Synset& s : all) {
    content += number(s.id) + text(s.wnid) + text("some words") + tag(14, "") + number(s.children);
  }
  return file(tag(14, content), compressed);
}

}  // namespace mat
}  // namespace dtn::test
